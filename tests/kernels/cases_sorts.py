"""Sorting, merging, selecting and moving elements."""

import numpy as np

from tests.kernels.case import (
    EDGES,
    INT_MAX,
    INT_MIN,
    ONE,
    LaunchCase,
    array,
    kernels,
    launch_case,
    line,
    zeros,
)
from toolchain.launch import ScalarArgument
from toolchain.machine_spec import MachineSpec


def shuffled(count: int, seed: int = 0) -> np.ndarray:
    """Small numbers in a random order, some of them twice."""
    return np.random.default_rng(seed).permutation(np.arange(count) * 2 // 3 - 2)


def edges(count: int) -> np.ndarray:
    return np.resize(EDGES, count)


def bitonic_sort(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        return launch_case(ONE, line(len(a)), (array("data", a),), data=np.sort(a))

    return (
        case(shuffled(4)),
        case(edges(spec.threads)),
        case(np.arange(8)[::-1]),
        case(shuffled(8)),
        case(edges(1)),
    )


def bitonic_warp(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        ordered = np.sort(a.reshape(-1, spec.lanes), axis=1)
        return launch_case(ONE, line(len(a)), (array("data", a),), data=ordered)

    lanes = spec.lanes
    return (
        case(shuffled(2 * lanes)),
        case(edges(spec.threads)),
        case(np.arange(lanes)[::-1]),
        case(np.zeros(lanes, np.int64)),
    )


def odd_even_sort(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        arguments = (array("data", a), ScalarArgument("n", len(a)))
        return launch_case(ONE, line(max(len(a) // 2, 1)), arguments, data=np.sort(a))

    return case(shuffled(5)), case(edges(8)), case(np.arange(9)[::-1]), case(edges(2)), case(edges(1))


def rank_sort(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, blocks: int) -> LaunchCase:
        arguments = (array("in", a), zeros("out", len(a)), ScalarArgument("n", len(a)))
        return launch_case(line(blocks), line(4), arguments, out=np.sort(a))

    return case(shuffled(6), 2), case(edges(11), 3), case(np.full(7, INT_MIN), 2), case(edges(1), 1)


def radix_sort(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, bits: int) -> LaunchCase:
        unsigned = (a % (1 << 32)).astype(np.uint32)
        order = np.argsort(unsigned % np.uint64(1 << bits), kind="stable")
        arguments = (array("data", unsigned), ScalarArgument("bits", bits))
        return launch_case(ONE, line(len(a)), arguments, data=unsigned[order])

    plain = np.array([3, 1, 2, 1])
    return (
        case(plain, 2),
        case(edges(4)[::-1], 32),
        case(shuffled(7) + 2, 3),
        case(edges(6), 1),
        case(edges(3), 0),
    )


def counting_sort(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        arguments = (array("in", a), zeros("out", len(a)), ScalarArgument("n", len(a)))
        return launch_case(ONE, line(8), arguments, out=np.sort(a))

    rng = np.random.default_rng(4)
    return (
        case(rng.integers(0, 8, 7)),
        case(rng.integers(0, 8, 25)),
        case(np.full(9, 7)),
        case(np.array([7, 0])),
        case(np.array([], np.int64)),
    )


def merge_sorted(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, b: np.ndarray) -> LaunchCase:
        count = len(a) + len(b)
        arguments = (array("a", np.sort(a)), array("b", np.sort(b)), zeros("out", count))
        arguments += (ScalarArgument("a_count", len(a)), ScalarArgument("b_count", len(b)))
        return launch_case(ONE, line(count), arguments, out=np.sort(np.concatenate([a, b])))

    none = np.array([], np.int64)
    half = spec.threads // 2
    return (
        case(shuffled(4, 1), shuffled(3, 2)),
        case(edges(half), edges(half)),
        case(none, edges(5)),
        case(edges(5), none),
        case(np.full(3, INT_MAX), edges(4)),
    )


def sort_network(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, blocks: int = 1) -> LaunchCase:
        ordered = np.sort(a.reshape(-1, 4), axis=1)
        return launch_case(line(blocks), line(len(a) // 4 // blocks), (array("data", a),), data=ordered)

    orders = np.array([[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 1, 0, 0]]).ravel()
    return case(shuffled(8)), case(edges(16), 2), case(orders), case(edges(12)[::-1], 3)


def merge_exchange(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        top = 1 << (len(a) - 1).bit_length() >> 1
        arguments = (array("data", a), ScalarArgument("n", len(a)), ScalarArgument("top", top))
        return launch_case(ONE, line(len(a)), arguments, data=np.sort(a))

    full = min(spec.threads, 16)
    return case(shuffled(5)), case(edges(full)), case(np.arange(full)[::-1]), case(edges(7)), case(edges(1))


def unique_sorted(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        left = np.unique(a)
        out = np.concatenate([left, np.zeros(len(a) - len(left), np.int64)])
        arguments = (array("in", np.sort(a)), zeros("out", len(a)), zeros("count", 1))
        arguments += (ScalarArgument("n", len(a)),)
        return launch_case(ONE, line(spec.threads), arguments, out=out, count=[len(left)])

    count = spec.threads
    return case(shuffled(6)), case(edges(count)), case(np.full(count - 1, INT_MIN)), case(edges(1))


def select_kth(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, k: int) -> LaunchCase:
        unsigned = (a % (1 << 32)).astype(np.uint32)
        arguments = (array("in", unsigned), zeros("out", 1, "u32"), ScalarArgument("k", k))
        return launch_case(ONE, line(len(a)), arguments, out=[np.sort(unsigned)[k]])

    count = spec.threads
    return (
        case(shuffled(4) + 2, 1),
        case(edges(count), count - 1),
        case(edges(7), 0),
        case(edges(8), 3),
        case(edges(2)[1:], 0),
    )


def top_two(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        best = np.sort(a)[:-3:-1]
        return launch_case(ONE, line(len(a) // 2), (array("in", a), zeros("out", 2)), out=best)

    most = 2 * min(spec.threads, 16)
    return case(shuffled(8)), case(edges(most)), case(np.arange(most)[::-1]), case(np.full(4, INT_MIN))


def reverse_shared(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray) -> LaunchCase:
        arguments = (array("data", a),)
        return launch_case(ONE, line(len(a)), arguments, dynamic_shared=4 * len(a), data=a[::-1])

    return case(shuffled(6)), case(edges(spec.threads)), case(edges(spec.threads - 1)), case(edges(1))


def permute(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: np.ndarray, places: np.ndarray) -> LaunchCase:
        count = len(a)
        arguments = (
            array("in", a),
            array("places", places),
            zeros("scattered", count),
            zeros("gathered", count),
        )
        return launch_case(ONE, line(count), arguments, scattered=a[np.argsort(places)], gathered=a[places])

    def order(count: int) -> np.ndarray:
        return np.random.default_rng(count).permutation(count)

    full = spec.threads - 2
    return (
        case(shuffled(5), order(5)),
        case(edges(full), order(full)),
        case(edges(6), np.arange(6)),
        case(edges(1), order(1)),
    )


CASES = kernels(
    bitonic_sort, bitonic_warp, odd_even_sort, rank_sort, radix_sort, counting_sort, merge_sorted, sort_network,
    merge_exchange, unique_sorted, select_kth, top_two, reverse_shared, permute,
)  # fmt: skip
