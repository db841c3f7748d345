"""What each PTX integer instruction computes, as pure functions on Python integers.

`operation(opcode, modifiers)` gives an Operation: the types its sources are read as, the type its result is
written as, and a function of the source values. Sources arrive as the integers their types say (negative for
.s types); the caller keeps the low bits of the result. Section names are those of the PTX ISA.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from toolchain.ptx_frontend.ast import TYPE_BITS

Function = Callable[..., int]

INTEGER_TYPES = frozenset(f"{kind}{bits}" for kind in "bsu" for bits in (8, 16, 32, 64))


@dataclass(frozen=True)
class Operation:
    """`evaluate(*sources) -> result`; `second` computes the other result of a `p|q` destination.

    `carry` gives what `.cc` forms leave in the condition code CC.CF; where `takes_carry`, the functions take
    CC.CF after the sources.
    """

    result: str
    sources: tuple[str, ...]
    evaluate: Function
    second: Function | None = None
    carry: Function | None = None
    takes_carry: bool = False


def wrap(value: int, type_name: str) -> int:
    """The value that the low bits of `value` mean in a type: signed for .s types, else unsigned."""
    bits = TYPE_BITS[type_name]
    value &= (1 << bits) - 1
    return value - (1 << bits) if type_name[0] == "s" and value >> (bits - 1) else value


def type_of(modifiers: tuple[str, ...]) -> str:
    """The last type among the modifiers; empty if there is none."""
    return next((word for word in reversed(modifiers) if word in TYPE_BITS), "")


def unsigned(type_name: str) -> str:
    """The unsigned type of the same width."""
    return f"u{TYPE_BITS[type_name]}"


@cache
def operation(opcode: str, modifiers: tuple[str, ...]) -> Operation | None:
    """The Operation of an arithmetic instruction, or None where it is not one this toolchain evaluates."""
    builder = BUILDERS.get(opcode)
    kind = type_of(modifiers)
    if builder is None or any(
        word in TYPE_BITS and word not in INTEGER_TYPES | {"pred"} for word in modifiers
    ):
        return None
    return builder(modifiers, kind) if kind else None


def _binary(function: Function) -> "Builder":
    return lambda modifiers, kind: Operation(kind, (kind, kind), function) if len(modifiers) == 1 else None


def _unary(function: Function, result: str = "") -> "Builder":
    return lambda modifiers, kind: (
        Operation(result or kind, (kind,), function) if len(modifiers) == 1 else None
    )


# Integer arithmetic.


def saturate(value: int, type_name: str) -> int:
    """`value`, brought into the range of a type."""
    bits, signed = TYPE_BITS[type_name], type_name[0] == "s"
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return max(low, min(high, value))


def _saturating(function: Function) -> "Builder":
    """add and sub; `.sat` clamps s32 results."""
    with_carry = _carrying(function, takes_carry=False)

    def build(modifiers: tuple[str, ...], kind: str) -> Operation | None:
        if modifiers == ("sat", "s32"):
            return Operation(kind, (kind, kind), lambda a, b: saturate(function(a, b), kind))
        if modifiers[0] == "cc":
            return with_carry(modifiers, kind)
        return Operation(kind, (kind, kind), function) if len(modifiers) == 1 else None

    return build


def _carrying(function: Function, *, takes_carry: bool) -> "Builder":
    """add.cc, sub.cc, addc[.cc], subc[.cc] (PTX ISA, "Extended-Precision Integer Arithmetic").

    Over unsigned sources a sum past the width, or a difference below zero, is the carry or the borrow.
    """

    def build(modifiers: tuple[str, ...], kind: str) -> Operation | None:
        if modifiers not in (("cc", kind), (kind,)) or TYPE_BITS[kind] < 32:
            return None
        bits, source = TYPE_BITS[kind], unsigned(kind)
        carry = (lambda *values: function(*values) >> bits & 1) if modifiers[0] == "cc" else None
        return Operation(kind, (source, source), function, carry=carry, takes_carry=takes_carry)

    return build


def _halves(kind: str, part: str) -> tuple[str, int] | None:
    """The result type of a multiplication, and by how much its product is shifted down."""
    bits = TYPE_BITS[kind]
    if part == "wide" and bits < 64:
        return f"{kind[0]}{2 * bits}", 0
    return {"lo": (kind, 0), "hi": (kind, bits)}.get(part)


def _mul(modifiers: tuple[str, ...], kind: str) -> Operation | None:
    half = _halves(kind, modifiers[0])
    if half is None or len(modifiers) != 2:
        return None
    result, shift = half
    return Operation(result, (kind, kind), lambda a, b: (a * b) >> shift)


def _mad(modifiers: tuple[str, ...], kind: str) -> Operation | None:
    half = _halves(kind, modifiers[0])
    if modifiers[1:2] == ("cc",):
        return _mad_with_carry(modifiers, kind, takes_carry=False)
    if half is None or modifiers[1:] not in ((kind,), ("sat", kind)):
        return None
    result, shift = half
    if "sat" in modifiers:
        if modifiers != ("hi", "sat", "s32"):
            return None
        return Operation(result, (kind,) * 3, lambda a, b, c: saturate(((a * b) >> shift) + c, kind))
    return Operation(result, (kind, kind, result), lambda a, b, c: ((a * b) >> shift) + c)


def _madc(modifiers: tuple[str, ...], kind: str) -> Operation | None:
    return _mad_with_carry(modifiers, kind, takes_carry=True)


def _mad_with_carry(modifiers: tuple[str, ...], kind: str, *, takes_carry: bool) -> Operation | None:
    """mad.{lo,hi}.cc, madc.{lo,hi}[.cc]: the carry is that of adding c to the half product."""
    part, *rest = modifiers
    if part not in ("lo", "hi") or rest not in (["cc", kind], [kind]) or TYPE_BITS[kind] < 32:
        return None
    bits = TYPE_BITS[kind]
    shift = bits if part == "hi" else 0

    def evaluate(a: int, b: int, c: int, carry: int = 0) -> int:
        return ((a * b) >> shift & ((1 << bits) - 1)) + c + carry

    carry = (lambda *values: evaluate(*values) >> bits) if "cc" in rest else None
    return Operation(kind, (kind, kind, unsigned(kind)), evaluate, carry=carry, takes_carry=takes_carry)


def _mul24_product(a: int, b: int, kind: str, part: str) -> int:
    def low24(value: int) -> int:
        value &= 0xFFFFFF
        return value - (1 << 24) if kind[0] == "s" and value >> 23 else value

    return (low24(a) * low24(b)) >> (16 if part == "hi" else 0)


def _mul24(modifiers: tuple[str, ...], kind: str) -> Operation | None:
    if modifiers[0] not in ("lo", "hi"):
        return None
    return Operation(kind, (kind, kind), lambda a, b: _mul24_product(a, b, kind, modifiers[0]))


def _mad24(modifiers: tuple[str, ...], kind: str) -> Operation | None:
    if modifiers == ("hi", "sat", "s32"):
        return Operation(
            kind, (kind,) * 3, lambda a, b, c: saturate(_mul24_product(a, b, kind, "hi") + c, kind)
        )
    if modifiers[0] not in ("lo", "hi") or len(modifiers) != 2:
        return None
    return Operation(kind, (kind,) * 3, lambda a, b, c: _mul24_product(a, b, kind, modifiers[0]) + c)


def divide(a: int, b: int) -> int:
    """div: rounds toward zero. Division by zero, which the ISA leaves open, gives all ones."""
    if b == 0:
        return -1
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def remainder(a: int, b: int) -> int:
    """rem: has the sign of the dividend. By zero it is all ones, as on NVIDIA's hardware."""
    return -1 if b == 0 else a - b * divide(a, b)


