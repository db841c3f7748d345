"""Circuits as text: what is printed reads back as the same object, and what is wrong is refused at its place."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.circuit_ir.ir import (
    Affine,
    Age,
    Circuit,
    Gate,
    Logic,
    Memory,
    Rows,
    Unit,
    Value,
    Wire,
    affine,
    total,
)
from toolchain.circuit_ir.machine.build import build_machine
from toolchain.circuit_ir.parser import parse_circuit, parse_placed
from toolchain.circuit_ir.placement import place
from toolchain.circuit_ir.text import print_circuit, print_number, print_placed
from toolchain.errors import CompileError
from toolchain.machine_spec import NANO

EXAMPLE = """circuit small

wires 0..1: %r0, %r1, %n0, %e, %w
wires 0..15: %a, %b
inputs: %r0, %r1, %n0, %e, %w, %a, %b

wires 0..1: %count
age count: %e -> %count

wires 0..30: %sum
wires -2..3: %odd.name_1
logic adder
  relu(%a + %b) -> %sum
  step(2 %a - %b - 4) * (-%a + 1.5) -> -0.5 %sum, %odd.name_1
  relu(-0.25 %count + 1e-10) -> -16 %odd.name_1

wires 0..31: %o
memory file, sink
  write [%r0, -%r1 + 1] not [%n0, %r1] where [%w, -%e + 1] back 2
  enable [%w, %e]
  wipe %e
  anchor %e
  unwritten 5
  d0 = %a back 3
  d1 = %a - %b
  read every 4 where [%e]
  %o = 0.5 d0 + 2 d1
  %sum = 0

