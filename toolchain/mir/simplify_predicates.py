"""Rules for predicates: `plop`, and `sel` and `ballot` by what is known of their selector."""

from dataclasses import replace

from toolchain.mir.facts import ALWAYS, NEVER, Facts, constant_predicate
from toolchain.mir.ir import TRUE, ZERO, Instruction, MirOp, Operand, Predicate
from toolchain.mir.isa import Op
from toolchain.mir.simplify_rules import Scope, copy_of

OPPOSITE = {
    Op.SET_EQ: Op.SET_NE,
    Op.SET_NE: Op.SET_EQ,
    Op.SET_LT_U: Op.SET_GE_U,
    Op.SET_GE_U: Op.SET_LT_U,
    Op.SET_LT_S: Op.SET_GE_S,
    Op.SET_GE_S: Op.SET_LT_S,
}


def known_truth(predicate: Operand, known: Facts) -> bool | None:
    """Whether a predicate is known to hold or not to."""
    if predicate == TRUE:
        return True
    fact = known.get(predicate) if isinstance(predicate, Predicate) else None
    if fact is None or fact.op is not MirOp.PLOP or fact.table not in (ALWAYS, NEVER):
        return None
    return fact.table == ALWAYS


def negation(predicate: Operand, known: Facts) -> tuple[Predicate, bool] | None:
    """(original, negated) where the predicate is a copy or a negation of another one."""
    fact = known.get(predicate) if isinstance(predicate, Predicate) else None
    if fact is None or fact.op is not MirOp.PLOP or fact.table in (ALWAYS, NEVER):
        return None
    a, b = fact.operands
    assert isinstance(a, Predicate) and isinstance(b, Predicate)
    if a == TRUE or b != TRUE:
        return None
    return {0xC: (a, False), 0x3: (a, True)}.get(_given_b_true(fact.table))


def _given_b_true(table: int) -> int:
    """The table with b fixed to true."""
    return _with_b(table, (True, True))


def _with_b(table: int, becomes: tuple[bool, bool]) -> int:
    """The table after b is replaced: becomes[b] is the value of the original operand."""
    return sum(1 << (2 * a + b) for a in (0, 1) for b in (0, 1) if table >> (2 * a + becomes[b]) & 1)


def swapped(table: int) -> int:
    """The table with a and b exchanged."""
    return (table & 0x9) | (table & 2) << 1 | (table & 4) >> 1


def simplify_logic(item: Instruction, scope: Scope) -> Instruction:
    """Predicate logic: constants and negations of operands go into the table."""
    a, b = item.operands
    assert isinstance(a, Predicate) and isinstance(b, Predicate)
    table = item.table
    b, table = _absorb(b, table, scope.facts)
    a, table = _absorb(a, swapped(table), scope.facts)
    table = swapped(table)
    if a == b:
        table = ALWAYS * (table >> 3 & 1) & 0xC | ALWAYS * (table & 1) & 0x3
        b = TRUE
    if a == TRUE:
        a, b, table = b, TRUE, swapped(table)
    if b == TRUE:
        table = _given_b_true(table)
    assert isinstance(item.dest, Predicate)
    if a == TRUE:
        return replace(constant_predicate(item.dest, bool(table & 8)), source=item.source)
    if table in (ALWAYS, NEVER):
        return replace(constant_predicate(item.dest, table == ALWAYS), source=item.source)
    if b != TRUE and table in (0xC, 0x3):
        b = TRUE
    elif b != TRUE and table in (0xA, 0x5):
        a, b, table = b, TRUE, swapped(table)
    if table == 0x3 and b == TRUE and a in scope.local and a in scope.facts and scope.facts[a].op in OPPOSITE:
        fact = scope.facts[a]
        assert isinstance(fact.op, Op)
        return Instruction(OPPOSITE[fact.op], item.dest, fact.operands, source=item.source)
    return replace(item, operands=(a, b), table=table)


def _absorb(b: Predicate, table: int, known: Facts) -> tuple[Predicate, int]:
    """Replaces operand b by what it is known to be."""
    truth = known_truth(b, known)
    if truth is not None:
        return TRUE, _with_b(table, (truth, truth))
    inverse = negation(b, known)
    if inverse is None:
        return b, table
    original, negated = inverse
    return original, _with_b(table, (True, False)) if negated else table


def simplify_ballot(item: Instruction, scope: Scope) -> Instruction:
    """ballot: no votes for what is known not to hold; a copy of a predicate is the predicate."""
    assert item.predicate is not None
    truth = known_truth(item.predicate, scope.facts)
    if truth is not None:
        return replace(item, predicate=TRUE) if truth else copy_of(item, ZERO)
    inverse = negation(item.predicate, scope.facts)
    return item if inverse is None or inverse[1] else replace(item, predicate=inverse[0])


def simplify_select(item: Instruction, scope: Scope) -> Instruction:
    """sel: a known selector decides, a negated one swaps, equal sides need none."""
    assert item.predicate is not None
    a, b = item.operands
    truth = known_truth(item.predicate, scope.facts)
    if truth is not None or a == b:
        return copy_of(item, a if truth in (True, None) else b)
    inverse = negation(item.predicate, scope.facts)
    if inverse is not None:
        predicate, negated = inverse
        return replace(item, predicate=predicate, operands=(b, a) if negated else (a, b))
    return item
