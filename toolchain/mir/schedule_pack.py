"""Packing a set of operations into the four stages of one machine block.

    Item      = an operation and its operands: Ref (an item of the same block, by index), Register or Predicate
                (read from the file), LinkValue, Special
    Placement = for each item, its stage and its slot

List scheduling, stage by stage, by latest possible stage; a few tie-breaks are tried. What must hold is in
docs/MACHINE.md: slots, four ports and two immediates a stage, special registers in stage 0, multiply latency.
"""

from collections.abc import Iterator, Mapping
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
    """By index of an item: the item, its stage and its slot. A store has stage -1."""

    items: Mapping[int, Node]
    stages: Mapping[int, int]
    slots: Mapping[int, str]


ROOM = {"store": 1, "multiply": MUL_STAGES, "logic": STAGES, "alu": len(ALU_SLOTS) * STAGES}
"""Items of a machine block, by unit."""


def unit(node: Node) -> str:
    """What runs the node."""
    return "logic" if node.op is MirOp.PLOP else "alu" if node.is_flag or node.is_load else node.kind


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
    if node.specials:
        return 0
    return (MUL_STAGES if node.is_multiply else STAGES) - 1


@dataclass
class StageRoom:
    """Resources of one stage that are taken. A failed `take` leaves it unusable."""

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
        immediates = self.immediates | node.immediates
        if len(immediates) > IMMEDIATES:
            return False
        if node.is_multiply:
            if self.multiplies:
                return False
            self.multiplies, self.immediates = 1, immediates
            return True
        registers = self.registers | node.ports
        alus = {**self.alus, index: node.alu}
        if len(registers) > PORTS or len(alus) > len(ALU_SLOTS) or assign_slots(tuple(alus.values())) is None:
            return False
        self.alus, self.registers, self.immediates = alus, registers, immediates
        return True

    def slots(self) -> dict[int, str]:
        """A slot for each ALU item."""
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


def pack(items: Mapping[int, Node], free: int) -> Placement | None:
    """A place for each item, or None if none was found. Items are in order of index, producers first.

    Indices from `free` on are for items that are added.
    """
    if not counts_fit(items):
        return None
    specials = any(item.specials for item in items.values())
    for split_specials in (False, True) if specials else (False,):
        expanded = _with_special_copies(items, free, split_specials) if specials else items
        latest = latest_stages(expanded)
        if latest is None:
            continue
        for ranks in _tie_breaks(expanded):
            placement = _list_schedule(expanded, latest, ranks)
            if placement is not None:
                return placement
    return None


def counts_fit(items: Mapping[int, Node]) -> bool:
    """Whether no unit has more items than it can run in a block."""
    units = [unit(item) for item in items.values()]
    return all(units.count(name) <= room for name, room in ROOM.items())


def _with_special_copies(items: Mapping[int, Node], free: int, everywhere: bool) -> Mapping[int, Node]:
    """Items whose special registers can be read in stage 0; copies are made for those that must run later.

    Copies go last, so that the indices of `items` stay what they are.
    """
    copies: dict[Special, int] = {}
    result = dict(items)
    extra: dict[int, Node] = {}
    for index, item in items.items():
        if not item.specials or not (item.refs or everywhere) or item.op is MirOp.MOV:
            continue
        for special in item.specials:
            if special not in copies:
                copies[special] = free + len(extra)
                extra[copies[special]] = Node(MirOp.MOV, (special,), source=item.source)
        args = tuple(Ref(copies[arg]) if isinstance(arg, Special) else arg for arg in item.args)
        result[index] = replace(item, args=args)
    return result | extra


def latest_stages(items: Mapping[int, Node]) -> Mapping[int, int] | None:
    """The last stage each item can be in, None if there is not enough time for some chain."""
    latest = {index: deadline(item) for index, item in items.items()}
    for consumer, item in reversed([*items.items()]):  # copies of special registers read no other item
        for ref in item.refs:
            bound = last_issue(items[ref].kind, item.kind, deadline(items[ref]), latest[consumer])
            latest[ref] = min(latest[ref], bound)
    return None if min(latest.values(), default=0) < 0 else latest


@cache
def last_issue(producer: str, consumer: str, deadline: int, latest: int) -> int:
    """The last stage to issue the producer in for a consumer no later than `latest`; -1 for none."""
    stages = [
        issued
        for issued in range(deadline + 1)
        if any(readable(producer, issued, consumer, stage) for stage in range(latest + 1))
    ]
    return max(stages, default=-1)


def _tie_breaks(items: Mapping[int, Node]) -> Iterator[Mapping[int, tuple[int, ...]]]:
    """Ranks of items that must be issued by the same stage, to try one after another."""

    def choosy(item: Node) -> int:
        return 0 if isinstance(item.op, Op) and not executes("x", item.op) else 1 if item.is_load else 2

    def plain(item: Node) -> int:
        return 0 if item.specials else 1

    def reads(item: Node) -> int:
        return sum(isinstance(arg, Register | LinkValue) and not is_zero(arg) for arg in item.args)

    yield {i: (plain(item), choosy(item), i) for i, item in items.items()}
    consumers = dict.fromkeys(items, 0)
    for item in items.values():
        for ref in item.refs:
            consumers[ref] += 1
    yield {i: (plain(item), -consumers[i], reads(item), i) for i, item in items.items()}
    yield {i: (plain(item), -reads(item), choosy(item), -i) for i, item in items.items()}


def _list_schedule(
    items: Mapping[int, Node], latest: Mapping[int, int], ranks: Mapping[int, tuple[int, ...]]
) -> Placement | None:
    stages = dict.fromkeys(items, -1)
    slots = dict.fromkeys(items, "")
    waiting = sorted(
        (index for index, item in items.items() if not item.is_store),
        key=lambda index: (latest[index], ranks[index]),
    )
    for stage in range(STAGES):
        room = StageRoom()
        for index in [index for index in waiting if _ready(items, stages, index, stage)]:
            if room.take(index, items[index]):
                stages[index] = stage
                slots[index] = "m" if items[index].is_multiply else "p"
        slots.update(room.slots())
        waiting = [index for index in waiting if stages[index] < 0]
        if waiting and latest[waiting[0]] <= stage:
            return None
    return Placement(items, stages, slots)


def _ready(items: Mapping[int, Node], stages: Mapping[int, int], index: int, stage: int) -> bool:
    item = items[index]
    if stage > deadline(item):
        return False
    for ref in item.refs:
        if stages[ref] < 0 or not readable(items[ref].kind, stages[ref], item.kind, stage):
            return False
    return True
