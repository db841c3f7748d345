"""Replaces every call of a kernel by the body of the function it calls. The machine has no call.

PTX ISA, "call" and "Abstracting the ABI". Registers, labels, branch tables and `.local` variables of the
function get new names in every copy, so each copy has its own room; `.shared`, `.global` and `.const` variables
that a function declares are the same in every copy and become the module's. A `.param` of the function becomes
the caller's `.param` variable, and call_parameters.py makes registers of those; one in a register is moved.

Refused at the call's own line: recursion, calls through a pointer, and functions that the file only declares.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from toolchain.errors import CompileError
from toolchain.ptx_frontend import call_parameters
from toolchain.ptx_frontend.ast import (
    Address,
    BranchTable,
    Function,
    Group,
    Guard,
    Instruction,
    Label,
    Module,
    Operand,
    Parameter,
    Register,
    RegisterDeclaration,
    Symbol,
    Variable,
)
from toolchain.ptx_frontend.clang import source_line
from toolchain.ptx_frontend.names import source_name
from toolchain.ptx_frontend.printer import print_instruction
from toolchain.ptx_frontend.rename import rename_instruction

PASS_NAME = "inline-calls"

STATIC_SPACES = ("shared", "global", "const")
"""Spaces whose variables live as long as the launch, also where a function declares them."""

LIBRARY: Mapping[str, tuple[str, str]] = {
    "vprintf": ("printf is not supported", "store the value in an array and read it after the launch"),
    "__assertfail": ("assert is not supported", "write an error code to an array, or compile with -D NDEBUG"),
    "malloc": ("memory cannot be allocated in a kernel", "pass an array, or declare a __shared__ one"),
    "free": ("memory cannot be allocated in a kernel", "pass an array, or declare a __shared__ one"),
}
"""Functions of CUDA's device library that compilers declare: why each is refused, and what to do instead."""


@dataclass(frozen=True)
class Call:
    """The parts of `call (results), target, (arguments)[, prototype];`."""

    instruction: Instruction
    results: tuple[Operand, ...]
    target: Operand
    arguments: tuple[Operand, ...]

    def refuse(self, message: str, hint: str) -> CompileError:
        """An error at the line that calls."""
        where = self.instruction.where
        return CompileError(
            message, where, hint=hint, excerpt=source_line(where) or print_instruction(self.instruction)
        )


def call_of(instruction: Instruction) -> Call:
    """The parts of a `call` instruction."""
    operands = list(instruction.operands)
    results = operands.pop(0) if operands and isinstance(operands[0], Group) else Group(())
    target = operands.pop(0)
    arguments = operands.pop(0) if operands and isinstance(operands[0], Group) else Group(())
    assert isinstance(results, Group)
    assert isinstance(arguments, Group)
    return Call(instruction, results.elements, target, arguments.elements)


def run(module: Module) -> Module:
    """The module with its kernels alone, and no call in them. Raises CompileError at a call that must stay one."""
    module = _hoist_static_variables(module)
    functions = {function.name: function for function in module.functions if not function.is_declaration}
    inliner = _Inliner(functions, _module_names(module), {})
    kernels = tuple(call_parameters.run(inliner.expand(entry, ())) for entry in module.entries)
    return replace(module, functions=kernels)


def _module_names(module: Module) -> frozenset[str]:
    """Names that no function may take for its own: a copy of another function may mean the module's."""
    return frozenset(item.name for item in (*module.variables, *module.functions))


def _hoist_static_variables(module: Module) -> Module:
    """Device functions' static variables as variables of the module, under a name that is free."""
    taken = set(_module_names(module)).union(*(_own_names(function) for function in module.functions))
    variables = list(module.variables)
    functions = []
    for function in module.functions:
        static = [v for v in function.variables if v.space in STATIC_SPACES and not function.is_entry]
        names: dict[str, str] = {}
        for variable in static:
            names[variable.name] = _free_name(f"{source_name(function.name)}${variable.name}", taken)
            variables.append(replace(variable, name=names[variable.name]))
        body = tuple(rename_instruction(i, names) if isinstance(i, Instruction) else i for i in function.body)
        kept = tuple(variable for variable in function.variables if variable not in static)
        functions.append(replace(function, variables=kept, body=body))
    return replace(module, variables=tuple(variables), functions=tuple(functions))


def _own_names(function: Function) -> set[str]:
    """Every name that a function declares."""
    declared = (*function.parameters, *function.results, *function.registers, *function.variables)
    labels = (item for item in function.body if isinstance(item, Label))
    return {item.name for item in (*declared, *function.tables, *function.prototypes, *labels)}


def _free_name(name: str, taken: set[str]) -> str:
    """`name`, with as many `$` after it as make it free; it is taken from now on."""
    while name in taken:
        name += "$"
    taken.add(name)
    return name


