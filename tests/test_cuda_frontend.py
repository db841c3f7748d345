"""CUDA to PTX with the clang of the ziglang wheel: the prelude, the passes, source lines, errors."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from toolchain.errors import CompileError
from toolchain.launch import Argument, ArrayArgument, Launch, ScalarArgument
from toolchain.machine_spec import CLASSIC
from toolchain.ptx_frontend import clang, inline_calls, nvidia, select_entry
from toolchain.ptx_frontend.ast import Label, Module
from toolchain.ptx_frontend.cuda import compile_cuda
from toolchain.ptx_frontend.interpreter import interpret
from toolchain.ptx_frontend.names import find_entry, plain_name, source_name
from toolchain.ptx_frontend.parser import parse_ptx
from toolchain.ptx_frontend.support import check_supported
from toolchain.ptx_frontend.verifier import verify_ptx

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="needs the ziglang wheel")

Compile = Callable[[str], Module]

DOT = """__global__ void dot(const int *a, const int *b, int *c, int n) {
    int s = 0;
    for (int i = 0; i < n; i++)
        s += a[i] * b[i];
    c[0] = s;
}
"""


@pytest.fixture
def build(tmp_path: Path) -> Compile:
    """Compiles a source text to a verified Module."""

    def compile_text(source: str) -> Module:
        path = tmp_path / "k.cu"
        path.write_text(source)
        module = parse_ptx(compile_cuda(path, "clang").text, "k.ptx")
        verify_ptx(module)
        return module

    return compile_text


def run(module: Module, out: int, *values: int | tuple[int, ...], block: int = 4) -> list[int]:
    """The first array after a launch of one block; it starts as `out` zeros."""
    arguments: list[Argument] = [ArrayArgument("out", (0,) * out)]
    for index, value in enumerate(values):
        name = f"v{index}"
        arguments.append(
            ArrayArgument(name, value) if isinstance(value, tuple) else ScalarArgument(name, value)
        )  # type: ignore[arg-type]
    launch = Launch((1, 1, 1), (block, 1, 1), tuple(arguments))
    return launch.read_back(interpret(module, module.entries[0].name, launch, CLASSIC), unsigned=True)["out"]


def test_the_dot_product_carries_two_values_round_its_loop(build: Compile) -> None:
    module = build(DOT)
    (kernel,) = module.functions
    assert (kernel.name, module.address_size) == ("dot", 32)
    assert {register.type for register in kernel.registers} == {"pred", "b32"}
    body = kernel.body
    loop = next(i for i, item in enumerate(body) if isinstance(item, Label))
    instructions = [item for item in body[loop:] if not isinstance(item, Label)]
    names = [item.name for item in instructions[: [i.opcode for i in instructions].index("bra") + 1]]
    assert names == [
        "shl.b32", "add.s32", "ld.global.b32", "add.s32", "ld.global.b32",
        "mad.lo.s32", "add.s32", "setp.ne.b32", "bra",
    ]  # fmt: skip
    check_supported(kernel)


def test_every_instruction_has_the_users_own_line(build: Compile) -> None:
    (kernel,) = build(DOT).functions
    assert all(instruction.source is not None for instruction in kernel.instructions)
    assert {i.source.file.rsplit("/", 1)[-1] for i in kernel.instructions if i.source} == {"k.cu"}
    lines = {i.opcode: i.source.line for i in kernel.instructions if i.source}
    assert (lines["mad"], lines["st"], lines["ret"]) == (4, 5, 6)


def test_prelude_calls_are_at_the_line_that_calls_them(build: Compile) -> None:
    (kernel,) = build(
        "__global__ void k(unsigned *o) {\n  unsigned x = o[0];\n  o[1] =\n    __popc(x);\n}"
    ).functions
    assert next(i.source.line for i in kernel.instructions if i.opcode == "popc" and i.source) == 4


def test_device_functions_and_templates_are_inlined(build: Compile) -> None:
    module = build(
        """__device__ __noinline__ int square(int x) { return x * x; }
        template <typename T> __device__ T larger(T a, T b) { return a > b ? a : b; }
        __global__ void k(int *o, int v) { o[threadIdx.x] = larger(square(threadIdx.x), v); }"""
    )
    assert len(module.functions) == 1
    assert run(module, 4, 3) == [3, 3, 4, 9]


def test_nested_cheap_branches_become_selects(build: Compile) -> None:
    module = build(
        """__global__ void k(int *o, int v) {
            int x = threadIdx.x * v;
            if (x > 5) { if (x & 1) x = x * 3; else x = x - 7; } else x = -x;
            o[threadIdx.x] = x;
        }"""
    )
    assert [item for item in module.functions[0].body if isinstance(item, Label)] == []
    assert run(module, 4, 3) == [0, 2**32 - 3, 2**32 - 1, 27]


def signed_bytes(x: int) -> tuple[int, ...]:
    return tuple((byte ^ 128) - 128 for byte in x.to_bytes(4, "little"))


def low_half(x: int) -> int:
    return ((x & 0xFFFF) ^ 0x8000) - 0x8000


def high_half(x: int) -> int:
    return low_half(x >> 16)


EXPRESSIONS = {
    "__popc(x)": lambda x: bin(x).count("1"),
    "__clz(x)": lambda x: 32 - x.bit_length(),
    "__ffs(x)": lambda x: (x & -x).bit_length(),
    "__brev(x)": lambda x: int(f"{x:032b}"[::-1], 2),
    "__umulhi(x, 0x80000001u)": lambda x: x * 0x80000001 >> 32,
    "(unsigned)__mulhi((int)x, 3)": lambda x: (x - 2**32 if x >> 31 else x) * 3 >> 32,
    "__byte_perm(x, 0x01020304, 0x7210)": lambda x: 0x01000000 | (x & 0xFFFFFF),
    "__byte_perm(0x80, 0, 0x888F)": lambda x: 0x80808000,
    "__funnelshift_l(x, 5, 8)": lambda x: 5 << 8 | x >> 24,
    "__funnelshift_r(x, 5, 8)": lambda x: 5 << 24 | x >> 8,
    "__funnelshift_rc(x, 5, 99)": lambda x: 5,
    "min(x, 9u) + max((int)x, 3)": lambda x: min(x, 9) + (3 if x >> 31 or x < 3 else x),
    "(unsigned)abs((int)x)": lambda x: 2**32 - x if x >> 31 else x,
    "__usad(x, 7, 1)": lambda x: abs(x - 7) + 1,
    "__umul24(x, 3)": lambda x: (x & 0xFFFFFF) * 3,
    "make_int2(x, 4).y + make_uint3(1, 2, 3).z": lambda x: 7,
    "(uint32_t)(int8_t)x": lambda x: (x & 255) - (256 if x & 128 else 0),
    "dim3(blockDim).x + uint3(threadIdx).x": lambda x: 1,
    "(unsigned)__dp4a((int)x, 0x01ff7f80, 9)": lambda x: (
        9 + sum(a * b for a, b in zip(signed_bytes(x), (-128, 127, -1, 1), strict=True))
    ),
    "__dp4a(x, 0x01ff7f80u, 9u)": lambda x: (
        9 + sum(a * b for a, b in zip(x.to_bytes(4, "little"), (128, 127, 255, 1), strict=True))
    ),
    "__dp4a(make_uchar4(x, 1, 2, 3), make_uchar4(2, 0, 255, 0), 0u)": lambda x: 2 * (x & 255) + 510,
    "(unsigned)__dp2a_lo((int)x, 0x7f80, 0)": lambda x: low_half(x) * -128 + high_half(x) * 127,
    "(unsigned)__dp2a_hi((int)x, 0x7f800000, 0)": lambda x: low_half(x) * -128 + high_half(x) * 127,
    "(unsigned)(__umul64hi((unsigned long long)x << 32, 3ull << 62))": lambda x: (x << 32) * (3 << 62) >> 64,
    "(unsigned)__mul64hi(-(long long)x << 30, 1ll << 62)": lambda x: -(x << 30) * (1 << 62) >> 64,
    "__popcll(-(long long)x) + __clzll(x) + __ffsll((long long)x << 9)": lambda x: (
        bin(-x % 2**64).count("1") + 64 - x.bit_length() + ((x & -x).bit_length() + 9 if x else 0)
    ),
    "(unsigned)(__brevll(x) >> 32)": lambda x: int(f"{x:032b}"[::-1], 2),
    "(unsigned)(min((long long)x, 7ll) + max((long long)x, 9ull) + llmin(-1, x))": lambda x: (
        min(x, 7) + max(x, 9) - 1
    ),
    "__rhadd((int)x, 3) + __uhadd(x, 4u) + __urhadd(x, 4u)": lambda x: (
        ((x ^ 2**31) - 2**31 + 4 >> 1) + (x + 4 >> 1) + (x + 5 >> 1)
    ),
    "(unsigned)(abs((long long)x - 9) + labs(-3))": lambda x: abs(x - 9) + 3,
    "sizeof(longlong4) + alignof(longlong4) * 100 + alignof(char4) * 10000 + make_short1(3).x": lambda x: (
        41635
    ),
    "sizeof(Mixed) + alignof(Mixed) * 100": lambda x: 816,
    "x == UINT32_MAX ? INT_MAX : sizeof(size_t)": lambda x: 2**31 - 1 if x == 2**32 - 1 else 4,
}


def test_the_prelude_means_what_cuda_means(build: Compile) -> None:
    stores = "".join(f"    o[{i}] = {text};\n" for i, text in enumerate(EXPRESSIONS))
    module = build(
        "#include <cuda_runtime.h>\n#include <cstdint>\nstruct Mixed { int a; long long b; };\n"
        "__global__ void k(unsigned *o, unsigned x) {\n" + stores + "}"
    )
    for x in (0, 1, 0x80000000, 0xFFFFFFFF, 0x12345678, 255):
        expected = [function(x) % 2**32 for function in EXPRESSIONS.values()]
        assert run(module, len(EXPRESSIONS), x, block=1) == expected


def test_cooperating_threads(build: Compile) -> None:
    """Barriers, shared memory, atomics, shuffles and votes compile and run on the interpreter."""
    module = build(
        """__global__ void k(unsigned *o, int *sum) {
            __shared__ int tile[8];
            int i = threadIdx.x;
            tile[i] = i * i;
            __syncthreads();
            atomicAdd(sum, tile[7 - i]); atomicMax(sum + 1, i); atomicCAS(sum + 2, i, i + 1);
            atomicInc((unsigned *)sum + 3, 4); atomicExch(sum + 4, i);
            atomicSub(sum + 5, 1); atomicXor(sum + 6, i);
            unsigned v = __shfl_xor_sync(~0u, i, 1) + 10 * __shfl_sync(~0u, i, 0, 4);
            v += 100 * __shfl_up_sync(~0u, i, 1, 4) + 1000 * __ballot_sync(~0u, i & 1);
            v += 100000 * __any_sync(~0u, i == 5) + 200000 * __all_sync(~0u, i > 3);
            v += 1000000 * __syncthreads_count(i > 2) + 10000000 * __popc(__match_any_sync(~0u, i & 2));
            __syncwarp(); __threadfence();
            o[i] = v + 100000000 * __popc(__activemask());
        }"""
    )
    expected = []
    for i in range(8):
        base, lane = i // 4 * 4, i % 4
        value = (
            (i ^ 1)
            + 10 * base
            + 100 * (i - 1 if lane else i)
            + 1000 * 0b1010
            + 100000 * (i > 3)
            + 200000 * (i > 3)
        )
        expected.append(value + 5_000_000 + 20_000_000 + 400_000_000)
    arguments = (ArrayArgument("out", (0,) * 8), ArrayArgument("sum", (0,) * 7))
    launch = Launch((1, 1, 1), (8, 1, 1), arguments)
    arrays = launch.read_back(interpret(module, "k", launch, CLASSIC))
    assert arrays["out"] == expected
    assert arrays["sum"] == [140, 7, 8, 3, 7, -8, 0]


def test_what_lanes_do_together_stays_where_it_is_written(build: Compile) -> None:
    """Nothing that depends on which lanes are there is hoisted out of a branch, sunk into one, or merged."""
    module = build(
        """__global__ void k(unsigned *o) {
            unsigned i = threadIdx.x, r, late = __ballot_sync(~0u, i != 2);
            if (i < 3) r = __activemask() | __ballot_sync(~0u, 1) << 4;
            else r = __activemask() | __ballot_sync(~0u, 1) << 4;
            int v = __shfl_xor_sync(~0u, i * 7, 1);
            if (i & 1) r |= v << 8 | late << 16;
            o[i] = r;
        }"""
    )
    expected = [
        (7 if i < 3 else 8) * 17 | ((i ^ 1) * 7 << 8 | 0b1011 << 16 if i & 1 else 0) for i in range(4)
    ]
    assert run(module, 4) == expected


ATOMICS = """__global__ void k(unsigned long long *o, const int *in) {
    __shared__ unsigned long long s[10];
    __shared__ unsigned short h;
    int i = threadIdx.x;
    if (i == 0) {
        for (int j = 0; j < 10; j++) s[j] = 0xf00000000ull + j;
        h = 0;
    }
    __syncthreads();
    unsigned long long v = (unsigned long long)(i + 1) << 33;
    atomicAdd(&s[0], v); atomicAdd_system(&o[0], v); atomicExch_block(&s[1], 5ull);
    atomicMin((long long *)&s[2], -(long long)v); atomicMax((long long *)&s[3], -1ll); atomicMin(&s[4], v);
    atomicMax_block(&s[5], v); atomicAnd(&s[6], ~v); atomicOr(&s[7], v); atomicXor(&s[8], v);
    atomicCAS(&s[9], 0xf00000009ull + i, 0xf00000009ull + i + 1);
    atomicCAS(&h, (unsigned short)i, (unsigned short)(i + 1));
    atomicAnd((unsigned *)&o[1], ~(1u << i)); atomicDec((unsigned *)&o[2], 2); atomicMin((int *)&o[3], -i);
    __syncthreads();
    if (i == 0) for (int j = 0; j < 10; j++) o[4 + j] = s[j];
    long long w = __shfl_xor_sync(15, (long long)v, 1, 4) + __shfl_up_sync(15, v, 1, 4);
    o[14 + i] = w + h + __match_any_sync(15, v & (1ull << 34)) + __reduce_add_sync(15, i) + __ldg(in + i);
}
"""


def test_wide_and_narrow_atomics_and_shuffles(build: Compile) -> None:
    module = build(ATOMICS)
    atomics = [item for item in module.entries[0].instructions if item.opcode == "atom"]
    assert any(
        {"cas", "b16"} <= set(item.modifiers) for item in atomics
    )  # one operation, not a loop over a word
    out = ArrayArgument("o", (0,) * 18, "u64")
    launch = Launch((1, 1, 1), (4, 1, 1), (out, ArrayArgument("in", (1, 2, 3, 4))))
    base = 15 << 32
    values = [(i + 1) << 33 for i in range(4)]
    total = sum(values)
    bits = values[0] | values[1] | values[2] | values[3]
    xor = values[0] ^ values[1] ^ values[2] ^ values[3]
    expected = [total, 0, 2, 2**32 - 3]
    expected += [base + total, 5, 2**64 - values[3], base + 3, values[0], base + 5, (base + 6) & ~bits]
    expected += [(base + 7) | bits, (base + 8) ^ xor, base + 9 + 4]
    for i in range(4):
        same = sum(1 << j for j in range(4) if (j + 1) & 2 == (i + 1) & 2)
        expected.append(values[i ^ 1] + values[max(i - 1, 0)] + 4 + same + 6 + i + 1)
    assert launch.read_back(interpret(module, "k", launch, CLASSIC))["o"] == expected


def test_host_code_is_dropped(build: Compile) -> None:
    module = build(
        """#include <stdio.h>
        __global__ void k(int *o) { o[threadIdx.x] = threadIdx.x / warpSize + warpSize; }
        int main() {
            int *d, h[4];
            cudaMalloc(&d, sizeof h);
            k<<<1, dim3(4)>>>(d);
            cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
            printf("%d\\n", h[0]);
            return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
        }"""
    )
    assert [function.name for function in module.functions] == ["k"]
    assert run(module, 8, block=8) == [4, 4, 4, 4, 5, 5, 5, 5]


def test_defines_and_several_kernels(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text("__global__ void a(int *o) { o[0] = N; }\n__global__ void b(int *o) { o[0] = 2; }")
    module = parse_ptx(compile_cuda(path, "auto", ("N=41",)).text)
    assert [entry.name for entry in module.entries] == ["a", "b"]
    assert find_entry(module, "b").name == "b"


@pytest.mark.parametrize(
    ("source", "line", "column", "message"),
    [
        ("__global__ void k(int *o) {\n  o[0] = 1\n}\n", 2, 11, "expected ';'"),
        ("__global__ void k(int *o) {\n\n  o[0] = missing;\n}\n", 3, 10, "undeclared identifier 'missing'"),
        ("__global__ void k(float *o) {\n  atomicAdd(o, 1.0f);\n}\n", 2, 3, "no matching function"),
        ("#include <no_such_header.h>\n", 1, 10, "file not found"),
    ],
)
def test_errors_stand_at_the_users_own_line(
    tmp_path: Path, source: str, line: int, column: int, message: str
) -> None:
    path = tmp_path / "broken.cu"
    path.write_text(source)
    with pytest.raises(CompileError, match=message) as caught:
        compile_cuda(path, "clang")
    location = caught.value.location
    assert location is not None
    assert (location.file, location.line, location.column) == (str(path), line, column)
    assert caught.value.excerpt == source.splitlines()[line - 1]
    assert "CUDA version" not in str(caught.value)


def test_refusals_are_at_the_users_own_line(build: Compile) -> None:
    lines = (
        "__global__ void k(float *o, int *p) {",
        "  o[0] = o[1] * 2.0f;",
        '  asm volatile("brkpt;");',
        "}",
    )
    source = "\n".join(lines)
    with pytest.raises(CompileError) as caught:
        check_supported(build(source).entries[0])
    for line, what in ((2, "floating point"), (3, "a trap")):
        assert any(f"k.cu:{line}:" in text and what in text for text in caught.value.hint.splitlines())


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("assert(o[0] == 1);", "assert is not supported"),
        ('printf("%d", o[0]);', "printf is not supported"),
        ("o[0] = *(volatile int *)malloc(4);", "memory cannot be allocated"),
        ("o[0] = depth(o[1]);", "recursion is not supported: depth calls depth"),
        ("int (*f)(int) = o[1] ? twice : depth; o[0] = f(3);", "function pointer"),
    ],
)
def test_calls_that_stay_calls_are_refused_at_the_users_own_line(
    build: Compile, statement: str, message: str
) -> None:
    functions = "__device__ int twice(int x) { return 2 * x; }"
    functions += "__device__ int depth(int x) { return x < 2 ? x : depth(x / 2) * depth(x - 1); }"
    source = f"#include <cassert>\n{functions}\n__global__ void k(int *o) {{\n  {statement}\n}}\n"
    with pytest.raises(CompileError, match=message) as caught:
        inline_calls.run(select_entry.run(build(source)))
    assert caught.value.location is not None
    assert caught.value.location.line in (2, 4)


def test_functions_that_clang_leaves_out_of_line(build: Compile) -> None:
    module = build(
        """struct Pair { int low; long long high; };
        __device__ __attribute__((noinline)) Pair both(Pair a, int b) {
            Pair r; r.low = a.low + b; r.high = a.high * b; return r;
        }
        __device__ __attribute__((noinline)) int total(const int *v, int n) {
            int s = 0; for (int i = 0; i < n; i++) s += v[i]; return s;
        }
        __global__ void k(unsigned *o, Pair p) {
            Pair q = both(both(p, threadIdx.x), 3);
            int local[4]; for (int i = 0; i < 4; i++) local[(i + threadIdx.x) & 3] = i;
            o[threadIdx.x] = q.low + (int)(q.high >> 32) + total(local, threadIdx.x + 1);
        }"""
    )
    assert any(not function.is_entry for function in module.functions)
    inlined = inline_calls.run(select_entry.run(module))
    expected = [8 + t + 42 * t + sum((j - t) & 3 for j in range(t + 1)) for t in range(4)]
    assert run(inlined, 4, 5 | (7 << 33) << 64) == expected


def test_bad_requests(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="cannot read"):
        compile_cuda(tmp_path / "none.cu")
    (tmp_path / "k.cu").write_text(DOT)
    with pytest.raises(CompileError, match="unknown front end 'gcc'"):
        compile_cuda(tmp_path / "k.cu", "gcc")


def test_names() -> None:
    names = ("_Z3dotPKiS0_Pii", "dot", "_Z1kIiEvPT_", "_ZN2ns3dotEv", "_Zx")
    assert [plain_name(name) for name in names] == ["dot", "dot", "_Z1kIiEvPT_", "_ZN2ns3dotEv", "_Zx"]
    assert [source_name(name) for name in names] == ["dot", "dot", "k", "dot", "_Zx"]


@pytest.mark.parametrize(("frontend", "find"), [("nvrtc", nvidia.find_nvrtc), ("nvcc", nvidia.find_nvcc)])
def test_nvidia_front_ends(tmp_path: Path, frontend: str, find: Callable[[], object]) -> None:
    if find() is None:
        pytest.skip(f"{frontend} is not installed")
    path = tmp_path / "k.cu"
    path.write_text(DOT)
    compiled = compile_cuda(path, frontend)
    assert compiled.frontend_name == frontend
    module = parse_ptx(compiled.text)
    kernel = find_entry(module, "dot")
    check_supported(kernel)
    assert {i.source.file for i in kernel.instructions if i.source} == {str(path)}
    arguments = (ArrayArgument("a", (1, 2, 3)), ArrayArgument("b", (4, 5, 6)), ArrayArgument("c", (0,)))
    launch = Launch((1, 1, 1), (1, 1, 1), (*arguments, ScalarArgument("n", 3)))
    assert launch.read_back(interpret(module, "dot", launch, CLASSIC))["c"] == [32]
    path.write_text("__global__ void k(int *o) {\n  o[0] = missing;\n}\n")
    with pytest.raises(CompileError, match='"missing" is undefined') as caught:
        compile_cuda(path, frontend)
    assert caught.value.location is not None
    assert (caught.value.location.file, caught.value.location.line) == (str(path), 2)


def test_an_installation_without_front_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "k.cu").write_text(DOT)
    monkeypatch.setattr(clang, "find_clang", lambda: None)
    monkeypatch.setattr(nvidia, "find_nvrtc", lambda: None)
    monkeypatch.setattr(nvidia, "find_nvcc", lambda: None)
    with pytest.raises(CompileError, match="no CUDA front end is installed") as caught:
        compile_cuda(tmp_path / "k.cu")
    assert "pip install ziglang" in caught.value.hint
