"""PTX's integer conversions: cvt between all widths and signs, with and without saturation."""

from toolchain.mir.affine import constant
from toolchain.mir.ir import Value
from toolchain.mir.isa import Op
from toolchain.mir.lower_wide import extreme
from toolchain.mir.lowering import Lowering, Pair
from toolchain.mir.word_pairs import wide_constant
from toolchain.ptx_frontend import ast


def convert(lowering: Lowering, item: ast.Instruction, kind: str) -> Value | Pair:
    """cvt[.sat].to.from: extended as `from` says, clamped by .sat, cut and extended as `to` says."""
    to = next(word for word in item.modifiers if word in ast.TYPE_BITS)
    if "sat" in item.modifiers:
        return _saturated(lowering, item.operands[1], to, kind)
    if ast.TYPE_BITS[to] == 64:
        return lowering.read_pair(item.operands[1], kind)
    value = lowering.read(item.operands[1], kind)
    bits = ast.TYPE_BITS[to]
    if bits >= ast.TYPE_BITS[kind] and (bits >= 32 or not kind.startswith("s")):
        return value
    return lowering.field(value, 0, bits, is_signed=to.startswith("s")) if bits < 32 else value


def _range(kind: str) -> tuple[int, int]:
    """The lowest and highest number of a type."""
    bits = ast.TYPE_BITS[kind]
    if kind.startswith("s"):
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1


def _saturated(lowering: Lowering, operand: ast.Operand, to: str, kind: str) -> Value | Pair:
    """The operand, clamped to the range of `to` where its own reaches further."""
    (low, high), (lowest, highest) = _range(to), _range(kind)
    signed = kind.startswith("s")
    limits = [("max", low)] * (lowest < low) + [("min", high)] * (high < highest)
    if 64 in (ast.TYPE_BITS[to], ast.TYPE_BITS[kind]):
        pair = lowering.read_pair(operand, kind)
        for name, limit in limits:
            pair = extreme(lowering, name, pair, wide_constant(limit), is_signed=signed)
        return pair
    value = lowering.read(operand, kind)
    for name, limit in limits:
        op = {"max": Op.MAX_S if signed else Op.MAX_U, "min": Op.MIN_S if signed else Op.MIN_U}[name]
        value = lowering.compute(op, value, constant(limit))
    return value
