"""Makes registers of the `.param` variables that a function passed its calls' arguments and results in.

PTX ISA, "Parameter state space": a call's arguments and results are stored to and loaded from `.param`
variables, in pieces of any size at any aligned offset. Where the body of the called function stands in place of
the call, a variable needs no memory. It becomes one register for each piece that is ever stored whole; a
load of less takes bits out of a register, a load of more puts registers together.

A kernel's own parameters are left alone. A variable whose address is taken becomes a `.local` variable.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from toolchain.errors import CompileError
from toolchain.ptx_frontend.ast import (
    TYPE_BITS,
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Operand,
    Register,
    RegisterDeclaration,
    Symbol,
    Variable,
    Vector,
)

MOVES = ("ld", "st")


@dataclass(frozen=True)
class Access:
    """`operand` loaded from or stored to `bits` bits at bit `start` of a variable."""

    variable: str
    start: int
    bits: int
    operand: Operand


@dataclass(frozen=True)
class Piece:
    """Bits `start` to `start + bits` of a variable, in the low bits of a register."""

    start: int
    bits: int
    register: str

    @property
    def width(self) -> int:
        """The register's width: there are none of 8 bits that arithmetic takes."""
        return max(self.bits, 16)


def run(function: Function) -> Function:
    """The function without `.param` variables of its own."""
    variables = {v.name: v for v in function.variables if v.space == "param"}
    if not variables:
        return function
    addressed = {name for i in function.instructions for name in _addressed(i) if name in variables}
    function = _in_local_memory(function, addressed)
    pieces = _pieces(function, [v for name, v in variables.items() if name not in addressed])
    rewriter = _Rewriter(pieces, function.register_types())
    body = [
        item if isinstance(item, Label) else new
        for item in function.body
        for new in ([item] if isinstance(item, Label) else rewriter.instruction(item))
    ]
    used = {
        o.name
        for item in body
        if isinstance(item, Instruction)
        for o in item.operands
        if isinstance(o, Register)
    }
    made = [
        RegisterDeclaration(piece.register, f"b{piece.width}")
        for each in pieces.values()
        for piece in each
        if piece.register in used
    ]
    return replace(
        function,
        variables=tuple(variable for variable in function.variables if variable.space != "param"),
        registers=(*function.registers, *made, *rewriter.temporaries),
        body=tuple(body),
    )


def _is_parameter_move(instruction: Instruction) -> bool:
    spaces = {word.split("::")[0] for word in instruction.modifiers}
    return instruction.opcode in MOVES and "param" in spaces


def _addressed(instruction: Instruction) -> Iterator[str]:
    """Variables an instruction names as a value, not as what a `ld.param` or `st.param` accesses."""
    for operand in instruction.operands:
        if isinstance(operand, Symbol):
            yield operand.name


def _in_local_memory(function: Function, names: set[str]) -> Function:
    """The function with those variables in local memory."""
    if not names:
        return function
    variables = tuple(replace(v, space="local") if v.name in names else v for v in function.variables)
    body = []
    for item in function.body:
        if isinstance(item, Instruction) and _is_parameter_move(item):
            base = next(o.base for o in item.operands if isinstance(o, Address))
            if isinstance(base, Symbol) and base.name in names:
                words = tuple("local" if w.split("::")[0] == "param" else w for w in item.modifiers)
                item = replace(item, modifiers=words)
        body.append(item)
    return replace(function, variables=variables, body=tuple(body))


def _accesses(instruction: Instruction) -> tuple[Access, ...]:
    """The variables' bits that a `ld.param` or `st.param` moves; none for any other instruction."""
    if not _is_parameter_move(instruction):
        return ()
    first, second = instruction.operands
    place, value = (first, second) if instruction.opcode == "st" else (second, first)
    if not isinstance(place, Address) or not isinstance(place.base, Symbol):
        return ()
    elements = value.elements if isinstance(value, Vector) else (value,)
    bits = TYPE_BITS[instruction.modifiers[-1]]
    return tuple(
        Access(place.base.name, 8 * place.offset + bits * index, bits, element)
        for index, element in enumerate(elements)
    )


def _pieces(function: Function, variables: list[Variable]) -> dict[str, list[Piece]]:
    """Each variable's pieces: the largest aligned powers of two that no store divides."""
    stores: dict[str, list[tuple[int, int]]] = {variable.name: [] for variable in variables}
    for instruction in function.instructions:
        for access in _accesses(instruction):
            if access.variable not in stores:
                continue
            size = 8 * next(v.bytes for v in variables if v.name == access.variable)
            if access.start < 0 or access.start + access.bits > size or access.start % access.bits:
                raise CompileError(
                    f"'{access.variable}' has {size // 8} bytes; this accesses {access.bits // 8} at "
                    f"{access.start / 8:g}",
                    instruction.where,
                )
            if instruction.opcode == "st":
                stores[access.variable].append((access.start, access.bits))
    taken = function.register_types()
    return {
        variable.name: [
            Piece(start, bits, _free(f"{variable.name}${start // 8}", taken))
            for start, bits in _divide(8 * variable.bytes, stores[variable.name])
        ]
        for variable in variables
    }


