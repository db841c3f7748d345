"""Spilling: values that find no register live in memory, predicates that find no place in a register.

A spilled register has a word of its thread's local memory (in shared memory, after the kernel's own local
arrays). Each definition stores it, and each use loads it again, a few instructions apart together:

    %v = add %a, %b          ->      %v_1 = add %a, %b
                                     st.shared [%frame + (local.base + 8)>>2], %v_1
    ... sub %v, 1                    %v_2 = ld.shared [%frame + (local.base + 8)>>2]
                                     ... sub %v_2, 1

`%frame` is the word address of the thread's local memory from local.base, computed once at the entry. A load
costs no token; a store costs three a lane where the return of a register costs two. A predicate is held as 0
or 1 in a register and compared with zero before each use.

Serial blocks must stay small, so what they read or write keeps its place.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from toolchain.machine_spec import MachineSpec
from toolchain.mir import liveness
from toolchain.mir.affine import constant
from toolchain.mir.block_cost import frequencies
from toolchain.mir.cfg import Cfg
from toolchain.mir.hyperblock import FreshNames
from toolchain.mir.ir import (
    TRUE,
    ZERO,
    Block,
    Branch,
    Function,
    Instruction,
    MirOp,
    Operand,
    Predicate,
    Register,
    Special,
)
from toolchain.mir.isa import STORE_TOKENS, MulOp, Op
from toolchain.mir.liveness import Name
from toolchain.mir.rom import LinkValue

REACH = 8
"""A value that was loaded, or computed, so many instructions ago is used again without a load."""
USE_COST = 0.25
"""What a use costs in tokens: its load may need another block."""


@dataclass(frozen=True)
class Spilled:
    """A function that spills, and the register that holds the address of its thread's local memory."""

    function: Function
    frame: Register | None = None


def hold_predicates(function: Function, predicates: tuple[Predicate, ...]) -> Function:
    """The function with each of `predicates` held in a register."""
    fresh = FreshNames(function)
    for predicate in predicates:
        holder = Register(fresh.like(predicate.name))
        function = function.with_blocks([_held(block, predicate, holder, fresh) for block in function.blocks])
    return function


def _held(block: Block, predicate: Predicate, holder: Register, fresh: FreshNames) -> Block:
    """One block: its definitions set the holder too, uses of an older value test it."""
    body: list[Instruction] = []
    now: Predicate | None = None
    written = False

    def current(position: list[Instruction]) -> Predicate:
        nonlocal now
        if now is None:
            now = Predicate(fresh.like(predicate.name))
            position.append(Instruction(Op.SET_NE, now, (holder, ZERO)))
        return now

    for item in block.instructions:
        if predicate in item.uses:
            item = _renamed_uses(item, predicate, current(body))
        if item.dest == predicate:
            now, written = Predicate(fresh.like(predicate.name)), True
            item = replace(item, dest=now)
        body.append(item)
        if written:
            assert now is not None
            body.append(
                Instruction(Op.SEL, holder, (constant(1), ZERO), now, narrow=True, source=item.source)
            )
            written = False
    terminator = block.terminator
    if isinstance(terminator, Branch) and terminator.predicate == predicate:
        terminator = replace(terminator, predicate=current(body))
    return replace(block, instructions=tuple(body), terminator=terminator)


def spill(function: Function, registers: tuple[Register, ...], spec: MachineSpec) -> Spilled:
    """The function with each of `registers` in its thread's local memory."""
    if not registers:
        return Spilled(function)
    fresh = FreshNames(function)
    frame = Register(fresh.like("frame"))
    words = function.local_words + len(registers)
    slots = {name: function.local_words + index for index, name in enumerate(registers)}
    after = liveness.analyse(function).after
    narrow = {name: _all_narrow(function, name) for name in registers}
    writer = _Writer(slots, narrow, frame, fresh)
    blocks = [writer.block(block, after[block.label]) for block in function.blocks]
    address = _frame_address(frame, words, spec, fresh)
    blocks[0] = replace(blocks[0], instructions=(*address, *blocks[0].instructions))
    return Spilled(replace(function, blocks=tuple(blocks), local_words=words), frame)


def _frame_address(
    frame: Register, words: int, spec: MachineSpec, fresh: FreshNames
) -> Iterator[Instruction]:
    first, thread = Register(fresh.like("frame")), Register(fresh.like("frame"))
    shift = constant(spec.lanes.bit_length() - 1)
    yield Instruction(Op.SHL, first, (Special("warpid"), shift), uniform=True, narrow=True)
    yield Instruction(Op.ADD, thread, (first, Special("laneid")), narrow=True)
    yield Instruction(MulOp.LO, frame, (thread, constant(words)), narrow=True)


