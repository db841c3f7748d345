"""The silence proof by running it: text rows through each circuit layer as the stock library computes it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toolchain.errors import CompileError
from toolchain.merge.stock_layers import EMBEDDING_FILE, circuit_file, stock_layers
from toolchain.merge.tensor_files import StoredTensor, read_header
from toolchain.weights_backend.numerics import Dtype

TOKENS_AT_A_TIME = 512


@dataclass(frozen=True)
class SilenceRun:
    """How many text rows were run through `layers` circuit layers in a dtype, and the ids of those that changed.

    A row of which a number -0 became 0 is not counted: no later operation tells them apart.
    """

    dtype: Dtype
    layers: int
    rows: int
    changed: tuple[int, ...]

    def line(self) -> str:
        return (
            f"{self.dtype}: {self.rows} text rows through {self.layers} stock layers, "
            f"{len(self.changed)} changed"
        )


def run_silence(folder: Path, layers: int, dtype: Dtype, tokens: np.ndarray) -> SilenceRun:
    """Runs the rows of `tokens` through every circuit layer of a merged folder, its weights in `dtype`."""
    import torch

    changed: set[int] = set()
    files = [(number, circuit_file(number)) for number in range(layers)]
    embedding = read_header(folder / EMBEDDING_FILE)["model.embed_tokens.weight"]
    with torch.inference_mode():
        for layer in stock_layers(folder, files, dtype):
            for ids, rows in _rows(embedding, tokens):
                before = torch.from_numpy(rows)[None].to(getattr(torch, dtype))
                after = layer(before, position_embeddings=None)
                changed |= {int(ids[i]) for i in torch.nonzero((after != before)[0].any(dim=1))}
    return SilenceRun(dtype, layers, len(tokens), tuple(sorted(changed)))


def refuse_changed(runs: Iterable[SilenceRun]) -> None:
    """Raises CompileError where a text row changed."""
    for run in runs:
        if run.changed:
            shown = ", ".join(map(str, run.changed[:8]))
            raise CompileError(
                f"in {run.dtype} a circuit layer changes {len(run.changed)} text tokens: {shown}"
            )


def _rows(embedding: StoredTensor, tokens: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Embedding rows in pieces. Consecutive ids are read together."""
    for first in range(0, len(tokens), TOKENS_AT_A_TIME):
        ids = tokens[first : first + TOKENS_AT_A_TIME]
        if len(ids) == ids[-1] - ids[0] + 1:
            yield ids, embedding.numbers(int(ids[0]), len(ids))
        else:
            yield ids, np.concatenate([embedding.numbers(int(token), 1) for token in ids])
