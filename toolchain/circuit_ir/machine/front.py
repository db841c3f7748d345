"""Layers 2 and 3: the return table (what this token is, what the next one says), program ROM, special registers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from runtime.vocabulary import Kind
from toolchain.circuit_ir.builder import CircuitBuilder, LogicBuilder, weighted
from toolchain.circuit_ir.ir import Affine, Memory, Rows, Value, Wire, affine
from toolchain.circuit_ir.machine.context import TOKEN_BITS, Context
from toolchain.machine_spec import CHUNK_BITS, RETURN_ENTRY_BITS, STAGES, WORD_BITS
from toolchain.mir.encoding import ENTRY_HIGH, ENTRY_NARROW, ENTRY_RANK
from toolchain.mir.isa import stage_layout, terminator_layout

NIBBLE = 4
CODE_BITS = 5
REGISTER_AT = 5


@dataclass(frozen=True)
class Returns:
    """The return entry of this token and of the next (`code`, `next_*`).

    `high` (a VAL with a high half), `narrow` and a SHORT are register writes.
    `register_not` are the complements of `register` where there is an entry: of the two, one is exactly 0.
    """

    register: tuple[Wire, ...]
    register_not: tuple[Wire, ...]
    high: Wire
    narrow: Wire
    predicates: Wire
    lane: tuple[Wire, ...]
    code: tuple[Wire, ...]
    next_high: Wire
    next_narrow: Wire
    next_rank: tuple[Wire, ...]
    next_lane: tuple[Wire, ...]


def gathered(context: Context, bits: int, last: int = 0) -> tuple[Value, ...]:
    """`bits` bits of consecutive payload tokens, the last of which is `last` tokens back."""
    tokens = -(-bits // TOKEN_BITS)
    return tuple(
        Value(affine(context.raw[position % TOKEN_BITS]), last + tokens - 1 - position // TOKEN_BITS)
        for position in range(bits)
    )


def nibbles(first: int, bits: int) -> list[tuple[tuple[int, float], ...]]:
    """Value dimensions first .. first + bits - 1 as sums of up to four bits each."""
    return [
        tuple((first + base + i, float(2**i)) for i in range(min(NIBBLE, bits - base)))
        for base in range(0, bits, NIBBLE)
    ]


def return_table(builder: CircuitBuilder, context: Context) -> list[Wire]:
    """All entry bits of (block, active lanes): one head a chunk of four entries, row = block and count."""
    spec, per_chunk = context.spec, CHUNK_BITS // RETURN_ENTRY_BITS
    bits = builder.wires("ret.bit", spec.max_returns * RETURN_ENTRY_BITS)
    row_bits = len(context.block) + len(context.active)
    free = 1 << row_bits if 1 << row_bits < spec.head_rows else None
    for chunk in range(-(-spec.max_returns // per_chunk)):
        outputs = bits[chunk * CHUNK_BITS : (chunk + 1) * CHUNK_BITS]
        builder.add(
            Memory(
                f"ret.table{chunk}",
                Rows(tuple(affine(bit) for bit in context.record_bits[:row_bits])),
                (affine(context.record[Kind.LIVE]), context.payload_at[per_chunk * (chunk + 1)]),
                gathered(context, CHUNK_BITS),
                Rows(tuple(affine(bit) for bit in (*context.block, *context.active))),
                tuple((wire, ((index, 1.0),)) for index, wire in enumerate(outputs)),
                unwritten=free,
            )
        )
    return bits


def build_returns(builder: CircuitBuilder, context: Context, bits: list[Wire]) -> Returns:
    """Layer 2: from a table row's `bits`, by age alone the current entry and the next: ANDs of one age and one bit.

    Steps, not relus: they take the age counter's rounding away.
    """
    spec = context.spec
    returns = _return_wires(builder, context)
    logic = LogicBuilder("ret.pick")
    for index in range(1, spec.max_returns + 1):
        entry = bits[(index - 1) * RETURN_ENTRY_BITS : index * RETURN_ENTRY_BITS]
        rank = entry[ENTRY_RANK : ENTRY_RANK + spec.lanes]
        high, narrow, special = entry[ENTRY_HIGH], entry[ENTRY_NARROW], entry[CODE_BITS - 1]
        here, following = context.entry_at[index], context.next_at[index]
        for wire, bit in zip(returns.register, entry[REGISTER_AT:], strict=False):
            logic.step(here + bit - 2, {wire: 1})
        for wire, bit in zip(returns.register_not, entry[REGISTER_AT:], strict=False):
            logic.step(here - bit - 1, {wire: 1})
        logic.step(here + high - context.is_short - 2, {returns.high: 1})
        logic.step(here + narrow - 2, {returns.narrow: 1})
        logic.step(here + special - entry[0] - entry[1] - 2, {returns.predicates: 1})
        for (k, lane), ranked in context.rank.items():
            logic.step(here + rank[k] + ranked - 3, {returns.lane[lane]: 1})
        for wire, bit in zip(returns.code, entry[:CODE_BITS], strict=True):
            logic.step(following + bit - 2, {wire: 1})
        logic.step(following + high - 2, {returns.next_high: 1})
        logic.step(following + narrow - 2, {returns.next_narrow: 1})
        for k, wire in enumerate(returns.next_rank):
            uniform = affine(rank[0]) if k else Affine()
            logic.step(following + rank[k] - uniform - 2, {wire: 1})
    builder.add(logic)
    lanes = LogicBuilder("ret.nextlane")
    for (k, lane), ranked in context.rank.items():
        lanes.relu(affine(returns.next_rank[k]) + ranked - 1, {returns.next_lane[lane]: 1})
    builder.add(lanes)
    return returns


def _return_wires(builder: CircuitBuilder, context: Context) -> Returns:
    spec = context.spec
    return Returns(
        tuple(builder.wires("ret.register", spec.registers.bit_length() - 1)),
        tuple(builder.wires("ret.registernot", spec.registers.bit_length() - 1)),
        builder.wire("ret.high"),
        builder.wire("ret.narrow"),
        builder.wire("ret.predicates"),
        tuple(builder.wires("ret.lane", spec.lanes)),
        tuple(builder.wires("next.code", CODE_BITS)),
        builder.wire("next.high"),
        builder.wire("next.narrow"),
        tuple(builder.wires("next.rank", spec.lanes)),
        tuple(builder.wires("next.lane", spec.lanes)),
    )


@dataclass(frozen=True)
class RomRow:
    """A ROM row's fields on an EXEC token, zero on any other: bits, and for immediates and offsets integers.

    `bits[name]` are the field's bits; `words[name]` a 32-bit immediate's nibbles; `offsets[name]` a word offset as
    (its low nibble, its whole value).
    """

    bits: dict[str, tuple[Wire, ...]]
    words: dict[str, tuple[Wire, ...]]
    offsets: dict[str, tuple[Wire, Wire]]

    def line(self, name: str) -> Wire:
        """A one-bit field."""
        return self.bits[name][0]


def read_rom(builder: CircuitBuilder, context: Context, row: int) -> RomRow:
    """One ROM row: a head a chunk, row = block. Written by PROG(b, row) payloads, read by EXEC."""
    layout = stage_layout(context.spec, row) if row < STAGES else terminator_layout(context.spec)
    result = RomRow({}, {}, {})
    for chunk, fields in enumerate(layout):
        builder.add(_rom_chunk(builder, context, row, chunk, fields, result))
    return result


def _rom_chunk(
    builder: CircuitBuilder,
    context: Context,
    row: int,
    chunk: int,
    fields: tuple[tuple[str, int], ...],
    result: RomRow,
) -> Memory:
    outputs: list[tuple[Wire, tuple[tuple[int, float], ...]]] = []
    position = 0
    for name, width in fields:
        label = f"rom{row}.{name}."
        if width == WORD_BITS:
            wires = builder.wires(label + "n", WORD_BITS // NIBBLE, high=15)
            outputs += zip(wires, nibbles(position, width), strict=True)
            result.words[name] = tuple(wires)
        elif name.endswith(".offset"):
            low, whole = (
                builder.wire(label + "low", high=15),
                builder.wire(label + "all", high=(1 << width) - 1),
            )
            outputs.append((low, nibbles(position, NIBBLE)[0]))
            outputs.append((whole, tuple((position + i, float(2**i)) for i in range(width))))
            result.offsets[name] = (low, whole)
        else:
            wires = builder.wires(label + "b", width)
            outputs += [(wire, ((position + i, 1.0),)) for i, wire in enumerate(wires)]
            result.bits[name] = tuple(wires)
        position += width
    block_bits = len(context.block)
    row_bits = context.record_bits[block_bits : block_bits + 3]
    is_row = [affine(bit) if row >> i & 1 else 1 - affine(bit) for i, bit in enumerate(row_bits)]
    enable = (
        affine(context.record[Kind.PROG]),
        *is_row,
        context.payload_at[CHUNK_BITS // TOKEN_BITS * (chunk + 1)],
    )
    return Memory(
        f"rom{row}.chunk{chunk}",
        Rows(tuple(affine(bit) for bit in context.record_bits[:block_bits])),
        enable,
        gathered(context, CHUNK_BITS),
        Rows(tuple(affine(bit) for bit in context.block), (context.is_exec,)),
        tuple(outputs),
        sink=True,
        unwritten=context.spec.blocks,
    )


class ProgramSource(Protocol):
    """Where the program's bits come from. `inputs`: wires it adds to a token's embedding."""

    @property
    def inputs(self) -> Sequence[Wire]: ...

    def return_bits(self, builder: CircuitBuilder, context: Context) -> list[Wire]:
        """All entry bits of the last EXEC's block and number of lanes."""
        ...

    def row(self, builder: CircuitBuilder, context: Context, row: int) -> RomRow:
        """A ROM row on an EXEC token."""
        ...


