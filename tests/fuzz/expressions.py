"""Random expressions of 32 and 64 bits: defined for all values, the same in C++ and in CUDA.

Shifts are masked, divisors are not zero and not -1, indices are masked, signed arithmetic wraps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.fuzz.tape import Tape

EDGES = (
    0, 1, 2, 3, 4, 7, 8, 31, 32, 33, 255, 256, 65535, 65536, 65537, (1 << 31) - 1, 1 << 31, (1 << 32) - 1,
)  # fmt: skip
WIDE_EDGES = (0, 1, 2, 31, 32, 33, 63, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)

BINARY = ("+", "-", "*", "&", "|", "^")
COMPARE = ("<", "<=", ">", ">=", "==", "!=")
CALLS = {
    "min": 2, "max": 2, "__mulhi": 2, "__umulhi": 2, "abs": 1, "__popc": 1, "__clz": 1, "__brev": 1,
}  # fmt: skip
"""The usual intrinsics, with how many arguments each takes."""
RARE_CALLS = {
    "__ffs": 1, "__funnelshift_l": 3, "__funnelshift_r": 3, "__funnelshift_lc": 3, "__funnelshift_rc": 3,
    "__uhadd": 2, "__hadd": 2, "__sad": 3, "__usad": 3, "__mul24": 2, "__umul24": 2, "__dp4a": 3,
    "__byte_perm": 3, "umin": 2, "umax": 2, "__rhadd": 2, "__urhadd": 2,
}  # fmt: skip
SIGNED_ARGUMENTS = ("abs", "__dp4a")
"""Overloaded on signed and unsigned: a cast decides."""
WIDE_CALLS = ("__popcll", "__clzll", "__ffsll", "__brevll")
NARROW = ("short", "unsigned short", "signed char", "unsigned char")


@dataclass
class Expressions:
    """What an expression may name. `depth` bounds its nesting; `features` says which kinds a kernel has."""

    random: Tape
    depth: int
    features: frozenset[str] = frozenset()
    variables: list[str] = field(default_factory=list)
    """Of 32 bits."""
    wides: list[str] = field(default_factory=list)
    """Of 64 bits."""
    counters: list[str] = field(default_factory=list)
    """Of the loops that are open."""
    leaves: tuple[str, ...] = ()
    """Other 32-bit values."""
    tables: tuple[tuple[str, int], ...] = ()
    """Arrays that anyone may read, and the mask of an index into each."""
    functions: list[tuple[str, int]] = field(default_factory=list)
    """Device functions of 32-bit values, and how many they take."""

    def pick(self, options: Sequence[str]) -> str:
        return self.random.choice(options)

    def chance(self, part: float) -> bool:
        """False for a zero on the tape."""
        return self.random.random() >= 1 - part

    # 32 bits.

    def literal(self) -> str:
        value = self.random.choice((*EDGES, self.random.getrandbits(32), self.random.randrange(64)))
        if self.chance(0.5):
            return f"{value}u"
        value = value - (1 << 32) if value >> 31 else value
        return "(-2147483647 - 1)" if value == -(1 << 31) else f"({value})" if value < 0 else str(value)

    def leaf(self) -> str:
        kind = self.random.random()
        if kind < 0.55:
            return self.pick([*self.variables, *self.counters])
        if kind < 0.75:
            return self.literal()
        if kind < 0.87 and self.leaves:
            return self.pick(self.leaves)
        return self.element() if self.tables else self.pick(self.variables)

    def element(self) -> str:
        """An element of a table, of whatever type."""
        table, mask = self.random.choice(self.tables)
        index = self.pick([*self.variables, *self.counters])
        return f"{table}[{index} & {mask}]"

    def expression(self, depth: int | None = None) -> str:
        depth = self.depth if depth is None else depth
        if depth == 0 or not self.chance(0.85):
            return self.leaf()
        kind = self.random.random()
        a = self.expression(depth - 1)
        if kind < 0.40:
            return f"({a} {self.pick(BINARY)} {self.expression(depth - 1)})"
        if kind < 0.52:
            return f"({a} {self.pick(('<<', '>>'))} {self.shift(depth - 1)})"
        if kind < 0.60:
            return f"({self.condition(depth - 1)} ? {a} : {self.expression(depth - 1)})"
        if kind < 0.66:
            return f"({self.pick('-~!')}{a})"
        if kind < 0.71:
            return self.quotient(a, depth - 1)
        if kind < 0.76:
            return self.part(a)
        if kind < 0.80:
            return self.condition(depth)
        if kind < 0.86 and self.wides:
            return self.narrowed(depth - 1)
        if kind < 0.90 and self.functions:
            return self.invocation(0)
        return self.rare_call(a, depth - 1) if self.chance(0.2) else self.call(CALLS, a, depth - 1)

    def invocation(self, depth: int) -> str:
        """A call of a device function."""
        name, count = self.random.choice(self.functions)
        return f"{name}({', '.join(self.expression(depth) for _ in range(count))})"

    def rare_call(self, a: str, depth: int) -> str:
        """An intrinsic that programs seldom use."""
        return self.call(RARE_CALLS, a, depth)

    def call(self, calls: Mapping[str, int], a: str, depth: int) -> str:
        """An intrinsic of 32-bit values, `a` its first argument."""
        name = self.pick(tuple(calls))
        arguments = [a, *(self.expression(depth) for _ in range(calls[name] - 1))]
        if name in SIGNED_ARGUMENTS:
            kind = "unsigned" if name != "abs" and self.chance(0.5) else "int"
            arguments = [f"({kind})({argument})" for argument in arguments]
        return f"{name}({', '.join(arguments)})"

    def quotient(self, a: str, depth: int) -> str:
        """By a constant, or by a variable that is neither 0 nor -1."""
        operator = self.pick("/%")
        if "division" not in self.features or self.chance(0.5):
            return f"({a} {operator} {self.random.choice((2, 3, 4, 5, 7, 8, 10, 16))}{self.pick(('', 'u'))})"
        b = self.expression(depth)
        divisor = self.pick((f"(int)(({b} & 255) + 1)", f"({b} | 1u)", f"(-2 - (int)({b} & 0xffff))"))
        a = f"(int)({a})" if self.chance(0.5) else a
        return f"({a} {operator} {divisor})"

    def part(self, value: str) -> str:
        """A cast or a field, which compilers turn into 8- and 16-bit arithmetic and loads."""
        kind = self.random.randrange(4)
        if kind == 0:
            return f"({self.pick(('int', 'unsigned'))})({value})"
        if kind == 1:
            return f"({self.pick(NARROW)})({value})"
        if kind == 2:
            return f"__byte_perm({value}, {self.leaf()}, {self.random.getrandbits(16) & 0x7777})"
        mask = self.pick(("1", "2", "255", "0xffff", "0xff00", "0x7fff", "15"))
        return f"(({value} >> {self.pick(('0', '0', '8', '16', '24'))}) & {mask})"

    def narrowed(self, depth: int) -> str:
        """32 bits out of 64."""
        value = self.wide(depth)
        kind = self.random.randrange(4)
        if kind == 0:
            return f"(int)({value})"
        if kind == 1:
            return f"(int)({value} >> 32)"
        if kind == 2:
            return f"({value} {self.pick(COMPARE)} {self.wide(depth)})"
        name = self.pick(WIDE_CALLS[:3])
        return f"{name}({value})"

    def shift(self, depth: int) -> str:
        return str(self.random.randrange(32)) if not self.chance(0.4) else f"({self.expression(depth)} & 31)"

    def condition(self, depth: int) -> str:
        a = self.expression(depth)
        kind = self.random.random()
        if kind >= 0.85:
            return f"({a} & {1 << self.random.randrange(4)}) != 0"
        if kind >= 0.7 and depth > 0:
            return f"({self.condition(depth - 1)} {self.pick(('&&', '||', '!=', '=='))} {self.condition(depth - 1)})"
        return f"({a} {self.pick(COMPARE)} {self.expression(min(depth, 1))})"

    # 64 bits.

    def wide_literal(self) -> str:
        value = self.random.choice((*WIDE_EDGES, self.random.getrandbits(64), self.random.randrange(256)))
        return f"(long long){value}ull" if self.chance(0.5) else f"{value}ull"

    def wide_leaf(self) -> str:
        kind = self.random.random()
        if kind < 0.6:
            return self.pick(self.wides)
        if kind < 0.75:
            return self.wide_literal()
        return f"({self.pick(('long long', 'unsigned long long'))}){self.leaf()}"

    def wide(self, depth: int) -> str:
        if depth <= 0 or not self.chance(0.8):
            return self.wide_leaf()
        kind = self.random.random()
        a = self.wide(depth - 1)
        if kind < 0.5:
            return f"({a} {self.pick(BINARY)} {self.wide(depth - 1)})"
        if kind < 0.7:
            by = str(self.random.randrange(64)) if not self.chance(0.4) else f"({self.expression(0)} & 63)"
            return f"({a} {self.pick(('<<', '>>'))} {by})"
        if kind < 0.8:
            return f"({self.condition(0)} ? {a} : {self.wide(depth - 1)})"
        if kind < 0.87:
            return f"({self.pick('-~')}{a})"
        if kind < 0.92:
            b = self.wide_leaf()
            return f"({self.pick(('min', 'max'))}((long long){a}, (long long){b}))"
        if kind < 0.94:
            return f"(unsigned long long){self.pick(('__mul64hi', '__umul64hi'))}({a}, {self.wide_leaf()})"
        if kind < 0.97 or "division" not in self.features:
            return f"({self.pick(('long long', 'unsigned long long'))}){self.pick(WIDE_CALLS)}({a})"
        return self.wide_quotient(a)

    def wide_quotient(self, a: str) -> str:
        """By a variable that is neither 0 nor -1."""
        b = self.wide_leaf()
        divisor = self.pick(
            (
                f"(long long)(({b} & 0xffff) + 1)",
                f"({b} | 1ull)",
                f"(-2 - (long long)({b} & 0xffffffffffull))",
            )
        )
        a = f"({self.pick(('long long', 'unsigned long long'))})({a})"
        return f"({a} {self.pick('/%')} {divisor})"
