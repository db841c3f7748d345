"""One linear order of a block's graph, and what a cut of it costs at each place.

Everything is known by position: a segment is `order[start:end]`, and what it must return, whether registers allow
the cut and what is live there depend on `end` and on single nodes alone. Sets of nodes are bit masks.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from toolchain.machine_spec import PREDICATES, MachineSpec
from toolchain.mir.ir import TRUE, Predicate, Register
from toolchain.mir.schedule_dag import Arg, Dag, Ref


@dataclass(frozen=True)
class Line:
    """By node: `until`, the last cut over which it must be returned; `blocked`, the last before which it cannot be
    written, as its register's old value is read later. `excess`, by cut: how many values too many are live.
    """

    order: tuple[int, ...]
    until: tuple[int, ...]
    blocked: tuple[int, ...]
    excess: tuple[int, ...]
    masks: tuple[int, ...]
    """By node: itself and what is computed again for it; 0 if it is only computed again."""


def line_of(dag: Dag, order: tuple[int, ...], spec: MachineSpec) -> Line:
    """The order with nothing computed again."""
    positions = {index: position for position, index in enumerate(order)}
    nothing = Line(order, (), _blocked(dag, positions), _excess(dag, order, positions, spec), ())
    return recomputing(dag, nothing, frozenset())


def recomputing(dag: Dag, line: Line, recomputed: frozenset[int]) -> Line:
    """The same order; nodes of `recomputed` are computed again wherever they are used, and not returned."""
    positions = {index: position for position, index in enumerate(line.order)}
    count = len(line.order)
    last_use, masks = [-1] * count, [0] * count
    for index in reversed(range(count)):
        for user in dag.users[index]:
            again = last_use[user] if user in recomputed else -1
            last_use[index] = max(last_use[index], positions[user], again)
    for index, node in enumerate(dag.nodes):
        masks[index] = 1 << index
        for ref in node.refs:
            if ref in recomputed:
                masks[index] |= masks[ref]
    until = [count if dag.is_output(index) else last_use[index] for index in range(count)]
    for index in range(count):
        if Ref(index) in dag.end_reads:
            until[index] = max(until[index], count - 1)
        if index in recomputed and not dag.is_output(index):
            until[index], masks[index] = -1, 0
    return Line(line.order, tuple(until), line.blocked, line.excess, tuple(masks))


def _blocked(dag: Dag, positions: dict[int, int]) -> tuple[int, ...]:
    last = len(positions) - 1
    found = []
    for index in range(len(positions)):
        names = (*dag.output_registers.get(index, ()), *dag.output_flags.get(index, ()))
        reads = [positions[reader] for name in names for reader in dag.readers.get(name, ())]
        found.append(max([*reads, last if any(name in dag.end_reads for name in names) else -1]))
    return tuple(found)


def _excess(
    dag: Dag, order: tuple[int, ...], positions: dict[int, int], spec: MachineSpec
) -> tuple[int, ...]:
    """Registers or predicates that are too many to be live at once after the first `end` nodes, for each `end`."""
    cuts = range(len(order) + 1)
    live: dict[Arg, set[int]] = {}

    def add(name: Arg, where: Iterable[int]) -> None:
        live.setdefault(name, set()).update(where)

    for name in (*dag.through, *dag.predicates_through, *dag.end_reads):
        if isinstance(name, Register | Predicate):
            add(name, cuts)
    for name, readers in dag.readers.items():
        if isinstance(name, Register | Predicate):
            add(name, range(max(positions[reader] for reader in readers) + 1))
    for index, position in positions.items():
        for name in (*dag.output_registers.get(index, ()), *dag.output_flags.get(index, ())):
            add(name, cuts[position + 1 :])
        reads = [positions[user] for user in dag.users[index]]
        last = len(order) - 1 if Ref(index) in dag.end_reads else max(reads, default=-1)
        add(dag.crossing_name(index), cuts[position + 1 : last + 1])
    registers, flags = [0] * len(cuts), [0] * len(cuts)
    for name, where in live.items():
        if name != TRUE:
            counts = registers if isinstance(name, Register) else flags
            for cut in where:
                counts[cut] += 1
    return tuple(too_many(r, f, spec) for r, f in zip(registers, flags, strict=True))


def too_many(registers: int, predicates: int, spec: MachineSpec) -> int:
    """How many of so many live registers or predicates find no place."""
    return max(registers - (spec.registers - 1), predicates - PREDICATES, 0)