class StateProgram:
    """A program that is state: the host writes it in PROG and LIVE records."""

    inputs: tuple[Wire, ...] = ()

    def return_bits(self, builder: CircuitBuilder, context: Context) -> list[Wire]:
        return return_table(builder, context)

    def row(self, builder: CircuitBuilder, context: Context, row: int) -> RomRow:
        return read_rom(builder, context, row)


Special = Callable[[str, int], list[Affine]]


def build_specials(builder: CircuitBuilder, context: Context) -> Special:
    """Special registers on EXEC tokens. Returns special(name, lane) -> nibbles, low first."""
    spec = context.spec
    warp_values: dict[tuple[str, int], list[Wire]] = {}
    outputs: list[tuple[Wire, tuple[tuple[int, float], ...]]] = []
    for lane in range(spec.lanes):
        for axis, name in enumerate("xyz"):
            wires = builder.wires(f"tid.{name}.l{lane}.n", 2, high=15)
            outputs += zip(wires, nibbles(15 * lane + 5 * axis, 5), strict=True)
            warp_values[f"tid.{name}", lane] = wires
    width = 15 * spec.lanes
    enable = (affine(context.record[Kind.WARP]), context.payload_at[4])
    row = Rows(tuple(affine(bit) for bit in context.record_bits[: len(context.warp)]))
    read = Rows(tuple(affine(bit) for bit in context.warp), (context.is_exec,))
    values = gathered(context, CHUNK_BITS)[:width]
    builder.add(
        Memory("special.tid", row, enable, values, read, tuple(outputs), sink=True, unwritten=spec.warps)
    )
    grid = _grid_indices(builder, context)

    def special(name: str, lane: int) -> list[Affine]:
        if name.startswith("tid"):
            return [affine(wire) for wire in warp_values[name, lane]]
        if name.startswith("ctaid"):
            return [affine(wire) for wire in grid[name]]
        if name == "laneid":
            return [Affine(constant=lane)]
        return [weighted(context.warp)]

    return special


def grid_rows(context: Context) -> tuple[Rows, tuple[Affine, ...], tuple[Value, ...]]:
    """Write side of the GRID table: row = thread block, 32 bits."""
    bits = tuple(affine(bit) for bit in context.record_bits[: len(context.thread_block)])
    enable = (affine(context.record[Kind.GRID]), context.payload_at[2])
    return Rows(bits), enable, gathered(context, WORD_BITS)


def _grid_indices(builder: CircuitBuilder, context: Context) -> dict[str, list[Wire]]:
    width = len(context.thread_block)
    rows, enable, values = grid_rows(context)
    grid, outputs = {}, []
    for axis, name in enumerate("xyz"):
        wires = builder.wires(f"ctaid.{name}.n", -(-width // NIBBLE), high=15)
        outputs += zip(wires, nibbles(width * axis, width), strict=True)
        grid[f"ctaid.{name}"] = wires
    read = Rows(tuple(affine(bit) for bit in context.thread_block), (context.is_exec,))
    free = context.spec.thread_blocks
    stored = values[: 3 * width]
    builder.add(
        Memory("special.ctaid", rows, enable, stored, read, tuple(outputs), sink=True, unwritten=free)
    )
    return grid
