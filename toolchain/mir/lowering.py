"""The state of lowering one PTX kernel: open block, names, and the small builders the lowerings share.

A 64-bit PTX register is a pair of MIR registers, low word and high word (`value` and `pair`). A register that
always holds an address inside memory has no high word: it is zero (ptx_addresses.py). What nobody reads is
removed by dead-code elimination, so address arithmetic costs its low words only.
"""

import re

from toolchain.errors import CompileError, SourceLocation
from toolchain.machine_spec import MachineSpec
from toolchain.mir.affine import constant
from toolchain.mir.ir import (
    TRUE,
    ZERO,
    Block,
    Instruction,
    Jump,
    MirOp,
    Operand,
    Operation,
    Predicate,
    Register,
    Terminator,
    Value,
)
from toolchain.mir.isa import SPECIALS, Op
from toolchain.mir.ptx_addresses import short_registers
from toolchain.mir.ptx_facts import constant_registers, word_multiples
from toolchain.mir.rom import LinkValue, Parameter
from toolchain.ptx_frontend import ast

AND, OR, XOR = 0x8, 0xE, 0x6
AND_NOT = 0x4  # a & ~b
NOT_AND = 0x2  # ~a & b
NOT = 0x3  # ~a, whatever b
COPY = 0xC  # a, whatever b

Pair = tuple[Value, Value]
"""A 64-bit value: low word, high word."""


def refuse(item: ast.Instruction, why: str, hint: str = "") -> CompileError:
    """The error for a PTX instruction that cannot be lowered."""
    return CompileError(f"'{item.name}' {why}", item.where, hint=hint)


