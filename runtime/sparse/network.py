"""What a checkpoint's tensors compute on integers: the network's grammar.

    Network = (cells: Cell*, phases: Phase*, embedding, output)
    Phase   = (wipes, writes, reads, ages, nodes, links)      a layer's heads, or its MLP

A *cell* is a residual slot from one erasure to the next: an integer of a known range, written before it is read.
Where a slot goes on after it has been read, a *link* takes its value to a new cell. Cells of earlier tokens (the
convolution's taps) are cells of their own.
"""

from dataclasses import dataclass

import numpy as np


class NotExactError(Exception):
    """The tensors hold something that is not integer arithmetic; says where and what."""


@dataclass(frozen=True)
class Cell:
    """Low .. high of an integer; `tap` > 0: what cell `of` held that many tokens ago."""

    low: int
    high: int
    tap: int = 0
    of: int = -1


@dataclass(frozen=True)
class Form:
    """constant + sum of coefficient * cell; terms sorted by cell."""

    terms: tuple[tuple[int, int], ...] = ()
    constant: int = 0


@dataclass(frozen=True)
class Address:
    """Which row: rows[sum of 2**i * inputs[i]]; NO_ROW where none is selected, SEVERAL where more than one is."""

    inputs: tuple[int, ...]
    rows: tuple[int, ...]


NO_ROW, SEVERAL = -1, -2


@dataclass(frozen=True)
class Column:
    """One stored integer: sum of weight * relu(form)."""

    parts: tuple[tuple[int, Form], ...]


@dataclass(frozen=True)
class State:
    """A head's memory, or that of several heads which write alike: rows of integer columns, zero at first.

    Written where `enable` is at least 0; `wipe` (all rows become 0 where it is at least 0) comes before.
    """

    enable: Form
    address: Address
    wipe: Form | None
    rows: int


@dataclass(frozen=True)
class Write:
    """`columns` of a state's selected row take new values."""

    state: int
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Read:
    """cell += column of the selected row; with `every`, of the sum of all rows where `gate` is at least 0."""

    state: int
    address: Address
    outputs: tuple[tuple[int, int], ...]
    """(column, cell)"""
    every: Form | None = None
    anchor: int | None = None
    """Column that says whether the row carries the norm's ballast; else every written row does."""


@dataclass(frozen=True)
class Age:
    """cell = tokens since `event` was at least 0: 0 in that token, then more by `step` each, MOST at most."""

    event: Form
    step: Form
    cell: int


MOST_AGE = 100
HALF_RANGE = 1 << 15
"""Tables and states hold integers of -HALF_RANGE .. HALF_RANGE - 1."""


@dataclass(frozen=True)
class Node:
    """Hidden units whose gates are one linear form of cells: tables over the form's value.

    cell += table[form - low, column] for each of `sums`; for each of `products` that times weight * up.
    """

    terms: tuple[tuple[int, int], ...]
    low: int
    table: np.ndarray
    """[values of the form, columns], int32"""
    sums: tuple[tuple[int, int], ...]
    """(column, cell)"""
    products: tuple[tuple[int, int, int, Form], ...]
    """(column, cell, weight, up)"""


@dataclass(frozen=True)
class Link:
    """cell += form."""

    cell: int
    form: Form


@dataclass(frozen=True)
class Phase:
    """What one half-layer does; everything reads what was there before it, reads see the phase's own writes."""

    writes: tuple[Write, ...] = ()
    reads: tuple[Read, ...] = ()
    ages: tuple[Age, ...] = ()
    nodes: tuple[Node, ...] = ()
    links: tuple[Link, ...] = ()


MemoryPlace = tuple[int, tuple[tuple[int, tuple[tuple[int, int], ...]], ...]]
"""A state, and of its columns the (value dimension, weight)* that each is the sum of."""


@dataclass(frozen=True)
class Network:
    """A whole checkpoint.

    `inputs[i]` is the cell of the embedding's column i; `embedding[token, i]` its value. The next token is
    tokens[sum of 2**i * outputs[i]], NO_TOKEN where no token has that code.
    """

    cells: tuple[Cell, ...]
    states: tuple[State, ...]
    phases: tuple[Phase, ...]
    inputs: tuple[int, ...]
    embedding: np.ndarray
    outputs: tuple[int, ...]
    tokens: np.ndarray
    end: int
    memory: MemoryPlace


NO_TOKEN = -1
