"""PTX arithmetic to the machine's operations: one method a family, found by opcode.

64-bit operations are kept where the low word of the result depends only on the low words of the operands.
Compilers narrow 32-bit arithmetic to 16 bits where the rest does not count; it is done on 32 bits here, its
operands extended and its result cut (`Lowering.read` and `define`).
"""

from collections.abc import Callable

from toolchain.mir.affine import constant, is_constant, number
from toolchain.mir.ir import ZERO, Predicate, Value
from toolchain.mir.isa import MulOp, Op
from toolchain.mir.lower_composed import HANDLERS as COMPOSED
from toolchain.mir.lower_composed import saturated
from toolchain.mir.lowering import AND, AND_NOT, COPY, NOT, OR, XOR, Lowering, refuse
from toolchain.mir.rom import LinkValue
from toolchain.ptx_frontend import ast

ALL_ONES = constant(-1)
Handler = Callable[[Lowering, ast.Instruction, str], Value]

TABLES = {"and": AND, "or": OR, "xor": XOR}
NEXT = {
    "div": "division is not in the machine yet; divide by powers of two with shifts",
    "rem": "division is not in the machine yet; use & for powers of two",
    "atom": "atomics are not in the machine yet",
    "red": "atomics are not in the machine yet",
    "bar": "barriers are not in the machine yet; use one warp",
    "barrier": "barriers are not in the machine yet; use one warp",
    "shfl": "warp operations are not in the machine yet",
    "vote": "warp operations are not in the machine yet",
    "match": "warp operations are not in the machine yet",
    "activemask": "warp operations are not in the machine yet",
    "call": "calls must be inlined: mark the function __forceinline__ and avoid recursion",
}
"""What to do instead of an opcode that is refused."""


def lower_arithmetic(lowering: Lowering, item: ast.Instruction) -> None:
    """One arithmetic instruction; raises CompileError if the machine has no way to do it."""
    kind = next((word for word in reversed(item.modifiers) if word in ast.TYPE_BITS), "")
    if kind.startswith(("f", "bf")):
        raise refuse(item, "is floating point", "the machine computes on 32-bit integers")
    if item.opcode == "setp":
        _setp(lowering, item, kind)
        return
    if kind == "pred":
        _predicate_logic(lowering, item)
        return
    handler = saturated if "sat" in item.modifiers else HANDLERS.get(item.opcode)
    if handler is None:
        raise refuse(
            item, "is not supported", NEXT.get(item.opcode, "see the list of instructions in the README")
        )
    _check_type(item, kind)
    lowering.define(item, handler(lowering, item, kind), fits=_fits_half(item, kind))


HALF = (
    "add",
    "sub",
    "mul",
    "mad",
    "and",
    "or",
    "xor",
    "not",
    "neg",
    "abs",
    "shl",
    "shr",
    "min",
    "max",
    "selp",
)
HALF += ("mov", "cvt")
"""Opcodes with 16-bit forms."""


def _fits_half(item: ast.Instruction, kind: str) -> bool:
    """Whether a 16-bit result has a zero upper half already, as its zero-extended operands have."""
    if item.opcode == "cvt":
        return ast.TYPE_BITS[item.modifiers[0]] <= 16 and not item.modifiers[0].startswith("s")
    return item.opcode in ("and", "or", "xor", "shr", "min", "max", "selp", "mov") and kind in ("u16", "b16")


LOW_WORD = ("add", "sub", "mov", "and", "or", "xor", "not", "neg", "shl", "selp", "cvta", "cvt")
"""Opcodes whose low result word depends on low words only; `mul` and `mad` too, but for their high forms."""


def _check_type(item: ast.Instruction, kind: str) -> None:
    types = [word for word in item.modifiers if word in ast.TYPE_BITS]
    extra = [word for word in item.modifiers if word not in ast.TYPE_BITS]
    if "cc" in extra or ("sat" in extra and item.opcode not in ("add", "sub")):
        raise refuse(item, "saturates or carries", "the machine wraps modulo 2**32")
    for name in types:
        bits = ast.TYPE_BITS[name]
        if bits == 32 or (bits == 16 and item.opcode in HALF) or (bits == 8 and item.opcode == "cvt"):
            continue
        low_word_only = item.opcode in LOW_WORD or (item.opcode in ("mul", "mad") and "lo" in extra)
        if bits != 64 or not low_word_only:
            raise refuse(item, f"computes on {name} data", "use 32-bit integers (int, unsigned)")


