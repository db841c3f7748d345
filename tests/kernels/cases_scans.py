"""Reductions, prefix sums and histograms: shared memory with barriers, shuffles, atomics."""

import itertools

import numpy as np

from tests.kernels.case import (
    EDGES,
    INT_MAX,
    INT_MIN,
    ONE,
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
    """A permutation of small numbers of both signs, edge values in two orders, and one value whose sums wrap."""
    edges = np.resize(EDGES, count)
    return (np.arange(count) * 7 % 11 - 3, edges, edges[::-1], np.full(count, INT_MIN))


def half_block(spec: MachineSpec) -> int:
    """Threads of a block of several warps that leaves room in the tokens of a slow level."""
    return spec.threads // 2


def reduce_tree(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, threads: int) -> LaunchCase:
        arguments = (array("in", a), zeros("total", 1), ScalarArgument("n", len(a)))
        return launch_case(ONE, line(threads), arguments, total=[big(a).sum()])

    full = spec.threads
    return (
        case(inputs(half_block(spec))[0], half_block(spec)),
        case(inputs(full)[1], full),
        case(inputs(full - 3)[2], full),
        case(inputs(1)[3], 2),
        case(inputs(1)[1], 1),
    )


def reduce_max_tree(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        arguments = (array("in", a), zeros("best", 1), zeros("where", 1))
        return launch_case(ONE, line(len(a)), arguments, best=[a.max()], where=[a.argmax()])

    return (
        case(np.array([3, -1, 4, -1])),
        case(inputs(8)[1]),
        case(np.array([1, 5, 5, 0, 5, 4, 5, 5])),
        case(np.arange(half_block(spec)) % 3),
        case(inputs(4)[3]),
        case(np.array([-7])),
    )


def reduce_shuffle(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, blocks: int) -> LaunchCase:
        threads = 2 * spec.lanes
        padded = np.zeros(blocks * threads, dtype=object)
        padded[: len(a)] = big(a)
        sums = padded.reshape(-1, spec.lanes).sum(axis=1)
        arguments = (array("in", a), zeros("sums", len(sums)), ScalarArgument("n", len(a)))
        return launch_case(line(blocks), line(threads), arguments, sums=sums)

    count = 2 * spec.lanes
    return (
        case(inputs(count)[0], 1),
        case(inputs(2 * count - 1)[1], 2),
        case(inputs(1)[2], 1),
        case(inputs(3 * count)[3], 3),
    )


def reduce_butterfly(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        least = np.repeat(a.reshape(-1, spec.lanes).min(axis=1), spec.lanes)
        return launch_case(ONE, line(len(a)), (array("in", a), zeros("out", len(a))), out=least)

    return (*tuple(case(a) for a in inputs(2 * spec.lanes)), case(inputs(spec.threads)[1] // 3))


def reduce_warps(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        return launch_case(ONE, line(len(a)), (array("in", a), zeros("total", 1)), total=[big(a).sum()])

    return (
        case(inputs(2 * spec.lanes)[0]),
        case(inputs(spec.threads)[1]),
        case(inputs(spec.threads - spec.lanes)[2]),
        case(inputs(spec.lanes)[3]),
    )


def reduce_atomic(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, threads: int) -> LaunchCase:
        arguments = (
            array("in", a),
            array("sum", [5]),
            array("least", [INT_MAX]),
            array("greatest", [INT_MIN]),
        )
        arguments += (ScalarArgument("n", len(a)),)
        grid = line(-(-len(a) // threads))
        total = [5 + big(a).sum()]
        return launch_case(grid, line(threads), arguments, sum=total, least=[a.min()], greatest=[a.max()])

    plain, edges, backwards, low = inputs(7)
    return case(plain, 4), case(edges, 3), case(backwards, spec.threads), case(low, 1)


def reduce_blocks(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, blocks: int) -> LaunchCase:
        arguments = (array("in", a), array("total", [-1]), ScalarArgument("n", len(a)))
        return launch_case(line(blocks), line(4), arguments, total=[big(a).sum() - 1])

    none = np.array([], np.int64)
    return case(inputs(11)[0], 2), case(inputs(24)[1], 3), case(inputs(9)[2], 2), case(none, 2)


def scan_inclusive(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        return launch_case(ONE, line(len(a)), (array("data", a),), data=np.cumsum(big(a)))

    full = spec.threads
    return (
        case(inputs(2 * spec.lanes)[0]),
        case(inputs(full)[1]),
        case(inputs(full - 1)[2]),
        case(inputs(1)[3]),
    )


def scan_exclusive(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    """Two elements a thread."""

    def case(a: np.ndarray) -> LaunchCase:
        arguments = (array("in", a), zeros("out", len(a)), ScalarArgument("n", len(a)))
        return launch_case(ONE, line(len(a) // 2), arguments, out=np.cumsum(big(a)) - big(a))

    return case(inputs(8)[0]), case(inputs(16)[1]), case(inputs(4)[2]), case(inputs(2)[3])


def scan_shuffle(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        sums = np.cumsum(big(a).reshape(-1, spec.lanes), axis=1)
        return launch_case(ONE, line(len(a)), (array("in", a), zeros("out", len(a))), out=sums)

    return (*(case(a) for a in inputs(2 * spec.lanes)), case(inputs(spec.threads)[2]))


def scan_segmented(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, starts: tuple[int, ...]) -> LaunchCase:
        flags = np.isin(np.arange(len(a)), starts).astype(np.int64)
        ends = (*sorted({0, *starts}), len(a))
        sums = np.concatenate([np.cumsum(big(a)[i:j]) for i, j in itertools.pairwise(ends)])
        arguments = (array("in", a), array("flags", flags), zeros("out", len(a)))
        return launch_case(ONE, line(len(a)), arguments, out=sums)

    count = min(spec.threads, 16)
    return (
        case(inputs(count // 2)[0], (3,)),
        case(inputs(count)[1], (0, 2, count - 1)),
        case(inputs(count - 1)[2], ()),
        case(inputs(5)[3], (0, 1, 2, 3, 4)),
    )


def scan_blocks(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        arguments = (array("in", a), zeros("out", len(a)), ScalarArgument("n", len(a)))
        return launch_case(line(-(-len(a) // 4)), line(4), arguments, out=np.cumsum(big(a)))

    return case(inputs(10)[0]), case(inputs(24)[1]), case(inputs(9)[2]), case(inputs(4)[3])


def histogram(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(values: np.ndarray, threads: int) -> LaunchCase:
        a = (values % (1 << 32)).astype(np.uint32)
        before = np.array([0, 10, 0xFFFFFFFF, 0], np.uint32)
        counts = big(before) + np.bincount(a % 4, minlength=4)
        arguments = (array("in", a), array("counts", before), ScalarArgument("n", len(a)))
        return launch_case(line(-(-len(a) // threads)), line(threads), arguments, counts=counts)

    return (
        case(inputs(8)[0], 4),
        case(inputs(16)[1], 8),
        case(inputs(spec.threads - 1)[2], spec.threads),
        case(np.full(8, 0xFFFFFFFE), 8),
    )


def histogram_range(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, low: int, width: int, bins: int, threads: int) -> LaunchCase:
        edges = [low + width * k for k in range(bins + 1)]
        counts = np.histogram(a[(a >= low) & (a < edges[-1])], edges)[0]
        arguments = (array("in", a), zeros("counts", bins), zeros("outside", 1), ScalarArgument("n", len(a)))
        arguments += (
            ScalarArgument("low", low),
            ScalarArgument("width", width),
            ScalarArgument("bins", bins),
        )
        return launch_case(ONE, line(threads), arguments, counts=counts, outside=[len(a) - counts.sum()])

    return (
        case(inputs(9)[0], -3, 3, 4, 4),
        case(inputs(16)[1] // 2, -(1 << 30), 1 << 29, 3, 8),
        case(inputs(7)[2], 0, 0x2AAAAAAB, 3, 2),
        case(inputs(5)[1], 0, 1, 2, 8),
    )


def dot_blocks(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, b: np.ndarray) -> LaunchCase:
        threads = 2 * spec.lanes
        arguments = (array("a", a), array("b", b), array("total", [7]), ScalarArgument("n", len(a)))
        return launch_case(line(-(-len(a) // threads)), line(threads), arguments, total=[7 + big(a) @ big(b)])

    count = 3 * spec.lanes
    plain, edges, backwards, low = inputs(count)
    return case(plain, plain[::-1]), case(edges, backwards), case(low, edges), case(edges[:1], backwards[:1])


def compact_scan(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, limit: int) -> LaunchCase:
        kept = a[a > limit]
        out = np.concatenate([kept, np.zeros(len(a) - len(kept), np.int64)])
        arguments = (array("in", a), zeros("out", len(a)), zeros("count", 1), ScalarArgument("limit", limit))
        return launch_case(ONE, line(len(a)), arguments, out=out, count=[len(kept)])

    count = spec.threads
    return (
        case(inputs(2 * spec.lanes)[0], 1),
        case(inputs(count)[1], 0),
        case(inputs(count - 1)[2], INT_MAX),
        case(inputs(count - 1)[1], -2),
        case(inputs(1)[1], INT_MIN),
    )


CASES = kernels(
    reduce_tree, reduce_max_tree, reduce_shuffle, reduce_butterfly, reduce_warps, reduce_atomic, reduce_blocks,
    scan_inclusive, scan_exclusive, scan_shuffle, scan_segmented, scan_blocks, histogram, histogram_range,
    dot_blocks, compact_scan,
)  # fmt: skip
