"""The PTX interpreter beyond plain arithmetic: carries, dot products, atomics, barriers, lanes, state spaces.

Each against a reference written here from the text of the PTX ISA, over edge values.
"""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.test_ptx_interpreter import M32, WORDS, result, run, s32
from toolchain.errors import CompileError
from toolchain.launch import ArrayArgument, Launch
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec
from toolchain.ptx_frontend.interpreter import interpret
from toolchain.ptx_frontend.memory import LaunchFault
from toolchain.ptx_frontend.parser import parse_ptx

M64 = 2**64 - 1
LONGS = st.one_of(st.sampled_from((0, 1, M32, M32 + 1, 2**63 - 1, 2**63, M64)), st.integers(0, M64))

# Arithmetic with the condition code, and dot products.


def words_of(value: int) -> tuple[int, int]:
    return value & M32, value >> 32 & M32


@settings(max_examples=60, deadline=None)
@given(a=LONGS, b=LONGS)
@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_carries_make_wide_sums_of_words(kind: str, a: int, b: int) -> None:
    """64-bit sum and difference of word pairs, and the carry and borrow out of them."""
    text = f"""add.cc.{kind} %r5, %r1, %r3; addc.cc.{kind} %r6, %r2, %r4; addc.{kind} %r7, 0, 0;
        st.global.v2.u32 [%r9], {{%r5, %r6}}; st.global.u32 [%r9+8], %r7;
        sub.cc.{kind} %r5, %r1, %r3; subc.cc.{kind} %r6, %r2, %r4; subc.{kind} %r7, 0, 0;
        st.global.u32 [%r9+12], %r5; st.global.u32 [%r9+16], %r6; st.global.u32 [%r9+20], %r7;"""
    out = run(text, *words_of(a), *words_of(b), words=6)
    assert out[:3] == (*words_of(a + b), int(a + b > M64))
    assert out[3:] == (*words_of(a - b), M32 if a < b else 0)


@settings(max_examples=60, deadline=None)
@given(a=LONGS, b=LONGS)
def test_carries_make_wide_products_of_words(a: int, b: int) -> None:
    """All 128 bits of a product by mad.cc and madc, as compilers print it."""
    text = """mul.lo.u32 %r5, %r1, %r3; mul.hi.u32 %r6, %r1, %r3;
        mad.lo.cc.u32 %r6, %r2, %r3, %r6; madc.hi.u32 %r7, %r2, %r3, 0;
        mad.lo.cc.u32 %r6, %r1, %r4, %r6; madc.hi.cc.u32 %r7, %r1, %r4, %r7; addc.u32 %r8, 0, 0;
        mad.lo.cc.u32 %r7, %r2, %r4, %r7; madc.hi.u32 %r8, %r2, %r4, %r8;
        st.global.v4.u32 [%r9], {%r5, %r6, %r7, %r8};"""
    assert run(text, *words_of(a), *words_of(b)) == (*words_of(a * b), *words_of(a * b >> 64))


@settings(max_examples=40, deadline=None)
@given(a=LONGS, b=LONGS)
def test_carries_of_64_bits(a: int, b: int) -> None:
    text = """mov.b64 %rd1, {%r1, %r2}; mov.b64 %rd2, {%r3, %r4}; add.cc.u64 %rd3, %rd1, %rd2;
        addc.u64 %rd4, 0, 0; sub.cc.s64 %rd5, %rd1, %rd2; subc.u64 %rd6, 0, 0;
        st.global.v2.u64 [%r9], {%rd3, %rd4}; st.global.v2.u64 [%r9+16], {%rd5, %rd6};"""
    out = run(text, *words_of(a), *words_of(b), words=8)
    expected = (a + b & M64, int(a + b > M64), a - b & M64, M64 if a < b else 0)
    assert out == tuple(word for value in expected for word in words_of(value))


@settings(max_examples=40, deadline=None)
@given(a=WORDS, b=WORDS, c=WORDS)
def test_saturating_products(a: int, b: int, c: int) -> None:
    total = (s32(a) * s32(b) >> 32) + s32(c)
    assert result("mad.hi.sat.s32 %r0, %r1, %r2, %r3", a, b, c) == max(-(2**31), min(2**31 - 1, total)) & M32


def parts(value: int, bits: int, signed: bool) -> list[int]:
    raw = [value >> i & (1 << bits) - 1 for i in range(0, 32, bits)]
    return [part - (1 << bits) if signed and part >= 1 << (bits - 1) else part for part in raw]


