"""Keeps one kernel of a module, and what it reaches: device functions and module variables."""

from dataclasses import replace

from toolchain.ptx_frontend.ast import Function, Module, Symbol, leaves
from toolchain.ptx_frontend.names import find_entry

PASS_NAME = "select-entry"


def run(module: Module, name: str | None = None) -> Module:
    """The module with the kernel called `name` (its only one without a name) and what that names, in their order.

    Raises CompileError that lists the kernels where there is no such one.
    """
    kernel = find_entry(module, name)
    uses = {function.name: _symbols(function) for function in module.functions}
    uses |= {
        variable.name: {value.partition("+")[0] for value in variable.initialiser if isinstance(value, str)}
        for variable in module.variables
    }
    reached: set[str] = set()
    waiting = [kernel.name]
    while waiting:
        item = waiting.pop()
        if item not in reached:
            reached.add(item)
            waiting += uses.get(item, ())
    return replace(
        module,
        variables=tuple(variable for variable in module.variables if variable.name in reached),
        functions=tuple(function for function in module.functions if function.name in reached),
    )


def _symbols(function: Function) -> set[str]:
    """Every symbol that the body names."""
    return {
        leaf.name
        for instruction in function.instructions
        for operand in instruction.operands
        for leaf in leaves(operand)
        if isinstance(leaf, Symbol)
    }
