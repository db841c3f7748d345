"""New names for the registers, labels and variables of an instruction."""

from collections.abc import Mapping
from dataclasses import replace

from toolchain.ptx_frontend.ast import (
    Address,
    Group,
    Guard,
    Instruction,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)


def rename_instruction(instruction: Instruction, names: Mapping[str, str]) -> Instruction:
    """The instruction with every name that `names` knows replaced."""
    guard = instruction.guard
    if guard is not None:
        guard = Guard(names.get(guard.register, guard.register), guard.negated)
    operands = tuple(rename_operand(operand, names) for operand in instruction.operands)
    return replace(instruction, operands=operands, guard=guard)


def rename_operand(operand: Operand, names: Mapping[str, str]) -> Operand:
    """The operand with every name that `names` knows replaced."""
    match operand:
        case Register(name):
            return Register(names.get(name, name))
        case Symbol(name, offset):
            return Symbol(names.get(name, name), offset)
        case Address(Register() | Symbol() as base, offset):
            renamed = rename_operand(base, names)
            assert isinstance(renamed, Register | Symbol)
            return Address(renamed, offset)
        case Negated(register):
            return Negated(Register(names.get(register.name, register.name)))
        case Pair(first, second):
            return Pair(rename_operand(first, names), rename_operand(second, names))
        case Vector(elements):
            return Vector(tuple(rename_operand(element, names) for element in elements))
        case Group(elements):
            return Group(tuple(rename_operand(element, names) for element in elements))
    return operand
