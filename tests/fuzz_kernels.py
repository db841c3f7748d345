"""Random CUDA kernels of the supported subset, and two judges of what they do: g++ and this compiler.

`random_kernel` writes a kernel whose result is defined: threads do not communicate, shifts are masked, loops run
out of fuel, indices are masked, signed arithmetic wraps. So the same text, compiled as C++ with the thread
indices as globals and called for one thread after another, says what the launch must leave in memory.
"""

import random
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runtime.launcher import Program
from runtime.levels import check_program
from toolchain.driver import PIPELINE, Compilation, Options, Step
from toolchain.errors import CompileError, VerifyError
from toolchain.forms import FORMS
from toolchain.launch import ArrayArgument, Launch, ScalarArgument
from toolchain.machine_spec import MachineSpec
from toolchain.mir.interpreter import MachineFault
from toolchain.ptx_frontend import cuda, interpreter, parser
from toolchain.ptx_frontend.ast import Module

INPUT_WORDS = 8
OUTPUTS = 2
"""Words of `out` that each thread owns."""
EDGES = (
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    31,
    32,
    33,
    255,
    256,
    65535,
    65536,
    65537,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
)
SHAPES: tuple[tuple[tuple[int, int, int], tuple[int, int, int]], ...] = (
    ((1, 1, 1), (1, 1, 1)), ((1, 1, 1), (2, 1, 1)), ((1, 1, 1), (5, 1, 1)), ((1, 1, 1), (8, 1, 1)),
    ((3, 1, 1), (3, 1, 1)), ((2, 1, 1), (4, 1, 1)), ((1, 1, 1), (3, 2, 1)), ((2, 2, 1), (2, 1, 1)),
    ((1, 2, 1), (1, 5, 1)), ((1, 1, 1), (2, 2, 2)), ((1, 2, 2), (1, 2, 1)), ((2, 1, 2), (1, 1, 3)),
)  # fmt: skip
"""Grids and blocks that every preset has room for."""


@dataclass(frozen=True)
class FuzzKernel:
    """A kernel's text and its launches."""

    name: str
    source: str
    launches: tuple[Launch, ...]


# --- The generator


BINARY = ("+", "-", "*", "&", "|", "^")
COMPARE = ("<", "<=", ">", ">=", "==", "!=")
CALLS = ("min", "max", "__mulhi", "__umulhi", "abs", "__popc", "__clz", "__brev")
RARE_CALLS = ("__ffs", "__funnelshift_l", "__funnelshift_r", "__uhadd", "__sad", "__mul24")
NARROW = ("short", "unsigned short", "signed char", "unsigned char")
ARITY = {
    **dict.fromkeys(("min", "max", "__mulhi", "__umulhi", "__uhadd", "__mul24"), 2),
    **dict.fromkeys(("__funnelshift_l", "__funnelshift_r", "__sad"), 3),
}
STATEMENTS = (
    ("assign", 6),
    ("store", 3),
    ("if", 5),
    ("for", 3),
    ("while", 2),
    ("switch", 2),
    ("walk", 1),
    ("sweep", 1),
)


