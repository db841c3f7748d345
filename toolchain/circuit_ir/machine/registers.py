"""Register file, predicate file and memory ports: heads that every stage owns a copy of, all written alike."""

from runtime.vocabulary import Kind
from toolchain.circuit_ir.builder import CircuitBuilder
from toolchain.circuit_ir.ir import Affine, Memory, Rows, Value, Wire, affine, total
from toolchain.circuit_ir.machine.context import TOKEN_BITS, Context
from toolchain.circuit_ir.machine.front import NIBBLE, Returns
from toolchain.machine_spec import PREDICATES, WORD_BITS

NIBBLES = WORD_BITS // NIBBLE


WORD_PLACES = tuple(
    (bit, bit + TOKEN_BITS) if bit < TOKEN_BITS else (bit + TOKEN_BITS, 3 * TOKEN_BITS)
    for bit in range(WORD_BITS)
)
"""Value dimensions of a stored word's bits, one of which holds it, the other zero: 0..15 the low half that the token
before said, 16..31 the one that the writing token says, 32..47 its high half, 48 the sign of a short value."""


def _nibbles() -> list[tuple[tuple[int, float], ...]]:
    """Nibbles of a stored word."""
    words = []
    for index in range(NIBBLES):
        weights: dict[int, float] = {}
        for i, places in enumerate(WORD_PLACES[NIBBLE * index : NIBBLE * (index + 1)]):
            for place in places:
                weights[place] = weights.get(place, 0) + 2.0**i
        words.append(tuple(weights.items()))
    return words


def register_port(
    builder: CircuitBuilder, context: Context, returns: Returns, name: str, register: tuple[Wire, ...]
) -> list[list[Wire]]:
    """Reads `register` of the EXEC token's warp in every lane: [lane][nibble]. One head a lane.

    Row = (warp, register). A write comes with the value's last token: its low half from the token before or, if narrow
    or short, from this one (see WORD_PLACES). What does not belong is shut out by the flags of what it is instead: they
    are exactly 0 for what does, so that a stored bit is exact.
    """
    spec = context.spec
    raw = [affine(bit) for bit in context.raw]
    short = context.is_short
    no_low_half = total([returns.high, returns.narrow, returns.predicates, context.is_exec, short])
    values = [Value(bit - 2 * no_low_half, 1) for bit in raw]
    values += [Value(bit - 2 * affine(returns.high)) for bit in raw]
    values += [Value(bit - 2 * affine(returns.narrow) - 2 * short) for bit in raw]
    values.append(Value(context.sign))
    last = affine(returns.high) + returns.narrow + short
    warp = tuple(affine(bit) for bit in context.warp)
    written = Rows(
        (*(affine(bit) for bit in returns.register), *warp),
        complements=(*(affine(bit) for bit in returns.register_not), *(1 - bit for bit in warp)),
    )
    ports = []
    for lane in range(spec.lanes):
        wires = builder.wires(f"{name}.l{lane}.n", NIBBLES, high=15)
        enable = (context.is_payload, affine(context.record[Kind.EXEC]), affine(returns.lane[lane]), last)
        builder.add(
            Memory(
                f"{name}.l{lane}",
                written,
                enable,
                tuple(values),
                Rows((*(affine(bit) for bit in register), *warp), (context.is_exec,)),
                tuple(zip(wires, _nibbles(), strict=True)),
                sink=True,
                unwritten=0,
            )
        )
        ports.append(wires)
    return ports


def predicate_file(builder: CircuitBuilder, context: Context, returns: Returns) -> list[list[Wire]]:
    """The EXEC token's warp's predicate registers: [lane][register]. Row = warp; written by the predicate word."""
    spec = context.spec
    count = spec.lanes * PREDICATES
    wires = builder.wires("pred.file", count)
    warp = tuple(affine(bit) for bit in context.warp)
    enable = (context.is_payload, affine(context.record[Kind.EXEC]), affine(returns.predicates))
    builder.add(
        Memory(
            "pred.file",
            Rows(warp),
            enable,
            tuple(Value(affine(bit)) for bit in context.raw[:count]),
            Rows(warp, (context.is_exec,)),
            tuple((wire, ((index, 1.0),)) for index, wire in enumerate(wires)),
            sink=True,
            unwritten=spec.warps,
        )
    )
    return [wires[lane * PREDICATES : (lane + 1) * PREDICATES] for lane in range(spec.lanes)]


def load_port(
    builder: CircuitBuilder,
    context: Context,
    name: str,
    address: list[Wire],
    enable: Affine,
    wires: list[Wire],
    *,
    shared: bool = False,
) -> None:
    """wires += one lane's word of a memory at a word address given in bits, where enabled. One head.

    Row = word address, of the record that MEM or SMEM opened. Its last token writes: the low half one token back, or a
    short value whole. Shared memory is zero when a thread block begins.
    """
    record, words = (
        (Kind.SMEM, context.spec.shared_words) if shared else (Kind.MEM, context.spec.memory_words)
    )
    payload, short = context.is_payload, context.is_short
    raw = [affine(bit) for bit in context.raw]
    values = [Value(bit + payload - 1, 1) for bit in raw]
    values += [Value(bit + short - 1) for bit in raw]
    values += [Value(bit - short) for bit in raw]
    values.append(Value(context.sign))
    builder.add(
        Memory(
            name,
            Rows(tuple(affine(bit) for bit in context.record_bits[: context.spec.address_bits])),
            (payload, affine(context.record[record]), context.payload_at[2]),
            tuple(values),
            Rows(tuple(affine(bit) for bit in address), (enable,)),
            tuple(zip(wires, _nibbles(), strict=True)),
            wipe=affine(context.kind[Kind.CTA]) if shared else None,
            unwritten=words,
        )
    )
