"""What the PTX interpreter tells whoever watches a launch: accesses, barriers, and what lanes tell each other.

`interpret` takes an Observer or none; without one nothing of this module is made. The sanitizer is one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from toolchain.ptx_frontend.ast import Instruction
from toolchain.ptx_frontend.memory import Space

if TYPE_CHECKING:
    from toolchain.ptx_frontend.interpreter import Machine, Thread


class AccessKind(Enum):
    """What an access does to memory."""

    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"


@dataclass(frozen=True)
class Access:
    """One thread's access to `size` bytes at an address of a space. `value` is what a store writes."""

    kind: AccessKind
    thread: "Thread"
    instruction: Instruction
    space: Space
    address: int
    size: int
    value: int = 0


@dataclass(frozen=True)
class Exchange:
    """A vote, match, reduction or shuffle of some lanes of a warp.

    `masks` has each lane's member mask, `sources` the lane that each lane's shuffle reads where that is in
    the lane's segment.
    """

    instruction: Instruction
    threads: "Sequence[Thread]"
    masks: Mapping[int, int]
    sources: Mapping[int, int]


class Observer:
    """Hears of a launch while it runs; this one does nothing of it. What raises out of it ends the launch."""

    def begin_block(self, machine: "Machine") -> None:
        """`machine.threads` are those of the next thread block."""

    def access(self, access: Access) -> bool:
        """Before an access. False leaves it out: a load gives zero."""
        return True

    def fence(self, instruction: Instruction, threads: "Sequence[Thread]") -> None:
        """membar, fence."""

    def arrive(self, machine: "Machine", instruction: Instruction, threads: "Sequence[Thread]") -> None:
        """Lanes of a warp come to a barrier (bar, barrier, bar.warp.sync)."""

    def release(self, machine: "Machine", threads: "Sequence[Thread]", *, complete: bool) -> None:
        """Threads go on behind a barrier; not `complete`: some that it waits for cannot come."""

    def exchange(self, machine: "Machine", exchange: Exchange) -> None:
        """Before lanes of a warp tell each other something."""


class LastStore(Observer):
    """Remembers the last access that wrote a byte."""

    def __init__(self, space: str, address: int) -> None:
        self.space = space
        self.address = address
        self.last: Access | None = None

    def access(self, access: Access) -> bool:
        inside = access.address <= self.address < access.address + access.size
        if access.kind is not AccessKind.LOAD and access.space.name == self.space and inside:
            self.last = access
        return True
