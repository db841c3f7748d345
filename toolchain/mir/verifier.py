"""The rules of MIR. Every broken one is reported, with its block and instruction.

function    has blocks; labels are distinct and none is `exit`; nothing branches to the entry; variables have
            distinct names and no more initial words than words; sizes are not negative
terminator  targets exist; a branch has a predicate of its own (not `true`)
serial      not the entry, does not end in a barrier, has no warp operation, at most one store, and no load of a space
            after a store to it
shape       operand count; predicates only where the operation reads predicates; sel and ballot have a
            selector, a store may have a guard, nothing else has either; `negated` only with a guard
dest        a comparison or plop writes a predicate, a store or sync nothing, all else a register; never `true`
names       no name is both a register and a predicate, or a special register's; specials exist
constants   link values are in normal form; a link-time address stands in the offset
tables      0..15, and only on lop and plop; an offset only on memory operations
defined     every use is defined on every path from the entry
"""

import re
from collections.abc import Iterator

from toolchain.errors import SourceLocation, VerifyError
from toolchain.mir.affine import normal
from toolchain.mir.cfg import Cfg
from toolchain.mir.ir import (
    EXIT,
    STORES,
    TRUE,
    ZERO,
    Barrier,
    Block,
    Branch,
    Function,
    Instruction,
    MirOp,
    Operand,
    Predicate,
    Register,
    Special,
    is_value,
    operand_count,
    writes_predicate,
)
from toolchain.mir.isa import SELECTING, SPECIALS, WARP_OPS, Op
from toolchain.mir.liveness import terminator_uses
from toolchain.mir.rom import LinkValue
from toolchain.mir.text import print_instruction, print_terminator

_NAME = re.compile(r"[A-Za-z_$][\w$]*")


def verify(function: Function) -> None:
    """Raises VerifyError that lists every broken rule; `location` is the first offending source line."""
    problems = list(_problems(function))
    if not problems:
        return
    lines = [f"{place}: {message}" for place, message, _ in problems]
    location = next((source for _, _, source in problems if source is not None), None)
    raise VerifyError(f"MIR of '{function.name}' is not valid:\n  " + "\n  ".join(lines), location)


Problem = tuple[str, str, SourceLocation | None]


def _problems(function: Function) -> Iterator[Problem]:
    structure = list(_structure(function))
    yield from structure
    for block in function.blocks:
        for index, instruction in enumerate(block.instructions):
            place = f"{block.label}[{index}] `{print_instruction(instruction)}`"
            for message in _instruction(instruction):
                yield place, message, instruction.source
    yield from _names(function)
    if not structure:
        yield from _undefined(function)


def _structure(function: Function) -> Iterator[Problem]:
    if not function.blocks:
        yield function.name, "the function has no blocks", None
        return
    yield from _declarations(function)
    labels = [block.label for block in function.blocks]
    for label in sorted({label for label in labels if labels.count(label) > 1}):
        yield label, "two blocks have this label", None
    for block in function.blocks:
        if block.label == EXIT:
            yield block.label, "no block may be called 'exit'", None
        place = f"{block.label} `{print_terminator(block.terminator)}`"
        source = block.terminator.source
        for target in block.terminator.targets:
            if target != EXIT and target not in labels:
                yield place, f"there is no block '{target}'", source
            if target == labels[0]:
                yield place, "nothing may branch to the entry", source
        if isinstance(block.terminator, Branch) and block.terminator.predicate == TRUE:
            yield place, "a branch needs a predicate; use jump", source
        for message in _serial(function, block) if block.serial else ():
            yield block.label, message, source


def _declarations(function: Function) -> Iterator[Problem]:
    names = [variable.name for variable in function.variables]
    for variable in function.variables:
        if names.count(variable.name) > 1:
            yield function.name, f"two variables are called '{variable.name}'", None
        if len(variable.initial) > variable.words:
            yield function.name, f"variable '{variable.name}' has more initial words than words", None
    if min(function.shared_words, function.local_words) < 0:
        yield function.name, "a size is negative", None


def _serial(function: Function, block: Block) -> Iterator[str]:
    """What keeps a serial block from being one atomic machine block."""
    if block is function.blocks[0]:
        yield "the entry cannot be serial"
    if isinstance(block.terminator, Barrier):
        yield "a serial block cannot end in a barrier"
    if any(item.op in WARP_OPS for item in block.instructions):
        yield "a serial block has one lane at a time; it cannot have warp operations"
    stores = [index for index, item in enumerate(block.instructions) if item.is_store]
    if len(stores) > 1:
        yield "a serial block has at most one store"
    for item in block.instructions[stores[0] :] if stores else ():
        if item.is_load and item.is_shared == block.instructions[stores[0]].is_shared:
            yield "a serial block cannot load what it has stored"


