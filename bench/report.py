"""The performance tables, and the numbers that README.md quotes.

A table is a module with a function that gives its lines, named in TABLES. Shapes of circuits and counts of tokens are
exact and the same everywhere; they are worked out anew. What takes long, or depends on the machine, is stored in a
JSON file beside its module, by an option of `qgpuc bench`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import (
    activity,
    compile_curve,
    compile_times,
    device,
    engines,
    exact_table,
    launch_tokens,
    measured,
    model_check,
    shapes,
    specialised,
    token_causes,
)
from tests.kernels.cases import CASES, QUICK
from toolchain.errors import CompileError

BEGIN = "<!-- numbers: written by `qgpuc bench --readme` -->"
END = "<!-- end of numbers -->"


@dataclass(frozen=True)
class Table:
    """A name for --json, and what gives the lines: Markdown tables, with text between them."""

    name: str
    lines: Callable[[], Iterator[str]]


TABLES = (
    Table("shapes", shapes.lines),
    Table("launch tokens", launch_tokens.lines),
    Table("activity", activity.lines),
    Table("token causes", token_causes.lines),
    Table("exact search", exact_table.lines),
    Table("compile times", compile_times.lines),
    Table("engines", engines.lines),
    Table("device", device.lines),
    Table("compile curve", compile_curve.lines),
    Table("measured", measured.lines),
    Table("model check", model_check.table),
    Table("specialised", specialised.table),
)


def lines() -> Iterator[str]:
    """Everything `qgpuc bench` prints."""
    for table in TABLES:
        yield from table.lines()
        yield ""


def rows(table: Iterable[str]) -> list[dict[str, str]]:
    """The rows of the Markdown tables among the lines: an object a row, a cell under the name of its column."""
    found: list[dict[str, str]] = []
    columns: list[str] | None = None
    for line in table:
        if not line.startswith("|"):
            columns = None
            continue
        cells = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
        if columns is None:
            columns = cells
        elif set("".join(cells)) - {"-"}:
            found.append(dict(zip(columns, cells, strict=True)))
    return found


def as_json() -> dict[str, list[dict[str, str]]]:
    """Everything `qgpuc bench --json` prints: each table's rows."""
    return {table.name: rows(table.lines()) for table in TABLES}


def numbers() -> str:
    """What stands between the README's markers; of the kernels, those that CI runs on every level."""
    quick = launch_tokens.lines(case for case in CASES if case.name in QUICK)
    return "\n".join([BEGIN, "", *shapes.lines(), "", *quick, "", *measured.lines(), "", END])


def section(text: str) -> str:
    """The part of a README between its markers, markers included."""
    if BEGIN not in text or END not in text:
        raise CompileError("README.md has no section of numbers", hint=f"put '{BEGIN}' and '{END}' into it")
    return text[text.index(BEGIN) : text.index(END) + len(END)]


def update_readme(path: Path) -> None:
    """Writes the numbers as they are now."""
    text = path.read_text()
    path.write_text(text.replace(section(text), numbers()))
