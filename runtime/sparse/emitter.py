"""What the native executor's code is written with: its context, vectors of launches, masks, loops over program words.

Cells, history and age counters are vectors with one number a launch; a mask says which launches have effects.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from llvmlite import ir

from runtime.sparse.encode import MOST_TESTS

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
    """Per state, a vector: the number of the last step that wrote it."""
    STEP = 8
    """The number of this step, 64 bits."""
    FLAGS = 9
    """FAULT, STALE: 32 bits each."""
    FOLDED = 10
    """Per state: whether programs hold its rows as constants, 8 bits."""
    PROFILE = 11
    """Terms of forms, then records executed by opcode: 64 bits each."""
    MEMOS = 12
    """Vectors: of each memo the step in which it was made, the inputs, and the outputs."""


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


class Emitter:
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
        """A 32-bit number for every launch."""
        return self._splat(value, self.vector)

    def _splat(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        if self.extents.width == 1:
            return value
        empty = ir.Constant(kind, ir.Undefined)
        single = self.builder.insert_element(empty, value, I32(0))
        zeros = ir.Constant(ir.VectorType(I32, self.extents.width), [0] * self.extents.width)
        return self.builder.shuffle_vector(single, empty, zeros)

    def vector_at(self, slot: Slot, index: ir.Value) -> ir.Value:
        return self.builder.gep(self.pointers[slot], [self.wide(index)], source_etype=self.vector)

    def vector_load(self, slot: Slot, index: ir.Value) -> ir.Value:
        return self.builder.load(self.vector_at(slot, index), typ=self.vector, align=4)

    def cell(self, index: ir.Value) -> ir.Value:
        return self.vector_load(Slot.CELLS, index)

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

    def state_word(self, place: ir.Value) -> ir.Value:
        """Address of a word of the launches' memories, which follow one another."""
        return self.builder.gep(self.pointers[Slot.STATES], [self.wide(place)], source_etype=I16)

    def numbered_lanes(self, factor: int) -> ir.Value:
        """Each launch's number, times `factor`."""
        if self.extents.width == 1:
            return I32(0)
        return ir.Constant(self.vector, [factor * lane for lane in range(self.extents.width)])

    def gather(self, slot: Slot, places: ir.Value, bits: ir.Value) -> ir.Value:
        """Each launch's word of an array of 16-bit words, which one more word follows; 0 for launches not of `bits`.

        With one launch the word is loaded whatever `bits` is.
        """
        builder, width = self.builder, self.extents.width
        if width == 1:
            return builder.sext(self.load(self.pointers[slot], self.wide(places), I16), I32)
        wide, pointers = ir.VectorType(I64, width), ir.VectorType(POINTER, width)
        first = builder.ptrtoint(self.pointers[slot], I64)
        offsets = builder.shl(builder.sext(places, wide), ir.Constant(wide, [1] * width))
        addresses = builder.inttoptr(builder.add(self._splat(first, wide), offsets), pointers)
        mask = ir.VectorType(BIT, width)
        kind = ir.FunctionType(self.vector, [pointers, I32, mask, self.vector])
        name = f"llvm.masked.gather.v{width}i32.v{width}p0"
        load = self.function.module.globals.get(name) or ir.Function(self.function.module, kind, name)
        none = ir.Constant(self.vector, None)
        pairs = builder.call(load, [addresses, I32(2), builder.bitcast(bits, mask), none])
        half = self.splat(I32(16))
        return builder.ashr(builder.shl(pairs, half), half)

    def where(self, bits: ir.Value, value: ir.Value) -> ir.Value:
        """`value` for the launches of `bits`, 0 for others."""
        return self._either(bits, value, ir.Constant(self.vector, None))

    def _either(self, bits: ir.Value, value: ir.Value, other: ir.Value) -> ir.Value:
        if self.extents.width > 1:
            bits = self.builder.bitcast(bits, ir.VectorType(BIT, self.extents.width))
        return self.builder.select(bits, value, other)

    def store_where(self, bits: ir.Value, value: ir.Value, address: ir.Value) -> None:
        """Stores a vector's numbers of the launches of `bits`."""
        held = self.builder.load(address, typ=self.vector, align=4)
        self.builder.store(self._either(bits, value, held), address, align=4)

    def valid(self, test: ir.Value, bits: ir.Value) -> ir.Value:
        """The launches of `bits` of which the test holds; any other of them is a fault."""
        good = self.builder.and_(self.bits_of(test), bits)
        with self.builder.if_then(self.builder.icmp_unsigned("!=", good, bits), likely=False):
            self.raise_flag(FAULT)
        return good

    def raise_flag(self, flag: int) -> None:
        address = self.builder.gep(self.pointers[Slot.FLAGS], [I64(flag)], source_etype=I32)
        self.builder.store(I32(1), address)
