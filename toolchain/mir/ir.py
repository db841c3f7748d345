"""The machine IR: a control-flow graph of the machine's own operations over virtual registers.

The grammar (a field's name before the colon, `*` repeats, `?` may be None):

    Function    = (name: str, parameters: rom.Parameter*, blocks: Block*, source_file: str,
                   variables: rom.Variable*, shared_words: int, local_words: int)
    Block       = (label: str, instructions: Instruction*, terminator: Terminator, serial: bool)
    Instruction = (op: Operation, dest: Register | Predicate | None, operands: Operand*,
                   predicate: Predicate?, negated: bool, table: int, offset: LinkValue,
                   uniform: bool, narrow: bool, source: SourceLocation?)
    Operation   = isa.Op | isa.MulOp | MirOp
    Operand     = Register(name) | LinkValue | Special(name) | Predicate(name)   # predicates only in `plop`
    Terminator  = Branch(predicate: Predicate, taken: str, otherwise: str) | Jump(target: str) | Barrier(target: str)

One line of text for each shape of instruction:

    %d = add %a, %b                     two-operand ALU operations and multiplies (isa.Op, isa.MulOp)
    %d = popc %a                        popc, clz, brev, mov: one operand
    %d = lop.0x8 %a, %b                 bit 2 * a + b of the table
    %d = sel %q, %a, %b                 q ? a : b
    %q = set.lt.u %a, %b                comparisons write a predicate
    %q = plop.0x8 %q1, %q2              predicate logic, bit 2 * q1 + q2; an operand may be `true`
    %d = shfl %a, %b                    a of lane b mod lanes, active or not
    %d = ballot %q                      bit l: lane l is active and q holds there
    %d = ld.global [%a + 3]             word (a + offset) mod 2 ** address_bits; the offset is a LinkValue
    %d = ld.shared [%a + 3]
    st.global [%a + 3], %b if not %q    the guard is optional; `not` only with a guard
    st.shared [%a + 3], %b
    sync.warp                           lanes that run this together see each other's stores: no copies of it
    branch %q, TAKEN, OTHERWISE         a target is a label, or `exit`: the lane is done
    jump TARGET
    barrier TARGET                      the warp waits until all others have reached a barrier, then goes on

Rules beyond the shapes (`verifier.py` checks them):

- Registers hold 32 bits, predicates one. Neither is in SSA form: a name may have several definitions, and
  every use must be defined on every path from the entry.
- A link-time constant (`LinkValue`) or special register may stand wherever a register is read.
- blocks[0] is the entry; nothing branches to it.
- Instructions of a block run in order, each in all active lanes at once; stores of one instruction in lane
  order. Memory operations of a space keep their order: a load after a store sees it.
- A serial block (`label: serial`) runs one lane at a time, the lowest first, each from its first instruction to its
  terminator: how atomics are made. It must fit one machine block (at most one store), is not the entry, and ends
  in a jump or branch.
- `ballot` depends on which lanes are active: it must not move to where other lanes are. A shuffle may.
- `uniform` and `narrow` describe the value an instruction defines. uniform: equal in all lanes that execute
  it together. narrow: it fits 16 bits unsigned. A block may be split into a chain of machine blocks only if
  the chain is laid out without gaps, so that its lanes stay together; then `uniform` stays true.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TypeGuard

from toolchain.errors import SourceLocation
from toolchain.mir.isa import BIT_OPS, COMPARISONS, LOADS, MulOp, Op
from toolchain.mir.rom import LinkValue, Parameter, Variable

EXIT = "exit"
"""The branch target that ends the lane; no block has this label."""


class MirOp(StrEnum):
    """Operations that are not ALU or multiplier operations."""

    MOV = "mov"  # a copy; free where the scheduler can forward it
    PLOP = "plop"  # slot p: logic of two predicates
    STORE = "st.global"  # at most one store a machine block
    STORE_SHARED = "st.shared"
    SYNC = "sync.warp"  # costs nothing; what it stands between stays in order for all lanes that are here


Operation = Op | MulOp | MirOp


@dataclass(frozen=True, order=True)
class Register:
    """A 32-bit virtual register, printed `%name`."""

    name: str

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return f"%{self.name}"


@dataclass(frozen=True, order=True)
class Predicate:
    """A one-bit virtual predicate, printed `%name`; `TRUE` is printed `true`."""

    name: str

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return "true" if self == TRUE else f"%{self.name}"


TRUE = Predicate("true")
"""The predicate that always holds; only `plop` reads it, nothing writes it."""


@dataclass(frozen=True, order=True)
class Special:
    """A special register (`isa.SPECIALS`), readable anywhere; the machine reads it in stage 0 of a block."""

    name: str

    def __str__(self) -> str:
        return f"%{self.name}"


Operand = Register | LinkValue | Special | Predicate
Value = Register | LinkValue | Special
"""An operand that is a 32-bit value."""

STORES = (MirOp.STORE, MirOp.STORE_SHARED)
ONE_OPERAND = (Op.POPC, Op.CLZ, Op.BREV, MirOp.MOV, *LOADS)
ZERO = LinkValue()


@dataclass(frozen=True)
class Instruction:
    """One operation. `predicate` is the selector of `sel`, ballot's, or the guard of a store, which can be `negated`.

    `table` counts for lop and plop, `offset` (words) for loads and stores.
    """

    op: Operation
    dest: Register | Predicate | None
    operands: tuple[Operand, ...]
    predicate: Predicate | None = None
    negated: bool = False
    table: int = 0
    offset: LinkValue = ZERO
    uniform: bool = False
    narrow: bool = False
    source: SourceLocation | None = None

    @property
    def is_memory(self) -> bool:
        return self.op in LOADS or self.op in STORES

    @property
    def is_load(self) -> bool:
        return self.op in LOADS

    @property
    def is_store(self) -> bool:
        return self.op in STORES

    @property
    def is_shared(self) -> bool:
        """Whether it accesses shared memory."""
        return self.op in (Op.LOAD_SHARED, MirOp.STORE_SHARED)

    @cached_property
    def uses(self) -> tuple[Register | Predicate, ...]:
        """Registers and predicates read, in operand order; TRUE is not one."""
        reads = tuple(
            item for item in self.operands if isinstance(item, Register | Predicate) and item != TRUE
        )
        return reads if self.predicate in (None, TRUE) else (*reads, self.predicate)

    @cached_property
    def operation(self) -> "Instruction":
        """What is computed, without what is known of the result and where it comes from."""
        return replace(self, uniform=False, narrow=False, source=None)

    @property
    def values(self) -> tuple[Value, ...]:
        """The 32-bit operands."""
        return tuple(item for item in self.operands if is_value(item))


@dataclass(frozen=True)
class Branch:
    """Lanes where `predicate` holds go to `taken`, the others to `otherwise`."""

    predicate: Predicate
    taken: str
    otherwise: str
    source: SourceLocation | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        return (self.taken, self.otherwise)


@dataclass(frozen=True)
class Jump:
    """All lanes go to `target`."""

    target: str
    source: SourceLocation | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        return (self.target,)


@dataclass(frozen=True)
class Barrier:
    """All lanes wait for the thread block's other warps, then go to `target`."""

    target: str
    source: SourceLocation | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        return (self.target,)