class Lowering:
    """Blocks lowered so far and the one being filled. Code after a jump goes into a block nothing reaches."""

    def __init__(self, function: ast.Function, parameters: tuple[Parameter, ...], spec: MachineSpec) -> None:
        self.function = function
        self.parameters = parameters
        self.spec = spec
        self.types = function.register_types()
        self.words = word_multiples(function, parameters)
        self.constants = constant_registers(function, spec.lanes)
        self.short = short_registers(function, parameters)
        self.blocks: list[Block] = []
        self.open_label: str | None = None
        self.body: list[Instruction] = []
        self.at: ast.Instruction | None = None
        self._names: dict[str, str] = {}
        self._high_names: dict[str, str] = {}
        self._carry: Predicate | None = None
        self._taken = {"true", "exit", *SPECIALS}
        for name in self.types:
            self._name(name)
        self._labels = {
            label.name: self._claim(label.name) for label in function.body if isinstance(label, ast.Label)
        }

    # Names.

    def _claim(self, wanted: str) -> str:
        name = re.sub(r"^(\$L__)|[^\w$]", "", wanted) or "v"
        name = name if re.match(r"[A-Za-z_$]", name) else f"v{name}"
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def _name(self, ptx_name: str) -> str:
        if ptx_name not in self._names:
            self._names[ptx_name] = self._claim(ptx_name)
        return self._names[ptx_name]

    def _high_name(self, ptx_name: str) -> str:
        if ptx_name not in self._high_names:
            self._high_names[ptx_name] = self._claim(f"{self._name(ptx_name)}h")
        return self._high_names[ptx_name]

    def _fresh(self, prefix: str) -> str:
        number = 1
        while f"{prefix}{number}" in self._taken:
            number += 1
        self._taken.add(f"{prefix}{number}")
        return f"{prefix}{number}"

    def label(self, name: str) -> str:
        return self._labels[name]

    def fresh_label(self) -> str:
        return self._fresh("L")

    def fresh(self) -> Register:
        return Register(self._fresh("t"))

    def fresh_predicate(self) -> Predicate:
        return Predicate(self._fresh("q"))

    @property
    def carry(self) -> Predicate:
        """PTX's CC.CF."""
        if self._carry is None:
            self._carry = Predicate(self._claim("carry"))
        return self._carry

    # Blocks.

    def start(self, label: str) -> None:
        self.open_label, self.body = label, []

    def end(self, terminator: Terminator) -> None:
        """Closes the open block."""
        if self.open_label is None:
            self.start(self.fresh_label())
        assert self.open_label is not None
        self.blocks.append(Block(self.open_label, tuple(self.body), terminator))
        self.open_label = None

    def fall_into(self, label: str) -> None:
        """Starts block `label`; the open block, if any, runs on into it."""
        if self.open_label is not None:
            self.end(Jump(label))
        self.start(label)

    def append(self, instruction: Instruction) -> None:
        if self.open_label is None:
            self.start(self.fresh_label())
        self.body.append(instruction)

    @property
    def source(self) -> SourceLocation | None:
        return self.at.where if self.at else None

    # Operands.

    def predicate(self, name: str) -> Predicate:
        if self.types.get(name, "pred") != "pred":
            assert self.at is not None
            raise refuse(self.at, f"uses '{name}' as a predicate")
        return Predicate(self._name(name))

    def value(self, operand: ast.Operand) -> Value:
        """A PTX source operand as a 32-bit value: of a 64-bit register, the low word."""
        match operand:
            case ast.Immediate(value):
                return constant(value)
            case ast.Register(name) if name in self.constants:
                return constant(self.constants[name])
            case ast.Register(name) if self.types.get(name, "b32") != "pred":
                return Register(self._name(name))
        assert self.at is not None
        raise refuse(self.at, f"has an operand that is not an integer: {operand}")

    def pair(self, operand: ast.Operand) -> Pair:
        """A PTX source operand as 64 bits. The high word of a register that is not wide is zero."""
        low = self.value(operand)
        match operand:
            case ast.Immediate(value):
                return low, constant(value >> 32)
            case ast.Register(name) if name in self.constants:
                return low, constant(self.constants[name] >> 32)
            case ast.Register(name) if self.is_wide(operand) and name not in self.short:
                return low, Register(self._high_name(name))
        return low, ZERO

    def read_pair(self, operand: ast.Operand, kind: str) -> Pair:
        """A source operand of a PTX type, extended to 64 bits as the type says."""
        if ast.TYPE_BITS[kind] == 64:
            return self.pair(operand)
        return self.extended(self.read(operand, kind), is_signed=kind.startswith("s"))

    def extended(self, low: Value, *, is_signed: bool) -> Pair:
        """32 bits as 64."""
        return low, self.compute(Op.SHR_S, low, constant(31)) if is_signed else ZERO

    def read(self, operand: ast.Operand, kind: str) -> Value:
        """A source operand of a PTX type: 8 and 16 bits are extended to 32 as the type says; of 64 the low word."""
        bits = ast.TYPE_BITS.get(kind, 32)
        if bits >= 32:
            return self.value(operand)
        if isinstance(operand, ast.Immediate):
            value = operand.value & ((1 << bits) - 1)
            return constant(value - (1 << bits) if kind.startswith("s") and value >> (bits - 1) else value)
        if bits == 16 and not kind.startswith("s") and self.is_half(operand):
            return self.value(operand)
        return self.field(self.value(operand), 0, bits, is_signed=kind.startswith("s"))

    def is_half(self, operand: ast.Operand) -> bool:
        """Whether it is a 16-bit register. Here it has 32 bits, and the upper half is always zero."""
        return isinstance(operand, ast.Register) and ast.TYPE_BITS.get(self.types.get(operand.name, "")) == 16

    def is_wide(self, operand: ast.Operand) -> bool:
        """Whether it is a 64-bit register."""
        return isinstance(operand, ast.Register) and ast.TYPE_BITS.get(self.types.get(operand.name, "")) == 64

    def test(self, operand: ast.Operand) -> Predicate:
        """A PTX predicate operand: `%p`, `!%p`, or a constant."""
        match operand:
            case ast.Register(name):
                return self.predicate(name)
            case ast.Negated(ast.Register(name)):
                return self.logic(NOT, self.predicate(name))
            case ast.Immediate(value):
                return self.logic(0xF if value else 0, TRUE)
        assert self.at is not None
        raise refuse(self.at, f"has an operand that is not a predicate: {operand}")

    # Operations.

    def emit(
        self,
        op: Operation,
        dest: Register | Predicate,
        *operands: Operand,
        predicate: Predicate | None = None,
        table: int = 0,
        offset: LinkValue = ZERO,
    ) -> None:
        self.append(
            Instruction(op, dest, operands, predicate, table=table, offset=offset, source=self.source)
        )

    def compute(self, op: Operation, *operands: Operand, table: int = 0) -> Register:
        """A new register with the result of an operation."""
        dest = self.fresh()
        self.emit(op, dest, *operands, table=table)
        return dest

    def load(self, base: Operand, offset: LinkValue) -> Register:
        dest = self.fresh()
        self.emit(Op.LOAD, dest, base, offset=offset)
        return dest

    def logic(self, table: int, a: Predicate, b: Predicate = TRUE) -> Predicate:
        dest = self.fresh_predicate()
        self.emit(MirOp.PLOP, dest, a, b, table=table)
        return dest

    def field(self, value: Value, low: int, bits: int, *, is_signed: bool) -> Value:
        """Bits low .. low + bits - 1, zero- or sign-extended; bits beyond 31 read as zero or the sign."""
        bits = min(bits, 32 - min(low, 32))
        shift = Op.SHR_S if is_signed else Op.SHR_U
        if bits == 0:
            return self.compute(Op.SHR_S, value, constant(31)) if is_signed else ZERO
        if low + bits == 32:
            return self.compute(shift, value, constant(low))
        if not is_signed and low == 0:
            return self.compute(Op.LOP, value, constant((1 << bits) - 1), table=AND)
        top = self.compute(Op.SHL, value, constant(32 - low - bits))
        return self.compute(shift, top, constant(32 - bits))

    def define(
        self,
        item: ast.Instruction,
        value: Value,
        operand: ast.Operand | None = None,
        *,
        fits: bool = False,
        is_signed: bool = False,
    ) -> None:
        """Gives 32 bits to the destination of a PTX instruction, only where its guard holds.

        A 16-bit destination takes the low half; `fits` says that the upper half is zero already. A 64-bit
        destination takes the value extended, with zeros or its sign.
        """
        operand = operand or item.operands[0]
        if self.is_wide(operand):
            self.define_pair(item, self.extended(value, is_signed=is_signed), operand)
            return
        dest = self._destination(operand)
        if self.is_half(operand) and not fits:
            value = self.field(value, 0, 16, is_signed=False)
        self._assign(item, dest, value)

    def define_pair(self, item: ast.Instruction, value: Pair, operand: ast.Operand | None = None) -> None:
        """Gives 64 bits to the destination of a PTX instruction, only where its guard holds.

        A narrower destination takes the low word.
        """
        operand = operand or item.operands[0]
        if not self.is_wide(operand):
            self.define(item, value[0], operand)
            return
        dest = self._destination(operand)
        assert isinstance(operand, ast.Register)
        high = None if operand.name in self.short else Register(self._high_name(operand.name))
        if high is not None and dest in value[1:]:  # the high word is read from what is about to be written
            value = (value[0], self.compute(MirOp.MOV, value[1]))
        self._assign(item, dest, value[0])
        if high is not None:
            self._assign(item, high, value[1])

    def _assign(self, item: ast.Instruction, dest: Register, value: Value) -> None:
        """dest = value, where the guard holds."""
        if item.guard is None:
            self.emit(MirOp.MOV, dest, value)
            return
        guard = self.predicate(item.guard.register)
        a, b = (dest, value) if item.guard.negated else (value, dest)
        self.emit(Op.SEL, dest, a, b, predicate=guard)

    def _destination(self, operand: ast.Operand) -> Register:
        if isinstance(operand, ast.Register) and self.types.get(operand.name, "b32") != "pred":
            return Register(self._name(operand.name))
        assert self.at is not None
        raise refuse(self.at, "has a destination that is not a register")

    def define_test(self, item: ast.Instruction, value: Predicate, operand: ast.Operand) -> None:
        """The same for a predicate."""
        if operand in (ast.Symbol("_"), ast.Register("_")):
            return
        if not isinstance(operand, ast.Register):
            raise refuse(item, "has a destination that is not a predicate")
        self.assign_test(item, self.predicate(operand.name), value)

    def assign_test(self, item: ast.Instruction, dest: Predicate, value: Predicate) -> None:
        """dest = value, where the guard of the instruction holds."""
        if item.guard is not None:
            guard = self.predicate(item.guard.register)
            new, old = (NOT_AND, AND) if item.guard.negated else (AND, NOT_AND)
            kept = self.logic(old, guard, dest)
            value = self.logic(OR, self.logic(new, guard, value), kept)
        self.emit(MirOp.PLOP, dest, value, TRUE, table=COPY)
