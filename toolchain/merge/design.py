"""How a machine's circuit lies in a base's layers: sizes of the merged model, slots, ballast, amplitude."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from toolchain.circuit_ir.placed import PlacedCircuit
from toolchain.circuit_ir.placement import HIDDEN_STEP, ballast_shares
from toolchain.errors import CompileError
from toolchain.machine_spec import MachineSpec
from toolchain.merge.base import Shape
from toolchain.merge.occupancy import with_eager_erasures
from toolchain.weights_backend.numerics import BALLAST_LOG, Dtype

MOST_ENERGY_LOG = 126
"""A row's sum of squares stays below 2**MOST_ENERGY_LOG, so that float32 holds it."""
OUTPUT_LOG = BALLAST_LOG + 3
"""An output that is 1 is this power of two after the last half-layer, beside a ballast of about 2**(BALLAST_LOG + 5):
nothing is normed between but by the base's layers, and the read-out wants outputs that show next to the ballast."""


class Mode(StrEnum):
    """Where the machine's slots are: among the base's own dimensions, or in dimensions added for them."""

    IN_PLACE = "in place"
    WIDENED = "widened"


@dataclass(frozen=True)
class Design:
    """A machine on a base.

    `spec` is the machine that programs are compiled for; `heads` the same with the heads of the merged model, which
    may have more rows, values and heads; `placed` is its circuit on the merged stream.
    """

    mode: Mode
    spec: MachineSpec
    heads: MachineSpec
    placed: PlacedCircuit
    shape: Shape
    base_shape: Shape
    dtype: Dtype

    @property
    def layers(self) -> int:
        """Circuit layers."""
        return len(self.placed.layers)

    @property
    def amplitude_log(self) -> int:
        """log2 of the machine's stream against a checkpoint of its own: RMSNorm does not see it, the base's layers
        cannot reach it."""
        room = MOST_ENERGY_LOG - 2 * BALLAST_LOG - math.ceil(math.log2(self.shape.hidden)) - 1
        return room // 2

    @property
    def text_log(self) -> int:
        """log2 of the text's stream against the base's own, as near to the root of the widths' ratio as one comes.

        So the stream's mean of squares over the wider stream is about the base's, and the norms' epsilon, which the
        heads' norms share, can stay.
        """
        return round(math.log(self.shape.hidden / self.base_shape.hidden, 4))

    @property
    def output_log(self) -> int:
        """log2 of an output that is 1, in the stream after the last circuit layer."""
        return OUTPUT_LOG + self.amplitude_log

    @property
    def padded(self) -> tuple[str, ...]:
        """What of the base's layers gets zeros, in words."""
        names = {"mlp": "MLP", "key_heads": "key heads", "value_heads": "value heads"}
        old, new = self.base_shape, self.shape
        return tuple(
            f"{text} {getattr(old, name)} to {getattr(new, name)}"
            for name, text in names.items()
            if getattr(old, name) != getattr(new, name)
        )


def design(mode: Mode, spec: MachineSpec, placed: PlacedCircuit, base: Shape, dtype: Dtype) -> Design:
    """Lays the machine's circuit on the base's stream. Raises CompileError where it cannot lie there."""
    if base.key_dim < spec.head_rows or base.value_dim < spec.head_values:
        raise CompileError(
            f"the base's heads hold {base.key_dim} rows of {base.value_dim}; machine '{spec.name}' needs "
            f"{spec.head_rows} of {spec.head_values}",
            hint="choose a smaller machine: a .toml file with head_rows and head_values",
        )
    heads = max(base.key_heads, placed.heads)
    shape = Shape(
        hidden=base.hidden if mode is Mode.IN_PLACE else _widened_hidden(placed, base.hidden),
        mlp=max(base.mlp, placed.mlp),
        key_heads=heads,
        value_heads=heads * base.group,
        key_dim=base.key_dim,
        value_dim=base.value_dim,
    )
    physical = replace(spec, heads=heads, head_rows=shape.key_dim, head_values=shape.value_dim)
    shifted = _on_stream(placed, shape, 0 if mode is Mode.IN_PLACE else base.hidden)
    if mode is Mode.IN_PLACE:
        shifted = with_eager_erasures(shifted, shape.mlp)
    return Design(mode, spec, physical, shifted, shape, base, dtype)


def _widened_hidden(placed: PlacedCircuit, base: int) -> int:
    """The smallest hidden size with room for the machine's slots and the ballast beside the base's dimensions."""
    data = placed.hidden - len(placed.ballast)
    hidden = -(-(base + data) // HIDDEN_STEP) * HIDDEN_STEP
    while hidden - base < data + len(ballast_shares(hidden)):
        hidden += HIDDEN_STEP
    return hidden


def _on_stream(placed: PlacedCircuit, shape: Shape, first: int) -> PlacedCircuit:
    """The circuit with its slots from dimension `first` on, and ballast for the stream's whole width."""
    places = [first + slot for slot, _ in placed.ballast]
    places += range(first + placed.hidden, shape.hidden)
    shares = ballast_shares(shape.hidden)
    if shape.hidden < first + placed.hidden or len(places) < len(shares):
        raise CompileError(
            f"the base's hidden size {shape.hidden} has no room for machine '{placed.circuit.name}', "
            f"which needs {placed.hidden} and {len(shares)} dimensions of ballast"
        )
    return replace(
        placed,
        slots={wire: first + slot for wire, slot in placed.slots.items()},
        layers=tuple(
            replace(layer, erase=tuple(first + slot for slot in layer.erase)) for layer in placed.layers
        ),
        ballast=tuple(zip(places, shares, strict=False)),
        hidden=shape.hidden,
        mlp=shape.mlp,
        heads=shape.key_heads,
    )


def head_channels(heads: int, dim: int, new_dim: int, step: int = 1) -> np.ndarray:
    """Where each channel of `heads` heads of `dim` lies among heads of `new_dim`, of which every `step`th is taken."""
    return (np.arange(heads)[:, None] * step * new_dim + np.arange(dim)[None, :]).reshape(-1)
