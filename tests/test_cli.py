"""The command line: what it prints, its JSON, its exit status."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from toolchain.cli import COMMANDS, run_command
from toolchain.driver import PIPELINE
from toolchain.forms import FORMS
from toolchain.machine_build import ensure_checkpoint
from toolchain.machine_spec import NANO

DOT = ["examples/dot.cu", "--arg", "a=[1,2,3]", "--arg", "b=[4,5,6]", "--arg", "c=zeros:1", "--arg", "n=3"]
ON_NANO = [*DOT, "--machine", "nano"]


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        assert run_command([name, "--help"]) == 0
        assert f"qgpuc {name}" in capsys.readouterr().out


def test_run_prints_stages_trace_and_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["run", *DOT, "--engine", "interp", "--check"]) == 0
    text = capsys.readouterr().out
    for part in (
        "ptx ",
        "rom ",
        "EXEC block 0",
        "MEM  [6]",
        "= 32 (c[0])",
        "END ",
        "c = [32]",
        "exact",
        "tokens",
    ):
        assert part in text


def test_run_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["run", *ON_NANO, "--engine", "interp", "--check", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["arrays"] == {"a": [1, 2, 3], "b": [4, 5, 6], "c": [32]}
    assert report["check"] == "exact"
    assert report["engine"] == "interp"
    assert set(report["tokens"]) == {"load", "launch"}
    assert report["tokens"]["launch"] <= 24


def test_run_without_check_says_null(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["run", *ON_NANO, "--engine", "interp", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["check"] is None


def test_unsigned(capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "run",
        "examples/dot.cu",
        "--arg",
        "a=[-1]",
        "--arg",
        "b=[1]",
        "--arg",
        "c=zeros:1",
        "--arg",
        "n=1",
    ]
    command += ["--engine", "interp", "--quiet"]
    assert run_command(command) == 0
    assert "c = [-1]" in capsys.readouterr().out
    assert run_command([*command, "--unsigned"]) == 0
    assert "c = [4294967295]" in capsys.readouterr().out


def test_check_reaches_the_placed_circuit(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["check", *ON_NANO, "--up-to", "circuit"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines][-3:] == ["machine", "circuit", "placed"]
    assert all("exact" in line for line in lines)


def test_trace_and_inspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "dot.trace"
    assert run_command(["run", *ON_NANO, "--engine", "interp", "--trace", str(trace), "--quiet"]) == 0
    capsys.readouterr()
    assert run_command(["inspect", str(trace)]) == 0
    assert capsys.readouterr().out.count("EXEC(") == trace.read_text().count("EXEC(") > 2


def test_inspect_golden_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["inspect", "golden/dot"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.removeprefix("--- ") for line in lines if line.startswith("--- ")]
    assert names == ["ptx", "mir", "rom", "circuit", "trace"]
    assert run_command(["diff", "golden/dot", "golden/saxpy"]) == 1


def test_checkpoint_is_inspected_and_is_itself(capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(ensure_checkpoint(NANO, "bfloat16"))
    assert run_command(["inspect", folder]) == 0
    text = capsys.readouterr().out
    assert "Qwen3_5ForCausalLM" in text
    assert "model.embed_tokens.weight BF16" in text
    assert run_command(["diff", folder, folder]) == 0


@pytest.mark.parametrize("target", ["ptx", "mir", "rom"])
def test_compile_stops_at(target: str, tmp_path: Path) -> None:
    assert run_command(["compile", "examples/dot.cu", "-o", str(tmp_path / "out"), "--to", target]) == 0
    wanted = {"ptx": {"dot.ptx"}, "mir": {"dot.ptx", "dot.mir"}, "rom": {"dot.ptx", "dot.mir", "dot.rom"}}
    assert {path.name for path in (tmp_path / "out").iterdir()} == wanted[target]


@pytest.mark.parametrize("suffix", [".ptx", ".mir", ".rom"])
def test_compile_starts_from(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From any dump the result is the same as from the CUDA file."""
    first, second = tmp_path / "first", tmp_path / "second"
    assert run_command(["compile", "examples/dot.cu", "-o", str(first), "--to", "rom"]) == 0
    assert run_command(["compile", str(first / f"dot{suffix}"), "-o", str(second), "--to", "rom"]) == 0
    capsys.readouterr()
    command = ["run", str(second / "dot.rom"), *DOT[1:], "--engine", "interp", "--quiet"]
    assert run_command(command) == 0
    assert "c = [32]" in capsys.readouterr().out


def test_a_circuit_can_be_compiled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Out as text, in again, and out the same; a circuit is no program and no other machine."""
    first, second = tmp_path / "first", tmp_path / "second"
    nano = ("--machine", "nano", "--to", "circuit")
    assert run_command(["compile", "examples/dot.cu", "-o", str(first), *nano]) == 0
    assert {path.suffix for path in first.iterdir()} == {".ptx", ".mir", ".rom", ".circuit", ".placed"}
    assert run_command(["compile", str(first / "nano.circuit"), "-o", str(second), *nano]) == 0
    for name in ("nano.circuit", "nano.placed"):
        assert (first / name).read_text() == (second / name).read_text()
    assert run_command(["compile", str(first / "nano.circuit"), "-o", str(second), "--to", "circuit"]) == 2
    assert "'nano'" in capsys.readouterr().err
    assert (
        run_command(["compile", str(first / "nano.circuit"), "-o", str(second), *nano[:2], "--to", "rom"])
        == 2
    )
    assert "comes after" in capsys.readouterr().err


def test_dump_after_every_pass(tmp_path: Path) -> None:
    command = [
        "compile",
        "examples/dot.cu",
        "-o",
        str(tmp_path / "out"),
        "--to",
        "rom",
        "--dump-after",
        "all",
    ]
    assert run_command(command) == 0
    names = sorted(
        path.name.split("-", 1)[1].rsplit(".", 1)[0] for path in (tmp_path / "out").glob("dot.*-*")
    )
    assert names == sorted(item.name for item in PIPELINE)


def test_diff(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, kernel in ((first, "vector_add"), (second, "saxpy")):
        source = tmp_path / "kernel.cu"
        source.write_text(Path(f"tests/kernels/{kernel}.cu").read_text())
        assert run_command(["compile", str(source), "-o", str(folder), "--to", "rom"]) == 0
    assert run_command(["diff", str(first), str(first)]) == 0
    capsys.readouterr()
    assert run_command(["diff", str(first), str(second)]) == 1
    text = capsys.readouterr().out
    assert all(f"kernel.{form}" in text for form in ("ptx", "mir", "rom"))


def test_pass_names_are_different() -> None:
    names = [item.name for item in PIPELINE]
    assert len(set(names)) == len(names)
    for before, after in pairwise(PIPELINE):
        assert before.gives == after.takes
        assert after.gives in FORMS
