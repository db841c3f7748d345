"""What each wire can be in each block of a program that is in the weights.

A token is in one of a few *states*: EXEC of block 0, 1, ..., or anything else. Inputs that EXEC's embedding sets have
one value in each state. What is gated by them, or read where they are 1, is 0 in the other states: so every wire has
bounds in each state, and a form's bounds are those of the state where it is largest, not of all states at once.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from runtime.vocabulary import Kind
from toolchain.circuit_ir.ir import Affine, Age, Circuit, Gate, Logic, Memory, Unit, Wire

OTHER = 0
"""The state of a token that is no EXEC; block b is state b + 1."""
_KINDS = tuple(f"is.{kind.lower()}" for kind in Kind)
_EXEC = f"is.{Kind.EXEC.lower()}"


class BlockStates:
    """Bounds of a circuit's wires by state. `blocks[b]`: the inputs that EXEC of block b sets, by name."""

    def __init__(self, circuit: Circuit, baked: Sequence[Wire], blocks: Sequence[Mapping[str, int]]) -> None:
        self._count = len(blocks) + 1
        self._low: dict[Wire, np.ndarray] = {}
        self._high: dict[Wire, np.ndarray] = {}
        self._fixed = set(baked)
        for wire in circuit.inputs:
            self._bound(wire, self._input_states(wire))
            if wire.name == _EXEC:
                self._low[wire] = self._high[wire]
                self._fixed.add(wire)
        for wire in baked:
            values = [0, *(block.get(wire.name, 0) for block in blocks)]
            self._low[wire] = self._high[wire] = np.array(values, dtype=np.float64)
        for op in circuit.operations:
            self._operation(op)

    @property
    def zeros(self) -> frozenset[Wire]:
        """Wires that are 0 in every state."""
        return frozenset(
            wire for wire, high in self._high.items() if not high.any() and not self._low[wire].any()
        )

    def fixed(self, form: Affine) -> bool:
        """Whether the form has one value in each state."""
        return all(wire in self._fixed for wire in form.wires)

    def high(self, form: Affine) -> np.ndarray:
        """Upper bound of a form in each state."""
        return self._extreme(form, self._high, self._low)

    def low(self, form: Affine) -> np.ndarray:
        """Lower bound of a form in each state."""
        return self._extreme(form, self._low, self._high)

    def most(self, form: Affine) -> float:
        """Upper bound of a form in any state."""
        return float(self.high(form).max())

    def open(self, unit: Unit) -> np.ndarray:
        """The states in which a unit can add anything."""
        high = self.high(unit.gate)
        opened = high >= 0 if unit.kind is Gate.STEP else high > 0
        return opened if unit.up is None else opened & self.nonzero(unit.up)

    def nonzero(self, form: Affine) -> np.ndarray:
        """The states in which a form can be other than 0."""
        return (self.high(form) != 0) | (self.low(form) != 0)

    def _extreme(
        self, form: Affine, above: Mapping[Wire, np.ndarray], below: Mapping[Wire, np.ndarray]
    ) -> np.ndarray:
        result = np.full(self._count, float(form.constant))
        for wire, factor in form.terms:
            bound = (above if factor > 0 else below).get(wire)
            if bound is not None:  # nobody writes it: it is 0
                result += factor * bound
        return result

    def _input_states(self, wire: Wire) -> np.ndarray:
        states = np.ones(self._count, dtype=bool)
        if wire.name in _KINDS:
            states[:] = wire.name == _EXEC
            states[OTHER] = wire.name != _EXEC
        return states

    def _bound(self, wire: Wire, states: np.ndarray) -> None:
        """Adds states in which the wire can be anything in its range."""
        none = np.zeros(self._count)
        self._low[wire] = np.where(states, wire.low, self._low.get(wire, none))
        self._high[wire] = np.where(states, wire.high, self._high.get(wire, none))

    def _operation(self, op: Logic | Memory | Age) -> None:
        match op:
            case Logic():
                for unit in op.units:
                    states = self.open(unit)
                    for wire, _ in unit.outputs:
                        self._bound(wire, states)
            case Memory():
                states = np.ones(self._count, dtype=bool)
                for literal in () if op.read.tap else op.read.literals:
                    states &= self.high(literal) >= 1
                for wire, _ in op.outputs:
                    self._bound(wire, states)
            case Age():
                self._bound(op.output, np.ones(self._count, dtype=bool))
