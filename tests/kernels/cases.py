"""Every test kernel: the `CASES` of each `cases_*.py` beside this module, which is where a kernel is added.

A case is a CUDA file and a function that gives its launches for a machine. Input set 0 is the plain one, which
the slow levels run; the others hold edge values. The expected arrays are computed with numpy and Python
integers, from the definition of the result and not from the kernel's text.
"""

from importlib import import_module

from tests.kernels import cases_basic
from tests.kernels.case import FOLDER, KernelCase
from toolchain.machine_spec import MachineSpec

MODULES = tuple(sorted(path.stem for path in FOLDER.glob("cases_*.py")))

CASES: tuple[KernelCase, ...] = tuple(
    case for name in MODULES for case in import_module(f"{__package__}.{name}").CASES
)


CHOSEN = (
    "dot", "nested_branches", "puzzle_conv_1d", "reduce_tree", "reduce_atomic", "reduce_butterfly", "scan_blocks",
    "convolution_2d", "division_signed", "fibonacci64", "sort_local", "compact_ballot",
)  # fmt: skip
"""A dozen short kernels that between them use every feature of the machine: what CI runs on the slowest levels."""

QUICK = (*(case.name for case in cases_basic.CASES), *CHOSEN)
"""What CI runs on levels that take seconds a kernel; the others run there under `make test-slow`."""


def cases_for(spec: MachineSpec) -> tuple[KernelCase, ...]:
    """The kernels that fit a machine."""
    return tuple(case for case in CASES if case.fits(spec))
