"""64-bit PTX arithmetic on pairs of words: one function a family, found by opcode in `HANDLERS`.

A handler takes (lowering, instruction, type) and gives a pair, or a word where the result has 32 bits.
"""

from collections.abc import Callable

from toolchain.mir import word_pairs
from toolchain.mir.affine import constant
from toolchain.mir.ir import ZERO, Predicate, Value
from toolchain.mir.isa import Op
from toolchain.mir.lowering import AND, AND_NOT, OR, XOR, Lowering, Pair
from toolchain.mir.word_pairs import choose, choose_pair, word_test
from toolchain.ptx_frontend import ast

Handler = Callable[[Lowering, ast.Instruction, str], Value | Pair]

TABLES = {"and": AND, "or": OR, "xor": XOR}
BYTE = constant(0xFF)


def is_wide(item: ast.Instruction) -> bool:
    """Whether the instruction computes on 64 bits, or makes them."""
    kinds = [ast.TYPE_BITS.get(word, 0) for word in item.modifiers]
    return 64 in kinds or ("wide" in item.modifiers and 32 in kinds)


def _operands(lowering: Lowering, item: ast.Instruction, count: int) -> list[Pair]:
    return [lowering.pair(operand) for operand in item.operands[1 : count + 1]]


def _two(function: Callable[[Lowering, Pair, Pair], Pair]) -> Handler:
    return lambda lowering, item, kind: function(lowering, *_operands(lowering, item, 2))


def _one(function: Callable[[Lowering, Pair], Value | Pair]) -> Handler:
    return lambda lowering, item, kind: function(lowering, *_operands(lowering, item, 1))


def product(lowering: Lowering, item: ast.Instruction, kind: str) -> Pair:
    """mul.{lo,hi} of 64 bits, mul.wide of 32."""
    signed = kind.startswith("s")
    if "wide" in item.modifiers:
        a, b = (lowering.value(operand) for operand in item.operands[1:3])
        return word_pairs.product(lowering, a, b, is_signed=signed)
    a, b = _operands(lowering, item, 2)
    if "hi" in item.modifiers:
        return word_pairs.multiply_high(lowering, a, b, is_signed=signed)
    return word_pairs.multiply(lowering, a, b)


def _multiply_add(lowering: Lowering, item: ast.Instruction, kind: str) -> Pair:
    return word_pairs.add(lowering, product(lowering, item, kind), lowering.pair(item.operands[3]))


def _logic(lowering: Lowering, item: ast.Instruction, kind: str) -> Pair:
    a, b = _operands(lowering, item, 2)
    return word_pairs.bitwise(lowering, TABLES[item.opcode], a, b)


def _logical_not(lowering: Lowering, item: ast.Instruction, kind: str) -> Pair:
    """cnot: 1 for zero, else 0."""
    (a,) = _operands(lowering, item, 1)
    return choose(lowering, word_pairs.equal(lowering, a, word_pairs.ZERO_PAIR), constant(1), ZERO), ZERO


def _shift(lowering: Lowering, item: ast.Instruction, kind: str) -> Pair:
    value, amount = lowering.pair(item.operands[1]), lowering.value(item.operands[2])
    if item.opcode == "shl":
        return word_pairs.shift_left(lowering, value, amount)
    return word_pairs.shift_right(lowering, value, amount, is_signed=kind.startswith("s"))


def extreme(lowering: Lowering, name: str, a: Pair, b: Pair, *, is_signed: bool) -> Pair:
    """The `min` or `max` of two pairs."""
    test = word_pairs.less(lowering, a, b, is_signed=is_signed)
    return choose_pair(lowering, test, *((a, b) if name == "min" else (b, a)))


def _extreme(lowering: Lowering, item: ast.Instruction, kind: str) -> Pair:
    a, b = _operands(lowering, item, 2)
    return extreme(lowering, item.opcode, a, b, is_signed=kind.startswith("s"))


def _absolute_difference(lowering: Lowering, item: ast.Instruction, kind: str) -> Pair:
    """sad: |a - b| + c."""
    a, b, c = _operands(lowering, item, 3)
    test = word_pairs.less(lowering, a, b, is_signed=kind.startswith("s"))
    low, high = choose_pair(lowering, test, a, b), choose_pair(lowering, test, b, a)
    return word_pairs.add(lowering, word_pairs.subtract(lowering, high, low), c)


