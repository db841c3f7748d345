"""Circuits as text: `parse_circuit(print_circuit(c)) == c`, and the same for placed circuits.

    circuit nano

    wires 0..1: %raw0, %raw1, %is.val
    inputs: %raw0, %raw1, %is.val

    age exec.age: %is.exec -> %exec.age

    logic adder
      relu(2 %a - %b + 3.5) -> %sum
      step(%a + %b - 16) * (%c - %d) -> %sum, -16 %carry

    memory file, sink
      write [%r0, %r1] not [%n0, -%r1 + 1] where [%w] back 2
      enable [%w]
      wipe %begin
      anchor %begin
      unwritten 7
      d0 = %raw0 back 1
      d1 = %raw1
      read every 8 where [%is.exec]
      %out = d0 + 2 d1

    outputs: %out

`wires LOW..HIGH` declares wires before their first use. `back N` is a tap; `[]` is the address of row 0. A placed
circuit starts with its sizes, and says after the circuit where everything is:

    placed nano: hidden 64, mlp 64, heads 2
    ballast 0: 64

    (the circuit)

    layer 0
      heads: file
      logic: adder
      erase: 5, 6

    slot 1: %raw0, %out

A line that starts with `;` is a comment.
"""

from collections.abc import Iterable, Iterator

from toolchain.circuit_ir.ir import (
    Affine,
    Age,
    Circuit,
    Logic,
    Memory,
    Op,
    Rows,
    Unit,
    Value,
    Wire,
    affine,
    op_reads,
    op_writes,
)
from toolchain.circuit_ir.placed import Layer, PlacedCircuit

Terms = Iterable[tuple[str, float]]


def print_circuit(circuit: Circuit) -> str:
    """The text of a circuit; ends with a newline."""
    return "\n".join(_circuit_lines(circuit, set())) + "\n"


def print_placed(placed: PlacedCircuit) -> str:
    """The text of a placed circuit, its logical circuit included."""
    name, known = placed.circuit.name, set[Wire]()
    lines = [f"placed {name}: hidden {placed.hidden}, mlp {placed.mlp}, heads {placed.heads}"]
    lines += [f"ballast {dimension}: {share}" for dimension, share in placed.ballast]
    lines += ["", *_circuit_lines(placed.circuit, known)]
    for number, layer in enumerate(placed.layers):
        lines += ["", f"layer {number}", *_layer_lines(layer)]
    lines += ["", *_declarations(placed.slots, known)]
    by_slot: dict[int, list[Wire]] = {}
    for wire, slot in placed.slots.items():
        by_slot.setdefault(slot, []).append(wire)
    lines += [f"slot {slot}: {_names(wires)}" for slot, wires in sorted(by_slot.items())]
    return "\n".join(lines) + "\n"


def print_form(form: Affine) -> str:
    """An affine form: `2 %a - %b + 3.5`."""
    return _sum(((str(wire), factor) for wire, factor in form.terms), form.constant)


def print_unit(unit: Unit) -> str:
    """A unit: `step(%a - 4) * (%v) -> %o, -4 %p`."""
    up = "" if unit.up is None else f" * ({print_form(unit.up)})"
    outputs = ", ".join(_term(weight, str(wire)) for wire, weight in unit.outputs)
    return f"{unit.kind}({print_form(unit.gate)}){up} -> {outputs}"


def print_rows(rows: Rows) -> str:
    """An address: `[%a, %b] where [%c] back 2`; the bits' complements, where they are given, follow `not`."""
    parts = [] if rows.every and not rows.bits else [_list(rows.bits)]
    if rows.every:
        parts.append(f"every {rows.every}")
    if rows.complements:
        parts.append(f"not {_list(rows.complements)}")
    if rows.literals:
        parts.append(f"where {_list(rows.literals)}")
    return " ".join(parts) + _back(rows.tap)


def print_number(value: float) -> str:
    """The shortest decimal that reads back as the same number; integers without a point."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1 << 53 else repr(float(value))


def _circuit_lines(circuit: Circuit, known: set[Wire]) -> Iterator[str]:
    """`known`: wires declared so far; those declared here are added."""
    yield f"circuit {circuit.name}"
    yield ""
    yield from _declarations(circuit.inputs, known)
    yield f"inputs: {_names(circuit.inputs)}".rstrip()
    for op in circuit.operations:
        yield ""
        yield from _declarations((*op_reads(op), *op_writes(op)), known)
        yield from _op_lines(op)
    yield ""
    yield from _declarations(circuit.outputs, known)
    yield f"outputs: {_names(circuit.outputs)}".rstrip()


def _declarations(wires: Iterable[Wire], known: set[Wire]) -> Iterator[str]:
    """A line for each range among the wires not yet declared, in order of appearance."""
    groups: dict[tuple[int, int], list[Wire]] = {}
    for wire in wires:
        if wire not in known:
            known.add(wire)
            groups.setdefault((wire.low, wire.high), []).append(wire)
    for (low, high), group in groups.items():
        yield f"wires {low}..{high}: {_names(group)}"


def _op_lines(op: Op) -> Iterator[str]:
    match op:
        case Logic():
            yield f"logic {op.name}"
            yield from (f"  {print_unit(unit)}" for unit in op.units)
        case Memory():
            yield from _memory_lines(op)
        case Age():
            twice = "" if op.twice is None else f", twice {print_form(op.twice)}"
            yield f"age {op.name}: {print_form(op.event)}{twice} -> {op.output}"


def _memory_lines(op: Memory) -> Iterator[str]:
    yield f"memory {op.name}" + (", sink" if op.sink else "")
    yield f"  write {print_rows(op.write)}"
    yield f"  enable {_list(op.enable)}"
    if op.wipe is not None:
        yield f"  wipe {print_form(op.wipe)}"
    if op.anchor != affine(1):
        yield f"  anchor {print_form(op.anchor)}"
    if op.unwritten is not None:
        yield f"  unwritten {op.unwritten}"
    yield from (f"  d{index} = {_value(value)}" for index, value in enumerate(op.values))
    yield f"  read {print_rows(op.read)}"
    for wire, terms in op.outputs:
        yield f"  {wire} = {_sum((f'd{dimension}', weight) for dimension, weight in terms)}"


def _layer_lines(layer: Layer) -> Iterator[str]:
    for title, items in (
        ("heads", [op.name for op in layer.heads]),
        ("logic", [op.name for op in layer.logic]),
        ("erase", [str(slot) for slot in layer.erase]),
    ):
        if items:
            yield f"  {title}: {', '.join(items)}"


def _value(value: Value) -> str:
    return print_form(value.form) + _back(value.tap)


def _back(tap: int) -> str:
    return f" back {tap}" if tap else ""


def _list(forms: Iterable[Affine]) -> str:
    return f"[{', '.join(map(print_form, forms))}]"


def _names(wires: Iterable[Wire]) -> str:
    return ", ".join(map(str, wires))


def _term(factor: float, name: str) -> str:
    sign, size = ("-" if factor < 0 else ""), abs(factor)
    return f"{sign}{name}" if size == 1 else f"{sign}{print_number(size)} {name}"


def _sum(terms: Terms, constant: float = 0) -> str:
    parts = [_term(factor, name) for name, factor in terms]
    if constant or not parts:
        parts.append(print_number(constant))
    joined = [f"- {part[1:]}" if part.startswith("-") else f"+ {part}" for part in parts[1:]]
    return " ".join([parts[0], *joined])
