"""Takes out units that only hand a form on: in a program where an operand has one source, nothing selects it.

A wire that one unit alone writes, `relu(gate) * up`, is `up` itself if the gate is 1 in every state (block_states.py)
where `up` can be other than 0. Its readers read the form, and the layer that the unit took is free.
"""

import numpy as np

from toolchain.circuit_ir.block_states import BlockStates
from toolchain.circuit_ir.ir import Affine, Circuit, Gate, Logic, Unit, Wire, op_writes
from toolchain.circuit_ir.substitute import substitute, substituted


def forward(circuit: Circuit, states: BlockStates) -> Circuit:
    """The same circuit without such wires; the units that wrote them are dead."""
    writers = _writers(circuit)
    stored = {wire for op in circuit.operations if not isinstance(op, Logic) for wire in op_writes(op)}
    forms: dict[Wire, Affine] = {}
    for wire, units in writers.items():
        if len(units) == 1 and wire not in stored and wire not in circuit.outputs:
            form = _handed_on(units[0], wire, states)
            if form is not None:
                forms[wire] = substituted(form, forms)
    return substitute(circuit, forms)


def _writers(circuit: Circuit) -> dict[Wire, list[Unit]]:
    """The units that write a wire, in the order of the circuit."""
    writers: dict[Wire, list[Unit]] = {}
    for op in circuit.operations:
        for unit in op.units if isinstance(op, Logic) else ():
            for wire, _ in unit.outputs:
                writers.setdefault(wire, []).append(unit)
    return writers


def _handed_on(unit: Unit, wire: Wire, states: BlockStates) -> Affine | None:
    """What the unit adds to the wire, as a form, if it is one."""
    weight = dict(unit.outputs)[wire]
    if unit.kind is not Gate.RELU:
        return None
    if unit.up is None:
        linear = bool(np.all(states.low(unit.gate) >= 0))
        return unit.gate * weight if linear and unit.gate.terms else None
    at = states.nonzero(unit.up)
    one = np.all(states.low(unit.gate)[at] == 1) and np.all(states.high(unit.gate)[at] == 1)
    return unit.up * weight if one else None
