"""The machine's instruction set: slots, operations, operand sources, and the bit layout of a ROM row.

A block is four stages. A stage is a bundle:

    slots x, y, z     one ALU operation each; x and y can also load; only y has the bit and warp operations, only z
                      min and max
    slot  m           one multiply (stages 0..2), with two register ports of its own; ready two stages later
    slot  p           one two-input logic function of predicates
    ports 0..3        registers read for the stage, shared by the operands of x, y and z
    immediates 0, 1   32-bit constants, shared by x, y, z and m

An operand names a *source*: nothing (zero), a port, an immediate, a result of an earlier stage of the same
block, or, in stage 0, a special register. The codes in the ROM are indices into `operand_sources` and its kin.
Everything a later stage may read is read before the stage writes: there is no order inside a bundle.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from toolchain.machine_spec import CHUNK_BITS, MUL_STAGES, PREDICATES, STAGES, WORD_BITS, MachineSpec

ALU_SLOTS = ("x", "y", "z")
LOAD_SLOTS = ("x", "y")
EXTREME_SLOTS = ("z",)
PREDICATE_SLOTS = ("x", "y", "z", "p")
PORTS = 4
IMMEDIATES = 2
SPECIALS = ("tid.x", "tid.y", "tid.z", "ctaid.x", "ctaid.y", "ctaid.z", "laneid", "warpid")


class Op(StrEnum):
    """ALU operations of slots x, y and z. All are 32-bit; `a` and `b` are the operands, `q` the predicate."""

    ADD = "add"  # a + b
    SUB = "sub"  # a - b
    MIN_U = "min.u"  # the four extremes are slot z's
    MIN_S = "min.s"
    MAX_U = "max.u"
    MAX_S = "max.s"
    SEL = "sel"  # q ? a : b
    SET_EQ = "set.eq"  # the six comparisons write the slot's predicate and no value
    SET_NE = "set.ne"
    SET_LT_U = "set.lt.u"
    SET_GE_U = "set.ge.u"
    SET_LT_S = "set.lt.s"
    SET_GE_S = "set.ge.s"
    LOAD = "ld.global"  # global memory word (a + offset) mod 2 ** address_bits; x and y only
    LOAD_SHARED = "ld.shared"  # the same of shared memory
    LOP = "lop"  # bitwise truth table: bit 2 * a + b of `table`; y only, like all below
    SHL = "shl"  # amounts above 31 give 0
    SHR_U = "shr.u"  # amounts above 31 give 0
    SHR_S = "shr.s"  # amounts above 31 give the sign
    POPC = "popc"  # population count of a
    CLZ = "clz"  # leading zeros of a; 32 for 0
    BREV = "brev"  # a with its bits reversed
    SHFL = "shfl"  # a of lane b mod lanes, whether that lane is active or not
    BALLOT = "ballot"  # bit l: lane l is active and q holds there; the same in every lane


COMPARISONS = (Op.SET_EQ, Op.SET_NE, Op.SET_LT_U, Op.SET_GE_U, Op.SET_LT_S, Op.SET_GE_S)
EXTREMES = (Op.MIN_U, Op.MIN_S, Op.MAX_U, Op.MAX_S)
LOADS = (Op.LOAD, Op.LOAD_SHARED)
WARP_OPS = (Op.SHFL, Op.BALLOT)
SELECTING = (Op.SEL, Op.BALLOT)
"""Operations that read the slot's predicate."""
BIT_OPS = (Op.LOP, Op.SHL, Op.SHR_U, Op.SHR_S, Op.POPC, Op.CLZ, Op.BREV, *WARP_OPS)


def executes(slot: str, op: Op) -> bool:
    """Whether an ALU slot has the operation."""
    if op in BIT_OPS:
        return slot == "y"
    if op in EXTREMES:
        return slot in EXTREME_SLOTS
    return op not in LOADS or slot in LOAD_SLOTS


class MulOp(StrEnum):
    """Operations of slot m: a half of the 64-bit product."""

    LO = "mul.lo"
    HI_U = "mul.hi.u"
    HI_S = "mul.hi.s"


