"""Rules of circuits. Logical:

- a wire name stands for one wire, whose range is not empty
- every wire read is an input or written by an earlier operation, and nothing adds to it after it was read
- an input is not written; operation names are unique
- an affine form has its terms sorted by wire, no wire twice, no coefficient 0
- a unit writes something, with weights that are not 0
- a step's gate is an integer: integer coefficients and constant, no age counter
- a head's rows fit `head_rows`, its values and their ballast fit `head_values`, its taps reach back three tokens
- an address bit is within 0..1, an address literal is at most 1, and so are an age's event and what counts twice
- an address has no complements, or one for each bit, each at most 1
- an output of a head is a sum of its own values, none twice
- a head that stores more than 1 is read at one constant row
- a head's unwritten row is one of its rows
- a head that reads many rows has its anchor on one of them, so not constant

Placed:

- every operation is placed once, heads as heads and logic as logic, after everything it reads was written
- every wire has a slot inside the stream that is no ballast, and no other wire while it lives
- a slot is erased exactly once between two wires, after the first was last read, and never else
- an erased wire is never negative, and no age (between integers silu is no relu)
- ballast shares are powers of four that sum to the hidden size
- layers, hidden size, MLP and heads are within the machine's limits, and no layer has more than the circuit says

An output that nothing writes is constant 0.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from toolchain.circuit_ir.ir import (
    Affine,
    Age,
    Circuit,
    Gate,
    Logic,
    Memory,
    Op,
    Rows,
    Unit,
    Wire,
    op_reads,
    op_writes,
)
from toolchain.circuit_ir.placed import PlacedCircuit
from toolchain.circuit_ir.text import print_form, print_unit
from toolchain.errors import VerifyError
from toolchain.machine_spec import MachineSpec

REACH = 3
"""Tokens back that the convolution sees."""
INPUT = -1
"""Half-layer of the embedding; layer n's heads are 2 * n, its MLP 2 * n + 1."""


def verify_circuit(circuit: Circuit, spec: MachineSpec) -> None:
    """Raises VerifyError, listing every broken rule."""
    _raise(circuit_problems(circuit, spec))


def verify_placed(placed: PlacedCircuit, spec: MachineSpec) -> None:
    """Raises VerifyError, listing every broken rule of the placement and of the circuit in it."""
    _raise([*circuit_problems(placed.circuit, spec), *placed_problems(placed, spec)])


def circuit_problems(circuit: Circuit, spec: MachineSpec) -> list[str]:
    """Every broken rule of a logical circuit, with the operation and wire."""
    return [*_wire_problems(circuit), *_order_problems(circuit), *_op_problems(circuit, spec)]


def placed_problems(placed: PlacedCircuit, spec: MachineSpec) -> list[str]:
    """Every broken rule of a placement, with the operation or wire and the layer."""
    times, problems = _times(placed)
    if any(not isinstance(op, Logic) for layer in placed.layers for op in layer.logic):
        return problems
    problems += _placing_problems(placed, times)
    problems += _limit_problems(placed, spec)
    problems += _ballast_problems(placed)
    problems += _slot_problems(placed, times)
    return problems


def _raise(problems: list[str]) -> None:
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise VerifyError(problems[0] + more)


# --- Logical


def _all_wires(circuit: Circuit) -> Iterator[Wire]:
    yield from circuit.inputs
    for op in circuit.operations:
        yield from op_reads(op)
        yield from op_writes(op)
    yield from circuit.outputs


def _wire_problems(circuit: Circuit) -> Iterator[str]:
    seen: dict[str, Wire] = {}
    for wire in _all_wires(circuit):
        other = seen.setdefault(wire.name, wire)
        if other is wire:
            continue
        if other != wire:
            yield f"{wire} is both {other.low}..{other.high} and {wire.low}..{wire.high}"
    for wire in seen.values():
        if wire.low > wire.high:
            yield f"{wire} has the empty range {wire.low}..{wire.high}"


