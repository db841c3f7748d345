"""qgpuc chat: talk to a model that launches kernels on the machine inside it."""

import json
from collections.abc import Iterator
from pathlib import Path

import click

from runtime.chat.conversation import Call, Conversation, ModelSpeaker, Turn
from runtime.chat.tools import CudaTool, EvaluateTool
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
@click.option("--advanced", is_flag=True, help="the model writes CUDA kernels itself")
@click.option("--trace", is_flag=True, help="print the tokens of every launch")
@JSON
def command(folder: Path, messages: tuple[str, ...], advanced: bool, trace: bool, as_json: bool) -> None:
    """Ask a merged model; it evaluates expressions on the machine inside it. An empty line ends."""
    with waiting(f"loading {folder}"):
        model = MergedModel(folder)
    tool = CudaTool(model.spec, model) if advanced else EvaluateTool(model.spec, model)
    conversation = Conversation(ModelSpeaker(model), tool)
    for message in messages or _typed():
        try:
            turn = _ask(conversation, message, model.spec if trace else None, quiet=as_json)
        except KeyboardInterrupt:
            click.echo("\n(interrupted; the conversation is as before this question)", err=True)
            continue
        if as_json:
            click.echo(json.dumps(_as_json(turn, model.spec if trace else None)))


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


def _ask(conversation: Conversation, message: str, traced: MachineSpec | None, *, quiet: bool) -> Turn:
    """One turn, shown as it comes unless `quiet`; with the tokens of launches on the machine `traced`."""

    def show_text(text: str) -> None:
        if not quiet:
            click.echo(text, nl=False)

    def show_call(call: Call) -> None:
        if quiet:
            return
        launches = ", ".join(f"{run.kernel} ({len(run.tokens)} tokens)" for run in call.response.runs)
        click.echo(f"\n  -> {call.response.text}" + (f"   [{launches}]" if launches else ""))
        if traced is not None:
            for line in _trace(call, traced):
                click.echo(f"    {line}")

    turn = conversation.ask(message, show_text, show_call)
    if not quiet:
        click.echo()
    return turn


def _trace(call: Call, spec: MachineSpec) -> Iterator[str]:
    vocabulary = Vocabulary(spec)
    for run in call.response.runs:
        yield f"{run.kernel}: {' '.join(vocabulary.text(token) for token in run.tokens)}"


def _as_json(turn: Turn, traced: MachineSpec | None) -> dict[str, object]:
    return {
        "question": turn.question,
        "calls": [
            {
                "tool": call.call.name,
                "arguments": dict(call.call.arguments),
                "response": call.response.text,
                "failed": call.response.failed,
                "launches": [{"kernel": run.kernel, "tokens": len(run.tokens)} for run in call.response.runs],
                **({} if traced is None else {"trace": [*_trace(call, traced)]}),
            }
            for call in turn.calls
        ],
        "answer": turn.answer,
    }
