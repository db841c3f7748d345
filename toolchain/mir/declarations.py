"""The head of a kernel's text: parameters, variables, and how much shared memory it uses.

param a: word 0, words 1, pointer
shared 16, local 2
variable table: words 4 = 0x1, 0x80000000
"""

import re
from collections.abc import Iterator

from toolchain.mir.rom import Parameter, Variable

_NAME = r"[A-Za-z_$][\w$.]*"
_PARAMETER = re.compile(
    rf"param (?P<name>{_NAME}): word (?P<word>\d+), words (?P<words>\d+)(?P<pointer>, pointer)?"
)
_SIZES = re.compile(r"shared (?P<shared>\d+), local (?P<local>\d+)")
_VARIABLE = re.compile(r"variable (?P<name>\S+): words (?P<words>\d+)(?: = (?P<initial>[x0-9a-f, ]+))?")


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
            pointer = match["pointer"] is not None
            self.parameters.append(Parameter(match["name"], int(match["word"]), int(match["words"]), pointer))
        elif match := _SIZES.fullmatch(line):
            self.shared_words, self.local_words = int(match["shared"]), int(match["local"])
        elif match := _VARIABLE.fullmatch(line):
            initial = match["initial"].split(", ") if match["initial"] else ()
            words = tuple(int(word, 16) for word in initial)
            self.variables.append(Variable(match["name"], int(match["words"]), words))
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
        pointer = ", pointer" if item.pointer else ""
        yield f"param {item.name}: word {item.word}, words {item.words}{pointer}"
    if shared_words or local_words:
        yield f"shared {shared_words}, local {local_words}"
    for variable in variables:
        initial = f" = {', '.join(f'{word:#x}' for word in variable.initial)}" if variable.initial else ""
        yield f"variable {variable.name}: words {variable.words}{initial}"
