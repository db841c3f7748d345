"""The bounds report for machines: which range every slot of the residual stream is proved or promised to keep.

A checkpoint folder has it as `ranges.json`, with the hash of the tensors it holds for; `bounds.txt` is the proof
in words.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from toolchain.circuit_ir.ir import Age, Op, Wire, op_writes
from toolchain.circuit_ir.placed import PlacedCircuit

RANGES_FILE = "ranges.json"
INPUT = -1
"""Half-layer of what the embedding writes; 2 * n is layer n's heads, 2 * n + 1 its MLP."""


@dataclass(frozen=True)
class SlotRange:
    """From half-layer `start` on the slot holds an integer of low .. high; a power of two where these are None."""

    slot: int
    start: int
    low: int | None
    high: int | None


@dataclass(frozen=True)
class SlotRanges:
    """`tensors` is the SHA-256 of the tensor files that the ranges are for."""

    tensors: str
    ranges: tuple[SlotRange, ...]

    def write(self, path: Path) -> None:
        rows = [[item.slot, item.start, item.low, item.high] for item in self.ranges]
        path.write_text(json.dumps({"tensors": self.tensors, "ranges": rows}) + "\n")

    @classmethod
    def read(cls, path: Path) -> "SlotRanges":
        """Raises OSError, ValueError, KeyError or TypeError where the file is missing or damaged."""
        table = json.loads(path.read_text())
        return cls(str(table["tensors"]), tuple(SlotRange(*row) for row in table["ranges"]))


def slot_ranges(placed: PlacedCircuit) -> tuple[SlotRange, ...]:
    """Every wire's range with the half-layer in which its slot begins to hold it."""
    start: dict[Wire, int] = dict.fromkeys(placed.circuit.inputs, INPUT)
    ages: set[Wire] = set()
    for time, op in placed_operations(placed):
        if isinstance(op, Age):
            ages.add(op.output)
        for wire in op_writes(op):
            start.setdefault(wire, time)
    rows = []
    for wire, time in start.items():
        if wire in placed.slots:
            ends = (None, None) if wire in ages else (wire.low, wire.high)
            rows.append(SlotRange(placed.slots[wire], time, *ends))
    return tuple(sorted(rows, key=lambda row: (row.slot, row.start)))


def placed_operations(placed: PlacedCircuit) -> Iterator[tuple[int, Op]]:
    """The half-layer of every operation, in order."""
    for number, layer in enumerate(placed.layers):
        yield from ((2 * number, op) for op in layer.heads)
        yield from ((2 * number + 1, op) for op in layer.logic)


def tensors_hash(shards: list[Path]) -> str:
    """SHA-256 of the tensor files' bytes, in order."""
    digest = hashlib.sha256()
    for path in shards:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
