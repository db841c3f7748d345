"""A MIR block as a dataflow graph: the scheduler's view of it.

    Dag     = (nodes*, outputs: register -> Ref, predicate_outputs: predicate -> flag, branch: flag)
    Node    = one operation of the machine; its operands are Ref (a node of the block), Register or Predicate
              (their values when the block begins), LinkValue or Special

Copies have become names: a `mov` costs a node only where a constant, a special register or another register's
value leaves the block, or where a store says a constant.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from toolchain.errors import SourceLocation
from toolchain.mir.affine import add_words
from toolchain.mir.ir import (
    STORES,
    TRUE,
    ZERO,
    Block,
    Branch,
    Instruction,
    MirOp,
    Operand,
    Operation,
    Predicate,
    Register,
    Special,
    writes_predicate,
)
from toolchain.mir.isa import LOADS, MulOp, Op
from toolchain.mir.rom import LinkValue

NARROW_SPECIALS = ("tid.x", "tid.y", "tid.z", "ctaid.x", "ctaid.y", "ctaid.z", "laneid", "warpid")
UNIFORM_SPECIALS = ("ctaid.x", "ctaid.y", "ctaid.z", "warpid")
TABLE_A, TABLE_B = 0b1100, 0b1010
"""Truth tables of `plop` that only pass one operand on."""


@dataclass(frozen=True, order=True)
class Ref:
    """The result of the node with this index."""

    index: int


Arg = Ref | Register | LinkValue | Special | Predicate


@dataclass(frozen=True)
class Node:
    """An operation. `strict` nodes must be in an earlier machine block, `loose` ones not in a later one."""

    op: Operation
    args: tuple[Arg, ...]
    predicate: Arg | None = None
    negated: bool = False
    table: int = 0
    offset: LinkValue = ZERO
    uniform: bool = False
    narrow: bool = False
    source: SourceLocation | None = None
    strict: tuple[int, ...] = ()
    loose: tuple[int, ...] = ()

    @property
    def reads(self) -> tuple[Arg, ...]:
        return self.args if self.predicate is None else (*self.args, self.predicate)

    @cached_property
    def refs(self) -> tuple[int, ...]:
        return tuple(arg.index for arg in self.reads if isinstance(arg, Ref))

    @cached_property
    def specials(self) -> tuple[Special, ...]:
        return tuple(arg for arg in self.args if isinstance(arg, Special))

    @cached_property
    def ports(self) -> frozenset[Register]:
        """Registers that an ALU reads for it."""
        return frozenset(arg for arg in self.args if isinstance(arg, Register))

    @cached_property
    def immediates(self) -> frozenset[LinkValue]:
        return frozenset(arg for arg in self.args if isinstance(arg, LinkValue) and not is_zero(arg))

    @cached_property
    def is_flag(self) -> bool:
        return writes_predicate(self.op)

    @cached_property
    def is_multiply(self) -> bool:
        return isinstance(self.op, MulOp)

    @cached_property
    def is_store(self) -> bool:
        return self.op in STORES

    @cached_property
    def is_load(self) -> bool:
        return self.op in LOADS

    @cached_property
    def alu(self) -> Op:
        """What an ALU does for it."""
        return Op.ADD if self.op is MirOp.MOV else Op(self.op)

    @cached_property
    def kind(self) -> str:
        """What kind of result it makes, for whom: alu, load, multiply, flag or store."""
        if self.is_flag:
            return "flag"
        if self.is_multiply:
            return "multiply"
        if self.is_store:
            return "store"
        return "load" if self.is_load else "alu"


@dataclass(frozen=True)
class Dag:
    """`outputs` and `predicate_outputs` are what must be in the registers when the block ends."""

    nodes: tuple[Node, ...]
    outputs: dict[Register, int]
    predicate_outputs: dict[Predicate, Arg]
    branch: Arg | None
    through: frozenset[Register]
    """Registers live through the block unchanged."""
    predicates_through: frozenset[Predicate]

    @cached_property
    def output_registers(self) -> dict[int, list[Register]]:
        """By node: the registers that hold its value when the block ends."""
        found: dict[int, list[Register]] = {}
        for register, index in self.outputs.items():
            found.setdefault(index, []).append(register)
        return found

    @cached_property
    def output_flags(self) -> dict[int, list[Predicate]]:
        """The same for predicates."""
        found: dict[int, list[Predicate]] = {}
        for predicate, arg in self.predicate_outputs.items():
            if isinstance(arg, Ref):
                found.setdefault(arg.index, []).append(predicate)
        return found

    @cached_property
    def readers(self) -> dict[Arg, list[int]]:
        """By operand: the nodes that read it."""
        found: dict[Arg, list[int]] = {}
        for index, node in enumerate(self.nodes):
            for arg in node.reads:
                found.setdefault(arg, []).append(index)
        return found

    @cached_property
    def users(self) -> tuple[tuple[int, ...], ...]:
        """By node: the nodes that read it; all come later."""
        return tuple(tuple(self.readers.get(Ref(index), ())) for index in range(len(self.nodes)))

    @cached_property
    def end_reads(self) -> frozenset[Arg]:
        """What is read where the block ends."""
        return frozenset(arg for arg in (self.branch, *self.predicate_outputs.values()) if arg is not None)

    def is_output(self, index: int) -> bool:
        return index in self.output_registers or index in self.output_flags

    def crossing_name(self, index: int) -> Register | Predicate:
        """The register a node's value is in after its machine block: its own, or a new one."""
        if self.nodes[index].is_flag:
            return next(iter(self.output_flags.get(index, ())), Predicate(f".{index}"))
        return next(iter(self.output_registers.get(index, ())), Register(f".{index}"))


