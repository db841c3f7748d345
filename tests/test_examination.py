"""`qgpuc eval chat`: the questions' results, and that each column counts what it says, with scripts for a model."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import pytest

from runtime.chat.conversation import OnText
from runtime.chat.evaluation import evaluate
from runtime.chat.examination import Verdict, counts, examine, groups, shown
from runtime.chat.expression import parse_expression
from runtime.chat.format import Message, Schema
from runtime.chat.questions import ADVANCED, GENERATED, ORDINARY, Question, generated
from runtime.chat.reference import reference_value
from runtime.launcher import EngineResult, InterpreterEngine, OnToken, Program
from tests.test_chat import call as calling
from tests.test_chat import cuda
from toolchain.machine_spec import NANO

EXPRESSIONS = (
    "[1, 2, 3] @ [4, 5, 6]",
    "[1, 2, 3, 4] @ [5, 6, 7, 8]",
    "17 * 23",
    "123456 + 654321",
    "[10, 20, 30] + [1, 2, 3]",
    "[5, 6, 7] - [1, 1, 1]",
    "[2, 3, 4] * [5, 6, 7]",
    "4 * [3, -1, 2]",
    "[[1, 2], [3, 4]] @ [[5, 6], [7, 8]]",
    "[[2, 0], [0, 3]] @ [7, 5]",
    "sum([3, 1, 4, 1, 5, 9, 2, 6])",
    "max([12, 7, 33, 25])",
    "min([8, -3, 5, 0])",
    "sort([9, 4, 7, 1, 8])",
    "sort([-5, 3, 0, -2])",
    "scan([1, 2, 3, 4, 5])",
    "scan([5, -2, 7])",
    "count([2, 3, 2, 5, 2] == 2)",
    "count([4, 9, 11, 2, 15] > 8)",
    "count([4, 9, 11, 2, 15] < 5)",
    "[3, 2] @ [12, 30]",
    "[1, 2, 3] @ [1, 2, 3]",
    "max([[1, 8], [6, 2]])",
    "[[1, 2, 3]] @ [[1], [2], [3]]",
)
"""What answers the ordinary questions, in their order."""
KERNELS = (
    cuda("__global__ void f(int *a) { int i = threadIdx.x; a[i] *= a[i]; }", "a=[1,2,3,4]", "4"),
    cuda("__global__ void f(int *a, int *c) { c[3 - threadIdx.x] = a[threadIdx.x]; }", "a=[5,6,7,8] c=zeros:4", "4"),
    cuda(
        "__global__ void f(int *a) { int x = 0, y = 1; for (int i = 0; i < 8; i++) "
        "{ a[i] = x; int z = x + y; x = y; y = z; } }",
        "a=zeros:8",
    ),
    cuda(
        "__global__ void f(int *a, int *b, int *c) { int i = threadIdx.x; c[i] = a[i] + b[i]; }",
        "a=[1,2,3] b=[10,20,30] c=zeros:3",
        "3",
    ),
    cuda("__global__ void f(int a, int b, int *c) { while (a != b) if (a > b) a -= b; else b -= a; *c = a; }",
         "a=48 b=36 c=zeros:1"),
)  # fmt: skip


class Knows:
    """Calls what it is told to call, then answers; `answer` is given the result that came back."""

    def __init__(self, said: str, answer: str = "It is {}.") -> None:
        self.said, self.answer = said, answer

    def speak(self, messages: Sequence[Message], tools: Sequence[Schema], on_text: OnText) -> str:
        last = messages[-1]
        return self.answer.format(last["content"]) if last["role"] == "tool" else self.said


class WrongEngine(InterpreterEngine):
    """Adds one to every word of the memory that it gives back."""

    def run(self, program: Program, on_token: OnToken) -> EngineResult:
        result = super().run(program, on_token)
        return replace(result, memory=tuple(word + 1 for word in result.memory))


def verdict(
    question: Question, speaker: Knows, engine: InterpreterEngine | None = None
) -> tuple[bool, bool, bool]:
    (found,) = examine(speaker, NANO, engine or InterpreterEngine(), [("some", [question])])
    return found.call_right, found.exact, found.used


def test_ordinary_questions_have_their_results() -> None:
    assert len(ORDINARY) == len(EXPRESSIONS) == 24
    for question, expression in zip(ORDINARY, EXPRESSIONS, strict=True):
        assert reference_value(parse_expression(expression)).tolist() == question.result, question.text
        assert evaluate(expression, NANO, InterpreterEngine()).value.text() == shown(question.result)


@pytest.mark.parametrize(("question", "said"), list(zip(ADVANCED, KERNELS, strict=True)))
def test_advanced_questions_can_be_answered(question: Question, said: str) -> None:
    assert verdict(question, Knows(said)) == (True, True, True)
    assert verdict(question, Knows(said), WrongEngine()) == (True, False, False)
    assert verdict(replace(question, result=[0, 0]), Knows(said)) == (False, False, False)


def test_generated_questions() -> None:
    found = list(generated())
    assert len(found) == GENERATED
    assert found == list(generated())
    assert len({question.text for question in found}) == GENERATED
    assert [*islice(generated(seed=1), 5)] != found[:5]


RIGHT = calling("[1, 2, 3] @ [4, 5, 6]")


@pytest.mark.parametrize(
    ("speaker", "expected"),
    [
        (Knows(RIGHT), (True, True, True)),
        (Knows(RIGHT, "It is 33."), (True, True, False)),
        (Knows(RIGHT, "It is 132, or 320, or -32."), (True, True, False)),
        (Knows(calling("[1, 2, 3] @ [4, 5, 7]")), (False, False, False)),
        (Knows(calling("[1, 2, 3] @ [4, 5]")), (False, False, False)),
        (Knows("It is 32."), (False, False, False)),
        (Knows(calling("32 + 0")), (True, True, True)),
    ],
)
def test_each_column_counts_what_it_says(speaker: Knows, expected: tuple[bool, bool, bool]) -> None:
    assert verdict(ORDINARY[0], speaker) == expected


def test_a_machine_that_is_wrong_is_not_exact() -> None:
    assert verdict(ORDINARY[0], Knows(RIGHT), WrongEngine()) == (True, False, False)


def test_counts_by_group() -> None:
    def made(group: str, right: bool, exact: bool) -> Verdict:
        return Verdict(group, "", "", "", "", right, exact, used=False)

    rows = counts([made("a", True, True), made("b", True, False), made("a", False, False)])
    assert [row.row() for row in rows] == ["| a | 2 | 1 | 1 | 0 |", "| b | 1 | 1 | 0 | 0 |"]
    assert [name for name, _ in groups()] == ["ordinary", "advanced", "generated"]