@dataclass
class _Inliner:
    """Functions by name, and those whose calls have been replaced already."""

    functions: dict[str, Function]
    module_names: frozenset[str]
    expanded: dict[str, Function]

    def expand(self, function: Function, path: tuple[str, ...]) -> Function:
        """`function` without calls. `path` are the functions that called it, outermost first."""
        if function.name not in self.expanded:
            path = (*path, function.name)
            draft = _Draft(function, set(self.module_names) | _own_names(function))
            for item in function.body:
                if isinstance(item, Instruction) and item.opcode == "call":
                    call = call_of(item)
                    draft.splice(call, self.expand(self.callee(call, path), path))
                else:
                    draft.body.append(item)
            self.expanded[function.name] = draft.finish()
        return self.expanded[function.name]

    def callee(self, call: Call, path: tuple[str, ...]) -> Function:
        """The function a call reaches. Raises CompileError where there is none, or it is being called already."""
        if not isinstance(call.target, Symbol):
            raise call.refuse(
                "a call through a function pointer or a virtual function is not supported",
                "call the function by its name, or choose it with if or switch",
            )
        name = call.target.name
        if name in path:
            cycle = " calls ".join(source_name(step) for step in (*path[path.index(name) :], name))
            raise call.refuse(f"recursion is not supported: {cycle}", "write it as a loop")
        if name not in self.functions:
            reason, hint = LIBRARY.get(
                name,
                (
                    f"'{source_name(name)}' is declared but not defined in this file",
                    "define it in the same file",
                ),
            )
            raise call.refuse(reason, hint)
        callee = self.functions[name]
        passed, taken = len(call.arguments), len(callee.parameters)
        if (passed, len(call.results)) != (taken, len(callee.results)):
            raise call.refuse(
                f"'{source_name(name)}' takes {taken} arguments and gives {len(callee.results)} results; "
                f"this call has {passed} and {len(call.results)}",
                "make the call fit the function",
            )
        return callee


class _Draft:
    """A function whose calls are being replaced."""

    def __init__(self, function: Function, taken: set[str]) -> None:
        self.function = function
        self.taken = taken
        self.registers = list(function.registers)
        self.variables = list(function.variables)
        self.tables = list(function.tables)
        self.body: list[Label | Instruction] = []
        self.copies = 0

    def finish(self) -> Function:
        """The function as it is now."""
        return replace(
            self.function,
            registers=tuple(self.registers),
            variables=tuple(self.variables),
            tables=tuple(self.tables),
            body=tuple(self.body),
        )

    def splice(self, call: Call, callee: Function) -> None:
        """Adds a copy of `callee` where `call` stands."""
        self.copies += 1
        names = {name: self.fresh(name) for name in sorted(_own_names(callee))}
        before, after = self.bind(call, callee, names)
        types = callee.register_types()
        self.registers += [RegisterDeclaration(names[name], kind) for name, kind in types.items()]
        self.variables += [replace(variable, name=names[variable.name]) for variable in callee.variables]
        self.tables += [
            BranchTable(names[table.name], tuple(names[label] for label in table.labels))
            for table in callee.tables
        ]
        guard, end, skip = call.instruction.guard, self.fresh("$L__end"), self.fresh("$L__skip")
        body = _without_returns(_renamed(callee, names, call), end)
        if guard is not None:
            unless = Guard(guard.register, not guard.negated)
            self.body.append(self.made(call, "bra", (), Symbol(skip), guard=unless))
        self.body += [*before, *body]
        if any(isinstance(item, Instruction) and Symbol(end) in item.operands for item in body):
            self.body.append(Label(end))
        self.body += after
        if guard is not None:
            self.body.append(Label(skip))

    def fresh(self, name: str) -> str:
        """A free name for `name` in this copy."""
        return _free_name(f"{name}${self.copies}", self.taken)

    def bind(
        self, call: Call, callee: Function, names: dict[str, str]
    ) -> tuple[list[Instruction], list[Instruction]]:
        """Makes the function's parameters and results the caller's: in `names`, or by moves before and after."""
        before = [
            move
            for parameter, operand in zip(callee.parameters, call.arguments, strict=True)
            for move in self.passed(call, parameter, operand, names, into=True)
        ]
        after = [
            move
            for parameter, operand in zip(callee.results, call.results, strict=True)
            for move in self.passed(call, parameter, operand, names, into=False)
        ]
        return before, after

    def passed(
        self, call: Call, parameter: Parameter, operand: Operand, names: dict[str, str], *, into: bool
    ) -> list[Instruction]:
        """The moves that pass one parameter `into` the function or out of it."""
        own = isinstance(operand, Symbol)
        kind = parameter.type
        if parameter.space == "param" and own:
            names[parameter.name] = operand.name
            return []
        name = names[parameter.name]
        if parameter.space == "param":
            dimensions = () if parameter.size is None else (parameter.size,)
            self.variables.append(Variable("param", name, kind, parameter.align, dimensions))
            if into:
                return [self.made(call, "st", ("param", kind), Address(Symbol(name)), operand)]
            return [self.made(call, "ld", ("param", kind), operand, Address(Symbol(name)))]
        if own and into:
            return [self.made(call, "ld", ("param", kind), Register(name), Address(operand))]
        if own:
            return [self.made(call, "st", ("param", kind), Address(operand), Register(name))]
        pair = (Register(name), operand) if into else (operand, Register(name))
        return [self.made(call, "mov", (kind,), *pair)]

    def made(
        self,
        call: Call,
        opcode: str,
        modifiers: tuple[str, ...],
        *operands: Operand,
        guard: Guard | None = None,
    ) -> Instruction:
        """An instruction at the line of the call."""
        return replace(call.instruction, opcode=opcode, modifiers=modifiers, operands=operands, guard=guard)


def _renamed(function: Function, names: dict[str, str], call: Call) -> list[Label | Instruction]:
    """The body under its new names. An instruction whose source line is unknown is at the call's."""
    body: list[Label | Instruction] = []
    for item in function.body:
        if isinstance(item, Label):
            body.append(Label(names[item.name]))
        else:
            source = item.source or call.instruction.source
            body.append(replace(rename_instruction(item, names), source=source))
    return body


def _without_returns(body: list[Label | Instruction], end: str) -> list[Label | Instruction]:
    """The body with a branch to `end` for each `ret`; none for one that stands there already."""
    result: list[Label | Instruction] = []
    for position, item in enumerate(body):
        if isinstance(item, Instruction) and item.opcode == "ret":
            if position + 1 == len(body):
                continue
            item = replace(item, opcode="bra", operands=(Symbol(end),))
        result.append(item)
    return result
