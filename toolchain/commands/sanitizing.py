"""What `qgpuc run --sanitize` does and prints."""

import json
from pathlib import Path

import click

from runtime.loader import check_launch
from toolchain.driver import CHECK_SUPPORTED, Options, compile_program
from toolchain.errors import CompileError
from toolchain.forms import form_of
from toolchain.launch import Launch
from toolchain.sanitizer.findings import SanitizerReport
from toolchain.sanitizer.sanitizer import sanitize

FORMS = ("cuda", "ptx")
"""What can be sanitized: later forms have no threads, bytes or arrays of their own."""


def sanitize_kernel(
    kernel: Path, source_form: str | None, options: Options, launch: Launch
) -> SanitizerReport:
    """The findings of a launch. Raises CompileError for a kernel or a launch that is refused.

    Instructions that the machine has not, but the PTX interpreter has, are run.
    """
    form = form_of(kernel, source_form)
    if form.name not in FORMS:
        raise CompileError(
            f"'{kernel}' is {form.name}; --sanitize reads {' or '.join(FORMS)}",
            hint="give it the kernel's source",
        )
    check_launch(options.spec, launch)
    compilation = compile_program(kernel, options, source_form=source_form, stop_before=CHECK_SUPPORTED)
    module = compilation.last("ast")
    return sanitize(module, module.entries[0].name, launch, options.spec)


def print_findings(report: SanitizerReport, launch: Launch, *, unsigned: bool, as_json: bool) -> None:
    """The findings and the arrays, as text or as one JSON object."""
    arrays = launch.read_back(report.memory, unsigned=unsigned)
    if as_json:
        click.echo(json.dumps(report.as_json(arrays)))
        return
    for finding in report.findings:
        click.echo(f"{finding}\n")
    for name, values in arrays.items():
        click.echo(f"{name} = {values}")
    ended = "" if report.complete else "; the launch was stopped there"
    notes = len(report.findings) - report.errors
    told = f"{report.errors} error{'' if report.errors == 1 else 's'}" if report.errors else "clean"
    click.echo(told + (f", {notes} note{'' if notes == 1 else 's'}" if notes else "") + ended)