def is_zero(value: Arg) -> bool:
    return isinstance(value, LinkValue) and not value.terms and value.resolve({}) == 0


class _Builder:
    """Builds the graph. `loads` since the last store and the last `store` are kept for each space.

    Each spilled word is a space of its own. Its loads are not shared: they stand where they are needed.
    """

    def __init__(self, saved: frozenset[Register], frame: Register | None) -> None:
        self.frame = frame
        self.nodes: list[Node] = []
        self.names: dict[Register | Predicate, Arg] = {}
        self.known: dict[Node, Ref] = {}
        self.loads: dict[object, list[int]] = {}
        self.store: dict[object, int] = {}
        for register in sorted(saved):
            self.names[register] = self.add(Node(MirOp.MOV, (register,)))

    def add(self, node: Node) -> Ref:
        """The node's value; one that was computed before is not computed again."""
        key = replace(node, uniform=False, narrow=False, source=None)
        if not node.is_store and key in self.known and not self.is_reload(node):
            ref = self.known[key]
            self.describe(ref, node.uniform, node.narrow)
            return ref
        self.nodes.append(node)
        ref = Ref(len(self.nodes) - 1)
        if not node.is_store:
            self.known[key] = ref
        return ref

    def is_reload(self, node: Node) -> bool:
        return node.is_load and self.frame is not None and node.args[0] == self.frame

    def space(self, item: Instruction) -> object:
        """What an access can touch."""
        if self.frame is not None and item.operands[0] == self.frame:
            return item.offset
        return item.is_shared

    def describe(self, ref: Ref, uniform: bool, narrow: bool) -> None:
        node = self.nodes[ref.index]
        self.nodes[ref.index] = replace(node, uniform=node.uniform or uniform, narrow=node.narrow or narrow)

    def arg(self, operand: Operand) -> Arg:
        if isinstance(operand, Register | Predicate):
            return self.names.get(operand, operand)
        return operand

    def copy(self, value: Arg, item: Instruction | None) -> Ref:
        """The value as a result of the block, by an operation if it is not one already."""
        if isinstance(value, Ref):
            return value
        uniform = narrow = False
        if isinstance(value, LinkValue):
            uniform, narrow = True, not value.terms and value.resolve({}) <= 0xFFFF
        if isinstance(value, Special):
            uniform, narrow = value.name in UNIFORM_SPECIALS, value.name in NARROW_SPECIALS
        if item is not None:
            uniform, narrow = uniform or item.uniform, narrow or item.narrow
        return self.add(
            Node(MirOp.MOV, (value,), uniform=uniform, narrow=narrow, source=item.source if item else None)
        )

    def instruction(self, item: Instruction) -> None:
        if item.op is MirOp.SYNC:  # memory operations of a space keep their order anyway
            return
        args = tuple(self.arg(operand) for operand in item.operands)
        match item.op:
            case MirOp.MOV:
                value = args[0]
                if isinstance(value, Ref):
                    self.describe(value, item.uniform, item.narrow)
            case MirOp.PLOP if item.table == TABLE_A and args[0] != TRUE:
                value = args[0]
            case MirOp.PLOP if item.table == TABLE_B and args[1] != TRUE:
                value = args[1]
            case _:
                value = self.add(self.operation(item, args))
        if item.is_store:
            self.store[self.space(item)] = len(self.nodes) - 1
            self.loads[self.space(item)] = []
        elif item.is_load and isinstance(value, Ref):
            self.loads.setdefault(self.space(item), []).append(value.index)
        if item.dest is not None:
            self.names[item.dest] = value

    def operation(self, item: Instruction, args: tuple[Arg, ...]) -> Node:
        predicate = self.arg(item.predicate) if item.predicate is not None else None
        offset, strict, loose = item.offset, (), ()
        if item.is_memory:
            total = add_words(args[0], offset) if isinstance(args[0], LinkValue) else None
            if total is not None:
                args, offset = (LinkValue(), *args[1:]), total
            last = self.store.get(self.space(item))
            strict = () if last is None else (last,)
        if item.is_store:
            args = tuple(
                self.copy(arg, item) if isinstance(arg, LinkValue | Special) and not is_zero(arg) else arg
                for arg in args
            )
            loose = tuple(self.loads.get(self.space(item), ()))
        return Node(
            item.op,
            args,
            predicate,
            item.negated,
            item.table,
            offset,
            item.uniform,
            item.narrow,
            item.source,
            strict,
            loose,
        )


