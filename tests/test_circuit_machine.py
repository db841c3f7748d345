"""The machine as circuits against the machine interpreter: random ROM images, token by token."""

from collections.abc import Sequence

import pytest

from runtime.loader import load_tokens
from runtime.vocabulary import Token, Vocabulary
from tests.random_rom import random_launch, random_rom
from toolchain.circuit_ir.evaluator import Evaluator, logical_evaluator
from toolchain.circuit_ir.ir import Wire
from toolchain.circuit_ir.machine.build import build_machine
from toolchain.circuit_ir.tokens import embedding, output_code
from toolchain.machine_build import placed_circuit
from toolchain.machine_spec import CLASSIC, NANO, WIDE, MachineSpec
from toolchain.mir.interpreter import run_launch
from toolchain.mir.rom import RomImage
from toolchain.mir.rom_text import parse_rom

SEEDS = range(3)
SLOW_SEEDS = range(3, 40)


def first_difference(
    evaluator: Evaluator,
    inputs: Sequence[Wire],
    spec: MachineSpec,
    load: Sequence[Token],
    launch: Sequence[Token],
) -> str | None:
    """Feeds `load` and `launch`; describes the first token of `launch` that the circuit would not have written."""
    vocabulary = Vocabulary(spec)
    wires = {wire.name: wire for wire in inputs}
    for index, token in enumerate((*load, *launch[:-1])):
        values = {wires[name]: value for name, value in embedding(vocabulary, token).items()}
        code = sum(bit << i for i, bit in enumerate(evaluator.run(values)))
        at = index - len(load) + 1
        if at >= 0 and code != output_code(vocabulary, launch[at]):
            return f"token {at}: code {code:#x} instead of {vocabulary.text(launch[at])}"
    return None


def check(rom: RomImage, spec: MachineSpec, seed: int, evaluators: Sequence[Evaluator]) -> None:
    launch = random_launch(seed, spec)
    load, tokens = load_tokens(rom, spec, launch), run_launch(rom, spec, launch, strict=False).tokens
    assert tokens[-1].is_end
    for evaluator in evaluators:
        assert first_difference(evaluator, build_machine(spec).inputs, spec, load, tokens) is None


def both_levels(spec: MachineSpec) -> tuple[Evaluator, Evaluator]:
    return logical_evaluator(build_machine(spec)), placed_circuit(spec).evaluator()


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs_on_nano(seed: int) -> None:
    check(random_rom(seed, NANO), NANO, seed, both_levels(NANO))


def test_random_program_on_classic() -> None:
    check(random_rom(0, CLASSIC, blocks=3), CLASSIC, 0, [placed_circuit(CLASSIC).evaluator()])


def test_a_word_that_no_load_brings_is_zero() -> None:
    """Slot x of stage 0 adds; no compiled program multiplies by what it loaded (rom_verifier.py)."""
    rom = parse_rom(
        'rom k for nano from "k.cu"\nparam data: word 0, words 1, pointer\n\nblock 0:\n'
        "  stage 0, imm0=5\n    x  add imm0, 0\n"
        "  stage 1, imm0=3\n    m  mul.lo ld0.x, imm0\n"
        "  return r1 = m1\n  jump exit\n"
    )
    check(rom, NANO, 0, both_levels(NANO))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SLOW_SEEDS)
def test_more_random_programs_on_nano(seed: int) -> None:
    check(random_rom(seed, NANO), NANO, seed, both_levels(NANO))


@pytest.mark.slow
@pytest.mark.parametrize("spec", [CLASSIC, WIDE], ids=lambda spec: spec.name)
@pytest.mark.parametrize("seed", range(1, 6))
def test_more_random_programs(seed: int, spec: MachineSpec) -> None:
    check(random_rom(seed, spec), spec, seed, both_levels(spec))
