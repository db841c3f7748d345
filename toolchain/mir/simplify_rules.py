"""Rules for 32-bit values: folding, link-time arithmetic, and algebra, one function a family."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from toolchain.mir import affine, evaluate
from toolchain.mir.affine import MASK, constant, is_constant, number
from toolchain.mir.facts import Facts, Name, constant_predicate
from toolchain.mir.ir import ZERO, Instruction, MirOp, Operand, Predicate, Register
from toolchain.mir.isa import COMPARISONS, MulOp, Op
from toolchain.mir.rom import LinkValue

COMMUTATIVE = (Op.ADD, Op.MIN_U, Op.MIN_S, Op.MAX_U, Op.MAX_S, Op.SET_EQ, Op.SET_NE, *MulOp)


@dataclass(frozen=True)
class Scope:
    """What is known at an instruction; `local` are the names its block has defined so far.

    Rules that would keep an older register alive longer use only local facts.
    """

    facts: Facts
    local: set[Name]

    def fact(self, operand: Operand) -> Instruction | None:
        return self.facts.get(operand) if isinstance(operand, Register) else None

    def local_fact(self, operand: Operand) -> Instruction | None:
        return self.fact(operand) if operand in self.local else None


def copy_of(item: Instruction, value: Operand) -> Instruction:
    """`item` as a copy of `value`."""
    return Instruction(MirOp.MOV, item.dest, (value,), source=item.source)


def simplify_value(item: Instruction, scope: Scope) -> Instruction:
    """One step of simplification of an operation on values."""
    if item.op is MirOp.MOV:
        return item
    if item.op is Op.SHFL:
        return copy_of(item, item.operands[0]) if isinstance(item.operands[0], LinkValue) else item
    if all(is_constant(operand) for operand in item.operands):
        return _fold(item)
    first_only = isinstance(item.operands[0], LinkValue) and not isinstance(item.operands[-1], LinkValue)
    if item.op in COMMUTATIVE and first_only:
        a, b = item.operands
        return replace(item, operands=(b, a))
    rule = RULES.get(item.op)
    return item if rule is None else rule(item, scope)


def _fold(item: Instruction) -> Instruction:
    """All operands are numbers."""
    numbers = [number(operand) for operand in item.operands if isinstance(operand, LinkValue)]
    a, b = (*numbers, 0)[:2]
    if item.op in COMPARISONS:
        assert isinstance(item.dest, Predicate) and isinstance(item.op, Op)
        holds = evaluate.COMPARISONS[item.op](a, b)
        return replace(constant_predicate(item.dest, holds), source=item.source)
    if item.op is Op.LOP:
        return copy_of(item, constant(evaluate.lop(a, b, item.table)))
    assert not isinstance(item.op, MirOp)
    return copy_of(item, constant(evaluate.VALUES[item.op](a, b)))


def _copy_or(item: Instruction, value: LinkValue | None) -> Instruction:
    return item if value is None else copy_of(item, value)


def _add(item: Instruction, scope: Scope) -> Instruction:
    """a + 0; link-time sums; (x + c) + d; (0 - x) + a."""
    a, b = item.operands
    if isinstance(a, LinkValue) and isinstance(b, LinkValue):
        return _copy_or(item, affine.add(a, b))
    if b == ZERO:
        return copy_of(item, a)
    inner = scope.fact(a)
    if inner is not None and inner.op is Op.ADD and isinstance(b, LinkValue):
        x, c = inner.operands
        total = affine.add(c, b) if isinstance(c, LinkValue) else None
        if total is not None:
            return replace(item, operands=(x, total))
    negated = scope.local_fact(b)
    if negated is not None and negated.op is Op.SUB and negated.operands[0] == ZERO:
        return replace(item, op=Op.SUB, operands=(a, negated.operands[1]))
    return item


def _sub(item: Instruction, scope: Scope) -> Instruction:
    """a - a; a - c is a + (-c)."""
    a, b = item.operands
    if a == b:
        return copy_of(item, ZERO)
    if isinstance(b, LinkValue):
        minus = affine.scale(b, -1)
        return item if minus is None else replace(item, op=Op.ADD, operands=(a, minus))
    return item


def _mul(item: Instruction, scope: Scope) -> Instruction:
    """Products with 0, 1 and powers of two, and of link-time constants with numbers."""
    a, b = item.operands
    if isinstance(a, LinkValue) and isinstance(b, LinkValue):
        a, b = (b, a) if is_constant(a) else (a, b)
        return _copy_or(item, affine.scale(a, number(b))) if is_constant(b) else item
    if not (isinstance(b, LinkValue) and is_constant(b)):
        return item
    factor = number(b)
    if factor == 0:
        return copy_of(item, ZERO)
    if factor & (factor - 1) == 0:
        return replace(item, op=Op.SHL, operands=(a, constant(factor.bit_length() - 1)))
    return item


def _mul_high(item: Instruction, scope: Scope) -> Instruction:
    """The high half of a product with 0 is 0; with a power of two, unsigned, a shift."""
    a, b = item.operands
    if b == ZERO:
        return copy_of(item, ZERO)
    if item.op is MulOp.HI_U and isinstance(b, LinkValue) and is_constant(b):
        factor = number(b)
        if factor & (factor - 1) == 0:
            return replace(item, op=Op.SHR_U, operands=(a, constant(33 - factor.bit_length())))
    return item


def _shl(item: Instruction, scope: Scope) -> Instruction:
    a, b = item.operands
    if not (isinstance(b, LinkValue) and is_constant(b)):
        return item
    amount = number(b)
    if amount == 0:
        return copy_of(item, a)
    if amount > 31:
        return copy_of(item, ZERO)
    if isinstance(a, LinkValue):
        return _copy_or(item, affine.scale(a, 1 << amount))
    inner = scope.fact(a)
    if inner is not None and inner.op is Op.SHL and is_constant(inner.operands[1]):
        assert isinstance(inner.operands[1], LinkValue)
        total = min(amount + min(number(inner.operands[1]), 32), 32)
        return replace(item, operands=(inner.operands[0], constant(total)))
    return item


def _shr(item: Instruction, scope: Scope) -> Instruction:
    a, b = item.operands
    if not (isinstance(b, LinkValue) and is_constant(b)):
        return item
    amount = number(b)
    if amount == 0:
        return copy_of(item, a)
    if amount > 31:
        return copy_of(item, ZERO) if item.op is Op.SHR_U else replace(item, operands=(a, constant(31)))
    if item.op is Op.SHR_U and isinstance(a, LinkValue) and not a.shift:
        return copy_of(item, affine.normal(LinkValue(a.addend, a.terms, amount)))
    return item


def _lop(item: Instruction, scope: Scope) -> Instruction:
    """Bitwise logic: a constant goes to the right, complements into the table, 0 and -1 away."""
    a, b = item.operands
    table = item.table
    if (isinstance(a, LinkValue) and not isinstance(b, LinkValue)) or _is_not(scope.fact(a)):
        a, b, table = b, a, (table & 0x9) | (table & 2) << 1 | (table & 4) >> 1
    inner = scope.fact(b)
    if inner is not None and _is_not(inner):
        b, table = inner.operands[0], (table & 0x5) << 1 | (table & 0xA) >> 1
    kept = {ZERO: (0, 2), constant(MASK): (1, 3)}.get(b) if isinstance(b, LinkValue) else None
    if a == b:
        kept = (0, 3)
    if kept is None:
        return replace(item, operands=(a, b), table=table)
    match tuple(table >> index & 1 for index in kept):
        case (0, 0):
            return copy_of(item, ZERO)
        case (1, 1):
            return copy_of(item, constant(MASK))
        case (0, 1):
            return copy_of(item, a)
    return replace(item, operands=(a, ZERO), table=0x3)


def _is_not(fact: Instruction | None) -> bool:
    return fact is not None and fact.op is Op.LOP and fact.table == 0x3 and fact.operands[1] == ZERO


def _extreme(item: Instruction, scope: Scope) -> Instruction:
    a, b = item.operands
    return copy_of(item, a) if a == b else item


def _compare(item: Instruction, scope: Scope) -> Instruction:
    """x CMP x; x + c == d is x == d - c (the sum is then off the critical path)."""
    a, b = item.operands
    assert isinstance(item.op, Op) and isinstance(item.dest, Predicate)
    if a == b:
        holds = evaluate.COMPARISONS[item.op](0, 0)
        return replace(constant_predicate(item.dest, holds), source=item.source)
    if item.op not in (Op.SET_EQ, Op.SET_NE) or not isinstance(b, LinkValue):
        return item
    inner = scope.local_fact(a)
    if inner is not None and inner.op is Op.ADD and isinstance(inner.operands[1], LinkValue):
        minus = affine.scale(inner.operands[1], -1)
        rest = None if minus is None else affine.add(b, minus)
        if rest is not None:
            return replace(item, operands=(inner.operands[0], rest))
    return item


RULES: dict[object, Callable[[Instruction, Scope], Instruction]] = {
    Op.ADD: _add,
    Op.SUB: _sub,
    MulOp.LO: _mul,
    MulOp.HI_U: _mul_high,
    MulOp.HI_S: _mul_high,
    Op.SHL: _shl,
    Op.SHR_U: _shr,
    Op.SHR_S: _shr,
    Op.LOP: _lop,
    **dict.fromkeys((Op.MIN_U, Op.MIN_S, Op.MAX_U, Op.MAX_S), _extreme),
    **dict.fromkeys(COMPARISONS, _compare),
}
