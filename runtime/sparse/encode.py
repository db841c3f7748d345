"""What partial evaluation leaves of a network as a program for the native executor: 32-bit words.

A program is a list of sections, `opcode, count` and then `count` records (KEY and CODE: one; TEST: count is 1).
`anchor` is a column, or -1.

    INPUT   column, cell                              cell = embedding[token, column]
    TAP     place, cell                               cell = history[place]
    SET     value, cell                               cell += value
    LINK    cell, constant, n, (cell, factor) * n     cell += the form
    NODE    n, base, first, length, table, columns, rows, sums, products, forms, (cell, factor) * n,
            (column, cell) * sums, (column, up, cell, weight) * products,
            forms times: column, cell, weight, m, constant, (cell, factor) * m
            row = base + the form; where row >= first: cell += table[row, column], and ... * weight * up, where
            up is a cell or a form
    STEP    n, base, first, length, sums, products, forms, (cell, factor) * n, (value, cell) * sums,
            (factor, up, cell) * products, forms times: factor, cell, m, constant, (cell, factor) * m
            where base + the form >= first: cell += value, and cell += factor * up
    READ    length, state, columns, n, rows, outputs, anchor, cell * n, (column, cell) * outputs
            row = rows[sum of 2**i * cell]; cell += state[row, column]
    EVERY   length, state, columns, rows, n, base, outputs, anchor, (cell, factor) * n, (column, cell) * outputs
            where base + the form >= 0: cell += the sum of all rows' column
    WRITE   length, state number, state, columns, n, base, inputs, rows, written, (cell, factor) * n, cell * inputs,
            then for each column: constant, n, (cell, factor) * n, ramps, and for each: weight, n, base,
            (cell, factor) * n; column = constant + the form + sum of weight * relu(base + its form)
    WIPE    state number, state, words, n, base, (cell, factor) * n
    AGE     counter, cell, n, base, m, step, (cell, factor) * n, (cell, factor) * m
    KEEP    place, cell or -1, value                  history[place] = cell, or value
    GUARD   cell, value                               ends with -1 where the cell is not value
    TEST    cell, value, length                       the next `length` words are skipped where the cell is not value
    MEMO    length, place, states, inputs, outputs, state * states, cell * inputs, cell * outputs; count is 1
            where no state was written since the memo at `place` was made, and the inputs are what they were:
            cell += memo for each output, and the next `length` words are skipped; else a memo is begun
    REMEMBER place, cell                              completes the memo of an output; ends what a MEMO may skip
    KEY     limit, constant, (cell, factor) * count   ends; gives constant + the form, which must be below limit
    CODE    limit, constant, (cell, factor) * count   the same

Tables, and rows of addresses, are shared by all programs of a network.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from runtime.sparse.network import HALF_RANGE, Form, Network, Node, NotExactError, Read
from runtime.sparse.specialise import Facts, LiveNode, LivePhase, LiveWrite, Residue
from runtime.sparse.stable import Memo


class Op(IntEnum):
    INPUT = 1
    TAP = 2
    SET = 3
    LINK = 4
    NODE = 5
    STEP = 6
    READ = 7
    EVERY = 8
    WRITE = 9
    WIPE = 10
    AGE = 11
    KEEP = 12
    GUARD = 13
    TEST = 14
    KEY = 15
    CODE = 16
    MEMO = 17
    REMEMBER = 18


@dataclass
class Pool:
    """Arrays that programs refer to by their place, each stored once."""

    parts: list[np.ndarray]
    places: dict[bytes, int]
    size: int = 0

    @classmethod
    def empty(cls) -> "Pool":
        return cls([], {})

    @classmethod
    def holding(cls, array: np.ndarray) -> "Pool":
        """A pool that goes on after `array`."""
        return cls([array], {}, len(array))

    def add(self, values: np.ndarray) -> int:
        """Where the values are, as 16-bit numbers. Raises NotExactError where one does not fit."""
        flat = np.ascontiguousarray(values).reshape(-1)
        if len(flat) and (flat.min() < -HALF_RANGE or flat.max() >= HALF_RANGE):
            raise NotExactError("a table entry needs more than 16 bits")
        stored = flat.astype(np.int16)
        key = stored.tobytes()
        place = self.places.get(key)
        if place is None:
            place = self.places[key] = self.size
            self.parts.append(stored)
            self.size += len(stored)
        return place

    def array(self) -> np.ndarray:
        """All of them, and one more word."""
        return np.concatenate([*self.parts, np.zeros(1, dtype=np.int16)])


@dataclass(frozen=True)
class StateLayout:
    """Where each state's rows are in the memory of a launch, in 16-bit words."""

    start: tuple[int, ...]
    columns: tuple[int, ...]
    rows: tuple[int, ...]
    size: int

    @classmethod
    def of(cls, network: Network) -> "StateLayout":
        columns = [0] * len(network.states)
        for phase in network.phases:
            for write in phase.writes:
                columns[write.state] = len(write.columns)
        start, size = [], 0
        for state, count in zip(network.states, columns, strict=True):
            start.append(size)
            size += state.rows * count
        return cls(tuple(start), tuple(columns), tuple(state.rows for state in network.states), size)


