"""Layer 1: what a token is, which block, warp and lanes it belongs to, and how long ago that began.

A header token (anything but VAL and SHORT) opens a record; the tokens after it are its payload and know their place
by age. EXEC opens a sequence of returns whose place counts through MEM records as well, so it has an age of its own.
A SHORT says both halves of a value: it counts for two, and stands where the high half would.
"""

from dataclasses import dataclass

from runtime.vocabulary import Kind, Vocabulary
from toolchain.circuit_ir.builder import CircuitBuilder, LogicBuilder, negate
from toolchain.circuit_ir.ir import Affine, Age, Memory, Rows, Value, Wire, affine, total
from toolchain.machine_spec import CHUNK_BITS, MachineSpec
from toolchain.mir.isa import stage_layout

TOKEN_BITS = 16


@dataclass(frozen=True)
class Context:
    """Wires every later circuit may read. Bits are little-endian.

    `entry_at[n]` is 1 when the current token is the n-th after EXEC (n from 1), `next_at[n]` when the next one is.
    `payload_at[n]` is 1 on the n-th token of a record's payload. `rank[k][l]`: lane l is the k-th active lane.
    """

    spec: MachineSpec
    raw: tuple[Wire, ...]
    kind: dict[Kind, Wire]
    block: tuple[Wire, ...]
    warp: tuple[Wire, ...]
    mask: tuple[Wire, ...]
    record: dict[Kind, Wire]
    record_bits: tuple[Wire, ...]
    thread_block: tuple[Wire, ...]
    entry_at: dict[int, Affine]
    next_at: dict[int, Affine]
    payload_at: dict[int, Affine]
    rank: dict[tuple[int, int], Wire]
    active: tuple[Wire, ...]

    @property
    def is_exec(self) -> Affine:
        return affine(self.kind[Kind.EXEC])

    @property
    def is_payload(self) -> Affine:
        """VAL or SHORT."""
        return affine(self.kind[Kind.VAL])

    @property
    def is_short(self) -> Affine:
        return affine(self.kind[Kind.SHORT])

    @property
    def sign(self) -> Affine:
        """A SHORT's sign, which all bits of its high half are; at most 0 in any other token."""
        return affine(self.raw[-1]) + self.is_short - 1


CONSTANT_ROW = Rows()
"""Row 0: a head that holds one thing."""


def latch(
    builder: CircuitBuilder, name: str, enable: list[Affine], values: list[Affine], outputs: list[Wire]
) -> None:
    """outputs = the `values` of the last token where every form of `enable` was 1, this one included. One head."""
    reads = tuple((wire, ((index, 1.0),)) for index, wire in enumerate(outputs))
    stored = tuple(Value(value) for value in values)
    builder.add(Memory(name, CONSTANT_ROW, tuple(enable), stored, CONSTANT_ROW, reads, unwritten=1))


def age_thresholds(
    builder: CircuitBuilder, name: str, event: Affine, points: list[int], twice: Affine | None = None
) -> dict[int, Wire]:
    """over[n] = [age > n] for each n of `points`: y = 2**(n - age); relu(3.5 - 4y) - relu(2.5 - 4y).

    y is 1 or more where age <= n and 1/2 or less elsewhere, so the difference is flat around every value. A token
    where `twice` is 1 ages by two.
    """
    age = builder.wire(f"{name}.age")
    builder.add(Age(f"{name}.age", event, age, twice))
    logic = LogicBuilder(f"{name}.over")
    over: dict[int, Wire] = {}
    for point in points:
        over[point] = builder.wire(f"{name}.over{point}")
        scaled = affine(age) * (4 * 2.0**point)
        logic.relu(3.5 - scaled, {over[point]: 1})
        logic.relu(2.5 - scaled, {over[point]: -1})
    builder.add(logic)
    return over


