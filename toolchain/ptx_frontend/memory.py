"""The state spaces of a launch: bytes of global, constant, shared, local and parameter memory.

A generic address is a global address, except for three windows that shared, local and constant memory appear
in (`cvta.shared` adds the window, `cvta.to.shared` takes it off).

Arrays and variables follow one another, as on the machine. With a `gap` they stand that many free bytes apart
instead, so that an index past the end of one does not land in the next; `Space.packed` is then the memory
without the gaps.
"""

from dataclasses import dataclass, field

from toolchain.errors import CompileError, SourceLocation
from toolchain.launch import ELEMENT_BITS, ArrayArgument, Launch, ScalarArgument
from toolchain.machine_spec import MachineSpec
from toolchain.ptx_frontend.ast import TYPE_BITS, Function, Module, Parameter, Variable

WORD_BYTES = 4
WINDOW_BYTES = 1 << 24
WINDOWS = {"global": 0, "const": 0x0300_0000, "shared": 0x0100_0000, "local": 0x0200_0000}
READ_ONLY = frozenset({"const", "param"})
PARAMETER_BYTES = 4096
CONST_BYTES = 65536
LOCAL_BYTES = 4096
"""Local memory of a thread here; what the machine has room for is the loader's to say."""


class LaunchFault(CompileError):
    """A launch that went wrong while it ran: an address outside memory, a branch past its table, no end."""


@dataclass(frozen=True)
class Allocation:
    """An array or a variable: where it starts, its size and its elements' size, in bytes.

    `argument`: an array of the launch.
    """

    name: str
    start: int
    size: int
    element: int
    argument: bool = False

    def holds(self, address: int, size: int) -> bool:
        """Whether `size` bytes at `address` are all inside."""
        return self.start <= address and address + size <= self.start + self.size


