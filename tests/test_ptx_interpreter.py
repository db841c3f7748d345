"""The PTX interpreter: every opcode against arithmetic written here on its own, then whole kernels."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolchain.errors import CompileError
from toolchain.launch import ArrayArgument, Launch, ScalarArgument
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec
from toolchain.ptx_frontend.interpreter import interpret
from toolchain.ptx_frontend.memory import LaunchFault
from toolchain.ptx_frontend.names import find_entry
from toolchain.ptx_frontend.parser import parse_ptx, parse_ptx_file

SAMPLES = Path(__file__).parent / "ptx"
M32 = 0xFFFFFFFF
EDGES = (
    0,
    1,
    2,
    31,
    32,
    33,
    0x7FFFFFFF,
    0x80000000,
    0x80000001,
    0xFFFFFFFE,
    0xFFFFFFFF,
    0x0000FFFF,
    0x12345678,
)
WORDS = st.one_of(st.sampled_from(EDGES), st.integers(0, M32))

HEADER = """.version 7.0
.target sm_70
.address_size 32
.visible .entry k(.param .u32 .ptr .global .align 4 out,
    .param .u32 a, .param .u32 b, .param .u32 c, .param .u32 d)
{ .reg .b32 %r<20>; .reg .b64 %rd<12>; .reg .pred %p<8>;
ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b]; ld.param.u32 %r3, [c]; ld.param.u32 %r4, [d];
ld.param.u32 %r9, [out];
"""


def run(
    text: str, *values: int, words: int = 4, block: int = 1, spec: MachineSpec = CLASSIC
) -> tuple[int, ...]:
    """Words the statements leave in `out`; %r1..%r4 hold the values, %r9 the address of `out`."""
    module = parse_ptx(HEADER + text + "\nret; }")
    padded = [*values, 0, 0, 0, 0][:4]
    arguments = (
        ArrayArgument("out", (0,) * words),
        *(ScalarArgument(n, v) for n, v in zip("abcd", padded, strict=True)),
    )
    return interpret(module, "k", Launch((1, 1, 1), (block, 1, 1), arguments), spec)[:words]


def result(instruction: str, *values: int) -> int:
    """What an instruction leaves in %r0."""
    return run(f"{instruction};\nst.global.u32 [%r9], %r0;", *values)[0]


def s32(value: int) -> int:
    """The signed reading of 32 bits."""
    return int(np.array(value & M32, dtype=np.uint32).view(np.int32))


def clamp(value: int, low: int, high: int) -> int:
    """value, brought between low and high."""
    return max(low, min(high, value))


Expected = Callable[[int, int, int], int]
BINARY: dict[str, Expected] = {
    "add.s32 %r0, %r1, %r2": lambda a, b, c: a + b,
    "sub.u32 %r0, %r1, %r2": lambda a, b, c: a - b,
    "add.sat.s32 %r0, %r1, %r2": lambda a, b, c: clamp(s32(a) + s32(b), -(2**31), 2**31 - 1),
    "sub.sat.s32 %r0, %r1, %r2": lambda a, b, c: clamp(s32(a) - s32(b), -(2**31), 2**31 - 1),
    "mul.lo.s32 %r0, %r1, %r2": lambda a, b, c: a * b,
    "mul.hi.u32 %r0, %r1, %r2": lambda a, b, c: a * b >> 32,
    "mul.hi.s32 %r0, %r1, %r2": lambda a, b, c: s32(a) * s32(b) >> 32,
    "mad.lo.s32 %r0, %r1, %r2, %r3": lambda a, b, c: a * b + c,
    "mad.hi.u32 %r0, %r1, %r2, %r3": lambda a, b, c: (a * b >> 32) + c,
    "mad.hi.s32 %r0, %r1, %r2, %r3": lambda a, b, c: (s32(a) * s32(b) >> 32) + c,
    "mul24.lo.u32 %r0, %r1, %r2": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "mul24.hi.s32 %r0, %r1, %r2": lambda a, b, c: (s32(a << 8) >> 8) * (s32(b << 8) >> 8) >> 16,
    "mad24.lo.s32 %r0, %r1, %r2, %r3": lambda a, b, c: (s32(a << 8) >> 8) * (s32(b << 8) >> 8) + c,
    "sad.s32 %r0, %r1, %r2, %r3": lambda a, b, c: c + abs(s32(a) - s32(b)),
    "sad.u32 %r0, %r1, %r2, %r3": lambda a, b, c: c + abs(a - b),
    "div.u32 %r0, %r1, %r2": lambda a, b, c: a // b if b else -1,
    "rem.u32 %r0, %r1, %r2": lambda a, b, c: a % b if b else -1,
    "div.s32 %r0, %r1, %r2": lambda a, b, c: int(np.trunc(s32(a) / s32(b))) if b else -1,
    "rem.s32 %r0, %r1, %r2": lambda a, b, c: s32(a) - s32(b) * int(s32(a) / s32(b)) if b else -1,
    "abs.s32 %r0, %r1": lambda a, b, c: abs(s32(a)),
    "neg.s32 %r0, %r1": lambda a, b, c: -a,
    "min.s32 %r0, %r1, %r2": lambda a, b, c: min(s32(a), s32(b)),
    "max.s32 %r0, %r1, %r2": lambda a, b, c: max(s32(a), s32(b)),
    "min.u32 %r0, %r1, %r2": lambda a, b, c: min(a, b),
    "max.u32 %r0, %r1, %r2": lambda a, b, c: max(a, b),
    "and.b32 %r0, %r1, %r2": lambda a, b, c: a & b,
    "or.b32 %r0, %r1, %r2": lambda a, b, c: a | b,
    "xor.b32 %r0, %r1, %r2": lambda a, b, c: a ^ b,
    "not.b32 %r0, %r1": lambda a, b, c: M32 - a,
    "cnot.b32 %r0, %r1": lambda a, b, c: 1 if a == 0 else 0,
    "shl.b32 %r0, %r1, %r2": lambda a, b, c: a << b if b < 32 else 0,
    "shr.u32 %r0, %r1, %r2": lambda a, b, c: a >> b if b < 32 else 0,
    "shr.s32 %r0, %r1, %r2": lambda a, b, c: s32(a) >> min(b, 31),
    "shf.l.wrap.b32 %r0, %r1, %r2, %r3": lambda a, b, c: ((b << 32 | a) << (c % 32)) >> 32,
    "shf.r.wrap.b32 %r0, %r1, %r2, %r3": lambda a, b, c: (b << 32 | a) >> (c % 32),
    "shf.l.clamp.b32 %r0, %r1, %r2, %r3": lambda a, b, c: ((b << 32 | a) << min(c, 32)) >> 32,
    "shf.r.clamp.b32 %r0, %r1, %r2, %r3": lambda a, b, c: (b << 32 | a) >> min(c, 32),
    "popc.b32 %r0, %r1": lambda a, b, c: bin(a).count("1"),
    "clz.b32 %r0, %r1": lambda a, b, c: 32 - len(bin(a)[2:].lstrip("0")),
    "brev.b32 %r0, %r1": lambda a, b, c: sum(1 << (31 - i) for i in range(32) if a >> i & 1),
    "bfind.u32 %r0, %r1": lambda a, b, c: max((i for i in range(32) if a >> i & 1), default=M32),
    "bfind.s32 %r0, %r1": lambda a, b, c: max(
        (i for i in range(32) if (a if s32(a) >= 0 else M32 - a) >> i & 1), default=M32
    ),
    "bfind.shiftamt.u32 %r0, %r1": lambda a, b, c: min(
        (i for i in range(32) if a << i & 1 << 31), default=M32
    ),
    "lop3.b32 %r0, %r1, %r2, %r3, 0xCA": lambda a, b, c: (a & b) | (~a & c),
    "lop3.b32 %r0, %r1, %r2, %r3, 0x96": lambda a, b, c: a ^ b ^ c,
    "slct.s32.s32 %r0, %r1, %r2, %r3": lambda a, b, c: a if s32(c) >= 0 else b,
    "set.gt.u32.s32 %r0, %r1, %r2": lambda a, b, c: M32 if s32(a) > s32(b) else 0,
    "mov.b32 %r0, %r1": lambda a, b, c: a,
    "mul.wide.s32 %rd1, %r1, %r2; shr.u64 %rd1, %rd1, 32; cvt.u32.u64 %r0, %rd1": lambda a, b, c: (
        (s32(a) * s32(b)) >> 32
    ),
    "mul.wide.u32 %rd1, %r1, %r2; shr.u64 %rd1, %rd1, 32; cvt.u32.u64 %r0, %rd1": lambda a, b, c: a * b >> 32,
    "cvt.s64.s32 %rd1, %r1; shr.s64 %rd1, %rd1, 16; cvt.u32.u64 %r0, %rd1": lambda a, b, c: s32(a) >> 16,
    "cvt.u64.u32 %rd1, %r1; shl.b64 %rd1, %rd1, 4; shr.u64 %rd1, %rd1, 20; cvt.u32.u64 %r0, %rd1": (
        lambda a, b, c: (a << 4) >> 20
    ),
    "cvt.s32.s8 %r0, %r1": lambda a, b, c: (a & 255) - (256 if a & 128 else 0),
    "cvt.u32.u16 %r0, %r1": lambda a, b, c: a & 0xFFFF,
    "mov.b64 %rd1, {%r1, %r2}; add.s64 %rd1, %rd1, 1; mov.b64 {%r3, %r0}, %rd1": lambda a, b, c: (
        ((b << 32 | a) + 1) >> 32
    ),
}


@pytest.mark.parametrize("instruction", BINARY)
@settings(max_examples=40, deadline=None)
@given(a=WORDS, b=WORDS, c=WORDS)
def test_arithmetic(instruction: str, a: int, b: int, c: int) -> None:
    assert result(instruction, a, b, c) == BINARY[instruction](a, b, c) & M32


COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq.b32": lambda a, b: a == b,
    "ne.s32": lambda a, b: a != b,
    "lt.s32": lambda a, b: s32(a) < s32(b),
    "le.s32": lambda a, b: s32(a) <= s32(b),
    "gt.u32": lambda a, b: a > b,
    "ge.u32": lambda a, b: a >= b,
    "lo.u32": lambda a, b: a < b,
    "hs.u32": lambda a, b: a >= b,
}


@pytest.mark.parametrize("name", COMPARE)
@settings(max_examples=30, deadline=None)
@given(a=WORDS, b=WORDS)
def test_comparisons_and_both_destinations(name: str, a: int, b: int) -> None:
    text = f"setp.{name} %p1|%p2, %r1, %r2; selp.b32 %r5, 5, 6, %p1; selp.b32 %r6, 5, 6, %p2;"
    true = COMPARE[name](a, b)
    out = run(text + "st.global.u32 [%r9], %r5; st.global.u32 [%r9+4], %r6;", a, b)
    assert out[:2] == ((5, 6) if true else (6, 5))


@pytest.mark.parametrize("operator", ["and", "or", "xor"])
@pytest.mark.parametrize("third", [0, 1])
@pytest.mark.parametrize("negated", [False, True])
def test_setp_with_a_third_predicate(operator: str, third: int, negated: bool) -> None:
    text = f"""setp.ne.s32 %p3, %r3, 0;
        setp.lt.{operator}.s32 %p1|%p2, %r1, %r2, {"!" if negated else ""}%p3;
        selp.u32 %r5, 1, 0, %p1; selp.u32 %r6, 1, 0, %p2;
        st.global.u32 [%r9], %r5; st.global.u32 [%r9+4], %r6;"""
    function = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[operator]
    other = bool(third) != negated
    assert run(text, 3, 4, third)[:2] == (int(function(True, other)), int(function(False, other)))


@settings(max_examples=150, deadline=None)
@given(a=WORDS, b=WORDS, position=st.integers(0, 300), length=st.integers(0, 300), signed=st.booleans())
def test_bit_fields(a: int, b: int, position: int, length: int, signed: bool) -> None:
    """The loops of the PTX ISA's own semantics of bfe and bfi, bit by bit."""
    pos, count = position & 255, length & 255
    bits = [a >> i & 1 for i in range(32)]
    fill = bits[min(pos + count - 1, 31)] if signed and count else 0
    expected = sum((bits[pos + i] if i < count and pos + i <= 31 else fill) << i for i in range(32))
    kind = "s32" if signed else "u32"
    assert result(f"bfe.{kind} %r0, %r1, %r2, %r3", a, position, length) == expected
    into = [b >> i & 1 for i in range(32)]
    for i in range(count):
        if pos + i <= 31:
            into[pos + i] = bits[i]
    expected = sum(bit << i for i, bit in enumerate(into))
    assert result("bfi.b32 %r0, %r1, %r2, %r3, %r4", a, b, position, length) == expected