@dataclass
class _Writer:
    """One kernel while it is written. `budget` counts statements still allowed, `loops` open loops."""

    random: random.Random
    budget: int
    depth: int
    variables: list[str] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)
    names: int = 0
    pointers: bool = False

    def pick(self, options: Sequence[str]) -> str:
        return self.random.choice(options)

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    # Expressions.

    def literal(self) -> str:
        value = self.random.choice((*EDGES, self.random.getrandbits(32), self.random.randrange(64)))
        if self.chance(0.5):
            return f"{value}u"
        value = value - (1 << 32) if value >> 31 else value
        return "(-2147483647 - 1)" if value == -(1 << 31) else f"({value})" if value < 0 else str(value)

    def leaf(self) -> str:
        kind = self.random.random()
        if kind < 0.55:
            return self.pick([*self.variables, *self.counters])
        if kind < 0.75:
            return self.literal()
        if kind < 0.87:
            return self.pick(("s", "u", "(int)threadIdx.x", "threadIdx.y", "blockIdx.x", "t", "blockDim.x"))
        return self.place() if self.chance(0.4) else f"{self.pick('ab')}[{self.pick(self.variables)} & 7]"

    def place(self) -> str:
        """A word of the thread's own."""
        index = self.pick(("0", "1", f"({self.pick(self.variables)} & 1)"))
        if self.pointers:
            return self.pick((f"own[{index}]", f"own[{index}]", "*mine"))
        return self.pick((f"out[2 * w + {index}]", f"out[2 * w + {index}]", "acc[w]"))

    def expression(self, depth: int | None = None) -> str:
        depth = self.depth if depth is None else depth
        if depth == 0 or self.chance(0.15):
            return self.leaf()
        kind = self.random.random()
        a = self.expression(depth - 1)
        if kind < 0.45:
            return f"({a} {self.pick(BINARY)} {self.expression(depth - 1)})"
        if kind < 0.58:
            return f"({a} {self.pick(('<<', '>>'))} {self.shift(depth - 1)})"
        if kind < 0.66:
            return f"({self.condition(depth - 1)} ? {a} : {self.expression(depth - 1)})"
        if kind < 0.72:
            return f"({self.pick('-~!')}{a})"
        if kind < 0.76:
            return f"({a} {self.pick('/%')} {self.random.choice((2, 3, 4, 5, 7, 8, 10, 16))}{self.pick(('', 'u'))})"
        if kind < 0.80:
            return self.part(a)
        if kind < 0.84:
            return self.condition(depth)
        name = self.pick(RARE_CALLS if self.chance(0.1) else CALLS)
        a = f"(int)({a})" if name == "abs" else a
        rest = [self.expression(depth - 1) for _ in range(ARITY.get(name, 1) - 1)]
        return f"{name}({', '.join([a, *rest])})"

    def part(self, value: str) -> str:
        """A cast or a field, which compilers turn into 8- and 16-bit arithmetic and loads."""
        kind = self.random.randrange(4)
        if kind == 0:
            return f"({self.pick(('int', 'unsigned'))})({value})"
        if kind == 1:
            return f"({self.pick(NARROW)})({value})"
        if kind == 2:
            return f"__byte_perm({value}, {self.leaf()}, {self.random.getrandbits(16) & 0x7777})"
        mask = self.pick(("1", "2", "255", "0xffff", "0xff00", "0x7fff", "15"))
        return f"(({value} >> {self.pick(('0', '0', '8', '16', '24'))}) & {mask})"

    def shift(self, depth: int) -> str:
        return str(self.random.randrange(32)) if self.chance(0.6) else f"({self.expression(depth)} & 31)"

    def condition(self, depth: int) -> str:
        a = self.expression(depth)
        kind = self.random.random()
        if kind < 0.15:
            return f"({a} & {1 << self.random.randrange(4)}) != 0"
        if kind < 0.3 and depth > 0:
            return f"({self.condition(depth - 1)} {self.pick(('&&', '||', '!=', '=='))} {self.condition(depth - 1)})"
        return f"({a} {self.pick(COMPARE)} {self.expression(min(depth, 1))})"

    # Statements, as lines without indentation.

    def body(self, most: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self.random.randint(1, most)):
            if self.budget > 0:
                self.budget -= 1
                lines += self.statement()
        return lines

    def statement(self) -> list[str]:
        kinds = [kind for kind, weight in STATEMENTS for _ in range(weight)]
        kind = self.pick(kinds)
        if len(self.counters) >= 2 and kind in ("for", "while", "walk", "sweep"):
            kind = "assign"
        writers: dict[str, Callable[[], list[str]]] = {
            "assign": self.assign, "store": self.store, "if": self.branch, "for": self.counted,
            "while": self.fuelled, "switch": self.switch, "walk": self.walk, "sweep": self.sweep,
        }  # fmt: skip
        return writers[kind]()

    def assign(self) -> list[str]:
        operator = self.pick(("=", "=", "=", "+=", "-=", "^=", "*=", "|=", "&="))
        return [f"{self.pick(self.variables)} {operator} {self.expression()};"]

    def store(self) -> list[str]:
        place = self.place()
        if self.chance(0.1):
            mask = self.random.choice((0xFF, 0xFFFF, 0xFF0000, 0xFFFF0000))
            return [f"{place} = ({place} & ~{mask}u) | ({self.expression()} & {mask}u);"]
        return [f"{place} {self.pick(('=', '=', '+=', '^='))} {self.expression()};"]

    def branch(self) -> list[str]:
        condition = self.condition(1)
        if self.chance(0.15):
            return [f"if ({condition}) return;"]
        if self.counters and self.chance(0.4):
            return [f"if ({condition}) {self.pick(('break', 'continue'))};"]
        lines = [f"if ({condition}) {{", *self.body(3)]
        if self.chance(0.5):
            lines += ["} else {", *self.body(3)]
        return [*lines, "}"]

    def loop(self, head: str, counter: str, end: str) -> list[str]:
        self.counters.append(counter)
        lines = [head, *self.body(4), end]
        self.counters.pop()
        return lines

    def counted(self) -> list[str]:
        """The bound is computed again each time and may change; it never passes 7."""
        i = self.fresh("i")
        bound = self.pick((str(self.random.randrange(1, 6)), f"(int)({self.expression(1)} & 7)"))
        step = self.pick((f"++{i}", f"{i} += {self.random.randrange(1, 4)}"))
        if self.chance(0.25):
            return self.loop(f"for (int {i} = {bound}; {i} > 0; --{i}) {{", i, "}")
        return self.loop(f"for (int {i} = 0; {i} < {bound}; {step}) {{", i, "}")

    def fuelled(self) -> list[str]:
        f = self.fresh("f")
        begin, condition = f"unsigned {f} = {self.random.randrange(2, 8)};", self.condition(1)
        if self.chance(0.4):
            return [begin, *self.loop("do {", f, f"}} while ({f}-- > 0 && {condition});")]
        return [begin, *self.loop(f"while ({condition} && {f}-- != 0) {{", f, "}")]

    def switch(self) -> list[str]:
        value = self.expression(1)
        lines = [f"switch ({value}) {{" if self.chance(0.2) else f"switch (({value}) & 7) {{"]
        for case in sorted(self.random.sample(range(8), self.random.randint(2, 4))):
            lines += [f"case {case}: {{", *self.body(2), "}"]
            if self.chance(0.8):
                lines.append("break;")
        if self.chance(0.6):
            lines += ["default: {", *self.body(2), "}"]
        return [*lines, "}"]

    def walk(self) -> list[str]:
        """A pointer that a loop moves over four words of one input or the other."""
        p, i = self.fresh("p"), self.fresh("i")
        start = f"{self.pick('ab')} + ({self.expression(1)} & 3)"
        if self.chance(0.4):
            start = f"{self.condition(1)} ? {start} : a + {self.random.randrange(5)}"
        head = f"for (int {i} = 0; {i} < {self.random.randrange(1, 5)}; ++{i}) {{"
        lines = self.loop(head, i, f"{self.pick(self.variables)} {self.pick('+^')}= *{p}++; }}")
        return [f"const int *{p} = {start};", *lines]

    def sweep(self) -> list[str]:
        """A pointer that a loop moves over the thread's own words of `out`."""
        q = self.fresh("q")
        head = f"for (int *{q} = out + 2 * w; {q} != out + 2 * w + 2; ++{q}) {{"
        statement = f"*{q} {self.pick(('=', '+=', '^='))} {self.expression()};"
        return [head, statement, f"{self.pick(self.variables)} ^= *{q};", "}"]

    def kernel(self, name: str, guard: bool) -> str:
        for _ in range(self.random.randint(2, 4)):
            self.variables.append(self.fresh("v"))
        types = {variable: self.pick(("int", "unsigned")) for variable in self.variables}
        restrict = self.pick(("", "", "__restrict__ "))
        parameters = [f"const int *{restrict}a", f"const int *{restrict}b", f"int *{restrict}out"]
        parameters += [f"unsigned *{restrict}acc", "int s", "unsigned u", "int n"]
        lines = [f"int t = {THREAD};", *(["if (t >= n) return;"] if guard else [])]
        lines.append(f"int w = {self.pick(('t', 't', f'{THREADS} - 1 - t'))};")
        self.pointers = self.chance(0.3)
        if self.pointers:
            lines.append("int *own = out + 2 * w; unsigned *mine = acc + w;")
        for index, variable in enumerate(self.variables):
            start = self.pick(
                ("a[t & 7]", f"b[(t + {index}) & 7]", "a[w & 7]", "t", self.literal(), "acc[w]")
            )
            lines.append(f"{types[variable]} {variable} = {start};")
        while self.budget > 0:
            lines += self.body(3)
        for variable in self.variables:
            lines.append(f"{self.place()} {self.pick(('=', '^=', '+='))} {variable};")
        return f"__global__ void {name}({', '.join(parameters)}) {{\n" + "\n".join(lines) + "\n}\n"


