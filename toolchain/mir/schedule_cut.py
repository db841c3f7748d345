"""Cutting a block's graph into machine blocks so that as few tokens as possible are written.

    Cut = (segments*, tokens); a segment is the set of nodes that one machine block computes

Given a linear order of the nodes, dynamic programming finds the cheapest cuts of that order; several orders
are tried, and then values that are cheaper to compute again than to return. Tokens count first, then blocks.
What cannot become cheaper than the best cut so far is left out: a lower bound says what the rest of an order
costs at least, if all segments fit a machine block of which it is not known that they do not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from toolchain.machine_spec import MachineSpec
from toolchain.mir.ir import TRUE, Predicate, Register
from toolchain.mir.isa import STORE_TOKENS
from toolchain.mir.schedule_dag import Arg, Dag, Node, Ref
from toolchain.mir.schedule_limits import EMPTY, FULL, Limits
from toolchain.mir.schedule_line import Line, line_of, recomputing, too_many
from toolchain.mir.schedule_orders import NAMED_ORDERS, orders
from toolchain.mir.schedule_pack import Placement, pack, unit
from toolchain.mir.schedule_pack_exact import OutOfSteps, pack_exactly
from toolchain.mir.schedule_policy import EVERYTHING, LONGEST_SEGMENT, SchedulePolicy

NEVER = 1 << 60
"""More than anything costs."""
_MORE_IMPORTANT = 1 << 20
"""A cost is tokens and blocks in one number, or blocks and tokens: the first counts this much more."""
PACKING_STEPS = 150
"""Places that the search for a packing may try; where there is one, it mostly finds it sooner."""

PossibleSegment = tuple[int, int, int]
"""Where it starts in the order, its nodes as a bit mask, and what it costs."""


@dataclass(frozen=True)
class Segment:
    """One machine block: where its nodes go, and which of them outlive it."""

    placement: Placement
    returns: tuple[int, ...]


@dataclass(frozen=True)
class Cut:
    segments: tuple[Segment, ...]
    tokens: int


class Packer:
    """Packs sets of a graph's nodes, each once."""

    def __init__(self, dag: Dag) -> None:
        self.dag = dag
        self.packed: dict[int, Placement | None] = {}
        self.items: dict[tuple[int, int], Node] = {}
        self.refs = [sum({1 << ref for ref in node.refs}) for node in dag.nodes]
        self.strict = [sum({1 << other for other in node.strict}) for node in dag.nodes]

    @cached_property
    def limits(self) -> Limits:
        return Limits.of(self.dag)

    def pack(self, nodes: int) -> Placement | None:
        """The nodes of a bit mask in one machine block, None if they do not fit."""
        if nodes not in self.packed:
            indices = [index for index in range(len(self.dag.nodes)) if nodes >> index & 1]
            apart = any(self.strict[index] & nodes for index in indices)
            items = {index: self.item(index, self.refs[index] & nodes) for index in indices}
            self.packed[nodes] = None if apart else self.place(items)
        return self.packed[nodes]

    def place(self, items: Mapping[int, Node]) -> Placement | None:
        """By list scheduling, else by a short search."""
        free = len(self.dag.nodes)
        try:
            return pack(items, free) or pack_exactly(items, free, PACKING_STEPS)
        except OutOfSteps:
            return None

    def item(self, index: int, inside: int) -> Node:
        """The node with its values from outside read from registers; `inside` are those that it reads here."""
        found = self.items.get((index, inside))
        if found is None:

            def rename(arg: Arg) -> Arg:
                if isinstance(arg, Ref) and not inside >> arg.index & 1:
                    return self.dag.crossing_name(arg.index)
                return arg

            node = self.dag.nodes[index]
            predicate = None if node.predicate is None else rename(node.predicate)
            found = replace(node, args=tuple(map(rename, node.args)), predicate=predicate)
            self.items[index, inside] = found
        return found


