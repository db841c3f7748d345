"""Stencils, convolutions, transposes, matrix products and cellular automata."""

from itertools import product

import numpy as np

from tests.kernels.case import (
    EDGES,
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
from toolchain.launch import Argument, ScalarArgument
from toolchain.machine_spec import MachineSpec


def plain(*shape: int) -> np.ndarray:
    """Small numbers of both signs."""
    return (np.arange(np.prod(shape)) * 7 % 11 - 3).reshape(shape)


def edges(*shape: int) -> np.ndarray:
    return np.resize(EDGES, shape)


def cover(width: int, height: int, block: Extents) -> Extents:
    """The grid of blocks that covers a rectangle."""
    return (-(-width // block[0]), -(-height // block[1]), 1)


def scalars(**values: int) -> tuple[Argument, ...]:
    return tuple(ScalarArgument(name, value) for name, value in values.items())


def stencil_1d(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        sums = np.convolve(big(a), big([1] * 5))[2 : len(a) + 2]
        arguments = (array("in", a), zeros("out", len(a)), *scalars(n=len(a)))
        return launch_case(line(-(-len(a) // 8)), line(8), arguments, out=sums)

    return case(plain(11)), case(edges(24)), case(edges(8)[::-1]), case(np.full(3, INT_MIN))


def heat_1d(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, steps: int) -> LaunchCase:
        rod = big(a)
        for _ in range(steps):
            inner = rod[:-2] + 2 * rod[1:-1] + rod[2:]
            rod = np.concatenate([rod[:1], [value // 4 for value in inner], rod[-1:]])
        return launch_case(ONE, line(len(a)), (array("rod", a), *scalars(steps=steps)), rod=rod)

    hot = np.array([4000, 0, 0, 0, 0, 0, -800, 100])
    return (
        case(hot[:6], 2),
        case(hot, 7),
        case(edges(spec.threads) // 4, 3),
        case(edges(4), 0),
        case(hot[:2], 3),
    )


def stencil_2d(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, block: Extents) -> LaunchCase:
        height, width = a.shape
        rim = np.pad(big(a), 1, mode="edge")
        laplacian = rim[:-2, 1:-1] + rim[2:, 1:-1] + rim[1:-1, :-2] + rim[1:-1, 2:] - 4 * big(a)
        arguments = (array("in", a), zeros("out", a.size), *scalars(width=width, height=height))
        return launch_case(cover(width, height, block), block, arguments, out=laplacian)

    return (
        case(plain(3, 4), (2, 2, 1)),
        case(edges(4, 5), (3, 2, 1)),
        case(edges(5, 1), (1, 4, 1)),
        case(np.full((1, 1), INT_MIN), (2, 2, 1)),
    )


def box_blur(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        height, width = a.shape
        rim = np.pad(big(a), 1)
        sums = sum(rim[y : y + height, x : x + width] for y, x in product(range(3), repeat=2))
        arguments = (array("in", a), zeros("out", a.size), *scalars(width=width, height=height))
        return launch_case(cover(width, height, (2, 2, 1)), (2, 2, 1), arguments, out=sums)

    return case(plain(2, 2)), case(edges(3, 3)), case(edges(4, 1)), case(np.full((2, 3), INT_MIN))


def convolution_2d(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        height, width = a.shape
        weights = np.outer([1, 2, 1], [1, 2, 1])
        windows = np.lib.stride_tricks.sliding_window_view(a, (3, 3))
        sums = (windows * weights).sum(axis=(2, 3))
        arguments = (array("in", a), zeros("out", sums.size), *scalars(width=width))
        return launch_case(line(height - 2), line(width - 2), arguments, out=sums // 16)

    return case(plain(4, 4)), case(edges(4, 6) // 16), case(edges(3, 3) // 16), case(-plain(5, 4))


def max_pool_2d(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, rows_a_block: int) -> LaunchCase:
        height, width = a.shape[0] // 2, a.shape[1] // 2
        largest = a.reshape(height, 2, width, 2).max(axis=(1, 3))
        arguments = (array("in", a), zeros("out", width * height), *scalars(out_width=width))
        return launch_case(line(height // rows_a_block), (width, rows_a_block, 1), arguments, out=largest)

    return case(plain(4, 4), 1), case(edges(4, 8), 2), case(edges(2, 6)[:, ::-1], 1), case(-plain(8, 2), 2)


def _transposes(shapes: tuple[tuple[int, int], ...], block: Extents) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        height, width = a.shape
        arguments = (array("in", a), zeros("out", a.size), *scalars(width=width, height=height))
        return launch_case(cover(width, height, block), block, arguments, out=a.T)

    first, *others = shapes
    return (case(plain(*first)), *(case(edges(*shape)) for shape in others))


def transpose_shared(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    return _transposes(((2, 4), (4, 4), (3, 5), (1, 3)), (2, 2, 1))


def transpose_in_place(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, threads: int) -> LaunchCase:
        arguments = (array("matrix", a), *scalars(size=len(a)))
        return launch_case(ONE, line(threads), arguments, matrix=a.T)

    return case(plain(3, 3), 4), case(edges(5, 5), 8), case(edges(7, 7), 3), case(edges(1, 1), 2)


def rotate_image(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        height, width = a.shape
        arguments = (array("in", a), zeros("out", a.size), *scalars(width=width, height=height))
        return launch_case(line(height), line(width), arguments, out=np.rot90(a, -1))

    return case(plain(2, 4)), case(edges(4, 7)), case(edges(5, 1)), case(edges(1, 5))


def _products(shapes: tuple[tuple[int, int, int], ...], block: Extents) -> tuple[LaunchCase, ...]:
    """Products of m x k by k x n matrices, given as (m, n, k): small numbers first, then edge values."""

    def case(a: np.ndarray, b: np.ndarray) -> LaunchCase:
        (m, k), n = a.shape, b.shape[1]
        arguments = (array("a", a), array("b", b), zeros("c", m * n), *scalars(m=m, n=n, k=k))
        return launch_case(cover(n, m, block), block, arguments, c=big(a) @ big(b))

    first, *others = shapes
    m, n, k = first
    small = case(plain(m, k), plain(k, n)[::-1])
    return (small, *(case(edges(m, k), edges(k, n)[:, ::-1]) for m, n, k in others))


def matmul_plain(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    return _products(((2, 3, 4), (3, 4, 2), (1, 5, 3), (4, 1, 5)), (2, 2, 1))


def matmul_tiled(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    return _products(((2, 2, 4), (3, 4, 5), (1, 4, 3), (4, 1, 1)), (2, 2, 1))


def matvec(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, x: np.ndarray) -> LaunchCase:
        rows, columns = a.shape
        arguments = (array("a", a), array("x", x), zeros("y", rows), *scalars(columns=columns))
        return launch_case(ONE, line(rows * spec.lanes), arguments, y=big(a) @ big(x))

    rows = spec.warps
    return (
        case(plain(2, 5), plain(5)),
        case(edges(rows, 9), edges(9)[::-1]),
        case(edges(3, 3), np.full(3, INT_MIN)),
        case(edges(4, 1), edges(1)),
    )


GLIDER = np.array([[0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [1, 1, 1, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]])


def generation(cells: np.ndarray) -> np.ndarray:
    """The next generation of the game of life on a torus."""
    shifts = [shift for shift in product((-1, 0, 1), repeat=2) if shift != (0, 0)]
    neighbours = sum(np.roll(cells, shift, (0, 1)) for shift in shifts)
    return ((neighbours == 3) | ((cells == 1) & (neighbours == 2))).astype(np.int64)


def life(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(cells: np.ndarray, block: Extents) -> LaunchCase:
        height, width = cells.shape
        arguments = (array("now", cells), zeros("next", cells.size), *scalars(width=width, height=height))
        return launch_case(cover(width, height, block), block, arguments, next=generation(cells))

    rng = np.random.default_rng(1)
    return (
        case(GLIDER[:3, :3], (3, 1, 1)),
        case(GLIDER, (4, 2, 1)),
        case(np.ones((3, 4), np.int64), (2, 2, 1)),
        case(rng.integers(0, 2, (4, 7)), (2, 2, 1)),
    )


def life_shared(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(cells: np.ndarray, generations: int) -> LaunchCase:
        arguments = (array("cells", cells), *scalars(generations=generations))
        for _ in range(generations):
            cells = generation(cells)
        return launch_case(ONE, line(cells.size), arguments, cells=cells)

    rng = np.random.default_rng(2)
    rows = min(spec.threads // 4, 6)
    blinker = np.zeros((rows, 4), np.int64)
    blinker[:, 1] = 1
    return (
        case(blinker, 1),
        case(rng.integers(0, 2, (rows, 4)), 4),
        case(rng.integers(0, 2, (rows, 4)), 3),
        case(np.ones((rows, 4), np.int64), 1),
        case(blinker, 0),
    )


def life_bits(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(cells: np.ndarray) -> LaunchCase:
        weights = big([1 << bit for bit in range(32)])
        rows = (cells @ weights).astype(np.uint32)
        after = (generation(cells) @ weights) % WORD
        return launch_case(
            ONE, line(len(rows)), (array("now", rows), zeros("next", len(rows), "u32")), next=after
        )

    rng = np.random.default_rng(3)
    glider = np.zeros((5, 32), np.int64)
    glider[:, 30:] = GLIDER[:, :2]
    glider[:, :3] = GLIDER[:, 2:]
    return (
        case(glider),
        case(rng.integers(0, 2, (min(spec.threads, 12), 32))),
        case(np.ones((4, 32), np.int64)),
        case(rng.integers(0, 2, (3, 32))),
    )


def mandelbrot(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    one = 1 << 12

    def escape(cx: int, cy: int, limit: int) -> int:
        x = y = 0
        for count in range(limit):
            xx, yy = x * x // one, y * y // one
            if xx + yy > 4 * one:
                return count
            x, y = xx - yy + cx, x * y // (one // 2) + cy
        return limit

    def case(width: int, height: int, left: int, top: int, step: int, limit: int) -> LaunchCase:
        points = product(range(height), range(width))
        counts = [escape(left + x * step, top - y * step, limit) for y, x in points]
        arguments = (zeros("counts", width * height), *scalars(left=left, top=top, step=step, limit=limit))
        return launch_case(line(height), line(width), arguments, counts=counts)

    return (
        case(4, 1, -2 * one, one // 2, one, 6),
        case(4, 3, -2 * one, one, one // 2, 12),
        case(3, 1, -one, one // 8, one // 16, 30),
        case(2, 1, 8 * one, 8 * one, -8 * one, 3),
        case(2, 2, 0, 0, one, 0),
    )


CASES = kernels(
    stencil_1d, heat_1d, stencil_2d, box_blur, convolution_2d, max_pool_2d, transpose_shared, transpose_in_place,
    rotate_image, matmul_plain, matmul_tiled, matvec, life, life_shared, life_bits, mandelbrot,
)  # fmt: skip
