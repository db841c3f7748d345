"""The tokenizer: byte-level BPE as Qwen's, with numbers in pieces of one or two digits."""

from collections.abc import Iterator
from itertools import islice

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from demo_base.dialogue import BEGIN, END, fixed_texts, make_frame, template
from demo_base.questions import questions

PADDING = "<|endoftext|>"
MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
SIZE = 1024
"""Tokens at most, the added ones aside."""
PIECES = r"\d{1,2}|, | ?[A-Za-z]+| ?[^\sA-Za-z\d]+?(?=[\d\sA-Za-z]|-|$)|\s"
"""What no merge reaches beyond: two digits, a word, a run of signs."""
SAMPLE = 4000
"""Conversations whose text the merges are learned from."""


def train_tokenizer(seed: int) -> Tokenizer:
    """Learns the merges from the training side's text; the same seed gives the same tokenizer."""
    learning = _plain()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    learning.train_from_iterator(_texts(seed), trainer)
    tokenizer = Tokenizer.from_str(learning.to_str())
    tokenizer.add_special_tokens([PADDING, BEGIN, END])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in (*MARKS, *fixed_texts())])
    return tokenizer


def _plain() -> Tokenizer:
    """Bytes, and no merges yet."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def token_id(tokenizer: Tokenizer, text: str) -> int:
    """The id of a token that the vocabulary has."""
    found = tokenizer.token_to_id(text)
    assert found is not None
    return found


def saved_form(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    """The tokenizer as a Hugging Face folder holds it, with the chat template."""
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PADDING,
        chat_template=template(),
        clean_up_tokenization_spaces=False,
    )


def _texts(seed: int) -> Iterator[str]:
    """Every pair of digits, so often that each is a token, then what is between the marks of conversations."""
    yield " ".join(f"{number:02}" for number in range(100)) * SAMPLE
    frame = make_frame()
    for question in islice(questions(seed, held_out=False), SAMPLE):
        yield from (question.text, question.expression, question.answer)
        yield from (frame.between_turns.rpartition(BEGIN)[2], frame.after_question.rpartition(BEGIN)[2])