def _free(name: str, taken: dict[str, str]) -> str:
    name = name if name.startswith("%") else f"%{name}"
    while name in taken:
        name += "$"
    return name


def _divide(size: int, stores: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Start and width of the pieces of `size` bits."""
    start = 0
    while start < size:
        bits = 64
        while bits > 8 and (start % bits or start + bits > size or _divided(start, bits, stores)):
            bits //= 2
        yield start, bits
        start += bits


def _divided(start: int, bits: int, stores: list[tuple[int, int]]) -> bool:
    """Whether a store writes a part of these bits and not all, or none does and they are more than a word."""
    touching = [store for store in stores if store[0] < start + bits and start < store[0] + store[1]]
    return any(width < bits for _, width in touching) or (not touching and bits > 32)


class _Rewriter:
    """Loads and stores of variables as moves between registers."""

    def __init__(self, pieces: dict[str, list[Piece]], types: dict[str, str]) -> None:
        self.pieces = pieces
        self.types = types
        self.temporaries: list[RegisterDeclaration] = []

    def instruction(self, instruction: Instruction) -> list[Instruction]:
        """What stands in place of an instruction."""
        accesses = [access for access in _accesses(instruction) if access.variable in self.pieces]
        if not accesses:
            return [instruction]
        self.template = instruction
        made: list[Instruction] = []
        for access in accesses:
            if access.operand == Symbol("_"):
                continue
            end = access.start + access.bits
            pieces = [
                p for p in self.pieces[access.variable] if p.start < end and access.start < p.start + p.bits
            ]
            made += self.store(access, pieces) if instruction.opcode == "st" else self.load(access, pieces)
        return made

    def make(self, name: str, *operands: Operand) -> Instruction:
        """An instruction in place of the one being replaced, with its guard and line."""
        opcode, *modifiers = name.split(".")
        return replace(self.template, opcode=opcode, modifiers=tuple(modifiers), operands=operands)

    def temporary(self, width: int) -> Register:
        """A new register."""
        name = _free(f"%piece{len(self.temporaries)}", self.types)
        self.temporaries.append(RegisterDeclaration(name, f"b{width}"))
        return Register(name)

    def store(self, access: Access, pieces: list[Piece]) -> Iterator[Instruction]:
        """Each piece takes its bits of the value."""
        for piece in pieces:
            target, shift = Register(piece.register), piece.start - access.start
            if isinstance(access.operand, Immediate):
                value = access.operand.value >> shift & ((1 << piece.bits) - 1)
                yield self.make(f"mov.b{piece.width}", target, Immediate(value))
                continue
            source, width = access.operand, self.width(access.operand)
            if shift:
                source = self.temporary(width)
                yield self.make(f"shr.u{width}", source, access.operand, Immediate(shift))
            yield self.resize(target, piece.width, source, width)

    def load(self, access: Access, pieces: list[Piece]) -> Iterator[Instruction]:
        """The value from the one piece it lies in, or put together from several."""
        kind = "s" if self.template.modifiers[-1].startswith("s") else "u"
        target, width = access.operand, self.width(access.operand)
        if len(pieces) == 1:
            piece, shift = pieces[0], access.start - pieces[0].start
            source: Operand = Register(piece.register)
            if shift:
                source = self.temporary(piece.width)
                yield self.make(f"shr.u{piece.width}", source, Register(piece.register), Immediate(shift))
            yield self.extend(kind, target, width, source, piece.width, access.bits)
            return
        total = max(access.bits, 16)
        parts: list[Operand] = []
        for piece in pieces:
            part = self.temporary(total)
            yield self.extend("u", part, total, Register(piece.register), piece.width, piece.bits)
            if piece.start > access.start:
                yield self.make(f"shl.b{total}", part, part, Immediate(piece.start - access.start))
            parts.append(part)
        for part in parts[1:]:
            yield self.make(f"or.b{total}", parts[0], parts[0], part)
        yield self.extend(kind, target, width, parts[0], total, access.bits)

    def extend(
        self, kind: str, target: Operand, width: int, source: Operand, have: int, bits: int
    ) -> Instruction:
        """The low `bits` of a register of `have` bits, extended to one of `width`."""
        if bits in (have, width):
            return self.resize(target, width, source, have, kind)
        return self.make(f"cvt.{kind}{width}.{kind}{bits}", target, source)

    def resize(self, target: Operand, width: int, source: Operand, have: int, kind: str = "u") -> Instruction:
        """A move between registers of different width."""
        if width == have:
            return self.make(f"mov.b{width}", target, source)
        return self.make(f"cvt.{kind}{width}.{kind}{have}", target, source)

    def width(self, operand: Operand) -> int:
        """Bits of a register; an address or a special register has those that the instruction says."""
        if isinstance(operand, Register):
            return max(TYPE_BITS[self.types[operand.name]], 16)
        return max(TYPE_BITS[self.template.modifiers[-1]], 16)
