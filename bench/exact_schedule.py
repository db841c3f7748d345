"""How far the scheduler is from the optimum: an exact search on small blocks, and the table of both.

The scheduler (toolchain/mir/schedule_cut.py) tries some linear orders of a block's graph and cuts each at its best;
here is the least over *all* ways: any sets of operations as machine blocks, any value computed again in any of them,
any placement into stages. The cost is the scheduler's own, tokens of a visit; the limits are the machine's.

The search runs backwards from the block's end (A*, so the first way that is complete is the cheapest). A state is

    needed    the values that the machine blocks behind it read from registers, or the block must leave in them
    placed    operations that run once (loads, stores, reads of registers the block rewrites) and are placed already

A step puts a machine block in front: a set of operations, which returns what of it is needed. What they read and do not
compute themselves is needed in turn. The bound for the rest: every needed value is returned once, and all operations
that needed values and stores are made of take at least as many machine blocks as the fullest unit says. Where time
runs out, the least estimate of an open state is a proven lower bound of the optimum.

Not searched: other blocks than the MIR has, and other registers across them. Register pressure is not looked at, so
a bound holds with it too; whether the cut found finds its registers, compiling it tells.
"""

import heapq
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from toolchain.machine_spec import MachineSpec
from toolchain.mir.ir import Block
from toolchain.mir.isa import STORE_TOKENS
from toolchain.mir.schedule_cut import Cut, CutSearch, Packer, Segment
from toolchain.mir.schedule_dag import Dag, Ref
from toolchain.mir.schedule_pack import ROOM, Placement
from toolchain.mir.schedule_pack_exact import pack_exactly

State = tuple[int, int]
"""(needed, placed), as bit masks of nodes."""


@dataclass(frozen=True)
class Outcome:
    """The heuristic's tokens for one visit of a block, and the optimum or what is known of it."""

    label: str
    nodes: int
    heuristic: int
    bound: int
    cut: Cut

    @property
    def proven(self) -> bool:
        """Whether `cut` is an optimum."""
        return self.cut.tokens <= self.bound


