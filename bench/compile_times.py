"""Seconds the compiler takes on each test kernel, the CUDA front end aside, measured as it is printed."""

from collections.abc import Iterator

from bench.kernels import compile_seconds
from tests.kernels.cases import CASES


def lines() -> Iterator[str]:
    """A row a kernel."""
    yield "| kernel | compile to ROM, s |"
    yield "|---|---|"
    for case in CASES:
        yield f"| {case.name} | {compile_seconds(case):.2f} |"
