"""Threads that work together: barriers, atomics, votes, shuffles, groups of lanes.

The results do not depend on the order threads run in. Where a warp's width matters, the launch is one warp.
"""

from collections import Counter
from functools import reduce
from itertools import groupby
from operator import and_, or_, xor

import numpy as np

from tests.kernels.case import (
    EDGES,
    INT_MAX,
    INT_MIN,
    ONE,
    TOP,
    WORD,
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

UNREACHED = -1


def bfs(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def distances(graph: tuple[tuple[int, ...], ...], source: int) -> list[int]:
        """Relaxed until nothing changes."""
        far = len(graph)
        found = [0 if v == source else far for v in range(far)]
        for _ in graph:
            for v, neighbours in enumerate(graph):
                for w in neighbours:
                    found[w] = min(found[w], found[v] + 1)
        return [distance if distance < far else UNREACHED for distance in found]

    def case(source: int, *graph: tuple[int, ...]) -> LaunchCase:
        edges = [w for neighbours in graph for w in neighbours]
        first = np.cumsum([0, *(len(neighbours) for neighbours in graph)])
        wanted = distances(graph, source)
        arguments = (array("first", first), array("edges", edges), array("distance", [7] * len(graph)))
        arguments += (array("reached", [0]), ScalarArgument("source", source))
        reached = sum(distance > 0 for distance in wanted)
        return launch_case(ONE, line(len(graph)), arguments, distance=wanted, reached=[reached])

    return (
        case(0, (1, 2), (3,), (3,), ()),
        case(2, (1,), (2,), (3,), (4,), (5,), (0,)),
        case(1, (1, 2), (), (0,)),
        case(0, (1, 2, 3, 4), (4, 0), (1,), (5, 0), (), (6,), (6, 3, 7), ()),
    )


def run_length(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(values: tuple[int, ...], threads: int) -> LaunchCase:
        n = len(values)
        runs = [(value, len(list(run))) for value, run in groupby(values)]
        padding = [0] * (n - len(runs))
        arguments = (array("in", values), ScalarArgument("n", n), zeros("value", n), zeros("length", n))
        return launch_case(
            ONE,
            line(threads),
            (*arguments, zeros("runs", 1)),
            value=[value for value, _ in runs] + padding,
            length=[length for _, length in runs] + padding,
            runs=[len(runs)],
        )

    return (
        case((5, 5, 5, 2, 2, 9), 6),
        case(EDGES, 8),
        case((INT_MIN,) * 5, 7),
        case((0, 0, -1, 0, 0, 0, 1), 8),
    )


def ring_buffer(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(values: tuple[int, ...], start: int) -> LaunchCase:
        count = Counter(values)
        arguments = (array("in", values), zeros("taken", 8), array("ends", [start, start]))
        end = start + len(values)
        return launch_case(
            ONE, line(len(values)), arguments, taken=[count[k] for k in range(8)], ends=[end, end]
        )

    return case((3, 1, 2, 0), 0), case((7, 7, 7, 6, 5), 6), case((1, 0, 4), INT_MAX - 1), case((2,) * 8, -3)


def ticket_lock(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*values: int) -> LaunchCase:
        arguments = (array("in", values), array("balance", [100]), array("lowest", [50]))
        return launch_case(
            ONE, line(len(values)), arguments, balance=[100 + sum(values)], lowest=[min(50, *values)]
        )

    return case(5, -7, 11, 60), case(INT_MIN, INT_MAX, INT_MIN), case(70, 60), case(*EDGES)


def compact_ballot(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*values: int) -> LaunchCase:
        kept = [value for value in values if value > 0]
        arguments = (array("in", values), ScalarArgument("n", len(values)), zeros("out", len(values)))
        out = kept + [0] * (len(values) - len(kept))
        return launch_case(ONE, line(spec.lanes), (*arguments, zeros("kept", 1)), out=out, kept=[len(kept)])

    return case(3, -1, 0, 7, 5), case(*EDGES), case(0, INT_MIN, -1), case(1, 2, INT_MAX, 4, 5, 6, 7)


def leader_add(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(values: np.ndarray, start: int) -> LaunchCase:
        odd = [int(value) for value in values if value % 2]
        out = [0] * start + odd + [0] * (len(values) - len(odd))
        arguments = (array("in", values), array("counter", [start]), zeros("out", start + len(values)))
        return launch_case(ONE, line(len(values)), arguments, counter=[start + len(odd)], out=out)

    lanes = spec.lanes
    return (
        case(np.arange(lanes) + 5, 0),
        case(np.resize(EDGES[1:], lanes), 3),
        case(np.full(lanes, INT_MAX), 1),
        case(np.resize((4, 7), lanes), 2),
    )


def atomics_minmax(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(values: object, threads: int) -> LaunchCase:
        numbers = big(values)
        unsigned = numbers % WORD
        arguments = (array("in", values), array("result", [INT_MAX, INT_MIN]))
        arguments += (array("unsigned_result", [TOP, 0], "u32"),)
        return launch_case(
            line(len(numbers) // threads),
            line(threads),
            arguments,
            result=[min(numbers), max(numbers)],
            unsigned_result=[min(unsigned), max(unsigned)],
        )

    return case((3, -5, 8, 1), 4), case(EDGES, 4), case((-9, -9, -9), 3), case((7, INT_MIN, 0, -1), 2)


def atomics_bits(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*values: int) -> LaunchCase:
        arguments = (array("in", values, "u32"), array("result", [TOP, 0, 7], "u32"))
        combined = [reduce(operation, values) for operation in (and_, or_, xor)]
        return launch_case(ONE, line(len(values)), arguments, result=combined)

    return (
        case(0b1110, 0b0111, 0b1101, 0b1111),
        case(TOP, 1 << 31, 0xC0000001),
        case(0, 0x55555555, 0xAAAAAAAA, TOP),
        case(0xDEADBEEF, 0xDEADBEEF),
    )


def atomics_exchange(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*values: int) -> LaunchCase:
        residues = Counter(value % 4 for value in values)
        late = sum(count - 1 for count in residues.values())
        arguments = (array("in", values), array("sum", [10]), array("claims", [0, 0, 0, 0, 50]))
        claims = [int(k in residues) for k in range(4)] + [50 - late]
        return launch_case(ONE, line(len(values)), arguments, sum=[10 + sum(values)], claims=claims)

    return case(1, 2, 3, 6), case(*EDGES), case(0), case(5, 5, 5, -1)


def atomics_wrap(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(up: int, down: int, bound: int, threads: int) -> LaunchCase:
        drawn: Counter[int] = Counter()
        start = (up, down)
        for _ in range(threads):
            drawn[up % 8] += 1
            up = 0 if up >= bound else up + 1
            down = bound if down == 0 or down > bound else down - 1
        arguments = (array("up", start[:1], "u32"), array("down", start[1:], "u32"), zeros("drawn", 8))
        arguments += (ScalarArgument("bound", bound),)
        return launch_case(
            ONE, line(threads), arguments, up=[up], down=[down], drawn=[drawn[k] for k in range(8)]
        )

    return case(0, 2, 2, 4), case(TOP - 1, TOP, TOP, 4), case(9, 9, 5, 7), case(1, 0, 0, 3)


def barrier_votes(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*values: int) -> LaunchCase:
        n = len(values)
        arguments = (array("in", values), zeros("count", n), zeros("every", n), zeros("any", n))
        return launch_case(
            ONE,
            line(n),
            arguments,
            count=[sum(value > 0 for value in values)] * n,
            every=[int(all(values))] * n,
            any=[int(min(values) < 0)] * n,
        )

    return case(3, 0, -2, 5, 1, 4), case(*EDGES), case(1, INT_MAX, 1), case(0, 0, 0, 0), case(INT_MIN)


def match_groups(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(keys: np.ndarray, values: np.ndarray) -> LaunchCase:
        n = len(keys)
        sums = [0] * n
        for key in set(keys):
            members = np.flatnonzero(keys == key)
            sums[members[0]] = sum(big(values)[members])
        arguments = (array("key", keys), array("in", values), zeros("size", n), zeros("sum", n))
        return launch_case(ONE, line(n), arguments, size=[(keys == key).sum() for key in keys], sum=sums)

    lanes = spec.lanes
    values = np.arange(10, 10 + lanes)
    return (
        case(np.resize((7, 3), lanes), values),
        case(np.full(lanes, INT_MIN), np.full(lanes, INT_MAX)),
        case(np.resize(EDGES, lanes), values),
        case(np.asarray([2] + [5] * (lanes - 1)), values),
    )


def shuffle_modes(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*values: int) -> LaunchCase:
        """Pairs of lanes: index from the value, up from the first, down from the second, and exchange."""
        pairs = [values[i : i + 2] for i in range(0, len(values), 2)]
        chosen = [(pair[pair[0] % 2], pair[pair[1] % 2]) for pair in pairs]
        up, down = [(a, a) for a, _ in pairs], [(b, b) for _, b in pairs]
        arguments = (array("in", values), zeros("out", 4 * len(values)))
        out = [chosen, up, down, [(b, a) for a, b in pairs]]
        return launch_case(ONE, line(len(values)), arguments, out=out)

    return case(10, 21, 33, 40), case(*EDGES), case(INT_MIN, INT_MAX), case(1, 0, 1, 1, 0, 0)


def warp_votes(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(limit: int, values: np.ndarray) -> LaunchCase:
        above = values > limit
        vote = int(above.any()) + 2 * int(above.all()) + 4 * int(above.sum())
        arguments = (array("in", values), ScalarArgument("limit", limit), zeros("out", len(values)))
        return launch_case(ONE, line(len(values)), arguments, out=[vote] * len(values))

    lanes = spec.lanes
    return (
        case(1, np.arange(lanes) + 1),
        case(0, np.full(lanes, INT_MAX)),
        case(-1, np.resize(EDGES[1:], lanes)),
        case(INT_MAX, np.full(lanes, INT_MAX)),
    )


def popcount_atomic(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(values: tuple[int, ...], threads: int) -> LaunchCase:
        arguments = (array("in", values, "u32"), ScalarArgument("n", len(values)), array("total", [0]))
        blocks = -(-len(values) // threads)
        return launch_case(
            line(blocks), line(threads), arguments, total=[sum(value.bit_count() for value in values)]
        )

    return (
        case((1, 3, 7, 15, 31, 63), 4),
        case((TOP,) * 9, 8),
        case((0, 1 << 31, 0x55555555), 1),
        case((0, 0), 2),
    )


def agreement(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(values: np.ndarray) -> LaunchCase:
        n = len(values)
        same = int((values == values[0]).sum())
        arguments = (array("in", values), zeros("agreed", n), zeros("like_first", n))
        return launch_case(ONE, line(n), arguments, agreed=[n if same == n else 0] * n, like_first=[same] * n)

    lanes = spec.lanes
    return (
        case(np.resize((4, 9), lanes)),
        case(np.full(lanes, INT_MIN)),
        case(np.resize(EDGES, lanes)),
        case(np.asarray([7] * (lanes - 1) + [8])),
    )


def block_matching(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(row: tuple[int, ...], pattern: tuple[int, ...]) -> LaunchCase:
        length, places = len(pattern), len(row) - len(pattern) + 1
        sums = [
            sum(abs(a - b) for a, b in zip(row[i : i + length], pattern, strict=True)) for i in range(places)
        ]
        arguments = (array("row", row), array("pattern", pattern), ScalarArgument("length", length))
        arguments += (array("place", [99]), zeros("least", 1, "u32"))
        assert max(sums) < WORD
        return launch_case(ONE, line(places), arguments, place=[sums.index(min(sums))], least=[min(sums)])

    return (
        case((1, 9, 3, 7, 2, 8), (3, 6)),
        case((INT_MAX, INT_MIN, 0, INT_MIN), (INT_MIN,)),
        case((5,) * 8, (4,)),
        case((-3, 255, -255, 0, 255, -250), (255, -255, 1)),
    )


CASES = kernels(
    bfs, run_length, ring_buffer, ticket_lock, compact_ballot, leader_add, atomics_minmax, atomics_bits,
    atomics_exchange, atomics_wrap, barrier_votes, match_groups, shuffle_modes, warp_votes, popcount_atomic,
    agreement, block_matching,
)  # fmt: skip
