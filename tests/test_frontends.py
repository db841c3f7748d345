"""Every test kernel through every front end that is installed: the same arrays, whoever printed the PTX.

clang with 64-bit addresses, NVRTC and nvcc; each program runs on the PTX interpreter as check-supported gets it,
and, where its compiler's PTX has instructions of the machine alone, in the ROM too. ptxas takes what clang prints.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernels.case import KernelCase
from tests.kernels.cases import CASES
from tests.test_dialects import assembled
from toolchain.driver import CHECK_SUPPORTED, Compilation, Options, compile_program
from toolchain.machine_spec import CLASSIC
from toolchain.mir.interpreter import run_launch
from toolchain.ptx_frontend import nvidia
from toolchain.ptx_frontend.interpreter import interpret
from toolchain.ptx_frontend.printer import print_ptx

EVERY = 8
"""CI takes one kernel of so many with a front end other than the default; the rest is slow."""

SAMPLE = tuple(case for case in CASES if case.fits(CLASSIC))[::EVERY]
OTHERS = tuple(case for case in CASES if case.fits(CLASSIC) and case not in SAMPLE)

sample = pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
others = pytest.mark.parametrize("case", OTHERS, ids=lambda case: case.name)

AVAILABLE: dict[str, Callable[[], object]] = {
    "clang": lambda: True,
    "nvrtc": nvidia.find_nvrtc,
    "nvcc": nvidia.find_nvcc,
}
frontends = pytest.mark.parametrize("frontend", AVAILABLE)


def compiled(case: KernelCase, frontend: str, stop_before: str = "") -> Compilation:
    """The kernel with 64-bit addresses. Skips where the front end is not installed."""
    if not AVAILABLE[frontend]():
        pytest.skip(f"{frontend} is not installed")
    options = Options(CLASSIC, frontend, case.entry, address_size=64)
    return compile_program(case.source, options, stop_before=stop_before)


def check(case: KernelCase, frontend: str) -> None:
    """The PTX interpreter's arrays after every launch."""
    module = compiled(case, frontend, CHECK_SUPPORTED).last("ast")
    for launch in case.launches(CLASSIC):
        memory = interpret(module, module.entries[0].name, launch.launch, CLASSIC)
        assert launch.launch.read_back(memory) == launch.expected()


@sample
@frontends
def test_a_front_end(case: KernelCase, frontend: str) -> None:
    check(case, frontend)


@pytest.mark.slow
@others
@frontends
def test_a_front_end_on_every_kernel(case: KernelCase, frontend: str) -> None:
    check(case, frontend)


@sample
def test_64_bit_addresses_in_the_rom(case: KernelCase) -> None:
    program = compiled(case, "clang")
    launch = case.launches(CLASSIC)[0]
    memory = run_launch(program.rom, CLASSIC, launch.launch).memory
    assert launch.launch.read_back(memory) == launch.expected()


def check_ptxas(case: KernelCase, folder: Path) -> None:
    """ptxas on what clang printed and on what we print of it."""
    program = compiled(case, "clang", CHECK_SUPPORTED)
    for text in (program.last("ptx"), print_ptx(program.last("ast"))):
        answer = assembled(text, folder)
        assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")
@sample
def test_ptxas(case: KernelCase, tmp_path: Path) -> None:
    check_ptxas(case, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")
@others
def test_ptxas_on_every_kernel(case: KernelCase, tmp_path: Path) -> None:
    check_ptxas(case, tmp_path)
