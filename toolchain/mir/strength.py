"""Strength reduction: `x * 3` and `x << 1` become sums.

Contract: valid MIR in, valid MIR out; every register holds the same value. A sum runs in any slot and takes
one stage; a shift runs in slot y only, a product takes two stages and cannot read what the stage before it
computed. `x * 3 + c` becomes `(x + x) + (x + c)`, two stages in place of three.
"""

from dataclasses import replace

from toolchain.machine_spec import MachineSpec
from toolchain.mir import affine
from toolchain.mir.hyperblock import FreshNames
from toolchain.mir.ir import ZERO, Block, Function, Instruction, Register
from toolchain.mir.isa import MulOp, Op
from toolchain.mir.rom import LinkValue

PASS_NAME = "strength"


def run(function: Function, spec: MachineSpec) -> Function:
    """The function with cheap constant products expanded."""
    fresh = FreshNames(function)
    return function.with_blocks([_block(block, fresh) for block in function.blocks])


def _block(block: Block, fresh: FreshNames) -> Block:
    if block.serial:  # it has to stay small
        return block
    body: list[Instruction] = []
    for item in block.instructions:
        body += _product(item, fresh) or _sum(item, body, fresh) or [item]
    return replace(block, instructions=tuple(body))


def _product(item: Instruction, fresh: FreshNames) -> list[Instruction] | None:
    """`x << 1` is `x + x`, and `x * 3` is `(x + x) + x`."""
    if item.op not in (Op.SHL, MulOp.LO) or isinstance(item.operands[0], LinkValue):
        return None
    x = item.operands[0]
    if item.op is Op.SHL and item.operands[1] == affine.constant(1):
        return [replace(item, op=Op.ADD, operands=(x, x))]
    if item.op is Op.SHL or item.operands[1] != affine.constant(3) or item.dest is None:
        return None
    double = Register(fresh.like(item.dest.name))
    return [
        replace(item, op=Op.ADD, dest=double, operands=(x, x)),
        replace(item, op=Op.ADD, operands=(double, x)),
    ]


def _sum(item: Instruction, body: list[Instruction], fresh: FreshNames) -> list[Instruction] | None:
    """`(s + x) + c`, right after s + x: `s + (x + c)`, side by side."""
    if item.op is not Op.ADD or not isinstance(item.operands[1], LinkValue) or not body or item.dest is None:
        return None
    inner = body[-1]
    s, x = (*inner.operands, ZERO, ZERO)[:2]
    if inner.op is not Op.ADD or inner.dest != item.operands[0] or inner.dest in inner.uses:
        return None
    if isinstance(s, LinkValue) or isinstance(x, LinkValue):
        return None
    near = Register(fresh.like(item.dest.name))
    return [replace(item, dest=near, operands=(x, item.operands[1])), replace(item, operands=(s, near))]
