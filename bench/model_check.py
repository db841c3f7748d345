"""Every test kernel in the stock model, machine by machine: the long check, kept in model_check.json.

A launch is checked in one prefill: each token of its trace must be the argmax after the tokens before it, which is
what greedy decoding does. The largest machine takes a good half hour on two cores, so an outcome is kept with a digest
of what was checked (the placed circuit, what makes weights of it, the tokens); only what has changed since is checked
again.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.kernels import weights_digest
from bench.stored import read_rows, write_rows
from runtime.launcher import ModelEngine, Program, open_engine
from tests.kernels.case import MACHINES, KernelCase
from tests.kernels.cases import cases_for
from toolchain import machine_build
from toolchain.circuit_ir.text import print_placed
from toolchain.driver import Options, compile_program
from toolchain.machine_spec import MachineSpec
from toolchain.mir.rom import RomImage

STORED = Path(__file__).parent / "model_check.json"
DTYPE = "bfloat16"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """Of a kernel's first input set on a machine: tokens of the launch, how many the model would not have written."""

    machine: str
    kernel: str
    tokens: int
    wrong: int
    digest: str

    @property
    def row(self) -> str:
        return f"| {self.machine} | {self.kernel} | {self.tokens} | {self.wrong} |"


HEADER = ("| machine | kernel | launch tokens | wrong |", "|---|---|---|---|")


Compile = Callable[[KernelCase, MachineSpec], RomImage]


def compile_kernel(case: KernelCase, spec: MachineSpec) -> RomImage:
    """The kernel's ROM image for the machine."""
    return compile_program(case.source, Options(spec, entry=case.entry)).rom


@cache
def _circuit_digest(spec: MachineSpec) -> str:
    return hashlib.sha256(print_placed(machine_build.placed_circuit(spec)).encode()).hexdigest()


def digest(program: Program) -> str:
    """Changes with the machine's placed circuit, with how it becomes weights, and with the launch's tokens, the host's
    and the model's."""
    tokens = program.ids((*program.load(), *program.interpret().tokens))
    content = f"{_circuit_digest(program.spec)} {weights_digest()} {tokens!r}"
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def stored(path: Path = STORED) -> dict[tuple[str, str], Outcome]:
    """Outcomes by machine and kernel."""
    if not path.exists():
        return {}
    outcomes = read_rows(path, Outcome)
    return {(item.machine, item.kernel): item for item in outcomes}


def _store(outcomes: Iterable[Outcome], path: Path) -> None:
    ordered = sorted(outcomes, key=lambda item: (item.machine, item.kernel))
    write_rows(path, ordered)


def stale(
    known: dict[tuple[str, str], Outcome], compiled: Compile = compile_kernel
) -> Iterator[tuple[KernelCase, Program, str]]:
    """Every kernel whose outcome is not known for its tokens as they are now, with its program and digest.

    The program is the kernel on its first input set.
    """
    for spec in MACHINES:
        for case in cases_for(spec):
            program = Program(compiled(case, spec), spec, case.launches(spec)[0].launch)
            now, last = digest(program), known.get((spec.name, case.name))
            if last is None or last.digest != now:
                yield case, program, now


def check(say: Say, path: Path = STORED) -> None:
    """Checks what is stale, says each row as it comes, and stores it at once."""
    fitting = {(spec.name, case.name) for spec in MACHINES for case in cases_for(spec)}
    known = {key: outcome for key, outcome in stored(path).items() if key in fitting}
    engines: dict[str, ModelEngine] = {}
    for case, program, now in stale(known):
        name = program.spec.name
        if name not in engines:
            engine = open_engine("transformers", machine_build.ensure_checkpoint(program.spec, DTYPE))
            assert isinstance(engine, ModelEngine)
            engines = {name: engine}
        expected = program.interpret()
        wrong = engines[name].wrong_tokens(program, expected)
        outcome = Outcome(name, case.name, len(expected.tokens), wrong, now)
        known[name, case.name] = outcome
        _store(known.values(), path)
        say(outcome.row)


def table(path: Path = STORED) -> Iterator[str]:
    """All outcomes, a row each."""
    yield from HEADER
    yield from (outcome.row for outcome in stored(path).values())


def summary(path: Path = STORED) -> Iterator[str]:
    """A row a machine: kernels, tokens and wrong ones."""
    for spec in MACHINES:
        outcomes = [item for item in stored(path).values() if item.machine == spec.name]
        tokens, wrong = sum(item.tokens for item in outcomes), sum(item.wrong for item in outcomes)
        what = f"wrong tokens in the stock model, `{spec.name}`, {len(outcomes)} kernels"
        yield f"| {what} | {wrong} of {tokens:,} | 0 |"
