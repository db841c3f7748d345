"""Takes out of a circuit what cannot matter: wires that are always 0, units that never fire, results nobody reads."""

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace

from toolchain.circuit_ir.ir import (
    Affine,
    Age,
    Circuit,
    Gate,
    Logic,
    Memory,
    Op,
    Rows,
    Unit,
    Wire,
    op_reads,
    op_writes,
)

Bound = Callable[[Affine], float]
"""A number that an affine form never exceeds."""


def upper_bound(form: Affine) -> float:
    """Over the ranges of the form's wires, each on its own."""
    return form.range()[1]


def simplify(circuit: Circuit, zeros: Set[Wire] = frozenset(), most: Bound = upper_bound) -> Circuit:
    """The same circuit, given that the wires `zeros` are always 0 and that forms stay within `most`."""
    folding = _Folding(set(circuit.inputs) - zeros, zeros, most)
    operations = [folded for op in circuit.operations if (folded := folding.operation(op)) is not None]
    return replace(circuit, operations=tuple(live_operations(operations, circuit.outputs)))


def live_operations(operations: Sequence[Op], outputs: Iterable[Wire]) -> list[Op]:
    """Operations somebody reads, without the outputs nobody reads. A memory that has none at all is the host's."""
    needed, kept = set(outputs), list[Op]()
    for op in reversed(operations):
        live = _without_unread(op, needed)
        if live is not None:
            kept.append(live)
            needed.update(op_reads(live))
    return kept[::-1]


def _without_unread(op: Op, needed: set[Wire]) -> Op | None:
    if isinstance(op, Logic):
        units: list[Unit] = []
        for unit in op.units:
            outputs = tuple((wire, weight) for wire, weight in unit.outputs if wire in needed)
            if outputs:
                units.append(unit if len(outputs) == len(unit.outputs) else replace(unit, outputs=outputs))
        return replace(op, units=tuple(units)) if units else None
    if isinstance(op, Memory):
        outputs = tuple((wire, terms) for wire, terms in op.outputs if wire in needed)
        return replace(op, outputs=outputs) if outputs or not op.outputs else None
    return op if op.output in needed else None


class _Folding:
    """Takes operations in order; a wire that none of them writes is 0."""

    def __init__(self, written: set[Wire], zeros: Set[Wire], most: Bound) -> None:
        self._written = written
        self._zeros = zeros
        self._most = most

    def operation(self, op: Op) -> Op | None:
        """What is left of an operation, or None if it only adds zeros."""
        match op:
            case Logic():
                units = tuple(folded for unit in op.units if (folded := self._unit(unit)) is not None)
                folded = replace(op, units=units) if units else None
            case Memory():
                folded = self._memory(op)
            case Age():
                event = self._form(op.event)
                twice = None if op.twice is None else self._form(op.twice)
                if twice is not None and self._most(twice) <= 0:
                    twice = None
                folded = replace(op, event=event, twice=twice) if self._most(event) > 0 else None
        if folded is not None:
            self._written.update(op_writes(folded))
        return folded

    def _form(self, form: Affine) -> Affine:
        if all(wire in self._written for wire, _ in form.terms):
            return form
        return Affine(tuple(term for term in form.terms if term[0] in self._written), form.constant)

    def _forms(self, forms: Iterable[Affine]) -> tuple[Affine, ...]:
        return tuple(self._form(form) for form in forms)

    def _unit(self, unit: Unit) -> Unit | None:
        gate = self._form(unit.gate)
        most = self._most(gate)
        if most < 0 or (unit.kind is Gate.RELU and most <= 0):
            return None
        up = None if unit.up is None else self._form(unit.up)
        if up is not None and not up.terms and not up.constant:
            return None
        return unit if gate is unit.gate and up is unit.up else replace(unit, gate=gate, up=up)

    def _memory(self, op: Memory) -> Memory | None:
        write, read, enable = self._rows(op.write), self._rows(op.read), self._forms(op.enable)
        if any(self._most(form) <= 0 for form in (*write.literals, *read.literals, *enable)):
            return None
        values = tuple(replace(value, form=self._form(value.form)) for value in op.values)
        nonzero = {index for index, value in enumerate(values) if self._most(value.form) > 0}
        outputs = [
            (wire, tuple(term for term in terms if term[0] in nonzero))
            for wire, terms in op.outputs
            if wire not in self._zeros
        ]
        outputs = tuple((wire, terms) for wire, terms in outputs if terms)
        if not outputs and op.outputs:
            return None
        wipe = None if op.wipe is None else self._form(op.wipe)
        if wipe is not None and self._most(wipe) <= 0:
            wipe = None
        anchor = self._form(op.anchor)
        return replace(
            op,
            write=write,
            enable=enable,
            values=values,
            read=read,
            outputs=outputs,
            wipe=wipe,
            anchor=anchor,
        )

    def _rows(self, rows: Rows) -> Rows:
        return replace(
            rows,
            bits=self._forms(rows.bits),
            literals=self._forms(rows.literals),
            complements=self._forms(rows.complements),
        )
