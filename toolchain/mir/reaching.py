"""Reaching definitions: which instructions may have written a name's present value."""

from toolchain.mir.cfg import Cfg
from toolchain.mir.ir import Function, Predicate, Register

Name = Register | Predicate
Definition = tuple[str, int]
"""(block label, index of the instruction)."""


def reaching_definitions(function: Function) -> dict[str, dict[Name, frozenset[Definition]]]:
    """For each reachable block, the definitions that reach its start, by name."""
    cfg = Cfg(function)
    blocks = {block.label: block for block in function.blocks}
    made: dict[str, dict[Name, frozenset[Definition]]] = {
        label: {
            item.dest: frozenset({(label, index)})
            for index, item in enumerate(block.instructions)
            if item.dest is not None
        }
        for label, block in blocks.items()
    }
    before: dict[str, dict[Name, frozenset[Definition]]] = {label: {} for label in cfg.reachable}
    changed = True
    while changed:
        changed = False
        for label in cfg.reverse_postorder:
            found: dict[Name, frozenset[Definition]] = {}
            for parent in cfg.predecessors[label]:
                if parent in cfg.reachable:
                    for name, definitions in {**before[parent], **made[parent]}.items():
                        found[name] = found.get(name, frozenset()) | definitions
            changed |= found != before[label]
            before[label] = found
    return before