class SourceKind(StrEnum):
    NONE = "none"
    PORT = "port"
    IMMEDIATE = "imm"
    SPECIAL = "special"
    RESULT = "t"  # slot result of an earlier stage
    LOADED = "ld"  # what a load of stage 0 brought: the only fresh value a multiply of stage 1 can take
    PRODUCT = "m"  # result of a multiply issued two stages ago or earlier


@dataclass(frozen=True, order=True)
class Source:
    """One operand source. `stage` counts for results, `name` is the slot or special register, `index` the port."""

    kind: SourceKind
    stage: int = 0
    name: str = ""
    index: int = 0

    def __str__(self) -> str:
        match self.kind:
            case SourceKind.NONE:
                return "0"
            case SourceKind.PORT | SourceKind.IMMEDIATE:
                return f"{self.kind}{self.index}"
            case SourceKind.SPECIAL:
                return f"%{self.name}"
            case SourceKind.PRODUCT:
                return f"m{self.stage}"
        return f"{self.kind}{self.stage}.{self.name}"


NOTHING = Source(SourceKind.NONE)


def _results(stages: range) -> list[Source]:
    return [Source(SourceKind.RESULT, stage, slot) for stage in stages for slot in ALU_SLOTS]


def _specials(stage: int) -> list[Source]:
    return [Source(SourceKind.SPECIAL, name=name) for name in SPECIALS] if stage == 0 else []


@cache
def operand_sources(stage: int) -> tuple[Source, ...]:
    """Sources of an ALU operand in `stage`; the position is the ROM code (5 bits)."""
    ports = [Source(SourceKind.PORT, index=i) for i in range(PORTS)]
    immediates = [Source(SourceKind.IMMEDIATE, index=i) for i in range(IMMEDIATES)]
    products = [Source(SourceKind.PRODUCT, i) for i in range(MUL_STAGES) if i + 2 <= stage]
    return (NOTHING, *ports, *immediates, *_specials(stage), *_results(range(stage)), *products)


@cache
def multiply_sources(stage: int) -> tuple[Source, ...]:
    """Sources of a multiply operand in `stage` (4 bits). PORT is the operand's own port.

    In stages 0 and 1 the operand is selected one layer early, beside the ALUs of the stage before, so an ALU
    result of that stage is out of reach; a word it loaded is not. Stage 2's multiply need not hurry.
    """
    own_port = Source(SourceKind.PORT)
    immediates = [Source(SourceKind.IMMEDIATE, index=i) for i in range(IMMEDIATES)]
    fresh = _results(range(stage)) if stage > 1 else []
    loaded = [Source(SourceKind.LOADED, stage - 1, slot) for slot in LOAD_SLOTS] if stage == 1 else []
    return (NOTHING, own_port, *immediates, *_specials(stage), *loaded, *fresh)


@cache
def store_sources() -> tuple[Source, ...]:
    """Sources of the store's address and data (5 bits): its own port, or any result but the last stage-2 product."""
    own_port = Source(SourceKind.PORT)
    products = [Source(SourceKind.PRODUCT, i) for i in range(MUL_STAGES) if i + 2 < STAGES]
    return (NOTHING, own_port, *_results(range(STAGES)), *products)


@dataclass(frozen=True, order=True)
class PredicateSource:
    """Nothing else selected means true. `register` is 0..3 for the predicate file, -1 for a result."""

    register: int = -1
    stage: int = -1
    slot: str = ""

    def __str__(self) -> str:
        if self.register >= 0:
            return f"p{self.register}"
        return f"q{self.stage}.{self.slot}" if self.slot else "true"


TRUE = PredicateSource()


@cache
def predicate_sources(stage: int) -> tuple[PredicateSource, ...]:
    """Predicates that `stage` can read (5 bits); stage 4 is the terminator."""
    file = [PredicateSource(register=i) for i in range(PREDICATES)]
    results = [PredicateSource(stage=s, slot=slot) for s in range(stage) for slot in PREDICATE_SLOTS]
    return (TRUE, *file, *results)


