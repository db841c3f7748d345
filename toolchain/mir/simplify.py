"""Simplification: copies and constants propagate, known operands fold, algebra shortens the rest.

Contract: valid MIR in, valid MIR out; every register holds the same value at every point as before, except
that addresses count modulo 2**30. Link-time arithmetic (`n - 1`, `base + 4 * c`) moves into LinkValues. Dead
results are left for `dead_code`. The rules are in simplify_rules.py and simplify_predicates.py.
"""

from dataclasses import replace

from toolchain.machine_spec import MachineSpec
from toolchain.mir import affine, facts
from toolchain.mir.facts import Facts
from toolchain.mir.ir import (
    TRUE,
    ZERO,
    Block,
    Branch,
    Function,
    Instruction,
    Jump,
    MirOp,
    Operand,
    Register,
    Terminator,
)
from toolchain.mir.isa import Op
from toolchain.mir.rom import LinkValue
from toolchain.mir.simplify_predicates import (
    known_truth,
    negation,
    simplify_ballot,
    simplify_logic,
    simplify_select,
)
from toolchain.mir.simplify_rules import Scope, simplify_value

PASS_NAME = "simplify"

_ROUNDS = 8
"""Rewrites of one instruction; each makes it smaller, so this is never reached."""


def run(function: Function, spec: MachineSpec) -> Function:
    """The same function with simpler instructions and terminators."""
    before = facts.analyse(function)
    blocks = [_block(block, before[block.label]) for block in function.blocks if block.label in before]
    return function.with_blocks(blocks)


def _block(block: Block, known: Facts) -> Block:
    scope = Scope(known, set())
    body: list[Instruction] = []
    for item in block.instructions:
        new = _instruction(item, scope)
        if new is None:
            continue
        body.append(new)
        facts.learn(known, new)
        if new.dest is not None:
            scope.local.add(new.dest)
    return replace(block, instructions=tuple(body), terminator=_terminator(block.terminator, known))


def _instruction(item: Instruction, scope: Scope) -> Instruction | None:
    """The simplest form found, None for a store that never happens."""
    for _ in range(_ROUNDS):
        new = _step(item, scope)
        if new is None or new is item or new == item:
            return new
        item = new
    return item


def _step(item: Instruction, scope: Scope) -> Instruction | None:
    if item.op is MirOp.SYNC:
        return item
    operands = tuple(_propagate(operand, scope.facts) for operand in item.operands)
    if operands != item.operands:
        item = replace(item, operands=operands)
    if item.is_memory:
        item = _address(item, scope.facts)
        return _guard(item, scope.facts) if item.is_store else item
    if item.op is Op.BALLOT:
        return simplify_ballot(item, scope)
    if item.op is MirOp.PLOP:
        return simplify_logic(item, scope)
    if item.op is Op.SEL:
        return simplify_select(item, scope)
    return simplify_value(item, scope)


def _propagate(operand: Operand, known: Facts) -> Operand:
    """The original of a copy."""
    if isinstance(operand, LinkValue):
        return affine.normal(operand)
    while isinstance(operand, Register) and operand in known and known[operand].op is MirOp.MOV:
        operand = known[operand].operands[0]
    return operand


def _address(item: Instruction, known: Facts) -> Instruction:
    """Link-time parts of an address move into the offset."""
    base, *rest = item.operands
    if isinstance(base, LinkValue) and base != ZERO:
        offset = affine.add_words(base, item.offset)
        return item if offset is None else replace(item, operands=(ZERO, *rest), offset=offset)
    fact = known.get(base) if isinstance(base, Register) else None
    if fact is None or fact.op is not Op.ADD or not isinstance(fact.operands[1], LinkValue):
        return item
    offset = affine.add_words(fact.operands[1], item.offset)
    return item if offset is None else replace(item, operands=(fact.operands[0], *rest), offset=offset)


def _guard(item: Instruction, known: Facts) -> Instruction | None:
    if item.predicate is None:
        return item
    truth = known_truth(item.predicate, known)
    if truth is not None:
        return None if truth == item.negated else replace(item, predicate=None, negated=False)
    inverse = negation(item.predicate, known)
    if inverse is not None:
        predicate, negated = inverse
        return replace(item, predicate=predicate, negated=item.negated != negated)
    return item


def _terminator(terminator: Terminator, known: Facts) -> Terminator:
    if not isinstance(terminator, Branch):
        return terminator
    if terminator.taken == terminator.otherwise:
        return Jump(terminator.taken, terminator.source)
    truth = known_truth(terminator.predicate, known)
    if truth is not None:
        return Jump(terminator.taken if truth else terminator.otherwise, terminator.source)
    inverse = negation(terminator.predicate, known)
    if inverse is None or inverse[0] == TRUE:
        return terminator
    predicate, negated = inverse
    taken, otherwise = terminator.taken, terminator.otherwise
    if negated:
        taken, otherwise = otherwise, taken
    return _terminator(replace(terminator, predicate=predicate, taken=taken, otherwise=otherwise), known)