@settings(max_examples=60, deadline=None)
@given(a=WORDS, b=WORDS, selector=WORDS)
def test_prmt(a: int, b: int, selector: int) -> None:
    source = list(a.to_bytes(4, "little") + b.to_bytes(4, "little"))
    expected = 0
    for i in range(4):
        nibble = selector >> (4 * i) & 15
        byte = source[nibble & 7]
        expected |= ((0xFF if byte >= 128 else 0) if nibble & 8 else byte) << (8 * i)
    assert result("prmt.b32 %r0, %r1, %r2, %r3", a, b, selector) == expected


@pytest.mark.parametrize(
    ("mode", "rows"),
    [
        ("f4e", ("3210", "4321", "5432", "6543")),
        ("b4e", ("5670", "6701", "7012", "0123")),
        ("rc8", ("0000", "1111", "2222", "3333")),
        ("ecl", ("3210", "3211", "3222", "3333")),
        ("ecr", ("0000", "1110", "2210", "3210")),
        ("rc16", ("1010", "3232", "1010", "3232")),
    ],
)
def test_prmt_modes_are_the_isa_table(mode: str, rows: tuple[str, ...]) -> None:
    for selector, row in enumerate(rows):
        expected = int("".join(f"{0x10 + int(digit):02x}" for digit in row), 16)
        out = result(f"prmt.b32.{mode} %r0, %r1, %r2, %r3", 0x13121110, 0x17161514, selector)
        assert out == expected, (mode, selector)


