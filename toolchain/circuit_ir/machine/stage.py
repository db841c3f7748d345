"""A pipeline stage: operand selection, the ALU slots, loads, predicate logic; three layers each."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from toolchain.circuit_ir.builder import (
    CircuitBuilder,
    Form,
    LogicBuilder,
    match,
    select,
    staircase_bits,
    staircase_step,
)
from toolchain.circuit_ir.ir import Affine, Wire, affine
from toolchain.circuit_ir.machine import alu
from toolchain.circuit_ir.machine.context import Context
from toolchain.circuit_ir.machine.front import NIBBLE, Returns, RomRow, Special
from toolchain.circuit_ir.machine.registers import NIBBLES, load_port, register_port
from toolchain.mir.isa import (
    ALU_SLOTS,
    EXTREME_SLOTS,
    LOAD_SLOTS,
    NOTHING,
    PORTS,
    PredicateSource,
    Source,
    SourceKind,
    operand_sources,
    predicate_sources,
)


@dataclass
class Results:
    """What the stages so far can forward: values as digits, predicates as bits, keyed (stage, slot) and lane."""

    values: dict[tuple[int, str], list[list[Wire]]] = field(default_factory=dict)
    loaded: dict[tuple[int, str], list[list[Wire]]] = field(default_factory=dict)
    products: dict[int, list[list[Wire]]] = field(default_factory=dict)
    predicates: dict[tuple[int, str], list[Wire]] = field(default_factory=dict)
    file: list[list[Wire]] = field(default_factory=list)


def forwarded(results: Results, source: Source, lane: int) -> Sequence[Form]:
    """Digits of a result source in one lane."""
    match source.kind:
        case SourceKind.RESULT:
            return results.values[source.stage, source.name][lane]
        case SourceKind.LOADED:
            return results.loaded[source.stage, source.name][lane]
        case SourceKind.PRODUCT:
            return results.products[source.stage][lane]
    raise ValueError(f"{source} is not a result")


def predicate_value(results: Results, source: PredicateSource, lane: int) -> Affine:
    """A predicate source as a 0/1 form."""
    if source.register >= 0:
        return affine(results.file[lane][source.register])
    if source.slot:
        return affine(results.predicates[source.stage, source.slot][lane])
    return Affine(constant=1)


@dataclass(frozen=True)
class StageInputs:
    """A stage's own ports and immediates (digits), its ROM row, and the special registers (stage 0)."""

    index: int
    row: RomRow
    ports: list[list[list[Wire]]]
    special: Special
    results: Results

    def source(self, source: Source, lane: int) -> Sequence[Form]:
        match source.kind:
            case SourceKind.NONE:
                return []
            case SourceKind.PORT:
                return self.ports[source.index][lane]
            case SourceKind.IMMEDIATE:
                return self.row.words[f"imm{source.index}"]
            case SourceKind.SPECIAL:
                return self.special(source.name, lane)
        return forwarded(self.results, source, lane)


def select_operand(
    builder: CircuitBuilder,
    logic: LogicBuilder,
    name: str,
    code: Sequence[Wire],
    sources: Sequence[tuple[int, Sequence[Form]]],
) -> list[Wire]:
    """Eight digits of the source whose code is in the ROM; zero for code 0. One unit a digit and source."""
    digits = builder.wires(name, NIBBLES, high=15)
    for value, source in sources:
        select(logic, code, value, source, digits[: len(source)])
    return digits


def select_address(
    builder: CircuitBuilder,
    logic: LogicBuilder,
    name: str,
    code: Sequence[Wire],
    sources: Sequence[tuple[int, Sequence[Form]]],
    bits: int,
) -> tuple[Wire, Wire]:
    """A word address as (low digit, value mod 2**bits): low + 16 * (high mod 2**(bits - 4))."""
    low = builder.wire(f"{name}.low", high=15)
    word = builder.wire(f"{name}.word", high=(1 << bits) - 1)
    wrap = 1 << (bits - NIBBLE)
    for value, source in sources:
        if not source:
            continue
        first = affine(source[0])
        select(logic, code, value, [first], [low])
        second = affine(source[1]) if len(source) > 1 else Affine()
        select(logic, code, value, [first + second * 16], [word])
        for threshold in range(wrap, 16, wrap):
            if second.range()[1] >= threshold:
                logic.step(second - threshold + 16 * match(code, value), {word: -16 * wrap})
    return low, word


def select_predicate(
    logic: LogicBuilder, results: Results, code: Sequence[Wire], stage: int, lane: int, output: Wire
) -> None:
    """output += the predicate whose code is in the ROM; code 0 is true. The value is a literal of the gate."""
    for value, source in enumerate(predicate_sources(stage)):
        logic.relu(match(code, value) + predicate_value(results, source, lane), {output: 1})


