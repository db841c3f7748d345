"""What README.md says is so: its numbers are the ones measured now, its commands and files exist."""

import re

import pytest

from bench import model_check, report
from tests.conftest import ROOT, compiled
from toolchain.cli import COMMANDS, run_command
from toolchain.machine_build import placed_circuit
from toolchain.machine_spec import CLASSIC, NANO

README = (ROOT / "README.md").read_text()


def test_numbers_are_fresh() -> None:
    assert report.section(README) == report.numbers(), "the README's numbers are stale: `make readme`"


def test_model_check_is_fresh() -> None:
    """Every kernel was right in the stock model, with the circuits and the tokens of now."""
    known = model_check.stored()
    now = model_check.stale(known, lambda case, spec: compiled(case.name, spec.name).rom)
    stale = [f"{program.spec.name}/{case.name}" for case, program, _ in now]
    assert not stale, f"not checked in the stock model as they are now: {stale}; `make model`"
    assert [key for key, outcome in known.items() if outcome.wrong] == []


def test_shapes_fit_the_layer_shape() -> None:
    for spec in (CLASSIC, NANO):
        placed = placed_circuit(spec)
        assert len(placed.layers) <= spec.max_layers == 24
        assert placed.hidden <= 2048
        assert placed.mlp <= 6144
        assert placed.heads <= 16


def test_begins_with_demo_and_test() -> None:
    assert re.findall(r"^    make (\w+)", README, re.MULTILINE)[:2] == ["demo", "test"]


def test_trace_is_what_the_demo_prints(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "examples/dot.cu", "--engine", "interp", "--check"]
    for argument in ("a=[1,2,3]", "b=[4,5,6]", "c=zeros:1", "n=3"):
        command += ["--arg", argument]
    assert run_command(command) == 0
    printed = capsys.readouterr().out.splitlines()
    quoted = [line[4:] for line in README.splitlines() if re.match(r"    +\d+  [A-Z]+ ", line)]
    assert len(quoted) > 5
    assert [line for line in printed if line in quoted] == quoted
    assert {"c = [32]", "exact"} <= set(printed)


def test_source_is_the_example() -> None:
    source = (ROOT / "examples" / "dot.cu").read_text().splitlines()[1:]
    assert "\n".join(f"    {line}" for line in source) in README


def test_commands_exist() -> None:
    assert set(re.findall(r"qgpuc (\w+)", README)) <= set(COMMANDS)


def test_files_exist() -> None:
    named = set(re.findall(r"`((?:toolchain|runtime|tests|docs|examples|bench)/[\w/.]+)`", README))
    assert named
    for name in named:
        assert (ROOT / name).exists(), f"README.md names {name}"
