"""The instructions that do more than compute: memory, control and atomics; barriers.py and warp_effects.py have
the rest.

Each is one function `(machine, instruction, active lanes)`; `EFFECTS` names them by opcode.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from toolchain.errors import CompileError
from toolchain.ptx_frontend import warp_effects
from toolchain.ptx_frontend.ast import TYPE_BITS, Instruction, Operand, Symbol, Vector
from toolchain.ptx_frontend.barriers import barrier
from toolchain.ptx_frontend.memory import WINDOW_BYTES, WINDOWS, LaunchFault
from toolchain.ptx_frontend.observer import AccessKind
from toolchain.ptx_frontend.operations import ATOMICS, type_of, wrap

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
        whole = (space, address, size * len(elements))
        if machine.may_access(AccessKind.LOAD, thread, instruction, whole):
            values = [space.load(address + i * size, size) for i in range(len(elements))]
        else:
            values = [0] * len(elements)
        for element, value in zip(elements, values, strict=True):
            machine.write(thread, element, value, kind)


def store(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """st."""
    kind = type_of(instruction.modifiers)
    bits = TYPE_BITS[kind]
    target, source = instruction.operands
    elements = _elements(source)
    size = bits // 8 * len(elements)
    for thread in threads:
        space, address = machine.locate(thread, target, space_of(instruction))
        parts = (
            machine.read(thread, element, f"u{bits}") << (bits * i) for i, element in enumerate(elements)
        )
        value = sum(parts)
        if machine.may_access(AccessKind.STORE, thread, instruction, (space, address, size), value):
            space.store(address, size, value)


def convert_address(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """cvta.space, cvta.to.space: to and from generic addresses."""
    kind = type_of(instruction.modifiers)
    window = WINDOWS.get(space_of(instruction), 0)
    if "to" in instruction.modifiers:
        window = -window
    for thread in threads:
        value = machine.read(thread, instruction.operands[1], kind)
        machine.write(thread, instruction.operands[0], value + window, kind)


def is_space(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """isspacep.space p, a: whether a generic address is in the space."""
    space = space_of(instruction)
    for thread in threads:
        address = machine.read(thread, instruction.operands[1], "u64")
        windows = {name for name, start in WINDOWS.items() if start and 0 <= address - start < WINDOW_BYTES}
        machine.write(thread, instruction.operands[0], int((windows or {"global"}) == {space}), "pred")


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
            raise LaunchFault(
                f"{thread}: branch index {index} of a table of {len(labels)}", instruction.where
            )
        thread.pc = machine.code.targets[labels[index]]


def leave(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """ret and exit of a kernel."""
    for thread in threads:
        thread.pc = len(machine.code.instructions)


def trap(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """trap: the launch fails."""
    raise LaunchFault(f"{threads[0]} traps", instruction.where)


def nothing(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """Hints to the hardware."""


def fence(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """membar, fence: nothing to do, memory is sequentially consistent here."""
    if machine.observer is not None:
        machine.observer.fence(instruction, threads)


# Atomics.


def atomic(machine: "Machine", instruction: Instruction, threads: "list[Thread]") -> None:
    """atom, red: one lane after another, lowest first."""
    kind = type_of(instruction.modifiers)
    name = next((word for word in instruction.modifiers if word in ATOMICS), "")
    if not name or kind[:1] not in ("b", "u", "s") or "async" in instruction.modifiers:
        raise CompileError(f"the interpreter has no '{instruction.name}'", instruction.where)
    operands = instruction.operands if instruction.opcode == "atom" else (None, *instruction.operands)
    destination, target, *sources = operands
    size = TYPE_BITS[kind] // 8
    for thread in threads:
        assert target is not None
        space, address = machine.locate(thread, target, space_of(instruction))
        old = 0
        if machine.may_access(AccessKind.ATOMIC, thread, instruction, (space, address, size)):
            old = wrap(space.load(address, size), kind)
            values = [machine.read(thread, source, kind) for source in sources if source is not None]
            space.store(address, size, ATOMICS[name](old, *values))
        if destination is not None:
            machine.write(thread, destination, old, kind)


EFFECTS: "dict[str, Effect]" = {
    "ld": load,
    "ldu": load,
    "st": store,
    "cvta": convert_address,
    "isspacep": is_space,
    "bra": branch,
    "brx": branch_indexed,
    "ret": leave,
    "exit": leave,
    "trap": trap,
    "bar": barrier,
    "barrier": barrier,
    "membar": fence,
    "fence": fence,
    **dict.fromkeys(("nanosleep", "prefetch", "prefetchu", "applypriority", "discard", "pmevent"), nothing),
    "atom": atomic,
    "red": atomic,
    "shfl": warp_effects.shuffle,
    "vote": warp_effects.vote,
    "match": warp_effects.match,
    "activemask": warp_effects.active_mask,
    "redux": warp_effects.reduce,
    "elect": warp_effects.elect,
}
