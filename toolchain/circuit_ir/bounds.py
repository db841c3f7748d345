"""The bounds pass: proves that stock layers compute a placed circuit exactly in a dtype, or refuses to emit it.

Assumes the wires' ranges (ranges.py says which are proved and which are promises) and checks, for the dtype:

    ages         an age counter's powers of two drift less than its thresholds can bear
    norm         the data's energy cannot move an RMSNorm that the ballast makes the identity
    gates        a pre-activation whose size matters fits the significand; for the others the sign decides
    products     silu(gate) * up fits the significand
    sums         every wire's value fits the significand
    addresses    literals of a row, of a write's enabling and of a wipe are decided with room to spare
    noise        float32 only: rounding noise, followed from layer to layer, stays below every step's flat part
    output       the right token's logit wins by more than rounding can take away

bfloat16 arithmetic on these integers is exact (8 significant bits; accumulation is float32), so its noise is zero,
but for the age counter, whose powers of two survive rounding. Sources of the facts used: docs/NUMERICS.md.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from toolchain.circuit_ir import ranges
from toolchain.circuit_ir.ir import Affine, Age, Gate, Logic, Memory, Rows, Unit, Wire
from toolchain.circuit_ir.placed import PlacedCircuit
from toolchain.circuit_ir.ranges import Contribution, Exclusion, Piece, one_line_of_each_slot, pieces
from toolchain.circuit_ir.tokens import CODE_BITS
from toolchain.errors import CompileError
from toolchain.machine_spec import MachineSpec
from toolchain.weights_backend.numerics import BALLAST_LOG, STATE_UNIT, Dtype, age_decay

READ_ERROR = 2.0**-22
"""Relative error of a value read from state in float32, where the read's scale is no power of two: its square, the
root of that and the product round, 2**-24 each. Else a stored bit comes back exact, and so does a digit where a
head's rows are a power of four; where an unwritten row is read along, prefill's scale is one rounding off a power of
two, which a bit does not show and a digit can."""
UNIT_ERROR = 2.0**-22
"""Relative error of one hidden unit's output in float32: gate, silu, product and sum round once each. Integers are
exact, so it counts only where the inputs are noisy."""
MARGIN = 0.25
"""Half the flat part of a float32 step, and what an address literal may be off by."""


@dataclass(frozen=True)
class Extreme:
    """The largest of a kind: its value and where it is."""

    value: float = 0.0
    place: str = ""

    def worse(self, value: float, place: str) -> "Extreme":
        return Extreme(value, place) if value > self.value else self


@dataclass
class BoundsReport:
    """What was checked and the worst case of each kind. `problems` is empty in a proof."""

    dtype: Dtype
    units: int = 0
    heads: int = 0
    worst: dict[str, Extreme] = field(default_factory=lambda: defaultdict(Extreme))
    problems: list[str] = field(default_factory=list)
    noise: dict[Wire, float] = field(default_factory=dict)
    """Proved bound of each wire's rounding noise; a wire that is left out has none."""

    def note(self, kind: str, value: float, place: str) -> None:
        self.worst[kind] = self.worst[kind].worse(value, place)

    def check(self, kind: str, value: float, limit: float, place: str) -> None:
        """Records the value; over the limit it is a problem."""
        self.note(kind, value, place)
        if value > limit:
            self.problems.append(f"{place}: {kind} reaches {value:g}; {self.dtype} is exact up to {limit:g}")

    def lines(self) -> list[str]:
        """The report as text."""
        head = f"{self.dtype}: {self.units} units, {self.heads} heads, {len(self.problems)} problems"
        rows = [f"  {kind:<28} {item.value:<12.6g} {item.place}" for kind, item in sorted(self.worst.items())]
        return [head, *rows, *(f"  problem: {problem}" for problem in self.problems)]


