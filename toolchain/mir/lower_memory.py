"""Loads, stores and addresses of variables (PTX ISA, "Data Movement and Conversion Instructions").

An access becomes `shr.u` by 2 and one access by word for each word it covers; address narrowing then removes
the shift. A load of less takes its bits out of the word. A store of less must put its bits into the word,
which another lane may be writing to: a serial block loads, inserts and stores, one lane at a time. A thread's
local memory is its own; there all lanes do the same at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from toolchain.machine_spec import WORD_BITS
from toolchain.mir.affine import add, constant, symbol, word_address
from toolchain.mir.ir import ZERO, Instruction, MirOp, Predicate, Register, Special, Value
from toolchain.mir.isa import MulOp, Op
from toolchain.mir.lowering import AND, AND_NOT, OR, Lowering, refuse
from toolchain.mir.lowering_blocks import serial_block
from toolchain.mir.ptx_spaces import MEMORIES, Spaces, memory_of, register_spaces, stated_space
from toolchain.mir.rom import LinkValue
from toolchain.mir.variables import FRAME_BYTES, LOCAL_BASE, WORD_BYTES, Placement
from toolchain.ptx_frontend import ast


@dataclass(frozen=True)
class Memory:
    """What memory instructions need to know of their kernel.

    `frame` holds the byte address of the thread's local frame, `counted` what `bar.red` counted so far.
    """

    placement: Placement
    spaces: Spaces
    frame: Register
    counted: Register


@dataclass(frozen=True)
class WordPlace:
    """Word (base + offset) of one of the machine's memories."""

    space: str
    base: Value
    offset: LinkValue

    @property
    def is_shared(self) -> bool:
        return MEMORIES[self.space] == "shared"

    def next(self, words: int) -> "WordPlace":
        """The place some words on."""
        if self.offset.shift:
            moved = LinkValue(self.offset.addend + WORD_BYTES * words, self.offset.terms, self.offset.shift)
        else:
            moved = constant(self.offset.addend + words)
        return WordPlace(self.space, self.base, moved)


def open_memory(lowering: Lowering, placement: Placement) -> Memory:
    """The memory of a kernel; the open block is its entry, which computes the local frame."""
    spaces = register_spaces(lowering.function, lowering.parameters, placement)
    memory = Memory(placement, spaces, lowering.fresh(), lowering.fresh())
    if placement.local_words:
        first = lowering.compute(MulOp.LO, Special("warpid"), constant(lowering.spec.lanes))
        thread = lowering.compute(Op.ADD, first, Special("laneid"))
        start = lowering.compute(MulOp.LO, thread, FRAME_BYTES)
        lowering.emit(Op.ADD, memory.frame, start, LOCAL_BASE)
    return memory


# Addresses.


def variable_address(lowering: Lowering, memory: Memory, item: ast.Instruction, name: ast.Symbol) -> Value:
    """The byte address of a variable."""
    place = memory.placement.places.get(name.name)
    if place is None:
        hint = "call functions by name: there are no function pointers"
        raise refuse(item, f"takes the address of '{name.name}', which is not a variable", hint)
    address = add(place.address, constant(name.offset))
    assert address is not None
    return lowering.compute(Op.ADD, memory.frame, address) if place.space == "local" else address


def move_address(lowering: Lowering, memory: Memory, item: ast.Instruction) -> None:
    """mov and cvta: an address has one value in its own space and as a generic address."""
    source = item.operands[1]
    if not isinstance(source, ast.Symbol):
        lowering.define_pair(item, lowering.pair(source))
    else:
        lowering.define(item, variable_address(lowering, memory, item, source))


def _base_and_offset(place: ast.Operand) -> tuple[ast.Operand | None, int]:
    if not isinstance(place, ast.Address):
        return place, 0
    if isinstance(place.base, ast.Symbol):
        return ast.Symbol(place.base.name, place.base.offset + place.offset), 0
    return place.base, place.offset


def byte_address(lowering: Lowering, memory: Memory, item: ast.Instruction, place: ast.Operand) -> Value:
    """The byte address of a memory operand."""
    base, offset = _base_and_offset(place)
    if base is None:
        return constant(offset)
    if isinstance(base, ast.Symbol):
        return variable_address(lowering, memory, item, base)
    value = lowering.value(base)
    if isinstance(value, LinkValue):
        return add(value, constant(offset)) or value
    return lowering.compute(Op.ADD, value, constant(offset)) if offset else value


