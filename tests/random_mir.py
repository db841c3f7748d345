"""Random MIR programs and launches for them."""

import random

from toolchain.launch import ArrayArgument, Launch, ScalarArgument
from toolchain.machine_spec import MachineSpec
from toolchain.mir.ir import (
    EXIT,
    TRUE,
    Barrier,
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
from toolchain.mir.isa import BIT_OPS, COMPARISONS, SPECIALS, WARP_OPS, MulOp, Op
from toolchain.mir.rom import LinkValue, Parameter

WORDS = 16
"""Words of the one array; a program's stores stay inside it."""
EDGES = (0, 1, 2, 4, 31, 32, 0xFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
SHARED_WORDS = 24
"""Words of each lane at tid.x and tid.x + 8; the eight from 16 on are for atomics of all lanes."""
ATOMICS = 16
BITWISE = tuple(op for op in BIT_OPS if op not in WARP_OPS)
ARITHMETIC = (Op.ADD, Op.SUB, Op.MIN_U, Op.MIN_S, Op.MAX_U, Op.MAX_S)


class ProgramMaker:
    """Draws a structured program: straight lines, if-else, counted loops. The entry defines all names.

    `together`: all lanes of the thread block are here, so a barrier may be.
    """

    def __init__(self, rng: random.Random, *, private: bool, registers: int = 5, size: int = 8) -> None:
        self.rng, self.private, self.size = rng, private, size
        self.names = [Register(f"r{i}") for i in range(registers)]
        self.flags = [Predicate(f"q{i}") for i in range(2)]
        self.blocks: list[Block] = []
        self.label, self.body = "entry", list[Instruction]()
        self.count = 0
        self.together = True

    def function(self) -> Function:
        for name in self.names:
            self.emit(MirOp.MOV, name, self.constant())
        for flag in self.flags:
            self.emit(self.rng.choice(COMPARISONS), flag, self.value(), self.value())
        self.region(2)
        for index, name in enumerate(self.names):
            self.store(name, index)
        for slot in (0, 8, ATOMICS):
            self.emit(Op.LOAD_SHARED, self.names[0], Special("tid.x"), offset=LinkValue(slot))
            self.store(self.names[0], slot // 8)
        self.close(Jump(EXIT), "")
        return Function(
            "random", (Parameter("a", 0, 1, True), Parameter("n", 1)), tuple(self.blocks), "random.cu",
            shared_words=SHARED_WORDS,
        )  # fmt: skip

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def emit(self, op, dest, *operands, **extra) -> None:
        self.body.append(Instruction(op, dest, tuple(operands), **extra))

    def close(self, terminator: Branch | Jump | Barrier, following: str, *, serial: bool = False) -> None:
        self.blocks.append(Block(self.label, tuple(self.body), terminator, serial))
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

    def shared(self) -> None:
        """A load or store of a word of the lane's own, or of any."""
        slot = LinkValue(8 * self.rng.randrange(2))
        address = Special("tid.x")
        if not self.private:
            address = Register("address")
            self.emit(Op.LOP, address, self.value(), LinkValue(7), table=0b1000)
        if self.rng.random() < 0.5:
            self.emit(Op.LOAD_SHARED, self.rng.choice(self.names), address, offset=slot)
            return
        if isinstance(address, Special):
            address = Register("address")
            self.emit(MirOp.MOV, address, Special("tid.x"), narrow=True)
        guard = self.flag() if self.rng.random() < 0.3 else None
        self.emit(MirOp.STORE_SHARED, None, address, self.value(), predicate=guard, offset=slot)

    def shuffle(self, dest: Register) -> None:
        """A shuffle; where the lane that is read is not active, the lane's own value."""
        lane = self.value()
        votes, bit, here, taken = (Register(self.fresh("s")) for _ in range(4))
        active = Predicate(self.fresh("active"))
        self.emit(Op.BALLOT, votes, predicate=TRUE, uniform=True, narrow=True)
        self.emit(Op.LOP, bit, lane, LinkValue(1), table=0b1000)
        self.emit(Op.SHR_U, here, votes, bit)
        self.emit(Op.LOP, here, here, LinkValue(1), table=0b1000)
        self.emit(Op.SHFL, taken, self.rng.choice(self.names), bit)
        self.emit(Op.SET_NE, active, here, LinkValue())
        self.emit(Op.SEL, dest, taken, dest, predicate=active)

    def atomic(self, dest: Register) -> None:
        """A serial block: load, combine, store. If private, nothing depends on the order of the lanes."""
        label, following = self.fresh("atomic"), self.fresh("go")
        address, new = Register("address"), Register(self.fresh("new"))
        self.emit(Op.LOP, address, self.value(), LinkValue(3), table=0b1000)
        self.close(Jump(label), label)
        op, operand = self.rng.choice(ARITHMETIC), self.rng.choice(self.names)
        if self.private:
            op, dest = Op.ADD, Register(self.fresh("old"))
        self.emit(Op.LOAD_SHARED, dest, address, offset=LinkValue(ATOMICS))
        self.emit(op, new, dest, operand)
        guard = self.flag() if self.rng.random() < 0.3 else None
        self.emit(MirOp.STORE_SHARED, None, address, new, predicate=guard, offset=LinkValue(ATOMICS))
        if self.rng.random() < 0.3:
            other = self.fresh("other")
            self.close(Branch(self.flag(), other, following), other, serial=True)
            self.emit(MirOp.MOV, self.rng.choice(self.names), self.value())
            self.close(Jump(following), following)
        else:
            self.close(Jump(following), following, serial=True)

    def special(self, dest: Register) -> None:
        """Something that concerns more lanes than one."""
        kind = self.rng.random()
        if kind < 0.3:
            self.shared()
        elif kind < 0.5:
            self.emit(Op.BALLOT, dest, predicate=self.flag(), uniform=self.rng.random() < 0.5, narrow=True)
        elif kind < 0.7:
            self.shuffle(dest)
        elif kind < 0.9 or not self.together:
            self.atomic(dest)
        else:
            following = self.fresh("met")
            self.close(Barrier(following), following)

    def instruction(self) -> None:
        dest, kind = self.rng.choice(self.names), self.rng.random()
        if self.rng.random() < 0.15:
            self.special(dest)
        elif kind < 0.3:
            self.emit(self.rng.choice(ARITHMETIC), dest, self.value(), self.value())
        elif kind < 0.4:
            self.emit(self.rng.choice(tuple(MulOp)), dest, self.value(), self.value())
        elif kind < 0.5:
            op = self.rng.choice(BITWISE)
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
        before, self.together = self.together, False
        self.close(Branch(self.flag(), one, two), one)
        self.region(depth)
        self.close(Jump(join), two)
        if two != join:
            self.region(depth)
            self.close(Jump(join), join)
        self.together = before

    def loop(self, depth: int) -> None:
        head, following = self.fresh("loop"), self.fresh("after")
        counter, going = Register(f"i{self.count}"), Predicate(f"go{self.count}")
        before, uneven = self.together, self.rng.random() < 0.5
        self.together &= not uneven
        self.emit(MirOp.MOV, counter, Special("laneid") if uneven else LinkValue())
        self.close(Jump(head), head)
        self.region(depth)
        following_value = Register(f"{counter.name}n")
        self.emit(Op.ADD, following_value, counter, LinkValue(1))
        self.emit(Op.SET_LT_U, going, following_value, LinkValue(3))
        self.emit(MirOp.MOV, counter, following_value)
        self.close(Branch(going, head, following), following)
        self.together = before


def launch_for(spec: MachineSpec, rng: random.Random) -> Launch:
    words = tuple(rng.choice(EDGES) for _ in range(WORDS))
    return Launch(
        (2, 1, 1),
        (spec.lanes + 1, 1, 1),
        (ArrayArgument("a", words, "u32"), ScalarArgument("n", rng.randrange(9))),
    )
