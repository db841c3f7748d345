"""Placements that are kept from one process to the next as readable plans (placement_plan.py).

A plan's file is named after the circuit and a hash of its text, of the machine's limits and of the modules that place.
What is read is verified like any placement; a plan that is damaged, or of something else, is made anew.
"""

import dataclasses
import hashlib
import os
import tempfile
from pathlib import Path

from toolchain.circuit_ir.ir import Circuit
from toolchain.circuit_ir.placed import PlacedCircuit
from toolchain.circuit_ir.placement import place
from toolchain.circuit_ir.placement_plan import PlanError, parse_plan, print_plan
from toolchain.circuit_ir.text import print_circuit
from toolchain.circuit_ir.verifier import placed_problems
from toolchain.machine_spec import MachineSpec


def place_cached(circuit: Circuit, spec: MachineSpec, folder: Path) -> PlacedCircuit:
    """The circuit placed, by the plan in `folder` if there is a good one; else its plan is left there.

    Raises CompileError where the circuit does not fit the layer shape (placement.py).
    """
    path = folder / f"{circuit.name}-{_key(circuit, spec)}.plan"
    placed = _read(path, circuit, spec)
    if placed is None:
        placed = place(circuit, spec)
        _write(path, print_plan(placed))
    return placed


def _key(circuit: Circuit, spec: MachineSpec) -> str:
    digest = hashlib.sha256(print_circuit(circuit).encode())
    digest.update(repr(dataclasses.astuple(spec)).encode())
    for source in sorted(Path(__file__).parent.glob("placement*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _read(path: Path, circuit: Circuit, spec: MachineSpec) -> PlacedCircuit | None:
    """The plan's placement, None where there is no plan that holds."""
    try:
        placed = parse_plan(path.read_text(), circuit)
    except (OSError, UnicodeDecodeError, PlanError):
        return None
    return None if placed_problems(placed, spec) else placed


def _write(path: Path, text: str) -> None:
    """Writes the plan, whole or not at all; a cache that cannot be written is left as it is."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".plan-", delete=False) as file:
            file.write(text)
        os.replace(file.name, path)
    except OSError:
        return
