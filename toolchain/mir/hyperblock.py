"""One step of hyperblock formation: a block takes a copy of its successor into itself, under a predicate.

    A: ...                              A: ...
       branch %p, S, T                     (S with results T needs renamed, and its store guarded by %p)
    S: %r = add %r, 1         ->           %r1 = add %r, 1
       jump T                              %r = sel %p, %r1, %r
                                           jump T

After a plain jump the successor is simply appended. S itself stays if it has other predecessors: that is tail
duplication; where S is a loop it peels an iteration.

Serial blocks stay as they are. A copy of warp operations, a sync or a barrier would run apart from the original,
so a block with one is only taken in by its one predecessor; and a ballot counts the active lanes and a barrier
stops them all, so these two only after a jump.
"""

from dataclasses import replace

from toolchain.mir.ir import (
    Barrier,
    Block,
    Branch,
    Function,
    Instruction,
    Jump,
    MirOp,
    Operand,
    Operation,
    Predicate,
    Register,
    Terminator,
)
from toolchain.mir.isa import WARP_OPS, Op
from toolchain.mir.liveness import Names

Name = Register | Predicate


class FreshNames:
    """Fresh names for one function: like one of its own, but not among what it defines."""

    def __init__(self, function: Function) -> None:
        self.taken = {item.dest.name for block in function.blocks for item in block.instructions if item.dest}

    def like(self, name: str) -> str:
        number = 1
        while f"{name}_{number}" in self.taken:
            number += 1
        self.taken.add(f"{name}_{number}")
        return f"{name}_{number}"


def absorb(
    first: Block, second: Block, before: dict[str, Names], fresh: FreshNames, *, only: bool
) -> Block | None:
    """`first` with a copy of its successor `second` taken in; None if that cannot be.

    `before` is what is live before each block (and EXIT). `only`: lanes come to `second` from `first` alone, and
    at once.
    """
    terminator = first.terminator
    if first.serial or second.serial or isinstance(terminator, Barrier):
        return None
    if not only and concerns_warp(second):
        return None
    if isinstance(terminator, Jump):
        return Block(first.label, first.instructions + second.instructions, second.terminator)
    if _has(second, Op.BALLOT) or isinstance(second.terminator, Barrier):
        return None
    sense = terminator.taken == second.label
    other = terminator.otherwise if sense else terminator.taken
    if len({*second.terminator.targets, other}) > 2 or other == second.label:
        return None
    after = frozenset().union(*(before[target] for target in second.terminator.targets))
    merge = _Merge(terminator.predicate, sense, before[other], after, fresh)
    body = [*first.instructions, *merge.body(second)]
    decided = merge.terminator(second.terminator, other, terminator)
    return Block(first.label, (*body, *merge.decision, *merge.selects()), decided)


def concerns_warp(block: Block) -> bool:
    """Whether it matters which lanes run the block together."""
    return looks_at_lanes(block) or isinstance(block.terminator, Barrier)


def looks_at_lanes(block: Block) -> bool:
    """Whether what the block does depends on which lanes run it together."""
    return _has(block, *WARP_OPS, MirOp.SYNC)


def _has(block: Block, *ops: Operation) -> bool:
    return any(item.op in ops for item in block.instructions)


