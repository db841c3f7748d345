"""A placed layer to the tensors of one Qwen3_5DecoderLayer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolchain.circuit_ir.builder import match
from toolchain.circuit_ir.ir import Affine, Age, Gate, Logic, Memory, Rows, Unit, Wire, affine, total
from toolchain.circuit_ir.placed import Layer, PlacedCircuit
from toolchain.machine_spec import MachineSpec
from toolchain.weights_backend.numerics import (
    BALLAST_LOG,
    FORGET_NOTHING,
    KEY_SHARPNESS,
    SATURATED,
    SHARPNESS,
    STATE_BALLAST,
    STATE_UNIT,
    Dtype,
    age_decay,
    output_gate,
    rounded,
)

CONVOLUTION = 4
Tensors = dict[str, np.ndarray]


@dataclass(frozen=True)
class Stream:
    """The residual stream: where each wire is, and the ballast dimensions with their values."""

    slots: Mapping[Wire, int]
    ballast: tuple[tuple[int, float], ...]
    hidden: int
    heads: int
    dtype: Dtype

    @classmethod
    def of(cls, placed: PlacedCircuit, dtype: Dtype) -> "Stream":
        ballast = tuple((slot, share**0.5 * 2.0**BALLAST_LOG) for slot, share in placed.ballast)
        return cls(placed.slots, ballast, placed.hidden, placed.heads, dtype)

    def add_form(self, row: np.ndarray, form: Affine, scale: float) -> None:
        """row += the weights that compute scale * form. A constant takes as many ballast dimensions as it needs."""
        for wire, factor in form.terms:
            row[self.slots[wire]] += scale * factor
        self.add_constant(row, scale * form.constant)

    def add_constant(self, row: np.ndarray, value: float) -> None:
        for slot, size in self.ballast:
            if value == 0:
                return
            weight = rounded(row[slot] + value / size, self.dtype)
            value -= (weight - row[slot]) * size
            row[slot] = weight
        if value:
            raise ValueError(f"a constant needs more than {len(self.ballast)} ballast dimensions")


def norm_weight(hidden: int) -> np.ndarray:
    """RMSNorm weight that makes it the identity on the stream: 1 + w = 2**BALLAST_LOG."""
    return np.full(hidden, 2.0**BALLAST_LOG - 1, dtype=np.float32)


class _HeadTensors:
    """Fills one head's rows of the layer's projections."""

    def __init__(self, spec: MachineSpec, stream: Stream, tensors: Tensors, head: int) -> None:
        self.spec, self.stream, self.tensors, self.head = spec, stream, tensors, head
        keys, values, heads = spec.head_rows, spec.head_values, stream.heads
        self.query_at = head * keys
        self.key_at = heads * keys + head * keys
        self.value_at = 2 * heads * keys + head * values
        self.ballast = _state_ballast(values)
        self.gate = output_gate(values, len(self.ballast))

    def channel(self, index: int, form: Affine, scale: float, tap: int = 0) -> None:
        """A q, k or v channel: silu(scale * form), read `tap` tokens back."""
        self.stream.add_form(self.tensors["linear_attn.in_proj_qkv.weight"][index], form, scale)
        self.tensors["linear_attn.conv1d.weight"][index, 0, CONVOLUTION - 1 - tap] = 1

    def rows(self, first: int, rows: Rows) -> None:
        """Channels that are positive for the selected row only: an AND of literals each."""
        literals = total(affine(literal) - 1 for literal in rows.literals) + 0.5
        if rows.every:
            for row in range(rows.every):
                self.channel(first + row, literals, KEY_SHARPNESS, rows.tap)
            return
        for row in range(1 << len(rows.bits)):
            self.channel(first + row, _address(rows, row) + literals, KEY_SHARPNESS, rows.tap)

    def gate_open(self, dimension: int) -> None:
        weight = self.tensors["linear_attn.in_proj_z.weight"][self.head * self.spec.head_values + dimension]
        self.stream.add_constant(weight, self.gate)

    def output(self, wire: Wire, dimension: int, weight: float) -> None:
        column = self.head * self.spec.head_values + dimension
        self.tensors["linear_attn.out_proj.weight"][self.stream.slots[wire], column] += weight

    def scalar(self, name: str, form: Affine, scale: float) -> None:
        """beta's or the decay's pre-activation: scale * form."""
        self.stream.add_form(self.tensors[f"linear_attn.in_proj_{name}.weight"][self.head], form, scale)

    def decay(self, log_rate: float, bias: float) -> None:
        self.tensors["linear_attn.A_log"][self.head] = log_rate
        self.tensors["linear_attn.dt_bias"][self.head] = bias

    def anchor(self, form: Affine) -> None:
        for dimension in self.ballast:
            self.channel(self.value_at + dimension, form, STATE_BALLAST)

    def memory(self, op: Memory) -> None:
        self.rows(self.key_at, op.write)
        self.rows(self.query_at, op.read)
        self._unwritten_row(op)
        self.scalar("b", total(form - 1 for form in op.enable) + 0.5, 2 * SATURATED)
        self.decay(FORGET_NOTHING, FORGET_NOTHING)
        if op.wipe is not None:
            self.scalar("a", op.wipe - 0.5, 2 * SATURATED)
            self.decay(0, 0)
        for dimension, value in enumerate(op.values):
            self.channel(self.value_at + dimension, value.form, STATE_UNIT, value.tap)
            self.gate_open(dimension)
        self.anchor(op.anchor)
        for wire, terms in op.outputs:
            for dimension, weight in terms:
                self.output(wire, dimension, weight)

    def _unwritten_row(self, op: Memory) -> None:
        """Takes the unwritten row's key away, so that it stays zero whatever is addressed.

        It is read along with every row where that makes the read's scale 2**-n: then the read is exact.
        """
        if op.unwritten is None:
            return
        projection = self.tensors["linear_attn.in_proj_qkv.weight"]
        projection[self.key_at + op.unwritten] = 0
        if (self.spec.head_rows.bit_length() - 1) % 2:
            projection[self.query_at + op.unwritten] = 0
            self.channel(self.query_at + op.unwritten, Affine(constant=0.5), KEY_SHARPNESS)

    def age(self, op: Age) -> None:
        """Row 0 holds the event, halved by every token since; row 1 the ballast, written anew by every other token."""
        later = 0.5 - op.event
        self.channel(self.key_at, -later, KEY_SHARPNESS)
        self.channel(self.key_at + 1, later, KEY_SHARPNESS)
        for row in range(2):
            self.channel(self.query_at + row, later, KEY_SHARPNESS)
        self.channel(self.value_at, op.event, STATE_UNIT)
        self.anchor(1 - op.event)
        self.scalar("b", Affine(constant=0.5), 2 * SATURATED)
        decay = age_decay(self.stream.dtype)
        self.decay(decay.log_rate, decay.bias)
        row = self.tensors["linear_attn.in_proj_a.weight"][self.head]
        self.stream.add_constant(row, decay.once)
        if op.twice is not None:
            self.stream.add_form(row, op.twice, decay.more)
        self.gate_open(0)
        self.output(op.output, 0, 1)


def _address(rows: Rows, row: int) -> Affine:
    """0 where the address is `row`, at most -1 elsewhere; by complements where there are any."""
    if not rows.complements:
        return match(rows.bits, row)
    places = range(len(rows.bits))
    return -total(rows.complements[i] if row >> i & 1 else rows.bits[i] for i in places)


def _state_ballast(values: int) -> range:
    """Ballast dimensions of a row, at its end: as many as make the root of their mean square a power of two."""
    count = 2 if (values.bit_length() - 1) % 2 else 1
    return range(values - count, values)


def _attention(spec: MachineSpec, stream: Stream, heads: Sequence[Memory | Age]) -> Tensors:
    keys, values = stream.heads * spec.head_rows, stream.heads * spec.head_values
    shapes = {
        "in_proj_qkv.weight": (2 * keys + values, stream.hidden),
        "conv1d.weight": (2 * keys + values, 1, CONVOLUTION),
        "in_proj_z.weight": (values, stream.hidden),
        "in_proj_b.weight": (stream.heads, stream.hidden),
        "in_proj_a.weight": (stream.heads, stream.hidden),
        "A_log": (stream.heads,),
        "dt_bias": (stream.heads,),
        "out_proj.weight": (stream.hidden, values),
    }
    tensors = {f"linear_attn.{name}": np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
    tensors["linear_attn.norm.weight"] = np.ones(spec.head_values, dtype=np.float32)
    for index, op in enumerate(heads):
        head = _HeadTensors(spec, stream, tensors, index)
        if isinstance(op, Memory):
            head.memory(op)
        else:
            head.age(op)
    return tensors


def _ramps(unit: Unit, slope: int) -> list[tuple[Affine, float]]:
    """A unit as relu terms: itself, or a step's rising and falling ramp."""
    if unit.kind is Gate.RELU:
        return [(unit.gate, 1.0)]
    high, low = (1.0, 0.0) if slope == 1 else (1.5, 0.5)
    return [(unit.gate * slope + high, 1.0), (unit.gate * slope + low, -1.0)]


