"""Placement: layers, slots, heads and their limits."""

from dataclasses import replace
from itertools import pairwise

import pytest

from toolchain.circuit_ir import placement
from toolchain.circuit_ir.ir import (
    Affine,
    Circuit,
    Gate,
    Logic,
    Memory,
    Op,
    Rows,
    Unit,
    Value,
    Wire,
    affine,
    total,
)
from toolchain.circuit_ir.placed import PlacedCircuit
from toolchain.circuit_ir.placement import place
from toolchain.circuit_ir.placement_bounds import PlacementBounds, lower_bounds
from toolchain.circuit_ir.plan import slack
from toolchain.circuit_ir.verifier import placed_problems
from toolchain.errors import CompileError
from toolchain.machine_build import placed_circuit
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec

IN = Wire("in")
OUT = Wire("out", high=1 << 20)


def logic(name: str, gate: Affine | Wire, *outputs: Wire, kind: Gate = Gate.RELU, units: int = 1) -> Logic:
    return Logic(name, (Unit(kind, affine(gate), tuple((wire, 1.0) for wire in outputs)),) * units)


def head(name: str, source: Wire, output: Wire, sink: bool = False) -> Memory:
    return Memory(
        name, Rows(), (affine(source),), (Value(affine(source)),), Rows(), ((output, ((0, 1.0),)),), sink=sink
    )


def chain(length: int, *more: Op) -> Circuit:
    """`length` copies one after another, a layer each."""
    wires = [IN, *(Wire(f"c{index}") for index in range(length - 1)), OUT]
    steps = [logic(f"copy{i}", wires[i], wires[i + 1]) for i in range(length)]
    return Circuit("chain", (IN,), (*more, *steps), (OUT,))


def good(circuit: Circuit, spec: MachineSpec = NANO) -> PlacedCircuit:
    placed = place(circuit, spec)
    assert placed_problems(placed, spec) == []
    return placed


def test_a_chain_takes_a_layer_a_link() -> None:
    placed = good(chain(7))
    assert len(placed.layers) == 7
    assert [placed.layer_of(op) for op in placed.circuit.operations] == list(range(7))
    assert (placed.hidden, placed.mlp, placed.heads) == (64, 64, 1)


def test_a_head_and_logic_share_a_layer() -> None:
    mid = Wire("mid")
    placed = good(Circuit("c", (IN,), (head("h", IN, mid), logic("l", mid, OUT)), (OUT,)))
    assert len(placed.layers) == 1
    placed = good(Circuit("c", (IN,), (logic("l", IN, mid), head("h", mid, OUT)), (OUT,)))
    assert len(placed.layers) == 2


def test_sinks_are_late_and_other_heads_early() -> None:
    """Both heads are read by the last link only."""
    for sink, layer in ((False, 0), (True, 3)):
        side = Wire("side")
        wires = [IN, *(Wire(f"c{index}") for index in range(3))]
        steps = [logic(f"copy{i}", wires[i], wires[i + 1]) for i in range(3)]
        last = logic("last", affine(wires[3]) + side, OUT)
        circuit = Circuit("c", (IN,), (head("h", IN, side, sink), *steps, last), (OUT,))
        assert good(circuit).layer_of(circuit.operations[0]) == layer


def test_a_head_waits_for_the_late_one_it_reads() -> None:
    """`late` comes just before the second copy; `reader` needs it, though it could stand earlier by its due date."""
    mid, side, read = Wire("mid"), Wire("side"), Wire("read")
    operations = (
        head("late", IN, side, sink=True),
        head("reader", side, read),
        logic("copy", IN, mid),
        logic("both", affine(mid) + side, OUT),
        logic("last", affine(OUT) + read, Wire("end", high=1 << 20)),
    )
    good(Circuit("c", (IN,), operations, (Wire("end", high=1 << 20),)))


@pytest.mark.parametrize(
    ("limit", "circuit", "needs"),
    [
        ("max_layers", chain(25), "25 for max_layers; it is 24"),
        (
            "max_hidden",
            Circuit("w", tuple(Wire(f"i{n}") for n in range(2050)), (logic("l", IN, OUT),), (OUT,)),
            "2112",
        ),
        (
            "max_mlp",
            Circuit("m", (IN,), (logic("l", IN, OUT, units=6145),), (OUT,)),
            "6145 for max_mlp; it is 6144",
        ),
    ],
)
def test_limits(limit: str, circuit: Circuit, needs: str) -> None:
    if limit == "max_hidden":
        wide = logic("l", total(circuit.inputs), OUT)
        circuit = replace(circuit, operations=(wide,))
    with pytest.raises(CompileError, match=needs) as caught:
        place(circuit, NANO)
    assert caught.value.limit == limit
    assert caught.value.hint


