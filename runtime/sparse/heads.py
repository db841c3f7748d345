"""A layer's Gated DeltaNet heads as memories of integers and age counters.

A head is taken apart by what its projections can do: the rows that its keys and queries select are listed for every
value of the bits they read; what it stores is a ramp of an integer in units of STATE_UNIT; its norm must be undone by
its gate, with ballast of one size on what is read. Anything else raises NotExactError.
"""

import math
from dataclasses import dataclass
from itertools import chain

import numpy as np

from runtime.sparse.cells import SlotCells, integer, positive
from runtime.sparse.network import (
    NO_ROW,
    SEVERAL,
    Address,
    Column,
    Form,
    NotExactError,
    State,
)
from runtime.sparse.tensors import SparseMatrix
from toolchain.weights_backend.numerics import KEY_SHARPNESS, SATURATED, STATE_BALLAST, STATE_UNIT

KEPT, WIPED = 1e-20, 110.0
"""Exponents of a decay that float32 rounds to 1 and, from the second on, to 0."""
MOST_INPUTS = 16
"""Bits of an address whose rows are listed."""
Real = tuple[dict[int, float], float]


@dataclass(frozen=True)
class LayerTensors:
    """The attention tensors of one layer, and the extents of its heads."""

    qkv: SparseMatrix
    convolution: np.ndarray
    z: SparseMatrix
    b: SparseMatrix
    a: SparseMatrix
    a_log: np.ndarray
    dt_bias: np.ndarray
    norm: np.ndarray
    out: SparseMatrix
    heads: int
    rows: int
    values: int


@dataclass(frozen=True)
class MemoryHead:
    """A memory: its state, its columns, and what it reads, with slots for cells still to be found."""

    state: State
    columns: tuple[Column, ...]
    address: Address
    every: Form | None
    anchor: int | None
    outputs: tuple[tuple[int, int], ...]
    """(slot, column)"""
    dimensions: tuple[tuple[tuple[int, int], ...], ...]
    """(value dimension, weight)* of each column."""


@dataclass(frozen=True)
class AgeHead:
    event: Form
    step: Form
    slot: int


