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
from toolchain.machine_spec import WORD_BITS
from toolchain.mir.affine import add, constant, symbol
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
    """Places the variables `function` names. Raises CompileError at an initial value that cannot be linked."""
    used = _reached(set(named_symbols(function)), module_variables)
    variables = [item for item in (*module_variables, *function.variables) if item.name in used]
    places: dict[str, Place] = {}
    in_global = [item for item in variables if item.space in ("global", "const")]
    for item in in_global:
        _name_variable(item, places)
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


def _reached(names: set[str], variables: tuple[ast.Variable, ...]) -> set[str]:
    """Names, and those that the initial values of the variables among them name."""
    waiting, reached = set(names), set(names)
    while waiting:
        name = waiting.pop()
        for item in variables:
            values = item.initialiser if item.name == name else ()
            new = {value.partition("+")[0] for value in values if isinstance(value, str)} - reached
            waiting |= new
            reached |= new
    return reached


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


def _name_variable(item: ast.Variable, places: dict[str, Place]) -> None:
    """Places a variable in global memory, under a name that link-time symbols can have."""
    name = re.sub(r"\W", "_", item.name)
    taken = {place.address for place in places.values()}
    while symbol(f"global.{name}") in taken:
        name += "_"
    places[item.name] = Place("global", symbol(f"global.{name}"))


def _variable(item: ast.Variable, places: dict[str, Place]) -> Variable:
    """A variable with its initial words."""
    bits = ast.TYPE_BITS[item.type]
    size = -(-item.elements * bits // WORD_BITS)
    packed = 0
    addresses: dict[int, LinkValue] = {}
    for index, value in enumerate(item.initialiser):
        if isinstance(value, str):
            addresses[bits * index // WORD_BITS] = _initial_address(item, value, places)
        else:
            packed |= (value & ((1 << bits) - 1)) << (bits * index)
    used = max([-(-packed.bit_length() // WORD_BITS), *(word + 1 for word in addresses)])
    words = (addresses.get(index, packed >> (WORD_BITS * index) & 0xFFFFFFFF) for index in range(used))
    return Variable(
        places[item.name].address.terms[0][0].removeprefix("global."),
        size,
        tuple(words),
        max(WORD_BYTES, _alignment(item)),
    )


def _initial_address(item: ast.Variable, text: str, places: dict[str, Place]) -> LinkValue:
    """The address that an initialiser `name` or `name+offset` stands for; the high word of it is zero."""
    name, _, offset = text.partition("+")
    if name not in places or ast.TYPE_BITS[item.type] < WORD_BITS:
        raise CompileError(
            f"variable '{item.name}' is initialised with '{text}', which is not the address of a variable "
            "in global memory",
            hint="store the address in the kernel",
        )
    address = add(places[name].address, constant(int(offset or "0", 0)))
    assert address is not None
    return address