def test_narrow_and_wide_loads_extend() -> None:
    text = """mov.u32 %r5, -2; st.global.u32 [%r9], %r5;
        ld.global.s8 %r6, [%r9]; ld.global.u8 %r7, [%r9+1]; ld.global.s32 %rd1, [%r9];
        ld.global.u16 %r8, [%r9+2];
        shr.u64 %rd1, %rd1, 32; cvt.u32.u64 %r5, %rd1;
        st.global.v4.u32 [%r9], {%r5, %r6, %r7, %r8};"""
    assert run(text) == (M32, M32 - 1, 255, 0xFFFF)


def test_predicates_as_data() -> None:
    text = """setp.eq.s32 %p1, %r1, 1; setp.eq.s32 %p2, %r2, 1; xor.pred %p3, %p1, %p2; not.pred %p4, %p3;
        and.pred %p5, %p4, %p1; mov.pred %p6, %p5;
        @%p6 st.global.u32 [%r9], 7; @!%p6 st.global.u32 [%r9], 8;"""
    assert run(text, 1, 1)[0] == 7
    assert run(text, 1, 0)[0] == 8


def test_special_registers() -> None:
    text = """mov.u32 %r5, {}; mov.u32 %r6, %tid.x; shl.b32 %r6, %r6, 2; add.u32 %r6, %r6, %r9;
    st.global.u32 [%r6], %r5;"""
    expected = {
        "%tid.x": (0, 1, 2, 3, 4, 5),
        "%ntid.x": (6,) * 6,
        "%laneid": (0, 1, 0, 1, 0, 1),
        "%warpid": (0, 0, 1, 1, 2, 2),
        "%lanemask_lt": (0, 1, 0, 1, 0, 1),
        "%lanemask_ge": (3, 2, 3, 2, 3, 2),
        "WARP_SZ": (2,) * 6,
    }
    for name, values in expected.items():
        assert run(text.format(name), block=6, words=6, spec=NANO) == values, name


