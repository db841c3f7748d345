"""Times and memory, which depend on the machine: `qgpuc bench --measure` stores them with a description of it."""

import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench import engines, model_check
from bench.host import Host, describe, read_measurement
from bench.kernels import compile_seconds, compiled_anew
from bench.stored import write_json
from tests.kernels.case import KernelCase
from tests.kernels.cases import CASES
from toolchain import machine_build
from toolchain.machine_spec import CLASSIC

STORED = Path(__file__).parent / "measured.json"
REPETITIONS = 3
"""Of each kernel's compilation."""


@dataclass(frozen=True)
class Measured:
    """One measurement. Seconds are wall clock; `compile_seconds` is the slowest kernel's median, clang aside."""

    host: Host
    compile_seconds: float
    slowest: str
    build_seconds: float
    build_gigabytes: float
    kernels: int


def _build_classic() -> tuple[float, float]:
    """Seconds and peak gigabytes of building the classic checkpoint from nothing."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        machine_build.build(CLASSIC, "bfloat16", Path(folder, "classic"))
        seconds = time.perf_counter() - begin
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def _compile_seconds(case: KernelCase) -> float:
    """The median of some compilations: Python collects garbage in one or the other."""
    return median(compile_seconds(compiled_anew(case, CLASSIC)) for _ in range(REPETITIONS))


def measure(path: Path = STORED) -> None:
    """Measures compile times and the build of `classic`, and writes them to `path`."""
    host = describe()
    build_seconds, gigabytes = _build_classic()  # first: the peak counts from the process's start
    seconds, slowest = max((_compile_seconds(case), case.name) for case in CASES)
    result = Measured(host, round(seconds, 2), slowest, round(build_seconds), round(gigabytes, 1), len(CASES))
    write(result, path)


def write(item: Measured, path: Path = STORED) -> None:
    """Stores a measurement."""
    write_json(path, asdict(item))


def read(path: Path = STORED) -> Measured:
    """The last measurement."""
    return read_measurement(path, Measured)


def lines(path: Path = STORED) -> Iterator[str]:
    """The last measurement as the README quotes it."""
    item = read(path)
    yield from item.host.lines()
    yield ""
    yield "| what | measured | to reach |"
    yield "|---|---|---|"
    what = f"compiling a kernel, clang aside, the slowest of {item.kernels} (`{item.slowest}`)"
    yield f"| {what} | {item.compile_seconds} s | 0.5 s |"
    yield f"| building the `classic` checkpoint | {item.build_seconds} s | 60 s |"
    yield f"| memory for it | {item.build_gigabytes} GB | 6 GB |"
    yield from engines.summary()
    yield from model_check.summary()
