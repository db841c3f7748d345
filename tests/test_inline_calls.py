"""Calls replaced by bodies and parameters by name: what a kernel computes stays the same; the rest is refused."""

import pytest

from toolchain.errors import CompileError
from toolchain.launch import ArrayArgument, Launch, ScalarArgument
from toolchain.machine_spec import CLASSIC
from toolchain.ptx_frontend import inline_calls, parameter_addresses, select_entry
from toolchain.ptx_frontend.ast import Module
from toolchain.ptx_frontend.interpreter import interpret
from toolchain.ptx_frontend.parser import parse_ptx
from toolchain.ptx_frontend.printer import print_ptx
from toolchain.ptx_frontend.verifier import verify_ptx

HEAD = ".version 7.8\n.target sm_75\n.address_size 64\n"


def inlined(functions: str, body: str) -> Module:
    """A kernel that leaves %r0 in out[tid] after `body`; tid is in %r1."""
    kernel = f"""
    .visible .entry k(.param .u64 out) {{
        .reg .pred %p<4>; .reg .b16 %rs<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
        ld.param.u64 %rd1, [out];
        mov.u32 %r1, %tid.x;
        mul.wide.u32 %rd2, %r1, 4;
        add.s64 %rd1, %rd1, %rd2;
        {body}
        st.global.u32 [%rd1], %r0;
        ret;
    }}"""
    module = parse_ptx(f"{HEAD}{functions}{kernel}", "k.ptx")
    verify_ptx(module)
    result = inline_calls.run(select_entry.run(module))
    verify_ptx(result)
    assert parse_ptx(print_ptx(result)) == result
    assert [i for i in result.functions[0].instructions if i.opcode == "call"] == []
    return result


def run(module: Module, threads: int = 4) -> list[int]:
    launch = Launch((1, 1, 1), (threads, 1, 1), (ArrayArgument("out", (0,) * threads, "u32"),))
    return launch.read_back(interpret(module, "k", launch, CLASSIC))["out"]


SQUARE = """.func (.param .b32 result) square(.param .b32 x) {
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [x];
    mul.lo.s32 %r2, %r1, %r1;
    st.param.b32 [result], %r2;
    ret;
}
"""
CALL_SQUARE = """{{ .param .b32 param0; .param .b32 retval0;
    st.param.b32 [param0+0], {argument};
    call.uni (retval0), square, (param0);
    ld.param.b32 {result}, [retval0+0]; }}
"""


def square(result: str, argument: str) -> str:
    return CALL_SQUARE.format(result=result, argument=argument)


def test_two_calls_of_one_function() -> None:
    module = inlined(SQUARE, square("%r2", "%r1") + square("%r3", "-7") + "add.s32 %r0, %r2, %r3;")
    assert run(module) == [49, 50, 53, 58]
    assert module.functions[0].variables == ()


def test_a_call_in_a_loop() -> None:
    body = (
        f"mov.u32 %r0, 0; mov.u32 %r4, 0; again: {square('%r2', '%r4')}"
        + """
        add.s32 %r0, %r0, %r2; add.s32 %r4, %r4, 1;
        setp.le.u32 %p1, %r4, %r1; @%p1 bra again;"""
    )
    assert run(inlined(SQUARE, body)) == [0, 1, 5, 14]


def test_a_function_that_calls_twice_another_that_calls() -> None:
    outer = ".func (.param .b32 result) outer(.param .b32 x) { .reg .b32 %r<4>; ld.param.u32 %r1, [x];"
    outer += (
        square("%r2", "%r1")
        + square("%r3", "%r2")
        + "sub.s32 %r3, %r3, %r1; st.param.b32 [result], %r3; ret; }"
    )
    call = CALL_SQUARE.replace("square", "outer").format(argument="%r1", result="%r0")
    assert run(inlined(SQUARE + outer, call)) == [0, 0, 14, 78]


def test_returns_in_the_middle_and_under_a_guard() -> None:
    early = """.func (.param .b32 result) early(.param .b32 x) {
        .reg .b32 %r<3>; .reg .pred %p<3>;
        ld.param.u32 %r1, [x];
        st.param.b32 [result], 100;
        setp.eq.u32 %p1, %r1, 0;
        @%p1 ret;
        setp.eq.u32 %p2, %r1, 1;
        @!%p2 bra more;
        st.param.b32 [result], 200;
        ret;
    more:
        st.param.b32 [result], %r1;
        ret.uni;
    }"""
    call = CALL_SQUARE.replace("square", "early").format(argument="%r1", result="%r0")
    assert run(inlined(early, call + "add.s32 %r0, %r0, 1;")) == [101, 201, 3, 4]


