"""Jump threading and block merging: no block is empty, and none only follows another.

Contract: valid MIR in, valid MIR out; same memory. A branch to an empty block that jumps on goes to its
target (or exits); a block with one predecessor that jumps to it joins it, unless one of them is serial; a
branch to one place is a jump. Blocks that cannot run are dropped. The entry stays, and nothing branches to it.
"""

from dataclasses import replace

from toolchain.machine_spec import MachineSpec
from toolchain.mir.cfg import Cfg
from toolchain.mir.ir import EXIT, Block, Branch, Function, Jump, Terminator, with_targets

PASS_NAME = "jump-threading"


def run(function: Function, spec: MachineSpec) -> Function:
    """The function with a jump for each needless block removed."""
    blocks = [replace(b, terminator=_one_way(b.terminator)) for b in function.blocks]
    forward = _forwarding(blocks)
    blocks = [replace(b, terminator=_one_way(with_targets(b.terminator, forward))) for b in blocks]
    return _merged(function.with_blocks(blocks))


def _one_way(terminator: Terminator) -> Terminator:
    if isinstance(terminator, Branch) and terminator.taken == terminator.otherwise:
        return Jump(terminator.taken, terminator.source)
    return terminator


def _forwarding(blocks: list[Block]) -> dict[str, str]:
    """Where a branch to each empty block ends up. A loop of empty blocks stays as it is."""
    empty = {
        block.label: block.terminator.target
        for block in blocks
        if not block.instructions and isinstance(block.terminator, Jump)
    }
    forward: dict[str, str] = {}
    for label in empty:
        target, seen = label, set[str]()
        while target in empty and target not in seen:
            seen.add(target)
            target = empty[target]
        if target not in seen:
            forward[label] = target
    return forward


def _merged(function: Function) -> Function:
    cfg = Cfg(function)
    blocks = {block.label: block for block in function.blocks if block.label in cfg.reachable}
    predecessors = {
        label: [p for p in found if p in blocks]
        for label, found in cfg.predecessors.items()
        if label in blocks
    }
    for label in list(blocks):
        while label in blocks and isinstance(blocks[label].terminator, Jump):
            target = blocks[label].successors[0] if blocks[label].successors else EXIT
            if target in (EXIT, label, cfg.entry) or predecessors[target] != [label]:
                break
            if blocks[label].serial or blocks[target].serial:
                break
            first, second = blocks[label], blocks.pop(target)
            blocks[label] = Block(label, first.instructions + second.instructions, second.terminator)
            for successor in second.successors:
                predecessors[successor] = [label if p == target else p for p in predecessors[successor]]
    return function.with_blocks(list(blocks.values()))
