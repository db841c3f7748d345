"""Block layout: the order in which min-PC scheduling brings diverged lanes together again.

A lane that waits at a join must have a larger program counter than every block of the diverging sides,
because the smallest one runs first. So blocks are in topological order, a loop's blocks stand together, and
what follows a loop comes after all of it. A loop whose diverging sides would meet only at its header gets a
latch block to meet in. Lanes leave a serial block one by one, so they have to meet after it, too.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import networkx as nx

from toolchain.mir.cfg import Cfg
from toolchain.mir.ir import (
    EXIT,
    TRUE,
    Block,
    Branch,
    Function,
    Jump,
    Operand,
    Special,
    with_targets,
    writes_predicate,
)
from toolchain.mir.rom import LinkValue
from toolchain.mir.schedule_dag import UNIFORM_SPECIALS


def layout(function: Function) -> Function:
    """The same function, blocks in layout order, latches added where lanes need one to meet.

    Where no order brings all lanes together (irreducible loops), `uniform` is not claimed of any value.
    """
    function = ordered(tidy(function))
    for _ in function.blocks:
        missed = sorted(set(split_joins(function)), key=[block.label for block in function.blocks].index)
        headers = [join for join in missed if _latches_part(function, join)]
        if not headers:
            break
        function = ordered(_with_latch(function, headers[0]))
    return _without_uniform(function) if any(split_joins(function)) else function


def unordered(function: Function) -> Function:
    """The same function, its blocks in the order they are in; what that costs is what `layout` saves."""
    function = tidy(function)
    return _without_uniform(function) if any(split_joins(function)) else function


def reconverges(function: Function) -> bool:
    """Whether lanes that a branch divides meet again where they can, once the function is laid out."""
    return not any(split_joins(layout(function)))


def tidy(function: Function) -> Function:
    """Without empty blocks, without branches that go one way, and with straight lines in one block."""
    blocks = {block.label: block for block in function.blocks}
    entry = function.blocks[0].label
    forward = {}
    for block in function.blocks[1:]:
        if not block.instructions and isinstance(block.terminator, Jump):
            forward[block.label] = block.terminator.target
    final = {label: _follow(label, forward) for label in forward}
    for label, block in blocks.items():
        terminator = with_targets(block.terminator, final)
        if isinstance(terminator, Branch) and terminator.taken == terminator.otherwise:
            terminator = Jump(terminator.taken, terminator.source)
        blocks[label] = replace(block, terminator=terminator)
    cfg = Cfg(function.with_blocks(list(blocks.values())))
    kept = {label: block for label, block in blocks.items() if label in cfg.reachable}
    for label in cfg.reverse_postorder:
        while label in kept and isinstance(kept[label].terminator, Jump):
            target = kept[label].terminator.targets[0]
            if target in (EXIT, label, entry) or _predecessors(kept.values(), target) != 1:
                break
            if kept[label].serial or kept[target].serial:
                break
            joined = kept.pop(target)
            kept[label] = Block(label, kept[label].instructions + joined.instructions, joined.terminator)
    return function.with_blocks(list(kept.values()))


def _follow(label: str, forward: dict[str, str]) -> str:
    """Where a chain of empty blocks leads; an empty endless loop leads to itself."""
    seen = {label}
    while label in forward and forward[label] not in seen:
        label = forward[label]
        seen.add(label)
    return label


def _predecessors(blocks: Iterable[Block], label: str) -> int:
    return sum(label in block.successors for block in blocks)


def ordered(function: Function) -> Function:
    """Topological order with loops in one piece, the entry first, and a branch's sides before their join."""
    cfg = Cfg(function)
    position = {label: index for index, label in enumerate(cfg.reverse_postorder)}
    graph = cfg.graph.subgraph(position).copy()
    for block in function.blocks:
        join = _join(cfg, block)
        if join in position:
            graph.add_edges_from((label, join) for label in cfg.between(block.successors, join))
    blocks = {block.label: block for block in function.blocks}
    return function.with_blocks([blocks[label] for label in _order(graph, position)])


def _order(graph: "nx.DiGraph[str]", position: dict[str, int]) -> Iterator[str]:
    condensed = nx.condensation(graph)
    members: dict[int, set[str]] = {part: set(condensed.nodes[part]["members"]) for part in condensed}

    def first(part: int) -> int:
        return min(position[label] for label in members[part])

    for part in nx.lexicographical_topological_sort(condensed, key=first):
        header = min(members[part], key=position.__getitem__)
        if len(members[part]) == 1:
            yield header
            continue
        body = graph.subgraph(members[part]).copy()
        body.remove_edges_from(list(body.in_edges(header)))
        yield from _order(body, position)


def split_joins(function: Function) -> Iterator[str]:
    """Joins that lanes of a diverging branch would not reach together, with blocks in this order."""
    cfg = Cfg(function)
    position = {block.label: index for index, block in enumerate(function.blocks)}
    for block in function.blocks:
        join = _join(cfg, block)
        between = cfg.between(block.successors, join) | ({block.label} if block.serial else set())
        if join != EXIT and any(position[label] >= position[join] for label in between):
            yield join


def _join(cfg: Cfg, block: Block) -> str:
    """Where lanes that this block's branch divides meet again; EXIT for nowhere, or if it divides none."""
    return cfg.immediate_post_dominators.get(block.label, EXIT) if _may_diverge(block) else EXIT


def _may_diverge(block: Block) -> bool:
    """Whether lanes may go two ways here. Only what the block itself computes is looked at."""
    terminator = block.terminator
    if block.serial:
        return True
    if not isinstance(terminator, Branch) or terminator.taken == terminator.otherwise:
        return False
    uniform: set[Operand] = set()
    for item in block.instructions:
        if item.dest is None:
            continue
        uniform.discard(item.dest)
        if item.uniform or (writes_predicate(item.op) and all(_same(arg, uniform) for arg in item.operands)):
            uniform.add(item.dest)
    return terminator.predicate not in uniform


def _same(operand: Operand, uniform: set[Operand]) -> bool:
    """Whether an operand is equal in all lanes that run together."""
    if isinstance(operand, Special):
        return operand.name in UNIFORM_SPECIALS
    return isinstance(operand, LinkValue) or operand == TRUE or operand in uniform


def _latches(function: Function, header: str) -> list[str]:
    """Blocks with an edge back to `header`."""
    cfg = Cfg(function)
    return [label for label in cfg.predecessors[header] if label in cfg.reach[header]]


def _latches_part(function: Function, header: str) -> bool:
    """Whether lanes of a loop come back to `header` from several blocks, or from a serial one."""
    latches = _latches(function, header)
    return len(latches) > 1 or any(function.block(label).serial for label in latches)


def _with_latch(function: Function, header: str) -> Function:
    latches = _latches(function, header)
    label = f"{header}.latch"
    blocks = [
        replace(block, terminator=with_targets(block.terminator, {header: label}))
        if block.label in latches
        else block
        for block in function.blocks
    ]
    return function.with_blocks([*blocks, Block(label, (), Jump(header))])


def _without_uniform(function: Function) -> Function:
    return function.with_blocks(
        [
            replace(block, instructions=tuple(replace(item, uniform=False) for item in block.instructions))
            for block in function.blocks
        ]
    )
