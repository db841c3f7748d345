"""The PTX abstract syntax tree: what a PTX file says, and nothing it leaves to context.

The grammar of the IR (a field's name before the colon, `*` repeats, `?` may be None):

    Module       = (version: str, target: str*, address_size: int, variables: Variable*, functions: Function*,
                    file: str)
    Variable     = (space: global|const|shared|local|param, name: str, type: str, align: int,
                    dimensions: int*, initialiser: (int | str)*, external: bool)
    Function     = (name: str, is_entry: bool, parameters: Parameter*, results: Parameter*,
                    registers: RegisterDeclaration*, variables: Variable*, tables: BranchTable*,
                    prototypes: Prototype*, body: (Label | Instruction)*, is_declaration: bool,
                    performance: (str, int*)*)
    Parameter    = (name: str, type: str, align: int, size: int?, pointer: PointerAttributes?, space: param|reg)
    PointerAttributes   = (space: str, align: int)
    RegisterDeclaration = (name: str, type: str)
    BranchTable  = (name: str, labels: str*)
    Prototype    = (name: str, text: str)
    Label        = (name: str)
    Instruction  = (opcode: str, modifiers: str*, operands: Operand*, guard: Guard?,
                    location: SourceLocation, source: SourceLocation?)
    Guard        = (register: str, negated: bool)
    Operand      = Register(name) | Immediate(value) | Address(base: Register | Symbol | None, offset)
                 | Symbol(name) | Vector(elements: Operand*) | SpecialRegister(name) | Negated(operand)
                 | Pair(first, second) | Group(elements: Operand*) | FloatImmediate(text)

Notes for readers of the tree:

- `ld.global.b32 %r1, [%rd1+4]` is Instruction("ld", ("global", "b32"), (Register("%r1"),
  Address(Register("%rd1"), 4))). The opcode is the text before the first dot.
- Names keep their `%`. Every register of a function has its own name: the parser flattens nested scopes and
  renames a shadowing register or label (`%r1` of an inner scope becomes `%r1$1`). A vector register is its
  elements: `.reg .v2 .b32 %v` declares `%v$x` and `%v$y`, and `%v` as an operand is `{%v$x, %v$y}`.
- An `.alias` is the function it stands for, wherever it is named.
- A SpecialRegister's name is what is printed: `%tid.x`, `%laneid`, `WARP_SZ`.
- `r|p` destinations are Pair, `!p` operands Negated, `{a, b}` Vector, a call's `(a, b)` Group.
- Immediate values are Python integers as written: `-1640531527` stays negative; an instruction's type says
  how many low bits count. A floating-point literal is kept as text, to be refused by its line.
- Labels, variables and parameters are Symbol operands (a branch target, `mov.u32 %r1, table`).
- `.loc` became `source`: the user's own line. `location` is the PTX line; it does not count in comparisons.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from toolchain.errors import SourceLocation


@dataclass(frozen=True)
class Register:
    """A declared register: `%r1`, or `acc` where `.reg .b32 acc` stands above."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """An integer literal: `-4`, `0xff`, `2U`, `'a'`; true is 1."""

    value: int


@dataclass(frozen=True)
class FloatImmediate:
    """A floating-point literal, kept as written: `0f3F800000`, `1.5`."""

    text: str


@dataclass(frozen=True)
class SpecialRegister:
    """A register the machine sets: `%tid.x`, `%ctaid.y`, `%laneid`."""

    name: str


@dataclass(frozen=True)
class Symbol:
    """A label, variable, parameter, function or branch table; `offset` bytes into it."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Address:
    """A memory operand `[base+offset]`; offset in bytes. base None is an absolute address `[16]`."""

    base: Register | Symbol | None
    offset: int = 0


@dataclass(frozen=True)
class Vector:
    """`{%r1, %r2}`, the operand of a vector load or store; one element is allowed."""

    elements: "tuple[Operand, ...]"


@dataclass(frozen=True)
class Negated:
    """`!%p1` as a source operand."""

    operand: Register


@dataclass(frozen=True)
class Pair:
    """`%r1|%p1` or `%p1|%p2`: two destinations of one instruction."""

    first: "Operand"
    second: "Operand"


@dataclass(frozen=True)
class Group:
    """`(a, b)`: the results or arguments of a call."""

    elements: "tuple[Operand, ...]"


Operand = (
    Register
    | Immediate
    | FloatImmediate
    | SpecialRegister
    | Symbol
    | Address
    | Vector
    | Negated
    | Pair
    | Group
)


