"""Small kernels that were refused or miscompiled once: tests/regressions/NAME.cu, its launches and what they leave."""

from pathlib import Path

import pytest

from runtime.launcher import Program
from runtime.levels import check_program
from tests.fuzz.judge import expected_arrays
from tests.fuzz.kernels import FuzzKernel
from tests.fuzz.regressions import FOLDER, Regression, load, save
from tests.oracle.driver import cxx_compiler
from toolchain.driver import Options, compile_program
from toolchain.launch import ArrayArgument, Launch, ScalarArgument
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec

FILES = sorted(FOLDER.glob("*.cu"))
MACHINES = (NANO, CLASSIC)
machines = pytest.mark.parametrize("spec", MACHINES, ids=lambda spec: spec.name)
FITTING = [(path, spec) for path in FILES for spec in MACHINES if spec.name in load(path).expected]
"""Regressions with the machines that have lanes enough for them."""


@pytest.mark.parametrize(
    ("path", "spec"), [pytest.param(path, spec, id=f"{path.stem}-{spec.name}") for path, spec in FITTING]
)
def test_regression(path: Path, spec: MachineSpec) -> None:
    """Every level agrees, and the last one leaves what the file says."""
    regression = load(path)
    kernel = regression.kernel
    compilation = compile_program(path, Options(spec, entry=kernel.name))
    for launch, expected in zip(kernel.launches, regression.expected[spec.name], strict=True):
        program = Program(compilation.rom, spec, launch)
        reports = check_program(compilation, program)
        assert [report.difference for report in reports if report.difference] == []
        assert launch.read_back(program.interpret().memory) == expected


@machines
@pytest.mark.skipif(cxx_compiler() is None, reason="needs a C++ compiler")
def test_the_oracle_says_the_same(spec: MachineSpec, tmp_path: Path) -> None:
    found = [load(path) for path in FILES]
    fitting = [regression for regression in found if spec.name in regression.expected]
    kernels = [regression.kernel for regression in fitting]
    expected = expected_arrays(kernels, spec.lanes, tmp_path, sanitize=True)
    assert expected == {regression.kernel.name: regression.expected[spec.name] for regression in fitting}


def test_a_regression_is_read_as_it_was_written(tmp_path: Path) -> None:
    arguments = (ArrayArgument("a", (1, -2), "i16"), ScalarArgument("n", 3), ArrayArgument("empty", ()))
    launch = Launch((1, 2, 1), (3, 1, 1), arguments, dynamic_shared=8)
    kernel = FuzzKernel("k", "__global__ void k() {}\n", (launch,))
    regression = Regression(kernel, {"nano": [{"a": [1, -2], "empty": []}]})
    assert load(save(regression, tmp_path)) == regression
