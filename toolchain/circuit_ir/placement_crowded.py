"""Half-layers where heads are short: list scheduling from the last layer back, which always finds a place.

Where more heads must stand in a layer than it has, or what a head reads would have to come sooner as well, a search
that keeps to the least number of layers finds nothing. Here every operation stands as late as its readers and the
heads of a layer allow; of the heads that could stand in a layer, those that can come soonest are left for an earlier
one. There are as many layers as that takes. Then heads that are no sinks go as early as there is room.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from toolchain.circuit_ir.ir import Logic, Memory, Op, Wire, op_reads, op_writes


def crowded_times(operations: Sequence[Op], soonest: Mapping[str, int], heads: int) -> dict[str, int]:
    """Half-layer of each operation, by name, with at most `heads` heads in one; `soonest` is by longest paths."""
    writers: dict[Wire, set[str]] = defaultdict(set)
    for op in operations:
        for wire in op_writes(op):
            writers[wire].add(op.name)
    before = {op.name: set[str]().union(*(writers[wire] for wire in op_reads(op))) for op in operations}
    times = _latest(operations, before, soonest, heads)
    first = min(times.values(), default=0)
    times = {name: time - (first - first % 2) for name, time in times.items()}
    _bring_forward(operations, before, times, heads)
    return times


def _latest(
    operations: Sequence[Op], before: Mapping[str, set[str]], soonest: Mapping[str, int], heads: int
) -> dict[str, int]:
    """As late as there is room, -1 being the last half-layer of all."""
    by_name = {op.name: op for op in operations}
    readers = Counter(name for names in before.values() for name in names)
    due = dict.fromkeys(by_name, 0)
    ready = [op for op in operations if not readers[op.name]]
    times: dict[str, int] = {}
    time = -1
    while ready:
        here = [op for op in ready if isinstance(op, Logic) == (time % 2 == 1) and due[op.name] > time]
        if time % 2 == 0:
            here = sorted(here, key=lambda op: soonest[op.name], reverse=True)[:heads]
        for op in here:
            ready.remove(op)
            times[op.name] = time
            for name in before[op.name]:
                due[name] = min(due[name], time)
                readers[name] -= 1
                if not readers[name]:
                    ready.append(by_name[name])
        time -= 1
    return times


def _bring_forward(
    operations: Sequence[Op], before: Mapping[str, set[str]], times: dict[str, int], heads: int
) -> None:
    """Moves each head that is no sink to the first half-layer after what it reads that has a head left."""
    taken = Counter(times[op.name] for op in operations if not isinstance(op, Logic))
    for op in operations:
        if isinstance(op, Logic) or (isinstance(op, Memory) and op.sink):
            continue
        soonest = max((times[name] for name in before[op.name]), default=-1) + 1
        window = range(soonest + soonest % 2, times[op.name], 2)
        time = next((time for time in window if taken[time] < heads), times[op.name])
        taken[times[op.name]] -= 1
        taken[time] += 1
        times[op.name] = time