def _order_problems(circuit: Circuit) -> Iterator[str]:
    defined, read_by = set(circuit.inputs), dict[Wire, str]()
    inputs, names = set(circuit.inputs), set[str]()
    for op in circuit.operations:
        if op.name in names:
            yield f"{op.name}: another operation has the same name"
        names.add(op.name)
        reads = dict.fromkeys(op_reads(op))
        for wire in reads:
            if wire not in defined:
                yield f"{op.name}: reads {wire}, which nothing before it writes"
        read_by.update((wire, op.name) for wire in reads)
        for wire in dict.fromkeys(op_writes(op)):
            if wire in inputs:
                yield f"{op.name}: writes {wire}, an input"
            elif wire in read_by:
                yield f"{op.name}: writes {wire}, which {read_by[wire]} reads before"
            defined.add(wire)


def _op_problems(circuit: Circuit, spec: MachineSpec) -> Iterator[str]:
    ages = {op.output for op in circuit.operations if isinstance(op, Age)}
    for op in circuit.operations:
        match op:
            case Logic():
                for unit in op.units:
                    for problem in _unit_problems(unit, ages):
                        yield f"{op.name}: {problem}, in {print_unit(unit)}"
            case Memory():
                yield from (f"{op.name}: {problem}" for problem in _memory_problems(op, spec))
            case Age():
                forms = {"event": op.event} if op.twice is None else {"event": op.event, "twice": op.twice}
                for what, form in forms.items():
                    yield from (f"{op.name}: {problem}" for problem in _form_problems(form))
                    if form.range()[1] > 1:
                        yield f"{op.name}: its {what} {print_form(form)} can be more than 1"


def _form_problems(form: Affine) -> Iterator[str]:
    names = [wire.name for wire, _ in form.terms]
    for first, second in pairwise(names):
        if first == second:
            yield f"%{first} stands twice in {print_form(form)}"
        elif first > second:
            yield f"the terms of {print_form(form)} are not sorted"
    for wire, factor in form.terms:
        if not factor:
            yield f"{wire} has coefficient 0 in {print_form(form)}"


def _unit_problems(unit: Unit, ages: set[Wire]) -> Iterator[str]:
    if not unit.outputs:
        yield "a unit writes nothing"
    for wire, weight in unit.outputs:
        if not weight:
            yield f"{wire} is written with weight 0"
    yield from _form_problems(unit.gate)
    if unit.up is not None:
        yield from _form_problems(unit.up)
    if unit.kind is Gate.STEP:
        factors = (unit.gate.constant, *(factor for _, factor in unit.gate.terms))
        if any(factor % 1 for factor in factors):
            yield "the gate of a step is not an integer"
        for wire in unit.gate.wires:
            if wire in ages:
                yield f"the gate of a step reads {wire}, an age"


def _memory_forms(op: Memory) -> Iterator[Affine]:
    for rows in (op.write, op.read):
        yield from (*rows.bits, *rows.complements, *rows.literals)
    yield from (*op.enable, op.anchor, *(value.form for value in op.values))
    if op.wipe is not None:
        yield op.wipe


def ballast_values(spec: MachineSpec) -> int:
    """Value dimensions of a head that hold its norm's ballast."""
    return 2 if (spec.head_values.bit_length() - 1) % 2 else 1


def _memory_problems(op: Memory, spec: MachineSpec) -> Iterator[str]:
    for form in _memory_forms(op):
        yield from _form_problems(form)
    yield from _rows_problems("write", op.write, spec)
    yield from _rows_problems("read", op.read, spec)
    room = spec.head_values - ballast_values(spec)
    if len(op.values) > room:
        yield f"stores {len(op.values)} values; a head has room for {room} and its ballast"
    for index, value in enumerate(op.values):
        if not 0 <= value.tap <= REACH:
            yield f"d{index} is read {value.tap} tokens back; the convolution reaches {REACH}"
    for wire, terms in op.outputs:
        counts = Counter(dimension for dimension, _ in terms)
        for dimension, count in counts.items():
            if not 0 <= dimension < len(op.values):
                yield f"{wire} reads d{dimension}; there are {len(op.values)} values"
            elif count > 1:
                yield f"{wire} reads d{dimension} twice"
    yield from _digit_problems(op)
    if op.unwritten is not None and not 0 <= op.unwritten < spec.head_rows:
        yield f"its unwritten row {op.unwritten} is none of the head's {spec.head_rows}"
    if op.read.every and not op.anchor.terms:
        yield f"reads {op.read.every} rows, and its anchor is constant"


