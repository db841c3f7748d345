"""Bundle scheduling: MIR blocks to machine blocks over virtual registers.

    Scheduled      = (blocks: ScheduledBlock*, registers: name*, predicates: name*)
    ScheduledBlock = (label, stages[4], returns*, (predicate, source)*, branch, target0, target1, store?)

A ScheduledBlock is a `rom.Block` whose registers are numbers of virtual registers (from 1; predicates from 0)
and whose targets are labels. Block `L` of the MIR becomes the chain `L`, `L+1`, `L+2`, ..., to be laid out
without gaps.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from toolchain.errors import CompileError, SourceLocation
from toolchain.machine_spec import STAGES, MachineSpec
from toolchain.mir import liveness
from toolchain.mir.ir import TRUE as MIR_TRUE
from toolchain.mir.ir import Barrier, Block, Function, MirOp, Predicate, Register, Special
from toolchain.mir.isa import NOTHING, TRUE, MulOp, Op, PredicateSource, Source, SourceKind, multiply_sources
from toolchain.mir.rom import AluOp, LinkValue, Multiply, PredicateLogic, Return, Stage, Store
from toolchain.mir.schedule_cut import Cut, CutSearch, Packer, Segment
from toolchain.mir.schedule_dag import Arg, Dag, Node, Ref, build_dag, is_zero
from toolchain.mir.schedule_pack import Placement
from toolchain.mir.schedule_policy import EVERYTHING, SchedulePolicy

FindCut = Callable[[Block, Dag, Cut], Cut]
"""From a block, its graph and the cut that was found: the cut to use."""


@dataclass(frozen=True)
class ScheduledBlock:
    """A machine block over virtual registers. `predicates` are those it sets, and from what."""

    label: str
    stages: tuple[Stage, ...]
    returns: tuple[Return, ...]
    predicates: tuple[tuple[int, PredicateSource], ...]
    branch: PredicateSource
    target0: str
    target1: str
    store: Store | None = None
    barrier: bool = False
    serial: bool = False
    source: SourceLocation | None = None


@dataclass(frozen=True)
class Scheduled:
    """All machine blocks, chains together; names of virtual registers 1, 2, ... and predicates 0, 1, ..."""

    blocks: tuple[ScheduledBlock, ...]
    registers: tuple[str, ...]
    predicates: tuple[str, ...]


@dataclass
class _Numbers:
    """Virtual register numbers, in order of appearance."""

    registers: dict[str, int] = field(default_factory=dict)
    predicates: dict[str, int] = field(default_factory=dict)

    def of(self, name: Register | Predicate, label: str) -> int:
        text = label + name.name if name.name.startswith(".") else name.name
        if isinstance(name, Register):
            return self.registers.setdefault(text, len(self.registers) + 1)
        return self.predicates.setdefault(text, len(self.predicates))


def schedule(
    function: Function,
    spec: MachineSpec,
    *,
    blocks_first: bool = False,
    frame: Register | None = None,
    policy: SchedulePolicy = EVERYTHING,
    find_cut: FindCut | None = None,
) -> Scheduled:
    """Machine blocks for every block of the function, in its block order; few tokens, or few blocks.

    `frame` is the base of spilled words, which no other access touches. `find_cut` may find a better cut than the
    one it is given.
    """
    live = liveness.analyse(function)
    numbers = _Numbers()
    blocks: list[ScheduledBlock] = []
    for block in function.blocks:
        after = live.after[block.label] | (frozenset() if policy.live_only else _written(block))
        dag, cut = _cut(block, after, spec, blocks_first, frame, policy)
        if find_cut is not None:
            cut = find_cut(block, dag, cut)
        blocks += _Chain(block, dag, cut, numbers).blocks()
    return Scheduled(tuple(blocks), tuple(numbers.registers), tuple(numbers.predicates))


def _written(block: Block) -> liveness.Names:
    return frozenset(item.dest for item in block.instructions if isinstance(item.dest, Register))


def _cut(
    block: Block,
    live_out: liveness.Names,
    spec: MachineSpec,
    blocks_first: bool,
    frame: Register | None,
    policy: SchedulePolicy,
) -> tuple[Dag, Cut]:
    """The block's cut. Where no cut respects the old values of its registers, these are copied first."""
    plain = build_dag(block, live_out, frame=frame)
    rewritten = frozenset(register for register in plain.outputs if register in plain.readers)
    dags = [plain, build_dag(block, live_out, rewritten, frame)] if rewritten else [plain]
    packers = [Packer(dag) for dag in dags]
    for limit in (True, False):
        for packer in packers:
            search = CutSearch(
                packer,
                spec,
                limit_pressure=limit,
                blocks_first=blocks_first,
                serial=block.serial,
                policy=policy,
            )
            cut = search.search()
            if cut is not None:
                return packer.dag, cut
    if block.serial:
        raise CompileError(
            f"the atomic operation in block '{block.label}' does not fit one machine block",
            next((item.source for item in block.instructions if item.source), block.terminator.source),
            hint="an atomic operation has four steps in a row; compute its operands beforehand",
            limit="stages",
        )
    raise CompileError(
        f"no schedule for block '{block.label}' within {spec.max_returns} returned tokens a machine block",
        next((item.source for item in block.instructions if item.source), None),
        limit="max_returns",
    )


