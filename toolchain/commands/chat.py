"""qgpuc chat: talk to a model that launches kernels on the machine inside it."""

import json
from collections.abc import Iterator
from pathlib import Path

import click

from runtime.chat.conversation import Call, Conversation, ModelSpeaker, Turn
from runtime.merged import MergedModel
from runtime.vocabulary import Vocabulary
from toolchain.commands.options import JSON
from toolchain.commands.progress import waiting
from toolchain.machine_spec import MachineSpec


@click.command(name="chat")
@click.option(
    "--model", "folder", required=True, type=click.Path(path_type=Path), help="a folder of qgpuc merge"
)
@click.option(
    "--message", "messages", multiple=True, metavar="TEXT", help="say this, instead of asking for input"
)
@click.option("--trace", is_flag=True, help="print the tokens of every launch")
@JSON
def command(folder: Path, messages: tuple[str, ...], trace: bool, as_json: bool) -> None:
    """Ask a merged model; it evaluates expressions on the machine inside it. An empty line ends."""
    with waiting(f"loading {folder}"):
        model = MergedModel(folder)
    conversation = Conversation(ModelSpeaker(model), model.spec, model)
    for message in messages or _typed():
        try:
            turn = _ask(conversation, message, trace=trace, quiet=as_json)
        except KeyboardInterrupt:
            click.echo("\n(interrupted; the conversation is as before this question)", err=True)
            continue
        if as_json:
            click.echo(json.dumps(_as_json(turn, model.spec, trace)))


def _typed() -> Iterator[str]:
    """Lines from the terminal, up to an empty one or the end of input."""
    while True:
        try:
            line = click.prompt(">", prompt_suffix=" ", default="", show_default=False)
        except click.Abort:
            return
        if not line.strip():
            return
        yield line


def _ask(conversation: Conversation, message: str, *, trace: bool, quiet: bool) -> Turn:
    """One turn, shown as it comes unless `quiet`."""

    def show_text(text: str) -> None:
        if not quiet:
            click.echo(text, nl=False)

    def show_call(call: Call) -> None:
        if quiet:
            return
        launches = ", ".join(f"{run.kernel} ({len(run.tokens)} tokens)" for run in call.runs)
        click.echo(f"\n  {call.expression} -> {call.response}" + (f"   [{launches}]" if launches else ""))
        if trace:
            for line in _trace(call, conversation.spec):
                click.echo(f"    {line}")

    turn = conversation.ask(message, show_text, show_call)
    if not quiet:
        click.echo()
    return turn


def _trace(call: Call, spec: MachineSpec) -> Iterator[str]:
    vocabulary = Vocabulary(spec)
    for run in call.runs:
        yield f"{run.kernel}: {' '.join(vocabulary.text(token) for token in run.tokens)}"


def _as_json(turn: Turn, spec: MachineSpec, trace: bool) -> dict[str, object]:
    return {
        "question": turn.question,
        "calls": [
            {
                "expression": call.expression,
                "response": call.response,
                "failed": call.failed,
                "launches": [{"kernel": run.kernel, "tokens": len(run.tokens)} for run in call.runs],
                **({"trace": [*_trace(call, spec)]} if trace else {}),
            }
            for call in turn.calls
        ],
        "answer": turn.answer,
    }