class _Prover:
    def __init__(self, placed: PlacedCircuit, spec: MachineSpec, dtype: Dtype) -> None:
        self.placed = placed
        self.dtype = dtype
        self.exact = 2.0**dtype.significand
        self.report = BoundsReport(dtype)
        self.noise: dict[Wire, float] = defaultdict(float)
        self.exclusion = Exclusion(one_line_of_each_slot(placed.circuit))
        self.clean = set(_added_up(placed))
        self.even_rows = (spec.head_rows.bit_length() - 1) % 2 == 0

    def run(self) -> BoundsReport:
        self._norm()
        self._erasures()
        for number, layer in enumerate(self.placed.layers):
            arriving: dict[Wire, float] = defaultdict(float)
            for op in layer.heads:
                self.report.heads += 1
                self._head(op, f"layer {number + 1}, {op.name}", arriving)
            self._settle(arriving)
            self._logic(number + 1, layer.logic)
        self._output()
        self.report.noise = {wire: value for wire, value in self.noise.items() if value}
        return self.report

    # --- norms and sums

    def _norm(self) -> None:
        """The data's energy against the ballast's, whose least dimension is 2**BALLAST_LOG times its share."""
        slots: dict[int, float] = defaultdict(float)
        for wire, slot in self.placed.slots.items():
            slots[slot] = max(slots[slot], abs(wire.high), abs(wire.low))
        energy = sum(value * value for value in slots.values())
        largest = max(share for _, share in self.placed.ballast) ** 0.5 * 2.0**BALLAST_LOG
        self.report.check("norm: data energy", energy, largest**2 * 2.0**-24, "residual stream")
        for wire in self.placed.slots:
            self.report.check("sums: wire value", max(abs(wire.low), abs(wire.high)), self.exact, str(wire))

    def _erasures(self) -> None:
        """An erased slot held integers only: silu is no relu between them."""
        ages = {
            self.placed.slots[op.output]
            for layer in self.placed.layers
            for op in layer.heads
            if isinstance(op, Age)
        }
        for number, layer in enumerate(self.placed.layers):
            for slot in sorted(ages & set(layer.erase)):
                self.report.problems.append(f"layer {number + 1}: slot {slot} holds an age and is erased")

    def _settle(self, arriving: dict[Wire, float]) -> None:
        for wire, value in arriving.items():
            self.noise[wire] += value

    def form_noise(self, form: Affine) -> float:
        """Rounding noise of an affine form."""
        if self.dtype is Dtype.BFLOAT16:
            return 0.0
        return sum(abs(factor) * self.noise[wire] for wire, factor in form.terms)

    # --- heads

    def _head(self, op: Memory | Age, place: str, arriving: dict[Wire, float]) -> None:
        if isinstance(op, Age):
            self._age(op, place)
            return
        for rows in (op.write, op.read):
            self._rows(rows, place)
        for form in (*op.enable, *([] if op.wipe is None else [op.wipe])):
            self._literal(form, place)
        stored = []
        digits = any(value.form.range()[1] > 1 for value in op.values)
        exact = self.even_rows or op.read.every > 0 or (op.unwritten is not None and not digits)
        for value in op.values:
            high = max(value.form.range()[1], 0.0)
            self.report.check("state: stored value", high, self.exact, place)
            stored.append(self._stored_noise(value.form))
        for wire, terms in op.outputs:
            error = (0.0 if exact else wire.high * READ_ERROR) + sum(
                abs(weight) * stored[d] for d, weight in terms
            )
            self._arrive(arriving, wire, 0.0 if self.dtype is Dtype.BFLOAT16 else error, place)

    def _age(self, op: Age, place: str) -> None:
        """In float32 a threshold is flat from 7/8 to 5/4 of a power of two. In bfloat16 its two ramps are rounded apart
        between powers of two, so the decay may drift no farther than the stream rounds away: half a last place."""
        for form in (op.event, *([] if op.twice is None else [op.twice])):
            self._literal(form, place)
        drift = age_decay(self.dtype).drift * self._oldest(op.output)
        below = 1 / 8 if self.dtype is Dtype.FLOAT32 else 2.0 ** -(self.dtype.significand + 1)
        self.report.check("ages: drift of the logarithm", drift, -math.log2(1 - below), place)

    def _oldest(self, age: Wire) -> float:
        """The age above the last threshold: a gate 4 * 2**n * age tells n from n + 1."""
        factors = (
            abs(factor)
            for op in self.placed.circuit.operations
            if isinstance(op, Logic)
            for unit in op.units
            for wire, factor in unit.gate.terms
            if wire == age
        )
        return math.log2(max(factors, default=4.0) / 4) + 1

    def _stored_noise(self, form: Affine) -> float:
        """Noise of relu(form) where it is open: a subtracted flag is then 0, and exactly so if only added up."""
        if self.dtype is Dtype.BFLOAT16:
            return 0.0
        counted = [(w, f) for w, f in form.terms if f > 0 or w not in self.clean]
        return sum(abs(factor) * self.noise[wire] for wire, factor in counted)

    def _rows(self, rows: Rows, place: str) -> None:
        error = sum(self.form_noise(form) for form in (*rows.bits, *rows.literals))
        self.report.check("addresses: literal noise", error, MARGIN, place)
        width = len(rows.bits) + len(rows.literals) + 0.5
        self.report.check("addresses: literals", 2 * width, self.exact, place)

    def _literal(self, form: Affine, place: str) -> None:
        self.report.check("addresses: literal noise", self.form_noise(form), MARGIN, place)
        high = form.range()[1]
        self.report.check("addresses: literal size", abs(high) * STATE_UNIT / self.exact, STATE_UNIT, place)

    def _arrive(self, arriving: dict[Wire, float], wire: Wire, error: float, place: str) -> None:
        """A bus is written by heads of which one answers at a time: the worst counts, not their sum."""
        arriving[wire] = max(arriving[wire], error)
        self.report.note("noise: read from state", error, f"{place} -> {wire}")

    # --- logic

    def _logic(self, layer: int, operations: tuple[Logic, ...]) -> None:
        parts: dict[Wire, list[Contribution]] = defaultdict(list)
        place = ""
        for op in operations:
            place = f"layer {layer}, {op.name}"
            for unit in op.units:
                self.report.units += 1
                self._unit(unit, place)
                for wire, weight in unit.outputs:
                    parts[wire].append(Contribution(unit, weight))
        if self.dtype is Dtype.FLOAT32:
            for wire, items in parts.items():
                error = self._sum_noise(items)
                self.noise[wire] += error
                self.report.check("noise: wire", self.noise[wire], MARGIN, f"layer {layer}, {wire}")

    def _unit(self, unit: Unit, place: str) -> None:
        low, high = unit.gate.range()
        if _is_age(unit.gate):
            return  # powers of two: exact in relu's flat or exactly representable part (machine/context.py)
        ramp = self._ramp(unit, high)
        if self.dtype is Dtype.BFLOAT16 and not _integer(unit.gate):
            self.report.problems.append(f"{place}: a gate is not an integer: {unit.gate}")
        self.report.check("gates: pre-activation", ramp, self.exact, place)
        self.report.note("gates: most negative", -low, place)
        if unit.up is None:
            return
        up = max(abs(end) for end in unit.up.range())
        self.report.check("gates: up", up, self.exact, place)
        self.report.check("products: gate * up", ramp * up, self.exact, place)

    def _ramp(self, unit: Unit, high: float) -> float:
        """The largest value a hidden unit's silu takes."""
        if unit.kind is Gate.RELU:
            return max(high, 0.0)
        slope = self.dtype.step_slope
        return max(slope * high + (1.0 if slope == 1 else 1.5), 0.0)

    def _unit_noise(self, unit: Unit, place: str) -> float:
        """Noise of gate(form) * up. A step is flat around every integer, so only its own rounding remains."""
        high = unit.gate.range()[1]
        ramp = self._ramp(unit, high)
        up = 1.0 if unit.up is None else max(abs(end) for end in unit.up.range())
        gate_noise = self.form_noise(unit.gate)
        up_noise = 0.0 if unit.up is None else self.form_noise(unit.up)
        if unit.kind is Gate.STEP:
            self.report.check("noise: at a step", gate_noise, MARGIN, place)
            return (2 * ramp * up * UNIT_ERROR if gate_noise or up_noise else 0.0) + up_noise
        if _is_age(unit.gate):
            return 4 * UNIT_ERROR
        rounding = ramp * up * UNIT_ERROR if gate_noise or up_noise else 0.0
        return gate_noise * up + max(ramp, 1.0) * up_noise + rounding

    def _sum_noise(self, items: list[Contribution]) -> float:
        """Noise of a wire: the worst of each group of mutually exclusive pieces, and the groups' sum."""
        error = 0.0
        for group in self.exclusion.groups(pieces(items)):
            error += max(self._piece_noise(piece) for piece in group)
        return error

    def _piece_noise(self, piece: Piece) -> float:
        return sum(
            abs(m.weight) * self._unit_noise(m.unit, f"unit of {m.unit.outputs[0][0]}") for m in piece.members
        )

    # --- output

    def _output(self) -> None:
        """Logits are sums of CODE_BITS halves; the right one leads by at least 1."""
        noise = sum(self.noise[wire] for wire in self.placed.circuit.outputs)
        largest = CODE_BITS / 2
        rounding = 0.0 if self.dtype is Dtype.FLOAT32 else largest * 2.0**-self.dtype.significand
        self.report.check("output: logit noise", 2 * noise + 2 * rounding, 0.5, "lm_head")


