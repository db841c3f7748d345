"""The silence proof by running it: text rows through each circuit layer as the stock library computes it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toolchain.errors import CompileError
from toolchain.merge.base import Base
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


def run_silence(folder: Path, layers: int, base: Base, dtype: Dtype, tokens: np.ndarray) -> SilenceRun:
    """Runs the rows of `tokens` through every circuit layer of a merged folder, its weights in `dtype`."""
    import torch

    changed: set[int] = set()
    with torch.inference_mode():
        for layer in _stock_layers(folder, layers, dtype):
            for ids, rows in _rows(base, tokens):
                before = torch.zeros(
                    1, len(ids), layer.input_layernorm.weight.shape[0], dtype=getattr(torch, dtype)
                )
                before[0, :, : rows.shape[1]] = torch.from_numpy(rows)
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


def _rows(base: Base, tokens: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Embedding rows in pieces. Consecutive ids are read together."""
    for first in range(0, len(tokens), TOKENS_AT_A_TIME):
        ids = tokens[first : first + TOKENS_AT_A_TIME]
        if len(ids) == ids[-1] - ids[0] + 1:
            yield ids, base.embedding.numbers(int(ids[0]), len(ids))
        else:
            yield ids, np.concatenate([base.embedding.numbers(int(token), 1) for token in ids])


def _stock_layers(folder: Path, count: int, dtype: Dtype):
    """The folder's circuit layers, one at a time, as the stock class makes them."""
    import torch
    from safetensors import safe_open
    from transformers import Qwen3_5TextConfig
    from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5DecoderLayer

    config = Qwen3_5TextConfig.from_pretrained(folder, local_files_only=True)
    for number in range(count):
        with torch.device("meta"):
            layer = Qwen3_5DecoderLayer(config, number)
        prefix = f"model.layers.{number}."
        state = {}
        with safe_open(folder / circuit_file(number), framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - the file is no dict
                state[name.removeprefix(prefix)] = file.get_tensor(name).to(getattr(torch, dtype))
        layer.load_state_dict(state, assign=True)
        yield layer.eval()


def circuit_file(number: int) -> str:
    """The file of a merged folder that holds a circuit layer."""
    return f"circuit-{number:03d}.safetensors"
