"""PTX's fields of bits and permutations of bytes, at constant and variable places, of 32 bits."""

from collections.abc import Callable

from toolchain.mir.affine import constant, is_constant, number
from toolchain.mir.ir import ZERO, Value
from toolchain.mir.isa import Op
from toolchain.mir.lower_wide import low_byte
from toolchain.mir.lowering import AND, AND_NOT, OR, XOR, Lowering
from toolchain.mir.rom import LinkValue
from toolchain.mir.word_pairs import choose, word_test
from toolchain.ptx_frontend import ast

ALL_ONES = constant(-1)
WORD = constant(32)
BYTE = 0xFF


def _known(value: Value) -> int | None:
    return number(value) if isinstance(value, LinkValue) and is_constant(value) else None


def _extract(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """bfe: shifted down, then cut at the top by shifting up and down again."""
    signed = kind.startswith("s")
    value, low, bits = (lowering.value(operand) for operand in item.operands[1:4])
    place, length = _known(low), _known(bits)
    if place is not None and length is not None:
        place, length = place & BYTE, length & BYTE
        return ZERO if length == 0 else lowering.field(value, place, length, is_signed=signed)
    low, bits = (low_byte(lowering, operand) for operand in item.operands[2:4])
    moved = lowering.compute(Op.SHR_S if signed else Op.SHR_U, value, low)
    return _cut(lowering, moved, lowering.compute(Op.MIN_U, bits, WORD), is_signed=signed)


def _cut(lowering: Lowering, value: Value, bits: Value, *, is_signed: bool) -> Value:
    """The low 0..32 bits, extended."""
    above = lowering.compute(Op.SUB, WORD, bits)
    top = lowering.compute(Op.SHL, value, above)
    return lowering.compute(Op.SHR_S if is_signed else Op.SHR_U, top, above)


def _insert(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """bfi: a's low bits in the place of b's: ((a << low) ^ b) & mask ^ b."""
    value, into = (lowering.value(operand) for operand in item.operands[1:3])
    low, bits = (low_byte(lowering, operand) for operand in item.operands[3:5])
    outside = lowering.compute(Op.SHL, ALL_ONES, bits)
    mask = lowering.compute(Op.SHL, lowering.compute(Op.LOP, ALL_ONES, outside, table=AND_NOT), low)
    changes = lowering.compute(Op.LOP, lowering.compute(Op.SHL, value, low), into, table=XOR)
    return lowering.compute(Op.LOP, lowering.compute(Op.LOP, changes, mask, table=AND), into, table=XOR)


def _amount(lowering: Lowering, item: ast.Instruction, value: Value) -> Value:
    """A place or length: 0..31 of `.wrap`, 0..32 of `.clamp`."""
    if "wrap" in item.modifiers:
        return lowering.compute(Op.LOP, value, constant(31), table=AND)
    return lowering.compute(Op.MIN_U, value, WORD)


def _mask(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """bmsk: ones from place a on, b of them."""
    low, bits = (_amount(lowering, item, lowering.value(operand)) for operand in item.operands[1:3])
    end = lowering.compute(Op.ADD, low, bits)
    from_low, from_end = (lowering.compute(Op.SHL, ALL_ONES, place) for place in (low, end))
    return lowering.compute(Op.LOP, from_low, from_end, table=AND_NOT)


def _extend(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """szext: the low b bits of a, zero- or sign-extended."""
    value, bits = (lowering.value(operand) for operand in item.operands[1:3])
    return _cut(lowering, value, _amount(lowering, item, bits), is_signed=kind.startswith("s"))


# --- prmt

SELECTORS: dict[str, tuple[int, int, int, int]] = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}
"""The selector each mode of prmt stands for, by the two low bits of its operand."""


def _permute(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """prmt: byte i of the result is byte `selector >> 4 * i & 7` of b:a, or copies of its sign."""
    a, b, control = (lowering.value(operand) for operand in item.operands[1:4])
    table = next((SELECTORS[word] for word in item.modifiers if word in SELECTORS), None)
    known = _known(control)
    if known is not None:
        return _permute_known(lowering, (a, b), known if table is None else table[known & 3])
    selector = control if table is None else _selector_of_mode(lowering, control, table)
    result: Value = ZERO
    for place in range(4):
        byte = _selected_byte(lowering, (a, b), selector, place, signs=table is None)
        result = byte if place == 0 else lowering.compute(Op.ADD, result, byte)
    return result


def _selector_of_mode(lowering: Lowering, control: Value, table: tuple[int, int, int, int]) -> Value:
    bit0, bit1 = (
        word_test(lowering, Op.SET_NE, lowering.compute(Op.LOP, control, constant(bit), table=AND), ZERO)
        for bit in (1, 2)
    )
    first, second, third, fourth = (constant(value) for value in table)
    upper, lower = choose(lowering, bit0, fourth, third), choose(lowering, bit0, second, first)
    return choose(lowering, bit1, upper, lower)


def _selected_byte(
    lowering: Lowering, sources: tuple[Value, Value], selector: Value, place: int, *, signs: bool
) -> Value:
    """One byte of the result, in its place."""
    chosen = lowering.compute(Op.SHR_U, selector, constant(4 * place))
    second = word_test(lowering, Op.SET_NE, lowering.compute(Op.LOP, chosen, constant(4), table=AND), ZERO)
    word = choose(lowering, second, sources[1], sources[0])
    low = lowering.compute(Op.SHL, lowering.compute(Op.LOP, chosen, constant(3), table=AND), constant(3))
    top = lowering.compute(Op.SHL, lowering.compute(Op.SHR_U, word, low), constant(24))
    if signs:
        sign = lowering.compute(Op.SHR_S, top, constant(31))
        flag = lowering.compute(Op.LOP, chosen, constant(8), table=AND)
        top = choose(lowering, word_test(lowering, Op.SET_NE, flag, ZERO), sign, top)
        top = lowering.compute(Op.LOP, top, constant(BYTE << 24), table=AND)
    return lowering.compute(Op.SHR_U, top, constant(24 - 8 * place))


def _permute_known(lowering: Lowering, sources: tuple[Value, Value], selector: int) -> Value:
    """prmt with a constant selector: bytes that move equally far move together."""
    masks: dict[tuple[int, int], int] = {}
    result: Value = ZERO
    for place in range(4):
        which, byte = divmod(selector >> 4 * place & 7, 4)
        if selector >> 4 * place & 8:
            sign = lowering.field(sources[which], 8 * byte + 7, 1, is_signed=True)
            result = _with_bits(lowering, result, sign, BYTE << 8 * place)
        else:
            move = (which, 8 * (place - byte))
            masks[move] = masks.get(move, 0) | BYTE << 8 * place
    for (which, by), mask in masks.items():
        moved = lowering.compute(Op.SHL if by > 0 else Op.SHR_U, sources[which], constant(abs(by)))
        result = _with_bits(lowering, result, moved, mask)
    return result


def _with_bits(lowering: Lowering, result: Value, bits: Value, mask: int) -> Value:
    """The result with the bits of the mask from another value."""
    kept = lowering.compute(Op.LOP, bits, constant(mask), table=AND)
    return kept if result == ZERO else lowering.compute(Op.LOP, result, kept, table=OR)


HANDLERS: dict[str, Callable[[Lowering, ast.Instruction, str], Value]] = {
    "bfe": _extract,
    "bfi": _insert,
    "bmsk": _mask,
    "szext": _extend,
    "prmt": _permute,
}
