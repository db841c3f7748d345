"""If-conversion and tail duplication: blocks take in their successors where that saves tokens.

Contract: valid MIR in, valid MIR out; same memory for kernels without data races inside a warp (lanes on
different sides of a branch may then run together). Each step is `hyperblock.absorb`; the cost model
(block_cost.py) accepts it. An absorbed loop body peels its first iteration, an absorbed exit becomes a
guarded store. A block takes in nothing large and no second store, except where the program is too long for the
machine, and never itself. The cost model's estimate may be short of what the scheduler needs; then the search
begins anew with less room. Where lanes wait for each other or look at
each other's values, a step must not keep them from meeting again (a copy of a loop's header can); and in a loop
with a ballot, a shuffle or a sync no join is copied, as lanes wait there for those that are not done. First come
whole ifs, then first iterations of loops, then copies of shared blocks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from toolchain.machine_spec import MachineSpec
from toolchain.mir import cleanup, jump_threading, liveness, regalloc, uniformity
from toolchain.mir.block_cost import CostModel
from toolchain.mir.cfg import Cfg
from toolchain.mir.hyperblock import FreshNames, absorb, concerns_warp, looks_at_lanes
from toolchain.mir.ir import Block, Function
from toolchain.mir.layout import layout, reconverges
from toolchain.mir.schedule import schedule
from toolchain.mir.schedule_policy import QUICK

PASS_NAME = "hyperblocks"

_LARGEST = 3
"""Machine blocks of a block that may be taken in; larger ones never pay."""
_SURE = 0.75
"""A program of fewer machine blocks than this part of the ROM, by estimate, fits."""
_ATTEMPTS = 3


@dataclass(frozen=True)
class _Analysed:
    """A function with what is known of it."""

    function: Function

    @cached_property
    def cfg(self) -> Cfg:
        return Cfg(self.function)

    @cached_property
    def live(self) -> liveness.Liveness:
        return liveness.of_graph(self.cfg)


@dataclass
class _Search:
    """The function so far, its cost, and the steps that do not pay (blocks are kept, so ids stay theirs)."""

    found: _Analysed
    spec: MachineSpec
    model: CostModel
    cost: float
    must_meet: bool
    refused: dict[tuple[int, ...], tuple[Block, ...]] = field(default_factory=dict)

    def improve(self, step: "Step") -> bool:
        """Does the first step of a kind that pays, and cleans up after it."""
        blocks = {block.label: block for block in self.found.function.blocks}
        for label in reversed(self.found.cfg.reverse_postorder):
            for parts, bonus in step(self, blocks, blocks[label]):
                key = tuple(id(part) for part in parts)
                if key in self.refused:
                    continue
                merged = self.absorbed(parts)
                if merged is not None and bonus:
                    merged = self.if_it_fits(merged, parts[0])
                if merged is not None and self.model.cost(merged) < self.cost + bonus:
                    merged = jump_threading.run(cleanup.run(merged, self.spec), self.spec)
                    if not self.must_meet or _meets(merged, self.spec):
                        self.found, self.cost = _Analysed(merged), self.model.cost(merged)
                        return True
                self.refused[key] = parts
        return False

    def if_it_fits(self, merged: Function, first: Block) -> Function | None:
        """The cleaned-up function if the block that grew takes no more machine blocks than before."""
        merged = cleanup.run(merged, self.spec)
        grown = next((block for block in merged.blocks if block.label == first.label), None)
        fits = grown is not None and self.model.machine_blocks(grown) <= self.model.machine_blocks(first)
        return merged if fits else None

    def absorbed(self, parts: tuple[Block, ...]) -> Function | None:
        """The function after the first block has taken in the others, in order."""
        stores = [sum(item.is_store for item in part.instructions) for part in parts]
        large = any(self.model.machine_blocks(part) > _LARGEST for part in parts[1:])
        too_long = self.model.all_blocks(self.found.function) > self.model.room
        if not too_long and (large or (any(stores[1:]) and sum(stores) > 1)):
            return None
        found, label = self.found, parts[0].label
        for part in parts[1:]:
            block = found.function.block(label)
            taken = None if part.label not in block.successors else _absorbed(found, block, part)
            if taken is None:
                return None
            found = _Analysed(taken)
        return found.function


Step = Callable[[_Search, dict[str, Block], Block], Iterator[tuple[tuple[Block, ...], float]]]
"""Gives blocks to try: the first takes in the others; and what that saves beyond what the model sees."""


def _whole_ifs(
    search: _Search, blocks: dict[str, Block], first: Block
) -> Iterator[tuple[tuple[Block, ...], float]]:
    """Both sides of an if, or the one side there is, if nothing else leads to them."""
    before = search.found.cfg.predecessors
    own = [blocks[label] for label in first.successors if before[label] == (first.label,)]
    if len(own) == 2 and own[0].terminator.targets == own[1].terminator.targets:
        yield (first, *own), 0.0
    for second in own:
        yield (first, second), 0.0


def _first_iterations(
    search: _Search, blocks: dict[str, Block], first: Block
) -> Iterator[tuple[tuple[Block, ...], float]]:
    """A copy of a one-block loop that this block enters: an iteration less to run."""
    for label in first.successors:
        second = blocks[label]
        if label != first.label and label in second.successors:
            after = search.found.live.after[label]
            yield (first, second), 1.0 + search.model.returned_tokens(second, after)


def _copies(
    search: _Search, blocks: dict[str, Block], first: Block
) -> Iterator[tuple[tuple[Block, ...], float]]:
    """A copy of any successor."""
    for label in first.successors:
        if label != first.label:
            yield (first, blocks[label]), 0.0


def run(function: Function, spec: MachineSpec) -> Function:
    """The function after every absorption that lowers its cost, innermost blocks first."""
    room = spec.blocks
    best, least = function, 0
    for _ in range(_ATTEMPTS):
        found, estimate = _best(function, spec, room)
        if estimate < _SURE * spec.blocks:
            return found
        needed = _blocks_needed(layout(regalloc.coalesce(layout(found))), spec)
        if not least or needed < least:
            best, least = found, needed
        if needed <= spec.blocks:
            break
        room -= needed - spec.blocks
    return best


def _blocks_needed(prepared: Function, spec: MachineSpec) -> int:
    """Machine blocks that the scheduler needs; a quick schedule tells enough where it fits the ROM."""
    quick = len(schedule(prepared, spec, blocks_first=True, policy=QUICK).blocks)
    return quick if quick <= spec.blocks else len(schedule(prepared, spec, blocks_first=True).blocks)


def _best(function: Function, spec: MachineSpec, room: int) -> tuple[Function, int]:
    """What the search finds, and how many machine blocks it may take; it should fit `room`."""
    model = CostModel(spec, uniformity.uniform_registers(function), room)
    must_meet = any(concerns_warp(block) for block in function.blocks) and _meets(function, spec)
    search = _Search(_Analysed(function), spec, model, model.cost(function), must_meet)
    while any(search.improve(step) for step in (_whole_ifs, _first_iterations, _copies)):
        pass
    return search.found.function, model.all_blocks(search.found.function)


def _meets(function: Function, spec: MachineSpec) -> bool:
    return reconverges(uniformity.run(function, spec))


def _in_loop_with(cfg: Cfg, block: Block) -> Iterator[Block]:
    """Blocks that can run both before and after `block`."""
    after = cfg.reach[block.label]
    return (
        other
        for other in cfg.function.blocks
        if other.label in cfg.cyclic and other.label in after and block.label in cfg.reach[other.label]
    )


def _leaves_loop(cfg: Cfg, first: Block, second: Block) -> bool:
    """Whether lanes of a loop leave it from `first` to `second`, where they wait for each other."""
    return first.label in cfg.cyclic and first.label not in cfg.reach[second.label]


def _absorbed(found: _Analysed, first: Block, second: Block) -> Function | None:
    """The function with one absorption done and blocks that cannot run any more dropped."""
    function, cfg = found.function, found.cfg
    only = cfg.predecessors[second.label] == (first.label,) and not _leaves_loop(cfg, first, second)
    if not only and any(looks_at_lanes(block) for block in _in_loop_with(cfg, second)):
        return None
    merged = absorb(first, second, found.live.before, FreshNames(function), only=only)
    if merged is None:
        return None
    changed = function.with_blocks([merged if block is first else block for block in function.blocks])
    reachable = Cfg(changed).reachable
    return changed.with_blocks([block for block in changed.blocks if block.label in reachable])
