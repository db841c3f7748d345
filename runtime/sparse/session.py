"""Launches of a network on native code: their memory, the loop, and the traces that are made on the way."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from runtime.sparse.emitter import Slot
from runtime.sparse.encode import Op
from runtime.sparse.native import NativeCode
from runtime.sparse.network import MOST_AGE
from runtime.sparse.plans import Compiler, Programs
from runtime.sparse.specialise import Facts
from runtime.sparse.stepper import Argument, Control, Status

HOT = 4096
"""How often a key comes up before a trace is made for it: making one takes as long as some ten thousand tokens."""
NEVER = 1 << 40
NOT_MADE = -(1 << 31)
"""In place of the step in which a memo was made."""
QUIET_STEPS = 32
"""Steps without a write after which a memory is taken to hold still."""
RUN = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * len(Argument))


@dataclass(frozen=True)
class Snapshot:
    """All memories after some tokens, and the token that each launch says next."""

    states: np.ndarray
    history: np.ndarray
    ages: np.ndarray
    said: list[int]


class LostExactnessError(Exception):
    """The network did what its reported ranges exclude."""


class Session:
    """`width` launches side by side on one network. `compiler` is asked for when the first trace is made."""

    def __init__(
        self, programs: Programs, compiler: Callable[[], Compiler], code: NativeCode, width: int
    ) -> None:
        self.programs, self._compiler, self.width = programs, compiler, width
        self._native = code
        self._run = RUN(code.address("run"))
        layout = programs.layout
        self.states = np.zeros(width * layout.size + 1, dtype=np.int16)[:-1].reshape(width, layout.size)
        self._code, self._tables = programs.code, programs.tables
        self._cells = np.zeros(max(plan.cells for plan in programs.plans) * width, dtype=np.int32)
        self._embedding = np.append(programs.embedding, np.int16(0))
        self._tokens = np.ascontiguousarray(programs.tokens)
        self._history = np.zeros((4, len(programs.history), width), dtype=np.int32)
        self._ages = np.zeros((programs.cells, width), dtype=np.int32)
        self._written = np.zeros((len(layout.start), width), dtype=np.int32)
        self._memos = np.zeros((programs.memos, width), dtype=np.int32)
        self._step = np.zeros(1, dtype=np.int64)
        self._flags = np.zeros(2, dtype=np.int32)
        self._folded = np.zeros(len(layout.start), dtype=np.uint8)
        self.profile = np.zeros(len(Op) + 1, dtype=np.int64)
        """Terms of forms, then records executed by opcode, where the code counts them."""
        self._banned: set[int] = set()
        self._control = np.zeros(len(Control), dtype=np.int64)
        keys = len(programs.plans) << len(programs.key)
        plans = [[plan.prefix, plan.prefix_cells, plan.suffix, plan.cells] for plan in programs.plans]
        self._plans = np.array(plans, dtype=np.int64)
        self._traces = np.zeros((keys, 2), dtype=np.int64)
        self._counts = np.zeros(keys, dtype=np.int32)
        self._current = np.zeros(width, dtype=np.int32)
        self._live = np.zeros(width, dtype=np.int32)
        self._scratch = np.zeros((4, width), dtype=np.int32)
        self.hot = HOT
        self.traces = 0
        self._context = np.zeros(len(Slot), dtype=np.int64)
        self._addresses = self._argument_addresses()
        self._start: Snapshot | None = None

    def begin(self, given: Sequence[Sequence[int]]) -> Snapshot:
        """Empties all memories and feeds each launch its tokens; those with fewer begin later. Where that leaves it."""
        self.states[:], self._history[:], self._ages[:] = 0, 0, MOST_AGE
        self._drop_traces()
        self._banned.clear()
        longest = max(map(len, given))
        starts = np.array([longest - len(tokens) for tokens in given])
        padded = [[0] * int(start) + list(tokens) for start, tokens in zip(starts, given, strict=True)]
        edges = [*sorted(set(starts.tolist())), longest]
        said: list[list[int]] = []
        for begin, end in pairwise(edges):
            part = [tokens[begin:end] for tokens in padded]
            said, _ = self._go_on(part, 1, NEVER, live=(starts <= begin).astype(np.int32))
        first = [tokens[0] for tokens in said]
        self._start = Snapshot(self.states.copy(), self._history.copy(), self._ages.copy(), first)
        return self._start

    def feed(self, given: Sequence[Sequence[int]]) -> list[int]:
        """Feeds each launch as many tokens, from where it is; what each would say next."""
        said, _ = self._go_on(given, 1, NEVER, np.ones(self.width, dtype=np.int32))
        return [tokens[0] for tokens in said]

    def resume(self, snapshot: Snapshot) -> None:
        """Goes back to where `begin` ended. Traces made since then stay."""
        if snapshot is not self._start:
            self._drop_traces()
            self._banned.clear()
            self._start = snapshot
        self.states[:], self._history[:], self._ages[:] = snapshot.states, snapshot.history, snapshot.ages

    def run(self, limit: int) -> tuple[list[list[int]], bool]:
        """What each launch says from where `begin` ended, to the end token or up to `limit`; whether all ended.

        Raises LostExactnessError where exactness cannot be kept.
        """
        assert self._start is not None
        first = self._start.said
        live = np.array([token != self.programs.end for token in first], dtype=np.int32)
        if not live.any() or limit < 2:
            return [[token] for token in first], not live.any()
        said, status = self._go_on([[token] for token in first], limit - 1, self.hot, live)
        tokens = [_until([token, *more], self.programs.end) for token, more in zip(first, said, strict=True)]
        return tokens, status is Status.ENDED

    @property
    def traced(self) -> int:
        """Tokens that traces have run, of each group of launches together."""
        return int(self._control[Control.TRACED])

    def memory(self, launch: int, words: int, bits: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """The first words of a launch's global memory; `bits`: each bit's value dimensions, of which one holds it."""
        state, columns = self.programs.memory
        rows = self._rows(state, launch)[:words].astype(np.int64)
        places = {dimension: (column, weight) for column, parts in columns for dimension, weight in parts}
        result = np.zeros(words, dtype=np.int64)
        for bit, dimensions in enumerate(bits):
            column, weight = places[dimensions[0]]
            result[: len(rows)] |= (rows[:, column] // weight & 1) << bit
        return tuple(result.tolist())

    def _go_on(
        self, given: Sequence[Sequence[int]], limit: int, threshold: int, live: np.ndarray
    ) -> tuple[list[list[int]], Status]:
        """Feeds tokens, then lets each launch say up to `limit`; launches that are not `live` stay as they are."""
        count = len(given[0])
        fed = np.ascontiguousarray(np.array(given, dtype=np.int32).T)
        said = np.zeros((count + limit, self.width), dtype=np.int32)
        control = {
            Control.STEP: 0, Control.GIVEN: count, Control.LIMIT: count + limit - 1, Control.THRESHOLD: threshold,
            Control.END: self.programs.end, Control.KEY_BITS: len(self.programs.key),
            Control.HISTORY: len(self.programs.history),
        }  # fmt: skip
        for item, value in control.items():
            self._control[item] = value
        self._written[:], self._memos[:] = -QUIET_STEPS, NOT_MADE
        self._current[:], self._live[:] = fed[0], live
        status = Status.HOT
        while status in (Status.HOT, Status.STALE):
            self._control[Control.HOT_KEY] = -1
            status = self._loop(fed, said)
            if status is Status.STALE:
                self._stale()
            elif status is Status.HOT:
                self._make_trace(int(self._control[Control.HOT_KEY]))
        if status in (Status.FAULT, Status.NO_TOKEN):
            raise LostExactnessError(status.name)
        steps = int(self._control[Control.STEP])
        return said[count - 1 : steps].T.tolist(), status

    def _loop(self, fed: np.ndarray, said: np.ndarray) -> Status:
        self._addresses[Argument.GIVEN], self._addresses[Argument.SAID] = fed.ctypes.data, said.ctypes.data
        return Status(self._run(*self._addresses))

    def _argument_addresses(self) -> list[int]:
        """Addresses of what `run` takes, of GIVEN and SAID none yet; to be asked for where an array is replaced."""
        slots = {
            Slot.CODE: self._code, Slot.CELLS: self._cells, Slot.STATES: self.states, Slot.TABLES: self._tables,
            Slot.EMBEDDING: self._embedding, Slot.HISTORY: self._history, Slot.AGES: self._ages,
            Slot.WRITTEN: self._written, Slot.STEP: self._step, Slot.FLAGS: self._flags, Slot.FOLDED: self._folded,
            Slot.PROFILE: self.profile, Slot.MEMOS: self._memos,
        }  # fmt: skip
        self._context[:] = [slots[slot].ctypes.data for slot in Slot]
        arrays = {
            Argument.CONTEXT: self._context, Argument.CONTROL: self._control, Argument.PLANS: self._plans,
            Argument.TRACES: self._traces, Argument.COUNTS: self._counts, Argument.CLASSES: self.programs.classes,
            Argument.TOKENS: self._tokens, Argument.CURRENT: self._current, Argument.LIVE: self._live,
            Argument.SCRATCH: self._scratch,
        }  # fmt: skip
        return [arrays[item].ctypes.data if item in arrays else 0 for item in Argument]

    # --- traces

    def _make_trace(self, place: int) -> None:
        """A suffix for one class and key, with the rows folded that have not been written for a while."""
        programs, bits, compiler = self.programs, len(self.programs.key), self._compiler()
        base = programs.bases[place >> bits]
        low, high = base.facts.low.copy(), base.facts.high.copy()
        for index, cell in enumerate(programs.key):
            low[cell] = high[cell] = place >> index & 1
        quiet = int(self._control[Control.STEP]) - QUIET_STEPS
        known = {
            state: self._rows(state)
            for state in compiler.foldable
            if self._written[state].max() < quiet and state not in self._banned and self._same(state)
        }
        guards = [(cell, int(self._cells[base.numbers[cell] * self.width])) for cell in compiler.guards]
        guards = [(cell, value) for cell, value in guards if low[cell] < high[cell]]
        for cell, value in guards:
            low[cell] = high[cell] = value
        residue = compiler.suffix(Facts(low, high), known)
        rewritten = {write.state for phase in residue.phases for write in phase.writes} & known.keys()
        if rewritten:  # what the trace itself may write is no constant in it
            known = {state: rows for state, rows in known.items() if state not in rewritten}
            residue = compiler.suffix(Facts(low, high), known)
        encoder = compiler.encoder()
        encoder.numbers = dict(base.numbers)
        encoder.section(Op.GUARD, ([base.numbers[cell], value] for cell, value in guards))
        compiler.write_suffix(encoder, residue, base.changing)
        self._traces[place] = len(self._code), encoder.count
        self._code = np.concatenate([self._code, np.array(encoder.words, dtype=np.int32)])
        self._tables = compiler.pool.array()
        if encoder.count * self.width > len(self._cells):
            self._cells = np.zeros(encoder.count * self.width, dtype=np.int32)
        more = compiler.memos - len(self._memos)
        self._memos = np.pad(self._memos, ((0, more), (0, 0)), constant_values=NOT_MADE)
        self._addresses = self._argument_addresses()
        self._folded[list(known)] = 1
        self.traces += 1

    def _rows(self, state: int, launch: int = 0) -> np.ndarray:
        layout = self.programs.layout
        rows, columns, start = layout.rows[state], layout.columns[state], layout.start[state]
        return self.states[launch, start : start + rows * columns].reshape(rows, columns)

    def _same(self, state: int) -> bool:
        """Whether all launches hold the same rows."""
        layout = self.programs.layout
        size, start = layout.rows[state] * layout.columns[state], layout.start[state]
        part = self.states[:, start : start + size]
        return bool((part == part[0]).all())

    def _stale(self) -> None:
        """A folded state was written: traces are dropped, and it is not folded again."""
        self._banned |= set(
            np.flatnonzero(self._folded.astype(bool) & (self._written >= self._step[0]).any(axis=1)).tolist()
        )
        self._drop_traces()

    def _drop_traces(self) -> None:
        self._traces[:], self._counts[:], self._folded[:], self._flags[:] = 0, 0, 0, 0
        self._code = self.programs.code
        self._addresses = self._argument_addresses()
        self.traces = 0


def _until(tokens: list[int], end: int) -> list[int]:
    return tokens[: tokens.index(end) + 1] if end in tokens else tokens