def _digit_problems(op: Memory) -> Iterator[str]:
    wide = next((value.form for value in op.values if value.form.range()[1] > 1), None)
    if wide is None:
        return
    if op.read.bits or op.read.every:
        yield f"stores {print_form(wide)}, which can be more than 1, and is not read at a constant row"


def _rows_problems(side: str, rows: Rows, spec: MachineSpec) -> Iterator[str]:
    count = max(1 << len(rows.bits), rows.every)
    if count > spec.head_rows:
        yield f"its {side} address has {count} rows; a head has {spec.head_rows}"
    if not 0 <= rows.tap <= REACH:
        yield f"its {side} address is {rows.tap} tokens back; the convolution reaches {REACH}"
    for index, bit in enumerate(rows.bits):
        low, high = bit.range()
        if low < 0 or high > 1:
            yield f"its {side} address bit {index}, {print_form(bit)}, is not 0 or 1"
    if rows.complements and len(rows.complements) != len(rows.bits):
        yield f"its {side} address has {len(rows.complements)} complements of {len(rows.bits)} bits"
    for form in rows.complements:
        if form.range()[1] > 1:
            yield f"its {side} address complement {print_form(form)} can be more than 1"
    for literal in rows.literals:
        if literal.range()[1] > 1:
            yield f"its {side} address literal {print_form(literal)} can be more than 1"


# --- Placed


def place_name(time: int) -> str:
    """A half-layer in words."""
    if time == INPUT:
        return "the embedding"
    return f"layer {time // 2}'s {'MLP' if time % 2 else 'heads'}"


def _times(placed: PlacedCircuit) -> tuple[dict[str, int], list[str]]:
    """Half-layer of each operation by name, and operations placed twice, wrongly, or not at all."""
    times: dict[str, int] = {}
    problems: list[str] = []
    known = {op.name: op for op in placed.circuit.operations}
    for number, layer in enumerate(placed.layers):
        halves: tuple[tuple[int, tuple[Op, ...]], ...] = (
            (2 * number, layer.heads),
            (2 * number + 1, layer.logic),
        )
        for time, operations in halves:
            for op in operations:
                if known.get(op.name) != op:
                    problems.append(f"{op.name} is in {place_name(time)}, and not in the circuit")
                elif isinstance(op, Logic) != bool(time % 2):
                    kind = "logic" if time % 2 else "a head"
                    problems.append(f"{op.name} is in {place_name(time)}, and is not {kind}")
                if op.name in times:
                    problems.append(f"{op.name} is in {place_name(times[op.name])} and in {place_name(time)}")
                times[op.name] = time
    problems += [f"{name} is not placed" for name in known if name not in times]
    return times, problems


def _placing_problems(placed: PlacedCircuit, times: dict[str, int]) -> Iterator[str]:
    written: dict[Wire, tuple[int, str]] = {}
    for op in placed.circuit.operations:
        time = times.get(op.name)
        if time is None:
            continue
        for wire in dict.fromkeys(op_reads(op)):
            ready, writer = written.get(wire, (INPUT, ""))
            if ready >= time:
                yield f"{op.name} in {place_name(time)} reads {wire}, which {writer} writes in {place_name(ready)}"
        for wire in op_writes(op):
            written[wire] = max(written.get(wire, (INPUT, "")), (time, op.name))


def _limit_problems(placed: PlacedCircuit, spec: MachineSpec) -> Iterator[str]:
    for what, value, most in (
        ("layers", len(placed.layers), spec.max_layers),
        ("residual dimensions", placed.hidden, spec.max_hidden),
        ("MLP units", placed.mlp, spec.max_mlp),
        ("heads", placed.heads, spec.heads),
    ):
        if value > most:
            yield f"{value} {what}; machine '{spec.name}' has at most {most}"
    for number, layer in enumerate(placed.layers):
        if layer.units > placed.mlp:
            yield f"layer {number} has {layer.units} units; the circuit's MLP has {placed.mlp}"
        if len(layer.heads) > placed.heads:
            yield f"layer {number} has {len(layer.heads)} heads; the circuit has {placed.heads}"


