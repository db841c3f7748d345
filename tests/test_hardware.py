"""The machine interpreter against what NVIDIA hardware computed, where that was recorded (tests/hardware/README.md)."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.conftest import compiled
from tests.hardware.build import build
from tests.hardware.results import FILE, Arrays, differences, launches, read_results, run_all, write_results
from tests.kernels.case import KernelCase
from tests.kernels.cases import CASES
from toolchain.launch import Launch
from toolchain.machine_spec import CLASSIC
from toolchain.mir.interpreter import run_launch

recorded = pytest.mark.skipif(not FILE.exists(), reason="no results of a GPU: see tests/hardware/README.md")


@recorded
def test_the_hardware_agrees_with_the_expected_arrays() -> None:
    assert differences(read_results(), CLASSIC) == []


@recorded
@pytest.mark.parametrize("case", [c for c in CASES if c.fits(CLASSIC)], ids=lambda case: case.name)
def test_the_machine_agrees_with_the_hardware(case: KernelCase) -> None:
    outputs = {(result.kernel, result.launch): result.outputs for result in read_results().results}
    rom = compiled(case.name, CLASSIC.name).rom
    for number, launch in enumerate(case.launches(CLASSIC)):
        memory = run_launch(rom, CLASSIC, launch.launch).memory
        assert launch.launch.read_back(memory) == outputs[case.name, number]


@dataclass
class PerfectDevice:
    """Knows the answers."""

    name: str = "perfect"
    compute_capability: str = "9.0"
    driver: int = 13000

    def run(self, case: KernelCase, launch: Launch) -> Arrays:
        return next(expected for _, _, known, expected in launches_of(case) if known == launch)


def launches_of(case: KernelCase) -> list[tuple[KernelCase, int, Launch, Arrays]]:
    return [(case, i, launch.launch, launch.expected()) for i, launch in enumerate(case.launches(CLASSIC))]


def test_results_are_written_and_read_back_and_a_wrong_one_is_found(tmp_path: Path) -> None:
    results = run_all(PerfectDevice(), "release 13.0", CLASSIC)
    assert len(results.results) == len(list(launches(CLASSIC)))
    write_results(results, tmp_path / "r.json")
    assert read_results(tmp_path / "r.json") == results
    assert differences(results, CLASSIC) == []
    first = results.results[0]
    name = next(iter(first.outputs))
    wrong = replace(first, outputs={**first.outputs, name: [value ^ 1 for value in first.outputs[name]]})
    other = replace(results.results[1], arguments={})
    found = differences(replace(results, results=(wrong, other, *results.results[2:-1])), CLASSIC)
    assert [text.split(":")[0] for text in found] == [
        f"{first.kernel}, input set {first.launch}",
        f"{other.kernel}, input set {other.launch}",
        f"{results.results[-1].kernel}, input set {results.results[-1].launch}",
    ]


@pytest.mark.skipif(not (shutil.which("nvcc") and shutil.which("ptxas")), reason="needs nvcc and ptxas")
@pytest.mark.parametrize("name", ["saxpy", "reduce_shuffle"])
def test_a_kernel_is_built_for_hardware(name: str) -> None:
    binary = build(next(case for case in CASES if case.name == name), CLASSIC.lanes, "sm_75")
    assert binary.content[:4] == b"\x7fELF"
    assert binary.kernel.encode() in binary.content
