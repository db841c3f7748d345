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


@dataclass(frozen=True)
class Table:
    """`.branchtargets`; the label before it is its name."""

    labels: tuple[str, ...]


Statement = Instruction | Label | Line | Registers | Table | Variable | list
Scope = list[Statement]


@dataclass
class _Flat:
    """What has been collected of a function, and the names that are taken in it."""

    files: FileIndex
    file: str
    registers: list[RegisterDeclaration] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    tables: list[BranchTable] = field(default_factory=list)
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
"""What a name means in a scope: a Register or Symbol with its flat name."""


def flatten(function: Function, scope: Scope, files: FileIndex, file: str) -> Function:
    """`function` with the body that `scope` says, flat and resolved."""
    flat = _Flat(files, file)
    flat.taken |= {parameter.name for parameter in (*function.parameters, *function.results)}
    _flatten_scope(flat, scope, {})
    return replace(
        function,
        registers=tuple(flat.registers),
        variables=tuple(flat.variables),
        tables=tuple(flat.tables),
        body=tuple(flat.body),
    )


def _flatten_scope(flat: _Flat, scope: Scope, outer: Names) -> None:
    names = dict(outer)
    declared: set[str] = set()
    for name, kind in _declarations(scope):
        if name in declared:
            raise CompileError(f"'{name}' is declared twice in one scope", SourceLocation(flat.file, 0))
        declared.add(name)
        flat_name = flat.unique(name)
        names[name] = Register(flat_name) if kind == "register" else Symbol(flat_name)
    for position, statement in enumerate(scope):
        if isinstance(statement, Instruction):
            flat.body.append(_resolve_instruction(flat, statement, names))
        elif isinstance(statement, Line):
            flat.source = _source(flat, statement)
        elif isinstance(statement, Label):
            follows = scope[position + 1] if position + 1 < len(scope) else None
            if not isinstance(follows, Table):
                flat.body.append(Label(_flat_name(names, statement.name)))
        elif isinstance(statement, Table):
            label = scope[position - 1] if position else None
            if not isinstance(label, Label):
                raise CompileError("a .branchtargets needs a label before it", SourceLocation(flat.file, 0))
            targets = tuple(_flat_name(names, target) for target in statement.labels)
            flat.tables.append(BranchTable(_flat_name(names, label.name), targets))
        elif isinstance(statement, Registers):
            flat.registers += [
                RegisterDeclaration(_flat_name(names, name), statement.type) for name in statement.names
            ]
        elif isinstance(statement, Variable):
            flat.variables.append(replace(statement, name=_flat_name(names, statement.name)))
        else:
            _flatten_scope(flat, statement, names)


def _declarations(scope: Scope) -> Iterator[tuple[str, str]]:
    """The names a scope declares, its nested scopes left out."""
    for statement in scope:
        if isinstance(statement, Registers):
            yield from ((name, "register") for name in statement.names)
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


def _flat_name(names: Names, name: str) -> str:
    known = names.get(name)
    return known.name if isinstance(known, Register | Symbol) else name


def _resolve_instruction(flat: _Flat, instruction: Instruction, names: Names) -> Instruction:
    guard = instruction.guard
    if guard is not None:
        guard = Guard(_flat_name(names, guard.register), guard.negated)
    operands = tuple(_resolve(operand, names) for operand in instruction.operands)
    return replace(instruction, operands=operands, guard=guard, source=flat.source)


def _resolve(operand: Operand, names: Names) -> Operand:
    match operand:
        case Symbol(name, offset):
            known = names.get(name)
            if isinstance(known, Register):
                return known
            if isinstance(known, Symbol):
                return replace(known, offset=offset)
            if name in SPECIAL_REGISTERS:
                return SpecialRegister(name)
            return Register(name) if name.startswith("%") else operand
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
