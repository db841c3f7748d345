"""Addresses as people write them: `a[5]` instead of a number."""

import re

from toolchain.ptx_frontend.memory import Allocation, Space

LOCAL_DEPOT = "__local_depot"
"""LLVM and nvcc put all local arrays of a function into one variable of this name."""


def variable_name(symbol: str) -> str:
    """The last identifier of a mangled variable: `tile` of `_ZZ1kPiE4tile`."""
    if symbol.startswith(LOCAL_DEPOT):
        return "local memory"
    if not symbol.startswith("_Z"):
        return symbol
    for length in re.finditer(r"\d+", symbol):
        name = symbol[length.end() : length.end() + int(length[0])]
        rest = symbol[length.end() + int(length[0]) :]
        if len(name) == int(length[0]) > 0 and re.fullmatch(r"E?(_\d*)?", rest):
            return name
    return symbol


def nearest(space: Space, address: int) -> Allocation | None:
    """The array or variable an address was most likely meant for: none is as near, and none farther than a gap."""
    if not space.allocations:
        return None
    closest = min(space.allocations, key=lambda item: _distance(item, address))
    return closest if _distance(closest, address) <= max(space.gap // 2, 1) else None


def _distance(item: Allocation, address: int) -> int:
    return max(item.start - address, address - (item.start + item.size), 0)


def describe(space: Space, address: int, size: int) -> str:
    """`a[5]` for the `size` bytes at an address; `global address 0x0` where nothing is near.

    Variables that are arrays of bytes in PTX are indexed by the size of the access: compilers print them so
    whatever their type was.
    """
    item = nearest(space, address)
    if item is None:
        return f"{space.name} address {address:#x}"
    offset = address - item.start
    element = item.element
    if element == 1 and item.name in space.addresses and offset % size == 0:
        element = size
    index, rest = divmod(offset, element)
    return f"{variable_name(item.name)}[{index}]" + (f" + {rest} bytes" if rest else "")


def extent(item: Allocation) -> str:
    """`5 elements of 4 bytes`; of a byte array, its bytes."""
    if item.element == 1:
        return f"{item.size} bytes"
    return f"{item.size // item.element} elements of {item.element} bytes"
