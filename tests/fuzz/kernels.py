"""Random kernels and their launches, each a function of a tape."""

from dataclasses import dataclass

from tests.fuzz.expressions import EDGES, WIDE_EDGES, Expressions
from tests.fuzz.statements import COUNTS, MEETINGS, Statements
from tests.fuzz.tape import Tape
from toolchain.launch import Argument, ArrayArgument, Launch, ScalarArgument

INPUT_WORDS = 8
OUTPUTS = 2
"""Words of `out` that each thread owns."""
MEMORY_WORDS = 62
"""Global memory of the smallest machine."""
TILE = 8
"""Threads of the largest block."""
SHAPES: tuple[tuple[tuple[int, int, int], tuple[int, int, int]], ...] = (
    ((1, 1, 1), (1, 1, 1)), ((1, 1, 1), (2, 1, 1)), ((1, 1, 1), (4, 1, 1)), ((1, 1, 1), (5, 1, 1)),
    ((1, 1, 1), (8, 1, 1)), ((3, 1, 1), (3, 1, 1)), ((2, 1, 1), (4, 1, 1)), ((1, 1, 1), (3, 2, 1)),
    ((2, 2, 1), (2, 1, 1)), ((1, 2, 1), (1, 5, 1)), ((1, 1, 1), (2, 2, 2)), ((1, 2, 2), (1, 2, 1)),
    ((2, 1, 2), (1, 1, 2)), ((2, 1, 1), (2, 2, 1)), ((2, 1, 1), (1, 1, 4)),
)  # fmt: skip
"""Grids and blocks that every preset has room for."""
FEATURES = (
    ("shared", 0.25), ("tally", 0.2), ("warp", 0.25), ("counters", 0.2), ("own_atomics", 0.2), ("wide", 0.2),
    ("narrow", 0.2), ("local", 0.2), ("division", 0.2), ("vector", 0.2), ("functions", 0.2), ("constants", 0.2),
    ("intrinsics", 0.25),
)  # fmt: skip
"""What a kernel may have besides plain 32-bit code, with how often."""
MOST_FEATURES = 3
"""Of one kernel: more would not fit the machine's program."""
TILES = ("int", "unsigned char", "short", "unsigned", "unsigned short", "signed char")

THREAD = (
    "((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) * (blockDim.x * blockDim.y * blockDim.z)"
    " + (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x"
)
THREADS = "(int)(gridDim.x * gridDim.y * gridDim.z * blockDim.x * blockDim.y * blockDim.z)"
LEAVES = ("s", "u", "(int)threadIdx.x", "threadIdx.y", "blockIdx.x", "t", "blockDim.x")
UNIFORM = ("s", "u", "n", "blockIdx.x", "gridDim.x", "a[0]", "b[3]", "blockDim.x")


@dataclass(frozen=True)
class FuzzKernel:
    """A kernel's text, its launches, and the lanes that a warp must have at least."""

    name: str
    source: str
    launches: tuple[Launch, ...]
    lanes: int = 1
    features: frozenset[str] = frozenset()


def random_kernel(seed: int, launches: int = 2) -> FuzzKernel:
    """The kernel of a seed: the same text and launches on every machine."""
    return kernel_of(Tape(seed=seed), f"k{seed}", launches)


def kernel_of(tape: Tape, name: str, launches: int = 2) -> FuzzKernel:
    """The kernel that a tape writes."""
    chosen = [feature for feature, often in FEATURES if tape.random() >= 1 - often]
    features = frozenset(tape.sample(chosen, min(len(chosen), MOST_FEATURES)))
    budget = tape.randint(1, 10 if not features & set(MEETINGS) else 6)
    writer = Statements(tape, depth=tape.randint(1, 3), features=features, budget=budget)
    writer.width = tape.choice((2, 2, 4))
    writer.count = tape.choice(tuple(COUNTS))
    source = kernel_text(writer, name)
    lanes = writer.width if "warp" in features else 1
    shapes = [shape for shape in SHAPES if _fits(*shape, features, lanes)]
    return FuzzKernel(
        name, source, tuple(_launch(tape, shapes, features) for _ in range(launches)), lanes, features
    )