class HeadReader:
    """Takes one head apart."""

    def __init__(self, cells: SlotCells, tensors: LayerTensors, head: int, place: str) -> None:
        self.cells, self.tensors, self.head, self.place = cells, tensors, head, place
        rows, values, heads = tensors.rows, tensors.values, tensors.heads
        self.queries = range(head * rows, (head + 1) * rows)
        self.keys = range((heads + head) * rows, (heads + head + 1) * rows)
        self.first_value = 2 * heads * rows + head * values
        self.columns = tensors.out.transposed

    def read(self) -> MemoryHead | AgeHead | None:
        """The head, or None if it adds nothing."""
        outputs = self._outputs()
        if not outputs:
            return None
        kind = self._decay()
        if kind is not None:
            return self._age(kind, outputs)
        return self._memory(outputs)

    def _channel(self, index: int, scale: float) -> Real:
        """A q, k or v channel's pre-activation after the convolution, over `scale`."""
        kernel = self.tensors.convolution[index]
        terms: dict[int, float] = {}
        constant = 0.0
        for place in np.flatnonzero(kernel):
            factor = float(kernel[place])
            part, offset = self.cells.linear(
                self.tensors.qkv.row(index), scale / factor, len(kernel) - 1 - int(place)
            )
            for cell, weight in part.items():
                terms[cell] = terms.get(cell, 0.0) + weight
            constant += offset
        return terms, constant

    # --- what it gives

    def _outputs(self) -> dict[int, list[tuple[int, float]]]:
        """Weight of each value dimension in each slot, the norm and its gate included."""
        values = self.tensors.values
        anchors = self._anchors()
        if not anchors:
            return {}
        rms = STATE_BALLAST * math.sqrt(len(anchors) / values)
        result: dict[int, list[tuple[int, float]]] = {}
        for dimension in range(values):
            changes, gate = self.cells.constant_of(self.tensors.z.row(self.head * values + dimension))
            column = self.columns.row(self.head * values + dimension)
            if changes:
                raise NotExactError(f"{self.place}: its output gate is not constant")
            if not column or gate == 0:
                continue
            if gate <= SATURATED:
                raise NotExactError(f"{self.place}: its output gate is {gate:g}, of which silu is no ramp")
            unit = STATE_UNIT / rms * gate * float(self.tensors.norm[dimension])
            for slot, weight in column:
                result.setdefault(slot, []).append((dimension, weight * unit))
        return result

    def _anchors(self) -> list[int]:
        """Dimensions that hold the norm's ballast."""
        result = []
        for dimension in range(self.tensors.values):
            terms, constant = self._channel(self.first_value + dimension, STATE_BALLAST)
            if max(map(abs, chain(terms.values(), [constant]))) > 2.0**-8:
                result.append(dimension)
        return result

    def _decay(self) -> Form | None:
        """None where the state is kept or wiped; else how many times it is halved in a token."""
        row, rate = self.tensors.a.row(self.head), math.exp(float(self.tensors.a_log[self.head]))
        bias = float(self.tensors.dt_bias[self.head])
        terms, constant = self.cells.linear(row)
        if not terms and rate * _softplus(constant + bias) < KEPT:
            return None
        if terms and min(map(abs, terms.values())) >= SATURATED:
            self._check_wipe(rate, constant + bias)
            return None
        halvings = rate * _softplus(constant + bias) / math.log(2)
        steps = [
            (cell, rate * _softplus(constant + bias + weight) / math.log(2)) for cell, weight in terms.items()
        ]
        if any((self.cells.cells[cell].low, self.cells.cells[cell].high) != (0, 1) for cell in terms):
            raise NotExactError(f"{self.place}: its decay depends on more than bits")
        if len(terms) > 1:
            raise NotExactError(f"{self.place}: its decay depends on several bits")
        base = self._halvings(halvings)
        return Form(tuple((cell, self._halvings(value) - base) for cell, value in steps), base)

    def _check_wipe(self, rate: float, constant: float) -> None:
        """Where the test of a wipe holds nothing is left, where it does not everything is."""
        size = abs(constant)
        if rate * _softplus(-size) >= KEPT or rate * _softplus(size) <= WIPED:
            raise NotExactError(f"{self.place}: it forgets in part")

    def _halvings(self, value: float) -> int:
        if abs(value - round(value)) > 2.0**-9 * max(1, round(value)):
            raise NotExactError(f"{self.place}: it decays by 2**-{value:g} a token")
        return round(value)

    # --- age counters

    def _age(self, step: Form, outputs: dict[int, list[tuple[int, float]]]) -> AgeHead:
        terms, constant = self._channel(self.keys[0], KEY_SHARPNESS)
        event = positive(_whole(terms, self.place), constant, self.place)
        (slot, ((dimension, weight), *more)), *others = outputs.items()
        if (
            others
            or more
            or dimension
            or abs(weight - 1) > 1e-5
            or not self._is_counter(event, constant + 0.5)
        ):
            raise NotExactError(f"{self.place}: it decays and is no age counter")
        return AgeHead(event, step, slot)

    def _is_counter(self, event: Form, constant: float) -> bool:
        """`event` tests a form with this constant, 1 or 0.

        Row 0 is written by the event with one unit, row 1 by every other token with the ballast; both are read.
        """
        value = self._channel(self.first_value, STATE_UNIT)
        if _whole(value[0], self.place) != event.terms or value[1] != constant:
            return False
        later = Form(tuple((cell, -weight) for cell, weight in event.terms), -event.constant - 1)
        channels = (self.keys[1], self.queries[0], self.queries[1])
        forms = [self._channel(channel, KEY_SHARPNESS) for channel in channels]
        tests = [positive(_whole(terms, self.place), offset, self.place) for terms, offset in forms]
        others = (*self.keys[2:], *self.queries[2:])
        written = self._enable()
        anchors = [self._channel(self.first_value + d, STATE_BALLAST) for d in self._anchors()]
        ballast = all(
            _whole(terms, self.place) == later.terms and offset == 1 - constant for terms, offset in anchors
        )
        silent = all(not self.tensors.qkv.row(channel) for channel in others)
        return all(test == later for test in tests) and ballast and silent and written == Form()

    # --- memories

    def _enable(self) -> Form:
        terms, constant = self.cells.linear(self.tensors.b.row(self.head), 2 * SATURATED)
        return (
            positive(_whole(terms, self.place), constant, self.place)
            if terms
            else _always(constant, self.place)
        )

    def _memory(self, outputs: dict[int, list[tuple[int, float]]]) -> MemoryHead:
        wipe = None
        if self.tensors.a.row(self.head):
            wipe = self.cells.test(self.tensors.a.row(self.head), 2 * SATURATED, self.place)
        written, read = self._rows(self.keys), self._rows(self.queries)
        never = frozenset(range(self.tensors.rows)) - written.ever
        address = written.address(self.place)
        state = State(self._enable(), address, wipe, max(written.ever, default=0) + 1)
        parts = {d: self._value(d) for d in sorted({d for terms in outputs.values() for d, _ in terms})}
        combinations: dict[tuple[tuple[int, int], ...], int] = {}
        columns, places = list[Column](), list[tuple[int, int]]()
        for slot, terms in outputs.items():
            weights = tuple((dimension, integer(weight, self.place)) for dimension, weight in terms)
            index = combinations.setdefault(weights, len(columns))
            if index == len(columns):
                columns.append(Column(tuple((weight, parts[dimension]) for dimension, weight in weights)))
            places.append((slot, index))
        anchor = self._anchor(columns)
        every, rows = read.without(never).every(written.ever, self.place)
        return MemoryHead(state, tuple(columns), rows, every, anchor, tuple(places), tuple(combinations))

    def _anchor(self, columns: list[Column]) -> int | None:
        """The column that says which rows carry ballast, where not all do."""
        forms = {self._ballast(dimension) for dimension in self._anchors()}
        if len(forms) != 1:
            raise NotExactError(f"{self.place}: its ballast differs")
        (form,) = forms
        if form == Form((), 1):
            return None
        columns.append(Column(((1, form),)))
        return len(columns) - 1

    def _ballast(self, dimension: int) -> Form:
        terms, constant = self._channel(self.first_value + dimension, STATE_BALLAST)
        return Form(_whole(terms, self.place), integer(constant, self.place))

    def _value(self, dimension: int) -> Form:
        terms, constant = self._channel(self.first_value + dimension, STATE_UNIT)
        return Form(_whole(terms, self.place), integer(constant, self.place))

    def _rows(self, channels: range) -> "_Selection":
        """Which of the rows are selected for every value of what their channels read."""
        forms = {}
        for row, channel in enumerate(channels):
            if self.tensors.qkv.row(channel):
                forms[row] = self._channel(channel, KEY_SHARPNESS)
        inputs = sorted({cell for terms, _ in forms.values() for cell in terms})
        for cell in inputs:
            item = self.cells.cells[cell]
            if (item.low, item.high) != (0, 1):
                raise NotExactError(f"{self.place}: its address reads {item.low}..{item.high}")
        if len(inputs) > MOST_INPUTS:
            raise NotExactError(f"{self.place}: its address reads {len(inputs)} bits")
        bits = (np.arange(1 << len(inputs))[:, None] >> np.arange(len(inputs)) & 1).astype(np.float64)
        selected = np.zeros((len(bits), len(channels)), dtype=bool)
        for row, (terms, constant) in forms.items():
            sums = bits @ np.array([terms.get(cell, 0.0) for cell in inputs]) + constant
            if np.abs(sums).min() < 0.2:
                raise NotExactError(f"{self.place}: row {row} is selected too closely")
            selected[:, row] = sums > 0
        return _Selection(tuple(inputs), selected)