class _Chain:
    """The machine blocks of one MIR block."""

    def __init__(self, block: Block, dag: Dag, cut: Cut, numbers: _Numbers) -> None:
        self.block, self.dag, self.cut, self.numbers = block, dag, cut, numbers
        self.fallback = next(
            (item.source for item in block.instructions if item.source), block.terminator.source
        )

    def blocks(self) -> list[ScheduledBlock]:
        segments = self.cut.segments or (Segment(Placement({}, {}, {}), ()),)
        labels = [self.block.label, *(f"{self.block.label}+{i}" for i in range(1, len(segments)))]
        chain = []
        for position, segment in enumerate(segments):
            writer = _Writer(self, segment)
            last = position == len(segments) - 1
            target0, target1 = self.targets() if last else (labels[position + 1],) * 2
            chain.append(
                ScheduledBlock(
                    labels[position],
                    tuple(writer.stage(index) for index in range(STAGES)),
                    writer.returns(),
                    writer.predicates(last),
                    writer.flag(writer.outer(self.dag.branch))
                    if last and self.dag.branch is not None
                    else TRUE,
                    target0,
                    target1,
                    writer.store(),
                    last and isinstance(self.block.terminator, Barrier),
                    self.block.serial,
                    source=writer.source() or self.fallback,
                )
            )
        return chain

    def targets(self) -> tuple[str, str]:
        """Where lanes go whose branch predicate does not hold, and those where it does."""
        targets = self.block.terminator.targets
        return targets[-1], targets[0]

    def number(self, name: Register | Predicate) -> int:
        return self.numbers.of(name, self.block.label)


