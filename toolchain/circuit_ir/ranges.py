"""Interval analysis: which wires are proved to stay in their promised range, from the ranges of what they read.

A wire is the sum of its units' contributions. Plain interval addition is too coarse, so contributions are first
grouped, with two facts that hold by construction:

- units whose gates differ only in the constant, with the same `up`, are one function of one integer times `up`; its
  extremes are found by listing the integer's values (a staircase, a triangle, `x - 16 [x >= 16]`);
- two pieces exclude each other if their gates cannot both be open: the sum of the gates stays below what two open
  gates need (literals of one code cancel), or they need control lines of which the ROM raises one at most.

The largest total is then the sum over groups of mutually exclusive pieces of each group's largest.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from toolchain.circuit_ir.ir import Affine, Age, Circuit, Gate, Logic, Memory, Unit, Wire, total
from toolchain.machine_spec import STAGES
from toolchain.mir.isa import ALU_SLOTS

EXHAUSTIVE = 4096
"""Most values of one integer that are listed."""


@dataclass(frozen=True)
class Contribution:
    """One unit's part in a wire."""

    unit: Unit
    weight: float


@dataclass(frozen=True)
class Piece:
    """Contributions that are one function of their gate, or a single one; open where the gate is at least `floor`."""

    members: tuple[Contribution, ...]
    gate: Affine
    floor: float

    @cached_property
    def range(self) -> tuple[float, float]:
        """Least and greatest value; 0 is among them, as the gate can be closed."""
        first = self.members[0].unit
        low, high = first.gate.range()
        offset = first.gate.constant
        if not high - low <= EXHAUSTIVE or not all(factor == int(factor) for _, factor in first.gate.terms):
            return _sum(_product_range(member) for member in self.members)
        values = [self._at(low - offset + step) for step in range(int(high - low) + 1)]
        up = (1.0, 1.0) if first.up is None else first.up.range()
        ends = [value * factor for value in (min(values), max(values)) for factor in up]
        return min(0.0, *ends), max(0.0, *ends)

    def _at(self, linear: float) -> float:
        result = 0.0
        for member in self.members:
            gate = linear + member.unit.gate.constant
            result += member.weight * (float(gate >= 0) if member.unit.kind is Gate.STEP else max(gate, 0.0))
        return result


def _product_range(member: Contribution) -> tuple[float, float]:
    low, high = gate_range(member.unit)
    up_low, up_high = (1.0, 1.0) if member.unit.up is None else member.unit.up.range()
    ends = [member.weight * gate * up for gate in (low, high) for up in (up_low, up_high)]
    return min(0.0, *ends), max(0.0, *ends)


def gate_range(unit: Unit) -> tuple[float, float]:
    """Interval of gate(form)."""
    low, high = unit.gate.range()
    if unit.kind is Gate.STEP:
        return float(low >= 0), float(high >= 0)
    return max(low, 0.0), max(high, 0.0)


def _sum(ranges: Iterable[tuple[float, float]]) -> tuple[float, float]:
    low = high = 0.0
    for least, most in ranges:
        low, high = low + least, high + most
    return low, high


def pieces(contributions: Sequence[Contribution]) -> list[Piece]:
    """Groups contributions that are functions of one integer."""
    groups: dict[tuple[object, Affine | None], list[Contribution]] = defaultdict(list)
    for item in contributions:
        groups[item.unit.gate.terms, item.unit.up].append(item)
    result = []
    for members in groups.values():
        widest = max(members, key=lambda m: m.unit.gate.constant + (m.unit.kind is Gate.STEP))
        result.append(Piece(tuple(members), widest.unit.gate, 0.0 if widest.unit.kind is Gate.STEP else 1.0))
    return result


class Exclusion:
    """Decides whether two gates can be open in one token. Remembers answers by the gates' contents."""

    def __init__(self, one_of: Sequence[frozenset[Wire]]) -> None:
        self.rivals: dict[Wire, set[Wire]] = defaultdict(set)
        for wires in one_of:
            for wire in wires:
                self.rivals[wire] |= wires - {wire}
        self.answers: dict[tuple[Affine, float, Affine, float], bool] = {}
        self.lines: dict[tuple[Affine, float], frozenset[Wire]] = {}

    def needed(self, gate: Affine, floor: float) -> frozenset[Wire]:
        """Control lines that must be 1 for the gate to open."""
        key = gate, floor
        if key not in self.lines:
            high = gate.range()[1]
            self.lines[key] = frozenset(
                wire
                for wire, factor in gate.terms
                if wire in self.rivals and factor > 0 and high - factor < floor
            )
        return self.lines[key]

    def excludes(self, first: Piece, second: Piece) -> bool:
        key = first.gate, first.floor, second.gate, second.floor
        if key not in self.answers:
            self.answers[key] = self._decide(first, second)
        return self.answers[key]

    def _decide(self, first: Piece, second: Piece) -> bool:
        one, other = self.needed(first.gate, first.floor), self.needed(second.gate, second.floor)
        if any(self.rivals[wire] & other for wire in one):
            return True
        ages = _age(first.gate), _age(second.gate)
        if None not in ages and ages[0] != ages[1]:
            return True
        return total((first.gate, second.gate)).range()[1] < first.floor + second.floor

    def groups(self, parts: Sequence[Piece]) -> list[list[Piece]]:
        """A cover of `parts` by groups whose members exclude each other, first fit."""
        cover: list[list[Piece]] = []
        for part in parts:
            home = next(
                (group for group in cover if all(self.excludes(part, other) for other in group)), None
            )
            if home is None:
                cover.append([part])
            else:
                home.append(part)
        return cover


