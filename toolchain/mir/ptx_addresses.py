"""Which 64-bit PTX registers have a high word of zero, known before lowering.

An address in memory is below 2**32, and a pointer that a program may compute stays inside its array (C allows
no other), so whatever is a pointer plus an offset has no high word. This keeps pointer comparisons and
pointers in loops as cheap in `.address_size 64` as in 32.
"""

from toolchain.mir.rom import Parameter
from toolchain.ptx_frontend import ast


def short_registers(function: ast.Function, parameters: tuple[Parameter, ...]) -> frozenset[str]:
    """Names of the 64-bit registers whose every definition gives a high word of zero: the largest such set."""
    pointers = _pointer_registers(function, parameters)
    short = frozenset(name for name, kind in function.register_types().items() if ast.TYPE_BITS[kind] == 64)
    while True:
        long = {
            name
            for item in function.instructions
            for name in _destinations(item)
            if name in short and not _is_short(item, short, pointers, parameters)
        }
        if not long:
            return short
        short -= long


def _pointer_registers(function: ast.Function, parameters: tuple[Parameter, ...]) -> frozenset[str]:
    """Registers that a pointer may flow into through copies, sums and selections: the smallest such set."""
    found: set[str] = set()
    while True:
        new = {
            name
            for item in function.instructions
            if _makes_pointer(item, found, parameters)
            for name in _destinations(item)
        }
        if new <= found:
            return frozenset(found)
        found |= new


def _makes_pointer(item: ast.Instruction, pointers: set[str], parameters: tuple[Parameter, ...]) -> bool:
    reads = [operand.name in pointers for operand in item.operands[1:] if isinstance(operand, ast.Register)]
    match item.opcode:
        case "ld":
            return _loads_pointer(item, parameters)
        case "cvta":
            return True
        case "mov":
            return any(reads) or isinstance(item.operands[1], ast.Symbol)
        case "sub":
            return reads[:1] == [True] and reads[1:] != [True]
        case "add" | "selp" | "or" | "mad" | "cvt":
            return any(reads)
    return False


def _is_short(
    item: ast.Instruction, short: frozenset[str], pointers: frozenset[str], parameters: tuple[Parameter, ...]
) -> bool:
    """Whether the high word of what the instruction defines is zero."""

    def is_short(operand: ast.Operand) -> bool:
        if isinstance(operand, ast.Immediate):
            return 0 <= operand.value < 1 << 32
        return isinstance(operand, ast.Register) and operand.name in short

    def is_pointer(operand: ast.Operand) -> bool:
        return isinstance(operand, ast.Register) and operand.name in pointers and operand.name in short

    if "cc" in item.modifiers or isinstance(item.operands[0], ast.Vector):
        return False
    _, *sources = item.operands
    match item.opcode:
        case "ld":
            kind = item.modifiers[-1]
            return _loads_pointer(item, parameters) or (kind[0] in "bu" and ast.TYPE_BITS[kind] <= 32)
        case "cvta":
            return True
        case "mov":
            return is_short(sources[0]) or isinstance(sources[0], ast.Symbol)
        case "cvt":
            return item.modifiers[-1] in ("u8", "u16", "u32") or is_short(sources[0])
        case "add":
            return any(is_pointer(operand) for operand in sources)
        case "sub":
            return is_pointer(sources[0]) and not is_pointer(sources[1])
        case "mad":
            return is_pointer(sources[2])
        case "selp" | "or":
            return is_short(sources[0]) and is_short(sources[1])
        case "and":
            return is_short(sources[0]) or is_short(sources[1])
    return False


def _loads_pointer(item: ast.Instruction, parameters: tuple[Parameter, ...]) -> bool:
    place = item.operands[1]
    base = place.base if isinstance(place, ast.Address) else place
    names = {parameter.name for parameter in parameters if parameter.pointer}
    return "param" in item.modifiers and isinstance(base, ast.Symbol) and base.name in names


def _destinations(item: ast.Instruction) -> list[str]:
    if not item.operands:
        return []
    dest = item.operands[0]
    parts = dest.elements if isinstance(dest, ast.Vector) else (dest,)
    return [part.name for part in parts if isinstance(part, ast.Register)]
