"""The machine's parts as small circuits of their own, against plain Python arithmetic."""

import random
from collections.abc import Callable, Sequence
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.random_rom import EDGES
from toolchain.circuit_ir.builder import CircuitBuilder, LogicBuilder, match, select, staircase_bits, weighted
from toolchain.circuit_ir.evaluator import CheckedEvaluator, RangeError, logical_evaluator
from toolchain.circuit_ir.ir import Wire, affine
from toolchain.circuit_ir.machine import alu
from toolchain.circuit_ir.machine.context import age_thresholds, lane_ranks, latch
from toolchain.circuit_ir.machine.multiplier import Multiplier
from toolchain.circuit_ir.machine.stage import add_address, select_address
from toolchain.circuit_ir.verifier import verify_circuit
from toolchain.machine_spec import NANO
from toolchain.mir.encoding import stage_fields
from toolchain.mir.isa import ADDER_LINES, BIT_LINES, EXTREME_LINES, Op
from toolchain.mir.rom import AluOp, Stage

MASK = 0xFFFFFFFF
words = st.one_of(st.sampled_from(EDGES), st.integers(0, MASK))


class Part:
    """A circuit under construction, and then its evaluator: numbers in, numbers out, a digit or bit a wire."""

    def __init__(self) -> None:
        self.builder = CircuitBuilder("part")
        self.inputs: dict[str, list[Wire]] = {}
        self.outputs: dict[str, list[Wire]] = {}
        self._evaluator: CheckedEvaluator | None = None

    def input(self, name: str, count: int, base: int = 2) -> list[Wire]:
        """A number of `count` digits of `base`."""
        self.inputs[name] = self.builder.wires(f"in.{name}.", count, high=base - 1)
        return self.inputs[name]

    def output(self, name: str, wires: Sequence[Wire]) -> None:
        self.outputs[name] = list(wires)

    def logic(self, fill: Callable[[LogicBuilder], None]) -> None:
        logic = LogicBuilder(f"logic{len(self.builder.operations)}")
        fill(logic)
        self.builder.add(logic)

    def run(self, **numbers: int) -> dict[str, int]:
        """One token. Wires that leave their range raise RangeError."""
        if self._evaluator is None:
            wires = [wire for group in self.outputs.values() for wire in group]
            circuit = self.builder.circuit([w for group in self.inputs.values() for w in group], wires)
            verify_circuit(circuit, NANO)
            self._evaluator = logical_evaluator(circuit)
        values: dict[Wire, int] = {}
        for name, number in numbers.items():
            for wire in self.inputs[name]:
                number, values[wire] = divmod(number, wire.high + 1)
            assert number == 0, name
        bits = iter(self._evaluator.run(values))
        return {
            name: sum(next(bits) * (wire.high + 1) ** index for index, wire in enumerate(group))
            for name, group in self.outputs.items()
        }


def signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


# --- Builder


@pytest.mark.parametrize("top", [15, 30])
def test_staircase(top: int) -> None:
    part = Part()
    (value,) = part.input("value", 1, base=top + 1)
    bits = part.builder.wires("bit", 5)
    part.logic(lambda logic: staircase_bits(logic, affine(value), dict(enumerate(bits)), top))
    part.output("bits", bits)
    for number in range(top + 1):
        assert part.run(value=number) == {"bits": number}


def test_match_is_an_and_of_literals() -> None:
    bits = [Wire(f"b{i}") for i in range(4)]
    for value in range(16):
        form = match(bits, value)
        for other in range(16):
            found = form.constant + sum(
                factor * (other >> int(wire.name[1:]) & 1) for wire, factor in form.terms
            )
            assert found == -(value ^ other).bit_count()


def test_select() -> None:
    part = Part()
    code, sources = part.input("code", 3), [part.input(f"s{i}", 2, base=16) for i in range(5)]
    result = part.builder.wires("out", 2, high=15)

    def fill(logic: LogicBuilder) -> None:
        for index, source in enumerate(sources):
            select(logic, code, index + 1, source, result)

    part.logic(fill)
    part.output("out", result)
    values = {f"s{i}": 37 * i + 19 for i in range(5)}
    for number in range(8):
        assert part.run(code=number, **values) == {"out": values.get(f"s{number - 1}", 0)}


