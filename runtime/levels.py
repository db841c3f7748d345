"""The same launch on every level, each held against the one before it: which pass or layer miscompiled?

ptx            the PTX interpreter: memory
mir:PASS       the MIR interpreter after each pass: memory
machine        the machine interpreter on the ROM image: memory and tokens
circuit        the logical circuit: tokens
placed         the placed circuit: tokens
transformers   the stock model, the whole trace in one prefill: tokens
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from runtime.launcher import (
    NO_FAULT,
    Checker,
    CheckFailed,
    Difference,
    Program,
    difference_at,
    fault_difference,
    memory_difference,
)
from runtime.loader import link_symbols
from runtime.vocabulary import Token, Vocabulary
from toolchain.circuit_ir.evaluator import Evaluator, RangeError
from toolchain.circuit_ir.ir import Wire
from toolchain.driver import Compilation
from toolchain.errors import CompileError
from toolchain.launch import ELEMENT_BITS, ArrayArgument
from toolchain.mir.interpreter import MachineFault, MachineResult, Provenance
from toolchain.mir.mir_interpreter import run_mir
from toolchain.ptx_frontend.interpreter import interpret, prepare
from toolchain.ptx_frontend.memory import LaunchFault
from toolchain.ptx_frontend.observer import LastStore
from toolchain.ptx_frontend.printer import print_instruction
from toolchain.sanitizer.findings import Finding, Kind
from toolchain.sanitizer.sanitizer import Tool, sanitize

CIRCUIT_LEVELS = ("circuit", "placed")


@dataclass(frozen=True)
class LevelReport:
    """One level's outcome. `difference` is None where it agrees with the level before."""

    level: str
    difference: Difference | None
    detail: str = ""


def check_program(
    compilation: Compilation, program: Program, expected: Mapping[str, Sequence[int]] | None = None
) -> Iterator[LevelReport]:
    """The levels of the program: PTX, MIR after every pass, ROM image. Stops after the first that differs.

    The PTX is held against the `expected` arrays, by name, where they are given. A launch that faults on the
    first level differs from what it must be there: it must not fault. Raises CompileError where that level
    refuses the launch. A difference in a launch that CUDA leaves undefined says so.
    """
    for report in _program_levels(compilation, program, expected or {}):
        stopped = (
            report.level == "ptx" and report.difference is not None and report.difference.expected == NO_FAULT
        )
        if report.difference is not None and not stopped:
            cause = _undefined(compilation, program)
            report = replace(report, difference=replace(report.difference, undefined=cause))
        yield report


def _program_levels(
    compilation: Compilation, program: Program, expected: Mapping[str, Sequence[int]]
) -> Iterator[LevelReport]:
    """What check_program yields; the differences alone."""
    link_symbols(
        program.rom, program.spec, program.launch
    )  # a launch that does not fit is refused, not wrong
    reference: tuple[int, ...] | None = None
    for level, run in _memory_levels(compilation, program):
        try:
            memory = run()
        except CompileError as fault:
            if reference is None and not isinstance(fault, LaunchFault | MachineFault):
                raise
            yield LevelReport(level, fault_difference(level, fault))
            return
        if reference is None:
            difference = array_difference(compilation, program, level, memory, expected)
        else:
            difference = _memory_difference(program, memory, reference, level)
        yield LevelReport(level, difference, "memory")
        if difference is not None:
            return
        reference = memory
    try:
        result = program.interpret()
    except CompileError as fault:
        if reference is None and not isinstance(fault, MachineFault):
            raise
        yield LevelReport("machine", fault_difference("machine", fault))
        return
    difference = None if reference is None else memory_difference(result.memory, reference, "machine", result)
    yield LevelReport(
        "machine", difference, f"memory and {len(result.tokens)} tokens in {result.steps} blocks"
    )


def _memory_difference(
    program: Program, memory: tuple[int, ...], reference: tuple[int, ...], level: str
) -> Difference | None:
    """The first wrong word, with the token that stores it where the machine interpreter gets that far."""
    if memory_difference(memory, reference, level) is None:
        return None
    try:
        return memory_difference(memory, reference, level, program.interpret())
    except CompileError:
        return memory_difference(memory, reference, level)


