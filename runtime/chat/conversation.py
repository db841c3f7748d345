"""A conversation whose model may call the machine: question, call, launch, response, answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from runtime.chat.evaluation import KernelRun, evaluate
from runtime.chat.format import END, SYSTEM, TOOL, Message, call_in, call_message, response_message
from runtime.launcher import Engine
from runtime.merged import MergedModel
from toolchain.errors import CompileError
from toolchain.machine_spec import MachineSpec

MOST_CALLS = 3
"""Calls in one turn; a model that wants more is answered no more."""
LONGEST = 512
"""Tokens of one message of the model."""
OnText = Callable[[str], None]


class Speaker(Protocol):
    """Something that goes on with a conversation: the model, or a script in its place."""

    def speak(self, messages: Sequence[Message], on_text: OnText) -> str:
        """The next message of the model, without its end; `on_text` hears it piece by piece."""
        ...


@dataclass(frozen=True)
class Call:
    """One call of the tool: the expression, what it gave (or why not), and the launches."""

    expression: str
    response: str
    failed: bool
    runs: tuple[KernelRun, ...]


@dataclass(frozen=True)
class Turn:
    """One question with everything it led to. `answer` is the model's last message."""

    question: str
    calls: tuple[Call, ...]
    answer: str


class ModelSpeaker:
    """The stock model of a merged folder, greedy; the machine's tokens are masked."""

    def __init__(self, model: MergedModel) -> None:
        """Raises CompileError where the tokenizer has no chat template."""
        if model.tokenizer.chat_template is None:
            raise CompileError(
                f"the tokenizer of '{model.checkpoint}' has no chat template",
                hint="merge an instruction-tuned base, or the one of demo_base/",
            )
        self.model = model

    def speak(self, messages: Sequence[Message], on_text: OnText) -> str:
        import torch

        tokenizer = self.model.tokenizer
        prompt = tokenizer.apply_chat_template(
            list(messages), tools=[TOOL], add_generation_prompt=True, tokenize=False
        )
        ids = torch.tensor([tokenizer(prompt, add_special_tokens=False)["input_ids"]])
        ids = ids.to(self.model.model.device)
        heard = _Heard(tokenizer, ids.shape[1], on_text)
        with torch.inference_mode():
            self.model.model.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=LONGEST, do_sample=False,
                eos_token_id=tokenizer.convert_tokens_to_ids(END), streamer=heard,
                pad_token_id=tokenizer.convert_tokens_to_ids(END), logits_processor=[self.model.text_only()],
            )  # fmt: skip
        return heard.text.removesuffix(END)


class _Heard:
    """What `generate` writes, as text, as it comes (transformers' streamer protocol)."""

    def __init__(self, tokenizer: Any, given: int, on_text: OnText) -> None:
        self.tokenizer, self.left, self.on_text = tokenizer, given, on_text
        self.tokens: list[int] = []
        self.text = ""

    def put(self, value: Any) -> None:
        tokens = value.reshape(-1).tolist()
        if self.left:  # the prompt comes first
            self.left -= len(tokens)
            return
        self.tokens += tokens
        text = self.tokenizer.decode(self.tokens, skip_special_tokens=False)
        if not text.endswith("\ufffd"):  # else a character is not complete yet
            self.on_text(text[len(self.text) :].removesuffix(END))
            self.text = text

    def end(self) -> None:
        """Nothing is left to be said."""


class Conversation:
    """Messages so far, and the machine. A turn is whole or not there: an interrupted one leaves nothing behind."""

    def __init__(self, speaker: Speaker, spec: MachineSpec, engine: Engine) -> None:
        self.speaker, self.spec, self.engine = speaker, spec, engine
        self.messages: list[Message] = [{"role": "system", "content": SYSTEM}]

    def ask(self, question: str, on_text: OnText, on_call: Callable[[Call], None]) -> Turn:
        """One turn. `on_text` hears the model, `on_call` every call once it has been answered."""
        messages = [*self.messages, {"role": "user", "content": question}]
        calls: list[Call] = []
        while True:
            said = self.speaker.speak(messages, on_text)
            expression = call_in(said)
            if expression is None or len(calls) == MOST_CALLS:
                break
            calls.append(self._call(expression))
            on_call(calls[-1])
            messages += [call_message(expression), response_message(calls[-1].response)]
        self.messages = [*messages, {"role": "assistant", "content": said}]
        return Turn(question, tuple(calls), said)

    def _call(self, expression: str) -> Call:
        """Evaluates on the machine; what is wrong with the expression is a response too."""
        try:
            found = evaluate(expression, self.spec, self.engine)
        except CompileError as error:
            place = "" if error.location is None else f" (column {error.location.column})"
            return Call(expression, f"error: {error.message}{place}", True, ())
        return Call(expression, found.value.text(), False, found.runs)
