"""The demonstration's base model: what it is taught and examined with, its stored form, a short training."""

import ast
import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from demo_base import evaluate
from demo_base.dialogue import END, SYSTEM, TOOL, conversation, encode
from demo_base.evaluate import Verdict, judge, summary
from demo_base.model import FULL, LINEAR, Size, make_model, stored_model
from demo_base.questions import Question, questions
from demo_base.train import Schedule, train, write_base
from demo_base.vocabulary import token_id, train_tokenizer
from demo_base.wordings import HELD_OUT_OPENERS, OPENERS, OPERATIONS, sentence
from toolchain.machine_spec import NANO
from toolchain.merge.design import Mode
from toolchain.merge.merge import merge

SEED = 3
TINY = Size(hidden=32, copies=2, mlp=16, layer_types=(LINEAR, FULL), heads=2, head_dim=8, linear_head_dim=16)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(SEED)


def _asked(held_out: bool, count: int) -> list[Question]:
    return list(itertools.islice(questions(SEED, held_out), count))


def test_held_out_wordings_are_not_trained() -> None:
    def sentences(held_out: bool) -> set[str]:
        openers = HELD_OUT_OPENERS if held_out else OPENERS
        frames = [frame for operation in OPERATIONS for frame in operation.frames(held_out)]
        return {sentence(opener, frame, "").casefold() for opener in openers for frame in frames}

    assert not sentences(held_out=True) & sentences(held_out=False)


def test_held_out_numbers_are_not_trained() -> None:
    trained = {question.expression for question in _asked(held_out=False, count=4000)}
    fresh = questions(SEED + 1, held_out=False)
    again = {question.expression for question in itertools.islice(fresh, 4000)}
    assert trained & again, "so many questions repeat some, where nothing forbids it"
    assert not trained & {question.expression for question in _asked(held_out=True, count=4000)}


def test_questions_repeat_with_their_seed() -> None:
    assert _asked(held_out=False, count=50) == _asked(held_out=False, count=50)


def test_results_are_those_of_plain_python() -> None:
    seen = set()
    for question in _asked(held_out=False, count=600):
        assert str(_value(ast.parse(question.expression, mode="eval").body)) == question.result
        assert question.result in question.answer
        seen.add(question.operation)
    assert seen == {operation.name for operation in OPERATIONS}


def _value(node: ast.expr) -> Any:
    """An expression's value, in lists of Python's integers."""
    match node:
        case ast.Call(ast.Name("count"), [ast.Compare(left, [relation], [right])]):
            names: dict[type, Callable[[int, int], bool]] = {
                ast.Eq: lambda x, y: x == y,
                ast.Gt: lambda x, y: x > y,
                ast.Lt: lambda x, y: x < y,
            }
            limit = _value(right)
            return sum(names[type(relation)](item, limit) for item in _value(left))
        case ast.Call(ast.Name(name), [argument]):
            functions: dict[str, Callable[[list[int]], Any]] = {
                "sum": sum,
                "min": min,
                "max": max,
                "sort": sorted,
                "scan": lambda items: list(itertools.accumulate(items)),
            }
            return functions[name](_value(argument))
        case ast.BinOp(left, ast.MatMult(), right):
            return _product(_value(left), _value(right))
        case ast.BinOp(left, operator, right):
            signs: dict[type, Callable[[int, int], int]] = {
                ast.Add: lambda x, y: x + y,
                ast.Sub: lambda x, y: x - y,
                ast.Mult: lambda x, y: x * y,
            }
            a, b = _value(left), _value(right)
            a = a if isinstance(a, list) else [a] * len(b)
            return [signs[type(operator)](x, y) for x, y in zip(a, b, strict=True)]
    return ast.literal_eval(node)


def _product(a: list[Any], b: list[Any]) -> Any:
    if isinstance(a[0], list):
        return [_product(row, b) for row in a]
    if isinstance(b[0], list):
        return [_product(a, list(column)) for column in zip(*b, strict=True)]
    return sum(x * y for x, y in zip(a, b, strict=True))


