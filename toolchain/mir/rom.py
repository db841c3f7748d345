"""A program for the machine: scheduled blocks, their link-time constants, and what each block returns.

    RomImage    = (kernel, spec, parameters, blocks, variables, shared_words, local_words)
    Block       = (stages[4], terminator, returns, serial, source)
    Stage       = (ports[4], immediates[2], x, y, z: AluOp?, m: Multiply?, p: PredicateLogic?)
    Terminator  = (target0, target1, branch, predicates[4], store?, barrier)
    Return      = (value, register, uniform, narrow) | the predicate word

A `LinkValue` is an affine form of link-time symbols: kernel parameters and launch extents, which the loader
knows and patches in, as a linker applies relocations.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from toolchain.errors import SourceLocation
from toolchain.mir.isa import NOTHING, TRUE, MulOp, Op, PredicateSource, Source


@dataclass(frozen=True)
class LinkValue:
    """(sum of coefficient * symbol + addend) mod 2**32, then shifted right by `shift` (an exact word address).

    Symbols: `param.K` is the K-th 32-bit word of the parameters; `ntid.x` .. `nctaid.z` are the launch extents;
    `global.NAME` is the byte address of a variable in global memory; `local.base` the byte address in shared memory
    of the first thread's local arrays, `local.words` how many words of them a thread has.
    """

    addend: int = 0
    terms: tuple[tuple[str, int], ...] = ()
    shift: int = 0

    def resolve(self, symbols: Mapping[str, int]) -> int:
        total = self.addend + sum(factor * symbols[name] for name, factor in self.terms)
        return (total & 0xFFFFFFFF) >> self.shift


@dataclass(frozen=True)
class AluOp:
    """One operation of slot x, y or z. `table` counts for LOP, `predicate` for SEL, `offset` (words) for LOAD."""

    op: Op
    a: Source = NOTHING
    b: Source = NOTHING
    predicate: PredicateSource = TRUE
    table: int = 0
    offset: LinkValue = LinkValue()
    source: SourceLocation | None = None


@dataclass(frozen=True)
class Multiply:
    """Slot m. A PORT operand reads `register_a` or `register_b`."""

    op: MulOp
    a: Source
    b: Source
    register_a: int = 0
    register_b: int = 0
    source: SourceLocation | None = None


@dataclass(frozen=True)
class PredicateLogic:
    """Slot p: bit 2 * a + b of `table`."""

    a: PredicateSource
    b: PredicateSource
    table: int
    source: SourceLocation | None = None


@dataclass(frozen=True)
class Stage:
    ports: tuple[int, int, int, int] = (0, 0, 0, 0)
    immediates: tuple[LinkValue, LinkValue] = (LinkValue(), LinkValue())
    x: AluOp | None = None
    y: AluOp | None = None
    z: AluOp | None = None
    m: Multiply | None = None
    p: PredicateLogic | None = None


@dataclass(frozen=True)
class Store:
    """One word a lane, where `guard` (or its negation) holds: word (address + offset) mod 2**address_bits."""

    address: Source
    data: Source
    address_register: int = 0
    data_register: int = 0
    offset: LinkValue = LinkValue()
    guard: PredicateSource = TRUE
    negated: bool = False
    shared: bool = False
    source: SourceLocation | None = None


EXIT = -1
"""A branch target: the lane is done."""


@dataclass(frozen=True)
class Terminator:
    """Next program counter of each lane: `target1` where `branch` holds, else `target0` (all lanes if TRUE: target1).

    An unconditional block sets both targets alike. `predicates[i]` is the new value of predicate register i,
    None to keep the old one. `barrier`: the warp gives way to the next one with live lanes, in cyclic order; as
    every warp does so at every barrier, all have reached it when this warp runs again.
    """

    target0: int
    target1: int
    branch: PredicateSource = TRUE
    predicates: tuple[PredicateSource | None, ...] = (None, None, None, None)
    store: Store | None = None
    barrier: bool = False
    source: SourceLocation | None = None


@dataclass(frozen=True)
class Return:
    """A result that outlives the block: written to `register` of every active lane by the tokens that follow.

    uniform: equal in all active lanes, said once. narrow: fits 16 bits unsigned, said in one token.
    """

    value: Source
    register: int
    uniform: bool = False
    narrow: bool = False


@dataclass(frozen=True)
class Block:
    """`label` is for people. If any terminator predicate is not None, the predicate word is returned first.

    `serial`: one lane at a time runs the block, the lowest that is there first. So what it loads, computes and
    stores is atomic.
    """

    stages: tuple[Stage, Stage, Stage, Stage]
    terminator: Terminator
    returns: tuple[Return, ...] = ()
    label: str = ""
    serial: bool = False
    source: SourceLocation | None = None

    @property
    def returns_predicates(self) -> bool:
        return any(source is not None for source in self.terminator.predicates)


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter: its name, its first 32-bit word, its size in words, and whether it is a pointer.

    `unread`: the kernel does not look at it, so that it may be a pointer or not.
    """

    name: str
    word: int
    words: int = 1
    pointer: bool = False
    unread: bool = False


@dataclass(frozen=True)
class Variable:
    """A module variable or constant in global memory: `words` of it, the first of them `initial`, the rest zero.

    A word that is a LinkValue is the address of a variable. It starts at a multiple of `align` bytes, a power of
    two from 4 on.
    """

    name: str
    words: int
    initial: tuple[int | LinkValue, ...] = ()
    align: int = 4


@dataclass(frozen=True)
class RomImage:
    """Block 0 is the entry, not serial, and no branch targets it. `machine` is the spec's name.

    Shared memory holds `shared_words` of static variables, then the launch's dynamic shared memory, then
    `local_words` of local arrays for each thread.
    """

    kernel: str
    machine: str
    parameters: tuple[Parameter, ...]
    blocks: tuple[Block, ...]
    source_file: str = ""
    variables: tuple[Variable, ...] = ()
    shared_words: int = 0
    local_words: int = 0

    @property
    def serial(self) -> frozenset[int]:
        """Indices of the serial blocks."""
        return frozenset(index for index, block in enumerate(self.blocks) if block.serial)
