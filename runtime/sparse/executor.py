"""The native executor of encoded programs (encode.py), as LLVM IR for a number of launches side by side.

One function, `execute(context, place, token*, mask*, results*)`, runs sections from `place` on until KEY, CODE or END.
Cells, history and age counters are vectors with one number a launch; `mask` says which launches have effects. What is
indexed by data (tables, state rows) goes launch by launch.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from llvmlite import ir

from runtime.sparse.encode import MOST_TESTS, Op
from runtime.sparse.network import MOST_AGE, SEVERAL

BIT, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
POINTER = ir.PointerType()


class Slot(IntEnum):
    """Pointers of the context."""

    CODE = 0
    CELLS = 1
    STATES = 2
    TABLES = 3
    EMBEDDING = 4
    HISTORY = 5
    AGES = 6
    WRITTEN = 7
    """Per state: the number of the last step that wrote it, 64 bits."""
    STEP = 8
    """The number of this step, 64 bits."""
    FLAGS = 9
    """FAULT, STALE: 32 bits each."""
    FOLDED = 10
    """Per state: whether programs hold its rows as constants, 8 bits."""
    PROFILE = 11
    """Terms of forms, then records executed by opcode: 64 bits each."""


GUARD_FAILED = -1
PROFILED_TERMS = 0
FAULT, STALE = 0, 1
"""Flags: a cell was out of its range or an address selected several rows; a state was written that programs take for
constant."""


@dataclass(frozen=True)
class Extents:
    """Sizes that are constants of the code: launches side by side, embedding columns, 16-bit words of state."""

    width: int
    embedding: int
    state: int
    profile: bool = False
    """Whether the code counts what it executes."""


class _Emitter:
    """A function body with variables, loops and the program counter."""

    def __init__(self, function: ir.Function, extents: Extents) -> None:
        self.function, self.extents = function, extents
        self.entry = function.append_basic_block("entry")
        self.builder: Any = ir.IRBuilder(self.entry)  # llvmlite has no types
        self.mask_type = ir.IntType(extents.width)
        self.vector = ir.VectorType(I32, extents.width) if extents.width > 1 else I32
        self.pointers: dict[Slot, ir.Value] = {}
        context = function.args[0]
        for slot in Slot:
            address = self.builder.gep(context, [I64(slot)], source_etype=POINTER)
            self.pointers[slot] = self.builder.load(address, typ=POINTER)
        self.place = self.variable(I64, function.args[1])
        self._mask = self.variable(self.mask_type, self._given_mask())
        self._depth = self.variable(I32, I32(0))
        self._ends, self._masks = (self._stack(kind) for kind in (I64, self.mask_type))

    def variable(self, kind: ir.Type, value: ir.Value) -> ir.Value:
        with self.builder.goto_block(self.entry):
            if self.entry.is_terminated:
                self.builder.position_before(self.entry.terminator)
            address = self.builder.alloca(kind)
        self.builder.store(value, address)
        return address

    def load(self, pointer: ir.Value, index: ir.Value, kind: ir.Type) -> ir.Value:
        address = self.builder.gep(pointer, [index], source_etype=kind)
        return self.builder.load(address, typ=kind)

    def get(self, variable: ir.Value, kind: ir.Type) -> ir.Value:
        return self.builder.load(variable, typ=kind)

    def word(self, ahead: int = 0) -> ir.Value:
        """The program word `ahead` of the program counter."""
        place = self.builder.add(self.get(self.place, I64), I64(ahead))
        return self.load(self.pointers[Slot.CODE], place, I32)

    def wide(self, value: ir.Value) -> ir.Value:
        return self.builder.sext(value, I64)

    def advance(self, words: ir.Value | int) -> None:
        amount = I64(words) if isinstance(words, int) else self.wide(words)
        self.builder.store(self.builder.add(self.get(self.place, I64), amount), self.place)

    def next_word(self) -> ir.Value:
        value = self.word()
        self.advance(1)
        return value

    @contextmanager
    def loop(self, count: ir.Value) -> Iterator[ir.Value]:
        """Runs its body `count` times (0 included); gives the 32-bit index."""
        builder = self.builder
        index = self.variable(I32, I32(0))
        head, body, done = (builder.append_basic_block(name) for name in ("head", "body", "done"))
        builder.branch(head)
        builder.position_at_end(head)
        value = self.get(index, I32)
        builder.cbranch(builder.icmp_signed("<", value, count), body, done)
        builder.position_at_end(body)
        yield value
        builder.store(builder.add(self.get(index, I32), I32(1)), index)
        builder.branch(head)
        builder.position_at_end(done)

    # --- vectors

    def splat(self, value: ir.Value) -> ir.Value:
        """A scalar for every launch."""
        if self.extents.width == 1:
            return value
        single = self.builder.insert_element(ir.Constant(self.vector, ir.Undefined), value, I32(0))
        zeros = ir.Constant(ir.VectorType(I32, self.extents.width), [0] * self.extents.width)
        return self.builder.shuffle_vector(single, ir.Constant(self.vector, ir.Undefined), zeros)

    def vector_at(self, slot: Slot, index: ir.Value) -> ir.Value:
        return self.builder.gep(self.pointers[slot], [self.wide(index)], source_etype=self.vector)

    def cell(self, index: ir.Value) -> ir.Value:
        return self.builder.load(self.vector_at(Slot.CELLS, index), typ=self.vector, align=4)

    def lane_of(self, slot: Slot, index: ir.Value, lane: ir.Value) -> ir.Value:
        """Address of one launch's number in a vector."""
        scaled = self.builder.mul(self.wide(index), I64(self.extents.width))
        place = self.builder.add(scaled, self.wide(lane))
        return self.builder.gep(self.pointers[slot], [place], source_etype=I32)

    def add_to(self, address: ir.Value, value: ir.Value) -> None:
        self.builder.store(self.builder.add(self.builder.load(address, typ=I32), value), address)

    def add_vector(self, cell: ir.Value, value: ir.Value) -> None:
        address = self.vector_at(Slot.CELLS, cell)
        self.builder.store(
            self.builder.add(self.builder.load(address, typ=self.vector, align=4), value), address, align=4
        )

    def _stack(self, kind: ir.Type) -> ir.Value:
        with self.builder.goto_block(self.entry):
            return self.builder.alloca(kind, MOST_TESTS)

    @property
    def mask(self) -> ir.Value:
        """Bit l: launch l has effects here."""
        return BIT(1) if self.extents.width == 1 else self.get(self._mask, self.mask_type)

    def narrow(self, bits: ir.Value, words: ir.Value) -> None:
        """Only the launches of `bits` have effects in the next `words` words."""
        if self.extents.width == 1:
            return
        builder = self.builder
        depth = self.get(self._depth, I32)
        builder.store(
            builder.add(self.get(self.place, I64), self.wide(words)), self._at(self._ends, depth, I64)
        )
        builder.store(self.mask, self._at(self._masks, depth, self.mask_type))
        builder.store(builder.add(depth, I32(1)), self._depth)
        builder.store(bits, self._mask)

    def widen(self) -> None:
        """Leaves the parts of the program that `narrow` began and that end here."""
        if self.extents.width == 1:
            return
        builder = self.builder
        head, inside, leave, done = (
            builder.append_basic_block(name) for name in ("tests", "test", "leave", "on")
        )
        builder.branch(head)
        builder.position_at_end(head)
        depth = self.get(self._depth, I32)
        builder.cbranch(builder.icmp_signed(">", depth, I32(0)), inside, done)
        builder.position_at_end(inside)
        top = builder.sub(depth, I32(1))
        end = builder.load(self._at(self._ends, top, I64), typ=I64)
        builder.cbranch(builder.icmp_signed(">=", self.get(self.place, I64), end), leave, done)
        builder.position_at_end(leave)
        builder.store(
            builder.load(self._at(self._masks, top, self.mask_type), typ=self.mask_type), self._mask
        )
        builder.store(top, self._depth)
        builder.branch(head)
        builder.position_at_end(done)

    def _at(self, stack: ir.Value, index: ir.Value, kind: ir.Type) -> ir.Value:
        return self.builder.gep(stack, [self.wide(index)], source_etype=kind)

    def _given_mask(self) -> ir.Value:
        """The launches that the caller has chosen."""
        if self.extents.width == 1:
            return BIT(1)
        held = self.builder.load(self.function.args[3], typ=self.vector, align=4)
        return self.bits_of(self.builder.icmp_signed("!=", held, ir.Constant(self.vector, None)))

    def bits_of(self, test: ir.Value) -> ir.Value:
        """A test of every launch as one integer."""
        return test if self.extents.width == 1 else self.builder.bitcast(test, self.mask_type)

    def among(self, test: ir.Value) -> ir.Value:
        """The launches with effects of which the test holds, as bits."""
        return self.builder.and_(self.bits_of(test), self.mask)

    def any(self, bits: ir.Value) -> ir.Value:
        return bits if self.extents.width == 1 else self.builder.icmp_unsigned("!=", bits, self.mask_type(0))

    def at_least(self, vector: ir.Value, value: ir.Value) -> ir.Value:
        return self.builder.icmp_signed(">=", vector, self.splat(value))

    @contextmanager
    def lanes(self, bits: ir.Value | None = None) -> Iterator[ir.Value]:
        """For each launch of `bits`, or all that have effects, its index."""
        bits = self.mask if bits is None else bits
        builder = self.builder
        if self.extents.width == 1:
            with builder.if_then(bits):
                yield I32(0)
            return
        kind, width = self.mask_type, self.extents.width
        left = self.variable(kind, bits)
        head, body, done = (builder.append_basic_block(name) for name in ("lanes", "lane", "lanes_done"))
        builder.branch(head)
        builder.position_at_end(head)
        now = self.get(left, kind)
        builder.cbranch(builder.icmp_unsigned("!=", now, kind(0)), body, done)
        builder.position_at_end(body)
        lane = builder.cttz(now, BIT(1))
        builder.store(builder.and_(now, builder.sub(now, kind(1))), left)
        yield builder.zext(lane, I32) if width < 32 else builder.trunc(lane, I32) if width > 32 else lane
        builder.branch(head)
        builder.position_at_end(done)

    def count(self, what: int, amount: ir.Value) -> None:
        """Adds to a counter of a profile, if there is one."""
        if self.extents.profile:
            address = self.builder.gep(self.pointers[Slot.PROFILE], [I64(what)], source_etype=I64)
            self.builder.store(
                self.builder.add(self.builder.load(address, typ=I64), self.wide(amount)), address
            )

    def sum(self, count: ir.Value, constant: ir.Value) -> ir.Value:
        """constant + the sum of the next `count` terms of the program, as a vector."""
        self.count(PROFILED_TERMS, count)
        total = self.variable(self.vector, self.splat(constant))
        with self.loop(count):
            cell, factor = self.word(), self.word(1)
            product = self.builder.mul(self.cell(cell), self.splat(factor))
            self.builder.store(self.builder.add(self.get(total, self.vector), product), total)
            self.advance(2)
        return self.get(total, self.vector)

    def bits(self, count: ir.Value) -> ir.Value:
        """The sum of 2**i * cell of the next `count` program words, as a vector."""
        total = self.variable(self.vector, ir.Constant(self.vector, None))
        with self.loop(count) as index:
            shifted = self.builder.shl(self.cell(self.word()), self.splat(index))
            self.builder.store(self.builder.add(self.get(total, self.vector), shifted), total)
            self.advance(1)
        return self.get(total, self.vector)

    def lane(self, vector: ir.Value, lane: ir.Value) -> ir.Value:
        return vector if self.extents.width == 1 else self.builder.extract_element(vector, lane)

    def state(self, start: ir.Value, lane: ir.Value) -> ir.Value:
        """Address of a state's first row in a launch's memory."""
        offset = self.builder.mul(self.wide(lane), I64(self.extents.state))
        place = self.builder.add(offset, self.wide(start))
        return self.builder.gep(self.pointers[Slot.STATES], [place], source_etype=I16)

    def raise_flag(self, flag: int) -> None:
        address = self.builder.gep(self.pointers[Slot.FLAGS], [I64(flag)], source_etype=I32)
        self.builder.store(I32(1), address)