def word_place(lowering: Lowering, memory: Memory, item: ast.Instruction, place: ast.Operand) -> WordPlace:
    """The word that a memory operand starts in."""
    space = memory_of(item, place, memory.spaces, memory.placement)
    base, offset = _base_and_offset(place)
    low = _known_low_bits(lowering, place)
    if isinstance(base, ast.Register) and (low is not None or offset % WORD_BYTES == 0):
        words = constant(offset // WORD_BYTES)
        place = ast.Address(base, 0)
    else:
        words = ZERO
    byte = byte_address(lowering, memory, item, place)
    if isinstance(byte, LinkValue):
        word = word_address(byte)
        assert word is not None
        return WordPlace(space, ZERO, word).next(words.addend)
    return WordPlace(space, lowering.compute(Op.SHR_U, byte, constant(2)), words)


def _known_low_bits(lowering: Lowering, place: ast.Operand) -> int | None:
    """Which byte of its word a memory operand is, where that is known."""
    base, offset = _base_and_offset(place)
    if base is None or (isinstance(base, ast.Register) and base.name in lowering.words):
        return offset % WORD_BYTES
    return None


def shift_in_word(lowering: Lowering, memory: Memory, item: ast.Instruction, place: ast.Operand) -> Value:
    """By how many bits a memory operand is away from the low end of its word."""
    low = _known_low_bits(lowering, place)
    if low is not None:
        return constant(8 * low)
    byte = byte_address(lowering, memory, item, place)
    return lowering.compute(Op.SHL, lowering.compute(Op.LOP, byte, constant(3), table=AND), constant(3))


# Words.


def load_word(lowering: Lowering, place: WordPlace) -> Register:
    """A new register with the word at a place."""
    dest = lowering.fresh()
    lowering.emit(Op.LOAD_SHARED if place.is_shared else Op.LOAD, dest, place.base, offset=place.offset)
    return dest


def store_word(
    lowering: Lowering,
    place: WordPlace,
    data: Value,
    guard: Predicate | None = None,
    *,
    negated: bool = False,
) -> None:
    """Stores a word where the guard holds."""
    op = MirOp.STORE_SHARED if place.is_shared else MirOp.STORE
    operands = (place.base, data)
    lowering.append(
        Instruction(op, None, operands, guard, negated, offset=place.offset, source=lowering.source)
    )


def store_guarded(lowering: Lowering, item: ast.Instruction, place: WordPlace, data: Value) -> None:
    """Stores a word where the guard of the PTX instruction holds."""
    if item.guard is None:
        store_word(lowering, place, data)
        return
    guard = lowering.predicate(item.guard.register)
    store_word(lowering, place, data, guard, negated=item.guard.negated)


# Loads.


def _elements(operand: ast.Operand) -> tuple[ast.Operand, ...]:
    return operand.elements if isinstance(operand, ast.Vector) else (operand,)


def access_type(item: ast.Instruction) -> str:
    """The type of a memory instruction's elements. Raises CompileError at floating point."""
    kind = next((word for word in reversed(item.modifiers) if word in ast.TYPE_BITS), "")
    if kind.startswith(("f", "bf")):
        raise refuse(item, "is floating point", "the machine computes on integers")
    if not kind or ast.TYPE_BITS[kind] > 2 * WORD_BITS:
        raise refuse(item, "has no type of 8 to 64 bits", "use elements of at most 64 bits")
    return kind


def load(lowering: Lowering, memory: Memory, item: ast.Instruction) -> None:
    """ld, ldu: of any space, scalars and vectors of 8 to 64 bits."""
    kind = access_type(item)
    elements, place = _elements(item.operands[0]), item.operands[1]
    bits = ast.TYPE_BITS[kind]
    total = bits * len(elements)
    words: Sequence[Value]
    if stated_space(item) == "param":
        words, shift = _parameter_words(lowering, item, total)
    else:
        start = word_place(lowering, memory, item, place)
        words = [load_word(lowering, start.next(i)) for i in range(-(-total // WORD_BITS))]
        shift = shift_in_word(lowering, memory, item, place) if total < WORD_BITS else ZERO
    if isinstance(shift, Register):
        words, shift = [lowering.compute(Op.SHR_U, words[0], shift)], ZERO
    assert isinstance(shift, LinkValue)
    for index, element in enumerate(elements):
        _define_part(lowering, item, words, shift.addend + bits * index, kind, element)


def _define_part(
    lowering: Lowering,
    item: ast.Instruction,
    words: Sequence[Value],
    low: int,
    kind: str,
    element: ast.Operand,
) -> None:
    """Gives an element its bits, from bit `low` of the words on."""
    if element in (ast.Register("_"), ast.Symbol("_")):
        return
    bits, signed = ast.TYPE_BITS[kind], kind.startswith("s")
    first, shift = divmod(low, WORD_BITS)
    if bits == 2 * WORD_BITS:
        lowering.define_pair(item, (words[first], words[first + 1]), element)
        return
    value = words[first]
    if bits < WORD_BITS:
        value = lowering.field(value, shift, bits, is_signed=signed)
    lowering.define(item, value, element, fits=bits < WORD_BITS and not signed, is_signed=signed)


def _parameter_words(lowering: Lowering, item: ast.Instruction, bits: int) -> tuple[list[Value], LinkValue]:
    """The words of a parameter that ld.param reads, and where in the first of them it begins."""
    base, offset = _base_and_offset(item.operands[1])
    if not isinstance(base, ast.Symbol):
        raise refuse(
            item, "reads a parameter through a register", "index structure parameters with constants"
        )
    parameter = next((p for p in lowering.parameters if p.name == base.name), None)
    if parameter is None:
        raise refuse(item, f"reads '{base.name}', which is not a parameter of the kernel")
    first, low = divmod(base.offset + offset, WORD_BYTES)
    last = first + -(-(8 * low + bits) // WORD_BITS)
    if first < 0 or last > parameter.words:
        raise refuse(item, f"reads beyond the end of parameter '{parameter.name}'")
    if low and 8 * low + bits > WORD_BITS:
        raise refuse(item, "reads a parameter that is not on a word")
    return [symbol(f"param.{parameter.word + word}") for word in range(first, last)], constant(8 * low)


# Stores, and moves between a register and its parts.


def move_parts(lowering: Lowering, item: ast.Instruction) -> None:
    """mov.{b16,b32,b64} d, {a, b, ...} and mov {a, b, ...}, s; the first element is the lowest."""
    dest, source = item.operands
    parts = dest if isinstance(dest, ast.Vector) else source
    assert isinstance(parts, ast.Vector)
    bits, rest = divmod(ast.TYPE_BITS[access_type(item)], len(parts.elements))
    if f"b{bits}" not in ast.TYPE_BITS or rest:
        raise refuse(item, "does not divide its type into elements")
    if isinstance(dest, ast.Vector):
        words: list[Value] = [lowering.compute(MirOp.MOV, word) for word in lowering.pair(source)]
        for index, element in enumerate(dest.elements):
            _define_part(lowering, item, words, bits * index, f"b{bits}", element)
        return
    values = [lowering.read_pair(element, f"u{bits}") for element in parts.elements]
    low, *high = _packed(lowering, values, f"b{bits}")
    lowering.define_pair(item, (low, high[0] if high else ZERO))


def store(lowering: Lowering, memory: Memory, item: ast.Instruction) -> None:
    """st: to any space, scalars and vectors of 8 to 64 bits."""
    kind = access_type(item)
    target, data = item.operands[:2]
    words = _packed(
        lowering, [lowering.read_pair(element, _unsigned(kind)) for element in _elements(data)], kind
    )
    bits = ast.TYPE_BITS[kind] * len(_elements(data))
    place = word_place(lowering, memory, item, target)
    if bits < WORD_BITS:
        _store_part(lowering, item, place, words[0], shift_in_word(lowering, memory, item, target), bits)
        return
    for index, word in enumerate(words):
        store_guarded(lowering, item, place.next(index), word)


def _unsigned(kind: str) -> str:
    return f"u{ast.TYPE_BITS[kind]}"


def _packed(lowering: Lowering, values: list[tuple[Value, Value]], kind: str) -> list[Value]:
    """The words of a vector's elements; the elements are zero-extended."""
    bits = ast.TYPE_BITS[kind]
    if bits == 2 * WORD_BITS:
        return [word for pair in values for word in pair]
    lows = [low for low, _ in values]
    if bits == WORD_BITS:
        return lows
    words: list[Value] = []
    each = WORD_BITS // bits
    for start in range(0, len(lows), each):
        word, *others = lows[start : start + each]
        for index, other in enumerate(others, 1):
            moved = lowering.compute(Op.SHL, other, constant(bits * index))
            word = lowering.compute(Op.LOP, word, moved, table=OR)
        words.append(word)
    return words


def _store_part(
    lowering: Lowering, item: ast.Instruction, place: WordPlace, data: Value, shift: Value, bits: int
) -> None:
    """A store of 8 or 16 bits; the rest of the word stays."""
    if place.space == "local":
        store_guarded(lowering, item, place, part_inserted(lowering, place, data, shift, bits))
        return
    with serial_block(lowering, item):
        store_word(lowering, place, part_inserted(lowering, place, data, shift, bits))


def part_inserted(lowering: Lowering, place: WordPlace, data: Value, shift: Value, bits: int) -> Value:
    """The word at a place with other bits from `shift` on: four stages, the bit slot busy in all of them."""
    mask = lowering.compute(Op.SHL, constant((1 << bits) - 1), shift)
    kept = lowering.compute(Op.LOP, load_word(lowering, place), mask, table=AND_NOT)
    return lowering.compute(Op.ADD, kept, lowering.compute(Op.SHL, data, shift))
