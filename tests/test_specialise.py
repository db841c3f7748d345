"""A kernel's own machine writes what the machine interpreter says, without program tokens."""

import json
from pathlib import Path

import pytest

from bench import specialised
from runtime.launcher import Program, SparseEngine
from runtime.loader import load_tokens
from runtime.vocabulary import Kind, Vocabulary
from tests.conftest import case_of, compiled
from tests.kernels.case import MACHINES, KernelCase
from tests.kernels.cases import QUICK, cases_for
from tests.random_rom import random_launch, random_rom
from toolchain.circuit_ir.bounds import prove
from toolchain.circuit_ir.evaluator import Evaluator, logical_evaluator
from toolchain.circuit_ir.ir import Logic, Memory
from toolchain.circuit_ir.parser import parse_circuit
from toolchain.circuit_ir.placement import place
from toolchain.circuit_ir.specialise import Specialised, program_digest, specialise
from toolchain.circuit_ir.text import print_circuit
from toolchain.circuit_ir.tokens import output_code
from toolchain.circuit_ir.verifier import verify_circuit, verify_placed
from toolchain.cli import run_command
from toolchain.errors import CompileError
from toolchain.launch import Launch
from toolchain.machine_spec import NANO, PRESETS, MachineSpec
from toolchain.mir.interpreter import run_launch
from toolchain.mir.link_constants import link_constants
from toolchain.mir.rom import RomImage
from toolchain.mir.rom_text import parse_rom
from toolchain.weights_backend.checkpoint import check_exact
from toolchain.weights_backend.layers import Stream, layer_tensors
from toolchain.weights_backend.numerics import Dtype

DOT = ["--machine", "nano", "--arg", "a=[1,2,3]", "--arg", "b=[4,5,6]", "--arg", "c=zeros:1", "--arg", "n=3"]
PRODUCT = """rom f for nano from "k.cu"
param a: word 0, words 1, pointer
param n: word 1, words 1

block 0 entry:
  jump 1
block 1 next:
  stage 0, port0=r1, imm0=param.1
    z  add imm0, port0
  stage 1, imm0=7
    z  add imm0, t0.z
  stage 2, imm0=param.1
    z  add imm0, t1.z
  return r1 = t2.z
  jump exit
"""
"""A parameter in two stages, a constant that is none of the launch's in a third."""


def first_difference(
    special: Specialised, evaluator: Evaluator, rom: RomImage, spec: MachineSpec, launch: Launch
) -> str | None:
    """Feeds the load and the interpreter's tokens; describes the first one that the circuit would not have written."""
    vocabulary, wires = Vocabulary(special.spec), {wire.name: wire for wire in special.circuit.inputs}
    load, tokens = (
        load_tokens(rom, spec, launch, baked=True),
        run_launch(rom, spec, launch, strict=False).tokens,
    )
    for index, token in enumerate((*load, *tokens[:-1])):
        vocabulary.id(token)  # every token it is fed has an id
        values = {wires[name]: value for name, value in special.embedding(vocabulary, token).items()}
        code = sum(bit << i for i, bit in enumerate(evaluator.run(values)))
        at = index - len(load) + 1
        if at >= 0 and code != output_code(vocabulary, tokens[at]):
            return f"token {at}: code {code:#x} instead of {vocabulary.text(tokens[at])}"
    return None


def check(rom: RomImage, launch: Launch, spec: MachineSpec = NANO) -> Specialised:
    """Both levels of the kernel's machine against the interpreter, token by token, and its proof in both dtypes."""
    special = specialise(rom, spec)
    verify_circuit(special.circuit, special.spec)
    placed = place(special.circuit, special.spec)
    verify_placed(placed, special.spec)
    for evaluator in logical_evaluator(special.circuit), placed.evaluator():
        assert first_difference(special, evaluator, rom, spec, launch) is None
    for dtype in Dtype:
        prove(placed, special.spec, dtype)
        stream = Stream.of(placed, dtype)
        for layer in placed.layers:
            for name, tensor in layer_tensors(special.spec, stream, placed, layer).items():
                check_exact(name, tensor, dtype)
    return special


@pytest.mark.parametrize(("seed", "blocks"), [(0, 2), (1, 3), (2, NANO.blocks)])
def test_random_programs(seed: int, blocks: int) -> None:
    check(random_rom(seed, NANO, blocks=blocks), random_launch(seed, NANO))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 30))
def test_more_random_programs(seed: int) -> None:
    check(random_rom(seed, NANO), random_launch(seed, NANO))


@pytest.mark.parametrize("name", ["dot", "gcd", "prefix_sum", "switch5"])
def test_kernels(name: str) -> None:
    rom = compiled(name, NANO.name).rom
    special = check(rom, case_of(name).launches(NANO)[0].launch)
    assert not {Kind.PROG, Kind.LIVE} & set(Vocabulary(special.spec).kinds())


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [case for case in cases_for(NANO) if case.name in QUICK], ids=lambda case: case.name
)
def test_every_launch_of_more_kernels(case: KernelCase) -> None:
    for launch in case.launches(NANO):
        check(compiled(case.name, NANO.name).rom, launch.launch)


def test_link_time_constants_come_from_state() -> None:
    """One record for the parameter that two stages read; the third stage's 7 is in the weights."""
    rom = parse_rom(PRODUCT)
    assert len(link_constants(rom)) == 1
    special = specialise(rom, NANO)
    heads = [op.name for op in special.circuit.operations if isinstance(op, Memory)]
    assert {"rom0.imm0.constant", "rom2.imm0.constant"} <= set(heads)
    assert "rom1.imm0.constant" not in heads


