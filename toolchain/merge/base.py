"""The base: a Hugging Face folder of a Qwen3.5 text model, or of the conditional-generation class, read as it lies."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from toolchain.errors import CompileError
from toolchain.merge.tensor_files import StoredTensor, read_header
from toolchain.weights_backend.checkpoint import SPEC_FILE
from toolchain.weights_backend.layers import CONVOLUTION
from toolchain.weights_backend.numerics import Dtype

TEXT_CLASS, WHOLE_CLASS = "Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"
INDEX_FILE = "model.safetensors.index.json"
SINGLE_FILE = "model.safetensors"
LINEAR, FULL = "linear_attention", "full_attention"
_TEXT_PREFIXES = {TEXT_CLASS: "model.", WHOLE_CLASS: "model.language_model."}
_KINDS = ("BF16", "F32")


@dataclass(frozen=True)
class Shape:
    """What all layers of a Qwen3.5 text model share: sizes of the stream, the MLP, and the linear layers' heads."""

    hidden: int
    mlp: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int

    @property
    def group(self) -> int:
        """Value heads of a key head."""
        return self.value_heads // self.key_heads


@dataclass(frozen=True)
class Base:
    """The folder, its text config with stock defaults filled in, and where its text tensors lie.

    `tensors` has the names they bear in Qwen3_5ForCausalLM.
    """

    folder: Path
    config: dict[str, object]
    tensors: dict[str, StoredTensor]
    dtype: Dtype

    def number(self, name: str) -> int:
        """A count of the config."""
        value = self.config[name]
        assert isinstance(value, int)
        return value

    @cached_property
    def shape(self) -> Shape:
        return Shape(
            self.number("hidden_size"),
            self.number("intermediate_size"),
            self.number("linear_num_key_heads"),
            self.number("linear_num_value_heads"),
            self.number("linear_key_head_dim"),
            self.number("linear_value_head_dim"),
        )

    @property
    def layer_types(self) -> list[str]:
        types = self.config["layer_types"]
        assert isinstance(types, list)
        return types

    @property
    def vocabulary(self) -> int:
        """Rows of the embedding."""
        return self.number("vocab_size")

    @property
    def tied(self) -> bool:
        """The output matrix is the embedding."""
        return bool(self.config["tie_word_embeddings"])

    @property
    def embedding(self) -> StoredTensor:
        return self.tensors["model.embed_tokens.weight"]

    @property
    def output(self) -> StoredTensor:
        """The output matrix, which may be the embedding."""
        return self.embedding if self.tied else self.tensors["lm_head.weight"]

    def layer(self, number: int) -> dict[str, StoredTensor]:
        """A layer's tensors by their names within it."""
        prefix = f"model.layers.{number}."
        return {
            name.removeprefix(prefix): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(prefix)
        }

    @property
    def largest_shard(self) -> int:
        """Bytes of the base's largest file."""
        return max(tensor.path.stat().st_size for tensor in self.tensors.values())


def open_base(folder: Path) -> Base:
    """Reads the config and the tables of the tensors; raises CompileError where they are not what is needed here."""
    if (folder / SPEC_FILE).exists():
        raise CompileError(f"'{folder}' has a machine in it already", hint="merge into the base it came from")
    table = _read_json(folder / "config.json")
    architectures = table.get("architectures") or ["a model without a name"]
    prefix = _TEXT_PREFIXES.get(architectures[0])
    if prefix is None:
        raise CompileError(
            f"'{folder}' is {architectures[0]}; a machine goes into {TEXT_CLASS} or {WHOLE_CLASS}",
            hint="choose a Qwen3.5 model as --base",
        )
    config = _text_config(table if architectures[0] == TEXT_CLASS else _part(table, folder), folder)
    tensors = _text_tensors(folder, prefix)
    _check_shapes(folder, config, tensors)
    kinds = {tensor.kind for name, tensor in tensors.items() if name.endswith("_proj.weight")}
    dtype = Dtype.BFLOAT16 if kinds == {"BF16"} else Dtype.FLOAT32
    if kinds - {"BF16"} and kinds != {"F32"}:
        raise CompileError(f"the projections of '{folder}' are of several dtypes: {', '.join(sorted(kinds))}")
    return Base(folder, config, tensors, dtype)