Literal = tuple[int, int]
"""(cell, value)"""
FAVOUR = 2
"""A node behind a bit that must be 1 counts for FAVOUR more: most bits are 0, so that its test spares more often."""
MOST_TESTS = 64
"""Tests inside one another."""
SMALLEST_GROUP = 2
"""Nodes that a test must spare."""


@dataclass(frozen=True)
class OpenNode:
    """A node behind tests of some of its bits. `needed`: bits, with the value without which it stays shut."""

    node: LiveNode
    terms: tuple[tuple[int, int], ...]
    base: int
    first: int
    needed: frozenset[Literal]

    @classmethod
    def of(cls, node: LiveNode, original: LiveNode, source: Node, facts: Facts) -> "OpenNode":
        """`node` reads bundles where `original` reads their cells, of which the facts are known."""
        first = int(np.flatnonzero(source.table.any(axis=1))[0])
        most, bits = node.base, []
        for cell, factor in original.terms:
            low, high = int(facts.low[cell]), int(facts.high[cell])
            most += max(factor * low, factor * high)
            if (low, high) == (0, 1):
                bits.append((cell, factor))
        kept = {cell for cell, _ in node.terms}
        needed = frozenset(
            (cell, int(factor > 0)) for cell, factor in bits if cell in kept and most - abs(factor) < first
        )
        return cls(node, node.terms, node.base, first, needed)

    def given(self, literal: Literal) -> "OpenNode":
        cell, value = literal
        factor = next(factor for other, factor in self.terms if other == cell)
        terms = tuple(term for term in self.terms if term[0] != cell)
        return OpenNode(self.node, terms, self.base + factor * value, self.first, self.needed - {literal})


@dataclass(frozen=True)
class Waiting:
    """A column that only the nodes of one phase read, so that it is read where they are."""

    read: Read
    output: tuple[int, int]
    phase: int
    nodes: frozenset[int]


Bundle = tuple[tuple[int, int], ...]
"""(cell, sign): cells that the same nodes of a phase read, mostly with one factor up to these signs."""


def _bundles(phase: LivePhase) -> list[Bundle]:
    """Cells that the same nodes read, where several nodes read several of them."""
    uses: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, node in enumerate(phase.nodes):
        for cell, factor in node.terms:
            uses[cell].append((number, factor))
    alike: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
    for cell, items in uses.items():
        alike[tuple(number for number, _ in items)].append((cell, 1 if items[0][1] > 0 else -1))
    return [tuple(cells) for nodes, cells in alike.items() if len(nodes) > 2 and len(cells) > 2]


