"""Partial evaluation: what is left of a network for one kind of token, and for memory rows that are known.

Forward through the phases every cell has an interval. A node whose form cannot reach a table row that is not zero is
gone; one whose form is known adds a constant; what is multiplied by a known gate is a linear term. Then backward: what
feeds no output, no memory and no later token is gone too.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from runtime.sparse.flat import FlatNetwork, FlatNodes
from runtime.sparse.network import NO_ROW, SEVERAL, Address, Age, Column, Form, Phase, Read


@dataclass(frozen=True)
class LiveNode:
    """table[form of terms + base] of node `index`; base counts the constant part of what is known."""

    index: int
    terms: tuple[tuple[int, int], ...]
    base: int
    sums: tuple[tuple[int, int], ...]
    products: tuple[tuple[int, int, int, Form], ...]


@dataclass(frozen=True)
class LiveWrite:
    state: int
    enable: Form
    address: Address
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class LivePhase:
    """What is left of a phase, in the order in which it runs. Forms read no cell that is known."""

    number: int
    wipes: tuple[tuple[int, Form], ...] = ()
    writes: tuple[LiveWrite, ...] = ()
    ages: tuple[Age, ...] = ()
    reads: tuple[Read, ...] = ()
    nodes: tuple[LiveNode, ...] = ()
    links: tuple[tuple[int, Form], ...] = ()


@dataclass
class Facts:
    """What is known of every cell: an interval."""

    low: np.ndarray
    high: np.ndarray

    def value(self, cell: int) -> int | None:
        low = int(self.low[cell])
        return low if low == int(self.high[cell]) else None

    def fold(self, form: Form) -> Form:
        """The form without what is known."""
        terms, constant = [], form.constant
        for cell, factor in form.terms:
            value = self.value(cell)
            if value is None:
                terms.append((cell, factor))
            else:
                constant += factor * value
        return Form(tuple(terms), constant)

    def range(self, form: Form) -> tuple[int, int]:
        low = high = form.constant
        for cell, factor in form.terms:
            ends = factor * int(self.low[cell]), factor * int(self.high[cell])
            low, high = low + min(ends), high + max(ends)
        return low, high

    def address(self, address: Address) -> Address:
        """The address without inputs that are known."""
        inputs, rows = list(address.inputs), np.array(address.rows)
        for place in reversed(range(len(inputs))):
            value = self.value(inputs[place])
            if value is not None:
                rows = rows.reshape(-1, 2, 1 << place)[:, value].reshape(-1)
                del inputs[place]
        return Address(tuple(inputs), tuple(rows.tolist()))


KnownRows = Mapping[int, np.ndarray]
"""State -> its rows, [row, column], which are known not to change."""


@dataclass
class _Forward:
    """Phases first .. last - 1 with intervals. Results are kept for the backward pass."""

    flat: FlatNetwork
    facts: Facts
    known: KnownRows
    constants: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Constant part of each cell that something is added to."""

    def run(self, first: int, last: int) -> list[LivePhase]:
        return [self._phase(number) for number in range(first, last)]

    def _phase(self, number: int) -> LivePhase:
        phase = self.flat.network.phases[number]
        wipes, writes = self._writes(phase)
        ages = tuple(self._age(age) for age in phase.ages)
        reads = [read for read in map(self._read, phase.reads) if read is not None]
        links = [(link.cell, self.facts.fold(link.form)) for link in phase.links]
        for cell, form in links:
            self._add(cell, *self.facts.range(form))
        nodes, products = self._nodes(number) if phase.nodes else ([], [])
        self._settle(number)
        return LivePhase(number, wipes, writes, ages, tuple(reads), tuple(nodes), (*links, *products))

    def _add(self, cell: int, low: int, high: int) -> None:
        self.facts.low[cell] += low
        self.facts.high[cell] += high

    def _settle(self, number: int) -> None:
        """Cells that are whole now keep to their promised range as well."""
        done = self.flat.settled == number
        facts, flat = self.facts, self.flat
        facts.low[done] = np.maximum(facts.low[done], flat.low[done])
        facts.high[done] = np.minimum(facts.high[done], flat.high[done])

    # --- heads

    def _writes(self, phase: Phase) -> tuple[tuple[tuple[int, Form], ...], tuple[LiveWrite, ...]]:
        wipes, writes = [], []
        for write in phase.writes:
            state = self.flat.network.states[write.state]
            if state.wipe is not None and self.facts.range(state.wipe)[1] >= 0:
                wipes.append((write.state, self.facts.fold(state.wipe)))
            address = self.facts.address(state.address)
            if self.facts.range(state.enable)[1] >= 0 and any(row != NO_ROW for row in address.rows):
                columns = tuple(self._column(column) for column in write.columns)
                writes.append(LiveWrite(write.state, self.facts.fold(state.enable), address, columns))
        return tuple(wipes), tuple(writes)

    def _column(self, column: Column) -> Column:
        return Column(tuple((weight, self.facts.fold(form)) for weight, form in column.parts))

    def _age(self, age: Age) -> Age:
        self._add(age.cell, int(self.flat.low[age.cell]), int(self.flat.high[age.cell]))
        return Age(self.facts.fold(age.event), self.facts.fold(age.step), age.cell)

    def _read(self, read: Read) -> Read | None:
        """What is left of a read; a known row's columns are constants."""
        if read.every is not None:
            gate = self.facts.fold(read.every)
            if self.facts.range(gate)[1] < 0:
                return None
            self._unknown(read)
            return Read(read.state, read.address, read.outputs, gate, read.anchor)
        address = self.facts.address(read.address)
        if set(address.rows) == {NO_ROW}:
            return None
        rows = self.known.get(read.state)
        if rows is not None and not address.inputs and address.rows[0] != SEVERAL and read.anchor is None:
            for column, cell in read.outputs:
                value = int(rows[address.rows[0], column])
                self.constants[cell] += value
                self._add(cell, value, value)
            return None
        self._unknown(read)
        return Read(read.state, address, read.outputs, None, read.anchor)

    def _unknown(self, read: Read) -> None:
        """A read brings something of the cell's range."""
        for _, cell in read.outputs:
            self._add(cell, min(0, int(self.flat.low[cell])), max(0, int(self.flat.high[cell])))

    # --- nodes

    def _nodes(self, number: int) -> tuple[list[LiveNode], list[tuple[int, Form]]]:
        flat, facts = self.flat.nodes[number], self.facts
        least, most = flat.forms.ranges(facts.low, facts.high)
        open_ = (most >= flat.first) & (least <= flat.last)
        known = open_ & (least == most)
        live = open_ & ~known
        links = self._known_nodes(number, flat, known, least)
        self._add_ranges(flat, live)
        return self._live_nodes(number, flat, live), links

    def _known_nodes(
        self, number: int, flat: FlatNodes, known: np.ndarray, values: np.ndarray
    ) -> list[tuple[int, Form]]:
        """Nodes whose table row is known: constants, and linear terms of what they gate."""
        nodes, links = self.flat.network.phases[number].nodes, []
        for index in np.flatnonzero(known).tolist():
            node, row = nodes[index], nodes[index].table[values[index]]
            for column, cell in node.sums:
                value = int(row[column])
                self.constants[cell] += value
                self._add(cell, value, value)
            for column, cell, weight, up in node.products:
                factor = int(row[column]) * weight
                if factor:
                    scaled = Form(tuple((c, f * factor) for c, f in up.terms), up.constant * factor)
                    links.append((cell, self.facts.fold(scaled)))
                    self._add(cell, *self.facts.range(scaled))
        return links

    def _add_ranges(self, flat: FlatNodes, live: np.ndarray) -> None:
        facts = self.facts
        chosen = live[flat.sums[:, 0]]
        np.add.at(facts.low, flat.sums[chosen, 2], flat.sum_low[chosen])
        np.add.at(facts.high, flat.sums[chosen, 2], flat.sum_high[chosen])
        if not len(flat.products):
            return
        chosen = live[flat.products[:, 0]]
        up_low, up_high = flat.ups.ranges(facts.low, facts.high)
        ends = np.stack([gate * up for gate in (flat.gate_low, flat.gate_high) for up in (up_low, up_high)])[
            :, chosen
        ]
        np.add.at(facts.low, flat.products[chosen, 2], np.minimum(ends.min(axis=0), 0))
        np.add.at(facts.high, flat.products[chosen, 2], np.maximum(ends.max(axis=0), 0))

    def _live_nodes(self, number: int, flat: FlatNodes, live: np.ndarray) -> list[LiveNode]:
        nodes, low, high = self.flat.network.phases[number].nodes, self.facts.low, self.facts.high
        forms = flat.forms
        fixed = low[forms.cells] == high[forms.cells]
        count = len(forms.constants)
        weights = np.where(fixed, forms.factors * low[forms.cells], 0)
        bases = (forms.constants + np.bincount(forms.owner, weights=weights, minlength=count)).astype(
            np.int64
        )
        result = []
        for index in np.flatnonzero(live).tolist():
            node, start = nodes[index], int(forms.start[index])
            terms = tuple(term for place, term in enumerate(node.terms) if not fixed[start + place])
            products = tuple((a, cell, w, self.facts.fold(up)) for a, cell, w, up in node.products)
            products = tuple(item for item in products if item[3] != Form())
            result.append(LiveNode(index, terms, int(bases[index]), node.sums, products))
        return result