class CutSearch:
    """Finds a cut of one block.

    `limit_pressure` refuses cuts over which too many registers are live. `blocks_first` saves blocks, then
    tokens. `serial`: all in one machine block, which one lane runs.
    """

    def __init__(
        self,
        packer: Packer,
        spec: MachineSpec,
        *,
        limit_pressure: bool = True,
        blocks_first: bool = False,
        serial: bool = False,
        policy: SchedulePolicy = EVERYTHING,
    ) -> None:
        self.packer, self.dag, self.spec = packer, packer.dag, spec
        self.limit_pressure, self.blocks_first, self.serial = limit_pressure, blocks_first, serial
        self.policy = policy
        self.lanes = 1 if serial else spec.lanes
        self.weights = [self.weight(index, node) for index, node in enumerate(self.dag.nodes)]
        self.units = [unit(node) for node in self.dag.nodes]
        self.flags = [node.is_flag for node in self.dag.nodes]
        self.stored = [STORE_TOKENS * self.lanes if node.is_store else 0 for node in self.dag.nodes]

    def weight(self, index: int, node: Node) -> int:
        """Tokens that returning the node takes at most; a block's flags take one together."""
        copies = max(1, len(self.dag.output_registers.get(index, ())))
        return 0 if node.is_flag else copies * (1 if node.narrow else 2) * (1 if node.uniform else self.lanes)

    def search(self) -> Cut | None:
        """The cheapest cut that was found, None if no order can be cut at all."""
        if not self.dag.nodes:
            return Cut((), 1)
        best: Cut | None = None
        best_line: Line | None = None
        seen: set[tuple[int, ...]] = set()
        for number, order in enumerate(orders(self.dag)):
            if number == NAMED_ORDERS and (best is None or not self.policy.shuffled):
                break
            if order in seen:
                continue
            seen.add(order)
            line = line_of(self.dag, order, self.spec)
            cut = self.cut(line, best)
            if cut is not None:
                best, best_line = cut, line
            if best is not None and len(best.segments) == 1:
                return best
        if best is None or best_line is None or not self.policy.recompute:
            return best
        return self.with_recomputation(best, best_line)

    def cost(self, tokens: int, blocks: int) -> int:
        first, second = (blocks, tokens) if self.blocks_first else (tokens, blocks)
        return first * _MORE_IMPORTANT + second

    def cost_of(self, cut: Cut) -> int:
        return self.cost(cut.tokens, len(cut.segments))

    # --- Cuts of one order

    def cut(self, line: Line, best: Cut | None) -> Cut | None:
        """The cheapest cut of this order, None if there is none or none cheaper than `best`."""
        count = len(line.order)
        goal = NEVER if best is None else self.cost_of(best)
        segments = [self.segments(line, end) for end in range(count + 1)]
        rest = least_rest(segments)
        if rest[0] >= goal:
            return None
        costs = [0, *[NEVER] * count]
        came: list[tuple[int, int]] = [(0, 0)] * (count + 1)
        for end in range(1, count + 1):
            totals = [costs[start] + cost for start, _, cost in segments[end]]
            least = [*accumulate(reversed(totals), min)][::-1]
            chosen = goal - rest[end]
            for (start, nodes, _), cost, after in zip(segments[end], totals, least, strict=True):
                if after >= chosen or self.packer.pack(nodes) is None:
                    break
                if cost < chosen:
                    chosen = costs[end] = cost
                    came[end] = start, nodes
        return None if costs[-1] == NEVER else self.traced(line, came)

    def segments(self, line: Line, end: int) -> list[PossibleSegment]:
        """Segments that may end at `end`, short ones first: where each starts, its nodes, and what it costs.

        Some may not fit a machine block after all; those that are left out do not, and no longer ones.
        """
        count = len(line.order)
        found: list[PossibleSegment] = []
        if not end or (self.limit_pressure and line.excess[end]) or (self.serial and end < count):
            return found
        order, masks, until, blocked = line.order, line.masks, line.until, line.blocked
        limits, packed = self.packer.limits, self.packer.packed
        tokens, flags, nodes, used = 1, 0, 0, EMPTY
        room = self.spec.max_returns + 1 - int(end == count and bool(self.dag.predicate_outputs))
        longest = LONGEST_SEGMENT if self.serial else self.policy.longest
        for start in range(end - 1, max(-1, end - longest - 1), -1):
            index = order[start]
            room -= self.stored[index]
            if until[index] >= end:
                flags |= self.flags[index]
                tokens += self.weights[index]
            if blocked[index] >= end or tokens + flags > room:
                break
            if masks[index]:
                used += limits.units[index]
                if limits.apart[index] & nodes or used & FULL:
                    break
                nodes |= masks[index]
            if packed.get(nodes, self) is None:
                break
            found.append((start, nodes, self.cost(tokens + flags, 1)))
        return found

    def traced(self, line: Line, came: list[tuple[int, int]]) -> Cut:
        """The cut whose segments begin where `came` says."""
        segments: list[Segment] = []
        tokens, end = 0, len(line.order)
        while end:
            start, nodes = came[end]
            placement = self.packer.pack(nodes)
            assert placement is not None
            returns = tuple(sorted(i for i in line.order[start:end] if line.until[i] >= end))
            segments.append(Segment(placement, returns))
            tokens += 1 + sum(self.weights[i] for i in returns)
            tokens += any(self.dag.nodes[i].is_flag for i in returns)
            end = start
        return Cut(tuple(reversed(segments)), tokens)

    # --- Recomputation

    def with_recomputation(self, best: Cut, line: Line) -> Cut:
        """Tries to compute returned values again instead, one by one: alone, or with all they are made of."""
        able = self.recomputable()
        chosen: frozenset[int] = frozenset()
        improved = True
        while improved:
            improved = False
            for index in sorted({i for segment in best.segments for i in segment.returns} & able - chosen):
                whole = self.ancestors(index) & able
                for trial in ({index},) if whole == {index} else ({index}, whole):
                    cut = self.cut(recomputing(self.dag, line, chosen | trial), best)
                    if cut is not None and self.has_room(cut):
                        best, chosen, improved = cut, chosen | trial, True
                        break
        return best

    def has_room(self, cut: Cut) -> bool:
        """Whether all that is live between the segments finds a register or predicate.

        A line's `excess` does not know: what is computed again keeps what it is made of alive until then.
        """
        if not self.limit_pressure:
            return True
        dag = self.dag
        live: set[Arg] = {*dag.through, *dag.predicates_through, *dag.outputs, *dag.predicate_outputs}
        read: set[Arg] = {*dag.end_reads}
        for segment in reversed(cut.segments[1:]):
            for index in segment.returns:
                live -= {*self.written(index)}
            own = [
                index for index in segment.placement.items if index < len(dag.nodes)
            ]  # without added copies
            read |= {arg for index in own for arg in dag.nodes[index].reads}
            outside = read - {Ref(index) for index in own}
            live |= {dag.crossing_name(arg.index) if isinstance(arg, Ref) else arg for arg in outside}
            flags = sum(isinstance(arg, Predicate) and arg != TRUE for arg in live)
            if too_many(sum(isinstance(arg, Register) for arg in live), flags, self.spec):
                return False
            read = set()
        return True

    def written(self, index: int) -> Iterable[Register | Predicate]:
        """The names that a node's value has behind its segment."""
        outputs = self.dag.output_flags if self.dag.nodes[index].is_flag else self.dag.output_registers
        return outputs.get(index) or [self.dag.crossing_name(index)]

    def recomputable(self) -> set[int]:
        """Nodes that give the same value later: no loads, no reads of registers that the block rewrites."""
        stable = self.dag.through | self.dag.predicates_through | {TRUE}
        return {
            index
            for index, node in enumerate(self.dag.nodes)
            if all(arg in stable for arg in node.reads if isinstance(arg, Register | Predicate))
            and not node.is_store
            and not node.is_load
            and Ref(index) != self.dag.branch
        }

    def ancestors(self, index: int) -> set[int]:
        """The node and all it is made of."""
        found, work = {index}, [index]
        while work:
            for ref in self.dag.nodes[work.pop()].refs:
                if ref not in found:
                    found.add(ref)
                    work.append(ref)
        return found


def least_rest(segments: Sequence[Sequence[PossibleSegment]]) -> list[int]:
    """What is left to pay behind each place of an order, at least; `segments` are by where they end."""
    rest = [*[NEVER] * (len(segments) - 1), 0]
    for end in range(len(segments) - 1, 0, -1):
        for start, _, cost in segments[end]:
            rest[start] = min(rest[start], rest[end] + cost)
    return rest
