"""Removes instructions whose results nothing needs, loads included, and blocks that cannot run.

Contract: valid MIR in, valid MIR out; memory after the launch is the same. A register that only feeds itself
(a loop counter nobody reads) is dead too.
"""

from dataclasses import replace

from toolchain.machine_spec import MachineSpec
from toolchain.mir import liveness
from toolchain.mir.cfg import Cfg
from toolchain.mir.ir import Block, Function, Instruction, MirOp
from toolchain.mir.liveness import Name

PASS_NAME = "dead-code"


def run(function: Function, spec: MachineSpec) -> Function:
    """The function without dead instructions and blocks."""
    reachable = Cfg(function).reachable
    function = function.with_blocks([block for block in function.blocks if block.label in reachable])
    needed = _needed(function)
    function = function.with_blocks([_keep(block, needed) for block in function.blocks])
    after = liveness.analyse(function).after
    return function.with_blocks([_sweep(block, after[block.label]) for block in function.blocks])


def _needed(function: Function) -> frozenset[Name]:
    """Names that some store or branch depends on, through any chain of definitions."""
    sources: dict[Name, set[Name]] = {}
    work: list[Name] = []
    for block in function.blocks:
        work += liveness.terminator_uses(block)
        for item in block.instructions:
            if item.dest is None:
                work += item.uses
            else:
                sources.setdefault(item.dest, set()).update(item.uses)
    needed: set[Name] = set()
    while work:
        name = work.pop()
        if name not in needed:
            needed.add(name)
            work += sources.get(name, ())
    return frozenset(needed)


def _keep(block: Block, needed: frozenset[Name]) -> Block:
    body = tuple(item for item in block.instructions if item.dest is None or item.dest in needed)
    return replace(block, instructions=body)


def _sweep(block: Block, after: liveness.Names) -> Block:
    live = set(after | liveness.terminator_uses(block))
    kept: list[Instruction] = []
    for item in reversed(block.instructions):
        if item.dest is not None and item.dest not in live:
            continue
        if item.op is MirOp.MOV and item.operands[0] == item.dest:
            continue
        if item.dest is not None:
            live.discard(item.dest)
        live.update(item.uses)
        kept.append(item)
    return replace(block, instructions=tuple(reversed(kept)))
