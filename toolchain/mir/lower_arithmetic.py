"""PTX arithmetic to the machine's operations: one function a family, found by opcode.

This module has what takes an operation or two; lower_composed.py and lower_fields.py have longer ones,
lower_wide.py 64 bits, lower_carry.py the carry flag, lower_division.py division. Compilers
narrow 32-bit arithmetic to 16 bits where the rest does not count; it is done on 32 bits here, its operands
extended and its result cut (`Lowering.read` and `define`).
"""

from collections.abc import Callable

from toolchain.mir.affine import constant, is_constant, number
from toolchain.mir.ir import ZERO, Predicate, Value
from toolchain.mir.isa import MulOp, Op
from toolchain.mir.lower_carry import is_extended, lower_extended
from toolchain.mir.lower_composed import HANDLERS as COMPOSED
from toolchain.mir.lower_composed import saturated
from toolchain.mir.lower_conversion import convert
from toolchain.mir.lower_division import HANDLERS as DIVISION
from toolchain.mir.lower_fields import HANDLERS as FIELDS
from toolchain.mir.lower_wide import HANDLERS as WIDE_HANDLERS
from toolchain.mir.lower_wide import comparison as wide_comparison
from toolchain.mir.lower_wide import is_wide
from toolchain.mir.lower_wide_division import HANDLERS as WIDE_DIVISION
from toolchain.mir.lowering import AND, COPY, NOT, OR, XOR, Lowering, Pair, refuse
from toolchain.mir.rom import LinkValue
from toolchain.ptx_frontend import ast

ALL_ONES = constant(-1)
Handler = Callable[[Lowering, ast.Instruction, str], Value | Pair]

TABLES = {"and": AND, "or": OR, "xor": XOR}


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
    if is_extended(item):
        lower_extended(lowering, item, kind)
        return
    handlers = WIDE if is_wide(item) else HANDLERS
    handler = saturated if "sat" in item.modifiers and item.opcode != "cvt" else handlers.get(item.opcode)
    if handler is None:
        raise refuse(item, "is not supported", "see the list of instructions in the README")
    result = handler(lowering, item, kind)
    if isinstance(result, tuple):
        lowering.define_pair(item, result)
    else:
        signed = _result_type(item, kind).startswith("s")
        lowering.define(item, result, fits=_fits_half(item, kind), is_signed=signed)


def _result_type(item: ast.Instruction, kind: str) -> str:
    """The type of the result; `kind` is the last one, that of the operands."""
    if item.opcode in ("cvt", "set", "slct"):
        return next(word for word in item.modifiers if word in ast.TYPE_BITS)
    return "u32" if item.opcode in ("popc", "clz", "bfind") else kind


def _fits_half(item: ast.Instruction, kind: str) -> bool:
    """Whether a 16-bit result has a zero upper half already, as its zero-extended operands have."""
    if item.opcode == "cvt":
        to = _result_type(item, kind)
        return ast.TYPE_BITS[to] <= 16 and not to.startswith("s")
    return item.opcode in ("and", "or", "xor", "shr", "min", "max", "selp", "mov") and kind in ("u16", "b16")


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
    return lowering.read(item.operands[1], kind)


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
    if item.modifiers[0] not in COMPARISONS:
        raise refuse(item, "is not a comparison of integers")
    if ast.TYPE_BITS[kind] == 64:
        return wide_comparison(lowering, item, item.modifiers[0], is_signed=kind.startswith("s"))
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
    "cvt": convert,
    "cvta": _copy,
    "selp": _select,
    "mul": _product,
    "mad": _multiply_add,
    "shf": _funnel,
    "set": _set,
    **COMPOSED,
    **FIELDS,
    **DIVISION,
}
WIDE: dict[str, Handler] = {**WIDE_HANDLERS, **WIDE_DIVISION, "cvt": convert, "set": _set}
