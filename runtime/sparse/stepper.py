"""The native token loop: feeds the given tokens, then lets the network say its own, for launches side by side.

A step runs, for each class of token that stands before some launch, the class's *prefix*, which gives a key; for each
key the *trace* specialised to it if there is one, else the class's general *suffix*; and looks the code up.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from llvmlite import ir

from runtime.sparse.emitter import FAULT, GUARD_FAILED, I8, I32, I64, POINTER, STALE, Extents, Slot


class Status(IntEnum):
    """Why the loop returned."""

    ENDED = 1
    LIMIT = 2
    HOT = 3
    """A key has come up so often that a trace pays; Control.HOT_KEY says which."""
    FAULT = 4
    STALE = 5
    NO_TOKEN = 6


class Control(IntEnum):
    """64-bit numbers of the loop."""

    STEP = 0
    GIVEN = 1
    """Tokens that are fed before the network's own count."""
    LIMIT = 2
    END = 3
    KEY_BITS = 4
    THRESHOLD = 5
    HISTORY = 6
    """Cells that are kept for later tokens."""
    HOT_KEY = 7
    """class << KEY_BITS | key"""
    TRACED = 8
    """Tokens that a trace has run."""


class Argument(IntEnum):
    """Arguments of `run`, all pointers."""

    CONTEXT = 0
    CONTROL = 1
    PLANS = 2
    """Per class, 64 bits each: prefix place, its cells, suffix place, cells of both."""
    TRACES = 3
    """Per class and key: place, cells of prefix and trace; place 0 if there is none."""
    COUNTS = 4
    CLASSES = 5
    TOKENS = 6
    """Token of each code."""
    GIVEN = 7
    """[step, launch]"""
    SAID = 8
    """[step, launch]"""
    CURRENT = 9
    """The token each launch stands at."""
    LIVE = 10
    """Whether a launch still runs."""
    SCRATCH = 11
    """Four vectors: classes to do, mask, keys to do, results."""


