"""A checkpoint's tensors as sparse rows, and the hash that names them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from toolchain.errors import CompileError

INDEX = "model.safetensors.index.json"
Row = tuple[tuple[int, float], ...]
"""(column, weight) of the nonzero entries, by column."""


@dataclass(frozen=True)
class SparseMatrix:
    """A matrix by rows: row r has entries `start[r] .. start[r + 1]` of `columns` and `values`."""

    shape: tuple[int, int]
    start: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, dense: np.ndarray) -> "SparseMatrix":
        rows, columns = np.nonzero(dense)
        start = np.searchsorted(rows, np.arange(dense.shape[0] + 1))
        values = dense[rows, columns].astype(np.float64)
        return cls((dense.shape[0], dense.shape[1]), start, columns, values)

    def row(self, index: int) -> Row:
        part = slice(self.start[index], self.start[index + 1])
        return tuple(zip(self.columns[part].tolist(), self.values[part].tolist(), strict=True))

    def rows(self) -> Iterator[Row]:
        for index in range(self.shape[0]):
            yield self.row(index)

    @cached_property
    def transposed(self) -> "SparseMatrix":
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.start))
        order = np.lexsort((rows, self.columns))
        columns = self.columns[order]
        start = np.searchsorted(columns, np.arange(self.shape[1] + 1))
        return SparseMatrix((self.shape[1], self.shape[0]), start, rows[order], self.values[order])


class Checkpoint:
    """A checkpoint folder: its config, and its tensors as they are asked for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            self.config = json.loads((directory / "config.json").read_text())
            self._places: dict[str, str] = json.loads((directory / INDEX).read_text())["weight_map"]
        except (OSError, ValueError, KeyError) as error:
            raise CompileError(
                f"'{directory}' is not a checkpoint: config.json or {INDEX} is missing or damaged",
                hint="make one with: qgpuc build --machine classic -o DIR",
            ) from error

    @property
    def circuit_layers(self) -> int:
        """Gated DeltaNet layers; what follows them adds nothing and is checked to."""
        return sum(kind == "linear_attention" for kind in self.config["layer_types"])

    def shards(self) -> list[Path]:
        """The tensor files, by name."""
        return sorted({self.directory / name for name in self._places.values()})

    def dense(self, name: str) -> np.ndarray:
        """A tensor as float32."""
        import torch
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.directory / self._places[name], "pt") as file:
                tensor = file.get_tensor(name)
        except (KeyError, OSError, SafetensorError) as error:
            raise CompileError(
                f"the checkpoint '{self.directory}' lacks {name}", hint="build it again"
            ) from error
        if tensor.dtype is torch.bfloat16:
            words = tensor.view(torch.int16).numpy().view(np.uint16)
            return (words.astype(np.uint32) << 16).view(np.float32)
        return tensor.float().numpy()

    def sparse(self, name: str) -> SparseMatrix:
        """A matrix's nonzero entries."""
        return SparseMatrix.of(self.dense(name))
