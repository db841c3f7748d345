"""Kernel names: what a mangled name was in the source, and finding a kernel by either."""

import re

from toolchain.errors import CompileError, SourceLocation
from toolchain.ptx_frontend.ast import Function, Module


def source_name(name: str) -> str:
    """The last identifier of an Itanium-mangled name: `dot` of `_Z3dotPKiS0_Pii` and `_ZN2ns3dotIiEEvPT_`."""
    match = re.match(r"_Z(N?)", name)
    if match is None:
        return name
    position, found = match.end(), ""
    while length := re.match(r"\d+", name[position:]):
        start = position + length.end()
        position = start + int(length[0])
        found = name[start:position]
        if not match[1]:
            break
    return found or name


def plain_name(name: str) -> str:
    """`source_name` of a function outside namespaces and templates; others keep their mangled name."""
    plain = source_name(name)
    prefix = f"_Z{len(plain)}{plain}"
    return plain if name.startswith(prefix) and name[len(prefix) : len(prefix) + 1] != "I" else name


def find_entry(module: Module, name: str | None = None) -> Function:
    """The kernel called `name`, mangled or not; without a name, the file's only kernel.

    Raises CompileError that lists the kernels there are.
    """
    entries = module.entries
    if name is not None:
        entries = tuple(entry for entry in entries if entry.name == name) or tuple(
            entry for entry in entries if source_name(entry.name) == name
        )
    if len(entries) == 1:
        return entries[0]
    names = ", ".join(plain_name(entry.name) for entry in module.entries) or "none"
    location = SourceLocation(module.file, 0) if module.file != "<ptx>" else None
    if name is None and module.entries:
        raise CompileError(
            f"the file has several kernels: {names}", location, hint="choose one with --entry NAME"
        )
    if not module.entries:
        raise CompileError(
            "there is no kernel",
            location,
            hint="a kernel is a __global__ function; a template is one where it is instantiated: "
            "template __global__ void k<4>(int *);",
        )
    wanted = f"kernel named '{name}'" if name else "kernel"
    how_many = "more than one" if entries else "no"
    raise CompileError(f"there is {how_many} {wanted}; kernels: {names}", location)
