"""The performance tables, and the numbers that README.md quotes.

What the README holds is exact and the same everywhere: shapes of circuits and counts of tokens. Times are
printed only.
"""

import resource
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from runtime.launcher import ModelEngine, Program, open_engine
from tests.kernels.cases import CASES, KernelCase
from toolchain import machine_build
from toolchain.driver import Compilation, Options, compile_program
from toolchain.errors import CompileError
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec

MACHINES = (CLASSIC, NANO)
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


def tokens() -> Iterator[str]:
    """Tokens the model writes for input set 0 of each test kernel, and those the host writes before."""
    columns = " | ".join(f"{spec.name}: {what}" for spec in MACHINES for what in ("launch", "load", "blocks"))
    yield f"| kernel | {columns} |"
    yield "|---" * (1 + 3 * len(MACHINES)) + "|"
    for case in CASES:
        counts: list[int] = []
        for spec in MACHINES:
            rom = _compiled(case, spec).rom
            program = Program(rom, spec, case.launches(spec)[0].launch)
            counts += [len(program.interpret().tokens), len(program.load()), len(rom.blocks)]
        yield f"| {case.name} | {' | '.join(map(str, counts))} |"


def times() -> Iterator[str]:
    """Seconds the compiler takes on each kernel, the CUDA front end aside."""
    yield "| kernel | compile to ROM, s |"
    yield "|---|---|"
    for case in CASES:
        seconds = sum(step.seconds for step in _compiled(case, CLASSIC).steps if step.name != "frontend")
        yield f"| {case.name} | {seconds:.2f} |"


def build_times() -> Iterator[str]:
    """Seconds and memory for the classic checkpoint, from nothing."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        machine_build.build(CLASSIC, "bfloat16", Path(folder, "classic"))
        seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    yield f"building the classic checkpoint: {seconds:.0f} s, {peak:.1f} GB at most"


def model_check() -> Iterator[str]:
    """Wrong tokens over the first input set of every kernel, in the stock model; each trace in one prefill."""
    for spec in MACHINES:
        engine = open_engine("transformers", machine_build.ensure_checkpoint(spec, "bfloat16"))
        assert isinstance(engine, ModelEngine)
        checked = wrong = 0
        for case in CASES:
            program = Program(_compiled(case, spec).rom, spec, case.launches(spec)[0].launch)
            expected = program.interpret()
            checked += len(expected.tokens)
            wrong += engine.wrong_tokens(program, expected)
        yield f"{spec.name}: {wrong} wrong of {checked} tokens, {len(CASES)} kernels"


def lines(*, build: bool, model: bool) -> Iterator[str]:
    """Everything `qgpuc bench` prints."""
    for table in (shapes, tokens, times):
        yield from table()
        yield ""
    if build:
        yield from build_times()
    if model:
        yield from model_check()


def numbers() -> str:
    """What stands between the README's markers."""
    return "\n".join([BEGIN, "", *shapes(), "", *tokens(), "", END])


def section(text: str) -> str:
    """The part of a README between its markers, markers included."""
    if BEGIN not in text or END not in text:
        raise CompileError("README.md has no section of numbers", hint=f"put '{BEGIN}' and '{END}' into it")
    return text[text.index(BEGIN) : text.index(END) + len(END)]


def update_readme(path: Path) -> None:
    """Writes the numbers as they are now."""
    text = path.read_text()
    path.write_text(text.replace(section(text), numbers()))
