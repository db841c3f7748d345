"""Writing results so that a folder is whole or not there: into a temporary folder first, then moved."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolchain.errors import CompileError


@contextmanager
def output_folder(target: Path) -> Iterator[Path]:
    """A temporary folder beside `target`; its files are moved there when the block ends without an error.

    Files of the same name in an existing `target` are replaced one by one. Raises CompileError where it
    cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_dir():
            raise CompileError(
                f"cannot write '{target}': it is a file, not a folder", hint="choose another -o"
            )
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise unwritable(target, error) from error
    try:
        yield folder
        folder.chmod(0o755)
        _move(folder, target)
    except OSError as error:
        raise unwritable(target, error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _move(folder: Path, target: Path) -> None:
    if not target.exists():
        os.replace(folder, target)
        return
    for item in sorted(folder.iterdir()):
        os.replace(item, target / item.name)


def write_file(target: Path, text: str) -> None:
    """Writes a text file whole or not at all. Raises CompileError where it cannot be written."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():
            target.write_text(text)  # a device or a pipe; a folder is refused
            return
        with tempfile.NamedTemporaryFile(
            "w", dir=target.parent, prefix=f".{target.name}-", delete=False
        ) as stream:
            stream.write(text)
        Path(stream.name).chmod(0o644)
        os.replace(stream.name, target)
    except OSError as error:
        raise unwritable(target, error) from error


def unwritable(target: Path, error: OSError) -> CompileError:
    """The error for an output that cannot be written."""
    return CompileError(
        f"cannot write '{target}': {error.strerror or error}", hint="choose another place with -o"
    )
