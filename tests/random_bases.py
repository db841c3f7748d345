"""Random Qwen3.5 models to merge into: stock initialisation, an anisotropic embedding, a word-level tokenizer."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

SPREAD = 0.02
"""Standard deviation of the embedding around its mean."""
MEAN = 1.0
"""The mean's size against it in each dimension, as in trained embeddings: rows lean to one side."""
SMALL: Mapping[str, Any] = {
    "vocab_size": 400,
    "hidden_size": 1152,
    "intermediate_size": 3072,
    "num_hidden_layers": 2,
    "layer_types": ["linear_attention", "full_attention"],
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "linear_num_key_heads": 12,
    "linear_num_value_heads": 12,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 128,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "eos_token_id": 0,
}
"""A base into which `nano` fits without any padding."""


def random_base(
    folder: Path,
    changes: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.bfloat16,
    shard: str = "50GB",
    words: int | None = None,
) -> Path:
    """Writes a base of SMALL with `changes`; `words` of its rows have a token (default: all but three)."""
    torch.manual_seed(seed)
    config = Qwen3_5TextConfig(**{**SMALL, **(changes or {})})
    model: Any = Qwen3_5ForCausalLM(config)
    model = model.to(dtype)
    with torch.no_grad():
        lean = MEAN * torch.randn(config.hidden_size)
        for matrix in {model.model.embed_tokens.weight, model.lm_head.weight}:
            matrix.copy_(SPREAD * (lean + torch.randn(config.vocab_size, config.hidden_size)))
        for name, parameter in model.named_parameters():
            if name.endswith("layernorm.weight") or name == "model.norm.weight":
                parameter.copy_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(folder, max_shard_size=shard)
    count = config.vocab_size - 3 if words is None else words
    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(count)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "w0"})
    )
    return folder