def many_heads(count: int, source: Wire) -> tuple[list[Op], list[Wire]]:
    """Heads that read `source`, and what they bring."""
    wires = [Wire(f"h{n}") for n in range(count)]
    return [head(f"head{n}", source, wire) for n, wire in enumerate(wires)], wires


def test_heads_run_out() -> None:
    """Thirteen heads that only fit one layer take two; a machine with room for them all keeps to one."""
    heads, wires = many_heads(13, IN)
    circuit = Circuit("h", (IN,), (*heads, logic("l", total(wires), OUT)), (OUT,))
    assert sorted(len(layer.heads) for layer in good(circuit).layers) == [1, 12]
    assert len(good(circuit, replace(NANO, heads=13)).layers) == 1
    with pytest.raises(CompileError, match="13 for max_layers; it is 12") as caught:
        place(circuit, replace(NANO, heads=1, max_layers=12))
    assert "more heads a layer" in (caught.value.hint or "")


@pytest.mark.parametrize("sink", [False, True])
def test_what_a_head_reads_comes_sooner_where_heads_are_short(sink: bool) -> None:
    """A thirteenth head fits the layer before twelve others, if what it reads is not as late as it could be."""
    last, side, read = Wire("c1"), Wire("side"), Wire("read")
    heads, wires = many_heads(12, last)
    operations = (
        logic("copy0", IN, Wire("c0")),
        logic("copy1", Wire("c0"), last),
        logic("side", IN, side),
        head("early", side, read, sink),
        *heads,
        logic("all", total([*wires, read]), OUT),
    )
    placed = good(Circuit("h", (IN,), operations, (OUT,)))
    assert [len(layer.heads) for layer in placed.layers] == [0, 1, 12]


def test_other_heads_stay_early_where_heads_are_short() -> None:
    """Two heads of one layer's thirteen have more room: the one that is no sink goes to the first layer."""
    last, reads = Wire("c1"), [Wire("sink"), Wire("plain")]
    heads, wires = many_heads(13, last)
    operations = (
        logic("copy0", IN, Wire("c0")),
        logic("copy1", Wire("c0"), last),
        *(head(read.name, IN, read, read.name == "sink") for read in reads),
        *heads,
        logic("all", total([*wires, *reads]), OUT),
    )
    placed = good(Circuit("h", (IN,), operations, (OUT,)))
    layers = {op.name: placed.layer_of(op) for op in operations}
    assert len(placed.layers) == 4
    assert (layers["plain"], layers["sink"]) == (0, 2)


def test_heads_spread_over_layers() -> None:
    """Where time allows, heads that do not fit one layer go to the next."""
    wires = [Wire(f"h{n}") for n in range(13)]
    heads = [head(f"head{n}", IN, wire) for n, wire in enumerate(wires)]
    steps = [logic("copy0", IN, Wire("c0")), logic("copy1", affine(Wire("c0")) + total(wires), OUT)]
    placed = good(Circuit("h", (IN,), (*heads, *steps), (OUT,)))
    assert [len(layer.heads) for layer in placed.layers] == [12, 1]


@pytest.mark.parametrize(
    ("wires", "hidden", "shares"),
    [
        (10, 64, [16, 16, 16, 16]),
        (60, 64, [16, 16, 16, 16]),
        (61, 128, [64, 64]),
        (300, 320, [256, 64]),
        (560, 576, [256, 256, 64]),
        (1000, 1024, [256, 256, 256, 256]),
        (1900, 1920, [1024, 256, 256, 256, 64, 64]),
        (2040, 2048, [1024, 1024]),
    ],
)
def test_hidden_sizes_are_sums_of_powers_of_four(wires: int, hidden: int, shares: list[int]) -> None:
    inputs = tuple(Wire(f"i{n}") for n in range(wires - 1))
    placed = good(Circuit("w", inputs, (logic("l", total(inputs), OUT),), (OUT,)))
    assert placed.hidden == hidden
    assert [share for _, share in placed.ballast] == shares
    assert [slot for slot, _ in placed.ballast] == list(range(len(shares)))


def wide_chain(width: int, length: int) -> Circuit:
    """`length` generations of `width` wires, each read by the next generation only."""
    generations = [[Wire(f"g{g}.n{n}") for n in range(width)] for g in range(length)]
    steps = [
        Logic(
            f"step{g}", tuple(Unit(Gate.RELU, affine(a), ((b, 1.0),)) for a, b in zip(old, new, strict=True))
        )
        for g, (old, new) in enumerate(pairwise(generations))
    ]
    return Circuit("wide", tuple(generations[0]), tuple(steps), tuple(generations[-1]))


def test_slots_are_reused_after_an_erasure() -> None:
    """Two generations live at a time: 60 wires of eight generations fit 128 - 2 dimensions."""
    circuit = wide_chain(60, 8)
    placed = good(circuit)
    assert placed.hidden == 128
    assert len(placed.slots) == 480
    assert len(set(placed.slots.values())) == 126
    assert sum(len(layer.erase) for layer in placed.layers) == 480 - 126
    inputs = {wire: index % 2 for index, wire in enumerate(circuit.inputs)}
    evaluator = placed.evaluator()
    for _ in range(2):
        assert evaluator.run(inputs) == [index % 2 for index in range(60)]