@settings(max_examples=60, deadline=None)
@given(a=WORDS, b=WORDS, c=WORDS, signed_a=st.booleans(), signed_b=st.booleans())
def test_dot_products(a: int, b: int, c: int, signed_a: bool, signed_b: bool) -> None:
    kinds = f"{'s' if signed_a else 'u'}32.{'s' if signed_b else 'u'}32"
    bytes_a, bytes_b = parts(a, 8, signed_a), parts(b, 8, signed_b)
    expected = c + sum(x * y for x, y in zip(bytes_a, bytes_b, strict=True)) & M32
    assert result(f"dp4a.{kinds} %r0, %r1, %r2, %r3", a, b, c) == expected
    for half, chosen in (("lo", bytes_b[:2]), ("hi", bytes_b[2:])):
        expected = c + sum(x * y for x, y in zip(parts(a, 16, signed_a), chosen, strict=True)) & M32
        assert result(f"dp2a.{half}.{kinds} %r0, %r1, %r2, %r3", a, b, c) == expected


# Atomics.

Update = Callable[[int, int, int], int]


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def updates(bits: int) -> dict[str, Update]:
    """PTX ISA, "atom": the new value of each operation, from the old one and the operands."""
    common: dict[str, Update] = {
        f"add.u{bits}": lambda r, s, t: r + s,
        f"min.s{bits}": lambda r, s, t: min(signed(r, bits), signed(s, bits)),
        f"max.s{bits}": lambda r, s, t: max(signed(r, bits), signed(s, bits)),
        f"min.u{bits}": lambda r, s, t: min(r, s),
        f"max.u{bits}": lambda r, s, t: max(r, s),
        f"and.b{bits}": lambda r, s, t: r & s,
        f"or.b{bits}": lambda r, s, t: r | s,
        f"xor.b{bits}": lambda r, s, t: r ^ s,
        f"exch.b{bits}": lambda r, s, t: s,
        f"cas.b{bits}": lambda r, s, t: t if r == s else r,
    }
    if bits == 32:
        common |= {
            "add.s32": lambda r, s, t: r + s,
            "inc.u32": lambda r, s, t: 0 if r >= s else r + 1,
            "dec.u32": lambda r, s, t: s if r == 0 or r > s else r - 1,
        }
    return common


@settings(max_examples=25, deadline=None)
@given(values=st.tuples(WORDS, WORDS, WORDS), same=st.booleans())
@pytest.mark.parametrize("name", updates(32))
@pytest.mark.parametrize("space", ["global", "shared", ""])
def test_atomics_of_words(name: str, space: str, values: tuple[int, int, int], same: bool) -> None:
    """Through each space and a generic address: the old value comes back, the new one is in memory."""
    old, s, t = values
    s = old if same else s
    where = "%r9" if space != "shared" else "%r5"
    dot = f".{space}" if space else ""
    operands = "%r2, %r3" if name.startswith("cas") else "%r2"
    text = f""".shared .align 8 .b8 cell[16]; mov.u32 %r5, cell;
        st{dot}.u32 [{where}], %r1; atom{dot}.{name} %r6, [{where}], {operands};
        ld{dot}.u32 %r7, [{where}]; st.global.v2.u32 [%r9], {{%r6, %r7}};"""
    assert run(text, old, s, t)[:2] == (old, updates(32)[name](old, s, t) & M32)


@settings(max_examples=25, deadline=None)
@given(old=LONGS, s=LONGS)
@pytest.mark.parametrize("name", [name for name in updates(64) if not name.startswith("cas")])
def test_atomics_of_double_words(name: str, old: int, s: int) -> None:
    text = f"""mov.b64 %rd1, {{%r1, %r2}}; mov.b64 %rd2, {{%r3, %r4}}; st.global.u64 [%r9], %rd1;
        atom.global.{name} %rd3, [%r9], %rd2; st.global.u64 [%r9+8], %rd3;"""
    new = updates(64)[name](old, s, 0) & M64
    assert run(text, *words_of(old), *words_of(s)) == (*words_of(new), *words_of(old))


