"""Each PTX instruction that takes more than one of the machine's operations, against the PTX interpreter."""

import random

import pytest

from toolchain.launch import ArrayArgument, Launch, ScalarArgument
from toolchain.machine_spec import CLASSIC
from toolchain.mir import lower_ptx, pipeline
from toolchain.mir.isa import Op
from toolchain.mir.mir_interpreter import run_mir
from toolchain.mir.verifier import verify
from toolchain.ptx_frontend.interpreter import interpret
from toolchain.ptx_frontend.parser import parse_ptx
from toolchain.ptx_frontend.support import unsupported

THREADS = 32
EDGES = (0, 1, 2, 31, 127, 128, 255, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
PTX = """.version 7.0
.target sm_70
.address_size 32
.visible .entry k(.param .u32 .ptr .global a, .param .u32 .ptr .global d)
{
.reg .b32 %r<15>; .reg .b16 %rs<9>; .reg .pred %p<4>;
ld.param.u32 %r9, [a];
mov.u32 %r10, %tid.x;
shl.b32 %r11, %r10, 2;
add.u32 %r8, %r9, %r11;
ld.global.u32 %r1, [%r8];
ld.global.u32 %r2, [%r8+4];
ld.global.u32 %r3, [%r8+8];
setp.lt.u32 %p1, %r1, %r2;
cvt.u16.u32 %rs1, %r1;
cvt.u16.u32 %rs2, %r2;
cvt.u16.u32 %rs3, %r3;
and.b32 %r5, %r2, 15;
and.b32 %r7, %r3, 3;
add.u32 %r7, %r8, %r7;
BODY
RESULT
ld.param.u32 %r12, [d];
mad.lo.u32 %r13, %r10, 4, %r12;
st.global.u32 [%r13], %r4;
ret;
}
"""

WORDS = """sad.s32 %r4, %r1, %r2, %r3; sad.u32 %r4, %r1, %r2, %r3; mul24.lo.s32 %r4, %r1, %r2
mul24.lo.u32 %r4, %r1, %r2; mul24.hi.s32 %r4, %r1, %r2; mul24.hi.u32 %r4, %r1, %r2; mad24.lo.s32 %r4, %r1, %r2, %r3
cnot.b32 %r4, %r1; slct.b32.s32 %r4, %r1, %r2, %r3; bfind.u32 %r4, %r1; bfind.s32 %r4, %r1
bfind.shiftamt.u32 %r4, %r1; bfind.shiftamt.s32 %r4, %r1; add.sat.s32 %r4, %r1, %r2; sub.sat.s32 %r4, %r1, %r2
prmt.b32 %r4, %r1, %r2, 0x0123; prmt.b32 %r4, %r1, %r2, 0x7610; prmt.b32 %r4, %r1, %r2, 0x9c4f
prmt.b32 %r4, %r1, %r2, 0x3254; set.lt.u32.s32 %r4, %r1, %r2; set.ge.and.s32.u32 %r4, %r1, %r2, !%p1
lop3.b32 %r4, %r1, %r2, %r3, 0x96; lop3.b32 %r4, %r1, %r2, %r3, 0xe8; lop3.b32 %r4, %r1, %r2, %r3, 0xca
lop3.b32 %r4, %r1, %r2, %r3, 0x40; lop3.b32 %r4, %r1, %r2, %r3, 0xd8; lop3.b32 %r4, %r1, %r2, %r3, 0x17
mul.wide.u16 %r4, %rs1, %rs2; mul.wide.s16 %r4, %rs1, -3; mad.wide.s16 %r4, %rs1, %rs2, %r3
cvt.s32.s16 %r4, %rs1; cvt.u32.u16 %r4, %rs1; cvt.s32.s8 %r4, %rs1; cvt.s32.s8 %r4, %r1; cvt.u32.u8 %r4, %r1
mov.b32 %r4, {%rs1, %rs2}; ld.global.u8 %r4, [%r8+5]; ld.global.s8 %r4, [%r8+3]; ld.global.s16 %r4, [%r8+2]
ld.global.b8 %r4, [%r7+4]; ld.global.s8 %r4, [%r7+1]"""
HALVES = """add.s16 %rs4, %rs1, %rs2; add.u16 %rs4, %rs1, -5; sub.s16 %rs4, %rs1, %rs2; mul.lo.s16 %rs4, %rs1, 205
mul.hi.u16 %rs4, %rs1, -13107; mul.hi.s16 %rs4, %rs1, %rs2; mad.lo.s16 %rs4, %rs1, %rs2, %rs3
and.b16 %rs4, %rs1, -2; or.b16 %rs4, %rs1, -256; xor.b16 %rs4, %rs1, -1; not.b16 %rs4, %rs1; neg.s16 %rs4, %rs1
abs.s16 %rs4, %rs1; min.s16 %rs4, %rs1, %rs2; max.s16 %rs4, %rs1, -7; min.u16 %rs4, %rs1, %rs2
max.u16 %rs4, %rs1, -7; shl.b16 %rs4, %rs1, 3; shl.b16 %rs4, %rs1, %r5; shr.u16 %rs4, %rs1, %r5
shr.s16 %rs4, %rs1, %r5; shr.s16 %rs4, %rs1, 15; selp.b16 %rs4, %rs1, -1, %p1; mov.b16 %rs4, -2
cvt.u16.u32 %rs4, %r1; cvt.s16.s8 %rs4, %rs1; cvt.u16.u8 %rs4, %rs1; cvt.s8.s32 %rs4, %r1; cvt.u8.u32 %rs4, %r1
cvt.u16.s8 %rs4, %rs1; @%p1 add.s16 %rs4, %rs1, 1; mov.u16 %rs4, %rs3; mov.b32 {%rs4, %rs3}, %r1
mov.b32 {%rs3, %rs4}, %r1; ld.global.b8 %rs4, [%r8+1]; ld.global.s8 %rs4, [%r8+6]; ld.global.b16 %rs4, [%r8+2]"""
TESTS = """setp.lt.s16 %p2, %rs1, %rs2; setp.lt.u16 %p2, %rs1, %rs2; setp.eq.b16 %p2, %rs1, -1; setp.ne.s16 %p2, %rs1, 0
setp.gt.s16 %p2, %rs1, -1; setp.ge.and.u16 %p2, %rs1, 7, %p1"""
RESULTS = {WORDS: "", HALVES: "cvt.u32.u16 %r4, %rs4;", TESTS: "selp.b32 %r4, 1, 0, %p2;"}
LINES = [
    (line.strip(), result)
    for lines, result in RESULTS.items()
    for line in lines.replace("\n", ";").split(";")
]


@pytest.mark.parametrize(("line", "result"), LINES, ids=[line for line, _ in LINES])
def test_an_instruction_means_what_the_ptx_interpreter_says(line: str, result: str) -> None:
    module = parse_ptx(PTX.replace("BODY", f"{line};").replace("RESULT", result), "k.ptx")
    kernel = module.entries[0]
    assert unsupported(kernel) == ()
    source = random.Random(line)
    words = tuple(source.choice((*EDGES, source.getrandbits(32))) for _ in range(THREADS + 2))
    launch = Launch(
        (1, 1, 1), (THREADS, 1, 1), (ArrayArgument("a", words), ArrayArgument("d", (0,) * THREADS))
    )
    expected = interpret(module, "k", launch, CLASSIC)
    assert len(set(expected[THREADS + 2 :])) > 1 or "mov.b16" in line
    lowered = lower_ptx.run(kernel, CLASSIC)
    verify(lowered)
    for function in (lowered, pipeline.optimise(lowered, CLASSIC)):
        assert run_mir(function, CLASSIC, launch).memory[: len(expected)] == expected


def test_part_of_an_aligned_word_is_a_load_and_a_shift() -> None:
    """LLVM loads half of `a[i]` for `a[i] >> 16`; the address stays a word's."""
    text = PTX.replace("BODY", "ld.global.u16 %r4, [%r8+6];").replace("RESULT", "")
    function = pipeline.optimise(lower_ptx.run(parse_ptx(text).entries[0], CLASSIC), CLASSIC)
    (block,) = function.blocks
    assert [str(item.op) for item in block.instructions if item.op in (Op.LOAD, Op.SHR_U, Op.SHL)] == [
        "ld.global",
        "shr.u",
    ]


BARE = """.version 7.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out, .param .u64 unread, .param .u32 n)
{
.reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .b16 %rs<5>;
ld.param.u64 %rd1, [out];
cvta.to.global.u64 %rd2, %rd1;
ld.param.u32 %r1, [n];
mov.u32 %r2, 8210;
prmt.b32 %r3, %r1, %r1, %r2;
mov.u16 %rs1, -5;
cvt.u32.u16 %r4, %rs1;
st.global.u32 [%rd2], %r3;
st.global.u32 [%rd2+4], %r4;
ret;
}
"""


def test_what_nvcc_prints() -> None:
    """It marks no pointers, so what nothing reads may be an array; constants come in registers."""
    module = parse_ptx(BARE, "k.ptx")
    function = pipeline.optimise(lower_ptx.run(module.entries[0], CLASSIC), CLASSIC)
    kinds = [(item.pointer, item.unread) for item in function.parameters]
    assert kinds == [(False, True), (True, False), (False, True), (False, False)]
    array = ArrayArgument("a", (7, 7), "u32")
    launch = Launch((1, 1, 1), (1, 1, 1), (array, array, array, ScalarArgument("n", 0x12345678)))
    expected = interpret(module, "k", launch, CLASSIC)
    assert expected[2:4] == (0x34785634, 0xFFFB)
    assert run_mir(function, CLASSIC, launch).memory[: len(expected)] == expected
