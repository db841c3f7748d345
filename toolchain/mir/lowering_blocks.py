"""Blocks that a lowering adds: run only where a guard holds, one lane at a time, or in turns."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from toolchain.mir.affine import constant
from toolchain.mir.ir import TRUE, ZERO, Branch, Instruction, Jump, MirOp, Special, Terminator
from toolchain.mir.isa import Op
from toolchain.mir.lowering import AND, Lowering
from toolchain.ptx_frontend import ast


@contextmanager
def guarded_blocks(lowering: Lowering, item: ast.Instruction) -> Iterator[ast.Instruction]:
    """What is lowered inside runs only where the guard of `item` holds; gives `item` without its guard."""
    if item.guard is None:
        yield item
        return
    inside, rest = lowering.fresh_label(), lowering.fresh_label()
    lowering.end(_enter(lowering, item, inside, rest))
    lowering.start(inside)
    yield replace(item, guard=None)
    lowering.fall_into(rest)


@contextmanager
def serial_block(lowering: Lowering, item: ast.Instruction) -> Iterator[ast.Instruction]:
    """What is lowered inside runs one lane at a time, and only where the guard of `item` holds.

    It must fit one machine block, at most one store. Gives `item` without its guard.
    """
    inside, rest = lowering.fresh_label(), lowering.fresh_label()
    lowering.end(_enter(lowering, item, inside, rest))
    lowering.start(inside)
    yield replace(item, guard=None)
    lowering.end(Jump(rest, item.where))
    lowering.blocks[-1] = replace(lowering.blocks[-1], serial=True)
    lowering.start(rest)


@contextmanager
def in_turns(lowering: Lowering, item: ast.Instruction) -> Iterator[ast.Instruction]:
    """What is lowered inside runs one lane at a time too, but may be as long as it likes.

    The lanes that are left run around a loop; each time the lowest of them does what is inside.
    """
    with guarded_blocks(lowering, item) as inner:
        head, turn, latch, rest = (lowering.fresh_label() for _ in range(4))
        lowering.fall_into(head)
        here = lowering.fresh()
        lowering.emit(Op.BALLOT, here, predicate=TRUE)
        bit = lowering.compute(Op.SHL, constant(1), Special("laneid"))
        below = lowering.compute(Op.LOP, here, lowering.compute(Op.SUB, bit, constant(1)), table=AND)
        mine = lowering.fresh_predicate()
        lowering.emit(Op.SET_EQ, mine, below, ZERO)
        lowering.end(Branch(mine, turn, latch, item.where))
        lowering.start(turn)
        yield inner
        lowering.fall_into(latch)
        # Who has had its turn meets the others here before it leaves: without this mark it could leave at once, and
        # all turns be taken behind the loop.
        lowering.append(Instruction(MirOp.SYNC, None, (), source=item.where))
        lowering.end(Branch(mine, rest, head, item.where))
        lowering.start(rest)


def _enter(lowering: Lowering, item: ast.Instruction, inside: str, rest: str) -> Terminator:
    """To `inside` where the guard holds, else to `rest`."""
    if item.guard is None:
        return Jump(inside, item.where)
    guard = lowering.predicate(item.guard.register)
    taken, otherwise = (rest, inside) if item.guard.negated else (inside, rest)
    return Branch(guard, taken, otherwise, item.where)
