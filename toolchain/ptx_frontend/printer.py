"""The AST as PTX text. `parse_ptx(print_ptx(module)) == module` for every Module the parser makes."""

from math import prod

from toolchain.ptx_frontend.ast import (
    Address,
    FloatImmediate,
    Function,
    Group,
    Immediate,
    Instruction,
    Label,
    Module,
    Negated,
    Operand,
    Pair,
    Parameter,
    Register,
    SpecialRegister,
    Symbol,
    Variable,
    Vector,
)


def print_ptx(module: Module) -> str:
    """The PTX text of a module, source lines as `.loc`."""
    files: dict[str, int] = {}
    defined = {function.name for function in module.functions if not function.is_declaration}
    body = [
        line for function in module.functions for line in _function(function, files, function.name in defined)
    ]
    lines = [f".version {module.version}"] if module.version else []
    lines += [f".target {', '.join(module.target)}"] if module.target else []
    lines.append(f".address_size {module.address_size}")
    lines += [f'.file {number} "{name}"' for name, number in files.items()]
    lines += [_variable(variable) for variable in module.variables]
    return "\n".join(lines + body) + "\n"


def _function(function: Function, files: dict[str, int], defined: bool) -> list[str]:
    kind = f"{'.visible' if defined else '.extern'} {'.entry' if function.is_entry else '.func'}"
    results = f" ({', '.join(map(_parameter, function.results))})" if function.results else ""
    head = f"\n{kind}{results} {function.name}("
    if function.parameters:
        head += "\n\t" + ",\n\t".join(map(_parameter, function.parameters)) + "\n"
    lines = [head + ")", *(_performance(name, values) for name, values in function.performance)]
    if function.is_declaration:
        return [*lines, ";"]
    lines.append("{")
    lines += [f"\t{line}" for line in _registers(function)]
    lines += [f"\t{_variable(variable)}" for variable in function.variables]
    lines += [f"{table.name}: .branchtargets {', '.join(table.labels)};" for table in function.tables]
    lines += [f"{prototype.name}: {prototype.text};" for prototype in function.prototypes]
    source = None
    for item in function.body:
        if isinstance(item, Label):
            lines.append(f"{item.name}:")
            continue
        if item.source is not None and item.source != source:
            number = files.setdefault(item.source.file, len(files) + 1)
            lines.append(f"\t.loc {number} {item.source.line} {item.source.column}")
            source = item.source
        lines.append(f"\t{print_instruction(item)}")
    return [*lines, "}"]


def _performance(name: str, values: tuple[int, ...]) -> str:
    return f".{name} {', '.join(map(str, values))}".rstrip()


def _registers(function: Function) -> list[str]:
    """`.reg` directives: neighbours of one type share a line, at most eight on it."""
    lines: list[str] = []
    names: list[str] = []
    previous = ""
    for register in function.registers:
        if names and (register.type != previous or len(names) == 8):
            lines.append(f".reg .{previous} {', '.join(names)};")
            names = []
        names.append(register.name)
        previous = register.type
    if names:
        lines.append(f".reg .{previous} {', '.join(names)};")
    return lines


def _parameter(parameter: Parameter) -> str:
    text = f".{parameter.space}"
    if parameter.pointer is None and parameter.align:
        text += f" .align {parameter.align}"
    text += f" .{parameter.type}"
    if parameter.pointer is not None:
        space = f" .{parameter.pointer.space}" if parameter.pointer.space else ""
        text += f" .ptr{space}" + (f" .align {parameter.pointer.align}" if parameter.pointer.align else "")
    return f"{text} {parameter.name}" + (f"[{parameter.size}]" if parameter.size is not None else "")


def _variable(variable: Variable) -> str:
    text = ".extern " if variable.external else ""
    text += f".{variable.space}" + (f" .align {variable.align}" if variable.align else "")
    text += f" .{variable.type} {variable.name}"
    text += "".join(f"[{extent or ''}]" for extent in variable.dimensions)
    if variable.initialiser:
        text += f" = {_initialiser(variable.initialiser, variable.dimensions)}"
    return text + ";"


def _initialiser(values: tuple[int | str, ...], shape: tuple[int, ...]) -> str:
    """The elements in braces, every row of a row in its own."""
    if not shape:
        return str(values[0]).replace("+-", "-")
    row = prod(shape[1:])
    rows = [_initialiser(values[i : i + row], shape[1:]) for i in range(0, len(values), row)]
    return f"{{{', '.join(rows)}}}"


def print_instruction(instruction: Instruction) -> str:
    """One instruction with its guard and semicolon."""
    guard = ""
    if instruction.guard is not None:
        guard = f"@{'!' if instruction.guard.negated else ''}{instruction.guard.register} "
    operands = ", ".join(map(print_operand, instruction.operands))
    return f"{guard}{instruction.name}{' ' if operands else ''}{operands};"


def print_operand(operand: Operand) -> str:
    """One operand."""
    match operand:
        case Register(name) | SpecialRegister(name):
            return name
        case Immediate(value):
            return str(value)
        case FloatImmediate(text):
            return text
        case Symbol(name, offset):
            return f"{name}+{offset}" if offset else name
        case Address(base, offset):
            if base is None:
                return f"[{offset}]"
            return f"[{base.name}+{offset}]" if offset else f"[{base.name}]"
        case Negated(inner):
            return f"!{print_operand(inner)}"
        case Pair(first, second):
            return f"{print_operand(first)}|{print_operand(second)}"
        case Vector(elements):
            return f"{{{', '.join(map(print_operand, elements))}}}"
        case Group(elements):
            return f"({', '.join(map(print_operand, elements))})"
