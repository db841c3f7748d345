"""`build_machine`: the whole machine as one logical circuit."""

from collections.abc import Sequence
from functools import cache

from toolchain.circuit_ir.builder import CircuitBuilder, Form, LogicBuilder
from toolchain.circuit_ir.ir import Circuit, Wire, affine
from toolchain.circuit_ir.machine.back import BackBuilder
from toolchain.circuit_ir.machine.context import Context, build_context
from toolchain.circuit_ir.machine.front import (
    ProgramSource,
    Returns,
    RomRow,
    Special,
    StateProgram,
    build_returns,
    build_specials,
)
from toolchain.circuit_ir.machine.multiplier import Multiplier
from toolchain.circuit_ir.machine.registers import NIBBLES, predicate_file, register_port
from toolchain.circuit_ir.machine.stage import (
    Results,
    StageBuilder,
    StageInputs,
    forwarded,
    select_operand,
    stage_ports,
)
from toolchain.machine_spec import MUL_STAGES, STAGES, MachineSpec
from toolchain.mir.isa import NOTHING, Source, SourceKind, multiply_sources


class MultiplierPort:
    """The multiply of one stage: operands selected a layer before the stage, six layers, a result in every lane."""

    def __init__(
        self, builder: CircuitBuilder, context: Context, returns: Returns, row: RomRow, special: Special,
        results: Results, stage: int,
    ) -> None:  # fmt: skip
        self.builder, self.context, self.row, self.special = builder, context, row, special
        self.results, self.stage, self.name = results, stage, f"m{stage}"
        self.ports = {
            operand: register_port(
                builder, context, returns, f"{self.name}.{operand}", row.bits[f"m.port{operand}"]
            )
            for operand in "ab"
        }

    def run(self) -> list[list[Wire]]:
        """The product's chosen half: [lane][digit]."""
        lanes = range(self.context.spec.lanes)
        logic = LogicBuilder(f"{self.name}.select")
        operands = [[self._operand(logic, operand, lane) for operand in "ab"] for lane in lanes]
        self.builder.add(logic)
        units = [Multiplier(self.builder, f"{self.name}.l{lane}") for lane in lanes]
        signed, active, high = (self.row.line(f"m.{line}") for line in ("signed", "mul", "high"))
        logic = LogicBuilder(f"{self.name}.products")
        for unit, (a, b) in zip(units, operands, strict=True):
            unit.products(logic, a, b, signed)
        self.builder.add(logic)
        for layer in (
            Multiplier.split_by_64,
            Multiplier.split_by_32,
            Multiplier.split_by_16,
            Multiplier.carries,
        ):
            logic = LogicBuilder(f"{self.name}.{layer.__name__}")
            for unit in units:
                layer(unit, logic)
            self.builder.add(logic)
        logic = LogicBuilder(f"{self.name}.resolve")
        results = [self.builder.wires(f"{self.name}.l{lane}.n", NIBBLES, high=15) for lane in lanes]
        for unit, result in zip(units, results, strict=True):
            unit.resolve(logic, affine(active), high, result)
        self.builder.add(logic)
        return results

    def _operand(self, logic: LogicBuilder, operand: str, lane: int) -> list[Wire]:
        sources = [
            (code, self._source(source, operand, lane))
            for code, source in enumerate(multiply_sources(self.stage))
            if source != NOTHING
        ]
        return select_operand(
            self.builder, logic, f"{self.name}.l{lane}.{operand}.", self.row.bits[f"m.{operand}"], sources
        )

    def _source(self, source: Source, operand: str, lane: int) -> Sequence[Form]:
        match source.kind:
            case SourceKind.PORT:
                return self.ports[operand][lane]
            case SourceKind.IMMEDIATE:
                return self.row.words[f"imm{source.index}"]
            case SourceKind.SPECIAL:
                return self.special(source.name, lane)
        return forwarded(self.results, source, lane)


def token_inputs(context: Context) -> list[Wire]:
    """Wires that a token's embedding sets: its 16 raw bits and its kind."""
    return [*context.raw, *context.kind.values()]


@cache
def build_machine(spec: MachineSpec) -> Circuit:
    """The machine over `spec`. Inputs: the token's bits and kind. Outputs: its 16 bits, header, short."""
    return assemble(spec, StateProgram())


def assemble(spec: MachineSpec, program: ProgramSource) -> Circuit:
    """The machine over `spec` with its program from `program`, whose inputs follow the token's own."""
    builder = CircuitBuilder(spec.name)
    context = build_context(builder, spec)
    returns = build_returns(builder, context, program.return_bits(builder, context))
    special = build_specials(builder, context)
    results = Results(file=predicate_file(builder, context, returns))
    rows = [program.row(builder, context, row) for row in range(STAGES + 1)]
    for stage in range(STAGES):
        row = rows[stage]
        if stage < MUL_STAGES:
            multiply = MultiplierPort(builder, context, returns, row, special, results, stage)
            results.products[stage] = multiply.run()
        ports = stage_ports(builder, context, returns, row, stage)
        StageBuilder(builder, context, StageInputs(stage, row, ports, special, results)).run()
    outputs = BackBuilder(builder, context, returns, rows[STAGES], results).run()
    return builder.circuit([*token_inputs(context), *program.inputs], outputs)