Terminator = Branch | Jump | Barrier


@dataclass(frozen=True)
class Block:
    """A straight line of instructions and where it leads. `serial`: run by one lane at a time."""

    label: str
    instructions: tuple[Instruction, ...]
    terminator: Terminator
    serial: bool = False

    @property
    def successors(self) -> tuple[str, ...]:
        """Labels of the blocks that may run next, each once, EXIT left out."""
        return tuple(dict.fromkeys(target for target in self.terminator.targets if target != EXIT))

    @cached_property
    def writes(self) -> frozenset[Register | Predicate]:
        """What the block's instructions write."""
        return frozenset(item.dest for item in self.instructions if item.dest is not None)

    @cached_property
    def reads(self) -> frozenset[Register | Predicate]:
        """What the block reads as it was before it."""
        read, written = set[Register | Predicate](), set[Register | Predicate]()
        for item in self.instructions:
            read.update(name for name in item.uses if name not in written)
            if item.dest is not None:
                written.add(item.dest)
        if isinstance(self.terminator, Branch) and self.terminator.predicate not in written:
            read.add(self.terminator.predicate)
        return frozenset(read)


@dataclass(frozen=True)
class Function:
    """A kernel. blocks[0] is the entry. Variables and sizes are as in `rom.RomImage`."""

    name: str
    parameters: tuple[Parameter, ...]
    blocks: tuple[Block, ...]
    source_file: str = ""
    variables: tuple[Variable, ...] = ()
    shared_words: int = 0
    local_words: int = 0

    def block(self, label: str) -> Block:
        return next(block for block in self.blocks if block.label == label)

    def with_blocks(self, blocks: list[Block] | tuple[Block, ...]) -> "Function":
        return replace(self, blocks=tuple(blocks))


def is_value(operand: Operand) -> TypeGuard[Value]:
    return not isinstance(operand, Predicate)


def operand_count(op: Operation) -> int:
    """How many operands an operation takes; the predicate of `sel`, `ballot` or a store does not count."""
    if op in (Op.BALLOT, MirOp.SYNC):
        return 0
    return 1 if op in ONE_OPERAND else 2


def writes_predicate(op: Operation) -> bool:
    return op in COMPARISONS or op is MirOp.PLOP


def needs_bit_slot(op: Operation) -> bool:
    """Whether only slot y can run it."""
    return op in BIT_OPS


def with_targets(terminator: Terminator, change: dict[str, str]) -> Terminator:
    """The terminator with its targets renamed; targets missing from `change` stay."""
    if isinstance(terminator, Jump | Barrier):
        return replace(terminator, target=change.get(terminator.target, terminator.target))
    taken = change.get(terminator.taken, terminator.taken)
    return replace(terminator, taken=taken, otherwise=change.get(terminator.otherwise, terminator.otherwise))
