"""Constants of exact arithmetic in stock Qwen3.5 layers, and the numbers a dtype can hold (docs/NUMERICS.md)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import numpy as np

BALLAST_LOG = 30
"""k: the residual stream's RMS is 2**k, so that RMSNorm with weight 2**k - 1 is the identity."""
SHARPNESS = 128.0
"""silu(SHARPNESS * s) is SHARPNESS * relu(s), exactly, for an integer s of at most 256."""
KEY_SHARPNESS = 1024.0
"""Scale of address literals: a selected row's channel is half of this, every other at most minus half."""
STATE_UNIT = 128.0
"""A stored 1."""
STATE_BALLAST = 2.0**30
"""Value of a row's ballast dimensions, so large that the data does not move the head's norm."""
SATURATED = 200.0
"""sigmoid(SATURATED) is 1 and sigmoid(-SATURATED) is 0 in every dtype; so are exp(-softplus(.)) and its converse."""
FORGET_NOTHING = -100.0
"""A_log and dt_bias of a head that keeps its state: the decay is exactly 1."""


class Dtype(StrEnum):
    """Checkpoint number formats. `significand` bits of an integer are exact."""

    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"

    @property
    def significand(self) -> int:
        return 8 if self is Dtype.BFLOAT16 else 24

    @property
    def bytes(self) -> int:
        return 2 if self is Dtype.BFLOAT16 else 4

    @property
    def step_slope(self) -> int:
        """Slope of a step's two ramps: 1 is exact for the largest integers, 2 is flat around every integer."""
        return 1 if self is Dtype.BFLOAT16 else 2


def rounded(value: float, dtype: Dtype) -> float:
    """`value` to the nearest number of `dtype`, ties to even."""
    if dtype is Dtype.FLOAT32:
        return float(np.float32(value))
    if value == 0 or not math.isfinite(value):
        return value
    scale = 2.0 ** (math.frexp(value)[1] - dtype.significand)
    return float(np.rint(value / scale)) * scale


def output_gate(values: int, ballast: int) -> float:
    """Gate z of a head with `values` dimensions of which `ballast` hold STATE_BALLAST: its size undoes the norm.

    A stored 1 is STATE_UNIT / STATE_BALLAST * sqrt(values / ballast) after the head's norm.
    """
    return STATE_BALLAST / STATE_UNIT / math.sqrt(values / ballast)


@dataclass(frozen=True)
class AgeDecay:
    """Numbers of a dtype by which a head halves its state in a token, exp(-exp(log_rate) * softplus(a + bias)).

    a is `once`; in a token that halves twice it is `once + more`, of which `once` is so small that it rounds away
    (bfloat16) or nothing (float32).
    """

    dtype: Dtype
    log_rate: float
    bias: float
    once: float
    more: float

    def halvings(self, twice: bool) -> float:
        """How often one token halves the state: 1 or 2, nearly."""
        a = rounded(self.once + (self.more if twice else 0.0), self.dtype)
        return math.exp(self.log_rate) * math.log1p(math.exp(a + self.bias)) / math.log(2)

    @property
    def drift(self) -> float:
        """Most that an age's logarithm to base 2 is off by, for each token of age."""
        return max(abs(self.halvings(False) - 1), abs(self.halvings(True) - 2) / 2)


@cache
def age_decay(dtype: Dtype) -> AgeDecay:
    """The numbers of `dtype` with the least drift: float32's from the formula, bfloat16's by search."""
    if dtype is Dtype.FLOAT32:
        log_rate, bias = rounded(math.log(math.log(2)), dtype), rounded(math.log(math.e - 1), dtype)
        return AgeDecay(dtype, log_rate, bias, 0.0, rounded(math.log(math.e + 1), dtype))
    grid = sorted({rounded(-2 + i / 512, dtype) for i in range(2048)})
    return min((_aged(dtype, log_rate, bias) for log_rate, bias in _halving(grid)), key=_badness)


def _halving(grid: Sequence[float]) -> Iterator[tuple[float, float]]:
    """Pairs (log_rate, bias) of `grid` that halve to within 2**-9 of a token: `once` makes up for the rest."""
    rates = np.exp(np.array(grid))[:, None] * np.log1p(np.exp(np.array(grid)))[None, :] / math.log(2)
    for row, column in np.argwhere(np.abs(rates - 1) < 2.0**-9):
        yield grid[row], grid[column]


def _aged(dtype: Dtype, log_rate: float, bias: float) -> AgeDecay:
    """With the numbers that come nearest to halving once and twice."""
    once, more = (math.log(math.expm1(n * math.log(2) / math.exp(log_rate))) - bias for n in (1, 2))
    return AgeDecay(dtype, log_rate, bias, rounded(once, dtype), rounded(more, dtype))


def _badness(decay: AgeDecay) -> tuple[bool, float]:
    """The drift; worse than any where `once` is more than an eighth of the last place of `more`."""
    return abs(decay.once) > abs(decay.more) * 2.0 ** -(decay.dtype.significand + 3), decay.drift
