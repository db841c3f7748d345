"""The PTX parser on every dialect and every trap, and its errors."""

import time
from pathlib import Path

import pytest

from toolchain.errors import CompileError, SourceLocation
from toolchain.ptx_frontend.ast import (
    Address,
    BranchTable,
    FloatImmediate,
    Function,
    Group,
    Guard,
    Immediate,
    Instruction,
    Label,
    Negated,
    Operand,
    Pair,
    PointerAttributes,
    Prototype,
    Register,
    SpecialRegister,
    Symbol,
    Vector,
)
from toolchain.ptx_frontend.parser import parse_ptx, parse_ptx_file
from toolchain.ptx_frontend.printer import print_ptx

SAMPLES = Path(__file__).parent / "ptx"


def body(text: str, declarations: str = ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<4>;") -> Function:
    """A kernel with the given statements."""
    head = ".version 7.0\n.target sm_70\n.address_size 64\n.entry k(.param .u64 a)"
    source = f"{head}\n{{ {declarations}\n{text}\n}}"
    return parse_ptx(source).functions[0]


def one(text: str) -> Instruction:
    """The only instruction of a body."""
    return next(iter(body(text).instructions))


def sample(name: str) -> Function:
    """The last kernel of a sample file."""
    return parse_ptx_file(SAMPLES / f"{name}.ptx").entries[-1]


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.ptx")), ids=lambda path: path.stem)
def test_every_dialect_parses(path: Path) -> None:
    module = parse_ptx_file(path)
    assert module.entries
    assert all(
        instruction.operands
        for entry in module.entries
        for instruction in entry.instructions
        if instruction.opcode not in ("ret", "exit")
    )


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ("[%rd1]", Address(Register("%rd1"), 0)),
        ("[%rd1+4]", Address(Register("%rd1"), 4)),
        ("[%rd1+-4]", Address(Register("%rd1"), -4)),
        ("[%rd1-4]", Address(Register("%rd1"), -4)),
        ("[ %rd1 + 0 ]", Address(Register("%rd1"), 0)),
        ("[table]", Address(Symbol("table"), 0)),
        ("[table+0x10]", Address(Symbol("table"), 16)),
        ("[16]", Address(None, 16)),
    ],
)
def test_addresses(text: str, operand: Operand) -> None:
    assert one(f"ld.global.u32 %r1, {text};").operands == (Register("%r1"), operand)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-1640531527", -1640531527),
        ("2U", 2),
        ("0x0", 0),
        ("0xFFU", 255),
        ("0b101", 5),
        ("017", 15),
        ("- 4", -4),
    ],
)
def test_integers(text: str, value: int) -> None:
    assert one(f"mov.u32 %r1, {text};").operands[1] == Immediate(value)


@pytest.mark.parametrize("text", ["0f3F800000", "0d3FF0000000000000", "1.5", "2.0e-3"])
def test_floats_are_kept_as_text(text: str) -> None:
    assert one(f"mov.f32 %r1, {text};").operands[1] == FloatImmediate(text)


def test_operand_forms() -> None:
    assert one("mov.u32 %r1, %tid.x;").operands[1] == SpecialRegister("%tid.x")
    assert one("mov.u32 %r1, %laneid;").operands[1] == SpecialRegister("%laneid")
    assert one("add.u32 %r1, %r2, WARP_SZ;").operands[2] == SpecialRegister("WARP_SZ")
    pair = one("setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3;")
    assert pair.operands[0] == Pair(Register("%p1"), Register("%p2"))
    assert pair.operands[3] == Negated(Register("%p3"))
    assert pair.modifiers == ("lt", "and", "s32")
    vector = one("ld.global.v2.u32 {%r1, _}, [%rd1];")
    assert vector.operands[0] == Vector((Register("%r1"), Symbol("_")))
    assert one("@!%p1 bra done; done:").guard == Guard("%p1", negated=True)
    assert one("ld.global.nc.L2::128B.b32 %r1, [%rd1];").modifiers == ("global", "nc", "L2::128B", "b32")
    call = one("call.uni (result), f, (%r1, %r2);")
    assert call.operands == (
        Group((Symbol("result"),)),
        Symbol("f"),
        Group((Register("%r1"), Register("%r2"))),
    )


