"""Why the machine's tokens do not win on text: a direction that all their output rows share, found on calibration text.

On text the output rows of the machine's tokens read what happens to lie on the dimensions of the circuit's outputs. So
each gets the same -K m on dimensions that the machine's tokens leave zero, m.h > 0 for the final row h of every
position of the calibration text. Between the machine's own tokens that changes nothing; on them it adds what the base's
layers leave there, which `Readout.base` bounds. Text that is not like the calibration text has no such promise: text
mode masks the machine's tokens (runtime/merged.py).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toolchain.merge.base import Base
from toolchain.merge.design import Design
from toolchain.merge.separation import ascend
from toolchain.merge.stock_layers import (
    EMBEDDING_FILE,
    NORM_FILE,
    base_file,
    merged_text_config,
    stock_layers,
    tensors,
)
from toolchain.merge.tensor_files import read_header

SEQUENCES, LENGTH = 8, 48
"""Calibration text: tokens drawn evenly from the vocabulary, as no text is known that suits every base."""
SEED = 1
WANTED = 1.0
"""How far the machine's logits are to stay below the largest text logit."""


@dataclass(frozen=True)
class TextBias:
    """`vector` is added to every output row of the machine's tokens.

    `before`, `margin`: the least by which the largest text logit exceeds the machine's largest, over all `positions`,
    without the vector and with it.
    """

    vector: np.ndarray
    positions: int
    before: float
    margin: float

    def line(self) -> str:
        return (
            f"on {self.positions} positions of calibration text the machine's logits stay {self.margin:.3g} below the "
            f"largest text logit ({self.before:.3g} without the shared direction)"
        )


def final_rows(folder: Path, design: Design, base: Base) -> np.ndarray:
    """[positions, hidden]: calibration text after the base's layers and the final norm, as the output matrix reads it.

    The circuit layers, which do nothing to text, are left out.
    """
    import torch
    from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5RMSNorm, Qwen3_5TextRotaryEmbedding

    config, dtype = merged_text_config(folder), getattr(torch, base.dtype)
    ids = np.random.default_rng(SEED).integers(base.vocabulary, size=SEQUENCES * LENGTH)
    embedding = read_header(folder / EMBEDDING_FILE)["model.embed_tokens.weight"]
    rows = np.concatenate([embedding.numbers(int(token), 1) for token in ids])
    hidden = torch.from_numpy(rows).to(dtype).reshape(SEQUENCES, LENGTH, -1)
    count = len(base.layer_types)
    files = ((design.layers + number, base_file(number)) for number in range(count))
    with torch.inference_mode():
        positions = torch.arange(LENGTH).expand(3, SEQUENCES, -1)
        rotary = Qwen3_5TextRotaryEmbedding(config)(hidden, positions)
        for layer in stock_layers(folder, files, base.dtype):
            hidden = layer(hidden, position_embeddings=rotary)
        norm = Qwen3_5RMSNorm(design.shape.hidden, eps=config.rms_norm_eps)
        norm.load_state_dict(tensors(folder / NORM_FILE, "model.norm.", base.dtype))
        return norm(hidden).float().reshape(SEQUENCES * LENGTH, -1).numpy()


def text_bias(rows: np.ndarray, free: np.ndarray, base: Base, machine_rows: Iterable[np.ndarray]) -> TextBias:
    """Chooses K and m. `free`: dimensions that are zero on the machine's tokens at the end."""
    text = np.full(len(rows), -np.inf)
    for _, block in base.output.blocks():
        text = np.maximum(text, (rows[:, : block.shape[1]] @ block.T).max(axis=1))
    machine = np.full(len(rows), -np.inf)
    for block in machine_rows:
        machine = np.maximum(machine, (rows @ block.T).max(axis=1))
    vector = np.zeros(rows.shape[1], dtype=np.float32)
    units = rows[:, free] / np.linalg.norm(rows, axis=1, keepdims=True)
    direction = ascend(units.mean(axis=0), units)
    shares = rows[:, free] @ direction
    needed = machine - text + WANTED
    if shares.min() > 0 and needed.max() > 0:
        vector[free] = -direction * 2.0 ** math.ceil(math.log2((needed / shares).max()))
    before, after = text - machine, text - (machine + rows @ vector)
    return TextBias(vector, len(rows), float(before.min()), float(after.min()))
