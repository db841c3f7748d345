"""The control-flow graph of a function, with its dominators, post-dominators and loops (networkx)."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import networkx as nx

from toolchain.mir.ir import EXIT, Function


@dataclass(frozen=True)
class Cfg:
    """Views of one function's graph. Nodes are labels; EXIT is a node of its own."""

    function: Function

    @cached_property
    def graph(self) -> "nx.DiGraph[str]":
        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(block.label for block in self.function.blocks)
        graph.add_node(EXIT)
        for block in self.function.blocks:
            graph.add_edges_from((block.label, target) for target in block.terminator.targets)
        return graph

    @property
    def entry(self) -> str:
        return self.function.blocks[0].label

    @cached_property
    def predecessors(self) -> dict[str, tuple[str, ...]]:
        """Labels of the blocks that lead to each block (and to EXIT), in block order."""
        found: dict[str, list[str]] = {block.label: [] for block in self.function.blocks}
        found[EXIT] = []
        for block in self.function.blocks:
            for target in dict.fromkeys(block.terminator.targets):
                found[target].append(block.label)
        return {label: tuple(labels) for label, labels in found.items()}

    @cached_property
    def reachable(self) -> frozenset[str]:
        return frozenset(nx.descendants(self.graph, self.entry) | {self.entry}) - {EXIT}

    @cached_property
    def reverse_postorder(self) -> tuple[str, ...]:
        """Reachable labels, each before its successors except along back edges."""
        order = [label for label in nx.dfs_postorder_nodes(self.graph, self.entry) if label != EXIT]
        return tuple(reversed(order))

    @cached_property
    def immediate_dominators(self) -> dict[str, str]:
        """Each reachable label's immediate dominator; the entry has none."""
        idom = nx.immediate_dominators(self.graph, self.entry)
        return {label: parent for label, parent in idom.items() if parent is not None and label != self.entry}

    @cached_property
    def immediate_post_dominators(self) -> dict[str, str]:
        """Each label's immediate post-dominator, for labels from which the lane can exit."""
        idom = nx.immediate_dominators(self.graph.reverse(copy=False), EXIT)
        return {label: parent for label, parent in idom.items() if parent is not None and label != EXIT}

    def dominates(self, a: str, b: str) -> bool:
        """Whether every path from the entry to b passes a."""
        while b != a:
            if b not in self.immediate_dominators:
                return False
            b = self.immediate_dominators[b]
        return True

    @cached_property
    def reach(self) -> dict[str, frozenset[str]]:
        """For each label, the labels that can run after it or are it (EXIT left out)."""
        return {
            label: frozenset(nx.descendants(self.graph, label) | {label}) - {EXIT} for label in self.graph
        }

    def between(self, starts: Iterable[str], join: str) -> frozenset[str]:
        """The labels that can run from `starts` on before `join`, EXIT left out."""
        found: set[str] = set()
        work = list(starts)
        while work:
            label = work.pop()
            if label not in (join, EXIT) and label not in found:
                found.add(label)
                work += self.graph.successors(label)
        return frozenset(found)

    @cached_property
    def cyclic(self) -> frozenset[str]:
        """Labels that can run more than once in a lane."""
        parts = nx.strongly_connected_components(self.graph)
        loops = (part for part in parts if len(part) > 1 or any(self.graph.has_edge(n, n) for n in part))
        return frozenset(label for part in loops for label in part)

    @cached_property
    def depth(self) -> dict[str, int]:
        """Natural loops around each label."""
        depth = dict.fromkeys(self.reachable, 0)
        for header in self.reachable:
            latches = [
                p for p in self.predecessors[header] if p in self.reachable and self.dominates(header, p)
            ]
            for label in self._loop_body(header, latches) if latches else ():
                depth[label] += 1
        return depth

    def _loop_body(self, header: str, latches: list[str]) -> set[str]:
        body, work = {header}, list(latches)
        while work:
            label = work.pop()
            if label not in body:
                body.add(label)
                work += [p for p in self.predecessors[label] if p in self.reachable]
        return body
