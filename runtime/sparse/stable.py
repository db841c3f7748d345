"""What a kind of token leaves as it was: the part of its program whose results mostly other kinds change.

What is worked out of memories that no token of the kind writes for sure, and of nothing that differs from token to
token, is likely to be what it was in the token before. That part is split off; encoded as a MEMO (encode.py) it runs
once and is remembered until one of its memories is written or an input differs. The split is a guess at what is worth
remembering; that it is right to use what is remembered is seen in every token.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from runtime.sparse.network import Form, Read
from runtime.sparse.specialise import LiveNode, LivePhase, LiveWrite, Residue

LEAST_TERMS = 1000
"""A part of fewer terms takes no longer than to compare what it depends on."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Changing:
    """Cells that may differ from token to token of a kind, and states that each token of it writes."""

    cells: frozenset[int]
    states: frozenset[int]


@dataclass(frozen=True)
class Stable:
    """A part of a residue. `inputs`: cells that it reads of what is added outside it; `outputs`: cells it adds to that
    are read outside; `states`: what it reads; each sorted. Nothing writes these states from phase `first` on."""

    first: int
    residue: Residue
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    states: tuple[int, ...]

    @property
    def words(self) -> int:
        """Numbers of its memo."""
        return 1 + len(self.inputs) + len(self.outputs)

    @property
    def content(self) -> tuple[object, ...]:
        """Equal for parts that work out the same."""
        constants = tuple(sorted(self.residue.constants.items()))
        return self.residue.phases, constants, self.inputs, self.outputs, self.states


@dataclass(frozen=True)
class Memo:
    """A part that is remembered. `place`: where its memo begins among those of a launch: the step in which it was made,
    then the inputs, then the outputs, a 32-bit number each."""

    part: Stable
    place: int


def changing(prefix: Residue, cells: Iterable[int]) -> Changing:
    """What has changed after the prefix; `cells` do from the start."""
    taint = _Taint(set(cells), set(_surely_written(prefix)))
    for phase in prefix.phases:
        taint.divide(phase)
    return Changing(frozenset(taint.cells), frozenset(taint.states))


def split(suffix: Residue, before: Changing) -> tuple[Stable | None, Residue]:
    """The suffix's largest stable part, None where all are small, and the rest."""
    taint = _Taint(set(before.cells), before.states | set(_surely_written(suffix)))
    stable = [taint.divide(phase)[0] for phase in suffix.phases]
    if _terms(stable) < LEAST_TERMS:
        return None, suffix
    candidates = [_from(place, stable, suffix) for place in range(len(stable))]
    first, kept = max(enumerate(candidates), key=lambda item: (_terms(item[1]), item[0]))
    if _terms(kept) < LEAST_TERMS:
        return None, suffix
    rest = [*suffix.phases[:first], *map(_without, suffix.phases[first:], kept)]
    return _stable(suffix, first, kept, rest)


def _from(place: int, stable: list[LivePhase], suffix: Residue) -> list[LivePhase]:
    """What of the stable phases from the place on reads no state that is written there."""
    late = {state for phase in suffix.phases[place:] for state in _written(phase)}
    taint = _Taint(set(), late)
    return [taint.divide(phase)[0] for phase in stable[place:]]


def _stable(
    suffix: Residue, first: int, kept: list[LivePhase], rest: list[LivePhase]
) -> tuple[Stable, Residue]:
    added = {cell for phase in kept for cell in _added(phase)}
    before = {cell for phase in suffix.phases[:first] for cell in _added(phase)}
    used = {cell for phase in kept for cell in _used(phase)}
    outputs = added & {*suffix.roots, *(cell for phase in rest for cell in _used(phase))}
    inside = {cell: value for cell, value in suffix.constants.items() if cell in added}
    outside = {cell: value for cell, value in suffix.constants.items() if cell not in added}
    states = {read.state for phase in kept for read in phase.reads}
    residue = replace(suffix, phases=tuple(kept), constants=inside, roots=frozenset(outputs))
    inputs, result = tuple(sorted(used - (added - before))), tuple(sorted(outputs))
    part = Stable(suffix.phases[first].number, residue, inputs, result, tuple(sorted(states)))
    return part, replace(suffix, phases=tuple(rest), constants=outside)


