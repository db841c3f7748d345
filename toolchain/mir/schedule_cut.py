"""Cutting a block's graph into machine blocks so that as few tokens as possible are written.

    Cut = (segments*, recomputed, tokens); a segment is the set of nodes that one machine block computes

Given a linear order of the nodes, dynamic programming finds the cheapest cuts of that order; several orders
are tried, and then values that are cheaper to compute again than to return. Tokens count first, then blocks.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from random import Random

from toolchain.machine_spec import PREDICATES, MachineSpec
from toolchain.mir.ir import TRUE, Predicate, Register
from toolchain.mir.schedule_dag import Arg, Dag, Node, Ref
from toolchain.mir.schedule_pack import Placement, latency, pack

LONGEST_SEGMENT = 24
NAMED_ORDERS = 4
RANDOM_ORDERS = 24
RANDOM_ORDER_NODES = 60
"""Blocks of more nodes get only the named orders."""


@dataclass(frozen=True)
class Segment:
    """One machine block: `nodes` maps dag indices to items of the placement; `returns` outlive it."""

    nodes: tuple[int, ...]
    placement: Placement
    returns: frozenset[int]


@dataclass(frozen=True)
class Cut:
    segments: tuple[Segment, ...]
    tokens: int


class CutSearch:
    """Finds a cut of one block.

    `limit_pressure` refuses cuts over which too many registers are live. `blocks_first` saves blocks, then
    tokens. `serial`: all in one machine block, which one lane runs.
    """

    def __init__(
        self,
        dag: Dag,
        spec: MachineSpec,
        *,
        limit_pressure: bool = True,
        blocks_first: bool = False,
        serial: bool = False,
    ) -> None:
        self.dag, self.spec, self.limit_pressure, self.blocks_first = dag, spec, limit_pressure, blocks_first
        self.serial, self.lanes = serial, 1 if serial else spec.lanes
        self.packed: dict[frozenset[int], Placement | None] = {}
        self.crowded: dict[tuple[int, ...], frozenset[int]] = {}
        self.output_registers: dict[int, list[Register]] = {}
        for register, index in dag.outputs.items():
            self.output_registers.setdefault(index, []).append(register)
        self.output_flags: dict[int, list[Predicate]] = {}
        for predicate, arg in dag.predicate_outputs.items():
            if isinstance(arg, Ref):
                self.output_flags.setdefault(arg.index, []).append(predicate)
        self.readers: dict[Arg, list[int]] = {}
        for index, node in enumerate(dag.nodes):
            for arg in node.reads:
                self.readers.setdefault(arg, []).append(index)
        self.users = [self.readers.get(Ref(index), []) for index in range(len(dag.nodes))]
        self.end_reads = {arg for arg in (dag.branch, *dag.predicate_outputs.values()) if arg is not None}

    def search(self) -> Cut | None:
        """The cheapest cut that was found, None if no order can be cut at all."""
        if not self.dag.nodes:
            return Cut((), 1)
        best: Cut | None = None
        best_order: tuple[int, ...] = ()
        for number, order in enumerate(self.orders()):
            if best is None and number == NAMED_ORDERS:
                return None
            cut = self.cut(order, frozenset())
            if cut is not None and (best is None or self.cost(cut) < self.cost(best)):
                best, best_order = cut, order
            if best is not None and len(best.segments) == 1:
                return best
        return None if best is None else self.with_recomputation(best, best_order)

    def cost(self, cut: Cut) -> tuple[int, int]:
        """What to make small, the more important first."""
        blocks = len(cut.segments)
        return (blocks, cut.tokens) if self.blocks_first else (cut.tokens, blocks)

    # --- Orders

    def orders(self) -> Iterator[tuple[int, ...]]:
        """Linear orders to cut: program order, depth first from each result, critical path, random ones."""
        count = len(self.dag.nodes)
        before = self.precedence()
        height = self.heights()
        rank = self.depth_first()
        yield self.topological(before, list(range(count)))
        yield self.topological(before, [rank[i] for i in range(count)])
        yield self.topological(before, [-height[i] * count + i for i in range(count)])
        yield self.topological(before, [-height[i] * count + rank[i] for i in range(count)])
        if count > RANDOM_ORDER_NODES:
            return
        random = Random(0)
        for _ in range(RANDOM_ORDERS):
            jitter = [rank[i] + random.uniform(0, 6) for i in range(count)]
            yield self.topological(before, jitter)

    def precedence(self) -> list[set[int]]:
        """Nodes to come before each node. An output waits for readers of its register's old value."""
        before = [set(node.refs) | set(node.strict) | set(node.loose) for node in self.dag.nodes]
        names = [(name, index) for index, names in self.output_registers.items() for name in names]
        flags = [(name, index) for index, names in self.output_flags.items() for name in names]
        for name, index in (*names, *flags):
            for reader in self.readers.get(name, ()):
                if reader != index and not _reaches(before, index, reader):
                    before[index].add(reader)
        return before

    def heights(self) -> list[int]:
        """Longest latency from each node to the end."""
        height = [0] * len(self.dag.nodes)
        for index in reversed(range(len(height))):
            node = self.dag.nodes[index]
            for ref in node.refs:
                height[ref] = max(height[ref], height[index] + latency(self.dag.nodes[ref], node))
        return height

    def depth_first(self) -> list[int]:
        """Rank of each node when every result is computed whole, one after another."""
        rank: dict[int, int] = {}

        def visit(index: int) -> None:
            if index not in rank:
                for ref in sorted(self.dag.nodes[index].refs, reverse=True):
                    visit(ref)
                rank[index] = len(rank)

        ends = [i for i in range(len(self.dag.nodes)) if not self.users[i]]
        for index in (*ends, *range(len(self.dag.nodes))):
            visit(index)
        return [rank[index] for index in range(len(self.dag.nodes))]

    def topological(self, before: list[set[int]], priority: list[float] | list[int]) -> tuple[int, ...]:
        done: set[int] = set()
        order: list[int] = []
        waiting = sorted(range(len(before)), key=lambda index: (priority[index], index))
        while waiting:
            index = next(index for index in waiting if before[index] <= done)
            waiting.remove(index)
            done.add(index)
            order.append(index)
        return tuple(order)

    # --- Cuts of one order

    def cut(self, order: tuple[int, ...], recomputed: frozenset[int]) -> Cut | None:
        """The cheapest cut of this order; nodes of `recomputed` are computed again wherever they are used."""
        return self.cuts(order, recomputed)[-1]

    def cuts(
        self, order: tuple[int, ...], recomputed: frozenset[int], known: list[Cut | None] | None = None
    ) -> list[Cut | None]:
        """The cheapest cuts of the order's first 0, 1, ... nodes; those of the shortest beginnings may be `known`."""
        positions = {index: position for position, index in enumerate(order)}
        crowded = self.crowded_ends(order, positions)
        best = known or [Cut((), 0)]
        begin = len(best)
        best = best + [None] * (len(order) + 1 - begin)
        for end in range(begin, len(order) + 1):
            if end in crowded:
                continue
            if self.serial and end < len(order):
                continue
            for start in range(end - 1, max(-1, end - LONGEST_SEGMENT - 1), -1):
                before = best[start]
                if before is None or not self.may_improve(before, best[end]):
                    continue
                nodes = self.segment_nodes(order[start:end], recomputed)
                placement = self.pack(nodes)
                if placement is None:
                    break
                returns = self.returns(order[start:end], positions, end, recomputed)
                tokens = self.tokens(returns)
                if not self.legal(order[start:end], positions, end, tokens):
                    continue
                segment = Segment(tuple(sorted(nodes)), placement, returns)
                candidate = Cut((*before.segments, segment), before.tokens + tokens)
                current = best[end]
                if current is None or self.cost(candidate) < self.cost(current):
                    best[end] = candidate
        return best

    def crowded_ends(self, order: tuple[int, ...], positions: dict[int, int]) -> frozenset[int]:
        """Where the order cannot be cut, as too many registers or predicates are live there."""
        if not self.limit_pressure:
            return frozenset()
        if order not in self.crowded:
            ends = range(1, len(order) + 1)
            self.crowded[order] = frozenset(e for e in ends if self.pressure(order, positions, e) > 0)
        return self.crowded[order]

    def may_improve(self, before: Cut, current: Cut | None) -> bool:
        """Whether `before` and one more segment, of a token at least, can be cheaper than `current`."""
        if current is None:
            return True
        blocks, tokens = len(before.segments) + 1, before.tokens + 1
        least = (blocks, tokens) if self.blocks_first else (tokens, blocks)
        return least < self.cost(current)

    def segment_nodes(self, own: Iterable[int], recomputed: frozenset[int]) -> frozenset[int]:
        nodes = {
            i for i in own if i not in recomputed or i in self.output_registers or i in self.output_flags
        }
        work = list(nodes)
        while work:
            for ref in self.dag.nodes[work.pop()].refs:
                if ref in recomputed and ref not in nodes:
                    nodes.add(ref)
                    work.append(ref)
        return frozenset(nodes)

    def pack(self, nodes: frozenset[int]) -> Placement | None:
        if nodes not in self.packed:
            self.packed[nodes] = None
            if not any(index in nodes for node in nodes for index in self.dag.nodes[node].strict):
                self.packed[nodes] = pack(self.items(nodes))
        return self.packed[nodes]

    def items(self, nodes: frozenset[int]) -> tuple[Node, ...]:
        """The nodes with references among themselves; values from outside are read from registers."""
        local = {index: position for position, index in enumerate(sorted(nodes))}

        def rename(arg: Arg) -> Arg:
            if not isinstance(arg, Ref):
                return arg
            return Ref(local[arg.index]) if arg.index in local else self.crossing_name(arg.index)

        return tuple(
            replace(
                node,
                args=tuple(map(rename, node.args)),
                predicate=None if node.predicate is None else rename(node.predicate),
            )
            for node in (self.dag.nodes[index] for index in sorted(nodes))
        )

    def crossing_name(self, index: int) -> Register | Predicate:
        """The register a node's value is in after its segment: its own, or a new one."""
        if self.dag.nodes[index].is_flag:
            return next(iter(self.output_flags.get(index, ())), Predicate(f".{index}"))
        return next(iter(self.output_registers.get(index, ())), Register(f".{index}"))

    def returns(
        self, own: tuple[int, ...], positions: dict[int, int], end: int, recomputed: frozenset[int]
    ) -> frozenset[int]:
        """Nodes of the segment that something later reads."""
        found = set()
        for index in own:
            is_output = index in self.output_registers or index in self.output_flags
            later = self.used_after(index, positions, end, recomputed)
            later |= Ref(index) in self.end_reads and end < len(positions)
            if is_output or (later and index not in recomputed):
                found.add(index)
        return frozenset(found)

    def used_after(self, index: int, positions: dict[int, int], end: int, recomputed: frozenset[int]) -> bool:
        """Whether a later segment reads the node, be it to compute another one again."""
        return any(
            positions[user] >= end
            or (user in recomputed and self.used_after(user, positions, end, recomputed))
            for user in self.users[index]
        )

    def tokens(self, returns: frozenset[int]) -> int:
        """Tokens of a segment with all lanes active, its EXEC included, stores left out."""
        total, flags = 1, 0
        for index in returns:
            node = self.dag.nodes[index]
            if node.is_flag:
                flags = 1
                continue
            copies = max(1, len(self.output_registers.get(index, ())))
            total += copies * (1 if node.narrow else 2) * (1 if node.uniform else self.lanes)
        return total + flags

    def legal(self, own: tuple[int, ...], positions: dict[int, int], end: int, tokens: int) -> bool:
        """Whether the segment's returns are within the limit, and no register it writes is read later."""
        stores = sum(self.dag.nodes[index].is_store for index in own)
        last = int(end == len(positions) and bool(self.dag.predicate_outputs))
        if tokens - 1 + last + 3 * stores * self.lanes > self.spec.max_returns:
            return False
        for index in own:
            for name in (*self.output_registers.get(index, ()), *self.output_flags.get(index, ())):
                if any(positions[reader] >= end for reader in self.readers.get(name, ())):
                    return False
                if name in self.end_reads and end < len(positions):
                    return False
        return True

    def pressure(self, order: tuple[int, ...], positions: dict[int, int], end: int) -> int:
        """Registers or predicates that are too many to be live at once after the first `end` nodes."""
        live: set[Arg] = set(self.dag.through) | set(self.dag.predicates_through)
        for arg, readers in self.readers.items():
            if isinstance(arg, Register | Predicate) and any(positions[reader] >= end for reader in readers):
                live.add(arg)
        live |= {arg for arg in self.end_reads if isinstance(arg, Predicate) and arg != TRUE}
        for index in order[:end]:
            live.update(self.output_registers.get(index, ()))
            live.update(self.output_flags.get(index, ()))
            later = any(positions[user] >= end for user in self.users[index]) or Ref(index) in self.end_reads
            if later and end < len(order):
                live.add(self.crossing_name(index))
        return self.excess(live)

    def excess(self, live: set[Arg]) -> int:
        """How many registers or predicates there are too many."""
        flags = sum(isinstance(arg, Predicate) and arg != TRUE for arg in live)
        registers = sum(isinstance(arg, Register) for arg in live)
        return max(registers - (self.spec.registers - 1), flags - PREDICATES, 0)

    # --- Recomputation

    def with_recomputation(self, best: Cut, order: tuple[int, ...]) -> Cut:
        """Tries to compute returned values again instead, one by one: alone, or with all they are made of.

        What comes before the first node that is new to a trial is cut as it was (`table`).
        """
        able = self.recomputable()
        chosen: frozenset[int] = frozenset()
        table = self.cuts(order, chosen)
        positions = {index: position for position, index in enumerate(order)}
        improved = True
        while improved:
            improved = False
            for index in sorted({i for segment in best.segments for i in segment.returns} & able - chosen):
                for trial in {frozenset({index}): None, frozenset(self.ancestors(index) & able): None}:
                    first = min(positions[new] for new in trial - chosen)
                    trial_table = self.cuts(order, chosen | trial, table[: first + 1])
                    cut = trial_table[-1]
                    if cut is not None and self.cost(cut) < self.cost(best) and self.has_room(cut):
                        best, chosen, table, improved = cut, chosen | trial, trial_table, True
                        break
        return best

    def has_room(self, cut: Cut) -> bool:
        """Whether all that is live between the segments finds a register or predicate.

        `pressure` does not know: what is computed again keeps what it is made of alive until then.
        """
        if not self.limit_pressure:
            return True
        live: set[Arg] = {*self.dag.through, *self.dag.predicates_through}
        live |= {*self.dag.outputs, *self.dag.predicate_outputs}
        ahead = set(self.end_reads)
        for segment in reversed(cut.segments[1:]):
            for index in segment.returns:
                live -= {*self.written(index)}
            ahead |= {arg for index in segment.nodes for arg in self.dag.nodes[index].reads}
            own = {Ref(index) for index in segment.nodes}
            live |= {self.crossing_name(arg.index) if isinstance(arg, Ref) else arg for arg in ahead - own}
            if self.excess(live) > 0:
                return False
            ahead = set()
        return True

    def written(self, index: int) -> Iterable[Register | Predicate]:
        """The names that a node's value has behind its segment."""
        outputs = self.output_flags if self.dag.nodes[index].is_flag else self.output_registers
        return outputs.get(index) or [self.crossing_name(index)]

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


def _reaches(before: list[set[int]], start: int, goal: int) -> bool:
    """Whether `start` must come before `goal` already."""
    work, seen = [goal], {goal}
    while work:
        for index in before[work.pop()]:
            if index == start:
                return True
            if index not in seen:
                seen.add(index)
                work.append(index)
    return False
