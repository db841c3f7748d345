"""The bounds pass: what it proves, and that it refuses what a dtype cannot hold."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from toolchain.circuit_ir import ranges
from toolchain.circuit_ir.bounds import analyse, promises, prove
from toolchain.circuit_ir.builder import CircuitBuilder, LogicBuilder, match, select, staircase_bits
from toolchain.circuit_ir.evaluator import RangeError, logical_evaluator
from toolchain.circuit_ir.ir import Age, Circuit, Memory, Rows, Value, Wire, affine
from toolchain.circuit_ir.machine.context import CONSTANT_ROW
from toolchain.circuit_ir.placed import PlacedCircuit
from toolchain.circuit_ir.placement import place
from toolchain.errors import CompileError
from toolchain.machine_build import placed_circuit
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec
from toolchain.weights_backend.numerics import Dtype


def _placed(build: Callable[[CircuitBuilder, Wire, LogicBuilder], Wire], high: int = 15) -> PlacedCircuit:
    """A circuit of one input 0..high and one MLP."""
    builder, logic = CircuitBuilder("small"), LogicBuilder("logic")
    source = builder.wire("in", high=high)
    output = build(builder, source, logic)
    builder.add(logic)
    return place(builder.circuit([source], [output]), NANO)


@pytest.mark.parametrize("spec", [NANO, CLASSIC], ids=lambda spec: spec.name)
@pytest.mark.parametrize("dtype", list(Dtype))
def test_the_machine_is_proved(spec: MachineSpec, dtype: Dtype) -> None:
    report = prove(placed_circuit(spec), spec, dtype)
    assert report.units > 20_000
    assert report.worst["gates: pre-activation"].value <= 2.0**dtype.significand
    assert report.worst["output: logit noise"].value < 0.5


def test_float32_keeps_the_data_path_free_of_noise() -> None:
    report = prove(placed_circuit(CLASSIC), CLASSIC, Dtype.FLOAT32)
    noisy = {wire.name.split(".")[0] for wire in report.noise}
    assert noisy <= {"exec", "record", "ret", "next", "out"}


def test_a_gate_wider_than_the_significand_is_refused() -> None:
    def wide(builder: CircuitBuilder, source: Wire, logic: LogicBuilder) -> Wire:
        output = builder.wire("out", high=1)
        logic.step(affine(source) * 20 - 20, {output: 1})
        return output

    placed = _placed(wide)
    assert not analyse(placed, NANO, Dtype.FLOAT32).problems
    with pytest.raises(CompileError, match=r"layer 1, logic: gates: pre-activation reaches 281"):
        prove(placed, NANO, Dtype.BFLOAT16)


def test_a_product_wider_than_the_significand_is_refused() -> None:
    def wide(builder: CircuitBuilder, source: Wire, logic: LogicBuilder) -> Wire:
        output = builder.wire("out", high=255)
        logic.relu(affine(source) + 15, {output: 1}, up=source)
        return output

    with pytest.raises(CompileError, match="products: gate \\* up reaches 450"):
        prove(_placed(wide), NANO, Dtype.BFLOAT16)


def test_a_half_integer_gate_is_refused_in_bfloat16() -> None:
    def half(builder: CircuitBuilder, source: Wire, logic: LogicBuilder) -> Wire:
        output = builder.wire("out", high=15)
        logic.relu(affine(source) - 0.5, {output: 1})
        return output

    with pytest.raises(CompileError, match="not an integer"):
        prove(_placed(half), NANO, Dtype.BFLOAT16)


def test_noise_that_a_step_cannot_take_is_refused() -> None:
    """A digit read with rounding, then multiplied up beyond a step's flat part."""
    builder, logic = CircuitBuilder("noisy"), LogicBuilder("logic")
    source, kept = builder.wire("in", high=15), builder.wire("kept", high=15)
    reads = ((kept, ((0, 1.0),)),)
    builder.add(Memory("keep", CONSTANT_ROW, (affine(1),), (Value(affine(source)),), CONSTANT_ROW, reads))
    output = builder.wire("out", high=1)
    logic.step(affine(kept) * 100_000 - 700_000, {output: 1})
    builder.add(logic)
    placed = place(builder.circuit([source], [output]), CLASSIC)
    with pytest.raises(CompileError, match="noise: at a step"):
        prove(placed, CLASSIC, Dtype.FLOAT32)


def test_an_erased_age_is_refused() -> None:
    builder, logic = CircuitBuilder("ages"), LogicBuilder("logic")
    event, age, output = builder.wire("event"), builder.wire("an.age"), builder.wire("out")
    builder.add(Age("an.age", affine(event), age))
    logic.relu(3.5 - 4 * affine(age), {output: 1})
    logic.relu(2.5 - 4 * affine(age), {output: -1})
    builder.add(logic)
    placed = place(builder.circuit([event], [output]), NANO)
    assert not analyse(placed, NANO, Dtype.FLOAT32).problems
    broken = replace(placed, layers=(replace(placed.layers[0], erase=(placed.slots[age],)),))
    with pytest.raises(CompileError, match="holds an age and is erased"):
        prove(broken, NANO, Dtype.FLOAT32)


def _range_of(circuit: Circuit, name: str) -> tuple[float, float]:
    return next((item.low, item.high) for item in ranges.analyse(circuit) if item.wire.name == name)


def test_exclusive_selections_and_staircases_are_proved() -> None:
    builder, logic = CircuitBuilder("select"), LogicBuilder("logic")
    code, sources = builder.wires("code", 2), builder.wires("source", 4, high=15)
    chosen, bits = builder.wire("chosen", high=15), builder.wires("bit", 4)
    for value, source in enumerate(sources):
        select(logic, code, value, [source], [chosen])
    staircase_bits(logic, sources[0], dict(enumerate(bits)), 15)
    builder.add(logic)
    circuit = builder.circuit([*code, *sources], [chosen, *bits])
    assert _range_of(circuit, "chosen") == (0, 15)
    assert all(item.proved for item in ranges.analyse(circuit))


def test_selections_by_independent_lines_are_not() -> None:
    builder, logic = CircuitBuilder("select"), LogicBuilder("logic")
    lines, source = builder.wires("line", 2), builder.wire("source", high=15)
    chosen = builder.wire("chosen", high=15)
    for line in lines:
        logic.relu(match([line], 1) + 1, {chosen: 1}, up=source)
    builder.add(logic)
    circuit = builder.circuit([*lines, source], [chosen])
    assert _range_of(circuit, "chosen") == (0, 30)
    values = {lines[0]: 1, lines[1]: 1, source: 9}
    with pytest.raises(RangeError, match=r"%chosen is 18, outside 0\.\.15"):
        logical_evaluator(circuit).run(values)


def test_promises_are_listed_by_group() -> None:
    text = list(promises(placed_circuit(NANO)))
    assert "wires proved by intervals" in text[0]
    assert any("t*.x.l*.n*" in line for line in text)
    assert not any(".select" in line for line in text)


def test_rows_of_a_head_are_decided_with_room() -> None:
    bits = [Wire(f"bit{i}") for i in range(6)]
    report = analyse(_address_circuit(bits), NANO, Dtype.BFLOAT16)
    assert report.worst["addresses: literals"].value == 2 * (len(bits) + 0.5)


def _address_circuit(bits: list[Wire]) -> PlacedCircuit:
    builder = CircuitBuilder("rows")
    output = builder.wire("out")
    address = Rows(tuple(affine(bit) for bit in bits))
    builder.add(Memory("rows", address, (affine(1),), (Value(affine(1)),), address, ((output, ((0, 1.0),)),)))
    return place(builder.circuit(bits, [output]), NANO)
