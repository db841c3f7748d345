"""Atomic operations (PTX ISA, "atom", "red").

A warp runs until it is at a barrier, so only the lanes of one warp can come between a load and its store. A
serial block keeps them apart: one lane at a time loads the word, computes and stores. What does not fit one
machine block, 64-bit and 16-bit atomics, takes turns in a loop instead. Scopes and orders cost nothing, as memory
operations happen in program order.
"""

from toolchain.machine_spec import WORD_BITS
from toolchain.mir.affine import constant
from toolchain.mir.ir import ZERO, Operand, Predicate, Value
from toolchain.mir.isa import Op
from toolchain.mir.lower_memory import (
    Memory,
    WordPlace,
    access_type,
    load_word,
    part_inserted,
    shift_in_word,
    store_word,
    word_place,
)
from toolchain.mir.lowering import AND, NOT, OR, XOR, Lowering, Pair, refuse
from toolchain.mir.lowering_blocks import in_turns, serial_block
from toolchain.ptx_frontend import ast

TABLES = {"and": AND, "or": OR, "xor": XOR}
OPERATIONS = ("add", "min", "max", "inc", "dec", "exch", "cas", *TABLES)
EXTREMES = {
    ("min", "u"): Op.MIN_U, ("min", "s"): Op.MIN_S, ("max", "u"): Op.MAX_U, ("max", "s"): Op.MAX_S,
}  # fmt: skip


Operands = tuple[ast.Operand | None, ast.Operand, list[ast.Operand]]
"""Destination (red has none), address, sources."""


def atomic(lowering: Lowering, memory: Memory, item: ast.Instruction) -> None:
    """atom and red, on words, pairs of words, and halves (cas only)."""
    kind = access_type(item)
    name = next((word for word in item.modifiers if word in OPERATIONS), "")
    if not name:
        raise refuse(item, "is an atomic operation the machine does not have")
    dest = item.operands[0] if item.opcode == "atom" else None
    target, *sources = item.operands if dest is None else item.operands[1:]
    bits = ast.TYPE_BITS[kind]
    if bits == WORD_BITS:
        _word_atomic(lowering, memory, item, (dest, target, sources), name)
    elif bits == 2 * WORD_BITS and name not in ("inc", "dec"):
        _pair_atomic(lowering, memory, item, (dest, target, sources), name)
    elif bits == WORD_BITS // 2 and name == "cas":
        _half_cas(lowering, memory, item, (dest, target, sources))
    else:
        raise refuse(item, f"is an atomic operation on {kind} data", "use 32-bit elements")


def _word_atomic(
    lowering: Lowering, memory: Memory, item: ast.Instruction, operands: Operands, name: str
) -> None:
    dest, target, sources = operands
    values = [lowering.value(source) for source in sources]
    place = word_place(lowering, memory, item, target)
    with serial_block(lowering, item) as inner:
        old = load_word(lowering, place)
        new, changes = _updated(lowering, item, name, old, values)
        store_word(lowering, place, new, changes)
        if dest is not None:
            lowering.define(inner, old, dest)


def _updated(
    lowering: Lowering, item: ast.Instruction, name: str, old: Value, values: list[Value]
) -> tuple[Value, Predicate | None]:
    """What a word becomes, and where it changes at all."""
    b = values[0]
    signed = "s32" in item.modifiers
    match name:
        case "exch":
            return b, None
        case "cas":
            return values[1], _compared(lowering, Op.SET_EQ, old, b)
        case "min" | "max":
            return lowering.compute(EXTREMES[name, "s" if signed else "u"], old, b), None
        case "inc":
            wraps = _compared(lowering, Op.SET_GE_U, old, b)
            return _chosen(lowering, wraps, ZERO, lowering.compute(Op.ADD, old, constant(1))), None
        case "dec":  # old - 1 reaches b where old is zero or above b
            less = lowering.compute(Op.SUB, old, constant(1))
            return _chosen(lowering, _compared(lowering, Op.SET_GE_U, less, b), b, less), None
        case "add":
            return lowering.compute(Op.ADD, old, b), None
    return lowering.compute(Op.LOP, old, b, table=TABLES[name]), None


def _compared(lowering: Lowering, op: Op, a: Operand, b: Operand) -> Predicate:
    flag = lowering.fresh_predicate()
    lowering.emit(op, flag, a, b)
    return flag


def _chosen(lowering: Lowering, flag: Predicate, yes: Value, no: Value) -> Value:
    dest = lowering.fresh()
    lowering.emit(Op.SEL, dest, yes, no, predicate=flag)
    return dest


def _pair_atomic(
    lowering: Lowering, memory: Memory, item: ast.Instruction, operands: Operands, name: str
) -> None:
    dest, target, sources = operands
    values = [lowering.pair(source) for source in sources]
    place = word_place(lowering, memory, item, target)
    with in_turns(lowering, item) as inner:
        old = (load_word(lowering, place), load_word(lowering, place.next(1)))
        new, changes = _updated_pair(lowering, item, name, old, values)
        store_word(lowering, place, new[0], changes)
        store_word(lowering, place.next(1), new[1], changes)
        if dest is not None:
            lowering.define_pair(inner, old, dest)


def _updated_pair(
    lowering: Lowering, item: ast.Instruction, name: str, old: Pair, values: list[Pair]
) -> tuple[Pair, Predicate | None]:
    """What a pair of words becomes, and where it changes at all."""
    b = values[0]
    match name:
        case "exch":
            return b, None
        case "cas":
            same = [_compared(lowering, Op.SET_EQ, old[half], b[half]) for half in (0, 1)]
            return values[1], lowering.logic(AND, *same)
        case "min" | "max":
            below = _below(lowering, b, old, signed="s64" in item.modifiers)
            return b, below if name == "min" else lowering.logic(NOT, below)
        case "add":
            low = lowering.compute(Op.ADD, old[0], b[0])
            carries = _compared(lowering, Op.SET_LT_U, low, b[0])
            high = lowering.compute(Op.ADD, old[1], b[1])
            return (low, _chosen(lowering, carries, lowering.compute(Op.ADD, high, constant(1)), high)), None
    low, high = (lowering.compute(Op.LOP, old[half], b[half], table=TABLES[name]) for half in (0, 1))
    return (low, high), None


def _below(lowering: Lowering, a: Pair, b: Pair, *, signed: bool) -> Predicate:
    """a < b."""
    high = _compared(lowering, Op.SET_LT_S if signed else Op.SET_LT_U, a[1], b[1])
    same = _compared(lowering, Op.SET_EQ, a[1], b[1])
    low = lowering.logic(AND, same, _compared(lowering, Op.SET_LT_U, a[0], b[0]))
    return lowering.logic(OR, high, low)


def _half_cas(lowering: Lowering, memory: Memory, item: ast.Instruction, operands: Operands) -> None:
    """atom.cas.b16: the other half of the word stays."""
    dest, target, sources = operands
    bits = WORD_BITS // 2
    compare, new = (lowering.read(source, f"u{bits}") for source in sources)
    place: WordPlace = word_place(lowering, memory, item, target)
    shift = shift_in_word(lowering, memory, item, target)
    with in_turns(lowering, item) as inner:
        moved = lowering.compute(Op.SHR_U, load_word(lowering, place), shift)
        old = lowering.field(moved, 0, bits, is_signed=False)
        same = _compared(lowering, Op.SET_EQ, old, compare)
        store_word(lowering, place, part_inserted(lowering, place, new, shift, bits), same)
        if dest is not None:
            lowering.define(inner, old, dest, fits=True)
