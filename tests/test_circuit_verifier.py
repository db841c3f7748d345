"""Every rule of circuits and placements, broken on purpose."""

from dataclasses import replace

import pytest

from toolchain.circuit_ir.ir import Affine, Age, Circuit, Gate, Logic, Memory, Rows, Unit, Value, Wire, affine
from toolchain.circuit_ir.machine.build import build_machine
from toolchain.circuit_ir.placed import Layer, PlacedCircuit
from toolchain.circuit_ir.placement import place
from toolchain.circuit_ir.verifier import (
    circuit_problems,
    placed_problems,
    verify_circuit,
    verify_placed,
)
from toolchain.errors import VerifyError
from toolchain.machine_spec import CLASSIC, NANO, WIDE, MachineSpec

A, B, OUT, P = Wire("a"), Wire("b"), Wire("o", high=2), Wire("p")
DIGIT = Wire("digit", high=15)
INPUTS = (A, B, DIGIT)
ONE_ROW = Rows()


def unit(gate: Affine | Wire, *outputs: tuple[Wire, float], kind: Gate = Gate.RELU) -> Unit:
    return Unit(kind, affine(gate), outputs or ((OUT, 1),))


def logic(*units: Unit, name: str = "sum") -> Logic:
    return Logic(name, units)


def memory(**changes: object) -> Memory:
    head = Memory(
        "mem", Rows((affine(A),)), (affine(B),), (Value(affine(B)),), Rows((affine(A),)), ((OUT, ((0, 1),)),)
    )
    return replace(head, **changes)  # pyright: ignore[reportArgumentType]


def circuit(*operations: Logic | Memory | Age, inputs: tuple[Wire, ...] = INPUTS) -> Circuit:
    return Circuit("c", inputs, operations, (OUT,))


GOOD = circuit(logic(unit(A), unit(affine(B) - A)))


@pytest.mark.parametrize("spec", [NANO, CLASSIC, WIDE], ids=lambda spec: spec.name)
def test_machines_are_good(spec: MachineSpec) -> None:
    verify_circuit(build_machine(spec), spec)
    verify_placed(place(build_machine(spec), spec), spec)


def test_good_circuits_are_good() -> None:
    assert circuit_problems(GOOD, NANO) == []
    assert circuit_problems(circuit(memory(values=(Value(affine(DIGIT)),), read=ONE_ROW)), NANO) == []


SEVEN = tuple(affine(A) for _ in range(7))
BROKEN = {
    "%a is both 0..1 and 0..2": circuit(logic(unit(Wire("a", high=2)))),
    "%o has the empty range 3..2": Circuit(
        "c", INPUTS, (logic(unit(A, (Wire("o", 3, 2), 1))),), (Wire("o", 3, 2),)
    ),
    "sum: reads %p, which nothing before it writes": circuit(logic(unit(P))),
    "sum: writes %a, an input": circuit(logic(unit(B, (A, 1)))),
    "again: writes %p, which sum reads before": circuit(
        logic(unit(A, (P, 1)), name="first"), logic(unit(P)), logic(unit(B, (P, 1)), name="again")
    ),
    "sum: another operation has the same name": circuit(logic(unit(A)), logic(unit(B))),
    "sum: the terms of %b + %a are not sorted, in relu(%b + %a) -> %o": circuit(
        logic(unit(Affine(((B, 1), (A, 1)))))
    ),
    "sum: %a stands twice in %a + %a, in relu(%a + %a) -> %o": circuit(logic(unit(Affine(((A, 1), (A, 1)))))),
    "sum: %a has coefficient 0 in 0 %a, in relu(0 %a) -> %o": circuit(logic(unit(Affine(((A, 0),))))),
    "sum: a unit writes nothing, in relu(%a) -> ": circuit(logic(Unit(Gate.RELU, affine(A), ()))),
    "sum: %o is written with weight 0, in relu(%a) -> 0 %o": circuit(logic(unit(A, (OUT, 0)))),
    "sum: the gate of a step is not an integer, in step(%a - 0.5) -> %o": circuit(
        logic(unit(affine(A) - 0.5, kind=Gate.STEP))
    ),
    "sum: the gate of a step is not an integer, in step(0.5 %a) -> %o": circuit(
        logic(unit(0.5 * affine(A), kind=Gate.STEP))
    ),
    "sum: the gate of a step reads %p, an age, in step(%p) -> %o": circuit(
        Age("age", affine(A), P), logic(unit(P, kind=Gate.STEP))
    ),
    "age: its event %digit can be more than 1": circuit(Age("age", affine(DIGIT), OUT)),
    "age: its twice %digit can be more than 1": circuit(Age("age", affine(A), OUT, affine(DIGIT))),
    "mem: its write address has 128 rows; a head has 64": circuit(memory(write=Rows(SEVEN))),
    "mem: its read address has 65 rows; a head has 64": circuit(
        memory(read=Rows(every=65), anchor=affine(A))
    ),
    "mem: its write address is 4 tokens back; the convolution reaches 3": circuit(memory(write=Rows(tap=4))),
    "mem: its read address bit 0, %digit, is not 0 or 1": circuit(memory(read=Rows((affine(DIGIT),)))),
    "mem: its write address bit 0, -%a, is not 0 or 1": circuit(memory(write=Rows((-affine(A),)))),
    "mem: its read address literal %a + 1 can be more than 1": circuit(
        memory(read=Rows((), (affine(A) + 1,)))
    ),
    "mem: its write address has 2 complements of 1 bits": circuit(
        memory(write=Rows((affine(A),), complements=(affine(B), affine(B))))
    ),
    "mem: its write address complement %digit can be more than 1": circuit(
        memory(write=Rows((affine(A),), complements=(affine(DIGIT),)))
    ),
    "mem: stores 127 values; a head has room for 126 and its ballast": circuit(
        memory(values=(Value(affine(B)),) * 127)
    ),
    "mem: d0 is read 4 tokens back; the convolution reaches 3": circuit(
        memory(values=(Value(affine(B), 4),))
    ),
    "mem: %o reads d1; there are 1 values": circuit(memory(outputs=((OUT, ((1, 1),)),))),
    "mem: %o reads d0 twice": circuit(memory(outputs=((OUT, ((0, 1), (0, 1))),))),
    "mem: stores %digit, which can be more than 1, and is not read at a constant row": circuit(
        memory(values=(Value(affine(DIGIT)),))
    ),
    "mem: reads 4 rows, and its anchor is constant": circuit(memory(read=Rows(every=4))),
    "mem: its unwritten row 64 is none of the head's 64": circuit(memory(unwritten=64)),
}