class _Sections(_Emitter):
    """The body of each kind of section; the program counter stands at its first record."""

    def input(self, count: ir.Value) -> None:
        with self.loop(count):
            column, cell = self.next_word(), self.next_word()
            with self.lanes() as lane:
                token = self.load(self.function.args[2], self.wide(lane), I32)
                place = self.builder.mul(self.wide(token), I64(self.extents.embedding))
                value = self.load(
                    self.pointers[Slot.EMBEDDING], self.builder.add(place, self.wide(column)), I16
                )
                self.builder.store(self.builder.sext(value, I32), self.lane_of(Slot.CELLS, cell, lane))

    def tap(self, count: ir.Value) -> None:
        with self.loop(count):
            place, cell = self.next_word(), self.next_word()
            value = self.builder.load(self.vector_at(Slot.HISTORY, place), typ=self.vector, align=4)
            self.builder.store(value, self.vector_at(Slot.CELLS, cell), align=4)

    def set(self, count: ir.Value) -> None:
        with self.loop(count):
            value, cell = self.next_word(), self.next_word()
            self.add_vector(cell, self.splat(value))

    def link(self, count: ir.Value) -> None:
        with self.loop(count):
            cell, constant, terms = self.next_word(), self.next_word(), self.next_word()
            self.add_vector(cell, self.sum(terms, constant))

    def node(self, count: ir.Value) -> None:
        builder = self.builder
        with self.loop(count):
            begin = self.get(self.place, I64)
            terms, base, first, length = (self.word(i) for i in range(4))
            table, columns, rows, sums, products = (self.word(i) for i in range(4, 9))
            self.advance(9)
            index = self.sum(terms, base)
            after = self.get(self.place, I64)
            with self.lanes(self.among(self.at_least(index, first))) as lane:
                row = self.lane(index, lane)
                with builder.if_else(builder.icmp_signed("<", row, rows)) as (inside, outside):
                    with inside:
                        builder.store(after, self.place)
                        begin_of_row = builder.add(table, builder.mul(row, columns))
                        self._row(begin_of_row, sums, products, lane)
                    with outside:
                        self.raise_flag(FAULT)
            builder.store(builder.add(begin, self.wide(length)), self.place)

    def step(self, count: ir.Value) -> None:
        builder = self.builder
        with self.loop(count):
            begin = self.get(self.place, I64)
            terms, base, first, length, sums, products = (self.word(i) for i in range(6))
            self.advance(6)
            open_ = self.among(self.at_least(self.sum(terms, base), first))
            with builder.if_then(self.any(open_)):
                with self.loop(sums):
                    value = self.splat(self.next_word())
                    self.add_vector(self.next_word(), self._where(open_, value))
                with self.loop(products):
                    factor, source = self.splat(self.next_word()), self.next_word()
                    product = builder.mul(factor, self.cell(source))
                    self.add_vector(self.next_word(), self._where(open_, product))
            builder.store(builder.add(begin, self.wide(length)), self.place)

    def _where(self, bits: ir.Value, value: ir.Value) -> ir.Value:
        """`value` for the launches of `bits`, 0 for others."""
        if self.extents.width > 1:
            bits = self.builder.bitcast(bits, ir.VectorType(BIT, self.extents.width))
        return self.builder.select(bits, value, ir.Constant(self.vector, None))

    def _row(self, row: ir.Value, sums: ir.Value, products: ir.Value, lane: ir.Value) -> None:
        with self.loop(sums):
            value = self._entry(row, self.next_word())
            self.add_to(self.lane_of(Slot.CELLS, self.next_word(), lane), value)
        with self.loop(products):
            gate, source = self._entry(row, self.next_word()), self.next_word()
            target, weight = self.next_word(), self.next_word()
            up = self.builder.load(self.lane_of(Slot.CELLS, source, lane), typ=I32)
            value = self.builder.mul(self.builder.mul(gate, weight), up)
            self.add_to(self.lane_of(Slot.CELLS, target, lane), value)

    def _entry(self, row: ir.Value, column: ir.Value) -> ir.Value:
        value = self.load(self.pointers[Slot.TABLES], self.wide(self.builder.add(row, column)), I16)
        return self.builder.sext(value, I32)

    def _row_of(self, rows: ir.Value, index: ir.Value, inputs: ir.Value) -> ir.Value:
        """Row at an address of so many bits; several rows, and what is no address, are faults."""
        builder = self.builder
        row = self.variable(I32, I32(SEVERAL))
        valid = builder.icmp_unsigned("<", index, builder.shl(I32(1), inputs))
        with builder.if_then(valid, likely=True):
            builder.store(self._entry(rows, index), row)
        with builder.if_then(builder.icmp_signed("==", self.get(row, I32), I32(SEVERAL)), likely=False):
            self.raise_flag(FAULT)
        return self.get(row, I32)

    def read(self, count: ir.Value) -> None:
        builder = self.builder
        with self.loop(count):
            begin = self.get(self.place, I64)
            length, start, columns, inputs = (self.word(i) for i in range(4))
            rows, outputs, anchor = (self.word(i) for i in range(4, 7))
            self.advance(7)
            index = self.bits(inputs)
            after = self.get(self.place, I64)
            with self.lanes() as lane:
                row = self._row_of(rows, self.lane(index, lane), inputs)
                with builder.if_then(builder.icmp_signed(">=", row, I32(0))):
                    builder.store(after, self.place)
                    address = self.state(builder.add(start, builder.mul(row, columns)), lane)
                    self._bring(outputs, anchor, lambda column, at=address: self._stored(at, column), lane)
            builder.store(builder.add(begin, self.wide(length)), self.place)

    def _stored(self, row: ir.Value, column: ir.Value) -> ir.Value:
        return self.builder.sext(self.load(row, self.wide(column), I16), I32)

    def _bring(
        self, outputs: ir.Value, anchor: ir.Value, value: Callable[[ir.Value], ir.Value], lane: ir.Value
    ) -> None:
        """Adds what is stored to cells. If a column anchors the norm, it must be 1, or nothing is stored."""
        builder = self.builder
        seen = self.variable(I32, I32(0))
        with self.loop(outputs):
            column, cell = self.next_word(), self.next_word()
            brought = value(column)
            builder.store(builder.or_(self.get(seen, I32), brought), seen)
            self.add_to(self.lane_of(Slot.CELLS, cell, lane), brought)
        with builder.if_then(builder.icmp_signed(">=", anchor, I32(0))):
            stored = builder.icmp_signed("!=", self.get(seen, I32), I32(0))
            bad = builder.icmp_signed("!=", value(anchor), I32(1))
            with builder.if_then(builder.and_(stored, bad), likely=False):
                self.raise_flag(FAULT)

    def every(self, count: ir.Value) -> None:
        builder = self.builder
        with self.loop(count):
            begin = self.get(self.place, I64)
            length, start, columns, rows = (self.word(i) for i in range(4))
            terms, base, outputs, anchor = (self.word(i) for i in range(4, 8))
            self.advance(8)
            gate = self.sum(terms, base)
            after = self.get(self.place, I64)
            with self.lanes(self.among(self.at_least(gate, I32(0)))) as lane:
                builder.store(after, self.place)
                address = self.state(start, lane)

                def summed(
                    column: ir.Value,
                    at: ir.Value = address,
                    rows: ir.Value = rows,
                    columns: ir.Value = columns,
                ) -> ir.Value:
                    total = self.variable(I32, I32(0))
                    with self.loop(rows) as row:
                        place = builder.add(builder.mul(row, columns), column)
                        builder.store(builder.add(self.get(total, I32), self._stored(at, place)), total)
                    return self.get(total, I32)

                self._bring(outputs, anchor, summed, lane)
            builder.store(builder.add(begin, self.wide(length)), self.place)

    def write(self, count: ir.Value) -> None:
        builder = self.builder
        with self.loop(count):
            begin = self.get(self.place, I64)
            length, number, start, columns = (self.word(i) for i in range(4))
            terms, base, inputs, rows, written = (self.word(i) for i in range(4, 9))
            self.advance(9)
            enable = self.sum(terms, base)
            after = self.get(self.place, I64)
            with self.lanes(self.among(self.at_least(enable, I32(0)))) as lane:
                builder.store(after, self.place)
                row = self._row_of(rows, self.lane(self.bits(inputs), lane), inputs)
                with builder.if_then(builder.icmp_signed(">=", row, I32(0))):
                    self._mark(number)
                    address = self.state(builder.add(start, builder.mul(row, columns)), lane)
                    self._columns(written, address, lane)
            builder.store(builder.add(begin, self.wide(length)), self.place)

    def _mark(self, number: ir.Value) -> None:
        """Notes that a state has changed."""
        builder = self.builder
        step = self.load(self.pointers[Slot.STEP], I64(0), I64)
        place = builder.gep(self.pointers[Slot.WRITTEN], [self.wide(number)], source_etype=I64)
        builder.store(step, place)
        folded = self.load(self.pointers[Slot.FOLDED], self.wide(number), I8)
        with builder.if_then(builder.icmp_signed("!=", folded, I8(0)), likely=False):
            self.raise_flag(STALE)

    def _columns(self, count: ir.Value, row: ir.Value, lane: ir.Value) -> None:
        builder = self.builder
        with self.loop(count) as column:
            constant, terms = self.next_word(), self.next_word()
            total = self.variable(I32, self.lane(self.sum(terms, constant), lane))
            with self.loop(self.next_word()):
                weight, inner, base = self.next_word(), self.next_word(), self.next_word()
                value = self.lane(self.sum(inner, base), lane)
                ramp = builder.select(builder.icmp_signed(">", value, I32(0)), value, I32(0))
                builder.store(builder.add(self.get(total, I32), builder.mul(weight, ramp)), total)
            place = builder.gep(row, [self.wide(column)], source_etype=I16)
            builder.store(builder.trunc(self.get(total, I32), I16), place)

    def wipe(self, count: ir.Value) -> None:
        builder = self.builder
        with self.loop(count):
            number, start, words, terms, base = (self.next_word() for _ in range(5))
            gate = self.sum(terms, base)
            with self.lanes(self.among(self.at_least(gate, I32(0)))) as lane:
                self._mark(number)
                address = self.state(start, lane)
                with self.loop(words) as index:
                    builder.store(I16(0), builder.gep(address, [self.wide(index)], source_etype=I16))

    def age(self, count: ir.Value) -> None:
        builder = self.builder
        with self.loop(count):
            counter, cell, terms, base, more, step = (self.next_word() for _ in range(6))
            event, steps = self.sum(terms, base), self.sum(more, step)
            with self.lanes() as lane:
                address = self.lane_of(Slot.AGES, counter, lane)
                older = builder.add(builder.load(address, typ=I32), self.lane(steps, lane))
                capped = builder.select(builder.icmp_signed("<", older, I32(MOST_AGE)), older, I32(MOST_AGE))
                now = builder.icmp_signed(">=", self.lane(event, lane), I32(0))
                value = builder.select(now, I32(0), capped)
                builder.store(value, address)
                self.add_to(self.lane_of(Slot.CELLS, cell, lane), value)

    def keep(self, count: ir.Value) -> None:
        builder = self.builder
        with self.loop(count):
            place, cell, value = self.next_word(), self.next_word(), self.next_word()
            with self.lanes() as lane:
                known = builder.icmp_signed("<", cell, I32(0))
                source = builder.select(known, I32(0), cell)
                held = builder.load(self.lane_of(Slot.CELLS, source, lane), typ=I32)
                builder.store(builder.select(known, value, held), self.lane_of(Slot.HISTORY, place, lane))

    def test(self, count: ir.Value) -> None:
        """What follows runs for the launches in which the cell has the value; without any it is skipped."""
        del count  # always 1
        builder = self.builder
        cell, value, length = self.next_word(), self.next_word(), self.next_word()
        found = self.among(builder.icmp_signed("==", self.cell(cell), self.splat(value)))
        with builder.if_else(self.any(found)) as (some, none):
            with some:
                self.narrow(found, length)
            with none:
                self.advance(length)

    def guard(self, count: ir.Value) -> None:
        builder = self.builder
        with self.loop(count):
            cell, value = self.next_word(), self.next_word()
            other = builder.icmp_signed("!=", self.cell(cell), self.splat(value))
            with builder.if_then(self.any(self.among(other)), likely=False):
                self._give_up()

    def _give_up(self) -> None:
        """Every launch's result is GUARD_FAILED."""
        with self.lanes() as lane:
            address = self.builder.gep(self.function.args[4], [self.wide(lane)], source_etype=I32)
            self.builder.store(I32(GUARD_FAILED), address)
        self.builder.ret_void()

    def finish(self, count: ir.Value) -> None:
        """KEY or CODE: the launches' sums go to `results`; what is no such number is a fault, and 0."""
        limit = self.next_word()
        total = self.sum(count, self.next_word())
        builder = self.builder
        with self.lanes() as lane:
            value = self.lane(total, lane)
            valid = builder.icmp_unsigned("<", value, limit)
            with builder.if_then(builder.not_(valid), likely=False):
                self.raise_flag(FAULT)
            address = builder.gep(self.function.args[4], [self.wide(lane)], source_etype=I32)
            builder.store(builder.select(valid, value, I32(0)), address)
        builder.ret_void()