def test_a_call_under_a_guard() -> None:
    body = """.param .b32 a; .param .b32 b; mov.u32 %r0, 9; st.param.b32 [a], %r1; setp.gt.u32 %p1, %r1, 1;
        @%p1 call (b), square, (a);
        @%p1 ld.param.b32 %r0, [b];"""
    assert run(inlined(SQUARE, body)) == [9, 9, 4, 9]
    assert run(inlined(SQUARE, body.replace("@%p1", "@!%p1"))) == [0, 1, 9, 9]


def test_parameters_in_registers() -> None:
    step = """.func (.reg .u32 sum, .reg .pred odd) step(.reg .u32 a, .reg .u32 b, .reg .pred p) {
        .reg .u32 t;
        add.u32 sum, a, b;
        @p add.u32 sum, sum, 1000;
        and.b32 t, sum, 1;
        setp.ne.u32 odd, t, 0;
        mov.u32 a, 0;
        ret;
    }"""
    body = """setp.eq.u32 %p1, %r1, 2; call (%r2, %p2), step, (%r1, 5, %p1);
        selp.u32 %r0, %r2, 7, %p2; add.u32 %r0, %r0, %r1;"""
    assert run(inlined(step, body)) == [5, 8, 1009, 10]


def test_a_parameter_in_memory_passed_a_register() -> None:
    assert run(inlined(SQUARE, "call (%r0), square, (%r1);")) == [0, 1, 4, 9]


STRUCTURE = """.func (.param .align 8 .b8 result[16]) swap(.param .align 8 .b8 p[16]) {
    .reg .b16 %rs<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [p+8];
    ld.param.v2.u32 {%r1, %r2}, [p];
    ld.param.s8 %r3, [p+3];
    ld.param.u16 %rs1, [p+6];
    st.param.v2.b32 [result], {%r2, %r1};
    st.param.b16 [result+8], %rs1;
    st.param.b8 [result+10], %r3;
    st.param.b8 [result+11], 77;
    st.param.b32 [result+12], %rd1;
    ret;
}
"""


def test_structures_by_value_in_pieces_of_every_size() -> None:
    """Against the same bytes moved by hand, where stores and loads divide the structure differently."""
    body = """
        .param .align 8 .b8 param0[16]; .param .align 8 .b8 retval0[16];
        mad.lo.u32 %r2, %r1, 1103515245, 12345; mad.lo.u32 %r3, %r2, 1664525, 1013904223;
        mov.b64 %rd3, {%r2, %r3}; not.b64 %rd4, %rd3;
        st.param.b64 [param0], %rd3; st.param.b64 [param0+8], %rd4;
        call (retval0), swap, (param0);
        ld.param.b64 %rd5, [retval0]; ld.param.b64 %rd6, [retval0+8]; ld.param.s16 %r4, [retval0+10];
        mov.b64 {%r5, %r6}, %rd5; mov.b64 {%r7, %r8}, %rd6;
        xor.b32 %r0, %r5, %r8; add.u32 %r0, %r0, %r6; sub.u32 %r0, %r0, %r7; xor.b32 %r0, %r0, %r4;"""
    expected = []
    for thread in range(4):
        low = (thread * 1103515245 + 12345) % 2**32
        high = (low * 1664525 + 1013904223) % 2**32
        both = (low | high << 32).to_bytes(8, "little")
        other = bytes(byte ^ 255 for byte in both)
        result = both[4:] + both[:4] + both[6:8] + both[3:4] + bytes([77]) + other[:4]
        words = [int.from_bytes(result[i : i + 4], "little") for i in range(0, 16, 4)]
        half = int.from_bytes(result[10:12], "little", signed=True)
        expected.append((((words[0] ^ words[3]) + words[1] - words[2]) ^ half) % 2**32)
    assert run(inlined(STRUCTURE, body)) == expected


