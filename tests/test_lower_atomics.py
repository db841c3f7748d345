"""Atomics against a reference from the PTX ISA's text: one thread after another, warp by warp."""

import random
from collections.abc import Callable

import pytest

from tests.ptx_levels import WORD, check, kernel, launch_of, lowered
from toolchain.errors import CompileError
from toolchain.launch import ArrayArgument, Launch
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec

SPECS = pytest.mark.parametrize("spec", [NANO, CLASSIC], ids=lambda spec: spec.name)
EDGES = (0, 1, 2, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF)
CELLS = 4


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def by_sign(choose: Callable[..., int], bits: int) -> Callable[[int, int], int]:
    return lambda old, b: choose(old, b, key=lambda value: signed(value, bits))


def table(bits: int) -> dict[str, Callable[[int, int], int]]:
    """What each operation makes of the old value and its operand."""
    return {
        f"add.u{bits}": lambda old, b: (old + b) % (1 << bits),
        f"and.b{bits}": lambda old, b: old & b,
        f"or.b{bits}": lambda old, b: old | b,
        f"xor.b{bits}": lambda old, b: old ^ b,
        f"exch.b{bits}": lambda old, b: b,
        f"min.u{bits}": min,
        f"max.u{bits}": max,
        f"min.s{bits}": by_sign(min, bits),
        f"max.s{bits}": by_sign(max, bits),
    }


WORDS = table(32) | {
    "add.s32": lambda old, b: (old + b) % WORD,
    "inc.u32": lambda old, b: 0 if old >= b else old + 1,
    "dec.u32": lambda old, b: b if old == 0 or old > b else old - 1,
}
PAIRS = table(64)


@SPECS
@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("name", WORDS)
def test_word_atomics_return_the_old_value_in_lane_order(name: str, space: str, spec: MachineSpec) -> None:
    """Thread t updates cell w mod 4 with its word w = a[4 + t]; the cells are the array's first words."""
    source = random.Random(name)
    threads = 2 * spec.lanes
    words = [source.choice((*EDGES, source.getrandbits(32))) for _ in range(CELLS + threads)]
    cells, operands = words[:CELLS], words[CELLS:]
    at = "mov.u32 %r3, cells;" if space == "shared" else "mov.u32 %r3, %r20;"
    fill = "setp.lt.u32 %p1, %r22, 4; add.u32 %r4, %r3, %r23; @%p1 st.shared.u32 [%r4], %r1; bar.sync 0;"
    body = f"{at} {fill if space == 'shared' else ''} ld.global.u32 %r1, [%r24+16]; and.b32 %r5, %r1, 3;"
    body += f"shl.b32 %r5, %r5, 2; add.u32 %r3, %r3, %r5; atom.{space}.{name} %r2, [%r3], %r1;"
    if space == "shared":
        body += "bar.sync 0; mov.u32 %r3, cells; add.u32 %r4, %r3, %r23; @%p1 ld.shared.u32 %r6, [%r4];"
        body += "@%p1 st.global.u32 [%r24], %r6;"
    variables = ".shared .align 4 .b32 cells[4];" if space == "shared" else ""
    olds = []
    for word in operands:
        olds.append(cells[word % CELLS])
        cells[word % CELLS] = WORDS[name](cells[word % CELLS], word)
    check(
        kernel(body, variables=variables), spec, launch_of(words, threads),
        a=cells + operands, d=olds,
    )  # fmt: skip


@SPECS
def test_compare_and_swap_in_a_loop(spec: MachineSpec) -> None:
    """The multiplication that CUDA has no atomic for: every thread multiplies one word by its own."""
    body = """loop: ld.volatile.global.u32 %r3, [%r20]; mul.lo.u32 %r4, %r3, %r5;
    atom.relaxed.gpu.global.cas.b32 %r2, [%r20], %r3, %r4; setp.ne.u32 %p1, %r2, %r3; @%p1 bra loop;"""
    threads = spec.lanes + 1
    words = [3, *(2 * i + 1 for i in range(1, threads))]
    olds, cell = [], words[0]
    for factor in (2 * i + 5 for i in range(threads)):
        olds.append(cell)
        cell = cell * factor % WORD
    module = kernel(f"shl.b32 %r5, %r22, 1; add.u32 %r5, %r5, 5; {body}")
    check(module, spec, launch_of(words, threads), a=[cell, *words[1:]])
    assert sorted(olds) == sorted(set(olds))


