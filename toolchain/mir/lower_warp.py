"""What the lanes of a warp tell each other: shuffles, votes, matches, reductions (PTX ISA, "shfl.sync" and on).

A warp has `spec.lanes` lanes; the lanes above do not exist, so a shuffle from one of them is out of range and
gives the lane its own value. The lanes that execute an instruction are those of its member mask, as PTX demands
of a correct program; the mask itself is not looked at.
"""

from toolchain.mir.affine import constant, is_constant, number
from toolchain.mir.ir import TRUE, ZERO, Predicate, Register, Special, Value
from toolchain.mir.isa import Op
from toolchain.mir.lowering import AND, AND_NOT, NOT, OR, XOR, Lowering, refuse
from toolchain.mir.rom import LinkValue
from toolchain.ptx_frontend import ast

LANE = Special("laneid")
LANE_BITS = 31
"""PTX has lane numbers of five bits."""


def lane_mask(lowering: Lowering, name: str) -> Value:
    """%lanemask_eq, lt, le, gt, ge: the lanes of the warp that are so to this lane."""
    everyone = constant((1 << lowering.spec.lanes) - 1)
    own = lowering.compute(Op.SHL, constant(1), LANE)
    if name == "eq":
        return own
    if name in ("lt", "ge"):
        below = lowering.compute(Op.SUB, own, constant(1))
    else:
        below = lowering.compute(Op.SUB, lowering.compute(Op.ADD, own, own), constant(1))
    return below if name in ("lt", "le") else lowering.compute(Op.LOP, everyone, below, table=AND_NOT)


def _parts(operand: ast.Operand) -> tuple[ast.Operand, ast.Operand | None]:
    return (operand.first, operand.second) if isinstance(operand, ast.Pair) else (operand, None)


def _define(lowering: Lowering, item: ast.Instruction, value: Value, dest: ast.Operand) -> None:
    if dest not in (ast.Register("_"), ast.Symbol("_")):
        lowering.define(item, value, dest)


# Shuffles.


def shuffle(lowering: Lowering, item: ast.Instruction) -> None:
    """shfl[.sync].{up,down,bfly,idx}.b32 d[|p], a, b, c: segment mask in bits 12:8 of c, clamp in bits 4:0."""
    mode = next((word for word in item.modifiers if word in ("up", "down", "bfly", "idx")), "")
    if not mode or "b32" not in item.modifiers:
        raise refuse(item, "is not a shuffle of 32 bits")
    value, b, c = (lowering.value(operand) for operand in item.operands[1:4])
    lane, valid = _source_lane(lowering, mode, b, c)
    first, second = _parts(item.operands[0])
    result = lowering.compute(Op.SHFL, value, lane)
    _define(lowering, item, result, first)
    if second is not None:
        lowering.define_test(item, valid, second)


def _source_lane(lowering: Lowering, mode: str, b: Value, c: Value) -> tuple[Value, Predicate]:
    """The lane that a shuffle reads, and whether it is in range; its own lane if not."""
    always = False
    if isinstance(c, LinkValue) and is_constant(c):
        known = isinstance(b, LinkValue) and is_constant(b)
        asked = (number(b) & LANE_BITS,) if known and isinstance(b, LinkValue) else range(LANE_BITS + 1)
        lanes = range(lowering.spec.lanes)
        sources = {(lane, by): _known_source(mode, lane, by, number(c)) for lane in lanes for by in asked}
        always = all(source in lanes for source in sources.values())
        if always and all(source == by % len(lanes) for (_, by), source in sources.items()):
            return b, TRUE
    lane, valid = _computed_source(lowering, mode, b, c)
    if always:
        return lane, TRUE
    chosen = lowering.fresh()
    lowering.emit(Op.SEL, chosen, lane, LANE, predicate=valid)
    return chosen, valid


def _known_source(mode: str, lane: int, b: int, c: int) -> int:
    """The lane that lane `lane` reads, -1 if that is out of range; the formula of the PTX ISA."""
    clamp, segment = c & LANE_BITS, c >> 8 & LANE_BITS
    lowest = lane & segment
    bound = lowest | (clamp & ~segment)
    match mode:
        case "up":
            return lane - b if lane - b >= bound else -1
        case "down":
            source = lane + b
        case "bfly":
            source = lane ^ b
        case _:
            source = lowest | (b & ~segment)
    return source if source <= bound else -1


def _computed_source(lowering: Lowering, mode: str, b: Value, c: Value) -> tuple[Value, Predicate]:
    """The same as instructions; lanes that the machine does not have are out of range."""
    low = constant(LANE_BITS)
    b = lowering.compute(Op.LOP, b, low, table=AND)
    clamp = lowering.compute(Op.LOP, c, low, table=AND)
    segment = lowering.compute(Op.LOP, lowering.compute(Op.SHR_U, c, constant(8)), low, table=AND)
    lowest = lowering.compute(Op.LOP, LANE, segment, table=AND)
    inside = lowering.compute(Op.LOP, clamp, segment, table=AND_NOT)
    bound = lowering.compute(Op.LOP, lowest, inside, table=OR)
    valid = lowering.fresh_predicate()
    if mode == "up":
        source = lowering.compute(Op.SUB, LANE, b)
        lowering.emit(Op.SET_GE_S, valid, source, bound)
        return source, valid
    if mode == "down":
        source = lowering.compute(Op.ADD, LANE, b)
    elif mode == "bfly":
        source = lowering.compute(Op.LOP, LANE, b, table=XOR)
    else:
        source = lowering.compute(
            Op.LOP, lowest, lowering.compute(Op.LOP, b, segment, table=AND_NOT), table=OR
        )
    last = lowering.compute(Op.MIN_U, bound, constant(lowering.spec.lanes - 1))
    lowering.emit(Op.SET_GE_U, valid, last, source)
    return source, valid


