"""Flattens a function's nested scopes and tells registers, labels, variables and special registers apart.

PTX ISA, "Identifiers" and "State spaces": `{ }` opens a scope anywhere in a body, and a register, label or
variable declared in it hides one of the same name outside. In the flat body the hidden one keeps its name and
the inner one becomes `name$1`, `name$2`, ...
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from toolchain.errors import CompileError, SourceLocation
from toolchain.ptx_frontend.ast import (
    Address,
    BranchTable,
    Function,
    Group,
    Guard,
    Instruction,
    Label,
    Negated,
    Operand,
    Pair,
    Prototype,
    Register,
    RegisterDeclaration,
    SpecialRegister,
    Symbol,
    Variable,
    Vector,
)

FileIndex = dict[int, str]
"""The `.file` table: number -> path."""

SPECIAL_REGISTERS = frozenset(
    {f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"}
    | {"%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid", "%clock", "%clock_hi", "%clock64"}
    | {f"%lanemask_{relation}" for relation in ("eq", "le", "lt", "ge", "gt")}
    | {"%globaltimer", "%globaltimer_lo", "%globaltimer_hi", "%total_smem_size", "%dynamic_smem_size"}
    | {"%aggr_smem_size", "WARP_SZ", "%is_explicit_cluster", "%cluster_ctarank", "%cluster_nctarank"}
    | {
        f"%{name}.{axis}"
        for name in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
        for axis in "xyz"
    }
    | {f"%pm{i}" for i in range(8)}
    | {f"%envreg{i}" for i in range(32)}
)
"""PTX ISA, "Special registers"."""


@dataclass(frozen=True)
class Line:
    """`.loc file line column[, function_name f, inlined_at file line column]`."""

    file: int
    line: int
    column: int
    caller: "Line | None" = None


@dataclass(frozen=True)
class Registers:
    """One `.reg` directive."""

    type: str
    names: tuple[str, ...]
    vector: int = 0
    """Elements of a vector register; 0 for a scalar."""


@dataclass(frozen=True)
class Table:
    """`.branchtargets`; the label before it is its name."""

    labels: tuple[str, ...]


@dataclass(frozen=True)
class Signature:
    """`.callprototype ...` or `.calltargets ...`; the label before it is its name."""

    text: str


Statement = Instruction | Label | Line | Registers | Table | Signature | Variable | list
Scope = list[Statement]


@dataclass
class _Flat:
    """What has been collected of a function, and the names that are taken in it."""

    files: FileIndex
    file: str
    registers: list[RegisterDeclaration] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    tables: list[BranchTable] = field(default_factory=list)
    prototypes: list[Prototype] = field(default_factory=list)
    body: list[Label | Instruction] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    source: SourceLocation | None = None
    callers: dict[Line, Line] = field(default_factory=dict)

    def unique(self, name: str) -> str:
        """`name`, or the first free `name$N`."""
        candidate, number = name, 0
        while candidate in self.taken:
            number += 1
            candidate = f"{name}${number}"
        self.taken.add(candidate)
        return candidate


Names = dict[str, Operand]
"""What a name means in a scope: a Register or Symbol with its flat name, or the Vector of a vector register."""

COMPONENTS = ("xyzw", "rgba")
"""The elements of a vector register, in either spelling."""


def flatten(
    function: Function, scope: Scope, files: FileIndex, file: str, aliases: dict[str, str]
) -> Function:
    """`function` with the body that `scope` says, flat and resolved. `aliases` are other names of functions."""
    flat = _Flat(files, file)
    parameters = (*function.parameters, *function.results)
    flat.taken |= {parameter.name for parameter in parameters}
    names: Names = {alias: Symbol(name) for alias, name in aliases.items()}
    names |= {
        parameter.name: Register(parameter.name) for parameter in parameters if parameter.space == "reg"
    }
    _flatten_scope(flat, scope, names)
    return replace(
        function,
        registers=tuple(flat.registers),
        variables=tuple(flat.variables),
        tables=tuple(flat.tables),
        prototypes=tuple(flat.prototypes),
        body=tuple(flat.body),
    )


def _flatten_scope(flat: _Flat, scope: Scope, outer: Names) -> None:
    names = dict(outer)
    declared: set[str] = set()
    for name, kind in _declarations(scope):
        if name in declared:
            raise CompileError(f"'{name}' is declared twice in one scope", SourceLocation(flat.file, 0))
        declared.add(name)
        if kind.isdigit():
            elements = [Register(flat.unique(f"{name}${axis}")) for axis in "xyzw"[: int(kind)]]
            names[name] = Vector(tuple(elements))
            continue
        flat_name = flat.unique(name)
        names[name] = Register(flat_name) if kind == "register" else Symbol(flat_name)
    for position, statement in enumerate(scope):
        if isinstance(statement, Instruction):
            flat.body.append(_resolve_instruction(flat, statement, names))
        elif isinstance(statement, Line):
            flat.source = _source(flat, statement)
        elif isinstance(statement, Label):
            follows = scope[position + 1] if position + 1 < len(scope) else None
            if not isinstance(follows, Table | Signature):
                flat.body.append(Label(_flat_name(names, statement.name)))
        elif isinstance(statement, Table | Signature):
            label = scope[position - 1] if position else None
            if not isinstance(label, Label):
                what = ".branchtargets" if isinstance(statement, Table) else statement.text.split()[0]
                raise CompileError(f"a {what} needs a label before it", SourceLocation(flat.file, 0))
            name = _flat_name(names, label.name)
            if isinstance(statement, Signature):
                flat.prototypes.append(Prototype(name, statement.text))
            else:
                targets = tuple(_flat_name(names, target) for target in statement.labels)
                flat.tables.append(BranchTable(name, targets))
        elif isinstance(statement, Registers):
            flat.registers += [
                RegisterDeclaration(register, statement.type)
                for name in statement.names
                for register in _register_names(names[name])
            ]
        elif isinstance(statement, Variable):
            flat.variables.append(replace(statement, name=_flat_name(names, statement.name)))
        else:
            _flatten_scope(flat, statement, names)


def _declarations(scope: Scope) -> Iterator[tuple[str, str]]:
    """The names a scope declares, its nested scopes left out, each with what it is: "register", "symbol", or how
    many elements its vector register has.
    """
    for statement in scope:
        if isinstance(statement, Registers):
            kind = str(statement.vector) if statement.vector else "register"
            yield from ((name, kind) for name in statement.names)
        elif isinstance(statement, Variable | Label):
            yield statement.name, "symbol"


def _source(flat: _Flat, line: Line) -> SourceLocation | None:
    """A `.loc`; line 0 is the compiler's own code and stays with the line before it.

    What was inlined from another file (a header) is the line's that called it.
    """
    if line.line == 0:
        return flat.source
    if line.caller is not None:
        flat.callers[replace(line, caller=None)] = line.caller
    while line.caller is not None and line.caller.file != line.file:
        line = replace(line.caller, caller=flat.callers.get(line.caller))
    return SourceLocation(flat.files.get(line.file, f"file {line.file}"), line.line, line.column)


def _register_names(declared: Operand) -> tuple[str, ...]:
    elements = declared.elements if isinstance(declared, Vector) else (declared,)
    return tuple(element.name for element in elements if isinstance(element, Register))


def _flat_name(names: Names, name: str) -> str:
    known = names.get(name)
    return known.name if isinstance(known, Register | Symbol) else name


def _resolve_instruction(flat: _Flat, instruction: Instruction, names: Names) -> Instruction:
    guard = instruction.guard
    if guard is not None:
        guard = Guard(_flat_name(names, guard.register), guard.negated)
    try:
        operands = tuple(_resolve(operand, names) for operand in instruction.operands)
    except ValueError as error:
        raise CompileError(str(error), instruction.location) from None
    return replace(instruction, operands=operands, guard=guard, source=flat.source)


def _resolve(operand: Operand, names: Names) -> Operand:
    match operand:
        case Symbol(name, offset):
            known = names.get(name, operand)
            if isinstance(known, Symbol) and name in SPECIAL_REGISTERS:
                known = SpecialRegister(name)
            elif isinstance(known, Symbol) and name not in names and name.startswith("%"):
                known = Register(name)
            if isinstance(known, Symbol):
                return replace(known, offset=offset)
            if offset:
                raise ValueError(f"'{name}' has an offset outside an address; add it with an instruction")
            return known
        case SpecialRegister(name):
            base, _, component = name.partition(".")
            known = names.get(base)
            return _component(known, name, component) if isinstance(known, Vector) else operand
        case Address(Symbol() as base, offset):
            resolved = _resolve(base, names)
            return Address(resolved if isinstance(resolved, Register | Symbol) else base, offset)
        case Negated(Register(name)):
            return Negated(Register(_flat_name(names, name)))
        case Pair(first, second):
            return Pair(_resolve(first, names), _resolve(second, names))
        case Vector(elements):
            return Vector(tuple(_resolve(element, names) for element in elements))
        case Group(elements):
            return Group(tuple(_resolve(element, names) for element in elements))
    return operand


def _component(vector: Vector, name: str, component: str) -> Operand:
    """One element of a vector register, `%v.x` or `%v.r`. Raises ValueError where it has none of this name."""
    for spelling in COMPONENTS:
        if len(component) == 1 and 0 <= spelling.find(component) < len(vector.elements):
            return vector.elements[spelling.index(component)]
    raise ValueError(f"'{name}' is no element of a vector register")
