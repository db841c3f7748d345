"""Every test kernel on every level, each held against numpy.

kernel x input set x machine    PTX interpreter, MIR interpreter after every pass, machine interpreter
kernel x nano                   logical circuit, placed circuit, stock model token by token (one in float32 too)
two kernels x classic           stock model, the trace checked in one prefill (all 16: `make test-slow`)
"""

from collections.abc import Iterator
from typing import Any

import pytest

from runtime.launcher import ModelEngine, Program, open_engine, run_program
from runtime.levels import CIRCUIT_LEVELS, check_circuit
from runtime.vocabulary import Vocabulary
from tests.conftest import compiled
from tests.kernels.cases import CASES, KernelCase, LaunchCase
from toolchain.machine_build import ensure_checkpoint
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec
from toolchain.mir.mir_interpreter import run_mir
from toolchain.ptx_frontend.interpreter import interpret

Words = tuple[int, ...]
MACHINES = (NANO, CLASSIC)
IN_CI_ON_CLASSIC = ("dot", "collatz")

all_kernels = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
all_machines = pytest.mark.parametrize("spec", MACHINES, ids=lambda spec: spec.name)


def program_of(case: KernelCase, spec: MachineSpec, launch: LaunchCase) -> Program:
    return Program(compiled(case.name, spec.name).rom, spec, launch.launch)


def arrays(launch: LaunchCase, memory: tuple[int, ...]) -> dict[str, list[int]]:
    return launch.launch.read_back(memory)


def memories(case: KernelCase, spec: MachineSpec, launch: LaunchCase) -> Iterator[tuple[str, Words]]:
    """Global memory after the launch, on each level that interprets the program."""
    compilation = compiled(case.name, spec.name)
    module = compilation.last("ast")
    yield "ptx", interpret(module, case.entry, launch.launch, spec)
    for step in compilation.steps:
        if step.form.name == "mir":
            yield f"mir:{step.name}", run_mir(step.value, spec, launch.launch).memory
    yield "machine", program_of(case, spec, launch).interpret().memory


def test_there_are_sixteen_kernels() -> None:
    assert len({case.name for case in CASES}) == 16


@all_kernels
@all_machines
def test_program_levels(case: KernelCase, spec: MachineSpec) -> None:
    for number, launch in enumerate(case.launches(spec)):
        for level, memory in memories(case, spec, launch):
            assert arrays(launch, memory) == launch.expected(), f"input set {number} on level {level}"


@all_kernels
@pytest.mark.parametrize("level", CIRCUIT_LEVELS)
def test_circuits_on_nano(case: KernelCase, level: str) -> None:
    program = program_of(case, NANO, case.launches(NANO)[0])
    report = check_circuit(level, program, program.interpret())
    assert report.difference is None, str(report.difference)


@pytest.fixture(scope="module")
def nano_model() -> ModelEngine:
    return model(NANO)


@pytest.fixture(scope="module")
def classic_model() -> ModelEngine:
    return model(CLASSIC)


def model(spec: MachineSpec, dtype: str = "bfloat16") -> ModelEngine:
    engine = open_engine("transformers", ensure_checkpoint(spec, dtype))
    assert isinstance(engine, ModelEngine)
    return engine


@all_kernels
def test_stock_model_on_nano(case: KernelCase, nano_model: ModelEngine) -> None:
    """Token by token, as `generate` would: the arrays come out of the recurrent state."""
    launch = case.launches(NANO)[0]
    report = run_program(program_of(case, NANO, launch), nano_model, check=True, unsigned=False)
    assert report.check == "exact", str(report.check)
    assert report.arrays == launch.expected()


@all_kernels
def test_stock_model_on_nano_edge_values(case: KernelCase, nano_model: ModelEngine) -> None:
    for launch in case.launches(NANO)[1:]:
        program = program_of(case, NANO, launch)
        difference = nano_model.prefill_check(program, program.interpret())
        assert difference is None, str(difference)


def test_stock_model_on_nano_in_float32() -> None:
    """Token by token in the second dtype, on a kernel with multiplications and a loop."""
    case = next(case for case in CASES if case.name == "dot")
    launch = case.launches(NANO)[0]
    engine = model(NANO, "float32")
    report = run_program(program_of(case, NANO, launch), engine, check=True, unsigned=False)
    assert report.check == "exact", str(report.check)
    assert report.arrays == launch.expected()


def test_generate_with_unmodified_transformers() -> None:
    """No code of this project between the load tokens and the launch tokens."""
    import torch
    from transformers import AutoModelForCausalLM

    case = next(case for case in CASES if case.name == "dot")
    program = program_of(case, NANO, case.launches(NANO)[0])
    vocabulary = Vocabulary(NANO)
    load = [vocabulary.id(token) for token in program.load()]
    wanted = [vocabulary.id(token) for token in program.interpret().tokens]
    stock: Any = AutoModelForCausalLM.from_pretrained(ensure_checkpoint(NANO, "bfloat16"), dtype="auto")
    written = stock.generate(torch.tensor([load]), do_sample=False, max_new_tokens=2 * len(wanted))
    assert written[0, len(load) :].tolist() == wanted


def check_on_classic(case: KernelCase, engine: ModelEngine) -> None:
    program = program_of(case, CLASSIC, case.launches(CLASSIC)[0])
    difference = engine.prefill_check(program, program.interpret())
    assert difference is None, str(difference)


@pytest.mark.parametrize("case", [c for c in CASES if c.name in IN_CI_ON_CLASSIC], ids=lambda case: case.name)
def test_stock_model_on_classic(case: KernelCase, classic_model: ModelEngine) -> None:
    check_on_classic(case, classic_model)


@pytest.mark.slow
@all_kernels
def test_stock_model_on_classic_every_kernel(case: KernelCase, classic_model: ModelEngine) -> None:
    check_on_classic(case, classic_model)
