"""Which dimensions of the residual stream are exactly zero on the machine's tokens, half-layer by half-layer.

Half-layer 2 * n is layer n's heads, 2 * n + 1 its MLP; an entry says what the half-layer reads. A slot is zero before
its first wire and after the MLP that erases its last one. Nothing erases the age counters' powers of two.
"""

from collections import defaultdict
from dataclasses import replace

from toolchain.circuit_ir.ir import Age, Wire, op_reads, op_writes
from toolchain.circuit_ir.placed import Layer, PlacedCircuit
from toolchain.weights_backend.slot_ranges import placed_operations


def first_written(placed: PlacedCircuit) -> dict[Wire, int]:
    """Half-layer in which each wire that is no input first gets a value."""
    first: dict[Wire, int] = {}
    for time, op in placed_operations(placed):
        for wire in op_writes(op):
            first.setdefault(wire, time)
    return first


def with_eager_erasures(placed: PlacedCircuit, mlp: int) -> PlacedCircuit:
    """Erases dead slots as soon as an MLP of `mlp` units has room, rather than when they are needed again."""
    last = _last_used(placed)
    tenants: dict[int, Wire] = {placed.slots[w]: w for w in placed.circuit.inputs if w in placed.slots}
    writes = _writes_by_time(placed)
    layers: list[Layer] = []
    for number, layer in enumerate(placed.layers):
        tenants |= writes[2 * number]
        dead = sorted(slot for slot, wire in tenants.items() if last[wire] <= 2 * number + 1)
        due = [slot for slot in layer.erase if slot in tenants]
        room = mlp - layer.units + len(layer.erase) - len(due)
        erase = sorted(due + [slot for slot in dead if slot not in due][:room])
        for slot in erase:
            del tenants[slot]
        tenants |= writes[2 * number + 1]
        layers.append(replace(layer, erase=tuple(erase)))
    return replace(placed, layers=tuple(layers))


def zero_slots(placed: PlacedCircuit, *, fresh: bool = False) -> list[list[int]]:
    """The zero dimensions at each half-layer, and after the last one.

    `fresh`: only those that have not held anything yet, where an erased slot may keep rounding noise (float32).
    """
    held = {slot for slot, _ in placed.ballast}
    held |= {placed.slots[wire] for wire in placed.circuit.inputs if wire in placed.slots}
    writes = _writes_by_time(placed)
    zero = []
    for time in range(2 * len(placed.layers) + 1):
        zero.append([slot for slot in range(placed.hidden) if slot not in held])
        if time % 2 and not fresh:
            held -= set(placed.layers[time // 2].erase)
        held |= writes[time].keys()
    return zero


def _last_used(placed: PlacedCircuit) -> dict[Wire, int]:
    """Half-layer of each wire's last read or write; outputs and ages are kept."""
    last: dict[Wire, int] = defaultdict(lambda: -1)
    kept = 2 * len(placed.layers)
    for time, op in placed_operations(placed):
        for wire in (*op_reads(op), *op_writes(op)):
            last[wire] = max(last[wire], time)
    for wire in (
        *placed.circuit.outputs,
        *(op.output for op in placed.circuit.operations if isinstance(op, Age)),
    ):
        last[wire] = kept
    return last


def _writes_by_time(placed: PlacedCircuit) -> dict[int, dict[int, Wire]]:
    """Slots and wires that each half-layer writes."""
    writes: dict[int, dict[int, Wire]] = defaultdict(dict)
    for time, op in placed_operations(placed):
        for wire in op_writes(op):
            writes[time][placed.slots[wire]] = wire
    return writes
