"""Registers: copies that vanish, and virtual registers to the machine's.

`coalesce` gives the two names of a MIR copy one register where their live ranges allow it. `allocate` colours
the interference graph of the scheduled blocks: a register is live from the block that returns it to the last
that reads it, and a block reads everything before it writes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from toolchain.errors import CompileError, SourceLocation
from toolchain.machine_spec import PREDICATES, MachineSpec
from toolchain.mir import liveness
from toolchain.mir.cfg import Cfg
from toolchain.mir.ir import Function, Instruction, MirOp, Operand, Register
from toolchain.mir.isa import ALU_SLOTS, PredicateSource
from toolchain.mir.rom import Stage
from toolchain.mir.schedule import Scheduled, ScheduledBlock

EXACT_COLOURING_STEPS = 20_000


# --- Copies


def coalesce(function: Function) -> Function:
    """The function with copies removed wherever source and destination can share a register."""
    names = _Union()
    graph = _interference(function)
    depth = Cfg(function).depth
    copies = [
        (-depth.get(block.label, 0), item.dest, item.operands[0])
        for block in function.blocks
        for item in block.instructions
        if item.op is MirOp.MOV and isinstance(item.dest, Register) and isinstance(item.operands[0], Register)
    ]
    for _, a, b in sorted(copies):
        first, second = sorted((names.find(a), names.find(b)))
        if first == second or second in graph.get(first, set()):
            continue
        names.parent[second] = first
        merged = graph.pop(second, set())
        graph.setdefault(first, set()).update(merged)
        for neighbour in merged:
            graph[neighbour].discard(second)
            graph[neighbour].add(first)
    return _renamed(function, names)


class _Union:
    def __init__(self) -> None:
        self.parent: dict[Register, Register] = {}

    def find(self, name: Register) -> Register:
        while name in self.parent:
            name = self.parent[name]
        return name


def _interference(function: Function) -> dict[Register, set[Register]]:
    """Registers that hold different values at one time; a copy's two names do not clash by the copy alone."""
    live = liveness.analyse(function)
    graph: dict[Register, set[Register]] = {}
    for block in function.blocks:
        for item, after in liveness.backwards(block, live.after[block.label]):
            if not isinstance(item.dest, Register):
                continue
            same = item.operands[0] if item.op is MirOp.MOV else None
            for other in after:
                if isinstance(other, Register) and other not in (item.dest, same):
                    graph.setdefault(item.dest, set()).add(other)
                    graph.setdefault(other, set()).add(item.dest)
    return graph


def _renamed(function: Function, names: _Union) -> Function:
    def rename(operand: Operand) -> Operand:
        return names.find(operand) if isinstance(operand, Register) else operand

    def instructions(items: Iterable[Instruction]) -> Iterator[Instruction]:
        for item in items:
            dest = names.find(item.dest) if isinstance(item.dest, Register) else item.dest
            operands = tuple(map(rename, item.operands))
            if item.op is not MirOp.MOV or operands[0] != dest:
                yield replace(item, dest=dest, operands=operands)

    return function.with_blocks(
        [replace(block, instructions=tuple(instructions(block.instructions))) for block in function.blocks]
    )


# --- Allocation


@dataclass(frozen=True)
class Allocation:
    """Machine register of each virtual one, and the same for predicates."""

    registers: dict[int, int]
    predicates: dict[int, int]


@dataclass(frozen=True)
class Pressure:
    """Too many values at once: `excess` too many where it is worst.

    `crowded`: by name, what is live in each block with too much; `error` tells people.
    """

    what: str
    excess: int
    crowded: tuple[frozenset[str], ...]
    error: CompileError


def registers_read(block: ScheduledBlock) -> set[int]:
    found = {port for stage in block.stages for port in stage.ports}
    for stage in block.stages:
        if stage.m is not None:
            found |= {stage.m.register_a, stage.m.register_b}
    if block.store is not None:
        found |= {block.store.address_register, block.store.data_register}
    return found - {0}


def predicates_read(block: ScheduledBlock) -> set[int]:
    sources = [source for stage in block.stages for source in _stage_predicates(stage)]
    sources += [block.branch, *(source for _, source in block.predicates)]
    if block.store is not None:
        sources.append(block.store.guard)
    return {source.register for source in sources if source.register >= 0}


def _stage_predicates(stage: Stage) -> Iterator[PredicateSource]:
    for slot in ALU_SLOTS:
        op = getattr(stage, slot)
        if op is not None:
            yield op.predicate
    if stage.p is not None:
        yield from (stage.p.a, stage.p.b)


