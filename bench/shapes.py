"""The placed circuit of each machine: what a checkpoint's layers look like. Exact, worked out anew."""

from collections.abc import Iterator

from bench.kernels import MACHINES
from toolchain.machine_build import placed_circuit


def lines() -> Iterator[str]:
    """A row a machine."""
    yield "| machine | lanes | warps | memory words | circuit layers | hidden | MLP | heads |"
    yield "|---|---|---|---|---|---|---|---|"
    for spec in MACHINES:
        placed = placed_circuit(spec)
        shape = f"{len(placed.layers)} | {placed.hidden} | {placed.mlp} | {placed.heads}"
        yield f"| `{spec.name}` | {spec.lanes} | {spec.warps} | {spec.memory_words} | {shape} |"
