"""One ALU slot of one lane: three layers over operands of eight 4-bit digits.

Layer 1 (in stage.py) selects the operands. Layer 2 here compares bytes, generates carries, unpacks bits. Layer 3
resolves carries and adds the enabled operation's result into the slot's value. At most one operation is enabled.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from toolchain.circuit_ir.builder import (
    CircuitBuilder,
    Form,
    LogicBuilder,
    match,
    staircase_bits,
    total,
    weighted,
)
from toolchain.circuit_ir.ir import Affine, Wire, affine
from toolchain.circuit_ir.machine.front import NIBBLE
from toolchain.machine_spec import WORD_BITS

NIBBLES = WORD_BITS // NIBBLE
BYTES = NIBBLES // 2
FAR = 512
"""Pushes a byte threshold's gate (at most 511) below zero."""

Digits = Sequence[Form]


@dataclass(frozen=True)
class Adder:
    """Layer-2 wires of an addition or subtraction, by byte: carry out of the byte and of its low digit.

    `carry0`: without carry in, `carry1`: with carry in; `low0`, `low1` likewise for the low digit.
    """

    carry0: list[Wire]
    carry1: list[Wire]
    low0: list[Wire]
    low1: list[Wire]


def new_adder(builder: CircuitBuilder, name: str, count: int) -> Adder:
    """Wires for the carries of `count` bytes."""
    groups = [builder.wires(f"{name}.{part}.", count) for part in ("carry0", "carry1", "low0", "low1")]
    return Adder(*groups)


def add_carries(logic: LogicBuilder, adder: Adder, sums: Digits, active: Form) -> None:
    """carry0 += [sum >= 256], carry1 += [sum >= 255], low0 += [low digit >= 16], low1 += [low digit >= 15]."""
    off = FAR * (affine(active) - 1)
    for byte in range(len(adder.carry0)):
        low, both = affine(sums[2 * byte]), weighted(sums[2 * byte : 2 * byte + 2], 16)
        logic.step(both - 256 + off, {adder.carry0[byte]: 1})
        logic.step(both - 255 + off, {adder.carry1[byte]: 1})
        logic.step(low - 16 + off, {adder.low0[byte]: 1})
        logic.step(low - 15 + off, {adder.low1[byte]: 1})


def carry_count(adder: Adder, byte: int) -> Affine:
    """X: the carry into `byte` is [X + carry in >= 2**byte]; digits 0 kill, 1 propagate, 2 generate."""
    pairs = zip(adder.carry0[:byte], adder.carry1[:byte], strict=True)
    return total((affine(zero) + one) * float(2**index) for index, (zero, one) in enumerate(pairs))


def resolve_sum(
    logic: LogicBuilder,
    adder: Adder,
    byte: int,
    sums: Sequence[tuple[Digits, Form]],
    carry_in: Form,
    active: Form,
    outputs: Sequence[Wire],
) -> None:
    """The two digits of a byte of the sum, where `active`: low + c - 16 [low + c >= 16], high + ... alike.

    `sums` are alternative pairs of digit sums and the line that picks each. outputs are the byte's low and high
    digit. Gates: the carry's threshold is at most 2**(byte + 1) in size.
    """
    low, high = outputs
    zero, one = adder.carry0[byte], adder.carry1[byte]
    low0, low1 = adder.low0[byte], adder.low1[byte]
    for digits, line in sums:
        for digit, output in zip(digits, outputs, strict=True):
            logic.relu(affine(digit) + 31 * (affine(line) - 1), {output: 1})
    logic.relu(affine(low0) + active - 1, {low: -16, high: 1})
    logic.relu(affine(zero) + active - 1, {high: -16})
    carry = carry_count(adder, byte) + carry_in - 2**byte + FAR * (affine(active) - 1)
    logic.step(carry, {low: 1})
    logic.step(carry, {low: -16, high: 1}, up=affine(low1) - low0)
    logic.step(carry, {high: -16}, up=affine(one) - zero)


@dataclass(frozen=True)
class SlotLines:
    """Control lines of a slot (see isa.ADDER_LINES) and its selected predicate."""

    lines: dict[str, Wire]
    predicate: Wire

    def __getitem__(self, name: str) -> Wire:
        return self.lines[name]


@dataclass(frozen=True)
class Compared:
    """Layer-2 wires of one lane of a slot: the adder's carries, and the operands' signs."""

    adder: Adder
    sign_a: Wire
    sign_b: Wire