def test_numbers_are_pieces_of_at_most_two_digits(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("[12, -345]").tokens == ["[", "12", ",Ġ", "-", "34", "5", "]"]


def test_a_stream_of_copies_says_the_same() -> None:
    torch.manual_seed(SEED)
    narrow = make_model(TINY, vocabulary=50, end=1).eval()
    wide = stored_model(narrow, copies=4).eval()
    tokens = torch.randint(50, (2, 70))
    with torch.no_grad():
        expected, found = narrow(input_ids=tokens).logits, wide(input_ids=tokens).logits
    assert wide.config.hidden_size == 4 * TINY.hidden
    assert float((expected - found).abs().max()) < 1e-5 * float(expected.abs().max())


def test_a_short_training_learns_and_loads(tokenizer: Tokenizer, tmp_path: Path) -> None:
    losses: list[float] = []
    schedule = Schedule(steps=24, batch=4, warm_up=2, sorted_batches=2, size=TINY)
    model = train(tokenizer, schedule, SEED, lambda step, loss: losses.append(loss))
    assert sum(losses[-3:]) < 0.8 * sum(losses[:3])

    write_base(model, tokenizer, TINY.copies, tmp_path / "base")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    assert [path.name for path in tmp_path.iterdir()] == ["base"]
    assert loaded.config.hidden_size == TINY.copies * TINY.hidden
    assert loaded.dtype == torch.bfloat16
    again = train(tokenizer, schedule, SEED)
    assert all(torch.equal(x, y) for x, y in zip(model.parameters(), again.parameters(), strict=True))

    saved = AutoTokenizer.from_pretrained(tmp_path / "base")
    question = _asked(held_out=True, count=1)[0]
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question.text}]
    prompt = saved.apply_chat_template(messages, tools=[TOOL], add_generation_prompt=True, tokenize=False)
    parts = conversation(question)
    assert prompt == parts[0].text
    assert saved(prompt)["input_ids"] == encode(parts[:1], tokenizer).tokens
    assert saved.decode(encode(parts, tokenizer).tokens) == "".join(part.text for part in parts)


def test_a_machine_goes_in_place_into_the_stored_model(tokenizer: Tokenizer, tmp_path: Path) -> None:
    size = replace(Size(), mlp=16, layer_types=(LINEAR, FULL))
    schedule = Schedule(steps=2, batch=2, sorted_batches=1, size=size)
    write_base(train(tokenizer, schedule, SEED), tokenizer, size.copies, tmp_path / "base")
    report = merge(tmp_path / "base", NANO, tmp_path / "merged")
    assert report.design.mode is Mode.IN_PLACE
    saved = AutoTokenizer.from_pretrained(tmp_path / "merged")
    prompt = conversation(_asked(held_out=True, count=1)[0])[:1]
    assert saved(prompt[0].text)["input_ids"] == encode(prompt, tokenizer).tokens


class Scripted:
    """In the place of a model: goes on from a prompt as its script says, and with nothing where it says nothing."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.replies: dict[tuple[int, ...], list[int]] = {}

    def learn(self, *turns: Question) -> None:
        """The whole conversation by heart."""
        parts = conversation(*turns)
        for index, part in enumerate(parts):
            if part.spoken:
                prompt = encode(parts[:index], self.tokenizer).tokens
                self.replies[tuple(prompt)] = self.tokenizer.encode(part.text).ids

    def generate(self, prompt: torch.Tensor, **_: object) -> torch.Tensor:
        silence = [token_id(self.tokenizer, END)]
        reply = self.replies.get(tuple(prompt[0].tolist()), silence)
        return torch.cat([prompt, torch.tensor([reply])], dim=1)


def test_the_examination_tells_right_from_wrong(tokenizer: Tokenizer) -> None:
    first, second = _asked(held_out=True, count=2)
    model = Scripted(tokenizer)
    model.learn(first)
    knows_by_heart = judge(model, tokenizer, first, second)
    assert knows_by_heart == Verdict(first.operation, True, True, answered_false=False, followed=False)
    model.learn(second, first)
    assert judge(model, tokenizer, first, second).followed
    knows_nothing = judge(Scripted(tokenizer), tokenizer, second, first)
    assert not any((knows_nothing.called, knows_nothing.answered, knows_nothing.answered_false))
    counted = summary([knows_by_heart, knows_nothing], SEED)
    assert (counted.called, counted.right, counted.questions) == (1, 1, 2)
    assert counted.operations[first.operation][0] == 1


def test_the_guide_quotes_the_accuracy_of_these_sources() -> None:
    accuracy = evaluate.read_accuracy()
    stale = "measure again: make demo-accuracy"
    assert accuracy.digest == evaluate.sources_digest(), stale
    assert evaluate.guide_section(accuracy) in evaluate.GUIDE.read_text(), stale
    assert accuracy.percent >= 95
