"""What is known of a register at a point: the pure operation whose result it still is.

`facts[r]` is an instruction such that, at this point, r equals its result on the present values of its
operands (in its own lane: warp operations give no facts). A forward dataflow analysis with intersection; the
edge out of a branch adds that its predicate is true or false.
"""

from dataclasses import replace

from toolchain.mir.cfg import Cfg
from toolchain.mir.ir import (
    TRUE,
    Block,
    Branch,
    Function,
    Instruction,
    MirOp,
    Predicate,
    Register,
)
from toolchain.mir.isa import WARP_OPS

Name = Register | Predicate
Facts = dict[Name, Instruction]

ALWAYS, NEVER = 0xF, 0x0
"""Tables of constant predicates."""


def constant_predicate(predicate: Predicate, holds: bool) -> Instruction:
    return Instruction(MirOp.PLOP, predicate, (TRUE, TRUE), table=ALWAYS if holds else NEVER)


def learn(facts: Facts, item: Instruction) -> None:
    """Updates facts for what an instruction writes."""
    dest = item.dest
    if dest is None:
        return
    facts.pop(dest, None)
    for name in [name for name, known in facts.items() if dest in known.uses]:
        del facts[name]
    if not item.is_memory and item.op not in WARP_OPS and dest not in item.uses:
        facts[dest] = replace(item, uniform=False, narrow=False, source=None)


def analyse(function: Function) -> dict[str, Facts]:
    """Facts at the start of each reachable block."""
    cfg = Cfg(function)
    blocks = {block.label: block for block in function.blocks}
    order = cfg.reverse_postorder
    after: dict[str, Facts] = {}
    before: dict[str, Facts] = {}
    changed = True
    while changed:
        changed = False
        for label in order:
            known = _meet(cfg, blocks, after, label)
            if before.get(label) == known:
                continue
            changed = True
            before[label] = dict(known)
            for item in blocks[label].instructions:
                learn(known, item)
            after[label] = known
    return before


def _meet(cfg: Cfg, blocks: dict[str, Block], after: dict[str, Facts], label: str) -> Facts:
    if label == cfg.entry:
        return {}
    incoming = [_along(blocks[p], after[p], label) for p in cfg.predecessors[label] if p in after]
    first, *others = incoming
    return {name: item for name, item in first.items() if all(facts.get(name) == item for facts in others)}


def _along(block: Block, facts: Facts, target: str) -> Facts:
    """Facts on the edge from a block to `target`."""
    terminator = block.terminator
    if not isinstance(terminator, Branch) or terminator.taken == terminator.otherwise:
        return facts
    found = dict(facts)
    found[terminator.predicate] = constant_predicate(terminator.predicate, terminator.taken == target)
    return found
