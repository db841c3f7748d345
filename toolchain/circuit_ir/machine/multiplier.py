"""The multiplier: a 64-bit product of eight by eight digits in six layers, one half of it kept.

    1  products    a's digit is split as 4 * h + l (h, l in 0..3); h * b and l * b are at most 45 and are summed in
                   columns of weight 4**c, a column in as many wires as keeps each at most 255
    2  split by 64 v = 64 h + l; 64 = 4**3, so h goes three columns up
    3  split by 32 column sums d <= 132: d = 32 h + l; 2 h goes two columns up; sums are <= 39
    4  split by 16 pairs of columns D = d + 4 d' <= 195: D = 16 h + l, h one digit up; digit sums are <= 27
    5  carries     of bytes and their low digits
    6  carries resolved; the low or the high eight digits become the result

For a signed high half, 2**32 - b is added at digit 8 where a is negative, and likewise for a.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from toolchain.circuit_ir.builder import CircuitBuilder, Form, LogicBuilder
from toolchain.circuit_ir.ir import Affine, Wire, affine
from toolchain.circuit_ir.machine import alu
from toolchain.circuit_ir.machine.alu import NIBBLES

COLUMNS = 4 * NIBBLES
"""Columns of weight 4**c of a 64-bit product."""
CAPACITY = 255


@dataclass(frozen=True)
class Term:
    """A partial product: which column it belongs to and the most it can add there."""

    column: int
    most: int


@cache
def cells() -> tuple[tuple[Term, ...], tuple[int, ...], dict[tuple[int, int], int]]:
    """All terms in order, the cell of each, and each cell's largest value, keyed (column, index in column).

    First fit: a column takes as many cells as keep each at most CAPACITY.
    """
    pairs = [(i, j) for i in range(NIBBLES) for j in range(NIBBLES)]
    terms = [Term(2 * (i + j) + half, 45) for i, j in pairs for half in range(2)]
    corrections = [Term(2 * NIBBLES, 1), *(Term(2 * (NIBBLES + j), 15) for j in range(NIBBLES))]
    terms += 2 * corrections
    filled: dict[tuple[int, int], int] = {}
    places = []
    for term in terms:
        index = 0
        while filled.get((term.column, index), 0) + term.most > CAPACITY:
            index += 1
        filled[term.column, index] = filled.get((term.column, index), 0) + term.most
        places.append(index)
    return tuple(terms), tuple(places), filled


class Multiplier:
    """One lane's multiplier; call the layers in order."""

    def __init__(self, builder: CircuitBuilder, name: str) -> None:
        self.builder = builder
        self.name = name
        self.cells: dict[tuple[int, int], Wire] = {}
        self.sums: dict[int, Wire] = {}
        self.digits: list[Wire] = []
        self.hexits: list[Wire] = []
        self.adder = alu.Adder([], [], [], [])

    def products(self, logic: LogicBuilder, a: Sequence[Wire], b: Sequence[Wire], signed: Form) -> None:
        """Layer 1. Units: 7 a digit pair."""
        terms, places, filled = cells()
        self.cells = {
            key: self.builder.wire(f"{self.name}.c{key[0]}.{key[1]}", high=most)
            for key, most in sorted(filled.items())
        }
        homes = iter([self.cells[term.column, place] for term, place in zip(terms, places, strict=True)])
        for first in a:
            for second in b:
                low, high = next(homes), next(homes)
                logic.relu(first, {low: 1}, up=second)
                for threshold in (4, 8, 12):
                    logic.step(affine(first) - threshold, {high: 1, low: -4}, up=second)
        for sign, other in ((a[-1], b), (b[-1], a)):
            negative = affine(sign) - 8 + 16 * (affine(signed) - 1)
            logic.step(negative, {next(homes): 1})
            for digit in other:
                logic.step(negative, {next(homes): 1}, up=15 - affine(digit))

    def split_by_64(self, logic: LogicBuilder) -> None:
        """Layer 2: sums[c] is the column's value after it: its cells modulo 64, and the 64s of three columns below."""
        most: dict[int, int] = defaultdict(int)
        for (column, _), wire in self.cells.items():
            most[column] += min(63, wire.high)
            most[column + 3] += wire.high // 64
        self.sums = {
            column: self.builder.wire(f"{self.name}.v{column}", high=high)
            for column, high in sorted(most.items())
            if column < COLUMNS
        }
        for (column, _), wire in self.cells.items():
            logic.relu(wire, {self.sums[column]: 1})
            carried = {self.sums[column + 3]: 1.0} if column + 3 in self.sums else {}
            for k in range(1, wire.high // 64 + 1):
                logic.step(affine(wire) - 64 * k, carried | {self.sums[column]: -64})

    def split_by_32(self, logic: LogicBuilder) -> None:
        """Layer 3: d = 32 h + l, and 2 h more two columns up."""
        forms = [affine(self.sums.get(column, 0)) for column in range(COLUMNS)]
        self.digits = self._split(logic, "d", forms, 32, carry_to=2, carry_weight=2)

    def split_by_16(self, logic: LogicBuilder) -> None:
        """Layer 4: pairs of columns as digits of 16, h one digit up."""
        pairs = [
            affine(low) + 4 * affine(high)
            for low, high in zip(self.digits[::2], self.digits[1::2], strict=True)
        ]
        self.hexits = self._split(logic, "x", pairs, 16, carry_to=1, carry_weight=1)

    def _split(
        self, logic: LogicBuilder, name: str, forms: list[Affine], unit: int, carry_to: int, carry_weight: int
    ) -> list[Wire]:
        """wires[i] = forms[i] mod unit + carry_weight * (forms[i - carry_to] div unit)."""
        tops = [int(form.range()[1]) for form in forms]
        wires = []
        for index, top in enumerate(tops):
            carry = carry_weight * (tops[index - carry_to] // unit) if index >= carry_to else 0
            wires.append(self.builder.wire(f"{self.name}.{name}{index}", high=min(top, unit - 1) + carry))
        for index, (form, top) in enumerate(zip(forms, tops, strict=True)):
            logic.relu(form, {wires[index]: 1})
            for k in range(1, top // unit + 1):
                outputs = {wires[index]: float(-unit)}
                if index + carry_to < len(wires):
                    outputs[wires[index + carry_to]] = float(carry_weight)
                logic.step(form - unit * k, outputs)
        return wires

    def carries(self, logic: LogicBuilder) -> None:
        """Layer 5."""
        self.adder = alu.new_adder(self.builder, f"{self.name}.sum", NIBBLES)
        alu.add_carries(logic, self.adder, self.hexits, 1)

    def resolve(self, logic: LogicBuilder, active: Form, high: Form, result: Sequence[Wire]) -> None:
        """Layer 6: the low half where `active` and not `high`, the high half where both."""
        for byte in range(NIBBLES):
            chosen = affine(active) + high - 1 if byte >= NIBBLES // 2 else affine(active) - high
            digits = [2 * byte, 2 * byte + 1]
            outputs = [result[index % NIBBLES] for index in digits]
            sums = [self.hexits[index] for index in digits]
            alu.resolve_sum(logic, self.adder, byte, ((sums, chosen),), 0, chosen, outputs)