class _Writer:
    """Operations of one segment in terms of sources."""

    def __init__(self, chain: _Chain, segment: Segment) -> None:
        self.chain, self.segment, self.placement = chain, segment, segment.placement
        self.items = segment.placement.items

    def at(self, stage: int) -> list[tuple[str, Node]]:
        stages, slots = self.placement.stages, self.placement.slots
        return [(slots[index], node) for index, node in self.items.items() if stages[index] == stage]

    def stage(self, index: int) -> Stage:
        """The bundle of one stage, with its ports and immediates."""
        here = self.at(index)
        ports = _distinct(
            arg for slot, node in here if slot in "xyz" for arg in node.args if isinstance(arg, Register)
        )
        immediates = _distinct(
            arg for _, node in here for arg in node.args if isinstance(arg, LinkValue) and not is_zero(arg)
        )
        ops: dict[str, AluOp] = {}
        multiply: Multiply | None = None
        logic: PredicateLogic | None = None
        for slot, node in here:
            if slot == "m":
                multiply = self.multiply(index, node, immediates)
            elif slot == "p":
                logic = PredicateLogic(
                    self.flag(node.args[0]), self.flag(node.args[1]), node.table, node.source
                )
            else:
                ops[slot] = self.alu(node, ports, immediates)
        numbers = [self.chain.number(port) for port in ports] + [0] * (4 - len(ports))
        constants = [*immediates, LinkValue(), LinkValue()]
        return Stage(
            (numbers[0], numbers[1], numbers[2], numbers[3]),
            (constants[0], constants[1]),
            ops.get("x"),
            ops.get("y"),
            ops.get("z"),
            multiply,
            logic,
        )

    def alu(self, node: Node, ports: list[Register], immediates: list[LinkValue]) -> AluOp:
        sources = [*(self.operand(arg, ports, immediates) for arg in node.args), NOTHING, NOTHING]
        return AluOp(
            Op.ADD if node.op is MirOp.MOV else Op(node.op),
            sources[0],
            sources[1],
            TRUE if node.predicate is None else self.flag(node.predicate),
            node.table,
            node.offset,
            node.source,
        )

    def multiply(self, stage: int, node: Node, immediates: list[LinkValue]) -> Multiply:
        sources = []
        for arg in node.args:
            source = self.operand(arg, None, immediates)
            loaded = Source(SourceKind.LOADED, source.stage, source.name)
            sources.append(source if source in multiply_sources(stage) else loaded)
        registers = [self.chain.number(arg) if isinstance(arg, Register) else 0 for arg in node.args]
        return Multiply(MulOp(node.op), sources[0], sources[1], registers[0], registers[1], node.source)

    def operand(self, arg: Arg, ports: list[Register] | None, immediates: list[LinkValue]) -> Source:
        """The operand's source. Without `ports`, a register is read through the reader's own port."""
        match arg:
            case Ref(index):
                return self.result(index)
            case Register():
                return Source(SourceKind.PORT, index=ports.index(arg) if ports is not None else 0)
            case LinkValue():
                return NOTHING if is_zero(arg) else Source(SourceKind.IMMEDIATE, index=immediates.index(arg))
            case Special(name):
                return Source(SourceKind.SPECIAL, name=name)
        raise AssertionError(arg)

    def result(self, item: int) -> Source:
        stage, slot = self.placement.stages[item], self.placement.slots[item]
        if slot == "m":
            return Source(SourceKind.PRODUCT, stage)
        return Source(SourceKind.RESULT, stage, slot)

    def flag(self, arg: Arg) -> PredicateSource:
        """A predicate: an item's, a value of the dag from an earlier segment, or the file's."""
        if isinstance(arg, Ref):
            return PredicateSource(
                stage=self.placement.stages[arg.index], slot=self.placement.slots[arg.index]
            )
        assert isinstance(arg, Predicate)
        return TRUE if arg == MIR_TRUE else PredicateSource(register=self.chain.number(arg))

    def outer(self, arg: Arg) -> Arg:
        """An operand of the whole block's graph as this segment sees it."""
        if isinstance(arg, Ref) and arg.index not in self.items:
            return self.chain.dag.crossing_name(arg.index)
        return arg

    def returns(self) -> tuple[Return, ...]:
        found = []
        for index in self.segment.returns:
            node = self.chain.dag.nodes[index]
            if node.is_flag:
                continue
            names = self.chain.dag.output_registers.get(index) or [self.chain.dag.crossing_name(index)]
            for name in names:
                value = self.result(index)
                found.append(Return(value, self.chain.number(name), node.uniform, node.narrow))
        return tuple(found)

    def predicates(self, last: bool) -> tuple[tuple[int, PredicateSource], ...]:
        found = []
        for index in self.segment.returns:
            if self.chain.dag.nodes[index].is_flag:
                names = self.chain.dag.output_flags.get(index) or [self.chain.dag.crossing_name(index)]
                source = self.flag(Ref(index))
                found += [(self.chain.number(name), source) for name in names]
        if last:
            for name, arg in self.chain.dag.predicate_outputs.items():
                if isinstance(arg, Predicate):
                    found.append((self.chain.number(name), self.flag(arg)))
        return tuple(found)

    def store(self) -> Store | None:
        node = next((item for item in self.items.values() if item.is_store), None)
        if node is None:
            return None
        address, data = (self.operand(arg, None, []) for arg in node.args)
        registers = [self.chain.number(arg) if isinstance(arg, Register) else 0 for arg in node.args]
        guard = TRUE if node.predicate is None else self.flag(node.predicate)
        return Store(
            address, data, registers[0], registers[1], node.offset, guard, node.negated,
            node.op is MirOp.STORE_SHARED, node.source,
        )  # fmt: skip

    def source(self) -> SourceLocation | None:
        return min((item.source for item in self.items.values() if item.source), default=None)


T = TypeVar("T")


def _distinct(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))
