"""Division by a product series: the estimate is the quotient or one off, and the machine code is exact.

The hardest divisors are the small ones that are no powers of two, where five cut-off products show in full; they
are held on many dividends, at both ends and around multiples. What the machine's operations compute is modelled
here with numpy; that the lowering is this series, the fuzzer of instructions holds.
"""

from random import Random

import numpy as np

from toolchain.launch import ArrayArgument, Launch
from toolchain.machine_spec import CLASSIC
from toolchain.mir import emit_rom, lower_ptx, pipeline
from toolchain.mir.interpreter import run_launch
from toolchain.mir.rom import RomImage
from toolchain.ptx_frontend.parser import parse_ptx

Words = np.ndarray
MASK = np.uint64(0xFFFFFFFF)


def high(a: Words, b: Words) -> Words:
    return a * b >> np.uint64(32)


def estimate(n: Words, d: int) -> Words:
    """lower_division's estimate of n / d, word by word."""
    bits = d.bit_length()
    fraction = np.array([(d << (33 - bits)) & 0xFFFFFFFF], np.uint64)
    half = fraction >> np.uint64(1)
    f = half - (high(fraction, fraction) >> np.uint64(1))
    f2 = high(f, f)
    f3 = high(f, f2)
    result = n - high(n, half)
    result = (result - high(result, f) + high(result, f2)) & MASK
    result = result - high(result, f3)
    return (result + high(result, high(f3, f3))) >> np.uint64(bits - 1)


def dividends(d: int, random: np.random.Generator) -> Words:
    """Around multiples of d, both ends, and anything."""
    multiples = random.integers(0, (1 << 32) // d + 1, 5_000, dtype=np.uint64) * np.uint64(d)
    near = np.concatenate([multiples + np.uint64(i) for i in range(3)] + [multiples - np.uint64(1)])
    ends = np.concatenate([np.arange(2_000, dtype=np.uint64), MASK - np.arange(2_000, dtype=np.uint64)])
    return np.concatenate([near[near <= MASK], ends, random.integers(0, 1 << 32, 5_000, dtype=np.uint64)])


def divisors() -> list[int]:
    source = Random(0)
    return [
        *range(1, 130),
        *(source.getrandbits(source.randint(8, 32)) | 1 for _ in range(100)),
        *(2**32 - i for i in range(1, 9)),
    ]


def test_the_estimate_is_at_most_one_off() -> None:
    random = np.random.default_rng(0)
    for d in divisors():
        n = dividends(d, random)
        off = estimate(n, d).astype(np.int64) - (n // np.uint64(d)).astype(np.int64)
        assert np.abs(off).max() <= 1, d
        if d & (d - 1) == 0:
            assert not off.any(), d


PTX = """.version 7.0
.target sm_70
.address_size 32
.visible .entry k(.param .u32 .ptr .global a, .param .u32 .ptr .global d)
{
.reg .b32 %r<9>; .reg .b64 %rd<5>;
ld.param.u32 %r1, [a]; ld.param.u32 %r2, [d]; mov.u32 %r3, %tid.x;
mad.lo.u32 %r1, %r3, 8, %r1; mad.lo.u32 %r2, %r3, 8, %r2;
ld.global.u32 %r4, [%r1]; ld.global.u32 %r5, [%r1+4];
div.KIND %r6, %r4, %r5; st.global.u32 [%r2], %r6;
rem.KIND %r7, %r4, %r5; st.global.u32 [%r2+4], %r7;
ret;
}
"""


def image(text: str) -> RomImage:
    lowered = lower_ptx.run(parse_ptx(text, "k.ptx").entries[0], CLASSIC)
    return emit_rom.compile_mir(pipeline.optimise(lowered, CLASSIC), CLASSIC)


CASES = (
    (7, 0, -1, -1),
    (-7, 0, -1, -1),
    (-(1 << 31), -1, -(1 << 31), 0),
    (-7, 2, -3, -1),
    (7, -2, -3, 1),
    (0, 5, 0, 0),
)


def test_what_the_isa_leaves_open_and_signs() -> None:
    """By zero both are all ones; the lowest number by -1 wraps; quotients are rounded toward zero."""
    operands = tuple(value for n, d, _, _ in CASES for value in (n, d))
    results = [value for _, _, quotient, remainder in CASES for value in (quotient, remainder)]
    empty = ArrayArgument("d", (0,) * len(operands))
    launch = Launch((1, 1, 1), (len(CASES), 1, 1), (ArrayArgument("a", operands), empty))
    rom = image(PTX.replace("KIND", "s32"))
    assert launch.read_back(run_launch(rom, CLASSIC, launch).memory)["d"] == results


def test_a_division_costs_few_blocks_and_tokens() -> None:
    text = PTX.replace("KIND", "u32").replace("rem.u32 %r7, %r4, %r5; st.global.u32 [%r2+4], %r7;", "")
    rom = image(text)
    values = (100, 7, 1 << 31, 3, 5, 9, (1 << 32) - 1, 10)
    launch = Launch((1, 1, 1), (4, 1, 1), (ArrayArgument("a", values), ArrayArgument("d", (0,) * 8)))
    assert len(rom.blocks) <= 8
    assert len(run_launch(rom, CLASSIC, launch).tokens) <= 120