def _age(gate: Affine) -> tuple[str, str] | None:
    """The age that a gate asks for, as the pair of wires [age > n - 1] and [age > n] it compares."""
    over = [(wire.name, factor) for wire, factor in gate.terms if ".over" in wire.name]
    if len(over) == 2 and {factor for _, factor in over} == {1, -1}:
        first, second = sorted(over, key=lambda item: -item[1])
        return first[0], second[0]
    return None


def one_line_of_each_slot(circuit: Circuit) -> list[frozenset[Wire]]:
    """Groups of ROM lines of which the encoder raises one at most: a slot's operations (mir/encoding.py)."""
    read = (wire for op in circuit.operations if isinstance(op, Memory) for wire, _ in op.outputs)
    wires = {wire.name: wire for wire in (*circuit.inputs, *read)}
    operations = ("sum", "sel", "ld", "lds", "shl", "popc", "clz", "brev", "shfl", "ballot", "min", "max")
    compared = ("eq", "ne", "ltu", "geu", "lts", "ges")
    fills = [("shr",), ("sarfill",), *((f"table{bit}",) for bit in range(4))]
    groups = []
    for stage in range(STAGES):
        for slot in ALU_SLOTS:
            for lines in (compared, *((*operations, *fill) for fill in fills)):
                names = [f"rom{stage}.{slot}.{_bit(line)}" for line in lines]
                groups.append(frozenset(wires[name] for name in names if name in wires))
    tables = [f"rom{stage}.y.table.b{bit}" for stage in range(STAGES) for bit in range(4)]
    for name in tables:
        if name in wires:
            stage = name[3]
            others = [f"rom{stage}.y.{line}.b0" for line in ("shr", "sarfill")]
            groups += [frozenset((wires[name], wires[other])) for other in others if other in wires]
    return [group for group in groups if len(group) > 1]


def _bit(line: str) -> str:
    return f"table.b{line[-1]}" if line.startswith("table") else f"{line}.b0"


@dataclass(frozen=True)
class WireRange:
    """What analysis found for a wire: the interval its operations give, and whether that is within the promise."""

    wire: Wire
    low: float
    high: float

    @property
    def proved(self) -> bool:
        return self.wire.low <= self.low and self.high <= self.wire.high


def contributions(circuit: Circuit) -> dict[Wire, list[Contribution]]:
    """Each wire's contributions from logic; heads are added as units that read their stored values."""
    result: dict[Wire, list[Contribution]] = defaultdict(list)
    for op in circuit.operations:
        match op:
            case Logic():
                for unit in op.units:
                    for wire, weight in unit.outputs:
                        result[wire].append(Contribution(unit, weight))
            case Memory():
                for wire, terms in op.outputs:
                    result[wire].append(Contribution(_read_unit(op, terms), 1.0))
            case Age():
                continue
    return result


def _read_unit(op: Memory, terms: tuple[tuple[int, float], ...]) -> Unit:
    """A read as a unit: open where the address is, bringing any combination of values that can be stored at once."""
    gate = total(literal - 1 for literal in op.read.literals) + 1
    highs = [(weight, max(op.values[dimension].form.range()[1], 0.0)) for dimension, weight in terms]
    most = sum(weight * high for weight, high in highs)
    return Unit(Gate.RELU, gate, (), Affine(((Wire(f"{op.name}.stored", 0, int(most)), 1),)))


def analyse(circuit: Circuit) -> list[WireRange]:
    """The range of every wire that operations write, age wires left out."""
    exclusion = Exclusion(one_line_of_each_slot(circuit))
    result = []
    for wire, parts in contributions(circuit).items():
        least = most = 0.0
        for group in exclusion.groups(pieces(parts)):
            least += min(0.0, *(piece.range[0] for piece in group))
            most += max(0.0, *(piece.range[1] for piece in group))
        result.append(WireRange(wire, least, most))
    return result
