"""qgpuc bench: the performance tables. They need the source tree, whose kernels they measure."""

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
def command(readme: bool, measure: bool, model: bool) -> None:
    """Print circuit shapes, launch tokens of every test kernel, compile times, and the last measurement."""
    if not (ROOT / "bench" / "report.py").exists():
        raise CompileError(
            "bench needs the source tree", hint="run it from an editable install: pip install -e ."
        )
    sys.path.insert(0, str(ROOT))
    from bench import model_check, report

    if measure:
        report.measure()
    if model:
        model_check.check(click.echo)
    if readme:
        report.update_readme(ROOT / "README.md")
    else:
        for line in report.lines():
            click.echo(line)