def allocate(scheduled: Scheduled, spec: MachineSpec) -> Allocation | Pressure:
    """Machine registers for all virtual ones, or where they do not fit."""
    blocks = scheduled.blocks
    reads = {block.label: registers_read(block) for block in blocks}
    writes = {block.label: {item.register for item in block.returns} for block in blocks}
    live = _live_after(blocks, reads, writes)
    registers = _colour(_graph(blocks, live, writes), spec.registers - 1)
    if registers is None:
        return _pressure("registers", spec.registers - 1, blocks, live, writes, scheduled.registers, 1)
    reads = {block.label: predicates_read(block) for block in blocks}
    writes = {block.label: {number for number, _ in block.predicates} for block in blocks}
    live = _live_after(blocks, reads, writes)
    predicates = _colour(_graph(blocks, live, writes), PREDICATES)
    if predicates is None:
        return _pressure("predicates", PREDICATES, blocks, live, writes, scheduled.predicates, 0)
    return Allocation({number: colour + 1 for number, colour in registers.items()}, predicates)


Sets = dict[str, set[int]]


def _live_after(blocks: tuple[ScheduledBlock, ...], reads: Sets, writes: Sets) -> Sets:
    before: Sets = {block.label: set() for block in blocks}
    after: Sets = {block.label: set() for block in blocks}
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            label = block.label
            targets = (block.target0, block.target1)
            after[label] = set().union(*(before.get(target, set()) for target in targets))
            live = reads[label] | (after[label] - writes[label])
            changed |= live != before[label]
            before[label] = live
    return after


def _graph(blocks: tuple[ScheduledBlock, ...], live: Sets, writes: Sets) -> dict[int, set[int]]:
    graph: dict[int, set[int]] = {}
    for block in blocks:
        together = live[block.label] | writes[block.label]
        for number in together:
            graph.setdefault(number, set())
        for number in writes[block.label]:
            for other in together - {number}:
                graph[number].add(other)
                graph[other].add(number)
    return graph


def _colour(graph: dict[int, set[int]], colours: int) -> dict[int, int] | None:
    """A colouring, most constrained first, with limited backtracking; None if none was found."""
    chosen: dict[int, int] = {}
    steps = 0

    def extend() -> bool:
        nonlocal steps
        if len(chosen) == len(graph):
            return True
        steps += 1
        if steps > EXACT_COLOURING_STEPS:
            return False
        taken = {n: {chosen[o] for o in graph[n] if o in chosen} for n in graph if n not in chosen}
        number = max(taken, key=lambda n: (len(taken[n]), len(graph[n]), -n))
        fresh = max(chosen.values(), default=-1) + 1
        for colour in range(min(colours, fresh + 1)):
            if colour not in taken[number]:
                chosen[number] = colour
                if extend():
                    return True
                del chosen[number]
        return False

    return chosen if extend() else None


def _pressure(
    what: str,
    limit: int,
    blocks: tuple[ScheduledBlock, ...],
    live: Sets,
    writes: Sets,
    names: tuple[str, ...],
    first: int,
) -> Pressure:
    """Says how many are needed, how many there are, and where the most are live."""
    together = {block.label: live[block.label] | writes[block.label] for block in blocks}
    most = max(len(numbers) for numbers in together.values())
    peaks = [block for block in blocks if len(together[block.label]) == most]
    lines = sorted({line for block in peaks for line in _lines(block)})
    lines = lines or sorted({line for block in blocks for line in _lines(block)})
    where = ", ".join(str(line) for line in lines[:4]) or f"block '{peaks[0].label}'"
    held = ", ".join(names[number - first] for number in sorted(together[peaks[0].label]))
    needed = max(most, limit + 1)
    crowded = tuple(
        frozenset(names[number - first] for number in numbers)
        for numbers in together.values()
        if len(numbers) >= min(most, limit + 1)
    )
    error = CompileError(
        f"the kernel needs {needed} {what} at once at {where}; "
        f"the machine has {limit} ({needed - limit} too many)",
        lines[0] if lines else None,
        hint=f"live there: {held}; keep fewer values alive, or choose a machine with more registers",
        limit=what,
    )
    return Pressure(what, needed - limit, crowded, error)


def _lines(block: ScheduledBlock) -> Iterator[SourceLocation]:
    for stage in block.stages:
        for op in (stage.x, stage.y, stage.z, stage.m, stage.p):
            if op is not None and op.source is not None:
                yield op.source
