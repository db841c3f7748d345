"""The state spaces of a launch: bytes of global, constant, shared, local and parameter memory.

A generic address is a global address, except for three windows that shared, local and constant memory appear
in (`cvta.shared` adds the window, `cvta.to.shared` takes it off).
"""

from dataclasses import dataclass, field

from toolchain.errors import CompileError, SourceLocation
from toolchain.launch import ArrayArgument, Launch, ScalarArgument
from toolchain.machine_spec import MachineSpec
from toolchain.ptx_frontend.ast import TYPE_BITS, Function, Module, Parameter, Variable

WINDOWS = {"global": 0, "const": 0x0300_0000, "shared": 0x0100_0000, "local": 0x0200_0000}


class LaunchFault(CompileError):
    """A launch that went wrong while it ran: an address outside memory, a branch past its table, no end."""


@dataclass
class Space:
    """One memory: little-endian bytes, and where each variable stands in it."""

    name: str
    content: bytearray
    addresses: dict[str, int] = field(default_factory=dict)
    elsewhere: dict[str, int] = field(default_factory=dict)
    """Variables of other spaces, by generic address, that initialisers may name."""

    def place(self, variable: Variable, limit: int) -> None:
        """Gives `variable` the next aligned address and writes its initial value."""
        width = TYPE_BITS[variable.type] // 8
        align = max(variable.align, width)
        start = -(-len(self.content) // align) * align
        size = width * variable.elements
        if start + size > limit:
            raise CompileError(
                f"{self.name} memory is full: '{variable.name}' ends at byte {start + size} of {limit}",
                limit=f"{self.name} memory",
            )
        self.addresses[variable.name] = start
        self.content.extend(bytes(start + size - len(self.content)))
        for index, value in enumerate(variable.initialiser):
            number = self._address(value) if isinstance(value, str) else value
            low = (number & ((1 << (8 * width)) - 1)).to_bytes(width, "little")
            self.content[start + index * width : start + (index + 1) * width] = low

    def _address(self, text: str) -> int:
        """The address that an initialiser `name` or `name+offset` stands for."""
        name, _, offset = text.partition("+")
        known = self.addresses | self.elsewhere
        if name not in known:
            raise CompileError(
                f"a variable in {self.name} memory is initialised with the address of '{name}'"
            )
        return known[name] + int(offset or "0", 0)

    def check(self, address: int, size: int, where: SourceLocation, what: str) -> None:
        """Raises LaunchFault unless `size` bytes at `address` are inside and aligned."""
        if address % size:
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


def parameter_space(entry: Function, launch: Launch) -> Space:
    """The kernel's parameters as its launch gives them: an array's address, a scalar's value.

    Raises CompileError where the number or the kinds of arguments do not fit.
    """
    if len(entry.parameters) != len(launch.arguments):
        raise CompileError(
            f"kernel '{entry.name}' takes {len(entry.parameters)} arguments; {len(launch.arguments)} given"
        )
    space = Space("param", bytearray())
    for parameter, argument, address in zip(
        entry.parameters, launch.arguments, launch.array_addresses(), strict=True
    ):
        if parameter.pointer is not None and isinstance(argument, ScalarArgument):
            raise CompileError(
                f"argument '{argument.name}' of '{entry.name}' must be an array, not an integer"
            )
        dimensions = () if parameter.size is None else (parameter.size,)
        size = TYPE_BITS[parameter.type] // 8 * (1 if parameter.size is None else parameter.size)
        space.place(Variable("param", parameter.name, parameter.type, parameter.align, dimensions), 4096)
        value = address if isinstance(argument, ArrayArgument) else argument.value
        space.store(space.addresses[parameter.name], size, _in_range(value, size, parameter, argument.name))
    return space


def _in_range(value: int, size: int, parameter: Parameter, name: str) -> int:
    if not -(1 << (8 * size - 1)) <= value < 1 << (8 * size):
        raise CompileError(f"argument '{name}' is {value}, which does not fit parameter {parameter.type}")
    return value


def global_space(module: Module, launch: Launch, spec: MachineSpec, constants: Space) -> Space:
    """Global memory before the launch: the arrays, then the module's .global variables, then zeros."""
    words = launch.initial_words()
    if len(words) > spec.memory_words:
        raise CompileError(
            f"the arrays take {len(words)} words; machine '{spec.name}' has {spec.memory_words}",
            limit="global memory",
        )
    elsewhere = {name: address + WINDOWS["const"] for name, address in constants.addresses.items()}
    content = bytearray(b"".join(word.to_bytes(4, "little") for word in words))
    space = Space("global", content, elsewhere=elsewhere)
    for variable in module.variables:
        if variable.space == "global":
            space.place(variable, 4 * spec.memory_words)
    space.content.extend(bytes(4 * spec.memory_words - len(space.content)))
    return space


def variables_space(name: str, variables: tuple[Variable, ...], limit: int) -> Space:
    """The variables of one space; the rest up to `limit` is zero (dynamic shared memory)."""
    space = Space(name, bytearray())
    for variable in sorted(variables, key=lambda variable: variable.external):
        if variable.space == name:
            space.place(variable, limit)
    space.content.extend(bytes(limit - len(space.content)))
    return space