def test_a_wire_out_of_its_range_is_an_error() -> None:
    part = Part()
    (value,) = part.input("value", 1, base=16)
    small = part.builder.wire("small", high=7)
    part.logic(lambda logic: logic.relu(value, {small: 1}))
    part.output("small", [small])
    assert part.run(value=7) == {"small": 7}
    with pytest.raises(RangeError, match=r"%small is 8, outside 0..7"):
        part.run(value=8)


# --- ALU


@cache
def slot_part(slot: str) -> Part:
    """One lane of an ALU slot without its loads."""
    part = Part()
    a, b = part.input("a", 8, base=16), part.input("b", 8, base=16)
    names = (*ADDER_LINES, *(EXTREME_LINES if slot == "z" else ()), *(BIT_LINES if slot == "y" else ()))
    wires = {name: part.input(name, 1)[0] for name in names}
    table, predicate = part.input("table", 4), part.input("q", 1)[0]
    result, flag = part.builder.wires("result", 8, high=15), part.builder.wire("flag")
    lines = alu.SlotLines(wires, predicate)
    second = LogicBuilder("second")
    compared = alu.compare_layer(part.builder, second, "c", a, b, wires["sub"])
    unpacked = [alu.unpack_layer(part.builder, second, f"{n}bit", d) for n, d in (("a", a), ("b", b))]
    part.builder.add(second)
    third = LogicBuilder("third")
    alu.sum_layer(third, compared, a, b, lines, result)
    alu.compare_results(third, compared, lines, flag)
    alu.select_layer(third, a, b, lines, result)
    if slot == "z":
        alu.extreme_layer(third, compared, a, b, lines, result)
    if slot == "y":
        alu.bit_layer(third, unpacked[0], unpacked[1], lines, table, result)
    part.builder.add(third)
    part.output("value", result)
    part.output("flag", [flag])
    return part


def control(slot: str, op: Op, table: int = 0) -> dict[str, int]:
    """Control lines that the ROM sets for an operation."""
    item = AluOp(op, table=table)
    fields = stage_fields(NANO, 0, Stage(y=item) if slot == "y" else Stage(z=item), {})
    return {name.removeprefix(f"{slot}."): value for name, value in fields.items()}


COMPARED: dict[Op, Callable[[int, int], bool]] = {
    Op.SET_EQ: lambda a, b: a == b,
    Op.SET_NE: lambda a, b: a != b,
    Op.SET_LT_U: lambda a, b: a < b,
    Op.SET_GE_U: lambda a, b: a >= b,
    Op.SET_LT_S: lambda a, b: signed(a) < signed(b),
    Op.SET_GE_S: lambda a, b: signed(a) >= signed(b),
}
COMPUTED: dict[Op, Callable[[int, int], int]] = {
    Op.ADD: lambda a, b: a + b,
    Op.SUB: lambda a, b: a - b,
    Op.MIN_U: min,
    Op.MAX_U: max,
    Op.MIN_S: lambda a, b: min(a, b, key=signed),
    Op.MAX_S: lambda a, b: max(a, b, key=signed),
    Op.SHL: lambda a, b: a << b if b < 32 else 0,
    Op.SHR_U: lambda a, b: a >> b if b < 32 else 0,
    Op.SHR_S: lambda a, b: signed(a) >> min(b, 31),
    Op.POPC: lambda a, b: a.bit_count(),
    Op.CLZ: lambda a, b: 32 - a.bit_length(),
    Op.BREV: lambda a, b: int(f"{a:032b}"[::-1], 2),
}
BITS = (Op.SHL, Op.SHR_U, Op.SHR_S, Op.POPC, Op.CLZ, Op.BREV)
EXTREMES = (Op.MIN_U, Op.MAX_U, Op.MIN_S, Op.MAX_S)
near = st.integers(-2, 2)


@pytest.mark.parametrize("op", COMPARED)
@settings(max_examples=60, deadline=None)
@given(words, words, near, st.booleans())
def test_comparisons(op: Op, a: int, b: int, distance: int, close: bool) -> None:
    b = (a + distance) & MASK if close else b
    assert slot_part("z").run(a=a, b=b, **control("z", op)) == {"value": 0, "flag": int(COMPARED[op](a, b))}


