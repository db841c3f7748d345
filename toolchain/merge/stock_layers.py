"""Layers of a merged folder that is still being written, one at a time, as the stock classes make them."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from toolchain.weights_backend.numerics import Dtype

EMBEDDING_FILE = "embedding.safetensors"
NORM_FILE = "norm.safetensors"


def circuit_file(number: int) -> str:
    """The file of a merged folder that holds a circuit layer."""
    return f"circuit-{number:03d}.safetensors"


def base_file(number: int) -> str:
    """The file that holds a layer of the base."""
    return f"base-{number:03d}.safetensors"


def merged_text_config(folder: Path) -> Any:
    """The folder's config; its attention is causal without a mask."""
    from transformers import Qwen3_5TextConfig

    config = Qwen3_5TextConfig.from_pretrained(folder, local_files_only=True)
    config._attn_implementation = "sdpa"
    return config


def stock_layers(folder: Path, files: Iterable[tuple[int, str]], dtype: Dtype) -> Iterator[Any]:
    """The layers of these numbers in these files, with their weights in `dtype`."""
    import torch
    from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5DecoderLayer

    config = merged_text_config(folder)
    for number, name in files:
        with torch.device("meta"):
            layer = Qwen3_5DecoderLayer(config, number)
        layer.load_state_dict(tensors(folder / name, f"model.layers.{number}.", dtype), assign=True)
        yield layer.eval()


def tensors(path: Path, prefix: str, dtype: Dtype) -> dict[str, Any]:
    """A file's tensors in `dtype`, by their names after `prefix`."""
    import torch
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        names = list(file.keys())
        return {name.removeprefix(prefix): file.get_tensor(name).to(getattr(torch, dtype)) for name in names}