def test_local_arrays_are_each_copys_own_and_shared_ones_are_not() -> None:
    counter = """.func (.param .b32 result) count(.param .b32 x) {
        .shared .align 4 .b32 total[4];
        .local .align 4 .b8 depot[8];
        .reg .b32 %r<9>; .reg .b64 %rd<9>;
        ld.param.u32 %r1, [x];
        mov.u64 %rd1, depot; mov.u64 %rd2, total;
        mov.u32 %r5, %tid.x; mul.wide.u32 %rd3, %r5, 4; add.u64 %rd2, %rd2, %rd3;
        st.local.u32 [%rd1+4], %r1;
        ld.shared.u32 %r2, [%rd2];
        ld.local.u32 %r3, [%rd1+4];
        add.u32 %r4, %r2, %r3;
        st.shared.u32 [%rd2], %r4;
        st.param.b32 [result], %r4;
        ret;
    }"""
    call = CALL_SQUARE.replace("square", "count")
    body = "mov.u32 %r4, 0; st.global.u32 [%rd1], %r4;" + "".join(
        call.format(argument=a, result=r) for a, r in (("%r1", "%r2"), ("10", "%r3"), ("100", "%r0"))
    )
    module = inlined(counter, body)
    assert run(module) == [110, 111, 112, 113]
    assert [variable.space for variable in module.variables] == ["shared"]
    assert [variable.bytes for variable in module.functions[0].variables] == [8, 8, 8]


def test_switch_tables_are_renamed() -> None:
    choose = """.func (.param .b32 result) choose(.param .b32 x) {
        .reg .b32 %r<3>;
        ld.param.u32 %r1, [x];
    table: .branchtargets one, two, one, two;
        brx.idx %r1, table;
    one: mov.u32 %r2, 1; bra done;
    two: mov.u32 %r2, 2;
    done: st.param.b32 [result], %r2;
        ret;
    }"""
    call = CALL_SQUARE.replace("square", "choose")
    body = call.format(argument="%r1", result="%r2") + call.format(argument="%r2", result="%r3")
    assert run(inlined(choose, body + "mad.lo.u32 %r0, %r2, 10, %r3;")) == [12, 21, 12, 21]


def test_a_structure_whose_address_is_taken_goes_to_local_memory() -> None:
    pick = """.func (.param .b32 result) pick(.param .align 4 .b8 p[16], .param .b32 i) {
        .reg .b32 %r<3>; .reg .b64 %rd<4>;
        ld.param.u32 %r1, [i];
        mov.b64 %rd1, p;
        mul.wide.u32 %rd2, %r1, 4;
        add.s64 %rd3, %rd1, %rd2;
        ld.local.u32 %r2, [%rd3];
        st.param.b32 [result], %r2;
        ret;
    }"""
    body = """.param .align 4 .b8 param0[16]; .param .b32 param1; .param .b32 retval0;
        st.param.b32 [param0], 5; st.param.b32 [param0+4], 6; st.param.v2.b32 [param0+8], {7, 8};
        st.param.b32 [param1], %r1; call (retval0), pick, (param0, param1); ld.param.b32 %r0, [retval0];"""
    assert run(inlined(pick, body)) == [5, 6, 7, 8]


def test_names_of_the_function_do_not_hide_the_modules() -> None:
    functions = """.global .align 4 .u32 value = 40;
    .func (.param .b32 result) local_value(.param .b32 x) {
        .local .align 4 .b32 value[1]; .reg .b32 %r<3>;
        ld.param.u32 %r1, [x]; st.local.u32 [value], %r1; ld.local.u32 %r2, [value];
        st.param.b32 [result], %r2; ret;
    }"""
    call = CALL_SQUARE.replace("square", "local_value").format(argument="%r1", result="%r2")
    assert run(inlined(functions, call + "ld.global.u32 %r3, [value]; add.u32 %r0, %r2, %r3;")) == [
        40,
        41,
        42,
        43,
    ]


DECLARED = ".extern .func (.param .b32 r) {} (.param .b64 a, .param .b64 b);\n"
CALL_DECLARED = """.param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %rd1; st.param.b64 [b], %rd1;
call.uni (r), {}, (a, b);"""