def test_switch_table_and_loop() -> None:
    text = """mov.u32 %r5, 0;
    again: table: .branchtargets one, two, three; brx.idx %r1, table;
    one: add.u32 %r5, %r5, 1; bra.uni next;
    two: add.u32 %r5, %r5, 10; bra.uni next;
    three: add.u32 %r5, %r5, 100;
    next: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 3; @%p1 bra again;
    st.global.u32 [%r9], %r5;"""
    assert run(text, 0)[0] == 111
    assert run(text, 1)[0] == 110
    with pytest.raises(CompileError, match="branch index 9 of a table of 3"):
        run(text, 9)


def test_diverged_lanes_meet_again_in_whatever_order_the_blocks_are_printed() -> None:
    """The join stands before one arm in the text; the lanes still reach it together."""
    text = """mov.u32 %r5, %tid.x; and.b32 %r6, %r5, 1; setp.eq.u32 %p1, %r6, 0; @%p1 bra even; bra.uni odd;
    join: activemask.b32 %r8; shl.b32 %r7, %r5, 2; add.u32 %r7, %r7, %r9; st.global.u32 [%r7], %r8; ret;
    odd: mov.u32 %r8, 1; bra join;
    even: mov.u32 %r8, 2; bra join;"""
    assert run(text, block=4) == (15,) * 4