def _highest_bit(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """bfind: the place of the highest bit that is no copy of the sign; -1 if none. `.shiftamt`: from the top."""
    (a,) = _operands(lowering, item, 1)
    if kind.startswith("s"):
        sign = lowering.compute(Op.SHR_S, a[1], constant(31))
        a = word_pairs.bitwise(lowering, XOR, a, (sign, sign))
    zeros = word_pairs.leading_zeros(lowering, a)
    if "shiftamt" in item.modifiers:
        none = word_test(lowering, Op.SET_EQ, zeros, constant(64))
        return choose(lowering, none, constant(-1), zeros)
    return lowering.compute(Op.SUB, constant(63), zeros)


def low_byte(lowering: Lowering, operand: ast.Operand) -> Value:
    """The place or length of a field: bits 7..0 of the operand."""
    return lowering.compute(Op.LOP, lowering.value(operand), BYTE, table=AND)


def _ones(lowering: Lowering, count: Value) -> Pair:
    """The lowest `count` bits set."""
    beyond = lowering.compute(Op.MAX_S, lowering.compute(Op.ADD, count, constant(-32)), ZERO)
    low, high = (lowering.compute(Op.SHL, constant(-1), by) for by in (count, beyond))
    return word_pairs.complement(lowering, (low, high))


def _extract(lowering: Lowering, item: ast.Instruction, kind: str) -> Pair:
    """bfe: shifted down, then cut by a mask, or by shifting up and down again where the sign counts."""
    signed = kind.startswith("s")
    low, bits = (low_byte(lowering, operand) for operand in item.operands[2:4])
    moved = word_pairs.shift_right(lowering, lowering.pair(item.operands[1]), low, is_signed=signed)
    if not signed:
        return word_pairs.bitwise(lowering, AND, moved, _ones(lowering, bits))
    above = lowering.compute(Op.MAX_S, lowering.compute(Op.SUB, constant(64), bits), ZERO)
    top = word_pairs.shift_left(lowering, moved, above)
    cut = word_pairs.shift_right(lowering, top, above, is_signed=True)
    return choose_pair(lowering, word_test(lowering, Op.SET_EQ, bits, ZERO), word_pairs.ZERO_PAIR, cut)


def _insert(lowering: Lowering, item: ast.Instruction, kind: str) -> Pair:
    """bfi: a's low bits in the place of b's."""
    field, into = _operands(lowering, item, 2)
    low, bits = (low_byte(lowering, operand) for operand in item.operands[3:5])
    mask = word_pairs.shift_left(lowering, _ones(lowering, bits), low)
    inside = word_pairs.bitwise(lowering, AND, word_pairs.shift_left(lowering, field, low), mask)
    return word_pairs.bitwise(lowering, OR, inside, word_pairs.bitwise(lowering, AND_NOT, into, mask))


def _select(lowering: Lowering, item: ast.Instruction, kind: str) -> Pair:
    a, b = _operands(lowering, item, 2)
    return choose_pair(lowering, lowering.test(item.operands[3]), a, b)


def _select_by_sign(lowering: Lowering, item: ast.Instruction, kind: str) -> Pair:
    """slct: c >= 0 ? a : b, where c has 32 bits."""
    a, b = _operands(lowering, item, 2)
    negative = word_pairs.is_negative(lowering, lowering.value(item.operands[3]))
    return choose_pair(lowering, negative, b, a)


def comparison(lowering: Lowering, item: ast.Instruction, name: str, *, is_signed: bool) -> Predicate:
    """a CMP b of a setp or set."""
    a, b = _operands(lowering, item, 2)
    if name in ("eq", "ne"):
        test = word_pairs.equal(lowering, a, b)
        return test if name == "eq" else word_pairs.inverse(lowering, test)
    signed = is_signed and name in ("lt", "le", "gt", "ge")
    if name in ("lt", "lo", "ge", "hs"):
        test = word_pairs.less(lowering, a, b, is_signed=signed)
    else:
        test = word_pairs.less(lowering, b, a, is_signed=signed)
    return test if name in ("lt", "lo", "gt", "hi") else word_pairs.inverse(lowering, test)


HANDLERS: dict[str, Handler] = {
    "add": _two(word_pairs.add),
    "sub": _two(word_pairs.subtract),
    "mul": product,
    "mad": _multiply_add,
    "neg": _one(word_pairs.negate),
    "abs": _one(word_pairs.magnitude),
    "min": _extreme,
    "max": _extreme,
    "sad": _absolute_difference,
    "and": _logic,
    "or": _logic,
    "xor": _logic,
    "not": _one(word_pairs.complement),
    "cnot": _logical_not,
    "shl": _shift,
    "shr": _shift,
    "popc": _one(word_pairs.population_count),
    "clz": _one(word_pairs.leading_zeros),
    "brev": _one(word_pairs.reverse),
    "bfind": _highest_bit,
    "bfe": _extract,
    "bfi": _insert,
    "selp": _select,
    "slct": _select_by_sign,
    "mov": _one(lambda lowering, a: a),
    "cvta": _one(lambda lowering, a: a),
}
