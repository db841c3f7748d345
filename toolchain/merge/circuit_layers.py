"""The tensors of a machine's circuit layers in the merged model's sizes, and the rows of its tokens."""

from collections.abc import Iterator

import numpy as np

from runtime.vocabulary import Vocabulary
from toolchain.circuit_ir.ir import Age, Gate, op_reads, op_writes
from toolchain.circuit_ir.tokens import embedding
from toolchain.merge.design import Design, head_channels
from toolchain.merge.tensor_files import PIECE
from toolchain.weights_backend.layers import Stream, Tensors, layer_tensors
from toolchain.weights_backend.slot_ranges import placed_operations

AGE_SHARPNESS = 4.0
"""How much steeper gates on an age counter are than other gates: at half an integer below zero silu's float32 result is
then 0, not 2**-93, so that every slot is exactly zero where the circuit says so."""


def circuit_layer(design: Design, number: int) -> Tensors:
    """All tensors of a circuit layer by their names within it, as float32 numbers exact in the dtype."""
    placed = design.placed
    tensors = layer_tensors(design.heads, Stream.of(placed, design.dtype), placed, placed.layers[number])
    _sharpen_ages(design, number, tensors)
    _amplify(design, number, tensors)
    if design.shape.group > 1:
        _spread_value_heads(design, tensors)
    return tensors


def _sharpen_ages(design: Design, number: int, tensors: Tensors) -> None:
    ages = {op.output for op in design.placed.circuit.operations if isinstance(op, Age)}
    first = 0
    for op in design.placed.layers[number].logic:
        for unit in op.units:
            count = 2 if unit.kind is Gate.STEP else 1
            if ages & set(unit.reads()):
                tensors["mlp.gate_proj.weight"][first : first + count] *= AGE_SHARPNESS
                tensors["mlp.up_proj.weight"][first : first + count] /= AGE_SHARPNESS
            first += count


def _amplify(design: Design, number: int, tensors: Tensors) -> None:
    """Scales what the layer adds: everything by the amplitude, the circuit's outputs to their own size."""
    scale = np.full(design.shape.hidden, 2.0**design.amplitude_log, dtype=np.float32)
    last = 2 * design.layers - 1
    outputs = set(design.placed.circuit.outputs)
    for time, op in placed_operations(design.placed):
        early = time != last and outputs & set(op_writes(op))
        if early or outputs & set(op_reads(op)):
            raise ValueError(f"{op.name} handles an output before the last half-layer")
    tensors["linear_attn.out_proj.weight"] *= scale[:, None]
    if number == design.layers - 1:
        for wire in outputs:
            scale[design.placed.slots[wire]] = 2.0**design.output_log
    tensors["mlp.down_proj.weight"] *= scale[:, None]


def _spread_value_heads(design: Design, tensors: Tensors) -> None:
    """A machine's head takes the first value head of its key head's group; the others stay zero."""
    shape, step = design.shape, design.shape.group
    values = head_channels(shape.key_heads, shape.value_dim, shape.value_dim, step)
    heads = np.arange(shape.key_heads) * step
    keys = np.arange(2 * shape.key_heads * shape.key_dim)
    both, width = np.concatenate([keys, keys.size + values]), shape.value_heads * shape.value_dim
    for name, places, count in (
        ("in_proj_qkv.weight", both, keys.size + width),
        ("conv1d.weight", both, keys.size + width),
        ("in_proj_z.weight", values, width),
        ("in_proj_b.weight", heads, shape.value_heads),
        ("in_proj_a.weight", heads, shape.value_heads),
        ("A_log", heads, shape.value_heads),
        ("dt_bias", heads, shape.value_heads),
    ):
        old = tensors[f"linear_attn.{name}"]
        new = np.zeros((count, *old.shape[1:]), dtype=np.float32)
        new[places] = old
        tensors[f"linear_attn.{name}"] = new
    old = tensors["linear_attn.out_proj.weight"]
    new = np.zeros((shape.hidden, width), dtype=np.float32)
    new[:, values] = old
    tensors["linear_attn.out_proj.weight"] = new


def token_rows(design: Design) -> Iterator[np.ndarray]:
    """The embedding rows of the machine's tokens in order, a piece at a time: input wires and ballast, amplified."""
    vocabulary = Vocabulary(design.spec)
    stream = Stream.of(design.placed, design.dtype)
    slots = {wire.name: design.placed.slots.get(wire) for wire in design.placed.circuit.inputs}
    amplitude = 2.0**design.amplitude_log
    empty = np.zeros(design.shape.hidden, dtype=np.float32)
    for slot, size in stream.ballast:
        empty[slot] = size * amplitude
    most = max(1, PIECE // empty.nbytes)
    rows: list[np.ndarray] = []
    for token in vocabulary.all_tokens():
        row = empty.copy()
        for name, value in embedding(vocabulary, token).items():
            slot = slots[name]
            if slot is not None:
                row[slot] = value * amplitude
        rows.append(row)
        if len(rows) == most:
            yield np.stack(rows)
            rows = []
    if rows:
        yield np.stack(rows)