class _Taint:
    """Finds what depends on `cells`, or on reads of `states`; `cells` grows with what does."""

    def __init__(self, cells: set[int], states: Iterable[int]) -> None:
        self.cells, self.states = cells, frozenset(states)

    def divide(self, phase: LivePhase) -> tuple[LivePhase, LivePhase]:
        """What of the phase does not depend on them, and what does (wipes, writes and ages among it)."""
        reads, other_reads = _divided(phase.reads, self._read)
        nodes, other_nodes = _divided(phase.nodes, self._node)
        links, other_links = _divided(phase.links, lambda link: self._form(link[1]))
        rest = replace(phase, reads=other_reads, nodes=other_nodes, links=other_links)
        self.cells.update(_added(rest))
        return LivePhase(phase.number, reads=reads, nodes=nodes, links=links), rest

    def _read(self, read: Read) -> bool:
        gate = read.every is None or self._form(read.every)
        return gate and read.state not in self.states and self.cells.isdisjoint(read.address.inputs)

    def _form(self, form: Form) -> bool:
        return all(cell not in self.cells for cell, _ in form.terms)

    def _node(self, node: LiveNode) -> bool:
        return self._form(Form(node.terms)) and all(self._form(up) for *_, up in node.products)


def _divided(
    items: Iterable[Item], test: Callable[[Item], bool]
) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    results = [(item, test(item)) for item in items]
    return tuple(item for item, good in results if good), tuple(item for item, good in results if not good)


def _without(phase: LivePhase, part: LivePhase) -> LivePhase:
    """The phase without a part of it."""
    gone = {id(item) for item in (*part.reads, *part.nodes, *part.links)}
    return replace(
        phase,
        reads=tuple(item for item in phase.reads if id(item) not in gone),
        nodes=tuple(item for item in phase.nodes if id(item) not in gone),
        links=tuple(item for item in phase.links if id(item) not in gone),
    )


def _terms(phases: Iterable[LivePhase]) -> int:
    return sum(len(node.terms) for phase in phases for node in phase.nodes)


def _written(phase: LivePhase) -> Iterator[int]:
    """States that the phase may write or empty."""
    yield from (write.state for write in phase.writes)
    yield from (state for state, _ in phase.wipes)


def _surely_written(residue: Residue) -> Iterator[int]:
    """States that every token writes."""

    def sure(write: LiveWrite) -> bool:
        return residue.facts.range(write.enable)[0] >= 0

    yield from (write.state for phase in residue.phases for write in phase.writes if sure(write))


def _added(phase: LivePhase) -> Iterator[int]:
    """Cells that the phase adds to."""
    yield from (cell for read in phase.reads for _, cell in read.outputs)
    yield from (age.cell for age in phase.ages)
    yield from (cell for cell, _ in phase.links)
    for node in phase.nodes:
        yield from (cell for _, cell in node.sums)
        yield from (cell for _, cell, _, _ in node.products)


def _used(phase: LivePhase) -> Iterator[int]:
    """Cells that the phase reads."""
    forms = [form for _, form in (*phase.wipes, *phase.links)]
    forms += [form for age in phase.ages for form in (age.event, age.step)]
    forms += [up for node in phase.nodes for *_, up in node.products]
    forms += [read.every for read in phase.reads if read.every is not None]
    for write in phase.writes:
        forms += [write.enable, *(form for column in write.columns for _, form in column.parts)]
        yield from write.address.inputs
    for read in phase.reads:
        yield from read.address.inputs
    for node in phase.nodes:
        yield from (cell for cell, _ in node.terms)
    yield from (cell for form in forms for cell, _ in form.terms)
