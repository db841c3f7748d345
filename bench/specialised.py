"""Every test kernel's own machine (`qgpuc compile --specialise`) in stock transformers, against the general machine.

A kernel's checkpoint is written, loaded by AutoModelForCausalLM and checked on the kernel's first input set: each token
of the trace in one prefill, and a short launch also token by token. Sizes are those of the loaded model. An outcome is
kept in specialised.json with a digest of the placed circuit, of what makes weights of it and of the tokens; only what
has changed since is done again. A kernel whose machine does not fit is kept with the reason.

    qgpuc bench --specialised
"""

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from bench import kernels
from bench.stored import read_json, write_json
from runtime.launcher import ModelEngine, Program
from tests.kernels.case import MACHINES, KernelCase
from tests.kernels.cases import CASES, cases_for
from toolchain import machine_build
from toolchain.circuit_ir.text import print_placed
from toolchain.errors import CompileError
from toolchain.machine_build import Model
from toolchain.machine_spec import MachineSpec

STORED = Path(__file__).parent / "specialised.json"
DTYPE = "bfloat16"
GENERAL = "(general)"
"""Stands for the kernel in the row of the machine that runs them all."""
BY_TOKEN = 60
"""Launches of at most this many tokens are decoded to the end."""
TIMED = 12
"""Tokens that are decoded to measure the speed."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """A model's size, how it ran a kernel, and the digest of what was run. `parameters`, `nonzeros` are counts.

    `answer_seconds`: from the folder to the end token, in a process that has imported transformers; None where not
    all tokens were decoded. `inside`: nonzeros but those of the two tables that have a row for each token.

    `wrong`: tokens that the model would not have written; `decoded`: tokens that it wrote by itself, one by one.
    """

    machine: str
    kernel: str
    layers: int
    hidden: int
    parameters: int
    nonzeros: int
    inside: int
    bytes: int
    load: int
    tokens: int
    wrong: int
    decoded: int
    load_seconds: float
    answer_seconds: float | None
    tokens_per_second: float
    digest: str

    @property
    def row(self) -> str:
        size = f"{self.layers} | {self.hidden} | {self.parameters / 1e6:.1f}"
        size += f" | {self.nonzeros / 1e3:,.0f} | {self.inside / 1e3:,.0f}"
        run = f"{self.load} | {self.tokens} | {self.wrong} | {self.decoded}"
        answer = "" if self.answer_seconds is None else f"{self.answer_seconds:.2f}"
        speed = f"{self.load_seconds:.2f} | {answer} | {self.tokens_per_second:.1f}"
        return f"| {self.machine} | {self.kernel} | {size} | {self.bytes / 1e6:.0f} | {run} | {speed} |"


@dataclass(frozen=True)
class Refusal:
    """A kernel that has no machine of its own, and why."""

    machine: str
    kernel: str
    why: str


Key = tuple[str, str]
"""Machine and kernel."""
Row = TypeVar("Row", Outcome, Refusal)
HEADER = (
    "| machine | kernel | layers | hidden | parameters, M | nonzeros, k | of them in layers, k | MB "
    "| load tokens | launch tokens | wrong | decoded | loads in, s | answers in, s | tokens/s |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
)


def _digest(model: Model, program: Program) -> str:
    """Changes with the placed circuit, how it becomes weights, and the launch's tokens, the host's and the model's."""
    tokens = program.ids((*program.load(), *program.interpret().tokens))
    content = f"{print_placed(model.placed)} {kernels.weights_digest()} {tokens!r}"
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _run(kernel: str, program: Program, folder: Path, digest: str) -> Outcome:
    """Loads a checkpoint and runs the program on it."""
    import torch

    begin = time.perf_counter()
    engine = ModelEngine(folder)
    load_seconds = time.perf_counter() - begin
    expected = program.interpret()
    wrong = engine.wrong_tokens(program, expected)
    load, wanted = program.ids(program.load()), program.ids(expected.tokens)
    limit = len(wanted) if len(wanted) <= BY_TOKEN else TIMED
    begin = time.perf_counter()
    moments: list[float] = []
    said = engine.model.decode(load, limit, lambda token: moments.append(time.perf_counter()))
    wrong = max(wrong, sum(a != b for a, b in zip(said, wanted[:limit], strict=True)))
    parameters = engine.model.parameters()
    counts = {name: int(torch.count_nonzero(item)) for name, item in parameters.items()}
    config = read_json(folder / "config.json")
    return Outcome(
        machine=program.spec.name,
        kernel=kernel,
        layers=config["num_hidden_layers"] - 1,
        hidden=config["hidden_size"],
        parameters=sum(item.numel() for item in parameters.values()),
        nonzeros=sum(counts.values()),
        inside=sum(count for name, count in counts.items() if ".layers." in name),
        bytes=sum(item.numel() * item.element_size() for item in parameters.values()),
        load=len(load),
        tokens=len(wanted),
        wrong=wrong,
        decoded=len(said),
        load_seconds=round(load_seconds, 2),
        answer_seconds=round(load_seconds + moments[-1] - begin, 2) if len(said) == len(wanted) else None,
        tokens_per_second=round((len(moments) - 1) / (moments[-1] - moments[0]), 1),
        digest=digest,
    )


