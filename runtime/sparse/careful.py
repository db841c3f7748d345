"""A checkpoint's forward pass on its nonzero weights with the stock model's roundings: for tensors without a proof.

Each step rounds where the stock modules do (transformers 5.24, models/qwen3_5): linear layers, norms, activations and
sums to the checkpoint's dtype; recurrent states, their reads and the norms' insides in float32.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from runtime.sparse.tensors import Checkpoint, SparseMatrix
from toolchain.errors import CompileError
from toolchain.weights_backend.numerics import STATE_UNIT

EPSILON = 1e-6
"""Of the length of queries and keys."""
Round = Callable[[np.ndarray], np.ndarray]


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 numbers to the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32)


def _same(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32)


def _silu(values: np.ndarray) -> np.ndarray:
    return (values * _sigmoid(values)).astype(np.float32)


def _sigmoid(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return (1 / (1 + np.exp(-values.astype(np.float32)))).astype(np.float32)


def _softplus(values: np.ndarray) -> np.ndarray:
    return np.where(values > 20, values, np.log1p(np.exp(np.minimum(values, 20)))).astype(np.float32)


class _Linear:
    """Products with a sparse matrix; only rows that hold something are worked out."""

    def __init__(self, matrix: SparseMatrix) -> None:
        self.rows = np.flatnonzero(np.diff(matrix.start))
        self._starts = matrix.start[self.rows]
        self._columns = matrix.columns
        self._values = matrix.values.astype(np.float32)
        self._out = np.zeros(matrix.shape[0], dtype=np.float32)

    def __call__(self, vector: np.ndarray) -> np.ndarray:
        out = self._out.copy()
        if len(self.rows):
            out[self.rows] = np.add.reduceat(self._values * vector[self._columns], self._starts)
        return out


@dataclass(frozen=True)
class _Extents:
    heads: int
    rows: int
    values: int
    taps: int
    epsilon: float


class _Attention:
    """One Gated DeltaNet module with its recurrent state."""

    def __init__(self, checkpoint: Checkpoint, name: str, extents: _Extents, round_: Round) -> None:
        self.extents, self.round = extents, round_
        projections = ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj")
        self.qkv, self.z, self.b, self.a, self.out = (
            _Linear(checkpoint.sparse(f"{name}.{part}.weight")) for part in projections
        )
        self.kernel = checkpoint.dense(f"{name}.conv1d.weight")[:, 0]
        self.rate = np.exp(checkpoint.dense(f"{name}.A_log").astype(np.float32))
        self.bias = checkpoint.dense(f"{name}.dt_bias")
        self.norm = checkpoint.dense(f"{name}.norm.weight")
        self.reset()

    def reset(self) -> None:
        item = self.extents
        self.recent = np.zeros((item.taps, self.kernel.shape[0]), dtype=np.float32)
        self.state = np.zeros((item.heads, item.rows, item.values), dtype=np.float32)

    def __call__(self, stream: np.ndarray) -> np.ndarray:
        item, round_ = self.extents, self.round
        self.recent = np.concatenate([self.recent[1:], round_(self.qkv(stream))[None]])
        mixed = round_(_silu(round_((self.recent * self.kernel.T).sum(axis=0))))
        keys = item.heads * item.rows
        query, key = (
            _unit(mixed[i * keys : (i + 1) * keys].reshape(item.heads, item.rows)) for i in range(2)
        )
        query = (query / np.float32(item.rows**0.5)).astype(np.float32)
        value = mixed[2 * keys :].reshape(item.heads, item.values)
        write = round_(_sigmoid(round_(self.b(stream))))
        decay = np.exp(-self.rate * _softplus(round_(self.a(stream)) + self.bias)).astype(np.float32)
        core = round_(self._recur(query, key, value, write, decay))
        return round_(self.out(self._gated(core, round_(self.z(stream)).reshape(core.shape)).reshape(-1)))

    def _recur(
        self, query: np.ndarray, key: np.ndarray, value: np.ndarray, write: np.ndarray, decay: np.ndarray
    ) -> np.ndarray:
        """The gated delta rule, head by head, on the rows that the key or the query reaches."""
        core = np.zeros_like(value)
        for head in range(self.extents.heads):
            state = self.state[head]
            if decay[head] != 1:
                state *= decay[head]
            rows = np.flatnonzero(key[head])
            if len(rows) and write[head]:
                weights = key[head, rows]
                change = (value[head] - weights @ state[rows]) * write[head]
                state[rows] += weights[:, None] * change
            rows = np.flatnonzero(query[head])
            if len(rows):
                core[head] = query[head, rows] @ state[rows]
        return core

    def _gated(self, core: np.ndarray, gate: np.ndarray) -> np.ndarray:
        """RMSNorm of each head's values, then the gate."""
        variance = (core * core).mean(axis=-1, keepdims=True, dtype=np.float32)
        normed = core / np.sqrt(variance + np.float32(self.extents.epsilon))
        return self.round(self.round(self.norm * self.round(normed)) * _silu(gate))


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Each row over its length."""
    return (vectors / np.sqrt((vectors * vectors).sum(axis=-1, keepdims=True) + np.float32(EPSILON))).astype(
        np.float32
    )


class CarefulModel:
    """A checkpoint of Gated DeltaNet layers, token by token."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        config = checkpoint.config
        round_ = to_bfloat16 if config["dtype"] == "bfloat16" else _same
        self.round, self.epsilon = round_, float(config["rms_norm_eps"])
        extents = _Extents(
            config["linear_num_value_heads"], config["linear_key_head_dim"], config["linear_value_head_dim"],
            config["linear_conv_kernel_dim"], self.epsilon,
        )  # fmt: skip
        _check_rest(checkpoint)
        self.embedding = checkpoint.dense("model.embed_tokens.weight")
        self.end = int(config["eos_token_id"])
        names = [f"model.layers.{number}" for number in range(checkpoint.circuit_layers)]
        self.attention = [_Attention(checkpoint, f"{name}.linear_attn", extents, round_) for name in names]
        self.mlps = [
            [_Linear(checkpoint.sparse(f"{name}.mlp.{part}_proj.weight")) for part in ("gate", "up", "down")]
            for name in names
        ]
        self.norms = [
            [
                checkpoint.dense(f"{name}.{part}.weight")
                for part in ("input_layernorm", "post_attention_layernorm")
            ]
            for name in names
        ]
        self.final = checkpoint.dense("model.norm.weight")
        self.output = _Linear(checkpoint.sparse("lm_head.weight"))

    def run(self, given: Sequence[int], limit: int, on_token: Callable[[int], None]) -> list[int]:
        """Feeds tokens, then says up to `limit`, or up to the end token."""
        for layer in self.attention:
            layer.reset()
        token = -1
        for fed in given:
            token = self.next(fed)
        said = [token]
        on_token(token)
        while len(said) < limit and token != self.end:
            token = self.next(token)
            said.append(token)
            on_token(token)
        return said

    def memory(self, layer: int, head: int, words: int, bits: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """Words of a head's rows; `bits`: each bit's value dimensions, summed."""
        rows = self.attention[layer].state[head, :words]
        held = np.stack(
            [rows[:, list(dimensions)].sum(axis=1) > STATE_UNIT / 2 for dimensions in bits], axis=1
        )
        return tuple(int(row @ (1 << np.arange(len(bits)))) for row in held.astype(np.int64))

    def next(self, token: int) -> int:
        """The most likely token after this one; the first of several."""
        stream = self.embedding[token]
        for attention, (gate, up, down), (before, after) in zip(
            self.attention, self.mlps, self.norms, strict=True
        ):
            stream = self.round(stream + attention(self._norm(stream, before)))
            normed = self._norm(stream, after)
            hidden = self.round(self.round(_silu(self.round(gate(normed)))) * self.round(up(normed)))
            stream = self.round(stream + self.round(down(hidden)))
        return int(self.round(self.output(self._norm(stream, self.final))).argmax())

    def _norm(self, stream: np.ndarray, weight: np.ndarray) -> np.ndarray:
        scale = 1 / np.sqrt((stream * stream).mean(dtype=np.float32) + np.float32(self.epsilon))
        return self.round(stream * scale.astype(np.float32) * (np.float32(1) + weight))


def _check_rest(checkpoint: Checkpoint) -> None:
    """What follows the circuit layers must add nothing."""
    for layer in range(checkpoint.circuit_layers, checkpoint.config["num_hidden_layers"]):
        for part in ("self_attn.o_proj", "mlp.down_proj"):
            if checkpoint.dense(f"model.layers.{layer}.{part}.weight").any():
                raise CompileError(
                    f"the sparse engine cannot run '{checkpoint.directory}': layer {layer} is no circuit",
                    hint="use --engine transformers",
                )
