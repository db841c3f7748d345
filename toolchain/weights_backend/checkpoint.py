"""A machine as a checkpoint folder that stock `transformers` loads: config, weights, tokenizer."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from runtime.vocabulary import END, Token, Vocabulary
from toolchain.circuit_ir.bounds import promises, prove
from toolchain.circuit_ir.machine.registers import WORD_PLACES
from toolchain.circuit_ir.placed import PlacedCircuit
from toolchain.circuit_ir.tokens import CODE_BITS, embedding, output_code
from toolchain.errors import CompileError
from toolchain.machine_spec import MachineSpec
from toolchain.weights_backend.layers import CONVOLUTION, Stream, Tensors, layer_tensors, norm_weight
from toolchain.weights_backend.numerics import Dtype, rounded
from toolchain.weights_backend.slot_ranges import RANGES_FILE, SlotRanges, slot_ranges, tensors_hash

SPEC_FILE = "qgpuc.json"
PROOF_FILE = "bounds.txt"
"""The bounds pass's report."""
FORMAT = 2
"""Version of the folder's own description."""
MAX_TOKENS = 1 << 18
NEVER = -100.0
"""Logit of a token that only the host writes."""
ATTENTION_HEAD = 16
"""Head size of the closing full-attention layer, whose weights are zero: the cache wants one."""

Progress = Callable[[str, int, int], None]
Embed = Callable[[Vocabulary, Token], dict[str, int]]
"""Names and values of the input wires that are not zero for a token (circuit_ir/tokens.py)."""


def _quiet(stage: str, done: int, count: int) -> None:
    """Reports nothing."""


@dataclass(frozen=True)
class StatePlace:
    """Where a copy of global memory is in recurrent state: row = word address; the dimensions of each bit, summed."""

    layer: int
    head: int
    bits: tuple[tuple[int, ...], ...]


def memory_place(placed: PlacedCircuit) -> StatePlace:
    """The first load port's head."""
    for number, layer in enumerate(placed.layers):
        for head, op in enumerate(layer.heads):
            if op.name.endswith(".load"):
                return StatePlace(number, head, WORD_PLACES)
    raise ValueError("the machine has no load port")


def model_config(spec: MachineSpec, placed: PlacedCircuit, dtype: Dtype) -> dict[str, object]:
    """config.json of a Qwen3_5ForCausalLM."""
    layers = len(placed.layers)
    vocabulary = Vocabulary(spec)
    return {
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "dtype": dtype.value,
        "vocab_size": vocabulary.size,
        "hidden_size": placed.hidden,
        "intermediate_size": placed.mlp,
        "num_hidden_layers": layers + 1,
        "layer_types": ["linear_attention"] * layers + ["full_attention"],
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": ATTENTION_HEAD,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "linear_conv_kernel_dim": CONVOLUTION,
        "linear_key_head_dim": spec.head_rows,
        "linear_value_head_dim": spec.head_values,
        "linear_num_key_heads": placed.heads,
        "linear_num_value_heads": placed.heads,
        "max_position_embeddings": MAX_TOKENS,
        "tie_word_embeddings": False,
        "eos_token_id": vocabulary.id(END),
        "bos_token_id": None,
        "pad_token_id": None,
        "use_cache": True,
    }


def _embedding(stream: Stream, vocabulary: Vocabulary, placed: PlacedCircuit, embed: Embed) -> np.ndarray:
    """Each token's row: its input wires and the ballast."""
    slots = {wire.name: stream.slots.get(wire) for wire in placed.circuit.inputs}
    table = np.zeros((vocabulary.size, stream.hidden), dtype=np.float32)
    for slot, size in stream.ballast:
        table[:, slot] = size
    for row, token in enumerate(vocabulary.all_tokens()):
        for name, value in embed(vocabulary, token).items():
            slot = slots[name]
            if slot is not None:
                table[row, slot] = value
    return table


def _output_rows(stream: Stream, vocabulary: Vocabulary, placed: PlacedCircuit) -> np.ndarray:
    """Each token's logit: sum over its code's bits of +-(output - 1/2), so that the right one wins by at least 1."""
    table = np.zeros((vocabulary.size, stream.hidden), dtype=np.float32)
    slots = [stream.slots[wire] for wire in placed.circuit.outputs]
    slot, size = stream.ballast[0]
    for row, token in enumerate(vocabulary.all_tokens()):
        code = output_code(vocabulary, token)
        if code is None:
            table[row, slot] = NEVER / size
            continue
        signs = [1.0 if code >> bit & 1 else -1.0 for bit in range(CODE_BITS)]
        table[row, slots] = signs
        table[row, slot] = -sum(signs) / 2 / size
    return table


def _closing_layer(hidden: int, mlp: int) -> Tensors:
    """A full-attention layer that adds nothing."""
    shapes = {
        "self_attn.q_proj.weight": (2 * ATTENTION_HEAD, hidden),
        "self_attn.k_proj.weight": (ATTENTION_HEAD, hidden),
        "self_attn.v_proj.weight": (ATTENTION_HEAD, hidden),
        "self_attn.o_proj.weight": (hidden, ATTENTION_HEAD),
        "self_attn.q_norm.weight": (ATTENTION_HEAD,),
        "self_attn.k_norm.weight": (ATTENTION_HEAD,),
        "mlp.gate_proj.weight": (mlp, hidden),
        "mlp.up_proj.weight": (mlp, hidden),
        "mlp.down_proj.weight": (hidden, mlp),
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
    }
    return {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}