@cache
def return_sources() -> tuple[Source, ...]:
    """Results a block can return; the position plus one is the code in a return entry."""
    return (*_results(range(STAGES)), *(Source(SourceKind.PRODUCT, i) for i in range(MUL_STAGES)))


RETURN_PREDICATES = 16
"""Return-entry code of the warp's predicate word."""
RETURN_STORE = 17
"""Return-entry codes 17, 18, 19: a store's address, low half, high half."""
STORE_TOKENS = 3


# --- ROM layout: (field, width) per 64-bit chunk. A row is written chunk by chunk; trailing zero chunks are left out.

Layout = tuple[tuple[tuple[str, int], ...], ...]

ADDER_LINES = ("sub", "sum", "eq", "ne", "ltu", "geu", "lts", "ges", "sel")
EXTREME_LINES = ("min", "max", "order")
BIT_LINES = ("shl", "shr", "sarfill", "popc", "clz", "brev", "shfl", "ballot")


def _alu_fields(spec: MachineSpec, slot: str) -> list[tuple[str, int]]:
    fields = [(f"{slot}.{line}", 1) for line in ADDER_LINES] + [(f"{slot}.q", 5)]
    if slot in EXTREME_SLOTS:
        fields += [(f"{slot}.{line}", 1) for line in EXTREME_LINES]
    if slot in LOAD_SLOTS:
        fields += [(f"{slot}.ld", 1), (f"{slot}.lds", 1), (f"{slot}.offset", spec.address_bits)]
    if slot == "y":
        fields += [("y.table", 4)] + [(f"y.{line}", 1) for line in BIT_LINES]
    return fields


def _register_bits(spec: MachineSpec) -> int:
    return spec.registers.bit_length() - 1


@cache
def stage_layout(spec: MachineSpec, stage: int) -> Layout:
    """Fields of a stage row, by chunk. A field is little-endian and stays inside its chunk."""
    register = _register_bits(spec)
    route = [(f"port{i}", register) for i in range(PORTS)]
    route += [(f"{slot}.{operand}", 5) for slot in ALU_SLOTS for operand in "ab"]
    multiply = [("m.porta", register), ("m.portb", register), ("m.a", 4), ("m.b", 4)]
    multiply += [("m.mul", 1), ("m.high", 1), ("m.signed", 1)]
    logic = [("p.a", 5), ("p.b", 5), ("p.table", 4)]
    immediates = [(f"imm{i}", WORD_BITS) for i in range(IMMEDIATES)]
    chunks = (
        route,
        _alu_fields(spec, "x") + _alu_fields(spec, "z") + logic,
        _alu_fields(spec, "y") + (multiply if stage < MUL_STAGES else []),
        immediates,
    )
    return _checked(chunks)


@cache
def terminator_layout(spec: MachineSpec) -> Layout:
    """Fields of a block's terminator row. `branch` picks target 1 where it holds.

    `exit*` ends the lane, `serial*` says that the target is a serial block, `barrier` gives way to the next warp.
    """
    register, block = _register_bits(spec), spec.blocks.bit_length() - 1
    control = [("target0", block), ("exit0", 1), ("target1", block), ("exit1", 1), ("branch", 5)]
    control += [(f"p{i}", 5) for i in range(PREDICATES)]
    control += [("serial0", 1), ("serial1", 1), ("barrier", 1)]
    store = [("st.enable", 1), ("st.shared", 1), ("st.guard", 5), ("st.guardneg", 1)]
    store += [("st.addrport", register), ("st.addr", 5), ("st.dataport", register), ("st.data", 5)]
    store += [("st.offset", spec.address_bits)]
    return _checked((control, store))


def _checked(chunks: tuple[list[tuple[str, int]], ...]) -> Layout:
    for chunk in chunks:
        assert sum(width for _, width in chunk) <= CHUNK_BITS, chunk
    return tuple(tuple(chunk) for chunk in chunks)
