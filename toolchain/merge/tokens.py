"""The base's tokenizer with the machine's tokens after all of the base's rows, as special tokens."""

import json
import shutil
from pathlib import Path

from runtime.vocabulary import END, Token, Vocabulary
from toolchain.errors import CompileError
from toolchain.machine_spec import MachineSpec
from toolchain.merge.base import Base

TOKENIZER_FILE = "tokenizer.json"
COPIED = (
    "tokenizer_config.json",
    "chat_template.jinja",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
    "LICENSE",
)
"""Files of the base that a merged folder has as they are, where the base has them."""


def token_text(vocabulary: Vocabulary, token: Token) -> str:
    """A machine's token in the merged tokenizer: `<|gpu.VAL(7)|>`."""
    return f"<|gpu.{vocabulary.text(token).replace(' ', '')}|>"


def check_tokenizer(base: Base) -> None:
    """Raises CompileError where the base's tokenizer has ids that its embedding lacks, or is damaged."""
    if (base.folder / TOKENIZER_FILE).exists():
        ids = _read(base).get_vocab(with_added_tokens=True).values()
        if max(ids, default=-1) >= base.vocabulary:
            raise CompileError(
                f"the tokenizer of '{base.folder}' has token {max(ids)}; its embedding has {base.vocabulary} rows"
            )


def write_tokenizer(base: Base, spec: MachineSpec, folder: Path) -> None:
    """Writes the tokenizer's files; a base without tokenizer.json gets none.

    Ids between the base's last token and its last row are filled with tokens that no text has.
    """
    from tokenizers import AddedToken

    for name in COPIED:
        if (base.folder / name).is_file():
            shutil.copyfile(base.folder / name, folder / name)
    if not (base.folder / TOKENIZER_FILE).exists():
        return
    tokenizer, vocabulary = _read(base), Vocabulary(spec)
    known = set(tokenizer.get_vocab(with_added_tokens=True).values())
    names = [f"<|unused.{row}|>" for row in range(base.vocabulary) if row not in known]
    names += [token_text(vocabulary, token) for token in vocabulary.all_tokens()]
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    first = tokenizer.token_to_id(token_text(vocabulary, vocabulary.token(0)))
    if first != base.vocabulary:
        raise CompileError(
            f"the tokenizer of '{base.folder}' numbers new tokens from {first}, not {base.vocabulary}"
        )
    tokenizer.save(str(folder / TOKENIZER_FILE))


def generation_config(base: Base, spec: MachineSpec) -> dict[str, object]:
    """The base's own, which also stops at the token that ends a launch."""
    path = base.folder / "generation_config.json"
    try:
        table = json.loads(path.read_text()) if path.exists() else {}
    except ValueError as error:
        raise CompileError(f"'{path}' is no JSON: {error}") from error
    ends = table.get("eos_token_id", base.config.get("eos_token_id"))
    ends = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
    vocabulary = Vocabulary(spec)
    return {**table, "eos_token_id": [*ends, base.vocabulary + vocabulary.id(END)]}


def _read(base: Base):
    from tokenizers import Tokenizer

    path = base.folder / TOKENIZER_FILE
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises Exception itself
        raise CompileError(f"'{path}' is no tokenizer: {error}", hint="fetch it again") from error
