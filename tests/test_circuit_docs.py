"""The numbers in docs/CIRCUITS.md are those of the circuit."""

import re

from tests.conftest import ROOT
from toolchain.circuit_ir.ir import Age, Logic, Memory
from toolchain.circuit_ir.verifier import occupied_slots
from toolchain.machine_build import placed_circuit
from toolchain.machine_spec import CLASSIC

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


def test_totals() -> None:
    placed = placed_circuit(CLASSIC)
    operations = placed.circuit.operations
    units = sum(len(op.units) for op in operations if isinstance(op, Logic))
    heads = sum(isinstance(op, Memory | Age) for op in operations)
    sizes = f"{len(placed.layers)} layers, hidden {placed.hidden}, MLP {placed.mlp}, {placed.heads} heads"
    assert f"{sizes}; {units:,} units, {heads} heads" in " ".join(PAGE.split())
