"""A wrong bit in any one level of `qgpuc check` is caught, and named as that level's.

PTX, the MIR after each pass, the ROM image, the logical and the placed circuit and the checkpoint's weights are
each made wrong alone, the others stay right. Mutants that make no difference (the memory is the same, or the
circuit writes the same tokens) are drawn again: that is decided here, without the checks that are tested.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from runtime.launcher import Difference, Program
from runtime.levels import CircuitRunner
from runtime.vocabulary import Vocabulary
from tests import mutations
from tests.conftest import case_of, compiled
from tests.kernels.case import LaunchCase
from toolchain.circuit_ir.evaluator import logical_evaluator
from toolchain.circuit_ir.ir import Circuit
from toolchain.circuit_ir.placed import PlacedCircuit
from toolchain.circuit_ir.prune import prune
from toolchain.circuit_ir.tokens import output_code
from toolchain.commands.check import all_levels
from toolchain.driver import Compilation
from toolchain.errors import CompileError, VerifyError
from toolchain.machine_build import ensure_checkpoint, logical_circuit, placed_circuit
from toolchain.machine_spec import NANO
from toolchain.mir.interpreter import run_launch
from toolchain.mir.mir_interpreter import run_mir
from toolchain.mir.rom_verifier import verify_rom
from toolchain.ptx_frontend.ast import Instruction
from toolchain.ptx_frontend.interpreter import interpret
from toolchain.weights_backend.layers import Stream, layer_tensors
from toolchain.weights_backend.numerics import Dtype

KERNELS = ("vector_add", "reduce_tree", "reduce_atomic")
SEEDS, SLOW_SEEDS = range(5), range(5, 40)
DRAWS = 200
STEP_LIMIT = 20_000
"""Instructions of a mutant; one that takes more has lost its way."""
SMALL = "vector_add"
"""The kernel that the circuits run."""
NOT_A_PROGRAM = (VerifyError, KeyError, IndexError, ValueError, TypeError, AssertionError)
"""What an interpreter may say of a mutant that breaks the rules of its form."""


def launch_case(kernel: str) -> LaunchCase:
    return case_of(kernel).launches(NANO)[0]


def program_of(kernel: str) -> Program:
    return Program(compiled(kernel, "nano").rom, NANO, launch_case(kernel).launch)


def first_difference(
    kernel: str, compilation: Compilation, program: Program, up_to: str = "program",
    circuits: Mapping[str, CircuitRunner] | None = None, checkpoint: Path | None = None,
) -> tuple[str, Difference | None]:  # fmt: skip
    """The first level that `qgpuc check` finds different, and how; else the last level and None."""
    expected = launch_case(kernel).expected()
    levels = all_levels(compilation, program, up_to, "bfloat16", checkpoint, expected, circuits)
    level = ""
    for report in levels:
        level = report.level
        if report.difference is not None:
            return level, report.difference
    return level, None


def with_step(compilation: Compilation, index: int, value: Any) -> Compilation:
    steps = list(compilation.steps)
    steps[index] = replace(steps[index], value=value)
    return Compilation(tuple(steps))


def differs(kernel: str, run: Any) -> bool | None:
    """Whether what `run` gives as memory is wrong, or faults; None if it is no program, or one without end.

    The latter is found too, but only after a million instructions.
    """
    case = launch_case(kernel)
    try:
        return case.launch.read_back(run()) != case.expected()
    except NOT_A_PROGRAM:
        return None
    except CompileError as fault:
        return None if "did not end" in fault.message else True


def wrong_program(kernel: str, level: str, random: Random) -> tuple[str, Compilation, Program]:
    """A compilation and a program with one wrong bit in a form, and the name `qgpuc check` has for the level."""
    right, program = compiled(kernel, "nano"), program_of(kernel)
    launch = program.launch
    indices = [index for index, step in enumerate(right.steps) if step.form.name == level]
    for _ in range(DRAWS):
        index = indices[-1] if level == "ast" else random.choice(indices)
        step = right.steps[index]
        if level == "ast":
            value = mutations.wrong_ptx(step.value, random)
            entry = value.entries[0].name
            wrong = differs(
                kernel, lambda v=value, e=entry: interpret(v, e, launch, NANO, step_limit=STEP_LIMIT)
            )
            name = "ptx"
        elif level == "mir":
            value = mutations.wrong_mir(step.value, random)
            wrong = differs(kernel, lambda v=value: run_mir(v, NANO, launch).memory)
            name = f"mir:{step.name}"
        else:
            value = mutations.wrong_rom(step.value, random)
            program = replace(program, rom=value)
            wrong = differs(kernel, lambda p=program: _run_rom(p))
            name = "machine"
        if wrong:
            return name, with_step(right, index, value), program
    raise AssertionError(f"no wrong {level} in {DRAWS} draws")


def _run_rom(program: Program) -> tuple[int, ...]:
    verify_rom(program.rom, NANO)
    return run_launch(program.rom, NANO, program.launch, step_limit=STEP_LIMIT).memory


def check_program_mutant(kernel: str, level: str, seed: int) -> None:
    name, compilation, program = wrong_program(kernel, level, Random(f"{kernel} {level} {seed}"))
    found, difference = first_difference(kernel, compilation, program)
    assert difference is not None
    assert (found, difference.level.split()[0]) == (name, name)
    assert difference.expected != difference.found


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_right_program_is_exact(kernel: str) -> None:
    """Then whatever is found in a mutant is the mutation."""
    assert first_difference(kernel, compiled(kernel, "nano"), program_of(kernel)) == ("machine", None)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("level", ["ast", "mir", "rom"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_wrong_program_is_pinned_to_its_form(kernel: str, level: str, seed: int) -> None:
    check_program_mutant(kernel, level, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SLOW_SEEDS)
@pytest.mark.parametrize("level", ["ast", "mir", "rom"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_more_wrong_programs(kernel: str, level: str, seed: int) -> None:
    check_program_mutant(kernel, level, seed)


def test_a_wrong_ptx_instruction_is_named() -> None:
    """The store of the wrong value: its text, its lane, its line."""
    right = compiled("vector_add", "nano")
    index = max(index for index, step in enumerate(right.steps) if step.form.name == "ast")
    module = right.steps[index].value
    body = list(module.entries[0].body)
    instructions = [(i, item) for i, item in enumerate(body) if isinstance(item, Instruction)]
    stored = next(item.operands[1] for _, item in instructions if item.opcode == "st")
    at, sum_of_both = next((i, item) for i, item in instructions if item.operands[:1] == (stored,))
    assert sum_of_both.opcode == "add"
    body[at] = replace(sum_of_both, opcode="sub")
    wrong = replace(module, functions=(replace(module.entries[0], body=tuple(body)),))
    _, difference = first_difference("vector_add", with_step(right, index, wrong), program_of("vector_add"))
    assert difference is not None and difference.place is not None
    assert difference.place.what.startswith("st.global")
    assert difference.place.source is not None
    assert difference.place.source.file.endswith("vector_add.cu")


# The machine.


@cache
def machine() -> tuple[Circuit, PlacedCircuit]:
    return logical_circuit(NANO), placed_circuit(NANO)


@cache
def links() -> list[mutations.Link]:
    """The links of the machine that carry something while the small kernel runs, in the part that it reaches."""
    circuit, _ = machine()
    program = program_of(SMALL)
    names = frozenset(op.name for op in prune(circuit, program.rom, NANO).operations)
    evaluator = logical_evaluator(circuit)
    runner = CircuitRunner(evaluator, circuit.inputs, program)
    return mutations.live_links(circuit, evaluator, runner, program.load(), program.interpret().tokens, names)


def logical_runner(circuit: Circuit) -> CircuitRunner:
    return CircuitRunner(logical_evaluator(circuit), circuit.inputs, program_of(SMALL))


def placed_runner(placed: PlacedCircuit) -> CircuitRunner:
    return CircuitRunner(placed.evaluator(), placed.circuit.inputs, program_of(SMALL))


def first_wrong(said: Sequence[int]) -> int | None:
    """The first token of the launch that a circuit's codes do not say."""
    vocabulary = Vocabulary(NANO)
    wanted = [output_code(vocabulary, token) for token in program_of(SMALL).interpret().tokens]
    pairs = enumerate(zip(said, wanted, strict=False))
    return next((index for index, (a, b) in pairs if a != b), None if len(said) == len(wanted) else len(said))


