"""What README.md says is so: its numbers are the ones measured now, its commands and files exist."""

import re

from bench import report
from tests.conftest import ROOT
from toolchain.cli import COMMANDS
from toolchain.machine_build import placed_circuit
from toolchain.machine_spec import CLASSIC, NANO

README = (ROOT / "README.md").read_text()


def test_numbers_are_fresh() -> None:
    assert report.section(README) == report.numbers(), "the README's numbers are stale: `make readme`"


def test_shapes_fit_the_layer_shape() -> None:
    for spec in (CLASSIC, NANO):
        placed = placed_circuit(spec)
        assert len(placed.layers) <= spec.max_layers == 24
        assert placed.hidden <= 2048
        assert placed.mlp <= 6144
        assert placed.heads <= 16


def test_begins_with_demo_and_test() -> None:
    assert re.findall(r"^    make (\w+)", README, re.MULTILINE)[:2] == ["demo", "test"]


def test_commands_exist() -> None:
    assert set(re.findall(r"qgpuc (\w+)", README)) <= set(COMMANDS)


def test_files_exist() -> None:
    named = set(re.findall(r"`((?:toolchain|runtime|tests|docs|examples|bench)/[\w/.]+)`", README))
    assert named
    for name in named:
        assert (ROOT / name).exists(), f"README.md names {name}"