def leaves(operand: Operand) -> Iterator[Operand]:
    """The registers, symbols and literals inside an operand."""
    match operand:
        case Address(base, _):
            if base is not None:
                yield base
        case Negated(inner):
            yield inner
        case Pair(first, second):
            yield from (*leaves(first), *leaves(second))
        case Vector(elements) | Group(elements):
            for element in elements:
                yield from leaves(element)
        case _:
            yield operand


@dataclass(frozen=True)
class Guard:
    """`@%p1` or `@!%p1` before an instruction."""

    register: str
    negated: bool


@dataclass(frozen=True)
class Label:
    """`$L__BB0_2:` in a body."""

    name: str


@dataclass(frozen=True)
class Instruction:
    """One instruction. Its text is `[@[!]guard] opcode.modifier.modifier operand, operand;`."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None = None
    location: SourceLocation = field(default=SourceLocation("<ptx>", 0), compare=False)
    source: SourceLocation | None = None

    @property
    def name(self) -> str:
        """Opcode and modifiers as PTX writes them: `ld.global.b32`."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def where(self) -> SourceLocation:
        """The user's own line if the compiler told it, else the PTX line."""
        return self.source or self.location


@dataclass(frozen=True)
class RegisterDeclaration:
    """One register and its type (`pred`, `b32`, `s64`, ...); `%r<3>` is three of these."""

    name: str
    type: str


@dataclass(frozen=True)
class PointerAttributes:
    """`.ptr .global .align 4` of a kernel parameter."""

    space: str
    align: int


@dataclass(frozen=True)
class Parameter:
    """A function's parameter: a scalar of `type`, or `size` elements of it (a structure passed by value)."""

    name: str
    type: str
    align: int = 0
    size: int | None = None
    pointer: PointerAttributes | None = None
    space: str = "param"
    """`param`, or `reg`: a device function's parameter that is passed in a register."""

    @property
    def bytes(self) -> int:
        """How many bytes the parameter takes."""
        return TYPE_BITS[self.type] // 8 * (1 if self.size is None else self.size)


@dataclass(frozen=True)
class Variable:
    """A variable in memory. `dimensions` is empty for a scalar; 0 is an extern array of unknown length.

    `initialiser` gives the first elements, row by row, the rest is zero; a str is an address, `name+4`.
    """

    space: str
    name: str
    type: str
    align: int = 0
    dimensions: tuple[int, ...] = ()
    initialiser: tuple[int | str, ...] = ()
    external: bool = False

    @property
    def elements(self) -> int:
        """How many elements the variable has."""
        count = 1
        for extent in self.dimensions:
            count *= extent
        return count

    @property
    def bytes(self) -> int:
        """How many bytes the variable takes."""
        return TYPE_BITS[self.type] // 8 * self.elements


@dataclass(frozen=True)
class BranchTable:
    """`name: .branchtargets A, B;`, the labels `brx.idx` chooses from."""

    name: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Prototype:
    """`name: .callprototype ...` or `.calltargets ...`: what an indirect call may reach, kept as text."""

    name: str
    text: str


@dataclass(frozen=True)
class Function:
    """A kernel (`.entry`) or device function (`.func`), its scopes flattened into one.

    `performance` holds tuning directives: ("reqntid", (4, 1, 1)).
    """

    name: str
    is_entry: bool
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...] = ()
    registers: tuple[RegisterDeclaration, ...] = ()
    variables: tuple[Variable, ...] = ()
    tables: tuple[BranchTable, ...] = ()
    prototypes: tuple[Prototype, ...] = ()
    body: tuple[Label | Instruction, ...] = ()
    is_declaration: bool = False
    performance: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def instructions(self) -> Iterator[Instruction]:
        """The instructions of the body in order, without the labels."""
        return (item for item in self.body if isinstance(item, Instruction))

    def register_types(self) -> dict[str, str]:
        """Register name -> type, parameters that are registers among them."""
        parameters = (p for p in (*self.results, *self.parameters) if p.space == "reg")
        return {register.name: register.type for register in (*parameters, *self.registers)}


@dataclass(frozen=True)
class Module:
    """One PTX file."""

    version: str
    target: tuple[str, ...]
    address_size: int
    variables: tuple[Variable, ...] = ()
    functions: tuple[Function, ...] = ()
    file: str = field(default="<ptx>", compare=False)

    @property
    def entries(self) -> tuple[Function, ...]:
        """The kernels of the file."""
        return tuple(function for function in self.functions if function.is_entry)


TYPE_BITS: dict[str, int] = {
    "pred": 1,
    **{f"{kind}{bits}": bits for kind in "bsu" for bits in (8, 16, 32, 64)},
    "b128": 128,
    "f16": 16,
    "f16x2": 32,
    "bf16": 16,
    "bf16x2": 32,
    "f32": 32,
    "f64": 64,
}
"""Width in bits of every PTX type."""
