"""A layer's MLP as nodes: hidden units whose gates differ only in the constant are one table over one integer."""

from collections import defaultdict
from dataclasses import dataclass
from math import gcd

import numpy as np

from runtime.sparse.cells import SlotCells, integer
from runtime.sparse.network import MOST_AGE, Form, Node, NotExactError, Phase
from runtime.sparse.tensors import Row, SparseMatrix
from toolchain.weights_backend.numerics import SHARPNESS

LARGEST_TABLE = 1 << 13
"""Values of one form; the forms of a machine stay far below."""
AGE_TOLERANCE = 0.05
"""What rounding may do to a threshold of an age counter, whose powers of two are no integers."""


@dataclass(frozen=True)
class Unit:
    """relu(slope * terms + offset) * up added to slots; gate and up in units of one."""

    terms: tuple[tuple[int, int], ...]
    offset: float
    up: Form
    outputs: Row
    slope: float
    age: int | None = None
    """The age counter the gate reads, instead of `terms`."""


def mlp_phase(cells: SlotCells, time: int, gate: SparseMatrix, up: SparseMatrix, down: SparseMatrix) -> Phase:
    """The MLP in half-layer `time`. Raises NotExactError where its units are not integer arithmetic."""
    place = f"layer {time // 2}, MLP"
    columns = down.transposed
    units, erased = list[Unit](), list[int]()
    for index, row in enumerate(gate.rows()):
        if row:
            slot = _erases(cells, row, up.row(index), columns.row(index))
            if slot is None:
                units.append(_unit(cells, row, up.row(index), columns.row(index), f"{place}, unit {index}"))
            elif cells.holds(slot):
                erased.append(slot)
    for slot in erased:
        cells.erase(slot)
    targets, links = cells.targets((slot for unit in units for slot, _ in unit.outputs), time)
    groups: dict[object, list[Unit]] = defaultdict(list)
    for unit in units:
        groups[unit.terms, unit.age].append(unit)
    nodes = tuple(_node(cells, members, targets, place) for members in groups.values())
    return Phase(nodes=nodes, links=tuple(links))


def _erases(cells: SlotCells, gate: Row, up: Row, down: Row) -> int | None:
    """The slot that the unit takes away: x - relu(x), of an integer that is at least 0."""
    if len(gate) != 1 or len(down) != 1 or down[0] != (gate[0][0], -1.0) or gate[0][1] != SHARPNESS:
        return None
    slot = gate[0][0]
    changes, constant = cells.constant_of(up)
    return slot if not changes and abs(constant * SHARPNESS - 1) < 1e-6 and cells.least(slot) >= 0 else None


def _unit(cells: SlotCells, gate: Row, up: Row, down: Row, place: str) -> Unit:
    up_terms, up_constant = cells.form(up, 1 / SHARPNESS, place)
    up_form = Form(up_terms, integer(up_constant, place))
    if any(cells.is_age(slot) for slot, _ in gate):
        real, constant = cells.linear(gate, SHARPNESS)
        if len(real) != 1 or up_terms:
            raise NotExactError(f"{place}: an age counter with other terms")
        (age, slope), *_ = real.items()
        return Unit((), constant, up_form, down, slope, age)
    terms, constant = cells.form(gate, SHARPNESS, place)
    slope = gcd(*(factor for _, factor in terms)) or 1
    return Unit(tuple((cell, factor // slope) for cell, factor in terms), constant, up_form, down, slope)


def _node(cells: SlotCells, units: list[Unit], targets: dict[int, int], place: str) -> Node:
    """All units of one gate form: a table column for each distinct function of it."""
    first = units[0]
    if first.age is not None:
        terms, low, count = ((first.age, 1),), 0, MOST_AGE + 1
    else:
        terms = first.terms
        low = sum(min(c * cells.cells[cell].low, c * cells.cells[cell].high) for cell, c in terms)
        high = sum(max(c * cells.cells[cell].low, c * cells.cells[cell].high) for cell, c in terms)
        count = high - low + 1
        if count > LARGEST_TABLE:
            raise NotExactError(f"{place}: a gate has {count} values")
    values: dict[tuple[Form, int], np.ndarray] = defaultdict(lambda: np.zeros(count))
    for unit in units:
        ramp = np.maximum(_gates(unit, low, count), 0)
        for slot, weight in unit.outputs:
            scale, up = (unit.up.constant, Form()) if not unit.up.terms else (1, unit.up)
            values[up, targets[slot]] += weight * scale * ramp
    return _tabulate(terms, low, values, place, AGE_TOLERANCE if first.age is not None else 1e-6)


def _gates(unit: Unit, low: int, count: int) -> np.ndarray:
    """The pre-activation at each value of the form."""
    points = np.arange(low, low + count)
    if unit.age is None:
        return unit.slope * points + unit.offset
    powers = np.where(points == 0, 0.0, 2.0 ** -points.astype(np.float64))
    return unit.slope * powers + unit.offset


def _tabulate(
    terms: tuple[tuple[int, int], ...],
    low: int,
    values: dict[tuple[Form, int], np.ndarray],
    place: str,
    tolerance: float,
) -> Node:
    """Columns that are integer multiples of one another are stored once."""
    columns: dict[bytes, int] = {}
    table = list[np.ndarray]()
    sums, products = list[tuple[int, int]](), list[tuple[int, int, int, Form]]()
    for (up, cell), column in values.items():
        whole = np.rint(column)
        if np.abs(whole - column).max() > tolerance:
            raise NotExactError(f"{place}: a sum of units is no integer")
        if not whole.any():
            continue
        weight = 1
        if up.terms:
            weight = int(np.gcd.reduce(np.abs(whole).astype(np.int64))) * int(np.sign(whole[whole != 0][0]))
            whole = whole / weight
        stored = whole.astype(np.int32)
        index = columns.setdefault(stored.tobytes(), len(table))
        if index == len(table):
            table.append(stored)
        if up.terms:
            products.append((index, cell, weight, up))
        else:
            sums.append((index, cell))
    grid = np.stack(table, axis=1) if table else np.zeros((1, 0), dtype=np.int32)
    return Node(terms, low, grid, tuple(sums), tuple(products))