def _part(table: dict, folder: Path) -> dict:
    part = table.get("text_config")
    if not isinstance(part, dict):
        raise CompileError(f"'{folder / 'config.json'}' has no text_config")
    return {"tie_word_embeddings": table.get("tie_word_embeddings", False), **part}


def _read_json(path: Path) -> dict:
    try:
        table = json.loads(path.read_text())
    except OSError as error:
        raise CompileError(
            f"cannot read '{path}': {error.strerror}",
            hint="--base is a folder that holds a Hugging Face model",
        ) from error
    except ValueError as error:
        raise CompileError(f"'{path}' is no JSON: {error}") from error
    if not isinstance(table, dict):
        raise CompileError(f"'{path}' is no JSON object")
    return table


def _text_config(table: dict, folder: Path) -> dict[str, object]:
    """The text model's config as the stock class reads it."""
    from transformers import Qwen3_5TextConfig

    try:
        config = Qwen3_5TextConfig(**table).to_dict()
    except Exception as error:  # the library's checks raise classes of their own
        reason = str(error).strip().splitlines()[-1].strip()
        raise CompileError(f"'{folder / 'config.json'}' is no Qwen3.5 text config: {reason}") from error
    if config["linear_conv_kernel_dim"] != CONVOLUTION:
        raise CompileError(
            f"'{folder}' has a convolution of {config['linear_conv_kernel_dim']}; the machine's is {CONVOLUTION}"
        )
    if config["hidden_act"] != "silu" or config["attention_bias"]:
        raise CompileError(f"'{folder}' has another activation than silu, or attention biases")
    return config


def _text_tensors(folder: Path, prefix: str) -> dict[str, StoredTensor]:
    """The text model's tensors, by their names in the text class."""
    if (folder / INDEX_FILE).exists():
        table = _read_json(folder / INDEX_FILE).get("weight_map")
        if not isinstance(table, dict):
            raise CompileError(f"'{folder / INDEX_FILE}' has no weight_map")
        files = sorted(set(table.values()))
    elif (folder / SINGLE_FILE).exists():
        files, table = [SINGLE_FILE], {}
    else:
        raise CompileError(
            f"'{folder}' has neither {INDEX_FILE} nor {SINGLE_FILE}",
            hint="fetch the model's safetensors files",
        )
    missing = [name for name in files if not (folder / name).is_file()]
    if missing:
        raise CompileError(f"'{folder}' lacks {', '.join(missing)}", hint="fetch the missing files")
    found: dict[str, StoredTensor] = {}
    for name in files:
        found |= read_header(folder / name)
    absent = sorted(set(table) - set(found))
    if absent:
        raise CompileError(f"'{folder}' lacks the tensor {absent[0]}, which its index names")
    kept = {}
    for name, tensor in found.items():
        if name.startswith(prefix):
            kept["model." + name.removeprefix(prefix)] = tensor
        elif name == "lm_head.weight":
            kept[name] = tensor
    return {name: tensor for name, tensor in kept.items() if not name.startswith("model.visual.")}


def _check_shapes(folder: Path, config: dict, tensors: dict[str, StoredTensor]) -> None:
    """Holds every tensor of the stock class against what the files have."""
    for name, shape in _expected_shapes(config).items():
        tensor = tensors.get(name)
        if tensor is None:
            raise CompileError(f"'{folder}' lacks the tensor {name}", hint="fetch the model again")
        if tensor.shape != shape:
            raise CompileError(
                f"'{folder}': {name} has the shape {list(tensor.shape)}, where config.json says {list(shape)}"
            )
        if tensor.kind not in _KINDS:
            raise CompileError(
                f"'{folder}': {name} is {tensor.kind}; bfloat16 and float32 are known here",
                hint="convert the model first",
            )


def _expected_shapes(config: dict) -> dict[str, tuple[int, ...]]:
    """Every parameter's shape, as the stock class makes them (on no device)."""
    import torch
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    with torch.device("meta"):
        model = Qwen3_5ForCausalLM(Qwen3_5TextConfig(**config))
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
