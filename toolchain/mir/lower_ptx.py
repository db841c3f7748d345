"""PTX to MIR: control flow and memory. Arithmetic is in lower_arithmetic.py, parameters are bound in binding.py.

Parameters and launch extents become link-time constants. A 64-bit register becomes its low word: every
operation that would need the high word is refused, so what remains (address arithmetic) is exact modulo
2**32. A memory access becomes `shr.u` by 2 and an access by word; address narrowing then removes the shift.
A load of a byte or a half word loads its word and takes the bits out of it.
Guarded arithmetic becomes `sel`. Registers that some path leaves undefined (LLVM's undef) are zeroed at the
entry.
"""

from dataclasses import replace

from toolchain.machine_spec import MachineSpec
from toolchain.mir import liveness
from toolchain.mir.affine import constant, symbol
from toolchain.mir.binding import bind_parameters, special_register
from toolchain.mir.cfg import Cfg
from toolchain.mir.ir import (
    EXIT,
    TRUE,
    ZERO,
    Block,
    Branch,
    Function,
    Instruction,
    Jump,
    MirOp,
    Operand,
    Predicate,
    Value,
)
from toolchain.mir.isa import Op
from toolchain.mir.lower_arithmetic import lower_arithmetic
from toolchain.mir.lowering import AND, OR, Lowering, refuse
from toolchain.mir.rom import LinkValue
from toolchain.ptx_frontend import ast

PASS_NAME = "lower-ptx"

NOTHING_TO_DO = ("bar.warp.sync", "membar", "fence", "nanosleep", "pragma")
"""A warp's lanes reconverge by themselves, and memory operations happen in order."""


def run(function: ast.Function, spec: MachineSpec, source_file: str = "") -> Function:
    """The MIR of a PTX kernel: valid, unoptimised. Raises CompileError at what the machine cannot run."""
    parameters = bind_parameters(function)
    lowering = Lowering(function, parameters, spec)
    _lower_body(lowering)
    result = Function(function.name, parameters, tuple(lowering.blocks), source_file)
    return zero_undefined(with_clean_entry(result))


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


def _lower_body(lowering: Lowering) -> None:
    lowering.start("entry")
    for item in lowering.function.body:
        if isinstance(item, ast.Label):
            lowering.fall_into(lowering.label(item.name))
            continue
        lowering.at = item
        _lower(lowering, item)
    if lowering.open_label is not None:
        lowering.end(Jump(EXIT))


def _lower(lowering: Lowering, item: ast.Instruction) -> None:
    match item.opcode:
        case "bra" | "ret" | "exit":
            _branch(lowering, item)
        case "brx":
            _branch_table(lowering, item)
        case "ld":
            _load(lowering, item)
        case "st":
            _store(lowering, item)
        case "mov" if isinstance(item.operands[0], ast.Vector):
            _unpack(lowering, item, item.operands[0])
        case "mov" if isinstance(item.operands[1], ast.SpecialRegister | ast.Symbol | ast.Vector):
            _move(lowering, item)
        case _ if item.name.startswith(NOTHING_TO_DO):
            return
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
    if item.guard is not None:
        raise refuse(item, "is guarded", "branch around it")
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


def _move(lowering: Lowering, item: ast.Instruction) -> None:
    """mov from a special register, or from two halves."""
    source = item.operands[1]
    if isinstance(source, ast.Vector):
        lowering.define(item, _packed(lowering, item, source))
        return
    if not isinstance(source, ast.SpecialRegister):
        raise refuse(
            item,
            "takes the address of a variable or a vector",
            "global variables, shared memory and 64-bit data are not in the machine yet",
        )
    lowering.define(item, special_register(item, source.name, lowering.spec))


def _packed(lowering: Lowering, item: ast.Instruction, halves: ast.Vector) -> Value:
    """mov.b32 d, {low, high}."""
    if item.modifiers != ("b32",) or len(halves.elements) != 2:
        raise refuse(item, "moves a vector", "64-bit data is not in the machine yet")
    low, high = (lowering.read(element, "u16") for element in halves.elements)
    return lowering.compute(Op.LOP, lowering.compute(Op.SHL, high, constant(16)), low, table=OR)


def _unpack(lowering: Lowering, item: ast.Instruction, halves: ast.Vector) -> None:
    """mov.b32 {low, high}, a; either may be `_`."""
    if item.modifiers != ("b32",) or len(halves.elements) != 2:
        raise refuse(item, "moves a vector", "64-bit data is not in the machine yet")
    value = lowering.value(item.operands[1])
    for index, element in enumerate(halves.elements):
        if element not in (ast.Register("_"), ast.Symbol("_")):
            lowering.define(item, lowering.field(value, 16 * index, 16, is_signed=False), element, fits=True)


def _elements(operand: ast.Operand) -> tuple[ast.Operand, ...]:
    return operand.elements if isinstance(operand, ast.Vector) else (operand,)


