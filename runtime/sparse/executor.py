"""The native executor of encoded programs (encode.py), as LLVM IR for a number of launches side by side.

One function, `execute(context, place, token*, mask*, results*)`, runs sections from `place` on until KEY or CODE. What
is indexed by data (tables, state rows) goes launch by launch.
"""

from collections.abc import Callable

from llvmlite import ir

from runtime.sparse.emitter import (
    BIT,
    FAULT,
    GUARD_FAILED,
    I8,
    I16,
    I32,
    I64,
    POINTER,
    STALE,
    Emitter,
    Extents,
    Slot,
)
from runtime.sparse.encode import Op
from runtime.sparse.network import MOST_AGE, SEVERAL


class _Sections(Emitter):
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
            table, columns, rows, sums, products, forms = (self.word(i) for i in range(4, 10))
            self.advance(10)
            index = self.sum(terms, base)
            after = self.get(self.place, I64)
            with self.lanes(self.among(self.at_least(index, first))) as lane:
                row = self.lane(index, lane)
                with builder.if_else(builder.icmp_signed("<", row, rows)) as (inside, outside):
                    with inside:
                        builder.store(after, self.place)
                        begin_of_row = builder.add(table, builder.mul(row, columns))
                        self._row(begin_of_row, (sums, products, forms), lane)
                    with outside:
                        self.raise_flag(FAULT)
            builder.store(builder.add(begin, self.wide(length)), self.place)

    def step(self, count: ir.Value) -> None:
        builder = self.builder
        with self.loop(count):
            begin = self.get(self.place, I64)
            terms, base, first, length, sums, products, forms = (self.word(i) for i in range(7))
            self.advance(7)
            open_ = self.among(self.at_least(self.sum(terms, base), first))
            with builder.if_then(self.any(open_)):
                with self.loop(sums):
                    value = self.splat(self.next_word())
                    self.add_vector(self.next_word(), self._where(open_, value))
                with self.loop(products):
                    factor, source = self.splat(self.next_word()), self.next_word()
                    product = builder.mul(factor, self.cell(source))
                    self.add_vector(self.next_word(), self._where(open_, product))
                with self.loop(forms):
                    factor, target = self.splat(self.next_word()), self.next_word()
                    count, constant = self.next_word(), self.next_word()
                    product = builder.mul(factor, self.sum(count, constant))
                    self.add_vector(target, self._where(open_, product))
            builder.store(builder.add(begin, self.wide(length)), self.place)

    def _where(self, bits: ir.Value, value: ir.Value) -> ir.Value:
        """`value` for the launches of `bits`, 0 for others."""
        if self.extents.width > 1:
            bits = self.builder.bitcast(bits, ir.VectorType(BIT, self.extents.width))
        return self.builder.select(bits, value, ir.Constant(self.vector, None))

    def _row(self, row: ir.Value, counts: tuple[ir.Value, ir.Value, ir.Value], lane: ir.Value) -> None:
        """Adds what an open row gives to one launch; `counts`: its sums, products by a cell, products by a form."""
        sums, products, forms = counts
        with self.loop(sums):
            value = self._entry(row, self.next_word())
            self.add_to(self.lane_of(Slot.CELLS, self.next_word(), lane), value)
        with self.loop(products):
            gate, source = self._entry(row, self.next_word()), self.next_word()
            target, weight = self.next_word(), self.next_word()
            value = self.builder.mul(self.builder.mul(gate, weight), self.one_cell(source, lane))
            self.add_to(self.lane_of(Slot.CELLS, target, lane), value)
        with self.loop(forms):
            gate, target, weight = self._entry(row, self.next_word()), self.next_word(), self.next_word()
            count, constant = self.next_word(), self.next_word()
            up = self.sum_of_one(count, constant, lane)
            self.add_to(
                self.lane_of(Slot.CELLS, target, lane), self.builder.mul(self.builder.mul(gate, weight), up)
            )

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
