"""The model: a Qwen3.5 text model of four layers, trained narrow and stored wide.

A stream whose dimensions are a narrow one's repeated says the same: a mean of squares over copies is the mean over one
of them, and a projection that reads every copy with its share of the weight gives the same sum. So the stored model has
the hidden size that a machine needs to lie in it in place, and training pays for the narrow one.
"""

from dataclasses import dataclass

import torch
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

LINEAR, FULL = "linear_attention", "full_attention"
_READ_THE_STREAM = (
    *("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "q_proj", "k_proj", "v_proj", "gate_proj"),
    *("up_proj", "lm_head"),
)
_WRITE_THE_STREAM = ("out_proj", "o_proj", "down_proj")


@dataclass(frozen=True)
class Size:
    """The trained model's extents. `copies`, a power of two: of each dimension of the stream in the stored model.

    A machine needs heads of 128 keys and values (classic), and in place a hidden size of at least its own (1088 for
    nano).
    """

    hidden: int = 136
    copies: int = 8
    mlp: int = 192
    layer_types: tuple[str, ...] = (LINEAR, FULL, LINEAR, FULL)
    heads: int = 4
    head_dim: int = 32
    linear_heads: int = 2
    linear_head_dim: int = 128


def make_model(size: Size, vocabulary: int, end: int) -> Qwen3_5ForCausalLM:
    """The narrow model with the generator's next weights. `end`: id of the token that ends a message."""
    config = Qwen3_5TextConfig(
        vocab_size=vocabulary,
        hidden_size=size.hidden,
        intermediate_size=size.mlp,
        num_hidden_layers=len(size.layer_types),
        layer_types=list(size.layer_types),
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
        head_dim=size.head_dim,
        linear_num_key_heads=size.linear_heads,
        linear_num_value_heads=size.linear_heads,
        linear_key_head_dim=size.linear_head_dim,
        linear_value_head_dim=size.linear_head_dim,
        max_position_embeddings=CONTEXT,
        initializer_range=INITIAL_SPREAD,
        tie_word_embeddings=False,
        eos_token_id=end,
    )
    model = Qwen3_5ForCausalLM(config)
    with torch.no_grad():
        model.model.embed_tokens.weight.normal_(EMBEDDING_MEAN, EMBEDDING_SPREAD)
    return model


CONTEXT = 4096
INITIAL_SPREAD = 0.06
"""Of the projections: a narrow stream wants more than the 0.02 of large models, to learn from the first step on."""
EMBEDDING_MEAN, EMBEDDING_SPREAD = 0.1, 0.15
"""Rows of the embedding share a direction, as those of large models do: it tells text from the machine's tokens."""


def stored_model(
    model: Qwen3_5ForCausalLM, copies: int, dtype: torch.dtype = torch.float32
) -> Qwen3_5ForCausalLM:
    """The same function on a stream of `copies` times the width, its weights rounded to `dtype`."""
    hidden = model.config.hidden_size * copies
    config = Qwen3_5TextConfig(**{**model.config.to_dict(), "hidden_size": hidden, "dtype": dtype})
    wide = Qwen3_5ForCausalLM._from_config(config, dtype=dtype)
    weights = model.state_dict()
    wide.load_state_dict({name: _widened(name, weight, copies) for name, weight in weights.items()})
    return wide


def _widened(name: str, weight: torch.Tensor, copies: int) -> torch.Tensor:
    module = name.split(".")[-2]
    if module in _READ_THE_STREAM:
        return weight.repeat(1, copies) / copies
    if module in _WRITE_THE_STREAM:
        return weight.repeat(copies, 1)
    if module == "embed_tokens":
        return weight.repeat(1, copies)
    if module in ("input_layernorm", "post_attention_layernorm") or name == "model.norm.weight":
        return weight.repeat(copies)
    return weight