class _Loop:
    def __init__(self, module: ir.Module, extents: Extents) -> None:
        self.extents = extents
        self.execute = module.get_global("execute")
        kind = ir.FunctionType(I64, [POINTER] * len(Argument))
        self.function = ir.Function(module, kind, "run")
        self.entry = self.function.append_basic_block("entry")
        self.builder: Any = ir.IRBuilder(self.entry)  # llvmlite has no types
        self.set_bytes = module.declare_intrinsic("llvm.memset", [POINTER, I64])
        self.move_bytes = module.declare_intrinsic("llvm.memmove", [POINTER, POINTER, I64])

    def variable(self) -> ir.Value:
        """A 32-bit variable, 0 from here on."""
        with self.builder.goto_block(self.entry):
            if self.entry.is_terminated:
                self.builder.position_before(self.entry.terminator)
            address = self.builder.alloca(I32)
        self.builder.store(I32(0), address)
        return address

    def at(self, argument: Argument, index: ir.Value, kind: ir.Type = I32) -> ir.Value:
        return self.builder.gep(self.function.args[argument], [index], source_etype=kind)

    def load(self, argument: Argument, index: ir.Value, kind: ir.Type = I32) -> ir.Value:
        return self.builder.load(self.at(argument, index, kind), typ=kind)

    def control(self, item: Control) -> ir.Value:
        return self.load(Argument.CONTROL, I64(item), I64)

    def set_control(self, item: Control, value: ir.Value) -> None:
        self.builder.store(value, self.at(Argument.CONTROL, I64(item), I64))

    def context(self, slot: Slot) -> ir.Value:
        return self.load(Argument.CONTEXT, I64(slot), POINTER)

    def scratch(self, part: int, lane: ir.Value) -> ir.Value:
        return self.at(Argument.SCRATCH, self.builder.add(lane, I64(part * self.extents.width)))

    @contextmanager
    def lanes(self) -> Iterator[ir.Value]:
        builder = self.builder
        before = builder.block
        head, done = builder.append_basic_block("lane"), builder.append_basic_block("lanes_done")
        builder.branch(head)
        builder.position_at_end(head)
        lane = builder.phi(I64)
        lane.add_incoming(I64(0), before)
        yield lane
        following = builder.add(lane, I64(1))
        lane.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, I64(self.extents.width)), head, done)
        builder.position_at_end(done)

    def zero_cells(self, first: ir.Value, last: ir.Value) -> None:
        size = I64(4 * self.extents.width)
        start = self.builder.gep(self.context(Slot.CELLS), [self.builder.mul(first, size)], source_etype=I8)
        length = self.builder.mul(self.builder.sub(last, first), size)
        self.builder.call(self.set_bytes, [start, I8(0), length, ir.IntType(1)(0)])

    def run(self, place: ir.Value) -> None:
        """Calls `execute` on the mask in scratch part 1, results to part 3."""
        mask, results = self.scratch(1, I64(0)), self.scratch(3, I64(0))
        context, current = self.function.args[Argument.CONTEXT], self.function.args[Argument.CURRENT]
        self.builder.call(self.execute, [context, place, current, mask, results])

    @contextmanager
    def groups(self, part: int) -> Iterator[ir.Value]:
        """While some launch of scratch part `part` (0 where none, else its group's number + 1) is left: takes the
        first one's group into the mask; gives the group's number."""
        builder = self.builder
        head, body, done = (
            builder.append_basic_block(name) for name in ("group", "group_body", "groups_done")
        )
        builder.branch(head)
        builder.position_at_end(head)
        chosen = self.variable()
        with self.lanes() as lane:
            value = builder.load(self.scratch(part, lane), typ=I32)
            held = builder.load(chosen, typ=I32)
            builder.store(builder.select(builder.icmp_signed("==", held, I32(0)), value, held), chosen)
        group = builder.load(chosen, typ=I32)
        builder.cbranch(builder.icmp_signed("==", group, I32(0)), done, body)
        builder.position_at_end(body)
        with self.lanes() as lane:
            value = builder.load(self.scratch(part, lane), typ=I32)
            same = builder.icmp_signed("==", value, group)
            builder.store(builder.zext(same, I32), self.scratch(1, lane))
            builder.store(builder.select(same, I32(0), value), self.scratch(part, lane))
        yield builder.sub(group, I32(1))
        builder.branch(head)
        builder.position_at_end(done)

    # --- one step

    def step(self) -> None:
        builder = self.builder
        with self.lanes() as lane:
            token = builder.zext(self.load(Argument.CURRENT, lane), I64)
            kind = builder.zext(self.load(Argument.CLASSES, token, I8), I32)
            live = self.load(Argument.LIVE, lane)
            group = builder.mul(builder.add(kind, I32(1)), live)
            builder.store(group, self.scratch(0, lane))
            builder.store(I32(0), self.scratch(2, lane))
        with self.groups(0) as kind:
            kind = builder.zext(kind, I64)
            plan = [self._plan(kind, item) for item in range(4)]
            self.zero_cells(I64(0), plan[1])
            self.run(plan[0])
            with self.lanes() as lane:
                chosen = builder.load(self.scratch(1, lane), typ=I32)
                key = builder.add(builder.load(self.scratch(3, lane), typ=I32), I32(1))
                builder.store(builder.mul(key, chosen), self.scratch(2, lane))
            with self.groups(2) as key:
                self._suffix(kind, builder.zext(key, I64), plan)
                with self.lanes() as lane, builder.if_then(self._masked(lane)):
                    code = builder.load(self.scratch(3, lane), typ=I32)
                    token = self.load(Argument.TOKENS, builder.zext(code, I64))
                    builder.store(token, self._said(lane))

    def _masked(self, lane: ir.Value) -> ir.Value:
        return self.builder.icmp_signed("!=", self.builder.load(self.scratch(1, lane), typ=I32), I32(0))

    def _said(self, lane: ir.Value) -> ir.Value:
        row = self.builder.mul(self.control(Control.STEP), I64(self.extents.width))
        return self.at(Argument.SAID, self.builder.add(row, lane))

    def _plan(self, kind: ir.Value, item: int) -> ir.Value:
        return self.load(Argument.PLANS, self.builder.add(self.builder.shl(kind, I64(2)), I64(item)), I64)

    def _suffix(self, kind: ir.Value, key: ir.Value, plan: list[ir.Value]) -> None:
        """The trace of (kind, key), or the general suffix; counts the latter."""
        builder = self.builder
        place = builder.or_(builder.shl(kind, self.control(Control.KEY_BITS)), key)
        trace = self.load(Argument.TRACES, builder.shl(place, I64(1)), I64)
        cells = self.load(Argument.TRACES, builder.or_(builder.shl(place, I64(1)), I64(1)), I64)
        traced = builder.icmp_signed("!=", trace, I64(0))
        with builder.if_else(traced) as (yes, no):
            with yes:
                self.set_control(Control.TRACED, builder.add(self.control(Control.TRACED), I64(1)))
            with no:
                count = builder.add(self.load(Argument.COUNTS, place), I32(1))
                builder.store(count, self.at(Argument.COUNTS, place))
                hot = builder.icmp_signed("==", builder.sext(count, I64), self.control(Control.THRESHOLD))
                with builder.if_then(hot, likely=False):
                    self.set_control(Control.HOT_KEY, place)
        self.zero_cells(plan[1], builder.select(traced, cells, plan[3]))
        self.run(builder.select(traced, trace, plan[2]))
        failed = self.variable()
        with self.lanes() as lane, builder.if_then(self._masked(lane)):
            builder.store(builder.load(self.scratch(3, lane), typ=I32), failed)
        guarded = builder.icmp_signed("==", builder.load(failed, typ=I32), I32(GUARD_FAILED))
        with builder.if_then(guarded, likely=False):
            self.zero_cells(plan[1], plan[3])
            self.run(plan[2])

    def shift_history(self) -> None:
        """What was kept in this step is one token back in the next."""
        builder = self.builder
        size = builder.mul(self.control(Control.HISTORY), I64(4 * self.extents.width))
        source = self.context(Slot.HISTORY)
        target = builder.gep(source, [size], source_etype=I8)
        self.builder.call(self.move_bytes, [target, source, builder.mul(size, I64(3)), ir.IntType(1)(0)])

    def advance(self) -> tuple[ir.Value, ir.Value]:
        """Each launch's next token; whether any launch is left, and whether one has no token to go on with."""
        builder = self.builder
        left, lost = self.variable(), self.variable()
        step = builder.add(self.control(Control.STEP), I64(1))
        given = builder.icmp_signed("<", step, self.control(Control.GIVEN))
        with self.lanes() as lane:
            said = builder.load(self._said(lane), typ=I32)
            place = builder.add(
                builder.mul(builder.select(given, step, I64(0)), I64(self.extents.width)), lane
            )
            token = builder.select(given, self.load(Argument.GIVEN, place), said)
            live = self.load(Argument.LIVE, lane)
            ended = builder.icmp_signed("==", builder.sext(token, I64), self.control(Control.END))
            ended = builder.and_(ended, builder.not_(given))
            live = builder.select(ended, I32(0), live)
            none = builder.and_(
                builder.icmp_signed("<", token, I32(0)), builder.icmp_signed("!=", live, I32(0))
            )
            builder.store(builder.or_(builder.load(lost, typ=I32), builder.zext(none, I32)), lost)
            builder.store(builder.or_(builder.load(left, typ=I32), live), left)
            builder.store(live, self.at(Argument.LIVE, lane))
            builder.store(builder.select(none, I32(0), token), self.at(Argument.CURRENT, lane))
        self.set_control(Control.STEP, step)
        return builder.load(left, typ=I32), builder.load(lost, typ=I32)

    def body(self) -> None:
        builder = self.builder
        head = builder.append_basic_block("step")
        builder.branch(head)
        builder.position_at_end(head)
        builder.store(self.control(Control.STEP), self.context(Slot.STEP))
        self.step()
        self.shift_history()
        left, lost = self.advance()
        self._return_where(builder.icmp_signed("!=", self._flag(FAULT), I32(0)), Status.FAULT)
        self._return_where(builder.icmp_signed("!=", lost, I32(0)), Status.NO_TOKEN)
        self._return_where(builder.icmp_signed("==", left, I32(0)), Status.ENDED)
        self._return_where(builder.icmp_signed("!=", self._flag(STALE), I32(0)), Status.STALE)
        over = builder.icmp_signed(">=", self.control(Control.STEP), self.control(Control.LIMIT))
        self._return_where(over, Status.LIMIT)
        self._return_where(builder.icmp_signed(">=", self.control(Control.HOT_KEY), I64(0)), Status.HOT)
        builder.branch(head)

    def _flag(self, flag: int) -> ir.Value:
        address = self.builder.gep(self.context(Slot.FLAGS), [I64(flag)], source_etype=I32)
        return self.builder.load(address, typ=I32)

    def _return_where(self, condition: ir.Value, status: Status) -> None:
        with self.builder.if_then(condition, likely=False):
            self.builder.ret(I64(status))


def add_token_loop(module: ir.Module, extents: Extents) -> None:
    """`run(...)` over the module's `execute`; gives a Status."""
    _Loop(module, extents).body()
