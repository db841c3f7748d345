"""Every CUDA intrinsic of the prelude from its source text to the ROM image, against Python integers."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.test_cuda_frontend import EXPRESSIONS
from toolchain.driver import Options, compile_program
from toolchain.launch import ArrayArgument, Launch, ScalarArgument
from toolchain.machine_spec import CLASSIC
from toolchain.mir.interpreter import run_launch

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="needs the ziglang wheel")

EDGES = (0, 1, 0x80000000, 0xFFFFFFFF, 0x12345678, 255)
THREADS = range(4)
START = (0, 0, 5, 0, 0, 0)
"""What the array o holds before a launch."""


def results(folder: Path, text: str, threads: int) -> list[tuple[int, list[int], list[int]]]:
    """For each edge value x: what `text` gives in each thread, and the array o after it."""
    path = folder / "k.cu"
    path.write_text(
        "#include <cstdint>\nstruct Mixed { int a; long long b; };\n"
        f"__global__ void k(unsigned *r, unsigned *o, unsigned x) {{ unsigned i = threadIdx.x; r[i] = {text}; }}\n"
    )
    rom = compile_program(path, Options(CLASSIC)).rom
    found = []
    for x in EDGES:
        arrays = (ArrayArgument("r", (0,) * threads, "u32"), ArrayArgument("o", START, "u32"))
        launch = Launch((1, 1, 1), (threads, 1, 1), (*arrays, ScalarArgument("x", x)))
        after = launch.read_back(run_launch(rom, CLASSIC, launch).memory)
        found.append((x, after["r"], after["o"]))
    return found


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression(tmp_path: Path, text: str) -> None:
    for x, values, _ in results(tmp_path, text, 1):
        assert values == [EXPRESSIONS[text](x) % 2**32], f"x = {x:#x}"


def signed(x: int) -> int:
    return (x ^ 2**31) - 2**31


Reference = Callable[[int], list[int]]

TOGETHER: dict[str, Reference] = {
    "__shfl_sync(15, x + i, 2, 4)": lambda x: [x + 2] * 4,
    "__shfl_up_sync(15, x ^ i, 1, 4)": lambda x: [x ^ max(i - 1, 0) for i in THREADS],
    "__shfl_down_sync(15, i, 1, 2)": lambda x: [1, 1, 3, 3],
    "(unsigned)(__shfl_xor_sync(15, (long long)x << i, 1, 4) >> 3)": lambda x: [
        x << (i ^ 1) >> 3 for i in THREADS
    ],
    "__ballot_sync(15, x >> i & 1) + 16 * __any_sync(15, x > 9) + 32 * __all_sync(15, i < 4)": lambda x: (
        [(x & 15) + 16 * (x > 9) + 32] * 4
    ),
    "__match_any_sync(15, x & i)": lambda x: [
        sum(1 << j for j in THREADS if x & j == x & i) for i in THREADS
    ],
    "__reduce_add_sync(15, x + i)": lambda x: [4 * x + 6] * 4,
    "(unsigned)__reduce_min_sync(15, (int)(x + i))": lambda x: (
        [min(signed((x + i) % 2**32) for i in THREADS)] * 4
    ),
    "__activemask() + warpSize + x % warpSize": lambda x: [15 + 4 + x % 4] * 4,
    "__syncthreads_count(i < (x & 3)) + 8 * __syncthreads_or(x > 5) + 16 * __syncthreads_and(i < 3)": lambda x: (
        [(x & 3) + 8 * (x > 5)] * 4
    ),
    "x / (i + 1) % 7": lambda x: [x // (i + 1) % 7 for i in THREADS],
    "(unsigned)(-(long long)x * 99 / (i + 3))": lambda x: [-(x * 99 // (i + 3)) for i in THREADS],
}


@pytest.mark.parametrize("text", TOGETHER)
def test_what_lanes_do_together(tmp_path: Path, text: str) -> None:
    for x, values, _ in results(tmp_path, text, len(THREADS)):
        assert values == [value % 2**32 for value in TOGETHER[text](x)], f"x = {x:#x}"


ATOMICS: dict[str, Callable[[int, int, int], int]] = {
    "atomicAdd(o + 2, x)": lambda old, x, i: old + x,
    "(unsigned)atomicSub((int *)o + 2, (int)x)": lambda old, x, i: old - x,
    "(unsigned)atomicMin((int *)o + 2, (int)(x ^ i))": lambda old, x, i: min(old, x ^ i, key=signed),
    "atomicMax(o + 2, x ^ i)": lambda old, x, i: max(old, x ^ i),
    "atomicAnd_block(o + 2, x ^ i)": lambda old, x, i: old & (x ^ i),
    "atomicOr(o + 2, x ^ i)": lambda old, x, i: old | x ^ i,
    "atomicXor(o + 2, x ^ i)": lambda old, x, i: old ^ x ^ i,
    "atomicExch_system(o + 2, x ^ i)": lambda old, x, i: x ^ i,
    "atomicInc(o + 2, x & 7)": lambda old, x, i: 0 if old >= x & 7 else old + 1,
    "atomicDec(o + 2, x & 7)": lambda old, x, i: x & 7 if old == 0 or old > x & 7 else old - 1,
    "atomicCAS(o + 2, i + 5, i + 6 + (x & 1))": lambda old, x, i: i + 6 + (x & 1) if old == i + 5 else old,
    "(unsigned)atomicCAS((unsigned short *)o + 4, (unsigned short)5, (unsigned short)x)": lambda old, x, i: (
        x & 65535 if old == 5 else old
    ),
}
"""What thread i makes of the word o[2]; the threads come one after another, lowest first."""

WIDE_ATOMICS: dict[str, Callable[[int, int, int], int]] = {
    "(unsigned)atomicAdd((unsigned long long *)o + 1, (unsigned long long)x << i)": lambda old, x, i: (
        old + (x << i)
    ),
    "(unsigned)atomicMax((unsigned long long *)o + 1, ~(unsigned long long)x)": lambda old, x, i: max(
        old, 2**64 - 1 - x
    ),
    "(unsigned)atomicMin((long long *)o + 1, -(long long)x - i)": lambda old, x, i: min(
        (old ^ 2**63) - 2**63, -x - i
    ),
    "(unsigned)atomicExch((unsigned long long *)o + 1, (unsigned long long)x << 20)": lambda old, x, i: (
        x << 20
    ),
    "(unsigned)atomicCAS((unsigned long long *)o + 1, 5ull, 1ull << 40 | x)": lambda old, x, i: (
        1 << 40 | x if old == 5 else old
    ),
}
"""The same of the two words o[2] and o[3]."""


@pytest.mark.parametrize("text", [*ATOMICS, *WIDE_ATOMICS])
def test_an_atomic(tmp_path: Path, text: str) -> None:
    update = ATOMICS.get(text) or WIDE_ATOMICS[text]
    words = 1 if text in ATOMICS else 2
    for x, values, memory in results(tmp_path, text, len(THREADS)):
        old, olds = START[2], []
        for i in THREADS:
            olds.append(old % 2**32)
            old = update(old, x, i) % 2 ** (32 * words)
        assert values == olds, f"x = {x:#x}"
        assert memory == [
            *START[:2],
            *(old >> 32 * word & 0xFFFFFFFF for word in range(words)),
            *START[2 + words :],
        ]