def shards(
    spec: MachineSpec, placed: PlacedCircuit, dtype: Dtype, embed: Embed = embedding
) -> Iterator[Tensors]:
    """The checkpoint's tensors, a shard at a time: embedding, each layer, the closing layer, output."""
    stream, vocabulary = Stream.of(placed, dtype), Vocabulary(spec)
    yield {"model.embed_tokens.weight": _embedding(stream, vocabulary, placed, embed)}
    for number, layer in enumerate(placed.layers):
        tensors = layer_tensors(spec, stream, placed, layer)
        yield {f"model.layers.{number}.{name}": tensor for name, tensor in tensors.items()}
    closing = _closing_layer(placed.hidden, placed.mlp)
    last = {f"model.layers.{len(placed.layers)}.{name}": tensor for name, tensor in closing.items()}
    yield last | {"model.norm.weight": norm_weight(placed.hidden)}
    yield {"lm_head.weight": _output_rows(stream, vocabulary, placed)}


def check_exact(name: str, tensor: np.ndarray, dtype: Dtype) -> None:
    """Every weight is the number the circuit asked for. The norm's 2**k - 1 is 2**k in both dtypes; A_log is chosen."""
    if dtype is Dtype.BFLOAT16 and not name.endswith("norm.weight"):
        bits = tensor.view(np.uint32) & 0xFFFF
        if bits.any():
            value = float(tensor.reshape(-1)[np.flatnonzero(bits)[0]])
            raise CompileError(f"{name} holds {value!r}, which {dtype} rounds to {rounded(value, dtype)!r}")


def _write_shard(path: Path, tensors: Tensors, dtype: Dtype) -> int:
    import torch
    from safetensors.torch import save_file

    kind = getattr(torch, dtype.value)
    for name, tensor in tensors.items():
        check_exact(name, tensor, dtype)
    converted = {name: torch.from_numpy(tensor).to(kind) for name, tensor in tensors.items()}
    save_file(converted, path, metadata={"format": "pt"})
    path.chmod(0o644)
    return sum(tensor.numel() * tensor.element_size() for tensor in converted.values())


def _write_weights(
    spec: MachineSpec, placed: PlacedCircuit, dtype: Dtype, embed: Embed, folder: Path, progress: Progress
) -> None:
    count = len(placed.layers) + 3
    index: dict[str, str] = {}
    size = 0
    for number, tensors in enumerate(shards(spec, placed, dtype, embed)):
        name = f"model-{number + 1:05d}-of-{count:05d}.safetensors"
        size += _write_shard(folder / name, tensors, dtype)
        index |= dict.fromkeys(tensors, name)
        progress("weights", number + 1, count)
    table = {"metadata": {"total_size": size}, "weight_map": dict(sorted(index.items()))}
    _write_json(folder / "model.safetensors.index.json", table)


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")


def _write_tokenizer(spec: MachineSpec, folder: Path) -> None:
    """A word-level tokenizer: each token is one word, written without spaces."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = Vocabulary(spec)
    tokens = enumerate(vocabulary.all_tokens())
    words = {vocabulary.text(token).replace(" ", ""): row for row, token in tokens}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token=None))  # pyright: ignore[reportArgumentType]
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": MAX_TOKENS}
    _write_json(folder / "tokenizer_config.json", config)


def _description(spec: MachineSpec, placed: PlacedCircuit, dtype: Dtype) -> dict[str, object]:
    memory = asdict(memory_place(placed))
    return {"format": FORMAT, "machine": asdict(spec), "dtype": dtype.value, "memory": memory}


def build_checkpoint(
    spec: MachineSpec,
    dtype: Dtype,
    directory: Path,
    placed: PlacedCircuit,
    *,
    embed: Embed = embedding,
    progress: Progress = _quiet,
) -> None:
    """Writes the machine's checkpoint to `directory`, whole or not at all; `embed` if the inputs of `placed`
    are not the spec's own.

    Raises CompileError where the folder exists and is not empty, or cannot be written.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise CompileError(f"'{directory}' is there already", hint="name a new folder with -o")
    proof = prove(placed, spec, dtype)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
        temporary.chmod(0o755)
    except OSError as error:
        raise CompileError(f"cannot write '{directory}': {error.strerror}") from error
    try:
        config = model_config(spec, placed, dtype)
        _write_json(temporary / "config.json", config)
        generation = {"do_sample": False, "eos_token_id": config["eos_token_id"]}
        _write_json(temporary / "generation_config.json", generation)
        _write_json(temporary / SPEC_FILE, _description(spec, placed, dtype))
        (temporary / PROOF_FILE).write_text("\n".join([*proof.lines(), "", *promises(placed)]) + "\n")
        _write_tokenizer(spec, temporary)
        _write_weights(spec, placed, dtype, embed, temporary, progress)
        shards = sorted(temporary.glob("*.safetensors"))
        SlotRanges(tensors_hash(shards), slot_ranges(placed)).write(temporary / RANGES_FILE)
        if directory.exists():
            directory.rmdir()
        os.replace(temporary, directory)
    except OSError as error:
        raise CompileError(f"cannot write '{directory}': {error.strerror}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