def build_dag(
    block: Block,
    live_out: Iterable[Register | Predicate],
    saved: frozenset[Register] = frozenset(),
    frame: Register | None = None,
) -> Dag:
    """The block's graph. `live_out` is live where the block ends; `saved` registers are copied first.

    `frame` is the base of spilled words.
    """
    builder = _Builder(saved, frame)
    written: dict[Register | Predicate, Instruction] = {}
    for item in block.instructions:
        builder.instruction(item)
        if item.dest is not None:
            written[item.dest] = item
    outputs: dict[Register, Ref] = {}
    flags: dict[Predicate, Arg] = {}
    through: set[Register] = set()
    predicates_through: set[Predicate] = set()
    for name in sorted(live_out, key=lambda item: (isinstance(item, Predicate), item.name)):
        value = builder.arg(name)
        if isinstance(name, Register):
            if name not in written or value == name:
                through.add(name)
            else:
                outputs[name] = builder.copy(value, written[name])
        elif value == name:
            predicates_through.add(name)
        else:
            flags[name] = (
                builder.add(Node(MirOp.PLOP, (TRUE, TRUE), table=0b1000)) if value == TRUE else value
            )
    branch = builder.arg(block.terminator.predicate) if isinstance(block.terminator, Branch) else None
    return _pruned(builder.nodes, outputs, flags, branch, frozenset(through), frozenset(predicates_through))


def _pruned(
    nodes: list[Node],
    outputs: dict[Register, Ref],
    flags: dict[Predicate, Arg],
    branch: Arg | None,
    through: frozenset[Register],
    predicates_through: frozenset[Predicate],
) -> Dag:
    """The graph without nodes that nothing needs."""
    needed = {index for index, node in enumerate(nodes) if node.is_store}
    needed |= {ref.index for ref in (*outputs.values(), *flags.values(), branch) if isinstance(ref, Ref)}
    for index in reversed(range(len(nodes))):
        if index in needed:
            needed.update(nodes[index].refs)
    renamed = {old: new for new, old in enumerate(sorted(needed))}

    def rename(arg: Arg) -> Arg:
        return Ref(renamed[arg.index]) if isinstance(arg, Ref) else arg

    kept = [
        replace(
            node,
            args=tuple(map(rename, node.args)),
            predicate=None if node.predicate is None else rename(node.predicate),
            strict=tuple(renamed[index] for index in node.strict if index in renamed),
            loose=tuple(renamed[index] for index in node.loose if index in renamed),
        )
        for index, node in enumerate(nodes)
        if index in needed
    ]
    return Dag(
        tuple(kept),
        {name: renamed[ref.index] for name, ref in outputs.items()},
        {name: rename(arg) for name, arg in flags.items()},
        None if branch is None else rename(branch),
        through,
        predicates_through,
    )