def add_address(
    logic: LogicBuilder, address: tuple[Wire, Wire], offset: tuple[Wire, Wire], wires: Sequence[Wire]
) -> None:
    """wires += low bits of the sum: the low digit's from its own sum, the others at multiples of 16."""
    bits = len(wires)
    low, word = (affine(part) + shift for part, shift in zip(address, offset, strict=True))
    staircase_bits(logic, low, dict(enumerate(wires[:NIBBLE])), 30)
    for step in range(1, (2 * ((1 << bits) - 1)) // 16 + 1):
        logic.step(word - 16 * step, staircase_step(step, dict(enumerate(wires[NIBBLE:]))))


Operands = dict[tuple[str, int], tuple[list[Wire], list[Wire]]]
"""By slot and lane: digits of a and b."""


@dataclass(frozen=True)
class SecondLayer:
    """By slot and lane: carries and signs; bits of slot y's operands, by lane; word addresses of loads.

    `ballot` has bit l where lane l is active and slot y's predicate holds there.
    """

    compared: dict[tuple[str, int], alu.Compared]
    bits: dict[int, tuple[list[Wire], list[Wire]]]
    addresses: dict[tuple[str, int], list[Wire]]
    ballot: Wire


class StageBuilder:
    """Builds stage `index`; `run` appends its circuits and results."""

    def __init__(self, builder: CircuitBuilder, context: Context, inputs: StageInputs) -> None:
        self.builder = builder
        self.context = context
        self.inputs = inputs
        self.name = f"s{inputs.index}"
        self.addresses: dict[tuple[str, int], tuple[Wire, Wire]] = {}

    def run(self) -> None:
        """Layer 1 selects, layer 2 prepares, loads read, layer 3 resolves."""
        operands = self._operands()
        predicates = self._slot_predicates()
        logic_operands = self._logic_operands()
        second = self._second_layer(operands, predicates)
        loaded = self._loads(second.addresses)
        self._third_layer(operands, predicates, second, loaded)
        self._predicate_logic(logic_operands)

    def _lanes(self) -> range:
        return range(self.context.spec.lanes)

    def _sources(self, lane: int) -> list[tuple[int, Sequence[Form]]]:
        sources = operand_sources(self.inputs.index)
        return [(code, self.inputs.source(s, lane)) for code, s in enumerate(sources) if s != NOTHING]

    def _operands(self) -> Operands:
        row, bits = self.inputs.row, self.context.spec.address_bits
        operands: Operands = {}
        for slot in ALU_SLOTS:
            logic = LogicBuilder(f"{self.name}.{slot}.select")
            for lane in self._lanes():
                sources = self._sources(lane)
                label = f"{self.name}.{slot}.l{lane}"
                code = row.bits[f"{slot}.a"], row.bits[f"{slot}.b"]
                operands[slot, lane] = (
                    select_operand(self.builder, logic, f"{label}.a", code[0], sources),
                    select_operand(self.builder, logic, f"{label}.b", code[1], sources),
                )
                if slot in LOAD_SLOTS:
                    name = f"{label}.address"
                    address = select_address(self.builder, logic, name, code[0], sources, bits)
                    self.addresses[slot, lane] = address
            self.builder.add(logic)
        return operands

    def _slot_predicates(self) -> dict[tuple[str, int], Wire]:
        logic = LogicBuilder(f"{self.name}.predicates")
        wires = {}
        for slot in ALU_SLOTS:
            for lane in self._lanes():
                wires[slot, lane] = self.builder.wire(f"{self.name}.{slot}.l{lane}.q")
                code = self.inputs.row.bits[f"{slot}.q"]
                select_predicate(logic, self.inputs.results, code, self.inputs.index, lane, wires[slot, lane])
        self.builder.add(logic)
        return wires

    def _logic_operands(self) -> list[tuple[Wire, Wire]]:
        logic = LogicBuilder(f"{self.name}.p.select")
        pairs = []
        for lane in self._lanes():
            pair = [self.builder.wire(f"{self.name}.p.l{lane}.{operand}") for operand in "ab"]
            for operand, wire in zip("ab", pair, strict=True):
                code = self.inputs.row.bits[f"p.{operand}"]
                select_predicate(logic, self.inputs.results, code, self.inputs.index, lane, wire)
            pairs.append((pair[0], pair[1]))
        self.builder.add(logic)
        return pairs

    def _second_layer(self, operands: Operands, predicates: dict[tuple[str, int], Wire]) -> SecondLayer:
        row, spec = self.inputs.row, self.context.spec
        compared: dict[tuple[str, int], alu.Compared] = {}
        unpacked: dict[int, tuple[list[Wire], list[Wire]]] = {}
        addresses: dict[tuple[str, int], list[Wire]] = {}
        for slot in ALU_SLOTS:
            logic = LogicBuilder(f"{self.name}.{slot}.prepare")
            for lane in self._lanes():
                a, b = operands[slot, lane]
                label = f"{self.name}.{slot}.l{lane}"
                compared[slot, lane] = alu.compare_layer(
                    self.builder, logic, label, a, b, row.line(f"{slot}.sub")
                )
                if slot == "y":
                    a_bits = alu.unpack_layer(self.builder, logic, f"{label}.abit", a)
                    unpacked[lane] = a_bits, alu.unpack_layer(self.builder, logic, f"{label}.bbit", b)
                if slot in LOAD_SLOTS:
                    addresses[slot, lane] = self.builder.wires(f"{label}.row", spec.address_bits)
                    offset = row.offsets[f"{slot}.offset"]
                    add_address(logic, self.addresses[slot, lane], offset, addresses[slot, lane])
            self.builder.add(logic)
        logic = LogicBuilder(f"{self.name}.y.ballot")
        ballot = self.builder.wire(f"{self.name}.y.votes", high=(1 << spec.lanes) - 1)
        for lane in self._lanes():
            votes = affine(predicates["y", lane]) + self.context.mask[lane] - 1
            logic.relu(votes, {ballot: 2.0**lane})
        self.builder.add(logic)
        return SecondLayer(compared, unpacked, addresses, ballot)

    def _loads(self, addresses: dict[tuple[str, int], list[Wire]]) -> dict[tuple[str, int], list[Wire]]:
        """A head a lane and memory; the ROM enables one memory at most, and both bring their word to the same wires."""
        loaded, row = {}, self.inputs.row
        for (slot, lane), address in addresses.items():
            name = f"{self.name}.{slot}.l{lane}"
            wires = loaded[slot, lane] = self.builder.wires(f"{name}.load.n", NIBBLES, high=15)
            enable, shared = affine(row.line(f"{slot}.ld")), affine(row.line(f"{slot}.lds"))
            load_port(self.builder, self.context, f"{name}.load", address, enable, wires)
            load_port(self.builder, self.context, f"{name}.shared", address, shared, wires, shared=True)
        for slot in LOAD_SLOTS:
            lanes = [loaded[slot, lane] for lane in self._lanes()]
            self.inputs.results.loaded[self.inputs.index, slot] = lanes
        return loaded

    def _third_layer(
        self,
        operands: Operands,
        predicates: dict[tuple[str, int], Wire],
        second: SecondLayer,
        loaded: dict[tuple[str, int], list[Wire]],
    ) -> None:
        index, results, row = self.inputs.index, self.inputs.results, self.inputs.row
        for slot in ALU_SLOTS:
            logic = LogicBuilder(f"{self.name}.{slot}.result")
            values, flags = [], []
            for lane in self._lanes():
                label = f"t{index}.{slot}.l{lane}"
                result = self.builder.wires(f"{label}.n", NIBBLES, high=15)
                flag = self.builder.wire(f"q{index}.{slot}.l{lane}")
                (a, b), compared = operands[slot, lane], second.compared[slot, lane]
                lines = alu.SlotLines(self._lines(slot), predicates[slot, lane])
                alu.sum_layer(logic, compared, a, b, lines, result)
                alu.compare_results(logic, compared, lines, flag)
                if slot in EXTREME_SLOTS:
                    alu.extreme_layer(logic, compared, a, b, lines, result)
                alu.select_layer(logic, a, b, lines, result)
                if slot == "y":
                    a_bits, b_bits = second.bits[lane]
                    alu.bit_layer(logic, a_bits, b_bits, lines, row.bits["y.table"], result)
                    everyone = [operands["y", other][0] for other in self._lanes()]
                    alu.warp_layer(logic, everyone, b_bits, second.ballot, lines, result)
                for wire, word in zip(result, loaded.get((slot, lane), []), strict=False):
                    logic.relu(word, {wire: 1})
                values.append(result)
                flags.append(flag)
            self.builder.add(logic)
            results.values[index, slot], results.predicates[index, slot] = values, flags

    def _lines(self, slot: str) -> dict[str, Wire]:
        bits = self.inputs.row.bits
        own = {name.removeprefix(f"{slot}."): w for name, w in bits.items() if name.startswith(f"{slot}.")}
        return {name: wires[0] for name, wires in own.items() if len(wires) == 1}

    def _predicate_logic(self, operands: list[tuple[Wire, Wire]]) -> None:
        logic = LogicBuilder(f"{self.name}.p.result")
        table, flags = self.inputs.row.bits["p.table"], []
        for lane, (a, b) in enumerate(operands):
            flag = self.builder.wire(f"q{self.inputs.index}.p.l{lane}")
            for minterm in range(4):
                logic.relu(match([b, a], minterm) + table[minterm], {flag: 1})
            flags.append(flag)
        self.builder.add(logic)
        self.inputs.results.predicates[self.inputs.index, "p"] = flags


def stage_ports(
    builder: CircuitBuilder, context: Context, returns: Returns, row: RomRow, index: int
) -> list[list[list[Wire]]]:
    """The stage's register ports: [port][lane][digit]."""
    return [
        register_port(builder, context, returns, f"s{index}.port{i}", row.bits[f"port{i}"])
        for i in range(PORTS)
    ]
