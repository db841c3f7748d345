"""Extended-precision arithmetic: add.cc, addc, sub.cc, subc, mad.cc and madc, on words and on pairs.

PTX ISA, "Extended-Precision Integer Arithmetic Instructions": the carry or borrow out of a `.cc` form goes
into CC.CF, a predicate here; addc, subc and madc add it in (subc: subtract it).
"""

from toolchain.mir import lower_wide, word_pairs
from toolchain.mir.ir import Predicate, Value
from toolchain.mir.isa import MulOp
from toolchain.mir.lowering import Lowering, Pair
from toolchain.ptx_frontend import ast

CARRYING = ("addc", "subc", "madc")
"""Opcodes that read CC.CF."""


def is_extended(item: ast.Instruction) -> bool:
    """Whether the instruction reads or writes CC.CF."""
    return item.opcode in CARRYING or "cc" in item.modifiers


def lower_extended(lowering: Lowering, item: ast.Instruction, kind: str) -> None:
    """One such instruction."""
    carry = lowering.carry if item.opcode in CARRYING else None
    step = word_pairs.subtract_words if item.opcode in ("sub", "subc") else word_pairs.add_words
    if lower_wide.is_wide(item):
        first, second = _wide_operands(lowering, item, kind)
        low, carry = step(lowering, first[0], second[0], carry)
        high, carry = step(lowering, first[1], second[1], carry)
        result: Value | Pair = (low, high)
    else:
        result, carry = step(lowering, *_operands(lowering, item, kind), carry)
    _define(lowering, item, result, carry)


def _define(lowering: Lowering, item: ast.Instruction, result: Value | Pair, carry: Predicate) -> None:
    """The flag after the result is computed, before registers change that it depends on."""
    if "cc" in item.modifiers:
        lowering.assign_test(item, lowering.carry, carry)
    if isinstance(result, tuple):
        lowering.define_pair(item, result)
    else:
        lowering.define(item, result, is_signed=item.modifiers[-1].startswith("s"))


def _operands(lowering: Lowering, item: ast.Instruction, kind: str) -> tuple[Value, Value]:
    """The two words to add: of mad and madc the product, and c."""
    a, b = (lowering.value(operand) for operand in item.operands[1:3])
    if item.opcode not in ("mad", "madc"):
        return a, b
    high = MulOp.HI_S if kind.startswith("s") else MulOp.HI_U
    product = lowering.compute(high if "hi" in item.modifiers else MulOp.LO, a, b)
    return product, lowering.value(item.operands[3])


def _wide_operands(lowering: Lowering, item: ast.Instruction, kind: str) -> tuple[Pair, Pair]:
    if item.opcode not in ("mad", "madc"):
        return lowering.pair(item.operands[1]), lowering.pair(item.operands[2])
    return lower_wide.product(lowering, item, kind), lowering.pair(item.operands[3])
