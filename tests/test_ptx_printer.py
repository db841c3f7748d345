"""The printed form of a PTX module parses back to the same module, and prints the same again."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.errors import SourceLocation
from toolchain.ptx_frontend.ast import (
    Address,
    Function,
    Group,
    Guard,
    Immediate,
    Instruction,
    Label,
    Module,
    Negated,
    Operand,
    Pair,
    Parameter,
    PointerAttributes,
    Register,
    RegisterDeclaration,
    SpecialRegister,
    Symbol,
    Variable,
    Vector,
)
from toolchain.ptx_frontend.parser import parse_ptx, parse_ptx_file
from toolchain.ptx_frontend.printer import print_instruction, print_ptx

SAMPLES = sorted((Path(__file__).parent / "ptx").glob("*.ptx"))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_round_trip_of_every_dialect(path: Path) -> None:
    module = parse_ptx_file(path)
    text = print_ptx(module)
    assert parse_ptx(text) == module
    assert print_ptx(parse_ptx(text)) == text


REGISTERS = ("%r1", "%p1", "acc", "%rd0")
NAMES = st.sampled_from(REGISTERS)
OFFSETS = st.integers(-64, 64)
SCALARS: st.SearchStrategy[Operand] = st.one_of(
    NAMES.map(Register),
    st.integers(-(2**63), 2**64 - 1).map(Immediate),
    st.sampled_from(["%tid.x", "%laneid"]).map(SpecialRegister),
    st.builds(Symbol, st.just("table"), OFFSETS),
    NAMES.map(lambda name: Negated(Register(name))),
)
ADDRESSES: st.SearchStrategy[Operand] = st.builds(
    Address, st.one_of(NAMES.map(Register), st.just(Symbol("table"))), OFFSETS
) | OFFSETS.map(lambda offset: Address(None, offset))
OPERANDS: st.SearchStrategy[Operand] = st.one_of(
    SCALARS,
    ADDRESSES,
    st.lists(SCALARS, min_size=1, max_size=3).map(lambda items: Vector(tuple(items))),
    st.lists(SCALARS, max_size=3).map(lambda items: Group(tuple(items))),
    st.builds(Pair, NAMES.map(Register), NAMES.map(Register)),
)
INSTRUCTIONS = st.builds(
    Instruction,
    st.sampled_from(["add", "ld", "bra", "entry", "reg", "ret"]),
    st.lists(st.sampled_from(["global", "b32", "lo", "L2::128B", "reg", "align"]), max_size=3).map(tuple),
    st.lists(OPERANDS, max_size=4).map(tuple),
    st.one_of(st.none(), st.builds(Guard, NAMES, st.booleans())),
    source=st.just(SourceLocation("k.cu", 3, 7)) | st.just(SourceLocation("k.cu", 4)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(INSTRUCTIONS, max_size=5))
def test_round_trip_of_any_instruction(instructions: list[Instruction]) -> None:
    function = Function(
        "k",
        True,
        (Parameter("a", "u64", pointer=PointerAttributes("global", 4)), Parameter("s", "b8", 8, 12)),
        registers=tuple(RegisterDeclaration(name, "b32") for name in REGISTERS),
        variables=(Variable("shared", "tile", "b32", 4, (2, 3)),),
        body=(Label("start"), *instructions, Label("end")),
    )
    table = Variable("const", "table", "s32", 4, (3,), (1, -2))
    module = Module("8.0", ("sm_70", "debug"), 32, (table,), (function,))
    assert parse_ptx(print_ptx(module)) == module


def test_an_instruction_prints_as_ptx_does() -> None:
    instruction = Instruction(
        "ld", ("global", "b32"), (Register("%r1"), Address(Register("%rd1"), -4)), Guard("%p1", True)
    )
    assert print_instruction(instruction) == "@!%p1 ld.global.b32 %r1, [%rd1+-4];"
