"""Placement: operations to layers, wires to slots.

Time is counted in half-layers: 2 * n is layer n's heads, 2 * n + 1 its MLP. An operation reads what earlier
half-layers left. Logic is placed as late as its readers allow in the fewest layers (longest path); heads marked `sink`
(program ROM, register reads and results, whose inputs live long) likewise, the other heads as early as there is room.
Where a head finds none, others move within their windows (an augmenting path of a matching); where that is not
enough, layers are filled from the last one back (placement_crowded.py). A slot is reused once its wire is dead, after
an MLP has erased it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolchain.circuit_ir.ir import Age, Circuit, Logic, Memory, Op, Wire, op_reads, op_writes
from toolchain.circuit_ir.placed import Layer, PlacedCircuit
from toolchain.circuit_ir.placement_crowded import crowded_times
from toolchain.errors import CompileError
from toolchain.machine_spec import MachineSpec

INPUT = -1
HIDDEN_STEP = 64
"""Hidden sizes are multiples of this, so that they are sums of few powers of four."""


def place(circuit: Circuit, spec: MachineSpec) -> PlacedCircuit:
    """Raises CompileError naming the limit where the circuit does not fit the layer shape."""
    times = _times(circuit, spec)
    slots, erased, hidden, ballast = _allocate(circuit, times)
    count = max(times.values()) // 2 + 1
    heads: dict[int, list[Memory | Age]] = defaultdict(list)
    logic: dict[int, list[Logic]] = defaultdict(list)
    for op in circuit.operations:
        if isinstance(op, Logic):
            logic[times[op.name] // 2].append(op)
        else:
            heads[times[op.name] // 2].append(op)
    layers = tuple(
        Layer(tuple(heads[n]), tuple(logic[n]), tuple(sorted(erased[2 * n + 1]))) for n in range(count)
    )
    mlp = max(layer.units for layer in layers)
    for limit, value, most in (
        ("max_layers", count, spec.max_layers),
        ("max_hidden", hidden, spec.max_hidden),
        ("max_mlp", mlp, spec.max_mlp),
    ):
        if value > most:
            raise CompileError(
                f"machine '{spec.name}' needs {value} for {limit}; it is {most}", limit=limit,
                hint="give the machine more heads a layer, or fewer lanes, warps, registers or returns",
            )  # fmt: skip
    width = max(1, *(len(layer.heads) for layer in layers))
    return PlacedCircuit(circuit, layers, slots, ballast, hidden, -(-mlp // HIDDEN_STEP) * HIDDEN_STEP, width)


def _times(circuit: Circuit, spec: MachineSpec) -> dict[str, int]:
    """Half-layer of each operation, by name; in the fewest layers where heads are found for it."""
    try:
        return _Schedule(circuit, spec).run()
    except _NoHeadLeft:
        return crowded_times(circuit.operations, earliest_times(circuit.operations, {}), spec.heads)


def earliest_times(operations: Sequence[Op], fixed: Mapping[str, int]) -> dict[str, int]:
    """Half-layer of each operation by the longest path from the inputs; those in `fixed` are where they are."""
    ready: dict[Wire, int] = defaultdict(lambda: INPUT)
    times = {}
    for op in operations:
        time = max((ready[wire] for wire in op_reads(op)), default=INPUT) + 1
        if (time % 2 == 1) != isinstance(op, Logic):
            time += 1
        times[op.name] = fixed.get(op.name, time)
        for wire in op_writes(op):
            ready[wire] = max(ready[wire], times[op.name])
    return times


def latest_times(operations: Sequence[Op], end: int) -> dict[str, int]:
    """Half-layer of each operation by the longest path to the outputs, all of it before half-layer `end`."""
    due: dict[Wire, int] = defaultdict(lambda: end)
    times = {}
    for op in reversed(operations):
        time = min((due[wire] for wire in op_writes(op)), default=end) - 1
        if (time % 2 == 1) != isinstance(op, Logic):
            time -= 1
        times[op.name] = time
        for wire in op_reads(op):
            due[wire] = min(due[wire], time)
    return times


class _NoHeadLeft(Exception):
    """A head has no place in the fewest layers."""


class _Schedule:
    """Half-layer of each operation, by name."""

    def __init__(self, circuit: Circuit, spec: MachineSpec) -> None:
        self.operations = circuit.operations
        self.spec = spec
        self.readers: dict[Wire, list[Op]] = defaultdict(list)
        self.writers: dict[Wire, list[Op]] = defaultdict(list)
        for op in circuit.operations:
            for wire in set(op_reads(op)):
                self.readers[wire].append(op)
            for wire in set(op_writes(op)):
                self.writers[wire].append(op)
        self.placed: dict[int, list[Memory | Age]] = defaultdict(list)

    def run(self) -> dict[str, int]:
        self.soonest = earliest_times(self.operations, {})
        latest = latest_times(self.operations, max(self.soonest.values()) + 1)
        times = {op.name: latest[op.name] for op in self.operations if isinstance(op, Logic)}
        earliest = earliest_times(self.operations, times)
        self.due = latest
        heads = [op for op in self.operations if not isinstance(op, Logic)]
        critical = [op for op in heads if self._latest(op, times) == earliest[op.name]]
        for op in critical:
            self._search(op, range(earliest[op.name], earliest[op.name] + 1), times)
        late = [op for op in reversed(heads) if op.name not in times and isinstance(op, Memory) and op.sink]
        for op in late:
            self._search(op, range(self._latest(op, times), earliest[op.name] - 1, -2), times)
        for op in heads:
            if op.name not in times:
                self._search(op, self._window(op, times), times)
        return times

    def _latest(self, op: Memory | Age, times: dict[str, int]) -> int:
        """Last half-layer of heads before any reader."""
        readers = [times.get(r.name, self.due[r.name]) for wire in op_writes(op) for r in self.readers[wire]]
        last = min(readers, default=2 * self.spec.max_layers) - 1
        return last - last % 2

    def _window(self, op: Memory | Age, times: dict[str, int]) -> range:
        """Half-layers of heads between what a placed head reads and its readers, the others being where they are."""
        written = [w.name for wire in set(op_reads(op)) for w in self.writers[wire]]
        first = max((times.get(name, self.soonest[name]) for name in written), default=INPUT) + 1
        return range(first + first % 2, self._latest(op, times) + 1, 2)

    def _search(self, op: Memory | Age, candidates: range, times: dict[str, int]) -> None:
        """Places a head in the first of `candidates` with room, or makes room by moving others in their windows.

        The moves are an augmenting path of a matching of heads and places. A window is what a head's neighbours leave
        it where they stand now: heads that would have to move together are not moved. Raises _NoHeadLeft.
        """
        came: dict[int, tuple[int, Memory | Age] | None] = dict.fromkeys(candidates)
        queue = list(candidates)
        while queue:
            time = queue.pop(0)
            if len(self.placed[time]) < self.spec.heads:
                self._move(op, time, came, times)
                return
            for other in self.placed[time]:
                for target in self._window(other, times):
                    if target not in came:
                        came[target] = time, other
                        queue.append(target)
        raise _NoHeadLeft

    def _move(
        self,
        op: Memory | Age,
        time: int,
        came: dict[int, tuple[int, Memory | Age] | None],
        times: dict[str, int],
    ) -> None:
        """Moves the heads on the way to the free place at `time`, and takes the place that opens."""
        while (step := came[time]) is not None:
            source, other = step
            self.placed[source].remove(other)
            self.placed[time].append(other)
            times[other.name] = time
            time = source
        self.placed[time].append(op)
        times[op.name] = time


@dataclass
class _Interval:
    wire: Wire
    start: int
    end: int


def _intervals(circuit: Circuit, times: dict[str, int]) -> list[_Interval]:
    """Each wire from its first write to its last read, by start."""
    start: dict[Wire, int] = dict.fromkeys(circuit.inputs, INPUT)
    end: dict[Wire, int] = dict.fromkeys(circuit.inputs, INPUT)
    for op in circuit.operations:
        for wire in op_writes(op):
            start[wire] = min(start.get(wire, times[op.name]), times[op.name])
        for wire in op_reads(op):
            end[wire] = max(end.get(wire, INPUT), times[op.name])
    last = max(times.values()) + 1
    ages = [op.output for op in circuit.operations if isinstance(op, Age)]
    for wire in (*circuit.outputs, *ages):  # an age is no integer: no gate could erase it
        start.setdefault(wire, last)
        end[wire] = last
    intervals = [_Interval(wire, time, end[wire]) for wire, time in start.items() if wire in end]
    return sorted(intervals, key=lambda interval: (interval.start, interval.wire.name))


def _erase_time(end: int) -> int:
    """The first MLP half-layer that can take a dead wire's value away."""
    return end if end % 2 else end + 1


