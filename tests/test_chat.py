"""A conversation with a script in the model's place, then with a merged model, from the command line."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from demo_base.dialogue import SYSTEM, TOOL
from demo_base.model import Size
from demo_base.train import Schedule, train, write_base
from demo_base.vocabulary import train_tokenizer
from runtime.chat import conversation
from runtime.chat.conversation import MOST_CALLS, Call, Conversation, ModelSpeaker, OnText
from runtime.chat.format import Message, Schema, ToolCall, call_in, call_message, response_message
from runtime.chat.tools import MOST_TOKENS, CudaTool, EvaluateTool
from runtime.launcher import EngineResult, InterpreterEngine, OnToken, Program
from runtime.merged import MergedModel
from tests.random_bases import random_base
from toolchain.cli import run_command
from toolchain.errors import CompileError
from toolchain.machine_spec import NANO
from toolchain.merge.merge import merge


def written(name: str, **arguments: str) -> str:
    """A call as a model writes it."""
    parameters = "".join(f"<parameter={key}>\n{text}\n</parameter>\n" for key, text in arguments.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def call(expression: str) -> str:
    return written("evaluate", expression=expression)


def called(expression: str) -> ToolCall:
    return ToolCall("evaluate", {"expression": expression})


class Script:
    """Says its lines in turn, and keeps what it was shown. A line None stands for Ctrl-C."""

    def __init__(self, *lines: str | None) -> None:
        self.lines: Iterator[str | None] = iter(lines)
        self.shown: list[list[Message]] = []

    def speak(self, messages: Sequence[Message], tools: Sequence[Schema], on_text: OnText) -> str:
        self.shown.append(list(messages))
        line = next(self.lines)
        if line is None:
            raise KeyboardInterrupt
        on_text(line)
        return line


def talk(*lines: str | None) -> tuple[Conversation, Script]:
    script = Script(*lines)
    return Conversation(script, EvaluateTool(NANO, InterpreterEngine())), script


def ignore(_: object) -> None:
    """Hears."""


def test_a_call_is_evaluated_and_answered() -> None:
    talking, script = talk(call("[1, 2, 3] @ [4, 5, 6]"), "It is 32.")
    heard: list[str] = []
    calls: list[Call] = []
    turn = talking.ask("dot?", heard.append, calls.append)
    assert (turn.answer, [item.response.text for item in turn.calls], calls) == (
        "It is 32.",
        ["32"],
        [*turn.calls],
    )
    assert "".join(heard) == call("[1, 2, 3] @ [4, 5, 6]") + "It is 32."
    expected = [call_message(called("[1, 2, 3] @ [4, 5, 6]")), response_message("32")]
    assert script.shown[1][-2:] == expected
    assert talking.messages[-1] == {"role": "assistant", "content": "It is 32."}


def test_errors_go_back_to_the_model() -> None:
    talking, _ = talk(call("[1] @ [1, 2]"), call("[1, 2"), call("[1, 2] @ [1, 2]"), "5")
    turn = talking.ask("dot?", ignore, ignore)
    responses = [item.response.text for item in turn.calls]
    assert responses[0] == (
        "error: line 1, column 1: a vector of 1 @ a vector of 2: the inner lengths must agree\n[1] @ [1, 2]"
    )
    assert responses[1].startswith("error: line 1, column 6: cannot read the expression")
    assert (responses[2], turn.answer) == ("5", "5")
    assert [item.response.failed for item in turn.calls] == [True, True, False]


def test_calls_are_bounded() -> None:
    talking, script = talk(*[call("1 + 1")] * (MOST_CALLS + 1))
    turn = talking.ask("on and on", ignore, ignore)
    assert len(turn.calls) == MOST_CALLS
    assert len(script.shown) == MOST_CALLS + 1


def test_an_interrupted_turn_leaves_nothing_behind() -> None:
    talking, script = talk(call("1 + 1"), None, "Hello.")
    before = list(talking.messages)
    with pytest.raises(KeyboardInterrupt):
        talking.ask("two?", ignore, ignore)
    assert talking.messages == before
    talking.ask("hello", ignore, ignore)
    assert script.shown[-1] == [*before, {"role": "user", "content": "hello"}]


def test_another_tool_or_no_argument_is_answered() -> None:
    talking, _ = talk(written("other"), written("evaluate", wrong="1"), "Sorry.")
    turn = talking.ask("?", ignore, ignore)
    said = [item.response.text for item in turn.calls]
    assert said == [
        "error: there is no tool 'other', only evaluate",
        "error: the call lacks the parameter 'expression'",
    ]


DOT = """__global__ void dot(const int *a, const int *b, int *c, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) s += a[i] * b[i];
    c[0] = s;
}"""


def cuda(source: str = DOT, arguments: str = "a=[1,2,3] b=[4,5,6] c=zeros:1 n=3", block: str = "1") -> str:
    return written("run_cuda", source=source, grid="1", block=block, arguments=arguments)


def test_a_kernel_of_the_model_s_own() -> None:
    """The first try does not compile; what the compiler says goes back, and the second runs."""
    script = Script(cuda(DOT.replace("s = 0", "s = zero")), cuda(), "It is 32.")
    turn = Conversation(script, CudaTool(NANO, InterpreterEngine())).ask("dot?", ignore, ignore)
    first, second = (item.response for item in turn.calls)
    assert first.text == ("error: line 2, column 13: use of undeclared identifier 'zero'\nint s = zero;")
    assert json.loads(second.text) == {"a": [1, 2, 3], "b": [4, 5, 6], "c": [32]}
    assert second.runs[0].kernel == "dot"
    assert turn.answer == "It is 32."


ENDLESS = "__global__ void f(volatile int *a) { while (a[0] == 0) a[1] = 1; }"
LONG = "__global__ void f(int *a) { for (int i = 0; i < 3000; i++) ((volatile int *)a)[0] = i; }"
STRAY = "__global__ void f(int *a) { a[threadIdx.x * 1000 + 500] = 1; }"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (cuda(arguments="a=[1,2,3]"), "parameter"),
        (cuda(arguments="a=1 b c d"), "cannot read the argument"),
        (cuda(block="0"), "extent below 1"),
        (cuda(arguments="a=zeros:40 b=zeros:40 c=zeros:1 n=3"), "words"),
        (cuda(source="int x;"), "no kernel"),
        (cuda(source=ENDLESS, arguments="a=zeros:2"), "did not end"),
        (cuda(source=LONG, arguments="a=zeros:1"), f"{MOST_TOKENS} may run in the model"),
        (cuda(source=STRAY, arguments="a=zeros:1"), "store"),
        (written("run_cuda", source=DOT), "lacks the parameter 'grid'"),
    ],
)
def test_kernels_that_are_answered_with_why(said: str, message: str) -> None:
    """Nothing of them reaches the model's machine."""

    class Never(InterpreterEngine):
        """Fails where it is asked to run."""

        def run(self, program: Program, on_token: OnToken) -> EngineResult:
            raise AssertionError("launched")

    turn = Conversation(Script(said, "Sorry."), CudaTool(NANO, Never())).ask("?", ignore, ignore)
    assert turn.calls[0].response.failed
    assert message in turn.calls[0].response.text


