"""Which blocks a gate is open in, as one wire: what decides it in a program that is in the weights.

A gate adds codes and lines of the ROM row to what it is about. In a given program that part has one value in each
state (block_states.py); only the states where the unit can fire matter, and that the others stay shut. So it becomes

    rest + value - 2**n + 2**n [block is one of those]

with 2**n large enough for the rest. The bracket is an input that EXEC's embedding sets; equal ones are one wire.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from toolchain.circuit_ir.block_states import OTHER, BlockStates
from toolchain.circuit_ir.ir import Affine, Circuit, Gate, Logic, Memory, Op, Unit, Wire, affine, total

WIDEST = 256
"""The largest integer factor whose every smaller one has few enough digits for a weight of any dtype."""
Pattern = tuple[int, ...]


class Patterns:
    """Inputs that are 1 in some blocks, by the blocks. `blocks[b]` are the inputs that EXEC of block b sets."""

    def __init__(self, is_exec: Wire, wires: Iterable[Wire], blocks: Iterable[Mapping[str, int]]) -> None:
        self.blocks = [dict(block) for block in blocks]
        self._wires = {tuple(block.get(wire.name, 0) for block in self.blocks): wire for wire in wires}
        self._wires[(1,) * len(self.blocks)] = is_exec
        self.added: list[Wire] = []

    def wire(self, least: Pattern, most: Pattern) -> Wire:
        """A wire that is 1 in the blocks of `least` and in no other than those of `most`."""
        for pattern, wire in self._wires.items():
            if all(low <= value <= high for low, value, high in zip(least, pattern, most, strict=True)):
                return wire
        name = f"blocks.{'.'.join(str(number) for number, value in enumerate(least) if value)}"
        self._wires[least] = Wire(name)
        self.added.append(self._wires[least])
        for block, value in zip(self.blocks, least, strict=True):
            block |= {name: 1} if value else {}
        return self._wires[least]


def by_blocks(circuit: Circuit, states: BlockStates, patterns: Patterns) -> Circuit:
    """The same circuit with gates that ask for blocks, without units that fire in no state.

    The inputs that `patterns` adds are among its inputs.
    """
    operations = tuple(_operation(op, states, patterns) for op in circuit.operations)
    return replace(circuit, inputs=(*circuit.inputs, *patterns.added), operations=operations)


def _operation(op: Op, states: BlockStates, patterns: Patterns) -> Op:
    match op:
        case Logic():
            firing = (unit for unit in op.units if states.open(unit).any())
            return replace(op, units=tuple(_unit(unit, states, patterns) for unit in firing))
        case Memory(unwritten=0):
            return _register_port(op, states, patterns)
    return op


def _register_port(op: Memory, states: BlockStates, patterns: Patterns) -> Memory:
    """Read where the register is not 0: no block returns register 0, so that its row is never written."""
    bits = [form for form in op.read.bits if form.terms and states.fixed(form)]
    used = sum((states.high(form) for form in bits), np.zeros(len(patterns.blocks) + 1)) > 0
    if not bits or used[OTHER]:
        return op
    pattern = _pattern(used)
    wire = affine(patterns.wire(pattern, pattern))
    literals = tuple(form for form in op.read.literals if not states.fixed(form))
    return replace(op, read=replace(op.read, literals=(*literals, wire)))


def _pattern(states: np.ndarray) -> Pattern:
    return tuple(int(value) for value in states[OTHER + 1 :])


def _unit(unit: Unit, states: BlockStates, patterns: Patterns) -> Unit:
    fixed = [(wire, factor) for wire, factor in unit.gate.terms if states.fixed(affine(wire))]
    if not fixed:
        return unit
    part = Affine(tuple(fixed))
    rest, values = unit.gate - part, states.high(part)
    matters = np.ones(len(values), dtype=bool) if unit.up is None else states.nonzero(unit.up)
    fires, shut = states.open(unit), matters & ~states.open(unit)
    found = sorted(set(values[fires]))
    if len(found) > 1 and (fires[OTHER] or all(abs(factor) <= WIDEST for _, factor in fixed)):
        return unit
    base = float(found[0])
    most = states.high(rest) + base + (unit.kind is Gate.STEP)
    need = max(0.0, float(most[shut].max(initial=0.0)))
    size = float(1 << max(int(np.ceil(need)) - 1, 0).bit_length())
    if not shut.any():
        opened = affine(base)
    elif not fires[OTHER]:
        opened = affine(patterns.wire(_pattern(fires), _pattern(~shut))) * size + (base - size)
    else:
        opened = affine(patterns.wire(_pattern(shut), _pattern(~fires))) * -size + base
    if len(found) > 1:
        exact = ((value - base, _pattern(fires & (values == value))) for value in found[1:])
        opened = total([opened, *(affine(patterns.wire(one, one)) * float(more) for more, one in exact)])
    return replace(unit, gate=rest + opened)
