"""Programs of a network: for each class of tokens a prefix that ends in a key, and a general suffix.

A class is what a one-hot group of the embedding's columns tells apart. The key is read by most of the memories whose
rows hold still while a program runs: rows that a *trace* (session.py) folds into a suffix of its own.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from runtime.sparse.encode import Encoder, Op, Pool, StateLayout
from runtime.sparse.flat import FlatNetwork
from runtime.sparse.network import MemoryPlace, Network
from runtime.sparse.specialise import Facts, KnownRows, Residue, initial_facts, specialise
from runtime.sparse.stable import Changing, Memo, Stable, changing, split

MOST_KEY_BITS = 8


@dataclass(frozen=True)
class Plan:
    """A class's programs: places in the code, and how many cells they have."""

    prefix: int
    prefix_cells: int
    suffix: int
    cells: int


@dataclass(frozen=True)
class ClassPlan:
    """What traces of a class start from: facts after the prefix, its numbering of cells, and what has changed in it."""

    facts: Facts
    numbers: dict[int, int]
    changing: Changing


@dataclass(frozen=True)
class Programs:
    """Everything the token loop needs but the launches' own memory."""

    classes: np.ndarray
    """Class of each token."""
    plans: tuple[Plan, ...]
    bases: tuple[ClassPlan, ...]
    key: tuple[int, ...]
    """Cells of the key."""
    history: tuple[int, ...]
    """Cells kept for later tokens."""
    layout: StateLayout
    code: np.ndarray
    tables: np.ndarray
    embedding: np.ndarray
    tokens: np.ndarray
    """Token of each output code."""
    end: int
    memory: MemoryPlace
    cells: int
    memos: int
    """Numbers of a launch's memos."""


def token_classes(embedding: np.ndarray) -> np.ndarray:
    """Class of each token: columns of which exactly one is 1 in every token, if there are such."""
    binary = [c for c in range(embedding.shape[1]) if set(np.unique(embedding[:, c])) == {0, 1}]
    by_size = sorted(binary, key=lambda c: (-int(embedding[:, c].sum()), c))
    for begin in by_size:
        group, covered = [begin], embedding[:, begin].astype(bool)
        for column in by_size:
            values = embedding[:, column].astype(bool)
            if not (values & covered).any():
                group.append(column)
                covered = covered | values
        if covered.all():
            return embedding[:, group].argmax(axis=1).astype(np.uint8)
    return np.zeros(len(embedding), dtype=np.uint8)


def choose_key(network: Network) -> tuple[tuple[int, ...], int]:
    """The cells that most memories' addresses are made of, MOST_KEY_BITS at most, and the first phase that reads them.

    Addresses count once for each column that they bring; those of one row have no input and count nothing.
    """
    votes: Counter[tuple[int, ...]] = Counter()
    begins: dict[tuple[int, ...], int] = {}
    for number, phase in enumerate(network.phases):
        for read in phase.reads:
            votes[read.address.inputs] += len(read.outputs)
            begins.setdefault(read.address.inputs, number)
    chosen: set[int] = set()
    first = len(network.phases)
    for inputs, _ in votes.most_common():
        early = set(inputs) | chosen
        if inputs and len(early) <= MOST_KEY_BITS and begins[inputs] <= first:
            chosen, first = early, begins[inputs]
    return tuple(sorted(chosen)), first


def _foldable(network: Network, key: tuple[int, ...]) -> tuple[int, ...]:
    """States of several rows, every read of which the key decides."""
    inputs: dict[int, set[tuple[int, ...]]] = {}
    for phase in network.phases:
        for read in phase.reads:
            inputs.setdefault(read.state, set()).add(read.address.inputs)
    return tuple(
        state for state, read in sorted(inputs.items()) if all(i and set(i) <= set(key) for i in read)
    )


