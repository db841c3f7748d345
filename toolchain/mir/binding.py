"""Binding: what a kernel's parameters and PTX's special registers are on the machine.

Parameters and launch extents are known when the kernel is linked, so they become link-time symbols: they take no
register and no token. Thread and block indices, lane and warp become the machine's special registers.
"""

from toolchain.errors import CompileError
from toolchain.machine_spec import MachineSpec
from toolchain.mir.affine import constant, symbol
from toolchain.mir.ir import Special, Value
from toolchain.mir.isa import SPECIALS
from toolchain.mir.lowering import refuse
from toolchain.mir.rom import Parameter
from toolchain.ptx_frontend import ast


def bind_parameters(function: ast.Function) -> tuple[Parameter, ...]:
    """Each parameter's first word: parameters follow each other in whole words."""
    pointers, unread = _used_as_pointers(function), _unread_addresses(function)
    bound: list[Parameter] = []
    word = 0
    for parameter in function.parameters:
        bits = ast.TYPE_BITS[parameter.type] * (parameter.size or 1)
        if parameter.type.startswith(("f", "bf")):
            raise CompileError(
                f"parameter '{parameter.name}' of kernel '{function.name}' is floating point",
                hint="the machine computes on 32-bit integers",
            )
        words = -(-bits // 32)
        pointer = parameter.pointer is not None or parameter.name in pointers
        bound.append(Parameter(parameter.name, word, words, pointer, parameter.name in unread))
        word += words
    return tuple(bound)


def _unread_addresses(function: ast.Function) -> frozenset[str]:
    """Parameters as wide as an address that nothing reads, of a front end that marks no pointers."""
    if any(parameter.pointer is not None for parameter in function.parameters):
        return frozenset()
    operands = [operand for item in function.instructions for operand in item.operands]
    bases = [operand.base if isinstance(operand, ast.Address) else operand for operand in operands]
    read = {base.name for base in bases if isinstance(base, ast.Symbol)}
    return frozenset(
        parameter.name
        for parameter in function.parameters
        if ast.TYPE_BITS[parameter.type] == 64 and parameter.size is None and parameter.name not in read
    )


def _used_as_pointers(function: ast.Function) -> frozenset[str]:
    """Parameters that are loaded and then used as global addresses (nvcc marks pointers in no other way)."""
    loaded: dict[str, str] = {}
    found: set[str] = set()
    for item in function.instructions:
        operands = item.operands
        if item.opcode == "ld" and "param" in item.modifiers and isinstance(operands[0], ast.Register):
            address = operands[1]
            base = address.base if isinstance(address, ast.Address) else address
            if isinstance(base, ast.Symbol):
                loaded[operands[0].name] = base.name
        for operand in operands[1:] if item.opcode == "cvta" else operands:
            base = operand.base if isinstance(operand, ast.Address) else operand
            is_address = item.opcode == "cvta" or isinstance(operand, ast.Address)
            if is_address and isinstance(base, ast.Register) and base.name in loaded:
                found.add(loaded[base.name])
    return frozenset(found)


def special_register(item: ast.Instruction, name: str, spec: MachineSpec) -> Value:
    """What a PTX special register is here: a special of the machine, or known when the kernel is linked."""
    plain = name.removeprefix("%")
    if plain in SPECIALS:
        return Special(plain)
    if plain.startswith(("ntid.", "nctaid.")) and plain[-1] in "xyz":
        return symbol(plain)
    if plain == "WARP_SZ":
        return constant(spec.lanes)
    if plain == "nwarpid":
        return constant(spec.warps)
    known = ", ".join((*SPECIALS, "ntid", "nctaid", "nwarpid", "lanemask_eq, lt, le, gt and ge"))
    raise refuse(item, f"reads {name}", f"special registers are {known}")
