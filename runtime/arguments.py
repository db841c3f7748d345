"""The command line's spelling of a launch: `--grid 2,2,1`, `--arg a=[1,2,3]`, `--arg c=zeros:4`."""

import re

from toolchain.errors import CompileError
from toolchain.launch import ELEMENT_BITS, Argument, ArrayArgument, Launch, ScalarArgument

ARGUMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)(?::(?P<element>\w+))?=(?P<value>.*)", re.DOTALL)
INTEGER = re.compile(r"[+-]?(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)")
SPELLINGS = "name=[1,2,3], name=zeros:4 or name=3, with an element type as in name:u8=[1,2]"
LONGEST = 1 << 20
"""Elements of an array that are read at all; the machine's own, smaller limit is checked at link time."""


def parse_launch(grid: str, block: str, arguments: tuple[str, ...], dynamic_shared: int = 0) -> Launch:
    """A launch from its options; `dynamic_shared` in bytes.

    Raises CompileError on anything that is not spelled as documented.
    """
    parsed = tuple(parse_argument(text) for text in arguments)
    names = [argument.name for argument in parsed]
    for name in names:
        if names.count(name) > 1:
            raise CompileError(f"argument '{name}' is given twice")
    return Launch(parse_extents(grid, "grid"), parse_extents(block, "block"), parsed, dynamic_shared)


def parse_extents(text: str, what: str) -> tuple[int, int, int]:
    """`4` or `2,2` or `2,2,1`: extents in x, y and z."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 3 or not all(INTEGER.fullmatch(part) for part in parts):
        raise CompileError(
            f"--{what} {text} is not one to three integers", hint=f"--{what} 4 or --{what} 2,2,1"
        )
    extents = [int(part, 0) for part in parts]
    if min(extents) < 1:
        raise CompileError(f"--{what} {text} has an extent below 1")
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z


def parse_argument(text: str) -> Argument:
    """One `--arg`. An array takes its element type's range, signed or unsigned; default i32."""
    match = ARGUMENT.fullmatch(text.strip())
    if match is None:
        raise CompileError(f"cannot read the argument '{text}'", hint=f"write {SPELLINGS}")
    name, element, value = match["name"], match["element"] or "i32", match["value"].strip()
    if element not in ELEMENT_BITS:
        raise CompileError(
            f"argument '{name}': unknown element type '{element}'",
            hint=f"use one of {', '.join(ELEMENT_BITS)}",
        )
    if value.startswith("zeros:"):
        return ArrayArgument(name, (0,) * _count(name, value.removeprefix("zeros:")), element)
    if value.startswith("["):
        return ArrayArgument(name, _elements(name, value, element), element)
    number = _integer(name, value)
    if match["element"]:
        _check_range(name, number, element)
    return ScalarArgument(name, number)


def _count(name: str, text: str) -> int:
    count = _integer(name, text)
    if not 0 <= count <= LONGEST:
        raise CompileError(f"argument '{name}': an array of {count} elements")
    return count


def _elements(name: str, text: str, element: str) -> tuple[int, ...]:
    if not text.endswith("]"):
        raise CompileError(f"argument '{name}': the array has no closing ']'", hint=f"write {SPELLINGS}")
    inner = text[1:-1].strip()
    values = tuple(_integer(name, item) for item in inner.split(",")) if inner else ()
    for value in values:
        _check_range(name, value, element)
    return values


def _integer(name: str, text: str) -> int:
    text = text.strip()
    if not INTEGER.fullmatch(text):
        found = f"'{text}' is not an integer" if text else "a number is missing"
        raise CompileError(
            f"argument '{name}': {found}", hint=f"write {SPELLINGS}; the machine has no floating point"
        )
    return int(text, 10 if text.lstrip("+-").isdigit() else 0)


def _check_range(name: str, value: int, element: str) -> None:
    bits = ELEMENT_BITS[element]
    low, high = (-(1 << (bits - 1)), 1 << bits) if element.startswith("i") else (0, 1 << bits)
    if not low <= value < high:
        raise CompileError(f"argument '{name}': {value} does not fit {element}")