def _threads(grid: tuple[int, int, int], block: tuple[int, int, int]) -> tuple[int, int]:
    launch = Launch(grid, block, ())
    return launch.threads_per_block, launch.thread_blocks


def _fits(
    grid: tuple[int, int, int], block: tuple[int, int, int], features: frozenset[str], lanes: int
) -> bool:
    """Memory suffices, and every segment of a shuffle is full of threads."""
    per_block, blocks = _threads(grid, block)
    words = sum(argument.words for argument in _arrays(per_block * blocks, features))
    return words <= MEMORY_WORDS and per_block % lanes == 0


def _arrays(threads: int, features: frozenset[str]) -> list[ArrayArgument]:
    """The kernel's array parameters in order, of zeros."""
    arrays = [("a", INPUT_WORDS, "i32"), ("b", INPUT_WORDS, "i32"), ("out", OUTPUTS * threads, "i32")]
    arrays += [("wide", threads, "i64")] if "wide" in features else []
    arrays += [("acc", threads, "u32")]
    arrays += [("bytes", 4 * threads, "u8")] if "narrow" in features else []
    arrays += [("totals", 4, "u32")] if "counters" in features else []
    return [ArrayArgument(name, (0,) * count, element) for name, count, element in arrays]


def _launch(
    tape: Tape, shapes: list[tuple[tuple[int, int, int], tuple[int, int, int]]], features: frozenset[str]
) -> Launch:
    grid, block = tape.choice(shapes)
    per_block, blocks = _threads(grid, block)

    def value(element: str) -> int:
        bits = int(element[1:])
        edges = WIDE_EDGES if bits == 64 else EDGES
        chosen = tape.choice((*edges, tape.getrandbits(bits), tape.randrange(16))) % (1 << bits)
        return chosen - (1 << bits) if element[0] == "i" and chosen >> (bits - 1) else chosen

    arguments: list[Argument] = [
        ArrayArgument(array.name, tuple(value(array.element) for _ in array.values), array.element)
        for array in _arrays(per_block * blocks, features)
    ]
    arguments += [ScalarArgument("s", value("i32")), ScalarArgument("u", value("u32"))]
    arguments.append(ScalarArgument("n", per_block * blocks - tape.randrange(3)))
    return Launch(grid, block, tuple(arguments), 4 * per_block if "shared" in features else 0)


def kernel_text(writer: Statements, name: str) -> str:
    """The kernel and what it needs before it: device functions, constants."""
    before: list[str] = []
    writer.tables = (("a", 7), ("b", 7))
    if "narrow" in writer.features:
        writer.tables += (("((const unsigned char *)a)", 31), ("((const short *)b)", 15))
    if "constants" in writer.features:
        values = ", ".join(str(writer.random.randrange(-100, 100)) for _ in range(4))
        kind = writer.pick(("__constant__ int", "__device__ const short", "__constant__ unsigned char"))
        before.append(
            f"{kind} {name}_table[4] = {{{values.replace('-', '') if 'char' in kind else values}}};"
        )
        writer.tables += ((f"{name}_table", 3),)
    if "functions" in writer.features:
        for _ in range(writer.random.randint(1, 2)):
            before.append(function_text(writer, f"{name}_f{len(writer.functions)}"))
    return "\n".join([*before, f"__global__ void {name}({parameters(writer)}) {{", *body(writer), "}\n"])