def test_shared_memory_and_barriers() -> None:
    text = """.shared .align 4 .b32 tile[8]; mov.u32 %r5, %tid.x; shl.b32 %r6, %r5, 2; mov.u32 %r7, tile;
    add.u32 %r7, %r7, %r6; st.shared.u32 [%r7], %r5; bar.sync 0;
    mov.u32 %r7, tile; sub.u32 %r7, %r7, %r6; ld.shared.u32 %r8, [%r7+28];
    setp.gt.u32 %p1, %r8, 4; bar.red.popc.u32 %r3, 0, %p1; bar.red.and.pred %p2, 0, %p1;
    selp.u32 %r4, 100, 200, %p2; add.u32 %r8, %r8, %r4; add.u32 %r3, %r3, %r8;
    add.u32 %r7, %r9, %r6; st.global.u32 [%r7], %r3;"""
    assert run(text, block=8, words=8) == tuple(203 + 7 - i for i in range(8))


@pytest.mark.parametrize(
    ("operation", "expected"),
    [("add", 6), ("max", 3), ("or", 3), ("inc", 4), ("exch", 3), ("xor", 0)],
)
def test_atomics_run_lowest_lane_first(operation: str, expected: int) -> None:
    kind = "b32" if operation in ("or", "xor", "exch") else "u32"
    text = f"""mov.u32 %r5, %tid.x; atom.global.{operation}.{kind}
    %r6, [%r9], {9 if operation == "inc" else "%r5"};"""
    assert run(text, block=4)[0] == expected


def test_compare_and_swap_and_red() -> None:
    text = """mov.u32 %r5, %tid.x; add.u32 %r6, %r5, 1; atom.global.cas.b32 %r7, [%r9], %r5, %r6;
    red.global.add.u32 [%r9+4], %r7; red.global.min.s32 [%r9+8], -3;"""
    assert run(text, block=4)[:3] == (4, 6, 0xFFFFFFFD)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("idx.b32 %r6|%p1, %r5, 2, 31", (2, 2, 2, 2)),
        ("up.b32 %r6|%p1, %r5, 1, 0", (0, 0, 1, 2)),
        ("down.b32 %r6|%p1, %r5, 1, 31", (1, 2, 3, 3)),
        ("bfly.b32 %r6|%p1, %r5, 1, 31", (1, 0, 3, 2)),
        ("idx.b32 %r6|%p1, %r5, 1, 0x1e1f", (1, 1, 3, 3)),
        ("down.b32 %r6|%p1, %r5, 1, 0x1e1f", (1, 1, 3, 3)),
    ],
)
def test_shuffles(mode: str, expected: tuple[int, ...]) -> None:
    text = f"""mov.u32 %r5, %tid.x; shfl.sync.{mode}, -1; shl.b32 %r7, %r5, 2; add.u32 %r7, %r7, %r9;
    st.global.u32 [%r7], %r6;"""
    assert run(text, block=4) == expected


def test_votes_and_matches() -> None:
    text = """mov.u32 %r5, %laneid; setp.gt.u32 %p1, %r5, 1; vote.sync.ballot.b32 %r6, %p1, -1;
    vote.sync.any.pred %p2, %p1, -1; vote.sync.all.pred %p3, %p1, -1; and.b32 %r7, %r5, 1;
    match.any.sync.b32 %r8, %r7, -1; redux.sync.add.s32 %r4, %r5, -1;
    setp.ne.u32 %p4, %r5, 0; @%p4 bra done;
    selp.u32 %r7, 1, 0, %p2; selp.u32 %r1, 2, 0, %p3; or.b32 %r7, %r7, %r1;
    st.global.v4.u32 [%r9], {%r6, %r7, %r8, %r4}; done:"""
    assert run(text, block=4) == (0b1100, 1, 0b0101, 6)


