"""memcheck and initcheck: is the access inside one array, aligned, and of bytes somebody wrote?

Global and constant memory is initialised: arrays by the host, variables by the module, or as zeros. Shared
and local memory is not; every thread block starts with fresh ones.
"""

from toolchain.ptx_frontend.memory import READ_ONLY, Space
from toolchain.ptx_frontend.observer import Access, AccessKind
from toolchain.sanitizer.addresses import describe, extent, nearest, variable_name
from toolchain.sanitizer.findings import Finding, Findings, Kind, place

UNWRITTEN = frozenset({"shared", "local"})
"""Spaces that a thread block finds without content."""


class MemoryCheck:
    """Tells the findings of each access; remembers which bytes of shared and local memory were written."""

    def __init__(self, findings: Findings, *, bounds: bool, initialised: bool) -> None:
        self.findings = findings
        self.bounds = bounds
        self.initialised = initialised
        self.written: dict[int, set[int]] = {}

    def begin_block(self) -> None:
        """Shared and local memory is new."""
        self.written = {}

    def access(self, access: Access) -> bool:
        """Whether the access can be made: where it stays in memory that may be so accessed."""
        space = access.space
        if access.kind is not AccessKind.LOAD and space.name in READ_ONLY:
            self.add(Kind.READ_ONLY, access, f"{space.name} memory cannot be written")
            return False
        if space.allocation(access.address, access.size) is None:
            self.add(Kind.OUT_OF_BOUNDS, access, _outside(access))
            return False
        if space.misaligned(access.address, access.size):
            self.add(Kind.MISALIGNED, access, f"its address is not a multiple of {access.size}")
            return False
        if space.name in UNWRITTEN:
            self._initialised(access)
        return True

    def add(self, kind: Kind, access: Access, why: str) -> None:
        """One finding about one access."""
        if not (self.initialised if kind is Kind.UNINITIALISED else self.bounds):
            return
        address = describe(access.space, access.address, access.size)
        message = f"{access.kind.value} of {access.size} bytes at {address}: {why}"
        where = place(access.kind.value, access.instruction, access.thread)
        self.findings.add(Finding(kind, message, (where,), address, access.size))

    def _initialised(self, access: Access) -> None:
        written = self.written.setdefault(id(access.space), set())
        touched = range(access.address, access.address + access.size)
        if access.kind is not AccessKind.STORE and not written.issuperset(touched):
            self.add(Kind.UNINITIALISED, access, f"{access.space.name} memory that nobody has written")
        if access.kind is not AccessKind.LOAD:
            written.update(touched)


def _outside(access: Access) -> str:
    item = nearest(access.space, access.address)
    if item is None:
        return f"outside every {_what(access.space)}"
    return f"{variable_name(item.name)} in {access.space.name} memory has {extent(item)}"


def _what(space: Space) -> str:
    return "array and variable" if space.name == "global" else f"variable in {space.name} memory"
