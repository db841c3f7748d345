"""Questions with a known result, for `qgpuc eval chat`: ordinary ones, ones that want a kernel, generated ones."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

GENERATED = 100
SEED = 2026


@dataclass(frozen=True)
class Question:
    """`result`: nested lists or a number. A question that wants a kernel has its result in some array of the launch."""

    text: str
    result: object
    advanced: bool = False


ORDINARY = (
    Question("What is the dot product of [1, 2, 3] and [4, 5, 6]?", 32),
    Question("Compute [1, 2, 3, 4] . [5, 6, 7, 8].", 70),
    Question("What is 17 times 23?", 391),
    Question("Add 123456 and 654321.", 777777),
    Question("What is [10, 20, 30] plus [1, 2, 3]?", [11, 22, 33]),
    Question("Subtract [1, 1, 1] from [5, 6, 7].", [4, 5, 6]),
    Question("Multiply [2, 3, 4] and [5, 6, 7] element by element.", [10, 18, 28]),
    Question("Scale the vector [3, -1, 2] by 4.", [12, -4, 8]),
    Question("Multiply the matrices [[1, 2], [3, 4]] and [[5, 6], [7, 8]].", [[19, 22], [43, 50]]),
    Question("What is [[2, 0], [0, 3]] times the vector [7, 5]?", [14, 15]),
    Question("What is the sum of [3, 1, 4, 1, 5, 9, 2, 6]?", 31),
    Question("What is the largest of [12, 7, 33, 25]?", 33),
    Question("What is the smallest number in [8, -3, 5, 0]?", -3),
    Question("Sort [9, 4, 7, 1, 8].", [1, 4, 7, 8, 9]),
    Question("Sort these from small to large: [-5, 3, 0, -2].", [-5, -2, 0, 3]),
    Question("Give the running totals of [1, 2, 3, 4, 5].", [1, 3, 6, 10, 15]),
    Question("What are the prefix sums of [5, -2, 7]?", [5, 3, 10]),
    Question("How many 2s are in [2, 3, 2, 5, 2]?", 3),
    Question("How many of [4, 9, 11, 2, 15] are greater than 8?", 3),
    Question("How many of [4, 9, 11, 2, 15] are less than 5?", 2),
    Question(
        "I bought 3 items at 12 each and 2 at 30 each. What is the dot product of [3, 2] and [12, 30]?", 96
    ),
    Question("What is the sum of the squares of [1, 2, 3]? That is its dot product with itself.", 14),
    Question("What is the maximum of [[1, 8], [6, 2]]?", 8),
    Question("Multiply [[1, 2, 3]] and [[1], [2], [3]].", [[14]]),
)
ADVANCED = (
    Question("Write a kernel that squares each element of [1, 2, 3, 4].", [1, 4, 9, 16], advanced=True),
    Question("Write a kernel that reverses [5, 6, 7, 8].", [8, 7, 6, 5], advanced=True),
    Question(
        "Write a kernel that computes the first 8 Fibonacci numbers.",
        [0, 1, 1, 2, 3, 5, 8, 13],
        advanced=True,
    ),
    Question(
        "Write a kernel that adds [1, 2, 3] and [10, 20, 30], one thread an element.",
        [11, 22, 33],
        advanced=True,
    ),
    Question("Write a kernel that finds the greatest common divisor of 48 and 36.", [12], advanced=True),
)
Draw = Callable[[random.Random], Question]


def generated(count: int = GENERATED, seed: int = SEED) -> Iterator[Question]:
    """Seeded questions, the kinds in turn; results by numpy."""
    generator = random.Random(seed)
    for number in range(count):
        yield KINDS[number % len(KINDS)](generator)


def _vector(generator: random.Random, length: int) -> np.ndarray:
    return np.array([generator.randint(-50, 50) for _ in range(length)], dtype=np.int64)


def _two(wordings: tuple[str, ...], result: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Draw:
    """Questions about two vectors of one length."""

    def draw(generator: random.Random) -> Question:
        length = generator.randint(2, 6)
        a, b = _vector(generator, length), _vector(generator, length)
        text = generator.choice(wordings).format(a=a.tolist(), b=b.tolist())
        return Question(text, result(a, b).tolist())

    return draw


def _one(wordings: tuple[str, ...], result: Callable[[np.ndarray, int], np.ndarray]) -> Draw:
    """Questions about a vector and perhaps a number."""

    def draw(generator: random.Random) -> Question:
        a, k = _vector(generator, generator.randint(3, 8)), generator.randint(-20, 20)
        return Question(generator.choice(wordings).format(a=a.tolist(), k=k), result(a, k).tolist())

    return draw


def _matrices(generator: random.Random) -> Question:
    rows, inner, columns = (generator.randint(2, 3) for _ in range(3))
    a = _vector(generator, rows * inner).reshape(rows, inner)
    b = _vector(generator, inner * columns).reshape(inner, columns)
    wording = generator.choice(
        ("What is the matrix product of {a} and {b}?", "Multiply the matrix {a} by the matrix {b}.")
    )
    return Question(wording.format(a=a.tolist(), b=b.tolist()), (a @ b).tolist())


KINDS: tuple[Draw, ...] = (
    _two(("What is the dot product of {a} and {b}?", "Find the inner product of {a} and {b}."), np.dot),
    _two(("What is {a} plus {b}?", "Add the vectors {a} and {b}."), np.add),
    _two(("What is {a} minus {b}?", "Compute {a} - {b}."), np.subtract),
    _two(
        ("Multiply {a} and {b} element by element.", "What is the elementwise product of {a} and {b}?"),
        np.multiply,
    ),
    _one(("What is the sum of {a}?", "Add up all numbers in {a}."), lambda a, k: a.sum()),
    _one(("What is the smallest number in {a}?", "Find the minimum of {a}."), lambda a, k: a.min()),
    _one(("What is the largest number in {a}?", "Find the maximum of {a}."), lambda a, k: a.max()),
    _one(("Sort {a}.", "Put {a} in ascending order."), lambda a, k: np.sort(a)),
    _one(
        ("What are the prefix sums of {a}?", "Give me the running totals of {a}."), lambda a, k: np.cumsum(a)
    ),
    _one(
        ("How many numbers in {a} are greater than {k}?", "Count the elements of {a} above {k}."),
        lambda a, k: (a > k).sum(),
    ),
    _one(("Scale {a} by {k}.", "What is {k} times {a}?"), lambda a, k: k * a),
    _matrices,
)