# Votes and matches.


def _executing(lowering: Lowering, item: ast.Instruction) -> Predicate:
    """Holds in the lanes that execute a PTX instruction."""
    if item.guard is None:
        return TRUE
    guard = lowering.predicate(item.guard.register)
    return lowering.logic(NOT, guard) if item.guard.negated else guard


def _ballot(lowering: Lowering, vote: Predicate) -> Register:
    dest = lowering.fresh()
    lowering.emit(Op.BALLOT, dest, predicate=vote)
    return dest


def _is_zero(lowering: Lowering, value: Value, test: Op = Op.SET_EQ) -> Predicate:
    flag = lowering.fresh_predicate()
    lowering.emit(test, flag, value, ZERO)
    return flag


def vote(lowering: Lowering, item: ast.Instruction) -> None:
    """vote[.sync].{all,any,uni}.pred p, q; vote[.sync].ballot.b32 d, q."""
    dest, operand = item.operands[:2]
    executing = _executing(lowering, item)
    cast = lowering.test(operand)
    votes = _ballot(lowering, lowering.logic(AND, executing, cast))
    if "ballot" in item.modifiers:
        lowering.define(item, votes)
        return
    if "any" in item.modifiers:
        lowering.define_test(item, _is_zero(lowering, votes, Op.SET_NE), dest)
        return
    unanimous = _is_zero(lowering, _ballot(lowering, lowering.logic(AND_NOT, executing, cast)))
    if "uni" in item.modifiers:
        unanimous = lowering.logic(OR, unanimous, _is_zero(lowering, votes))
    lowering.define_test(item, unanimous, dest)


def active_mask(lowering: Lowering, item: ast.Instruction) -> None:
    """activemask.b32 d."""
    lowering.define(item, _ballot(lowering, _executing(lowering, item)))


def match(lowering: Lowering, item: ast.Instruction) -> None:
    """match.any.sync d, a: the executing lanes with this lane's value; match.all.sync d[|p]: all of them or none."""
    words = (
        lowering.pair(item.operands[1]) if "b64" in item.modifiers else (lowering.value(item.operands[1]),)
    )
    here = _ballot(lowering, _executing(lowering, item))
    same: Value = ZERO
    for lane in range(lowering.spec.lanes):
        bit = lowering.fresh()
        lowering.emit(Op.SEL, bit, constant(1 << lane), ZERO, predicate=_equals_lane(lowering, words, lane))
        same = lowering.compute(Op.ADD, same, bit)
    same = lowering.compute(Op.LOP, same, here, table=AND)
    first, second = _parts(item.operands[0])
    if "all" not in item.modifiers:
        _define(lowering, item, same, first)
        return
    unanimous, result = lowering.fresh_predicate(), lowering.fresh()
    lowering.emit(Op.SET_EQ, unanimous, same, here)
    lowering.emit(Op.SEL, result, here, ZERO, predicate=unanimous)
    _define(lowering, item, result, first)
    if second is not None:
        lowering.define_test(item, unanimous, second)


def _equals_lane(lowering: Lowering, words: tuple[Value, ...], lane: int) -> Predicate:
    """Whether this lane's words are those of another lane."""
    equal = TRUE
    for word in words:
        flag = lowering.fresh_predicate()
        lowering.emit(Op.SET_EQ, flag, word, lowering.compute(Op.SHFL, word, constant(lane)))
        equal = flag if equal == TRUE else lowering.logic(AND, equal, flag)
    return equal


# Reductions.

SIGN = 1 << 31
REDUCTIONS: dict[str, tuple[Op, int, int]] = {
    "add": (Op.ADD, 0, 0),
    "and": (Op.LOP, AND, -1),
    "or": (Op.LOP, OR, 0),
    "xor": (Op.LOP, XOR, 0),
    "min.u32": (Op.MIN_U, 0, -1),
    "max.u32": (Op.MAX_U, 0, 0),
    "min.s32": (Op.MIN_S, 0, SIGN - 1),
    "max.s32": (Op.MAX_S, 0, SIGN),
}
"""Reduction: the operation, its table if it has one, and the value that changes nothing."""


def reduce(lowering: Lowering, item: ast.Instruction) -> None:
    """redux.sync.op.type d, a: over the executing lanes."""
    name, kind = item.modifiers[1], item.modifiers[-1]
    operation = REDUCTIONS.get(name) or REDUCTIONS.get(f"{name}.{kind}")
    if operation is None:
        raise refuse(item, "is a reduction the machine does not have")
    op, table, neutral = operation
    value = lowering.value(item.operands[1])
    here = _ballot(lowering, _executing(lowering, item))
    total: Value = constant(neutral)
    for lane in range(lowering.spec.lanes):
        bit = lowering.compute(Op.LOP, here, constant(1 << lane), table=AND)
        part = lowering.fresh()
        lowering.emit(
            Op.SEL,
            part,
            lowering.compute(Op.SHFL, value, constant(lane)),
            constant(neutral),
            predicate=_is_zero(lowering, bit, Op.SET_NE),
        )
        total = lowering.compute(op, total, part, table=table)
    lowering.define(item, total)
