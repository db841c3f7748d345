"""Packing a set of operations into the four stages of one machine block.

    Item      = an operation and its operands: Ref (an item of the same block), Register or Predicate (read
                from the file), LinkValue, Special
    Placement = for each item, its stage and its slot

List scheduling, stage by stage, by latest possible stage; a few tie-breaks are tried. What must hold is in
docs/MACHINE.md: slots, four ports and two immediates a stage, special registers in stage 0, multiply latency.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import permutations

from toolchain.machine_spec import MUL_STAGES, STAGES
from toolchain.mir.ir import MirOp, Register, Special
from toolchain.mir.isa import (
    ALU_SLOTS,
    IMMEDIATES,
    PORTS,
    Op,
    Source,
    SourceKind,
    executes,
    multiply_sources,
    operand_sources,
    store_sources,
)
from toolchain.mir.rom import LinkValue
from toolchain.mir.schedule_dag import Arg, Node, Ref, is_zero


@dataclass(frozen=True)
class Placement:
    """`items` in order of index; `stages[i]` and `slots[i]` say where item i went. A store has stage -1."""

    items: tuple[Node, ...]
    stages: tuple[int, ...]
    slots: tuple[str, ...]


def latency(producer: Node, consumer: Node) -> int:
    """Stages from issue to issue, at least; a whole block if the two are never in one."""
    if producer.is_multiply:
        return STAGES if consumer.is_multiply else 2
    return 1


@cache
def readable(producer: str, issued: int, consumer: str, stage: int) -> bool:
    """Whether a consumer in `stage` can read what a producer issued in stage `issued` makes; both by kind."""
    if producer == "flag":
        return issued < stage or consumer == "store"
    source = Source(SourceKind.RESULT, issued, "y")
    if producer == "multiply":
        source = Source(SourceKind.PRODUCT, issued)
    if consumer == "store":
        return source in store_sources()
    if consumer == "multiply":
        loaded = producer == "load" and Source(SourceKind.LOADED, issued, "y") in multiply_sources(stage)
        return loaded or source in multiply_sources(stage)
    return source in operand_sources(stage)


def deadline(node: Node) -> int:
    """The last stage that can issue the node."""
    if any(isinstance(arg, Special) for arg in node.args):
        return 0
    return (MUL_STAGES if node.is_multiply else STAGES) - 1


@dataclass
class _Stage:
    """Resources of one stage that are taken."""

    alus: dict[int, Op] = field(default_factory=dict)
    multiplies: int = 0
    logics: int = 0
    registers: set[Arg] = field(default_factory=set)
    immediates: set[Arg] = field(default_factory=set)

    def take(self, index: int, node: Node) -> bool:
        """Takes what the node needs, if it is there."""
        if node.op is MirOp.PLOP:
            self.logics += 1
            return self.logics == 1
        immediates = self.immediates | {a for a in node.args if isinstance(a, LinkValue) and not is_zero(a)}
        if len(immediates) > IMMEDIATES:
            return False
        if node.is_multiply:
            if self.multiplies:
                return False
            self.multiplies, self.immediates = 1, immediates
            return True
        registers = self.registers | {arg for arg in node.args if isinstance(arg, Register)}
        alus = {**self.alus, index: Op.ADD if node.op is MirOp.MOV else Op(node.op)}
        if len(registers) > PORTS or len(alus) > len(ALU_SLOTS) or assign_slots(tuple(alus.values())) is None:
            return False
        self.alus, self.registers, self.immediates = alus, registers, immediates
        return True

    def slots(self) -> dict[int, str]:
        chosen = assign_slots(tuple(self.alus.values()))
        assert chosen is not None
        return dict(zip(self.alus, chosen, strict=True))


@cache
def assign_slots(ops: tuple[Op, ...]) -> tuple[str, ...] | None:
    """A slot of its own for each operation, None if that cannot be."""
    for slots in permutations(ALU_SLOTS, len(ops)):
        if all(executes(slot, op) for slot, op in zip(slots, ops, strict=True)):
            return slots
    return None


def pack(items: Sequence[Node]) -> Placement | None:
    """A place for each item, or None if none was found. Refs are indices into `items`, producers first."""
    if not _counts_fit(items):
        return None
    specials = any(isinstance(arg, Special) for item in items for arg in item.args)
    for split_specials in (False, True) if specials else (False,):
        expanded = _with_special_copies(items, split_specials)
        latest = _latest(expanded)
        if latest is None:
            continue
        for tie_break in _tie_breaks(expanded):
            placement = _list_schedule(expanded, latest, tie_break)
            if placement is not None:
                return placement
    return None


def _counts_fit(items: Sequence[Node]) -> bool:
    stores = sum(item.is_store for item in items)
    multiplies = sum(item.is_multiply for item in items)
    logics = sum(item.is_flag and not isinstance(item.op, Op) for item in items)
    alus = len(items) - stores - multiplies - logics
    return stores <= 1 and multiplies <= MUL_STAGES and logics <= STAGES and alus <= 3 * STAGES


def _with_special_copies(items: Sequence[Node], everywhere: bool) -> tuple[Node, ...]:
    """Items whose special registers can be read in stage 0; copies are made for those that must run later.

    Copies go last, so that the indices of `items` stay what they are.
    """
    copies: dict[Special, int] = {}
    result = list(items)
    extra: list[Node] = []
    from_copy = {index for index, item in enumerate(items) if item.refs or everywhere}
    for index, item in enumerate(items):
        specials = [arg for arg in item.args if isinstance(arg, Special)]
        if not specials or index not in from_copy or item.op is MirOp.MOV:
            continue
        for special in specials:
            if special not in copies:
                copies[special] = len(items) + len(extra)
                extra.append(Node(MirOp.MOV, (special,), source=item.source))
        args = tuple(Ref(copies[arg]) if isinstance(arg, Special) else arg for arg in item.args)
        result[index] = replace(item, args=args)
    return (*result, *extra)


def _latest(items: Sequence[Node]) -> list[int] | None:
    """The last stage each item can be in, None if there is not enough time for some chain."""
    latest = [deadline(item) for item in items]
    changed = True
    while changed:
        changed = False
        for consumer, item in enumerate(items):
            for ref in item.refs:
                bound = _last_issue(items[ref], item, latest[consumer])
                if bound < latest[ref]:
                    latest[ref], changed = bound, True
        if min(latest, default=0) < 0:
            return None
    return latest


def _last_issue(producer: Node, consumer: Node, latest: int) -> int:
    """The last stage to issue the producer in for a consumer no later than `latest`; -1 for none."""
    return _last_issue_of_kinds(producer.kind, consumer.kind, deadline(producer), latest)


@cache
def _last_issue_of_kinds(producer: str, consumer: str, deadline: int, latest: int) -> int:
    stages = [
        issued
        for issued in range(deadline + 1)
        if any(readable(producer, issued, consumer, stage) for stage in range(latest + 1))
    ]
    return max(stages, default=-1)


TieBreak = Callable[[int], tuple[int, ...]]


def _tie_breaks(items: Sequence[Node]) -> tuple[TieBreak, ...]:
    consumers = [0] * len(items)
    for item in items:
        for ref in item.refs:
            consumers[ref] += 1

    def choosy(index: int) -> int:
        op = items[index].op
        return 0 if isinstance(op, Op) and not executes("x", op) else 1 if items[index].is_load else 2

    def reads(index: int) -> int:
        return sum(isinstance(arg, Register | LinkValue) and not is_zero(arg) for arg in items[index].args)

    def special(index: int) -> int:
        return 0 if any(isinstance(arg, Special) for arg in items[index].args) else 1

    return (
        lambda i: (special(i), choosy(i), i),
        lambda i: (special(i), -consumers[i], reads(i), i),
        lambda i: (special(i), -reads(i), choosy(i), -i),
    )


def _list_schedule(items: tuple[Node, ...], latest: list[int], tie_break: TieBreak) -> Placement | None:
    stages = [-1] * len(items)
    slots = [""] * len(items)
    waiting = [index for index, item in enumerate(items) if not item.is_store]
    for stage in range(STAGES):
        room = _Stage()
        ready = [index for index in waiting if _ready(items, stages, index, stage)]
        ready.sort(key=lambda index: (latest[index], *tie_break(index)))
        for index in ready:
            if room.take(index, items[index]):
                stages[index] = stage
                slots[index] = "m" if items[index].is_multiply else "p"
        for index, slot in room.slots().items():
            slots[index] = slot
        waiting = [index for index in waiting if stages[index] < 0]
        if any(latest[index] <= stage for index in waiting):
            return None
    return Placement(items, tuple(stages), tuple(slots))


def _ready(items: Sequence[Node], stages: list[int], index: int, stage: int) -> bool:
    item = items[index]
    if stage > deadline(item):
        return False
    return all(
        stages[ref] >= 0 and readable(items[ref].kind, stages[ref], item.kind, stage) for ref in item.refs
    )
