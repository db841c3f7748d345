"""The last five layers: branches, stores, results into state, the next warp and block, and the token to say.

    1  each lane's branch, new predicates, the store's operands and lanes
    2  lanes that left (state), live warps; the store's address and which lane is the k-th to store
    3  the next warp; stores compacted
    4  program counters (state), the smallest one; what the token says
    5  the next EXEC's lanes, and the token's bits

Layers 2 to 5 run in every token, on the state that the last EXEC left.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from runtime.vocabulary import Kind
from toolchain.circuit_ir.builder import (
    CircuitBuilder,
    Form,
    LogicBuilder,
    match,
    select,
    staircase_bits,
    total,
)
from toolchain.circuit_ir.ir import Affine, Memory, Rows, Value, Wire, affine
from toolchain.circuit_ir.machine.context import CONSTANT_ROW, Context, lane_ranks, latch
from toolchain.circuit_ir.machine.front import NIBBLE, Returns, RomRow, gathered, grid_rows
from toolchain.circuit_ir.machine.registers import NIBBLES, register_port
from toolchain.circuit_ir.machine.stage import (
    Results,
    forwarded,
    predicate_value,
    select_address,
    select_operand,
)
from toolchain.machine_spec import PREDICATES, STAGES, WORD_BITS, MachineSpec
from toolchain.mir.isa import (
    NOTHING,
    RETURN_PREDICATES,
    RETURN_STORE,
    SourceKind,
    predicate_sources,
    return_sources,
    store_sources,
)

CTA_BIT, MEM_BIT, SMEM_BIT = 12, 13, 14
"""Raw bits that tell CTA, MEM and SMEM from EXEC in the output code."""


def _even_rows(spec: MachineSpec, least: int) -> int:
    """Rows to read at once, at least `least`: a power of two that, times a head's rows, is a power of four."""
    rows = 1 << (least - 1).bit_length()
    return rows if (rows * spec.head_rows).bit_length() % 2 else 2 * rows


@dataclass(frozen=True)
class Branches:
    """Layer 1: per lane, does the branch hold; per lane, does it store."""

    taken: list[Wire]
    stores: list[Wire]


@dataclass(frozen=True)
class NextWarp:
    """Layer 3: the next warp's bits (zero if none), the lanes that exist in it, and whether there is one."""

    bits: list[Wire]
    lanes: list[Wire]
    any: Wire


@dataclass(frozen=True)
class Counters:
    """Layer 4: each lane's one-hot next block, and which lane has not started (`fresh`: it is at block 0).

    below[k]: some lane's block is at most k. after[l]: lanes before l that go to the same serial block as l.
    """

    onehot: list[list[Wire]]
    fresh: list[Affine]
    below: list[Wire]
    after: list[Wire]


