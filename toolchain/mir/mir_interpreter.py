"""Runs MIR over a launch, in the machine's execution order: the IR's meaning, and a level to check against.

A block's position in the function stands for its address: of a warp's lanes, those in the first block run
next (of a serial block's, the lowest one). Where lanes would not meet again, the blocks are laid out first
(layout.py). Thread blocks run in order, a warp until all its lanes have exited
or it is at a barrier, then the next one (docs/MACHINE.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.loader import existing_lanes, indices, initial_memory, link_symbols
from toolchain.errors import CompileError, VerifyError
from toolchain.launch import Launch
from toolchain.machine_spec import MachineSpec
from toolchain.mir import evaluate
from toolchain.mir.ir import (
    EXIT,
    STORES,
    TRUE,
    Barrier,
    Block,
    Branch,
    Function,
    Instruction,
    MirOp,
    Operand,
    Predicate,
    Register,
    Special,
)
from toolchain.mir.isa import LOADS, Op
from toolchain.mir.layout import layout, split_joins
from toolchain.mir.rom import LinkValue, RomImage
from toolchain.mir.text import print_instruction

STEP_LIMIT = 1_000_000
WORD_ADDRESSES = 1 << 30
"""Addresses a store is checked against; a load wraps at the machine's own address width."""


@dataclass
class _Lane:
    """One thread: its registers and predicates, and where it goes next (None: it has exited, or never was)."""

    specials: Mapping[str, int]
    values: dict[str, int] = field(default_factory=dict)
    flags: dict[str, bool] = field(default_factory=dict)
    block: int | None = 0


@dataclass(frozen=True)
class MirResult:
    """Global memory after the launch, and how many blocks were run (one for each group of lanes)."""

    memory: tuple[int, ...]
    steps: int


def run_mir(
    function: Function, spec: MachineSpec, launch: Launch, *, step_limit: int = STEP_LIMIT
) -> MirResult:
    """Executes a launch. Raises CompileError where it does not fit, stores out of range, or never ends."""
    image = RomImage(
        function.name, spec.name, function.parameters, (), function.source_file,
        function.variables, function.shared_words, function.local_words,
    )  # fmt: skip
    symbols = link_symbols(image, spec, launch)
    words = initial_memory(function.variables, launch)
    memory = [*words, *([0] * ((1 << spec.address_bits) - len(words)))]
    placed = layout(function) if any(split_joins(function)) else function
    return _Run(placed, spec, symbols, memory, step_limit).run(launch)