def test_fresh_slots_come_first() -> None:
    """Nothing is erased while there is room."""
    placed = good(wide_chain(10, 5))
    assert placed.hidden == 64
    assert sum(len(layer.erase) for layer in placed.layers) == 0
    assert len(set(placed.slots.values())) == 50


def test_erasures_count_as_units() -> None:
    placed = good(wide_chain(60, 8))
    assert placed.mlp == 128
    assert all(layer.units == 60 + len(layer.erase) for layer in placed.layers)


def test_a_step_is_two_units() -> None:
    placed = good(Circuit("s", (IN,), (logic("l", affine(IN) - 1, OUT, kind=Gate.STEP, units=3),), (OUT,)))
    assert placed.layers[0].units == 6


def test_a_head_moves_for_one_that_has_no_other_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two heads can stand in layers 0 and 1, of one place each; `late`, which took that of layer 1, moves to layer 2.

    Without the search that is used where heads are short.
    """
    monkeypatch.setattr(placement, "crowded_times", None)
    free, tied, side = Wire("free"), Wire("tied"), Wire("side")
    c = [Wire(f"c{n}") for n in range(3)]
    operations = (
        head("free", IN, free),
        logic("copy0", IN, c[0]),
        head("late", c[0], side),
        head("tied", IN, tied),
        logic("copy1", total([c[0], free, tied]), c[1]),
        logic("copy2", c[1], c[2]),
        logic("end", total([c[2], side]), OUT),
    )
    circuit = Circuit("c", (IN,), operations, (OUT,))
    placed = good(circuit, replace(NANO, heads=1))
    assert len(placed.layers) == 4
    assert [[op.name for op in layer.heads] for layer in placed.layers] == [["free"], ["tied"], ["late"], []]


def test_a_head_waits_for_one_that_found_no_early_place() -> None:
    """Layer 0 has no head left for `third`; what reads it stands one layer later again."""
    wires = [Wire(name) for name in ("first", "second", "third", "fourth")]
    sources = [IN, IN, IN, wires[2]]
    steps = [logic("copy0", IN, Wire("c0")), logic("copy1", Wire("c0"), Wire("c1"))]
    operations = (
        *(head(wire.name, source, wire) for wire, source in zip(wires, sources, strict=True)),
        *steps,
        logic("all", total([Wire("c1"), wires[0], wires[1], wires[3]]), OUT),
    )
    placed = good(Circuit("c", (IN,), operations, (OUT,)), replace(NANO, heads=2))
    assert [len(layer.heads) for layer in placed.layers] == [2, 1, 1]


def test_lower_bounds_of_a_chain() -> None:
    """Three layers; 60 wires are alive beside the next 60 in each, with 60 units."""
    assert lower_bounds(wide_chain(60, 4)) == PlacementBounds(3, 0, 120, 128, 60)


def test_lower_bounds_of_heads_in_a_window() -> None:
    """Four heads that must all stand in the first two layers."""
    wires = [Wire(f"h{n}") for n in range(4)]
    heads = [head(f"head{n}", IN, wire) for n, wire in enumerate(wires)]
    steps = [logic("copy", IN, Wire("c")), logic("sum", total([Wire("c"), *wires]), OUT)]
    assert lower_bounds(Circuit("h", (IN,), (*heads, *steps), (OUT,))).heads == 2


@pytest.mark.parametrize("spec", [NANO, CLASSIC], ids=lambda spec: spec.name)
def test_machines_keep_their_lower_bounds(spec: MachineSpec) -> None:
    """Layers are as few as the longest chain allows; nothing is below what windows force."""
    placed, bounds = placed_circuit(spec), lower_bounds(placed_circuit(spec).circuit)
    assert len(placed.layers) == bounds.layers == 18
    assert placed.heads == spec.heads
    assert placed.heads >= bounds.heads
    assert placed.hidden >= bounds.hidden
    assert placed.mlp >= bounds.mlp


def test_slack_of_circuits() -> None:
    """A chain of three copies has none; a copy of its first input that its last link reads has one layer."""
    side, wires = Wire("side"), [IN, Wire("c0"), Wire("c1")]
    operations = (
        logic("side.copy", IN, side),
        logic("main.copy0", wires[0], wires[1]),
        logic("main.copy1", wires[1], wires[2]),
        logic("main.last", affine(wires[2]) + side, OUT),
    )
    assert slack(Circuit("c", (IN,), operations, (OUT,))) == {"side": 1, "main": 0}


def test_placement_is_the_same_every_time() -> None:
    assert place(wide_chain(60, 8), NANO) == place(wide_chain(60, 8), NANO)
