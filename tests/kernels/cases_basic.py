"""Kernels of arithmetic, branches and loops on global memory alone."""

import math
from collections.abc import Callable

import numpy as np

from tests.kernels.case import (
    EDGES,
    FOLDER,
    INT_MAX,
    INT_MIN,
    ONE,
    WORD,
    Extents,
    LaunchCase,
    array,
    big,
    kernels,
    launch_case,
    line,
    zeros,
)
from toolchain.launch import ScalarArgument
from toolchain.machine_spec import MachineSpec

EXAMPLES = FOLDER.parent.parent / "examples"


def vector_add(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    inputs = (
        ((1, 2, 3, 4), (10, 20, 30, 40)),
        (EDGES[:4], EDGES[1:5]),
        ((INT_MAX,) * 4, (1, -1, INT_MAX, INT_MIN)),
    )
    return tuple(
        launch_case(ONE, line(4), (array("a", a), array("b", b), zeros("c", 4)), c=big(a) + big(b))
        for a, b in inputs
    )


def saxpy(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    inputs = (
        (3, (1, 2, 3, 4), (10, 20, 30, 40)),
        (-7, EDGES[:4], EDGES[4:]),
        (INT_MIN, EDGES[4:], EDGES[:4]),
    )
    return tuple(
        launch_case(
            ONE,
            line(4),
            (ScalarArgument("alpha", alpha), array("x", x), array("y", y)),
            y=alpha * big(x) + big(y),
        )
        for alpha, x, y in inputs
    )


def guarded_copy(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    threads = spec.lanes + spec.lanes // 2
    full = np.arange(1, threads + 1)
    edges = np.resize(EDGES, threads)

    def case(values: np.ndarray, n: int) -> LaunchCase:
        copied = np.where(np.arange(threads) < n, values, 0)
        arguments = (array("in", values), zeros("out", threads), ScalarArgument("n", n))
        return launch_case(ONE, line(threads), arguments, out=copied)

    return case(full, threads - 1), case(edges, threads), case(edges, 0), case(edges, -3)


def dot(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    inputs = (
        ((1, 2, 3), (4, 5, 6)),
        (EDGES, EDGES[::-1]),
        ((INT_MIN, INT_MAX), (INT_MIN, INT_MAX)),
        ((), ()),
    )

    def case(a: tuple[int, ...], b: tuple[int, ...]) -> LaunchCase:
        arguments = (array("a", a), array("b", b), array("c", [99]), ScalarArgument("n", len(a)))
        return launch_case(ONE, ONE, arguments, c=[sum(x * y for x, y in zip(a, b, strict=True))])

    return tuple(case(a, b) for a, b in inputs)


def maximum(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    inputs = ((3, 1, 4, 1, 5, 2), EDGES, (INT_MIN, INT_MIN), (-5,), (7, 7, 7))
    return tuple(
        launch_case(
            ONE,
            ONE,
            (array("a", a), zeros("best", 2), ScalarArgument("n", len(a))),
            best=[max(a), np.argmax(a)],
        )
        for a in inputs
    )


def nested_branches(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def reference(value: int) -> tuple[int, int]:
        if value < 0:
            return (-value, 1) if value % 2 else (math.floor(value / 2), 2)
        if value >= 100:
            return 3 * value + 1, 4
        while value > 3:
            value -= value // 4
        return value, 3

    def case(values: tuple[int, ...]) -> LaunchCase:
        results = [reference(value) for value in values]
        count = len(values)
        arguments = (array("in", values), zeros("out", count), zeros("kind", count))
        return launch_case(
            ONE, line(count), arguments, out=[out for out, _ in results], kind=[kind for _, kind in results]
        )

    return (
        case((-7, -8, 50, 100)),
        case(EDGES),
        case((99, 0, 3, 4)),
        case((INT_MIN, INT_MIN + 1, -1, INT_MAX)),
    )


def collatz(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def steps(value: int) -> int:
        count = 0
        while value != 1:
            value = (3 * value + 1) % WORD if value % 2 else value // 2
            count += 1
        return count

    def case(*start: int) -> LaunchCase:
        values = np.asarray(start, np.uint32)
        arguments = (array("start", values), zeros("steps", len(start)))
        return launch_case(ONE, line(len(start)), arguments, steps=[steps(value) for value in start])

    return case(1, 2, 6, 3), case(1, 1, 1, 1), case(1 << 31, 9, 1, 0x2AAAAAAA), case(5, 1, 16, 7, 2)


def gcd(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: tuple[int, ...], b: tuple[int, ...]) -> LaunchCase:
        x, y = np.asarray(a, np.uint32), np.asarray(b, np.uint32)
        count = len(a)
        return launch_case(
            ONE, line(count), (array("a", x), array("b", y), zeros("out", count, "u32")), out=np.gcd(x, y)
        )

    top = 0xFFFFFFFF
    return (
        case((12, 7, 9, 21), (18, 7, 6, 14)),
        case((top, 0x7FFFFFFF, 3 << 30, 5), (top, 0xFFFFFFFE, 1 << 30, 1)),
        case((1, 8), (6, 12)),
    )


def matmul3x3(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    """One 3 x 3 thread block where the machine has room for it, else three rows of three."""
    grid, block = (ONE, (3, 3, 1)) if spec.threads >= 9 else ((1, 3, 1), line(3))
    inputs = (
        (np.arange(1, 10), np.arange(9, 0, -1)),
        (np.resize(EDGES, 9), np.resize(EDGES[3:], 9)),
        (np.eye(3, dtype=np.int64), np.full(9, INT_MIN)),
    )

    def case(a: np.ndarray, b: np.ndarray) -> LaunchCase:
        product = big(a).reshape(3, 3) @ big(b).reshape(3, 3)
        return launch_case(grid, block, (array("a", a), array("b", b), zeros("c", 9)), c=product)

    return tuple(case(a, b) for a, b in inputs)


def prefix_sum(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    """As many threads as a warp has lanes."""
    inputs = (np.arange(1, spec.lanes + 1), np.resize(EDGES[1:], spec.lanes), np.full(spec.lanes, INT_MIN))
    return tuple(
        launch_case(ONE, line(spec.lanes), (array("x", values),), x=np.cumsum(big(values)))
        for values in inputs
    )


def two_warps(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    """8 threads on a machine with 4 lanes."""
    threads = 2 * spec.lanes
    inputs = (np.arange(1, threads + 1), np.resize(EDGES, threads))
    return tuple(
        launch_case(
            ONE, line(threads), (array("in", values), zeros("out", threads)), out=np.cumsum(big(values))
        )
        for values in inputs
    )


def three_blocks(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    width = spec.lanes
    count = 3 * width

    def case(values: np.ndarray) -> LaunchCase:
        scaled = big(values) * (np.arange(count) // width + 1) + 3
        return launch_case(line(3), line(width), (array("in", values), zeros("out", count)), out=scaled)

    return case(np.arange(1, count + 1)), case(np.resize(EDGES, count))


def transpose(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(values: np.ndarray, grid: Extents, block: Extents) -> LaunchCase:
        height, width = values.shape
        arguments = (array("in", values), zeros("out", values.size))
        arguments += (ScalarArgument("width", width), ScalarArgument("height", height))
        return launch_case(grid, block, arguments, out=values.T)

    return (
        case(np.arange(1, 13).reshape(3, 4), (2, 1, 1), (2, 3, 1)),
        case(np.resize(EDGES, (2, 5)), (2, 2, 1), (3, 1, 1)),
        case(np.resize(EDGES, (3, 3)), (2, 2, 1), (2, 2, 1)),
    )


def bit_tricks(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def reference(x: int) -> tuple[int, int, int]:
        bits = f"{x:032b}"
        counts = bits.count("1") | (32 - x.bit_length()) << 8
        backwards = int(bits[::-1], 2)
        lowest = x & -x
        mixed = (backwards ^ (WORD - 1 - (x << 3) % WORD)) & (WORD - 1 - x // 32) | lowest
        signed = x - WORD if x > INT_MAX else x
        return counts, mixed, signed // 2 ** (x % 32) ^ x * 2 ** (x % 32)

    def case(*values: int) -> LaunchCase:
        inputs = np.asarray([value % WORD for value in values], np.uint32)
        counts, mixed, shifted = zip(*(reference(int(value)) for value in inputs), strict=True)
        names = (zeros("counts", len(values), "u32"), zeros("mixed", len(values), "u32"))
        arguments = (array("in", inputs), *names, zeros("shifted", len(values)))
        return launch_case(ONE, line(len(values)), arguments, counts=counts, mixed=mixed, shifted=shifted)

    return case(1, 0x80000000, 0xDEADBEEF, 0), case(*EDGES), case(31, 32, 33, 0xFFFF0000)


def polynomial_mulhi(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def horner(coefficients: list[int], x: int, bits: tuple[int, int]) -> int:
        """Each product's high half, plus the next coefficient, reduced to [low, low + 2**32)."""
        low = bits[0]
        value = coefficients[3]
        for coefficient in coefficients[2::-1]:
            value = ((value * x) // WORD + coefficient - low) % WORD + low
        return value

    def signed(value: int) -> int:
        return value - WORD if value > INT_MAX else value

    def case(coefficients: tuple[int, ...], values: tuple[int, ...]) -> LaunchCase:
        c, x = np.asarray(coefficients, np.uint32), np.asarray(values, np.uint32)
        count = len(values)
        arguments = (array("c", c), array("x", x), zeros("out", count, "u32"), zeros("out_signed", count))
        unsigned = [horner(list(coefficients), value, (0, WORD)) for value in values]
        negative = [horner([signed(k) for k in coefficients], signed(v), (INT_MIN, INT_MAX)) for v in values]
        return launch_case(ONE, line(count), arguments, out=unsigned, out_signed=negative)

    top = 0xFFFFFFFF
    return (
        case((0x10000000, 0x20000000, 0x30000000, 0x40000000), (0, 0x40000000, 0x80000000, top)),
        case((top, top, top, top), (top, 1, 0x80000000, 0x7FFFFFFF)),
        case((0x80000000, 1, 0x7FFFFFFF, 0x80000000), (0x80000000, 0xDEADBEEF, 0, 3)),
    )


def switch5(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    ways: tuple[Callable[[int, int], int], ...] = (
        lambda x, y: x + y,
        lambda x, y: x - y,
        lambda x, y: x * y,
        lambda x, y: x & y,
        min,
    )

    def case(op: tuple[int, ...], a: tuple[int, ...], b: tuple[int, ...]) -> LaunchCase:
        results = [ways[k](x, y) if 0 <= k < 5 else -1 for k, x, y in zip(op, a, b, strict=True)]
        arguments = (array("op", op), array("a", a), array("b", b), zeros("out", len(op)))
        return launch_case(ONE, line(len(op)), arguments, out=results)

    return (
        case((0, 1, 2, 3, 4, 5), (10, 20, 30, 12, 7, 1), (1, 2, 3, 10, 9, 1)),
        case((4, -1, INT_MIN, 2), (INT_MIN, 5, 6, INT_MIN), (INT_MAX, 7, 8, -1)),
        case((3, 3, 0, 1), (-1, INT_MIN, INT_MAX, INT_MIN), (INT_MAX, -1, INT_MAX, 1)),
    )


CASES = (
    *kernels(dot, folder=EXAMPLES),
    *kernels(
        vector_add, saxpy, guarded_copy, maximum, nested_branches, collatz, gcd, matmul3x3, prefix_sum,
        two_warps, three_blocks, transpose, bit_tricks, polynomial_mulhi, switch5,
    ),
)  # fmt: skip
