"""racecheck: two threads touch the same bytes, one of them writes, and nothing orders them.

Ordered means happens-before in vector clocks (Flanagan and Freund, "FastTrack", 2009): a barrier orders the
threads that leave it together, bar.warp.sync the lanes of its mask; an atomic that reads what another wrote
does where the writer releases and the reader acquires, by its own semantics (.release, .acquire, .acq_rel) or
by a fence between (PTX ISA, "Memory Consistency Model"). Lanes of a warp are not ordered by running in step,
thread blocks not by running one after another.

Strong accesses (atomics, .volatile, .relaxed and stronger ones) of the same bytes do not race with each other,
unless the scope of one is its own thread block and the other is in another. Two stores of the same value are
a note: the outcome is the same on every hardware.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from toolchain.ptx_frontend.ast import Instruction
from toolchain.ptx_frontend.interpreter import Thread
from toolchain.ptx_frontend.observer import Access, AccessKind
from toolchain.sanitizer.addresses import describe
from toolchain.sanitizer.findings import Finding, Findings, Kind, Place, place

STRONG = frozenset({"volatile", "mmio", "relaxed", "acquire", "release", "acq_rel", "sc"})
ACQUIRING = frozenset({"acquire", "acq_rel", "sc"})
RELEASING = frozenset({"release", "acq_rel", "sc"})
COMMON = frozenset({"global", "shared"})
"""Spaces that threads have in common and that can be written."""

Clock = dict[int, int]
"""Thread number -> the last of its epochs that has happened before."""


def _join(clock: Clock, other: Clock) -> None:
    for thread, epoch in other.items():
        clock[thread] = max(clock.get(thread, 0), epoch)


@dataclass
class _Thread:
    """What a thread knows (`clock`), what it knew at its last fence, and what atomics have told it since."""

    clock: Clock
    fenced: Clock = field(default_factory=dict)
    heard: Clock = field(default_factory=dict)


@dataclass(frozen=True)
class _Record:
    """One access, as later ones see it."""

    thread: int
    block: int
    epoch: int
    kind: AccessKind
    strong: bool
    in_block: bool
    address: int
    size: int
    value: int
    place: Place


@dataclass
class _Byte:
    """The accesses of one byte that later ones can race with, by thread."""

    writes: dict[int, _Record] = field(default_factory=dict)
    reads: dict[int, _Record] = field(default_factory=dict)


class RaceCheck:
    """The clocks of all threads and the last accesses of all bytes of one launch."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.threads: dict[int, _Thread] = {}
        self.bytes: dict[tuple[str, int], _Byte] = {}
        self.published: dict[tuple[str, int], Clock] = {}
        """What atomics and strong stores have released, by location."""

    def begin_block(self) -> None:
        """Shared memory is new."""
        self.bytes = {key: byte for key, byte in self.bytes.items() if key[0] != "shared"}
        self.published = {key: clock for key, clock in self.published.items() if key[0] != "shared"}

    def thread(self, number: int) -> _Thread:
        """A thread's clocks; it begins at epoch 1."""
        if number not in self.threads:
            self.threads[number] = _Thread({number: 1})
        return self.threads[number]

    def access(self, access: Access, block_threads: int) -> None:
        """Holds an access against the earlier ones of its bytes, then keeps it."""
        if access.space.name not in COMMON:
            return
        words = set(access.instruction.modifiers)
        number = access.thread.number
        state = self.thread(number)
        atomic = access.kind is AccessKind.ATOMIC
        record = _Record(
            number, number // block_threads, state.clock[number], access.kind, atomic or bool(words & STRONG),
            "cta" in words, access.address, access.size, access.value,
            place(access.kind.value, access.instruction, access.thread),
        )  # fmt: skip
        for other in self._compare(access, record, state.clock):
            self._report(access, other, record)
        if record.strong:
            self._synchronise(access, state, words)

    def _compare(self, access: Access, record: _Record, clock: Clock) -> list[_Record]:
        """The earlier accesses that race with this one. Keeps this one in every byte of it."""
        found: list[_Record] = []
        writes = access.kind is not AccessKind.LOAD
        for address in range(access.address, access.address + access.size):
            byte = self.bytes.setdefault((access.space.name, address), _Byte())
            earlier = (*byte.writes.values(), *(byte.reads.values() if writes else ()))
            found += [item for item in earlier if item not in found and _race(item, record, clock)]
            if not writes:
                byte.reads[record.thread] = record
                continue
            if not record.strong:
                byte.writes, byte.reads = {}, {}
            byte.writes[record.thread] = record
        return found

    def _report(self, access: Access, first: _Record, second: _Record) -> None:
        same = _same_value(first, second)
        address = describe(access.space, access.address, access.size)
        between = "threads of a block" if first.block == second.block else "thread blocks"
        message = f"{first.kind.value} and {second.kind.value} of {address} in {access.space.name} memory, "
        message += f"{access.size} bytes, are in no order between two {between}"
        message += "; both store the same value" if same else ""
        places = (first.place, second.place)
        self.findings.add(Finding(Kind.RACE, message, places, address, access.size, note=same))

    def _synchronise(self, access: Access, state: _Thread, words: set[str]) -> None:
        """What a strong access hears from its location, and what it tells there."""
        location = access.space.name, access.address
        said = self.published.get(location, {})
        if access.kind is not AccessKind.STORE:
            _join(state.heard, said)
            if words & ACQUIRING:
                _join(state.clock, said)
        if access.kind is AccessKind.LOAD:
            return
        telling = dict(state.clock if words & RELEASING else state.fenced)
        if access.kind is AccessKind.ATOMIC:
            _join(telling, said)
        self.published[location] = telling
        if words & RELEASING:
            state.clock[access.thread.number] += 1

    def fence(self, instruction: Instruction, threads: Sequence[Thread]) -> None:
        """What atomics have told is known now; what is known can be told."""
        for thread in threads:
            state = self.thread(thread.number)
            _join(state.clock, state.heard)
            state.fenced = dict(state.clock)
            state.clock[thread.number] += 1

    def release(self, threads: Sequence[Thread]) -> None:
        """Threads leave a barrier together: each knows what any of them knew."""
        together: Clock = {}
        for thread in threads:
            _join(together, self.thread(thread.number).clock)
        for thread in threads:
            state = self.thread(thread.number)
            state.clock = dict(together)
            state.clock[thread.number] += 1


def _race(earlier: _Record, later: _Record, clock: Clock) -> bool:
    if earlier.thread == later.thread or clock.get(earlier.thread, 0) >= earlier.epoch:
        return False
    reach = earlier.block == later.block or not (earlier.in_block or later.in_block)
    same_bytes = (earlier.address, earlier.size) == (later.address, later.size)
    return not (earlier.strong and later.strong and reach and same_bytes)


def _same_value(first: _Record, second: _Record) -> bool:
    stores = first.kind is second.kind is AccessKind.STORE
    return stores and (first.address, first.size, first.value) == (second.address, second.size, second.value)
