"""div and rem of 64 bits: long division in a loop, a bit of the quotient each time round.

The loop begins where the divisor stands under the dividend's highest bit, so it goes round once for each bit
that the quotient can have: compilers call it for large numbers only, and divide small ones in 32 bits.
"""

from collections.abc import Callable
from dataclasses import dataclass

from toolchain.mir import word_pairs
from toolchain.mir.affine import constant
from toolchain.mir.ir import ZERO, Branch, MirOp, Register
from toolchain.mir.isa import Op
from toolchain.mir.lowering import Lowering, Pair
from toolchain.mir.word_pairs import ZERO_PAIR, choose, choose_pair, word_test
from toolchain.ptx_frontend import ast

BITS = constant(64)
ALL_ONES: Pair = word_pairs.wide_constant(-1)


@dataclass(frozen=True)
class _State:
    """The loop's registers: what is left of the dividend, the bits yet to bring down above the quotient so far,
    and how many are left."""

    rest: tuple[Register, Register]
    bits: tuple[Register, Register]
    count: Register


def divide(lowering: Lowering, n: Pair, d: Pair) -> tuple[Pair, Pair]:
    """n / d and n % d, unsigned; by zero whatever comes out. Ends the open block."""
    state = _State(
        (lowering.fresh(), lowering.fresh()), (lowering.fresh(), lowering.fresh()), lowering.fresh()
    )
    _begin(lowering, state, n, d)
    loop, done = lowering.fresh_label(), lowering.fresh_label()
    none = word_test(lowering, Op.SET_EQ, state.count, ZERO)
    lowering.end(Branch(none, done, loop, lowering.source))
    lowering.start(loop)
    _bring_down(lowering, state, d)
    again = word_test(lowering, Op.SET_NE, state.count, ZERO)
    lowering.end(Branch(again, loop, done, lowering.source))
    lowering.start(done)
    return state.bits, state.rest


def _set(lowering: Lowering, names: tuple[Register, Register], pair: Pair) -> None:
    for name, word in zip(names, pair, strict=True):
        lowering.emit(MirOp.MOV, name, word)


def _begin(lowering: Lowering, state: _State, n: Pair, d: Pair) -> None:
    """As many steps as n has bits more than d, and one: d cannot be taken from what is above them."""
    zeros_n, zeros_d = (word_pairs.leading_zeros(lowering, pair) for pair in (n, d))
    more = lowering.compute(Op.ADD, lowering.compute(Op.SUB, zeros_d, zeros_n), constant(1))
    count = lowering.compute(Op.MAX_S, more, ZERO)
    lowering.emit(MirOp.MOV, state.count, count)
    _set(lowering, state.rest, word_pairs.shift_right(lowering, n, count, is_signed=False))
    above = lowering.compute(Op.SUB, BITS, count)
    _set(lowering, state.bits, word_pairs.shift_left(lowering, n, above))


def _bring_down(lowering: Lowering, state: _State, d: Pair) -> None:
    """One step: the next bit comes down; where d can be taken off, it is, and the quotient gets a one."""
    rest = word_pairs.shift_left(lowering, state.rest, constant(1))
    top = lowering.compute(Op.SHR_U, state.bits[1], constant(31))
    rest = lowering.compute(Op.ADD, rest[0], top), rest[1]
    low, borrow = word_pairs.subtract_words(lowering, rest[0], d[0])
    high, below = word_pairs.subtract_words(lowering, rest[1], d[1], borrow)
    bits = word_pairs.shift_left(lowering, state.bits, constant(1))
    longer = lowering.compute(Op.ADD, bits[0], choose(lowering, below, ZERO, constant(1)))
    _set(lowering, state.rest, choose_pair(lowering, below, rest, (low, high)))
    _set(lowering, state.bits, (longer, bits[1]))
    lowering.emit(Op.ADD, state.count, state.count, constant(-1))


def _division(lowering: Lowering, item: ast.Instruction, kind: str) -> Pair:
    """div, rem of 64 bits. The remainder has the sign of the dividend; by zero both are all ones."""
    n, d = (lowering.pair(operand) for operand in item.operands[1:3])
    sizes = (n, d)
    if kind.startswith("s"):
        sizes = word_pairs.magnitude(lowering, n), word_pairs.magnitude(lowering, d)
    quotient, remainder = divide(lowering, *sizes)
    result = quotient if item.opcode == "div" else remainder
    if kind.startswith("s"):
        if item.opcode == "div":
            negative = word_pairs.differ_in_sign(lowering, n[1], d[1])
        else:
            negative = word_pairs.is_negative(lowering, n[1])
        result = choose_pair(lowering, negative, word_pairs.negate(lowering, result), result)
    by_zero = word_pairs.equal(lowering, d, ZERO_PAIR)
    return choose_pair(lowering, by_zero, ALL_ONES, result)


HANDLERS: dict[str, Callable[[Lowering, ast.Instruction, str], Pair]] = {"div": _division, "rem": _division}
