"""qgpuc bench: the performance tables. They need the source tree, whose kernels they measure."""

import json
import sys
from pathlib import Path

import click

from toolchain.errors import CompileError

ROOT = Path(__file__).parent.parent.parent


@click.command(name="bench")
@click.option("--readme", is_flag=True, help="write the numbers into README.md instead of printing them")
@click.option("--measure", is_flag=True, help="first measure anew compile times and the build of classic")
@click.option(
    "--model",
    is_flag=True,
    help="first check every kernel in the stock model that has changed since (an hour)",
)
@click.option("--causes", is_flag=True, help="first measure anew what each pass saves in tokens (minutes)")
@click.option("--exact", is_flag=True, help="first search small kernels for the fewest tokens (minutes)")
@click.option(
    "--specialised",
    is_flag=True,
    help="first build and run every kernel's own machine that has changed since (an hour)",
)
@click.option("--json", "as_json", is_flag=True, help="print the tables' rows as JSON")
def command(
    readme: bool, measure: bool, model: bool, causes: bool, exact: bool, specialised: bool, as_json: bool
) -> None:
    """Print circuit shapes, launch tokens of every test kernel, compile times, and the last measurement."""
    if readme and as_json:
        raise CompileError("--readme prints nothing", hint="leave out --json")
    if not (ROOT / "bench" / "report.py").exists():
        raise CompileError(
            "bench needs the source tree", hint="run it from an editable install: pip install -e ."
        )
    sys.path.insert(0, str(ROOT))
    from bench import exact_table, measured, model_check, report, token_causes
    from bench import specialised as own_machines

    def say(line: str) -> None:
        click.echo(line, err=as_json)

    if measure:
        measured.measure()
    if model:
        model_check.check(say)
    if causes:
        token_causes.measure(progress=say)
    if exact:
        exact_table.measure(progress=say)
    if specialised:
        own_machines.check(say)
    if readme:
        report.update_readme(ROOT / "README.md")
    elif as_json:
        click.echo(json.dumps(report.as_json(), indent=1))
    else:
        for line in report.lines():
            click.echo(line)
