"""The machine interpreter: the definition of what a ROM image does, token by token.

`run_launch` executes a launch and gives back every token the model has to write, from the first EXEC to the
closing one, with the provenance of each: which lane's register, store or step it is, and which source line.
The circuits and the weights are held against this module.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from runtime.loader import existing_lanes, indices, initial_memory, link_symbols
from runtime.vocabulary import END, Kind, Token, execute, val, word_tokens
from toolchain.errors import CompileError, SourceLocation, VerifyError
from toolchain.launch import NO_END, Launch
from toolchain.machine_spec import PREDICATES, STAGES, MachineSpec
from toolchain.mir.evaluate import COMPARISONS, VALUES, lop, plop
from toolchain.mir.isa import (
    ALU_SLOTS,
    LOADS,
    WARP_OPS,
    Op,
    PredicateSource,
    Source,
    SourceKind,
    multiply_sources,
    operand_sources,
    predicate_sources,
    return_sources,
    store_sources,
)
from toolchain.mir.rom import (
    EXIT,
    AluOp,
    Block,
    LinkValue,
    Multiply,
    PredicateLogic,
    Return,
    RomImage,
    Stage,
    Store,
)

WORD_ADDRESSES = 1 << 30
"""Word addresses of a 32-bit byte address space; a store is out of range modulo this many."""
STEP_LIMIT = 1_000_000


class MachineFault(CompileError):
    """The program did what it must not: a store out of range, a barrier some lanes miss, a launch without end."""


class InternalError(VerifyError):
    """A ROM image promises something of its values that does not hold: a bug of the compiler."""


@dataclass(frozen=True)
class Provenance:
    """Where a launch token comes from. `lane` is -1 for what concerns the whole warp."""

    what: str
    thread_block: int
    block: int = -1
    warp: int = -1
    lane: int = -1
    source: SourceLocation | None = None

    def __str__(self) -> str:
        parts = [self.what]
        if self.lane >= 0:
            parts.append(f"lane {self.lane}")
        if self.warp >= 0:
            parts.append(f"warp {self.warp}")
        if self.block >= 0:
            parts.append(f"block {self.block}")
        parts.append(f"thread block {self.thread_block}")
        return ", ".join(parts) + (f" ({self.source})" if self.source else "")


@dataclass(frozen=True)
class MachineResult:
    """`tokens` from the first EXEC to the closing one; `provenance` says the same of each, in words.

    `memory` is all of global memory after the launch, `steps` the number of blocks that ran.
    """

    tokens: tuple[Token, ...]
    memory: tuple[int, ...]
    provenance: tuple[Provenance, ...]
    steps: int


# --- One lane of one block


@dataclass
class _Lane:
    """What a block's operations of one lane can see. Results are filed under the source that names them.

    `warp` are all lanes of the warp where the block has warp operations; they run in inactive ones too.
    """

    active: bool
    registers: list[int]
    predicates: int
    memory: list[int]
    shared: list[int]
    specials: Mapping[str, int]
    warp: list["_Lane"]
    values: dict[Source, int] = field(default_factory=dict)
    flags: dict[PredicateSource, bool] = field(default_factory=dict)


Read = Callable[[_Lane], int]
Test = Callable[[_Lane], bool]
Action = Callable[[_Lane], None]


def _constant(value: int, _: _Lane) -> int:
    return value


def _register(index: int, lane: _Lane) -> int:
    return lane.registers[index] if index else 0


def _special(name: str, lane: _Lane) -> int:
    return lane.specials[name]


def _result(source: Source, lane: _Lane) -> int:
    return lane.values.get(source, 0)


def _test(source: PredicateSource) -> Test:
    if source.register >= 0:
        return lambda lane: bool(lane.predicates >> source.register & 1)
    if not source.slot:
        return lambda _: True
    return lambda lane: lane.flags.get(source, False)


def _ballot(test: Test, warp: list[_Lane]) -> int:
    return sum(1 << index for index, lane in enumerate(warp) if lane.active and test(lane))


def _result_source(stage: int, slot: str) -> Source:
    return Source(SourceKind.RESULT, stage, slot)


@dataclass(frozen=True)
class _Linker:
    """Turns a block's operations into functions of a lane, once a launch; symbols are resolved here."""

    spec: MachineSpec
    symbols: Mapping[str, int]
    label: str

    def check(
        self, known: tuple[Source, ...] | tuple[PredicateSource, ...], source: object, place: str
    ) -> None:
        if source not in known:
            raise VerifyError(f"block '{self.label}', {place}: cannot read {source} here")

    def read(self, source: Source, registers: tuple[int, ...], immediates: tuple[LinkValue, ...]) -> Read:
        match source.kind:
            case SourceKind.NONE:
                return partial(_constant, 0)
            case SourceKind.PORT:
                return partial(_register, registers[source.index])
            case SourceKind.IMMEDIATE:
                return partial(_constant, immediates[source.index].resolve(self.symbols))
            case SourceKind.SPECIAL:
                return partial(_special, source.name)
        return partial(_result, source)

    def alu(self, index: int, slot: str, stage: Stage, op: AluOp) -> Action:
        place = f"stage {index}, slot {slot}"
        for source in (op.a, op.b):
            self.check(operand_sources(index), source, place)
        self.check(predicate_sources(index), op.predicate, place)
        a = self.read(op.a, stage.ports, stage.immediates)
        b = self.read(op.b, stage.ports, stage.immediates)
        result = _result_source(index, slot)
        if op.op in COMPARISONS:
            compare, flag = COMPARISONS[op.op], PredicateSource(stage=index, slot=slot)
            return lambda lane: lane.flags.__setitem__(flag, compare(a(lane), b(lane)))
        if op.op is Op.SEL:
            test = _test(op.predicate)
            return lambda lane: lane.values.__setitem__(result, a(lane) if test(lane) else b(lane))
        if op.op in LOADS:
            offset, size = op.offset.resolve(self.symbols), 1 << self.spec.address_bits
            loaded, shared = Source(SourceKind.LOADED, index, slot), op.op is Op.LOAD_SHARED

            def load(lane: _Lane) -> None:
                words = lane.shared if shared else lane.memory
                lane.values[result] = lane.values[loaded] = words[(a(lane) + offset) % size]

            return load
        if op.op is Op.SHFL:
            lanes = self.spec.lanes
            return lambda lane: lane.values.__setitem__(result, a(lane.warp[b(lane) % lanes]))
        if op.op is Op.BALLOT:
            test = _test(op.predicate)
            return lambda lane: lane.values.__setitem__(result, _ballot(test, lane.warp))
        if op.op is Op.LOP:
            return lambda lane: lane.values.__setitem__(result, lop(a(lane), b(lane), op.table))
        value = VALUES[op.op]
        return lambda lane: lane.values.__setitem__(result, value(a(lane), b(lane)))

    def multiply(self, index: int, stage: Stage, op: Multiply) -> Action:
        for source in (op.a, op.b):
            self.check(multiply_sources(index), source, f"stage {index}, slot m")
        a = self.read(op.a, (op.register_a,), stage.immediates)
        b = self.read(op.b, (op.register_b,), stage.immediates)
        result, value = Source(SourceKind.PRODUCT, index), VALUES[op.op]
        return lambda lane: lane.values.__setitem__(result, value(a(lane), b(lane)))

    def logic(self, index: int, op: PredicateLogic) -> Action:
        for source in (op.a, op.b):
            self.check(predicate_sources(index), source, f"stage {index}, slot p")
        a, b, flag = _test(op.a), _test(op.b), PredicateSource(stage=index, slot="p")
        return lambda lane: lane.flags.__setitem__(flag, plop(a(lane), b(lane), op.table))

    def actions(self, index: int, stage: Stage) -> Iterator[Action]:
        for slot in ALU_SLOTS:
            op: AluOp | None = getattr(stage, slot)
            if op is not None:
                yield self.alu(index, slot, stage, op)
        if stage.m is not None:
            yield self.multiply(index, stage, stage.m)
        if stage.p is not None:
            yield self.logic(index, stage.p)

    def test(self, source: PredicateSource) -> Test:
        self.check(predicate_sources(STAGES), source, "terminator")
        return _test(source)

    def store(self, store: Store) -> tuple[Test, Read, Read]:
        """Whether, where (a word address that has not wrapped yet), and what."""
        for source in (store.address, store.data):
            self.check(store_sources(), source, "store")
        holds = self.test(store.guard)
        address = self.read(store.address, (store.address_register,), ())
        data = self.read(store.data, (store.data_register,), ())
        offset = store.offset.resolve(self.symbols)
        return lambda lane: holds(lane) != store.negated, lambda lane: address(lane) + offset, data