class BackBuilder:
    """Builds the back; `run` returns the output code: 16 bits and the header bit."""

    def __init__(
        self, builder: CircuitBuilder, context: Context, returns: Returns, row: RomRow, results: Results
    ) -> None:
        self.builder = builder
        self.context = context
        self.returns = returns
        self.row = row
        self.results = results
        self.lanes = range(context.spec.lanes)

    def run(self) -> list[Wire]:
        branches = self._branches()
        self._return_predicates()
        self._return_values()
        self._stores(branches)
        chosen = self._next_warp(*self._live_warps(branches))
        counters = self._program_counters(branches, chosen)
        return self._token(chosen, counters)

    # --- layer 1

    def _branches(self) -> Branches:
        row, context = self.row, self.context
        logic = LogicBuilder("back.branch")
        taken = self.builder.wires("back.taken", len(self.lanes))
        stores = self.builder.wires("st.lane", len(self.lanes))
        negated, enable = row.line("st.guardneg"), row.line("st.enable")
        for lane in self.lanes:
            active = affine(context.mask[lane]) + enable - 2
            for code, source in enumerate(predicate_sources(STAGES)):
                value = predicate_value(self.results, source, lane)
                logic.relu(match(row.bits["branch"], code) + value, {taken[lane]: 1})
                here = match(row.bits["st.guard"], code) + active
                logic.relu(here + value - negated, {stores[lane]: 1})
                logic.relu(here - value + negated, {stores[lane]: 1})
        self.builder.add(logic)
        return Branches(taken, stores)

    def _return_predicates(self) -> None:
        """The predicate word: new values in active lanes where coded, the old ones elsewhere; one nibble a lane."""
        logic = LogicBuilder("back.predicates")
        word = self.builder.wires("pred.word.n", len(self.lanes), high=15)
        for lane in self.lanes:
            active = affine(self.context.mask[lane])
            for index in range(PREDICATES):
                old, code = self.results.file[lane][index], self.row.bits[f"p{index}"]
                output = {word[lane]: 2.0**index}
                logic.relu(affine(old) - active, output)
                logic.relu(match(code, 0) + old + active - 1, output)
                for value, source in enumerate(predicate_sources(STAGES)):
                    if value:
                        new = predicate_value(self.results, source, lane)
                        logic.relu(match(code, value) + new + active - 1, output)
        self.builder.add(logic)
        self.said = self.builder.wires("out.pred.n", len(self.lanes), high=15)
        self._result_head("out.pred", RETURN_PREDICATES, word, self.said)

    # --- layer 2

    def _result_head(self, name: str, code: int, stored: Sequence[Form], outputs: list[Wire]) -> None:
        """Keeps an EXEC's result; read by the token before the one that says it (its next entry has `code`)."""
        read = Rows(literals=(match(self.returns.code, code) + 1,))
        values = tuple(Value(affine(wire)) for wire in stored)
        reads = tuple((wire, ((index, 1.0),)) for index, wire in enumerate(outputs))
        self.builder.add(
            Memory(name, CONSTANT_ROW, (self.context.is_exec,), values, read, reads, unwritten=1)
        )

    def _return_values(self) -> None:
        self.value = [self.builder.wires(f"out.l{lane}.n", NIBBLES, high=15) for lane in self.lanes]
        outputs = [wire for lane in self.value for wire in lane]
        for index, source in enumerate(return_sources()):
            stored = [wire for lane in self.lanes for wire in forwarded(self.results, source, lane)]
            self._result_head(f"out.{source}", index + 1, stored, outputs)

    def _live_warps(self, branches: Branches) -> tuple[list[Wire], list[Wire]]:
        """[some lane of the warp has not exited] for each warp, and [the lane exists] for each warp and lane."""
        spec, exists = self.context.spec, self._existing_lanes()
        exited = [self._exited_warps(lane, branches.taken[lane]) for lane in self.lanes]
        logic = LogicBuilder("warp.live")
        live = self.builder.wires("warp.live", spec.warps)
        for warp in range(spec.warps):
            left = total(affine(exists[spec.lanes * warp + lane]) - exited[lane][warp] for lane in self.lanes)
            logic.step(left - 1, {live[warp]: 1})
        self.builder.add(logic)
        return live, exists

    def _existing_lanes(self) -> list[Wire]:
        """Head: INIT's bits."""
        context = self.context
        exists = self.builder.wires("lane.exists", context.spec.lanes * context.spec.warps)
        enable = (affine(context.record[Kind.INIT]), context.payload_at[2])
        values = gathered(context, WORD_BITS)[: len(exists)]
        reads = tuple((wire, ((index, 1.0),)) for index, wire in enumerate(exists))
        self.builder.add(
            Memory("lane.exists", CONSTANT_ROW, enable, values, CONSTANT_ROW, reads, sink=True, unwritten=1)
        )
        return exists

    def _exited_warps(self, lane: int, taken: Wire) -> list[Wire]:
        """Head: the warps whose `lane` has exited. Row = warp, dimension = warp, so that all rows are read at once."""
        context, warps = self.context, self.context.spec.warps
        begins = affine(context.kind[Kind.CTA])
        jumps = affine(taken) + self.row.line("exit1"), 1 - affine(taken) + self.row.line("exit0")
        values = [Value(jump + match(context.warp, warp) - 1) for jump in jumps for warp in range(warps)]
        enable = 2 * begins + context.is_exec + context.mask[lane] - 1
        exited = self.builder.wires(f"lane.exited.l{lane}.w", warps)
        self.builder.add(
            Memory(
                f"lane.exited.l{lane}",
                Rows((*map(affine, context.warp), begins)),
                (enable,),
                tuple(values),
                Rows(every=_even_rows(self.context.spec, 2 * warps)),
                tuple((wire, ((w, 1.0), (w + warps, 1.0))) for w, wire in enumerate(exited)),
                wipe=begins,
                anchor=begins,
            )
        )
        return exited

    # --- layers 2 and 3: stores

    def _stores(self, branches: Branches) -> None:
        """Address and data of each lane's store, then the k-th storing lane's record in head k."""
        spec = self.context.spec
        address, data = self._store_operands()
        ranks = lane_ranks(self.builder, "st.rank", branches.stores)
        logic = LogicBuilder("st.address")
        where = [self._store_address(logic, lane, address[lane]) for lane in self.lanes]
        self.builder.add(logic)
        logic = LogicBuilder("st.compact")
        self.stored = self.builder.wires("out.store.n", 2 + NIBBLES, high=15)
        self.store_valid = self.builder.wire("out.store.valid")
        self.store_shared = self.builder.wire("out.store.shared")
        records = []
        for k in self.lanes:
            record = self.builder.wires(f"st.k{k}.n", 2 + NIBBLES, high=15)
            valid = self.builder.wire(f"st.k{k}.valid")
            for lane in range(k, spec.lanes):
                logic.relu(ranks[k, lane], {valid: 1})
                for wire, part in zip(record, (*where[lane], *data[lane]), strict=True):
                    logic.relu(ranks[k, lane], {wire: 1}, up=part)
            records.append((*record, valid))
        self.builder.add(logic)
        for k, record in enumerate(records):
            read = Rows(literals=(affine(self.returns.next_rank[k]), affine(self.returns.code[-1])))
            outputs = *self.stored, self.store_valid, self.store_shared
            reads = tuple((wire, ((i, 1.0),)) for i, wire in enumerate(outputs))
            shared = affine(record[-1]) + self.row.line("st.shared") - 1
            values = tuple(Value(form) for form in (*map(affine, record), shared))
            self.builder.add(
                Memory(
                    f"out.store.k{k}", CONSTANT_ROW, (self.context.is_exec,), values, read, reads, unwritten=1
                )
            )

    def _store_operands(self) -> tuple[list[tuple[Wire, Wire]], list[list[Wire]]]:
        """Layer 1: each lane's (low digit, word) of the address, and the data's digits."""
        builder, row, bits = self.builder, self.row, self.context.spec.address_bits
        addresses, words = self._store_port("addr"), self._store_port("data")
        logic = LogicBuilder("st.select")
        address, data = [], []
        for lane in self.lanes:
            name, sources = f"st.l{lane}.address", self._store_sources(addresses[lane], lane)
            address.append(select_address(builder, logic, name, row.bits["st.addr"], sources, bits))
            name, sources = f"st.l{lane}.data", self._store_sources(words[lane], lane)
            data.append(select_operand(builder, logic, name, row.bits["st.data"], sources))
        self.builder.add(logic)
        return address, data

    def _store_port(self, operand: str) -> list[list[Wire]]:
        register = self.row.bits[f"st.{operand}port"]
        return register_port(self.builder, self.context, self.returns, f"st.{operand}", register)

    def _store_sources(self, port: list[Wire], lane: int) -> list[tuple[int, Sequence[Form]]]:
        """Code and digits of each source of a store's operand, `port` being its own register."""
        return [
            (code, port if source.kind is SourceKind.PORT else forwarded(self.results, source, lane))
            for code, source in enumerate(store_sources())
            if source != NOTHING
        ]

    def _store_address(self, logic: LogicBuilder, lane: int, address: tuple[Wire, Wire]) -> tuple[Wire, Wire]:
        """Two digits of (address + offset) mod 2**address_bits."""
        bits = self.context.spec.address_bits
        offset_low, offset = self.row.offsets["st.offset"]
        low, high = self.builder.wires(f"st.l{lane}.row", 2, high=15)
        first, word = affine(address[0]) + offset_low, affine(address[1]) + offset
        logic.relu(first, {low: 1})
        logic.step(first - 16, {low: -16})
        wrap = 1 << (bits - NIBBLE)
        for step in range(1, (2 * ((1 << bits) - 1)) // 16 + 1):
            logic.step(word - 16 * step, {high: 1.0 - wrap if step == wrap else 1.0})
        return low, high

    # --- layer 3

    def _next_warp(self, live: list[Wire], exists: list[Wire]) -> NextWarp:
        """The first live warp in cyclic order from the current one, or from the one after it at a barrier.

        When a thread block begins, from warp 0.
        """
        spec, context = self.context.spec, self.context
        chosen = NextWarp(
            self.builder.wires("next.warp", len(context.warp)),
            self.builder.wires("next.exists", spec.lanes),
            self.builder.wire("next.any"),
        )
        begins = affine(context.kind[Kind.CTA])
        waits = self._waits()
        searches = [(begins - 1, 0)]  # where a search stands open, and the first warp it looks at
        for current in range(spec.warps):
            here = match(context.warp, current) - begins
            searches += [(here - waits, current), (here + waits - 1, current + 1)]
        logic = LogicBuilder("warp.next")
        for gate, first in searches:
            for distance in range(spec.warps):
                warp = (first + distance) % spec.warps
                passed = total(live[(first + d) % spec.warps] for d in range(distance))
                picked = gate + live[warp] - passed
                outputs = {wire: 1.0 for i, wire in enumerate(chosen.bits) if warp >> i & 1}
                logic.relu(picked, outputs | {chosen.any: 1.0})
                for lane in self.lanes:
                    logic.relu(picked + exists[spec.lanes * warp + lane] - 1, {chosen.lanes[lane]: 1})
        self.builder.add(logic)
        return chosen

    def _waits(self) -> Wire:
        """Head: whether the last block ended in a barrier, so that its warp is the last to be considered."""
        waits = self.builder.wire("warp.waits")
        barrier = affine(self.row.line("barrier"))
        latch(self.builder, "warp.waits", [self.context.is_exec], [barrier], [waits])
        return waits

    # --- layer 4

    def _program_counters(self, branches: Branches, chosen: NextWarp) -> Counters:
        counters = [self._program_counter(lane, branches.taken[lane], chosen) for lane in self.lanes]
        onehot, started, serial = (list(group) for group in zip(*counters, strict=True))
        fresh = [affine(chosen.lanes[lane]) - started[lane] for lane in self.lanes]
        logic = LogicBuilder("pc.below")
        below = self.builder.wires("pc.below", self.context.spec.blocks)
        for block, wire in enumerate(below):
            reached = total(total([fresh[lane], *onehot[lane][:block]]) for lane in self.lanes)
            logic.step(reached - 1, {wire: 1})
        after = [self.builder.wire(f"pc.after.l{lane}", high=max(lane, 1)) for lane in self.lanes]
        for lane in self.lanes:
            for other in range(lane):
                for mine, theirs in zip(onehot[lane], onehot[other], strict=True):
                    logic.relu(affine(mine) + theirs + serial[lane] - 2, {after[lane]: 1})
        self.builder.add(logic)
        return Counters(onehot, fresh, below, after)

    def _program_counter(self, lane: int, taken: Wire, chosen: NextWarp) -> tuple[list[Wire], Wire, Wire]:
        """Head: row = warp, the lane's next block one-hot (none: not started, or exited) and whether it is serial.

        Reads the next warp's row: the one-hot block, whether the lane has started, whether its block is serial.
        """
        context, row, jumps = self.context, self.row, affine(taken)
        blocks = range(1, context.spec.blocks)
        values = [Value(match(row.bits["target1"], b) + jumps - row.line("exit1")) for b in blocks]
        values += [Value(match(row.bits["target0"], b) + 1 - jumps - row.line("exit0")) for b in blocks]
        values.append(Value(Affine(constant=1)))
        values += [Value(jumps + row.line("serial1") - 1), Value(row.line("serial0") - jumps)]
        onehot = [self.builder.wire(f"pc.l{lane}.b{b}") for b in blocks]
        started, serial = (self.builder.wire(f"pc.l{lane}.{name}") for name in ("started", "serial"))
        places = [((i, 1.0), (i + len(blocks), 1.0)) for i in range(len(blocks))]
        last = 2 * len(blocks)
        places += [((last, 1.0),), ((last + 1, 1.0), (last + 2, 1.0))]
        self.builder.add(
            Memory(
                f"pc.l{lane}",
                Rows(tuple(map(affine, context.warp))),
                (context.is_exec, affine(context.mask[lane])),
                tuple(values),
                Rows(tuple(map(affine, chosen.bits))),
                tuple(zip((*onehot, started, serial), places, strict=True)),
                wipe=affine(context.kind[Kind.CTA]),
                unwritten=context.spec.warps,
            )
        )
        return onehot, started, serial

    def _say(self) -> tuple[list[Wire], Wire, list[Wire]]:
        """Layer 4: the VAL, MEM or SMEM word's digits; `next`: an EXEC or CTA is due instead; is it MEM, is it SMEM."""
        code, high, logic = self.returns.code, self.returns.next_high, LogicBuilder("out.word")
        word = self.builder.wires("out.word.n", 16 // NIBBLE, high=15)
        due = self.builder.wire("out.next")
        memory, shared = (self.builder.wire(f"out.{name}") for name in ("memory", "shared"))
        for lane in self.lanes:
            chosen = affine(self.returns.next_lane[lane])
            for index, wire in enumerate(word):
                logic.relu(chosen - high, {wire: 1}, up=self.value[lane][index])
                logic.relu(chosen + high - 1, {wire: 1}, up=self.value[lane][index + len(word)])
        for wire, digit in zip(word, self.said, strict=False):
            logic.relu(digit, {wire: 1})
        select(logic, code, RETURN_STORE, self.stored[:2], word[:2])
        for half in range(2):
            first = 2 + half * len(word)
            select(logic, code, RETURN_STORE + 1 + half, self.stored[first : first + len(word)], word)
        logic.relu(match(code, 0) + 1, {due: 1})
        logic.relu(match(code, RETURN_STORE) + 1 - self.store_valid, {due: 1})
        logic.relu(match(code, RETURN_STORE) + self.store_valid - self.store_shared, {memory: 1})
        logic.relu(match(code, RETURN_STORE) + self.store_shared, {shared: 1})
        self.builder.add(logic)
        return word, due, [memory, shared]

    # --- layer 5

    def _token(self, chosen: NextWarp, counters: Counters) -> list[Wire]:
        context, spec, below = self.context, self.context.spec, counters.below
        word, due, stores = self._say()
        following, more = self._following_block()
        logic = LogicBuilder("out.token")
        bits = self.builder.wires("out.bit", 16)
        header = self.builder.wire("out.header")
        self._unpack(logic, word, bits)
        logic.relu(total([due, *stores]), {header: 1})
        for stored, place in zip(stores, (MEM_BIT, SMEM_BIT), strict=True):
            logic.relu(stored, {bits[place]: 1})
        at = [affine(below[0])] + [affine(below[b]) - below[b - 1] for b in range(1, spec.blocks)]
        for i in range(len(context.block)):
            logic.relu(total(form for b, form in enumerate(at) if b >> i & 1) + due - 1, {bits[i]: 1})
        first = len(context.block)
        for i, wire in enumerate(chosen.bits):
            logic.relu(affine(wire) + due - 1, {bits[first + i]: 1})
        first += len(chosen.bits)
        for lane, (onehot, fresh) in enumerate(zip(counters.onehot, counters.fresh, strict=True)):
            for here, form in zip([fresh, *onehot], at, strict=True):
                logic.relu(affine(here) + form + due - 2 - counters.after[lane], {bits[first + lane]: 1})
        advance = affine(due) + more - chosen.any - 1
        for wire, bit in zip(following, bits, strict=False):
            logic.relu(advance + wire - 1, {bit: 1})
        logic.relu(advance, {bits[CTA_BIT]: 1})
        self.builder.add(logic)
        return [*bits, header]

    def _unpack(self, logic: LogicBuilder, word: list[Wire], bits: list[Wire]) -> None:
        for index, digit in enumerate(word):
            staircase_bits(logic, digit, {j: bits[NIBBLE * index + j] for j in range(NIBBLE)}, 15)

    def _following_block(self) -> tuple[list[Wire], Wire]:
        """The next thread block's bits and whether there is one, from the GRID row of the current one."""
        width = len(self.context.thread_block)
        rows, enable, values = grid_rows(self.context)
        following, more = self.builder.wires("cta.next", width), self.builder.wire("cta.more")
        read = Rows(tuple(affine(bit) for bit in self.context.thread_block))
        reads = tuple((wire, ((3 * width + i, 1.0),)) for i, wire in enumerate((*following, more)))
        self.builder.add(
            Memory(
                "cta.next",
                rows,
                enable,
                values[: 4 * width + 1],
                read,
                reads,
                sink=True,
                unwritten=self.context.spec.thread_blocks,
            )
        )
        return following, more
