"""Slots to cells: which integer a residual slot holds in which half-layer."""

from collections.abc import Iterable, Mapping, Sequence
from math import floor

from runtime.sparse.network import Cell, Form, Link, NotExactError
from runtime.sparse.tensors import Row
from toolchain.weights_backend.slot_ranges import SlotRange

TOLERANCE = 1e-5
"""Relative distance from an integer that is rounding of the norms, not a weight of its own."""


def integer(value: float, place: str) -> int:
    """The integer that `value` is up to rounding. Raises NotExactError where it is none."""
    nearest = round(value)
    if abs(value - nearest) > TOLERANCE * max(1.0, abs(value)):
        raise NotExactError(f"{place}: {value:g} is no integer")
    return nearest


class SlotCells:
    """The cell that each slot holds now, and all cells made so far. `constants` are slots no layer changes."""

    def __init__(self, ranges: Iterable[SlotRange], constants: Mapping[int, float]) -> None:
        self.constants = constants
        self.cells: list[Cell] = []
        self.ages: set[int] = set()
        """Cells that count tokens, for slots that hold powers of two."""
        self._ranges: dict[int, list[SlotRange]] = {}
        for item in ranges:
            self._ranges.setdefault(item.slot, []).append(item)
        self._now: dict[int, int] = {}
        self._read: set[int] = set()
        self._taps: dict[tuple[int, int], int] = {}

    def new(self, low: int, high: int) -> int:
        self.cells.append(Cell(low, high))
        return len(self.cells) - 1

    def place(self, slot: int, cell: int) -> None:
        self._now[slot] = cell

    def tapped(self, cell: int, tap: int) -> int:
        """The cell of what `cell` held `tap` tokens ago."""
        if not tap:
            return cell
        if (cell, tap) not in self._taps:
            source = self.cells[cell]
            self.cells.append(Cell(min(source.low, 0), max(source.high, 0), tap, cell))
            self._taps[cell, tap] = len(self.cells) - 1
        return self._taps[cell, tap]

    def linear(self, row: Row, scale: float = 1.0, tap: int = 0) -> tuple[dict[int, float], float]:
        """A weight row over `scale` as coefficients of cells and a constant. What it reads counts as read."""
        terms: dict[int, float] = {}
        constant = 0.0
        for slot, weight in row:
            if slot in self.constants:
                constant += weight * self.constants[slot] / scale
            elif slot in self._now:
                cell = self._now[slot]
                self._read.add(cell)
                terms[self.tapped(cell, tap)] = weight / scale
        return terms, constant

    def form(
        self, row: Row, scale: float, place: str, tap: int = 0
    ) -> tuple[tuple[tuple[int, int], ...], float]:
        """The same with integer coefficients; the constant may be any number."""
        terms, constant = self.linear(row, scale, tap)
        whole = sorted((cell, integer(weight, place)) for cell, weight in terms.items())
        return tuple((cell, weight) for cell, weight in whole if weight), constant

    def test(self, row: Row, scale: float, place: str) -> Form:
        """A form that is at least 0 exactly where the row over `scale` is above 0, with room to spare."""
        terms, constant = self.form(row, scale, place)
        return positive(terms, constant, place)

    def constant_of(self, row: Row) -> tuple[bool, float]:
        """Whether a weight row reads anything that changes, and its constant."""
        changes = any(slot in self._now for slot, _ in row)
        return changes, sum(weight * self.constants[slot] for slot, weight in row if slot in self.constants)

    def is_age(self, slot: int) -> bool:
        return self._now.get(slot) in self.ages

    def least(self, slot: int) -> int:
        """Lower end of what the slot holds now."""
        return self.cells[self._now[slot]].low if slot in self._now else 0

    def age(self, slot: int, most: int) -> int:
        """A new cell that counts tokens."""
        cell = self.new(0, most)
        self.ages.add(cell)
        self._now[slot] = cell
        return cell

    def holds(self, slot: int) -> bool:
        return slot in self._now

    def erase(self, slot: int) -> None:
        """The slot is 0 from the next half-layer on, but for what this one adds."""
        self._now.pop(slot, None)

    def targets(self, slots: Iterable[int], time: int) -> tuple[dict[int, int], list[Link]]:
        """The cell that what half-layer `time` adds to each slot goes into, and links where a new cell takes over."""
        cells, links = {}, []
        for slot in sorted(set(slots)):
            cell = self._now.get(slot)
            if cell is None or cell in self._read:
                fresh = self.new(*self._range(slot, time))
                if cell is not None:
                    links.append(Link(fresh, Form(((cell, 1),))))
                cell = self._now[slot] = fresh
            cells[slot] = cell
        return cells, links

    def _range(self, slot: int, time: int) -> tuple[int, int]:
        known = [item for item in self._ranges.get(slot, []) if item.start <= time]
        if not known:
            raise NotExactError(f"half-layer {time} writes slot {slot}, whose range is not reported")
        low, high = known[-1].low, known[-1].high
        return (0, 0) if low is None or high is None else (low, high)


def positive(terms: Sequence[tuple[int, int]], constant: float, place: str) -> Form:
    """A form that is at least 0 exactly where terms + constant is above 0; the constant is no integer."""
    threshold = floor(constant)
    if not 0.2 < constant - threshold < 0.8:
        raise NotExactError(f"{place}: {constant:g} decides too closely")
    return Form(tuple(terms), threshold)