def stored(path: Path = STORED) -> dict[Key, Outcome]:
    """Outcomes by machine and kernel."""
    return _by_name(Outcome(**item) for item in _content(path)["outcomes"])


def refused(path: Path = STORED) -> dict[Key, Refusal]:
    """Refusals by machine and kernel."""
    return _by_name(Refusal(**item) for item in _content(path)["refused"])


def _content(path: Path) -> dict[str, list[dict[str, Any]]]:
    return read_json(path) if path.exists() else {"outcomes": [], "refused": []}


def _by_name(rows: Iterable[Row]) -> dict[Key, Row]:
    return {(row.machine, row.kernel): row for row in rows}


def _store(outcomes: Mapping[Key, Outcome], refusals: Mapping[Key, Refusal], path: Path) -> None:
    parts = {"outcomes": outcomes, "refused": refusals}
    write_json(path, {name: [asdict(part[key]) for key in sorted(part)] for name, part in parts.items()})


def _own_machine(program: Program) -> tuple[Model, Program, str]:
    """The kernel's own machine, the program on it, and the digest of both."""
    model = machine_build.specialised_model(program.rom, program.spec)
    program = replace(program, baked=model.spec)
    return model, program, _digest(model, program)


def is_fresh(case: KernelCase, spec: MachineSpec, outcome: Outcome) -> bool:
    """Whether an outcome of a kernel's own machine is still that of what would be run now."""
    _, _, digest = _own_machine(kernels.program(case, spec))
    return outcome.digest == digest


def _special(case: KernelCase, program: Program, last: Outcome | None) -> Outcome | None:
    """The kernel's outcome on its own machine, None where the last one still holds."""
    model, program, digest = _own_machine(program)
    if last is not None and last.digest == digest:
        return None
    with tempfile.TemporaryDirectory() as name:
        machine_build.build_beside(model, DTYPE, Path(name))
        return _run(case.name, program, Path(name), digest)


def _general(case: KernelCase, program: Program, last: Outcome | None) -> Outcome | None:
    """The general machine's outcome on one kernel, None where the last one still holds."""
    spec = program.spec
    digest = _digest(Model(spec, machine_build.placed_circuit(spec)), program)
    if last is not None and last.digest == digest:
        return None
    return _run(GENERAL, program, machine_build.ensure_checkpoint(spec, DTYPE), digest)


Run = Callable[[KernelCase, Program, Outcome | None], Outcome | None]
"""A model on a kernel: its outcome, None where the last one still holds."""


def _runs() -> Iterator[tuple[str, MachineSpec, KernelCase, Run]]:
    """What is to be run, by name: the general machines, on their first kernel; then each kernel on each machine."""
    for spec in MACHINES:
        yield GENERAL, spec, cases_for(spec)[0], _general
    for case in CASES:
        yield from ((case.name, spec, case, _special) for spec in MACHINES if case.fits(spec))


def check(say: Say, path: Path = STORED) -> None:
    """Runs what has changed, says each row as it comes, and stores it at once."""
    names = {(spec.name, name) for name, spec, _, _ in _runs()}
    outcomes = {key: outcome for key, outcome in stored(path).items() if key in names}
    refusals: dict[Key, Refusal] = {}
    for name, spec, case, run in _runs():
        key = spec.name, name
        try:
            outcome = run(case, kernels.program(case, spec), outcomes.get(key))
        except CompileError as error:
            outcomes.pop(key, None)
            refusals[key] = Refusal(*key, error.message)
            say(f"{spec.name}, {name}: {error.message}")
        else:
            if outcome is None:
                continue
            outcomes[key] = outcome
            say(outcome.row)
        _store(outcomes, refusals, path)


def table(path: Path = STORED) -> Iterator[str]:
    """All outcomes, a row each, the general machine's before the kernels'; then what does not fit."""
    yield from HEADER
    yield from (outcome.row for outcome in stored(path).values())
    yield ""
    yield "| machine | kernel | no machine of its own: |"
    yield "|---|---|---|"
    yield from (f"| {item.machine} | {item.kernel} | {item.why} |" for item in refused(path).values())
