"""The 14 GPU puzzles in integers: from one thread an element to a matrix product in shared memory."""

import numpy as np

from tests.kernels.case import (
    EDGES,
    INT_MAX,
    INT_MIN,
    ONE,
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


def inputs(count: int) -> tuple[np.ndarray, ...]:
    """Small numbers, edge values in two orders, and one value whose sums wrap."""
    edges = np.resize(EDGES, count)
    return np.arange(1, count + 1), edges, edges[::-1], np.full(count, INT_MIN)


def blocks_for(size: int, threads: int) -> Extents:
    """As many blocks of `threads` as cover `size` elements."""
    return line(-(-size // threads))


def puzzle_map(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    return tuple(
        launch_case(ONE, line(4), (zeros("out", 4), array("a", a)), out=big(a) + 10) for a in inputs(4)
    )


def puzzle_zip(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    pairs = (*zip(inputs(4), inputs(4)[1:], strict=False), (np.full(4, INT_MAX), np.arange(4)))
    return tuple(
        launch_case(ONE, line(4), (zeros("out", 4), array("a", a), array("b", b)), out=big(a) + big(b))
        for a, b in pairs
    )


def puzzle_guard(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    """As many threads as the machine's block holds, fewer elements; a size of 0 and of less leave all."""
    count = spec.threads - 3

    def case(a: np.ndarray, size: int) -> LaunchCase:
        out = np.where(np.arange(count) < size, big(a) + 10, 0)
        arguments = (zeros("out", count), array("a", a), ScalarArgument("size", size))
        return launch_case(ONE, line(spec.threads), arguments, out=out)

    plain, edges, *_ = inputs(count)
    return case(plain, count), case(edges, count), case(edges, 1), case(edges, 0), case(edges, INT_MIN)


def puzzle_map_2d(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    block = (3, 2, 1) if spec.threads < 9 else (4, 4, 1)

    def case(a: np.ndarray, size: int) -> LaunchCase:
        arguments = (zeros("out", size * size), array("a", a), ScalarArgument("size", size))
        return launch_case(ONE, block, arguments, out=big(a) + 10)

    return (*(case(a, 2) for a in inputs(4)), case(np.array([INT_MAX]), 1))


def puzzle_broadcast(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    block = (3, 2, 1) if spec.threads < 9 else (4, 4, 1)

    def case(row: np.ndarray, column: np.ndarray, size: int) -> LaunchCase:
        out = big(row).reshape(1, size) + big(column).reshape(size, 1)
        arguments = (zeros("out", size * size), array("row_vector", row), array("column_vector", column))
        return launch_case(ONE, block, (*arguments, ScalarArgument("size", size)), out=out)

    sizes = (2, 2, 1) if spec.threads < 9 else (2, 3, 4)
    return tuple(case(inputs(n)[k], inputs(n)[k + 1], n) for k, n in enumerate(sizes))


def puzzle_blocks(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, threads: int, size: int) -> LaunchCase:
        out = np.where(np.arange(len(a)) < size, big(a) + 10, 0)
        arguments = (zeros("out", len(a)), array("a", a), ScalarArgument("size", size))
        return launch_case(blocks_for(len(a), threads), line(threads), arguments, out=out)

    plain, edges, *_ = inputs(9)
    return case(plain, 4, 9), case(edges, 4, 9), case(edges, 3, 7), case(edges, 4, 0)


def puzzle_blocks_2d(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, size: int, block: Extents) -> LaunchCase:
        arguments = (zeros("out", size * size), array("a", a), ScalarArgument("size", size))
        grid = (-(-size // block[0]), -(-size // block[1]), 1)
        return launch_case(grid, block, arguments, out=big(a) + 10)

    return (
        case(inputs(9)[0], 3, (2, 2, 1)),
        case(inputs(25)[1], 5, (4, 2, 1)),
        case(inputs(16)[2], 4, (1, 4, 1)),
    )


def puzzle_shared(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        arguments = (zeros("out", len(a)), array("a", a), ScalarArgument("size", len(a)))
        return launch_case(blocks_for(len(a), 4), line(4), arguments, out=big(a) + 10)

    return case(inputs(8)[0]), case(inputs(12)[1]), case(inputs(7)[2]), case(inputs(1)[3])


def puzzle_pooling(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        out = [sum(a.tolist()[max(0, i - 2) : i + 1]) for i in range(len(a))]
        arguments = (zeros("out", len(a)), array("a", a), ScalarArgument("size", len(a)))
        return launch_case(ONE, line(8), arguments, out=out)

    return case(inputs(8)[0]), case(inputs(8)[1]), case(inputs(5)[2]), case(inputs(2)[3])


def puzzle_dot(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, b: np.ndarray) -> LaunchCase:
        arguments = (array("out", [99]), array("a", a), array("b", b), ScalarArgument("size", len(a)))
        return launch_case(ONE, line(8), arguments, out=[big(a) @ big(b)] if len(a) else [0])

    none = np.array([], np.int64)
    plain, edges, backwards, low = inputs(8)
    return case(plain, plain[::-1]), case(edges, backwards), case(low[:5], edges[:5]), case(none, none)


def puzzle_conv_1d(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, b: np.ndarray) -> LaunchCase:
        padded = [*a.tolist(), *[0] * len(b)]
        out = [sum(padded[i + k] * value for k, value in enumerate(b.tolist())) for i in range(len(a))]
        arguments = (zeros("out", len(a)), array("a", a), array("b", b))
        arguments += (ScalarArgument("a_size", len(a)), ScalarArgument("b_size", len(b)))
        return launch_case(blocks_for(len(a), 4), line(4), arguments, out=out)

    return (
        case(inputs(6)[0], inputs(3)[0]),
        case(inputs(9)[1], inputs(4)[2]),
        case(inputs(4)[2], inputs(4)[1]),
        case(inputs(2)[3], inputs(1)[1]),
    )


def puzzle_prefix_sum(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        grid = blocks_for(len(a), 8)
        sums = [sum(a.tolist()[8 * block : 8 * block + 8]) for block in range(grid[0])]
        arguments = (zeros("out", grid[0]), array("a", a), ScalarArgument("size", len(a)))
        return launch_case(grid, line(8), arguments, out=sums)

    return case(inputs(8)[0]), case(inputs(15)[1]), case(inputs(17)[2]), case(inputs(3)[3])


def puzzle_axis_sum(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, size: int) -> LaunchCase:
        rows = big(a).reshape(-1, size)
        arguments = (zeros("out", len(rows)), array("a", a), ScalarArgument("size", size))
        return launch_case((1, len(rows), 1), line(8), arguments, out=rows.sum(axis=1))

    return case(inputs(12)[0], 6), case(inputs(24)[1], 8), case(inputs(5)[2], 1), case(inputs(9)[3], 3)


def puzzle_matmul(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, b: np.ndarray, size: int) -> LaunchCase:
        product = big(a).reshape(size, size) @ big(b).reshape(size, size)
        arguments = (zeros("out", size * size), array("a", a), array("b", b), ScalarArgument("size", size))
        tiles = -(-size // 2)
        return launch_case((tiles, tiles, 1), (2, 2, 1), arguments, out=product)

    def pair(size: int, first: int) -> tuple[np.ndarray, np.ndarray, int]:
        values = inputs(size * size)
        return values[first], values[first + 1], size

    return case(*pair(2, 0)), case(*pair(4, 1)), case(*pair(3, 2)), case(*pair(1, 1))


CASES = kernels(
    puzzle_map, puzzle_zip, puzzle_guard, puzzle_map_2d, puzzle_broadcast, puzzle_blocks, puzzle_blocks_2d,
    puzzle_shared, puzzle_pooling, puzzle_dot, puzzle_conv_1d, puzzle_prefix_sum, puzzle_axis_sum, puzzle_matmul,
)  # fmt: skip
