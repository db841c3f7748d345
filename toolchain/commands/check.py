"""qgpuc check: the same launch on every level, from PTX to the stock model."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from runtime.arguments import parse_argument, parse_launch
from runtime.launcher import ModelEngine, Program
from runtime.levels import (
    CIRCUIT_LEVELS,
    CircuitRunner,
    LevelReport,
    check_accesses,
    check_circuit,
    check_program,
)
from toolchain.commands.options import CHECKPOINT, DTYPE, JSON, KERNEL, LAUNCH
from toolchain.commands.progress import waiting
from toolchain.commands.run import opened_engine
from toolchain.driver import Compilation, Options, compile_program
from toolchain.errors import CompileError
from toolchain.launch import ArrayArgument, Launch
from toolchain.machine_spec import load_spec

LEVELS = ("program", "circuit", "model")


@click.command(name="check")
@KERNEL
@LAUNCH
@CHECKPOINT
@DTYPE
@click.option(
    "--up-to", type=click.Choice(LEVELS), default=LEVELS[-1], show_default=True, help="the last level"
)
@click.option(
    "--expect", "expected", multiple=True, metavar="NAME=[..]", help="an array as the launch must leave it"
)
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
    checkpoint: Path | None,
    dtype: str,
    up_to: str,
    expected: tuple[str, ...],
    as_json: bool,
) -> None:
    """Launch KERNEL on every level; name the first level, token, lane and source line that differ."""
    spec = load_spec(machine)
    launch = parse_launch(grid, block, arguments, dynamic_shared)
    compilation = compile_program(kernel, Options(spec, frontend, entry, defines), source_form=source_form)
    program = Program(compilation.rom, spec, launch)
    arrays = expected_arrays(launch, expected)
    reports: list[LevelReport] = []
    for report in all_levels(compilation, program, up_to, dtype, checkpoint, arrays):
        reports.append(report)
        if not as_json:
            click.echo(f"{report.level:24} {report.difference or f'exact: {report.detail}'}")
        if report.difference is not None:
            break
    wrong = reports[-1].difference
    if as_json:
        verdict = {"first_difference": wrong.as_json()} if wrong else "exact"
        click.echo(json.dumps({"levels": [report.level for report in reports], "check": verdict}))
    if wrong is not None:
        context.exit(1)


def expected_arrays(launch: Launch, texts: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """`--expect` as arrays by name. Raises CompileError for what is no array of the launch, as long as that."""
    sizes = {item.name: len(item.values) for item in launch.arguments if isinstance(item, ArrayArgument)}
    arrays: dict[str, tuple[int, ...]] = {}
    for item in map(parse_argument, texts):
        if not isinstance(item, ArrayArgument) or sizes.get(item.name) != len(item.values):
            raise CompileError(
                f"--expect {item.name} is not an array of the launch, as long as it is there",
                hint=f"the launch has {', '.join(f'{name} of {size}' for name, size in sizes.items())}",
            )
        arrays[item.name] = item.values
    return arrays


def all_levels(
    compilation: Compilation,
    program: Program,
    up_to: str,
    dtype: str,
    checkpoint: Path | None,
    expected: Mapping[str, Sequence[int]] | None = None,
    circuits: Mapping[str, CircuitRunner] | None = None,
) -> Iterator[LevelReport]:
    """Every level in order; the caller stops at the first that differs.

    `expected` are arrays as the launch must leave them, `circuits` others than the machine's own, by level.
    """
    fault = check_accesses(compilation, program)
    if fault is not None:
        yield fault
        return
    for report in check_program(compilation, program, expected):
        yield report
        if report.difference is not None:
            return
    if up_to == "program":
        return
    result = program.interpret()
    for level in CIRCUIT_LEVELS:
        with waiting(f"the {level} circuit"):
            report = check_circuit(level, program, result, (circuits or {}).get(level))
        yield report
    if up_to == "circuit":
        return
    engine = opened_engine("transformers", program.spec, dtype, checkpoint)
    assert isinstance(engine, ModelEngine)
    with waiting("the stock model"):
        difference = engine.prefill_check(program, result)
    yield LevelReport(engine.name, difference, f"{len(result.tokens)} tokens in one prefill")
