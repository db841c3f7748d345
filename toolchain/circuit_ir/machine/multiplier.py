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

from toolchain.circuit_ir.builder import CircuitBuilder, Form, LogicBuilder, total
from toolchain.circuit_ir.ir import Affine, Wire, affine
from toolchain.circuit_ir.machine import alu
from toolchain.circuit_ir.machine.alu import NIBBLES

COLUMNS = 4 * NIBBLES
"""Columns of weight 4**c of a 64-bit product."""
CAPACITY = 255


@dataclass
class Column:
    """Wires of one column under construction: each wire's terms and the largest value they can reach."""

    wires: list[Wire]
    room: list[int]


class Multiplier:
    """One lane's multiplier; call the layers in order."""

    def __init__(self, builder: CircuitBuilder, name: str) -> None:
        self.builder = builder
        self.name = name
        self.columns: dict[int, Column] = defaultdict(lambda: Column([], []))

    def _cell(self, column: int, most: int) -> Wire:
        """A wire of `column` with room for a term of at most `most`."""
        cells = self.columns[column]
        for index, room in enumerate(cells.room):
            if room >= most:
                cells.room[index] -= most
                return cells.wires[index]
        wire = self.builder.wire(f"{self.name}.c{column}.{len(cells.wires)}", high=CAPACITY)
        cells.wires.append(wire)
        cells.room.append(CAPACITY - most)
        return wire

    def products(self, logic: LogicBuilder, a: Sequence[Wire], b: Sequence[Wire], signed: Form) -> None:
        """Layer 1. Units: 7 a digit pair."""
        for i, first in enumerate(a):
            for j, second in enumerate(b):
                low, high = self._cell(2 * (i + j), 45), self._cell(2 * (i + j) + 1, 45)
                logic.relu(first, {low: 1}, up=second)
                for threshold in (4, 8, 12):
                    logic.step(affine(first) - threshold, {high: 1, low: -4}, up=second)
        for sign, other in ((a[-1], b), (b[-1], a)):
            negative = affine(sign) - 8 + 16 * (affine(signed) - 1)
            logic.step(negative, {self._cell(2 * NIBBLES, 1): 1})
            for j, digit in enumerate(other):
                logic.step(negative, {self._cell(2 * (NIBBLES + j), 15): 1}, up=15 - affine(digit))

    def split_by_64(self, logic: LogicBuilder) -> None:
        """Layer 2: sums[c] is the column's value d after it, as an affine form."""
        sums: dict[int, list[Affine]] = defaultdict(list)
        for column in sorted(self.columns):
            cells = self.columns[column]
            for index, (wire, room) in enumerate(zip(cells.wires, cells.room, strict=True)):
                most = (CAPACITY - room) // 64
                sums[column].append(affine(wire))
                if not most:
                    continue
                high = self.builder.wire(f"{self.name}.h{column}.{index}", high=most)
                for k in range(1, most + 1):
                    logic.step(affine(wire) - 64 * k, {high: 1})
                sums[column].append(affine(high) * -64)
                sums[column + 3].append(affine(high))
        self.sums = {column: total(forms) for column, forms in sums.items() if column < COLUMNS}

    def split_by_32(self, logic: LogicBuilder) -> None:
        """Layer 3."""
        digits = self.builder.wires(f"{self.name}.d", COLUMNS, high=39)
        for column, form in sorted(self.sums.items()):
            logic.relu(form, {digits[column]: 1})
            for k in range(1, 132 // 32 + 1):
                outputs = {digits[column]: -32.0}
                if column + 2 < COLUMNS:
                    outputs[digits[column + 2]] = 2.0
                logic.step(form - 32 * k, outputs)
        self.digits = digits

    def split_by_16(self, logic: LogicBuilder) -> None:
        """Layer 4."""
        hexits = self.builder.wires(f"{self.name}.x", COLUMNS // 2, high=27)
        for index, wire in enumerate(hexits):
            pair = affine(self.digits[2 * index]) + 4 * affine(self.digits[2 * index + 1])
            logic.relu(pair, {wire: 1})
            for k in range(1, 195 // 16 + 1):
                outputs = {wire: -16.0}
                if index + 1 < len(hexits):
                    outputs[hexits[index + 1]] = 1.0
                logic.step(pair - 16 * k, outputs)
        self.hexits = hexits

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
