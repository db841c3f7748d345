"""Tables on disk: JSON files of dataclasses, read back into them."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row = TypeVar("Row", bound="DataclassInstance")


def read_json(path: Path) -> Any:
    """What the file says. Raises OSError without it."""
    return json.loads(path.read_text())


def write_json(path: Path, content: Any, indent: int = 1) -> None:
    """The file, written whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=indent) + "\n")
    partial.replace(path)


def read_rows(path: Path, row: type[Row]) -> list[Row]:
    """The rows of a stored table."""
    return [row(**item) for item in read_json(path)]


def write_rows(path: Path, rows: Iterable["DataclassInstance"]) -> None:
    """Stores a table, an object a row."""
    write_json(path, [asdict(row) for row in rows])