def _instruction(instruction: Instruction) -> Iterator[str]:
    op = instruction.op
    if len(instruction.operands) != operand_count(op):
        yield f"expected {operand_count(op)} operands, found {len(instruction.operands)}"
    for operand in instruction.operands:
        yield from _operand(instruction, operand)
    yield from _destination(instruction)
    if op in SELECTING and instruction.predicate is None:
        yield f"{op} needs a selector"
    if op not in (*SELECTING, *STORES) and instruction.predicate is not None:
        yield "only sel, ballot and stores read a predicate here"
    if instruction.predicate == TRUE and op is not Op.BALLOT:
        yield "a selector or guard cannot be 'true'"
    if instruction.negated and (op not in STORES or instruction.predicate is None):
        yield "only a store's guard can be negated"
    if not 0 <= instruction.table <= 15:
        yield f"the table is {instruction.table}; it must be 0..15"
    if instruction.table and op not in (Op.LOP, MirOp.PLOP):
        yield "only lop and plop have a table"
    if instruction.offset != ZERO and not instruction.is_memory:
        yield "only memory operations have an offset"
    if instruction.offset != normal(instruction.offset):
        yield "the offset is not in normal form"
    address = instruction.operands[0] if instruction.is_memory and instruction.operands else ZERO
    if isinstance(address, LinkValue) and address != ZERO:
        yield "a link-time address belongs in the offset"
    if (instruction.uniform or instruction.narrow) and not isinstance(instruction.dest, Register):
        yield "only a value can be uniform or narrow"


def _operand(instruction: Instruction, operand: Operand) -> Iterator[str]:
    if is_value(operand) == (instruction.op is MirOp.PLOP):
        kind = "a predicate" if instruction.op is MirOp.PLOP else "a value"
        yield f"expected {kind}, found {operand}"
    if isinstance(operand, LinkValue) and operand != normal(operand):
        yield f"link value {operand} is not in normal form"
    if isinstance(operand, Special) and operand.name not in SPECIALS:
        yield f"there is no special register '{operand.name}'"


def _destination(instruction: Instruction) -> Iterator[str]:
    dest = instruction.dest
    if instruction.op in (*STORES, MirOp.SYNC):
        if dest is not None:
            yield f"a {'store' if instruction.is_store else 'sync'} has no destination"
    elif writes_predicate(instruction.op):
        if not isinstance(dest, Predicate) or dest == TRUE:
            yield f"'{instruction.op}' writes a predicate, found {dest}"
    elif not isinstance(dest, Register):
        yield f"'{instruction.op}' writes a register, found {dest}"


def _names(function: Function) -> Iterator[Problem]:
    kinds: dict[str, type] = {}
    for block in function.blocks:
        named = [(name, item.source) for item in block.instructions for name in _mentioned(item)]
        named += [(name, block.terminator.source) for name in terminator_uses(block)]
        for name, source in named:
            if name.name in SPECIALS or (name != TRUE and name.name == TRUE.name):
                yield block.label, f"'{name.name}' is a reserved name", source
            elif not _NAME.fullmatch(name.name):
                yield block.label, f"'{name.name}' is not a name", source
            if kinds.setdefault(name.name, type(name)) is not type(name):
                yield block.label, f"'{name.name}' is both a register and a predicate", source


def _mentioned(instruction: Instruction) -> tuple[Register | Predicate, ...]:
    return instruction.uses if instruction.dest is None else (*instruction.uses, instruction.dest)


def _undefined(function: Function) -> Iterator[Problem]:
    """Uses that some path reaches without a definition: forward, intersection over predecessors."""
    cfg = Cfg(function)
    blocks = {block.label: block for block in function.blocks}
    order = cfg.reverse_postorder
    everything = frozenset(
        item.dest for block in function.blocks for item in block.instructions if item.dest is not None
    )
    defined_after = dict.fromkeys(order, everything)

    def before(label: str) -> frozenset[Register | Predicate]:
        if label == cfg.entry:
            return frozenset()
        sources = [defined_after[p] for p in cfg.predecessors[label] if p in cfg.reachable]
        return frozenset.intersection(*sources)

    changed = True
    while changed:
        changed = False
        for label in order:
            made = {item.dest for item in blocks[label].instructions if item.dest is not None}
            after = before(label) | made
            changed |= after != defined_after[label]
            defined_after[label] = after
    for label in order:
        yield from _undefined_in(blocks[label], set(before(label)))


def _undefined_in(block: Block, defined: set[Register | Predicate]) -> Iterator[Problem]:
    for index, item in enumerate(block.instructions):
        for name in item.uses:
            if name not in defined:
                place = f"{block.label}[{index}] `{print_instruction(item)}`"
                yield place, f"{name} is not defined on every path", item.source
        if item.dest is not None:
            defined.add(item.dest)
    for name in terminator_uses(block) - defined:
        place = f"{block.label} `{print_terminator(block.terminator)}`"
        yield place, f"{name} is not defined on every path", block.terminator.source
