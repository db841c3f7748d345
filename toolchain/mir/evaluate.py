"""What each operation computes, on Python integers: the definition the folder and the interpreters share."""

from collections.abc import Callable

from toolchain.mir.affine import MASK
from toolchain.mir.isa import MulOp, Op


def signed(value: int) -> int:
    """A 32-bit pattern as a two's complement number."""
    return value - (1 << 32) if value >> 31 else value


def _shr_s(a: int, b: int) -> int:
    return (signed(a) >> min(b, 31)) & MASK


VALUES: dict[Op | MulOp, Callable[[int, int], int]] = {
    Op.ADD: lambda a, b: (a + b) & MASK,
    Op.SUB: lambda a, b: (a - b) & MASK,
    Op.MIN_U: min,
    Op.MAX_U: max,
    Op.MIN_S: lambda a, b: min(a, b, key=signed),
    Op.MAX_S: lambda a, b: max(a, b, key=signed),
    Op.SHL: lambda a, b: (a << b) & MASK if b < 32 else 0,
    Op.SHR_U: lambda a, b: a >> b if b < 32 else 0,
    Op.SHR_S: _shr_s,
    Op.POPC: lambda a, _: a.bit_count(),
    Op.CLZ: lambda a, _: 32 - a.bit_length(),
    Op.BREV: lambda a, _: int(f"{a:032b}"[::-1], 2),
    MulOp.LO: lambda a, b: (a * b) & MASK,
    MulOp.HI_U: lambda a, b: (a * b) >> 32,
    MulOp.HI_S: lambda a, b: ((signed(a) * signed(b)) >> 32) & MASK,
}
"""Operations that make a value of two values, or of the first alone. SEL and LOP need more."""

COMPARISONS: dict[Op, Callable[[int, int], bool]] = {
    Op.SET_EQ: lambda a, b: a == b,
    Op.SET_NE: lambda a, b: a != b,
    Op.SET_LT_U: lambda a, b: a < b,
    Op.SET_GE_U: lambda a, b: a >= b,
    Op.SET_LT_S: lambda a, b: signed(a) < signed(b),
    Op.SET_GE_S: lambda a, b: signed(a) >= signed(b),
}


def lop(a: int, b: int, table: int) -> int:
    """Bit 2 * a + b of the table, bit by bit."""
    na, nb = a ^ MASK, b ^ MASK
    cases = (na & nb, na & b, a & nb, a & b)
    return sum(case for index, case in enumerate(cases) if table >> index & 1)


def plop(a: bool, b: bool, table: int) -> bool:
    return bool(table >> (2 * a + b) & 1)
