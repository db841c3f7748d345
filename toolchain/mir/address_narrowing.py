"""Address narrowing: byte addresses divided by four become word addresses, computed in words from the start.

    %b = shl %i, 2
    %a = add %b, param.0
    %w = shr.u %a, 2          ->      ld.global [%i + (param.0)>>2]
    ... ld.global [%w]

Contract: valid MIR in, valid MIR out; same memory, given that addresses are aligned (PTX requires it) and
that array parameters, variables and local arrays start on a word. A register whose every definition is a
multiple of four gets a *twin* beside each of its definitions; a quarter of the register is the twin plus a
link-time offset, modulo 2**30. Loop-carried pointers get one only if they are nothing but addresses, so that
no loop carries both. Shifts whose results are not only addresses stay.
"""

from dataclasses import replace

from toolchain.machine_spec import MachineSpec
from toolchain.mir.affine import add_words, constant, is_constant, number, word_address
from toolchain.mir.ir import (
    ZERO,
    Block,
    Function,
    Instruction,
    MirOp,
    Operand,
    Predicate,
    Register,
    Value,
    is_value,
)
from toolchain.mir.isa import MulOp, Op
from toolchain.mir.rom import LinkValue

PASS_NAME = "address-narrowing"

_BITWISE = (0x8, 0xE, 0x6)


def run(function: Function, spec: MachineSpec) -> Function:
    """The function with word twins and without the shifts they replace; dead byte arithmetic stays."""
    return _Narrowing(function).rewritten()


