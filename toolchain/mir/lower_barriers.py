"""Barriers of a thread block (PTX ISA, "bar, barrier").

`bar.sync` ends a block: the warp gives way, and as every warp does so at every barrier, all have arrived when
it runs again. `bar.red` counts votes in a hidden word of shared memory that only grows: each warp adds how
many of its lanes vote, waits, and takes off what had been counted before. A second barrier keeps a warp that
is ahead from voting again before the others have read.
"""

from toolchain.mir.affine import constant
from toolchain.mir.ir import TRUE, ZERO, Barrier, MirOp, Special
from toolchain.mir.isa import Op
from toolchain.mir.lower_memory import Memory, WordPlace, load_word, store_word
from toolchain.mir.lowering import NOT, Lowering, refuse
from toolchain.mir.lowering_blocks import guarded_blocks
from toolchain.mir.variables import WORD_BYTES
from toolchain.ptx_frontend import ast


def barrier(lowering: Lowering, memory: Memory, item: ast.Instruction) -> None:
    """bar.sync, barrier.sync, bar.red and barrier.red of all threads; all barrier numbers mean the same."""
    votes = "red" in item.modifiers
    if not votes and "sync" not in item.modifiers:
        raise refuse(item, "is a barrier that does not wait", "use __syncthreads()")
    if len(item.operands) > (3 if votes else 1):
        raise refuse(
            item, "is a barrier of some of the threads", "use __syncthreads(), which all threads reach"
        )
    with guarded_blocks(lowering, item) as inner:
        if votes:
            _count_votes(lowering, memory, inner)
        else:
            _wait(lowering, item)


def _wait(lowering: Lowering, item: ast.Instruction) -> None:
    label = lowering.fresh_label()
    lowering.end(Barrier(label, item.where))
    lowering.start(label)


def _count_votes(lowering: Lowering, memory: Memory, item: ast.Instruction) -> None:
    """bar.red.{popc,and,or}: `and` counts the votes against."""
    dest, *_, operand = item.operands
    vote = lowering.test(operand)
    if "and" in item.modifiers:
        vote = lowering.logic(NOT, vote)
    votes, here = lowering.fresh(), lowering.fresh()
    lowering.emit(Op.BALLOT, votes, predicate=vote)
    lowering.emit(Op.BALLOT, here, predicate=TRUE)
    place = WordPlace("shared", ZERO, constant(memory.placement.votes // WORD_BYTES))
    total = lowering.compute(Op.ADD, load_word(lowering, place), lowering.compute(Op.POPC, votes))
    highest = lowering.fresh_predicate()
    above = lowering.compute(Op.SHR_U, here, Special("laneid"))
    lowering.emit(Op.SET_EQ, highest, above, constant(1))
    store_word(lowering, place, total, highest)
    _wait(lowering, item)
    counted = load_word(lowering, place)
    new = lowering.compute(Op.SUB, counted, memory.counted)
    lowering.emit(MirOp.MOV, memory.counted, counted)
    if "popc" in item.modifiers:
        lowering.define(item, new)
    else:
        result = lowering.fresh_predicate()
        lowering.emit(Op.SET_EQ if "and" in item.modifiers else Op.SET_NE, result, new, ZERO)
        lowering.define_test(item, result, dest)
    _wait(lowering, item)