@pytest.mark.parametrize("match", [True, False])
def test_compare_and_swap_of_halves_and_double_words(match: bool) -> None:
    text = """mov.b64 %rd1, {%r1, %r2}; mov.b64 %rd2, {%r3, %r4}; st.global.u64 [%r9], %rd1;
        atom.global.cas.b64 %rd3, [%r9], %rd2, 77; st.global.u64 [%r9+8], %rd3;"""
    old, compare = (5, 6), (5, 6 if match else 7)
    assert run(text, *old, *compare) == (*((77, 0) if match else old), *old)
    text = """.reg .b16 %h<4>; st.global.u32 [%r9], %r1; cvt.u16.u32 %h1, %r2;
        atom.global.cas.b16 %h2, [%r9+2], %h1, 0x1234; cvt.u32.u16 %r5, %h2; st.global.u32 [%r9+4], %r5;"""
    found = run(text, 0xABCD0011, 0xABCD if match else 0xABCE)[:2]
    assert found == (0x12340011 if match else 0xABCD0011, 0xABCD)


# Barriers.


def test_bar_red_counts_and_combines_over_the_thread_block() -> None:
    """%r1 is in how many threads the predicate holds: all, some, none."""
    for limit, expected in ((8, (8, 1, 1)), (3, (3, 0, 1)), (0, (0, 0, 0))):
        text = """mov.u32 %r5, %tid.x; setp.lt.u32 %p1, %r5, %r1; barrier.red.popc.aligned.u32 %r6, 0, %p1;
            bar.red.and.pred %p2, 0, 8, %p1; bar.red.or.pred %p3, 0, %p1; bar.red.popc.u32 %r8, 1, !%p1;
            selp.u32 %r2, 1, 0, %p2; selp.u32 %r3, 1, 0, %p3; setp.ne.u32 %p4, %r5, 5; @%p4 ret;
            st.global.v4.u32 [%r9], {%r6, %r2, %r3, %r8};"""
        assert run(text, limit, block=8) == (*expected, 8 - limit)


@pytest.mark.parametrize(
    "form",
    ["bar.sync 0", "barrier.sync 0", "barrier.sync.aligned 0", "bar.cta.sync 3", "barrier.cta.sync 1, 8"],
)
def test_forms_of_the_barrier(form: str) -> None:
    """Every thread reads what the last one wrote before."""
    text = f"""mov.u32 %r5, %tid.x; shl.b32 %r6, %r5, 2; add.u32 %r6, %r6, %r9; add.u32 %r5, %r5, 1;
        st.global.u32 [%r6], %r5; {form}; ld.global.u32 %r7, [%r9+28]; {form}; st.global.u32 [%r6], %r7;"""
    assert run(text, block=8, words=8) == (8,) * 8


def test_arrive_does_not_wait() -> None:
    """Warp 0 arrives and ends; warp 1 waits for all 8 threads."""
    text = """mov.u32 %r5, %tid.x; setp.lt.u32 %p1, %r5, 4; @%p1 st.global.u32 [%r9], 7;
        @%p1 bar.arrive 1, 8; @%p1 ret; bar.sync 1, 8; ld.global.u32 %r6, [%r9]; st.global.u32 [%r9+4], %r6;"""
    assert run(text, block=8)[:2] == (7, 7)


def test_a_barrier_that_cannot_be_complete_faults() -> None:
    text = "mov.u32 %r5, %tid.x; setp.lt.u32 %p1, %r5, 4; @%p1 bar.sync 1; @%p1 ret; bar.sync 2;"
    with pytest.raises(
        LaunchFault, match=r"thread \(0,0,0\) of block \(0,0,0\) waits at barrier 1, which never"
    ):
        run(text, block=8)
    with pytest.raises(LaunchFault, match="never has all"):
        run("bar.sync 1, 64;", block=8)


def test_syncwarp_in_one_side_of_a_branch_does_not_split_what_follows() -> None:
    """Lanes 0 and 1 wait for each other only; all four meet again for the ballot."""
    text = """mov.u32 %r5, %laneid; setp.gt.u32 %p1, %r5, 1; @%p1 bra other;
        bar.warp.sync 3; mov.u32 %r6, 1; bra join; other: mov.u32 %r6, 2;
        join: setp.eq.u32 %p2, %r6, 2; vote.sync.ballot.b32 %r7, %p2, -1; shl.b32 %r8, %r5, 2;
        add.u32 %r8, %r8, %r9; st.global.u32 [%r8], %r7;"""
    assert run(text, block=4) == (0b1100,) * 4


# Between lanes.


