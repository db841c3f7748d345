"""div and rem of 8 to 32 bits by variables: an estimate of the quotient from multiplications, then one correction.

Let the divisor d have k + 1 bits, so that d = 2**k * (1 + V) with 0 <= V < 1. Then n / d is n / (1 + V),
shifted right by k, and

    1 / (1 + V) = (1 - V / 2) / (1 + f)      where f = V * (1 - V) / 2 <= 1 / 8
    1 / (1 + f) = (1 - f + f**2) * (1 - f**3) * (1 + f**6), but for a factor of 1 - f**12

V, f and its powers are 32-bit fractions, so a factor is one `mul.hi`. Where V has few bits they are exact, and
five products are cut off to integers, which is off by less than 3; where V has many bits d is large, and their
own rounding disappears in the shift by k. Powers of two have f = 0, and nothing is rounded. So the estimate is
the quotient or one off it; tests/test_division.py holds that on what is hardest.

Left open by the PTX ISA, and done as NVIDIA's hardware does: quotient and remainder by zero are all ones.
"""

from collections.abc import Callable
from dataclasses import dataclass

from toolchain.mir.affine import constant, is_constant, number
from toolchain.mir.ir import ZERO, Value
from toolchain.mir.isa import MulOp, Op
from toolchain.mir.lowering import OR, XOR, Lowering
from toolchain.mir.rom import LinkValue
from toolchain.mir.word_pairs import choose, is_negative, word_test
from toolchain.ptx_frontend import ast

ALL_ONES = constant(-1)
ONE = constant(1)


@dataclass(frozen=True)
class Division:
    """Both results; what is not used is removed as dead code."""

    quotient: Value
    remainder: Value


def divide(lowering: Lowering, n: Value, d: Value, *, bits: int) -> Division:
    """n / d and n % d, unsigned, of operands of up to `bits` bits; by zero whatever comes out."""
    guess = _estimate(lowering, n, d, precise=bits > 16)
    product = lowering.compute(MulOp.LO, guess, d)
    rest = lowering.compute(Op.SUB, n, product)
    over = word_test(lowering, Op.SET_LT_U, n, product)
    if bits == 32:
        carried = lowering.compute(MulOp.HI_U, guess, d)
        over = lowering.logic(OR, over, word_test(lowering, Op.SET_NE, carried, ZERO))
    under = word_test(lowering, Op.SET_GE_U, rest, d)
    more, less = (lowering.compute(Op.ADD, guess, constant(by)) for by in (1, -1))
    taken, given = lowering.compute(Op.SUB, rest, d), lowering.compute(Op.ADD, rest, d)
    return Division(
        choose(lowering, over, less, choose(lowering, under, more, guess)),
        choose(lowering, over, given, choose(lowering, under, taken, rest)),
    )


def _estimate(lowering: Lowering, n: Value, d: Value, *, precise: bool) -> Value:
    """The quotient or one off it. `precise` takes the factor 1 + f**6, without which it has 18 bits."""

    def product(a: Value, b: Value) -> Value:
        return lowering.compute(MulOp.HI_U, a, b)

    zeros = lowering.compute(Op.CLZ, d)
    fraction = lowering.compute(Op.SHL, lowering.compute(Op.ADD, d, d), zeros)
    half = lowering.compute(Op.SHR_U, fraction, ONE)
    square = lowering.compute(Op.SHR_U, product(fraction, fraction), ONE)
    f = lowering.compute(Op.SUB, half, square)
    f2 = product(f, f)
    f3 = product(f, f2)
    result = lowering.compute(Op.SUB, n, product(n, half))
    smaller = lowering.compute(Op.SUB, result, product(result, f))
    result = lowering.compute(Op.ADD, smaller, product(result, f2))
    result = lowering.compute(Op.SUB, result, product(result, f3))
    if precise:
        f6 = lowering.compute(Op.MIN_U, product(f3, f3), constant(0xFFFF))  # it fits 16 bits: say so
        result = lowering.compute(Op.ADD, result, product(result, f6))
    return lowering.compute(Op.SHR_U, result, lowering.compute(Op.SUB, constant(31), zeros))


