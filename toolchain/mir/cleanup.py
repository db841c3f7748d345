"""The passes that leave nothing to simplify: simplify, dead code, coalesce, again until nothing changes.

Contract: valid MIR in, valid MIR out; same memory.
"""

from toolchain.machine_spec import MachineSpec
from toolchain.mir import coalesce, dead_code, simplify
from toolchain.mir.ir import Function

PASS_NAME = "cleanup"

_ROUNDS = 10


def run(function: Function, spec: MachineSpec) -> Function:
    """The fixed point of the three."""
    for _ in range(_ROUNDS):
        new = coalesce.run(dead_code.run(simplify.run(function, spec), spec), spec)
        if new == function:
            return new
        function = new
    return function
