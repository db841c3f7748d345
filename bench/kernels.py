"""The kernels that the tables are about, compiled once, and the machines that they are compiled for."""

from functools import cache

from runtime.launcher import Program
from tests.kernels.case import KernelCase
from toolchain.driver import Compilation, Options, compile_program
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec

MACHINES = (CLASSIC, NANO)


@cache
def compiled(case: KernelCase, spec: MachineSpec) -> Compilation:
    """Every form of the kernel, and how long each pass took."""
    return compile_program(case.source, Options(spec, entry=case.entry))


def program(case: KernelCase, spec: MachineSpec) -> Program:
    """The kernel on its first input set."""
    return Program(compiled(case, spec).rom, spec, case.launches(spec)[0].launch)


def compile_seconds(case: KernelCase, spec: MachineSpec = CLASSIC) -> float:
    """Seconds from PTX to ROM, the CUDA front end aside."""
    return sum(step.seconds for step in compiled(case, spec).steps if step.name != "frontend")