def divide_signed(lowering: Lowering, n: Value, d: Value, *, bits: int) -> Division:
    """The same of signed operands: the quotient is rounded toward zero, the remainder has n's sign."""
    size_n, size_d = (
        lowering.compute(Op.MAX_S, value, lowering.compute(Op.SUB, ZERO, value)) for value in (n, d)
    )
    # max.s of the lowest number is its negation, the same number: as unsigned, its size. Sizes have 31 bits but
    # for that one, a power of two, so no product carries.
    sizes = divide(lowering, size_n, size_d, bits=min(bits, 31))
    differ = is_negative(lowering, lowering.compute(Op.LOP, n, d, table=XOR))
    quotient = choose(lowering, differ, lowering.compute(Op.SUB, ZERO, sizes.quotient), sizes.quotient)
    negative = is_negative(lowering, n)
    minus = lowering.compute(Op.SUB, ZERO, sizes.remainder)
    return Division(quotient, choose(lowering, negative, minus, sizes.remainder))


def _division(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """div, rem of 16 and 32 bits."""
    n, d = (lowering.read(operand, kind) for operand in item.operands[1:3])
    signed, bits = kind.startswith("s"), ast.TYPE_BITS[kind]
    if isinstance(d, LinkValue) and is_constant(d) and number(d):
        result = divide_by_constant(lowering, n, number(d), is_signed=signed)
    else:
        result = (divide_signed if signed else divide)(lowering, n, d, bits=bits)
    value = result.quotient if item.opcode == "div" else result.remainder
    return choose(lowering, word_test(lowering, Op.SET_EQ, d, ZERO), ALL_ONES, value)


def divide_by_constant(lowering: Lowering, n: Value, d: int, *, is_signed: bool) -> Division:
    """n / d and n % d for a divisor that is known and not zero: a shift, or one product."""
    if not is_signed:
        quotient = _quotient_by_constant(lowering, n, d)
    else:
        size_d = min(d, -d & 0xFFFFFFFF)
        sign = lowering.compute(Op.SHR_S, n, constant(31))
        if size_d & (size_d - 1) == 0:  # rounded toward zero: size_d - 1 is added to a negative n
            shift = size_d.bit_length() - 1
            added = lowering.compute(Op.SHR_U, sign, constant(32 - shift))
            quotient = lowering.compute(Op.SHR_S, lowering.compute(Op.ADD, n, added), constant(shift))
        else:
            size_n = lowering.compute(Op.MAX_S, n, lowering.compute(Op.SUB, ZERO, n))
            size = _quotient_by_constant(lowering, size_n, size_d)
            quotient = lowering.compute(Op.SUB, lowering.compute(Op.LOP, size, sign, table=XOR), sign)
        if size_d != d or d == 1 << 31:
            quotient = lowering.compute(Op.SUB, ZERO, quotient)
    product = lowering.compute(MulOp.LO, quotient, constant(d))
    return Division(quotient, lowering.compute(Op.SUB, n, product))


def _quotient_by_constant(lowering: Lowering, n: Value, d: int) -> Value:
    """n / d, unsigned: n * (2**32 + m) >> (32 + shift), where 2**32 + m is 2**(32 + shift) / d, rounded up."""
    shift = (d - 1).bit_length()
    if d == 1 << shift:
        return lowering.compute(Op.SHR_U, n, constant(shift))
    m = -(-(1 << (32 + shift)) // d) - (1 << 32)
    part = lowering.compute(MulOp.HI_U, n, constant(m))
    half = lowering.compute(Op.SHR_U, lowering.compute(Op.SUB, n, part), ONE)
    return lowering.compute(Op.SHR_U, lowering.compute(Op.ADD, half, part), constant(shift - 1))


HANDLERS: dict[str, Callable[[Lowering, ast.Instruction, str], Value]] = {"div": _division, "rem": _division}
