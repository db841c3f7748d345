"""Every test kernel on every level, each held against numpy.

kernel x input set x machine    PTX interpreter, MIR interpreter after every pass, machine interpreter
kernel x nano                   logical circuit, placed circuit, stock model token by token (one in float32 too)
kernel x classic                stock model, the trace checked in one prefill

The second line runs the basic kernels and a chosen dozen, the third that dozen, and `make test-slow` all of them.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from runtime.launcher import ModelEngine, Program, open_engine, run_program
from runtime.levels import CIRCUIT_LEVELS, check_circuit
from tests.conftest import case_of, compiled
from tests.kernels.case import FOLDER, MACHINES, KernelCase, LaunchCase
from tests.kernels.cases import CASES, CHOSEN, QUICK, cases_for
from toolchain.machine_build import ensure_checkpoint
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec
from toolchain.mir.mir_interpreter import run_mir
from toolchain.ptx_frontend.interpreter import interpret

Words = tuple[int, ...]
on_every_machine = pytest.mark.parametrize(
    ("case", "spec"),
    [(case, spec) for spec in MACHINES for case in cases_for(spec)],
    ids=lambda item: item.name,
)


def on(spec: MachineSpec, quick: tuple[str, ...]) -> Any:
    """A test of every kernel that fits the machine; those that are not `quick` run under `slow`."""
    return pytest.mark.parametrize(
        "case",
        [
            pytest.param(case, id=case.name, marks=() if case.name in quick else pytest.mark.slow)
            for case in cases_for(spec)
        ],
    )


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


def test_every_file_is_one_case() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
    assert {path.stem for path in FOLDER.glob("*.cu")} <= set(names)


@on_every_machine
def test_program_levels(case: KernelCase, spec: MachineSpec) -> None:
    for number, launch in enumerate(case.launches(spec)):
        for level, memory in memories(case, spec, launch):
            assert arrays(launch, memory) == launch.expected(), f"input set {number} on level {level}"


@on(NANO, QUICK)
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


@on(NANO, QUICK)
def test_stock_model_on_nano(case: KernelCase, nano_model: ModelEngine) -> None:
    """Token by token, as `generate` would: the arrays come out of the recurrent state."""
    launch = case.launches(NANO)[0]
    report = run_program(program_of(case, NANO, launch), nano_model, check=True, unsigned=False)
    assert report.check == "exact", str(report.check)
    assert report.arrays == launch.expected()


@on(NANO, QUICK)
def test_stock_model_on_nano_edge_values(case: KernelCase, nano_model: ModelEngine) -> None:
    for launch in case.launches(NANO)[1:]:
        program = program_of(case, NANO, launch)
        difference = nano_model.prefill_check(program, program.interpret())
        assert difference is None, str(difference)


def test_stock_model_on_nano_in_float32() -> None:
    """Token by token in the second dtype, on a kernel with multiplications and a loop."""
    case = case_of("dot")
    launch = case.launches(NANO)[0]
    engine = model(NANO, "float32")
    report = run_program(program_of(case, NANO, launch), engine, check=True, unsigned=False)
    assert report.check == "exact", str(report.check)
    assert report.arrays == launch.expected()


def test_generate_with_unmodified_transformers() -> None:
    """No code of this project between the load tokens and the launch tokens."""
    import torch
    from transformers import AutoModelForCausalLM

    case = case_of("dot")
    program = program_of(case, NANO, case.launches(NANO)[0])
    load, wanted = program.ids(program.load()), program.ids(program.interpret().tokens)
    stock: Any = AutoModelForCausalLM.from_pretrained(ensure_checkpoint(NANO, "bfloat16"), dtype="auto")
    written = stock.generate(torch.tensor([load]), do_sample=False, max_new_tokens=2 * len(wanted))
    assert written[0, len(load) :].tolist() == wanted


@on(CLASSIC, CHOSEN)
def test_stock_model_on_classic(case: KernelCase, classic_model: ModelEngine) -> None:
    program = program_of(case, CLASSIC, case.launches(CLASSIC)[0])
    difference = classic_model.prefill_check(program, program.interpret())
    assert difference is None, str(difference)
