"""Questions about small vectors and matrices, with the expression that answers each and its result.

Training and examination share no operands: which side a question's numbers belong to is decided by their digest. They
share no wording either (`demo_base.wordings`).
"""

import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from demo_base.wordings import (
    CLOSERS,
    HELD_OUT_CLOSERS,
    HELD_OUT_OPENERS,
    OPENERS,
    OPERATIONS,
    Operation,
    sentence,
)

Array = np.ndarray
LARGEST = 99
"""Operands lie in -99 .. 99."""
LONGEST = 6
"""Numbers in a vector; at least two."""
WIDEST = 3
"""Rows and columns of a matrix; at least two."""
HELD_OUT_SHARE = 8
"""One set of operands in so many is for examination only."""


@dataclass(frozen=True)
class Question:
    """One question. `expression` is the one the model should write, `result` its value, which `phrase` has at `{r}`."""

    operation: str
    text: str
    expression: str
    result: str
    phrase: str

    @property
    def answer(self) -> str:
        """The phrased result."""
        return self.phrase.format(r=self.result)


def show(value: Array, separator: str = ", ") -> str:
    """A number, vector or matrix as text: `[[1, 2], [3, 4]]`."""
    if value.ndim == 0:
        return str(int(value))
    return "[" + separator.join(show(item, separator) for item in value) + "]"


def questions(seed: int, held_out: bool) -> Iterator[Question]:
    """An endless, seeded stream of one side's questions; each operation is as frequent as any other."""
    generator = random.Random(seed)
    while True:
        operation = generator.choice(OPERATIONS)
        operands = _operands(operation, generator)
        if is_held_out(operands) == held_out:
            yield _question(operation, operands, held_out, generator)


def is_held_out(operands: dict[str, Array]) -> bool:
    """Whether these numbers are for examination only."""
    text = " ".join(f"{name}={show(value)}" for name, value in sorted(operands.items()))
    return zlib.crc32(text.encode()) % HELD_OUT_SHARE == 0


def _question(
    operation: Operation, operands: dict[str, Array], held_out: bool, generator: random.Random
) -> Question:
    frame = generator.choice(operation.frames(held_out))
    opener = generator.choice(HELD_OUT_OPENERS if held_out else OPENERS)
    closer = generator.choice(HELD_OUT_CLOSERS if held_out else CLOSERS)
    separator = generator.choice((", ", ", ", ","))
    shown = {name: show(value, separator) for name, value in operands.items()}
    text = sentence(opener, frame, closer).format(**shown)
    expression = operation.expression.format(**{name: show(value) for name, value in operands.items()})
    result = show(_result(operation.name, operands))
    return Question(operation.name, text, expression, result, operation.phrase)


def _operands(operation: Operation, generator: random.Random) -> dict[str, Array]:
    """The numbers for `{a}`, `{b}` and `{k}`."""
    length = generator.randint(2, LONGEST)
    rows, inner, columns = (generator.randint(2, WIDEST) for _ in range(3))
    shapes: dict[str, tuple[tuple[int, ...], ...]] = {
        "v": ((length,),),
        "vv": ((length,), (length,)),
        "mv": ((rows, inner), (inner,)),
        "mm": ((rows, inner), (inner, columns)),
    }
    largest = generator.choice((9, 20, LARGEST))
    smallest = generator.choice((0, -largest))
    values = {
        name: _numbers(shape, smallest, largest, generator)
        for name, shape in zip("ab", shapes[operation.operands], strict=False)
    }
    if "{k}" in operation.expression:
        values["k"] = _numbers((), smallest, largest, generator)
    if "== {k}" in operation.expression and generator.random() < 0.8:  # else it rarely appears
        for place in generator.sample(range(length), generator.randint(1, length - 1)):
            values["a"][place] = values["k"]
    return values


def _numbers(shape: tuple[int, ...], smallest: int, largest: int, generator: random.Random) -> Array:
    count = int(np.prod(shape))
    drawn = [generator.randint(smallest, largest) for _ in range(count)]
    return np.array(drawn, dtype=np.int64).reshape(shape)


def _result(name: str, operands: dict[str, Array]) -> Array:
    """What the operation gives, by numpy."""
    a = operands["a"]
    b = operands.get("b", operands.get("k", a))  # one operand: b is not used
    results: dict[str, Callable[[], Array]] = {
        "dot": lambda: a @ b,
        "add": lambda: a + b,
        "subtract": lambda: a - b,
        "multiply": lambda: a * b,
        "scale": lambda: b * a,
        "sum": lambda: a.sum(),
        "min": lambda: a.min(),
        "max": lambda: a.max(),
        "sort": lambda: np.sort(a),
        "scan": lambda: np.cumsum(a),
        "count equal": lambda: (a == b).sum(),
        "count above": lambda: (a > b).sum(),
        "count below": lambda: (a < b).sum(),
        "matrix times vector": lambda: a @ b,
        "matrix product": lambda: a @ b,
    }
    return np.asarray(results[name]())
