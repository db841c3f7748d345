"""Loads, stores and variables of all spaces against references of bytes, on every level."""

import random
import struct
from pathlib import Path

import pytest

from tests.ptx_levels import WORD, check, kernel, launch_of, lowered
from toolchain.driver import Options, compile_program
from toolchain.errors import CompileError
from toolchain.launch import ArrayArgument, Launch, ScalarArgument
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec
from toolchain.mir.interpreter import run_launch
from toolchain.ptx_frontend.interpreter import interpret

SPECS = pytest.mark.parametrize("spec", [NANO, CLASSIC], ids=lambda spec: spec.name)
SPACES = {
    "global": ("", "", "%r21"),
    "shared": (".shared .align 8 .b8 cells[64];", "", "cells"),
    "local": ("", ".local .align 8 .b8 cells[16];", "cells"),
}
"""Space: the module's variables, the kernel's, and the start of 16 bytes."""


def words_of(name: str, count: int) -> list[int]:
    source = random.Random(name)
    return [source.getrandbits(32) for _ in range(count)]


def bytes_of(words: list[int]) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


def as_words(content: bytes | bytearray) -> list[int]:
    return list(struct.unpack(f"<{len(content) // 4}I", content))


@SPECS
@pytest.mark.parametrize("kind", ["u8", "s8", "b8", "u16", "s16", "b16"])
def test_loads_of_less_than_a_word(kind: str, spec: MachineSpec) -> None:
    """Each thread at an address of its own, into registers of 16, 32 and 64 bits."""
    size, signed = int(kind[1:]) // 8, kind.startswith("s")
    words = words_of(kind, 2 * spec.lanes + 1)
    content = bytes_of(words)
    body = f"""mul.lo.u32 %r3, %r22, {size}; add.u32 %r3, %r3, %r20; ld.global.{kind} %r4, [%r3];
    ld.global.{kind} %rs1, [%r3+{size}]; ld.global.{kind} %rd1, [%r3]; cvt.u32.u16 %r5, %rs1;
    mov.b64 {{%r6, %r7}}, %rd1; mad.lo.u32 %r2, %r5, 65539, %r4; mad.lo.u32 %r2, %r7, 17, %r2;
    mad.lo.u32 %r2, %r6, 5, %r2;"""
    expected = []
    for thread in range(2 * spec.lanes):
        first, second = (
            int.from_bytes(content[size * i : size * (i + 1)], "little", signed=signed)
            for i in (thread, thread + 1)
        )
        total = (second % 65536) * 65539 + first + (first >> 32) * 17 + first * 5
        expected.append(total % WORD)
    check(kernel(body), spec, launch_of(words, 2 * spec.lanes), d=expected)


@SPECS
@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("size", [1, 2])
def test_stores_of_less_than_a_word(size: int, space: str, spec: MachineSpec) -> None:
    """All lanes into neighbouring places, some left out by a guard; the words' other bytes stay."""
    threads = 2 * spec.lanes
    variables, _, start = SPACES[space]
    words = words_of(f"{size} {space}", threads)
    body = f"""mov.u32 %r3, {start}; add.u32 %r4, %r3, %r23; st.{space}.u32 [%r4], %r1; bar.sync 0;
    mul.lo.u32 %r4, %r22, {size}; add.u32 %r4, %r4, %r3; not.b32 %r5, %r1; setp.ne.u32 %p1, %r22, 2;
    @%p1 st.{space}.u{8 * size} [%r4+{2 * size}], %r5; bar.sync 0; add.u32 %r4, %r3, %r23;
    ld.{space}.u32 %r2, [%r4];"""
    content = bytearray(bytes_of(words))
    for thread, word in enumerate(words):
        if thread != 2:
            content[size * (thread + 2) : size * (thread + 3)] = (~word % WORD).to_bytes(4, "little")[:size]
    check(
        kernel(body, variables=variables), spec, launch_of(words, threads), d=as_words(content[: 4 * threads])
    )