@pytest.mark.parametrize("op", [op for op in COMPUTED if op not in BITS])
@settings(max_examples=60, deadline=None)
@given(words, words, near, st.booleans())
def test_sums_and_extremes(op: Op, a: int, b: int, distance: int, close: bool) -> None:
    b = (a + distance) & MASK if close else b
    found = slot_part("z").run(a=a, b=b, **control("z", op))
    assert found == {"value": COMPUTED[op](a, b) & MASK, "flag": 0}


def test_every_carry_of_a_byte() -> None:
    """Both digits of two bytes, exhaustively in the lower, at the edges in the upper."""
    part = slot_part("z")
    for low_a in range(0, 256, 5):
        for low_b in range(256):
            a, b = low_a | 0xFF00, low_b | 0x0100
            assert part.run(a=a, b=b, **control("z", Op.ADD))["value"] == a + b


@pytest.mark.parametrize("op", BITS)
@settings(max_examples=40, deadline=None)
@given(words, st.one_of(st.integers(0, 40), words))
def test_bit_operations(op: Op, a: int, b: int) -> None:
    found = slot_part("y").run(a=a, b=b, **control("y", op))
    assert found == {"value": COMPUTED[op](a, b) & MASK, "flag": 0}


@pytest.mark.parametrize("op", [Op.POPC, Op.CLZ, Op.BREV])
def test_counts_of_every_length(op: Op) -> None:
    for length in range(33):
        a = (1 << length) - 1
        assert slot_part("y").run(a=a, **control("y", op))["value"] == COMPUTED[op](a, 0)
        assert slot_part("y").run(a=MASK - a, **control("y", op))["value"] == COMPUTED[op](MASK - a, 0)


def test_shifts_by_every_amount() -> None:
    for op in (Op.SHL, Op.SHR_U, Op.SHR_S):
        for amount in (*range(34), 63, 64, 0x80000000):
            for a in (0x80000001, 0x7FFFFFFF, 0xDEADBEEF):
                found = slot_part("y").run(a=a, b=amount, **control("y", op))
                assert found["value"] == COMPUTED[op](a, amount) & MASK


@pytest.mark.parametrize("table", range(1, 16))
def test_logic_tables(table: int) -> None:
    a, b = 0x0F0F3355, 0xFF00A5C3
    expected = sum((table >> (2 * (a >> i & 1) + (b >> i & 1)) & 1) << i for i in range(32))
    assert slot_part("y").run(a=a, b=b, **control("y", Op.LOP, table))["value"] == expected


@given(words, words, st.booleans())
@settings(max_examples=40, deadline=None)
def test_selection(a: int, b: int, predicate: bool) -> None:
    found = slot_part("z").run(a=a, b=b, sel=1, q=int(predicate))
    assert found == {"value": a if predicate else b, "flag": 0}


def test_a_slot_without_an_operation_is_zero() -> None:
    for slot in "yz":
        assert slot_part(slot).run(a=MASK, b=0x12345678, q=1) == {"value": 0, "flag": 0}


# --- Multiplier


@cache
def multiplier_part() -> Part:
    part = Part()
    a, b = part.input("a", 8, base=16), part.input("b", 8, base=16)
    active, high, is_signed = (part.input(name, 1)[0] for name in ("active", "high", "signed"))
    unit, result = Multiplier(part.builder, "m"), part.builder.wires("result", 8, high=15)
    part.logic(lambda logic: unit.products(logic, a, b, is_signed))
    for layer in (unit.split_by_64, unit.split_by_32, unit.split_by_16, unit.carries):
        part.logic(layer)
    part.logic(lambda logic: unit.resolve(logic, active, high, result))
    part.output("product", result)
    return part


@given(words, words)
@settings(max_examples=100, deadline=None)
def test_products(a: int, b: int) -> None:
    part = multiplier_part()
    assert part.run(a=a, b=b, active=1) == {"product": a * b & MASK}
    assert part.run(a=a, b=b, active=1, high=1) == {"product": a * b >> 32}
    assert part.run(a=a, b=b, active=1, high=1, signed=1) == {"product": signed(a) * signed(b) >> 32 & MASK}
    assert part.run(a=a, b=b) == {"product": 0}


