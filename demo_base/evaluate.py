"""`python -m demo_base.evaluate DIR`: how many held-out questions the trained model answers right.

Held-out are wordings and numbers that training never saw. The model decodes greedily, in the stock library: first the
call, then, given the tool's response, the answer. The response is the result by numpy; `qgpuc eval chat` has the GPU
compute it. A second answer is asked for with another question's result as the response: a model that worked the number
out, or guessed it, would not repeat that one.
"""

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import click
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from bench.host import Host, describe, read_measurement
from bench.stored import write_json
from demo_base.dialogue import END, Part, conversation, encode
from demo_base.questions import Question, questions
from demo_base.vocabulary import token_id
from demo_base.wordings import OPERATIONS

STORED = Path(__file__).parent / "accuracy.json"
GUIDE = Path(__file__).parent.parent / "docs" / "DEMO_BASE.md"
MARKS = ("<!-- accuracy: written by `make demo-accuracy` -->", "<!-- end of accuracy -->")
SEED = 1_000_000
"""Of the examination. Its questions are held out whatever the seed."""
LONGEST_REPLY = 120
"""Tokens after which a reply is cut off."""


@dataclass(frozen=True)
class Verdict:
    """What became of one question. Given the right call, `answered`: the answer is the phrased result;
    `answered_false`: with a false result as the response, the answer is that, phrased. `followed`: after a first
    question and its answer, the call for this one is right."""

    operation: str
    called: bool
    answered: bool
    answered_false: bool
    followed: bool

    @property
    def right(self) -> bool:
        """The whole exchange."""
        return self.called and self.answered


@dataclass(frozen=True)
class Accuracy:
    """Counts over all questions, and of `right` for each operation: how many, of how many."""

    host: Host
    digest: str
    """Of the sources that made the model, this module's among them."""
    seed: int
    questions: int
    called: int
    answered: int
    answered_false: int
    right: int
    followed: int
    operations: dict[str, tuple[int, int]]

    @property
    def percent(self) -> float:
        """Of the questions, answered right."""
        return 100 * self.right / self.questions


def sources_digest() -> str:
    """A digest of this package's sources."""
    folder = resources.files("demo_base")
    files = sorted((item for item in folder.iterdir() if item.name.endswith((".py", ".jinja"))), key=str)
    return hashlib.sha256("\0".join(item.read_text() for item in files).encode()).hexdigest()[:16]


def read_accuracy(path: Path = STORED) -> Accuracy:
    """The stored measurement."""
    return read_measurement(path, Accuracy)


def lines(accuracy: Accuracy) -> Iterator[str]:
    """The measurement as a table."""
    yield "| of held-out questions | right | of |"
    yield "|---|---|---|"
    counts = {
        "the expression": accuracy.called,
        "the answer, given the result": accuracy.answered,
        "the answer repeats a false result": accuracy.answered_false,
        "the expression of a second question": accuracy.followed,
        "**expression and answer**": accuracy.right,
    }
    for name, count in counts.items():
        yield f"| {name} | {count} | {accuracy.questions} |"
    for name, (right, asked) in accuracy.operations.items():
        yield f"| {name} | {right} | {asked} |"


def guide_section(accuracy: Accuracy) -> str:
    """What the guide quotes, between its marks."""
    return "\n".join([MARKS[0], "", *lines(accuracy), "", *accuracy.host.lines(), MARKS[1]])


def store(accuracy: Accuracy) -> None:
    """Keeps the counts, and writes them into the guide."""
    write_json(STORED, asdict(accuracy))
    text = GUIDE.read_text()
    before, rest = text.split(MARKS[0])
    _, after = rest.split(MARKS[1])
    GUIDE.write_text(before + guide_section(accuracy) + after)


def examine(model: Any, tokenizer: Tokenizer, seed: int, count: int) -> Iterator[Verdict]:
    """Asks `count` held-out questions, each in a conversation of its own, and after another one."""
    asked = list(itertools.islice(questions(seed, held_out=True), count))
    for question, other in zip(asked, asked[1:] + asked[:1], strict=True):
        yield judge(model, tokenizer, question, other)


def judge(model: Any, tokenizer: Tokenizer, question: Question, other: Question) -> Verdict:
    """One question's verdict; `other` lends its result and comes first in a conversation of two."""
    parts = conversation(question)
    false = conversation(replace(question, result=other.result))
    second = conversation(other, question)
    return Verdict(
        question.operation,
        called=_speaks(model, tokenizer, parts[:1], parts[1]),
        answered=_speaks(model, tokenizer, parts[:3], parts[3]),
        answered_false=_speaks(model, tokenizer, false[:3], false[3]),
        followed=_speaks(model, tokenizer, second[:5], second[5]),
    )


def summary(verdicts: Iterable[Verdict], seed: int) -> Accuracy:
    """Counts the verdicts."""
    all_of_them = list(verdicts)
    operations = {}
    for operation in OPERATIONS:
        right = [verdict.right for verdict in all_of_them if verdict.operation == operation.name]
        operations[operation.name] = (sum(right), len(right))
    return Accuracy(
        describe(),
        sources_digest(),
        seed,
        questions=len(all_of_them),
        called=sum(verdict.called for verdict in all_of_them),
        answered=sum(verdict.answered for verdict in all_of_them),
        answered_false=sum(verdict.answered_false for verdict in all_of_them),
        right=sum(verdict.right for verdict in all_of_them),
        followed=sum(verdict.followed for verdict in all_of_them),
        operations=operations,
    )


def _speaks(model: Any, tokenizer: Tokenizer, given: tuple[Part, ...], expected: Part) -> bool:
    """Whether the model, greedily, goes on from `given` with exactly `expected`."""
    prompt = torch.tensor([encode(given, tokenizer).tokens])
    end = token_id(tokenizer, END)
    reply = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=LONGEST_REPLY,
        do_sample=False,
        eos_token_id=end,
        pad_token_id=end,
    )
    spoken = reply[0, prompt.shape[1] :].tolist()
    return tokenizer.decode(spoken, skip_special_tokens=False) == expected.text


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--questions", "count", default=300, show_default=True)
@click.option("--seed", default=SEED, show_default=True)
@click.option("--store", "store_counts", is_flag=True, help="keep the counts and quote them in the guide")
@click.option("--threads", default=2, show_default=True, help="of torch")
def command(folder: Path, count: int, seed: int, store_counts: bool, threads: int) -> None:
    """Asks the model in FOLDER held-out questions and prints how many it answers right."""
    torch.set_num_threads(threads)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    with torch.no_grad():
        accuracy = summary(examine(model, tokenizer, seed, count), seed)
    for line in lines(accuracy):
        click.echo(line)
    click.echo(f"{accuracy.percent:.1f} % right")
    if store_counts:
        store(accuracy)


if __name__ == "__main__":
    command()
