"""Runs a circuit token by token in exact arithmetic: the definition of what circuit IR means.

The same engine runs both levels. Logical: one phase an operation, one cell a wire. Placed: one phase a half-layer,
one cell a residual slot, with the erasures placement asked for.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolchain.circuit_ir.ir import (
    Affine,
    Age,
    Circuit,
    Gate,
    Logic,
    Memory,
    Op,
    Rows,
    Wire,
    op_reads,
    op_writes,
)

REACH = 3
"""Tokens back that the convolution sees."""


class RangeError(Exception):
    """A wire left the range its builder promised."""


class _Forms:
    """Many affine forms over the cells, evaluated at once. Cell 0 is the constant 1."""

    def __init__(self, forms: Sequence[Affine], index: Mapping[Wire, int]) -> None:
        cells, factors, starts = [], [], []
        for form in forms:
            starts.append(len(cells))
            cells.append(0)
            factors.append(form.constant)
            for wire, factor in form.terms:
                cells.append(index[wire])
                factors.append(factor)
        self._cells = np.array(cells, dtype=np.int64)
        self._factors = np.array(factors, dtype=np.float64)
        self._starts = np.array(starts, dtype=np.int64)

    def __call__(self, cells: np.ndarray) -> np.ndarray:
        if not len(self._starts):
            return np.zeros(0)
        return np.add.reduceat(self._factors * cells[self._cells], self._starts)


class _LogicStep:
    def __init__(self, op: Logic, index: Mapping[Wire, int]) -> None:
        self.gate = _Forms([unit.gate for unit in op.units], index)
        one = Affine(constant=1)
        self.up = _Forms([one if unit.up is None else unit.up for unit in op.units], index)
        self.is_step = np.array([unit.kind is Gate.STEP for unit in op.units])
        links = [(u, index[wire], weight) for u, unit in enumerate(op.units) for wire, weight in unit.outputs]
        self.unit = np.array([link[0] for link in links])
        self.cell = np.array([link[1] for link in links])
        self.weight = np.array([link[2] for link in links], dtype=np.float64)

    def run(self, cells: np.ndarray, added: np.ndarray) -> None:
        gate = self.gate(cells)
        active = np.where(self.is_step, gate >= 0, np.maximum(gate, 0)) * self.up(cells)
        np.add.at(added, self.cell, active[self.unit] * self.weight)


class _RowsStep:
    """An address: the row it selects now, or None; `tap` tokens later."""

    def __init__(self, rows: Rows, index: Mapping[Wire, int]) -> None:
        self.rows = rows
        self.bits = len(rows.bits)
        self.forms = _Forms((*rows.bits, *rows.literals), index)
        self.history: deque[np.ndarray] = deque(maxlen=rows.tap + 1)

    def select(self, cells: np.ndarray) -> int | None:
        self.history.append(self.forms(cells))
        if len(self.history) <= self.rows.tap:
            return None
        values = self.history[0]
        if not np.all(values[self.bits :] >= 1):
            return None
        return sum(int(bit) << position for position, bit in enumerate(values[: self.bits]))


class _MemoryStep:
    def __init__(self, op: Memory, index: Mapping[Wire, int]) -> None:
        self.op = op
        self.write, self.read = _RowsStep(op.write, index), _RowsStep(op.read, index)
        self.enable = _Forms(op.enable, index)
        self.wipe = _Forms([op.wipe], index) if op.wipe is not None else None
        self.values = _Forms([value.form for value in op.values], index)
        self.taps = np.array([value.tap for value in op.values])
        self.history: deque[np.ndarray] = deque([np.zeros(len(op.values))] * REACH, maxlen=REACH + 1)
        self.state: dict[int, np.ndarray] = {}
        self.cells = np.array([index[wire] for wire, _ in op.outputs], dtype=np.int64)
        self.outputs = np.zeros((len(op.outputs), len(op.values)))
        for row, (_, terms) in enumerate(op.outputs):
            for dimension, weight in terms:
                self.outputs[row, dimension] += weight

    def run(self, cells: np.ndarray, added: np.ndarray) -> None:
        if self.wipe is not None and self.wipe(cells)[0] >= 1:
            self.state.clear()
        self.history.append(self.values(cells))
        recent = list(self.history)
        row = self.write.select(cells)
        if row is not None and row != self.op.unwritten and np.all(self.enable(cells) > 0):
            stored = np.array([recent[-1 - tap][i] for i, tap in enumerate(self.taps)])
            self.state[row] = np.maximum(stored, 0)
        found = self._found(cells)
        if found is not None:
            np.add.at(added, self.cells, self.outputs @ found)

    def _found(self, cells: np.ndarray) -> np.ndarray | None:
        if self.op.read.every:
            rows = [values for row, values in self.state.items() if row < self.op.read.every]
            return np.sum(rows, axis=0) if rows else None
        row = self.read.select(cells)
        return None if row is None else self.state.get(row)


class _AgeStep:
    def __init__(self, op: Age, index: Mapping[Wire, int]) -> None:
        self.forms = _Forms([op.event, Affine() if op.twice is None else op.twice], index)
        self.cell = index[op.output]
        self.age: int | None = None

    def run(self, cells: np.ndarray, added: np.ndarray) -> None:
        event, twice = self.forms(cells)
        if event >= 1:
            self.age = 0
        elif self.age is not None:
            self.age += 2 if twice >= 1 else 1
        if self.age:
            added[self.cell] += 2.0**-self.age


_Step = _LogicStep | _MemoryStep | _AgeStep


def _step(op: Op, index: Mapping[Wire, int]) -> _Step:
    match op:
        case Logic():
            return _LogicStep(op, index)
        case Memory():
            return _MemoryStep(op, index)
        case Age():
            return _AgeStep(op, index)


@dataclass(frozen=True)
class Phase:
    """Operations that read the same cells; `erase`: cells whose value is taken away in this phase."""

    operations: tuple[Op, ...]
    erase: tuple[int, ...] = ()


class Evaluator:
    """Runs phases in order for each token. `index` gives each wire its cell (from 1), `size` the number of cells."""

    def __init__(
        self, phases: Iterable[Phase], index: Mapping[Wire, int], size: int, outputs: Sequence[Wire]
    ) -> None:
        self._phases = [
            ([_step(op, index) for op in phase.operations], list(phase.erase)) for phase in phases
        ]
        self._index = index
        self._size = size
        self._outputs = [index[wire] for wire in outputs]
        self.cells = np.zeros(size)

    def run(self, inputs: Mapping[Wire, int]) -> list[int]:
        """One token: its input wires' values to its output wires' values. State carries over."""
        for cells in self._run_phases(inputs):
            self.cells = cells
        return [int(self.cells[cell]) for cell in self._outputs]

    def layers(self, inputs: Mapping[Wire, int]) -> list[np.ndarray]:
        """One token of a placed circuit: the cells after each layer (two phases)."""
        return list(self._run_phases(inputs))[1::2]

    def _run_phases(self, inputs: Mapping[Wire, int]) -> Iterator[np.ndarray]:
        """The cells after each phase."""
        cells = np.zeros(self._size)
        cells[0] = 1
        for wire, value in inputs.items():
            cells[self._index[wire]] = value
        for steps, erase in self._phases:
            added = np.zeros(self._size)
            for step in steps:
                step.run(cells, added)
            if erase:
                added[erase] -= np.maximum(cells[erase], 0)
            cells = cells + added
            yield cells


def logical_evaluator(circuit: Circuit) -> "CheckedEvaluator":
    """An evaluator of the logical circuit that also holds every wire to its promised range."""
    wires = sorted(
        {
            *circuit.inputs,
            *circuit.outputs,
            *(wire for op in circuit.operations for wire in (*op_reads(op), *op_writes(op))),
        }
    )
    index = {wire: position + 1 for position, wire in enumerate(wires)}
    phases = [Phase((op,)) for op in circuit.operations]
    return CheckedEvaluator(phases, index, len(wires) + 1, circuit.outputs)


class CheckedEvaluator(Evaluator):
    """An evaluator with a cell for each wire. Raises RangeError when a wire leaves its range."""

    def __init__(
        self, phases: Iterable[Phase], index: Mapping[Wire, int], size: int, outputs: Sequence[Wire]
    ) -> None:
        super().__init__(phases, index, size, outputs)
        self.low, self.high = np.zeros(size), np.ones(size)
        for wire, cell in index.items():
            self.low[cell], self.high[cell] = wire.low, wire.high

    def run(self, inputs: Mapping[Wire, int]) -> list[int]:
        outputs = super().run(inputs)
        wrong = np.nonzero((self.cells < self.low) | (self.cells > self.high))[0]
        if len(wrong):
            names = {cell: wire for wire, cell in self._index.items()}
            wire = names[int(wrong[0])]
            raise RangeError(f"{wire} is {self.cells[wrong[0]]:g}, outside {wire.low}..{wire.high}")
        return outputs

    def value(self, wire: Wire) -> float:
        """The wire's value after the last token."""
        return float(self.cells[self._index[wire]])