@dataclass(frozen=True)
class _Selection:
    """selected[value of the inputs, row]"""

    inputs: tuple[int, ...]
    selected: np.ndarray

    @property
    def ever(self) -> frozenset[int]:
        return frozenset(np.flatnonzero(self.selected.any(axis=0)).tolist())

    def without(self, rows: frozenset[int]) -> "_Selection":
        kept = self.selected.copy()
        kept[:, sorted(rows)] = False
        return _Selection(self.inputs, kept)

    def address(self, place: str) -> Address:
        count = self.selected.sum(axis=1)
        rows = np.where(count == 0, NO_ROW, np.where(count == 1, self.selected.argmax(axis=1), SEVERAL))
        if (rows == SEVERAL).all():
            raise NotExactError(f"{place}: it always selects several rows")
        return Address(self.inputs, tuple(rows.tolist()))

    def every(self, written: frozenset[int], place: str) -> tuple[Form | None, Address]:
        """As an address; where all rows that are ever `written` are read together or none is, as a gate of them."""
        count = self.selected.sum(axis=1).tolist()
        if len(written) > 1 and len(written) == max(count) and len(self.inputs) < 2:
            if not self.inputs:
                return Form(), Address((), (NO_ROW,))
            if count[0] == 0:
                return Form(((self.inputs[0], 1),), -1), Address((), (NO_ROW,))
        return None, self.address(place)


def _whole(terms: dict[int, float], place: str) -> tuple[tuple[int, int], ...]:
    whole = sorted((cell, integer(weight, place)) for cell, weight in terms.items())
    return tuple((cell, weight) for cell, weight in whole if weight)


def _always(constant: float, place: str) -> Form:
    if constant <= 0.2:
        raise NotExactError(f"{place}: it is never written")
    return Form()


def _softplus(value: float) -> float:
    return math.log1p(math.exp(value)) if value < 40 else value
