"""Kernel parameters by name: no address of a parameter stays in a register.

Compilers take the address of a structure that is passed by value (`mov.b64 %rd1, k_param_2`) and load its
fields from there. A parameter is no memory in this machine: its words are constants of the launch. So a load
at a known offset becomes `ld.param [k_param_2+8]`. A parameter that is read at an offset which is only known
when the kernel runs is copied to a `.local` variable first; that takes room in every thread.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from toolchain.ptx_frontend.ast import (
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Parameter,
    Register,
    RegisterDeclaration,
    Symbol,
    Variable,
    leaves,
)
from toolchain.ptx_frontend.rename import rename_instruction

PASS_NAME = "parameter-addresses"


def run(module: Module) -> Module:
    """The module with kernels that name their parameters in `ld.param` alone."""
    return replace(module, functions=tuple(_kernel(f) if f.is_entry else f for f in module.functions))


def _kernel(function: Function) -> Function:
    parameters = {parameter.name: parameter for parameter in function.parameters}
    taken = {
        operand.name
        for instruction in function.instructions
        for operand in instruction.operands
        if isinstance(operand, Symbol) and operand.name in parameters
    }
    if not taken:
        return function
    known = _known_addresses(function, taken)
    body = [_by_name(item, known) if isinstance(item, Instruction) else item for item in function.body]
    return _copied(replace(function, body=tuple(_without_unread(body, known))), parameters)


def _known_addresses(function: Function, parameters: set[str]) -> dict[str, Symbol]:
    """Registers that only ever hold one parameter's address: the parameter, with the offset in bytes."""
    written = Counter(
        operand.name
        for instruction in function.instructions
        if instruction.opcode not in ("st", "red", "bra")
        for operand in instruction.operands[:1]
        if isinstance(operand, Register)
    )
    known: dict[str, Symbol] = {}
    for _ in function.instructions:
        before = len(known)
        for instruction in function.instructions:
            match instruction:
                case Instruction("mov", _, (Register(target), Symbol(name) as value), None) if (
                    name in parameters
                ):
                    pass
                case Instruction("mov", _, (Register(target), Register(source)), None) if source in known:
                    value = known[source]
                case Instruction("add", _, (Register(target), Register(source), Immediate(offset)), None) if (
                    source in known
                ):
                    value = Symbol(known[source].name, known[source].offset + offset)
                case _:
                    continue
            if written[target] == 1:
                known[target] = value
        if len(known) == before:
            break
    return known


def _by_name(instruction: Instruction, known: dict[str, Symbol]) -> Instruction:
    """A `ld.param` through a known register as one of the parameter itself."""
    match instruction:
        case Instruction("ld", modifiers, (target, Address(Register(name), offset))) if (
            _is_parameter(modifiers) and name in known
        ):
            address = Address(Symbol(known[name].name), known[name].offset + offset)
            return replace(instruction, operands=(target, address))
    return instruction


def _is_parameter(modifiers: tuple[str, ...]) -> bool:
    return any(word.split("::")[0] == "param" for word in modifiers)


def _without_unread(body: list[Label | Instruction], known: dict[str, Symbol]) -> list[Label | Instruction]:
    """The body without instructions that only compute an address which nobody reads."""
    while True:
        used = {name for item in body if isinstance(item, Instruction) for name in _read(item, known)}
        kept = [item for item in body if not (isinstance(item, Instruction) and _target(item, known) - used)]
        if len(kept) == len(body):
            return body
        body = kept


def _target(instruction: Instruction, known: dict[str, Symbol]) -> set[str]:
    """The register of `known` that an instruction writes; none of them is written twice."""
    match instruction:
        case Instruction("mov" | "add", _, (Register(name), *_)) if name in known:
            return {name}
    return set()


def _read(instruction: Instruction, known: dict[str, Symbol]) -> set[str]:
    """Registers an instruction may read."""
    operands = instruction.operands[1:] if _target(instruction, known) else instruction.operands
    return {leaf.name for operand in operands for leaf in leaves(operand) if isinstance(leaf, Register)}


def _copied(function: Function, parameters: dict[str, Parameter]) -> Function:
    """Parameters whose address is still in use as `.local` copies, made where the kernel begins."""
    addressed = [name for name in parameters if any(_takes(i, name) for i in function.instructions)]
    if not addressed:
        return function
    names = {name: f"{name}$copy" for name in addressed}
    variables = tuple(
        Variable("local", names[name], "b8", max(parameters[name].align, 8), (parameters[name].bytes,))
        for name in addressed
    )
    prologue = [
        item
        for name in addressed
        for item in _copy(parameters[name], names[name], next(function.instructions))
    ]
    body = [_of_copy(item, names) if isinstance(item, Instruction) else item for item in function.body]
    registers = tuple(RegisterDeclaration(f"%word{width}", f"b{width}") for width in (16, 32))
    return replace(
        function,
        registers=(*function.registers, *registers),
        variables=(*function.variables, *variables),
        body=(*prologue, *body),
    )


def _takes(instruction: Instruction, name: str) -> bool:
    return any(isinstance(operand, Symbol) and operand.name == name for operand in instruction.operands)


def _copy(parameter: Parameter, name: str, place: Instruction) -> Iterator[Instruction]:
    """Loads and stores that copy a parameter, a word at a time."""
    offset = 0
    while offset < parameter.bytes:
        size = 4 if parameter.bytes - offset >= 4 else 1
        register, kind = Register(f"%word{max(8 * size, 16)}"), f"b{8 * size}"
        source, target = Address(Symbol(parameter.name), offset), Address(Symbol(name), offset)
        made = replace(place, guard=None)
        yield replace(made, opcode="ld", modifiers=("param", kind), operands=(register, source))
        yield replace(made, opcode="st", modifiers=("local", kind), operands=(target, register))
        offset += size


def _of_copy(instruction: Instruction, names: dict[str, str]) -> Instruction:
    """An instruction on a parameter's address as one on the address of its copy."""
    if instruction.opcode == "ld" and _is_parameter(instruction.modifiers):
        base = next(operand.base for operand in instruction.operands if isinstance(operand, Address))
        if isinstance(base, Symbol):
            return instruction
    elif not any(_takes(instruction, name) for name in names) and instruction.opcode != "cvta":
        return instruction
    words = tuple("local" if word.split("::")[0] == "param" else word for word in instruction.modifiers)
    return replace(rename_instruction(instruction, names), modifiers=words)
