"""safetensors files read and written in pieces, so that no tensor has to be whole in memory.

The library writes whole tensors only; the format is a length, a JSON table and the tensors' bytes
(https://github.com/huggingface/safetensors#format). The library reads every file that is written here.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from toolchain.errors import CompileError
from toolchain.weights_backend.numerics import Dtype

PIECE = 1 << 22
"""Bytes that are read or written at a time."""
NAMES = {Dtype.BFLOAT16: "BF16", Dtype.FLOAT32: "F32"}
_ITEM = {"BF16": 2, "F32": 4}
_ALIGNMENT = 8


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file: `kind` is the format's name of its dtype, `offset` where its bytes begin."""

    name: str
    path: Path
    kind: str
    shape: tuple[int, ...]
    offset: int

    @property
    def item(self) -> int:
        """Bytes of a number."""
        return _ITEM[self.kind]

    @property
    def rows(self) -> int:
        """Entries of the first axis."""
        return self.shape[0]

    @property
    def columns(self) -> int:
        """Numbers in each of them."""
        return prod(self.shape[1:])

    @property
    def size(self) -> int:
        """Bytes in all."""
        return prod(self.shape) * self.item

    def pieces(self) -> Iterator[bytes]:
        """The tensor's bytes."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            left = self.size
            while left:
                piece = file.read(min(PIECE, left))
                if not piece:
                    raise CompileError(f"'{self.path}' ends within {self.name}", hint="fetch it again")
                left -= len(piece)
                yield piece

    def raw(self, first: int = 0, count: int | None = None) -> np.ndarray:
        """Rows as they are stored: [count, columns] of uint16 (bfloat16's bits) or float32."""
        count = self.rows - first if count is None else count
        kind = np.dtype(np.uint16 if self.item == 2 else np.float32)
        with self.path.open("rb") as file:
            file.seek(self.offset + first * self.columns * self.item)
            flat = np.fromfile(file, kind, count * self.columns)
        if flat.size != count * self.columns:
            raise CompileError(f"'{self.path}' ends within {self.name}", hint="fetch it again")
        return flat.reshape(count, self.columns)

    def numbers(self, first: int = 0, count: int | None = None) -> np.ndarray:
        """The same as float32."""
        return widened(self.raw(first, count))

    def blocks(self, rows: int = 0) -> Iterator[tuple[int, np.ndarray]]:
        """(first row, float32 rows) in order, a piece at a time."""
        rows = rows or max(1, PIECE // (self.columns * self.item))
        for first in range(0, self.rows, rows):
            yield first, self.numbers(first, min(rows, self.rows - first))


@dataclass(frozen=True)
class NewTensor:
    """A tensor to write: its bytes come in pieces."""

    name: str
    kind: str
    shape: tuple[int, ...]
    pieces: Iterable[bytes]

    @property
    def size(self) -> int:
        return prod(self.shape) * _ITEM[self.kind]


def widened(raw: np.ndarray) -> np.ndarray:
    """Stored numbers as float32."""
    if raw.dtype == np.uint16:
        return (raw.astype(np.uint32) << 16).view(np.float32)
    return raw


def narrowed(numbers: np.ndarray, kind: str) -> np.ndarray:
    """float32 numbers as they are stored: bfloat16's bits by rounding to nearest even."""
    if kind == "F32":
        return np.ascontiguousarray(numbers, np.float32)
    bits = np.ascontiguousarray(numbers, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def of_array(name: str, numbers: np.ndarray, kind: str) -> NewTensor:
    """A whole array as a tensor to write, converted a piece at a time."""
    flat = numbers.reshape(-1)
    step = PIECE // 4
    pieces = (narrowed(flat[i : i + step], kind).tobytes() for i in range(0, flat.size, step))
    return NewTensor(name, kind, numbers.shape, pieces)


def read_header(path: Path) -> dict[str, StoredTensor]:
    """A file's tensors by name. Raises CompileError where it is no whole safetensors file of the dtypes known here."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            size = path.stat().st_size
            if length > size:
                raise ValueError("its table is longer than the file")
            table = json.loads(file.read(length))
        tensors = {
            name: StoredTensor(
                name, path, entry["dtype"], tuple(entry["shape"]), 8 + length + entry["data_offsets"][0]
            )
            for name, entry in table.items()
            if name != "__metadata__"
        }
        ends = [entry["data_offsets"][1] for name, entry in table.items() if name != "__metadata__"]
    except OSError as error:
        raise CompileError(f"cannot read '{path}': {error.strerror}") from error
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise CompileError(f"'{path}' is no safetensors file: {error}", hint="fetch it again") from error
    if 8 + length + max(ends, default=0) > size:
        raise CompileError(f"'{path}' is cut short", hint="fetch it again")
    return tensors


def write_tensors(path: Path, tensors: Sequence[NewTensor]) -> int:
    """Writes a file; gives the bytes of its tensors."""
    table: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor in tensors:
        ends = [offset, offset + tensor.size]
        table[tensor.name] = {"dtype": tensor.kind, "shape": list(tensor.shape), "data_offsets": ends}
        offset = ends[1]
    header = json.dumps(table, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little"))
        file.write(header)
        for tensor in tensors:
            written = sum(file.write(piece) for piece in tensor.pieces)
            if written != tensor.size:
                raise ValueError(f"{tensor.name}: {written} bytes for a shape of {tensor.size}")
    return offset