outputs: %sum, %o, %odd.name_1
"""


def test_example_prints_as_written() -> None:
    assert print_circuit(parse_circuit(EXAMPLE)) == EXAMPLE


def test_example_says_what_it_says() -> None:
    circuit = parse_circuit(EXAMPLE)
    a, b, e = (Wire(name, high=high) for name, high in (("a", 15), ("b", 15), ("e", 1)))
    age, logic, memory = circuit.operations
    assert age == Age("count", affine(e), Wire("count"))
    assert isinstance(logic, Logic)
    outputs = ((Wire("sum", high=30), -0.5), (Wire("odd.name_1", -2, 3), 1))
    assert logic.units[1] == Unit(Gate.STEP, 2 * affine(a) - b - 4, outputs, 1.5 - affine(a))
    assert isinstance(memory, Memory)
    assert memory.sink
    assert memory.unwritten == 5
    assert memory.values == (Value(affine(a), 3), Value(affine(a) - b))
    assert memory.read == Rows((), (affine(e),), every=4)
    assert memory.write.tap == 2
    assert memory.wipe == memory.anchor == affine(e)


def test_comments_and_blank_lines_are_skipped() -> None:
    text = "; a comment\n\n" + EXAMPLE.replace("logic adder\n", "logic adder\n\n  ; here too\n")
    assert parse_circuit(text) == parse_circuit(EXAMPLE)


def test_machine_reads_back() -> None:
    circuit = build_machine(NANO)
    text = print_circuit(circuit)
    assert parse_circuit(text) == circuit
    assert print_circuit(parse_circuit(text)) == text


def test_placed_machine_reads_back() -> None:
    placed = place(build_machine(NANO), NANO)
    text = print_placed(placed)
    assert parse_placed(text) == placed
    assert print_placed(parse_placed(text)) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_read_back(value: float) -> None:
    assert float(print_number(value)) == value


WIRES = [Wire(f"w{i}.x_{i}", -i, i * i) for i in range(6)]
numbers = st.one_of(st.integers(-(2**40), 2**40), st.floats(-1e9, 1e9)).filter(bool)
forms = st.builds(
    lambda terms, constant: total([*(factor * affine(wire) for wire, factor in terms.items()), constant]),
    st.dictionaries(st.sampled_from(WIRES), numbers, max_size=4),
    st.one_of(st.just(0), numbers),
)
weights = st.dictionaries(st.sampled_from(WIRES), numbers, min_size=1, max_size=3).map(
    lambda d: tuple(d.items())
)
units = st.builds(Unit, st.sampled_from(Gate), forms, weights, st.none() | forms)
rows = st.builds(
    lambda bits, literals, every, tap, both: Rows(bits, literals, every, tap, bits if both else ()),
    st.lists(forms, max_size=2).map(tuple),
    st.lists(forms, max_size=2).map(tuple),
    st.integers(0, 4),
    st.integers(0, 3),
    st.booleans(),
)
places = st.lists(st.tuples(st.integers(0, 3), numbers), max_size=3).map(tuple)
memories = st.builds(
    Memory,
    st.just("mem"),
    rows,
    st.lists(forms, max_size=2).map(tuple),
    st.lists(st.builds(Value, forms, st.integers(0, 3)), max_size=3).map(tuple),
    rows,
    st.lists(st.tuples(st.sampled_from(WIRES), places), max_size=2).map(tuple),
    st.none() | forms,
    forms,
    st.booleans(),
    st.none() | st.integers(0, 9),
)
operations = st.one_of(
    st.builds(Logic, st.just("logic"), st.lists(units, max_size=3).map(tuple)),
    memories,
    st.builds(Age, st.just("age"), forms, st.sampled_from(WIRES), st.none() | forms),
)


@given(st.lists(operations, max_size=3), st.lists(st.sampled_from(WIRES), unique=True))
def test_any_circuit_reads_back(ops: list[Logic | Memory | Age], inputs: list[Wire]) -> None:
    circuit = Circuit("any", tuple(inputs), tuple(ops), tuple(WIRES[:2]))
    assert parse_circuit(print_circuit(circuit)) == circuit


def test_a_form_keeps_its_order() -> None:
    """Also one that the verifier would refuse: the text is what there is."""
    form = Affine(((Wire("b"), 1), (Wire("a"), 2)))
    circuit = Circuit("c", (Wire("a"), Wire("b")), (Age("age", form, Wire("o")),), (Wire("o"),))
    assert parse_circuit(print_circuit(circuit)) == circuit


BROKEN = {  # message: (line to change, what to, column)
    "wire %x is not declared": ("  relu(%a + %b) -> %sum", "  relu(%a + %x) -> %sum", 13),
    "wire %a is declared twice": ("wires 0..15: %a, %b", "wires 0..15: %a, %b, %a", 22),
    "expected '..', found '15:'": ("wires 0..15: %a, %b", "wires 0 15: %a, %b", 9),
    "expected ')', found '->'": ("  relu(%a + %b) -> %sum", "  relu(%a + %b -> %sum", 16),
    "expected relu or step, found 'silu'": ("  relu(%a + %b) -> %sum", "  silu(%a + %b) -> %sum", 3),
    "expected '->', found the end of the line": ("  relu(%a + %b) -> %sum", "  relu(%a + %b)", 16),
    "expected one wire with its weight": ("  relu(%a + %b) -> %sum", "  relu(%a + %b) -> %sum + %a", 20),
    "expected a sum of wires and a constant": ("  relu(%a + %b) -> %sum", "  relu() -> %sum", 8),
    "expected ')', found '2)'": ("  relu(%a + %b) -> %sum", "  relu(%a 2) -> %sum", 11),
    "expected the end of the line, found 'more'": ("  unwritten 5", "  unwritten 5 more", 15),
    "expected 'd1 =', found 'd7'": ("  d1 = %a - %b", "  d7 = %a - %b", 3),
    "expected an integer, found 'x'": ("  d0 = %a back 3", "  d0 = %a back x", 16),
    "expected an address, as in '[%a, %b]' or 'every 8'": (
        "  read every 4 where [%e]",
        "  read where [%e]",
        8,
    ),
    "expected a sum of dimensions, as in 'd0 + 2 d1'": ("  %sum = 0", "  %sum = %a", 10),
    "memory file has no read line": ("  read every 4 where [%e]", "", 1),
    "expected 'sink', found 'drain'": ("memory file, sink", "memory file, drain", 14),
    "expected logic, memory, age, wires or outputs, found 'what'": ("logic adder", "what adder", 1),
    "expected 'circuit ', found 'circus'": ("circuit small", "circus small", 1),
}


@pytest.mark.parametrize("message", BROKEN)
def test_errors_name_line_and_column(message: str) -> None:
    line, wrong, column = BROKEN[message]
    text = EXAMPLE.replace(f"{line}\n", f"{wrong}\n")
    with pytest.raises(CompileError) as caught:
        parse_circuit(text, "c.circuit")
    assert caught.value.message == message
    location = caught.value.location
    assert location is not None
    assert (location.file, location.column) == ("c.circuit", column)
    if wrong:
        assert text.splitlines()[location.line - 1] == wrong
        assert caught.value.excerpt == wrong


def test_a_short_file_is_refused() -> None:
    with pytest.raises(CompileError, match=r"c:1: error: the file ends where 'inputs:' should be"):
        parse_circuit("circuit small", "c")
    with pytest.raises(CompileError, match="the file ends where 'circuit NAME' should be"):
        parse_circuit("", "c")
    with pytest.raises(CompileError, match="found 'again'"):
        parse_circuit(EXAMPLE + "again\n")


ONE = "circuit one\n\nwires 0..1: %a\ninputs: %a\n\nwires 0..1: %b\nlogic copy\n  relu(%a) -> %b\n\noutputs: %b\n"


@pytest.mark.parametrize(
    ("line", "wrong", "message"),
    [
        ("hidden 64", "hidden x", "expected an integer, found 'x,'"),
        ("layer 0", "layer 1", "expected layer 0"),
        ("  logic: copy", "  logic: other", "the circuit has no operation other"),
        ("  logic: copy", "  heads: copy", "operation copy is not a head"),
        ("  logic: copy", "  units: copy", "expected 'erase:', found 'units:'"),
        ("slot 4: %a", "slot 4: %a, %b", "%b has slot 4 already"),
        ("slot 4: %a", "slit 4: %a", "expected 'slot ', found 'slit'"),
    ],
)
def test_placed_errors(line: str, wrong: str, message: str) -> None:
    text = print_placed(place(parse_circuit(ONE), NANO))
    assert line in text
    with pytest.raises(CompileError) as caught:
        parse_placed(text.replace(line, wrong))
    assert caught.value.message == message


def test_wires_of_a_placement_alone_are_declared() -> None:
    placed = place(parse_circuit(ONE), NANO)
    odd = replace(placed, slots=placed.slots | {Wire("extra", high=7): 40})
    assert parse_placed(print_placed(odd)) == odd
