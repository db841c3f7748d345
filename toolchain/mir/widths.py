"""Width analysis: which results are proven to fit 16 bits unsigned.

Contract: valid MIR in, the same MIR out with `narrow` set on instructions. Each register gets an interval of
unsigned values at each point (interval.py has the arithmetic); a branch narrows the operands of the
comparison it depends on; loops widen to the constants that occur in the function, so that a counter with a
constant bound stays bounded. What is loaded may be anything, and so may what a shuffle takes from an inactive lane.
"""

from dataclasses import dataclass, replace

from toolchain.machine_spec import MachineSpec
from toolchain.mir import evaluate, facts
from toolchain.mir.affine import MASK
from toolchain.mir.cfg import Cfg
from toolchain.mir.facts import Facts
from toolchain.mir.intervals import FULL, Interval, of_link_value, of_special, refine, result
from toolchain.mir.ir import (
    TRUE,
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
from toolchain.mir.isa import COMPARISONS, Op
from toolchain.mir.rom import LinkValue

PASS_NAME = "widths"

NARROW = 0xFFFF
_EXACT_ROUNDS = 3
"""Times a block's intervals may grow freely before they widen."""

State = dict[Register, Interval]


def run(function: Function, spec: MachineSpec) -> Function:
    """The function with `narrow` set where it is proven, and cleared elsewhere."""
    analysis = _Analysis(function, spec)
    states = analysis.solve()
    return function.with_blocks(
        [analysis.annotate(block, dict(states[block.label])) for block in function.blocks]
    )


@dataclass
class _Analysis:
    function: Function
    spec: MachineSpec

    def __post_init__(self) -> None:
        self.cfg = Cfg(self.function)
        self.blocks = {block.label: block for block in self.function.blocks}
        self.known = self._facts_after()
        self.thresholds = self._thresholds()

    def _facts_after(self) -> dict[str, Facts]:
        """Facts at the end of each block."""
        found = facts.analyse(self.function)
        for label, known in found.items():
            for item in self.blocks[label].instructions:
                facts.learn(known, item)
        return found

    def _thresholds(self) -> list[int]:
        """Bounds that widening stops at: constants of the function and their neighbours."""
        bounds = {0, NARROW, (1 << 31) - 1, MASK}
        for block in self.function.blocks:
            for item in block.instructions:
                for operand in item.values:
                    if isinstance(operand, LinkValue) and not operand.terms:
                        bounds |= {(operand.addend + near) & MASK for near in (-1, 0, 1)}
        return sorted(bounds)

    def solve(self) -> dict[str, State]:
        """Intervals at the start of each block."""
        states: dict[str, State] = {self.cfg.entry: {}}
        visits: dict[str, int] = {}
        work = [self.cfg.entry]
        while work:
            label = work.pop(0)
            state = dict(states[label])
            for item in self.blocks[label].instructions:
                self.step(item, state)
            for target in self.blocks[label].successors:
                new = self.along(self.blocks[label], target, state)
                old = states.get(target)
                visits[target] = visits.get(target, 0) + 1
                joined = new if old is None else self.join(old, new, visits[target])
                if joined != old:
                    states[target] = joined
                    if target not in work:
                        work.append(target)
        return {label: states.get(label, {}) for label in self.blocks}

    def join(self, old: State, new: State, visits: int) -> State:
        """Names missing from a state may be anything."""
        result: State = {}
        for name in old.keys() & new.keys():
            low, high = min(old[name][0], new[name][0]), max(old[name][1], new[name][1])
            if visits > _EXACT_ROUNDS:
                if low < old[name][0]:
                    low = max(bound for bound in self.thresholds if bound <= low)
                if high > old[name][1]:
                    high = min(bound for bound in self.thresholds if bound >= high)
            result[name] = (low, high)
        return result

    def read(self, operand: Operand, state: State) -> Interval:
        match operand:
            case Register():
                return state.get(operand, FULL)
            case LinkValue():
                return of_link_value(operand, self.function, self.spec)
            case Special(name):
                return of_special(name, self.spec)
        return FULL

    def value(self, item: Instruction, state: State) -> Interval:
        if item.op is Op.BALLOT:
            return 0, (1 << self.spec.lanes) - 1
        operands = [self.read(operand, state) for operand in item.operands]
        return result(item, operands)

    def step(self, item: Instruction, state: State) -> None:
        if isinstance(item.dest, Register):
            state[item.dest] = self.value(item, state)

    def along(self, block: Block, target: str, state: State) -> State:
        """The state on an edge: the branch's comparison holds, or does not."""
        terminator = block.terminator
        if not isinstance(terminator, Branch) or terminator.taken == terminator.otherwise:
            return dict(state)
        found = dict(state)
        self.assume(terminator.predicate, terminator.taken == target, found, self.known[block.label])
        return found

    def assume(self, predicate: Operand, holds: bool, state: State, known: Facts) -> None:
        fact = known.get(predicate) if isinstance(predicate, Predicate) and predicate != TRUE else None
        if fact is None:
            return
        if fact.op is MirOp.PLOP:
            cases = [(a, b) for a in (False, True) for b in (False, True) if self._case(fact, a, b) == holds]
            for index, operand in enumerate(fact.operands):
                values = {case[index] for case in cases}
                if len(values) == 1:
                    self.assume(operand, values.pop(), state, known)
        elif fact.op in COMPARISONS:
            assert isinstance(fact.op, Op)
            a, b = (self.read(operand, state) for operand in fact.operands)
            for operand, interval in zip(fact.operands, refine(fact.op, holds, a, b), strict=True):
                if isinstance(operand, Register):
                    state[operand] = interval

    @staticmethod
    def _case(fact: Instruction, a: bool, b: bool) -> bool | None:
        """The result of a plop in one case; None for a case that cannot be, because an operand is `true`."""
        first, second = fact.operands
        if (first == TRUE and not a) or (second == TRUE and not b):
            return None
        return evaluate.plop(a, b, fact.table)

    def annotate(self, block: Block, state: State) -> Block:
        body: list[Instruction] = []
        for item in block.instructions:
            self.step(item, state)
            narrow = isinstance(item.dest, Register) and state[item.dest][1] <= NARROW
            body.append(replace(item, narrow=narrow))
        return replace(block, instructions=tuple(body))
