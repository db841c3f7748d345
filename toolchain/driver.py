"""The compiler from end to end: one flat list of passes, run in order.

    kernel.cu -> ptx -> ast -> mir -> rom                 the program
    machine spec -> circuit -> placed -> weights          the GPU that runs it (see machine_build.py)

`PIPELINE` is the program's list: read it top to bottom. Each pass takes a value of one form and gives one of
the same or the next form. Between passes the driver verifies the value, times it, and hands it to whoever
wants it; passes do none of that. `forms.py` says how each form is read, printed and checked.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolchain.errors import CompileError
from toolchain.forms import FORMS, Form, form_of, read_form
from toolchain.machine_spec import CLASSIC, MachineSpec
from toolchain.mir import emit_rom, lower_ptx, pipeline
from toolchain.mir.rom import RomImage
from toolchain.ptx_frontend import cuda, inline_calls, parameter_addresses, parser, select_entry, support
from toolchain.ptx_frontend.ast import Module


@dataclass(frozen=True)
class Options:
    """What a compilation is told besides its input. `source` is the input's name."""

    spec: MachineSpec = CLASSIC
    frontend: str = "auto"
    entry: str | None = None
    defines: tuple[str, ...] = ()
    address_size: int = 32
    source: str = "<input>"


@dataclass(frozen=True)
class Pass:
    """A step of the pipeline: `apply` takes a value of form `takes` to one of form `gives`."""

    name: str
    takes: str
    gives: str
    apply: Callable[[Any, Options], Any]


def _frontend(path: Path, options: Options) -> str:
    return cuda.compile_cuda(path, options.frontend, options.defines, options.address_size).text


def _parse(text: str, options: Options) -> Module:
    return parser.parse_ptx(text, options.source)


def _select_entry(module: Module, options: Options) -> Module:
    return select_entry.run(module, options.entry)


def _inline_calls(module: Module, options: Options) -> Module:
    return inline_calls.run(module)


def _parameter_addresses(module: Module, options: Options) -> Module:
    return parameter_addresses.run(module)


def _check_supported(module: Module, options: Options) -> Module:
    """Refuses what the machine has no instructions for."""
    support.check_supported(module.entries[0])
    return module


def _lower(module: Module, options: Options) -> Any:
    return lower_ptx.run(module.entries[0], options.spec, options.source, module.variables)


def _mir(run: Callable[[Any, MachineSpec], Any]) -> Callable[[Any, Options], Any]:
    return lambda function, options: run(function, options.spec)


CHECK_SUPPORTED = "check-supported"
"""The pass after which the machine must run what the PTX says."""

PIPELINE = (
    Pass("frontend", "cuda", "ptx", _frontend),
    Pass("parse", "ptx", "ast", _parse),
    Pass(select_entry.PASS_NAME, "ast", "ast", _select_entry),
    Pass(inline_calls.PASS_NAME, "ast", "ast", _inline_calls),
    Pass(parameter_addresses.PASS_NAME, "ast", "ast", _parameter_addresses),
    Pass(CHECK_SUPPORTED, "ast", "ast", _check_supported),
    Pass(lower_ptx.PASS_NAME, "ast", "mir", _lower),
    *(Pass(name, "mir", "mir", _mir(run)) for name, run in pipeline.PASSES),  # listed in mir/pipeline.py
    Pass("schedule", "mir", "rom", _mir(emit_rom.compile_mir)),
)
"""Every pass, in order. `--dump-after` takes these names."""

TARGETS = ("ptx", "mir", "rom")
"""The forms a program can stop at; the machine's own are in machine_build.py."""


@dataclass(frozen=True)
class Step:
    """A pass that ran: what it gave, and how long it took."""

    name: str
    form: Form
    value: Any
    seconds: float


@dataclass(frozen=True)
class Compilation:
    """The input and every step after it, in order."""

    steps: tuple[Step, ...]

    def last(self, form: str) -> Any:
        """The last value of a form, or None if the pipeline did not pass through it."""
        return next((step.value for step in reversed(self.steps) if step.form.name == form), None)

    @property
    def rom(self) -> RomImage:
        rom = self.last("rom")
        assert isinstance(rom, RomImage), "the pipeline was stopped before the ROM image"
        return rom

    def sizes(self) -> list[tuple[str, str]]:
        """Each form the program went through, with the size it ended at."""
        last = {step.form.name: step for step in self.steps}
        return [(name, step.form.size(step.value)) for name, step in last.items()]


def compile_program(
    path: Path,
    options: Options,
    *,
    source_form: str | None = None,
    target: str = "rom",
    stop_before: str = "",
    observe: Callable[[Step], None] = lambda step: None,
) -> Compilation:
    """Runs the pipeline from what `path` holds to `target`, or to the pass named `stop_before`.

    Raises CompileError at the user's own line.
    """
    form = form_of(path, source_form)
    options = replace(options, source=str(path))
    steps = [_step(Step("input", form, read_form(path, form), 0.0), options, observe)]
    for item in passes_between(form.name, target, path):
        if item.name == stop_before:
            break
        begin = time.perf_counter()
        value = item.apply(steps[-1].value, options)
        steps.append(Step(item.name, FORMS[item.gives], value, time.perf_counter() - begin))
        _step(steps[-1], options, observe)
    return Compilation(tuple(steps))


def passes_between(form: str, target: str, path: Path) -> tuple[Pass, ...]:
    """The passes from an input of `form` to the last that gives `target`."""
    order = list(FORMS)
    if order.index(form) > order.index(target):
        raise CompileError(f"'{path}' is {form}, which comes after {target}", hint="choose a later --to")
    takers = [index for index, item in enumerate(PIPELINE) if item.takes == form]
    givers = [index for index, item in enumerate(PIPELINE) if item.gives == target]
    first = takers[0] if takers else len(PIPELINE)
    return PIPELINE[first : max(givers) + 1]


def _step(step: Step, options: Options, observe: Callable[[Step], None]) -> Step:
    step.form.verify(step.value, options.spec)
    observe(step)
    return step
