"""Lower bounds: what no placement of a circuit in the fewest layers can do without, whatever the order it chooses.

An operation stands in a window of half-layers, from the longest path to it to the longest path from it. A wire is
alive at least from the end of its earliest-ending writer's window to the start of its latest-starting reader's; an
operation's units and heads are in one layer of its window. Erased slots are not counted.
"""

from collections import defaultdict
from dataclasses import dataclass

from toolchain.circuit_ir.ir import Circuit, Logic, Wire, op_reads, op_writes
from toolchain.circuit_ir.placed import Layer
from toolchain.circuit_ir.placement import INPUT, earliest_times, hidden_for, latest_times


@dataclass(frozen=True)
class PlacementBounds:
    """Least layers; and in that many, least heads a layer, wires alive in a layer, hidden size and MLP units."""

    layers: int
    heads: int
    alive: int
    hidden: int
    mlp: int


def lower_bounds(circuit: Circuit) -> PlacementBounds:
    """Bounds by longest paths and by what windows of layers must hold."""
    first = earliest_times(circuit.operations, {})
    end = max(first.values(), default=INPUT) + 1
    last = latest_times(circuit.operations, end)
    layers = -(-end // 2)
    logic, heads = [], []
    for op in circuit.operations:
        window = first[op.name] // 2, last[op.name] // 2
        if isinstance(op, Logic):
            logic.append((*window, Layer((), (op,), ()).units))
        else:
            heads.append((*window, 1))
    alive = _forced_alive(circuit, first, last, layers)
    return PlacementBounds(layers, _densest(heads), alive, hidden_for(alive), _densest(logic))


def _densest(windows: list[tuple[int, int, int]]) -> int:
    """Most of (sum of the weights of windows inside an interval of layers) / (its layers), rounded up."""
    starts, ends = {low for low, _, _ in windows}, {high for _, high, _ in windows}
    most = 0
    for start in starts:
        for end in (e for e in ends if e >= start):
            inside = sum(weight for low, high, weight in windows if start <= low and high <= end)
            most = max(most, -(-inside // (end - start + 1)))
    return most


def _forced_alive(circuit: Circuit, first: dict[str, int], last: dict[str, int], layers: int) -> int:
    """Most wires that are alive in one MLP half-layer whatever the times."""
    start: dict[Wire, int] = dict.fromkeys(circuit.inputs, INPUT)
    end: dict[Wire, int] = dict.fromkeys(circuit.outputs, 2 * layers - 1)
    for op in circuit.operations:
        for wire in op_writes(op):
            start[wire] = min(start.get(wire, last[op.name]), last[op.name])
        for wire in op_reads(op):
            end[wire] = max(end.get(wire, INPUT), first[op.name])
    alive: dict[int, int] = defaultdict(int)
    for wire, time in start.items():
        for layer in range(max(time, 0) // 2, (end.get(wire, INPUT)) // 2 + 1):
            alive[layer] += 1
    return max(alive.values(), default=0)