def function_text(writer: Statements, name: str) -> str:
    """A device function of its parameters alone, which kernels and later functions may call."""
    count = writer.random.randint(1, 3)
    names = [f"x{i}" for i in range(count)]
    inside = Expressions(writer.random, depth=2, variables=names, functions=list(writer.functions))
    typed = ", ".join(f"{writer.pick(('int', 'unsigned'))} {x}" for x in names)
    lines = [f"{writer.pick(names)} ^= {inside.expression()};"]
    if writer.chance(0.5):
        lines.append(f"if ({inside.condition(1)}) return {inside.expression(1)};")
    if writer.chance(0.4):
        lines.append(
            f"for (int i = 0; i < (int)(x0 & 3); ++i) {writer.pick(names)} += {inside.expression(1)};"
        )
    writer.functions.append((name, count))
    head = f"{writer.pick(('__device__ int', '__device__ __noinline__ int', 'static __device__ unsigned'))} {name}"
    return "\n".join([f"{head}({typed}) {{", *lines, f"return {inside.expression()};", "}"])


def parameters(writer: Statements) -> str:
    """The kernel's parameters, as `_arrays` lists them."""
    restrict = writer.pick(("", "", "__restrict__ "))
    types = {"a": "const int", "b": "const int", "out": "int", "wide": "long long", "acc": "unsigned"}
    types |= {"bytes": "unsigned char", "totals": "unsigned"}
    arrays = [f"{types[array.name]} *{restrict}{array.name}" for array in _arrays(1, writer.features)]
    return ", ".join([*arrays, "int s", "unsigned u", "int n"])


def body(writer: Statements) -> list[str]:
    """The kernel's statements: names of its words, variables, what they do, and what they leave."""
    guard = not writer.meets() and writer.chance(0.3)
    lines = [f"int t = {THREAD};", *(["if (t >= n) return;"] if guard else [])]
    lines.append(f"int w = {writer.pick(('t', 't', f'{THREADS} - 1 - t'))};")
    writer.places = ("out[2 * w + {}]", "out[2 * w + {}]", "acc[w]")
    if writer.chance(0.3):
        lines.append("int *own = out + 2 * w; unsigned *mine = acc + w;")
        writer.places = ("own[{}]", "own[{}]", "*mine")
    writer.leaves, writer.uniform = LEAVES, UNIFORM
    lines += shared_words(writer)
    for index in range(writer.random.randint(2, 4)):
        variable = writer.fresh("v")
        start = ("a[t & 7]", f"b[(t + {index}) & 7]", "a[w & 7]", "t", writer.literal(), "acc[w]")
        lines.append(f"{writer.pick(('int', 'unsigned'))} {variable} = {writer.pick(start)};")
        writer.variables.append(variable)
    if "wide" in writer.features:
        lines += ["long long y1 = wide[w];", f"unsigned long long y2 = {writer.wide_literal()};"]
        writer.wides += ["y1", "y2"]
    if "local" in writer.features:
        lines.append(f"int local[4] = {{{', '.join(f'(int)({writer.leaf()})' for _ in range(4))}}};")
    writer.converged = writer.meets()
    for kind in sorted(set(writer.special_kinds()), key=lambda _: writer.random.random()):
        lines += writer.write(kind)
    while writer.budget > 0:
        lines += writer.body(3)
    lines += [
        f"{writer.place()} {writer.pick(('=', '^=', '+='))} {variable};" for variable in writer.variables
    ]
    return [*lines, *(f"wide[w] {writer.pick(('^=', '+='))} {wide};" for wide in writer.wides)]


def shared_words(writer: Statements) -> list[str]:
    """The shared arrays of a kernel whose threads meet."""
    lines: list[str] = []
    if writer.meets():
        lines.append("int l = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;")
        lines.append("int m = blockDim.x * blockDim.y * blockDim.z;")
    if "shared" in writer.features:
        kind = writer.pick(TILES)
        lines.append(
            f"extern __shared__ {kind} tile[];" if writer.chance(0.3) else f"__shared__ {kind} tile[{TILE}];"
        )
    if "tally" in writer.features:
        lines.append("__shared__ unsigned sums[2];")
    return lines
