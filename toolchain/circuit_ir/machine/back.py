"""The last three layers: branches, stores, results into state, the next warp and block, and the token to say.

    1  lanes that left (state), the next warp; each lane's branch, new predicates, the store's operands and lanes
    2  program counters and results (state), the smallest counter; what the token says
    3  the next EXEC's lanes, and the token's bits

All run in every token, on the state that the last EXEC left.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from runtime.vocabulary import Kind
from toolchain.circuit_ir.builder import (
    CircuitBuilder,
    Form,
    LogicBuilder,
    match,
    staircase_bits,
    total,
)
from toolchain.circuit_ir.ir import Affine, Memory, Rows, Value, Wire, affine
from toolchain.circuit_ir.machine.context import CONSTANT_ROW, Context, latch
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
    """Layer 1: per lane, does the branch hold; does it store; the ways in which it holds, and in which it fails.

    `holds` and `fails` of a lane are forms of the layer before, one of which is 1 and the others at most 0.
    """

    taken: list[Wire]
    stores: list[Wire]
    holds: list[list[Affine]]
    fails: list[list[Affine]]


@dataclass(frozen=True)
class Stores:
    """Layer 2: what the last EXEC stored, by lane: (low digit, word) of the address before its carry, data digits.

    `lanes`: which lanes store. `shared`: whether into shared memory.
    """

    addresses: list[tuple[Wire, Wire]]
    data: list[list[Wire]]
    lanes: list[Wire]
    shared: Wire


@dataclass(frozen=True)
class NextWarp:
    """Layer 1: the next warp's bits (zero if none), the lanes that exist in it, and whether there is one."""

    bits: list[Wire]
    lanes: list[Wire]
    any: Wire


@dataclass(frozen=True)
class Counters:
    """Layer 2: each lane's one-hot next block, and which lane has not started (`fresh`: it is at block 0).

    below[k]: some lane's block is at most k. after[l]: lanes before l that go to the same serial block as l.
    """

    onehot: list[list[Wire]]
    fresh: list[Affine]
    below: list[Wire]
    after: list[Wire]


