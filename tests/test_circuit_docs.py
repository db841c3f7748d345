"""The numbers in docs/CIRCUITS.md are those of the circuit."""

import re

import pytest

from tests.conftest import ROOT
from toolchain.circuit_ir.ir import Age, Logic, Memory, op_reads, op_writes
from toolchain.circuit_ir.placement import earliest_times
from toolchain.circuit_ir.placement_bounds import lower_bounds
from toolchain.circuit_ir.verifier import occupied_slots
from toolchain.machine_build import placed_circuit
from toolchain.machine_spec import CLASSIC
from toolchain.mir.isa import ALU_SLOTS

PAGE = (ROOT / "docs" / "CIRCUITS.md").read_text()


def test_layer_table() -> None:
    placed = placed_circuit(CLASSIC)
    held = occupied_slots(placed)
    expected = [
        [number, len(layer.heads), layer.units, len(layer.erase), held[number]]
        for number, layer in enumerate(placed.layers)
    ]
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", PAGE, re.MULTILINE)
    assert [[int(cell) for cell in row] for row in rows] == expected


def test_bounds_table() -> None:
    placed = placed_circuit(CLASSIC)
    bounds = lower_bounds(placed.circuit)
    assert f"| layers | {len(placed.layers)} | {bounds.layers} |" in PAGE
    assert f"| heads a layer | {placed.heads} | {bounds.heads} |" in PAGE
    assert f"| hidden | {placed.hidden} | {bounds.hidden} | {bounds.alive:,} wires" in PAGE
    assert f"| MLP | {placed.mlp} | {bounds.mlp} |" in PAGE


@pytest.mark.parametrize("slot", ALU_SLOTS)
def test_heads_that_the_first_selection_waits_for(slot: str) -> None:
    circuit = placed_circuit(CLASSIC).circuit
    first, by_name = earliest_times(circuit.operations, {}), {op.name: op for op in circuit.operations}
    needed, waiting = set[str](), set(op_reads(by_name[f"s0.{slot}.select"]))
    for op in reversed(circuit.operations):
        if waiting.intersection(op_writes(op)):
            waiting |= set(op_reads(op))
            needed.add(op.name)
    heads = [name for name in needed if not isinstance(by_name[name], Logic) and first[name] >= 2]
    assert f"waits for {len(heads)} heads that cannot stand in\nlayer 0" in PAGE
    assert len(heads) == 2 * CLASSIC.heads


def test_totals() -> None:
    placed = placed_circuit(CLASSIC)
    operations = placed.circuit.operations
    units = sum(len(op.units) for op in operations if isinstance(op, Logic))
    heads = sum(isinstance(op, Memory | Age) for op in operations)
    sizes = f"{len(placed.layers)} layers, hidden {placed.hidden}, MLP {placed.mlp}, {placed.heads} heads"
    assert f"{sizes}; {units:,} units, {heads} heads" in " ".join(PAGE.split())