class _Backward:
    """Keeps what is needed. `needed[cell]` grows from the roots."""

    def __init__(self, roots: set[int], count: int) -> None:
        self.needed = np.zeros(count, dtype=bool)
        self.needed[list(roots)] = True

    def run(self, phases: list[LivePhase]) -> list[LivePhase]:
        return [self._phase(phase) for phase in reversed(phases)][::-1]

    def _phase(self, phase: LivePhase) -> LivePhase:
        needed = self.needed
        nodes = [self._node(node) for node in phase.nodes]
        nodes = [node for node in nodes if node.sums or node.products]
        links = [(cell, form) for cell, form in phase.links if needed[cell] and form.terms]
        reads = [self._read(read) for read in phase.reads]
        reads = [read for read in reads if read.outputs]
        for node in nodes:
            self._use(node.terms)
            for *_, up in node.products:
                self._use(up.terms)
        for _, form in links:
            self._use(form.terms)
        for read in reads:
            needed[list(read.address.inputs)] = True
            self._use(read.every.terms if read.every else ())
        for write in phase.writes:
            self._use(write.enable.terms)
            needed[list(write.address.inputs)] = True
            for column in write.columns:
                for _, form in column.parts:
                    self._use(form.terms)
        for _, form in phase.wipes:
            self._use(form.terms)
        for age in phase.ages:
            self._use((*age.event.terms, *age.step.terms))
        return LivePhase(
            phase.number, phase.wipes, phase.writes, phase.ages, tuple(reads), tuple(nodes), tuple(links)
        )

    def _use(self, terms: tuple[tuple[int, int], ...]) -> None:
        for cell, _ in terms:
            self.needed[cell] = True

    def _node(self, node: LiveNode) -> LiveNode:
        needed = self.needed
        sums = tuple(item for item in node.sums if needed[item[1]])
        products = tuple(item for item in node.products if needed[item[1]])
        return LiveNode(node.index, node.terms, node.base, sums, products)

    def _read(self, read: Read) -> Read:
        outputs = tuple(item for item in read.outputs if self.needed[item[1]])
        return Read(read.state, read.address, outputs, read.every, read.anchor)


