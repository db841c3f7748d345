"""What the host asks for: a grid, a block, and arguments in the kernel's parameter order."""

from dataclasses import dataclass

ELEMENT_BITS = {"i8": 8, "u8": 8, "i16": 16, "u16": 16, "i32": 32, "u32": 32, "i64": 64, "u64": 64}

NO_END = "a loop has no end, or a thread waits for another one of its warp, which does not run meanwhile"
"""Why a launch does not end."""


@dataclass(frozen=True)
class ArrayArgument:
    """An array that is copied into global memory before the launch and read back after it."""

    name: str
    values: tuple[int, ...]
    element: str = "i32"

    @property
    def words(self) -> int:
        """32-bit words of global memory the array takes; arrays start on a word."""
        return -(-len(self.values) * ELEMENT_BITS[self.element] // 32)


@dataclass(frozen=True)
class ScalarArgument:
    """An integer passed by value. It fills 32 bits, or 64 where the kernel's parameter does."""

    name: str
    value: int


Argument = ArrayArgument | ScalarArgument


@dataclass(frozen=True)
class Launch:
    """One kernel launch: CUDA's <<<grid, block, dynamic_shared>>>.

    `grid` and `block` are (x, y, z) extents, `dynamic_shared` the bytes of `extern __shared__` memory.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    dynamic_shared: int = 0

    @property
    def threads_per_block(self) -> int:
        x, y, z = self.block
        return x * y * z

    @property
    def thread_blocks(self) -> int:
        x, y, z = self.grid
        return x * y * z

    def array_addresses(self) -> tuple[int, ...]:
        """Byte address of each argument's array: from 0 in argument order, on a word. -1 for a scalar.

        Arrays of 64-bit elements start on a multiple of 8, as CUDA's alignment rules ask.
        """
        addresses, word = [], 0
        for argument in self.arguments:
            if isinstance(argument, ArrayArgument):
                element_words = -(-ELEMENT_BITS[argument.element] // 32)
                word = -(-word // element_words) * element_words
                addresses.append(4 * word)
                word += argument.words
            else:
                addresses.append(-1)
        return tuple(addresses)

    def initial_words(self) -> tuple[int, ...]:
        """Global memory as the launch finds it: unsigned 32-bit words from address 0, little-endian."""
        words: list[int] = []
        for argument, address in zip(self.arguments, self.array_addresses(), strict=True):
            if not isinstance(argument, ArrayArgument):
                continue
            words.extend([0] * (address // 4 - len(words)))
            bits = ELEMENT_BITS[argument.element]
            packed = 0
            for index, value in enumerate(argument.values):
                packed |= (value & ((1 << bits) - 1)) << (bits * index)
            words.extend((packed >> (32 * index)) & 0xFFFFFFFF for index in range(argument.words))
        return tuple(words)

    def read_back(
        self, words: tuple[int, ...] | list[int], *, unsigned: bool = False
    ) -> dict[str, list[int]]:
        """The arrays by name, decoded from global memory `words`. Signed unless the element is u* or `unsigned`."""
        arrays: dict[str, list[int]] = {}
        for argument, address in zip(self.arguments, self.array_addresses(), strict=True):
            if not isinstance(argument, ArrayArgument):
                continue
            bits = ELEMENT_BITS[argument.element]
            first = address // 4
            packed = sum(int(words[first + i]) << (32 * i) for i in range(argument.words))
            signed = argument.element.startswith("i") and not unsigned
            values = []
            for index in range(len(argument.values)):
                value = (packed >> (bits * index)) & ((1 << bits) - 1)
                values.append(value - (1 << bits) if signed and value >> (bits - 1) else value)
            arrays[argument.name] = values
        return arrays
