"""Every dialect file parses, prints back, verifies, and computes what it says, on every level of the program."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.dialects.cases import CASES, FOLDER, DialectCase, LaunchCase
from toolchain.driver import CHECK_SUPPORTED, Compilation, Options, compile_program
from toolchain.machine_spec import CLASSIC
from toolchain.mir.interpreter import run_launch
from toolchain.mir.mir_interpreter import run_mir
from toolchain.ptx_frontend.interpreter import interpret
from toolchain.ptx_frontend.parser import parse_ptx, parse_ptx_file
from toolchain.ptx_frontend.printer import print_ptx
from toolchain.ptx_frontend.verifier import verify_ptx

all_dialects = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def test_every_file_has_a_case() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ptx")) == sorted(case.name for case in CASES)


@all_dialects
def test_a_dialect_parses_verifies_and_prints_back(case: DialectCase) -> None:
    module = parse_ptx_file(case.path)
    verify_ptx(module)
    text = print_ptx(module)
    assert parse_ptx(text) == module
    assert print_ptx(parse_ptx(text)) == text


def compiled(case: DialectCase, stop_before: str = "") -> Compilation:
    return compile_program(case.path, Options(CLASSIC, entry=case.entry), stop_before=stop_before)


def check(case: DialectCase, launch: LaunchCase, level: str, memory: tuple[int, ...]) -> None:
    assert launch.launch.read_back(memory) == launch.expected(), f"{case.name} on level {level}"


@all_dialects
def test_a_dialect_computes_what_it_says(case: DialectCase) -> None:
    compilation = compiled(case)
    module = compilation.last("ast")
    for launch in case.launches:
        check(case, launch, "ptx", interpret(module, case.entry, launch.launch, CLASSIC))
        for step in compilation.steps:
            if step.form.name == "mir":
                check(case, launch, f"mir:{step.name}", run_mir(step.value, CLASSIC, launch.launch).memory)
        check(case, launch, "rom", run_launch(compilation.rom, CLASSIC, launch.launch).memory)


def assembled(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """ptxas on a PTX text."""
    path = folder / "k.ptx"
    path.write_text(text)
    command = ["ptxas", "-arch=sm_75", str(path), "-o", str(folder / "k.cubin")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")
@all_dialects
def test_ptxas_takes_what_is_printed(case: DialectCase, tmp_path: Path) -> None:
    """The file as parsed, and again with its calls inlined, for a target that every ptxas since CUDA 11.8 knows."""
    module = parse_ptx_file(case.path)
    for step in (module, compiled(case, CHECK_SUPPORTED).last("ast")):
        portable = replace(step, version="7.8", target=("sm_75",))
        answer = assembled(print_ptx(portable), tmp_path)
        assert answer.returncode == 0, answer.stdout + answer.stderr