def test_what_hands_a_value_on_is_gone() -> None:
    """In the dot product both factors are loaded, in either block: nothing is left to select them."""
    special = specialise(compiled("dot", NANO.name).rom, NANO)
    names = {op.name for op in special.circuit.operations}
    assert "m1.products" in names
    assert "m1.select" not in names


def test_a_gate_asks_for_its_blocks() -> None:
    """A unit reads one wire of the program at most, where its gate has one value in all blocks that open it."""
    special = specialise(compiled("switch5", NANO.name).rom, NANO)
    baked = {name for block in special.blocks for name in block}
    selects = [op for op in special.circuit.operations if op.name.endswith("select")]
    assert selects
    for op in selects:
        assert isinstance(op, Logic)
        for unit in (unit for unit in op.units if unit.up is not None):
            assert sum(wire.name in baked for wire in unit.gate.wires) <= 1


def test_a_kernel_that_loads_nothing_still_has_memory() -> None:
    """The host reads what was stored from a head that no circuit reads."""
    rom = compiled("two_warps", NANO.name).rom
    loads = [op.name for op in specialise(rom, NANO).circuit.operations if op.name.endswith(".load")]
    assert loads


def test_circuit_text_is_the_circuit() -> None:
    circuit = specialise(parse_rom(PRODUCT), NANO).circuit
    assert parse_circuit(print_circuit(circuit)) == circuit


def test_digest_is_the_programs() -> None:
    rom = parse_rom(PRODUCT)
    same = parse_rom(PRODUCT.replace("k.cu", "other.cu").replace("next:", "here:"))
    other = parse_rom(PRODUCT.replace("imm0=7", "imm0=8"))
    assert program_digest(rom, NANO) == program_digest(same, NANO) != program_digest(other, NANO)


def test_no_kernel_was_wrong_in_the_stock_model() -> None:
    """bench/specialised.json, which `qgpuc bench --specialised` writes."""
    outcomes = specialised.stored()
    every = {(spec.name, case.name) for spec in MACHINES for case in cases_for(spec)}
    assert outcomes.keys() == every | {(spec.name, specialised.GENERAL) for spec in MACHINES}
    assert not specialised.refused()
    assert [key for key, outcome in outcomes.items() if outcome.wrong] == []


@pytest.mark.parametrize("machine", ["nano", "classic"])
def test_specialised_table_is_fresh(machine: str) -> None:
    """A sample of bench/specialised.json; all rows hang on the circuits, and on the code that makes weights of them."""
    outcome = specialised.stored()[machine, "dot"]
    assert specialised.is_fresh(case_of("dot"), PRESETS[machine], outcome), (
        "stale: `qgpuc bench --specialised`"
    )


def test_another_program_is_refused() -> None:
    rom, other = parse_rom(PRODUCT), parse_rom(PRODUCT.replace("imm0=7", "imm0=8"))
    special = specialise(rom, NANO).spec
    launch = random_launch(0, NANO)
    assert Program(rom, NANO, launch).on(special, Path("DIR")).baked == special
    with pytest.raises(CompileError, match=r"'DIR' is specialised: machine 'nano\.f', program"):
        Program(other, NANO, launch).on(special, Path("DIR"))


@pytest.fixture(scope="module")
def dot_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dot product's own machine on nano, from the command line."""
    folder = tmp_path_factory.mktemp("special") / "dot"
    source = case_of("dot").source
    assert run_command(["compile", str(source), "--machine", "nano", "--specialise", "-o", str(folder)]) == 0
    return folder


@pytest.mark.parametrize("engine", ["transformers", "sparse"])
def test_from_the_command_line(engine: str, dot_checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The dot product in stock transformers and on the sparse engine, token by token."""
    run = ["run", str(case_of("dot").source), *DOT, "--engine", engine, "--checkpoint", str(dot_checkpoint)]
    assert run_command([*run, "--check", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["arrays"]["c"] == [32]
    assert report["check"] == "exact"
    assert run_command(["inspect", str(dot_checkpoint)]) == 0
    assert '"program": "' in capsys.readouterr().out


def test_sparse_engine_says_what_the_interpreter_says(dot_checkpoint: Path) -> None:
    """Every launch of the dot product: tokens and memory, in integers."""
    engine, rom = SparseEngine(dot_checkpoint), compiled("dot", NANO.name).rom
    for case in case_of("dot").launches(NANO):
        expected = run_launch(rom, NANO, case.launch)
        result = engine.run(Program(rom, NANO, case.launch), lambda token: None)
        assert result.tokens == expected.tokens
        assert case.launch.read_back(result.memory) == case.expected()
    assert engine.model.reason is None, "ran with every rounding instead of integers"


@pytest.mark.parametrize("engine", ["transformers", "sparse"])
def test_another_kernel_is_refused_by_the_command_line(
    engine: str, dot_checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", "tests/kernels/gcd.cu", "--machine", "nano", "--checkpoint", str(dot_checkpoint)]
    arguments = [part for name in "abc" for part in ("--arg", f"{name}=[1]")]
    assert run_command([*run, "--engine", engine, *arguments, "--arg", "n=1"]) == 2
    assert "is specialised: machine 'nano.dot'" in capsys.readouterr().err
