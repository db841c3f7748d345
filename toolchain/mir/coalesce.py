"""Removes copies by computing a value where it is going: `t = a + b; r = t` becomes `r = a + b`.

Contract: valid MIR in, valid MIR out; same memory. Works inside a block, backward from each copy, where r is
neither read nor written between the two and t is not needed beyond the block.
"""

from dataclasses import replace

from toolchain.machine_spec import MachineSpec
from toolchain.mir import liveness
from toolchain.mir.ir import TRUE, Block, Branch, Function, Instruction, MirOp, Operand, Terminator
from toolchain.mir.liveness import Name

PASS_NAME = "coalesce"


def run(function: Function, spec: MachineSpec) -> Function:
    """The function with fewer copies."""
    after = liveness.analyse(function).after
    return function.with_blocks([_block(block, after[block.label]) for block in function.blocks])


def _block(block: Block, after: liveness.Names) -> Block:
    body, terminator = list(block.instructions), block.terminator
    index = len(body) - 1
    while index >= 0:
        pair = copied(body[index])
        start = None if pair is None else _definition(body, index, pair, after)
        if pair is not None and start is not None:
            target, original = pair
            for place in range(start, len(body)):
                body[place] = _rename(body[place], original, target)
            terminator = _rename_terminator(terminator, original, target)
            del body[index]
        index -= 1
    return replace(block, instructions=tuple(body), terminator=terminator)


def copied(item: Instruction) -> tuple[Name, Name] | None:
    """(copy, original) if the instruction is a copy of a register or predicate."""
    if not item.operands:
        return None
    first = item.operands[0]
    is_copy = item.op is MirOp.MOV or (
        item.op is MirOp.PLOP and item.table == 0xC and item.operands[1] == TRUE and first != TRUE
    )
    if not is_copy or item.dest is None or not isinstance(first, Name) or first == item.dest:
        return None
    return item.dest, first


def _definition(
    body: list[Instruction], index: int, pair: tuple[Name, Name], after: liveness.Names
) -> int | None:
    """Where the original is computed, if it may be renamed to the copy from there to the block's end."""
    target, original = pair
    if original in after:
        return None
    for item in body[index + 1 :]:
        if item.dest in (target, original):
            return None
    for place in range(index - 1, -1, -1):
        item = body[place]
        if item.dest == original:
            return None if original in item.uses else place
        if item.dest == target or target in item.uses:
            return None
    return None


def _rename(item: Instruction, old: Name, new: Name) -> Instruction:
    operands: tuple[Operand, ...] = tuple(new if operand == old else operand for operand in item.operands)
    predicate = new if item.predicate == old else item.predicate
    dest = new if item.dest == old else item.dest
    return replace(item, operands=operands, predicate=predicate, dest=dest)


def _rename_terminator(terminator: Terminator, old: Name, new: Name) -> Terminator:
    if isinstance(terminator, Branch) and terminator.predicate == old:
        return replace(terminator, predicate=new)
    return terminator
