"""Intervals of unsigned 32-bit values: what operations, constants and comparisons say about them."""

from collections.abc import Callable

from toolchain.machine_spec import MachineSpec
from toolchain.mir.affine import MASK
from toolchain.mir.ir import Function, Instruction, MirOp
from toolchain.mir.isa import MulOp, Op
from toolchain.mir.rom import LinkValue

Interval = tuple[int, int]
"""(lowest, highest), both included."""
FULL: Interval = (0, MASK)
POSITIVE = (1 << 31) - 1


def of_special(name: str, spec: MachineSpec) -> Interval:
    """Thread indices are below the threads of a block, block indices below the thread blocks of a launch."""
    kind = name.split(".")[0]
    counts = {"tid": spec.threads, "ctaid": spec.thread_blocks, "laneid": spec.lanes, "warpid": spec.warps}
    return 0, counts[kind] - 1


def of_link_value(value: LinkValue, function: Function, spec: MachineSpec) -> Interval:
    """Pointers are byte addresses inside memory (or just past it), extents are what the machine can hold."""
    limits = {f"param.{item.word}": 4 * spec.memory_words for item in function.parameters if item.pointer}
    limits |= {f"global.{item.name}": 4 * spec.memory_words for item in function.variables}
    limits |= {"local.base": 4 * spec.shared_words, "local.words": spec.shared_words}
    low = high = value.addend
    for name, factor in value.terms:
        if name.startswith("ntid."):
            least, most = 1, spec.threads
        elif name.startswith("nctaid."):
            least, most = 1, spec.thread_blocks
        else:
            least, most = 0, limits.get(name, MASK)
        low += min(factor * least, factor * most)
        high += max(factor * least, factor * most)
    if low < 0 or high > MASK:
        return 0, MASK >> value.shift
    return low >> value.shift, high >> value.shift


def result(item: Instruction, operands: list[Interval]) -> Interval:
    """The interval of an operation's result, from its operands' intervals."""
    a, b = (*operands, operands[0])[:2]
    if item.op is MirOp.MOV:
        return a
    if item.op is Op.LOP:
        return _lop(item.table, a, b)
    rule = RULES.get(item.op)
    return FULL if rule is None else rule(a, b)


def _lop(table: int, a: Interval, b: Interval) -> Interval:
    """Bits of the result are bits of an operand unless two zeros make a one."""
    if table & 1:
        return FULL
    if not table & 0x2:
        return (0, min(a[1], b[1])) if not table & 0x4 else (0, a[1])
    if not table & 0x4:
        return 0, b[1]
    return 0, (1 << max(a[1].bit_length(), b[1].bit_length())) - 1


def _add(a: Interval, b: Interval) -> Interval:
    low, high = a[0] + b[0], a[1] + b[1]
    if high <= MASK:
        return low, high
    return (low - MASK - 1, high - MASK - 1) if low > MASK else FULL


def _sub(a: Interval, b: Interval) -> Interval:
    return (a[0] - b[1], a[1] - b[0]) if a[0] >= b[1] else FULL


def _union(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), max(a[1], b[1])


def _min(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), min(a[1], b[1])


def _max(a: Interval, b: Interval) -> Interval:
    return max(a[0], b[0]), max(a[1], b[1])


def _if_positive(rule: Callable[[Interval, Interval], Interval]) -> Callable[[Interval, Interval], Interval]:
    """A signed operation on operands that are not negative is the unsigned one."""
    return lambda a, b: rule(a, b) if max(a[1], b[1]) <= POSITIVE else FULL


def _max_signed(a: Interval, b: Interval) -> Interval:
    if max(a[1], b[1]) <= POSITIVE:
        return _max(a, b)
    sides = [side for side in (a, b) if side[1] <= POSITIVE]
    return (sides[0][0], POSITIVE) if sides else FULL


def _shl(a: Interval, b: Interval) -> Interval:
    return (a[0] << b[0], a[1] << b[1]) if b[1] < 32 and a[1] << b[1] <= MASK else FULL


def _shr(a: Interval, b: Interval) -> Interval:
    return a[0] >> min(b[1], 32), a[1] >> min(b[0], 32)


def _shr_signed(a: Interval, b: Interval) -> Interval:
    return _shr(a, b) if a[1] <= POSITIVE else FULL


def _mul(a: Interval, b: Interval) -> Interval:
    return (a[0] * b[0], a[1] * b[1]) if a[1] * b[1] <= MASK else FULL


def _mul_high(a: Interval, b: Interval) -> Interval:
    return a[0] * b[0] >> 32, a[1] * b[1] >> 32


def _count(a: Interval, b: Interval) -> Interval:
    return 0, 32


RULES: dict[object, Callable[[Interval, Interval], Interval]] = {
    Op.ADD: _add,
    Op.SUB: _sub,
    Op.SEL: _union,
    Op.MIN_U: _min,
    Op.MAX_U: _max,
    Op.MIN_S: _if_positive(_min),
    Op.MAX_S: _max_signed,
    Op.SHL: _shl,
    Op.SHR_U: _shr,
    Op.SHR_S: _shr_signed,
    Op.POPC: _count,
    Op.CLZ: _count,
    MulOp.LO: _mul,
    MulOp.HI_U: _mul_high,
    MulOp.HI_S: _if_positive(_mul_high),
}

_NEGATED = {Op.SET_NE: Op.SET_EQ, Op.SET_GE_U: Op.SET_LT_U, Op.SET_GE_S: Op.SET_LT_S}


def refine(op: Op, holds: bool, a: Interval, b: Interval) -> tuple[Interval, Interval]:
    """What a comparison that holds (or not) says of its operands. An impossible one says nothing."""
    if op in _NEGATED:
        op, holds = _NEGATED[op], not holds
    if op is Op.SET_EQ:
        return _equal(a, b) if holds else (_unequal(a, b), _unequal(b, a))
    if op is Op.SET_LT_S and max(a[1], b[1]) > POSITIVE:
        return a, b
    low, high = (a, b) if holds else (b, a)
    strict = 1 if holds else 0
    below = (low[0], min(low[1], high[1] - strict))
    above = (max(high[0], low[0] + strict), high[1])
    if below[0] > below[1] or above[0] > above[1]:
        return a, b
    return (below, above) if holds else (above, below)


def _equal(a: Interval, b: Interval) -> tuple[Interval, Interval]:
    both = (max(a[0], b[0]), min(a[1], b[1]))
    return (both, both) if both[0] <= both[1] else (a, b)


def _unequal(a: Interval, b: Interval) -> Interval:
    """a without b's value, where b has one and it is an end of a."""
    if b[0] != b[1] or a[0] == a[1]:
        return a
    return (a[0] + (a[0] == b[0]), a[1] - (a[1] == b[0]))
