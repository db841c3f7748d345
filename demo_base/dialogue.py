"""A question as the conversation that `qgpuc chat` would hold: which text is given, which the model speaks."""

from dataclasses import dataclass
from functools import cache
from importlib import resources

from tokenizers import Tokenizer
from transformers.utils.chat_template_utils import render_jinja_template

from demo_base.questions import Question

SYSTEM = "Answer questions about numbers with evaluate."
TOOL = {
    "type": "function",
    "function": {
        "name": "evaluate",
        "description": "Evaluates an expression on the GPU.",
        "parameters": {
            "type": "object",
            "properties": {"expression": {"type": "string"}},
            "required": ["expression"],
        },
    },
}
BEGIN, END = "<|im_start|>", "<|im_end|>"
"""Around a message."""


@dataclass(frozen=True)
class Part:
    """Some text of a conversation. `spoken`: the model writes it; else it is given."""

    text: str
    spoken: bool


def template() -> str:
    """The chat template of the model's tokenizer (Jinja)."""
    return resources.files("demo_base").joinpath("chat_template.jinja").read_text()


@dataclass(frozen=True)
class Frame:
    """What the template puts around question, expression, result and answer."""

    before_question: str
    after_question: str
    before_expression: str
    after_expression: str
    before_result: str
    after_result: str
    between_turns: str


@dataclass(frozen=True)
class Encoded:
    """A conversation as token ids; `spoken` says of each whether the model speaks it."""

    tokens: list[int]
    spoken: list[bool]


def conversation(*turns: Question) -> tuple[Part, ...]:
    """Of each question in turn: itself, the call, its response, the answer."""
    frame = make_frame()
    parts: list[Part] = []
    for number, question in enumerate(turns):
        before = frame.between_turns if number else frame.before_question
        parts += [
            Part(before + question.text + frame.after_question, spoken=False),
            Part(frame.before_expression + question.expression + frame.after_expression + END, spoken=True),
            Part(frame.before_result + question.result + frame.after_result, spoken=False),
            Part(question.answer + END, spoken=True),
        ]
    return tuple(parts)


def encode(parts: tuple[Part, ...], tokenizer: Tokenizer) -> Encoded:
    """The parts' tokens; each part is encoded by itself, as the model meets it."""
    tokens: list[int] = []
    spoken: list[bool] = []
    for part in parts:
        ids = tokenizer.encode(part.text).ids
        tokens += ids
        spoken += [part.spoken] * len(ids)
    return Encoded(tokens, spoken)


def fixed_texts() -> tuple[str, ...]:
    """The long texts that every conversation has, between the special tokens."""
    frame = make_frame()
    system = frame.before_question.partition(END)[0].removeprefix(BEGIN)
    return (system, frame.before_expression, frame.after_expression)


@cache
def make_frame() -> Frame:
    """The template, applied to marks in the places of question, expression and result, and cut there."""
    question, expression, result, answer = "\ue000", "\ue001", "\ue002", "\ue003"
    call = {"function": {"name": TOOL["function"]["name"], "arguments": {"expression": expression}}}
    ask = {"role": "user", "content": question}
    asked = [{"role": "system", "content": SYSTEM}, ask]
    called = [{"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "content": result}]
    answered = [{"role": "assistant", "content": answer}, ask]
    first = _render(asked)
    before_question, after_question = first.split(question)
    second = _render(asked + called)
    spoken, given = second.removeprefix(first).split(END, maxsplit=1)
    third = _render(asked + called + answered).removeprefix(second + answer + END)
    between_turns, _ = third.split(question)
    before_expression, after_expression = spoken.split(expression)
    before_result, after_result = given.split(result)
    return Frame(
        before_question,
        after_question,
        before_expression,
        after_expression,
        before_result,
        after_result,
        between_turns,
    )


def _render(messages: list[dict]) -> str:
    """The text up to where the model's next message begins."""
    rendered, _ = render_jinja_template(
        [messages], tools=[TOOL], chat_template=template(), add_generation_prompt=True
    )
    return rendered[0]
