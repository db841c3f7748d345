"""The table of supported instructions: what is refused, at which line, with what advice; and the verifier."""

from pathlib import Path

import pytest

from toolchain.errors import CompileError, SourceLocation, VerifyError
from toolchain.ptx_frontend.parser import parse_ptx, parse_ptx_file
from toolchain.ptx_frontend.support import check_supported, unsupported
from toolchain.ptx_frontend.verifier import problems, verify_ptx

SAMPLES = Path(__file__).parent / "ptx"
REGISTERS = ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<4>; .reg .f32 %f<4>; .reg .b16 %rs<4>;"


def kernel(text: str, address_size: int = 64) -> str:
    """A PTX file whose statements have source lines in k.cu."""
    return (
        f".version 7.0\n.target sm_70\n.address_size {address_size}\n"
        f".entry k(.param .u64 a)\n{{ {REGISTERS}\n"
        f'.loc 1 12 3\n{text}\nret; }}\n.file 1 "k.cu"\n'
    )


REFUSED = {
    "add.f32 %f1, %f2, %f3": "floating point",
    "mov.u32 %r1, 0f3F800000": "floating point",
    "cvt.rn.f32.s32 %f1, %r1": "floating point",
    "ld.global.f32 %f1, [%rd1]": "floating point",
    "tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f0}, [tx, {%r1, %r2}]": "floating point",
    "tex.1d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [tx, {%r1}]": "textures",
    "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r1, %r2}, {%r3}, {%r4}, {%r1, %r2}": "matrix",
    "barrier.arrive 1, 32": "a barrier of some of the threads",
    "mbarrier.init.shared.b64 [%r1], 3": "a barrier of some of the threads",
    "atom.global.add.f32 %f1, [%rd1], %f2": "floating point",
    "atom.global.inc.u64 %rd1, [%rd2], 3": "this atomic operation",
    "red.global.cas.b32 [%rd1], 3, 4": "this atomic operation",
    "elect.sync %r1|%p1, -1": "this warp operation",
    "redux.sync.add.u64 %rd1, %rd2, -1": "this warp operation",
    "cp.async.ca.shared.global [%r1], [%rd1], 4": "an asynchronous copy",
    "ld.global.b128 %rd1, [%rd2]": "this memory access",
    "ld.global.v8.b32 {%r1, %r2}, [%rd2]": "this memory access",
    "st.const.u32 [%r1], %r2": "this memory access",
    "mov.u32 %r1, %nsmid": "special register %nsmid",
    "popc.b16 %rs1, %rs2": "8- and 16-bit data",
    "vadd.s32.s32.s32.sat %r1, %r2, %r3": "an instruction this toolchain does not know",
    "mov.u32 %r1, %clock": "special register %clock",
    "trap": "a trap",
    "frobnicate.b32 %r1, %r2": "an instruction this toolchain does not know",
}


@pytest.mark.parametrize("instruction", REFUSED)
def test_every_refusal_names_line_instruction_and_way_out(instruction: str) -> None:
    function = parse_ptx(kernel(f"{instruction};")).functions[0]
    (found,) = unsupported(function)
    assert REFUSED[instruction] in found.reason
    assert found.where == SourceLocation("k.cu", 12, 3)
    assert found.suggestion
    with pytest.raises(CompileError) as caught:
        check_supported(function)
    assert caught.value.location == SourceLocation("k.cu", 12, 3)
    assert found.suggestion in caught.value.hint
    assert instruction.split()[0] in caught.value.hint


