"""Register file, predicate file and memory ports: heads that every stage owns a copy of, all written alike."""

from runtime.vocabulary import Kind
from toolchain.circuit_ir.builder import CircuitBuilder
from toolchain.circuit_ir.ir import Affine, Memory, Rows, Value, Wire, affine, total
from toolchain.circuit_ir.machine.context import TOKEN_BITS, Context
from toolchain.circuit_ir.machine.front import NIBBLE, Returns, nibbles
from toolchain.machine_spec import PREDICATES, WORD_BITS

NIBBLES = WORD_BITS // NIBBLE


def _halves() -> list[tuple[tuple[int, float], ...]]:
    """Nibbles of a word stored as low half (two alternatives, one of them zero) and high half."""
    low, alternative, high = 0, TOKEN_BITS, 2 * TOKEN_BITS
    words = []
    for index in range(NIBBLES):
        base, bits = (index * NIBBLE) % TOKEN_BITS, range(NIBBLE)
        places = (low, alternative) if index < NIBBLES // 2 else (high,)
        words.append(tuple((place + base + i, float(2**i)) for place in places for i in bits))
    return words


def register_port(
    builder: CircuitBuilder, context: Context, returns: Returns, name: str, register: tuple[Wire, ...]
) -> list[list[Wire]]:
    """Reads `register` of the EXEC token's warp in every lane: [lane][nibble]. One head a lane.

    Row = (warp, register). A write comes with the value's last token: its low half from the token before (stored in
    dimensions 0..15), or, if narrow, from this one (16..31) with the high half (32..47) zero. What does not belong is
    shut out by the flags of what it is instead: they are exactly 0 for what does, so that a stored bit is exact.
    """
    spec = context.spec
    raw = [affine(bit) for bit in context.raw]
    no_low_half = total([returns.high, returns.narrow, returns.predicates, context.is_exec])
    values = [Value(bit - 2 * no_low_half, 1) for bit in raw]
    values += [Value(bit - 2 * affine(returns.high)) for bit in raw]
    values += [Value(bit - 2 * affine(returns.narrow)) for bit in raw]
    last = affine(returns.high) + returns.narrow
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
                tuple(zip(wires, _halves(), strict=True)),
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

    Row = word address. MEM(a) lo hi, or SMEM, writes with its third token: address two tokens back, low half one
    back. Shared memory is zero when a thread block begins.
    """
    record, words = (
        (Kind.SMEM, context.spec.shared_words) if shared else (Kind.MEM, context.spec.memory_words)
    )
    low = [Value(affine(bit), 1) for bit in context.raw]
    high = [Value(affine(bit)) for bit in context.raw]
    builder.add(
        Memory(
            name,
            Rows(tuple(affine(bit) for bit in context.raw[: context.spec.address_bits]), tap=2),
            (context.is_payload, affine(context.record[record]), context.payload_at[2]),
            (*low, *high),
            Rows(tuple(affine(bit) for bit in address), (enable,)),
            tuple(zip(wires, nibbles(0, WORD_BITS), strict=True)),
            wipe=affine(context.kind[Kind.CTA]) if shared else None,
            unwritten=words,
        )
    )