class _Narrowing:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.pointers = {f"param.{parameter.word}" for parameter in function.parameters if parameter.pointer}
        self.pointers |= {f"global.{variable.name}" for variable in function.variables} | {"local.base"}
        self.definitions: dict[Register, list[Instruction]] = {}
        self.uses: dict[Register, list[Instruction]] = {}
        for block in function.blocks:
            for item in block.instructions:
                if isinstance(item.dest, Register):
                    self.definitions.setdefault(item.dest, []).append(item)
                for name in item.uses:
                    if isinstance(name, Register):
                        self.uses.setdefault(name, []).append(item)
        self.addresses = {name for name in self.definitions if self._is_address(name)}
        self.words = self._narrowable()
        self.twins = self._twins()
        self.offsets: dict[Register, LinkValue] = {}
        self.counter = 0

    def _is_address(self, name: Register) -> bool:
        """A register that is always a byte address shifted right by 2, and used as nothing but an address."""
        return all(_is_quarter(item) for item in self.definitions[name]) and all(
            item.is_memory and name not in item.operands[1:] for item in self.uses.get(name, ())
        )

    def _narrowable(self) -> frozenset[Register]:
        """Registers that can have a twin: the largest set that agrees with itself."""
        words = set(self.definitions) - self.addresses
        while True:
            only = self._only_addresses(words)
            kept = {
                name
                for name in words
                if all(self._has_quarter(item, words) for item in self.definitions[name])
                and (len(self.definitions[name]) == 1 or name in only)
            }
            if kept == words:
                return frozenset(kept)
            words = kept

    def _only_addresses(self, words: set[Register]) -> set[Register]:
        """Registers of `words` that feed nothing but addresses."""
        only = set(words)
        while True:
            kept = {name for name in only if all(self._feeds(item, only) for item in self.uses.get(name, ()))}
            if kept == only:
                return only
            only = kept

    def _feeds(self, item: Instruction, only: set[Register]) -> bool:
        return isinstance(item.dest, Register) and (item.dest in self.addresses or item.dest in only)

    def _has_quarter(self, item: Instruction, words: set[Register]) -> bool:
        a, b = (*item.operands, ZERO, ZERO)[:2]
        match item.op:
            case MirOp.MOV:
                return self._is_multiple(a, words)
            case Op.ADD | Op.SUB | Op.SEL:
                return self._is_multiple(a, words) and self._is_multiple(b, words)
            case Op.LOP:
                both = self._is_multiple(a, words) and self._is_multiple(b, words)
                return item.table in _BITWISE and both
            case Op.SHL:
                return isinstance(b, LinkValue) and is_constant(b) and 2 <= number(b) < 32
            case MulOp.LO:
                return isinstance(b, LinkValue) and self._is_multiple(b, words)
        return False

    def _is_multiple(self, operand: Operand, words: set[Register]) -> bool:
        if isinstance(operand, LinkValue):
            whole = operand.addend % 4 == 0 and operand.shift == 0
            return whole and all(name in self.pointers or by % 4 == 0 for name, by in operand.terms)
        return operand in words

    def _twins(self) -> dict[Register, Register]:
        """Twins of the registers that addresses need, and of what those need."""
        taken = {item.dest.name for items in self.definitions.values() for item in items if item.dest}
        taken |= {
            name.name for block in self.function.blocks for item in block.instructions for name in item.uses
        }
        self.taken = taken
        twins: dict[Register, Register] = {}
        work = [item.operands[0] for name in sorted(self.addresses) for item in self.definitions[name]]
        while work:
            name = work.pop()
            if not isinstance(name, Register) or name not in self.words or name in twins:
                continue
            twin = f"{name.name}w"
            while twin in taken:
                twin += "w"
            taken.add(twin)
            twins[name] = Register(twin)
            for item in self.definitions[name]:
                if item.op not in (Op.SHL, MulOp.LO):
                    work += [operand for operand in item.operands if not isinstance(operand, Predicate)]
        return twins

    def rewritten(self) -> Function:
        return self.function.with_blocks([self._block(block) for block in self.function.blocks])

    def _block(self, block: Block) -> Block:
        body: list[Instruction] = []
        for item in block.instructions:
            if isinstance(item.dest, Register) and item.dest in self.twins:
                body += self._quarter(item, self.twins[item.dest])
            if item.dest in self.addresses and self._known(item.operands[0]):
                twin, offset = self._split(item.operands[0])
                body.append(replace(item, op=Op.ADD, operands=(twin, offset)))
            else:
                body.append(item)
        return replace(block, instructions=tuple(body))

    def _known(self, operand: Operand) -> bool:
        return operand in self.twins or (isinstance(operand, LinkValue) and operand.shift == 0)

    def _split(self, operand: Operand) -> tuple[Value, LinkValue]:
        """A quarter of an operand that is a multiple of four: a twin (or zero) plus an offset."""
        if isinstance(operand, Register):
            return self.twins[operand], self._offset(operand)
        assert isinstance(operand, LinkValue)
        word = word_address(operand)
        assert word is not None
        return ZERO, word

    def _offset(self, name: Register) -> LinkValue:
        """The link-time part of a quarter; only a register with a single definition has one."""
        if name in self.offsets:
            return self.offsets[name]
        self.offsets[name] = ZERO
        if len(self.definitions[name]) == 1:
            item = self.definitions[name][0]
            if item.op in (Op.ADD, MirOp.MOV):
                parts = [self._split(operand)[1] for operand in item.operands]
                total: LinkValue | None = ZERO
                for part in parts:
                    total = None if total is None else add_words(total, part)
                self.offsets[name] = total or ZERO
        return self.offsets[name]

    def _quarter(self, item: Instruction, twin: Register) -> list[Instruction]:
        """The twin's definition; it comes before `item`, so that `p = add p, 4` still reads the old p."""
        assert isinstance(item.dest, Register)
        a, b = (*item.operands, ZERO, ZERO)[:2]
        assert is_value(a) and is_value(b)
        if item.op is Op.SHL:
            assert isinstance(b, LinkValue)
            return [replace(item, dest=twin, operands=(a, constant(number(b) - 2)))]
        if item.op is MulOp.LO:
            return [replace(item, dest=twin, operands=(a, self._split(b)[1]))]
        parts = [self._split(operand) for operand in item.operands]
        if self._offset(item.dest) != ZERO:
            return [replace(item, dest=twin, operands=tuple(part for part, _ in parts))]
        before: list[Instruction] = []
        operands: list[Operand] = []
        for part, offset in parts:
            if part != ZERO and offset != ZERO:
                whole = Register(self._fresh())
                before.append(Instruction(Op.ADD, whole, (part, offset), source=item.source))
                operands.append(whole)
            else:
                operands.append(part if offset == ZERO else offset)
        return [*before, replace(item, dest=twin, operands=tuple(operands))]

    def _fresh(self) -> str:
        self.counter += 1
        while f"w{self.counter}" in self.taken:
            self.counter += 1
        return f"w{self.counter}"


def _is_quarter(item: Instruction) -> bool:
    return item.op is Op.SHR_U and item.operands[1] == constant(2)
