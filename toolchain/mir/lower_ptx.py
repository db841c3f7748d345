"""PTX to MIR: control flow, and which module lowers what.

    binding.py, variables.py     what parameters, special registers and variables are
    lower_arithmetic.py          everything that computes
    lower_memory.py              loads, stores, addresses; ptx_spaces.py knows what generic addresses point to
    lower_atomics.py, lower_barriers.py, lower_warp.py
    warp_meetings.py             lanes that would wait for each other at different places

Parameters, launch extents and the addresses of variables become link-time constants. Guarded instructions
become `sel`, guarded stores, or branches around them. Registers that some path leaves undefined (LLVM's undef) are
zeroed at the entry.
"""

from dataclasses import replace

from toolchain.machine_spec import MachineSpec
from toolchain.mir import liveness
from toolchain.mir.affine import constant
from toolchain.mir.binding import bind_parameters, special_register
from toolchain.mir.cfg import Cfg
from toolchain.mir.ir import EXIT, TRUE, ZERO, Block, Branch, Function, Instruction, Jump, MirOp, Predicate
from toolchain.mir.isa import Op
from toolchain.mir.layout import layout
from toolchain.mir.lower_arithmetic import lower_arithmetic
from toolchain.mir.lower_atomics import atomic
from toolchain.mir.lower_barriers import barrier
from toolchain.mir.lower_memory import Memory, load, move_address, move_parts, open_memory, store
from toolchain.mir.lower_warp import active_mask, lane_mask, match, reduce, shuffle, vote
from toolchain.mir.lowering import Lowering, refuse
from toolchain.mir.lowering_blocks import guarded_blocks
from toolchain.mir.variables import Placement, place_variables
from toolchain.mir.warp_meetings import check_meetings, meets_whole_warp
from toolchain.ptx_frontend import ast

PASS_NAME = "lower-ptx"

NOTHING_TO_DO = ("membar", "fence", "nanosleep", "prefetch", "pragma")
"""Memory operations happen in order."""


def run(
    function: ast.Function,
    spec: MachineSpec,
    source_file: str = "",
    variables: tuple[ast.Variable, ...] = (),
) -> Function:
    """The MIR of a PTX kernel: valid, unoptimised, its blocks in an order in which lanes meet again.

    `variables` are its module's. Raises CompileError at what the machine cannot run.
    """
    parameters = bind_parameters(function)
    placement = place_variables(function, variables)
    lowering = Lowering(function, parameters, spec)
    meetings = _lower_body(lowering, placement)
    result = Function(
        function.name, parameters, tuple(lowering.blocks), source_file,
        placement.variables, placement.shared_words, placement.local_words,
    )  # fmt: skip
    result = zero_undefined(with_clean_entry(result))
    check_meetings(result, meetings)
    return layout(result)


def with_clean_entry(function: Function) -> Function:
    """The reachable blocks, with an empty entry in front if something branches to the first block."""
    cfg = Cfg(function)
    blocks = [block for block in function.blocks if block.label in cfg.reachable]
    if cfg.predecessors[cfg.entry]:
        labels = {block.label for block in blocks}
        label = next(
            name for name in ("entry", *(f"entry{i}" for i in range(len(labels)))) if name not in labels
        )
        blocks.insert(0, Block(label, (), Jump(cfg.entry)))
    return function.with_blocks(blocks)


def zero_undefined(function: Function) -> Function:
    """Zeroes at the entry whatever some path may read before defining it."""
    entry = function.blocks[0]
    live = sorted(liveness.analyse(function).before[entry.label], key=str)
    zeros = tuple(
        Instruction(MirOp.PLOP, name, (TRUE, TRUE))
        if isinstance(name, Predicate)
        else Instruction(MirOp.MOV, name, (ZERO,))
        for name in live
    )
    return function.with_blocks(
        [replace(entry, instructions=zeros + entry.instructions), *function.blocks[1:]]
    )


