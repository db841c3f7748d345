"""Seconds the compiler takes on each test kernel, the CUDA front end aside, measured as it is printed."""

from collections.abc import Iterator

from bench.kernels import compile_seconds, compiled
from tests.kernels.cases import CASES
from toolchain.machine_spec import CLASSIC


def lines() -> Iterator[str]:
    """A row a kernel."""
    yield "| kernel | compile to ROM, s |"
    yield "|---|---|"
    for case in CASES:
        yield f"| {case.name} | {compile_seconds(compiled(case, CLASSIC)):.2f} |"
