"""synccheck: do all threads come to a barrier, and do lanes talk to lanes that are there?

PTX ISA, "bar, barrier": all threads of a warp must execute the same one; "shfl.sync", "vote.sync",
"match.sync", "redux.sync": undefined where the lane is not in its own member mask or reads one that is not
active. Threads that have exited are missed by nobody.
"""

from collections.abc import Sequence

from toolchain.ptx_frontend.ast import Instruction
from toolchain.ptx_frontend.interpreter import Machine, Thread
from toolchain.ptx_frontend.observer import Exchange
from toolchain.sanitizer.findings import Finding, Findings, Kind, Place, place


def _lanes(threads: Sequence[Thread] | Sequence[int]) -> str:
    numbers = [thread.lane if isinstance(thread, Thread) else thread for thread in threads]
    return f"lane{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"


class SynchronisationCheck:
    """Tells the findings of barriers and warp operations as they happen."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings

    def add(self, kind: Kind, message: str, *places: Place, note: bool = False) -> None:
        """One finding that is not about memory."""
        self.findings.add(Finding(kind, message, places, note=note))

    def arrive(self, machine: Machine, instruction: Instruction, threads: Sequence[Thread]) -> None:
        """Lanes come to a barrier; to one of the block, all live lanes of the warp together."""
        here = place("barrier", instruction, threads[0])
        if "warp" in instruction.modifiers:
            for thread in threads:
                mask = machine.read(thread, instruction.operands[0], "u32")
                self._own_mask(thread, mask, instruction)
            return
        missing = [t for t in machine.warp_of(threads[0]) if machine.live(t) and t not in threads]
        if missing:
            come = "comes" if len(threads) == 1 else "come"
            message = f"{_lanes(threads)} of a warp {come} to a barrier without its {_lanes(missing)}"
            self.add(Kind.DIVERGENT_BARRIER, message, here)

    def release(self, machine: Machine, threads: Sequence[Thread], *, complete: bool) -> None:
        """Threads go on behind a barrier: was it one, and did the others come?"""
        waits = [(thread, thread.waiting) for thread in threads if thread.waiting is not None]
        first, wait = waits[0]
        here = place("barrier", wait.instruction, first)
        if wait.warp:
            if not complete:
                message = f"the mask {wait.number:#x} of a __syncwarp names lanes that do not come to it"
                self.add(Kind.DIVERGENT_BARRIER, message, here)
            return
        other = next((item for item in waits if item[1].instruction is not wait.instruction), None)
        if other is not None:
            there = place("barrier", other[1].instruction, other[0])
            message = "threads of a block wait at different barriers"
            self.add(Kind.DIFFERENT_BARRIERS, message, here, there)
        gone = sum(not machine.live(thread) for thread in machine.threads)
        if not complete and other is None:
            message = f"barrier {wait.number} never has the {wait.count} threads it waits for"
            self.add(Kind.DIVERGENT_BARRIER, message, here)
        elif gone and not wait.count:
            message = f"{gone} thread{'' if gone == 1 else 's'} of the block had exited before this barrier"
            self.add(Kind.EARLY_EXIT, message, here, note=True)

    def exchange(self, machine: Machine, exchange: Exchange) -> None:
        """Lanes of a warp tell each other something."""
        taking_part = {thread.lane for thread in exchange.threads}
        warp = machine.warp_of(exchange.threads[0])
        for thread in exchange.threads:
            mask = exchange.masks[thread.lane]
            self._own_mask(thread, mask, exchange.instruction)
            missing = [
                other
                for other in warp
                if mask >> other.lane & 1 and machine.live(other) and other.lane not in taking_part
            ]
            if missing and "sync" in exchange.instruction.modifiers:
                message = f"the member mask {mask:#x} names {_lanes(missing)}, which "
                message += f"{'does' if len(missing) == 1 else 'do'} not take part"
                here = place(exchange.instruction.opcode, exchange.instruction, thread)
                self.add(Kind.MEMBER_MASK, message, here)
            source = exchange.sources.get(thread.lane)
            if source is not None and not self._readable(machine, exchange, mask, source):
                self._unreadable(machine, exchange, thread, source)

    def _readable(self, machine: Machine, exchange: Exchange, mask: int, source: int) -> bool:
        """Whether a shuffle may read a lane. `down` past the last lane is the edge of the warp."""
        if source in {thread.lane for thread in exchange.threads}:
            return bool(mask >> source & 1)
        return (
            source >= machine.spec.lanes
            and "down" in exchange.instruction.modifiers
            and source < 2 * machine.spec.lanes - 1
        )

    def _unreadable(self, machine: Machine, exchange: Exchange, thread: Thread, source: int) -> None:
        other = next((item for item in machine.warp_of(thread) if item.lane == source), None)
        if source >= machine.spec.lanes:
            why = f"a warp of this machine has {machine.spec.lanes} lanes"
        elif other is None:
            why = "the thread block has no such thread"
        elif not machine.live(other):
            why = "its thread has exited"
        elif other in exchange.threads:
            why = "it is not in the member mask"
        else:
            why = "it does not take part"
        message = f"lane {thread.lane} reads lane {source} in a shuffle, but {why}"
        self.add(Kind.INACTIVE_LANE, message, place("shfl", exchange.instruction, thread))

    def _own_mask(self, thread: Thread, mask: int, instruction: Instruction) -> None:
        if not mask >> thread.lane & 1:
            message = f"the member mask {mask:#x} leaves out lane {thread.lane}, which uses it"
            self.add(Kind.MEMBER_MASK, message, place(instruction.opcode, instruction, thread))
