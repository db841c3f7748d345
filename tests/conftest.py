"""Fixtures that several tests share, and the option that rewrites golden files."""

import os
from functools import cache
from pathlib import Path

import pytest

from tests.kernels.case import KernelCase
from tests.kernels.cases import CASES
from toolchain.driver import Compilation, Options, compile_program
from toolchain.machine_spec import PRESETS

ROOT = Path(__file__).parent.parent

os.environ.setdefault("OMP_NUM_THREADS", "1")
"""Before torch is imported: test processes run side by side, and threads of theirs would wait for each other."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden/ and pass")


@cache
def compiled(name: str, machine: str) -> Compilation:
    """A test kernel's compilation, with its source named as from the root, once a test run."""
    case = case_of(name)
    path = case.source.relative_to(ROOT)
    return compile_program(path, Options(PRESETS[machine], entry=case.entry))


def case_of(name: str) -> KernelCase:
    return next(case for case in CASES if case.name == name)


@pytest.fixture(autouse=True)
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs at the root, so that source names in dumps are the same everywhere."""
    monkeypatch.chdir(ROOT)