def _in_bundles(
    terms: tuple[tuple[int, int], ...], places: dict[int, tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """The terms with one for each bundle's sum, and what single cells' factors differ from it."""
    factors: dict[int, Counter[int]] = defaultdict(Counter)
    for cell, factor in terms:
        if cell in places:
            total, sign = places[cell]
            factors[total][factor * sign] += 1
    common = {total: counts.most_common(1)[0][0] for total, counts in factors.items()}
    result = list(common.items())
    for cell, factor in terms:
        total, sign = places.get(cell, (-1, 1))
        rest = factor - common.get(total, 0) * sign
        if rest:
            result.append((cell, rest))
    return tuple(result)


def _waiting(residue: Residue, at_once: set[int]) -> dict[int, Waiting]:
    """By cell; those that are wanted `at_once` do not wait."""
    users: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for phase in residue.phases:
        for node in phase.nodes:
            for cell in (
                *(c for c, _ in node.terms),
                *(up.terms[0][0] for *_, up in node.products if _is_cell(up)),
            ):
                users[cell].add((phase.number, node.index))
    shared, result = _other_uses(residue) | at_once, {}
    for phase in residue.phases:
        for read in phase.reads:
            for output in read.outputs:
                cell = output[1]
                phases = {number for number, _ in users[cell]}
                if read.every is None and read.anchor is None and len(phases) == 1 and cell not in shared:
                    nodes = frozenset(index for _, index in users[cell])
                    result[cell] = Waiting(read, output, phases.pop(), nodes)
    return result


def _other_uses(residue: Residue) -> set[int]:
    """Cells that anything but a node's form or up reads, and cells that more than one read brings."""
    cells, brought = set(residue.roots), Counter[int]()
    for phase in residue.phases:
        forms = [form for _, form in (*phase.wipes, *phase.links)]
        forms += [form for age in phase.ages for form in (age.event, age.step)]
        forms += [up for node in phase.nodes for *_, up in node.products if not _is_cell(up)]
        for write in phase.writes:
            forms += [write.enable, *(form for column in write.columns for _, form in column.parts)]
            cells.update(write.address.inputs)
        for read in phase.reads:
            cells.update(read.address.inputs)
            brought.update(cell for _, cell in read.outputs)
            forms += [read.every] if read.every is not None else []
        cells.update(cell for form in forms for cell, _ in form.terms)
    return cells | {cell for cell, count in brought.items() if count > 1}


def _groups(nodes: list[OpenNode]) -> tuple[list[tuple[Literal, list[OpenNode]]], list[OpenNode]]:
    """Nodes that need a literal, for the literals that most need; and the nodes that are left."""
    counts = Counter(literal for node in nodes for literal in node.needed)
    groups = []
    while counts:
        literal, count = max(counts.items(), key=lambda item: (item[1] * (1 + FAVOUR * item[0][1]), item[0]))
        if count < SMALLEST_GROUP:
            break
        groups.append((literal, [node for node in nodes if literal in node.needed]))
        nodes = [node for node in nodes if literal not in node.needed]
        counts.subtract(other for node in groups[-1][1] for other in node.needed)
    return groups, nodes


def _is_cell(up: Form) -> bool:
    """Whether the form is a cell or a cell's negative."""
    return len(up.terms) == 1 and up.terms[0][1] in (1, -1) and up.constant == 0


Products = list[tuple[int, int, int, Form]]


def _ups(node: LiveNode) -> tuple[Products, Products]:
    """A node's products by a single cell, and by a form."""
    cells = [item for item in node.products if _is_cell(item[3])]
    return cells, [item for item in node.products if not _is_cell(item[3])]


def _is_step(table: np.ndarray, first: int) -> bool:
    """Whether all rows from the first that is not zero are alike."""
    return bool((table[first:] == table[first]).all())


class Encoder:
    """Writes programs over one numbering of cells; `numbers` grows with the cells that are met."""

    def __init__(self, network: Network, layout: StateLayout, pool: Pool) -> None:
        self.network, self.layout, self.pool = network, layout, pool
        self.numbers: dict[int, int] = {}
        self.words: list[int] = []
        self.waiting: dict[int, Waiting] = {}
        self.bundles: dict[int, list[Bundle]] = {}

    @property
    def count(self) -> int:
        """Cells of the programs written so far."""
        return len(self.numbers)

    def cell(self, cell: int) -> int:
        return self.numbers.setdefault(cell, self.count)

    def section(self, op: Op, records: Iterable[list[int]]) -> None:
        rows = list(records)
        if rows:
            self.words += [op, len(rows)]
            for row in rows:
                self.words += row

    def terms(self, form: Form) -> list[int]:
        return [word for cell, factor in form.terms for word in (self.cell(cell), factor)]

    def residue(self, residue: Residue, memo: Memo | None = None) -> None:
        """All phases, after the constants that cells start from; and a part that was split off, in its place."""
        self.section(Op.SET, ([value, self.cell(cell)] for cell, value in sorted(residue.constants.items())))
        self.bundles = {phase.number: _bundles(phase) for phase in residue.phases}
        at_once = {cell for found in self.bundles.values() for bundle in found for cell, _ in bundle}
        self.waiting = _waiting(residue, at_once if memo is None else at_once.union(memo.part.inputs))
        for phase in residue.phases:
            if memo is not None and phase.number == memo.part.first:
                self._memo(memo)
            self._phase(phase, residue.facts)

    def _memo(self, memo: Memo) -> None:
        part = memo.part
        inputs, outputs = ([self.cell(cell) for cell in cells] for cells in (part.inputs, part.outputs))
        cells = [*part.states, *inputs, *outputs]
        self.words += [Op.MEMO, 1, 0, memo.place, len(part.states), len(inputs), len(outputs), *cells]
        begin = len(self.words)
        around = self.waiting, self.bundles
        self.residue(part.residue)
        self.waiting, self.bundles = around
        first = memo.place + 1 + len(inputs)
        self.section(Op.REMEMBER, ([first + place, cell] for place, cell in enumerate(outputs)))
        self.words[begin - len(cells) - 5] = len(self.words) - begin

    def _phase(self, phase: LivePhase, facts: Facts) -> None:
        states = self.layout
        self.section(
            Op.WIPE,
            (
                [
                    s,
                    states.start[s],
                    states.rows[s] * states.columns[s],
                    len(f.terms),
                    f.constant,
                    *self.terms(f),
                ]
                for s, f in phase.wipes
            ),
        )
        self.section(
            Op.AGE,
            (
                [
                    age.cell, self.cell(age.cell), len(age.event.terms), age.event.constant, len(age.step.terms),
                    age.step.constant, *self.terms(age.event), *self.terms(age.step),
                ]
                for age in phase.ages
            ),
        )  # fmt: skip
        self.section(Op.WRITE, map(self._write, phase.writes))
        reads = (read for read in phase.reads if read.every is None)
        self._reads((read, item) for read in reads for item in read.outputs if item[1] not in self.waiting)
        self.section(Op.EVERY, (self._every(read) for read in phase.reads if read.every is not None))
        self._nodes(phase, facts)
        links = [(cell, form) for cell, form in phase.links if form.terms]
        self.section(
            Op.LINK, ([self.cell(c), form.constant, len(form.terms), *self.terms(form)] for c, form in links)
        )

    def _write(self, write: LiveWrite) -> list[int]:
        states, address = self.layout, write.address
        rows = self.pool.add(np.array(address.rows))
        enable = write.enable
        words = [
            write.state, states.start[write.state], states.columns[write.state], len(enable.terms), enable.constant,
            len(address.inputs), rows, len(write.columns), *self.terms(enable), *map(self.cell, address.inputs),
        ]  # fmt: skip
        for column in write.columns:
            constant, linear, ramps = 0, dict[int, int](), []
            for weight, form in column.parts:
                if not form.terms:
                    constant += weight * max(form.constant, 0)
                elif self._never_negative(form):
                    constant += weight * form.constant
                    for cell, factor in form.terms:
                        linear[cell] = linear.get(cell, 0) + weight * factor
                else:
                    ramps.append((weight, form))
            words += [constant, len(linear), *(word for c, f in linear.items() for word in (self.cell(c), f))]
            words.append(len(ramps))
            for weight, form in ramps:
                words += [weight, len(form.terms), form.constant, *self.terms(form)]
        return [len(words) + 1, *words]

    def _never_negative(self, form: Form) -> bool:
        cells = self.network.cells
        low = sum(min(f * cells[c].low, f * cells[c].high) for c, f in form.terms)
        return form.constant + low >= 0

    def _reads(self, items: Iterable[tuple[Read, tuple[int, int]]]) -> None:
        """Reads of single columns, those of one row together."""
        outputs: dict[int, list[tuple[int, int]]] = {}
        reads: dict[int, Read] = {}
        for read, output in items:
            outputs.setdefault(id(read), []).append(output)
            reads[id(read)] = read
        self.section(
            Op.READ, (self._read(replace(read, outputs=tuple(outputs[key]))) for key, read in reads.items())
        )

    def _read(self, read: Read) -> list[int]:
        states, address = self.layout, read.address
        rows = self.pool.add(np.array(address.rows))
        anchor = -1 if read.anchor is None else read.anchor
        words = [
            states.start[read.state], states.columns[read.state], len(address.inputs), rows, len(read.outputs), anchor,
            *map(self.cell, address.inputs),
        ]  # fmt: skip
        words += [word for column, cell in read.outputs for word in (column, self.cell(cell))]
        return [len(words) + 1, *words]

    def _every(self, read: Read) -> list[int]:
        states, gate = self.layout, read.every
        assert gate is not None
        anchor = -1 if read.anchor is None else read.anchor
        words = [
            states.start[read.state], states.columns[read.state], states.rows[read.state], len(gate.terms),
            gate.constant, len(read.outputs), anchor, *self.terms(gate),
        ]  # fmt: skip
        words += [word for column, cell in read.outputs for word in (column, self.cell(cell))]
        return [len(words) + 1, *words]

    def _nodes(self, phase: LivePhase, facts: Facts) -> None:
        nodes = self.network.phases[phase.number].nodes
        bundled = self._bundle(phase)
        opened = [
            OpenNode.of(node, original, nodes[node.index], facts)
            for node, original in zip(bundled, phase.nodes, strict=True)
        ]
        pending = [item for item in self.waiting.values() if item.phase == phase.number]
        self._tree(opened, pending, phase.number)

    def _bundle(self, phase: LivePhase) -> list[LiveNode]:
        """The phase's nodes with bundles of cells summed beforehand, each in a cell of its own."""
        places: dict[int, tuple[int, int]] = {}
        links = []
        for bundle in self.bundles[phase.number]:
            total = len(self.network.cells) + self.count  # no cell of the network has this number
            form = Form(bundle)
            links.append([self.cell(total), 0, len(bundle), *self.terms(form)])
            places |= {cell: (total, sign) for cell, sign in bundle}
        self.section(Op.LINK, links)
        return [replace(node, terms=_in_bundles(node.terms, places)) for node in phase.nodes]

    def _tree(self, nodes: list[OpenNode], pending: list[Waiting], number: int, depth: int = 0) -> None:
        """Nodes behind tests of bits without which they are shut, most shared first; and reads for them alone."""
        groups, nodes = _groups(nodes) if depth < MOST_TESTS else ([], nodes)
        behind = [frozenset(node.node.index for node in group) for _, group in groups]
        tested = {literal[0] for literal, _ in groups}
        inside = [[] for _ in groups]
        here = []
        for item in pending:
            home = next((i for i, group in enumerate(behind) if item.nodes <= group), None)
            (here if home is None or item.output[1] in tested else inside[home]).append(item)
        self._reads((item.read, item.output) for item in here)
        for (literal, group), items in zip(groups, inside, strict=True):
            self.words += [Op.TEST, 1, self.cell(literal[0]), literal[1], 0]
            begin = len(self.words)
            self._tree([node.given(literal) for node in group], items, number, depth + 1)
            self.words[begin - 1] = len(self.words) - begin
        ordered = sorted(nodes, key=lambda n: (len(n.terms), len(n.node.sums), len(n.node.products)))
        source = self.network.phases[number].nodes
        flat = {node.node.index: _is_step(source[node.node.index].table, node.first) for node in ordered}
        steps = [node for node in ordered if flat[node.node.index]]
        self.section(Op.STEP, (self._step(source[node.node.index], node) for node in steps))
        others = [node for node in ordered if not flat[node.node.index]]
        self.section(Op.NODE, (self._node(number, node) for node in others))

    def _step(self, source: Node, open_node: OpenNode) -> list[int]:
        node, row = open_node.node, source.table[open_node.first].tolist()
        sums = [(row[column], self.cell(cell)) for column, cell in node.sums if row[column]]
        cells, forms = _ups(node)
        products = [
            (row[column] * weight * up.terms[0][1], self.cell(up.terms[0][0]), self.cell(cell))
            for column, cell, weight, up in cells
        ]
        words = [
            *self.terms(Form(open_node.terms)), *(word for item in (*sums, *products) for word in item),
            *(word for a, c, w, up in forms for word in (row[a] * w, self.cell(c), *self._form(up))),
        ]  # fmt: skip
        counts = [len(sums), len(products), len(forms)]
        return [len(open_node.terms), open_node.base, open_node.first, 7 + len(words), *counts, *words]

    def _node(self, number: int, open_node: OpenNode) -> list[int]:
        node = open_node.node
        table = self.network.phases[number].nodes[node.index].table
        cells, forms = _ups(node)
        products = [
            (column, self.cell(up.terms[0][0]), self.cell(cell), weight * up.terms[0][1])
            for column, cell, weight, up in cells
        ]
        words = [
            *self.terms(Form(open_node.terms)), *(word for a, c in node.sums for word in (a, self.cell(c))),
            *(word for item in products for word in item),
            *(word for a, c, w, up in forms for word in (a, self.cell(c), w, *self._form(up))),
        ]  # fmt: skip
        return [
            len(open_node.terms), open_node.base, open_node.first, 10 + len(words), self.pool.add(table),
            table.shape[1], table.shape[0], len(node.sums), len(products), len(forms), *words,
        ]  # fmt: skip

    def _form(self, form: Form) -> list[int]:
        return [len(form.terms), form.constant, *self.terms(form)]

    def sum_of_bits(self, op: Op, cells: Sequence[int], facts: Facts) -> None:
        """KEY or CODE: sum of 2**i * cell; the known ones are a constant in front."""
        constant, live = 0, []
        for place, cell in enumerate(cells):
            value = facts.value(cell)
            if value is None:
                live += [self.cell(cell), 1 << place]
            else:
                constant += value << place
        self.words += [op, len(live) // 2, 1 << len(cells), constant, *live]
