"""Packing a set of operations into one machine block by trying every stage for each: for what list scheduling misses.

The rules are those of schedule_pack.py: slots, ports and immediates of a stage, who can read whom, special registers
in stage 0 or through a copy made there.
"""

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import product

from toolchain.machine_spec import STAGES
from toolchain.mir.ir import MirOp, Special
from toolchain.mir.schedule_dag import Node, Ref
from toolchain.mir.schedule_pack import Placement, StageRoom, counts_fit, latest_stages, readable


class OutOfSteps(Exception):
    """The search has tried as many places as it may."""


def pack_exactly(items: Mapping[int, Node], free: int, steps: int | None = None) -> Placement | None:
    """A place for each item; None if there is none. Indices from `free` on are for items that are added.

    Raises OutOfSteps where `steps` tries do not decide it.
    """
    if not counts_fit(items):
        return None
    search = _Search(steps)
    for expanded in _with_copies(items, free):
        latest = latest_stages(expanded)
        found = None if latest is None else search.run(expanded, latest)
        if found is not None:
            return found
    return None


def _with_copies(items: Mapping[int, Node], free: int) -> Iterator[Mapping[int, Node]]:
    """Every choice of items that read special registers through a copy, so that they can run after stage 0."""
    readers = [index for index, item in items.items() if item.specials and item.op is not MirOp.MOV]
    for choice in product((False, True), repeat=len(readers)):
        copied = {index for index, through in zip(readers, choice, strict=True) if through}
        specials = dict.fromkeys(special for index in copied for special in items[index].specials)
        numbers = {special: free + number for number, special in enumerate(specials)}
        copies = {number: Node(MirOp.MOV, (special,)) for special, number in numbers.items()}
        yield {
            index: _reading(item, numbers) if index in copied else item for index, item in items.items()
        } | copies


def _reading(item: Node, copies: Mapping[Special, int]) -> Node:
    args = tuple(Ref(copies[arg]) if isinstance(arg, Special) else arg for arg in item.args)
    return replace(item, args=args)


@dataclass
class _Search:
    """Depth first over items, producers first, and stages. `steps`: places that may still be tried."""

    steps: int | None
    items: Mapping[int, Node] = field(default_factory=dict)
    latest: Mapping[int, int] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    stages: dict[int, int] = field(default_factory=dict)

    def run(self, items: Mapping[int, Node], latest: Mapping[int, int]) -> Placement | None:
        self.items, self.latest = items, latest
        self.stages = dict.fromkeys(items, -1)
        added = [index for index, item in items.items() if item.op is MirOp.MOV and not item.refs]
        others = [index for index, item in items.items() if not item.is_store and index not in added]
        self.order = [*added, *others]  # copies of special registers come first: others read them
        rooms = self.place(0, [StageRoom() for _ in range(STAGES)])
        return None if rooms is None else self.placement(rooms)

    def place(self, position: int, rooms: list[StageRoom]) -> list[StageRoom] | None:
        """The stages' rooms with all items from `position` on placed."""
        if position == len(self.order):
            return rooms
        index = self.order[position]
        item = self.items[index]
        for stage in range(self.latest[index] + 1):
            if not self.reads(item, stage):
                continue
            if self.steps is not None:
                self.steps -= 1
                if self.steps < 0:
                    raise OutOfSteps
            room = copy(rooms[stage])
            if not room.take(index, item):
                continue
            self.stages[index] = stage
            found = self.place(position + 1, [*rooms[:stage], room, *rooms[stage + 1 :]])
            if found is not None:
                return found
        self.stages[index] = -1
        return None

    def reads(self, item: Node, stage: int) -> bool:
        return all(readable(self.items[ref].kind, self.stages[ref], item.kind, stage) for ref in item.refs)

    def placement(self, rooms: list[StageRoom]) -> Placement:
        slots = {
            index: "" if item.is_store else "m" if item.is_multiply else "p"
            for index, item in self.items.items()
        }
        for room in rooms:
            slots.update(room.slots())
        return Placement(self.items, dict(self.stages), slots)