@dataclass(frozen=True)
class _Writer:
    """Rewrites blocks. `slots` are words of the thread's local memory."""

    slots: dict[Register, int]
    narrow: dict[Register, bool]
    frame: Register
    fresh: FreshNames

    def block(self, block: Block, after: liveness.Names) -> Block:
        body: list[Instruction] = []
        present: dict[Register, tuple[Register, int]] = {}
        for position, item in enumerate(block.instructions):
            for name in dict.fromkeys(item.uses):
                if isinstance(name, Register) and name in self.slots:
                    here = self.value(name, position, present, body, item)
                    item = _renamed_uses(item, name, here)
            dest = item.dest
            if not isinstance(dest, Register) or dest not in self.slots:
                body.append(item)
                continue
            here = Register(self.fresh.like(dest.name))
            present[dest] = (here, position)
            body.append(replace(item, dest=here))
            address = (self.frame, here)
            body.append(
                Instruction(MirOp.STORE_SHARED, None, address, offset=self.offset(dest), source=item.source)
            )
        live = {self.offset(name) for name in after if isinstance(name, Register) and name in self.slots}
        return replace(block, instructions=tuple(self.needed(body, live)))

    def value(
        self,
        name: Register,
        position: int,
        present: dict[Register, tuple[Register, int]],
        body: list[Instruction],
        item: Instruction,
    ) -> Register:
        """The register that holds a spilled value here; loads it if it was too long ago."""
        if name in present and position - present[name][1] <= REACH:
            return present[name][0]
        here = Register(self.fresh.like(name.name))
        present[name] = (here, position)
        load = Instruction(Op.LOAD_SHARED, here, (self.frame,), offset=self.offset(name))
        body.append(replace(load, narrow=self.narrow[name], source=item.source))
        return here

    def offset(self, name: Register) -> LinkValue:
        return LinkValue(4 * self.slots[name], (("local.base", 1),), 2)

    def needed(self, body: list[Instruction], live: set[LinkValue]) -> list[Instruction]:
        """The block without stores that no load reads; `live` are the words that later blocks load."""
        kept: list[Instruction] = []
        for item in reversed(body):
            if item.is_memory and item.operands[0] == self.frame:
                if item.is_store and item.offset not in live:
                    continue
                (live.discard if item.is_store else live.add)(item.offset)
            kept.append(item)
        return kept[::-1]


def _renamed_uses(item: Instruction, old: Name, new: Name) -> Instruction:
    operands: tuple[Operand, ...] = tuple(new if operand == old else operand for operand in item.operands)
    predicate = new if item.predicate == old and isinstance(new, Predicate) else item.predicate
    return replace(item, operands=operands, predicate=predicate)


def _all_narrow(function: Function, name: Register) -> bool:
    return all(item.narrow for block in function.blocks for item in block.instructions if item.dest == name)


# --- What to spill


def candidates(function: Function, crowded: Iterable[frozenset[str]], spec: MachineSpec) -> list[Name]:
    """Names worth spilling, best first: `crowded` says by name what is live where too much is."""
    often = frequencies(Cfg(function))
    costs: dict[Name, float] = {}
    barred: set[Name] = {TRUE}
    for block in function.blocks:
        weight = often.get(block.label, 0.0)
        for item in block.instructions:
            if block.serial:
                barred.update(item.uses)
                barred.update(() if item.dest is None else (item.dest,))
            for name in item.uses:
                costs[name] = costs.get(name, 0.0) + weight * USE_COST
            if item.dest is not None:
                costs[item.dest] = costs.get(item.dest, 0.0) + weight * _definition_cost(item, spec)
        for name in liveness.terminator_uses(block):
            costs[name] = costs.get(name, 0.0) + weight * USE_COST
            barred.update((name,) if block.serial else ())
    crowds = [*crowded]
    gains = {name: sum(name.name in crowd for crowd in crowds) for name in costs}
    worth = [name for name in costs if gains[name] and name not in barred]
    return sorted(worth, key=lambda name: (costs[name] / gains[name], name.name))


def _definition_cost(item: Instruction, spec: MachineSpec) -> float:
    """Tokens of the store, less those of the register it takes the place of."""
    if isinstance(item.dest, Predicate):
        return spec.lanes
    returned = (1 if item.narrow else 2) * (1 if item.uniform else spec.lanes)
    return 1 + STORE_TOKENS * spec.lanes - returned
