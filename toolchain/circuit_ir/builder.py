"""Building blocks of circuits: literals, selections and thresholds, each with its formula."""

from __future__ import annotations

from collections.abc import Sequence

from toolchain.circuit_ir.ir import (
    Affine,
    Circuit,
    Gate,
    Logic,
    Op,
    Unit,
    Wire,
    affine,
    total,
)
from toolchain.circuit_ir.simplify import simplify

Form = Affine | Wire | float


class LogicBuilder:
    """Collects the units of one Logic operation. Outputs map a wire to its weight."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._units: list[Unit] = []

    def relu(self, gate: Form, outputs: dict[Wire, float], up: Form | None = None) -> None:
        """outputs += weight * relu(gate) * up. One hidden unit."""
        self._add(Gate.RELU, gate, outputs, up)

    def step(self, gate: Form, outputs: dict[Wire, float], up: Form | None = None) -> None:
        """outputs += weight * [gate >= 0] * up, for an integer gate. Two hidden units."""
        self._add(Gate.STEP, gate, outputs, up)

    def _add(self, kind: Gate, gate: Form, outputs: dict[Wire, float], up: Form | None) -> None:
        form = affine(gate)
        if form.range()[1] < 0 or (kind is Gate.RELU and form.range()[1] <= 0):
            return
        weights = tuple((wire, weight) for wire, weight in outputs.items() if weight)
        if weights:
            self._units.append(Unit(kind, form, weights, None if up is None else affine(up)))

    def build(self) -> Logic:
        return Logic(self.name, tuple(self._units))


class CircuitBuilder:
    """Collects operations in dependency order and names wires."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.operations: list[Op] = []
        self._wires: dict[str, Wire] = {}

    def wire(self, name: str, low: int = 0, high: int = 1) -> Wire:
        """A new wire; its name must be new."""
        if name in self._wires:
            raise ValueError(f"wire %{name} is declared twice")
        self._wires[name] = Wire(name, low, high)
        return self._wires[name]

    def wires(self, name: str, count: int, low: int = 0, high: int = 1) -> list[Wire]:
        """`count` new wires name0, name1, ..."""
        return [self.wire(f"{name}{index}", low, high) for index in range(count)]

    def add(self, op: Op | LogicBuilder) -> None:
        operation = op.build() if isinstance(op, LogicBuilder) else op
        if isinstance(operation, Logic) and not operation.units:
            return
        self.operations.append(operation)

    def circuit(self, inputs: Sequence[Wire], outputs: Sequence[Wire]) -> Circuit:
        """The finished circuit, without what nobody reads and what is always 0."""
        return simplify(Circuit(self.name, tuple(inputs), tuple(self.operations), tuple(outputs)))


def match(bits: Sequence[Form], value: int) -> Affine:
    """0 where the 0/1 `bits` (little-endian) spell `value`, at most -1 elsewhere: an AND of literals, less one."""
    literals = []
    for index, bit in enumerate(bits):
        literals.append(affine(bit) - 1 if value >> index & 1 else -affine(bit))
    return total(literals)


def negate(bit: Form) -> Affine:
    """1 - bit."""
    return 1 - affine(bit)


def weighted(forms: Sequence[Form], base: int = 2) -> Affine:
    """sum of base**i * forms[i]."""
    return total(affine(form) * float(base**index) for index, form in enumerate(forms))


def select(
    logic: LogicBuilder, code: Sequence[Form], value: int, sources: Sequence[Form], outputs: Sequence[Wire]
) -> None:
    """outputs[i] += [code = value] * sources[i]; one unit an element. Sources are integers up to 255."""
    for source, output in zip(sources, outputs, strict=True):
        form = affine(source)
        if form.terms or form.constant:
            logic.relu(match(code, value) + 1, {output: 1}, up=form)


def staircase_bits(logic: LogicBuilder, form: Form, bits: dict[int, Wire], top: int) -> None:
    """bits[j] += bit j of the integer `form` in 0..top, for every j in `bits`, by thresholds at multiples of 2**j.

    Bit j is the alternating sum of [form >= k * 2**j], k = 1, 2, ...; the thresholds are shared by all bits.
    """
    for threshold in range(1, top + 1):
        logic.step(affine(form) - threshold, staircase_step(threshold, bits))


def staircase_step(threshold: int, bits: dict[int, Wire]) -> dict[Wire, float]:
    """What each bit changes by where an integer reaches `threshold`: the weights of one step of a staircase."""
    changed = {j: wire for j, wire in bits.items() if threshold % (1 << j) == 0}
    return {wire: 1.0 if threshold >> j & 1 else -1.0 for j, wire in changed.items()}