def test_products_of_edges() -> None:
    for a in EDGES:
        for b in EDGES:
            found = multiplier_part().run(a=a, b=b, active=1, high=1, signed=1)
            assert found == {"product": signed(a) * signed(b) >> 32 & MASK}


# --- Addresses


@pytest.mark.parametrize("bits", [5, 6, 7])
def test_address_sums(bits: int) -> None:
    part = Part()
    size = 1 << bits
    low, word = part.input("low", 1, base=16)[0], part.input("word", 1, base=size)[0]
    offset_low, offset = part.input("olow", 1, base=16)[0], part.input("offset", 1, base=size)[0]
    row = part.builder.wires("row", bits)
    part.logic(lambda logic: add_address(logic, (low, word), (offset_low, offset), row))
    part.output("row", row)
    for address in range(0, size, 1 if bits < 7 else 3):
        for shift in range(0, size, 1 if bits < 7 else 5):
            found = part.run(low=address % 16, word=address, olow=shift % 16, offset=shift)
            assert found == {"row": (address + shift) % size}


@pytest.mark.parametrize("bits", [5, 6, 7])
def test_address_selection(bits: int) -> None:
    """The chosen source's low digit and its value modulo the memory's size; other digits do not count."""
    part = Part()
    code, first, second = part.input("code", 2), part.input("x", 8, base=16), part.input("y", 8, base=16)
    chosen: list[Wire] = []
    part.logic(
        lambda logic: chosen.extend(
            select_address(
                part.builder, logic, "address", code, [(1, first), (2, second), (3, first[:1])], bits
            )
        )
    )
    part.output("low", chosen[:1])
    part.output("word", chosen[1:])
    for value in range(256):
        x, y = value | 0xABCDEF00, MASK - value
        assert part.run(code=1, x=x, y=y) == {"low": x % 16, "word": x % (1 << bits)}
        assert part.run(code=2, x=x, y=y) == {"low": y % 16, "word": y % (1 << bits)}
        assert part.run(code=3, x=x, y=y) == {"low": x % 16, "word": x % 16}
        assert part.run(code=0, x=x, y=y) == {"low": 0, "word": 0}


# --- Lanes and state


def test_ranks() -> None:
    part = Part()
    lanes = part.input("mask", 4)
    ranks = lane_ranks(part.builder, "rank", lanes)
    for (k, lane), wire in ranks.items():
        part.output(f"{k}.{lane}", [wire])
    for mask in range(16):
        active = [lane for lane in range(4) if mask >> lane & 1]
        found = part.run(mask=mask)
        assert {name for name, value in found.items() if value} == {
            f"{k}.{lane}" for k, lane in enumerate(active)
        }


def test_latch_keeps_the_last_enabled_value() -> None:
    part = Part()
    data, enable = part.input("data", 6), part.input("enable", 2)
    kept = part.builder.wires("kept", 6)
    latch(part.builder, "latch", [affine(bit) for bit in enable], [affine(bit) for bit in data], kept)
    part.output("kept", kept)
    rng, held = random.Random(3), 0
    for _ in range(200):
        number, mask = rng.randrange(64), rng.randrange(4)
        held = number if mask == 3 else held
        assert part.run(data=number, enable=mask) == {"kept": held}


@pytest.mark.parametrize("often", [0.0, 0.5, 1.0])
def test_ages(often: float) -> None:
    """over[n] is [more than n tokens since the event], those with `twice` counted twice; all pass before any event."""
    part, rng = Part(), random.Random(11)
    event, twice = part.input("event", 1)[0], part.input("twice", 1)[0]
    points = [0, 1, 2, 5, 30, 47]
    over = age_thresholds(part.builder, "since", affine(event), points, affine(twice))
    for point in points:
        part.output(str(point), [over[point]])
    age: int | None = None
    for token in range(160):
        happens = token in (7, 10, 11, 100)
        double = rng.random() < often
        age = 0 if happens else age + 1 + double if age is not None else None
        expected = {str(n): int(age is None or not 0 < age <= n) for n in points}
        assert part.run(event=int(happens), twice=int(double)) == expected, f"age {age}"


def test_weighted_digits() -> None:
    digits = [Wire(f"d{i}", high=15) for i in range(3)]
    assert weighted(digits, 16) == affine(digits[0]) + 16 * affine(digits[1]) + 256 * affine(digits[2])
