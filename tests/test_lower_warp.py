"""Warp operations and barriers against references written from the PTX ISA's text."""

import random
from functools import reduce

import pytest

from tests.ptx_levels import WORD, check, kernel, launch_of
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec

SPECS = pytest.mark.parametrize("spec", [NANO, CLASSIC], ids=lambda spec: spec.name)


def words_of(name: str, count: int) -> list[int]:
    source = random.Random(name)
    return [source.choice((0, 1, WORD - 1, WORD // 2, source.getrandbits(32))) for _ in range(count)]


def warps(values: list[int], spec: MachineSpec) -> list[list[int]]:
    return [values[i : i + spec.lanes] for i in range(0, len(values), spec.lanes)]


# Shuffles. PTX ISA 9.7.9.6, shfl.sync; a lane that the warp does not have is out of range.


def shuffled(mode: str, warp: list[int], lane: int, b: int, c: int) -> tuple[int, bool]:
    """Destination and predicate of one lane."""
    bval, cval, mask = b & 0x1F, c & 0x1F, (c >> 8) & 0x1F
    max_lane = (lane & mask) | (cval & ~mask)
    min_lane = lane & mask
    match mode:
        case "up":
            j = lane - bval
            p = j >= max_lane
        case "down":
            j = lane + bval
            p = j <= max_lane
        case "bfly":
            j = lane ^ bval
            p = j <= max_lane
        case _:
            j = min_lane | (bval & ~mask)
            p = j <= max_lane
    if not p or j >= len(warp):
        return warp[lane], False
    return warp[j], True


CLAMPS = {
    "up": (0, 0x1E00, 0x1C00),
    "down": (0x1F, 0x1E1F, 0x1C1F),
    "bfly": (0x1F, 0x1E1F),
    "idx": (0x1F, 0x1E1F),
}


@SPECS
@pytest.mark.parametrize("form", ["constant", "lane", "clamp"])
@pytest.mark.parametrize(
    ("mode", "clamp"), [(mode, clamp) for mode, clamps in CLAMPS.items() for clamp in clamps]
)
def test_shuffles(mode: str, clamp: int, form: str, spec: MachineSpec) -> None:
    """The lane operand constant or in a register; the clamp in a register too."""
    words = words_of(f"{mode} {clamp} {form}", 2 * spec.lanes)
    b = "1" if form == "constant" else "%r3"
    c = "%r5" if form == "clamp" else str(clamp)
    body = f"""and.b32 %r3, %r1, 31; sub.u32 %r4, %r1, %r1; add.u32 %r5, %r4, {clamp};
    shfl.sync.{mode}.b32 %r2|%p1, %r1, {b}, {c}, -1; @%p1 add.u32 %r2, %r2, 1;"""
    expected = []
    for warp in warps(words, spec):
        for lane, word in enumerate(warp):
            value, valid = shuffled(mode, warp, lane, 1 if form == "constant" else word & 31, clamp)
            expected.append((value + valid) % WORD)
    check(kernel(body), spec, launch_of(words, len(words)), d=expected)


@SPECS
def test_a_guarded_shuffle_keeps_the_other_lanes_values(spec: MachineSpec) -> None:
    words = words_of("guard", spec.lanes)
    body = "mov.u32 %r2, 7; setp.eq.u32 %p1, %laneid, 0; @!%p1 shfl.sync.bfly.b32 %r2, %r1, 0, 0x1f, -1;"
    body = body.replace("setp", "mov.u32 %r3, %laneid; setp").replace("%laneid, 0", "%r3, 0")
    check(kernel(body), spec, launch_of(words, spec.lanes), d=[7, *words[1:]])


# Votes and matches.


@SPECS
def test_votes(spec: MachineSpec) -> None:
    """Bit 0 all, 1 any, 2 uni, from 8 on the ballot; the vote is `the word is negative`."""
    threads = 2 * spec.lanes + 1
    words = [WORD - 1] * spec.lanes + words_of("votes", threads - spec.lanes)
    body = """setp.lt.s32 %p1, %r1, 0; vote.sync.all.pred %p2, %p1, -1; vote.sync.any.pred %p3, %p1, -1;
    vote.sync.uni.pred %p4, %p1, -1; vote.sync.ballot.b32 %r3, %p1, -1; selp.u32 %r4, 1, 0, %p2;
    selp.u32 %r5, 2, 0, %p3; selp.u32 %r6, 4, 0, %p4; shl.b32 %r2, %r3, 8; add.u32 %r2, %r2, %r4;
    add.u32 %r2, %r2, %r5; add.u32 %r2, %r2, %r6;"""
    expected = []
    for warp in warps(words, spec):
        votes = [word >> 31 for word in warp]
        ballot = sum(vote << lane for lane, vote in enumerate(votes))
        bits = all(votes) + 2 * any(votes) + 4 * (len(set(votes)) == 1)
        expected += [ballot << 8 | bits] * len(warp)
    check(kernel(body), spec, launch_of(words, threads), d=expected)


@SPECS
def test_a_guarded_vote_counts_the_lanes_that_execute_it(spec: MachineSpec) -> None:
    body = """mov.u32 %r3, %laneid; setp.ne.u32 %p1, %r3, 0; setp.ge.s32 %p2, %r1, 0; mov.u32 %r2, 99;
    @%p1 vote.sync.ballot.b32 %r2, !%p2, MASK; @!%p1 activemask.b32 %r2;"""
    body = body.replace("MASK", str((1 << spec.lanes) - 2))
    words = [WORD - 1] * spec.lanes
    check(
        kernel(body), spec, launch_of(words, spec.lanes), d=[1] + [(1 << spec.lanes) - 2] * (spec.lanes - 1)
    )


@SPECS
@pytest.mark.parametrize("bits", [32, 64])
def test_matches(bits: int, spec: MachineSpec) -> None:
    """The group of equal values in the low byte, that of `all` above it, its predicate above that."""
    words = [5, 5, 7, 5, 6, 6, 6, 6][: 2 * spec.lanes]
    value = "%r1" if bits == 32 else "%rd1"
    body = f"""cvt.u64.u32 %rd1, %r1; shl.b64 %rd1, %rd1, 33; match.any.sync.b{bits} %r3, {value}, -1;
    match.all.sync.b{bits} %r4|%p1, {value}, -1; shl.b32 %r4, %r4, 8; selp.u32 %r5, 65536, 0, %p1;
    add.u32 %r2, %r3, %r4; add.u32 %r2, %r2, %r5;"""
    expected = []
    for warp in warps(words, spec):
        everyone = (1 << len(warp)) - 1
        for word in warp:
            same = sum(1 << lane for lane, other in enumerate(warp) if other == word)
            expected.append(same + (everyone * 256 + 65536 if same == everyone else 0))
    check(kernel(body), spec, launch_of(words, len(words)), d=expected)


def as_signed(word: int) -> int:
    return word - WORD if word >> 31 else word


REDUCTIONS = {
    "add.u32": lambda a, b: (a + b) % WORD,
    "add.s32": lambda a, b: (a + b) % WORD,
    "min.u32": min,
    "max.u32": max,
    "min.s32": lambda a, b: min(a, b, key=as_signed),
    "max.s32": lambda a, b: max(a, b, key=as_signed),
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
}


@SPECS
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, spec: MachineSpec) -> None:
    """Of all lanes, then of all but the lowest."""
    words = words_of(name, spec.lanes)
    body = f"""redux.sync.{name} %r3, %r1, -1; mov.u32 %r4, %laneid; setp.ne.u32 %p1, %r4, 0;
    mov.u32 %r5, 0; @%p1 redux.sync.{name} %r5, %r1, {(1 << spec.lanes) - 2}; mad.lo.u32 %r2, %r5, 3, %r3;"""
    every, some = reduce(REDUCTIONS[name], words), reduce(REDUCTIONS[name], words[1:])
    expected = [every] + [(3 * some + every) % WORD] * (spec.lanes - 1)
    check(kernel(body), spec, launch_of(words, spec.lanes), d=expected)


@SPECS
def test_lane_masks_and_counts(spec: MachineSpec) -> None:
    """Five masks of four bits, then the number of warps and lanes."""
    names = ("eq", "lt", "le", "gt", "ge")
    reads = "".join(
        f"mov.u32 %r3, %lanemask_{name}; shl.b32 %r3, %r3, {4 * i}; or.b32 %r2, %r2, %r3;"
        for i, name in enumerate(names)
    )
    body = f"mov.u32 %r2, 0; {reads} mov.u32 %r4, %nwarpid; shl.b32 %r4, %r4, 24; or.b32 %r2, %r2, %r4;"
    lanes = range(spec.lanes)
    tests = (int.__eq__, int.__lt__, int.__le__, int.__gt__, int.__ge__)
    expected = [
        sum(1 << (other + 4 * i) for i, test in enumerate(tests) for other in lanes if test(other, lane))
        | spec.warps << 24
        for lane in lanes
    ]
    check(kernel(body), spec, launch_of([0] * spec.lanes, spec.lanes), d=expected)


# Barriers.

REVERSE = """mov.u32 %r3, cells; add.u32 %r4, %r3, %r23; st.shared.u32 [%r4], %r1; BARRIER
mov.u32 %r5, %ntid.x; sub.u32 %r5, %r5, 1; sub.u32 %r5, %r5, %r22; shl.b32 %r5, %r5, 2; add.u32 %r5, %r3, %r5;
ld.shared.u32 %r2, [%r5];"""
BARRIERS = (
    "bar.sync 0;",
    "barrier.sync 3;",
    "barrier.cta.sync.aligned 0;",
    "setp.ge.s32 %p1, %r22, 0; @%p1 bar.sync 0;",
)


@SPECS
@pytest.mark.parametrize("barrier", BARRIERS)
def test_barriers_let_all_warps_arrive(barrier: str, spec: MachineSpec) -> None:
    threads = 3 * spec.lanes + 1
    words = words_of(barrier, threads)
    module = kernel(REVERSE.replace("BARRIER", barrier), variables=".shared .align 4 .b8 cells[64];")
    check(module, spec, launch_of(words, threads), d=words[::-1])


@SPECS
def test_barriers_that_vote_in_a_loop(spec: MachineSpec) -> None:
    """Three rounds; in each, the threads whose word exceeds the round vote. Every fourth bit a result."""
    threads = 2 * spec.lanes + 1
    words = [i % 4 for i in range(threads)]
    body = """mov.u32 %r2, 0; mov.u32 %r3, 0;
    round: setp.gt.u32 %p1, %r1, %r3; bar.red.popc.u32 %r4, 0, %p1; barrier.cta.red.and.aligned.pred %p2, 0, !%p1;
    bar.red.or.pred %p3, 0, %p1; selp.u32 %r5, 64, 0, %p2; selp.u32 %r6, 128, 0, %p3; add.u32 %r4, %r4, %r5;
    add.u32 %r4, %r4, %r6; shl.b32 %r2, %r2, 8; add.u32 %r2, %r2, %r4; add.u32 %r3, %r3, 1;
    setp.lt.u32 %p4, %r3, 4; @%p4 bra round;"""
    result = 0
    for step in range(4):
        votes = [word > step for word in words]
        result = result << 8 | sum(votes) + 64 * (not any(votes)) + 128 * any(votes)
    check(kernel(body), spec, launch_of(words, threads), d=[result] * threads)
