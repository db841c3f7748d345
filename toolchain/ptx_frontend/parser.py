"""PTX text to the AST: the grammar is grammar.lark (LALR), names are resolved in scopes.py.

`parse_ptx` accepts PTX as clang 14 to 22, nvcc, NVRTC, Triton, Numba and tinygrad print it. Debug sections,
pragmas and linkage are read and dropped; `.loc` lines become the `source` of the instructions after them.
"""

from functools import cache
from pathlib import Path

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from toolchain.errors import CompileError, SourceLocation
from toolchain.ptx_frontend.ast import Module
from toolchain.ptx_frontend.build import TreeBuilder

GRAMMAR = Path(__file__).with_name("grammar.lark")

EXPECTED = {
    "NAME": "a name",
    "WORD": "a '.word'",
    "INTEGER": "an integer",
    "FLOAT": "a floating-point number",
    "DECIMAL": "a decimal number",
    "STRING": "a string",
    "SPACE": "a state space",
    "LINKAGE": "a linkage directive",
    "PROTOTYPE": "a prototype",
    "PASSED": "'.param' or '.reg'",
    "BANG": "'!'",
    "SEMICOLON": "';'",
    "COMMA": "','",
    "COLON": "':'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "VBAR": "'|'",
    "PLUS": "'+'",
    "MINUS": "'-'",
    "AT": "'@'",
    "EQUAL": "'='",
    "LESSTHAN": "'<'",
    "MORETHAN": "'>'",
    "$END": "the end of the file",
}
"""What a terminal is called in an error message."""


@cache
def _parser() -> Lark:
    """The LALR parser, built once a process."""
    return Lark(GRAMMAR.read_text(), parser="lalr", lexer="contextual", propagate_positions=False)


def parse_ptx(text: str, file: str = "<ptx>") -> Module:
    """The Module that `text` says. Raises CompileError with line, column, excerpt and what was expected."""
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise _syntax_error(error, text, file) from None
    return TreeBuilder(text, file).module(tree)


def parse_ptx_file(path: Path) -> Module:
    """The Module in a `.ptx` file. Raises CompileError where it cannot be read or parsed."""
    try:
        return parse_ptx(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise CompileError(f"cannot read '{path}': {error}") from error


def _syntax_error(error: UnexpectedInput, text: str, file: str) -> CompileError:
    lines = text.splitlines()
    if isinstance(error, UnexpectedCharacters):
        found, expected = f"character {error.char!r}", error.allowed or set()
    elif isinstance(error, UnexpectedToken) and error.token.type != "$END":
        found, expected = f"'{Token.__str__(error.token)}'", error.accepts or error.expected
    else:
        found, expected = "the end of the file", error.expected if isinstance(error, UnexpectedEOF) else set()
        if isinstance(error, UnexpectedToken):
            expected = error.accepts or error.expected
    at_end = found == "the end of the file"
    line = max(len(lines), 1) if at_end else error.line
    column = len(lines[-1]) + 1 if at_end and lines else (1 if at_end else error.column)
    excerpt = lines[line - 1].replace("\t", " ") if line <= len(lines) else ""
    names = sorted(EXPECTED.get(name, f"'.{name.lower()}'") for name in expected)
    wanted = f"; expected {' or '.join(names)}" if 0 < len(names) <= 8 else ""
    return CompileError(f"unexpected {found}{wanted}", SourceLocation(file, line, column), excerpt=excerpt)
