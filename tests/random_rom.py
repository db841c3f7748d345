"""Random ROM images: every slot, source and operation, barriers and serial blocks, in programs that always end.

Their barriers may be missed by some lanes of a warp, so they run with `strict=False`.
"""

import random

from toolchain.launch import ArrayArgument, Launch
from toolchain.machine_spec import MUL_STAGES, PREDICATES, STAGES, MachineSpec
from toolchain.mir.encoding import return_tokens
from toolchain.mir.isa import (
    ALU_SLOTS,
    LOADS,
    SELECTING,
    TRUE,
    MulOp,
    Op,
    executes,
    multiply_sources,
    operand_sources,
    predicate_sources,
    return_sources,
    store_sources,
)
from toolchain.mir.rom import (
    EXIT,
    AluOp,
    Block,
    LinkValue,
    Multiply,
    Parameter,
    PredicateLogic,
    Return,
    RomImage,
    Stage,
    Store,
    Terminator,
)

EDGES = (
    0,
    1,
    2,
    3,
    4,
    15,
    16,
    31,
    32,
    33,
    255,
    256,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x10000,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
)


def random_word(rng: random.Random) -> int:
    """A 32-bit word, an edge value half of the time."""
    return rng.choice(EDGES) if rng.random() < 0.5 else rng.getrandbits(32)


def _alu(rng: random.Random, spec: MachineSpec, stage: int, slot: str) -> AluOp:
    op = rng.choice([op for op in Op if executes(slot, op)])
    sources = operand_sources(stage)
    return AluOp(
        op,
        rng.choice(sources),
        rng.choice(sources),
        rng.choice(predicate_sources(stage)) if op in SELECTING else TRUE,
        rng.randrange(16) if op is Op.LOP else 0,
        LinkValue(rng.randrange(1 << spec.address_bits)) if op in LOADS else LinkValue(),
    )


def _stage(rng: random.Random, spec: MachineSpec, index: int) -> Stage:
    slots = {slot: _alu(rng, spec, index, slot) for slot in ALU_SLOTS if rng.random() < 0.8}
    multiply = None
    if index < MUL_STAGES and rng.random() < 0.5:
        sources = multiply_sources(index)
        registers = rng.randrange(spec.registers), rng.randrange(spec.registers)
        multiply = Multiply(rng.choice(list(MulOp)), rng.choice(sources), rng.choice(sources), *registers)
    logic = None
    if rng.random() < 0.5:
        predicates = predicate_sources(index)
        logic = PredicateLogic(rng.choice(predicates), rng.choice(predicates), rng.randrange(16))
    a, b, c, d = (rng.randrange(spec.registers) for _ in range(4))
    immediates = LinkValue(random_word(rng)), LinkValue(random_word(rng))
    return Stage((a, b, c, d), immediates, slots.get("x"), slots.get("y"), slots.get("z"), multiply, logic)


def _store(rng: random.Random, spec: MachineSpec) -> Store:
    """A store to an address that is always in range: register 0 plus an offset, or lane-dependent via stage 0."""
    shared = rng.random() < 0.5
    return Store(
        store_sources()[0],
        rng.choice(store_sources()),
        0,
        rng.randrange(spec.registers),
        LinkValue(rng.randrange(spec.shared_words if shared else spec.memory_words)),
        rng.choice(predicate_sources(STAGES)),
        rng.random() < 0.3,
        shared,
    )


def _block(rng: random.Random, spec: MachineSpec, index: int, count: int) -> Block:
    first, second, third, fourth = (_stage(rng, spec, index) for index in range(STAGES))
    stages = first, second, third, fourth
    targets = [*range(index + 1, count), EXIT]
    predicates = tuple(
        rng.choice(predicate_sources(STAGES)[1:]) if rng.random() < 0.4 else None for _ in range(PREDICATES)
    )
    store = _store(rng, spec) if rng.random() < 0.6 else None
    branch = rng.choice(predicate_sources(STAGES))
    terminator = Terminator(rng.choice(targets), rng.choice(targets), branch, predicates, store)
    if rng.random() < 0.3:
        target = terminator.target0
        terminator = Terminator(target, target, TRUE, predicates, store, barrier=True)
    registers = rng.sample(range(1, spec.registers), rng.randrange(5))
    returns: list[Return] = []
    for register in registers:
        longer = (*returns, Return(rng.choice(return_sources()), register))
        if return_tokens(Block(stages, terminator, longer), spec.lanes) <= spec.max_returns:
            returns = list(longer)
    return Block(stages, terminator, tuple(returns), serial=index > 0 and rng.random() < 0.3)


def random_rom(seed: int, spec: MachineSpec, blocks: int = 6) -> RomImage:
    """A program of `blocks` blocks that only branch forward."""
    rng = random.Random(seed)
    return RomImage(
        f"random{seed}", spec.name, (Parameter("data", 0, 1, True),),
        tuple(_block(rng, spec, index, blocks) for index in range(blocks)),
    )  # fmt: skip


def random_launch(seed: int, spec: MachineSpec) -> Launch:
    """A launch of a random shape over random memory."""
    rng = random.Random(seed ^ 0x5EED)
    memory = tuple(random_word(rng) for _ in range(spec.memory_words))
    threads, grid = rng.randint(1, spec.threads), rng.choice((1, 1, 2, 3))
    return Launch((grid, 1, 1), (threads, 1, 1), (ArrayArgument("data", memory, "u32"),))