def _added_up(placed: PlacedCircuit) -> Iterator[Wire]:
    """Wires that are sums of plain gates with positive weights: where all are shut the sum is exactly 0."""
    mixed = {
        wire
        for op in placed.circuit.operations
        if isinstance(op, Logic)
        for unit in op.units
        for wire, weight in unit.outputs
        if weight < 0 or unit.up is not None
    }
    return (wire for wire in placed.slots if wire not in mixed)


def _is_age(form: Affine) -> bool:
    return any(wire.name.endswith(".age") for wire in form.wires)


def _integer(form: Affine) -> bool:
    return all(value == int(value) for value in (*(factor for _, factor in form.terms), form.constant))


def analyse(placed: PlacedCircuit, spec: MachineSpec, dtype: Dtype) -> BoundsReport:
    """The report, problems included."""
    return _Prover(placed, spec, dtype).run()


def prove(placed: PlacedCircuit, spec: MachineSpec, dtype: Dtype) -> BoundsReport:
    """The report of a proof. Raises CompileError naming the first places that are not exact."""
    report = analyse(placed, spec, dtype)
    if report.problems:
        shown = "; ".join(report.problems[:3])
        raise CompileError(
            f"the circuit is not exact in {dtype}: {shown}",
            hint=f"{len(report.problems)} places in all; see docs/CIRCUITS.md for how circuits keep their bounds",
        )
    return report


def promises(placed: PlacedCircuit) -> Iterator[str]:
    """What the proof takes for granted: a line for each group of wires whose range intervals do not show.

    These follow from what the wires mean together (a digit of a resolved sum, one age at a time); the evaluator
    checks every one of them at every token it runs.
    """
    found = ranges.analyse(placed.circuit)
    proved = sum(item.proved for item in found)
    yield f"ranges: {proved} of {len(found)} wires proved by intervals; the others are promised by their circuits"
    groups: dict[str, list[ranges.WireRange]] = defaultdict(list)
    for item in found:
        if not item.proved:
            groups[re.sub(r"[0-9]+", "*", item.wire.name)].append(item)
    for name, items in sorted(groups.items()):
        low, high = min(item.low for item in items), max(item.high for item in items)
        wires = [item.wire for item in items]
        least, most = min(wire.low for wire in wires), max(wire.high for wire in wires)
        yield f"  {name:<24} {len(items):>5} wires in {least}..{most}; intervals give {low:g}..{high:g}"
