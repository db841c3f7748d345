"""What compiling costs against the program's size: generated kernels, seconds for each pass, fitted exponents.

The generator: `source(n)` is one kernel of n rounds over an array. Round i loads a word, mixes it into one of four
accumulators with a multiply, an exclusive or and a shift by constants that depend on i, and, where the accumulator
is odd, changes the next accumulator and stores it. So each round brings loads, arithmetic, a data-dependent branch and
a store, every program has the same mixture, and only its length grows. It is compiled for a machine with room for all
of them (`token_causes.ROOMY`); clang's time is left out. Of several runs, the fastest counts: what else runs on the
machine only adds. `qgpuc bench --curve` measures; the table is stored with a description of the machine.
"""

import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.host import Host, describe
from bench.stored import read_json, write_json
from bench.token_causes import ROOMY
from toolchain.driver import Compilation, Options, compile_program
from toolchain.machine_spec import MachineSpec

STORED = Path(__file__).parent / "compile_curve.json"
SIZES = (2, 4, 8, 16, 32, 64)
RUNS = 3
WIDTH = 40
"""Characters of the plot's longest bar."""


@dataclass(frozen=True)
class Point:
    """A generated program: its rounds, operations of its MIR, blocks of its ROM, and seconds by pass."""

    rounds: int
    operations: int
    blocks: int
    seconds: dict[str, float]

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


@dataclass(frozen=True)
class Curve:
    """All points, by growing size, and the machine that was measured."""

    host: Host
    points: tuple[Point, ...]


def source(rounds: int) -> str:
    """The CUDA kernel of that many rounds."""
    lines = ["__global__ void grown(unsigned *a) {", "    unsigned s0 = 1, s1 = 2, s2 = 3, s3 = 4;"]
    for i in range(rounds):
        here, after = f"s{i % 4}", f"s{(i + 1) % 4}"
        lines.append(f"    {here} = ({here} ^ a[{i % 16}]) * {2 * i + 3}u + ({here} >> {i % 7 + 1});")
        lines.append(
            f"    if ({here} & 1u) {{ {after} += {here} ^ {i + 5}u; a[{(5 * i + 1) % 16}] = {after}; }}"
        )
    lines += ["    a[0] = s0 + s1 + s2 + s3;", "}"]
    return "\n".join(lines) + "\n"


def _compile(text: str, spec: MachineSpec) -> Compilation:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "grown.cu")
        path.write_text(text)
        return compile_program(path, Options(spec))


def point(rounds: int, spec: MachineSpec = ROOMY, runs: int = RUNS) -> Point:
    """Compiles the program of `rounds` some times. A pass that runs more than once counts as one."""
    best: dict[str, float] = {}
    operations = blocks = 0
    for _ in range(runs):
        compilation = _compile(source(rounds), spec)
        seconds: dict[str, float] = {}
        for step in compilation.steps:
            if step.name != "frontend":
                seconds[step.name] = seconds.get(step.name, 0.0) + step.seconds
        if not best or sum(seconds.values()) < sum(best.values()):
            best = seconds
        operations = sum(len(block.instructions) for block in compilation.last("mir").blocks)
        blocks = len(compilation.rom.blocks)
    return Point(rounds, operations, blocks, {name: round(value, 5) for name, value in best.items()})


def measure(path: Path = STORED, say: Callable[[str], None] = lambda line: None) -> None:
    """Measures every size (a minute), and writes the curve."""
    host = describe()
    points = []
    for rounds in SIZES:
        points.append(point(rounds))
        say(f"{rounds} rounds: {points[-1].total:.2f} s")
    write(Curve(host, tuple(points)), path)


def write(curve: Curve, path: Path = STORED) -> None:
    """Stores a curve."""
    write_json(path, asdict(curve))


def read(path: Path = STORED) -> Curve:
    """The stored curve."""
    item = read_json(path)
    return Curve(Host(**item["host"]), tuple(Point(**point) for point in item["points"]))


def exponent(sizes: list[float], costs: list[float]) -> float:
    """The e of cost = c * size ** e: the slope of the least-squares line through the logarithms."""
    x, y = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    middle_x, middle_y = sum(x) / len(x), sum(y) / len(y)
    over = sum((a - middle_x) * (b - middle_y) for a, b in zip(x, y, strict=True))
    return over / sum((a - middle_x) ** 2 for a in x)


def lines(path: Path = STORED) -> Iterator[str]:
    """The stored curve: a row a size with a bar, then a row a pass with its exponent in operations, largest first."""
    curve = read(path)
    points = curve.points
    yield from curve.host.lines()
    yield ""
    yield "| rounds | MIR operations | ROM blocks | compile to ROM, s | ms an operation | plot |"
    yield "|---|---|---|---|---|---|"
    longest = max(item.total for item in points)
    for item in points:
        each = 1000 * item.total / item.operations
        bar = "#" * max(1, round(WIDTH * item.total / longest))
        yield f"| {item.rounds} | {item.operations} | {item.blocks} | {item.total:.3f} | {each:.2f} | {bar} |"
    yield ""
    yield f"| pass | seconds, {points[-1].rounds} rounds | part | exponent |"
    yield "|---|---|---|---|"
    sizes = [float(item.operations) for item in points]
    slope = exponent(sizes, [item.total for item in points])
    yield f"| all | {points[-1].total:.3f} | 100% | {slope:.2f} |"
    for name, seconds in sorted(points[-1].seconds.items(), key=lambda item: -item[1]):
        costs = [item.seconds[name] for item in points]
        fitted = f"{exponent(sizes, costs):.2f}" if min(costs) > 0 else ""
        yield f"| {name} | {seconds:.3f} | {seconds / points[-1].total:.0%} | {fitted} |"