class Compiler:
    """Makes the programs of a network."""

    def __init__(self, flat: FlatNetwork, pool: Pool, memos: int = 0) -> None:
        """`pool` holds what earlier programs of the network refer to; they have so many numbers in `memos`."""
        self.flat, self.network, self.pool = flat, flat.network, pool
        self.layout = StateLayout.of(self.network)
        self.key, self.first = choose_key(self.network)
        self.foldable = _foldable(self.network, self.key)
        self.guards = self._guards()
        self.history = tuple(sorted({cell.of for cell in self.network.cells if cell.tap}))
        self.memos = memos
        """Numbers of the memos so far."""
        self._memo_places: dict[tuple[object, ...], int] = {}

    def _guards(self) -> tuple[int, ...]:
        """Cells of the prefix that decide whether a foldable state is written."""
        forms = [self.network.states[state].enable for state in self.foldable]
        cells = {cell for form in forms for cell, _ in form.terms}
        return tuple(sorted(cell for cell in cells if -1 < self.flat.settled[cell] < self.first))

    def programs(self) -> Programs:
        classes = token_classes(self.network.embedding)
        words: list[int] = [0, 0]  # place 0 is no program
        plans, bases = [], []
        for number in range(int(classes.max()) + 1):
            plan, base = self._class(self.network.embedding[classes == number], words)
            plans.append(plan)
            bases.append(base)
        code = np.array(words, dtype=np.int32)
        network = self.network
        return Programs(
            classes, tuple(plans), tuple(bases), self.key, self.history, self.layout, code, self.pool.array(),
            network.embedding, network.tokens, network.end, network.memory, len(network.cells),
            self.memos,
        )  # fmt: skip

    def _class(self, embedding: np.ndarray, words: list[int]) -> tuple[Plan, ClassPlan]:
        ends = zip(embedding.min(axis=0).tolist(), embedding.max(axis=0).tolist(), strict=True)
        start = initial_facts(self.flat, dict(zip(self.network.inputs, ends, strict=True)))
        middle = specialise(self.flat, start, 0, self.first, set(), {}).facts
        suffix = self.suffix(middle, {})
        early = {cell for cell in suffix.needed if self.flat.settled[cell] < self.first}
        roots = (
            early
            | set(self.key)
            | set(self.guards)
            | {c for c in self.history if self.flat.settled[c] < self.first}
        )
        prefix = specialise(self.flat, start, 0, self.first, roots, {})
        encoder = self.encoder()
        self._prefix(encoder, prefix, roots)
        begin = len(words)
        words += encoder.words
        numbers = dict(encoder.numbers)
        cells = encoder.count
        encoder.words = []
        changed = changing(prefix, self._different(start))
        self.write_suffix(encoder, suffix, changed)
        plan = Plan(begin, cells, len(words), encoder.count)
        words += encoder.words
        return plan, ClassPlan(middle, numbers, changed)

    def _different(self, start: Facts) -> set[int]:
        """Cells that need not begin a token as they began the one before: the embedding's, and earlier tokens'."""
        taps = {cell for cell, item in enumerate(self.network.cells) if item.tap}
        return taps.union(cell for cell in self.network.inputs if start.value(cell) is None)

    def _prefix(self, encoder: Encoder, residue: Residue, roots: set[int]) -> None:
        facts = residue.facts
        needed = residue.needed | {cell for cell in roots if facts.value(cell) is None}
        inputs = enumerate(self.network.inputs)
        encoder.section(Op.INPUT, ([column, encoder.cell(cell)] for column, cell in inputs if cell in needed))
        taps = [(c, self.network.cells[c]) for c in sorted(needed) if self.network.cells[c].tap]
        count = len(self.history)
        encoder.section(
            Op.TAP, ([tap.tap * count + self.history.index(tap.of), encoder.cell(c)] for c, tap in taps)
        )
        encoder.residue(residue)
        for cell in sorted(needed):
            encoder.cell(cell)
        self._keep(encoder, facts, early=True)
        encoder.sum_of_bits(Op.KEY, self.key, facts)

    def encoder(self) -> Encoder:
        """An encoder over the compiler's tables, with no cells yet."""
        return Encoder(self.network, self.layout, self.pool)

    def suffix(self, facts: Facts, known: KnownRows) -> Residue:
        """The phases after the prefix."""
        roots = set(self.network.outputs) | {c for c in self.history if self.flat.settled[c] >= self.first}
        return specialise(self.flat, facts, self.first, len(self.network.phases), roots, known)

    def write_suffix(self, encoder: Encoder, residue: Residue, before: Changing) -> None:
        """`before`: what may have changed in the prefix."""
        part, rest = split(residue, before)
        encoder.residue(rest, None if part is None else self._memo(part))
        self._keep(encoder, residue.facts, early=False)
        encoder.sum_of_bits(Op.CODE, self.network.outputs, residue.facts)

    def _memo(self, part: Stable) -> Memo:
        """The part with the place of its memo, which parts that are alike share."""
        place = self._memo_places.setdefault(part.content, self.memos)
        if place == self.memos:
            self.memos += part.words
        return Memo(part, place)

    def _keep(self, encoder: Encoder, facts: Facts, *, early: bool) -> None:
        records = []
        for place, cell in enumerate(self.history):
            if (self.flat.settled[cell] < self.first) == early:
                value = facts.value(cell)
                records.append([place, encoder.cell(cell), 0] if value is None else [place, -1, value])
        encoder.section(Op.KEEP, records)
