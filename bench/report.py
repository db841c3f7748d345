"""The performance tables, and the numbers that README.md quotes.

Shapes of circuits and counts of tokens are exact and the same everywhere; they are worked out anew. Times and memory
depend on the machine: `qgpuc bench --measure` stores them in measured.json, with the machine they were measured on, and
the README quotes that. What every kernel does in the stock model is in model_check.py.
"""

import json
import os
import platform
import resource
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from bench import exact_table, model_check, token_causes
from runtime.launcher import Program
from tests.kernels.case import KernelCase
from tests.kernels.cases import CASES, QUICK
from toolchain import machine_build
from toolchain.driver import Compilation, Options, compile_program
from toolchain.errors import CompileError
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec

MACHINES = (CLASSIC, NANO)
MEASURED = Path(__file__).parent / "measured.json"
BEGIN = "<!-- numbers: written by `qgpuc bench --readme` -->"
END = "<!-- end of numbers -->"


@cache
def _compiled(case: KernelCase, spec: MachineSpec) -> Compilation:
    return compile_program(case.source, Options(spec, entry=case.entry))


def shapes() -> Iterator[str]:
    """The placed circuit of each machine: what a checkpoint's layers look like."""
    yield "| machine | lanes | warps | memory words | circuit layers | hidden | MLP | heads |"
    yield "|---|---|---|---|---|---|---|---|"
    for spec in MACHINES:
        placed = machine_build.placed_circuit(spec)
        shape = f"{len(placed.layers)} | {placed.hidden} | {placed.mlp} | {placed.heads}"
        yield f"| `{spec.name}` | {spec.lanes} | {spec.warps} | {spec.memory_words} | {shape} |"


def tokens(cases: Iterable[KernelCase] = CASES) -> Iterator[str]:
    """Tokens the model writes for input set 0 of each test kernel, and those the host writes before."""
    columns = " | ".join(f"{spec.name}: {what}" for spec in MACHINES for what in ("launch", "load", "blocks"))
    yield f"| kernel | {columns} |"
    yield "|---" * (1 + 3 * len(MACHINES)) + "|"
    for case in cases:
        counts: list[object] = []
        for spec in MACHINES:
            if not case.fits(spec):
                counts += ["", "", ""]
                continue
            rom = _compiled(case, spec).rom
            program = Program(rom, spec, case.launches(spec)[0].launch)
            counts += [len(program.interpret().tokens), len(program.load()), len(rom.blocks)]
        yield f"| {case.name} | {' | '.join(map(str, counts))} |"


def times() -> Iterator[str]:
    """Seconds the compiler takes on each kernel, the CUDA front end aside."""
    yield "| kernel | compile to ROM, s |"
    yield "|---|---|"
    for case in CASES:
        yield f"| {case.name} | {_compile_seconds(case):.2f} |"


def _compile_seconds(case: KernelCase) -> float:
    steps = _compiled(case, CLASSIC).steps
    return sum(step.seconds for step in steps if step.name != "frontend")


@dataclass(frozen=True)
class Measured:
    """One run of `qgpuc bench --measure`. Seconds are wall clock; `compile` is the slowest kernel, clang aside."""

    processor: str
    cores: int
    compile_seconds: float
    build_seconds: float
    build_gigabytes: float
    kernels: int


def _processor() -> str:
    """The processor's name as the system gives it."""
    info = Path("/proc/cpuinfo")
    names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line]
    return names[0] if names else platform.processor() or platform.machine()


def _build_classic() -> tuple[float, float]:
    """Seconds and peak gigabytes of building the classic checkpoint from nothing."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        machine_build.build(CLASSIC, "bfloat16", Path(folder, "classic"))
        seconds = time.perf_counter() - begin
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def measure(path: Path = MEASURED) -> None:
    """Measures compile times and the build of `classic`, and writes them to `path`."""
    build_seconds, gigabytes = _build_classic()  # first: the peak counts from the process's start
    compiles = [_compile_seconds(case) for case in CASES]
    result = Measured(
        _processor(),
        os.cpu_count() or 1,
        round(max(compiles), 2),
        round(build_seconds),
        round(gigabytes, 1),
        len(CASES),
    )
    path.write_text(json.dumps(asdict(result), indent=2) + "\n")


def measured(path: Path = MEASURED) -> Iterator[str]:
    """The last measurement as the README quotes it."""
    item = Measured(**json.loads(path.read_text()))
    yield f"On {item.cores} cores of {item.processor}:"
    yield ""
    yield "| what | measured | to reach |"
    yield "|---|---|---|"
    yield f"| compiling a kernel, clang aside, the slowest of {item.kernels} | {item.compile_seconds} s | 2 s |"
    yield f"| building the `classic` checkpoint | {item.build_seconds} s | 180 s |"
    yield f"| memory for it | {item.build_gigabytes} GB | 8 GB |"
    yield from model_check.summary()


def lines() -> Iterator[str]:
    """Everything `qgpuc bench` prints."""
    for table in (
        shapes,
        tokens,
        token_causes.lines,
        exact_table.lines,
        times,
        measured,
        model_check.table,
    ):
        yield from table()
        yield ""


def numbers() -> str:
    """What stands between the README's markers; of the kernels, those that CI runs on every level."""
    quick = tokens(case for case in CASES if case.name in QUICK)
    return "\n".join([BEGIN, "", *shapes(), "", *quick, "", *measured(), "", END])


def section(text: str) -> str:
    """The part of a README between its markers, markers included."""
    if BEGIN not in text or END not in text:
        raise CompileError("README.md has no section of numbers", hint=f"put '{BEGIN}' and '{END}' into it")
    return text[text.index(BEGIN) : text.index(END) + len(END)]


def update_readme(path: Path) -> None:
    """Writes the numbers as they are now."""
    text = path.read_text()
    path.write_text(text.replace(section(text), numbers()))
