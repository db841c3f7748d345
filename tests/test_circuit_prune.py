"""The pruned circuit writes what the machine interpreter says, for the program it was pruned for."""

import pytest

from runtime.loader import load_tokens
from tests.conftest import compiled
from tests.kernels.case import KernelCase
from tests.kernels.cases import QUICK, cases_for
from tests.random_rom import random_launch, random_rom
from tests.test_circuit_machine import first_difference
from toolchain.circuit_ir.evaluator import logical_evaluator
from toolchain.circuit_ir.ir import Circuit, Logic, Memory, op_reads, op_writes
from toolchain.circuit_ir.machine.build import build_machine
from toolchain.circuit_ir.placement import place
from toolchain.circuit_ir.plan import critical_path, group_name, plan_text, program_plan
from toolchain.circuit_ir.prune import prune
from toolchain.circuit_ir.verifier import verify_circuit, verify_placed
from toolchain.launch import Launch
from toolchain.machine_spec import NANO
from toolchain.mir.interpreter import run_launch
from toolchain.mir.rom import RomImage
from toolchain.mir.rom_text import parse_rom

EMPTY = 'rom empty for nano from "k.cu"\n\nblock 0 entry:\n  jump exit\n'
LOOP = """rom f for nano from "k.cu"
param a: word 0, words 1, pointer

block 0 entry:
  jump 1
block 1 loop:
  stage 0, port0=r1, imm0=1
    z  add port0, imm0
  stage 1, imm0=(param.0)>>2
    x  set.lt.u t0.z, imm0
  return r1 = t0.z {uniform, narrow}
  branch q1.x, 1, exit
"""


def units(circuit: Circuit) -> int:
    return sum(len(op.units) for op in circuit.operations if isinstance(op, Logic))


def check(rom: RomImage, launch: Launch) -> None:
    circuit = prune(build_machine(NANO), rom, NANO)
    verify_circuit(circuit, NANO)
    load, tokens = load_tokens(rom, NANO, launch), run_launch(rom, NANO, launch, strict=False).tokens
    placed = place(circuit, NANO)
    verify_placed(placed, NANO)
    for evaluator in logical_evaluator(circuit), placed.evaluator():
        assert first_difference(evaluator, circuit.inputs, NANO, load, tokens) is None


@pytest.mark.parametrize("seed", range(2))
def test_random_programs(seed: int) -> None:
    check(random_rom(seed, NANO, blocks=2), random_launch(seed, NANO))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 30))
def test_more_random_programs(seed: int) -> None:
    check(random_rom(seed, NANO), random_launch(seed, NANO))


@pytest.mark.parametrize(
    "case", [case for case in cases_for(NANO) if case.name in QUICK], ids=lambda case: case.name
)
def test_kernels(case: KernelCase) -> None:
    rom = compiled(case.name, NANO.name).rom
    check(rom, case.launches(NANO)[0].launch)


def test_nothing_of_an_empty_program_is_left() -> None:
    circuit = prune(build_machine(NANO), parse_rom(EMPTY), NANO)
    names = [op.name for op in circuit.operations]
    assert not [name for name in names if name.startswith(("s0.", "m0.", "st.", "rom0.", "t0.", "special."))]
    assert "pc.l0" in names
    check(parse_rom(EMPTY), Launch((1, 1, 1), (3, 1, 1), ()))


def test_what_a_program_uses_stays() -> None:
    circuit = prune(build_machine(NANO), parse_rom(LOOP), NANO)
    names = {op.name for op in circuit.operations}
    assert {"s0.port0.l0", "s0.z.result", "s1.x.prepare", "out.t0.z"} <= names
    assert not names & {
        "s0.x.result",
        "s0.port1.l0",
        "s1.port0.l0",
        "out.store",
        "m0.products",
        "pred.file",
    }
    assert units(circuit) < units(build_machine(NANO)) / 10


def test_link_time_constants_are_unknown() -> None:
    """imm0 of stage 1 is a parameter: all its digits stay; stage 0's is 1: only its lowest digit does."""
    circuit = prune(build_machine(NANO), parse_rom(LOOP), NANO)
    read = {wire.name for op in circuit.operations for wire in op_reads(op)}
    assert {f"rom1.imm0.n{i}" for i in range(8)} <= read
    assert {name for name in read if name.startswith("rom0.imm0")} == {"rom0.imm0.n0"}


def test_pruning_again_changes_nothing() -> None:
    rom = parse_rom(LOOP)
    once = prune(build_machine(NANO), rom, NANO)
    assert prune(once, rom, NANO) == once


def test_the_full_machine_is_as_small_as_its_own_ranges_allow() -> None:
    """Every wire that the machine reads is an input or written, and every wire it writes is read."""
    circuit = build_machine(NANO)
    written = {wire for op in circuit.operations for wire in op_writes(op)}
    read = {wire for op in circuit.operations for wire in op_reads(op)}
    assert read <= written | set(circuit.inputs)
    assert written <= read | set(circuit.outputs)


def test_plan_names_every_operation_once() -> None:
    rom = parse_rom(LOOP)
    placed = place(prune(build_machine(NANO), rom, NANO), NANO)
    text = plan_text(placed)
    assert text == program_plan(rom, NANO)
    body = text[: text.index("critical path")]
    named = [line.split()[2] for line in body.splitlines() if line.startswith(("  head ", "  units "))]
    assert sorted(named) == sorted(op.name for op in placed.circuit.operations)
    assert sum(line.startswith("layer ") for line in body.splitlines()) == len(placed.layers)


def test_critical_path_fills_the_layers() -> None:
    placed = place(build_machine(NANO), NANO)
    path = critical_path(placed)
    assert path[-1] == (2 * len(placed.layers) - 1, "out.token")
    times = [time for time, _ in path]
    assert times == sorted(set(times))
    kinds = {op.name: isinstance(op, Logic) for op in placed.circuit.operations}
    assert all(bool(time % 2) is kinds[name] for time, name in path)


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("raw13", "raw*"),
        ("t1.x.l0.n3", "t1.x.l*.n*"),
        ("q2.p.l1", "q2.p.l*"),
        ("rom4.p0.b2", "rom4.p0.b*"),
        ("rom0.imm1.n7", "rom0.imm1.n*"),
        ("m0.l1.c12.0", "m0.l*.c*.*"),
        ("s0.x.l1.carry0.3", "s0.x.l*.carry0.*"),
        ("is.exec", "is.exec"),
    ],
)
def test_wire_groups(name: str, group: str) -> None:
    assert group_name(name) == group


def test_heads_keep_their_places() -> None:
    """Pruning never moves a stored value: dimension i of a head means the same in both circuits."""
    full = {op.name: op for op in build_machine(NANO).operations if isinstance(op, Memory)}
    for op in prune(build_machine(NANO), parse_rom(LOOP), NANO).operations:
        if isinstance(op, Memory):
            assert len(op.values) == len(full[op.name].values)