def _mlp(stream: Stream, width: int, logic: Iterable[Logic], erase: Sequence[int]) -> Tensors:
    gate, up = (np.zeros((width, stream.hidden), dtype=np.float32) for _ in range(2))
    down = np.zeros((stream.hidden, width), dtype=np.float32)
    number = 0
    for op in logic:
        for unit in op.units:
            for form, sign in _ramps(unit, stream.dtype.step_slope):
                stream.add_form(gate[number], form, SHARPNESS)
                stream.add_form(up[number], unit.up or Affine(constant=1), 1 / SHARPNESS)
                for wire, weight in unit.outputs:
                    down[stream.slots[wire], number] += sign * weight
                number += 1
    for slot in erase:
        gate[number, slot] = SHARPNESS
        stream.add_constant(up[number], 1 / SHARPNESS)
        down[slot, number] = -1
        number += 1
    return {"mlp.gate_proj.weight": gate, "mlp.up_proj.weight": up, "mlp.down_proj.weight": down}


def layer_tensors(spec: MachineSpec, stream: Stream, placed: PlacedCircuit, layer: Layer) -> Tensors:
    """All tensors of one circuit layer, by their name inside the layer, as float32 numbers exact in the dtype."""
    tensors = _attention(spec, stream, layer.heads)
    tensors |= _mlp(stream, placed.mlp, layer.logic, layer.erase)
    for norm in ("input_layernorm", "post_attention_layernorm"):
        tensors[f"{norm}.weight"] = norm_weight(stream.hidden)
    return tensors