def array_difference(
    compilation: Compilation, program: Program, level: str, memory: tuple[int, ...],
    expected: Mapping[str, Sequence[int]],
) -> Difference | None:  # fmt: skip
    """The first element that is not the expected one, with the PTX instruction that stored it last."""
    launch = program.launch
    found = launch.read_back(memory)
    for argument, address in zip(launch.arguments, launch.array_addresses(), strict=True):
        if not isinstance(argument, ArrayArgument) or argument.name not in expected:
            continue
        bits = ELEMENT_BITS[argument.element]
        pairs = zip(found[argument.name], expected[argument.name], strict=True)
        for index, (got, want) in enumerate(pairs):
            if (got - want) % (1 << bits):
                place = _last_ptx_store(compilation, program, address + index * bits // 8)
                name = f"{argument.name}[{index}]"
                return Difference(level, f"{name} = {want}", f"{name} = {got}", place=place)
    return None


def _last_ptx_store(compilation: Compilation, program: Program, address: int) -> Provenance | None:
    """The PTX instruction and the thread that wrote a byte of global memory last, None if nobody did."""
    module = compilation.last("ast")
    if module is None:
        return None
    stores = LastStore("global", address)
    prepare(module, module.entries[0].name, program.launch, program.spec, observer=stores).run()
    if stores.last is None:
        return None
    thread, instruction = stores.last.thread, stores.last.instruction
    lanes, threads = program.spec.lanes, program.launch.threads_per_block
    return Provenance(
        print_instruction(instruction), thread.number // threads, warp=thread.number % threads // lanes,
        lane=thread.lane, source=instruction.where,
    )  # fmt: skip


def check_accesses(compilation: Compilation, program: Program) -> LevelReport | None:
    """The first access outside the array it is meant for, on the PTX; None if there is none or no PTX.

    On the machine such an access would reach another array (loads wrap) or stop the launch.
    """
    errors = _findings(compilation, program, frozenset({Tool.MEMCHECK}))
    if not errors:
        return None
    where = errors[0].places[0]
    block, (width, height, _) = where.block or (0, 0, 0), program.launch.grid
    place = Provenance(where.by, block[0] + width * (block[1] + height * block[2]), source=where.source)
    found = f"{errors[0].kind.value}: {errors[0].message}"
    return LevelReport("ptx", Difference("ptx", NO_FAULT, found, place=place))


def _undefined(compilation: Compilation, program: Program) -> str:
    """The first thing the launch does that CUDA leaves undefined, with its place; empty if there is none."""
    found = _findings(compilation, program, frozenset(Tool))
    errors = [finding for finding in found if finding.kind is not Kind.FAULT]
    if not errors:
        return ""
    return f"{errors[0].kind.value}: {errors[0].message} ({errors[0].places[0]})"


def _findings(compilation: Compilation, program: Program, tools: frozenset[Tool]) -> list[Finding]:
    """The sanitizer's errors in the launch of the PTX; none where there is no PTX."""
    module = compilation.last("ast")
    if module is None:
        return []
    report = sanitize(module, module.entries[0].name, program.launch, program.spec, tools=tools)
    return [finding for finding in report.findings if not finding.note]


def _memory_levels(
    compilation: Compilation, program: Program
) -> Iterator[tuple[str, Callable[[], tuple[int, ...]]]]:
    """Each level that ends in memory, by name. The PTX counts once, as the whole pipeline reads it.

    Of the PTX's memory, the launch's arrays: it has constants elsewhere, and the variables that nobody names.
    """
    spec, launch = program.spec, program.launch
    module = compilation.last("ast")
    if module is not None:
        arrays = len(launch.initial_words())
        yield "ptx", lambda: interpret(module, module.entries[0].name, launch, spec)[:arrays]
    for step in compilation.steps:
        if step.form.name == "mir":
            function = step.value
            yield f"mir:{step.name}", lambda function=function: run_mir(function, spec, launch).memory


def check_circuit(
    level: str, program: Program, result: MachineResult, circuit: "CircuitRunner | None" = None
) -> LevelReport:
    """The machine's circuit, fed with what it has to write: the first token it would not have written.

    `circuit` is another one than the machine's own.
    """
    runner = circuit or open_circuit(level, program)
    checker = Checker(result, program.spec, level)
    load = program.load()
    try:
        for token in load[:-1]:
            runner.run(token)
        for token in (load[-1], *result.tokens[:-1]):
            checker(runner.feed(token))
    except CheckFailed as failed:
        return LevelReport(level, failed.difference)
    except RangeError as error:
        place = result.provenance[checker.index]
        difference = Difference(level, "wires inside their ranges", str(error), checker.index, place)
        return LevelReport(level, difference)
    except ValueError:  # a code that names no token
        return LevelReport(level, difference_at(checker.index, None, result, program.spec, level))
    return LevelReport(level, None, f"{len(result.tokens)} tokens")


class CircuitRunner:
    """A circuit evaluator that takes tokens and says the next one."""

    def __init__(self, evaluator: Evaluator, inputs: Sequence[Wire], program: Program) -> None:
        self.vocabulary = Vocabulary(program.spec)
        self.evaluator = evaluator
        self.inputs = {wire.name: wire for wire in inputs}

    def run(self, token: Token) -> int:
        """The code of what the circuit says after `token`."""
        from toolchain.circuit_ir.tokens import embedding

        values = {self.inputs[name]: value for name, value in embedding(self.vocabulary, token).items()}
        return sum(bit << index for index, bit in enumerate(self.evaluator.run(values)))

    def feed(self, token: Token) -> Token:
        """The token the circuit says after `token`. Raises ValueError if what it says names none."""
        from toolchain.circuit_ir.tokens import token_of_code

        return token_of_code(self.vocabulary, self.run(token))


def open_circuit(level: str, program: Program) -> CircuitRunner:
    """A fresh evaluator of the machine's logical or placed circuit."""
    from toolchain import machine_build

    logical = machine_build.logical_circuit(program.spec)
    if level == "circuit":
        from toolchain.circuit_ir.evaluator import logical_evaluator

        return CircuitRunner(logical_evaluator(logical), logical.inputs, program)
    return CircuitRunner(machine_build.placed_evaluator(program.spec), logical.inputs, program)
