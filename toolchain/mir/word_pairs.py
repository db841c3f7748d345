"""64-bit arithmetic on pairs of 32-bit words (low, high): what the lowerings of 64-bit PTX build on.

Shift amounts count in full: the machine's shifts give 0 (or the sign) beyond 31, so `shl x, 32 - n` is 0 for
n = 0 and for n > 32, and no amount is a special case.
"""

from toolchain.mir.affine import constant, is_constant, number
from toolchain.mir.ir import TRUE, ZERO, Predicate, Value
from toolchain.mir.isa import MulOp, Op
from toolchain.mir.lowering import AND, NOT, OR, XOR, Lowering, Pair
from toolchain.mir.rom import LinkValue

ZERO_PAIR: Pair = (ZERO, ZERO)
WORD = constant(32)


def wide_constant(value: int) -> Pair:
    """The low 64 bits of a number."""
    return constant(value), constant(value >> 32)


def word_test(lowering: Lowering, op: Op, a: Value, b: Value) -> Predicate:
    """A comparison of two words."""
    test = lowering.fresh_predicate()
    lowering.emit(op, test, a, b)
    return test


def choose(lowering: Lowering, test: Predicate, yes: Value, no: Value) -> Value:
    """test ? yes : no."""
    dest = lowering.fresh()
    lowering.emit(Op.SEL, dest, yes, no, predicate=test)
    return dest


def choose_pair(lowering: Lowering, test: Predicate, yes: Pair, no: Pair) -> Pair:
    return choose(lowering, test, yes[0], no[0]), choose(lowering, test, yes[1], no[1])


# Sums.


def add_words(
    lowering: Lowering, a: Value, b: Value, carry: Predicate | None = None
) -> tuple[Value, Predicate]:
    """a + b + carry: the word, and the carry out."""
    plain = lowering.compute(Op.ADD, a, b)
    over = word_test(lowering, Op.SET_LT_U, plain, b)
    if carry is None:
        return plain, over
    total = choose(lowering, carry, lowering.compute(Op.ADD, plain, constant(1)), plain)
    full = word_test(lowering, Op.SET_EQ, plain, constant(-1))
    return total, lowering.logic(OR, over, lowering.logic(AND, carry, full))


def subtract_words(
    lowering: Lowering, a: Value, b: Value, borrow: Predicate | None = None
) -> tuple[Value, Predicate]:
    """a - b - borrow: the word, and the borrow out."""
    plain = lowering.compute(Op.SUB, a, b)
    under = word_test(lowering, Op.SET_LT_U, a, b)
    if borrow is None:
        return plain, under
    total = choose(lowering, borrow, lowering.compute(Op.ADD, plain, constant(-1)), plain)
    empty = word_test(lowering, Op.SET_EQ, plain, ZERO)
    return total, lowering.logic(OR, under, lowering.logic(AND, borrow, empty))


def add(lowering: Lowering, a: Pair, b: Pair) -> Pair:
    """a + b."""
    if ZERO in (a[0], b[0]):
        return lowering.compute(Op.ADD, a[0], b[0]), lowering.compute(Op.ADD, a[1], b[1])
    low, carry = add_words(lowering, a[0], b[0])
    high = lowering.compute(Op.ADD, a[1], b[1])
    return low, choose(lowering, carry, lowering.compute(Op.ADD, high, constant(1)), high)


def subtract(lowering: Lowering, a: Pair, b: Pair) -> Pair:
    """a - b."""
    low, borrow = subtract_words(lowering, a[0], b[0])
    high = lowering.compute(Op.SUB, a[1], b[1])
    return low, choose(lowering, borrow, lowering.compute(Op.ADD, high, constant(-1)), high)


def negate(lowering: Lowering, a: Pair) -> Pair:
    """-a: the complement of the high word, and one more where the low word is zero."""
    low = lowering.compute(Op.SUB, ZERO, a[0])
    empty = word_test(lowering, Op.SET_EQ, a[0], ZERO)
    minus = lowering.compute(Op.SUB, ZERO, a[1])
    return low, choose(lowering, empty, minus, lowering.compute(Op.ADD, minus, constant(-1)))


def magnitude(lowering: Lowering, a: Pair) -> Pair:
    """|a|; the lowest number stays itself."""
    return choose_pair(lowering, is_negative(lowering, a[1]), negate(lowering, a), a)


def is_negative(lowering: Lowering, high: Value) -> Predicate:
    return word_test(lowering, Op.SET_LT_S, high, ZERO)


# Products.


def product(lowering: Lowering, a: Value, b: Value, *, is_signed: bool) -> Pair:
    """All 64 bits of the product of two words."""
    high = MulOp.HI_S if is_signed else MulOp.HI_U
    return lowering.compute(MulOp.LO, a, b), lowering.compute(high, a, b)


def multiply(lowering: Lowering, a: Pair, b: Pair) -> Pair:
    """The low 64 bits of a * b."""
    low, high = product(lowering, a[0], b[0], is_signed=False)
    for one, other in ((a[0], b[1]), (a[1], b[0])):
        if ZERO not in (one, other):
            high = lowering.compute(Op.ADD, high, lowering.compute(MulOp.LO, one, other))
    return low, high