def compare_layer(
    builder: CircuitBuilder, logic: LogicBuilder, name: str, a: Digits, b: Digits, sub: Form
) -> Compared:
    """Layer 2. Where `sub`, the carries are those of a + ~b: carry0 of a byte is [a > b], carry1 [a >= b]."""
    adder = new_adder(builder, name, BYTES)
    add_carries(logic, adder, [affine(p) + q for p, q in zip(a, b, strict=True)], 1 - affine(sub))
    add_carries(logic, adder, [affine(p) + 15 - q for p, q in zip(a, b, strict=True)], sub)
    signs = [builder.wire(f"{name}.sign{operand}") for operand in "ab"]
    for sign, digits in zip(signs, (a, b), strict=True):
        logic.step(affine(digits[-1]) - 8, {sign: 1})
    return Compared(adder, *signs)


def sum_layer(
    logic: LogicBuilder, compared: Compared, a: Digits, b: Digits, lines: SlotLines, result: Sequence[Wire]
) -> None:
    """Layer 3: result += a + b (line sum without sub) or a - b (with sub)."""
    active, sub = lines["sum"], lines["sub"]
    for byte in range(BYTES):
        digits = range(2 * byte, 2 * byte + 2)
        plus = [affine(a[i]) + b[i] for i in digits], affine(active) - sub
        minus = [affine(a[i]) + 15 - b[i] for i in digits], affine(active) + sub - 1
        resolve_sum(logic, compared.adder, byte, (plus, minus), sub, active, [result[i] for i in digits])


def _greater(compared: Compared) -> Affine:
    """[a >= b], unsigned, is [this >= 0]; within -15..16, so that its product with a digit difference is exact."""
    return carry_count(compared.adder, BYTES) + 1 - 2**BYTES


def _gated(form: Affine, line: Form) -> Affine:
    """`form` where `line`, else below zero."""
    return form + 2 ** (BYTES + 1) * (affine(line) - 1)


def compare_results(logic: LogicBuilder, compared: Compared, lines: SlotLines, flag: Wire) -> None:
    """Layer 3: flag += the enabled comparison (`sub` is on). Signed, [a >= b] is unsigned plus sign_b - sign_a."""
    greater = _greater(compared)
    signs = affine(compared.sign_b) - compared.sign_a
    differ = total(
        affine(one) - zero for zero, one in zip(compared.adder.carry0, compared.adder.carry1, strict=True)
    )
    logic.relu(differ - BYTES + lines["eq"], {flag: 1})
    logic.relu(lines["ne"], {flag: 1})
    logic.relu(differ - BYTES + lines["ne"], {flag: -1})
    for name, weight in (("geu", 1.0), ("ges", 1.0), ("ltu", -1.0), ("lts", -1.0)):
        logic.step(_gated(greater, lines[name]), {flag: weight})
        if weight < 0:
            logic.relu(lines[name], {flag: 1})
        if name.endswith("s"):
            logic.relu(signs + lines[name] - 1, {flag: weight})
            logic.relu(lines[name] - signs - 1, {flag: -weight})


def extreme_layer(
    logic: LogicBuilder, compared: Compared, a: Digits, b: Digits, lines: SlotLines, result: Sequence[Wire]
) -> None:
    """Layer 3 of slot z: max = b + [a >= b] (a - b), min = a - [a >= b] (a - b); line `order` makes it signed."""
    signs = affine(compared.sign_b) - compared.sign_a
    for name, base, weight in (("max", b, 1.0), ("min", a, -1.0)):
        signed = affine(lines[name]) + lines["order"] - 2
        for index, wire in enumerate(result):
            difference = affine(a[index]) - b[index]
            logic.relu(affine(base[index]) + 16 * (affine(lines[name]) - 1), {wire: 1})
            logic.step(_gated(_greater(compared), lines[name]), {wire: weight}, up=difference)
            logic.relu(signed + signs, {wire: weight}, up=difference)
            logic.relu(signed - signs, {wire: -weight}, up=difference)


def select_layer(logic: LogicBuilder, a: Digits, b: Digits, lines: SlotLines, result: Sequence[Wire]) -> None:
    """Layer 3: result += predicate ? a : b where line sel."""
    for index, wire in enumerate(result):
        logic.relu(affine(lines["sel"]) + lines.predicate - 1, {wire: 1}, up=a[index])
        logic.relu(affine(lines["sel"]) - lines.predicate, {wire: 1}, up=b[index])