@dataclass
class _Run:
    """One launch in progress."""

    function: Function
    spec: MachineSpec
    symbols: Mapping[str, int]
    memory: list[int]
    steps_left: int
    steps: int = 0
    shared: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.places = {block.label: index for index, block in enumerate(self.function.blocks)}

    def run(self, launch: Launch) -> MirResult:
        for thread_block in range(launch.thread_blocks):
            self.shared = [0] * (1 << self.spec.address_bits)
            warps = [
                [
                    self.lane(launch, thread_block, warp, i, bool(mask >> i & 1))
                    for i in range(self.spec.lanes)
                ]
                for warp, mask in enumerate(existing_lanes(self.spec, launch))
            ]
            while any(_live(lanes) for lanes in warps):
                for lanes in warps:
                    self.run_warp(lanes)
        return MirResult(tuple(self.memory[: self.spec.memory_words]), self.steps)

    def lane(self, launch: Launch, thread_block: int, warp: int, lane: int, exists: bool) -> _Lane:
        thread = indices(self.spec.lanes * warp + lane, launch.block) if exists else (0, 0, 0)
        ctaid = indices(thread_block, launch.grid)
        specials = {f"tid.{axis}": value for axis, value in zip("xyz", thread, strict=True)}
        specials |= {f"ctaid.{axis}": value for axis, value in zip("xyz", ctaid, strict=True)}
        return _Lane({**specials, "laneid": lane, "warpid": warp}, block=0 if exists else None)

    def run_warp(self, warp: list[_Lane]) -> None:
        """Until all lanes have exited or the warp is at a barrier."""
        while live := _live(warp):
            if self.steps == self.steps_left:
                raise CompileError(f"kernel '{self.function.name}' did not end within {self.steps} blocks")
            self.steps += 1
            current = min(live)
            block = self.function.blocks[current]
            active = [lane for lane in warp if lane.block == current]
            if block.serial:
                active = active[:1]
            for instruction in block.instructions:
                self.execute(block, instruction, active, warp)
            if isinstance(block.terminator, Barrier) and len(active) < len(live):
                raise CompileError(
                    f"{len(live) - len(active)} threads of a warp miss the barrier its others wait at",
                    block.terminator.source,
                    hint="__syncthreads() must be reached by all threads of the block that have not exited",
                )
            for lane in active:
                target = _next(block, lane)
                lane.block = None if target == EXIT else self.places[target]
            if isinstance(block.terminator, Barrier):
                return

    def execute(self, block: Block, item: Instruction, lanes: list[_Lane], warp: list[_Lane]) -> None:
        """One instruction in all active lanes: every lane reads before any writes."""
        if item.op in STORES:
            for lane in lanes:
                self.store(item, lane)
        elif isinstance(item.dest, Predicate):
            for lane, flag in zip(lanes, [self.flag(item, lane) for lane in lanes], strict=True):
                lane.flags[item.dest.name] = flag
        elif item.dest is not None:
            results = self.results(item, lanes, warp)
            _check_claims(block, item, results)
            for lane, result in zip(lanes, results, strict=True):
                lane.values[item.dest.name] = result

    def results(self, item: Instruction, lanes: list[_Lane], warp: list[_Lane]) -> list[int]:
        """The instruction's value in each active lane."""
        match item.op:
            case Op.BALLOT:
                votes = sum(_holds(item.predicate, lane) << lane.specials["laneid"] for lane in lanes)
                return [votes] * len(lanes)
            case Op.SHFL:
                value, place = item.operands
                return [self.read(value, warp[self.read(place, lane) % len(warp)]) for lane in lanes]
        return [self.value(item, lane) for lane in lanes]

    def read(self, operand: Operand, lane: _Lane) -> int:
        match operand:
            case Register(name):
                return lane.values.get(name, 0)  # only a shuffle can read what its lane has not written
            case Special(name):
                return lane.specials[name]
            case LinkValue():
                return operand.resolve(self.symbols)
        raise TypeError(operand)

    def flag(self, item: Instruction, lane: _Lane) -> bool:
        if item.op is MirOp.PLOP:
            a, b = (_holds(operand, lane) for operand in item.operands)
            return evaluate.plop(a, b, item.table)
        assert isinstance(item.op, Op)
        a, b = (self.read(operand, lane) for operand in item.operands)
        return evaluate.COMPARISONS[item.op](a, b)

    def value(self, item: Instruction, lane: _Lane) -> int:
        a = self.read(item.operands[0], lane)
        b = self.read(item.operands[1], lane) if len(item.operands) > 1 else 0
        if item.op in LOADS:
            memory = self.shared if item.is_shared else self.memory
            return memory[(a + item.offset.resolve(self.symbols)) % (1 << self.spec.address_bits)]
        match item.op:
            case MirOp.MOV:
                return a
            case Op.SEL:
                return a if _holds(item.predicate, lane) else b
            case Op.LOP:
                return evaluate.lop(a, b, item.table)
        assert not isinstance(item.op, MirOp)
        return evaluate.VALUES[item.op](a, b)

    def store(self, item: Instruction, lane: _Lane) -> None:
        if item.predicate is not None and _holds(item.predicate, lane) == item.negated:
            return
        base, data = (self.read(operand, lane) for operand in item.operands)
        address = (base + item.offset.resolve(self.symbols)) % WORD_ADDRESSES
        memory, words, limit = self.memory, self.spec.memory_words, "memory_words"
        if item.is_shared:
            memory, words, limit = self.shared, self.spec.shared_words, "shared_words"
        if address >= words:
            space = "shared " if item.is_shared else ""
            raise CompileError(
                f"a store to {space}word {address}; machine '{self.spec.name}' has {words} words",
                item.source,
                limit=limit,
            )
        memory[address] = data


def _holds(predicate: Operand | None, lane: _Lane) -> bool:
    assert isinstance(predicate, Predicate)
    return predicate == TRUE or lane.flags[predicate.name]


def _next(block: Block, lane: _Lane) -> str:
    terminator = block.terminator
    if isinstance(terminator, Branch):
        return terminator.taken if _holds(terminator.predicate, lane) else terminator.otherwise
    return terminator.target


def _check_claims(block: Block, item: Instruction, results: list[int]) -> None:
    if item.uniform and len(set(results)) > 1:
        raise VerifyError(f"{block.label} `{print_instruction(item)}` is not uniform: {results}", item.source)
    if item.narrow and max(results) > 0xFFFF:
        raise VerifyError(f"{block.label} `{print_instruction(item)}` is not narrow: {results}", item.source)


def _live(warp: list[_Lane]) -> list[int]:
    """Where the lanes are that have not exited."""
    return [lane.block for lane in warp if lane.block is not None]