def multiply_high(lowering: Lowering, a: Pair, b: Pair, *, is_signed: bool) -> Pair:
    """The high 64 bits of the 128 of a * b: schoolbook, then each negative factor takes the other off."""
    _, carried = product(lowering, a[0], b[0], is_signed=False)
    first = add(lowering, product(lowering, a[1], b[0], is_signed=False), (carried, ZERO))
    second = add(lowering, product(lowering, a[0], b[1], is_signed=False), (first[0], ZERO))
    high = add(lowering, product(lowering, a[1], b[1], is_signed=False), (first[1], ZERO))
    high = add(lowering, high, (second[1], ZERO))
    if is_signed:
        for one, other in ((a, b), (b, a)):
            off = choose_pair(lowering, is_negative(lowering, one[1]), other, ZERO_PAIR)
            high = subtract(lowering, high, off)
    return high


# Bits.


def bitwise(lowering: Lowering, table: int, a: Pair, b: Pair) -> Pair:
    """A function of two bits on each bit: 2 * a + b indexes the table."""
    low, high = (lowering.compute(Op.LOP, x, y, table=table) for x, y in zip(a, b, strict=True))
    return low, high


def complement(lowering: Lowering, a: Pair) -> Pair:
    return bitwise(lowering, NOT, a, ZERO_PAIR)


def shift_left(lowering: Lowering, a: Pair, amount: Value) -> Pair:
    """a << amount; 0 from 64 on."""
    if isinstance(amount, LinkValue) and is_constant(amount):
        return _shift_left_by(lowering, a, min(number(amount), 64))
    beyond = lowering.compute(Op.ADD, amount, constant(-32))
    rest = lowering.compute(Op.SUB, WORD, amount)
    kept = lowering.compute(Op.SHL, a[1], amount)
    near = lowering.compute(Op.ADD, kept, lowering.compute(Op.SHR_U, a[0], rest))
    far = lowering.compute(Op.SHL, a[0], beyond)
    is_near = word_test(lowering, Op.SET_LT_U, amount, WORD)
    return lowering.compute(Op.SHL, a[0], amount), choose(lowering, is_near, near, far)


def _shift_left_by(lowering: Lowering, a: Pair, amount: int) -> Pair:
    if amount == 0:
        return a
    if amount >= 32:
        return ZERO, lowering.compute(Op.SHL, a[0], constant(amount - 32))
    kept = lowering.compute(Op.SHL, a[1], constant(amount))
    crossing = lowering.compute(Op.SHR_U, a[0], constant(32 - amount))
    return lowering.compute(Op.SHL, a[0], constant(amount)), lowering.compute(Op.ADD, kept, crossing)


def shift_right(lowering: Lowering, a: Pair, amount: Value, *, is_signed: bool) -> Pair:
    """a >> amount; 0 from 64 on, or the sign."""
    shift = Op.SHR_S if is_signed else Op.SHR_U
    if isinstance(amount, LinkValue) and is_constant(amount):
        return _shift_right_by(lowering, a, min(number(amount), 64), shift)
    beyond = lowering.compute(Op.ADD, amount, constant(-32))
    rest = lowering.compute(Op.SUB, WORD, amount)
    kept = lowering.compute(Op.SHR_U, a[0], amount)
    near = lowering.compute(Op.ADD, kept, lowering.compute(Op.SHL, a[1], rest))
    far = lowering.compute(shift, a[1], beyond)
    is_near = word_test(lowering, Op.SET_LT_U, amount, WORD)
    return choose(lowering, is_near, near, far), lowering.compute(shift, a[1], amount)


def _shift_right_by(lowering: Lowering, a: Pair, amount: int, shift: Op) -> Pair:
    if amount == 0:
        return a
    if amount >= 32:
        low = lowering.compute(shift, a[1], constant(amount - 32))
        return low, lowering.compute(Op.SHR_S, a[1], constant(31)) if shift is Op.SHR_S else ZERO
    kept = lowering.compute(Op.SHR_U, a[0], constant(amount))
    crossing = lowering.compute(Op.SHL, a[1], constant(32 - amount))
    return lowering.compute(Op.ADD, kept, crossing), lowering.compute(shift, a[1], constant(amount))


def population_count(lowering: Lowering, a: Pair) -> Value:
    low, high = (lowering.compute(Op.POPC, word) for word in a)
    return lowering.compute(Op.ADD, low, high)


def leading_zeros(lowering: Lowering, a: Pair) -> Value:
    """64 for 0."""
    low, high = (lowering.compute(Op.CLZ, word) for word in a)
    empty = word_test(lowering, Op.SET_EQ, a[1], ZERO)
    return choose(lowering, empty, lowering.compute(Op.ADD, low, WORD), high)


def reverse(lowering: Lowering, a: Pair) -> Pair:
    return lowering.compute(Op.BREV, a[1]), lowering.compute(Op.BREV, a[0])


# Comparisons.


def equal(lowering: Lowering, a: Pair, b: Pair) -> Predicate:
    low, high = (word_test(lowering, Op.SET_EQ, x, y) for x, y in zip(a, b, strict=True))
    return lowering.logic(AND, low, high)


def less(lowering: Lowering, a: Pair, b: Pair, *, is_signed: bool) -> Predicate:
    """a < b: by the high words, and where these are equal by the low ones."""
    high = word_test(lowering, Op.SET_LT_S if is_signed else Op.SET_LT_U, a[1], b[1])
    if b[0] == ZERO:
        return high
    tie = word_test(lowering, Op.SET_EQ, a[1], b[1])
    low = word_test(lowering, Op.SET_LT_U, a[0], b[0])
    return lowering.logic(OR, high, lowering.logic(AND, tie, low))


def inverse(lowering: Lowering, test: Predicate) -> Predicate:
    return lowering.logic(NOT, test, TRUE)


def differ_in_sign(lowering: Lowering, a: Value, b: Value) -> Predicate:
    """Whether the top bits of two words differ."""
    return is_negative(lowering, lowering.compute(Op.LOP, a, b, table=XOR))