class BackBuilder:
    """Builds the back; `run` returns the output code: 16 bits, the header bit, and the bit of a short value."""

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
        stores = self._stores(branches)
        chosen = self._next_warp(branches)
        counters = self._program_counters(branches, chosen)
        return self._token(stores, chosen, counters)

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
        ways = [self._branch_ways(lane) for lane in self.lanes]
        return Branches(taken, stores, [holds for holds, _ in ways], [fails for _, fails in ways])

    def _branch_ways(self, lane: int) -> tuple[list[Affine], list[Affine]]:
        """How a lane's branch holds or fails: by one of the last stage's predicates, or by an earlier one.

        The earlier ones' selection is done before the last stage ends, so that no layer follows it.
        """
        code, last = self.row.bits["branch"], STAGES - 1
        logic = LogicBuilder(f"back.early.l{lane}")
        held, failed = (self.builder.wire(f"back.early.l{lane}.{name}") for name in ("held", "failed"))
        holds, fails = [affine(held)], [affine(failed)]
        for value, source in enumerate(predicate_sources(STAGES)):
            form = predicate_value(self.results, source, lane)
            if source.slot and source.stage == last:
                holds.append(match(code, value) + form)
                fails.append(match(code, value) + 1 - form)
            else:
                logic.relu(match(code, value) + form, {held: 1})
                logic.relu(match(code, value) + 1 - form, {failed: 1})
        self.builder.add(logic)
        return holds, fails

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

    # --- state, and the next warp

    def _result_head(self, name: str, code: int, stored: Sequence[Form], outputs: list[Wire]) -> None:
        """Keeps an EXEC's result; read by the token before the one that says it (its next entry has `code`)."""
        read = Rows(literals=(match(self.returns.code, code) + 1,))
        values = tuple(Value(affine(wire)) for wire in stored)
        reads = tuple((wire, ((index, 1.0),)) for index, wire in enumerate(outputs))
        self.builder.add(
            Memory(name, CONSTANT_ROW, (self.context.is_exec,), values, read, reads, sink=True, unwritten=1)
        )

    def _return_values(self) -> None:
        self.value = [self.builder.wires(f"out.l{lane}.n", NIBBLES, high=15) for lane in self.lanes]
        outputs = [wire for lane in self.value for wire in lane]
        for index, source in enumerate(return_sources()):
            stored = [wire for lane in self.lanes for wire in forwarded(self.results, source, lane)]
            self._result_head(f"out.{source}", index + 1, stored, outputs)

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

    def _exited_warps(self, lane: int, branches: Branches) -> list[Wire]:
        """Head: the warps whose `lane` has exited. Row = warp, dimension = warp, so that all rows are read at once.

        A dimension a warp and a way to leave: of one row's, one is 1 at most.
        """
        context, warps = self.context, self.context.spec.warps
        begins = affine(context.kind[Kind.CTA])
        jumps = [way + self.row.line("exit1") for way in branches.holds[lane]]
        jumps += [way + self.row.line("exit0") for way in branches.fails[lane]]
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
                tuple(
                    (wire, tuple((w + warps * way, 1.0) for way in range(len(jumps))))
                    for w, wire in enumerate(exited)
                ),
                wipe=begins,
                anchor=begins,
            )
        )
        return exited

    # --- stores

    def _stores(self, branches: Branches) -> Stores:
        """Head: every lane's address, before its carry is added up, and data; read where a store's word is due."""
        address, data = self._store_operands()
        name, address_bits = "out.store", self.context.spec.address_bits
        offset_low, offset = self.row.offsets["st.offset"]
        kept = Stores(
            [
                (
                    self.builder.wire(f"{name}.l{lane}.low", high=30),
                    self.builder.wire(f"{name}.l{lane}.word", high=2 * ((1 << address_bits) - 1)),
                )
                for lane in self.lanes
            ],
            [self.builder.wires(f"{name}.l{lane}.n", NIBBLES, high=15) for lane in self.lanes],
            self.builder.wires(f"{name}.lane", len(self.lanes)),
            self.builder.wire(f"{name}.shared"),
        )
        values: list[Affine] = [*map(affine, branches.stores), affine(self.row.line("st.shared"))]
        outputs = [*kept.lanes, kept.shared]
        for lane in self.lanes:
            low, word = address[lane]
            values += [affine(low) + offset_low, affine(word) + offset, *map(affine, data[lane])]
            outputs += [*kept.addresses[lane], *kept.data[lane]]
        self.builder.add(
            Memory(
                name,
                CONSTANT_ROW,
                (self.context.is_exec,),
                tuple(map(Value, values)),
                Rows(literals=(affine(self.returns.code[-1]),)),
                tuple((wire, ((index, 1.0),)) for index, wire in enumerate(outputs)),
                unwritten=1,
            )
        )
        return kept

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

    def _next_warp(self, branches: Branches) -> NextWarp:
        """The first live warp in cyclic order from the current one, or from the one after it at a barrier.

        When a thread block begins, from warp 0. With n lanes a warp left, m in all warps before it: [n - 1 - lanes * m
        >= 0], n at most `lanes`.
        """
        spec, context = self.context.spec, self.context
        exists = self._existing_lanes()
        exited = [self._exited_warps(lane, branches) for lane in self.lanes]
        left = [
            total(affine(exists[spec.lanes * warp + lane]) - exited[lane][warp] for lane in self.lanes)
            for warp in range(spec.warps)
        ]
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
                passed = total(left[(first + d) % spec.warps] for d in range(distance))
                picked = left[warp] - 1 + spec.lanes * (gate - passed)
                outputs = {wire: 1.0 for i, wire in enumerate(chosen.bits) if warp >> i & 1}
                logic.step(picked, outputs | {chosen.any: 1.0})
                for lane in self.lanes:
                    there = spec.lanes * (affine(exists[spec.lanes * warp + lane]) - 1)
                    logic.step(picked + there, {chosen.lanes[lane]: 1})
        self.builder.add(logic)
        return chosen

    def _waits(self) -> Wire:
        """Head: whether the last block ended in a barrier, so that its warp is the last to be considered."""
        waits = self.builder.wire("warp.waits")
        barrier = affine(self.row.line("barrier"))
        latch(self.builder, "warp.waits", [self.context.is_exec], [barrier], [waits])
        return waits

    # --- layer 2

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

    def _say(self, stores: Stores) -> tuple[list[Wire], Wire, list[Wire]]:
        """Layer 2: the VAL, MEM or SMEM word's digits; `next`: an EXEC or CTA is due instead; is it MEM, is it SMEM."""
        code, high, logic = self.returns.code, self.returns.next_high, LogicBuilder("out.word")
        word = self.builder.wires("out.word.n", 16 // NIBBLE, high=15)
        due = self.builder.wire("out.next")
        kinds = [self.builder.wire(f"out.{name}") for name in ("memory", "shared")]
        for lane in self.lanes:
            chosen = affine(self.returns.next_lane[lane])
            for index, wire in enumerate(word):
                logic.relu(chosen - high, {wire: 1}, up=self.value[lane][index])
                logic.relu(chosen + high - 1, {wire: 1}, up=self.value[lane][index + len(word)])
        for wire, digit in zip(word, self.said, strict=False):
            logic.relu(digit, {wire: 1})
        logic.relu(match(code, 0) + 1, {due: 1})
        logic.relu(match(code, RETURN_STORE) + 1, {due: 1})
        for picked, lane in self._storing(stores):
            head = picked + match(code, RETURN_STORE)
            logic.relu(head + 1, {due: -1})
            logic.relu(head + 1 - stores.shared, {kinds[0]: 1})
            logic.relu(head + stores.shared, {kinds[1]: 1})
            self._store_address(logic, head, stores.addresses[lane], word)
            for half in range(2):
                digits = stores.data[lane][half * len(word) : (half + 1) * len(word)]
                body = picked + match(code, RETURN_STORE + 1 + half) + 1
                for wire, digit in zip(word, digits, strict=True):
                    logic.relu(body, {wire: 1}, up=digit)
        self.builder.add(logic)
        return word, due, kinds

    def _storing(self, stores: Stores) -> Iterator[tuple[Affine, int]]:
        """(form, lane): 0 where the next entry wants the k-th store and that is the lane's, at most -1 elsewhere.

        A form for every set of lanes that may store before it.
        """
        for lane in self.lanes:
            for before in range(1 << lane):
                here = match(stores.lanes[: lane + 1], before | 1 << lane)
                yield here + self.returns.next_rank[before.bit_count()] - 1, lane

    def _store_address(
        self, logic: LogicBuilder, picked: Affine, address: tuple[Wire, Wire], word: list[Wire]
    ) -> None:
        """Where `picked` is 0: the address's two digits, modulo 2**address_bits, from sums of low digits and words."""
        bits = self.context.spec.address_bits
        low, whole = address
        shut = 2 << bits
        logic.relu(picked + 1, {word[0]: 1}, up=affine(low))
        logic.step(affine(low) - 16 + shut * picked, {word[0]: -16})
        wrap = 1 << (bits - NIBBLE)
        for step in range(1, whole.high // 16 + 1):
            weight = 1.0 - wrap if step == wrap else 1.0
            logic.step(affine(whole) - 16 * step + shut * picked, {word[1]: weight})

    def _whole(self, stores: Stores) -> Wire:
        """Layer 3: 1 where the next token says a two-token value and the value is short.

        With h digits above digit k, in which the sign bit is bit r, and S their sum: S = 0 and digit k < 2**r, or
        S = 15 h and digit k >= 16 - 2**r; so [2**r - 1 - digit k - 16 S >= 0], [digit k + 16 (S - 15 h) >= 16 - 2**r].
        """
        returns, whole = self.returns, self.builder.wire("out.short")
        logic, kept = LogicBuilder("out.short"), self.context.spec.short_bits - 1
        taken = affine(returns.next_high) + returns.next_narrow + returns.code[-1]
        values = [(affine(self.returns.next_lane[lane]) - 1 - taken, self.value[lane]) for lane in self.lanes]
        low_half = match(returns.code, RETURN_STORE + 1)
        values += [(picked + low_half, stores.data[lane]) for picked, lane in self._storing(stores)]
        digit, room = kept // NIBBLE, 1 << kept % NIBBLE
        for spoken, digits in values:
            above = total(digits[digit + 1 :]) * 16 + digits[digit]
            closed = spoken * 16  # 0 where this is the value to say, else -16 or less
            most = 16 * 15 * (NIBBLES - digit - 1)
            logic.step(room - 1 - above + closed, {whole: 1})
            logic.step(above - most - (16 - room) + closed, {whole: 1})
        self.builder.add(logic)
        return whole

    # --- layer 3

    def _token(self, stores: Stores, chosen: NextWarp, counters: Counters) -> list[Wire]:
        context, spec, below = self.context, self.context.spec, counters.below
        word, due, kinds = self._say(stores)
        following, more = self._following_block()
        logic = LogicBuilder("out.token")
        bits = self.builder.wires("out.bit", 16)
        header = self.builder.wire("out.header")
        self._unpack(logic, word, bits)
        logic.relu(total([due, *kinds]), {header: 1})
        for stored, place in zip(kinds, (MEM_BIT, SMEM_BIT), strict=True):
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
        return [*bits, header, self._whole(stores)]

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
