"""Signs of life for long work: on stderr, and only where that is a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from toolchain.machine_build import Progress, quiet


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """A spinner while the block runs."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield


@contextmanager
def building(text: str) -> Iterator[Progress]:
    """A bar that the progress function it gives moves on."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    if not console.is_terminal:
        yield quiet
        return
    with Bar(console=console, transient=True) as bar:
        task = bar.add_task(text, total=None)
        yield lambda stage, done, count: bar.update(task, completed=done, total=count)
