"""The back half of the compiler: a MIR function to a ROM image of one machine."""

from collections.abc import Mapping
from dataclasses import replace

from toolchain.errors import CompileError
from toolchain.machine_spec import MachineSpec
from toolchain.mir.ir import EXIT, Function, Predicate, Register
from toolchain.mir.isa import ALU_SLOTS, PredicateSource
from toolchain.mir.layout import layout, unordered
from toolchain.mir.regalloc import Allocation, Pressure, allocate, coalesce
from toolchain.mir.rom import EXIT as EXIT_TARGET
from toolchain.mir.rom import AluOp, Block, PredicateLogic, Return, RomImage, Stage, Store, Terminator
from toolchain.mir.rom_verifier import verify_rom
from toolchain.mir.schedule import FindCut, Scheduled, ScheduledBlock, schedule
from toolchain.mir.schedule_policy import EVERYTHING, SchedulePolicy
from toolchain.mir.spill import Spilled, candidates, hold_predicates, spill


def compile_mir(
    function: Function,
    spec: MachineSpec,
    *,
    policy: SchedulePolicy = EVERYTHING,
    find_cut: FindCut | None = None,
) -> RomImage:
    """Layout, schedule, registers, image; spills what finds no register.

    Raises CompileError, naming the limit, where it does not fit.
    """
    prepared = prepare(function, policy)
    registers: tuple[Register, ...] = ()
    predicates: tuple[Predicate, ...] = ()
    shortage: CompileError | None = None
    while True:
        held = hold_predicates(prepared, predicates)
        spilled = spill(held, registers, spec)
        try:
            scheduled = _schedule(spilled, spec, policy, find_cut)
        except CompileError as error:
            raise shortage or error from error
        allocation = allocate(scheduled, spec)
        if isinstance(allocation, Allocation):
            break
        shortage = shortage or allocation.error
        for victim in _victims(held, registers, allocation, spec):
            if isinstance(victim, Register):
                registers += (victim,)
            else:
                predicates += (victim,)
    rom = emit_rom(spilled.function, scheduled, allocation, spec)
    verify_rom(rom, spec)
    return rom


def prepare(function: Function, policy: SchedulePolicy = EVERYTHING) -> Function:
    """The function in layout order, its copies gone where one register serves both names."""
    arrange = layout if policy.ordered else unordered
    return arrange(coalesce(arrange(function)))


def _schedule(
    spilled: Spilled, spec: MachineSpec, policy: SchedulePolicy, find_cut: FindCut | None
) -> Scheduled:
    scheduled = schedule(spilled.function, spec, frame=spilled.frame, policy=policy, find_cut=find_cut)
    if len(scheduled.blocks) > spec.blocks:
        scheduled = schedule(
            spilled.function, spec, frame=spilled.frame, policy=policy, find_cut=find_cut, blocks_first=True
        )
    check_block_count(scheduled, spec)
    return scheduled


def _victims(
    function: Function, spilled: tuple[Register, ...], pressure: Pressure, spec: MachineSpec
) -> list[Register | Predicate]:
    """What to spill next; raises the pressure's error if there is nothing."""
    kind = Register if pressure.what == "registers" else Predicate
    names = [name for name in candidates(function, pressure.crowded, spec) if isinstance(name, kind)]
    victims = [name for name in names if name not in spilled][: pressure.excess]
    if not victims:
        raise pressure.error
    return victims


def check_block_count(scheduled: Scheduled, spec: MachineSpec) -> None:
    """Refuses a program of more blocks than the ROM has, naming the source lines that take the most."""
    count = len(scheduled.blocks)
    if count <= spec.blocks:
        return
    sizes: dict[str, list[ScheduledBlock]] = {}
    for block in scheduled.blocks:
        sizes.setdefault(block.label.split("+")[0], []).append(block)
    largest = max(sizes.values(), key=len)
    raise CompileError(
        f"the kernel needs {count} program blocks, machine '{spec.name}' has {spec.blocks} "
        f"({count - spec.blocks} too many)",
        largest[0].source,
        hint=f"the longest straight line of code, {len(largest)} blocks, begins here; shorten it",
        limit="blocks",
    )


def emit_rom(function: Function, scheduled: Scheduled, allocation: Allocation, spec: MachineSpec) -> RomImage:
    """The scheduled blocks with machine registers and block numbers."""
    numbers = {block.label: index for index, block in enumerate(scheduled.blocks)} | {EXIT: EXIT_TARGET}
    blocks = tuple(_Emitter(allocation, numbers).block(block) for block in scheduled.blocks)
    return RomImage(
        function.name, spec.name, function.parameters, blocks, function.source_file,
        function.variables, function.shared_words, function.local_words,
    )  # fmt: skip


class _Emitter:
    def __init__(self, allocation: Allocation, targets: Mapping[str, int]) -> None:
        self.allocation, self.targets = allocation, targets

    def block(self, block: ScheduledBlock) -> Block:
        predicates: list[PredicateSource | None] = [None] * 4
        for number, source in block.predicates:
            predicates[self.allocation.predicates[number]] = self.flag(source)
        stages = [self.stage(stage) for stage in block.stages]
        terminator = Terminator(
            self.targets[block.target0],
            self.targets[block.target1],
            self.flag(block.branch),
            (predicates[0], predicates[1], predicates[2], predicates[3]),
            None if block.store is None else self.store(block.store),
            block.barrier,
            block.source,
        )
        returns = tuple(self.returned(item) for item in block.returns)
        return Block(
            (stages[0], stages[1], stages[2], stages[3]), terminator, returns, block.label, block.serial,
            block.source,
        )  # fmt: skip

    def register(self, number: int) -> int:
        return self.allocation.registers[number] if number else 0

    def flag(self, source: PredicateSource) -> PredicateSource:
        if source.register < 0:
            return source
        return PredicateSource(register=self.allocation.predicates[source.register])

    def returned(self, item: Return) -> Return:
        return replace(item, register=self.register(item.register))

    def stage(self, stage: Stage) -> Stage:
        ports = [self.register(port) for port in stage.ports]
        changes: dict[str, AluOp] = {}
        for slot in ALU_SLOTS:
            op: AluOp | None = getattr(stage, slot)
            if op is not None:
                changes[slot] = replace(op, predicate=self.flag(op.predicate))
        multiply = stage.m and replace(
            stage.m,
            register_a=self.register(stage.m.register_a),
            register_b=self.register(stage.m.register_b),
        )
        logic: PredicateLogic | None = stage.p and replace(
            stage.p, a=self.flag(stage.p.a), b=self.flag(stage.p.b)
        )
        return replace(stage, ports=(ports[0], ports[1], ports[2], ports[3]), m=multiply, p=logic, **changes)

    def store(self, store: Store) -> Store:
        return replace(
            store,
            address_register=self.register(store.address_register),
            data_register=self.register(store.data_register),
            guard=self.flag(store.guard),
        )
