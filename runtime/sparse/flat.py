"""A network's nodes as arrays, a set for each phase, for evaluating all of them at once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from runtime.sparse.network import Form, Network, Node, Phase


def ragged(lengths: np.ndarray) -> np.ndarray:
    """Start of each of consecutive parts of the given lengths, and the end of the last."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


@dataclass(frozen=True)
class Forms:
    """Many forms at once: form i is constant[i] + the sum of its terms start[i] .. start[i + 1]."""

    start: np.ndarray
    cells: np.ndarray
    factors: np.ndarray
    constants: np.ndarray

    @classmethod
    def of(cls, forms: list[Form]) -> "Forms":
        terms = [term for form in forms for term in form.terms]
        table = np.array(terms, dtype=np.int64).reshape(-1, 2)
        start = ragged(np.array([len(form.terms) for form in forms], dtype=np.int64))
        return cls(
            start, table[:, 0], table[:, 1], np.array([form.constant for form in forms], dtype=np.int64)
        )

    @cached_property
    def owner(self) -> np.ndarray:
        """The form each term belongs to."""
        return np.repeat(np.arange(len(self.constants)), np.diff(self.start))

    def ranges(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Least and greatest value of each form, given those of all cells."""
        at_low, at_high = self.factors * low[self.cells], self.factors * high[self.cells]
        count = len(self.constants)
        least = np.bincount(self.owner, weights=np.minimum(at_low, at_high), minlength=count)
        most = np.bincount(self.owner, weights=np.maximum(at_low, at_high), minlength=count)
        return least.astype(np.int64) + self.constants, most.astype(np.int64) + self.constants


@dataclass(frozen=True)
class FlatNodes:
    """The nodes of a phase. `first` and `last`: table rows outside first..last are all zero."""

    forms: Forms
    first: np.ndarray
    last: np.ndarray
    sums: np.ndarray
    """[node, column, cell] of each sum."""
    sum_low: np.ndarray
    sum_high: np.ndarray
    products: np.ndarray
    """[node, column, cell, weight] of each product."""
    ups: Forms
    gate_low: np.ndarray
    gate_high: np.ndarray
    """Least and greatest of each product's gate times weight."""

    @classmethod
    def of(cls, nodes: tuple[Node, ...]) -> "FlatNodes":
        sums = [(n, column, cell) for n, node in enumerate(nodes) for column, cell in node.sums]
        products = [
            (n, column, cell, weight)
            for n, node in enumerate(nodes)
            for column, cell, weight, _ in node.products
        ]
        ends = [_ends(node.table) for node in nodes]
        sum_ends = _column_ends(nodes, [(n, column, 1) for n, column, _ in sums])
        gate_ends = _column_ends(nodes, [(n, column, weight) for n, column, _, weight in products])
        return cls(
            Forms.of([Form(node.terms, -node.low) for node in nodes]),
            np.array([first for first, _ in ends], dtype=np.int64),
            np.array([last for _, last in ends], dtype=np.int64),
            np.array(sums, dtype=np.int64).reshape(-1, 3),
            *sum_ends,
            np.array(products, dtype=np.int64).reshape(-1, 4),
            Forms.of([up for node in nodes for *_, up in node.products]),
            *gate_ends,
        )


def _ends(table: np.ndarray) -> tuple[int, int]:
    rows = np.flatnonzero(table.any(axis=1))
    return (int(rows[0]), int(rows[-1])) if len(rows) else (len(table), -1)


def _column_ends(
    nodes: tuple[Node, ...], places: list[tuple[int, int, int]]
) -> tuple[np.ndarray, np.ndarray]:
    least, most = [], []
    for n, column, weight in places:
        values = nodes[n].table[:, column] * weight
        least.append(min(0, int(values.min())))
        most.append(max(0, int(values.max())))
    return np.array(least, dtype=np.int64), np.array(most, dtype=np.int64)


@dataclass(frozen=True)
class FlatNetwork:
    """A network with its nodes as arrays. `settled[cell]` is the phase that adds to it last, -1 for inputs."""

    network: Network
    nodes: tuple[FlatNodes, ...]
    low: np.ndarray
    high: np.ndarray
    settled: np.ndarray

    @classmethod
    def of(cls, network: Network) -> "FlatNetwork":
        settled = np.full(len(network.cells), -1, dtype=np.int64)
        for number, phase in enumerate(network.phases):
            settled[list(written(phase))] = number
        return cls(
            network,
            tuple(FlatNodes.of(phase.nodes) for phase in network.phases),
            np.array([cell.low for cell in network.cells], dtype=np.int64),
            np.array([cell.high for cell in network.cells], dtype=np.int64),
            settled,
        )


def written(phase: Phase) -> set[int]:
    """The cells that a phase adds to."""
    cells = {cell for read in phase.reads for _, cell in read.outputs}
    cells |= {age.cell for age in phase.ages} | {link.cell for link in phase.links}
    for node in phase.nodes:
        cells |= {cell for _, cell in node.sums} | {cell for _, cell, _, _ in node.products}
    return cells