@dataclass(frozen=True)
class _Code:
    """A linked block. Actions read results of earlier stages only, so their order in a stage is free."""

    block: Block
    actions: tuple[Action, ...]
    warp_wide: bool
    branch: Test
    predicates: tuple[Test | None, ...]
    store: tuple[Test, Read, Read] | None


def _link(block: Block, spec: MachineSpec, symbols: Mapping[str, int]) -> _Code:
    linker = _Linker(spec, symbols, block.label)
    end = block.terminator
    for item in block.returns:
        linker.check(return_sources(), item.value, "returns")
    return _Code(
        block,
        tuple(action for index, stage in enumerate(block.stages) for action in linker.actions(index, stage)),
        any(stage.y is not None and stage.y.op in WARP_OPS for stage in block.stages),
        linker.test(end.branch),
        tuple(None if source is None else linker.test(source) for source in end.predicates),
        None if end.store is None else linker.store(end.store),
    )


# --- The machine


class _Run:
    """One launch in progress."""

    def __init__(self, rom: RomImage, spec: MachineSpec, launch: Launch, strict: bool) -> None:
        symbols = link_symbols(rom, spec, launch)
        self.spec, self.launch, self.strict = spec, launch, strict
        self.code = [_link(block, spec, symbols) for block in rom.blocks]
        self.existing = existing_lanes(spec, launch)
        self.memory = [*initial_memory(rom.variables, launch)]
        self.memory += [0] * ((1 << spec.address_bits) - len(self.memory))
        self.shared: list[int] = []
        self.registers = [[[0] * spec.registers for _ in range(spec.lanes)] for _ in range(spec.warps)]
        self.predicates = [0] * spec.warps
        self.counters = [[EXIT] * spec.lanes for _ in range(spec.warps)]
        self.tokens: list[Token] = []
        self.provenance: list[Provenance] = []
        self.thread_block = 0
        self.steps = 0

    def run(self, step_limit: int) -> None:
        for thread_block in range(self.launch.thread_blocks):
            self.thread_block = thread_block
            self.shared = [0] * (1 << self.spec.address_bits)
            if thread_block:
                self.emit(Token(Kind.CTA, thread_block), Provenance("thread block begins", thread_block))
            self.counters = [
                [0 if mask >> lane & 1 else EXIT for lane in range(self.spec.lanes)] for mask in self.existing
            ]
            warp = 0
            while warp >= 0:
                waits = False
                while not waits and any(counter != EXIT for counter in self.counters[warp]):
                    waits = self.step(warp, step_limit)
                warp = self.next_warp(warp)
        self.emit(END, Provenance("the launch is over", self.thread_block))

    def next_warp(self, warp: int) -> int:
        """The next warp with live lanes in cyclic order, this one last; -1 if there is none."""
        for distance in range(1, self.spec.warps + 1):
            candidate = (warp + distance) % self.spec.warps
            if any(counter != EXIT for counter in self.counters[candidate]):
                return candidate
        return -1

    def emit(self, token: Token, provenance: Provenance) -> None:
        self.tokens.append(token)
        self.provenance.append(provenance)

    def emit_word(self, tokens: tuple[Token, ...], what: str, here: Callable[[str], Provenance]) -> None:
        """A value's one token, or its two halves."""
        parts = ("",) if len(tokens) == 1 else ("low half of ", "high half of ")
        for token, part in zip(tokens, parts, strict=True):
            self.emit(token, here(part + what))

    def step(self, warp: int, step_limit: int) -> bool:
        """Runs the block at the warp's smallest program counter on the lanes that are there (serial: the lowest).

        Returns whether it ends in a barrier.
        """
        index = min(counter for counter in self.counters[warp] if counter != EXIT)
        active = [lane for lane, counter in enumerate(self.counters[warp]) if counter == index]
        code = self.code[index]
        if code.block.serial:
            active = active[:1]
        self.steps += 1
        if self.steps > step_limit:
            raise MachineFault(
                f"the launch did not end within {step_limit} blocks: {NO_END}",
                code.block.terminator.source or code.block.source,
            )
        place = partial(Provenance, thread_block=self.thread_block, block=index, warp=warp)
        mask = sum(1 << lane for lane in active)
        self.emit(
            execute(index, warp, mask), place(f"run block '{code.block.label}'", source=code.block.source)
        )
        lanes = self.compute(code, warp, active)
        if code.block.returns_predicates:
            self.return_predicates(code, warp, lanes, place)
        for item in code.block.returns:
            self.return_value(code, item, warp, lanes, place)
        if code.store is not None and code.block.terminator.store is not None:
            self.store(code.store, code.block.terminator.store, lanes, place)
        for lane, state in lanes.items():
            end = code.block.terminator
            self.counters[warp][lane] = end.target1 if code.branch(state) else end.target0
        if code.block.terminator.barrier:
            self.check_barrier(code.block, warp, active)
        return code.block.terminator.barrier

    def check_barrier(self, block: Block, warp: int, arrived: list[int]) -> None:
        missing = [
            lane
            for lane, counter in enumerate(self.counters[warp])
            if counter != EXIT and lane not in arrived
        ]
        if missing and self.strict:
            raise MachineFault(
                f"lanes {arrived} of warp {warp} wait at a barrier that its lanes {missing} have not reached",
                block.terminator.source or block.source,
                hint="__syncthreads() must be reached by all threads of the block that have not exited",
            )

    def compute(self, code: _Code, warp: int, active: list[int]) -> dict[int, _Lane]:
        """The active lanes after the block; in a block with warp operations the others run as well."""
        everyone: list[_Lane] = []
        runs = range(self.spec.lanes) if code.warp_wide else active
        for lane in runs:
            everyone.append(
                _Lane(
                    lane in active,
                    list(self.registers[warp][lane]),
                    self.predicates[warp] >> (PREDICATES * lane),
                    self.memory,
                    self.shared,
                    self.specials(warp, lane),
                    everyone,
                )
            )
        for action in code.actions:
            for state in everyone:
                action(state)
        return {lane: state for lane, state in zip(runs, everyone, strict=True) if state.active}

    def specials(self, warp: int, lane: int) -> dict[str, int]:
        """Special registers; a lane without a thread has thread index 0."""
        exists = self.existing[warp] >> lane & 1
        thread = indices(self.spec.lanes * warp + lane, self.launch.block) if exists else (0, 0, 0)
        block = indices(self.thread_block, self.launch.grid)
        values = {f"tid.{axis}": index for axis, index in zip("xyz", thread, strict=True)}
        values |= {f"ctaid.{axis}": index for axis, index in zip("xyz", block, strict=True)}
        return values | {"laneid": lane, "warpid": warp}

    def return_predicates(
        self, code: _Code, warp: int, lanes: dict[int, _Lane], place: Callable[..., Provenance]
    ) -> None:
        word = self.predicates[warp]
        for lane, state in lanes.items():
            for index, test in enumerate(code.predicates):
                if test is not None:
                    bit = 1 << (PREDICATES * lane + index)
                    word = word | bit if test(state) else word & ~bit
        self.predicates[warp] = word
        self.emit(val(word), place("predicates", source=code.block.terminator.source or code.block.source))

    def return_value(
        self, code: _Code, item: Return, warp: int, lanes: dict[int, _Lane], place: Callable[..., Provenance]
    ) -> None:
        source = _source_of(code.block, item.value)
        values = {lane: state.values.get(item.value, 0) for lane, state in lanes.items()}
        where = f"block '{code.block.label}' returns {item.value} to r{item.register}"
        if item.uniform and len(set(values.values())) > 1:
            raise InternalError(f"{where} as uniform, but its lanes hold {values}", source)
        if item.narrow and max(values.values()) > 0xFFFF:
            raise InternalError(f"{where} as narrow, but its lanes hold {values}", source)
        for lane, value in values.items():
            if item.register:
                self.registers[warp][lane][item.register] = value
        for lane, value in [(-1, next(iter(values.values())))] if item.uniform else values.items():
            name = f"r{item.register} (all lanes)" if item.uniform else f"r{item.register}"
            tokens = (val(value),) if item.narrow else word_tokens(self.spec, value)
            self.emit_word(tokens, f"register {name}", partial(place, lane=lane, source=source))

    def store(
        self,
        linked: tuple[Test, Read, Read],
        store: Store,
        lanes: dict[int, _Lane],
        place: Callable[..., Provenance],
    ) -> None:
        """Lanes write in order, so the last one wins."""
        holds, where, what = linked
        kind, memory, size, limit = Kind.MEM, self.memory, self.spec.memory_words, "memory_words"
        if store.shared:
            kind, memory, size, limit = Kind.SMEM, self.shared, self.spec.shared_words, "shared_words"
        space = "shared " if store.shared else ""
        for lane, state in lanes.items():
            if not holds(state):
                continue
            address = where(state) % WORD_ADDRESSES
            if address >= size:
                raise MachineFault(
                    f"lane {lane} stores to {space}word {address} (byte address {4 * address:#x}); "
                    f"machine '{self.spec.name}' has {size} words",
                    store.source,
                    limit=limit,
                )
            value = what(state)
            here = partial(place, lane=lane, source=store.source)
            self.emit(Token(kind, address), here(f"store to {space}word {address}"))
            self.emit_word(word_tokens(self.spec, value), f"{space}word {address}", here)
            memory[address] = value


def _source_of(block: Block, value: Source) -> SourceLocation | None:
    """The source line of the operation whose result `value` is."""
    stage = block.stages[value.stage]
    op = stage.m if value.kind is SourceKind.PRODUCT else getattr(stage, value.name)
    return op.source if op is not None and op.source else block.source


def run_launch(
    rom: RomImage, spec: MachineSpec, launch: Launch, *, step_limit: int = STEP_LIMIT, strict: bool = True
) -> MachineResult:
    """Executes a launch. Raises CompileError where it does not fit, MachineFault where it goes wrong.

    Not `strict`: at a barrier that some live lanes of a warp miss, the warp gives way all the same.
    """
    run = _Run(rom, spec, launch, strict)
    run.run(step_limit)
    return MachineResult(
        tuple(run.tokens), tuple(run.memory[: spec.memory_words]), tuple(run.provenance), run.steps
    )