def _sad(modifiers: tuple[str, ...], kind: str) -> Operation | None:
    return Operation(kind, (kind, kind, unsigned(kind)), lambda a, b, c: c + abs(a - b))


def _dot(widths: tuple[int, int], part: int = 0) -> "Builder":
    """dp4a, dp2a: the products of the parts of a (of `widths[0]` bits) and b (`widths[1]`), summed with c.

    dp2a.hi takes b's upper `part`.
    """

    def build(modifiers: tuple[str, ...], kind: str) -> Operation | None:
        if len(modifiers) != 2 or not set(modifiers) <= {"u32", "s32"}:
            return None
        types = tuple(f"{word[0]}{bits}" for word, bits in zip(modifiers, widths, strict=True))

        def evaluate(a: int, b: int, c: int) -> int:
            for i in range(32 // widths[0]):
                c += wrap(a >> (i * widths[0]), types[0]) * wrap(b >> (part + i * widths[1]), types[1])
            return c

        result = "s32" if "s32" in modifiers else "u32"
        return Operation(result, ("u32", "u32", result), evaluate)

    return build


def _dp2a(modifiers: tuple[str, ...], kind: str) -> Operation | None:
    if modifiers[0] not in ("lo", "hi"):
        return None
    return _dot((16, 8), 16 if modifiers[0] == "hi" else 0)(modifiers[1:], kind)


# Bits.


def _shift(left: bool) -> "Builder":
    """shl, shr: amounts beyond the width are clamped to it; shr fills with the sign of an .s type."""

    def build(modifiers: tuple[str, ...], kind: str) -> Operation:
        bits = TYPE_BITS[kind]
        if left:
            return Operation(kind, (kind, "u32"), lambda a, n: a << min(n, bits))
        return Operation(kind, (kind, "u32"), lambda a, n: a >> min(n, bits))

    return build


def _funnel(modifiers: tuple[str, ...], kind: str) -> Operation | None:
    """shf.{l,r}.{wrap,clamp}.b32 d, lo, hi, n."""
    if len(modifiers) != 3 or kind != "b32":
        return None
    left, clamp = modifiers[0] == "l", modifiers[1] == "clamp"

    def evaluate(low: int, high: int, amount: int) -> int:
        n = min(amount, 32) if clamp else amount & 31
        return ((high << 32 | low) << n) >> 32 if left else (high << 32 | low) >> n

    return Operation("b32", ("b32", "b32", "u32"), evaluate)


def _clz(modifiers: tuple[str, ...], kind: str) -> Operation:
    bits = TYPE_BITS[kind]
    return Operation("u32", (kind,), lambda a: bits - a.bit_length())


def _brev(modifiers: tuple[str, ...], kind: str) -> Operation:
    bits = TYPE_BITS[kind]
    return Operation(kind, (kind,), lambda a: int(f"{a:0{bits}b}"[::-1], 2))


def _bfind(modifiers: tuple[str, ...], kind: str) -> Operation:
    bits = TYPE_BITS[kind]
    distance = "shiftamt" in modifiers

    def evaluate(a: int) -> int:
        position = (~a if a < 0 else a).bit_length() - 1
        return bits - 1 - position if distance and position >= 0 else position

    return Operation("u32", (kind,), evaluate)


def _bfe(modifiers: tuple[str, ...], kind: str) -> Operation:
    bits = TYPE_BITS[kind]

    def evaluate(a: int, position: int, length: int) -> int:
        position, length = position & 0xFF, length & 0xFF
        if length == 0:
            return 0
        field = a >> position  # an .s value shifts its sign in, as the ISA's sbit does
        if length >= bits:
            return field
        field &= (1 << length) - 1
        sign = (a >> min(position + length - 1, bits - 1)) & 1
        return field - (1 << length) if kind[0] == "s" and sign else field

    return Operation(kind, (kind, "u32", "u32"), evaluate)


def _bfi(modifiers: tuple[str, ...], kind: str) -> Operation:
    bits = TYPE_BITS[kind]

    def evaluate(field: int, into: int, position: int, length: int) -> int:
        position, length = position & 0xFF, length & 0xFF
        mask = (((1 << length) - 1) << position) & ((1 << bits) - 1)
        return (into & ~mask) | ((field << position) & mask)

    return Operation(kind, (kind, kind, "u32", "u32"), evaluate)


def _bmsk(modifiers: tuple[str, ...], kind: str) -> Operation | None:
    """bmsk.{clamp,wrap}.b32 d, a, b: b ones from place a on."""

    def evaluate(start: int, length: int) -> int:
        start, length = (min(n, 32) if modifiers[0] == "clamp" else n & 31 for n in (start, length))
        return ((1 << length) - 1) << start

    return Operation("b32", ("u32", "u32"), evaluate) if modifiers[1:] == ("b32",) else None


def _szext(modifiers: tuple[str, ...], kind: str) -> Operation | None:
    """szext.{clamp,wrap}.type d, a, b: the low b bits of a, extended as the type says."""

    def evaluate(a: int, length: int) -> int:
        length = min(length, 32) if modifiers[0] == "clamp" else length & 31
        low = a & ((1 << length) - 1)
        return low - (1 << length) if kind == "s32" and length and low >> (length - 1) else low

    return Operation(kind, ("u32", "u32"), evaluate) if kind in ("s32", "u32") else None


def _lop3(modifiers: tuple[str, ...], kind: str) -> Operation | None:
    """lop3.b32 d, a, b, c, table: bit i of the result is the table's bit a_i b_i c_i."""

    def evaluate(a: int, b: int, c: int, table: int) -> int:
        result = 0
        for row in range(8):
            if table >> row & 1:
                result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return result

    return Operation(kind, (kind, kind, kind, "u32"), evaluate) if modifiers == ("b32",) else None


PRMT_MODES: dict[str, Callable[[int], tuple[int, int, int, int]]] = {
    "f4e": lambda n: (n, n + 1, n + 2, n + 3),
    "b4e": lambda n: (n, (n + 7) % 8, (n + 6) % 8, (n + 5) % 8),
    "rc8": lambda n: (n, n, n, n),
    "ecl": lambda n: (n, max(n, 1), max(n, 2), 3),
    "ecr": lambda n: (0, min(n, 1), min(n, 2), n),
    "rc16": lambda n: (0, 1, 0, 1) if n % 2 == 0 else (2, 3, 2, 3),
}
"""prmt: the source bytes of a mode, lowest first, by the two low bits of the selector."""


def _prmt(modifiers: tuple[str, ...], kind: str) -> Operation | None:
    mode = next((word for word in modifiers if word in PRMT_MODES), "")

    def evaluate(a: int, b: int, selector: int) -> int:
        both = b << 32 | a
        if mode:
            selectors = PRMT_MODES[mode](selector & 3)
        else:
            selectors = tuple(selector >> (4 * i) & 15 for i in range(4))
        result = 0
        for i, select in enumerate(selectors):
            byte = both >> (8 * (select & 7)) & 0xFF
            if not mode and select & 8:
                byte = 0xFF if byte & 0x80 else 0
            result |= byte << (8 * i)
        return result

    return Operation("b32", ("b32", "b32", "u32"), evaluate) if kind == "b32" else None


# Comparison and selection.

COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
UNSIGNED_COMPARISONS = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
BOOLEANS: dict[str, Function] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def _compare(modifiers: tuple[str, ...], kind: str, results: tuple[str, int]) -> Operation | None:
    name = modifiers[0]
    if name in UNSIGNED_COMPARISONS:
        name, kind = UNSIGNED_COMPARISONS[name], unsigned(kind)
    compare = COMPARISONS.get(name)
    result, true = results
    if compare is None:
        return None
    combine = BOOLEANS.get(modifiers[1])
    if combine is None:
        return Operation(
            result, (kind, kind), lambda a, b: true * compare(a, b), lambda a, b: true * (not compare(a, b))
        )
    return Operation(
        result,
        (kind, kind, "pred"),
        lambda a, b, c: true * combine(int(compare(a, b)), c),
        lambda a, b, c: true * combine(int(not compare(a, b)), c),
    )


def _setp(modifiers: tuple[str, ...], kind: str) -> Operation | None:
    """setp.cmp[.bool].type p[|q], a, b[, c]: q has the comparison inverted, before the boolean operator."""
    return _compare(modifiers, kind, ("pred", 1))


def _set(modifiers: tuple[str, ...], kind: str) -> Operation | None:
    """set.cmp[.bool].{u32,s32}.type d, a, b[, c]: all ones if true."""
    types = [word for word in modifiers if word in TYPE_BITS]
    return _compare(modifiers, kind, (types[0], -1)) if len(types) == 2 else None


def _selp(modifiers: tuple[str, ...], kind: str) -> Operation:
    return Operation(kind, (kind, kind, "pred"), lambda a, b, p: a if p else b)


def _slct(modifiers: tuple[str, ...], kind: str) -> Operation | None:
    if len(modifiers) != 2 or kind != "s32":
        return None
    return Operation(modifiers[0], (modifiers[0], modifiers[0], kind), lambda a, b, c: a if c >= 0 else b)


def _cvt(modifiers: tuple[str, ...], kind: str) -> Operation | None:
    """cvt[.sat].dtype.atype: reads the source as atype, keeps its low bits; .sat clamps to dtype."""
    types = [word for word in modifiers if word in TYPE_BITS]
    if len(types) != 2 or set(modifiers) - set(types) - {"sat"}:
        return None
    to = types[0]
    if "sat" not in modifiers:
        return Operation(to, (kind,), lambda a: a)
    return Operation(to, (kind,), lambda a: saturate(a, to))


def _mov(modifiers: tuple[str, ...], kind: str) -> Operation | None:
    return Operation(kind, (kind,), lambda a: a) if len(modifiers) == 1 else None


Builder = Callable[[tuple[str, ...], str], Operation | None]

BUILDERS: dict[str, Builder] = {
    "add": _saturating(lambda a, b: a + b),
    "sub": _saturating(lambda a, b: a - b),
    "addc": _carrying(lambda a, b, carry: a + b + carry, takes_carry=True),
    "subc": _carrying(lambda a, b, borrow: a - b - borrow, takes_carry=True),
    "mul": _mul,
    "mad": _mad,
    "madc": _madc,
    "dp4a": _dot((8, 8)),
    "dp2a": _dp2a,
    "mul24": _mul24,
    "mad24": _mad24,
    "sad": _sad,
    "div": _binary(divide),
    "rem": _binary(remainder),
    "abs": _unary(lambda a: abs(a)),
    "neg": _unary(lambda a: -a),
    "min": _binary(min),
    "max": _binary(max),
    "and": _binary(lambda a, b: a & b),
    "or": _binary(lambda a, b: a | b),
    "xor": _binary(lambda a, b: a ^ b),
    "not": _unary(lambda a: ~a),
    "cnot": _unary(lambda a: int(a == 0)),
    "shl": _shift(left=True),
    "shr": _shift(left=False),
    "shf": _funnel,
    "popc": _unary(lambda a: a.bit_count(), "u32"),
    "clz": _clz,
    "brev": _brev,
    "bfind": _bfind,
    "bfe": _bfe,
    "bfi": _bfi,
    "bmsk": _bmsk,
    "szext": _szext,
    "lop3": _lop3,
    "prmt": _prmt,
    "setp": _setp,
    "set": _set,
    "selp": _selp,
    "slct": _slct,
    "cvt": _cvt,
    "mov": _mov,
}
"""Opcode -> what makes its Operation."""

ATOMICS: dict[str, Function] = {
    "add": lambda old, b: old + b,
    "min": min,
    "max": max,
    "exch": lambda old, b: b,
    "cas": lambda old, b, c: c if old == b else old,
    "inc": lambda old, b: 0 if old >= b else old + 1,
    "dec": lambda old, b: b if old == 0 or old > b else old - 1,
    **BOOLEANS,
}
"""atom, red and redux: the new value, from the old one and the operands."""
