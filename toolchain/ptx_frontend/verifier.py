"""Checks a PTX module. The rules, each reported with its line:

1. every register an instruction names is declared, in a type that is known, once; 2. every branch target is a
label of the function, every branch table exists, no label stands twice; 3. every variable or parameter an
address or `mov` names exists; 4. an arithmetic instruction has as many operands as its opcode takes, ld and
st have two, a guard is a predicate; 5. a register is as wide as its operand's type asks: predicates only
where a predicate stands, and sources and
   results of the type's width (ld, st and cvt allow wider registers; PTX ISA, "Operand size exceeding
   instruction-type size").

Errors are collected; `verify_ptx` raises the first with the others in its hint.
"""

from collections import Counter
from collections.abc import Iterator

from toolchain.errors import CompileError, SourceLocation, VerifyError
from toolchain.ptx_frontend.ast import (
    TYPE_BITS,
    Function,
    Instruction,
    Label,
    Module,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    leaves,
)
from toolchain.ptx_frontend.operations import operation
from toolchain.ptx_frontend.printer import print_instruction, print_operand

WIDER_ALLOWED = frozenset({"ld", "ldu", "st", "cvt"})
OPERAND_COUNTS = {
    "ld": (2, 2),
    "st": (2, 2),
    "cvta": (2, 2),
    "bra": (1, 1),
    "brx": (2, 2),
    "ret": (0, 0),
    "exit": (0, 0),
}


def verify_ptx(module: Module) -> None:
    """Raises VerifyError at the first broken rule."""
    errors = list(problems(module))
    if not errors:
        return
    first = errors[0]
    others = "\n    ".join(f"{error.location}: {error.message}" for error in errors[1:11])
    hint = f"also:\n    {others}" if others else ""
    raise VerifyError(first.message, first.location, excerpt=first.excerpt, hint=hint)


def problems(module: Module) -> Iterator[CompileError]:
    """Every broken rule of a module."""
    names = {variable.name for variable in module.variables} | {
        function.name for function in module.functions
    }
    for function in module.functions:
        yield from _Checker(module, function, names).problems()


class _Checker:
    """The rules for one function."""

    def __init__(self, module: Module, function: Function, names: set[str]) -> None:
        self.function = function
        self.place = SourceLocation(module.file, 0)
        self.types = function.register_types()
        self.labels = Counter(item.name for item in function.body if isinstance(item, Label))
        self.tables = {table.name for table in function.tables}
        self.symbols = names | {variable.name for variable in function.variables}
        self.symbols |= {parameter.name for parameter in (*function.parameters, *function.results)}

    def problems(self) -> Iterator[CompileError]:
        """The broken rules of the function."""
        counts = Counter(register.name for register in self.function.registers)
        for register in self.function.registers:
            if register.type not in TYPE_BITS:
                yield self.general(f"register '{register.name}' has the unknown type '.{register.type}'")
        for name, count in (counts + self.labels).items():
            if count > 1:
                yield self.general(f"'{name}' is declared {count} times")
        for table in self.function.tables:
            for label in table.labels:
                if label not in self.labels:
                    yield self.general(f"branch table '{table.name}' names '{label}', which is not a label")
        for instruction in self.function.instructions:
            yield from self.instruction(instruction)

    def general(self, message: str) -> CompileError:
        """An error of the function as a whole."""
        return CompileError(f"in '{self.function.name}': {message}", self.place)

    def instruction(self, instruction: Instruction) -> Iterator[CompileError]:
        """The broken rules of one instruction."""
        for message in (*self.names(instruction), *self.shape(instruction)):
            where = SourceLocation(instruction.location.file, instruction.location.line)
            yield CompileError(message, where, excerpt=print_instruction(instruction))

    def names(self, instruction: Instruction) -> Iterator[str]:
        """Rules 1 to 3."""
        guard = instruction.guard
        if guard is not None:
            if guard.register not in self.types:
                yield f"register '{guard.register}' is not declared"
            elif self.types[guard.register] != "pred":
                yield f"guard '{guard.register}' is a .{self.types[guard.register]}; expected a .pred"
        for operand in instruction.operands:
            for leaf in leaves(operand):
                if isinstance(leaf, Register) and leaf.name not in self.types and leaf.name != "_":
                    yield f"register '{leaf.name}' is not declared"
                if isinstance(leaf, Symbol) and leaf.name != "_":
                    yield from self.symbol(instruction, leaf.name)

    def symbol(self, instruction: Instruction, name: str) -> Iterator[str]:
        """Rules 2 and 3 for one name."""
        if instruction.opcode == "bra":
            if name not in self.labels:
                yield f"branch target '{name}' is not a label of '{self.function.name}'"
        elif instruction.opcode == "brx":
            if name not in self.tables:
                yield f"'{name}' is not a branch table"
        elif instruction.opcode != "call" and name not in self.symbols | set(self.labels):
            yield f"'{name}' is not declared"

    def shape(self, instruction: Instruction) -> Iterator[str]:
        """Rules 4 and 5."""
        count = len(instruction.operands)
        low, high = OPERAND_COUNTS.get(instruction.opcode, (0, 99))
        if not low <= count <= high:
            yield f"'{instruction.name}' has {count} operands; expected {low}"
        computed = operation(instruction.opcode, instruction.modifiers)
        if computed is None:
            return
        if count != len(computed.sources) + 1:
            yield f"'{instruction.name}' has {count} operands; expected {len(computed.sources) + 1}"
            return
        wider = instruction.opcode in WIDER_ALLOWED
        for operand, kind in zip(instruction.operands, (computed.result, *computed.sources), strict=True):
            parts = (operand.first, operand.second) if isinstance(operand, Pair) else (operand,)
            for leaf in parts:
                yield from self.width(instruction, leaf, kind, wider)

    def width(self, instruction: Instruction, operand: Operand, kind: str, wider: bool) -> Iterator[str]:
        """Rule 5 for one operand."""
        register = operand.operand if isinstance(operand, Negated) else operand
        declared = self.types.get(register.name) if isinstance(register, Register) else None
        if declared is None or declared not in TYPE_BITS:
            return
        have, want = TYPE_BITS[declared], TYPE_BITS[kind]
        fits = have == want or (wider and have > want > 1)
        if not fits or (declared == "pred") != (kind == "pred"):
            yield f"'{print_operand(operand)}' is a .{declared}; '{instruction.name}' expects a .{kind} here"
