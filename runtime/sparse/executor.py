"""The native executor of encoded programs (encode.py), as LLVM IR for a number of launches side by side.

One function, `execute(context, place, token*, mask*, results*)`, runs sections from `place` on until KEY or CODE.
"""

from collections.abc import Callable

from llvmlite import ir

from runtime.sparse.emitter import (
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
        tokens = self.builder.load(self.function.args[2], typ=self.vector, align=4)
        rows = self.builder.mul(tokens, self.splat(I32(self.extents.embedding)))
        with self.loop(count):
            place = self.builder.add(rows, self.splat(self.next_word()))
            self.add_vector(self.next_word(), self.gather(Slot.EMBEDDING, place, self.mask))

    def tap(self, count: ir.Value) -> None:
        with self.loop(count):
            place, cell = self.next_word(), self.next_word()
            self.builder.store(
                self.vector_load(Slot.HISTORY, place), self.vector_at(Slot.CELLS, cell), align=4
            )

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
            open_ = self.among(self.at_least(index, first))
            with builder.if_then(self.any(open_)):
                inside = self.valid(builder.icmp_unsigned("<", index, self.splat(rows)), open_)
                with builder.if_then(self.any(inside)):
                    row = builder.add(self.splat(table), builder.mul(index, self.splat(columns)))
                    self._row(row, (sums, products, forms), inside)
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
                    self.add_vector(self.next_word(), self.where(open_, value))
                with self.loop(products):
                    factor, source = self.splat(self.next_word()), self.next_word()
                    product = builder.mul(factor, self.cell(source))
                    self.add_vector(self.next_word(), self.where(open_, product))
                with self.loop(forms):
                    factor, target = self.splat(self.next_word()), self.next_word()
                    count, constant = self.next_word(), self.next_word()
                    product = builder.mul(factor, self.sum(count, constant))
                    self.add_vector(target, self.where(open_, product))
            builder.store(builder.add(begin, self.wide(length)), self.place)

    def _row(self, row: ir.Value, counts: tuple[ir.Value, ir.Value, ir.Value], bits: ir.Value) -> None:
        """Adds what open rows give; `counts`: their sums, products by a cell, products by a form."""
        sums, products, forms = counts
        with self.loop(sums):
            value = self._entry(row, self.next_word(), bits)
            self.add_vector(self.next_word(), value)
        with self.loop(products):
            gate, source = self._entry(row, self.next_word(), bits), self.cell(self.next_word())
            target, weight = self.next_word(), self.splat(self.next_word())
            self.add_vector(target, self.builder.mul(self.builder.mul(gate, weight), source))
        with self.loop(forms):
            gate, target = self._entry(row, self.next_word(), bits), self.next_word()
            weight, count, constant = self.splat(self.next_word()), self.next_word(), self.next_word()
            up = self.sum(count, constant)
            self.add_vector(target, self.builder.mul(self.builder.mul(gate, weight), up))

    def _entry(self, row: ir.Value, column: ir.Value, bits: ir.Value) -> ir.Value:
        return self.gather(Slot.TABLES, self.builder.add(row, self.splat(column)), bits)

    def _rows_of(self, rows: ir.Value, inputs: ir.Value, bits: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Rows at the addresses that the next `inputs` program words give, and the launches of `bits` that have one.

        Several rows, and what is no address, are faults.
        """
        builder = self.builder
        index = self.bits(inputs)
        limit = self.splat(builder.shl(I32(1), inputs))
        within = self.valid(builder.icmp_unsigned("<", index, limit), bits)
        row = self.variable(self.vector, ir.Constant(self.vector, None))
        with builder.if_then(self.any(within)):
            builder.store(self._entry(index, rows, within), row)
        found = self.get(row, self.vector)
        one = self.valid(builder.icmp_signed("!=", found, self.splat(I32(SEVERAL))), within)
        return found, builder.and_(one, self.bits_of(self.at_least(found, I32(0))))

    def _state_rows(self, start: ir.Value, columns: ir.Value, row: ir.Value) -> ir.Value:
        """Where launches' rows of a state begin."""
        builder = self.builder
        begin = builder.add(self.numbered_lanes(self.extents.state), self.splat(start))
        return builder.add(begin, builder.mul(row, self.splat(columns)))

    def read(self, count: ir.Value) -> None:
        builder = self.builder
        with self.loop(count):
            begin = self.get(self.place, I64)
            length, start, columns, inputs = (self.word(i) for i in range(4))
            rows, outputs, anchor = (self.word(i) for i in range(4, 7))
            self.advance(7)
            row, found = self._rows_of(rows, inputs, self.mask)
            with builder.if_then(self.any(found)):
                at = self._state_rows(start, columns, row)

                def stored(column: ir.Value, at: ir.Value = at, found: ir.Value = found) -> ir.Value:
                    return self.gather(Slot.STATES, builder.add(at, self.splat(column)), found)

                self._bring(outputs, anchor, stored)
            builder.store(builder.add(begin, self.wide(length)), self.place)

    def _bring(self, outputs: ir.Value, anchor: ir.Value, value: Callable[[ir.Value], ir.Value]) -> None:
        """Adds what is stored to cells. If a column anchors the norm, it must be 1, or nothing is stored."""
        builder = self.builder
        seen = self.variable(self.vector, ir.Constant(self.vector, None))
        with self.loop(outputs):
            brought = value(self.next_word())
            builder.store(builder.or_(self.get(seen, self.vector), brought), seen)
            self.add_vector(self.next_word(), brought)
        with builder.if_then(builder.icmp_signed(">=", anchor, I32(0))):
            stored = builder.icmp_signed("!=", self.get(seen, self.vector), ir.Constant(self.vector, None))
            self.valid(builder.icmp_signed("==", value(anchor), self.splat(I32(1))), self.bits_of(stored))

    def every(self, count: ir.Value) -> None:
        builder = self.builder
        with self.loop(count):
            begin = self.get(self.place, I64)
            length, start, columns, rows = (self.word(i) for i in range(4))
            terms, base, outputs, anchor = (self.word(i) for i in range(4, 8))
            self.advance(8)
            open_ = self.among(self.at_least(self.sum(terms, base), I32(0)))
            with builder.if_then(self.any(open_)):
                first = self._state_rows(start, columns, ir.Constant(self.vector, None))

                def summed(
                    column: ir.Value,
                    first: ir.Value = first,
                    rows: ir.Value = rows,
                    columns: ir.Value = columns,
                    open_: ir.Value = open_,
                ) -> ir.Value:
                    total = self.variable(self.vector, ir.Constant(self.vector, None))
                    with self.loop(rows) as row:
                        offset = builder.add(builder.mul(row, columns), column)
                        stored = self.gather(Slot.STATES, builder.add(first, self.splat(offset)), open_)
                        builder.store(builder.add(self.get(total, self.vector), stored), total)
                    return self.get(total, self.vector)

                self._bring(outputs, anchor, summed)
            builder.store(builder.add(begin, self.wide(length)), self.place)

    def write(self, count: ir.Value) -> None:
        builder = self.builder
        with self.loop(count):
            begin = self.get(self.place, I64)
            length, number, start, columns = (self.word(i) for i in range(4))
            terms, base, inputs, rows, written = (self.word(i) for i in range(4, 9))
            self.advance(9)
            enabled = self.among(self.at_least(self.sum(terms, base), I32(0)))
            with builder.if_then(self.any(enabled)):
                row, found = self._rows_of(rows, inputs, enabled)
                with builder.if_then(self.any(found)):
                    self._mark(number, found)
                    self._columns(written, self._state_rows(start, columns, row), found)
            builder.store(builder.add(begin, self.wide(length)), self.place)

    def _mark(self, number: ir.Value, bits: ir.Value) -> None:
        """Notes that a state of these launches has changed."""
        step = self.splat(self._step_number())
        self.store_where(bits, step, self.vector_at(Slot.WRITTEN, number))
        folded = self.load(self.pointers[Slot.FOLDED], self.wide(number), I8)
        with self.builder.if_then(self.builder.icmp_signed("!=", folded, I8(0)), likely=False):
            self.raise_flag(STALE)

    def _step_number(self) -> ir.Value:
        return self.builder.trunc(self.load(self.pointers[Slot.STEP], I64(0), I64), I32)

    def _columns(self, count: ir.Value, rows: ir.Value, bits: ir.Value) -> None:
        builder = self.builder
        with self.loop(count) as column:
            constant, terms = self.next_word(), self.next_word()
            total = self.variable(self.vector, self.sum(terms, constant))
            with self.loop(self.next_word()):
                weight, inner, base = self.splat(self.next_word()), self.next_word(), self.next_word()
                value = self.sum(inner, base)
                zero = ir.Constant(self.vector, None)
                ramp = builder.select(builder.icmp_signed(">", value, zero), value, zero)
                builder.store(builder.add(self.get(total, self.vector), builder.mul(weight, ramp)), total)
            written, places = self.get(total, self.vector), builder.add(rows, self.splat(column))
            with self.lanes(bits) as lane:
                place = self.state_word(self.lane(places, lane))
                builder.store(builder.trunc(self.lane(written, lane), I16), place)

    def wipe(self, count: ir.Value) -> None:
        builder = self.builder
        with self.loop(count):
            number, start, words, terms, base = (self.next_word() for _ in range(5))
            wiped = self.among(self.at_least(self.sum(terms, base), I32(0)))
            with builder.if_then(self.any(wiped)):
                self._mark(number, wiped)
                first = self._state_rows(start, I32(0), ir.Constant(self.vector, None))
                with self.lanes(wiped) as lane, self.loop(words) as index:
                    builder.store(I16(0), self.state_word(builder.add(self.lane(first, lane), index)))

    def age(self, count: ir.Value) -> None:
        builder = self.builder
        with self.loop(count):
            counter, cell, terms, base, more, step = (self.next_word() for _ in range(6))
            event, steps = self.sum(terms, base), self.sum(more, step)
            older = builder.add(self.vector_load(Slot.AGES, counter), steps)
            most, none = self.splat(I32(MOST_AGE)), ir.Constant(self.vector, None)
            capped = builder.select(builder.icmp_signed("<", older, most), older, most)
            value = builder.select(self.at_least(event, I32(0)), none, capped)
            self.store_where(self.mask, value, self.vector_at(Slot.AGES, counter))
            self.add_vector(cell, value)

    def keep(self, count: ir.Value) -> None:
        builder = self.builder
        with self.loop(count):
            place, cell, value = self.next_word(), self.next_word(), self.next_word()
            known = builder.icmp_signed("<", cell, I32(0))
            held = self.cell(builder.select(known, I32(0), cell))
            kept = builder.select(known, self.splat(value), held)
            self.store_where(self.mask, kept, self.vector_at(Slot.HISTORY, place))

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

    def memo(self, count: ir.Value) -> None:
        """Goes on behind the part where all launches with effects remember it; else begins their memos anew."""
        del count  # always 1
        builder = self.builder
        length, memo, states, inputs, outputs = (self.next_word() for _ in range(5))
        place = self.variable(I32, memo)
        made = self._next_held(place)
        other = self.variable(self.mask_type, self.mask_type(0))
        with self.loop(states):
            written = self.vector_load(Slot.WRITTEN, self.next_word())
            self._or_bits(other, builder.icmp_signed(">", written, made))
        begin = self.get(self.place, I64)
        with self.loop(inputs):
            self._or_bits(
                other, builder.icmp_signed("!=", self._next_held(place), self.cell(self.next_word()))
            )
        missing = builder.and_(self.get(other, self.mask_type), self.mask)
        with builder.if_else(self.any(missing)) as (some, none):
            with some:
                builder.store(begin, self.place)
                self._begin_memo(memo, inputs, outputs)
            with none:
                with self.loop(outputs):
                    self.add_vector(self.next_word(), self._next_held(place))
                self.advance(length)

    def _next_held(self, place: ir.Value) -> ir.Value:
        """The vector of memos at a variable, which goes on to the next."""
        index = self.get(place, I32)
        self.builder.store(self.builder.add(index, I32(1)), place)
        return self.vector_load(Slot.MEMOS, index)

    def _or_bits(self, bits: ir.Value, test: ir.Value) -> None:
        held = self.get(bits, self.mask_type)
        self.builder.store(self.builder.or_(held, self.bits_of(test)), bits)

    def _begin_memo(self, memo: ir.Value, inputs: ir.Value, outputs: ir.Value) -> None:
        """The step, the inputs, and less than the outputs by what is added to them until `remember`."""
        place = self.variable(I32, memo)
        self._hold(place, self.splat(self._step_number()))
        with self.loop(inputs):
            self._hold(place, self.cell(self.next_word()))
        with self.loop(outputs):
            self._hold(place, self.builder.neg(self.cell(self.next_word())))

    def _hold(self, place: ir.Value, vector: ir.Value) -> None:
        """Puts a vector where a variable says among the memos of the launches with effects; goes on to the next."""
        index = self.get(place, I32)
        self.store_where(self.mask, vector, self.vector_at(Slot.MEMOS, index))
        self.builder.store(self.builder.add(index, I32(1)), place)

    def remember(self, count: ir.Value) -> None:
        with self.loop(count):
            place, cell = self.next_word(), self.next_word()
            whole = self.builder.add(self.vector_load(Slot.MEMOS, place), self.cell(cell))
            self.store_where(self.mask, whole, self.vector_at(Slot.MEMOS, place))

    def guard(self, count: ir.Value) -> None:
        builder = self.builder
        with self.loop(count):
            cell, value = self.next_word(), self.next_word()
            other = builder.icmp_signed("!=", self.cell(cell), self.splat(value))
            with builder.if_then(self.any(self.among(other)), likely=False):
                self._give_up()

    def _give_up(self) -> None:
        """Every launch's result is GUARD_FAILED."""
        self.store_where(self.mask, self.splat(I32(GUARD_FAILED)), self.function.args[4])
        self.builder.ret_void()

    def finish(self, count: ir.Value) -> None:
        """KEY or CODE: the launches' sums go to `results`; what is no such number is a fault, and 0."""
        limit = self.next_word()
        total = self.sum(count, self.next_word())
        below = self.builder.icmp_unsigned("<", total, self.splat(limit))
        self.valid(below, self.mask)
        result = self.builder.select(below, total, ir.Constant(self.vector, None))
        self.store_where(self.mask, result, self.function.args[4])
        self.builder.ret_void()


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
        Op.CODE: emit.finish, Op.MEMO: emit.memo, Op.REMEMBER: emit.remember,
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
