"""The head of a kernel's text: parameters, variables, and how much shared memory it uses.

param a: word 0, words 1, pointer
shared 16, local 2
variable table: words 4 = 0x1, 0x80000000, global.other + 4
variable pairs: words 4, align 8
"""

import re
from collections.abc import Iterator

from toolchain.mir.affine import parse_link_value, print_link_value
from toolchain.mir.rom import LinkValue, Parameter, Variable

WORD_BYTES = 4
_NAME = r"[A-Za-z_$][\w$.]*"
_PARAMETER = re.compile(
    rf"param (?P<name>{_NAME}): word (?P<word>\d+), words (?P<words>\d+)(?P<pointer>, pointer)?(?P<unread>, unread)?"
)
_SIZES = re.compile(r"shared (?P<shared>\d+), local (?P<local>\d+)")
_VARIABLE = re.compile(
    r"variable (?P<name>\S+): words (?P<words>\d+)(?:, align (?P<align>\d+))?(?: = (?P<initial>.+))?"
)


class Declarations:
    """Declarations read so far, line by line."""

    def __init__(self) -> None:
        self.parameters: list[Parameter] = []
        self.variables: list[Variable] = []
        self.shared_words = 0
        self.local_words = 0

    def read(self, line: str) -> bool:
        """Takes in a line if it is a declaration; whether it was. Raises ValueError on a bad number."""
        if match := _PARAMETER.fullmatch(line):
            flags = match["pointer"] is not None, match["unread"] is not None
            self.parameters.append(Parameter(match["name"], int(match["word"]), int(match["words"]), *flags))
        elif match := _SIZES.fullmatch(line):
            self.shared_words, self.local_words = int(match["shared"]), int(match["local"])
        elif match := _VARIABLE.fullmatch(line):
            initial = _parse_initial(match["initial"] or "")
            align = int(match["align"] or WORD_BYTES)
            if align < WORD_BYTES or align & (align - 1):
                raise ValueError(f"align {align} is not a power of two from {WORD_BYTES} on")
            self.variables.append(Variable(match["name"], int(match["words"]), initial, align))
        else:
            return False
        return True


def print_declarations(
    parameters: tuple[Parameter, ...],
    variables: tuple[Variable, ...],
    shared_words: int,
    local_words: int,
) -> Iterator[str]:
    """One line a declaration; what `Declarations` reads back."""
    for item in parameters:
        flags = (", pointer" if item.pointer else "") + (", unread" if item.unread else "")
        yield f"param {item.name}: word {item.word}, words {item.words}{flags}"
    if shared_words or local_words:
        yield f"shared {shared_words}, local {local_words}"
    yield from map(_print_variable, variables)


def _print_variable(variable: Variable) -> str:
    """The line of a variable; numbers are hexadecimal, addresses link values."""
    words = [
        print_link_value(word) if isinstance(word, LinkValue) else f"{word:#x}" for word in variable.initial
    ]
    align = "" if variable.align == WORD_BYTES else f", align {variable.align}"
    return f"variable {variable.name}: words {variable.words}{align}" + (
        f" = {', '.join(words)}" if words else ""
    )


def _parse_initial(text: str) -> tuple[int | LinkValue, ...]:
    """The initial words of a variable's line. Raises ValueError on anything else."""
    words = text.split(", ") if text else []
    return tuple(int(word, 16) if word.startswith("0x") else parse_link_value(word) for word in words)
