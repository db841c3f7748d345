"""Which memory each PTX address lies in, where the instruction does not say: generic addresses.

A register's spaces are those of all pointers that may flow into it: from parameters, variables and `cvta`,
through copies, sums and selections. On the machine constants are in global memory and local arrays in shared
memory, so two memories remain. A pointer that is loaded from memory may be any that the kernel stores there.
"""

from collections.abc import Iterator, Mapping

from toolchain.errors import CompileError
from toolchain.mir.lowering import refuse
from toolchain.mir.rom import Parameter
from toolchain.mir.variables import Placement
from toolchain.ptx_frontend import ast

MEMORIES = {"global": "global", "const": "global", "shared": "shared", "local": "shared"}
"""State space -> the machine's memory that holds it."""

Spaces = Mapping[str, frozenset[str]]
"""Register -> the state spaces its pointers may lie in; none for a register that holds no pointer.

`param` stands for a value from the host that is not known to be a pointer, as a member of a structure: if it is one,
it is to global memory.
"""

_FLOWS = ("mov", "add", "sub", "mad", "selp", "or", "and", "cvt", "min", "max", "shf", "prmt")
"""Opcodes whose result may be a pointer if an operand is one."""


def stated_space(item: ast.Instruction) -> str:
    """The state space that an instruction names; empty for a generic address."""
    words = (word.split("::")[0] for word in item.modifiers)
    return next((word for word in words if word in MEMORIES or word == "param"), "")


def register_spaces(
    function: ast.Function, parameters: tuple[Parameter, ...], placement: Placement
) -> Spaces:
    """The spaces of every register: the smallest solution of what the instructions say."""
    pointers = frozenset(parameter.name for parameter in parameters if parameter.pointer)
    spaces: dict[str, frozenset[str]] = {}
    stored = _initial(placement)
    while True:
        before = (dict(spaces), stored)
        for item in function.instructions:
            found = stored if _loads(item) else _made(item, spaces, placement, pointers)
            if item.opcode in ("st", "atom"):
                stored |= _operands(item.operands[1:], spaces, placement)
            for name in _destinations(item) if found else ():
                spaces[name] = spaces.get(name, frozenset()) | found
        if (spaces, stored) == before:
            return spaces


def _initial(placement: Placement) -> frozenset[str]:
    """The spaces of addresses in memory before the launch; what else is there is no pointer, or to global memory."""
    words = (word for variable in placement.variables for word in variable.initial)
    return frozenset({"global" if any(not isinstance(word, int) for word in words) else "param"})


def _loads(item: ast.Instruction) -> bool:
    return item.opcode in ("atom", "ldu") or (item.opcode == "ld" and "param" not in item.modifiers)


def memory_of(item: ast.Instruction, place: ast.Operand, spaces: Spaces, placement: Placement) -> str:
    """The state space of an access: as the instruction says, else as its address does.

    Raises CompileError where the address may lie in both of the machine's memories, or nobody knows.
    """
    stated = stated_space(item)
    if stated:
        return stated
    base = place.base if isinstance(place, ast.Address) else place
    if base is None:
        return "global"
    found = _of_operand(base, spaces, placement)
    found = found - {"param"} or (frozenset({"global"}) if found else found)
    memories = {MEMORIES[space] for space in found}
    if len(memories) == 1:
        return next(iter(found)) if len(found) == 1 else memories.pop()
    raise _unknown(item, memories)


def _unknown(item: ast.Instruction, memories: set[str]) -> CompileError:
    if memories:
        why = "uses a pointer that may be to global or to shared memory"
        return refuse(item, why, "use one pointer for each memory, and branch between two accesses")
    why = "uses a pointer of which it is not known whether it is to global or to shared memory"
    return refuse(item, why, "take the address from a parameter or a variable")


def _made(
    item: ast.Instruction, spaces: Spaces, placement: Placement, pointers: frozenset[str]
) -> frozenset[str]:
    """The spaces of what an instruction computes, as far as they are known by now."""
    if item.opcode == "cvta":
        return frozenset({stated_space(item)})
    if item.opcode == "ld":
        base = item.operands[1].base if isinstance(item.operands[1], ast.Address) else item.operands[1]
        is_pointer = isinstance(base, ast.Symbol) and base.name in pointers
        return frozenset({"global" if is_pointer else "param"})
    if item.opcode not in _FLOWS:
        return frozenset()
    return _operands(item.operands[1:], spaces, placement)


def _operands(operands: tuple[ast.Operand, ...], spaces: Spaces, placement: Placement) -> frozenset[str]:
    """The spaces of several operands' pointers."""
    return frozenset().union(*(_of_operand(operand, spaces, placement) for operand in operands))


def _of_operand(operand: ast.Operand | None, spaces: Spaces, placement: Placement) -> frozenset[str]:
    match operand:
        case ast.Register(name):
            return spaces.get(name, frozenset())
        case ast.Symbol(name) if name in placement.places:
            return frozenset({placement.places[name].space})
        case ast.Vector(elements):
            return frozenset().union(*(_of_operand(element, spaces, placement) for element in elements))
    return frozenset()


def _destinations(item: ast.Instruction) -> Iterator[str]:
    dest = item.operands[0]
    for part in dest.elements if isinstance(dest, ast.Vector) else (dest,):
        if isinstance(part, ast.Register):
            yield part.name
