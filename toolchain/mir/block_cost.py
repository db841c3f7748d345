"""An estimate of what a function costs in tokens, for the passes that reshape control flow.

A machine block costs one EXEC token and the tokens of what it returns; how often it runs is guessed from
loops and branches. The scheduler decides for itself; here only differences matter.
"""

from dataclasses import dataclass, field

from toolchain.machine_spec import MUL_STAGES, PREDICATES, STAGES, MachineSpec
from toolchain.mir import liveness
from toolchain.mir.cfg import Cfg
from toolchain.mir.ir import (
    EXIT,
    ZERO,
    Block,
    Function,
    Instruction,
    MirOp,
    Predicate,
    Register,
    needs_bit_slot,
)
from toolchain.mir.isa import IMMEDIATES, LOAD_SLOTS, PORTS, MulOp
from toolchain.mir.liveness import Name
from toolchain.mir.rom import LinkValue

LOOP_TRIPS = 8.0
"""Guessed iterations of a loop."""
ONE_SIDE = 0.7
"""Guessed chance that some lane of a warp takes one side of a branch."""
OVER_LIMIT = 1000.0
"""Cost of each machine block beyond the ROM, and of each predicate beyond the file."""


@dataclass
class _Segment:
    """A machine block being filled: what each stage holds, and when each result is ready."""

    alu: list[int] = field(default_factory=lambda: [0] * STAGES)
    loads: list[int] = field(default_factory=lambda: [0] * STAGES)
    bits: list[int] = field(default_factory=lambda: [0] * STAGES)
    multiplies: list[int] = field(default_factory=lambda: [0] * STAGES)
    logic: list[int] = field(default_factory=lambda: [0] * STAGES)
    ports: list[set[Name]] = field(default_factory=lambda: [set() for _ in range(STAGES)])
    immediates: list[set[LinkValue]] = field(default_factory=lambda: [set() for _ in range(STAGES)])
    ready: dict[Name, int] = field(default_factory=dict)
    ready_for_multiply: dict[Name, int] = field(default_factory=dict)
    stored: bool = False
    stored_shared: bool = False

    def place(self, item: Instruction) -> bool:
        """Puts an operation into the first stage that has room; False if none has."""
        if item.is_store:
            if self.stored:
                return False
            self.stored, self.stored_shared = True, item.is_shared
            return item.predicate is None or self.ready.get(item.predicate, 0) <= STAGES
        if item.is_load and self.stored and self.stored_shared == item.is_shared:
            return False
        if item.op is MirOp.SYNC:
            return True
        if is_free(item):
            self._define(item, max((self.ready.get(name, 0) for name in item.uses), default=0), 0, 0)
            return True
        if isinstance(item.op, MulOp):
            return self._multiply(item)
        first = max((self.ready.get(name, 0) for name in item.uses), default=0)
        for stage in range(first, STAGES):
            if self._fits(item, stage):
                self._define(item, stage, 1, 1 if item.is_load else 2)
                return True
        return False

    def _fits(self, item: Instruction, stage: int) -> bool:
        if item.op is MirOp.PLOP:
            if self.logic[stage]:
                return False
            self.logic[stage] += 1
            return True
        fresh = {name for name in item.uses if isinstance(name, Register) and name not in self.ready}
        constants = {value for value in item.operands if isinstance(value, LinkValue) and value != ZERO}
        bit, load = needs_bit_slot(item.op), item.is_load
        busy = self.alu[stage] == 3 or (bit and self.bits[stage]) or len(self.ports[stage] | fresh) > PORTS
        if busy or (load and self.loads[stage] + self.bits[stage] >= len(LOAD_SLOTS)):
            return False
        if bit and self.loads[stage] == len(LOAD_SLOTS):
            return False
        if len(self.immediates[stage] | constants) > IMMEDIATES:
            return False
        self.alu[stage] += 1
        self.bits[stage] += bit
        self.loads[stage] += load
        self.ports[stage] |= fresh
        self.immediates[stage] |= constants
        return True

    def _multiply(self, item: Instruction) -> bool:
        first = max((self.ready_for_multiply.get(name, 0) for name in item.uses), default=0)
        for stage in range(first, MUL_STAGES):
            if not self.multiplies[stage]:
                self.multiplies[stage] = 1
                self._define(item, stage, 2, 3)
                return True
        return False

    def _define(self, item: Instruction, stage: int, latency: int, to_multiply: int) -> None:
        assert item.dest is not None
        self.ready[item.dest] = stage + latency
        self.ready_for_multiply[item.dest] = stage + to_multiply