@SPECS
@pytest.mark.parametrize("negated", [False, True])
def test_a_guard_leaves_lanes_out(spec: MachineSpec, negated: bool) -> None:
    guard = "@!%p1" if negated else "@%p1"
    body = f"setp.lt.u32 %p1, %r22, 3; mov.u32 %r2, 77; {guard} atom.global.add.u32 %r2, [%r20], 5;"
    threads = 2 * spec.lanes
    words = [9] * threads
    takes = [(thread < 3) != negated for thread in range(threads)]
    olds = [9 + 5 * sum(takes[:thread]) if takes[thread] else 77 for thread in range(threads)]
    check(kernel(body), spec, launch_of(words, threads), a=[9 + 5 * sum(takes), *words[1:]], d=olds)


@SPECS
@pytest.mark.parametrize("name", [*PAIRS, "cas.b64"])
def test_pair_atomics(name: str, spec: MachineSpec) -> None:
    source = random.Random(name)
    threads = spec.lanes + 1
    words = [source.choice((*EDGES, source.getrandbits(32))) for _ in range(threads + 3)]
    cell = words[0] | words[1] << 32
    compare = f"mov.b64 %rd3, {cell};" if name == "cas.b64" else ""
    olds, operations = [], PAIRS | {"cas.b64": lambda old, b, cell=cell: b if old == cell else old}
    for thread in range(threads):
        olds.append(cell)
        cell = operations[name](cell, words[thread + 2] | words[thread + 3] << 32)
    body = f"""ld.global.u32 %r3, [%r24+8]; ld.global.u32 %r4, [%r24+12]; mov.b64 %rd1, {{%r3, %r4}}; {compare}
    atom.global.{name} %rd2, [%r20], {"%rd3, " if compare else ""}%rd1; mov.b64 {{%r2, %r4}}, %rd2;
    mad.lo.u32 %r2, %r4, 3, %r2;"""
    check(
        kernel(body), spec, launch_of(words, threads),
        a=[cell % WORD, cell >> 32, *words[2:]], d=[((old >> 32) * 3 + old) % WORD for old in olds],
    )  # fmt: skip


@SPECS
def test_half_compare_and_swap_keeps_the_other_half(spec: MachineSpec) -> None:
    body = "cvt.u16.u32 %rs1, %r1; mov.b16 %rs2, 0x1234; atom.global.cas.b16 %rs3, [%r20+2], %rs2, %rs1;"
    words = [0x12345678, 0xABCDEF01]
    check(
        kernel(body + "cvt.u32.u16 %r2, %rs3;"), spec, launch_of(words, 2),
        a=[0x56785678, words[1]], d=[0x1234, 0x5678],
    )  # fmt: skip


@SPECS
def test_reductions_without_a_result(spec: MachineSpec) -> None:
    body = "red.global.add.u32 [%r20+4], %r1; red.global.max.s32 [%r20], 40;"
    words = [30, 1]
    check(kernel(body, result=False), spec, launch_of(words, 2), a=[40, 1 + 30 + 1])


def test_a_pointer_to_either_memory_is_refused() -> None:
    """The address of an atomic without a space must say which memory it is."""
    text = """mov.u32 %r3, cells; setp.lt.u32 %p1, %r22, 3; selp.u32 %r3, %r3, %r20, %p1;
    atom.add.u32 %r2, [%r3], 1;"""
    module = kernel(text, variables=".shared .align 4 .b32 cells[4];")
    with pytest.raises(CompileError, match="global or to shared memory") as caught:
        lowered(module, CLASSIC)
    assert caught.value.hint


def test_a_launch_of_pairs_starts_them_on_even_words() -> None:
    launch = Launch((1, 1, 1), (1, 1, 1), (ArrayArgument("a", (1,)), ArrayArgument("b", (1 << 40,), "u64")))
    assert launch.array_addresses() == (0, 8)
    assert launch.initial_words() == (1, 0, 0, 1 << 8)
    assert launch.read_back(launch.initial_words()) == {"a": [1], "b": [1 << 40]}