@pytest.mark.parametrize("problem", BROKEN)
def test_logical_rules(problem: str) -> None:
    assert problem in circuit_problems(BROKEN[problem], NANO)
    with pytest.raises(VerifyError):
        verify_circuit(BROKEN[problem], NANO)


def test_all_problems_are_counted() -> None:
    broken = circuit(logic(unit(P)), memory(values=(Value(affine(B), 4), Value(affine(B), 5))))
    with pytest.raises(VerifyError, match=r"reads %p, which nothing before it writes \(and 2 more\)"):
        verify_circuit(broken, NANO)


# --- Placements


def chain(length: int) -> Circuit:
    """o is a, copied `length` times; b is read by the first copy only."""
    wires = [A, *(Wire(f"w{index}") for index in range(length - 1)), OUT]
    steps = [logic(unit(affine(wires[0]) + B, (wires[1], 1)), name="copy0")]
    steps += [logic(unit(wires[i], (wires[i + 1], 1)), name=f"copy{i}") for i in range(1, length)]
    return Circuit("chain", (A, B), tuple(steps), (OUT,))


CHAIN = chain(3)
W0, W1 = Wire("w0"), Wire("w1")
COPIES = tuple(op for op in CHAIN.operations if isinstance(op, Logic))


def placed(
    slots: dict[Wire, int],
    erase: tuple[tuple[int, ...], ...] = ((), (), ()),
    logics: tuple[tuple[Logic, ...], ...] = tuple((op,) for op in COPIES),
    **changes: object,
) -> PlacedCircuit:
    layers = tuple(Layer((), ops, slots) for ops, slots in zip(logics, erase, strict=True))
    whole = PlacedCircuit(CHAIN, layers, slots, ((0, 64),), 64, 64, 1)
    return replace(whole, **changes)  # pyright: ignore[reportArgumentType]


APART = {A: 1, B: 2, W0: 3, W1: 4, OUT: 5}
SHARED = {A: 1, B: 2, W0: 3, W1: 1, OUT: 2}
MANY = Logic("copy0", (unit(affine(A) + B, (W0, 1)),) * 65)


def test_good_placements_are_good() -> None:
    assert placed_problems(placed(APART), NANO) == []
    assert placed_problems(placed(SHARED, ((1, 2), (), ())), NANO) == []
    assert placed_problems(placed(SHARED, ((1,), (2,), ())), NANO) == []
    assert placed_problems(placed({**APART, W1: 1}, ((), (1,), ())), NANO) == []