@dataclass(frozen=True)
class Residue:
    """What is left of phases first .. last - 1.

    `constants`: what a needed cell holds before anything is added. `needed`: cells that are read, those of earlier
    phases and of the embedding among them. `facts`: what is known after the last phase. `roots`: what it was for.
    """

    phases: tuple[LivePhase, ...]
    constants: dict[int, int]
    needed: frozenset[int]
    facts: Facts
    roots: frozenset[int]


def specialise(
    flat: FlatNetwork, facts: Facts, first: int, last: int, roots: set[int], known: KnownRows
) -> Residue:
    """Phases first .. last - 1 under `facts`, which hold for the cells of earlier phases and are not changed."""
    facts = Facts(facts.low.copy(), facts.high.copy())
    forward = _Forward(flat, facts, known)
    phases = forward.run(first, last)
    unknown = {cell for cell in roots if facts.value(cell) is None}
    backward = _Backward(unknown, len(flat.low))
    kept = backward.run(phases)
    needed = frozenset(np.flatnonzero(backward.needed).tolist())
    constants = {c: value for c, value in forward.constants.items() if value and c in needed}
    for phase in phases:  # links of constants
        for cell, form in phase.links:
            if not form.terms and form.constant and cell in needed:
                constants[cell] = constants.get(cell, 0) + form.constant
    return Residue(tuple(kept), constants, needed, facts, frozenset(roots))


def initial_facts(flat: FlatNetwork, inputs: Mapping[int, tuple[int, int]]) -> Facts:
    """Nothing is added yet: inputs and earlier tokens' cells have a range, all others are 0."""
    low, high = np.zeros_like(flat.low), np.zeros_like(flat.high)
    for index, cell in enumerate(flat.network.cells):
        if cell.tap:
            low[index], high[index] = cell.low, cell.high
    for index, (least, most) in inputs.items():
        low[index], high[index] = least, most
    return Facts(low, high)
