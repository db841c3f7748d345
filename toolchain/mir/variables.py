"""Where a kernel's variables stand: in global memory, in shared memory, or in every thread's local frame.

    .global, .const   after the launch's arrays in global memory; link symbol `global.NAME`
    .shared           from byte 0 of shared memory, in the order of their declarations
    extern .shared    after all of them: the launch's dynamic shared memory
    .local            a frame for each thread, in shared memory behind the rest; link symbols `local.base`,
                      where the first begins, and `local.words`, the size of one

The machine has no other memories: constants are words like all others, and a local array is a part of the
thread block's shared memory that only one thread uses. Only variables the kernel names are placed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from toolchain.errors import CompileError
from toolchain.mir.affine import constant, symbol
from toolchain.mir.rom import LinkValue, Variable
from toolchain.ptx_frontend import ast

WORD_BYTES = 4
LOCAL_BASE = symbol("local.base")
FRAME_BYTES = LinkValue(0, (("local.words", WORD_BYTES),))
"""From one thread's local frame to the next: the frame may grow after lowering, by what registers spill."""


@dataclass(frozen=True)
class Place:
    """A variable's state space and byte address: of a local one, from the start of its thread's frame."""

    space: str
    address: LinkValue


@dataclass(frozen=True)
class Placement:
    """All variables of a kernel. `variables`, `shared_words` and `local_words` are the ROM image's.

    `votes` is the byte address of the hidden word in shared memory that `bar.red` counts in.
    """

    places: Mapping[str, Place]
    variables: tuple[Variable, ...]
    shared_words: int
    local_words: int
    votes: int


def place_variables(function: ast.Function, module_variables: tuple[ast.Variable, ...]) -> Placement:
    """Places the variables `function` names. Raises CompileError at an initial value that is an address."""
    used = set(named_symbols(function))
    variables = [item for item in (*module_variables, *function.variables) if item.name in used]
    places: dict[str, Place] = {}
    in_global = [item for item in variables if item.space in ("global", "const")]
    initialised = tuple(_variable(item, places) for item in in_global)
    shared = [item for item in variables if item.space == "shared"]
    end = _lay_out((item for item in shared if not item.external), places, 0)
    votes = _aligned(end, WORD_BYTES)
    if any(item.opcode in ("bar", "barrier") and "red" in item.modifiers for item in function.instructions):
        end = votes + WORD_BYTES
    external = [item for item in shared if item.external]
    end = _aligned(end, max([WORD_BYTES, *map(_alignment, external)]))
    for item in external:
        places[item.name] = Place("shared", constant(end))
    frame = _lay_out((item for item in variables if item.space == "local"), places, 0)
    return Placement(places, initialised, end // WORD_BYTES, -(-frame // WORD_BYTES), votes)


def named_symbols(function: ast.Function) -> Iterator[str]:
    """Every name of a label, parameter or variable in the function's instructions."""
    for item in function.instructions:
        for operand in item.operands:
            base = operand.base if isinstance(operand, ast.Address) else operand
            if isinstance(base, ast.Symbol):
                yield base.name


def _alignment(item: ast.Variable) -> int:
    return max(item.align, ast.TYPE_BITS[item.type] // 8)


def _aligned(address: int, alignment: int) -> int:
    return -(-address // alignment) * alignment


def _lay_out(variables: Iterator[ast.Variable], places: dict[str, Place], end: int) -> int:
    """Gives each variable the next aligned byte address; returns the first free byte."""
    for item in variables:
        start = _aligned(end, _alignment(item))
        places[item.name] = Place(item.space, constant(start))
        end = start + item.elements * ast.TYPE_BITS[item.type] // 8
    return end


def _variable(item: ast.Variable, places: dict[str, Place]) -> Variable:
    """A variable in global memory, under a name that link-time symbols can have."""
    name = re.sub(r"\W", "_", item.name)
    taken = {place.address for place in places.values()}
    while symbol(f"global.{name}") in taken:
        name += "_"
    places[item.name] = Place("global", symbol(f"global.{name}"))
    bits = ast.TYPE_BITS[item.type]
    packed = 0
    for index, value in enumerate(item.initialiser):
        if isinstance(value, str):
            raise CompileError(
                f"variable '{item.name}' is initialised with the address of '{value}'",
                hint="store the address in the kernel, or index one array",
            )
        packed |= (value & ((1 << bits) - 1)) << (bits * index)
    words = -(-item.elements * bits // (8 * WORD_BYTES))
    used = -(-packed.bit_length() // (8 * WORD_BYTES))
    return Variable(name, words, tuple(packed >> (32 * index) & 0xFFFFFFFF for index in range(used)))