@dataclass
class Space:
    """One memory: little-endian bytes, and what stands where in it."""

    name: str
    content: bytearray = field(default_factory=bytearray)
    gap: int = 0
    allocations: list[Allocation] = field(default_factory=list)
    addresses: dict[str, int] = field(default_factory=dict)
    """The variables' own addresses. Arrays that are arguments have none: only their parameter tells it."""

    @property
    def used(self) -> int:
        """Bytes that are taken, the gaps left out."""
        if not self.allocations:
            return 0
        last = self.allocations[-1]
        return last.start + last.size - self.gap * len(self.allocations)

    def allocate(
        self, name: str, size: int, align: int, element: int, limit: int, *, argument: bool = False
    ) -> Allocation:
        """The next aligned `size` bytes, zero. Raises CompileError past `limit` bytes."""
        home = -(-self.used // align) * align
        if home + size > limit:
            raise CompileError(
                f"{self.name} memory is full: '{name}' ends at byte {home + size} of {limit}",
                limit=f"{self.name} memory",
            )
        start = home + self.gap * (len(self.allocations) + 1)
        self.content.extend(bytes(start + size - len(self.content)))
        self.allocations.append(Allocation(name, start, size, element, argument))
        return self.allocations[-1]

    def place(self, variable: Variable, limit: int, *, size: int | None = None) -> None:
        """Gives `variable` the next aligned address; `size` bytes where its type does not say."""
        width = TYPE_BITS[variable.type] // 8
        size = width * variable.elements if size is None else size
        place = self.allocate(variable.name, size, max(variable.align, width), width, limit)
        self.addresses[variable.name] = place.start

    def initialise(self, variable: Variable, elsewhere: dict[str, int]) -> None:
        """Writes a variable's initial value. `elsewhere` has the generic addresses of other spaces' variables."""
        width = TYPE_BITS[variable.type] // 8
        for index, value in enumerate(variable.initialiser):
            number = self._address(value, elsewhere) if isinstance(value, str) else value
            self.store(self.addresses[variable.name] + index * width, width, number)

    def _address(self, text: str, elsewhere: dict[str, int]) -> int:
        """The address that an initialiser `name` or `name+offset` stands for."""
        name, _, offset = text.partition("+")
        known = elsewhere | self.addresses
        if name not in known:
            raise CompileError(
                f"a variable in {self.name} memory is initialised with the address of '{name}'"
            )
        return known[name] + int(offset or "0", 0)

    def close(self, limit: int) -> None:
        """All `limit` bytes of the memory are there, zero; with gaps, one follows the last allocation."""
        end = len(self.content) + self.gap if self.gap else limit
        self.content.extend(bytes(end - len(self.content)))

    def packed(self) -> bytes:
        """The memory without its gaps."""
        if not self.gap:
            return bytes(self.content)
        packed = bytearray(self.used)
        for number, item in enumerate(self.allocations, 1):
            home = item.start - self.gap * number
            packed[home : home + item.size] = self.content[item.start : item.start + item.size]
        return bytes(packed)

    def allocation(self, address: int, size: int) -> Allocation | None:
        """The array or variable that `size` bytes at `address` are in."""
        return next((item for item in self.allocations if item.holds(address, size)), None)

    def misaligned(self, address: int, size: int) -> bool:
        """Whether an access is not at a multiple of its size (PTX ISA, "Addresses as Operands").

        In an array of the launch, counted from its start: CUDA allocates each at a multiple of 256 bytes.
        """
        if size <= WORD_BYTES:  # arrays start on a word
            return address % size != 0
        item = self.allocation(address, size)
        return (address - (item.start if item is not None and item.argument else 0)) % size != 0

    def check(self, address: int, size: int, where: SourceLocation, what: str) -> None:
        """Raises LaunchFault unless `size` bytes at `address` are inside and aligned."""
        if self.misaligned(address, size):
            raise LaunchFault(
                f"{what} at {self.name} address {address}, which is not a multiple of {size}", where
            )
        if address < 0 or address + size > len(self.content):
            raise LaunchFault(
                f"{what} at {self.name} address {address}, outside its {len(self.content)} bytes", where
            )

    def load(self, address: int, size: int) -> int:
        """The unsigned value of `size` bytes."""
        return int.from_bytes(self.content[address : address + size], "little")

    def store(self, address: int, size: int, value: int) -> None:
        """Writes the low `size` bytes of `value`."""
        self.content[address : address + size] = (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")


def parameter_space(entry: Function, launch: Launch, gap: int = 0) -> Space:
    """The kernel's parameters as its launch gives them: an array's address, a scalar's value.

    Raises CompileError where the number or the kinds of arguments do not fit.
    """
    if len(entry.parameters) != len(launch.arguments):
        raise CompileError(
            f"kernel '{entry.name}' takes {len(entry.parameters)} arguments; {len(launch.arguments)} given"
        )
    space = Space("param")
    arrays = 0
    for parameter, argument, address in zip(
        entry.parameters, launch.arguments, launch.array_addresses(), strict=True
    ):
        if parameter.pointer is not None and isinstance(argument, ScalarArgument) and argument.value:
            raise CompileError(
                f"argument '{argument.name}' of '{entry.name}' must be an array, not an integer"
            )
        dimensions = () if parameter.size is None else (parameter.size,)
        variable = Variable("param", parameter.name, parameter.type, parameter.align, dimensions)
        space.place(variable, PARAMETER_BYTES)
        if isinstance(argument, ArrayArgument):
            arrays += 1
            value = address + gap * arrays
        else:
            value = argument.value
        size = space.allocations[-1].size
        space.store(space.addresses[parameter.name], size, _in_range(value, size, parameter, argument.name))
    return space


def _in_range(value: int, size: int, parameter: Parameter, name: str) -> int:
    if not -(1 << (8 * size - 1)) <= value < 1 << (8 * size):
        raise CompileError(f"argument '{name}' is {value}, which does not fit parameter {parameter.type}")
    return value


def global_and_constant_space(
    module: Module, entry: Function, launch: Launch, spec: MachineSpec, gap: int = 0
) -> tuple[Space, Space]:
    """Global memory before the launch (the arrays, the module's .global variables, zeros) and the constants."""
    words = launch.initial_words()
    if len(words) > spec.memory_words:
        raise CompileError(
            f"the arrays take {len(words)} words; machine '{spec.name}' has {spec.memory_words}",
            limit="global memory",
        )
    memory, constants = Space("global", gap=gap), Space("const", gap=gap)
    limits = {"global": 4 * spec.memory_words, "const": CONST_BYTES}
    for argument in launch.arguments:
        if isinstance(argument, ArrayArgument):
            bits = ELEMENT_BITS[argument.element]
            size = bits * len(argument.values) // 8
            place = memory.allocate(
                argument.name, size, max(4, bits // 8), bits // 8, limits["global"], argument=True
            )
            for index, value in enumerate(argument.values):
                memory.store(place.start + index * bits // 8, bits // 8, value)
    variables = (*module.variables, *entry.variables)
    spaces = {"global": memory, "const": constants}
    for variable in variables:
        if variable.space in spaces:
            spaces[variable.space].place(variable, limits[variable.space])
    elsewhere = {
        name: address + WINDOWS[space.name]
        for space in spaces.values()
        for name, address in space.addresses.items()
    }
    for variable in variables:
        if variable.space in spaces:
            spaces[variable.space].initialise(variable, elsewhere)
    for space in spaces.values():
        space.close(limits[space.name])
    return memory, constants


def variables_space(
    name: str, variables: tuple[Variable, ...], limit: int, *, gap: int = 0, dynamic: int = 0
) -> Space:
    """The variables of one space. An extern array, behind them, is the launch's `dynamic` bytes."""
    space = Space(name, gap=gap)
    for variable in sorted(variables, key=lambda variable: variable.external):
        if variable.space == name:
            space.place(variable, limit, size=dynamic if variable.external else None)
    space.close(limit)
    return space