def lanes(instruction: str, before: str = "", spec: MachineSpec = CLASSIC, block: int = 4) -> tuple[int, ...]:
    """%r6 of every thread after an instruction; %r5 is the lane, %r7 its bit."""
    text = f"""mov.u32 %r5, %laneid; mov.u32 %r7, %lanemask_eq; {before} {instruction}; mov.u32 %r8, %tid.x;
        shl.b32 %r8, %r8, 2; add.u32 %r8, %r8, %r9; st.global.u32 [%r8], %r6;"""
    return run(text, block=block, words=block, spec=spec)


def test_votes_keep_to_their_masks() -> None:
    """Even and odd lanes vote apart, in one instruction."""
    halves = "and.b32 %r1, %r5, 1; shl.b32 %r2, 5, %r1; setp.gt.u32 %p1, %r5, 1; setp.ne.u32 %p2, %r5, 3;"
    assert lanes("vote.sync.ballot.b32 %r6, %p1, %r2", halves) == (4, 8, 4, 8)
    for mode, expected in (("all", (1, 0, 1, 0)), ("any", (1, 1, 1, 1)), ("uni", (1, 0, 1, 0))):
        assert lanes(f"vote.sync.{mode}.pred %p3, %p2, %r2; selp.u32 %r6, 1, 0, %p3", halves) == expected
    assert lanes("vote.sync.ballot.b32 %r6, !%p1, -1", halves) == (3,) * 4
    assert lanes("vote.ballot.b32 %r6, %p1", halves) == (12,) * 4


def test_matches() -> None:
    values = "and.b32 %r1, %r5, 2; cvt.u64.u32 %rd1, %r1; shl.b64 %rd1, %rd1, 32;"
    assert lanes("match.any.sync.b32 %r6, %r1, -1", values) == (3, 3, 12, 12)
    assert lanes("match.any.sync.b64 %r6, %rd1, -1", values) == (3, 3, 12, 12)
    both = "match.all.sync.b32 %r6|%p1, {}, -1; selp.u32 %r4, 16, 0, %p1; or.b32 %r6, %r6, %r4"
    assert lanes(both.format("%r1"), values) == (0,) * 4
    assert lanes(both.format("7"), values) == (31,) * 4


@pytest.mark.parametrize(
    ("name", "expected"),
    [("add.s32", -2), ("min.s32", -2), ("max.s32", 1), ("min.u32", 0), ("max.u32", -1),
     ("and.b32", 0), ("or.b32", -1), ("xor.b32", 0)],
)  # fmt: skip
def test_reductions(name: str, expected: int) -> None:
    """Of -2, -1, 0, 1."""
    assert lanes(f"redux.sync.{name} %r6, %r1, -1", "sub.s32 %r1, %r5, 2;") == (expected & M32,) * 4


def test_only_the_active_lanes_take_part() -> None:
    odd = "and.b32 %r1, %r5, 1; setp.eq.u32 %p1, %r1, 1; mov.u32 %r6, 0;"
    assert lanes("@%p1 activemask.b32 %r6", odd) == (0, 10, 0, 10)
    assert lanes("@%p1 redux.sync.add.u32 %r6, %r5, 10", odd) == (0, 4, 0, 4)
    assert lanes("@%p1 elect.sync %r6|%p2, 10", odd) == (0, 1, 0, 1)
    assert lanes("activemask.b32 %r6", block=3) == (7,) * 3
    assert lanes("@%p1 shfl.sync.idx.b32 %r6|%p2, %r5, 0, 31, -1", odd) == (0, 1, 0, 3)


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("distance", [0, 1, 2, 3])
def test_shuffles_with_a_width(mode: str, width: int, distance: int) -> None:
    """CUDA's definition of __shfl*_sync: segments of `width` lanes, out of range keeps the own value."""
    bounds = 32 - width << 8 | (0 if mode == "up" else 31)
    expected, valid = [], []
    for lane in range(4):
        first = lane // width * width
        source = {
            "up": lane - distance, "down": lane + distance, "bfly": lane ^ distance,
            "idx": first + distance % width,
        }[mode]  # fmt: skip
        inside = source >= first if mode == "up" else source < first + width
        expected.append(source if inside else lane)
        valid.append(int(inside))
    shuffle = f"shfl.sync.{mode}.b32 %r6|%p1, %r5, {distance}, {bounds}, -1"
    assert lanes(shuffle) == tuple(expected)
    assert lanes(f"{shuffle}; selp.u32 %r6, 1, 0, %p1") == tuple(valid)


def test_a_warp_is_as_wide_as_the_machine_s() -> None:
    assert lanes("shfl.sync.down.b32 %r6, %r5, 1, 31, -1", spec=NANO) == (1, 1, 1, 1)
    assert lanes("mov.u32 %r6, WARP_SZ", spec=NANO) == (2,) * 4


