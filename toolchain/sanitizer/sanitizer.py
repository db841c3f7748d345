"""Runs a launch on the PTX interpreter and reports what is undefined in it, with the source lines.

memcheck    out-of-bounds and misaligned accesses; every array and variable stands alone
initcheck   reads of shared and local memory that nobody wrote
racecheck   unordered accesses of two threads, one of them a write
synccheck   barriers that some threads miss, lanes that are not there

The names are those of the tools of NVIDIA's compute-sanitizer that find the same on hardware. An access that
is not allowed is left out (a load gives zero), and the launch goes on.
"""

from collections.abc import Sequence
from enum import Enum

from toolchain.launch import Launch
from toolchain.machine_spec import MachineSpec
from toolchain.ptx_frontend.ast import Instruction, Module
from toolchain.ptx_frontend.interpreter import STEP_LIMIT, Machine, Thread, prepare
from toolchain.ptx_frontend.memory import LaunchFault
from toolchain.ptx_frontend.observer import Access, Exchange, Observer
from toolchain.sanitizer.findings import Finding, Findings, Kind, Place, SanitizerReport, TooManyFindings
from toolchain.sanitizer.memory_check import MemoryCheck
from toolchain.sanitizer.race_check import RaceCheck
from toolchain.sanitizer.synchronisation_check import SynchronisationCheck

FINDING_LIMIT = 100
GAP = 1 << 14
"""Free bytes between arrays: many times the memory of any machine, so that no likely index crosses them."""


class Tool(Enum):
    """A family of checks."""

    MEMCHECK = "memcheck"
    INITCHECK = "initcheck"
    RACECHECK = "racecheck"
    SYNCCHECK = "synccheck"


class Sanitizer(Observer):
    """The Observer that hands what it hears to the checks of its tools."""

    def __init__(self, findings: Findings, tools: frozenset[Tool]) -> None:
        self.memory = MemoryCheck(
            findings, bounds=Tool.MEMCHECK in tools, initialised=Tool.INITCHECK in tools
        )
        self.races = RaceCheck(findings) if Tool.RACECHECK in tools else None
        self.synchronisation = SynchronisationCheck(findings) if Tool.SYNCCHECK in tools else None
        self.block_threads = 1

    def begin_block(self, machine: Machine) -> None:
        self.block_threads = machine.launch.threads_per_block
        self.memory.begin_block()
        if self.races is not None:
            self.races.begin_block()

    def access(self, access: Access) -> bool:
        if not self.memory.access(access):
            return False
        if self.races is not None:
            self.races.access(access, self.block_threads)
        return True

    def fence(self, instruction: Instruction, threads: Sequence[Thread]) -> None:
        if self.races is not None:
            self.races.fence(instruction, threads)

    def arrive(self, machine: Machine, instruction: Instruction, threads: Sequence[Thread]) -> None:
        if self.synchronisation is not None:
            self.synchronisation.arrive(machine, instruction, threads)

    def release(self, machine: Machine, threads: Sequence[Thread], *, complete: bool) -> None:
        if self.races is not None:
            self.races.release(threads)
        if self.synchronisation is not None:
            self.synchronisation.release(machine, threads, complete=complete)

    def exchange(self, machine: Machine, exchange: Exchange) -> None:
        if self.synchronisation is not None:
            self.synchronisation.exchange(machine, exchange)


def sanitize(
    module: Module, entry: str, launch: Launch, spec: MachineSpec, *,
    tools: frozenset[Tool] = frozenset(Tool), limit: int = FINDING_LIMIT, step_limit: int = STEP_LIMIT,
) -> SanitizerReport:  # fmt: skip
    """Every finding of a launch, `limit` different ones at most. A launch that faults ends with that finding.

    Raises CompileError for arguments that do not fit.
    """
    findings = Findings(limit)
    machine = prepare(
        module, entry, launch, spec, step_limit=step_limit, observer=Sanitizer(findings, tools), gap=GAP
    )
    complete = False
    try:
        machine.run()
        complete = True
    except TooManyFindings:
        pass
    except LaunchFault as fault:
        assert fault.location is not None, "every fault of the interpreter has its instruction's line"
        findings.limit += 1
        findings.add(Finding(Kind.FAULT, fault.message, (Place("the launch stops", fault.location),)))
    return SanitizerReport(tuple(findings.by_key.values()), machine.memory(), complete)