def _ballast_problems(placed: PlacedCircuit) -> Iterator[str]:
    total = 0
    for dimension, share in placed.ballast:
        total += share
        if share < 1 or share & (share - 1) or (share.bit_length() - 1) % 2:
            yield f"ballast dimension {dimension} has share {share}, which is no power of four"
        if not 0 <= dimension < placed.hidden:
            yield f"ballast dimension {dimension} is outside the stream's {placed.hidden}"
    if len({dimension for dimension, _ in placed.ballast}) < len(placed.ballast):
        yield "two ballast shares have the same dimension"
    if total != placed.hidden:
        yield f"the ballast's shares sum to {total}; the hidden size is {placed.hidden}"


class _Life:
    """A wire's first and last write and last read, in half-layers."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.born: int | None = None
        self.written = self.read = INPUT

    def write(self, time: int) -> None:
        self.born = time if self.born is None else min(self.born, time)
        self.written = max(self.written, time)


def _lives(placed: PlacedCircuit, times: dict[str, int]) -> list[_Life]:
    """Lives of all wires; outputs are read after the last layer."""
    end = 2 * len(placed.layers)
    lives: dict[Wire, _Life] = {}

    def life(wire: Wire) -> _Life:
        return lives.setdefault(wire, _Life(wire))

    for wire in placed.circuit.inputs:
        life(wire).write(INPUT)
    for op in placed.circuit.operations:
        if op.name not in times:
            continue
        for wire in op_writes(op):
            life(wire).write(times[op.name])
        for wire in op_reads(op):
            life(wire).read = max(life(wire).read, times[op.name])
    for wire in placed.circuit.outputs:
        life(wire).read = end
        if life(wire).born is None:
            life(wire).write(end)
    return list(lives.values())


def occupied_slots(placed: PlacedCircuit) -> list[int]:
    """How many wires are alive in each layer: written in it or before, still to be read in it or after."""
    lives = _lives(placed, _times(placed)[0])
    return [
        sum(_born(life) <= 2 * number + 1 and max(life.read, life.written) >= 2 * number for life in lives)
        for number in range(len(placed.layers))
    ]


def _slot_problems(placed: PlacedCircuit, times: dict[str, int]) -> Iterator[str]:
    ballast = {dimension for dimension, _ in placed.ballast}
    tenants: dict[int, list[_Life]] = defaultdict(list)
    for life in _lives(placed, times):
        slot = placed.slots.get(life.wire)
        if slot is None:
            yield f"{life.wire} has no slot"
            continue
        if not 0 <= slot < placed.hidden:
            yield f"{life.wire} has slot {slot}, outside the stream's {placed.hidden}"
        if slot in ballast:
            yield f"{life.wire} has slot {slot}, which is ballast"
        tenants[slot].append(life)
    ages = {op.output for op in placed.circuit.operations if isinstance(op, Age)}
    erased: dict[int, list[int]] = defaultdict(list)
    for number, layer in enumerate(placed.layers):
        for slot in layer.erase:
            erased[slot].append(2 * number + 1)
    for slot in sorted({*tenants, *erased}):
        ordered = sorted(tenants[slot], key=lambda life: (_born(life), life.wire.name))
        yield from _tenancy_problems(slot, ordered, erased[slot], ages)


def _born(life: _Life) -> int:
    return INPUT if life.born is None else life.born


def _tenancy_problems(slot: int, lives: list[_Life], erased: Iterable[int], ages: set[Wire]) -> Iterator[str]:
    """`lives` in the order of their first write; an erasure at t takes away what was there before t."""
    left = list(erased)
    for life, following in pairwise(lives):
        begin = _born(following)
        if life.written >= begin or life.read > begin:
            yield (
                f"slot {slot}: {following.wire} is written in {place_name(begin)}, "
                f"while {life.wire} lives to {place_name(max(life.read, life.written))}"
            )
            continue
        between = [time for time in left if life.written < time <= begin and life.read <= time]
        left = [time for time in left if time not in between]
        if len(between) != 1:
            times = "not" if not between else f"{len(between)} times"
            yield f"slot {slot} is {times} erased between {life.wire} and {following.wire}"
        if life.wire.low < 0:
            yield f"slot {slot}: {life.wire} may be negative, so that it cannot be erased"
        if life.wire in ages:
            yield f"slot {slot}: {life.wire} is an age, so that it cannot be erased"
    for time in left:
        yield f"slot {slot} is erased in {place_name(time)}, where nothing ends"
