"""One wrong bit in one form of a program or of the machine. Which one follows from a random generator.

A mutant need not be wrong: most bits of a large circuit do not count for one small launch. The caller draws
again where it is not.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from random import Random
from typing import Any, TypeVar

from runtime.levels import CircuitRunner
from runtime.vocabulary import Token
from toolchain.circuit_ir.evaluator import CheckedEvaluator, RangeError
from toolchain.circuit_ir.ir import Affine, Circuit, Gate, Logic, Unit, Wire
from toolchain.circuit_ir.placed import PlacedCircuit
from toolchain.errors import SourceLocation
from toolchain.mir.ir import Function as MirFunction
from toolchain.mir.rom import RomImage
from toolchain.ptx_frontend.ast import Address, Immediate, Instruction, Module, Operand, Register

LOW_BITS = 5
"""A flipped bit of a number is one of so many."""

T = TypeVar("T")
Path = tuple[str | int, ...]


def numbers(value: object, path: Path = ()) -> Iterator[tuple[Path, int]]:
    """Every integer and truth value inside a tree of dataclasses and tuples, with the way to it."""
    if isinstance(value, int):
        yield path, value
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from numbers(item, (*path, index))
    elif is_dataclass(value) and not isinstance(value, SourceLocation):
        for item in fields(value):
            yield from numbers(getattr(value, item.name), (*path, item.name))


def with_value(tree: Any, path: Path, value: object) -> Any:
    """The tree with another value at the end of a path."""
    if not path:
        return value
    step, *rest = path
    if isinstance(step, int):
        changed = with_value(tree[step], tuple(rest), value)
        return (*tree[:step], changed, *tree[step + 1 :])
    return replace(tree, **{step: with_value(getattr(tree, step), tuple(rest), value)})


def flipped(value: int, random: Random) -> int:
    """The number with one bit changed; a truth value is negated."""
    return (not value) if isinstance(value, bool) else value ^ 1 << random.randrange(LOW_BITS)


def flip_one_bit(tree: T, random: Random) -> T:
    """The tree with one bit of one number changed."""
    path, value = random.choice(list(numbers(tree)))
    return with_value(tree, path, flipped(value, random))


# Programs.


def wrong_ptx(module: Module, random: Random) -> Module:
    """One operand of one instruction: another register of its type, or one bit of an immediate or offset."""
    function = module.entries[0]
    types = function.register_types()

    def other(register: Register) -> Register:
        return Register(random.choice([name for name, kind in types.items() if kind == types[register.name]]))

    def wrong(operand: Operand) -> Operand:
        match operand:
            case Register(name) if name in types:
                return other(operand)
            case Immediate(value):
                return Immediate(flipped(value, random))
            case Address(base, offset):
                return Address(base, offset ^ 4 << random.randrange(3))
        return operand

    places = [
        (index, position)
        for index, item in enumerate(function.body)
        if isinstance(item, Instruction)
        for position in range(len(item.operands))
    ]
    index, position = random.choice(places)
    item = function.body[index]
    assert isinstance(item, Instruction)
    operands = list(item.operands)
    operands[position] = wrong(operands[position])
    body = list(function.body)
    body[index] = replace(item, operands=tuple(operands))
    return replace(module, functions=(replace(function, body=tuple(body)),))


def wrong_mir(function: MirFunction, random: Random) -> MirFunction:
    """One operand of one instruction is another one of the function's, or one bit of its numbers."""
    places = [
        (b, i, position)
        for b, block in enumerate(function.blocks)
        for i, item in enumerate(block.instructions)
        for position in range(len(item.operands) + 1)
    ]
    b, i, position = random.choice(places)
    item = function.blocks[b].instructions[i]
    if position == len(item.operands):
        changed = flip_one_bit(item, random)
    else:
        kind = type(item.operands[position])
        others = [o for block in function.blocks for x in block.instructions for o in x.operands]
        operand = random.choice([o for o in others if type(o) is kind])
        changed = with_value(item, ("operands", position), operand)
    return with_value(function, ("blocks", b, "instructions", i), changed)


def wrong_rom(rom: RomImage, random: Random) -> RomImage:
    """One bit of one field of one block."""
    return replace(rom, blocks=flip_one_bit(rom.blocks, random))


# The machine.


@dataclass(frozen=True)
class Link:
    """An output of a gated sum's unit: operation, unit, output."""

    operation: str
    unit: int
    output: int


def live_links(
    circuit: Circuit, evaluator: CheckedEvaluator, runner: CircuitRunner, load: Sequence[Token],
    launch: Sequence[Token], names: frozenset[str],
) -> list[Link]:  # fmt: skip
    """The links of the named operations that carry a value other than zero while the launch is written."""
    operations = [op for op in circuit.operations if isinstance(op, Logic) and op.name in names]
    wires = {wire for op in operations for unit in op.units for wire in unit.reads()}
    found: dict[Link, None] = {}
    for token in load[:-1]:
        runner.run(token)
    for token in (load[-1], *launch[:-1]):
        runner.run(token)
        values = {wire: evaluator.value(wire) for wire in wires}
        for op in operations:
            for index, unit in enumerate(op.units):
                if _carries(unit, values):
                    found |= dict.fromkeys(Link(op.name, index, o) for o in range(len(unit.outputs)))
    return list(found)


def _carries(unit: Unit, values: Mapping[Wire, float]) -> bool:
    gate = _value(unit.gate, values)
    open_gate = gate >= 0 if unit.kind is Gate.STEP else gate > 0
    return open_gate and (unit.up is None or _value(unit.up, values) != 0)


def _value(form: Affine, values: Mapping[Wire, float]) -> float:
    return form.constant + sum(factor * values[wire] for wire, factor in form.terms)


def _with_wrong_link(op: Logic, link: Link) -> Logic:
    """The sign of the link's weight is the other one."""
    wire, weight = op.units[link.unit].outputs[link.output]
    return with_value(op, ("units", link.unit, "outputs", link.output), (wire, -weight))


def wrong_circuit(circuit: Circuit, link: Link) -> Circuit:
    """One weight of one unit has the wrong sign."""
    operations = (
        _with_wrong_link(op, link) if isinstance(op, Logic) and op.name == link.operation else op
        for op in circuit.operations
    )
    return replace(circuit, operations=tuple(operations))


def wrong_placed(placed: PlacedCircuit, link: Link) -> PlacedCircuit:
    """The same in a placed circuit's layer; its circuit stays as it is."""
    layers = []
    for layer in placed.layers:
        logic = tuple(_with_wrong_link(op, link) if op.name == link.operation else op for op in layer.logic)
        layers.append(replace(layer, logic=logic))
    return replace(placed, layers=tuple(layers))


def wrong_slot(placed: PlacedCircuit, link: Link, random: Random) -> PlacedCircuit:
    """The wire that a link adds to is in a slot whose number has one wrong bit."""
    op = next(op for op in placed.circuit.operations if op.name == link.operation)
    assert isinstance(op, Logic)
    wire, _ = op.units[link.unit].outputs[link.output]
    slot = placed.slots[wire] ^ 1 << random.randrange(LOW_BITS)
    return replace(placed, slots=placed.slots | {wire: slot % placed.hidden})


def codes(runner: CircuitRunner, load: Sequence[Token], launch: Sequence[Token]) -> list[int]:
    """What a circuit says at each token of a launch, as codes; it ends where a wire leaves its range."""
    said: list[int] = []
    try:
        for token in load[:-1]:
            runner.run(token)
        for token in (load[-1], *launch[:-1]):
            said.append(runner.run(token))
    except RangeError:
        pass
    return said