def _access_type(item: ast.Instruction) -> str:
    kind = next((word for word in reversed(item.modifiers) if word in ast.TYPE_BITS), "")
    if kind.startswith(("f", "bf")):
        raise refuse(item, "is floating point", "the machine computes on 32-bit integers")
    return kind


def _load(lowering: Lowering, item: ast.Instruction) -> None:
    kind = _access_type(item)
    dest, place = item.operands
    if "param" in item.modifiers:
        _load_parameter(lowering, item, kind)
        return
    if ast.TYPE_BITS.get(kind, 0) < 32:
        _check_space(item)
        lowering.define(item, _part_of_word(lowering, item, kind), fits=not kind.startswith("s"))
        return
    _check_global(item, kind)
    base, offset = address(lowering, item, place)
    for index, element in enumerate(_elements(dest)):
        step = constant(offset + index)
        lowering.define(item, lowering.load(base, step), element)


def _part_of_word(lowering: Lowering, item: ast.Instruction, kind: str) -> Value:
    """The 8 or 16 bits at an address; they lie in one word, as addresses are aligned to the access."""
    place = item.operands[1]
    bits, signed = ast.TYPE_BITS[kind], kind.startswith("s")
    base, offset = (place.base, place.offset) if isinstance(place, ast.Address) else (place, 0)
    if base is None or (isinstance(base, ast.Register) and base.name in lowering.words):
        start = ast.Address(base, offset - offset % 4)
        word = lowering.load(*_load_place(lowering, item, start))
        return lowering.field(word, 8 * (offset % 4), bits, is_signed=signed)
    word = lowering.load(*_load_place(lowering, item, place))
    byte = lowering.compute(Op.ADD, lowering.value(base), constant(offset))
    amount = lowering.compute(Op.SHL, lowering.compute(Op.LOP, byte, constant(3), table=AND), constant(3))
    return lowering.field(lowering.compute(Op.SHR_U, word, amount), 0, bits, is_signed=signed)


def _load_place(lowering: Lowering, item: ast.Instruction, place: ast.Operand) -> tuple[Operand, LinkValue]:
    base, offset = address(lowering, item, place)
    return base, constant(offset)


def _check_global(item: ast.Instruction, kind: str) -> None:
    _check_space(item)
    if ast.TYPE_BITS.get(kind) != 32:
        raise refuse(item, f"accesses {kind} data", "use 32-bit elements (int, unsigned)")


def _check_space(item: ast.Instruction) -> None:
    if "global" not in item.modifiers:
        space = next((word for word in item.modifiers if word in ("shared", "local", "const")), "generic")
        raise refuse(item, f"accesses {space} memory", "only global memory is in the machine yet")


def _load_parameter(lowering: Lowering, item: ast.Instruction, kind: str) -> None:
    place = item.operands[1]
    base = place.base if isinstance(place, ast.Address) else place
    offset = place.offset if isinstance(place, ast.Address) else 0
    if not isinstance(base, ast.Symbol):
        raise refuse(
            item, "reads a parameter through a register", "index structure parameters with constants"
        )
    offset += base.offset
    bits = ast.TYPE_BITS[kind]
    parameter = next((p for p in lowering.parameters if p.name == base.name), None)
    if parameter is None:
        raise refuse(item, f"reads '{base.name}', which is not a parameter of the kernel")
    for element in _elements(item.operands[0]):
        word, low = divmod(offset, 4)
        value: Value = symbol(f"param.{parameter.word + word}")
        if bits < 32:
            value = lowering.field(value, 8 * low, bits, is_signed=kind.startswith("s"))
        elif low:
            raise refuse(item, "reads a parameter that is not on a word")
        lowering.define(item, value, element)
        offset += bits // 8


def _store(lowering: Lowering, item: ast.Instruction) -> None:
    kind = _access_type(item)
    place, data = item.operands
    _check_global(item, kind)
    base, offset = address(lowering, item, place)
    guard = lowering.predicate(item.guard.register) if item.guard else None
    negated = item.guard is not None and item.guard.negated
    for index, element in enumerate(_elements(data)):
        lowering.append(
            Instruction(
                MirOp.STORE,
                None,
                (base, lowering.value(element)),
                guard,
                negated,
                offset=constant(offset + index),
                source=item.where,
            )
        )


def address(lowering: Lowering, item: ast.Instruction, place: ast.Operand) -> tuple[Operand, int]:
    """A memory operand as a word: (register or zero, offset in words)."""
    if isinstance(place, ast.Register):
        place = ast.Address(place)
    if not isinstance(place, ast.Address) or isinstance(place.base, ast.Symbol):
        raise refuse(item, "accesses a global variable", "pass an array as a kernel parameter")
    if place.base is None:
        return ZERO, (place.offset & 0xFFFFFFFF) >> 2
    byte = lowering.value(place.base)
    if place.offset:
        byte = lowering.compute(Op.ADD, byte, constant(place.offset))
    if isinstance(byte, LinkValue):
        byte = lowering.compute(MirOp.MOV, byte)
    return lowering.compute(Op.SHR_U, byte, constant(2)), 0
