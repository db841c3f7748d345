"""qgpuc build: a machine's checkpoint."""

import time
from pathlib import Path

import click

from toolchain import machine_build
from toolchain.commands.options import DTYPE
from toolchain.commands.progress import building
from toolchain.machine_spec import load_spec


@click.command(name="build")
@click.option("--machine", required=True, help="classic, nano, wide, or FILE.toml")
@DTYPE
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="folder to write")
def command(machine: str, dtype: str, output: Path) -> None:
    """Build the general machine as a checkpoint that `transformers` loads as it is."""
    spec = load_spec(machine)
    begin = time.perf_counter()
    with building(f"building the {spec.name} checkpoint") as progress:
        machine_build.build(spec, dtype, output, progress)
    size = sum(path.stat().st_size for path in output.iterdir() if path.suffix == ".safetensors")
    click.echo(f"{spec.name}: {machine_build.placed_size(spec)}")
    click.echo(f"{size / 1e6:.0f} MB of {dtype} in {output}, {time.perf_counter() - begin:.1f} s")
