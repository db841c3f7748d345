"""Linear orders of a block's graph, for the cutter to try: each node after what it needs."""

from collections.abc import Iterator
from random import Random

from toolchain.mir.schedule_dag import Dag
from toolchain.mir.schedule_pack import latency

NAMED_ORDERS = 4
RANDOM_ORDERS = 24
RANDOM_ORDER_NODES = 60
"""Blocks of more nodes get only the named orders."""


def orders(dag: Dag) -> Iterator[tuple[int, ...]]:
    """Program order, depth first from each result, critical path and both; then random ones. Some may be equal."""
    count = len(dag.nodes)
    before = _precedence(dag)
    height = _heights(dag)
    rank = _depth_first(dag)
    yield _topological(before, list(range(count)))
    yield _topological(before, [rank[i] for i in range(count)])
    yield _topological(before, [-height[i] * count + i for i in range(count)])
    yield _topological(before, [-height[i] * count + rank[i] for i in range(count)])
    if count > RANDOM_ORDER_NODES:
        return
    random = Random(0)
    for _ in range(RANDOM_ORDERS):
        jitter = [rank[i] + random.uniform(0, 6) for i in range(count)]
        yield _topological(before, jitter)


def _precedence(dag: Dag) -> list[set[int]]:
    """Nodes to come before each node. An output waits for readers of its register's old value."""
    before = [set(node.refs) | set(node.strict) | set(node.loose) for node in dag.nodes]
    for index, names in (*dag.output_registers.items(), *dag.output_flags.items()):
        for name in names:
            for reader in dag.readers.get(name, ()):
                if reader != index and not _reaches(before, index, reader):
                    before[index].add(reader)
    return before


def _heights(dag: Dag) -> list[int]:
    """Longest latency from each node to the end."""
    height = [0] * len(dag.nodes)
    for index in reversed(range(len(height))):
        node = dag.nodes[index]
        for ref in node.refs:
            height[ref] = max(height[ref], height[index] + latency(dag.nodes[ref], node))
    return height


def _depth_first(dag: Dag) -> list[int]:
    """Rank of each node when every result is computed whole, one after another."""
    rank: dict[int, int] = {}

    def visit(index: int) -> None:
        if index not in rank:
            for ref in sorted(dag.nodes[index].refs, reverse=True):
                visit(ref)
            rank[index] = len(rank)

    ends = [i for i in range(len(dag.nodes)) if not dag.users[i]]
    for index in (*ends, *range(len(dag.nodes))):
        visit(index)
    return [rank[index] for index in range(len(dag.nodes))]


def _topological(before: list[set[int]], priority: list[float] | list[int]) -> tuple[int, ...]:
    """Always the node of the lowest priority whose predecessors are done."""
    done: set[int] = set()
    order: list[int] = []
    waiting = sorted(range(len(before)), key=lambda index: (priority[index], index))
    while waiting:
        index = next(index for index in waiting if before[index] <= done)
        waiting.remove(index)
        done.add(index)
        order.append(index)
    return tuple(order)


def _reaches(before: list[set[int]], start: int, goal: int) -> bool:
    """Whether `start` must come before `goal` already."""
    work, seen = [goal], {goal}
    while work:
        for index in before[work.pop()]:
            if index == start:
                return True
            if index not in seen:
                seen.add(index)
                work.append(index)
    return False