def test_faults_name_the_line_and_the_thread() -> None:
    with pytest.raises(
        LaunchFault, match=r"thread \(0,0,0\) of block \(0,0,0\) loads at global address 4096"
    ) as caught:
        run("mov.u32 %r5, 4096; ld.global.u32 %r6, [%r5];")
    assert caught.value.location is not None and caught.value.location.line == 9
    with pytest.raises(LaunchFault, match="not a multiple of 4"):
        run("mov.u32 %r5, 2; st.global.u32 [%r5], 1;")
    with pytest.raises(LaunchFault, match=r"thread \(1,0,0\) of block \(0,0,0\) traps"):
        run("mov.u32 %r5, %tid.x; setp.gt.u32 %p1, %r5, 0; @%p1 trap;", block=4)
    with pytest.raises(LaunchFault, match="step limit"):
        run("forever: bra forever;")


def test_arguments_are_checked() -> None:
    module = parse_ptx_file(SAMPLES / "clang22.ptx")
    array, number = ArrayArgument("a", (1,)), ScalarArgument("n", 1)
    for arguments, message in (
        ((array, array), "takes 4 arguments; 2 given"),
        ((array, array, number, number), "'n' of '_Z3dotPKiS0_Pii' must be an array"),
        ((array, array, array, ScalarArgument("n", 2**40)), "does not fit"),
        ((array, ScalarArgument("b", 4), array, number), "'b' of '_Z3dotPKiS0_Pii' must be an array"),
        ((array, array, ArrayArgument("c", (0,) * 500), number), "502 words"),
    ):
        with pytest.raises(CompileError, match=message):
            interpret(module, "dot", Launch((1, 1, 1), (1, 1, 1), arguments), CLASSIC)
    with pytest.raises(CompileError, match="a block of 64 threads"):
        interpret(module, "dot", Launch((1, 1, 1), (64, 1, 1), (array,) * 4), CLASSIC)


@pytest.mark.parametrize("dialect", ["clang22", "nvcc13"])
def test_the_dot_product_of_each_compiler(dialect: str) -> None:
    module = parse_ptx_file(SAMPLES / f"{dialect}.ptx")
    a, b = ArrayArgument("a", (1, 2, -3)), ArrayArgument("b", (4, 5, 6))
    launch = Launch((1, 1, 1), (1, 1, 1), (a, b, ArrayArgument("c", (0,)), ScalarArgument("n", 3)))
    assert launch.read_back(interpret(module, "dot", launch, CLASSIC))["c"] == [-4]


def test_the_other_dialects_run() -> None:
    launch = Launch(
        (2, 1, 1), (4, 1, 1),
        (
            ArrayArgument("a", tuple(range(7))), ArrayArgument("b", (10,) * 7),
            ArrayArgument("c", (0,) * 7), ScalarArgument("n", 7),
        ),
    )  # fmt: skip
    words = interpret(parse_ptx_file(SAMPLES / "triton.ptx"), "add_kernel", launch, CLASSIC)
    assert launch.read_back(words)["c"] == [10, 11, 12, 13, 14, 15, 16]
    launch = Launch((1, 1, 1), (4, 1, 1), (ArrayArgument("o", (0,) * 4), ArrayArgument("i", (1, 2, 3, 4))))
    words = interpret(parse_ptx_file(SAMPLES / "tinygrad.ptx"), "E_4", launch, CLASSIC)
    assert launch.read_back(words)["o"] == [1, 4, 9, s32(1640531527**2)]
    launch = Launch((1, 1, 1), (4, 1, 1), (ArrayArgument("o", (0,) * 4), ScalarArgument("s", 5 << 64)))
    words = interpret(parse_ptx_file(SAMPLES / "nvrtc.ptx"), "sums", launch, CLASSIC)
    assert launch.read_back(words)["o"] == [24, 12, 32, 20]


def test_find_entry() -> None:
    module = parse_ptx_file(SAMPLES / "nvcc13.ptx")
    assert find_entry(module, "dot") is find_entry(module) is find_entry(module, "_Z3dotPKiS0_Pii")
    with pytest.raises(CompileError, match="no kernel named 'cross'; kernels: dot"):
        find_entry(module, "cross")
    with pytest.raises(CompileError, match="there is no kernel") as caught:
        find_entry(parse_ptx(".func f() { ret; }"))
    assert "__global__" in caught.value.hint
    two = parse_ptx(".entry a() { ret; } .entry b() { ret; }")
    with pytest.raises(CompileError, match="several kernels: a, b"):
        find_entry(two)
