"""A conversation whose model may call the machine: question, call, launch, response, answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from runtime.chat.format import END, Message, Schema, ToolCall, call_in, call_message, response_message
from runtime.chat.tools import Response, Tool, respond
from runtime.merged import MergedModel
from toolchain.errors import CompileError

MOST_CALLS = 3
"""Calls in one turn; a model that wants more is answered no more."""
LONGEST = 512
"""Tokens of one message of the model."""
OnText = Callable[[str], None]


class Speaker(Protocol):
    """Something that goes on with a conversation: the model, or a script in its place."""

    def speak(self, messages: Sequence[Message], tools: Sequence[Schema], on_text: OnText) -> str:
        """The next message of the model, without its end; `on_text` hears it piece by piece."""
        ...


@dataclass(frozen=True)
class Call:
    """One call of a tool, and the response to it."""

    call: ToolCall
    response: Response


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

    def speak(self, messages: Sequence[Message], tools: Sequence[Schema], on_text: OnText) -> str:
        import torch

        tokenizer = self.model.tokenizer
        prompt = tokenizer.apply_chat_template(
            list(messages), tools=list(tools), add_generation_prompt=True, tokenize=False
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
    """Messages so far, and the tool. A turn is whole or not there: an interrupted one leaves nothing behind."""

    def __init__(self, speaker: Speaker, tool: Tool) -> None:
        self.speaker, self.tool = speaker, tool
        self.messages: list[Message] = [{"role": "system", "content": tool.system}]

    def ask(self, question: str, on_text: OnText, on_call: Callable[[Call], None]) -> Turn:
        """One turn. `on_text` hears the model, `on_call` every call once it has been answered."""
        messages = [*self.messages, {"role": "user", "content": question}]
        calls: list[Call] = []
        while True:
            said = self.speaker.speak(messages, [self.tool.schema], on_text)
            wanted = call_in(said)
            if wanted is None or len(calls) == MOST_CALLS:
                break
            calls.append(Call(wanted, respond({self.tool.name: self.tool}, wanted.name, wanted.arguments)))
            on_call(calls[-1])
            messages += [call_message(wanted), response_message(calls[-1].response.text)]
        self.messages = [*messages, {"role": "assistant", "content": said}]
        return Turn(question, tuple(calls), said)
