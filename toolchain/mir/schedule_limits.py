"""What keeps operations out of one machine block, known before they are packed: chains too long, units too few.

A sum of `units` holds a count for each unit and each set of ALU slots; it has a bit of FULL where operations that only
these can run are more than a block's stages have room for.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from toolchain.machine_spec import MUL_STAGES, STAGES
from toolchain.mir.isa import ALU_SLOTS, executes
from toolchain.mir.schedule_dag import Dag, Node
from toolchain.mir.schedule_pack import ROOM, last_issue, unit

_FIELD_BITS = 8
"""A count of the operations of a segment fits a field without its highest bit."""
_SLOT_SETS = tuple(slots for size in range(1, len(ALU_SLOTS)) for slots in combinations(ALU_SLOTS, size))
_ROOMS = (*ROOM.values(), *(len(slots) * STAGES for slots in _SLOT_SETS))
_HIGHEST = 1 << (_FIELD_BITS - 1)
FULL = sum(_HIGHEST << _FIELD_BITS * place for place in range(len(_ROOMS)))
EMPTY = sum((_HIGHEST - 1 - room) << _FIELD_BITS * place for place, room in enumerate(_ROOMS))
"""What a sum of units begins with."""


@dataclass(frozen=True)
class Limits:
    """By node of a graph: what it adds to a sum of units, and later nodes that it is in no machine block with."""

    units: tuple[int, ...]
    apart: tuple[int, ...]
    """Bit masks."""

    @staticmethod
    def of(dag: Dag) -> "Limits":
        apart = [0] * len(dag.nodes)
        for index, node in enumerate(dag.nodes):
            for earlier in (*node.strict, *_too_far(dag, index)):
                apart[earlier] |= 1 << index
        return Limits(tuple(_units(unit(node), _slots(node)) for node in dag.nodes), tuple(apart))


def _slots(node: Node) -> tuple[str, ...]:
    """The ALU slots that can run the node."""
    return tuple(slot for slot in ALU_SLOTS if executes(slot, node.alu)) if unit(node) == "alu" else ()


@cache
def _units(unit: str, slots: tuple[str, ...]) -> int:
    own = [name == unit for name in ROOM]
    sets = [bool(slots) and {*slots} <= {*some} for some in _SLOT_SETS]
    return sum(counts << _FIELD_BITS * place for place, counts in enumerate((*own, *sets)))


def _too_far(dag: Dag, last: int) -> Iterator[int]:
    """Nodes that cannot be issued early enough for `last` to be in their machine block.

    What lies between is then in it too. Special registers may be read through copies, so they hold up nothing.
    """
    latest = {last: _last_stage(dag.nodes[last])}
    for consumer in range(last, -1, -1):
        if consumer not in latest:
            continue
        if latest[consumer] < 0:
            yield consumer
            continue
        node = dag.nodes[consumer]
        for ref in node.refs:
            producer = dag.nodes[ref]
            bound = last_issue(producer.kind, node.kind, _last_stage(producer), latest[consumer])
            latest[ref] = min(latest.get(ref, bound), bound)


def _last_stage(node: Node) -> int:
    return (MUL_STAGES if node.is_multiply else STAGES) - 1
