"""What the lanes of a warp tell each other: shuffles, votes, matches, reductions, the active mask.

The lanes that take part are those that execute the instruction together and are in the member mask; what the
PTX ISA leaves undefined (the lane itself is not in its mask) is taken as if it were.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolchain.ptx_frontend.ast import Instruction, Operand, Pair
from toolchain.ptx_frontend.observer import Exchange
from toolchain.ptx_frontend.operations import ATOMICS, type_of

if TYPE_CHECKING:
    from toolchain.ptx_frontend.interpreter import Machine, Thread

EVERYONE = 0xFFFFFFFF


def _masks(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> dict[int, int]:
    """Each lane's member mask, the last operand of the .sync forms."""
    if "sync" not in instruction.modifiers:
        return {thread.lane: EVERYONE for thread in threads}
    return {thread.lane: machine.read(thread, instruction.operands[-1], "u32") for thread in threads}


def _members(
    machine: "Machine", instruction: Instruction, threads: "list[Thread]", sources: Mapping[int, int]
) -> "dict[int, list[Thread]]":
    """For each lane those that take part with it. Tells the observer."""
    masks = _masks(machine, instruction, threads)
    if machine.observer is not None:
        machine.observer.exchange(machine, Exchange(instruction, threads, masks, sources))
    return {
        lane: [thread for thread in threads if mask >> thread.lane & 1 or thread.lane == lane]
        for lane, mask in masks.items()
    }


def _pair(operand: Operand) -> tuple[Operand, Operand | None]:
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)


def shuffle(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """shfl[.sync].{up,down,bfly,idx}.b32 d[|p], a, b, c[, mask].

    A lane that does not exist or takes no part counts as out of range: its reader keeps its own value.
    """
    destination, source, *_ = instruction.operands
    sources = ((thread.lane, source_lane(machine, instruction, thread)) for thread in threads)
    in_range = {lane: other for lane, other in sources if other is not None}
    members = _members(machine, instruction, threads, in_range)
    values = {thread.lane: machine.read(thread, source, "u32") for thread in threads}
    first, second = _pair(destination)
    for thread in threads:
        lane = in_range.get(thread.lane, -1)
        valid = lane in [other.lane for other in members[thread.lane]]
        machine.write(thread, first, values[lane if valid else thread.lane], "u32")
        if second is not None:
            machine.write(thread, second, int(valid), "pred")


def source_lane(machine: "Machine", instruction: Instruction, thread: "Thread") -> int | None:
    """The lane a shuffle reads, None if that is out of range.

    PTX ISA, "shfl.sync": operand c holds the segment mask in bits 12:8 and the clamp in bits 4:0.
    """
    mode = next(word for word in instruction.modifiers if word in ("up", "down", "bfly", "idx"))
    distance, bounds = (machine.read(thread, operand, "u32") for operand in instruction.operands[2:4])
    distance, clamp, segment = distance & 31, bounds & 31, bounds >> 8 & 31
    lowest = thread.lane & segment
    bound = lowest | (clamp & ~segment & 31)
    if mode == "up":
        lane = thread.lane - distance
        return lane if lane >= bound else None
    if mode == "idx":
        lane = lowest | (distance & ~segment & 31)
    else:
        lane = thread.lane + distance if mode == "down" else thread.lane ^ distance
    return lane if lane <= bound else None


def vote(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """vote[.sync].{all,any,uni}.pred, vote[.sync].ballot.b32."""
    members = _members(machine, instruction, threads, {})
    destination, source = instruction.operands[:2]
    votes = {thread.lane: machine.read(thread, source, "pred") for thread in threads}
    for thread in threads:
        lanes = [other.lane for other in members[thread.lane]]
        if "ballot" in instruction.modifiers:
            machine.write(thread, destination, sum(votes[lane] << lane for lane in lanes), "b32")
            continue
        cast = {votes[lane] for lane in lanes}
        result = {"all": 0 not in cast, "any": 1 in cast, "uni": len(cast) == 1}
        name = next(word for word in instruction.modifiers if word in result)
        machine.write(thread, destination, int(result[name]), "pred")


def match(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """match.any.sync.{b32,b64} d, a, mask; match.all.sync.{b32,b64} d[|p], a, mask."""
    members = _members(machine, instruction, threads, {})
    kind = type_of(instruction.modifiers)
    values = {thread.lane: machine.read(thread, instruction.operands[1], kind) for thread in threads}
    first, second = _pair(instruction.operands[0])
    for thread in threads:
        lanes = [other.lane for other in members[thread.lane]]
        same = [lane for lane in lanes if values[lane] == values[thread.lane]]
        if "all" in instruction.modifiers and same != lanes:
            same = []
        machine.write(thread, first, sum(1 << lane for lane in same), "b32")
        if second is not None:
            machine.write(thread, second, int(bool(same)), "pred")


def active_mask(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """activemask.b32."""
    mask = sum(1 << thread.lane for thread in threads)
    for thread in threads:
        machine.write(thread, instruction.operands[0], mask, "b32")


def reduce(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """redux.sync.{add,min,max,and,or,xor}.type d, a, mask."""
    members = _members(machine, instruction, threads, {})
    kind = type_of(instruction.modifiers)
    combine = ATOMICS[next(word for word in instruction.modifiers if word in ATOMICS)]
    values = {thread.lane: machine.read(thread, instruction.operands[1], kind) for thread in threads}
    for thread in threads:
        first, *rest = (values[other.lane] for other in members[thread.lane])
        for value in rest:
            first = combine(first, value)
        machine.write(thread, instruction.operands[0], first, kind)


def elect(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """elect.sync d|p, mask: the lowest lane."""
    members = _members(machine, instruction, threads, {})
    first, second = _pair(instruction.operands[0])
    for thread in threads:
        leader = members[thread.lane][0].lane
        machine.write(thread, first, leader, "b32")
        if second is not None:
            machine.write(thread, second, int(leader == thread.lane), "pred")