MISPLACED = {
    "copy2 is not placed": placed(APART, logics=((COPIES[0],), (COPIES[1],), ())),
    "copy1 is in layer 1's MLP and in layer 2's MLP": placed(
        APART, logics=((COPIES[0],), (COPIES[1],), COPIES[1:])
    ),
    "copy0 is in layer 0's MLP, and not in the circuit": placed(
        APART, logics=((MANY,), (COPIES[1],), COPIES[2:])
    ),
    "copy1 in layer 0's MLP reads %w0, which copy0 writes in layer 0's MLP": placed(
        APART, logics=(COPIES[:2], (), COPIES[2:])
    ),
    "%w1 has no slot": placed({wire: slot for wire, slot in APART.items() if wire != W1}),
    "%w1 has slot 64, outside the stream's 64": placed({**APART, W1: 64}),
    "%w1 has slot 0, which is ballast": placed({**APART, W1: 0}),
    "slot 1 is not erased between %a and %w1": placed(SHARED, ((2,), (), ())),
    "slot 1 is 2 times erased between %a and %w1": placed(SHARED, ((1, 2), (1,), ())),
    "slot 3 is erased in layer 1's MLP, where nothing ends": placed(APART, ((), (3,), ())),
    "slot 9 is erased in layer 0's MLP, where nothing ends": placed(APART, ((9,), (), ())),
    "ballast dimension 0 has share 32, which is no power of four": placed(APART, ballast=((0, 32), (6, 32))),
    "ballast dimension 64 is outside the stream's 64": placed(APART, ballast=((64, 64),)),
    "two ballast shares have the same dimension": placed(APART, ballast=((0, 16),) * 4),
    "the ballast's shares sum to 16; the hidden size is 64": placed(APART, ballast=((0, 16),)),
    "4096 residual dimensions; machine 'nano' has at most 2048": placed(
        APART, ballast=((0, 4096),), hidden=4096
    ),
    "6208 MLP units; machine 'nano' has at most 6144": placed(APART, mlp=6208),
    "13 heads; machine 'nano' has at most 12": placed(APART, heads=13),
    "layer 0 has 65 units; the circuit's MLP has 64": placed(
        APART, logics=((MANY,), (COPIES[1],), COPIES[2:])
    ),
}


@pytest.mark.parametrize("problem", MISPLACED)
def test_placement_rules(problem: str) -> None:
    assert problem in placed_problems(MISPLACED[problem], NANO)
    with pytest.raises(VerifyError):
        verify_placed(MISPLACED[problem], NANO)


def test_live_wires_do_not_share_a_slot() -> None:
    late = Logic("copy2", (unit(affine(W1) + W0, (OUT, 1)),))
    whole = replace(CHAIN, operations=(*COPIES[:2], late))
    together = placed({**APART, W1: 3}, logics=((COPIES[0],), (COPIES[1],), (late,)), circuit=whole)
    problem = "slot 3: %w1 is written in layer 1's MLP, while %w0 lives to layer 2's MLP"
    assert placed_problems(together, NANO) == [problem]


def test_negative_wires_are_not_erased() -> None:
    low = Wire("a", -1)
    copies = (Logic("copy0", (unit(affine(low) + B, (W0, 1)),)), *COPIES[1:])
    whole = Circuit("chain", (low, B), copies, (OUT,))
    slots = {low: 1, B: 2, W0: 3, W1: 1, OUT: 5}
    problems = placed_problems(
        placed(slots, ((1,), (), ()), tuple((op,) for op in copies), circuit=whole), NANO
    )
    assert problems == ["slot 1: %a may be negative, so that it cannot be erased"]


def test_ages_are_not_erased() -> None:
    age = Age("age", affine(A), W0)
    whole = Circuit("c", (A, B), (age, logic(unit(W0, (W1, 1)), name="copy1"), COPIES[2]), (OUT,))
    slots = {A: 1, B: 2, W0: 3, W1: 4, OUT: 3}
    layers = (Layer((age,), (whole.operations[1],), ()), Layer((), (COPIES[2],), (3,)))  # pyright: ignore[reportArgumentType]
    problems = placed_problems(PlacedCircuit(whole, layers, slots, ((0, 64),), 64, 64, 1), NANO)
    assert problems == ["slot 3: %w0 is an age, so that it cannot be erased"]


def test_halves_are_kept_apart() -> None:
    head = memory()
    whole = Circuit("c", INPUTS, (head,), (OUT,))
    slots = {wire: index + 1 for index, wire in enumerate((*INPUTS, OUT))}
    layers = (Layer((), (head,), ()),)  # pyright: ignore[reportArgumentType]
    problems = placed_problems(PlacedCircuit(whole, layers, slots, ((0, 64),), 64, 64, 1), NANO)
    assert problems == ["mem is in layer 0's MLP, and is not logic"]


def test_layers_and_heads_are_limited() -> None:
    deep = place(chain(24), NANO)
    assert placed_problems(deep, NANO) == []
    assert placed_problems(deep, replace(NANO, max_layers=20)) == ["24 layers; machine 'nano' has at most 20"]
    wide = place(Circuit("w", INPUTS, (memory(), memory(name="two")), (OUT,)), NANO)
    assert wide.heads == 2
    assert placed_problems(replace(wide, heads=1), NANO) == ["layer 0 has 2 heads; the circuit has 1"]


def test_an_output_that_nothing_writes_is_zero() -> None:
    whole = Circuit("zero", (A,), (logic(unit(A, (P, 1))),), (OUT, P))
    assert circuit_problems(whole, NANO) == []
    finished = place(whole, NANO)
    assert placed_problems(finished, NANO) == []
    assert finished.evaluator().run({A: 1}) == [0, 1]


def test_sums_of_many_writers() -> None:
    """A wire may be written by several operations before it is read."""
    two = circuit(
        logic(unit(A, (P, 1)), name="one"), logic(unit(affine(B) - A, (P, 1)), name="two"), logic(unit(P))
    )
    assert circuit_problems(two, NANO) == []
