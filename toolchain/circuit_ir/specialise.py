"""One kernel's machine: the program is in the weights, and what it does not use is gone.

The ROM is a function of the block, and the block is in the EXEC token; so the embedding of EXEC(b, w, mask) holds the
ROM wires of block b, and no head reads them (machine/baked.py). Then `prune` takes away what no block uses, wires that
are alike in all blocks become one, and the extents shrink to what is left: blocks, returns, head sizes.

A kernel's parameters, its launch's extents and the addresses of its variables are no part of the program: the host
writes them as CONST records.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from runtime.vocabulary import Kind, Token, Vocabulary
from toolchain.circuit_ir.block_patterns import Patterns, by_blocks
from toolchain.circuit_ir.block_states import BlockStates
from toolchain.circuit_ir.forward import forward
from toolchain.circuit_ir.ir import Affine, Circuit, Memory, Rows, Wire, affine, op_reads
from toolchain.circuit_ir.machine.baked import BakedProgram
from toolchain.circuit_ir.machine.build import assemble
from toolchain.circuit_ir.prune import prune, rom_values
from toolchain.circuit_ir.simplify import simplify
from toolchain.circuit_ir.substitute import substitute
from toolchain.circuit_ir.tokens import embedding
from toolchain.machine_spec import MachineSpec
from toolchain.mir.encoding import return_sequence, return_tokens
from toolchain.mir.link_constants import link_constants, linked_fields
from toolchain.mir.rom import RomImage

MEMORY = ".load"
"""How the names of heads end that hold a copy of global memory."""
LEAST_HEAD_VALUES = 64
"""A head's values and ballast: the smallest size whose root, over one ballast value, is a power of two above 32."""


@dataclass(frozen=True)
class Specialised:
    """A kernel's machine. `blocks[b]`, `returns[b, active lanes]`: input wires that EXEC sets beside its own fields."""

    spec: MachineSpec
    circuit: Circuit
    blocks: tuple[Mapping[str, int], ...]
    returns: Mapping[tuple[int, int], str]

    def embedding(self, vocabulary: Vocabulary, token: Token) -> dict[str, int]:
        """Names and values of the input wires that are not zero for a token."""
        values = embedding(vocabulary, token)
        if token.kind is Kind.EXEC and token.a < len(self.blocks):
            values |= self.blocks[token.a]
            sequence = self.returns.get((token.a, token.mask.bit_count()))
            values |= {} if sequence is None else {sequence: 1}
        known = {wire.name for wire in self.circuit.inputs}
        return {name: value for name, value in values.items() if name in known}


def specialised_spec(rom: RomImage, spec: MachineSpec) -> MachineSpec:
    """The extents of the kernel's machine: `spec` with as many blocks and returns as the program has."""
    return replace(
        spec,
        name=specialised_name(rom, spec),
        blocks=max(2, 1 << (len(rom.blocks) - 1).bit_length()),
        max_returns=max(1, *(return_tokens(block, spec.lanes) for block in rom.blocks)),
        constants=len(link_constants(rom)),
        program=program_digest(rom, spec),
    )


def specialised_name(rom: RomImage, spec: MachineSpec) -> str:
    """The name of a kernel's machine."""
    return f"{spec.name}.{rom.kernel}"


def program_digest(rom: RomImage, spec: MachineSpec) -> str:
    """Changes with anything of the program that the weights hold, not with names and source lines."""
    content = [
        (
            sorted(rom_values(spec, block, rom.serial).items()),
            [return_sequence(spec, block, active) for active in range(1, spec.lanes + 1)],
            sorted(linked_fields(block)),
        )
        for block in rom.blocks
    ]
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


def specialise(rom: RomImage, spec: MachineSpec) -> Specialised:
    """The machine over `spec` with `rom` in its weights."""
    small = specialised_spec(rom, spec)
    program = BakedProgram(rom, small)
    circuit = _with_memory(assemble(small, program), rom, small)
    blocks = [
        rom_values(small, block, rom.serial) | program.constant_inputs(number)
        for number, block in enumerate(rom.blocks)
    ]
    circuit, embedded = _merge_inputs(circuit, program.inputs, blocks)
    circuit, embedded = _folded(circuit, embedded)
    small = replace(small, head_values=_head_values(circuit))
    return Specialised(small, circuit, embedded, program.sequence_inputs())


