"""What becomes of random kernels: compiled and run on every level, held against the oracle."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime.launcher import Program
from runtime.levels import check_program
from tests.fuzz.kernels import FuzzKernel
from tests.oracle.driver import Arrays, HostKernel, OracleFault, build
from toolchain.driver import Compilation, Options, compile_program
from toolchain.errors import CompileError, VerifyError
from toolchain.launch import Launch
from toolchain.machine_spec import MachineSpec
from toolchain.mir.mir_interpreter import run_mir
from toolchain.ptx_frontend import cuda, interpreter, parser
from toolchain.ptx_frontend.memory import LaunchFault

LIMITS = frozenset({"blocks", "registers", "predicates", "returns", "memory", "shared"})
"""Limits of the machine that a random kernel may be over."""


@dataclass(frozen=True)
class Outcome:
    """What became of one kernel on one machine.

    `kind` is right, refused, wrong (another result than the oracle's) or crash (the compiler's own fault);
    `detail` names the limit or the message, or the first level that differs.
    """

    kernel: str
    kind: str
    detail: str = ""


def write_kernel(kernel: FuzzKernel, folder: Path) -> Path:
    """The kernel's .cu file in `folder`."""
    path = folder / f"{kernel.name}.cu"
    path.write_text(kernel.source)
    return path


def expected_arrays(
    kernels: Sequence[FuzzKernel], lanes: int, folder: Path, *, sanitize: bool = False
) -> dict[str, list[Arrays]]:
    """By kernel, the arrays after each launch: the oracle's. Raises OracleFault where one has no result."""
    hosts = [HostKernel(write_kernel(kernel, folder), kernel.name) for kernel in kernels]
    program = build(hosts, folder, sanitize=sanitize)
    asked = [
        (host, launch) for host, kernel in zip(hosts, kernels, strict=True) for launch in kernel.launches
    ]
    results = iter(program.run(asked, lanes))
    expected: dict[str, list[Arrays]] = {}
    for kernel in kernels:
        arrays = expected[kernel.name] = []
        for _ in kernel.launches:
            result = next(results)
            if isinstance(result, OracleFault):
                raise OracleFault(f"{kernel.name}: {result}\n{kernel.source}")
            arrays.append(result)
    return expected


def check_ptx(kernel: FuzzKernel, spec: MachineSpec, expected: Sequence[Arrays], folder: Path) -> Outcome:
    """The kernel's PTX, interpreted: no later stage takes part."""
    path = write_kernel(kernel, folder)
    try:
        module = parser.parse_ptx(cuda.compile_cuda(path).text, str(path))
        for number, (launch, arrays) in enumerate(zip(kernel.launches, expected, strict=True)):
            memory = interpreter.interpret(module, kernel.name, launch, spec)
            problem = difference(launch, memory, arrays)
            if problem:
                return Outcome(kernel.name, "wrong", f"launch {number}: ptx: {problem}")
    except LaunchFault as fault:
        return Outcome(kernel.name, "wrong", f"ptx: {fault}")
    except CompileError as error:
        return stopped(kernel, error)
    return Outcome(kernel.name, "right")


def stopped(kernel: FuzzKernel, error: CompileError) -> Outcome:
    """A kernel that is not compiled: refused, or at a stage whose output its own verifier rejects, a crash."""
    if isinstance(error, VerifyError):
        return Outcome(kernel.name, "crash", str(error))
    return Outcome(kernel.name, "refused", error.limit or error.message)


def check_kernel(kernel: FuzzKernel, spec: MachineSpec, expected: Sequence[Arrays], folder: Path) -> Outcome:
    """The kernel through the whole compiler: PTX, the first MIR and the ROM image against the oracle.

    Where one is wrong, every level is run to name the first that differs from the one before it.
    """
    path = write_kernel(kernel, folder)
    try:
        compilation = compile_program(path, Options(spec, entry=kernel.name))
    except CompileError as error:
        return stopped(kernel, error)
    except Exception as error:
        return Outcome(kernel.name, "crash", repr(error))
    for number, (launch, arrays) in enumerate(zip(kernel.launches, expected, strict=True)):
        program = Program(compilation.rom, spec, launch)
        try:
            program.load()
        except CompileError as error:
            return stopped(kernel, error)
        problem = launch_problem(compilation, program, arrays)
        if problem:
            return Outcome(kernel.name, "wrong", f"launch {number}: {problem}")
    return Outcome(kernel.name, "right")


def launch_problem(compilation: Compilation, program: Program, expected: Arrays) -> str:
    """Empty if PTX, the first MIR and the ROM image leave the expected arrays; else what differs where."""
    launch, spec = program.launch, program.spec
    module = compilation.last("ast")
    first = next(step for step in compilation.steps if step.form.name == "mir")
    level = "ptx"
    try:
        problem = difference(
            launch, interpreter.interpret(module, module.entries[0].name, launch, spec), expected
        )
        if problem:
            return f"ptx: {problem}"
        level = f"mir:{first.name}"
        problem = difference(launch, run_mir(first.value, spec, launch).memory, expected)
        if problem:
            return f"{level}: {problem}"
        level = "machine"
        problem = difference(launch, program.interpret().memory, expected)
    except CompileError as fault:
        problem = str(fault)
    return f"{first_difference(compilation, program) or level}: {problem}" if problem else ""


def first_difference(compilation: Compilation, program: Program) -> str:
    """The first level that differs from the one before it, as check_program says; empty if it finds none."""
    try:
        reports = (report for report in check_program(compilation, program) if report.difference is not None)
        return next((f"{report.level}: {report.difference}" for report in reports), "")
    except CompileError:
        return ""


def difference(launch: Launch, memory: tuple[int, ...], expected: Arrays) -> str:
    """The first element that is not as expected; empty if all are."""
    for name, values in launch.read_back(memory).items():
        for index, (found, wanted) in enumerate(zip(values, expected[name], strict=True)):
            if found != wanted:
                return f"{name}[{index}] is {found}, not {wanted}"
    return ""