# State spaces.


def test_generic_addresses_reach_every_space() -> None:
    text = """.shared .align 4 .b8 tile[16]; .local .align 4 .b8 stack[16];
        mov.u32 %r5, tile; cvta.shared.u32 %r5, %r5; mov.u32 %r6, stack; cvta.local.u32 %r6, %r6;
        cvta.global.u32 %r7, %r9; st.u32 [%r5+4], 1; st.u32 [%r6+4], 2; st.u32 [%r7+4], 3;
        ld.shared.u32 %r1, [tile+4]; ld.local.u32 %r2, [stack+4]; ld.global.u32 %r3, [%r9+4];
        isspacep.shared %p1, %r5; isspacep.local %p2, %r6; isspacep.global %p3, %r7; isspacep.global %p4, %r5;
        selp.u32 %r4, 1, 0, %p1; @%p2 add.u32 %r4, %r4, 2; @%p3 add.u32 %r4, %r4, 4; @%p4 add.u32 %r4, %r4, 8;
        cvta.to.shared.u32 %r5, %r5; ld.shared.u32 %r5, [%r5+4]; add.u32 %r3, %r3, %r5;
        st.global.v4.u32 [%r9], {%r1, %r2, %r3, %r4};"""
    assert run(text) == (1, 2, 4, 7)


def test_every_thread_has_its_own_local_memory() -> None:
    text = """.local .align 4 .b8 stack[8]; mov.u32 %r5, %tid.x; mov.u32 %r6, stack; st.local.u32 [%r6+4], %r5;
        bar.sync 0; ld.local.u32 %r7, [stack+4]; shl.b32 %r8, %r5, 2; add.u32 %r8, %r8, %r9;
        st.global.u32 [%r8], %r7;"""
    assert run(text, block=8, words=8) == tuple(range(8))


MODULE = """.version 7.0 .target sm_70 .address_size 32
.const .align 4 .b32 table[4] = {10, 20, 30};
.global .align 4 .b32 counter = 5;
.global .align 2 .b16 halves[3] = {0x1111, -1};
.global .align 4 .b32 pointers[2] = {counter, halves+2};
.const .align 4 .b32 to_counter = counter;
.extern .shared .align 4 .b8 buffer[];
.shared .align 4 .b8 fixed[8];
.visible .entry k(.param .u32 .ptr .global .align 4 out)
{ .reg .b32 %r<9>; ld.param.u32 %r9, [out];"""


def run_module(text: str, dynamic: int = 0) -> tuple[int, ...]:
    module = parse_ptx(MODULE.replace("%r<9>", "%r<10>") + text + "ret; }")
    launch = Launch((1, 1, 1), (1, 1, 1), (ArrayArgument("out", (0,) * 4),), dynamic)
    return interpret(module, "k", launch, CLASSIC)[:4]


def test_initialised_variables_and_the_addresses_in_them() -> None:
    text = """mov.u32 %r1, table; ld.const.u32 %r2, [%r1+4]; ld.const.u32 %r3, [table+12];
        ld.global.u32 %r4, [pointers]; ld.global.u32 %r5, [%r4]; ld.global.u32 %r4, [pointers+4];
        ld.global.u16 %r6, [%r4]; ld.const.u32 %r7, [to_counter]; ld.global.u32 %r8, [%r7];
        add.u32 %r8, %r8, %r3; st.global.v4.u32 [%r9], {%r2, %r5, %r6, %r8};"""
    assert run_module(text) == (20, 5, 0xFFFF, 5)


def test_dynamic_shared_memory_follows_the_static() -> None:
    text = """mov.u32 %r1, buffer; mov.u32 %r2, fixed; sub.u32 %r3, %r1, %r2; st.shared.u32 [%r1+12], 4;
        ld.shared.u32 %r4, [buffer+12]; mov.u32 %r5, %dynamic_smem_size;
        st.global.v4.u32 [%r9], {%r3, %r4, %r5, 0};"""
    assert run_module(text.replace(", 0};", ", %r2};"), 16) == (8, 4, 16, 0)
    with pytest.raises(CompileError, match="shared memory is full"):
        run_module(text.replace(", 0};", ", %r2};"), 500)


def test_constant_memory_is_not_written() -> None:
    with pytest.raises(LaunchFault, match="makes a store to const memory"):
        run_module("mov.u32 %r1, table; st.const.u32 [%r1], 1;")