def wrong_machine(level: str, random: Random) -> tuple[str, CircuitRunner, int]:
    """A circuit with one wrong bit, fresh, and the first token it does not say."""
    circuit, placed = machine()
    program = program_of(SMALL)
    load, launch = program.load(), program.interpret().tokens
    for _ in range(DRAWS):
        link = random.choice(links())
        if level == "circuit":
            mutant = mutations.wrong_circuit(circuit, link)
            at = first_wrong(mutations.codes(logical_runner(mutant), load, launch))
            runner = logical_runner(mutant)
        else:
            wrong = mutations.wrong_placed(placed, link)
            if level == "slot":
                wrong = mutations.wrong_slot(placed, link, random)
            at = first_wrong(mutations.codes(placed_runner(wrong), load, launch))
            runner = placed_runner(wrong)
        if at is not None:
            return "circuit" if level == "circuit" else "placed", runner, at
    raise AssertionError(f"no wrong {level} in {DRAWS} draws")


def check_machine_mutant(level: str, seed: int) -> None:
    name, runner, at = wrong_machine(level, Random(f"{level} {seed}"))
    program = program_of(SMALL)
    found, difference = first_difference(SMALL, compiled(SMALL, "nano"), program, "circuit", {name: runner})
    assert difference is not None
    assert (found, difference.level, difference.token) == (name, name, at)
    assert difference.place == program.interpret().provenance[at]


