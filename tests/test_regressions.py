"""Small kernels that were refused or miscompiled once: tests/regressions/NAME.cu, its input and what it leaves."""

from pathlib import Path

import pytest

from runtime.launcher import Program
from runtime.levels import check_program
from tests.kernels.case import array, launch_case, line
from toolchain.driver import Options, compile_program
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec

FOLDER = Path(__file__).parent / "regressions"
A = (0x1234FF81, 0, 0x000000FE, 0x80000007)

CASES: dict[str, tuple[int, list[int]]] = {
    "narrowed_loads": (2, [0x11234, 0xFF, 0x10000, 0]),
    "narrowed_store": (2, [0xAABBCC81, 0x11223300]),
    "narrowed_arithmetic": (2, [9, 0x1234FF81, 0, 0xFE]),
    "casts": (2, [-127 + 0x83, -1, 0, 0]),
    "byte_order": (2, [0x81FF3412, 0x12340000, 0, 0x000000FE]),
    "composed": (2, [0x1234FF81 + 5, 0, 0xFE + 5, 0]),
}
"""Kernel -> threads, and `out` after the launch; it begins as BEFORE, as long as the result."""
BEFORE = (0xAABBCCDD, 0x112233FF, 3, 4)


@pytest.mark.parametrize("spec", (NANO, CLASSIC), ids=lambda spec: spec.name)
@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.cu")))
def test_regression(name: str, spec: MachineSpec) -> None:
    threads, result = CASES[name]
    out = array("out", [value - (1 << 32) * (value >> 31) for value in BEFORE[: len(result)]])
    words = array("a", [value - (1 << 32) * (value >> 31) for value in A])
    case = launch_case(line(1), line(threads), (words, out), out=result)
    compilation = compile_program(FOLDER / f"{name}.cu", Options(spec))
    program = Program(compilation.rom, spec, case.launch)
    assert [report.difference for report in check_program(compilation, program) if report.difference] == []
    assert case.launch.read_back(program.interpret().memory) == case.expected()