def _with_memory(circuit: Circuit, rom: RomImage, spec: MachineSpec) -> Circuit:
    """What the program reaches, and global memory, which the host reads in the end, if no load has a copy of it."""
    pruned = prune(circuit, rom, spec)
    if any(op.name.endswith(MEMORY) for op in pruned.operations):
        return pruned
    port = next(op for op in circuit.operations if isinstance(op, Memory) and op.name.endswith(MEMORY))
    kept = replace(port, name=f"host{MEMORY}", read=Rows(), outputs=())
    return prune(replace(circuit, operations=(*circuit.operations, kept)), rom, spec)


_Blocks = tuple[Mapping[str, int], ...]


def _merge_inputs(
    circuit: Circuit, inputs: Sequence[Wire], blocks: Sequence[Mapping[str, int]]
) -> tuple[Circuit, _Blocks]:
    """Inputs with the same pattern over the blocks as one 0/1 wire: each is a multiple of it where it has one size.

    A pattern that holds in every block is EXEC's own wire.
    """
    is_exec = _exec_wire(circuit)
    patterns: dict[tuple[int, ...], Wire] = {(1,) * len(blocks): is_exec}
    forms: dict[Wire, Affine] = {}
    added: dict[str, tuple[int, ...]] = {}
    for wire in inputs:
        values = tuple(block.get(wire.name, 0) for block in blocks)
        sizes = {value for value in values if value}
        if not sizes:
            continue
        factor = sizes.pop() if len(sizes) == 1 else 1
        pattern = tuple(value // factor for value in values)
        if pattern not in patterns:
            patterns[pattern] = Wire(wire.name, 0, max(pattern))
            added[wire.name] = pattern
        forms[wire] = affine(patterns[pattern]) * factor
    merged = substitute(circuit, forms)
    kept = [wire for wire in circuit.inputs if wire not in forms]
    result = replace(merged, inputs=(*kept, *(patterns[pattern] for pattern in added.values())))
    embedded = [
        {name: pattern[number] for name, pattern in added.items() if pattern[number]}
        for number in range(len(blocks))
    ]
    return result, tuple(embedded)


def _folded(circuit: Circuit, blocks: _Blocks) -> tuple[Circuit, _Blocks]:
    """Without what the blocks, each on its own, leave no use for: units, heads, and wires that hand a form on."""
    is_exec = _exec_wire(circuit)
    before: Circuit | None = None
    while circuit != before:
        before = circuit
        baked = [wire for wire in circuit.inputs if any(wire.name in block for block in blocks)]
        states = BlockStates(circuit, baked, blocks)
        patterns = Patterns(is_exec, baked, blocks)
        circuit = forward(simplify(circuit, states.zeros, states.most), states)
        circuit = _read_inputs(_without_unread_values(by_blocks(circuit, states, patterns)))
        blocks = tuple(patterns.blocks)
    return circuit, blocks


def _exec_wire(circuit: Circuit) -> Wire:
    """EXEC's own input."""
    return next(wire for wire in circuit.inputs if wire.name == f"is.{Kind.EXEC.lower()}")


def _read_inputs(circuit: Circuit) -> Circuit:
    """Without inputs that nobody reads."""
    read = {wire for op in circuit.operations for wire in op_reads(op)}
    return replace(circuit, inputs=tuple(wire for wire in circuit.inputs if wire in read))


def _without_unread_values(circuit: Circuit) -> Circuit:
    """Wide heads store only what somebody reads; the others keep their places, which the host knows for memory."""
    return replace(
        circuit,
        operations=tuple(_compacted(op) if isinstance(op, Memory) else op for op in circuit.operations),
    )


def _compacted(op: Memory) -> Memory:
    if len(op.values) + 2 <= LEAST_HEAD_VALUES:
        return op
    used = sorted({dimension for _, terms in op.outputs for dimension, _ in terms})
    places = {dimension: place for place, dimension in enumerate(used)}
    return replace(
        op,
        values=tuple(op.values[dimension] for dimension in used),
        outputs=tuple(
            (wire, tuple((places[dimension], weight) for dimension, weight in terms))
            for wire, terms in op.outputs
        ),
    )


def _head_values(circuit: Circuit) -> int:
    """The smallest head that holds every memory's values and two of ballast."""
    most = max(len(op.values) for op in circuit.operations if isinstance(op, Memory))
    return max(LEAST_HEAD_VALUES, 1 << (most + 1).bit_length())