def ballast_shares(hidden: int) -> list[int]:
    """`hidden` as a sum of powers of four, largest first: one ballast dimension each, and at least two.

    A constant with more digits than a weight has takes two of them.
    """
    if hidden & (hidden - 1) == 0 and hidden.bit_length() % 2:
        return [hidden // 4] * 4
    shares, power = [], 4 ** ((hidden.bit_length() + 1) // 2)
    while hidden:
        while power > hidden:
            power //= 4
        shares.append(power)
        hidden -= power
    return shares


def _hidden_size(intervals: list[_Interval]) -> int:
    """Smallest admissible hidden size that holds the most wires ever alive, and the ballast."""
    changes: dict[int, int] = defaultdict(int)
    for interval in intervals:
        changes[interval.start] += 1
        changes[_erase_time(interval.end) + 1] -= 1
    alive = peak = 0
    for time in sorted(changes):
        alive += changes[time]
        peak = max(peak, alive)
    return hidden_for(peak)


def hidden_for(alive: int) -> int:
    """Smallest admissible hidden size that holds `alive` wires and the ballast."""
    hidden = HIDDEN_STEP
    while hidden - len(ballast_shares(hidden)) < alive:
        hidden += HIDDEN_STEP
    return hidden


_Allocation = tuple[dict[Wire, int], dict[int, list[int]], int, tuple[tuple[int, int], ...]]
"""Slot of each wire, slots erased in each MLP half-layer, hidden size, ballast."""


def _allocate(circuit: Circuit, times: dict[str, int]) -> _Allocation:
    """Slots by linear scan, fresh ones first; a reused slot is erased in the emptiest MLP in between."""
    intervals = _intervals(circuit, times)
    hidden = _hidden_size(intervals)
    shares = ballast_shares(hidden)
    load: dict[int, int] = defaultdict(int)
    for op in circuit.operations:
        if isinstance(op, Logic):
            load[times[op.name]] += Layer((), (op,), ()).units
    fresh = list(range(hidden - 1, len(shares) - 1, -1))
    active: list[_Interval] = []
    dead: list[tuple[int, int]] = []
    slots: dict[Wire, int] = {}
    erased: dict[int, list[int]] = defaultdict(list)
    for interval in intervals:
        for other in [o for o in active if _erase_time(o.end) < interval.start]:
            active.remove(other)
            dead.append((_erase_time(other.end), slots[other.wire]))
        if fresh:
            slot = fresh.pop()
        else:
            since, slot = dead.pop(0)
            time = min(range(since, interval.start, 2), key=lambda t: load[t])
            load[time] += 1
            erased[time].append(slot)
        slots[interval.wire] = slot
        active.append(interval)
    return slots, erased, hidden, tuple(enumerate(shares))