@SPECS
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(
    "shape", ["u32", "u64", "v2.u32", "v4.b32", "v2.b64", "v2.u16", "v4.b8", "v4.u16", "v2.b8"]
)
def test_every_shape_of_access_in_every_space(shape: str, space: str, spec: MachineSpec) -> None:
    """Stored and loaded again by one thread; the sixteen bytes are then read word by word."""
    count = int(shape[1]) if shape.startswith("v") else 1
    bits = int(shape.lstrip("v24.")[1:])
    variables, local, start = SPACES[space]
    registers = {8: "%rs", 16: "%rs", 32: "%r1", 64: "%rd"}[bits]
    stored = [f"{registers}{i + 1}" for i in range(count)]
    again = [f"{registers}{i + 5}" for i in range(count)]
    words = words_of(shape, 8)
    loads = {
        8: "ld.global.u8 {}, [%r20+{}];", 16: "ld.global.u16 {}, [%r20+{}];",
        32: "ld.global.u32 {}, [%r20+{}];", 64: "ld.global.u64 {}, [%r20+{}];",
    }[bits]  # fmt: skip
    fill = "".join(f"st.{space}.u32 [%r30+{4 * i}], {0x01020304 * (i + 1)};" for i in range(4))
    take = "".join(loads.format(register, bits // 8 * i) for i, register in enumerate(stored))
    vector = "{{{}}}" if count > 1 else "{}"
    body = f"""mov.u32 %r30, {start}; {fill} {take} st.{space}.{shape} [%r30], {vector.format(", ".join(stored))};
    ld.{space}.{shape} {vector.format(", ".join(again))}, [%r30];
    st.{space}.{shape} [%r30+{bits // 8 * count % 16}], {vector.format(", ".join(again))};"""
    body += "".join(f"ld.{space}.u32 %r{32 + i}, [%r30+{4 * i}];" for i in range(4))
    body += "".join(f"st.global.u32 [%r21+{4 * i}], %r{32 + i};" for i in range(4))
    size = bits // 8 * count
    content = bytearray(bytes_of([0x01020304 * (i + 1) for i in range(4)]))
    content[:size] = bytes_of(words)[:size]
    content[size % 16 : size % 16 + size] = bytes_of(words)[:size]
    module = kernel(body, variables=variables, local=local, result=False)
    check(module, spec, launch_of(words, 1, out=4), d=as_words(content[:16]))


@SPECS
def test_every_thread_has_local_memory_of_its_own(spec: MachineSpec) -> None:
    """Two arrays, written through an index, read after the others have written theirs."""
    threads = 2 * spec.lanes
    words = words_of("local", threads)
    body = """mov.u32 %r3, first; cvta.local.u32 %r4, %r3; and.b32 %r5, %r1, 1; shl.b32 %r6, %r5, 2;
    add.u32 %r4, %r4, %r6; st.local.u32 [first], 7; st.local.u32 [first+4], 9; st.local.u8 [second], %r22;
    st.u32 [%r4], %r1; bar.warp.sync -1; xor.b32 %r6, %r6, 4; add.u32 %r3, %r3, %r6; ld.local.u32 %r7, [%r3];
    ld.local.u8 %r8, [second]; ld.u32 %r9, [%r4]; mad.lo.u32 %r2, %r8, 1000, %r7; add.u32 %r2, %r2, %r9;"""
    local = ".local .align 4 .b8 first[8]; .local .align 1 .b8 second[1];"
    expected = [(thread * 1000 + (7 if word & 1 else 9) + word) % WORD for thread, word in enumerate(words)]
    module = kernel(body, local=local)
    assert lowered(module, spec).local_words == 3
    check(module, spec, launch_of(words, threads), d=expected)


@SPECS
def test_static_then_dynamic_shared_memory(spec: MachineSpec) -> None:
    """A byte, an aligned pair, and what the launch brings behind them, on its alignment."""
    variables = (
        ".shared .align 1 .b8 byte[1]; .shared .align 8 .b64 pair; .extern .shared .align 16 .b8 rest[];"
    )
    body = """st.shared.u8 [byte], 255; mov.u32 %r3, pair; mov.u32 %r4, rest; add.u32 %r5, %r4, %r23;
    st.shared.u32 [%r5], %r1; bar.sync 0; ld.shared.u32 %r6, [rest]; shl.b32 %r2, %r4, 16; add.u32 %r2, %r2, %r3;
    add.u32 %r2, %r2, %r6;"""
    words = words_of("dynamic", 4)
    module = kernel(body, variables=variables)
    assert lowered(module, spec).shared_words == 4
    launch = launch_of(words, 4, dynamic_shared=16)
    check(module, spec, launch, d=[((16 << 16) + 8 + words[0]) % WORD] * 4)


@SPECS
def test_constants_and_variables_with_initial_values(spec: MachineSpec) -> None:
    """Bytes whose trailing zeros are left out, words, an address of another variable, and a counter."""
    variables = """.const .align 4 .b8 bytes[8] = {1, 2, 3, 250, 5}; .global .align 4 .u32 words[3] = {10, -1};
    .global .align 4 .u32 counter = 40; .global .align 8 .u64 table[2] = {words, words+4};"""
    body = """and.b32 %r3, %r22, 3; mov.u32 %r4, bytes; add.u32 %r4, %r4, %r3; ld.const.s8 %r5, [%r4];
    ld.const.u8 %r6, [bytes+4]; ld.global.u32 %r7, [words+4]; atom.global.add.u32 %r8, [counter], 2;
    ld.global.u32 %r9, [table+8]; ld.u32 %r10, [%r9]; ld.global.u32 %r11, [words+8];
    add.u32 %r2, %r5, %r6; add.u32 %r2, %r2, %r7; add.u32 %r2, %r2, %r8; add.u32 %r2, %r2, %r10;
    add.u32 %r2, %r2, %r11;"""
    signed = [1, 2, 3, -6]
    expected = [(signed[i % 4] + 5 - 1 + 40 + 2 * i - 1 + 0) % WORD for i in range(4)]
    check(kernel(body, variables=variables), spec, launch_of([0] * 4, 4), d=expected)


@SPECS
def test_generic_addresses_go_where_their_pointer_comes_from(spec: MachineSpec) -> None:
    variables = ".shared .align 4 .b8 cells[64]; .const .align 4 .b32 step = 3;"
    body = """mov.u32 %r3, cells; cvta.shared.u32 %r4, %r3; add.u32 %r4, %r4, %r23; st.u32 [%r4], %r1;
    cvta.global.u32 %r5, %r20; ld.u32 %r6, [%r5]; mov.u32 %r7, step; cvta.const.u32 %r7, %r7; ld.u32 %r8, [%r7];
    ld.u32 %r9, [%r4]; mad.lo.u32 %r2, %r8, %r9, %r6;"""
    words = words_of("generic", spec.lanes)
    check(
        kernel(body, variables=variables), spec, launch_of(words, spec.lanes),
        d=[(3 * word + words[0]) % WORD for word in words],
    )  # fmt: skip


@SPECS
def test_a_pointer_kept_in_memory(spec: MachineSpec) -> None:
    """All that the kernel stores are shared pointers, so what it loads is one."""
    body = """mov.u32 %r3, cells; add.u32 %r4, %r3, %r23; st.shared.u32 [%r4], %r1; st.local.u32 [kept], %r4;
    ld.local.u32 %r5, [kept]; ld.u32 %r2, [%r5];"""
    module = kernel(body, variables=".shared .align 4 .b8 cells[64];", local=".local .align 4 .b8 kept[4];")
    words = words_of("kept", spec.lanes)
    check(module, spec, launch_of(words, spec.lanes), d=words)


@SPECS
def test_parts_of_registers(spec: MachineSpec) -> None:
    body = """mov.b32 {%rs1, %rs2}, %r1; mov.b64 %rd1, {%rs2, %rs1, %rs1, %rs2}; mov.b64 {%r3, %r4}, %rd1;
    mov.b64 {%r4, %r3}, %rd1; mov.b32 %r5, {%rs2, %rs1}; xor.b32 %r6, %r4, %r5; mad.lo.u32 %r2, %r6, 3, %r3;"""
    words = words_of("parts", spec.lanes)
    check(kernel(body), spec, launch_of(words, spec.lanes), d=words)


@pytest.mark.parametrize(
    ("body", "variables", "message"),
    [
        ("mov.u32 %r3, k; mov.u32 %r2, %r3;", "", "takes the address of 'k', which is not a variable"),
        (
            "ld.global.u32 %r2, [p];",
            ".shared .align 4 .b32 s; .global .align 4 .u32 p = s;",
            "not the address of a variable",
        ),
        ("shl.b32 %r3, %r22, 2; ld.u32 %r2, [%r3];", "", "not known whether"),
        ("bar.sync 0, 32; mov.u32 %r2, 0;", "", "a barrier of some of the threads"),
    ],
)
def test_what_cannot_be_lowered_is_refused(body: str, variables: str, message: str) -> None:
    with pytest.raises(CompileError, match=message) as caught:
        lowered(kernel(body, variables=variables), CLASSIC)
    assert caught.value.hint


# Through clang.

SOURCE = """
__constant__ unsigned char weights[5] = {3, 1, 4, 1, 5};
__device__ int total = 100;
extern __shared__ int scratch[];
__global__ void mixed(const unsigned char *text, int *out, int n) {
    __shared__ unsigned histogram[8];
    int i = threadIdx.x, stack[4] = {1, 2, 3, 4};
    if (i < 8) histogram[i] = 0;
    __syncthreads();
    for (int k = i; k < n; k += blockDim.x) atomicAdd(&histogram[text[k] & 7], weights[k % 5]);
    stack[i & 3] = atomicAdd(&total, i);
    scratch[i] = i * i;
    __syncthreads();
    int sum = scratch[blockDim.x - 1 - i];
    for (int offset = 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset, 4);
    out[i] = sum + 1000 * stack[(i + 1) & 3] + (i < 8 ? 100000 * histogram[i] : 0);
}
"""


def test_a_kernel_with_every_memory(tmp_path: Path) -> None:
    path = tmp_path / "mixed.cu"
    path.write_text(SOURCE)
    rom = compile_program(path, Options(CLASSIC)).rom
    text = list(b"the quick brown fox jumps over a lazy dog")
    threads = 12
    arrays = ArrayArgument("text", tuple(text), "u8"), ArrayArgument("out", (0,) * threads)
    launch = Launch((1, 1, 1), (threads, 1, 1), (*arrays, ScalarArgument("n", len(text))), 4 * threads)
    histogram = [0] * 8
    for k, letter in enumerate(text):
        histogram[letter & 7] += (3, 1, 4, 1, 5)[k % 5]
    squares = [i * i for i in range(threads)][::-1]
    expected = []
    for i in range(threads):
        stack = [1, 2, 3, 4]
        stack[i & 3] = 100 + sum(range(i))
        sum_of_four = sum(squares[i & ~3 : (i & ~3) + 4])
        expected.append(sum_of_four + 1000 * stack[(i + 1) & 3] + (100000 * histogram[i] if i < 8 else 0))
    assert launch.read_back(run_launch(rom, CLASSIC, launch).memory)["out"] == expected


GUARDED = (
    "ld.global.u32 %r2, [%r24]",
    "ld.global.s8 %r2, [%r24+1]",
    "ld.global.v2.u32 {%r3, %r2}, [%r20+8]",
    "ld.global.u64 %rd1, [%r20+8]",
    "ld.global.v4.u8 {%rs1, %rs2, %rs3, %rs4}, [%r24]",
    "ld.shared.u32 %r2, [cells+4]",
    "ld.param.u32 %r2, [d]",
    "mov.u32 %r2, cells+12",
    "mov.u32 %r2, %lanemask_le",
    "mov.u32 %r2, %ntid.x",
    "mov.b32 {%rs1, %rs2}, %r1",
    "mov.b64 %rd1, {%r1, %r22}",
    "cvta.to.global.u32 %r2, %r24",
    "shfl.sync.bfly.b32 %r2, %r1, 0, 0x1f, -1",
    "st.shared.u8 [%r8+2], %r1",
    "st.shared.v2.b16 [%r8], {%rs1, %rs2}",
    "st.shared.u32 [%r8], %r1",
    "st.local.u16 [own], %r1",
    "red.shared.add.u32 [%r8], %r1",
    "red.shared.add.u64 [%r9+64], %rd2",
    "atom.shared.exch.b32 %r2, [%r8], %r1",
    "brx.idx %r7, table",
)


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("line", GUARDED)
def test_every_instruction_has_a_guarded_form(line: str, negated: bool) -> None:
    """Lanes whose guard holds get what an unguarded instruction gives them; the others keep what they had."""
    spec, threads = NANO, NANO.lanes + 2
    body = """mov.u32 %r2, 77; mov.u32 %r8, cells; add.u32 %r9, %r23, %r23; add.u32 %r9, %r9, %r8;
    add.u32 %r8, %r8, %r23; mov.b32 {%rs1, %rs2}, %r22; mov.u16 %rs3, 3; mov.u16 %rs4, 4; mov.u64 %rd1, 5;
    mov.b64 %rd2, {%r22, %r1}; st.local.u32 [own], %r22; and.b32 %r7, %r22, 1; setp.eq.u32 %p1, %r7, 0;
    table: .branchtargets low, high; bar.sync 0;
    LINE
    bra next;
    low: mov.u32 %r2, 10; bra next;
    high: mov.u32 %r2, 20;
    next: ld.shared.u32 %r3, [%r8]; mad.lo.u32 %r2, %r3, 3, %r2; ld.shared.v2.u32 {%r3, %r4}, [%r9+64];
    mad.lo.u32 %r2, %r3, 5, %r2; mad.lo.u32 %r2, %r4, 7, %r2; ld.local.u32 %r3, [own];
    mad.lo.u32 %r2, %r3, 11, %r2; mov.b64 {%r3, %r4}, %rd1; mad.lo.u32 %r2, %r3, 13, %r2;
    mad.lo.u32 %r2, %r4, 17, %r2; mov.b32 %r3, {%rs1, %rs2}; mad.lo.u32 %r2, %r3, 19, %r2;
    mov.b32 %r3, {%rs3, %rs4}; mad.lo.u32 %r2, %r3, 23, %r2; bar.sync 0;"""
    variables, local = ".shared .align 8 .b8 cells[128];", ".local .align 4 .b8 own[4];"
    guard = "@!%p1" if negated else "@%p1"
    never, always, sometimes = (
        kernel(body.replace("LINE", text), variables=variables, local=local)
        for text in ("", f"{line};", f"{guard} {line};")
    )
    launch = launch_of(words_of(line, 8), threads)
    without, with_it = (interpret(module, "k", launch, spec)[8:] for module in (never, always))
    holds = [(thread % 2 == 0) != negated for thread in range(threads)]
    expected = [with_it[thread] if holds[thread] else without[thread] for thread in range(threads)]
    check(sometimes, spec, launch, d=expected)