ACCEPTED = """add.s32 %r1, %r2, 3; sub.u32 %r1, %r2, %r3; mul.lo.s32 %r1, %r2, %r3; mul.hi.u32 %r1, %r2, %r3;
mad.lo.s32 %r1, %r2, %r3, %r4; mad.hi.s32 %r1, %r2, %r3, %r4; abs.s32 %r1, %r2; neg.s32 %r1, %r2;
min.s32 %r1, %r2, %r3; max.u32 %r1, %r2, %r3; and.b32 %r1, %r2, 7; or.pred %p1, %p2, %p3;
xor.b32 %r1, %r2, %r3;
not.b32 %r1, %r2; not.pred %p1, %p2; cnot.b32 %r1, %r2; shl.b32 %r1, %r2, 3; shr.u32 %r1, %r2, 3;
shr.s32 %r1, %r2, 3; setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3; set.eq.u32.u32 %r1, %r2, %r3;
selp.b32 %r1, %r2, %r3, %p1; slct.s32.s32 %r1, %r2, %r3, %r4; mov.u32 %r1, %tid.x; popc.b32 %r1, %r2;
clz.b32 %r1, %r2; bfind.shiftamt.u32 %r1, %r2; brev.b32 %r1, %r2; bfe.u32 %r1, %r2, 3, 4;
bfi.b32 %r1, %r2, %r3, 4, 5;
prmt.b32 %r1, %r2, %r3, 0x4321; shf.l.wrap.b32 %r1, %r2, %r3, 7; lop3.b32 %r1, %r2, %r3, %r4, 0x96;
sad.u32 %r1, %r2, %r3, %r4; mul24.lo.s32 %r1, %r2, %r3; ld.global.b32 %r1, [%rd1];
ld.global.nc.u32 %r1, [%rd1+4];
ld.volatile.global.u32 %r1, [%rd1]; st.global.s32 [%rd1], %r1; bar.warp.sync -1; membar.gl;
mul.wide.s32 %rd1, %r1, 4; cvt.s64.s32 %rd1, %r1; cvt.u32.u64 %r1, %rd1; add.s64 %rd1, %rd2, %rd3;
shl.b64 %rd1, %rd2, 2; mad.lo.s64 %rd1, %rd2, %rd3, %rd4; ld.param.u64 %rd1, [a];
cvta.to.global.u64 %rd1, %rd2;
mad.wide.u32 %rd1, %r1, 4, %rd2; mov.b64 %rd1, %rd2;
ld.global.u8 %r1, [%rd1]; ld.global.b16 %rs1, [%rd1+2]; add.s16 %rs1, %rs2, %rs3; selp.b16 %rs1, 1, 0, %p1;
mul.wide.u16 %r1, %rs1, 4; mul.hi.u16 %rs1, %rs2, -13107; setp.lt.s16 %p1, %rs1, %rs2; cvt.s32.s8 %r1, %rs1;
cvt.u16.u32 %rs1, %r1; shr.u16 %rs1, %rs2, %r1; mad.lo.s16 %rs1, %rs2, %rs3, %rs1;
ld.shared.u32 %r1, [%r2]; st.shared.u32 [%r2], %r1; bar.sync 0; barrier.sync 0; barrier.cta.sync.aligned 0;
bar.red.popc.u32 %r1, 0, %p1; barrier.cta.red.and.aligned.pred %p1, 0, !%p2; atom.global.add.u32 %r1, [%rd1], 3;
atom.relaxed.sys.global.cas.b32 %r1, [%rd1], 3, %r2; red.shared.inc.u32 [%r1], 3;
atom.acquire.gpu.max.s64 %rd1, [%rd2], %rd3;
shfl.sync.up.b32 %r1|%p1, %r2, 1, 0, -1; vote.sync.ballot.b32 %r1, %p1, -1; match.any.sync.b32 %r1, %r2, -1;
activemask.b32 %r1; redux.sync.add.s32 %r1, %r2, -1; st.global.u8 [%rd1], %rs1; st.local.b16 [%rd1], %rs1;
ld.global.nc.L1::evict_last.v2.u32 {%r1, %r2}, [%rd1]; ld.volatile.shared.u64 %rd2, [%rd1];
st.global.v4.b8 [%rd1], {%rs1, %rs2, %rs3, %rs1}; st.relaxed.gpu.global.b64 [%rd1], %rd2;
ld.const.u32 %r1, [%rd1]; ld.u32 %r1, [%rd1]; cvta.shared.u64 %rd1, %rd2; mov.u32 %r1, %lanemask_lt;
add.cc.u32 %r1, %r2, %r3; madc.hi.cc.s64 %rd1, %rd2, %rd3, %rd1; mul.hi.s64 %rd1, %rd2, %rd3; div.s32 %r1, %r2, %r3;
rem.u16 %rs1, %rs2, 7; dp2a.lo.u32.s32 %r1, %r2, %r3, %r4; cvt.sat.s8.u64 %rs1, %rd1; bfe.s64 %rd1, %rd2, %r1, %r2;
prefetch.global.L2 [%rd1]; fence.acq_rel.gpu; nanosleep.u32 20;"""


def test_everything_this_version_runs_is_accepted_and_well_formed() -> None:
    module = parse_ptx(kernel(ACCEPTED))
    assert unsupported(module.functions[0]) == ()
    verify_ptx(module)


def test_all_of_them_are_listed_at_once() -> None:
    text = "barrier.arrive 1, 32;\n.loc 1 14 9\nvadd.s32.s32.s32 %r1, %r2, %r3;\n.loc 1 15 1\n"
    text += "trap;"
    with pytest.raises(CompileError, match=r"a barrier of some .* 2 more kinds") as caught:
        check_supported(parse_ptx(kernel(text)).functions[0])
    assert [line.split(": ")[0].strip() for line in caught.value.hint.splitlines()[2:]] == [
        "k.cu:12:3",
        "k.cu:14:9",
        "k.cu:15:1",
    ]


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.ptx")), ids=lambda path: path.stem)
def test_every_dialect_verifies(path: Path) -> None:
    assert [str(problem) for problem in problems(parse_ptx_file(path))] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("add.s32 %r1, %r2, %r77;", "register '%r77' is not declared"),
        ("bra nowhere;", "branch target 'nowhere' is not a label"),
        ("brx.idx %r1, t;", "'t' is not a branch table"),
        ("t: .branchtargets far; brx.idx %r1, t;", "branch table 't' names 'far'"),
        ("mov.u32 %r1, table;", "'table' is not declared"),
        ("add.s32 %r1, %r2;", "'add.s32' has 2 operands; expected 3"),
        ("ld.global.u32 %r1;", "'ld.global.u32' has 1 operands; expected 2"),
        ("add.s32 %rd1, %r2, %r3;", "'%rd1' is a .b64; 'add.s32' expects a .s32"),
        ("add.s64 %rd1, %r2, %rd3;", "'%r2' is a .b32; 'add.s64' expects a .s64"),
        ("setp.eq.s32 %r1, %r2, %r3;", "'%r1' is a .b32; 'setp.eq.s32' expects a .pred"),
        ("selp.b32 %r1, %r2, %r3, %r4;", "'%r4' is a .b32; 'selp.b32' expects a .pred"),
        ("@%r1 bra end; end:", "guard '%r1' is a .b32; expected a .pred"),
        (".reg .q17 odd;", "unknown type '.q17'"),
    ],
)
def test_the_verifier_names_the_place(text: str, message: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify_ptx(parse_ptx(kernel(text), "k.ptx"))
    assert message in caught.value.message
    assert caught.value.location is not None and caught.value.location.file == "k.ptx"


def test_the_verifier_collects() -> None:
    module = parse_ptx(kernel("bra nowhere;\nadd.s32 %r1, %r2, %x;"), "k.ptx")
    assert [str(error.location) for error in problems(module)] == ["k.ptx:7", "k.ptx:8"]
