"""A placement as a plan of its own, without the circuit: names of operations by layer, slots of wires, as text.

    placement of nano, 18 layers, hidden 1088, MLP 3264, heads 12
    ballast 1024@0 64@1
    layer 0
      heads ctx.warp ctx.table
      logic s0.x.select
      erase 17 18
    wires
      17 s0.x.l0.a0 s2.y.l1.n3

A slot's wires stand in one line, in the order in which they have it. With the circuit, a plan is a placed circuit
again; the cache (placement_cache.py) keeps plans.
"""

from collections import defaultdict
from collections.abc import Iterator

from toolchain.circuit_ir.ir import Age, Circuit, Logic, Memory, Op, Wire, op_reads, op_writes
from toolchain.circuit_ir.placed import Layer, PlacedCircuit


class PlanError(ValueError):
    """The text is no plan of the circuit."""


def print_plan(placed: PlacedCircuit) -> str:
    """The plan; ends with a newline."""
    lines = [
        f"placement of {placed.circuit.name}, {len(placed.layers)} layers, hidden {placed.hidden}, "
        f"MLP {placed.mlp}, heads {placed.heads}",
        " ".join(["ballast", *(f"{share}@{slot}" for slot, share in placed.ballast)]),
    ]
    for number, layer in enumerate(placed.layers):
        lines += [
            f"layer {number}",
            " ".join(["  heads", *(op.name for op in layer.heads)]),
            " ".join(["  logic", *(op.name for op in layer.logic)]),
            " ".join(["  erase", *map(str, layer.erase)]),
        ]
    tenants: dict[int, list[str]] = defaultdict(list)
    for wire, slot in placed.slots.items():
        tenants[slot].append(wire.name)
    lines += ["wires", *(f"  {slot} {' '.join(names)}" for slot, names in sorted(tenants.items()))]
    return "\n".join(lines) + "\n"


def parse_plan(text: str, circuit: Circuit) -> PlacedCircuit:
    """The circuit placed as the plan says. Raises PlanError where the text is no plan of it.

    Whether the plan keeps the rules of a placement is the verifier's to say.
    """
    try:
        return _parse(iter(text.splitlines()), circuit)
    except PlanError:
        raise
    except (ValueError, KeyError, IndexError, StopIteration) as error:
        raise PlanError(f"no plan of {circuit.name}: {error}") from error


def _parse(lines: Iterator[str], circuit: Circuit) -> PlacedCircuit:
    begin, layer_count, hidden, mlp, heads = next(lines).split(", ")
    if begin != f"placement of {circuit.name}":
        raise PlanError(f"no plan of {circuit.name}")
    ballast = tuple(_share(part) for part in _words(next(lines), "ballast"))
    operations = {op.name: op for op in circuit.operations}
    layers = tuple(
        _layer(lines, number, operations) for number in range(int(layer_count.removesuffix(" layers")))
    )
    if operations:
        raise PlanError(f"{next(iter(operations))} is in no layer")
    if next(lines) != "wires":
        raise PlanError("no wires")
    found: dict[str, int] = {}
    for line in lines:
        slot, *names = line.split()
        found |= dict.fromkeys(names, int(slot))
    sizes = [int(text.rpartition(" ")[2]) for text in (hidden, mlp, heads)]
    return PlacedCircuit(circuit, layers, _slots(circuit, found), ballast, *sizes)


def _words(line: str, name: str) -> list[str]:
    first, *words = line.split()
    if first != name:
        raise PlanError(f"'{first}' where '{name}' should be")
    return words


def _share(text: str) -> tuple[int, int]:
    share, slot = text.split("@")
    return int(slot), int(share)


def _layer(lines: Iterator[str], number: int, left: dict[str, Op]) -> Layer:
    """The next layer; its operations are taken out of `left`."""
    if next(lines) != f"layer {number}":
        raise PlanError(f"no layer {number}")
    heads: list[Memory | Age] = []
    for name in _words(next(lines), "heads"):
        op = left.pop(name)
        if isinstance(op, Logic):
            raise PlanError(f"{name} is no head")
        heads.append(op)
    logic: list[Logic] = []
    for name in _words(next(lines), "logic"):
        op = left.pop(name)
        if not isinstance(op, Logic):
            raise PlanError(f"{name} is a head")
        logic.append(op)
    return Layer(tuple(heads), tuple(logic), tuple(map(int, _words(next(lines), "erase"))))


def _slots(circuit: Circuit, found: dict[str, int]) -> dict[Wire, int]:
    """Slots by wire, for all wires that the plan names and no other."""
    wires = {wire.name: wire for wire in (*circuit.inputs, *circuit.outputs)}
    for op in circuit.operations:
        wires |= {wire.name: wire for wire in (*op_reads(op), *op_writes(op))}
    return {wires[name]: slot for name, slot in found.items()}
