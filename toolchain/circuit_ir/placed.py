"""Placed circuit IR: every operation has a layer, every wire a slot of the residual stream, every head an index.

    PlacedCircuit = (circuit: Circuit, layers: Layer*, slots: {Wire: dimension}, ballast: (dimension, share)*,
                     hidden, mlp, heads)
    Layer         = (heads: (Memory | Age)*, logic: Logic*, erase: dimension*)

It runs as the half-layers of a stock model do: all heads of a layer, then its gated sums and erasures.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from toolchain.circuit_ir.evaluator import Evaluator, Phase
from toolchain.circuit_ir.ir import Age, Circuit, Gate, Logic, Memory, Op, Wire


@dataclass(frozen=True)
class Layer:
    """One decoder layer: its heads (index is the head), then its gated sums, then the slots it erases."""

    heads: tuple[Memory | Age, ...]
    logic: tuple[Logic, ...]
    erase: tuple[int, ...]

    @property
    def units(self) -> int:
        """Hidden units of the MLP: two a step, one a relu, one an erased slot."""
        steps = [2 if unit.kind is Gate.STEP else 1 for op in self.logic for unit in op.units]
        return sum(steps) + len(self.erase)


@dataclass(frozen=True)
class PlacedCircuit:
    """A circuit in layers. `slots[wire]` is the wire's residual dimension; `ballast` dimensions hold constants."""

    circuit: Circuit
    layers: tuple[Layer, ...]
    slots: dict[Wire, int]
    ballast: tuple[tuple[int, int], ...]
    """(dimension, share): the dimension holds sqrt(share) * 2**k; shares are powers of four and sum to `hidden`."""
    hidden: int
    mlp: int
    heads: int

    def phases(self) -> Iterator[Phase]:
        """The half-layers in order, as the evaluator runs them; cells are slots plus one."""
        for layer in self.layers:
            yield Phase(layer.heads)
            yield Phase(layer.logic, tuple(slot + 1 for slot in layer.erase))

    def evaluator(self) -> Evaluator:
        """Runs the placed circuit: the same arithmetic on slots, with erasures."""
        index = {wire: slot + 1 for wire, slot in self.slots.items()}
        return Evaluator(self.phases(), index, self.hidden + 1, self.circuit.outputs)

    def layer_of(self, op: Op) -> int:
        for number, layer in enumerate(self.layers):
            if op in layer.heads or op in layer.logic:
                return number
        raise ValueError(f"{op.name} is not placed")