THREAD = (
    "((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) * (blockDim.x * blockDim.y * blockDim.z)"
    " + (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x"
)
THREADS = "(int)(gridDim.x * gridDim.y * gridDim.z * blockDim.x * blockDim.y * blockDim.z)"


def random_kernel(seed: int, launches: int = 2) -> FuzzKernel:
    """The kernel of a seed: the same text and launches on every machine."""
    source = random.Random(seed)
    name = f"k{seed}"
    writer = _Writer(source, budget=source.randint(2, 12), depth=source.randint(1, 3))
    text = writer.kernel(name, guard=source.random() < 0.3)
    return FuzzKernel(name, text, tuple(_launch(source) for _ in range(launches)))


def _launch(source: random.Random) -> Launch:
    grid, block = source.choice(SHAPES)
    threads = Launch(grid, block, ()).threads_per_block * Launch(grid, block, ()).thread_blocks

    def words(count: int) -> tuple[int, ...]:
        return tuple(
            source.choice((*EDGES, source.getrandbits(32), source.randrange(16))) for _ in range(count)
        )

    arrays = (("a", INPUT_WORDS), ("b", INPUT_WORDS), ("out", OUTPUTS * threads), ("acc", threads))
    arguments = [ArrayArgument(name, words(count), "u32") for name, count in arrays]
    scalars = [ScalarArgument(name, value) for name, value in zip("su", words(2), strict=True)]
    scalars.append(ScalarArgument("n", threads - source.randrange(3)))
    return Launch(grid, block, (*arguments, *scalars))


