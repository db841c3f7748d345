"""qgpuc bench: the performance tables. They need the source tree, whose kernels they measure."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from toolchain.errors import CompileError

ROOT = Path(__file__).parent.parent.parent
Say = Callable[[str], None]
MEASUREMENTS = {
    "measure": "compile times and the build of classic",
    "model": "every kernel in the stock model that has changed since (an hour)",
    "causes": "what each pass saves in tokens (minutes)",
    "exact": "small kernels searched for the fewest tokens (minutes)",
    "specialised": "every kernel's own machine that has changed since (an hour)",
    "curve": "compile time against program size (minutes)",
    "engines": "the sparse engine and the stock model (minutes)",
}
"""Option -> what it measures anew before the tables are printed, in this order."""


def _options(function: Callable[..., None]) -> Callable[..., None]:
    """An option a measurement."""
    for name, what in reversed(MEASUREMENTS.items()):
        function = click.option(f"--{name}", is_flag=True, help=f"first measure anew: {what}")(function)
    return function


@click.command(name="bench")
@click.option("--readme", is_flag=True, help="write the numbers into README.md instead of printing them")
@_options
@click.option("--json", "as_json", is_flag=True, help="print the tables' rows as JSON")
def command(readme: bool, as_json: bool, **chosen: Any) -> None:
    """Print circuit shapes, launch tokens of every test kernel, compile times, and the last measurements."""
    if readme and as_json:
        raise CompileError("--readme prints nothing", hint="leave out --json")
    if not (ROOT / "bench" / "report.py").exists():
        raise CompileError(
            "bench needs the source tree", hint="run it from an editable install: pip install -e ."
        )
    sys.path.insert(0, str(ROOT))
    from bench import report

    measure([name for name in MEASUREMENTS if chosen[name]], lambda line: click.echo(line, err=as_json))
    if readme:
        report.update_readme(ROOT / "README.md")
    elif as_json:
        click.echo(json.dumps(report.as_json(), indent=1))
    else:
        for line in report.lines():
            click.echo(line)


def measure(names: list[str], say: Say) -> None:
    """Takes measurements and stores them; `say` hears how they go on."""
    from bench import compile_curve, engines, exact_table, measured, model_check, specialised, token_causes

    functions: dict[str, Callable[[], None]] = {
        "measure": measured.measure,
        "model": lambda: model_check.check(say),
        "causes": lambda: token_causes.measure(progress=say),
        "exact": lambda: exact_table.measure(progress=say),
        "specialised": lambda: specialised.check(say),
        "curve": lambda: compile_curve.measure(say=say),
        "engines": lambda: engines.measure(progress=say),
    }
    for name in names:
        functions[name]()
