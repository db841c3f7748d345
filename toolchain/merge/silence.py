"""Shuts a circuit layer to text: every gate, key, query, value, write and decay far below zero on every text row.

A text row reaches a circuit layer as its embedding, as long as the layers before add exactly nothing. Let x be the row
as the layer's norm gives it, w a row of one of the projections, and m the half-layer's direction (separation.py). Then
w.x <= |w| |x| and m.x >= c |m| |x|, so that (w - K m).x <= -(K c |m| - |w|) |x|, whatever the token. K is a power of
two that leaves at least |w| |x| and FAR below zero. The c here is the measured one less ROUNDING, for the norm's
rounding; float32 sums of the products are off by less than the |w| |x| that is left.

silu of such a number is -0, sigmoid is 0, and the decay is 1, exactly. So the MLP adds down(0 * up) = 0; the heads
write beta * ... = 0 and their output is norm(...) * silu(z) = 0. On the machine's tokens m's dimensions are zero.
"""

import math
from dataclasses import dataclass

import numpy as np

from toolchain.errors import CompileError
from toolchain.merge.design import Design
from toolchain.merge.separation import Separation
from toolchain.weights_backend.layers import Tensors
from toolchain.weights_backend.numerics import BALLAST_LOG

HEADS = tuple(f"linear_attn.in_proj_{name}.weight" for name in ("qkv", "z", "b", "a"))
MLP = ("mlp.gate_proj.weight",)
ROUNDING = 2.0**-8
"""What rounding a row to bfloat16, number by number, takes from a cosine at most, and float32 from the sums."""
FAR = 1024.0
"""Pre-activations are at least this far below zero, where every dtype's silu and sigmoid give 0."""
ROWS_AT_A_TIME = 256


@dataclass(frozen=True)
class HalfLayer:
    """The proof for one half-layer: `dimensions` carry the direction, `cosine` is the smallest, that of `token`."""

    name: str
    dimensions: int
    cosine: float
    token: int
    inhibition: float
    """The largest K."""
    rows: int
    """Rows of the projections that are shut."""

    def line(self) -> str:
        return (
            f"{self.name:16} {self.dimensions:6} dimensions  cosine {self.cosine:8.4f} (token {self.token})  "
            f"{self.rows:6} rows shut"
            + (f" by up to 2**{math.log2(self.inhibition):.0f}" if self.rows else "")
        )


def half_layer_name(time: int) -> str:
    """A half-layer in words: `layer 3 heads`."""
    return f"layer {time // 2} {'MLP' if time % 2 else 'heads'}"


def refuse_open(design: Design, separations: list[Separation]) -> None:
    """Raises CompileError where a half-layer has no direction that separates all text tokens, naming tokens."""
    for time, found in enumerate(separations[: 2 * design.layers]):
        if not found.holds:
            shown = ", ".join(map(str, found.failing[:8])) + (", .." if len(found.failing) > 8 else "")
            raise CompileError(
                f"{half_layer_name(time)} cannot be shut to text: of its {found.dimensions.size} free dimensions no "
                f"direction separates {len(found.failing)} tokens: {shown} (least cosine {found.cosine:.4f})",
                hint="--mode widened",
            )


def shut(
    design: Design,
    number: int,
    tensors: Tensors,
    separations: list[Separation],
    shortest: float,
    epsilon: float,
) -> list[HalfLayer]:
    """Adds the inhibition to a circuit layer's tensors in place. `shortest`: the least RMS of a text row."""
    reach = 2.0**BALLAST_LOG * math.sqrt(design.shape.hidden / (1 + epsilon / shortest**2))
    proofs = []
    for time, names in ((2 * number, HEADS), (2 * number + 1, MLP)):
        found = separations[time]
        floor = FAR / reach
        strongest, rows = 0.0, 0
        for name in names:
            for first in range(0, len(tensors[name]), ROWS_AT_A_TIME):
                block = tensors[name][first : first + ROWS_AT_A_TIME]
                factors = _inhibition(block, found, floor)
                if block[:, found.dimensions].any():
                    raise ValueError(f"{half_layer_name(time)}: {name} reads a dimension that holds nothing")
                block[:, found.dimensions] = -factors[:, None] * found.weights
                strongest, rows = max(strongest, float(factors.max())), rows + int((factors > 0).sum())
        proofs.append(
            HalfLayer(
                half_layer_name(time), found.dimensions.size, found.cosine, found.token, strongest, rows
            )
        )
    return proofs


def _inhibition(block: np.ndarray, found: Separation, floor: float) -> np.ndarray:
    """K for each row of a projection, a power of two; 0 for a row of zeros, which gives 0 for any text."""
    lengths = np.linalg.norm(block, axis=1)
    share = (found.cosine - ROUNDING) * float(np.linalg.norm(found.weights))
    wanted = (lengths + np.maximum(lengths, floor)) / share
    return np.where(lengths > 0, np.exp2(np.ceil(np.log2(np.maximum(wanted, 2.0**-100)))), 0).astype(
        np.float32
    )
