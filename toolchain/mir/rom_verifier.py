"""The rules of a ROM image, each problem with its place.

- The image is for this machine; it has at least one block and at most `spec.blocks`.
- A target is a block of the image or EXIT, never block 0. An unconditional block has two equal targets, and so
  has one that ends in a barrier. Block 0 is not serial.
- A slot runs only what it can (`isa.executes`); m is in stages 0..2.
- Operands name sources that the stage can read (`isa.operand_sources` and its kin), and a slot's result is
  only read where the slot has an operation that makes one: a value, a word loaded, a product, a predicate.
- Registers are in range. Register 0 is not returned to; no register is returned to twice.
- Truth tables have four bits. A new predicate is not the constant true.
- The returned tokens with all lanes active are at most `spec.max_returns`.
- `narrow` and `uniform` are claims about values; the interpreter checks them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from toolchain.errors import SourceLocation, VerifyError
from toolchain.machine_spec import MUL_STAGES, STAGES, MachineSpec
from toolchain.mir.encoding import return_tokens
from toolchain.mir.isa import (
    ALU_SLOTS,
    COMPARISONS,
    LOADS,
    SELECTING,
    TRUE,
    PredicateSource,
    Source,
    SourceKind,
    executes,
    multiply_sources,
    operand_sources,
    predicate_sources,
    return_sources,
    store_sources,
)
from toolchain.mir.rom import EXIT, AluOp, Block, Multiply, RomImage, Stage, Store


@dataclass(frozen=True)
class Problem:
    place: str
    message: str
    source: SourceLocation | None = None

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


def verify_rom(rom: RomImage, spec: MachineSpec) -> None:
    """Raises VerifyError with every broken rule."""
    problems = list(rom_problems(rom, spec))
    if problems:
        text = "\n  ".join(str(problem) for problem in problems)
        raise VerifyError(f"ROM image of kernel '{rom.kernel}':\n  {text}", problems[0].source)


def rom_problems(rom: RomImage, spec: MachineSpec) -> Iterator[Problem]:
    """Every broken rule, in block order."""
    if rom.machine != spec.name:
        yield Problem("image", f"is for machine '{rom.machine}', not '{spec.name}'")
    if not 1 <= len(rom.blocks) <= spec.blocks:
        yield Problem(
            "image", f"has {len(rom.blocks)} blocks; machine '{spec.name}' holds 1 to {spec.blocks}"
        )
    if rom.blocks and rom.blocks[0].serial:
        yield Problem("block 0", "the entry cannot be serial", rom.blocks[0].source)
    for index, block in enumerate(rom.blocks):
        check = _BlockCheck(block, spec, f"block {index}" + (f" '{block.label}'" if block.label else ""))
        yield from check.problems(len(rom.blocks))


@dataclass(frozen=True)
class _BlockCheck:
    block: Block
    spec: MachineSpec
    name: str

    def problems(self, blocks: int) -> Iterator[Problem]:
        for index, stage in enumerate(self.block.stages):
            yield from self.stage(index, stage)
        yield from self.terminator(blocks)
        if self.block.terminator.store is not None:
            yield from self.store(self.block.terminator.store)
        yield from self.returns()

    # --- Stages

    def stage(self, index: int, stage: Stage) -> Iterator[Problem]:
        for port, register in enumerate(stage.ports):
            yield from self.register(f"stage {index}, port{port}", register, None)
        for slot in ALU_SLOTS:
            op: AluOp | None = getattr(stage, slot)
            if op is not None:
                yield from self.alu(index, slot, op)
        if stage.m is not None:
            yield from self.multiply(index, stage.m)
        if stage.p is not None:
            place = f"stage {index}, slot p"
            for operand, source in (("a", stage.p.a), ("b", stage.p.b)):
                yield from self.predicate(f"{place}, {operand}", index, source, stage.p.source)
            yield from self.table(place, stage.p.table, stage.p.source)

    def alu(self, index: int, slot: str, op: AluOp) -> Iterator[Problem]:
        place = f"stage {index}, slot {slot}"
        if not executes(slot, op.op):
            able = [other for other in ALU_SLOTS if executes(other, op.op)]
            yield self.problem(place, f"cannot run {op.op}; slot {' or '.join(able)} can", op.source)
        for operand, source in (("a", op.a), ("b", op.b)):
            yield from self.value(f"{place}, {operand}", operand_sources(index), source, op.source)
        if op.op in SELECTING:
            yield from self.predicate(f"{place}, selector", index, op.predicate, op.source)
        elif op.predicate != TRUE:
            yield self.problem(place, f"{op.op} has no selector, got {op.predicate}", op.source)
        yield from self.table(place, op.table, op.source)

    def multiply(self, index: int, op: Multiply) -> Iterator[Problem]:
        place = f"stage {index}, slot m"
        if index >= MUL_STAGES:
            yield self.problem(place, f"multiplies are issued in stages 0 to {MUL_STAGES - 1}", op.source)
        for operand, source in (("a", op.a), ("b", op.b)):
            yield from self.value(f"{place}, {operand}", multiply_sources(index), source, op.source)
        for operand, register in (("a", op.register_a), ("b", op.register_b)):
            yield from self.register(f"{place}, port {operand}", register, op.source)

    # --- The end of the block

    def terminator(self, blocks: int) -> Iterator[Problem]:
        end = self.block.terminator
        for index, target in enumerate((end.target0, end.target1)):
            if target == 0:
                yield self.problem("terminator", f"target{index} is the entry, block 0", end.source)
            elif target != EXIT and not 0 < target < blocks:
                yield self.problem(
                    "terminator", f"target{index} is {target}, there are {blocks} blocks", end.source
                )
        if end.branch == TRUE and end.target0 != end.target1:
            yield self.problem("terminator", f"never goes to target0 = {end.target0}", end.source)
        if end.barrier and (end.branch != TRUE or end.target0 != end.target1):
            yield self.problem("terminator", "a barrier goes to one target", end.source)
        yield from self.predicate("terminator, branch", STAGES, end.branch, end.source)
        for index, source in enumerate(end.predicates):
            if source == TRUE:
                yield self.problem("terminator", f"p{index} cannot be set to the constant true", end.source)
            elif source is not None:
                yield from self.predicate(f"terminator, p{index}", STAGES, source, end.source)

    def store(self, store: Store) -> Iterator[Problem]:
        for operand, source in (("address", store.address), ("data", store.data)):
            yield from self.value(f"store, {operand}", store_sources(), source, store.source)
        for operand, register in (("address", store.address_register), ("data", store.data_register)):
            yield from self.register(f"store, {operand} port", register, store.source)
        yield from self.predicate("store, guard", STAGES, store.guard, store.source)

    def returns(self) -> Iterator[Problem]:
        seen: set[int] = set()
        for item in self.block.returns:
            place = f"return to r{item.register}"
            yield from self.value(place, return_sources(), item.value, None)
            yield from self.register(place, item.register, None)
            if item.register == 0:
                yield self.problem(place, "register 0 always reads zero", None)
            if item.register in seen:
                yield self.problem(place, "the block returns to this register twice", None)
            seen.add(item.register)
        tokens = return_tokens(self.block, self.spec.lanes)
        if tokens > self.spec.max_returns:
            message = f"{tokens} tokens with {self.spec.lanes} lanes; the limit is {self.spec.max_returns}"
            yield self.problem("returns", message, None)

    # --- Parts

    def problem(self, place: str, message: str, source: SourceLocation | None) -> Problem:
        return Problem(f"{self.name}, {place}", message, source or self.block.source)

    def register(self, place: str, register: int, source: SourceLocation | None) -> Iterator[Problem]:
        if not 0 <= register < self.spec.registers:
            yield self.problem(place, f"r{register} is out of range; there are {self.spec.registers}", source)

    def table(self, place: str, table: int, source: SourceLocation | None) -> Iterator[Problem]:
        if not 0 <= table < 16:
            yield self.problem(place, f"truth table {table:#x} has more than four bits", source)

    def value(
        self, place: str, readable: tuple[Source, ...], source: Source, at: SourceLocation | None
    ) -> Iterator[Problem]:
        """`source` can be read here, and what it names makes a value."""
        if source not in readable:
            yield self.problem(place, f"cannot read {source} here", at)
            return
        if source.kind is SourceKind.PRODUCT:
            if self.block.stages[source.stage].m is None:
                yield self.problem(place, f"reads {source}, which nothing writes", at)
        elif source.kind in (SourceKind.RESULT, SourceKind.LOADED):
            op: AluOp | None = getattr(self.block.stages[source.stage], source.name)
            if op is None or op.op in COMPARISONS:
                yield self.problem(place, f"reads {source}, which nothing writes", at)
            elif source.kind is SourceKind.LOADED and op.op not in LOADS:
                yield self.problem(place, f"reads {source}, but that slot runs {op.op}, not a load", at)

    def predicate(
        self, place: str, stage: int, source: PredicateSource, at: SourceLocation | None
    ) -> Iterator[Problem]:
        if source not in predicate_sources(stage):
            yield self.problem(place, f"cannot read {source} here", at)
        elif source.slot == "p":
            if self.block.stages[source.stage].p is None:
                yield self.problem(place, f"reads {source}, which nothing writes", at)
        elif source.slot:
            op: AluOp | None = getattr(self.block.stages[source.stage], source.slot)
            if op is None or op.op not in COMPARISONS:
                yield self.problem(place, f"reads {source}, which nothing writes", at)