def test_no_word_is_reserved() -> None:
    function = sample("numba")
    assert function.name == "add"
    store = next(i for i in function.instructions if i.opcode == "st")
    assert store.operands == (Address(Register("ld")), Register("reg"))
    assert function.register_types()["pred$1"] == "pred", "the register `pred` hides the parameter `pred`"


def test_nested_scopes_are_flattened_and_renamed() -> None:
    function = body("{ .reg .b32 %r1; mov.u32 %r1, 1; bra end; end: } mov.u32 %r1, 2; bra end; end: ret;")
    written = [i.operands[0] for i in function.instructions if i.opcode == "mov"]
    assert written == [Register("%r1$1"), Register("%r1")]
    assert [i.operands[0] for i in function.instructions if i.opcode == "bra"] == [
        Symbol("end$1"),
        Symbol("end"),
    ]
    assert [item.name for item in function.body if isinstance(item, Label)] == ["end$1", "end"]


def test_a_vector_register_is_its_elements() -> None:
    function = body("mov.b32 %v.y, %v.r; st.global.v2.b32 [%rd1], %v;", ".reg .v2 .b32 %v; .reg .b64 %rd<2>;")
    x, y = Register("%v$x"), Register("%v$y")
    move, store = function.instructions
    assert move.operands == (y, x)
    assert store.operands[1] == Vector((x, y))
    assert function.register_types() == {"%v$x": "b32", "%v$y": "b32", "%rd0": "b64", "%rd1": "b64"}


def test_parameters_in_registers_aliases_and_prototypes() -> None:
    text = """.func (.reg .u32 r) f (.reg .u32 a, .param .b32 b);
    .alias g, f;
    .entry k() { .reg .b32 %r<3>; .reg .b64 %rd1;
        call (%r1), g, (%r1, %r2);
    shape: .callprototype (.param .b32 _) _
            (.param .b64 _);
        call (%r1), %rd1, (%r2), shape; }"""
    declared, kernel = parse_ptx(text).functions
    assert [p.space for p in (*declared.results, *declared.parameters)] == ["reg", "reg", "param"]
    named, indirect = kernel.instructions
    assert named.operands[1] == Symbol("f")
    assert indirect.operands[1] == Register("%rd1")
    assert kernel.prototypes == (Prototype("shape", ".callprototype (.param .b32 _) _ (.param .b64 _)"),)


def test_initialisers_fill_rows_and_name_addresses() -> None:
    text = """.global .b32 rows[3][2] = {{1}, {2, 3}};
    .const .s8 open[] = {-1, 0x7f, 017};
    .global .u64 places[4] = {rows, rows+8, generic(rows)-4, generic(rows+4)};"""
    rows, open_, places = parse_ptx(text).variables
    assert rows.initialiser == (1, 0, 2, 3)
    assert (open_.dimensions, open_.initialiser) == ((3,), (-1, 127, 15))
    assert places.initialiser == ("rows", "rows+8", "rows+-4", "rows+4")
    assert ".global .b32 rows[3][2] = {{1, 0}, {2, 3}};" in print_ptx(parse_ptx(text))


@pytest.mark.parametrize(
    ("operand", "message"),
    [
        ("%r2+4", "'%r2' has an offset outside an address"),
        ("WARP_SZ-1", "'WARP_SZ' has an offset"),
        ("%v.z", "no element"),
        ("table[1]", "an element other than \\[0\\]"),
    ],
)
def test_operands_that_would_mean_something_else_are_refused(operand: str, message: str) -> None:
    declarations = ".reg .v2 .b32 %v; .reg .b32 %r<9>; .shared .b32 table[4];"
    with pytest.raises(CompileError, match=message) as caught:
        body(f"mov.u32 %r1, {operand};", declarations)
    assert caught.value.location is not None
    assert caught.value.location.line == 6


