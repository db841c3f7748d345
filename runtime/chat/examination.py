"""`qgpuc eval chat`: questions of known results asked one by one, each in a conversation of its own."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from runtime.chat.conversation import Call, Conversation, Speaker, Turn
from runtime.chat.expression import parse_expression
from runtime.chat.questions import ADVANCED, ORDINARY, Question, generated
from runtime.chat.reference import reference_value
from runtime.chat.tools import CudaTool, EvaluateTool, compiled_call
from runtime.launcher import Engine
from toolchain.errors import CompileError
from toolchain.machine_spec import MachineSpec
from toolchain.mir.interpreter import run_launch


@dataclass(frozen=True)
class Verdict:
    """What became of a question; each of the three counts only where the one before it does. See docs/CHAT.md."""

    group: str
    question: str
    called: str
    response: str
    answer: str
    call_right: bool
    exact: bool
    used: bool


@dataclass(frozen=True)
class Count:
    """A row of the table: how many questions of a group, and how many of each column."""

    group: str
    questions: int
    call_right: int
    exact: int
    used: int

    def row(self) -> str:
        return f"| {self.group} | {self.questions} | {self.call_right} | {self.exact} | {self.used} |"


HEADER = ("| questions | asked | call right | execution exact | answer used it |", "|---|---|---|---|---|")


def groups() -> Iterator[tuple[str, tuple[Question, ...]]]:
    """The questions, by group."""
    yield "ordinary", ORDINARY
    yield "advanced", ADVANCED
    yield "generated", tuple(generated())


def examine(
    speaker: Speaker, spec: MachineSpec, engine: Engine, asked: Iterable[tuple[str, Iterable[Question]]]
) -> Iterator[Verdict]:
    """A verdict for each question."""
    for group, questions in asked:
        for question in questions:
            tool = CudaTool(spec, engine) if question.advanced else EvaluateTool(spec, engine)
            turn = Conversation(speaker, tool).ask(question.text, _ignore, _ignore)
            yield judge(group, question, turn, spec)


def judge(group: str, question: Question, turn: Turn, spec: MachineSpec) -> Verdict:
    """Judges the turn by its last call."""
    call = turn.calls[-1] if turn.calls else None
    right = exact = used = False
    if call is not None and not call.response.failed:
        check = _judge_kernel if question.advanced else _judge_expression
        right, same = check(question, call, spec)
        exact = right and same
        used = exact and _says(turn.answer, shown(question.result))
    called = "" if call is None else json.dumps(dict(call.call.arguments))
    response = "" if call is None else call.response.text
    return Verdict(group, question.text, called, response, turn.answer, right, exact, used)


def counts(verdicts: Iterable[Verdict]) -> list[Count]:
    """A row a group, in the order in which they come."""
    found: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        found.setdefault(verdict.group, []).append(verdict)
    return [
        Count(
            group, len(of), *(sum(getattr(v, name) for v in of) for name in ("call_right", "exact", "used"))
        )
        for group, of in found.items()
    ]


def shown(result: object) -> str:
    """A result as the language writes it."""
    return str(result)


def _says(answer: str, result: str) -> bool:
    """Whether the answer has the result, not as a part of a longer number."""
    return re.search(rf"(?<![\d.-]){re.escape(result)}(?!\d)", " ".join(answer.split())) is not None


def _judge_expression(question: Question, call: Call, spec: MachineSpec) -> tuple[bool, bool]:
    """Whether the expression's value by numpy is the result, and whether the machine's is the same."""
    value = reference_value(parse_expression(call.call.arguments["expression"].strip()))
    return bool(np.array_equal(value, np.array(question.result))), shown(value.tolist()) == call.response.text


def _judge_kernel(question: Question, call: Call, spec: MachineSpec) -> tuple[bool, bool]:
    """Whether an array of the launch on the machine interpreter is the result, and the model's machine agrees."""
    rom, launch = compiled_call(call.call.arguments, spec)
    try:
        arrays = launch.read_back(run_launch(rom, spec, launch).memory)
    except CompileError:  # it went wrong, which the call would have said
        return False, False
    return question.result in arrays.values(), arrays == json.loads(call.response.text)


def _ignore(_: object) -> None:
    """Hears."""
