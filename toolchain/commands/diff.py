"""qgpuc diff: two artifacts, or two folders of them, stage by stage."""

import difflib
from collections.abc import Iterator
from pathlib import Path

import click

from toolchain.artifacts import describe
from toolchain.errors import CompileError


@click.command(name="diff")
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@click.pass_context
def command(context: click.Context, first: Path, second: Path) -> None:
    """Print what changed from A to B; the exit status is 1 if anything did."""
    for path in (first, second):
        if not path.exists():
            raise CompileError(f"there is no '{path}'")
    lines = list(differences(first, second))
    for line in lines:
        click.echo(line)
    if lines:
        context.exit(1)
    click.echo("no difference")


def differences(first: Path, second: Path) -> Iterator[str]:
    """Unified differences of the artifacts' texts, in the order a program goes through them."""
    before, after = describe(first), describe(second)
    if first.is_file() and second.is_file():
        before, after = ({"": next(iter(texts.values()))} for texts in (before, after))
    for name in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(name, ""), after.get(name, "")
        labels = (str(first / name), str(second / name)) if name else (str(first), str(second))
        yield from difflib.unified_diff(old.splitlines(), new.splitlines(), *labels, lineterm="")
