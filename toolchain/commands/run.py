"""qgpuc run: compile a kernel, launch it on an engine, print the arrays."""

import json
from pathlib import Path

import click

from runtime.arguments import parse_launch
from runtime.launcher import Difference, Engine, Program, RunReport, SparseEngine, open_engine, run_program
from runtime.levels import check_accesses, check_program
from runtime.trace import Narrator, print_trace
from runtime.transformers_engine import checkpoint_spec
from runtime.vocabulary import Token
from toolchain import machine_build
from toolchain.commands.options import CHECKPOINT, DTYPE, JSON, KERNEL, LAUNCH
from toolchain.commands.progress import building, waiting
from toolchain.commands.sanitizing import print_findings, sanitize_kernel
from toolchain.driver import Compilation, Options, compile_program
from toolchain.machine_spec import MachineSpec, load_spec
from toolchain.output import write_file

ENGINES = ("interp", "sparse", "transformers")


@click.command(name="run")
@KERNEL
@LAUNCH
@click.option("--engine", type=click.Choice(ENGINES), default="sparse", show_default=True)
@CHECKPOINT
@DTYPE
@click.option("--check", is_flag=True, help="hold every token against the machine interpreter's")
@click.option("--sanitize", is_flag=True, help="report undefined behaviour, on the PTX interpreter")
@click.option("--trace", type=click.Path(path_type=Path), help="write the launch's tokens to this file")
@click.option("--unsigned", is_flag=True, help="print array values unsigned")
@click.option("--quiet", is_flag=True, help="print the arrays and the verdict only")
@JSON
@click.pass_context
def command(
    context: click.Context,
    kernel: Path,
    source_form: str | None,
    entry: str | None,
    machine: str,
    frontend: str,
    defines: tuple[str, ...],
    grid: str,
    block: str,
    arguments: tuple[str, ...],
    dynamic_shared: int,
    engine: str,
    checkpoint: Path | None,
    dtype: str,
    check: bool,
    sanitize: bool,
    trace: Path | None,
    unsigned: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Launch KERNEL and print its arrays afterwards."""
    spec = load_spec(machine)
    launch = parse_launch(grid, block, arguments, dynamic_shared)
    options = Options(spec, frontend, entry, defines)
    if sanitize:
        found = sanitize_kernel(kernel, source_form, options, launch)
        print_findings(found, launch, unsigned=unsigned, as_json=as_json)
        context.exit(1 if found.errors else 0)
    compilation = compile_program(kernel, options, source_form=source_form)
    program = Program(compilation.rom, spec, launch)
    if checkpoint is not None and engine != "interp":
        program = program.on(checkpoint_spec(checkpoint)[0], checkpoint)
    load = len(program.load())
    talk = not (quiet or as_json)
    if talk:
        print_sizes(compilation, None if program.baked else spec, engine)
        click.echo(f"load     {load} tokens\n")
    fault = check_accesses(compilation, program) if check else None
    if fault is not None:
        report, tokens = RunReport({}, load, 0, fault.difference, engine), []
    else:
        opened = opened_engine(engine, spec, dtype, checkpoint)
        report, tokens = _launch(program, opened, check, unsigned, talk)
    if check and engine == "interp" and report.check == "exact":
        report = with_program_check(report, compilation, program)
    if trace is not None:
        write_file(trace, print_trace(program.rom, spec, launch, tokens))
    if as_json:
        click.echo(json.dumps(report.as_json()))
    else:
        print_report(report)
    if isinstance(report.check, Difference):
        context.exit(1)


def print_sizes(compilation: Compilation, spec: MachineSpec | None, engine: str) -> None:
    """Each stage and its size; the general machine's own where a model of it runs."""
    for name, size in compilation.sizes():
        click.echo(f"{name:8} {size}")
    if engine != "interp" and spec is not None:
        click.echo(f"circuit  {machine_build.placed_size(spec)}")


def opened_engine(name: str, spec: MachineSpec, dtype: str, checkpoint: Path | None) -> Engine:
    """The engine, on the given checkpoint or on the cached one, which is built if need be."""
    if name != "interp" and checkpoint is None:
        with building(f"building the {spec.name} checkpoint, once") as progress:
            checkpoint = machine_build.ensure_checkpoint(spec, dtype, progress)
    if name == "sparse":
        with building("packing the checkpoint's nonzero weights, once") as progress:
            engine = open_engine(name, checkpoint, progress)
        assert isinstance(engine, SparseEngine)
        if engine.model.reason is not None:
            click.echo(f"note: every rounding is worked out, which is slow: {engine.model.reason}", err=True)
        return engine
    with waiting("loading the checkpoint"):
        return open_engine(name, checkpoint)


def _launch(
    program: Program, engine: Engine, check: bool, unsigned: bool, talk: bool
) -> tuple[RunReport, list[Token]]:
    narrator = Narrator(program.rom, program.spec, program.launch)
    tokens: list[Token] = []

    def hear(token: Token) -> None:
        tokens.append(token)
        if talk:
            click.echo(f"{len(tokens) - 1:5}  {narrator.say(token)}")

    report = run_program(program, engine, check=check, unsigned=unsigned, on_token=hear)
    if talk:
        click.echo()
    return report, tokens


def with_program_check(report: RunReport, compilation: Compilation, program: Program) -> RunReport:
    """For the interpreter engine: its memory is held against the PTX and MIR interpreters, not itself."""
    for level in check_program(compilation, program):
        if level.difference is not None:
            return RunReport(report.arrays, report.load, report.launch, level.difference, report.engine)
    return report


def print_report(report: RunReport) -> None:
    for name, values in report.arrays.items():
        click.echo(f"{name} = {values}")
    if isinstance(report.check, Difference):
        click.echo(f"wrong: {report.check}")
    elif report.check is not None:
        click.echo(report.check)
    click.echo(f"{report.launch} tokens in the launch, {report.load} in the load, engine {report.engine}")
