"""qgpuc eval: how often a merged model asks the machine the right thing, and uses what it says."""

import json
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import click

from runtime.chat.conversation import ModelSpeaker
from runtime.chat.examination import HEADER, counts, examine, groups
from runtime.merged import MergedModel
from toolchain.commands.options import JSON
from toolchain.commands.progress import building, waiting


@click.command(name="eval")
@click.argument("what", type=click.Choice(("chat",)))
@click.option(
    "--model", "folder", required=True, type=click.Path(path_type=Path), help="a folder of qgpuc merge"
)
@click.option(
    "--only", type=click.Choice(("ordinary", "advanced", "generated")), help="one group of questions"
)
@click.option("--first", type=click.IntRange(min=1), help="so many questions of each group")
@click.option("--verbose", is_flag=True, help="also print each question with what became of it")
@JSON
def command(
    what: str, folder: Path, only: str | None, first: int | None, verbose: bool, as_json: bool
) -> None:
    """Ask a merged model questions whose results are known (docs/CHAT.md)."""
    with waiting(f"loading {folder}"):
        model = MergedModel(folder)
    asked = [(name, tuple(islice(of, first))) for name, of in groups() if only in (None, name)]
    total = sum(len(of) for _, of in asked)
    verdicts = []
    with building(f"asking {total} questions") as progress:
        for verdict in examine(ModelSpeaker(model), model.spec, model, asked):
            verdicts.append(verdict)
            progress("questions", len(verdicts), total)
    if as_json:
        rows, all_of_them = [asdict(item) for item in counts(verdicts)], [asdict(item) for item in verdicts]
        click.echo(json.dumps({"counts": rows, "verdicts": all_of_them}))
        return
    if verbose:
        for verdict in verdicts:
            click.echo(f"{verdict.question}\n  {verdict.called} -> {verdict.response}\n  {verdict.answer}\n")
    for line in (*HEADER, *(item.row() for item in counts(verdicts))):
        click.echo(line)
