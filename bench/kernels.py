"""The kernels that the tables are about, compiled once, and the machines that they are compiled for."""

import ast
import hashlib
from functools import cache
from pathlib import Path

from runtime.launcher import Program
from tests.kernels.case import KernelCase
from toolchain import weights_backend
from toolchain.driver import Compilation, Options, compile_program
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec

MACHINES = (CLASSIC, NANO)
WEIGHT_SOURCES = ("layers.py", "numerics.py")
"""Modules of the weights backend that decide which numbers a placed circuit becomes."""


@cache
def weights_digest() -> str:
    """Changes with the code that makes tensors of a placed circuit, not with its comments and line breaks."""
    folder = Path(weights_backend.__path__[0])
    trees = [ast.dump(ast.parse((folder / name).read_text())) for name in WEIGHT_SOURCES]
    return hashlib.sha256("\n".join(trees).encode()).hexdigest()


@cache
def compiled(case: KernelCase, spec: MachineSpec) -> Compilation:
    """Every form of the kernel, and how long each pass took; compiled once."""
    return compiled_anew(case, spec)


def compiled_anew(case: KernelCase, spec: MachineSpec) -> Compilation:
    """The same, compiled each time."""
    return compile_program(case.source, Options(spec, entry=case.entry))


def program(case: KernelCase, spec: MachineSpec) -> Program:
    """The kernel on its first input set."""
    return Program(compiled(case, spec).rom, spec, case.launches(spec)[0].launch)


def compile_seconds(compilation: Compilation) -> float:
    """Seconds from PTX to ROM, the CUDA front end aside."""
    return sum(step.seconds for step in compilation.steps if step.name != "frontend")
