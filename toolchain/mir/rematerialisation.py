"""Rematerialisation: what special registers and constants can give is computed again where it is used.

Contract: valid MIR in, valid MIR out; every register holds the same value wherever it is read. A value that
outlives its block comes back as tokens, up to two a lane; an ALU slot in the block that uses it costs none. A
register whose value is known there (facts.py) from cheap operations on constants alone is redefined at the
start of each block that reads it, if that lowers the cost.
"""

from collections.abc import Mapping
from dataclasses import replace

from toolchain.machine_spec import MachineSpec
from toolchain.mir import dead_code, facts, liveness, uniformity
from toolchain.mir.block_cost import CostModel
from toolchain.mir.facts import Facts
from toolchain.mir.ir import Block, Function, Instruction, MirOp, Operand, Predicate, Register
from toolchain.mir.isa import MulOp, Op

PASS_NAME = "rematerialisation"

CHEAP = (MirOp.MOV, Op.ADD, Op.SUB, Op.SHL, Op.SHR_U, Op.LOP, MulOp.LO)
_DEPTH = 3
"""Operations in a row that may be repeated."""


def run(function: Function, spec: MachineSpec) -> Function:
    """The function with each register recomputed where that costs less."""
    model = CostModel(spec, uniformity.uniform_registers(function), spec.blocks)
    cost, known = model.cost(function), facts.analyse(function)
    for name in _crossing(function):
        candidate = _recomputed(function, known, name, spec)
        if candidate is None:
            continue
        new_cost = model.cost(candidate)
        if new_cost < cost:
            function, cost, known = candidate, new_cost, facts.analyse(candidate)
    return function


def _crossing(function: Function) -> list[Register]:
    """Registers live between blocks, those defined last first: they depend on the others."""
    live = frozenset().union(*liveness.analyse(function).after.values())
    order = [item.dest for block in function.blocks for item in block.instructions]
    registers = [name for name in dict.fromkeys(order) if isinstance(name, Register) and name in live]
    return registers[::-1]


def _recomputed(
    function: Function, before: Mapping[str, Facts], name: Register, spec: MachineSpec
) -> Function | None:
    """The function with `name` redefined in every block that reads it from outside; None if one cannot.

    `before`: what is known at the start of each block.
    """
    blocks: list[Block] = []
    changed = False
    for block in function.blocks:
        if name not in block.reads:
            blocks.append(block)
            continue
        recipe = _recipe(name, before[block.label], _DEPTH)
        if recipe is None or block.serial:  # a serial block has to stay small
            return None
        blocks.append(replace(block, instructions=(*recipe, *block.instructions)))
        changed = True
    return dead_code.run(function.with_blocks(blocks), spec) if changed else None


def _recipe(name: Register, known: Facts, depth: int) -> list[Instruction] | None:
    """Instructions that give `name` its value again from constants and special registers."""
    fact = known.get(name)
    if fact is None or fact.op not in CHEAP or depth == 0:
        return None
    steps: list[Instruction] = []
    for operand in fact.operands:
        part = _part(operand, known, depth)
        if part is None:
            return None
        steps += [step for step in part if step not in steps]
    return [*steps, fact]


def _part(operand: Operand, known: Facts, depth: int) -> list[Instruction] | None:
    if isinstance(operand, Predicate):
        return None
    return _recipe(operand, known, depth - 1) if isinstance(operand, Register) else []
