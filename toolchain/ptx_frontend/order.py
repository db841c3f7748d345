"""The order in which diverged lanes run: a program counter for every basic block of a PTX function.

The lanes at the smallest program counter run. PTX promises nothing about the order of its blocks, so counters
follow the control flow instead of the text: a topological order in which every loop is contiguous. Then the
lanes that are ahead wait at the post-dominator of the branch until the last one comes.
"""

from dataclasses import dataclass

import networkx as nx

from toolchain.ptx_frontend.ast import Function, Instruction, Label, Symbol


@dataclass(frozen=True)
class Code:
    """Instructions in running order. `targets` gives a label's position; `following` where control falls
    through.
    """

    instructions: tuple[Instruction, ...]
    targets: dict[str, int]
    following: tuple[int, ...]


@dataclass
class _Block:
    labels: list[str]
    instructions: list[Instruction]


TERMINATORS = frozenset({"bra", "ret", "exit", "brx", "trap"})


def layout(function: Function) -> Code:
    """The body of `function` in running order. A position past the end means the thread has exited."""
    blocks = _blocks(function)
    by_label = {label: index for index, block in enumerate(blocks) for label in block.labels}
    tables = {table.name: table.labels for table in function.tables}
    graph: nx.DiGraph = nx.DiGraph()
    graph.add_nodes_from(range(len(blocks)))
    for index, block in enumerate(blocks):
        graph.add_edges_from(
            (index, target) for target in _successors(block, index, by_label, tables, len(blocks))
        )
    reachable = {0} | nx.descendants(graph, 0)
    order = _order(graph.subgraph(reachable), 0)
    start, position = {}, 0
    for index in order:
        start[index] = position
        position += len(blocks[index].instructions)
    instructions = [item for index in order for item in blocks[index].instructions]
    for index in reversed(range(len(blocks))):
        if index in start and not blocks[index].instructions:
            start[index] = start.get(index + 1, len(instructions))
    following = []
    for index in order:
        count = len(blocks[index].instructions)
        following += range(start[index] + 1, start[index] + count)
        if count:
            following.append(start.get(index + 1, len(instructions)))
    targets = {label: start[index] for label, index in by_label.items() if index in start}
    return Code(tuple(instructions), targets, tuple(following))


def _blocks(function: Function) -> list[_Block]:
    blocks = [_Block([], [])]
    for item in function.body:
        if isinstance(item, Label):
            if blocks[-1].instructions:
                blocks.append(_Block([], []))
            blocks[-1].labels.append(item.name)
            continue
        blocks[-1].instructions.append(item)
        if item.opcode in TERMINATORS:
            blocks.append(_Block([], []))
    return blocks


def _successors(
    block: _Block, index: int, by_label: dict[str, int], tables: dict[str, tuple[str, ...]], count: int
) -> list[int]:
    last = block.instructions[-1] if block.instructions else None
    targets: list[str] = []
    if last is not None and last.opcode == "bra":
        targets = [operand.name for operand in last.operands if isinstance(operand, Symbol)]
    elif last is not None and last.opcode == "brx":
        targets = [
            label
            for operand in last.operands
            if isinstance(operand, Symbol)
            for label in tables[operand.name]
        ]
    successors = [by_label[target] for target in targets]
    ends = last is not None and last.opcode in TERMINATORS and last.guard is None
    if not ends and index + 1 < count:
        successors.append(index + 1)
    return successors


def _order(graph: nx.DiGraph, entry: int) -> list[int]:
    """Topological order of the strongly connected components; in each, again, less its back edges."""
    components = [sorted(component) for component in nx.strongly_connected_components(graph)]
    of = {node: index for index, component in enumerate(components) for node in component}
    condensed: nx.DiGraph = nx.DiGraph()
    condensed.add_nodes_from(range(len(components)))
    condensed.add_edges_from((of[a], of[b]) for a, b in graph.edges if of[a] != of[b])
    order: list[int] = []
    for index in nx.lexicographical_topological_sort(condensed, key=lambda index: components[index][0]):
        component = components[index]
        if len(component) == 1:
            order += component
            continue
        inside = set(component)
        entered = [
            node
            for node in component
            if node == entry or any(p not in inside for p in graph.predecessors(node))
        ]
        header = entry if entry in inside else entered[0]
        inner = nx.DiGraph(graph.subgraph(component))
        inner.remove_edges_from([(node, header) for node in list(inner.predecessors(header))])
        order += [header, *(node for node in _order(inner, header) if node != header)]
    return order
