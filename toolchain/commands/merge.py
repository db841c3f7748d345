"""qgpuc merge: a machine into a language model."""

import json
import time
from pathlib import Path

import click

from toolchain.commands.options import JSON, MACHINE
from toolchain.commands.progress import building
from toolchain.machine_spec import load_spec
from toolchain.merge.merge import AUTO, MODES, merge


@click.command(name="merge")
@click.option("--base", required=True, type=click.Path(path_type=Path), help="folder of a Qwen3.5 model")
@MACHINE
@click.option("--mode", type=click.Choice(MODES), default=AUTO, show_default=True, help="where the slots are")
@click.option(
    "--exhaustive", is_flag=True, help="run every text row through the stock circuit layers, in both dtypes"
)
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="folder to write")
@JSON
def command(base: Path, machine: str, mode: str, exhaustive: bool, output: Path, as_json: bool) -> None:
    """Put a machine's layers in front of a base model's."""
    spec = load_spec(machine)
    begin = time.perf_counter()
    with building(f"merging {spec.name} into {base}") as progress:
        report = merge(base, spec, output, mode=mode, exhaustive=exhaustive, progress=progress)
    if as_json:
        click.echo(json.dumps(report.as_json()))
        return
    for line in report.summary():
        click.echo(line)
    click.echo(f"\n{output}, {time.perf_counter() - begin:.1f} s")