@pytest.mark.parametrize(
    "text", ["no call", "<tool_call></tool_call>", "<function=evaluate></function>", call("1")[:-5]]
)
def test_what_is_no_call(text: str) -> None:
    assert call_in(text) is None


def test_the_demonstration_is_taught_this_format() -> None:
    assert (EvaluateTool.system, EvaluateTool.schema) == (SYSTEM, TOOL)


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`nano` in a model of the demonstration's kind that has hardly been trained."""
    folder, tokenizer = tmp_path_factory.mktemp("chat"), train_tokenizer(0)
    schedule = Schedule(steps=2, batch=2, sorted_batches=1, size=Size(mlp=16))
    write_base(train(tokenizer, schedule, 0), tokenizer, schedule.size.copies, folder / "base")
    merge(folder / "base", NANO, folder / "merged")
    return folder / "merged"


def test_a_call_reads_back_from_the_chat_template(merged: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(merged)
    before: list[Message] = [{"role": "user", "content": "?"}]
    shown = [
        tokenizer.apply_chat_template(messages, tokenize=False)
        for messages in (before, [*before, call_message(called("[1] + [2]"))])
    ]
    assert call_in(shown[1].removeprefix(shown[0])) == called("[1] + [2]")


def test_the_model_speaks_text_and_streams_it(merged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it says, none of it is a machine's token, and the pieces are the whole."""
    monkeypatch.setattr(conversation, "LONGEST", 12)
    model = MergedModel(merged)
    heard: list[str] = []
    said = ModelSpeaker(model).speak(
        [{"role": "user", "content": "Add [1] and [2]."}], [EvaluateTool.schema], heard.append
    )
    assert said
    assert "".join(heard) == said
    assert "<|gpu." not in said


def test_from_the_command_line(
    merged: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A scripted model; the launch is the merged model's own."""
    script = Script(call("[1, 2] @ [3, 4]"), "It is 11.", None, "Still here.")
    monkeypatch.setattr("toolchain.commands.chat.ModelSpeaker", lambda model: script)
    said = [part for text in ("dot?", "long?", "there?") for part in ("--message", text)]
    assert run_command(["chat", "--model", str(merged), *said, "--json", "--trace"]) == 0
    output = capsys.readouterr()
    first, last = (json.loads(line) for line in output.out.splitlines())
    assert (first["answer"], first["calls"][0]["response"]) == ("It is 11.", "11")
    assert first["calls"][0]["launches"][0]["kernel"] == "product"
    assert first["calls"][0]["trace"][0].startswith("product: EXEC(0, 0, 0b01)")
    assert (last["answer"], last["calls"]) == ("Still here.", [])
    assert "interrupted" in output.err


def test_refusals(merged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = random_base(tmp_path / "base")
    assert run_command(["chat", "--model", str(base), "--message", "x"]) == 2
    assert "no language model with a machine in it" in capsys.readouterr().err
    merge(base, NANO, tmp_path / "merged")
    with pytest.raises(CompileError, match="has no chat template"):
        ModelSpeaker(MergedModel(tmp_path / "merged"))