def is_free(item: Instruction) -> bool:
    """Copies: the scheduler forwards them."""
    return item.op is MirOp.MOV or (item.op is MirOp.PLOP and item.table in (0x0, 0xC, 0xF))


def machine_blocks(block: Block) -> int:
    """How many machine blocks an in-order packing of a block takes."""
    segment, count = _Segment(), 1
    for item in block.instructions:
        if not segment.place(item):
            segment, count = _Segment(), count + 1
            segment.place(item)
    uses = liveness.terminator_uses(block)
    return count + any(segment.ready.get(name, 0) > STAGES for name in uses)


@dataclass
class CostModel:
    """Costs of variants of one function; packings are remembered by block. `room`: machine blocks it may take."""

    spec: MachineSpec
    uniform: frozenset[Register]
    room: int
    packed: dict[int, tuple[Block, int]] = field(default_factory=dict)

    def machine_blocks(self, block: Block) -> int:
        known = self.packed.get(id(block))
        if known is None or known[0] is not block:
            known = self.packed[id(block)] = (block, machine_blocks(block))
        return known[1]

    def cost(self, function: Function) -> float:
        """Tokens a launch of one warp may write, stores aside."""
        cfg = Cfg(function)
        live = liveness.of_graph(cfg)
        often = frequencies(cfg)
        total, rom = 0.0, 0
        for block in function.blocks:
            count = self.machine_blocks(block)
            rom += count
            returned = self.returned_tokens(block, live.after[block.label])
            crossing = (count - 1) * (1 + 2 * self.spec.lanes)
            lanes = self.spec.lanes if block.serial else 1
            total += often[block.label] * (lanes + crossing + returned)
            flags = sum(isinstance(name, Predicate) for name in live.after[block.label])
            total += OVER_LIMIT * max(0, flags - PREDICATES)
        return total + OVER_LIMIT * max(0, rom - self.room)

    def all_blocks(self, function: Function) -> int:
        """Machine blocks of the whole function."""
        return sum(map(self.machine_blocks, function.blocks))

    def returned_tokens(self, block: Block, after: liveness.Names) -> int:
        made = {item.dest for item in block.instructions} & after
        registers = [name for name in made if isinstance(name, Register)]
        tokens = sum(2 if name in self.uniform else 2 * self.spec.lanes for name in registers)
        return tokens + (len(registers) < len(made))


def frequencies(cfg: Cfg) -> dict[str, float]:
    """How often each block may run: by loop depth, and less for a block that its dominator can avoid."""
    weight: dict[str, float] = {}
    for label in cfg.reverse_postorder:
        parent = cfg.immediate_dominators.get(label)
        if parent is None:
            weight[label] = 1.0
            continue
        always = _post_dominates(cfg, label, parent)
        weight[label] = weight[parent] * (1.0 if always else ONE_SIDE)
    return {label: weight[label] * LOOP_TRIPS ** cfg.depth[label] for label in weight}


def _post_dominates(cfg: Cfg, label: str, other: str) -> bool:
    """Whether every path from `other` to the exit passes `label`."""
    seen = other
    while seen in cfg.immediate_post_dominators:
        seen = cfg.immediate_post_dominators[seen]
        if seen == label:
            return True
        if seen == EXIT:
            return False
    return False
