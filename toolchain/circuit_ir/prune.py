"""The part of the machine that one program can reach.

On an EXEC token the ROM wires (`rom{row}.{field}...`) hold the bits of one block of the program, on any other token
0; so together they only take as many values as there are blocks, and one. The same holds for the code of the next
return entry. A gate is bounded over those values instead of each wire's own range: operand selections of sources that
no block uses, lines of operations that no slot runs, and all that only they feed, go. Link-time constants (immediates
and offsets with symbols) can be anything. The pruned circuit writes what the full one writes, for this program only.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from toolchain.circuit_ir.ir import Affine, Circuit, Wire, op_writes
from toolchain.circuit_ir.machine.front import CODE_BITS, NIBBLE
from toolchain.circuit_ir.simplify import simplify
from toolchain.machine_spec import WORD_BITS, MachineSpec
from toolchain.mir.encoding import Serial, return_sequence, stage_fields, terminator_fields
from toolchain.mir.isa import Layout, stage_layout, terminator_layout
from toolchain.mir.link_constants import symbolic_fields
from toolchain.mir.rom import Block, RomImage


def prune(circuit: Circuit, rom: RomImage, spec: MachineSpec) -> Circuit:
    """The machine `circuit` over `spec` without what `rom` never uses."""
    reachable = _Reachable(circuit, rom, spec)
    return simplify(circuit, reachable.zeros, reachable.most)


class _AnySymbol(dict[str, int]):
    """Link-time symbols whose values do not matter."""

    def __missing__(self, name: str) -> int:
        return 0


class _Reachable:
    """`values[wire]`: the wire in each state of the program (none, or in a block); `codes` for the next entry's."""

    def __init__(self, circuit: Circuit, rom: RomImage, spec: MachineSpec) -> None:
        written = (wire for op in circuit.operations for wire in op_writes(op))
        wires = {wire.name: wire for wire in (*circuit.inputs, *written)}
        self._rom = _by_wire(wires, [{}, *(rom_values(spec, block, rom.serial) for block in rom.blocks)])
        for name in symbolic_fields(rom):
            for wire in [wire for wire in self._rom if wire.name.startswith(f"{name}.")]:
                del self._rom[wire]
        codes = [
            {f"next.code{bit}": code >> bit & 1 for bit in range(CODE_BITS)} for code in _codes(spec, rom)
        ]
        self._codes = _by_wire(wires, [{}, *codes])
        known = (*self._rom.items(), *self._codes.items())
        self.zeros = frozenset(wire for wire, values in known if not values.any())

    def most(self, form: Affine) -> float:
        """An upper bound of the form: ROM wires together, code wires together, each other wire on its own."""
        rest, rom, codes = form.constant, list[tuple[Wire, float]](), list[tuple[Wire, float]]()
        for wire, factor in form.terms:
            if wire in self._rom:
                rom.append((wire, factor))
            elif wire in self._codes:
                codes.append((wire, factor))
            else:
                rest += max(factor * wire.low, factor * wire.high)
        return rest + _highest(self._rom, rom) + _highest(self._codes, codes)


def _highest(values: Mapping[Wire, np.ndarray], terms: list[tuple[Wire, float]]) -> float:
    if not terms:
        return 0
    total = values[terms[0][0]] * terms[0][1]
    for wire, factor in terms[1:]:
        total = total + values[wire] * factor
    return float(total.max())


def _by_wire(wires: Mapping[str, Wire], states: list[dict[str, int]]) -> dict[Wire, np.ndarray]:
    """Each known wire's value in each state; a name that a state lacks is 0 there."""
    names = {name for state in states for name in state}
    return {
        wires[name]: np.array([state.get(name, 0) for state in states], dtype=np.float64)
        for name in sorted(names)
        if name in wires
    }


def _rows(spec: MachineSpec, block: Block, serial: Serial) -> Iterator[tuple[Layout, dict[str, int]]]:
    for index, stage in enumerate(block.stages):
        yield stage_layout(spec, index), stage_fields(spec, index, stage, _AnySymbol())
    yield terminator_layout(spec), terminator_fields(spec, block.terminator, _AnySymbol(), serial)


def rom_values(spec: MachineSpec, block: Block, serial: Serial) -> dict[str, int]:
    """Value of every ROM wire in a block, by name, as front.read_rom names and scales them."""
    values: dict[str, int] = {}
    for row, (layout, fields) in enumerate(_rows(spec, block, serial)):
        for name, width in (field for chunk in layout for field in chunk):
            value, label = fields.get(name, 0), f"rom{row}.{name}"
            if width == WORD_BITS:
                values |= {f"{label}.n{i}": value >> NIBBLE * i & 15 for i in range(WORD_BITS // NIBBLE)}
            elif name.endswith(".offset"):
                values |= {f"{label}.low": value & 15, f"{label}.all": value}
            else:
                values |= {f"{label}.b{i}": value >> i & 1 for i in range(width)}
    return values


def _codes(spec: MachineSpec, rom: RomImage) -> list[int]:
    """Codes of all return entries of the program."""
    lanes = range(1, spec.lanes + 1)
    entries = {
        entry for block in rom.blocks for count in lanes for entry in return_sequence(spec, block, count)
    }
    return sorted({entry & ((1 << CODE_BITS) - 1) for entry in entries})
