"""Lowered to optimised MIR, as a list of passes. Read it from top to bottom.

Each pass is a module with a PASS_NAME and one `run(function, spec) -> function`, valid MIR in and out.
Verifying, dumping and timing belong to whoever runs the list: the driver, which has it in its own.
"""

from collections.abc import Callable

from toolchain.machine_spec import MachineSpec
from toolchain.mir import (
    address_narrowing,
    cleanup,
    hyperblocks,
    jump_threading,
    rematerialisation,
    strength,
    uniformity,
    widths,
)
from toolchain.mir.ir import Function
from toolchain.mir.verifier import verify

Pass = Callable[[Function, MachineSpec], Function]

PASSES: tuple[tuple[str, Pass], ...] = (
    (cleanup.PASS_NAME, cleanup.run),  # copies, constants, dead code
    (address_narrowing.PASS_NAME, address_narrowing.run),  # bytes to words
    (strength.PASS_NAME, strength.run),  # small constant products become shifts and sums
    (cleanup.PASS_NAME + "-2", cleanup.run),
    (jump_threading.PASS_NAME, jump_threading.run),  # no empty blocks
    (hyperblocks.PASS_NAME, hyperblocks.run),  # if-conversion and tail duplication, where tokens are saved
    (rematerialisation.PASS_NAME, rematerialisation.run),  # computing again beats returning
    (cleanup.PASS_NAME + "-3", cleanup.run),
    (uniformity.PASS_NAME, uniformity.run),  # returned once for all lanes
    (widths.PASS_NAME, widths.run),  # returned in one token
)


def optimise(function: Function, spec: MachineSpec) -> Function:
    """Runs PASSES, verifying the MIR after each."""
    for _, run in PASSES:
        function = run(function, spec)
        verify(function)
    return function