def unpack_layer(builder: CircuitBuilder, logic: LogicBuilder, name: str, digits: Digits) -> list[Wire]:
    """Layer 2: the 32 bits of eight digits, by thresholds (30 hidden units a digit)."""
    bits = builder.wires(name, WORD_BITS)
    for index, digit in enumerate(digits):
        group = {j: bits[NIBBLE * index + j] for j in range(NIBBLE)}
        staircase_bits(logic, digit, group, 15)
    return bits


def bit_layer(
    logic: LogicBuilder,
    a: list[Wire],
    b: list[Wire],
    lines: SlotLines,
    table: Sequence[Wire],
    result: Sequence[Wire],
) -> None:
    """Layer 3 of slot y: lop, shifts, popc, clz, brev on unpacked bits."""
    _lop(logic, a, b, table, result)
    _shifts(logic, a, b, lines, result)
    _counts(logic, a, lines, result)
    for index, wire in enumerate(result):
        mirrored = [a[WORD_BITS - 1 - NIBBLE * index - i] for i in range(NIBBLE)]
        logic.relu(lines["brev"], {wire: 1}, up=weighted(mirrored))


def warp_layer(
    logic: LogicBuilder,
    a: Sequence[Digits],
    b: list[Wire],
    ballot: Wire,
    lines: SlotLines,
    result: Sequence[Wire],
) -> None:
    """Layer 3 of slot y: shfl selects the a of lane b, `a` being every lane's; ballot is a digit of votes."""
    lane_bits = b[: len(a).bit_length() - 1]
    for lane, digits in enumerate(a):
        gate = match(lane_bits, lane) + lines["shfl"]
        for wire, digit in zip(result, digits, strict=True):
            logic.relu(gate, {wire: 1}, up=digit)
    logic.relu(lines["ballot"], {result[0]: 1}, up=ballot)


def _lop(
    logic: LogicBuilder, a: list[Wire], b: list[Wire], table: Sequence[Wire], result: Sequence[Wire]
) -> None:
    """Each bit is the sum of its four minterms, each AND its bit of the truth table."""
    for position in range(WORD_BITS):
        digit, weight = result[position // NIBBLE], float(2 ** (position % NIBBLE))
        for minterm in range(4):
            gate = match([b[position], a[position]], minterm) + table[minterm]
            logic.relu(gate, {digit: weight})


def _digit_from(bits: list[Wire], first: int) -> Affine:
    """Bits first .. first + 3 as a digit; places outside the word are zero."""
    inside = [(i, bits[first + i]) for i in range(NIBBLE) if 0 <= first + i < WORD_BITS]
    return total(affine(bit) * float(2**i) for i, bit in inside)


def _shifts(
    logic: LogicBuilder, a: list[Wire], b: list[Wire], lines: SlotLines, result: Sequence[Wire]
) -> None:
    """For each amount below 32, every result digit is a linear form of a's bits; larger amounts leave the fill."""
    large, sign = total(b[5:]), a[WORD_BITS - 1]
    for amount in range(WORD_BITS):
        here = match(b[:5], amount) - large
        for index, wire in enumerate(result):
            first = NIBBLE * index
            for line, source in (("shl", first - amount), ("shr", first + amount)):
                digit = _digit_from(a, source)
                if digit.terms:
                    logic.relu(here + lines[line], {wire: 1}, up=digit)
            filled = sum(2**i for i in range(NIBBLE) if first + i + amount >= WORD_BITS)
            if filled:
                logic.relu(here + lines["sarfill"], {wire: filled}, up=affine(sign))
    for wire in result:
        logic.step(large - 1 + WORD_BITS * (affine(lines["sarfill"]) - 1), {wire: 15}, up=affine(sign))


def _counts(logic: LogicBuilder, a: list[Wire], lines: SlotLines, result: Sequence[Wire]) -> None:
    """popc: the sum of the bits. clz: 32 - n, n the number of k with a >= 2**k. Both as two digits."""
    low, high = result[0], result[1]
    off = 2 * WORD_BITS
    bits, active = total(a), off * (affine(lines["popc"]) - 1)
    logic.relu(bits + active, {low: 1})
    for threshold in (16, 32):
        logic.step(bits - threshold + active, {low: -16, high: 1})
    # clz = 32 - n: its high digit is 2 - [n >= 1] - [n >= 17], and the low digit is what is left.
    logic.relu(lines["clz"], {high: 2})
    for k in range(WORD_BITS):
        outputs = {low: -1.0}
        if k in (0, 16):
            outputs = {low: 15.0, high: -1.0}
        logic.step(total(a[k:]) - 1 + off * (affine(lines["clz"]) - 1), outputs)
