"""Directions that separate text from the origin: m.x > 0 for the embedding row of every text token.

A half-layer of the circuit is closed to text by such a direction on the dimensions that the machine's tokens leave
zero there. Found by soft-min ascent on the worst rows, without randomness, then measured on all rows.
"""

from dataclasses import dataclass

import numpy as np

from toolchain.merge.tensor_files import StoredTensor, narrowed, widened

ENOUGH = 0.05
"""Smallest cosine with which a direction is taken as it is. A smaller one only makes weights larger."""
LEAST = 0.008
"""Smallest cosine that carries a proof: the norm's rounding in bfloat16 can take 2**-9 of it, float32 sums less."""
ROUNDS = 12
"""Passes over the vocabulary at most, each with the worst rows added to the working set."""
STEPS = 150
WORST = 256
"""Rows that a pass adds to the working set."""
RATE = 0.05
SOFTNESS = 80.0


@dataclass(frozen=True)
class Separation:
    """A direction on some dimensions of the stream, exact in bfloat16, and its smallest cosine with a text row.

    The cosine is that with the whole row, so that m.x >= cosine * |m| * |x|; `token` is the id of the row that has it,
    `failing` are those whose cosine is below LEAST.
    """

    dimensions: np.ndarray
    weights: np.ndarray
    cosine: float
    token: int
    failing: tuple[int, ...]

    @property
    def holds(self) -> bool:
        return not self.failing


def shortest_row(embedding: StoredTensor) -> float:
    """The least root of a mean square of a text row, rows of zeros aside."""
    least = np.inf
    for _, rows in embedding.blocks():
        squares = np.square(rows).mean(axis=1)
        least = min(least, float(squares[squares > 0].min(initial=np.inf)))
    return float(np.sqrt(least))


def separate(embedding: StoredTensor, zero: list[list[int]]) -> list[Separation]:
    """A direction for each set of dimensions. Memory: a piece of the embedding and the working sets."""
    free = [np.array(dimensions, dtype=np.int64) for dimensions in zero]
    directions = _means(embedding, free)
    best = [Separation(dims, m, -1.0, 0, (0,)) for dims, m in zip(free, directions, strict=True)]
    working: list[dict[int, np.ndarray]] = [{} for _ in free]
    open_ones = [index for index, dims in enumerate(free) if dims.size]
    for _ in range(ROUNDS):
        worst = _measure(embedding, [free[i] for i in open_ones], [directions[i] for i in open_ones])
        for index, (measured, rows) in zip(open_ones, worst, strict=True):
            if measured.cosine > best[index].cosine:
                best[index] = measured
            working[index] |= rows
        open_ones = [index for index in open_ones if best[index].cosine < ENOUGH]
        if not open_ones:
            break
        for index in open_ones:
            directions[index] = ascend(best[index].weights, np.stack(list(working[index].values())))
    return best


def _means(embedding: StoredTensor, free: list[np.ndarray]) -> list[np.ndarray]:
    """The mean of all rows at length 1, on each set of dimensions."""
    total = np.zeros(embedding.columns)
    for _, rows in embedding.blocks():
        total += _at_length_one(rows).sum(axis=0, dtype=np.float64)
    return [_rounded(total[dims]) for dims in free]


def _measure(
    embedding: StoredTensor, free: list[np.ndarray], directions: list[np.ndarray]
) -> list[tuple[Separation, dict[int, np.ndarray]]]:
    """Each direction's smallest cosine over all rows, and the worst rows on its dimensions."""
    cosines = [np.empty(embedding.rows, dtype=np.float32) for _ in free]
    lengths = [np.linalg.norm(m) or 1.0 for m in directions]
    for first, rows in embedding.blocks():
        units = _at_length_one(rows)
        empty = ~rows.any(axis=1)
        for cosine, dims, m, length in zip(cosines, free, directions, lengths, strict=True):
            cosine[first : first + len(rows)] = np.where(empty, 1, units[:, dims] @ m / length)
    found = []
    for cosine, dims, m in zip(cosines, free, directions, strict=True):
        token = int(cosine.argmin())
        failing = tuple(int(i) for i in np.flatnonzero(cosine < LEAST))
        worst = np.argsort(cosine, kind="stable")[:WORST]
        rows = {int(i): _at_length_one(embedding.numbers(int(i), 1))[0, dims] for i in worst}
        found.append((Separation(dims, m, float(cosine[token]), token, failing), rows))
    return found


def ascend(start: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """A direction with a larger smallest cosine over rows of length 1, by the gradient of their soft minimum."""
    m, rate = start / (np.linalg.norm(start) or 1.0), RATE
    best, best_least = m, -1.0
    for step in range(STEPS):
        cosines = rows @ m
        least = float(cosines.min())
        if least > best_least:
            best, best_least = m, least
        weights = np.exp((least - cosines) * SOFTNESS)
        m = m + rate * (weights / weights.sum()) @ rows
        m /= np.linalg.norm(m)
        if step % (STEPS // 3) == STEPS // 3 - 1:
            rate *= 0.4
    return _rounded(best)


def _at_length_one(rows: np.ndarray) -> np.ndarray:
    """Rows at length 1. A row of zeros stays: no direction separates it, and none has to, since all its sums are 0."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def _rounded(m: np.ndarray) -> np.ndarray:
    """A direction as bfloat16 holds it, its largest part just below 1."""
    top = np.abs(m).max(initial=0.0)
    scaled = (m / top if top else m).astype(np.float32)
    return widened(narrowed(scaled, "BF16"))
