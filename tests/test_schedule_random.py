"""Random MIR, scheduled and run: the machine must leave the same memory as the MIR interpreter."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolchain.errors import CompileError
from toolchain.launch import ArrayArgument, Launch, ScalarArgument
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec
from toolchain.mir.emit_rom import compile_mir
from toolchain.mir.interpreter import run_launch
from toolchain.mir.ir import (
    EXIT,
    TRUE,
    Block,
    Branch,
    Function,
    Instruction,
    Jump,
    MirOp,
    Predicate,
    Register,
    Special,
)
from toolchain.mir.isa import BIT_OPS, COMPARISONS, SPECIALS, MulOp, Op
from toolchain.mir.layout import layout
from toolchain.mir.mir_interpreter import run_mir
from toolchain.mir.regalloc import coalesce
from toolchain.mir.rom import LinkValue, Parameter
from toolchain.mir.verifier import verify

WORDS = 16
"""Words of the one array; a program's stores stay inside it."""
EDGES = (0, 1, 2, 4, 31, 32, 0xFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
ARITHMETIC = (Op.ADD, Op.SUB, Op.MIN_U, Op.MIN_S, Op.MAX_U, Op.MAX_S)


class ProgramMaker:
    """Draws a structured program: straight lines, if-else, counted loops. The entry defines all names."""

    def __init__(self, rng: random.Random, *, private: bool, registers: int = 5, size: int = 8) -> None:
        self.rng, self.private, self.size = rng, private, size
        self.names = [Register(f"r{i}") for i in range(registers)]
        self.flags = [Predicate(f"q{i}") for i in range(2)]
        self.blocks: list[Block] = []
        self.label, self.body = "entry", list[Instruction]()
        self.count = 0

    def function(self) -> Function:
        for name in self.names:
            self.emit(MirOp.MOV, name, self.constant())
        for flag in self.flags:
            self.emit(self.rng.choice(COMPARISONS), flag, self.value(), self.value())
        self.region(2)
        for index, name in enumerate(self.names):
            self.store(name, index)
        self.close(Jump(EXIT), "")
        return Function(
            "random", (Parameter("a", 0, 1, True), Parameter("n", 1)), tuple(self.blocks), "random.cu"
        )

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def emit(self, op, dest, *operands, **extra) -> None:
        self.body.append(Instruction(op, dest, tuple(operands), **extra))

    def close(self, terminator: Branch | Jump, following: str) -> None:
        self.blocks.append(Block(self.label, tuple(self.body), terminator))
        self.label, self.body = following, []

    def constant(self) -> LinkValue:
        return self.rng.choice(
            [
                LinkValue(self.rng.choice(EDGES)),
                LinkValue(3, (("param.1", 1),)),
                LinkValue(0, (("ntid.x", 4),)),
            ]
        )

    def value(self):
        kind = self.rng.random()
        if kind < 0.7:
            return self.rng.choice(self.names)
        return self.constant() if kind < 0.9 else Special(self.rng.choice(SPECIALS))

    def flag(self) -> Predicate:
        return self.rng.choice(self.flags)

    def store(self, data, slot: int | None = None) -> None:
        """To a word of the lane's own (private) or to any of the array."""
        address = Register("address")
        if self.private or slot is not None:
            self.emit(MirOp.MOV, address, Special("tid.x"), narrow=True)
            offset = LinkValue(4 * 8 * ((slot or 0) % 2), (("param.0", 1),), 2)
        else:
            self.emit(Op.LOP, address, self.value(), LinkValue(7), table=0b1000, narrow=True)
            offset = LinkValue(4 * self.rng.randrange(8), (("param.0", 1),), 2)
        guard = self.flag() if self.rng.random() < 0.4 else None
        negated = guard is not None and self.rng.random() < 0.5
        self.body.append(Instruction(MirOp.STORE, None, (address, data), guard, negated, offset=offset))

    def load(self, dest: Register) -> None:
        offset = LinkValue(4 * self.rng.randrange(8) * (not self.private), (("param.0", 1),), 2)
        address = Special("tid.x") if self.private else self.rng.choice(self.names)
        self.emit(Op.LOAD, dest, address, offset=offset)

    def instruction(self) -> None:
        dest, kind = self.rng.choice(self.names), self.rng.random()
        if kind < 0.3:
            self.emit(self.rng.choice(ARITHMETIC), dest, self.value(), self.value())
        elif kind < 0.4:
            self.emit(self.rng.choice(tuple(MulOp)), dest, self.value(), self.value())
        elif kind < 0.5:
            op = self.rng.choice(BIT_OPS)
            one = op in (Op.POPC, Op.CLZ, Op.BREV)
            operands = (self.value(),) if one else (self.value(), self.value())
            table = self.rng.randrange(16) if op is Op.LOP else 0
            self.emit(op, dest, *operands, table=table, narrow=op in (Op.POPC, Op.CLZ))
        elif kind < 0.6:
            self.emit(Op.SEL, dest, self.value(), self.value(), predicate=self.flag())
        elif kind < 0.7:
            self.emit(self.rng.choice(COMPARISONS), self.flag(), self.value(), self.value())
        elif kind < 0.75:
            operands = [self.rng.choice((TRUE, *self.flags)) for _ in range(2)]
            self.emit(MirOp.PLOP, self.flag(), *operands, table=self.rng.randrange(16))
        elif kind < 0.85:
            self.load(dest)
        elif kind < 0.92:
            self.emit(MirOp.MOV, dest, self.value())
        else:
            self.store(self.value())

    def region(self, depth: int) -> None:
        for _ in range(self.rng.randint(1, 3)):
            for _ in range(self.rng.randint(0, self.size)):
                self.instruction()
            kind = self.rng.random()
            if depth and kind < 0.4:
                self.if_else(depth - 1)
            elif depth and kind < 0.7:
                self.loop(depth - 1)

    def if_else(self, depth: int) -> None:
        one, two, join = self.fresh("then"), self.fresh("else"), self.fresh("join")
        if self.rng.random() < 0.5:
            two = join
        self.close(Branch(self.flag(), one, two), one)
        self.region(depth)
        self.close(Jump(join), two)
        if two != join:
            self.region(depth)
            self.close(Jump(join), join)

    def loop(self, depth: int) -> None:
        head, following = self.fresh("loop"), self.fresh("after")
        counter, going = Register(f"i{self.count}"), Predicate(f"go{self.count}")
        self.emit(MirOp.MOV, counter, Special("laneid") if self.rng.random() < 0.5 else LinkValue())
        self.close(Jump(head), head)
        self.region(depth)
        following_value = Register(f"{counter.name}n")
        self.emit(Op.ADD, following_value, counter, LinkValue(1))
        self.emit(Op.SET_LT_U, going, following_value, LinkValue(3))
        self.emit(MirOp.MOV, counter, following_value)
        self.close(Branch(going, head, following), following)


def launch_for(spec: MachineSpec, rng: random.Random) -> Launch:
    words = tuple(rng.choice(EDGES) for _ in range(WORDS))
    return Launch(
        (2, 1, 1),
        (spec.lanes + 1, 1, 1),
        (ArrayArgument("a", words, "u32"), ScalarArgument("n", rng.randrange(9))),
    )


def check(seed: int, spec: MachineSpec, *, private: bool) -> bool:
    """Compiles and compares; False where the program does not fit the machine."""
    rng = random.Random(seed)
    function = ProgramMaker(rng, private=private).function()
    verify(function)
    launch = launch_for(spec, rng)
    try:
        rom = compile_mir(function, spec)
    except CompileError as error:
        if error.limit:
            return False
        raise
    reference = function if private else layout(coalesce(layout(function)))
    assert run_launch(rom, spec, launch).memory == run_mir(reference, spec, launch).memory
    return True


@pytest.mark.parametrize("spec", [NANO, CLASSIC], ids=lambda spec: spec.name)
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 1 << 30), private=st.booleans())
def test_memory_is_what_the_mir_interpreter_says(spec: MachineSpec, seed: int, private: bool) -> None:
    check(seed, spec, private=private)


def test_most_random_programs_fit() -> None:
    fits = sum(check(seed, CLASSIC, private=bool(seed % 2)) for seed in range(20))
    assert fits >= 10