@dataclass
class ExactSearch:
    """The search over one block's graph. Raises nothing; stops at `seconds`."""

    dag: Dag
    spec: MachineSpec
    seconds: float
    packed: dict[int, Placement | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        dag = self.dag
        self.count = len(dag.nodes)
        self.packer = Packer(dag)
        self.search = CutSearch(self.packer, self.spec)
        self.refs = self.packer.refs
        self.ends = sum(1 << index for index in range(self.count) if Ref(index) == dag.branch)
        self.outputs = sum(1 << index for index in range(self.count) if dag.is_output(index))
        self.stores = sum(1 << i for i, node in enumerate(dag.nodes) if node.is_store)
        able = self.search.recomputable()
        self.once = sum(1 << index for index in range(self.count) if index not in able)
        self.before = [
            0
        ] * self.count  # nodes that must not come later than the node; `apart`: must come earlier
        for index, node in enumerate(dag.nodes):
            for other in (*node.loose, *node.strict):
                self.before[other] |= 1 << index
        self.apart = self.packer.strict
        self.ancestors = [1 << index for index in range(self.count)]
        for index in range(self.count):
            for ref in dag.nodes[index].refs:
                self.ancestors[index] |= self.ancestors[ref]
        self.old_readers = [0] * self.count
        for index, names in (*dag.output_registers.items(), *dag.output_flags.items()):
            for name in names:
                self.old_readers[index] |= sum(1 << reader for reader in set(dag.readers.get(name, ())))
                if name in dag.end_reads:
                    self.old_readers[index] |= 1 << self.count  # the terminator reads it

    def run(self, known: Cut) -> tuple[int, Cut]:
        """A lower bound of the optimum, and the best cut found; it is `known` unless there is a better one."""
        start = (self.outputs, 0)
        until = time.perf_counter() + self.seconds
        paid: dict[State, int] = {start: 0}
        came: dict[State, tuple[State, int]] = {}
        heap: list[tuple[int, int, State, bool]] = [(self.rest(start), 0, start, True)]
        number = 0
        while heap:
            estimate, _, state, last = heapq.heappop(heap)
            if estimate >= known.tokens:
                return known.tokens, known
            if self.finished(state) and not last:
                return estimate, self.traced(state, came, start)
            if time.perf_counter() > until:
                return estimate, known
            if estimate > paid[state] + self.rest(state):
                continue
            for nodes in self.segments(state, last):
                after, cost = self.step(state, nodes)
                total = paid[state] + cost
                guess = total + self.rest(after)
                if guess >= known.tokens or total >= paid.get(after, known.tokens) or not self.packs(nodes):
                    continue
                number += 1
                paid[after] = total
                came[after] = (state, nodes)
                heapq.heappush(heap, (guess, number, after, False))
        return known.tokens, known

    def finished(self, state: State) -> bool:
        return not state[0] and not self.stores & ~state[1]

    def rest(self, state: State) -> int:
        """What the machine blocks still to be put in front cost, at least."""
        needed, placed = state
        must, tokens, flags = 0, 0, False
        for index in bits(needed | (self.stores & ~placed)):
            must |= self.ancestors[index]
        for index in bits(needed):
            tokens += self.search.weights[index]
            flags |= self.dag.nodes[index].is_flag
        if not must:
            return 0
        left = dict.fromkeys(ROOM, 0)
        for index in bits(must & ~(placed & self.once)):
            left[self.search.units[index]] += 1
        return tokens + flags + max(1, *(-(-left[name] // room) for name, room in ROOM.items()))

    def step(self, state: State, nodes: int) -> tuple[State, int]:
        """The state with a machine block of these nodes in front, and what the block costs."""
        needed, placed = state
        returned = list(bits(needed & nodes))
        cost = 1 + sum(self.search.weights[index] for index in returned)
        cost += any(self.dag.nodes[index].is_flag for index in returned)
        inputs = 0
        for index in bits(nodes):
            inputs |= self.refs[index]
        if state == (self.outputs, 0):
            inputs |= self.ends  # the last machine block's terminator reads the branch
        return ((needed | inputs) & ~nodes, placed | (nodes & self.once)), cost

    def packs(self, nodes: int) -> bool:
        return self.placement(nodes) is not None

    def placement(self, nodes: int) -> Placement | None:
        """The nodes in one machine block: by the scheduler's packing, or by trying all."""
        if nodes not in self.packed:
            found = self.packer.pack(nodes)
            if found is None:
                items = {index: self.packer.item(index, self.refs[index] & nodes) for index in bits(nodes)}
                found = pack_exactly(items, self.count)
            self.packed[nodes] = found
        return self.packed[nodes]

    def segments(self, state: State, last: bool) -> Iterator[int]:
        """Every useful set of operations for the machine block in front of the state."""
        needed, placed = state
        wanted = needed | (self.stores & ~placed) | (self.ends if last else 0)
        room = dict(ROOM)

        def choose(index: int, nodes: int, used: int) -> Iterator[int]:
            """Decides on node `index` and those before it; `used` is what the chosen ones read."""
            while index >= 0 and not (wanted | used) >> index & 1:
                index -= 1
            if index < 0:
                if (nodes or last) and self.allowed(state, nodes, last):
                    yield nodes
                return
            kind, bit = self.search.units[index], 1 << index
            if room[kind] and not placed & self.once & bit:
                room[kind] -= 1
                yield from choose(index - 1, nodes | bit, used | self.refs[index])
                room[kind] += 1
            yield from choose(index - 1, nodes, used)

        yield from choose(self.count - 1, 0, 0)

    def allowed(self, state: State, nodes: int, last: bool) -> bool:
        """Whether memory operations keep their order, and old values of registers are read in time."""
        needed = state[0]
        (left, after), _ = self.step(state, nodes)
        returned = 0
        for index in bits(nodes):
            if self.before[index] & ~after or self.apart[index] & nodes:
                return False
            if needed >> index & 1:
                returned += self.search.weights[index]
        stores = (nodes & self.stores).bit_count() * STORE_TOKENS * self.spec.lanes
        if returned + stores + 1 > self.spec.max_returns:
            return False
        reading = nodes | (1 << self.count if last else 0)
        return not any(self.old_readers[index] & reading for index in bits(left & self.outputs))

    def traced(self, state: State, came: Mapping[State, tuple[State, int]], start: State) -> Cut:
        """The cut that leads to the state; its machine blocks come out in the order they run in."""
        segments: list[Segment] = []
        tokens = 0
        while state != start:
            before, nodes = came[state]
            placement = self.placement(nodes)
            assert placement is not None
            segments.append(Segment(placement, tuple(bits(before[0] & nodes))))
            tokens += self.step(before, nodes)[1]
            state = before
        return Cut(tuple(segments), tokens)


def bits(mask: int) -> Iterator[int]:
    """Indices of the bits that are set, the lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass
class ExactCuts:
    """`find` is the scheduler's hook: the exact search for every block of at most `largest` nodes."""

    spec: MachineSpec
    seconds: float
    largest: int
    outcomes: list[Outcome] = field(default_factory=list)

    def find(self, block: Block, dag: Dag, known: Cut) -> Cut:
        """The best cut known after the search; serial blocks are one machine block anyway."""
        bound, cut = 1, known
        if block.serial or (len(known.segments) <= 1 and not self.spare(dag, known)):
            bound = known.tokens
        elif len(dag.nodes) <= self.largest:
            bound, cut = ExactSearch(dag, self.spec, self.seconds).run(known)
        self.outcomes.append(Outcome(block.label, len(dag.nodes), known.tokens, bound, cut))
        return cut

    def spare(self, dag: Dag, known: Cut) -> bool:
        """Whether a cut of one machine block returns more than the outputs, which no other cut can undercut."""
        return any(not dag.is_output(index) for segment in known.segments for index in segment.returns)