# --- The reference: the same text as C++


CXX_HEADER = """
extern "C" int printf(const char *, ...);
struct Index { unsigned x, y, z; };
static Index threadIdx, blockIdx, blockDim, gridDim;
#define __global__ static
#define __device__ static
#define __restrict__
#define FOR_EACH(i, n) \\
    for (i.z = 0; i.z < n.z; ++i.z) for (i.y = 0; i.y < n.y; ++i.y) for (i.x = 0; i.x < n.x; ++i.x)
typedef unsigned long long wide;
static int min(int a, int b) { return a < b ? a : b; }
static int max(int a, int b) { return a > b ? a : b; }
static unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
static unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
static unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
static unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
static unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
static unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }
static int abs(int a) { return a < 0 ? -a : a; }
static int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
static unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((wide)a * b >> 32); }
static int __popc(unsigned a) { int n = 0; for (; a; a &= a - 1) ++n; return n; }
static int __clz(int a) { int n = 0; for (unsigned b = (unsigned)a; n < 32 && !(b >> 31); b <<= 1) ++n; return n; }
static unsigned __brev(unsigned a) {
    unsigned b = 0;
    for (int i = 0; i < 32; ++i) b |= (a >> i & 1) << (31 - i);
    return b;
}
static unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
    wide both = (wide)b << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; ++i) r |= (unsigned)(both >> 8 * (s >> 4 * i & 7) & 255) << 8 * i;
    return r;
}
static unsigned __sad(int a, int b, unsigned c) { return (a < b ? (unsigned)b - a : (unsigned)a - b) + c; }
static int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
static int __ffs(int a) { return a == 0 ? 0 : 32 - __clz(a & -a); }
static unsigned __uhadd(unsigned a, unsigned b) { return (unsigned)(((wide)a + b) >> 1); }
static unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned by) {
    return (unsigned)(((wide)hi << 32 | lo) << (by & 31) >> 32);
}
static unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned by) {
    return (unsigned)(((wide)hi << 32 | lo) >> (by & 31));
}
static void show(const unsigned *array, int count) { for (int i = 0; i < count; ++i) printf("%u ", array[i]); }
"""


def cxx_compiler() -> list[str] | None:
    """The command of a C++ compiler for the reference, None if there is none."""
    if shutil.which("g++"):
        return ["g++"]
    return ["cc", "-x", "c++"] if shutil.which("cc") else None


def expected_memory(kernels: Sequence[FuzzKernel], folder: Path) -> dict[str, list[tuple[int, ...]]]:
    """Global memory after each launch of each kernel, by the C++ compiler."""
    compiler = cxx_compiler()
    assert compiler is not None, "no C++ compiler"
    source, program = folder / "reference.cpp", folder / "reference"
    calls = [_cxx_launch(k.name, launch) for k in kernels for launch in k.launches]
    main = "int main() {\n" + "\n".join(calls) + "\n}\n"
    source.write_text("\n".join([CXX_HEADER, *(kernel.source for kernel in kernels), main]))
    flags = ["-std=c++17", "-O1", "-fwrapv", "-fno-builtin", "-fno-strict-aliasing", "-w"]
    subprocess.run([*compiler, *flags, str(source), "-o", str(program)], check=True)
    answer = subprocess.run([str(program)], check=True, capture_output=True, text=True, timeout=60)
    lines = iter(answer.stdout.splitlines())
    return {
        kernel.name: [tuple(map(int, next(lines).split())) for _ in kernel.launches] for kernel in kernels
    }