@pytest.mark.parametrize(
    ("functions", "body", "message"),
    [
        (DECLARED.format("vprintf"), CALL_DECLARED.format("vprintf"), "printf is not supported"),
        (DECLARED.format("malloc"), CALL_DECLARED.format("malloc"), "memory cannot be allocated"),
        (DECLARED.format("__assertfail"), CALL_DECLARED.format("__assertfail"), "assert is not supported"),
        (
            DECLARED.format("_Z7distantxx"),
            CALL_DECLARED.format("_Z7distantxx"),
            "'distant' is declared but not",
        ),
        ("", "proto: .callprototype _ (); call %rd1, proto;", "function pointer"),
        (
            SQUARE,
            ".param .b32 r; call (r), square;",
            "takes 1 arguments and gives 1 results; this call has 0 and 1",
        ),
        (
            ".func b(); .func a() { call b; ret; } .func b() { call a; ret; }",
            "call a;",
            "recursion is not supported: a calls b calls a",
        ),
    ],
)
def test_what_cannot_be_inlined_is_refused_at_its_line(functions: str, body: str, message: str) -> None:
    with pytest.raises(CompileError, match=message) as caught:
        inlined(functions, body)
    assert caught.value.location is not None
    assert caught.value.location.file == "k.ptx"
    assert "call" in caught.value.excerpt
    assert caught.value.hint


def test_a_recursive_function_that_the_kernel_does_not_call_is_no_obstacle() -> None:
    recursive = ".func forever() { call forever; ret; }\n"
    assert run(inlined(recursive + SQUARE, square("%r0", "%r1"))) == [0, 1, 4, 9]


def loaded(body: str, module_text: str = "") -> Module:
    """A kernel with a structure of 16 bytes as its second parameter; it leaves %r0 in out[tid]."""
    text = f"""{HEAD}{module_text}
    .visible .entry k(.param .u64 out, .param .align 8 .b8 s[18]) {{
        .reg .b16 %rs<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
        ld.param.u64 %rd1, [out];
        mov.u32 %r1, %tid.x;
        mul.wide.u32 %rd2, %r1, 4;
        add.s64 %rd1, %rd1, %rd2;
        {body}
        st.global.u32 [%rd1], %r0;
        ret;
    }}"""
    module = parse_ptx(text, "k.ptx")
    result = parameter_addresses.run(module)
    verify_ptx(result)
    assert parse_ptx(print_ptx(result)) == result
    return result


def run_with(module: Module, structure: int) -> list[int]:
    arguments = (ArrayArgument("out", (0,) * 4, "u32"), ScalarArgument("s", structure))
    launch = Launch((1, 1, 1), (4, 1, 1), arguments)
    return launch.read_back(interpret(module, "k", launch, CLASSIC))["out"]


WORDS = (1000, 2**32 - 5, 77, 0x01020384)
STRUCTURE_VALUE = sum(word << (32 * i) for i, word in enumerate(WORDS)) | 0x92FF << 128


def test_fields_of_a_structure_at_known_offsets_need_no_memory() -> None:
    module = loaded("""mov.b64 %rd3, s; add.s64 %rd4, %rd3, 4; mov.b64 %rd5, %rd4;
        ld.param.u32 %r2, [%rd3]; ld.param.b32 %r3, [%rd5+4]; ld.param.s8 %r4, [%rd4+8]; ld.param.u8 %r5, [s+17];
        add.u32 %r0, %r2, %r3; add.u32 %r0, %r0, %r4; add.u32 %r0, %r0, %r5;""")
    assert run_with(module, STRUCTURE_VALUE) == [1000 + 77 - 124 + 0x92] * 4
    assert module.functions[0].variables == ()
    assert [i.name for i in module.functions[0].instructions if i.opcode == "mov"] == ["mov.u32"]


def test_a_structure_at_an_unknown_offset_is_copied() -> None:
    module = loaded("""mov.b64 %rd3, s; mul.wide.u32 %rd4, %r1, 4; add.s64 %rd5, %rd3, %rd4;
        ld.param.u32 %r0, [%rd5]; ld.param.u16 %rs1, [%rd3+16]; cvt.u32.u16 %r2, %rs1; add.u32 %r0, %r0, %r2;""")
    assert run_with(module, STRUCTURE_VALUE) == [(word + 0x92FF) % 2**32 for word in WORDS]
    assert [(v.space, v.bytes) for v in module.functions[0].variables] == [("local", 18)]


def test_an_address_that_two_instructions_write_is_not_taken_for_either() -> None:
    module = loaded("""mov.b64 %rd3, s; mov.u32 %r2, 0;
    next: ld.param.u32 %r0, [%rd3]; add.s64 %rd3, %rd3, 4; add.u32 %r2, %r2, 1;
        .reg .pred %p; setp.le.u32 %p, %r2, %r1; @%p bra next;""")
    assert run_with(module, STRUCTURE_VALUE) == list(WORDS)
