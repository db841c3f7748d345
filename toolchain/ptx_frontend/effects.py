"""The instructions that do more than compute: memory, control, barriers, atomics, and what lanes tell each
other.

Each is one function `(machine, instruction, active lanes)`; `EFFECTS` names them by opcode.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from toolchain.errors import CompileError
from toolchain.ptx_frontend.ast import TYPE_BITS, Instruction, Operand, Pair, Symbol, Vector
from toolchain.ptx_frontend.memory import WINDOWS, LaunchFault
from toolchain.ptx_frontend.operations import BOOLEANS, type_of, wrap

if TYPE_CHECKING:
    from toolchain.ptx_frontend.interpreter import Machine, Thread

    Effect = Callable[[Machine, Instruction, list[Thread]], None]

SPACES = ("param", "global", "const", "shared", "local")


def space_of(instruction: Instruction) -> str:
    """The state space an instruction names; empty for a generic address."""
    for word in instruction.modifiers:
        base = word.split("::")[0]
        if base in SPACES:
            return base
    return ""


def _elements(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, Vector) else (operand,)


# Memory.


def load(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """ld, ldu: a narrow value is extended to its register as its type says."""
    kind = type_of(instruction.modifiers)
    size = TYPE_BITS[kind] // 8
    destination, source = instruction.operands
    elements = _elements(destination)
    for thread in threads:
        space, address = machine.locate(thread, source, space_of(instruction))
        space.check(address, size * len(elements), instruction.where, f"thread {_name(thread)} loads")
        values = [space.load(address + i * size, size) for i in range(len(elements))]
        for element, value in zip(elements, values, strict=True):
            machine.write(thread, element, value, kind)


def store(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """st."""
    kind = type_of(instruction.modifiers)
    size = TYPE_BITS[kind] // 8
    target, source = instruction.operands
    elements = _elements(source)
    for thread in threads:
        space, address = machine.locate(thread, target, space_of(instruction))
        space.check(address, size * len(elements), instruction.where, f"thread {_name(thread)} stores")
        for i, element in enumerate(elements):
            space.store(address + i * size, size, machine.read(thread, element, kind))


def _name(thread: "Thread") -> str:
    axes = ",".join(str(thread.special[f"%tid.{axis}"]) for axis in "xyz")
    blocks = ",".join(str(thread.special[f"%ctaid.{axis}"]) for axis in "xyz")
    return f"({axes}) of block ({blocks})"


def convert_address(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """cvta.space, cvta.to.space: to and from generic addresses."""
    kind = type_of(instruction.modifiers)
    window = WINDOWS.get(space_of(instruction), 0)
    if "to" in instruction.modifiers:
        window = -window
    for thread in threads:
        value = machine.read(thread, instruction.operands[1], kind)
        machine.write(thread, instruction.operands[0], value + window, kind)


# Control.


def branch(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """bra."""
    target = instruction.operands[0]
    assert isinstance(target, Symbol)
    for thread in threads:
        thread.pc = machine.code.targets[target.name]


def branch_indexed(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """brx.idx: an index past the table faults (the ISA leaves it undefined)."""
    table = instruction.operands[1]
    assert isinstance(table, Symbol)
    labels = machine.tables[table.name]
    for thread in threads:
        index = machine.read(thread, instruction.operands[0], "u32")
        if index >= len(labels):
            raise LaunchFault(f"branch index {index} of a table of {len(labels)}", instruction.where)
        thread.pc = machine.code.targets[labels[index]]


def leave(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """ret and exit of a kernel."""
    for thread in threads:
        thread.pc = len(machine.code.instructions)


def trap(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """trap: the launch fails."""
    raise LaunchFault(f"thread {_name(threads[0])} traps", instruction.where)


def nothing(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """Fences and hints: memory is sequentially consistent here."""


# Barriers.


def barrier(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """bar.sync, barrier.sync, bar.red, bar.warp.sync: the lanes wait; bar.red is finished on release."""
    kind = "warp" if "warp" in instruction.modifiers else "block"
    for thread in threads:
        thread.waiting = kind
        if "red" in instruction.modifiers:
            thread.pending = instruction


def finish_barrier(machine: "Machine", waiting: "list[Thread]") -> None:
    """bar.red.{popc.u32,and.pred,or.pred} d, barrier[, threads], p over all threads that wait."""
    pending = [thread for thread in waiting if thread.pending is not None]
    if not pending:
        return
    votes = [machine.read(t, t.pending.operands[-1], "pred") for t in pending if t.pending is not None]
    for thread in pending:
        instruction = thread.pending
        assert instruction is not None
        if "popc" in instruction.modifiers:
            machine.write(thread, instruction.operands[0], sum(votes), "u32")
        else:
            result = all(votes) if "and" in instruction.modifiers else any(votes)
            machine.write(thread, instruction.operands[0], int(result), "pred")
        thread.pending = None


# Atomics.


def atomic(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """atom, red: one lane after another, lowest first."""
    kind = type_of(instruction.modifiers)
    name = next((word for word in instruction.modifiers if word in ATOMICS), "")
    if not name or kind[:1] == "f":
        raise CompileError(f"the interpreter has no '{instruction.name}'", instruction.where)
    operands = instruction.operands if instruction.opcode == "atom" else (None, *instruction.operands)
    destination, target, *sources = operands
    size = TYPE_BITS[kind] // 8
    for thread in threads:
        assert target is not None
        space, address = machine.locate(thread, target, space_of(instruction))
        space.check(address, size, instruction.where, f"thread {_name(thread)} updates")
        old = wrap(space.load(address, size), kind)
        values = [machine.read(thread, source, kind) for source in sources if source is not None]
        space.store(address, size, ATOMICS[name](old, *values))
        if destination is not None:
            machine.write(thread, destination, old, kind)


ATOMICS: dict[str, Callable[..., int]] = {
    "add": lambda old, b: old + b,
    "min": min,
    "max": max,
    "exch": lambda old, b: b,
    "cas": lambda old, b, c: c if old == b else old,
    "inc": lambda old, b: 0 if old >= b else old + 1,
    "dec": lambda old, b: b if old == 0 or old > b else old - 1,
    **BOOLEANS,
}


# Between lanes.


def shuffle(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """shfl[.sync].{up,down,bfly,idx}.b32 d[|p], a, b, c[, mask].

    PTX ISA, "shfl.sync": c holds the segment mask in bits 12:8 and the clamp in bits 4:0. A source lane that
    does not exist or is not active counts as out of range.
    """
    mode = next(word for word in instruction.modifiers if word in ("up", "down", "bfly", "idx"))
    destination, source, *rest = instruction.operands
    values = {thread.lane: machine.read(thread, source, "u32") for thread in threads}
    for thread in threads:
        b, c = (machine.read(thread, operand, "u32") & 0x1F1F for operand in rest[:2])
        b, clamp, segment = b & 31, c & 31, c >> 8 & 31
        highest = (thread.lane & segment) | (clamp & ~segment & 31)
        lowest = thread.lane & segment
        if mode == "up":
            lane = thread.lane - b
            valid = lane >= highest
        elif mode == "idx":
            lane = lowest | (b & ~segment & 31)
            valid = lane <= highest
        else:
            lane = thread.lane + b if mode == "down" else thread.lane ^ b
            valid = lane <= highest
        valid = valid and lane in values
        first, second = _pair(destination)
        machine.write(thread, first, values[lane if valid else thread.lane], "u32")
        if second is not None:
            machine.write(thread, second, int(valid), "pred")


def _pair(operand: Operand) -> tuple[Operand, Operand | None]:
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)


def vote(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """vote[.sync].{all,any,uni}.pred, vote.sync.ballot.b32: over the active lanes."""
    votes = {thread.lane: machine.read(thread, instruction.operands[1], "pred") for thread in threads}
    for thread in threads:
        if "ballot" in instruction.modifiers:
            machine.write(thread, instruction.operands[0], sum(v << lane for lane, v in votes.items()), "b32")
            continue
        cast = set(votes.values())
        result = {"all": 0 not in cast, "any": 1 in cast, "uni": len(cast) == 1}
        name = next(word for word in instruction.modifiers if word in result)
        machine.write(thread, instruction.operands[0], int(result[name]), "pred")


def match(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """match.any.sync.b32 d, a, mask; match.all.sync.b32 d[|p], a, mask."""
    kind = type_of(instruction.modifiers)
    values = {thread.lane: machine.read(thread, instruction.operands[1], kind) for thread in threads}
    for thread in threads:
        first, second = _pair(instruction.operands[0])
        same = sum(1 << lane for lane, value in values.items() if value == values[thread.lane])
        if "all" in instruction.modifiers:
            equal = len(set(values.values())) == 1
            machine.write(thread, first, same if equal else 0, "b32")
            if second is not None:
                machine.write(thread, second, int(equal), "pred")
        else:
            machine.write(thread, first, same, "b32")


def active_mask(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """activemask.b32."""
    mask = sum(1 << thread.lane for thread in threads)
    for thread in threads:
        machine.write(thread, instruction.operands[0], mask, "b32")


def reduce(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """redux.sync.op.type d, a, mask: over the active lanes."""
    kind = type_of(instruction.modifiers)
    name = next(word for word in instruction.modifiers if word in ATOMICS)
    values = [machine.read(thread, instruction.operands[1], kind) for thread in threads]
    total = values[0]
    for value in values[1:]:
        total = ATOMICS[name](total, value)
    for thread in threads:
        machine.write(thread, instruction.operands[0], total, kind)


EFFECTS: "dict[str, Effect]" = {
    "ld": load,
    "ldu": load,
    "st": store,
    "cvta": convert_address,
    "bra": branch,
    "brx": branch_indexed,
    "ret": leave,
    "exit": leave,
    "trap": trap,
    "bar": barrier,
    "barrier": barrier,
    "membar": nothing,
    "fence": nothing,
    "nanosleep": nothing,
    "prefetch": nothing,
    "atom": atomic,
    "red": atomic,
    "shfl": shuffle,
    "vote": vote,
    "match": match,
    "activemask": active_mask,
    "redux": reduce,
}
