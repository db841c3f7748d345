"""qgpuc inspect: any artifact as text."""

from pathlib import Path

import click

from toolchain.artifacts import describe
from toolchain.errors import CompileError


@click.command(name="inspect")
@click.argument("path", type=click.Path(path_type=Path))
def command(path: Path) -> None:
    """Print FILE or every artifact in DIR: PTX, MIR, a ROM image, a circuit, a trace, a checkpoint."""
    if not path.exists():
        raise CompileError(f"there is no '{path}'")
    for name, text in describe(path).items():
        click.echo(f"--- {name}")
        click.echo(text.rstrip("\n"))
