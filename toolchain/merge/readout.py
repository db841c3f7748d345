"""The rows of the output matrix for the machine's tokens, and why the right one wins after the base's layers.

A machine's token leaves the circuit layers with its code's bits (2**output_log or 0) and the ballast, in bfloat16 or
float32. The final norm divides by a size that is the ballast's but for the bits, and multiplies by 1 + w. A row undoes
that 1 + w on the bits' dimensions: sum of +-STEP over the bits, and a constant from one dimension of ballast. The right
row has the constant and 9 steps, every other at most 8. The text rows see ballast and bits too; the constant and the
step are chosen above the largest they can give.

What a base's layer can add is bounded from its weights alone, whatever the context: a normed row is no longer than
sqrt(hidden) * max|1 + w|, attention gives no more than its largest value, a head's norm no more than sqrt(dim) |w|.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from runtime.vocabulary import Vocabulary
from toolchain.circuit_ir.tokens import CODE_BITS, output_code
from toolchain.errors import CompileError
from toolchain.merge.base import LINEAR, Base
from toolchain.merge.design import Design
from toolchain.merge.tensor_files import PIECE, StoredTensor
from toolchain.weights_backend.numerics import BALLAST_LOG

STEPS_OF_TEXT = 8.0
"""The largest text logit on a machine's token is at most this many steps: then rounding leaves the steps apart."""
LEAST_STEP = 2.0**-4
LOWEST = 4.0
"""Times the constant, below zero: the logit of a token that only the host writes."""
SMALLEST_SCALE = 2.0**-8
"""A 1 + w of the final norm below this would make a row of the output matrix too large."""
LEAST_ROOM = 2.0**12
"""An output is at least this many times what the base's layers can add to it."""


@dataclass(frozen=True)
class Readout:
    """Sizes of the machine's logits.

    `step` lies between the right token's logit and the next one's, `constant` is in all of them; `text` is the most
    that a text row can give on a machine's token, `base` the most that the base's layers add, against an output.
    """

    step: float
    constant: float
    text: float
    base: float
    constant_slot: int
    constant_size: float
    """What that dimension holds after the final norm."""
    bits: tuple[tuple[int, float], ...]
    """(slot, what a bit that is 1 is after the final norm) for each bit of the code."""

    def lines(self) -> list[str]:
        return [
            f"right token {self.constant + CODE_BITS / 2 * self.step:g}, others at most "
            f"{self.constant + (CODE_BITS / 2 - 1) * self.step:g}, text at most {self.text:g}",
            f"the base's layers add at most 2**{math.log2(max(self.base, 2.0**-149)):.1f} of an output",
        ]


def plan_readout(design: Design, base: Base, final_norm: np.ndarray) -> Readout:
    """Chooses the sizes; `final_norm` is 1 + w of the merged model's last norm. Raises CompileError where none do."""
    placed = design.placed
    energy = 2.0 ** (2 * (design.output_log - design.amplitude_log - BALLAST_LOG))
    ones = CODE_BITS * energy / design.shape.hidden
    bits = []
    for wire in placed.circuit.outputs:
        slot = placed.slots[wire]
        if abs(final_norm[slot]) < SMALLEST_SCALE:
            raise CompileError(
                f"the base's last norm has the weight {final_norm[slot] - 1:g} on dimension {slot}, "
                "which an output needs",
                hint="--mode widened",
            )
        bits.append((slot, math.sqrt(energy) * float(final_norm[slot])))
    sizes = {slot: math.sqrt(share) * float(final_norm[slot]) for slot, share in placed.ballast}
    slot = max(sizes, key=lambda place: abs(sizes[place]))
    added = _most_added(design, base) / 2.0**design.output_log
    if added * LEAST_ROOM > 1:
        raise CompileError(
            f"the base's layers may add {added:g} of an output to the machine's tokens; {1 / LEAST_ROOM:g} is borne"
        )
    text = _largest_text(design, base, sizes, bits)
    step = max(LEAST_STEP, 2.0 ** math.ceil(math.log2(max(text, 2.0**-100) / STEPS_OF_TEXT)))
    return Readout(step, (text + step) * math.sqrt(1 + ones), text, added, slot, sizes[slot], tuple(bits))


