"""The base's tensors in the merged model's sizes: their own bytes, or their numbers among zeros.

Padding adds hidden units, heads and dimensions of which every weight is zero, in and out. A unit of a zero gate gives
silu(0) * 0 = 0; a head of zero keys and values keeps a state of zeros and gives norm(0) * silu(0) = 0; neither is read.
The value heads of a key head stay together, as the stock layer repeats each key head for the value heads that follow.

A widened stream is longer for the same mean of squares: what is written to it is scaled by a power of two, exactly, and
the norms over it by what is left.
"""

import math
from collections.abc import Iterator

import numpy as np

from toolchain.merge.base import Shape
from toolchain.merge.design import Design, Mode, head_channels
from toolchain.merge.tensor_files import PIECE, NewTensor, StoredTensor, narrowed, of_array

STREAM, UNITS, CHANNELS, VALUES, VALUE_HEADS = "stream", "units", "channels", "values", "value heads"
_AXES: dict[str, tuple[str | None, ...]] = {
    "linear_attn.in_proj_qkv.weight": (CHANNELS, STREAM),
    "linear_attn.conv1d.weight": (CHANNELS, None, None),
    "linear_attn.in_proj_z.weight": (VALUES, STREAM),
    "linear_attn.in_proj_b.weight": (VALUE_HEADS, STREAM),
    "linear_attn.in_proj_a.weight": (VALUE_HEADS, STREAM),
    "linear_attn.A_log": (VALUE_HEADS,),
    "linear_attn.dt_bias": (VALUE_HEADS,),
    "linear_attn.norm.weight": (None,),
    "linear_attn.out_proj.weight": (STREAM, VALUES),
    "self_attn.q_proj.weight": (None, STREAM),
    "self_attn.k_proj.weight": (None, STREAM),
    "self_attn.v_proj.weight": (None, STREAM),
    "self_attn.o_proj.weight": (STREAM, None),
    "self_attn.q_norm.weight": (None,),
    "self_attn.k_norm.weight": (None,),
    "mlp.gate_proj.weight": (UNITS, STREAM),
    "mlp.up_proj.weight": (UNITS, STREAM),
    "mlp.down_proj.weight": (STREAM, UNITS),
    "input_layernorm.weight": (STREAM,),
    "post_attention_layernorm.weight": (STREAM,),
    "model.embed_tokens.weight": (None, STREAM),
    "model.norm.weight": (STREAM,),
    "lm_head.weight": (None, STREAM),
}
"""What each axis of a base's tensor counts; None: nothing that a merge changes."""


def is_stream_norm(name: str) -> bool:
    """A norm over the residual stream, whose mean is over more dimensions in a widened model."""
    return name.endswith("layernorm.weight") or name == "model.norm.weight"


def _writes_stream(name: str) -> bool:
    """A matrix whose products are added to the residual stream, or its first rows."""
    return name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight", "embed_tokens.weight"))


def base_tensor(design: Design, name: str, stored: StoredTensor, new_name: str) -> tuple[NewTensor, bool]:
    """The tensor in the merged model, and whether it is the base's byte for byte. `name` is that within a layer."""
    axes = [_places(kind, design) for kind in _AXES[name]]
    if design.mode is Mode.WIDENED and is_stream_norm(name):
        return of_array(new_name, _widened_norm(design, stored), "F32"), False
    sizes = [size if axis is None else axis[1] for axis, size in zip(axes, stored.shape, strict=True)]
    if tuple(sizes) == stored.shape:
        return NewTensor(new_name, stored.kind, stored.shape, stored.pieces()), True
    rows = axes[0] or (np.arange(stored.rows), stored.rows)
    columns = (axes[1] if len(axes) > 1 else None) or (np.arange(stored.columns), stored.columns)
    scale = 2.0**design.text_log if _writes_stream(name) else 1.0
    return NewTensor(new_name, stored.kind, tuple(sizes), _spread(stored, rows, columns, scale)), False


_Axis = tuple[np.ndarray, int]
"""Where a tensor's old entries lie on an axis, in rising order, and its new size."""


def _places(kind: str | None, design: Design) -> _Axis | None:
    old, new = design.base_shape, design.shape
    match kind:
        case "stream":
            return np.arange(old.hidden), new.hidden
        case "units":
            return np.arange(old.mlp), new.mlp
        case "value heads":
            return np.arange(old.value_heads), new.value_heads
        case "values":
            places = head_channels(old.value_heads, old.value_dim, new.value_dim)
            return places, new.value_heads * new.value_dim
        case "channels":
            return _channels(old, new)
    return None


def _channels(old: Shape, new: Shape) -> _Axis:
    """The rows of in_proj_qkv: queries, keys, values."""
    keys = head_channels(old.key_heads, old.key_dim, new.key_dim)
    values = head_channels(old.value_heads, old.value_dim, new.value_dim)
    all_keys, all_values = new.key_heads * new.key_dim, new.value_heads * new.value_dim
    return np.concatenate([keys, all_keys + keys, 2 * all_keys + values]), 2 * all_keys + all_values


def _spread(stored: StoredTensor, rows: _Axis, columns: _Axis, scale: float) -> Iterator[bytes]:
    """The tensor's entries, times a power of two, at their places among zeros, a block of rows at a time."""
    step = max(1, PIECE // (columns[1] * stored.item))
    for first in range(0, rows[1], step):
        begin, end = np.searchsorted(rows[0], (first, first + step))
        block = np.zeros((min(step, rows[1] - first), columns[1]), dtype=np.float32)
        places = np.ix_(rows[0][begin:end] - first, columns[0])
        block[places] = stored.numbers(int(begin), int(end - begin)) * np.float32(scale)
        yield narrowed(block, stored.kind).tobytes()


def _widened_norm(design: Design, stored: StoredTensor) -> np.ndarray:
    """The norm's weights where the mean of squares is over the wider stream: (1 + w) shrinks by the root of the widths.

    On the added dimensions it is the identity, which the read-out of the machine's tokens counts on.
    """
    ratio = math.sqrt(design.base_shape.hidden / design.shape.hidden)
    weights = np.zeros(design.shape.hidden, dtype=np.float64)
    weights[: stored.rows] = (1 + stored.numbers()[:, 0].astype(np.float64)) * ratio - 1
    return weights.astype(np.float32)
