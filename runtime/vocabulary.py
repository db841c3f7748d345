"""The machine's tokens: their ids, their bits, and how they read in print.

    VAL(v)             16 bits of a value
    SHORT(v)           a whole 32-bit value, -2**(short_bits - 1) <= v < 2**(short_bits - 1), in place of VAL lo, VAL hi
    EXEC(b, w, mask)   block b of warp w runs on the lanes of mask; with an empty mask: the launch is over
    CTA(c)             thread block c begins
    MEM(a) lo hi       one word of global memory; MEM(a) SHORT(v) where it fits
    SMEM(a) lo hi      one word of shared memory, likewise
    PROG(b, s) ...     ROM row s (0..3 the stages, 4 the terminator) of block b, four payload tokens a chunk
    LIVE(b, n) ...     return sequence of block b with n active lanes, one payload token an entry
    WARP(w) x4         thread indices of warp w's lanes
    GRID(c) lo hi      block indices of thread block c, and which one comes next
    INIT lo hi         lanes that exist in each warp
    CONST(i) lo hi     link-time constant i of a program that is in the weights; such a machine has no PROG and LIVE

PROG, LIVE, WARP, GRID, INIT and CONST are written by the host at load time only; their payloads
are VAL tokens. A SHORT counts for two in a record's and in a block's places: it stands where the high half would.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from toolchain.machine_spec import STAGES, WORD_BITS, MachineSpec

HALF_BITS = 16
"""Bits that a VAL token says."""
VALUES = 1 << HALF_BITS


class Kind(StrEnum):
    VAL = "VAL"
    SHORT = "SHORT"
    EXEC = "EXEC"
    CTA = "CTA"
    MEM = "MEM"
    SMEM = "SMEM"
    PROG = "PROG"
    LIVE = "LIVE"
    WARP = "WARP"
    GRID = "GRID"
    INIT = "INIT"
    CONST = "CONST"


@dataclass(frozen=True)
class Token:
    """A token and its fields: `a` is v (SHORT's signed), b, c, word address, w; `b` is w, s, n; `mask` EXEC's lanes."""

    kind: Kind
    a: int = 0
    b: int = 0
    mask: int = 0

    @property
    def is_end(self) -> bool:
        return self.kind is Kind.EXEC and self.mask == 0


def val(value: int) -> Token:
    return Token(Kind.VAL, value)


def short(value: int) -> Token:
    """SHORT of a signed value."""
    return Token(Kind.SHORT, value)


def word_tokens(spec: MachineSpec, value: int) -> tuple[Token, ...]:
    """The tokens that say a 32-bit value: SHORT where it fits, else its low and its high half."""
    signed = value - (1 << WORD_BITS) if value >> (WORD_BITS - 1) else value
    if -(1 << (spec.short_bits - 1)) <= signed < 1 << (spec.short_bits - 1):
        return (short(signed),)
    return val(value & (VALUES - 1)), val(value >> HALF_BITS)


def execute(block: int, warp: int, mask: int) -> Token:
    return Token(Kind.EXEC, block, warp, mask)


END = Token(Kind.EXEC)


@dataclass(frozen=True)
class Vocabulary:
    """Token ids of one machine: VAL and SHORT, then EXEC, CTA, MEM, and the host's records, each a dense range."""

    spec: MachineSpec

    @property
    def block_bits(self) -> int:
        return self.spec.blocks.bit_length() - 1

    @property
    def warp_bits(self) -> int:
        return self.spec.warps.bit_length() - 1

    def fields(self, token: Token) -> int:
        """The token's place in its kind's range (EXEC: block, warp, mask from bit 0 up; SHORT: two's complement)."""
        match token.kind:
            case Kind.EXEC:
                return token.a | token.b << self.block_bits | token.mask << (self.block_bits + self.warp_bits)
            case Kind.PROG:
                return token.a | token.b << self.block_bits
            case Kind.LIVE:
                return token.a | (token.b - 1) << self.block_bits
            case Kind.SHORT:
                return self._complement(token, self.spec.short_bits)
        return token.a

    def raw(self, token: Token) -> int:
        """The token's 16 raw bits, as the embedding holds them: its fields; SHORT's value with its sign extended."""
        if token.kind is Kind.SHORT:
            return self._complement(token, HALF_BITS)
        return self.fields(token)

    def _complement(self, token: Token, bits: int) -> int:
        """A SHORT's value in two's complement; raises ValueError where the machine has no such SHORT."""
        half = 1 << (self.spec.short_bits - 1)
        if not -half <= token.a < half:
            raise ValueError(f"{token} is not a token of machine '{self.spec.name}'")
        return token.a % (1 << bits)

    def ranges(self) -> dict[Kind, tuple[int, int]]:
        """First id and count of each kind."""
        return _ranges(self.spec)

    def kinds(self) -> tuple[Kind, ...]:
        """The kinds that have tokens."""
        return tuple(kind for kind, (_, count) in self.ranges().items() if count)

    @property
    def size(self) -> int:
        return sum(count for _, count in self.ranges().values())

    def id(self, token: Token) -> int:
        first, count = self.ranges()[token.kind]
        fields = self.fields(token)
        if not 0 <= fields < count:
            raise ValueError(f"{token} is not a token of machine '{self.spec.name}'")
        return first + fields

    def token(self, token_id: int) -> Token:
        """The token of an id; raises ValueError outside the vocabulary."""
        for kind, (first, count) in self.ranges().items():
            if first <= token_id < first + count:
                return self._decode(kind, token_id - first)
        raise ValueError(f"no token has id {token_id} on machine '{self.spec.name}'")

    def _decode(self, kind: Kind, fields: int) -> Token:
        block = fields & (self.spec.blocks - 1)
        rest = fields >> self.block_bits
        match kind:
            case Kind.EXEC:
                return Token(kind, block, rest & (self.spec.warps - 1), rest >> self.warp_bits)
            case Kind.PROG:
                return Token(kind, block, rest)
            case Kind.LIVE:
                return Token(kind, block, rest + 1)
            case Kind.SHORT:
                negative = fields >> (self.spec.short_bits - 1)
                return Token(kind, fields - (negative << self.spec.short_bits))
        return Token(kind, fields)

    def all_tokens(self) -> Iterator[Token]:
        """Every token, in id order."""
        for kind, (_, count) in self.ranges().items():
            for fields in range(count):
                yield self._decode(kind, fields)

    def text(self, token: Token) -> str:
        """The token as a person reads it."""
        match token.kind:
            case Kind.EXEC if token.is_end:
                return f"EXEC(0, {self.spec.warps})"
            case Kind.EXEC:
                return f"EXEC({token.a}, {token.b}, 0b{token.mask:0{self.spec.lanes}b})"
            case Kind.PROG | Kind.LIVE:
                return f"{token.kind}({token.a}, {token.b})"
            case Kind.INIT:
                return "INIT"
        return f"{token.kind}({token.a})"


@cache
def _ranges(spec: MachineSpec) -> dict[Kind, tuple[int, int]]:
    counts = {
        Kind.VAL: VALUES,
        Kind.SHORT: 1 << spec.short_bits,
        Kind.EXEC: spec.blocks * spec.warps << spec.lanes,
        Kind.CTA: spec.thread_blocks,
        Kind.MEM: 1 << spec.address_bits,
        Kind.SMEM: 1 << spec.address_bits,
        Kind.PROG: 0 if spec.program else spec.blocks * (STAGES + 1),
        Kind.LIVE: 0 if spec.program else spec.blocks * spec.lanes,
        Kind.WARP: spec.warps,
        Kind.GRID: spec.thread_blocks,
        Kind.INIT: 1,
        Kind.CONST: spec.constants,
    }
    ranges, first = {}, 0
    for kind, count in counts.items():
        ranges[kind] = (first, count)
        first += count
    return ranges