def output_rows(design: Design, readout: Readout, shared: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """The output matrix's rows for the machine's tokens in order, a piece at a time; `shared` is added to each."""
    vocabulary = Vocabulary(design.spec)
    most = max(1, PIECE // (4 * design.shape.hidden))
    slots = [slot for slot, _ in readout.bits]
    weights = np.array([readout.step / size for _, size in readout.bits])
    rows: list[np.ndarray] = []
    for token in vocabulary.all_tokens():
        row = np.zeros(design.shape.hidden, dtype=np.float32) if shared is None else shared.copy()
        code = output_code(vocabulary, token)
        if code is None:
            row[readout.constant_slot] += -LOWEST * readout.constant / readout.constant_size
        else:
            signs = np.array([1.0 if code >> bit & 1 else -1.0 for bit in range(CODE_BITS)])
            row[slots] += signs * weights
            constant = readout.constant - signs.sum() / 2 * readout.step
            row[readout.constant_slot] += constant / readout.constant_size
        rows.append(row)
        if len(rows) == most:
            yield np.stack(rows)
            rows = []
    if rows:
        yield np.stack(rows)


def _largest_text(
    design: Design, base: Base, sizes: dict[int, float], bits: list[tuple[int, float]]
) -> float:
    """The most that a text row of the output matrix can give on a machine's token, 0 at least."""
    output, width = base.output, base.shape.hidden
    always = np.zeros(design.shape.hidden)
    for slot, size in sizes.items():
        always[slot] = size
    sometimes = np.zeros(design.shape.hidden)
    for slot, size in bits:
        sometimes[slot] = size
    most = 0.0
    for _, rows in output.blocks():
        logits = rows @ always[:width] + np.maximum(rows * sometimes[:width], 0).sum(axis=1)
        most = max(most, float(logits.max()))
    return most


def _most_added(design: Design, base: Base) -> float:
    """A bound on what all of the base's layers together add to any one dimension of any row of the stream."""
    return sum(
        _mixer_bound(base, base.layer(number), kind) + _mlp_bound(base, base.layer(number))
        for number, kind in enumerate(base.layer_types)
    )


def _normed(base: Base, norm: StoredTensor) -> np.ndarray:
    """Largest size of each number of a normed row."""
    return math.sqrt(base.shape.hidden) * np.abs(1 + norm.numbers()[:, 0].astype(np.float64))


def _products(matrix: StoredTensor, sizes: np.ndarray) -> np.ndarray:
    """|W| sizes: the most that each row's product can be, where |x_i| <= sizes_i and |x| is that of one normed row."""
    parts = [np.linalg.norm(rows * (sizes / math.sqrt(sizes.size)), axis=1) for _, rows in matrix.blocks()]
    return np.concatenate(parts) * math.sqrt(sizes.size)


def _sums(matrix: StoredTensor, sizes: np.ndarray) -> float:
    """The most that sum of |W_ij| sizes_j can be."""
    return max(float((np.abs(rows) @ sizes).max()) for _, rows in matrix.blocks())


def _mlp_bound(base: Base, layer: dict[str, StoredTensor]) -> float:
    sizes = _normed(base, layer["post_attention_layernorm.weight"])
    gate, up = (_products(layer[f"mlp.{name}_proj.weight"], sizes) for name in ("gate", "up"))
    return _sums(layer["mlp.down_proj.weight"], gate * up)


def _mixer_bound(base: Base, layer: dict[str, StoredTensor], kind: str) -> float:
    sizes = _normed(base, layer["input_layernorm.weight"])
    if kind != LINEAR:
        values = _products(layer["self_attn.v_proj.weight"], sizes)
        head = base.number("head_dim")
        group = base.number("num_attention_heads") // base.number("num_key_value_heads")
        return _sums(
            layer["self_attn.o_proj.weight"], np.repeat(values.reshape(-1, head), group, axis=0).reshape(-1)
        )
    gates = _products(layer["linear_attn.in_proj_z.weight"], sizes)
    norm = np.abs(layer["linear_attn.norm.weight"].numbers()[:, 0].astype(np.float64))
    outputs = np.tile(norm * math.sqrt(norm.size), base.shape.value_heads)
    return _sums(layer["linear_attn.out_proj.weight"], gates * outputs)
