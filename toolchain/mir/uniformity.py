"""Uniformity: which results are equal in all lanes that compute them together.

Contract: valid MIR in, the same MIR out with `uniform` set on instructions. The claim holds for every block
layout that keeps the machine blocks of one block together (see ir.py).

A block is *converged* if any two lanes that run it have run all blocks before it together. Lanes part at a
branch whose predicate is not uniform; one lane then runs only what one side reaches, the other what the other
side reaches, so exactly the blocks that both reach lose convergence. In a converged block all lanes took the
same path, and a register is uniform if all definitions that reach it are. Elsewhere lanes may come from
different iterations or paths: then a register is uniform only if one definition reaches, and it is either
*invariant* (made of constants and block indices alone, so always the same) or made once, by all lanes
together.

All lanes get the same ballot, and the same from a shuffle that reads one lane. A shuffle of a value that is
uniform becomes a copy. In a serial block each lane is alone, with memory as the lanes before it left it: only
what is invariant is equal in all of them, and a branch parts them; after a jump they meet again (layout.py).

`diverging` asks another question: which branches part lanes on the machine, once layout.py has made them meet
again where their ways join? Then a block loses convergence only before that join; what was defined on the way
to it is not the same in all lanes behind it, unless it is invariant.
"""

from dataclasses import dataclass, field, replace

