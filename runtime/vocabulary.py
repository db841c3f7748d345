"""The machine's tokens: their ids, their bits, and how they read in print.

    VAL(v)             16 bits of a value
    EXEC(b, w, mask)   block b of warp w runs on the lanes of mask; with an empty mask: the launch is over
    CTA(c)             thread block c begins
    MEM(a) lo hi       one word of global memory
    SMEM(a) lo hi      one word of shared memory
    PROG(b, s) ...     ROM row s (0..3 the stages, 4 the terminator) of block b, four payload tokens a chunk
    LIVE(b, n) ...     return sequence of block b with n active lanes, one payload token an entry
    WARP(w) x4         thread indices of warp w's lanes
    GRID(c) lo hi      block indices of thread block c, and which one comes next
    INIT lo hi         lanes that exist in each warp
    CONST(i) lo hi     link-time constant i of a program that is in the weights; such a machine has no PROG and LIVE

PROG, LIVE, WARP, GRID, INIT and CONST are written by the host at load time only; payloads are VAL tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from toolchain.machine_spec import STAGES, MachineSpec

VALUES = 1 << 16


class Kind(StrEnum):
    VAL = "VAL"
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
    """A token and its fields: `a` is v, b, c, word address, w; `b` is w, s, n; `mask` is EXEC's lanes."""

    kind: Kind
    a: int = 0
    b: int = 0
    mask: int = 0

    @property
    def is_end(self) -> bool:
        return self.kind is Kind.EXEC and self.mask == 0


def val(value: int) -> Token:
    return Token(Kind.VAL, value)


def execute(block: int, warp: int, mask: int) -> Token:
    return Token(Kind.EXEC, block, warp, mask)


END = Token(Kind.EXEC)


@dataclass(frozen=True)
class Vocabulary:
    """Token ids of one machine: VAL first, then EXEC, CTA, MEM, and the host's records, each a dense range."""

    spec: MachineSpec

    @property
    def block_bits(self) -> int:
        return self.spec.blocks.bit_length() - 1

    @property
    def warp_bits(self) -> int:
        return self.spec.warps.bit_length() - 1

    def fields(self, token: Token) -> int:
        """The token's 16 raw bits, as the embedding holds them (EXEC: block, warp, mask from bit 0 up)."""
        match token.kind:
            case Kind.EXEC:
                return token.a | token.b << self.block_bits | token.mask << (self.block_bits + self.warp_bits)
            case Kind.PROG:
                return token.a | token.b << self.block_bits
            case Kind.LIVE:
                return token.a | (token.b - 1) << self.block_bits
        return token.a

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
