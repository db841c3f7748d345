"""A base model with a machine in its first layers, as `qgpuc merge` writes it: text, and launches beside it.

The stock library loads the folder. A launch runs on the circuit layers alone, in a cache of its own: they are a stock
model too, whose modules and rows are those of the merged one. So the conversation's cache is as if the launch had not
happened. docs/MERGE.md says why the text is the base's own.
"""

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.launcher import CheckpointEngine
from runtime.transformers_engine import TransformersEngine, load_model
from runtime.vocabulary import END, Vocabulary
from toolchain.errors import CompileError
from toolchain.weights_backend.checkpoint import ATTENTION_HEAD, SPEC_FILE

MERGE_KEY = "merge"
"""Field of the folder's description that a machine's own checkpoint lacks."""


@dataclass(frozen=True)
class MergeDescription:
    """What a merged folder says of itself: the circuit layers come first, the machine's tokens last."""

    mode: str
    layers: int
    """Circuit layers."""
    first_token: int
    """Id of the machine's first token, which is the number of text tokens."""
    tokens: int
    """Tokens of the machine."""


def merge_description(folder: Path) -> MergeDescription:
    """What a merged folder says of itself. Raises CompileError where it is none."""
    try:
        return MergeDescription(**json.loads((folder / SPEC_FILE).read_text())[MERGE_KEY])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CompileError(
            f"'{folder}' is no language model with a machine in it",
            hint="make one with: qgpuc merge --base DIR -o DIR",
        ) from error


class MergedModel(CheckpointEngine):
    """A merged folder: the stock model, its tokenizer, and an engine for launches.

    `run(program, on_token)` (runtime/launcher.py) executes a launch on the circuit layers alone.
    """

    name = "merged"

    def __init__(self, folder: Path) -> None:
        """Raises CompileError where the folder is none that `qgpuc merge` wrote, or does not load."""
        self.description = merge_description(folder)
        super().__init__(folder)
        self.model: Any = load_model(folder)
        self.tokenizer = _load_tokenizer(folder)
        end = Vocabulary(self.spec).id(END)
        self._machine = TransformersEngine(folder, _circuit_model(self.model, self.description, end))

    def decode(self, load: Sequence[int], limit: int, on_token: Callable[[int], None]) -> list[int]:
        return self._machine.decode(load, limit, on_token)

    def memory(self) -> tuple[int, ...]:
        return tuple(self._machine.memory())

    def text_only(self):
        """A logits processor for `generate` that leaves text tokens only."""
        from transformers import LogitsProcessor

        first = self.description.first_token

        class TextOnly(LogitsProcessor):
            """Shuts out the machine's tokens."""

            def __call__(self, input_ids, scores):
                scores[:, first:] = float("-inf")
                return scores

        return TextOnly()


def _load_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise CompileError(f"the tokenizer of '{folder}' does not load: {error}") from error


def _circuit_model(model: Any, description: MergeDescription, end: int) -> Any:
    """The circuit layers as a stock model of the machine's tokens, over the merged model's own tensors.

    It ends with a full-attention layer that adds nothing, as the cache wants one.
    """
    import torch
    from transformers import Qwen3_5ForCausalLM
    from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5DecoderLayer, Qwen3_5TextRotaryEmbedding

    layers, first = description.layers, description.first_token
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = layers + 1
    config.layer_types = [*config.layer_types[:layers], "full_attention"]
    config.num_attention_heads = config.num_key_value_heads = 1
    config.head_dim = ATTENTION_HEAD
    config.vocab_size = description.tokens
    config.eos_token_id = end
    narrow = copy.deepcopy(config)
    narrow.intermediate_size = 1
    with torch.device("meta"):
        circuit = Qwen3_5ForCausalLM(config)
    closing = Qwen3_5DecoderLayer(narrow, layers)
    for parameter in closing.parameters():
        parameter.data.zero_()
    circuit.model.layers = torch.nn.ModuleList(
        [*model.model.layers[:layers], closing.to(model.device, model.dtype)]
    )
    circuit.model.norm = model.model.norm
    circuit.model.rotary_emb = Qwen3_5TextRotaryEmbedding(config).to(model.device)
    embedding, output = model.model.embed_tokens.weight[first:], model.lm_head.weight[first:]
    circuit.model.embed_tokens.weight = torch.nn.Parameter(embedding, requires_grad=False)
    circuit.lm_head.weight = torch.nn.Parameter(output, requires_grad=False)
    return circuit.eval()
