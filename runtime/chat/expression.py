"""The expression language: vectors and matrices of integers, one operation or several (docs/CHAT.md).

    Expression = Literal | Binary | Reduction | Count

`@` binds closer than `*`, that closer than `+` and `-`; all from the left. Values are 32-bit words, sums and products
modulo 2**32, shown as signed numbers.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedInput, UnexpectedToken, v_args
from lark.exceptions import VisitError

from toolchain.errors import CompileError, SourceLocation

GRAMMAR = r"""
    ?start: sum
    ?sum: product | sum "+" product -> add | sum "-" product -> subtract
    ?product: matrix | product "*" matrix -> multiply
    ?matrix: atom | matrix "@" atom -> matmul
    ?atom: NUMBER -> number
        | "[" [rows] "]" -> vector
        | "count" "(" sum RELATION sum ")" -> count
        | NAME "(" sum ")" -> call
        | "(" sum ")"
    ?rows: row ("," row)* -> row
    ?row: NUMBER -> number | "[" [rows] "]" -> vector
    RELATION: "==" | "<" | ">"
    NAME: /[a-z]+/
    NUMBER: /-?\d+/
    %ignore /[ \t\n]+/
"""
LEAST, MOST = -(1 << 31), (1 << 31) - 1
FUNCTIONS = ("sum", "min", "max", "sort", "scan")
RELATIONS = {"==": "equal", ">": "above", "<": "below"}
FILE = "<expression>"


@dataclass(frozen=True)
class Literal:
    """Numbers in row-major order; `shape` is (), (length,) or (rows, columns)."""

    shape: tuple[int, ...]
    numbers: tuple[int, ...]
    column: int


@dataclass(frozen=True)
class Binary:
    """`name`: add, subtract, multiply (element by element, or with one number) or matmul."""

    name: str
    left: "Expression"
    right: "Expression"
    column: int


@dataclass(frozen=True)
class Reduction:
    """`name` is one of FUNCTIONS; sort and scan give a vector."""

    name: str
    operand: "Expression"
    column: int


@dataclass(frozen=True)
class Count:
    """How many elements of the left are equal to, above or below the number on the right."""

    relation: str
    left: "Expression"
    right: "Expression"
    column: int


Expression = Literal | Binary | Reduction | Count


def refuse(text: str, column: int, message: str, hint: str = "") -> CompileError:
    """An error at a column of the expression, from 1."""
    return CompileError(message, SourceLocation(FILE, 1, column), excerpt=text, hint=hint)


def parse_expression(text: str) -> Expression:
    """Raises CompileError with the column where the text is no expression."""
    try:
        return _Builder(text).transform(_parser().parse(text))
    except UnexpectedInput as error:
        ended = isinstance(error, UnexpectedToken) and error.token.type == "$END"
        column = len(text) + 1 if ended else max(error.column, 1)
        raise refuse(text, column, f"cannot read the expression '{text}' from here on", SPELLINGS) from error
    except VisitError as error:
        if isinstance(error.orig_exc, CompileError):
            raise error.orig_exc from error
        raise


SPELLINGS = (
    "write [1, 2] @ [3, 4], a + b, a - b, 2 * a, sum(a), min(a), max(a), sort(a), scan(a) or count(a > 2)"
)


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", propagate_positions=True)


def _number(text: str, token: Token) -> Literal:
    value, column = int(token), token.column or 1
    if not LEAST <= value <= MOST:
        raise refuse(text, column, f"{value} does not fit 32 bits")
    return Literal((), (value,), column)


class _Meta:
    """Of lark's trees: where one begins."""

    column: int


@v_args(meta=True)
class _Builder(Transformer):
    """Parse trees to expressions. lark has no types: what a rule's parts are, the grammar says."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def number(self, meta: _Meta, items: list[Token]) -> Literal:
        return _number(self.text, items[0])

    def row(self, meta: _Meta, items: list[Literal]) -> list[Literal]:
        return items

    def vector(self, meta: _Meta, items: list[Any]) -> Literal:
        found = items[0] if items else None
        parts: list[Literal] = found if isinstance(found, list) else [] if found is None else [found]
        if not parts:
            raise refuse(self.text, meta.column, "a vector has at least one number")
        if len({part.shape for part in parts}) > 1:
            raise refuse(
                self.text, meta.column, "the rows of a matrix have one length, and hold numbers only"
            )
        if len(parts[0].shape) > 1:
            raise refuse(self.text, meta.column, "a matrix has two dimensions at most")
        numbers = tuple(number for part in parts for number in part.numbers)
        return Literal((len(parts), *parts[0].shape), numbers, meta.column)

    def call(self, meta: _Meta, items: list[Any]) -> Reduction:
        name = str(items[0])
        if name not in FUNCTIONS:
            raise refuse(self.text, meta.column, f"there is no function '{name}'", SPELLINGS)
        return Reduction(name, items[1], meta.column)

    def count(self, meta: _Meta, items: list[Any]) -> Count:
        return Count(RELATIONS[str(items[1])], items[0], items[2], meta.column)

    def add(self, meta: _Meta, items: list[Expression]) -> Binary:
        return Binary("add", items[0], items[1], meta.column)

    def subtract(self, meta: _Meta, items: list[Expression]) -> Binary:
        return Binary("subtract", items[0], items[1], meta.column)

    def multiply(self, meta: _Meta, items: list[Expression]) -> Binary:
        return Binary("multiply", items[0], items[1], meta.column)

    def matmul(self, meta: _Meta, items: list[Expression]) -> Binary:
        return Binary("matmul", items[0], items[1], meta.column)
