"""What is known of a register at a point: the pure operation whose result it still is.

`facts[r]` is an instruction such that, at this point, r equals its result on the present values of its
operands (in its own lane: warp operations give no facts). A forward dataflow analysis with intersection; the
edge out of a branch adds that its predicate is true or false.
"""

from functools import cached_property

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


class Facts(dict[Name, Instruction]):
    """The fact about each name of which there is one."""

    @cached_property
    def readers(self) -> dict[Name, list[Name]]:
        """By name: whose facts may read it; those that do are among them."""
        found: dict[Name, list[Name]] = {}
        for name, fact in self.items():
            for used in fact.uses:
                found.setdefault(used, []).append(name)
        return found


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
    for name in facts.readers.pop(dest, ()):
        known = facts.get(name)
        if known is not None and dest in known.uses:
            del facts[name]
    if not item.is_memory and item.op not in WARP_OPS and dest not in item.uses:
        facts[dest] = item.operation
        for used in item.uses:
            facts.readers.setdefault(used, []).append(dest)


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
            before[label] = Facts(known)
            for item in blocks[label].instructions:
                learn(known, item)
            after[label] = known
    return before


def _meet(cfg: Cfg, blocks: dict[str, Block], after: dict[str, Facts], label: str) -> Facts:
    if label == cfg.entry:
        return Facts()
    incoming = [_along(blocks[p], after[p], label) for p in cfg.predecessors[label] if p in after]
    first, *others = incoming
    agreed = {
        name: item for name, item in first.items() if all(_same(facts.get(name), item) for facts in others)
    }
    return Facts(agreed)


def _same(one: Instruction | None, other: Instruction) -> bool:
    """Whether two facts are equal; most that are, are one object."""
    return one is other or one == other


def _along(block: Block, facts: Facts, target: str) -> Facts:
    """Facts on the edge from a block to `target`."""
    terminator = block.terminator
    if not isinstance(terminator, Branch) or terminator.taken == terminator.otherwise:
        return facts
    found = Facts(facts)
    found[terminator.predicate] = constant_predicate(terminator.predicate, terminator.taken == target)
    return found
