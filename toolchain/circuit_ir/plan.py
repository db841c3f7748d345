"""A placed circuit for people: a line an operation, totals a layer, and the path that decides how many layers it takes.

    layer 3   heads 2 of 8   units 180 of 1280   erases 0   holds 240 of 512
      head 0       s0.port0.l0   40 values; read: ctx.warp*, rom0.port0.b* -> s0.port0.l0.n* @12-19
      units 0-179  s0.x.select   read: rom0.x.{a,b}.b*, s0.port0.l*.n* -> s0.x.l*.a* @20-35
      erase        5 slots @30-34

Units are the MLP's hidden units. Wires are named in groups: `*` stands for lanes, digits, bits and other counts. The
residual slots of what an operation writes follow `@`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from toolchain.circuit_ir.ir import Age, Circuit, Logic, Memory, Op, Wire, op_reads, op_writes
from toolchain.circuit_ir.machine.build import build_machine
from toolchain.circuit_ir.placed import Layer, PlacedCircuit
from toolchain.circuit_ir.placement import earliest_times, latest_times, place
from toolchain.circuit_ir.placement_bounds import lower_bounds
from toolchain.circuit_ir.prune import prune
from toolchain.circuit_ir.verifier import INPUT, occupied_slots, place_name
from toolchain.machine_spec import MachineSpec
from toolchain.mir.rom import RomImage

_COUNTED = re.compile(r"[a-z]\d+")
_TRAILING = re.compile(r"\d+$")
_PREDICATE = "p"
"""Its number says which one it is, and is no count."""
MOST_RANGES = 4
PLAN_HEADER = "plan of "
"""How a plan begins."""


def plan_text(placed: PlacedCircuit) -> str:
    """The plan; ends with a newline."""
    circuit = placed.circuit
    lines = [
        f"{PLAN_HEADER}{circuit.name}: {len(placed.layers)} layers, hidden {placed.hidden}, MLP {placed.mlp}, "
        f"{placed.heads} heads",
        f"inputs  {_groups(circuit.inputs)} @{_ranges(placed.slots[wire] for wire in circuit.inputs)}",
        f"outputs {_groups(circuit.outputs)} @{_ranges(placed.slots[wire] for wire in circuit.outputs)}",
        f"ballast {', '.join(f'{share} @{slot}' for slot, share in placed.ballast)}",
    ]
    held = occupied_slots(placed)
    for number, layer in enumerate(placed.layers):
        lines += ["", *_layer_lines(placed, number, layer, held[number])]
    lines += ["", "critical path"]
    path = critical_path(placed)
    lines += [f"  {place_name(time):16} {name}" for time, name in path]
    lines += ["", "critical path by circuit", *_path_by_circuit(path)]
    bounds = lower_bounds(circuit)
    lines += [
        "",
        f"at least, by any placement: {bounds.layers} layers, hidden {bounds.hidden}, MLP {bounds.mlp}, "
        f"{bounds.heads} heads",
    ]
    lines += ["", "slack of the circuits, in layers", *_slack_lines(circuit)]
    return "\n".join(lines) + "\n"


def program_plan(rom: RomImage, spec: MachineSpec) -> str:
    """The plan of the part of the machine over `spec` that a program reaches, placed on its own."""
    return plan_text(place(prune(build_machine(spec), rom, spec), spec))


def group_name(name: str) -> str:
    """A wire's or operation's name with its counts as `*`: `t1.x.l0.n3` is in group `t1.x.l*.n*`."""
    *parents, last = name.split(".")
    parts = [part[0] + "*" if _is_count(part, index) else part for index, part in enumerate(parents)]
    return ".".join([*parts, _TRAILING.sub("*", last)])


def critical_path(placed: PlacedCircuit) -> list[tuple[int, str]]:
    """A longest chain of operations that wait for each other, each with its half-layer."""
    circuit = placed.circuit
    ready: dict[Wire, tuple[int, Op | None]] = dict.fromkeys(circuit.inputs, (INPUT, None))
    before: dict[str, Op | None] = {}
    last: tuple[int, Op | None] = (INPUT, None)
    for op in circuit.operations:
        time, source = max(
            (ready[wire] for wire in op_reads(op)), key=lambda item: item[0], default=(INPUT, None)
        )
        time += 1 if (time % 2 == 0) == isinstance(op, Logic) else 2
        before[op.name] = source
        for wire in op_writes(op):
            ready[wire] = max(ready.get(wire, (INPUT, None)), (time, op), key=lambda item: item[0])
        last = max(last, (time, op), key=lambda item: item[0])
    times = {op.name: 2 * n for n, layer in enumerate(placed.layers) for op in layer.heads}
    times |= {op.name: 2 * n + 1 for n, layer in enumerate(placed.layers) for op in layer.logic}
    path: list[tuple[int, str]] = []
    op = last[1]
    while op is not None:
        path.append((times[op.name], op.name))
        op = before[op.name]
    return path[::-1]


def slack(circuit: Circuit) -> dict[str, int]:
    """Layers by which each circuit (the first part of its operations' names) could come later than it must, at least.

    0: the circuit has a part in a longest chain.
    """
    earliest = earliest_times(circuit.operations, {})
    latest = latest_times(circuit.operations, max(earliest.values(), default=INPUT) + 1)
    least: dict[str, int] = {}
    for op in circuit.operations:
        room = (latest[op.name] - earliest[op.name]) // 2
        least[_circuit_name(op.name)] = min(room, least.get(_circuit_name(op.name), room))
    return least


def _path_by_circuit(path: Sequence[tuple[int, str]]) -> Iterator[str]:
    """A line for each run of operations of one circuit: its half-layers, and how many layers it takes up."""
    for name, group in groupby(path, key=lambda item: _circuit_name(item[1])):
        steps = list(group)
        first, last = steps[0][0], steps[-1][0]
        where = f"layer {first // 2}" if first // 2 == last // 2 else f"layers {first // 2}-{last // 2}"
        yield f"  {where:16} {name:8} {', '.join(step.removeprefix(name + '.') for _, step in steps)}"


def _slack_lines(circuit: Circuit) -> Iterator[str]:
    by_room: dict[int, list[str]] = {}
    for name, room in slack(circuit).items():
        by_room.setdefault(room, []).append(name)
    for room, names in sorted(by_room.items()):
        yield f"  {room:<16} {', '.join(names)}"


def _circuit_name(operation: str) -> str:
    return operation.split(".")[0]


def _is_count(part: str, index: int) -> bool:
    return index > 0 and _COUNTED.fullmatch(part) is not None and part[0] != _PREDICATE


def _layer_lines(placed: PlacedCircuit, number: int, layer: Layer, held: int) -> Iterator[str]:
    yield (
        f"layer {number:<3} heads {len(layer.heads)} of {placed.heads}   units {layer.units} of {placed.mlp}   "
        f"erases {len(layer.erase)}   holds {held} of {placed.hidden}"
    )
    for index, head in enumerate(layer.heads):
        yield f"  head {index:<12} {_head(placed, head)}"
    first = 0
    for op in layer.logic:
        count = Layer((), (op,), ()).units
        where = f"{first}-{first + count - 1}"
        yield f"  units {where:<11} {op.name:16} {_flow(placed, op)}"
        first += count
    if layer.erase:
        yield f"  erase {len(layer.erase):<11} @{_ranges(layer.erase)}"


def _head(placed: PlacedCircuit, head: Memory | Age) -> str:
    if isinstance(head, Age):
        return f"{head.name:16} age; {_flow(placed, head)}"
    return f"{head.name:16} {len(head.values)} values; {_flow(placed, head)}"


def _flow(placed: PlacedCircuit, op: Op) -> str:
    written = list(dict.fromkeys(op_writes(op)))
    slots = _ranges(placed.slots[wire] for wire in written)
    return f"{_groups(op_reads(op))} -> {_groups(written)} @{slots}"


def _groups(wires: Iterable[Wire]) -> str:
    """Group names in alphabetic order; names that differ in one part only are joined, `a.{b,c}.d`."""
    names = [tuple(name.split(".")) for name in sorted({group_name(wire.name) for wire in wires})]
    length = max(map(len, names), default=0)
    for position in reversed(range(length)):
        names = _joined(names, position)
    return ", ".join(".".join(name) for name in names) or "nothing"


def _joined(names: Sequence[tuple[str, ...]], position: int) -> list[tuple[str, ...]]:
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for name in names:
        if position >= len(name):
            groups[name, ("", "")] = []
        else:
            groups.setdefault((name[:position], name[position + 1 :]), []).append(name[position])
    joined = []
    for (left, right), parts in groups.items():
        if not parts:
            joined.append(left)
        elif len(parts) == 1 or not (left or right):
            joined += [(*left, part, *right) for part in parts]
        else:
            joined.append((*left, "{" + ",".join(parts) + "}", *right))
    return joined


def _ranges(slots: Iterable[int]) -> str:
    """`2-5,9`; a long list is cut, and says how many slots there are in all."""
    ordered = sorted(slots)
    runs: list[list[int]] = []
    for slot in ordered:
        if runs and runs[-1][-1] == slot - 1:
            runs[-1][-1] = slot
        else:
            runs.append([slot, slot])
    text = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    if len(text) <= MOST_RANGES:
        return ",".join(text)
    return ",".join(text[:MOST_RANGES]) + f",.. ({len(ordered)})"
