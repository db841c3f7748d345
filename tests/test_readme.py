"""What README.md says is so: its numbers are the ones measured now, its commands and files exist."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bench import activity, host, measured, model_check, report
from bench.stored import read_rows, write_rows
from runtime.vocabulary import END, execute, short, val
from tests.conftest import ROOT, compiled
from tests.kernels.cases import CASES
from toolchain.cli import COMMANDS, run_command
from toolchain.machine_build import placed_circuit
from toolchain.machine_spec import CLASSIC, NANO
from toolchain.mir.rom_text import print_rom

README = (ROOT / "README.md").read_text()


def test_numbers_are_fresh() -> None:
    assert report.section(README) == report.numbers(), "the README's numbers are stale: `make readme`"


def test_number_of_kernels() -> None:
    assert re.findall(r"`tests/kernels` holds (\d+) of them", README) == [str(len(CASES))]


def test_a_changed_measurement_changes_what_is_quoted(tmp_path: Path) -> None:
    stored = measured.read()
    path = tmp_path / "measured.json"
    quoted = list(measured.lines())
    for field, value in (("compile_seconds", 9.75), ("build_seconds", 975), ("build_gigabytes", 97.5)):
        measured.write(replace(stored, **{field: value}), path)
        changed = [line for line in measured.lines(path) if line not in quoted]
        assert len(changed) == 1
        assert f"| {value} " in changed[0]
    measured.write(replace(stored, host=replace(stored.host, cores=975)), path)
    assert next(measured.lines(path)).startswith("On 975 cores of ")


def test_rows_of_printed_tables() -> None:
    lines = [
        "A sentence.",
        "| a | b |",
        "|---|---|",
        "| 1 |  |",
        "| x y | -3 |",
        "",
        "| c |",
        "|---|",
        "| 4 |",
    ]
    assert report.rows(lines) == [{"a": "1", "b": ""}, {"a": "x y", "b": "-3"}, {"c": "4"}]
    assert list(report.rows(report.TABLES[0].lines())[0].values())[:4] == ["`classic`", "4", "8", "126"]


def test_rows_are_stored_and_read_back(tmp_path: Path) -> None:
    rows = [activity.Activity("one", 1, 2, 3, 4, 5, 6), activity.Activity("two", 7, 8, 9, 10, 11, 12)]
    write_rows(tmp_path / "rows.json", rows)
    assert read_rows(tmp_path / "rows.json", activity.Activity) == rows
    assert [path.name for path in tmp_path.iterdir()] == ["rows.json"]


@pytest.mark.parametrize("name", ["dot", "reduce_tree", "sort_local"])
def test_lane_instructions_are_operations_times_lanes(name: str) -> None:
    """Against the ROM's text, where an operation is a line."""
    rom = compiled(name, "nano").rom
    texts = re.split(r"^block ", print_rom(rom), flags=re.MULTILINE)[1:]
    sizes = [len(re.findall(r"^    [xyzmp]  |^  st\.", text, re.MULTILINE)) for text in texts]
    tokens = (execute(0, 0, 0b01), val(3), val(4), execute(1, 2, 0b11), short(5), execute(1, 0, 0b11), END)
    counted = activity.activity(name, rom, tokens)
    assert counted == activity.Activity(name, 7, len(texts), 3, 2, 1, sizes[0] + 4 * sizes[1])


def test_this_machine_is_described() -> None:
    here = host.describe()
    assert here.cores >= 1
    assert here.memory_gigabytes > 0
    assert f"torch {here.torch}" in "\n".join(here.lines())


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