from toolchain.machine_spec import MachineSpec
from toolchain.mir.cfg import Cfg
from toolchain.mir.ir import (
    EXIT,
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
from toolchain.mir.isa import WARP_OPS, Op
from toolchain.mir.reaching import Definition, reaching_definitions

PASS_NAME = "uniformity"

UNIFORM_SPECIALS = ("ctaid.x", "ctaid.y", "ctaid.z", "warpid")


def run(function: Function, spec: MachineSpec) -> Function:
    """The function with `uniform` set where it is proven, and cleared elsewhere."""
    analysis = _Analysis.of(function)
    return function.with_blocks([analysis.annotated(block) for block in function.blocks])


def uniform_registers(function: Function) -> frozenset[Register]:
    """Registers all of whose definitions are uniform."""
    uniform = _Analysis.of(function).uniform
    made: dict[Register, bool] = {}
    for block in function.blocks:
        for index, item in enumerate(block.instructions):
            if isinstance(item.dest, Register):
                made[item.dest] = made.get(item.dest, True) and (block.label, index) in uniform
    return frozenset(name for name, all_uniform in made.items() if all_uniform)


def diverging(function: Function) -> frozenset[str]:
    """Labels of blocks whose branch may part lanes that have met again wherever their ways joined."""
    return frozenset(_Analysis.of(function, meet=True).parted)


@dataclass
class _Analysis:
    """Starts from everything uniform and converged, and takes back until nothing changes.

    `meet`: lanes meet again where their ways join. `parted`: for each block that parts lanes, what they may run
    until then.
    """

    function: Function
    cfg: Cfg
    reaching: dict[str, dict[Register | Predicate, frozenset[Definition]]]
    uniform: set[Definition]
    invariant: set[Definition]
    scattered: set[str]
    meet: bool
    parted: dict[str, frozenset[str]] = field(default_factory=dict)

    @staticmethod
    def of(function: Function, *, meet: bool = False) -> "_Analysis":
        everything = {
            (block.label, index)
            for block in function.blocks
            for index, item in enumerate(block.instructions)
            if item.dest is not None
        }
        cfg = Cfg(function)
        found = _Analysis(
            function, cfg, reaching_definitions(function), set(everything), set(everything), set(), meet
        )
        while found.step():
            pass
        return found

    def annotated(self, block: Block) -> Block:
        """The block with what is proven; shuffles of uniform values are copies."""
        local: dict[Register | Predicate, Definition] = {}
        body: list[Instruction] = []
        for index, item in enumerate(block.instructions):
            uniform = isinstance(item.dest, Register) and (block.label, index) in self.uniform
            if item.op is Op.SHFL and self.is_uniform(block, item.operands[0], local):
                item = replace(item, op=MirOp.MOV, operands=item.operands[:1])
            body.append(replace(item, uniform=uniform))
            if item.dest is not None:
                local[item.dest] = (block.label, index)
        return replace(block, instructions=tuple(body))

    def step(self) -> bool:
        """One sweep over the function; whether anything was taken back."""
        size = self.size()
        for block in self.function.blocks:
            if block.label not in self.cfg.reachable:
                continue
            local: dict[Register | Predicate, Definition] = {}
            for index, item in enumerate(block.instructions):
                here = (block.label, index)
                if here in self.uniform and not self.operands_uniform(block, item, local):
                    self.uniform.discard(here)
                if here in self.invariant and not self.operands_invariant(block, item, local):
                    self.invariant.discard(here)
                if item.dest is not None:
                    local[item.dest] = here
            self.part(block, local)
        return size != self.size()

    def size(self) -> tuple[int, ...]:
        """What a sweep can only make smaller, or only larger."""
        return len(self.uniform), len(self.invariant), len(self.scattered), len(self.parted)

    def part(self, block: Block, local: dict[Register | Predicate, Definition]) -> None:
        """What a branch that is not uniform does to the blocks both sides reach."""
        terminator = block.terminator
        if not isinstance(terminator, Branch) or terminator.taken == terminator.otherwise:
            return
        if block.label in self.parted:
            return
        if block.serial or not self.is_uniform(block, terminator.predicate, local):
            join = self.cfg.immediate_post_dominators.get(block.label, EXIT) if self.meet else EXIT
            taken, otherwise = (self.cfg.between([target], join) for target in terminator.targets)
            self.scattered |= taken & otherwise
            self.parted[block.label] = taken | otherwise

    def operands_uniform(
        self, block: Block, item: Instruction, local: dict[Register | Predicate, Definition]
    ) -> bool:
        if block.serial:
            return self.operands_invariant(block, item, local)
        if item.op is Op.BALLOT:
            return True
        if item.op is Op.SHFL:
            return any(self.is_uniform(block, operand, local) for operand in item.operands)
        operands = [*item.operands, *([item.predicate] if item.predicate else [])]
        return all(self.is_uniform(block, operand, local) for operand in operands)

    def is_uniform(
        self, block: Block, operand: Operand, local: dict[Register | Predicate, Definition]
    ) -> bool:
        if isinstance(operand, Special):
            return operand.name in UNIFORM_SPECIALS
        if not isinstance(operand, Register | Predicate) or operand == TRUE:
            return True
        if operand in local:
            return local[operand] in self.uniform
        definitions = self.reaching[block.label].get(operand, frozenset())
        if self.meet and self.made_apart(definitions, block.label):
            return len(definitions) == 1 and definitions <= self.invariant
        if block.label not in self.scattered:
            return definitions <= self.uniform
        if len(definitions) != 1:
            return False
        (definition,) = definitions
        made_once = definition[0] not in self.cfg.cyclic and definition[0] not in self.scattered
        return definition in self.invariant or (made_once and definition in self.uniform)

    def made_apart(self, definitions: frozenset[Definition], label: str) -> bool:
        """Whether lanes that were parted at one of the definitions have met again in block `label`."""
        return any(
            label not in region and any(definition[0] in region for definition in definitions)
            for region in self.parted.values()
        )

    def operands_invariant(
        self, block: Block, item: Instruction, local: dict[Register | Predicate, Definition]
    ) -> bool:
        """Whether an operation gives the same value whenever and wherever in a warp it runs."""
        if item.is_memory or item.op in WARP_OPS:
            return False
        for operand in (*item.operands, *([item.predicate] if item.predicate else [])):
            if isinstance(operand, Special) and operand.name not in UNIFORM_SPECIALS:
                return False
            if isinstance(operand, Register | Predicate) and operand != TRUE:
                definitions = (
                    frozenset({local[operand]})
                    if operand in local
                    else self.reaching[block.label].get(operand, frozenset())
                )
                if len(definitions) != 1 or not definitions <= self.invariant:
                    return False
        return True