class _Merge:
    """The copy of one block under `predicate` (or its negation, if not `sense`)."""

    def __init__(
        self, predicate: Predicate, sense: bool, other: Names, after: Names, fresh: FreshNames
    ) -> None:
        self.predicate, self.sense = predicate, sense
        self.other, self.after, self.fresh = other, after, fresh
        self.renamed: dict[Name, Name] = {}
        self.decision: list[Instruction] = []

    def body(self, block: Block) -> list[Instruction]:
        result: list[Instruction] = []
        for item in block.instructions:
            item = self._read(item)
            if item.is_store:
                result += self._guarded(item)
                continue
            dest = item.dest
            if dest is not None and (dest in self.other or dest == self.predicate):
                if dest not in self.renamed:
                    self.renamed[dest] = type(dest)(self.fresh.like(dest.name))
                item = replace(item, dest=self.renamed[dest])
            result.append(item)
        return result

    def _name(self, operand: Operand) -> Operand:
        return self.renamed.get(operand, operand) if isinstance(operand, Name) else operand

    def _flag(self, predicate: Predicate) -> Predicate:
        found = self.renamed.get(predicate, predicate)
        assert isinstance(found, Predicate)
        return found

    def _read(self, item: Instruction) -> Instruction:
        predicate = None if item.predicate is None else self._flag(item.predicate)
        return replace(item, operands=tuple(self._name(o) for o in item.operands), predicate=predicate)

    def _guarded(self, item: Instruction) -> list[Instruction]:
        if item.predicate is None:
            return [replace(item, predicate=self.predicate, negated=not self.sense)]
        both = Predicate(self.fresh.like(self.predicate.name))
        table = 1 << (2 * self.sense + (not item.negated))
        logic = Instruction(
            MirOp.PLOP, both, (self.predicate, item.predicate), table=table, source=item.source
        )
        return [logic, replace(item, predicate=both, negated=False)]

    def terminator(self, inner: Terminator, other: str, outer: Branch) -> Terminator:
        """Where the merged block goes; may need one predicate more (`decision`)."""
        assert not isinstance(inner, Barrier)
        if isinstance(inner, Jump):
            if inner.target == other:
                return Jump(other, inner.source)
            taken, otherwise = (inner.target, other) if self.sense else (other, inner.target)
            return self._kept(Branch(self.predicate, taken, otherwise, outer.source))
        onward = inner.taken if inner.taken != other else inner.otherwise
        if onward == other:
            return Jump(other, inner.source)
        if other not in inner.targets:
            # both of its targets are one block, not `other`
            taken, otherwise = (onward, other) if self.sense else (other, onward)
            return self._kept(Branch(self.predicate, taken, otherwise, outer.source))
        both = Predicate(self.fresh.like(inner.predicate.name))
        table = 1 << (2 * self.sense + (onward == inner.taken))
        operands = (self.predicate, self._flag(inner.predicate))
        self.decision.append(Instruction(MirOp.PLOP, both, operands, table=table, source=inner.source))
        return Branch(both, onward, other, inner.source)

    def _kept(self, branch: Branch) -> Branch:
        """The branch on a predicate that the selects may overwrite: on a copy of it then."""
        if self.predicate not in self.renamed:
            return branch
        copy = Predicate(self.fresh.like(self.predicate.name))
        self.decision.append(
            Instruction(MirOp.PLOP, copy, (self.predicate, self.predicate), table=0xC, source=branch.source)
        )
        return replace(branch, predicate=copy)

    def selects(self) -> list[Instruction]:
        """Gives each renamed result to its register where the copy counts; the predicate comes last."""
        result: list[Instruction] = []
        for name in sorted(self.renamed, key=lambda name: (name == self.predicate, str(name))):
            if name not in self.after:
                continue
            new = self.renamed[name]
            if isinstance(name, Register):
                sides = (new, name) if self.sense else (name, new)
                result.append(Instruction(Op.SEL, name, sides, self.predicate))
            elif name not in self.other:
                result.append(Instruction(MirOp.PLOP, name, (new, new), table=0xC))
            else:
                result += self._select_flag(name, new)
        return result

    def _select_flag(self, name: Predicate, new: Name) -> list[Instruction]:
        assert isinstance(new, Predicate)
        yes, no = (Predicate(self.fresh.like(name.name)) for _ in range(2))
        table_new = 0x8 if self.sense else 0x2
        table_old = 0x2 if self.sense else 0x8
        return [
            Instruction(MirOp.PLOP, yes, (self.predicate, new), table=table_new),
            Instruction(MirOp.PLOP, no, (self.predicate, name), table=table_old),
            Instruction(MirOp.PLOP, name, (yes, no), table=0xE),
        ]