def _two(op: Op) -> Handler:
    def handler(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
        a, b = (lowering.read(operand, kind) for operand in item.operands[1:3])
        return lowering.compute(op, a, b)

    return handler


def _shift(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """shl, shr; the amount is a 32-bit operand in every form."""
    signed = Op.SHR_S if kind.startswith("s") else Op.SHR_U
    op = Op.SHL if item.opcode == "shl" else signed
    return lowering.compute(op, lowering.read(item.operands[1], kind), lowering.value(item.operands[2]))


def _one(op: Op) -> Handler:
    return lambda lowering, item, kind: lowering.compute(op, lowering.value(item.operands[1]))


def _by_sign(unsigned: Op, signed: Op) -> Handler:
    return lambda lowering, item, kind: _two(signed if kind.startswith("s") else unsigned)(
        lowering, item, kind
    )


def _copy(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    if item.opcode == "cvta" and "global" not in item.modifiers:
        raise refuse(
            item, "converts an address that is not global", "only global memory is in the machine yet"
        )
    return lowering.read(item.operands[1], kind)


def _convert(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """cvt.to.from: extended as `from` says, cut as `to` says."""
    value = lowering.read(item.operands[1], kind)
    to = item.modifiers[0]
    bits = ast.TYPE_BITS[to]
    if bits >= ast.TYPE_BITS[kind] and (bits >= 32 or not kind.startswith("s")):
        return value
    return lowering.field(value, 0, bits, is_signed=to.startswith("s")) if bits < 32 else value


def _logic(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    a, b = lowering.read(item.operands[1], kind), lowering.read(item.operands[2], kind)
    return lowering.compute(Op.LOP, a, b, table=TABLES[item.opcode])


def _not(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    return lowering.compute(Op.LOP, lowering.value(item.operands[1]), ZERO, table=NOT)


def _neg(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    return lowering.compute(Op.SUB, ZERO, lowering.read(item.operands[1], kind))


def _abs(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    value = lowering.read(item.operands[1], kind)
    return lowering.compute(Op.MAX_S, value, lowering.compute(Op.SUB, ZERO, value))


def _select(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    _, a, b, selector = item.operands
    swapped = isinstance(selector, ast.Negated)
    test = lowering.test(selector.operand if isinstance(selector, ast.Negated) else selector)
    first, second = lowering.read(a, kind), lowering.read(b, kind)
    dest = lowering.fresh()
    lowering.emit(Op.SEL, dest, *((second, first) if swapped else (first, second)), predicate=test)
    return dest


def _product(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    a, b = lowering.read(item.operands[1], kind), lowering.read(item.operands[2], kind)
    if "hi" in item.modifiers and ast.TYPE_BITS[kind] == 16:
        return lowering.compute(Op.SHR_U, lowering.compute(MulOp.LO, a, b), constant(16))
    if "hi" in item.modifiers:
        return lowering.compute(MulOp.HI_S if kind.startswith("s") else MulOp.HI_U, a, b)
    return lowering.compute(MulOp.LO, a, b)


def _multiply_add(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    product = _product(lowering, item, kind)
    return lowering.compute(Op.ADD, product, lowering.value(item.operands[3]))


def _funnel(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """shf.{l,r}.{wrap,clamp}: the middle of the pair b:a. Shifts by 32 give zero, so no case is special."""
    low, high, amount = (lowering.value(operand) for operand in item.operands[1:4])
    by: Value
    if is_constant(amount):
        assert isinstance(amount, LinkValue)
        count = number(amount)
        by = constant(count & 31 if "wrap" in item.modifiers else min(count, 32))
        rest: Value = constant(32 - number(by))
    else:
        if "wrap" in item.modifiers:
            by = lowering.compute(Op.LOP, amount, constant(31), table=AND)
        else:
            by = lowering.compute(Op.MIN_U, amount, constant(32))
        rest = lowering.compute(Op.SUB, constant(32), by)
    left, right = (by, rest) if "l" in item.modifiers else (rest, by)
    upper = lowering.compute(Op.SHL, high, left)
    return lowering.compute(Op.LOP, upper, lowering.compute(Op.SHR_U, low, right), table=OR)


def _constant_operand(lowering: Lowering, item: ast.Instruction, index: int) -> int:
    value = lowering.value(item.operands[index])
    if not is_constant(value):
        raise refuse(item, "has a field that is not constant", "use shifts and masks")
    assert isinstance(value, LinkValue)
    return number(value) & 0xFF


def _extract(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """bfe: a constant field as shifts or a mask; a variable unsigned one through a mask of shifted ones."""
    value, low, bits = (lowering.value(operand) for operand in item.operands[1:4])
    signed = kind.startswith("s")
    if signed or (is_constant(low) and is_constant(bits)):
        low, bits = _constant_operand(lowering, item, 2), _constant_operand(lowering, item, 3)
        return ZERO if bits == 0 else lowering.field(value, low, bits, is_signed=signed)
    byte = constant(0xFF)
    shifted = lowering.compute(Op.SHR_U, value, lowering.compute(Op.LOP, low, byte, table=AND))
    outside = lowering.compute(Op.SHL, ALL_ONES, lowering.compute(Op.LOP, bits, byte, table=AND))
    return lowering.compute(Op.LOP, shifted, outside, table=AND_NOT)


def _insert(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """bfi with a constant field."""
    value, old = lowering.value(item.operands[1]), lowering.value(item.operands[2])
    low, bits = _constant_operand(lowering, item, 3), _constant_operand(lowering, item, 4)
    mask = constant(((1 << bits) - 1) << low)
    moved = lowering.compute(Op.SHL, value, constant(low))
    inside = lowering.compute(Op.LOP, moved, mask, table=AND)
    return lowering.compute(Op.LOP, inside, lowering.compute(Op.LOP, old, mask, table=AND_NOT), table=OR)


# --- Predicates. Comparisons the machine lacks: a > b is b < a, a <= b is b >= a.

COMPARISONS: dict[str, tuple[Op, Op, bool]] = {
    "eq": (Op.SET_EQ, Op.SET_EQ, False),
    "ne": (Op.SET_NE, Op.SET_NE, False),
    "lt": (Op.SET_LT_U, Op.SET_LT_S, False),
    "ge": (Op.SET_GE_U, Op.SET_GE_S, False),
    "gt": (Op.SET_LT_U, Op.SET_LT_S, True),
    "le": (Op.SET_GE_U, Op.SET_GE_S, True),
    "lo": (Op.SET_LT_U, Op.SET_LT_U, False),
    "hs": (Op.SET_GE_U, Op.SET_GE_U, False),
    "hi": (Op.SET_LT_U, Op.SET_LT_U, True),
    "ls": (Op.SET_GE_U, Op.SET_GE_U, True),
}
"""PTX comparison: the operation for unsigned and signed operands, and whether they are swapped."""


def _setp(lowering: Lowering, item: ast.Instruction, kind: str) -> None:
    """setp.CMP[.BOOL].type p[|q], a, b[, c]: p = (a CMP b) BOOL c, q = !(a CMP b) BOOL c."""
    test = _comparison(lowering, item, kind)
    dest = item.operands[0]
    first, second = (dest.first, dest.second) if isinstance(dest, ast.Pair) else (dest, None)
    inverse = lowering.logic(NOT, test) if second is not None else test
    if len(item.operands) > 3:
        test, inverse = (_combined(lowering, item, each) for each in (test, inverse))
    lowering.define_test(item, test, first)
    if second is not None:
        lowering.define_test(item, inverse, second)


def _comparison(lowering: Lowering, item: ast.Instruction, kind: str) -> Predicate:
    """a CMP b of a setp or set."""
    if ast.TYPE_BITS.get(kind) not in (16, 32) or item.modifiers[0] not in COMPARISONS:
        raise refuse(item, f"compares {kind} data", "use 32-bit integers (int, unsigned)")
    unsigned, signed, swapped = COMPARISONS[item.modifiers[0]]
    a, b = lowering.read(item.operands[1], kind), lowering.read(item.operands[2], kind)
    test = lowering.fresh_predicate()
    operands = (b, a) if swapped else (a, b)
    lowering.emit(signed if kind.startswith("s") else unsigned, test, *operands)
    return test


def _combined(lowering: Lowering, item: ast.Instruction, test: Predicate) -> Predicate:
    """test BOOL c, where c is the fourth operand."""
    table = TABLES.get(item.modifiers[1], COPY)
    return lowering.logic(table, test, lowering.test(item.operands[3]))


def _set(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """set.CMP[.BOOL].type.type d, a, b[, c]: all ones where it holds, else zero."""
    test = _comparison(lowering, item, kind)
    if len(item.operands) > 3:
        test = _combined(lowering, item, test)
    dest = lowering.fresh()
    lowering.emit(Op.SEL, dest, ALL_ONES, ZERO, predicate=test)
    return dest


def _predicate_logic(lowering: Lowering, item: ast.Instruction) -> None:
    """and, or, xor, not, mov of predicates."""
    tests: list[Predicate] = [lowering.test(operand) for operand in item.operands[1:]]
    tables = {**TABLES, "not": NOT, "mov": COPY}
    if item.opcode not in tables:
        raise refuse(item, "is not supported on predicates")
    lowering.define_test(item, lowering.logic(tables[item.opcode], *tests), item.operands[0])


HANDLERS: dict[str, Handler] = {
    "add": _two(Op.ADD),
    "sub": _two(Op.SUB),
    "min": _by_sign(Op.MIN_U, Op.MIN_S),
    "max": _by_sign(Op.MAX_U, Op.MAX_S),
    "shl": _shift,
    "shr": _shift,
    "popc": _one(Op.POPC),
    "clz": _one(Op.CLZ),
    "brev": _one(Op.BREV),
    "and": _logic,
    "or": _logic,
    "xor": _logic,
    "not": _not,
    "neg": _neg,
    "abs": _abs,
    "mov": _copy,
    "cvt": _convert,
    "cvta": _copy,
    "selp": _select,
    "mul": _product,
    "mad": _multiply_add,
    "shf": _funnel,
    "bfe": _extract,
    "bfi": _insert,
    "set": _set,
    **COMPOSED,
}
