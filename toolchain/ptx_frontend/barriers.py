"""Barriers of the PTX interpreter: who waits where, and when they go on.

PTX ISA, "bar, barrier": barrier `a` lets its threads go when `b` threads have come, by default all of the
block. Threads that have exited count no more. "bar.warp.sync": when all lanes of the member mask have come.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolchain.errors import CompileError
from toolchain.ptx_frontend.ast import Instruction
from toolchain.ptx_frontend.memory import LaunchFault

if TYPE_CHECKING:
    from toolchain.ptx_frontend.interpreter import Machine, Thread


@dataclass(frozen=True)
class Wait:
    """What a thread waits for. `number` is the barrier's, or the member mask where `warp`; `count` 0 means all."""

    instruction: Instruction
    warp: bool
    number: int
    count: int = 0


def barrier(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """bar.sync, bar.red, bar.arrive, the same of barrier, and bar.warp.sync."""
    words = [word for word in instruction.modifiers if word not in ("cta", "aligned")]
    if machine.observer is not None:
        machine.observer.arrive(machine, instruction, threads)
    if words == ["warp", "sync"]:
        for thread in threads:
            thread.waiting = Wait(instruction, True, machine.read(thread, instruction.operands[0], "u32"))
        return
    kind = words[0] if words else ""
    if kind not in ("sync", "arrive", "red"):
        raise CompileError(f"the interpreter has no '{instruction.name}'", instruction.where)
    numbers = instruction.operands[1:-1] if kind == "red" else instruction.operands
    for thread in threads:
        number, count = (*(machine.read(thread, operand, "u32") for operand in numbers), 0)[:2]
        if kind == "arrive":
            machine.arrived[number] = machine.arrived.get(number, 0) + 1
        else:
            thread.waiting = Wait(instruction, False, number, count)


def release_lanes(machine: "Machine", warp: "list[Thread]", *, stuck: bool) -> bool:
    """Lets lanes go on whose bar.warp.sync is complete. Where all lanes are `stuck`, the rest as well."""
    waiting: dict[int, list[Thread]] = {}
    for thread in warp:
        if thread.waiting is not None and thread.waiting.warp:
            waiting.setdefault(thread.waiting.number, []).append(thread)
    for mask, held in waiting.items():
        missing = [
            thread
            for thread in warp
            if mask >> thread.lane & 1 and machine.live(thread) and thread not in held
        ]
        if not missing or stuck:
            _go_on(machine, held, complete=not missing)
            return True
    return False


def release_block(machine: "Machine") -> None:
    """No thread can run: lets those go on whose barrier is complete. Raises LaunchFault if none is."""
    live = [thread for thread in machine.threads if machine.live(thread)]
    waiting: dict[int, list[Thread]] = {}
    for thread in live:
        if thread.waiting is not None:
            waiting.setdefault(thread.waiting.number, []).append(thread)
    for number, held in sorted(waiting.items()):
        wanted = max((thread.waiting.count for thread in held if thread.waiting), default=0)
        came = len(held) + machine.arrived.get(number, 0)
        if came >= wanted if wanted else len(held) == len(live):
            machine.arrived[number] = 0
            finish_reduction(machine, held)
            _go_on(machine, held, complete=True)
            return
    first = live[0].waiting
    assert first is not None
    if machine.observer is None:
        others = {str(thread.waiting.instruction.where) for thread in live if thread.waiting}
        raise LaunchFault(
            f"{live[0]} waits at barrier {first.number}, which never has all its threads",
            first.instruction.where,
            hint=f"the threads of the block wait at {', '.join(sorted(others))}",
        )
    finish_reduction(machine, live)
    _go_on(machine, live, complete=False)


def _go_on(machine: "Machine", threads: "list[Thread]", *, complete: bool) -> None:
    if machine.observer is not None:
        machine.observer.release(machine, threads, complete=complete)
    for thread in threads:
        thread.waiting = None


def finish_reduction(machine: "Machine", waiting: "list[Thread]") -> None:
    """bar.red.{popc.u32,and.pred,or.pred} d, barrier[, threads], p over the threads that wait."""
    pending = [
        (t, t.waiting.instruction) for t in waiting if t.waiting and "red" in t.waiting.instruction.modifiers
    ]
    votes = [machine.read(thread, instruction.operands[-1], "pred") for thread, instruction in pending]
    for thread, instruction in pending:
        if "popc" in instruction.modifiers:
            machine.write(thread, instruction.operands[0], sum(votes), "u32")
        else:
            result = all(votes) if "and" in instruction.modifiers else any(votes)
            machine.write(thread, instruction.operands[0], int(result), "pred")
