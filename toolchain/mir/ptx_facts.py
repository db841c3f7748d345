"""What is known of PTX registers before lowering: which hold multiples of four, and which a constant.

Multiples of four are addresses of words, and what is added to them.
Compilers load less than a word where they need no more (`a[i] & 255` loads a byte of `a[i]`). Of such a load
from a word's address it is known here which bits of the word it takes.
"""

from toolchain.mir.rom import Parameter
from toolchain.ptx_frontend import ast

WORD_BYTES = 4


def word_multiples(function: ast.Function, parameters: tuple[Parameter, ...]) -> frozenset[str]:
    """Names of the registers whose every definition gives a multiple of four: the largest such set."""
    pointers = {parameter.name for parameter in parameters if parameter.pointer}
    definitions = _definitions(function)
    words = frozenset(definitions)
    while True:
        kept = frozenset(
            name for name in words if all(_gives_multiple(i, words, pointers) for i in definitions[name])
        )
        if kept == words:
            return words
        words = kept


def constant_registers(function: ast.Function, warp_size: int) -> dict[str, int]:
    """Registers whose one definition is an unguarded `mov` of a number (nvcc passes some operands so) or WARP_SZ."""
    found: dict[str, int] = {}
    for name, (item, *others) in _definitions(function).items():
        if others or item.opcode != "mov" or item.guard is not None or item.modifiers == ("pred",):
            continue
        match item.operands[1]:
            case ast.Immediate(value):
                found[name] = value & ((1 << ast.TYPE_BITS[item.modifiers[-1]]) - 1)
            case ast.SpecialRegister("WARP_SZ"):
                found[name] = warp_size
            case _:
                pass
    return found


def _definitions(function: ast.Function) -> dict[str, list[ast.Instruction]]:
    """Instructions by the register they define; a register of a vector has an unknown definition."""
    found: dict[str, list[ast.Instruction]] = {}
    for item in function.instructions:
        dest = item.operands[0] if item.operands else None
        parts = dest.elements if isinstance(dest, ast.Vector) else (dest,)
        for part in parts:
            if isinstance(part, ast.Register):
                found.setdefault(part.name, []).append(item)
    return found


def _gives_multiple(item: ast.Instruction, words: frozenset[str], pointers: set[str]) -> bool:
    def multiple(index: int) -> bool:
        operand = item.operands[index]
        if isinstance(operand, ast.Immediate):
            return operand.value % WORD_BYTES == 0
        return isinstance(operand, ast.Register) and operand.name in words

    match item.opcode:
        case "ld" if "param" in item.modifiers:
            address = item.operands[1]
            base = address.base if isinstance(address, ast.Address) else address
            return isinstance(base, ast.Symbol) and base.name in pointers
        case "mov" | "cvta" | "cvt":
            return multiple(1)
        case "add" | "sub" | "or" | "xor" | "selp":
            return multiple(1) and multiple(2)
        case "shl":
            amount = item.operands[2]
            return multiple(1) or (isinstance(amount, ast.Immediate) and amount.value >= 2)
        case "and":
            return multiple(1) or multiple(2)
        case "mul" if "hi" not in item.modifiers:
            return multiple(1) or multiple(2)
        case "mad" if "hi" not in item.modifiers:
            return (multiple(1) or multiple(2)) and multiple(3)
    return False
