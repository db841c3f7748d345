"""Which registers and predicates are still needed: a backward dataflow analysis over blocks."""

from collections.abc import Iterator
from dataclasses import dataclass

from toolchain.mir.cfg import Cfg
from toolchain.mir.ir import EXIT, Block, Branch, Function, Instruction, Predicate, Register

Name = Register | Predicate
Names = frozenset[Name]


@dataclass(frozen=True)
class Liveness:
    """Names live at the start and at the end of each block; nothing is live at EXIT."""

    before: dict[str, Names]
    after: dict[str, Names]


def terminator_uses(block: Block) -> Names:
    terminator = block.terminator
    return frozenset({terminator.predicate}) if isinstance(terminator, Branch) else frozenset()


def analyse(function: Function) -> Liveness:
    """Liveness of every reachable block (blocks that cannot run have nothing live)."""
    return of_graph(Cfg(function))


def of_graph(cfg: Cfg) -> Liveness:
    """The same for a function whose graph is there."""
    order = list(reversed(cfg.reverse_postorder))
    blocks = {block.label: block for block in cfg.function.blocks}
    before: dict[str, Names] = {label: frozenset() for label in (*blocks, EXIT)}
    after: dict[str, Names] = dict(before)
    changed = True
    while changed:
        changed = False
        for label in order:
            block = blocks[label]
            after[label] = frozenset().union(*(before[target] for target in block.terminator.targets))
            live = transfer(block, after[label])
            changed |= live != before[label]
            before[label] = live
    return Liveness(before, after)


def transfer(block: Block, after: Names) -> Names:
    """What is live before a block, given what is live after it."""
    return (after - block.writes) | block.reads


def backwards(block: Block, after: Names) -> Iterator[tuple[Instruction, Names]]:
    """Each instruction, last first, with what is live just after it."""
    live = set(after | terminator_uses(block))
    for instruction in reversed(block.instructions):
        yield instruction, frozenset(live)
        if instruction.dest is not None:
            live.discard(instruction.dest)
        live.update(instruction.uses)
