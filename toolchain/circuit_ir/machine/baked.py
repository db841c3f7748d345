"""A program in the weights: ROM wires that the embedding of EXEC(b, ...) sets, and link-time constants from state.

A field that depends on the launch is read from the table of CONST records: one head a field, row = the constant's
number. The return sequence is a one-hot of the distinct sequences of the program, kept by one head or more; an entry
bit is the sum of the sequences that have it.
"""

from collections.abc import Iterator

from runtime.vocabulary import Kind
from toolchain.circuit_ir.builder import CircuitBuilder
from toolchain.circuit_ir.ir import Memory, Rows, Value, Wire, affine
from toolchain.circuit_ir.machine.context import CONSTANT_ROW, Context
from toolchain.circuit_ir.machine.front import NIBBLE, RomRow, gathered, nibbles
from toolchain.machine_spec import RETURN_ENTRY_BITS, STAGES, WORD_BITS, MachineSpec
from toolchain.mir.encoding import return_sequence
from toolchain.mir.isa import stage_layout, terminator_layout
from toolchain.mir.link_constants import ZERO, link_constants, linked_fields, symbolic_fields
from toolchain.mir.rom import RomImage

SEQUENCES = 60
"""Return sequences of one head: their values and the ballast fit a head of 64."""
Reads = list[tuple[Wire, tuple[tuple[int, float], ...]]]


class BakedProgram:
    """The program source (machine/front.py) of one ROM image over `spec`, whose constants are the image's."""

    def __init__(self, rom: RomImage, spec: MachineSpec) -> None:
        self._rom, self._spec = rom, spec
        self._symbolic = symbolic_fields(rom)
        self._constants = link_constants(rom)
        self._numbers = {value: number for number, value in enumerate(self._constants)}
        self.inputs: list[Wire] = []
        sequences = dict.fromkeys(self._sequences().values())
        self._names = {sequence: f"ret.sequence{number}" for number, sequence in enumerate(sequences)}

    def _sequences(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """Nonempty return sequences by block and number of active lanes."""
        found = {
            (number, active): return_sequence(self._spec, block, active)
            for number, block in enumerate(self._rom.blocks)
            for active in range(1, self._spec.lanes + 1)
        }
        return {key: sequence for key, sequence in found.items() if sequence}

    def sequence_inputs(self) -> dict[tuple[int, int], str]:
        """The input wire that EXEC sets, by block and number of active lanes."""
        return {key: self._names[sequence] for key, sequence in self._sequences().items()}

    def constant_inputs(self, block: int) -> dict[str, int]:
        """Input wires that EXEC of a block sets to address its link-time constants."""
        values: dict[str, int] = {}
        for name, value in linked_fields(self._rom.blocks[block]):
            if name in self._symbolic and value != ZERO:
                number = self._numbers[value]
                values[f"{name}.used"] = 1
                values |= {f"{name}.at{bit}": number >> bit & 1 for bit in range(self._number_bits)}
        return values

    @property
    def _number_bits(self) -> int:
        return max(len(self._constants) - 1, 0).bit_length()

    def _input(self, builder: CircuitBuilder, name: str, high: int = 1) -> Wire:
        wire = builder.wire(name, high=high)
        self.inputs.append(wire)
        return wire

    # --- the program source

    def return_bits(self, builder: CircuitBuilder, context: Context) -> list[Wire]:
        """Every entry bit of the sequence that the last EXEC began."""
        bits = builder.wires("ret.bit", context.spec.max_returns * RETURN_ENTRY_BITS)
        named = list(self._names.items())
        for part, first in enumerate(range(0, len(named), SEQUENCES)):
            chosen = named[first : first + SEQUENCES]
            inputs = [self._input(builder, name) for _, name in chosen]
            reads = list(_bit_reads(bits, [sequence for sequence, _ in chosen]))
            stored = tuple(Value(affine(wire)) for wire in inputs)
            enable = (context.is_exec,)
            name = f"ret.sequence{part}"
            builder.add(Memory(name, CONSTANT_ROW, enable, stored, CONSTANT_ROW, tuple(reads), unwritten=1))
        return bits

    def row(self, builder: CircuitBuilder, context: Context, row: int) -> RomRow:
        """A ROM row on an EXEC token: inputs, and constants from state where a field depends on the launch."""
        layout = stage_layout(context.spec, row) if row < STAGES else terminator_layout(context.spec)
        result = RomRow({}, {}, {})
        for name, width in (field for fields in layout for field in fields):
            self._field(builder, context, f"rom{row}.{name}", name, width, result)
        return result

    def _field(
        self, builder: CircuitBuilder, context: Context, label: str, name: str, width: int, result: RomRow
    ) -> None:
        symbolic = label in self._symbolic

        def declare(wire: str, high: int) -> Wire:
            if symbolic:
                return builder.wire(f"{label}.{wire}", high=high)
            return self._input(builder, f"{label}.{wire}", high)

        reads: Reads = []
        if width == WORD_BITS:
            wires = [declare(f"n{i}", 15) for i in range(WORD_BITS // NIBBLE)]
            reads += zip(wires, nibbles(0, width), strict=True)
            result.words[name] = tuple(wires)
        elif name.endswith(".offset"):
            low, whole = declare("low", 15), declare("all", (1 << width) - 1)
            reads += [(low, nibbles(0, NIBBLE)[0]), (whole, tuple((i, float(2**i)) for i in range(width)))]
            result.offsets[name] = (low, whole)
        else:
            result.bits[name] = tuple(declare(f"b{i}", 1) for i in range(width))
        if symbolic:
            builder.add(self._constant(builder, context, label, reads))

    def _constant(self, builder: CircuitBuilder, context: Context, label: str, reads: Reads) -> Memory:
        """Head: row = number of the constant, 32 bits, written with a CONST record's high half."""
        at = tuple(self._input(builder, f"{label}.at{bit}") for bit in range(self._number_bits))
        used = self._input(builder, f"{label}.used")
        written = Rows(tuple(affine(bit) for bit in context.record_bits[: len(at)]))
        return Memory(
            f"{label}.constant",
            written,
            (affine(context.record[Kind.CONST]), context.payload_at[2]),
            gathered(context, WORD_BITS),
            Rows(tuple(map(affine, at)), (affine(used),)),
            tuple(reads),
            sink=True,
            unwritten=len(self._constants),
        )


def _bit_reads(
    bits: list[Wire], sequences: list[tuple[int, ...]]
) -> Iterator[tuple[Wire, tuple[tuple[int, float], ...]]]:
    """For each entry bit, the sequences that have it."""
    for index, wire in enumerate(bits):
        place, bit = divmod(index, RETURN_ENTRY_BITS)
        having = tuple(
            (number, 1.0)
            for number, entries in enumerate(sequences)
            if place < len(entries) and entries[place] >> bit & 1
        )
        if having:
            yield wire, having