@pytest.mark.parametrize("level", ["circuit", "placed", "slot"])
def test_a_wrong_circuit_is_pinned_to_its_level_and_token(level: str) -> None:
    check_machine_mutant(level, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 12))
@pytest.mark.parametrize("level", ["circuit", "placed", "slot"])
def test_more_wrong_circuits(level: str, seed: int) -> None:
    check_machine_mutant(level, seed)


# The checkpoint.


def wrong_weight(random: Random) -> tuple[str, tuple[int, ...], float]:
    """A weight of a layer that one wrong link would change: its name, place and wrong value."""
    _, right = machine()
    link = random.choice(links())
    wrong = mutations.wrong_placed(right, link)
    stream = Stream.of(right, Dtype.BFLOAT16)
    number = next(
        i for i, pair in enumerate(zip(right.layers, wrong.layers, strict=True)) if pair[0] != pair[1]
    )
    before = layer_tensors(NANO, stream, right, right.layers[number])
    after = layer_tensors(NANO, stream, wrong, wrong.layers[number])
    for name, tensor in before.items():
        changed = np.argwhere(tensor != after[name])
        if len(changed):
            place = tuple(int(index) for index in changed[0])
            return f"model.layers.{number}.{name}", place, float(after[name][place])
    raise AssertionError("the link has no weight")


def checkpoint_with(folder: Path, name: str, place: tuple[int, ...], value: float) -> Path:
    """The nano checkpoint with one other weight; all other files are links."""
    right = ensure_checkpoint(NANO, "bfloat16")
    folder.mkdir()
    for path in right.iterdir():
        tensors = load_file(path) if path.suffix == ".safetensors" else {}
        if name not in tensors:
            (folder / path.name).symlink_to(path)
            continue
        tensors[name][place] = torch.tensor(value, dtype=tensors[name].dtype)
        save_file(tensors, folder / path.name, metadata={"format": "pt"})
    return folder


def check_weight_mutant(seed: int, folder: Path) -> None:
    random, program = Random(f"weight {seed}"), program_of(SMALL)
    for draw in range(DRAWS):
        checkpoint = checkpoint_with(folder / str(draw), *wrong_weight(random))
        level, difference = first_difference(
            SMALL, compiled(SMALL, "nano"), program, "model", checkpoint=checkpoint
        )
        shutil.rmtree(checkpoint)
        assert level == "transformers"
        if difference is not None:
            assert difference.token is not None
            assert difference.place == program.interpret().provenance[difference.token]
            return
    raise AssertionError(f"no wrong weight in {DRAWS} draws")


def test_a_wrong_weight_is_pinned_to_the_checkpoint(tmp_path: Path) -> None:
    check_weight_mutant(0, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_more_wrong_weights(seed: int, tmp_path: Path) -> None:
    check_weight_mutant(seed, tmp_path)
