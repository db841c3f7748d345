"""PTX arithmetic that takes several of the machine's operations: dot products, three-input logic, and others.

`HANDLERS` has the same shape as that of lower_arithmetic.py: (lowering, instruction, type) -> value.
"""

from collections.abc import Callable

from toolchain.mir.affine import constant, is_constant, number
from toolchain.mir.ir import ZERO, Value
from toolchain.mir.isa import MulOp, Op
from toolchain.mir.lowering import AND, AND_NOT, OR, XOR, Lowering, refuse
from toolchain.mir.rom import LinkValue
from toolchain.ptx_frontend import ast

ALL_ONES = constant(-1)


def _operands(lowering: Lowering, item: ast.Instruction) -> list[Value]:
    return [lowering.value(operand) for operand in item.operands[1:]]


def _known(lowering: Lowering, item: ast.Instruction, index: int) -> int:
    value = lowering.value(item.operands[index])
    if not isinstance(value, LinkValue) or not is_constant(value):
        raise refuse(item, "has a selector that is not constant", "use shifts and masks")
    return number(value)


def _choose(lowering: Lowering, test: Op, a: Value, yes: Value, no: Value) -> Value:
    """a TEST 0 ? yes : no."""
    flag, dest = lowering.fresh_predicate(), lowering.fresh()
    lowering.emit(test, flag, a, ZERO)
    lowering.emit(Op.SEL, dest, yes, no, predicate=flag)
    return dest


def absolute_difference(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """sad: |a - b| + c."""
    a, b, c = (lowering.read(operand, kind) for operand in item.operands[1:4])
    high, low = (Op.MAX_S, Op.MIN_S) if kind.startswith("s") else (Op.MAX_U, Op.MIN_U)
    apart = lowering.compute(Op.SUB, lowering.compute(high, a, b), lowering.compute(low, a, b))
    return lowering.compute(Op.ADD, apart, c)


def product_of_24(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """mul24, mad24: 24-bit operands; the low or the high 32 of the product's 48 bits."""
    signed = kind == "s32"
    values = _operands(lowering, item)
    a, b = (lowering.field(value, 0, 24, is_signed=signed) for value in values[:2])
    result = lowering.compute(MulOp.LO, a, b)
    if "hi" in item.modifiers:
        upper = lowering.compute(MulOp.HI_S if signed else MulOp.HI_U, a, b)
        upper = lowering.compute(Op.SHL, upper, constant(16))
        result = lowering.compute(Op.LOP, upper, lowering.compute(Op.SHR_U, result, constant(16)), table=OR)
    return lowering.compute(Op.ADD, result, values[2]) if item.opcode == "mad24" else result


def logical_not(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """cnot: 1 for zero, else 0."""
    return _choose(lowering, Op.SET_EQ, lowering.read(item.operands[1], kind), constant(1), ZERO)


def select_by_sign(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """slct: c >= 0 ? a : b."""
    a, b, c = _operands(lowering, item)
    return _choose(lowering, Op.SET_GE_S, c, a, b)


def highest_bit(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """bfind: the place of the highest bit that is no copy of the sign, or how far it is from the top; -1 if none."""
    (value,) = _operands(lowering, item)
    if kind == "s32":
        sign = lowering.compute(Op.SHR_S, value, constant(31))
        value = lowering.compute(Op.LOP, value, sign, table=XOR)
    zeros = lowering.compute(Op.CLZ, value)
    if "shiftamt" in item.modifiers:
        return _choose(lowering, Op.SET_EQ, value, ALL_ONES, zeros)
    return lowering.compute(Op.SUB, constant(31), zeros)


def saturated(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """add.sat, sub.sat: where the sum overflows, the extreme on a's side."""
    a, b = _operands(lowering, item)
    plain = lowering.compute(Op.ADD if item.opcode == "add" else Op.SUB, a, b)
    differ = lowering.compute(Op.LOP, a, b, table=XOR)
    turned = lowering.compute(Op.LOP, a, plain, table=XOR)
    overflow = lowering.compute(Op.LOP, turned, differ, table=AND_NOT if item.opcode == "add" else AND)
    sign = lowering.compute(Op.SHR_S, a, constant(31))
    extreme = lowering.compute(Op.LOP, sign, constant(0x7FFFFFFF), table=XOR)
    return _choose(lowering, Op.SET_GE_S, overflow, plain, extreme)


def dot_product(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """dp4a: c plus four products of bytes. dp2a: of the halves of a with the low or the high two bytes of b."""
    a, b, total = _operands(lowering, item)
    signed_a, signed_b = (word.startswith("s") for word in item.modifiers[-2:])
    bits = 8 if item.opcode == "dp4a" else 16
    first = 16 if "hi" in item.modifiers else 0
    for index in range(32 // bits):
        x = lowering.field(a, bits * index, bits, is_signed=signed_a)
        y = lowering.field(b, first + 8 * index, 8, is_signed=signed_b)
        total = lowering.compute(Op.ADD, total, lowering.compute(MulOp.LO, x, y))
    return total


def three_input_logic(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """lop3: g(h(a, b), c) in some order where there is such a pair, else c ? f1(a, b) : f0(a, b)."""
    inputs = _operands(lowering, item)[:3]
    table = _known(lowering, item, 4) & 0xFF
    for order in ((0, 1, 2), (0, 2, 1), (1, 2, 0)):
        turned = _reordered(table, order)
        a, b, c = (inputs[index] for index in order)
        for inner in range(16):
            outer = _outer(turned, inner)
            if outer is not None:
                return lowering.compute(Op.LOP, lowering.compute(Op.LOP, a, b, table=inner), c, table=outer)
    a, b, c = inputs
    ones, zeros = (_given_last(table, last) for last in (1, 0))
    first = lowering.compute(Op.LOP, lowering.compute(Op.LOP, a, b, table=ones), c, table=AND)
    second = lowering.compute(Op.LOP, lowering.compute(Op.LOP, a, b, table=zeros), c, table=AND_NOT)
    return lowering.compute(Op.LOP, first, second, table=OR)


def _reordered(table: int, order: tuple[int, int, int]) -> int:
    """The truth table over (a, b, c), bit 4a + 2b + c, for its inputs taken in another order."""
    result = 0
    for index in range(8):
        bits = [0, 0, 0]
        for position, source in enumerate(order):
            bits[source] = index >> (2 - position) & 1
        result |= (table >> (4 * bits[0] + 2 * bits[1] + bits[2]) & 1) << index
    return result


def _given_last(table: int, last: int) -> int:
    return sum((table >> (2 * pair + last) & 1) << pair for pair in range(4))


def _outer(table: int, inner: int) -> int | None:
    """g with table = g(inner(a, b), c), None if there is none."""
    outer = [-1, -1, -1, -1]
    for index in range(8):
        place = 2 * (inner >> (index >> 1) & 1) + (index & 1)
        value = table >> index & 1
        if outer[place] not in (-1, value):
            return None
        outer[place] = value
    return sum((value == 1) << place for place, value in enumerate(outer))


HANDLERS: dict[str, Callable[[Lowering, ast.Instruction, str], Value]] = {
    "sad": absolute_difference,
    "mul24": product_of_24,
    "mad24": product_of_24,
    "cnot": logical_not,
    "slct": select_by_sign,
    "bfind": highest_bit,
    "dp4a": dot_product,
    "dp2a": dot_product,
    "lop3": three_input_logic,
}