def lane_ranks(builder: CircuitBuilder, name: str, enabled: list[Wire]) -> dict[tuple[int, int], Wire]:
    """rank[k, l] = enabled[l] and exactly k enabled lanes before l: a triangle of the prefix sum, three units."""
    logic = LogicBuilder(name)
    ranks = {}
    for lane, bit in enumerate(enabled):
        before = total(enabled[:lane])
        for k in range(lane + 1):
            wire = builder.wire(f"{name}{k}.l{lane}")
            distance = before - k + 8 * (affine(bit) - 1)
            for offset, weight in ((1, 1.0), (0, -2.0), (-1, 1.0)):
                logic.relu(distance + offset, {wire: weight})
            ranks[k, lane] = wire
    builder.add(logic)
    return ranks


def _active_count(builder: CircuitBuilder, mask: list[Wire]) -> list[Wire]:
    """Bits of (number of active lanes - 1), the LIVE row within a block."""
    bits = builder.wires("ctx.active", max(len(mask).bit_length() - 1, 1))
    logic = LogicBuilder("ctx.active")
    for count in range(2, len(mask) + 1):
        value, before = count - 1, count - 2
        outputs = {bits[j]: float((value >> j & 1) - (before >> j & 1)) for j in range(len(bits))}
        logic.step(total(mask) - count, outputs)
    builder.add(logic)
    return bits


def build_context(builder: CircuitBuilder, spec: MachineSpec) -> Context:
    """Layer 1. Heads: three latches and two age counters."""
    vocabulary = Vocabulary(spec)
    raw = builder.wires("raw", TOKEN_BITS)
    kind = {k: builder.wire(f"is.{k.lower()}") for k in vocabulary.kinds()}
    warp_at, mask_at = vocabulary.block_bits, vocabulary.block_bits + vocabulary.warp_bits
    block = builder.wires("ctx.block", warp_at)
    warp = builder.wires("ctx.warp", vocabulary.warp_bits)
    mask = builder.wires("ctx.mask", spec.lanes)
    fields = [affine(bit) for bit in raw[: mask_at + spec.lanes]]
    latch(builder, "ctx.exec", [affine(kind[Kind.EXEC])], fields, [*block, *warp, *mask])

    header = negate(kind[Kind.VAL])
    kinds = [k for k in kind if k not in (Kind.VAL, Kind.SHORT, Kind.CTA)]
    record = {k: builder.wire(f"rec.{k.lower()}") for k in kinds}
    record_bits = builder.wires("rec.bit", max(vocabulary.block_bits + 3, spec.address_bits))
    values = [affine(kind[k]) for k in kinds] + [affine(bit) for bit in raw[: len(record_bits)]]
    latch(builder, "ctx.record", [header], values, [*record.values(), *record_bits])

    thread_block = builder.wires("ctx.cta", spec.thread_blocks.bit_length() - 1)
    latch(
        builder,
        "ctx.cta",
        [affine(kind[Kind.CTA])],
        [affine(b) for b in raw[: len(thread_block)]],
        thread_block,
    )

    twice = affine(kind[Kind.SHORT])
    points = list(range(spec.max_returns + 1))
    over = age_thresholds(builder, "exec", affine(kind[Kind.EXEC]), points, twice)
    entry_at = {n: affine(over[n - 1]) - over[n] for n in range(1, spec.max_returns + 1)}
    begins = affine(kind[Kind.CTA])  # its age is stale, and the last sequence may have left stores out
    next_at = {n + 1: form - begins for n, form in entry_at.items() if n < spec.max_returns}
    next_at[1] = affine(kind[Kind.EXEC])
    places = _payload_places(spec)
    since = age_thresholds(builder, "record", header, sorted({p - 1 for p in places} | set(places)), twice)
    payload_at = {n: affine(since[n - 1]) - since[n] for n in places}
    return Context(
        spec, tuple(raw), kind, tuple(block), tuple(warp), tuple(mask), record, tuple(record_bits),
        tuple(thread_block), entry_at, next_at, payload_at, lane_ranks(builder, "ctx.rank", mask),
        tuple(_active_count(builder, mask)),
    )  # fmt: skip


def _payload_places(spec: MachineSpec) -> list[int]:
    """Payload positions at which something is written: pairs (2) and chunks of four tokens."""
    tokens = CHUNK_BITS // TOKEN_BITS
    chunks = max(len(stage_layout(spec, 0)), -(-spec.max_returns // tokens))
    return [2, *(tokens * (index + 1) for index in range(chunks))]
