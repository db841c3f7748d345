"""Replaces wires by affine forms of others, everywhere in a circuit."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from toolchain.circuit_ir.ir import Affine, Age, Circuit, Logic, Memory, Op, Rows, Unit, Wire, affine, total

Forms = Mapping[Wire, Affine]


def substitute(circuit: Circuit, forms: Forms) -> Circuit:
    """The circuit where each wire of `forms` is read as its form. The outputs stay as they are."""
    return replace(circuit, operations=tuple(_operation(op, forms) for op in circuit.operations))


def substituted(form: Affine, forms: Forms) -> Affine:
    """The form where each wire of `forms` stands for its form."""
    if not any(wire in forms for wire, _ in form.terms):
        return form
    return total([*(forms.get(wire, affine(wire)) * factor for wire, factor in form.terms), form.constant])


def _operation(op: Op, forms: Forms) -> Op:
    match op:
        case Logic():
            return replace(op, units=tuple(_unit(unit, forms) for unit in op.units))
        case Age():
            twice = None if op.twice is None else substituted(op.twice, forms)
            return replace(op, event=substituted(op.event, forms), twice=twice)
        case Memory():
            return replace(
                op,
                write=_rows(op.write, forms),
                enable=_all(op.enable, forms),
                values=tuple(replace(value, form=substituted(value.form, forms)) for value in op.values),
                read=_rows(op.read, forms),
                wipe=None if op.wipe is None else substituted(op.wipe, forms),
                anchor=substituted(op.anchor, forms),
            )


def _all(items: Iterable[Affine], forms: Forms) -> tuple[Affine, ...]:
    return tuple(substituted(item, forms) for item in items)


def _rows(rows: Rows, forms: Forms) -> Rows:
    return replace(
        rows,
        bits=_all(rows.bits, forms),
        literals=_all(rows.literals, forms),
        complements=_all(rows.complements, forms),
    )


def _unit(unit: Unit, forms: Forms) -> Unit:
    up = None if unit.up is None else substituted(unit.up, forms)
    return replace(unit, gate=substituted(unit.gate, forms), up=up)