def executor_module(extents: Extents) -> ir.Module:
    """`execute` for these extents."""
    module = ir.Module("sparse")
    kind = ir.FunctionType(ir.VoidType(), [POINTER, I64, POINTER, POINTER, POINTER])
    function = ir.Function(module, kind, "execute")
    emit = _Sections(function, extents)
    builder = emit.builder
    head, end = builder.append_basic_block("section"), builder.append_basic_block("end")
    builder.branch(head)
    builder.position_at_end(head)
    emit.widen()
    opcode, count = emit.next_word(), emit.next_word()
    choice = builder.switch(opcode, end)
    bodies: dict[Op, Callable[[ir.Value], None]] = {
        Op.INPUT: emit.input, Op.TAP: emit.tap, Op.SET: emit.set, Op.LINK: emit.link, Op.NODE: emit.node,
        Op.STEP: emit.step, Op.READ: emit.read, Op.EVERY: emit.every, Op.WRITE: emit.write, Op.WIPE: emit.wipe,
        Op.AGE: emit.age, Op.KEEP: emit.keep, Op.GUARD: emit.guard, Op.TEST: emit.test, Op.KEY: emit.finish,
        Op.CODE: emit.finish,
    }  # fmt: skip
    for op, body in bodies.items():
        block = builder.append_basic_block(op.name.lower())
        choice.add_case(I32(op), block)
        builder.position_at_end(block)
        emit.count(op, count)
        body(count)
        if not builder.block.is_terminated:
            builder.branch(head)
    builder.position_at_end(end)
    builder.ret_void()
    return module