def _cxx_launch(name: str, launch: Launch) -> str:
    """A block of C++ that runs one launch, thread after thread, and prints a line with its memory."""
    arrays, arguments, shown = [], [], []
    for argument in launch.arguments:
        if isinstance(argument, ScalarArgument):
            arguments.append(f"{argument.value}u")
            continue
        count = len(argument.values)
        values = ", ".join(f"{value}u" for value in argument.values)
        arrays.append(f"static unsigned {argument.name}[{count}] = {{{values}}};")
        arguments.append("acc" if argument.name == "acc" else f"(int *){argument.name}")
        shown.append(f"show({argument.name}, {count});")
    extents = [f"{name} = {{{', '.join(map(str, value))}}};" for name, value in _shape(launch)]
    call = f"FOR_EACH(blockIdx, gridDim) FOR_EACH(threadIdx, blockDim) {name}({', '.join(arguments)});"
    return " ".join(["{", *arrays, *extents, call, *shown, 'printf("\\n");', "}"])


def _shape(launch: Launch) -> tuple[tuple[str, tuple[int, int, int]], ...]:
    return ("gridDim", launch.grid), ("blockDim", launch.block)


# --- This compiler


@dataclass(frozen=True)
class Outcome:
    """What became of one kernel on one machine. `kind` is right, refused, wrong or crash."""

    kernel: str
    kind: str
    detail: str = ""


def parsed_module(source: str, folder: Path, name: str = "kernels") -> Module:
    """Kernels through the front end and the parser."""
    path = folder / f"{name}.cu"
    path.write_text(source)
    return parser.parse_ptx(cuda.compile_cuda(path).text, str(path))


def compile_entry(module: Module, entry: str, spec: MachineSpec) -> Compilation:
    """One kernel of a parsed module through the rest of the pipeline, every value verified."""
    options = Options(spec, entry=entry, source=module.file)
    steps = [Step("parse", FORMS["ast"], module, 0.0)]
    first = next(index for index, item in enumerate(PIPELINE) if item.takes == "ast")
    for item in PIPELINE[first:]:
        value = item.apply(steps[-1].value, options)
        steps.append(Step(item.name, FORMS[item.gives], value, 0.0))
        steps[-1].form.verify(value, spec)
    return Compilation(tuple(steps))


def check_kernel(
    module: Module, kernel: FuzzKernel, spec: MachineSpec, expected: Iterable[tuple[int, ...]]
) -> Outcome:
    """Compiles a kernel and holds its launches, on the machine and in PTX, against the expected memory."""
    try:
        compilation = compile_entry(module, kernel.name, spec)
    except VerifyError as error:
        return Outcome(kernel.name, "crash", str(error))
    except CompileError as error:
        return Outcome(kernel.name, "refused", error.limit or error.message)
    for number, (launch, memory) in enumerate(zip(kernel.launches, expected, strict=True)):
        problem = _launch_problem(compilation, Program(compilation.rom, spec, launch), memory)
        if problem:
            return Outcome(kernel.name, "wrong", f"launch {number}: {problem}")
    return Outcome(kernel.name, "right")


def _launch_problem(compilation: Compilation, program: Program, memory: tuple[int, ...]) -> str:
    """Empty if both interpreters agree with `memory`; else the first level that differs from PTX, or ptx."""
    module = compilation.last("ast")
    meant = interpreter.interpret(module, module.entries[0].name, program.launch, program.spec)
    if meant[: len(memory)] != memory:
        return f"ptx: {meant[: len(memory)]} is not {memory}"
    try:
        program.load()
        result = program.interpret()
        if result.memory[: len(memory)] == memory:
            return ""
    except (MachineFault, VerifyError) as fault:
        return f"{_first_difference(compilation, program)}: {fault}"
    return _first_difference(compilation, program)


def _first_difference(compilation: Compilation, program: Program) -> str:
    reports = (report for report in check_program(compilation, program) if report.difference is not None)
    return next((f"{report.level}: {report.difference}" for report in reports), "no level")