def test_two_call_blocks_have_their_own_parameters() -> None:
    function = sample("clang14")
    assert {variable.name for variable in function.variables} >= {
        "param0",
        "param1",
        "retval0",
        "__local_depot1",
    }


def test_branch_tables() -> None:
    function = sample("clang14")
    assert function.tables == (BranchTable("$L_brx_0", ("LBB1_1", "LBB1_2", "LBB1_3")),)
    brx = next(i for i in function.instructions if i.opcode == "brx")
    assert brx.operands == (Register("%r2"), Symbol("$L_brx_0"))
    assert "$L_brx_0" not in [item.name for item in function.body if isinstance(item, Label)]


def test_parameters_and_pointer_attributes() -> None:
    first, second, third, count = sample("clang22").parameters
    assert first.pointer == PointerAttributes("", 1)
    assert second.pointer == PointerAttributes("global", 4)
    assert (third.type, count.type, count.pointer) == ("u32", "u32", None)
    structure = sample("nvrtc").parameters[1]
    assert (structure.type, structure.align, structure.size) == ("b8", 8, 16)


def test_variables() -> None:
    weights, dynamic, table = parse_ptx_file(SAMPLES / "nvrtc.ptx").variables
    assert weights.initialiser == (1, 0, 0, 0, 254, 255, 255, 255, 3)
    assert (weights.space, weights.dimensions, weights.align) == ("const", (16,), 4)
    assert (dynamic.external, dynamic.dimensions) == (True, (0,))
    assert table.initialiser == ("weights", "weights")


def test_performance_directives() -> None:
    assert sample("nvrtc").performance == (("maxntid", (4, 1, 1)), ("minnctapersm", (2,)))
    assert sample("triton").performance == (("reqntid", (4,)),)


def test_predicated_memory_operations() -> None:
    load = next(i for i in sample("triton").instructions if i.opcode == "ld" and i.guard)
    assert load.guard == Guard("%p1", negated=False)
    assert load.operands == (Vector((Register("%r2"),)), Address(Register("%rd1")))


def test_source_lines_come_from_loc() -> None:
    instructions = list(sample("clang22").instructions)
    assert next(i for i in instructions if i.opcode == "mad").source == SourceLocation("/src/dot.cu", 3, 35)
    zero = next(i for i in instructions if i.name == "mov.b32" and i.operands[0] == Register("%r13"))
    assert zero.source == SourceLocation("/src/dot.cu", 3, 5), "line 0 stays with the line before"
    inlined = next(i for i in sample("nvcc13").instructions if i.opcode == "mad")
    assert inlined.source == SourceLocation("/src/dot.cu", 3, 5), "a header's line is its caller's"
    assert sample("tinygrad").body[0].where.line == 16  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (".version 7.0\n.entry k() { add.s32 %r1, %r2 }", 2, "expected"),
        (".version 7.0\n.entry k() { ld.u32 %r1, [%r2*4]; }", 2, "unexpected character '*'"),
        (".version 7.0\n\n.entry k() {\n  mov.u32 %r1, 3;\n", 4, "the end of the file"),
        (".version 7.0\nhello", 2, "'hello'"),
        (".entry k() { ld.u32 %r1, [[%r2]]; }", 1, "address"),
        (".global .f32 x = 1.5;", 1, "initialised"),
    ],
)
def test_errors_name_the_place(text: str, line: int, message: str) -> None:
    with pytest.raises(CompileError, match=message.replace("*", r"\*")) as caught:
        parse_ptx(text, "k.ptx")
    assert caught.value.location is not None
    assert (caught.value.location.file, caught.value.location.line) == ("k.ptx", line)
    assert caught.value.location.column > 0
    assert caught.value.excerpt == text.splitlines()[line - 1]


def test_parsing_is_fast() -> None:
    text = (SAMPLES / "clang22.ptx").read_text()
    parse_ptx(text)
    start = time.perf_counter()
    parse_ptx(text)
    assert time.perf_counter() - start < 0.1