def _lower_body(lowering: Lowering, placement: Placement) -> dict[str, ast.Instruction]:
    """Lowers the body; gives for each block the first instruction in it at which a whole warp waits."""
    meetings: dict[str, ast.Instruction] = {}
    labels = {lowering.label(item.name) for item in lowering.function.body if isinstance(item, ast.Label)}
    lowering.start("entry" if "entry" not in labels else lowering.fresh_label())
    memory = open_memory(lowering, placement)
    for item in lowering.function.body:
        if isinstance(item, ast.Label):
            lowering.fall_into(lowering.label(item.name))
            continue
        lowering.at = item
        if lowering.open_label is not None and meets_whole_warp(item, lowering.constants, lowering.spec):
            meetings.setdefault(lowering.open_label, item)
        _lower(lowering, memory, item)
    if lowering.open_label is not None:
        lowering.end(Jump(EXIT))
    return meetings


WARP = {
    "shfl": shuffle,
    "vote": vote,
    "match": match,
    "activemask": active_mask,
    "redux": reduce,
}
MEMORY = {
    "ld": load,
    "ldu": load,
    "st": store,
    "cvta": move_address,
    "atom": atomic,
    "red": atomic,
    "bar": barrier,
    "barrier": barrier,
}


def _lower(lowering: Lowering, memory: Memory, item: ast.Instruction) -> None:
    match item.opcode:
        case _ if item.name.startswith(NOTHING_TO_DO):
            return
        case "bar" if "warp" in item.modifiers:
            lowering.append(Instruction(MirOp.SYNC, None, (), source=item.where))
        case "bra" | "ret" | "exit":
            _branch(lowering, item)
        case "brx":
            with guarded_blocks(lowering, item) as inner:
                _branch_table(lowering, inner)
        case "mov" if any(isinstance(operand, ast.Vector) for operand in item.operands):
            move_parts(lowering, item)
        case "mov" if isinstance(item.operands[1], ast.SpecialRegister | ast.Symbol):
            _move(lowering, memory, item)
        case _ if item.opcode in MEMORY:
            MEMORY[item.opcode](lowering, memory, item)
        case _ if item.opcode in WARP:
            WARP[item.opcode](lowering, item)
        case _:
            lower_arithmetic(lowering, item)


def _branch(lowering: Lowering, item: ast.Instruction) -> None:
    source = item.where
    target = EXIT
    if item.opcode == "bra":
        operand = item.operands[0]
        if not isinstance(operand, ast.Symbol):
            raise refuse(item, "branches to something that is not a label")
        target = lowering.label(operand.name)
    if item.guard is None:
        lowering.end(Jump(target, source))
        return
    rest = lowering.fresh_label()
    guard = lowering.predicate(item.guard.register)
    taken, otherwise = (rest, target) if item.guard.negated else (target, rest)
    lowering.end(Branch(guard, taken, otherwise, source))
    lowering.start(rest)


def _branch_table(lowering: Lowering, item: ast.Instruction) -> None:
    """brx.idx: one comparison a label, in order; the last label needs none."""
    index, table = item.operands
    labels = next(
        (
            t.labels
            for t in lowering.function.tables
            if isinstance(table, ast.Symbol) and t.name == table.name
        ),
        (),
    )
    if not labels:
        raise refuse(item, "has no branch table")
    value = lowering.value(index)
    for number, label in enumerate(labels[:-1]):
        test = lowering.fresh_predicate()
        lowering.emit(Op.SET_EQ, test, value, constant(number))
        rest = lowering.fresh_label()
        lowering.end(Branch(test, lowering.label(label), rest, item.where))
        lowering.start(rest)
    lowering.end(Jump(lowering.label(labels[-1]), item.where))


def _move(lowering: Lowering, memory: Memory, item: ast.Instruction) -> None:
    """mov from a special register, from an address, or from several parts."""
    match item.operands[1]:
        case ast.SpecialRegister(name) if name.startswith("%lanemask_"):
            lowering.define(item, lane_mask(lowering, name.removeprefix("%lanemask_")))
        case ast.SpecialRegister(name):
            lowering.define(item, special_register(item, name, lowering.spec))
        case _:
            move_address(lowering, memory, item)
