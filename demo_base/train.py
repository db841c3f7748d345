"""`python -m demo_base.train -o DIR`: trains the demonstration's base model and writes it as a Hugging Face folder."""

import itertools
import random
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
import torch
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import Qwen3_5ForCausalLM

from demo_base.dialogue import END, Encoded, Part, conversation, encode
from demo_base.model import Size, make_model, stored_model
from demo_base.questions import questions
from demo_base.vocabulary import saved_form, token_id, train_tokenizer

IGNORED = -100
"""Label of a token that is given, not spoken."""


@dataclass(frozen=True)
class Schedule:
    """How long and how fast. The learning rate rises linearly over `warm_up` steps, falls linearly to zero from
    `hold` of the steps on."""

    steps: int = 1200
    batch: int = 24
    rate: float = 4e-3
    warm_up: int = 100
    hold: float = 0.4
    weight_decay: float = 0.01
    clip: float = 1.0
    sorted_batches: int = 16
    """Batches that are drawn together and cut by length, so that little is padding."""
    second_turns: float = 0.2
    """Share of the conversations that go on with a second question."""
    false_results: float = 0.15
    """Share of the questions whose result is another one's: the answer is to say what the tool says."""
    size: Size = field(default_factory=Size)

    def rate_at(self, step: int) -> float:
        """The learning rate of a step, from 0."""
        falling = (self.steps - step) / (self.steps * (1 - self.hold))
        return self.rate * min(1.0, (step + 1) / self.warm_up, falling)


Batch = tuple[torch.Tensor, torch.Tensor]
"""Token ids and labels, both [conversations, tokens]; behind the end of a conversation labels are IGNORED."""


def batches(tokenizer: Tokenizer, schedule: Schedule, seed: int) -> Iterator[Batch]:
    """An endless, seeded stream of training batches."""
    stream = conversations(schedule, seed)
    order = random.Random(seed)
    while True:
        drawn = itertools.islice(stream, schedule.batch * schedule.sorted_batches)
        pool = sorted((encode(parts, tokenizer) for parts in drawn), key=lambda item: len(item.tokens))
        cut = [pool[first : first + schedule.batch] for first in range(0, len(pool), schedule.batch)]
        order.shuffle(cut)
        yield from map(collate, cut)


def conversations(schedule: Schedule, seed: int) -> Iterator[tuple[Part, ...]]:
    """An endless, seeded stream of conversations of one or two questions of the training side."""
    stream = questions(seed, held_out=False)
    generator = random.Random(seed)
    while True:
        turns = [next(stream)]
        if generator.random() < schedule.second_turns:
            turns.append(next(stream))
        yield conversation(
            *(
                replace(turn, result=next(stream).result)
                if generator.random() < schedule.false_results
                else turn
                for turn in turns
            )
        )


def collate(items: list[Encoded]) -> Batch:
    """Conversations of several lengths as one batch, padded at the right: the model is causal."""
    longest = max(len(item.tokens) for item in items)
    tokens = torch.zeros(len(items), longest, dtype=torch.long)
    labels = torch.full((len(items), longest), IGNORED)
    for row, item in enumerate(items):
        length = len(item.tokens)
        tokens[row, :length] = torch.tensor(item.tokens)
        spoken = torch.tensor(item.spoken)
        labels[row, :length] = torch.where(spoken, tokens[row, :length], IGNORED)
    return tokens, labels


def loss_of(model: Qwen3_5ForCausalLM, batch: Batch) -> torch.Tensor:
    """Mean cross entropy of the tokens the model speaks."""
    tokens, labels = batch
    hidden = model.model(input_ids=tokens, use_cache=False).last_hidden_state[:, :-1]
    targets = labels[:, 1:]
    spoken = targets != IGNORED
    return functional.cross_entropy(model.lm_head(hidden[spoken]), targets[spoken])


def train(
    tokenizer: Tokenizer,
    schedule: Schedule,
    seed: int,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> Qwen3_5ForCausalLM:
    """The trained narrow model; `on_step` hears every step's loss."""
    torch.manual_seed(seed)
    model = make_model(schedule.size, tokenizer.get_vocab_size(), token_id(tokenizer, END))
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=schedule.rate, betas=(0.9, 0.98), weight_decay=schedule.weight_decay
    )
    model.train()
    for step, batch in enumerate(itertools.islice(batches(tokenizer, schedule, seed), schedule.steps)):
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate_at(step)
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.clip)
        optimizer.step()
        on_step(step, loss.item())
    return model.eval()


def write_base(model: Qwen3_5ForCausalLM, tokenizer: Tokenizer, copies: int, folder: Path) -> None:
    """The Hugging Face folder: the wide model in bfloat16, the tokenizer. Written whole or not at all."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    stored_model(model, copies, torch.bfloat16).save_pretrained(partial)
    saved_form(tokenizer).save_pretrained(partial)
    shutil.rmtree(folder, ignore_errors=True)
    partial.replace(folder)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="the folder to write")
@click.option("--seed", default=0, show_default=True)
@click.option("--steps", default=Schedule.steps, show_default=True)
@click.option("--threads", default=2, show_default=True, help="of torch")
def command(output: Path, seed: int, steps: int, threads: int) -> None:
    """Trains the demonstration's base model (minutes on 2 cores)."""
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    tokenizer = train_tokenizer(seed)
    began = time.monotonic()
    recent: list[float] = []

    def tell(step: int, loss: float) -> None:
        recent.append(loss)
        if len(recent) == REPORT_EVERY:
            seconds = time.monotonic() - began
            click.echo(f"step {step + 1:5} of {steps}: loss {sum(recent) / len(recent):.4f}, {seconds:.0f} s")
            recent.clear()

    model = train(tokenizer, Schedule(steps=steps), seed, tell)
    write_base(model, tokenizer, Schedule().size.copies, output)
    click.echo(f"written: {output}")


REPORT_EVERY = 100
"""Steps."""

if __name__ == "__main__":
    command()
