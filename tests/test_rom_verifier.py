"""Every rule of a ROM image, broken on purpose."""

from dataclasses import replace

import pytest

from toolchain.errors import VerifyError
from toolchain.machine_spec import CLASSIC, NANO
from toolchain.mir.isa import TRUE, PredicateSource
from toolchain.mir.rom_text import parse_rom
from toolchain.mir.rom_verifier import rom_problems, verify_rom

HEADER = 'rom k for nano from "k.cu"\n'
GOOD = """
block 0 entry:
  stage 0, port0=r15, imm0=1
    x  ld.global [port0]
    y  popc port0
    z  set.eq port0, imm0
    m  mul.lo %tid.x, imm0
  stage 1
    m  mul.lo ld0.x, r3
    p  plop.0x8 q0.z, p3
  stage 3
    z  sel q1.p, m1, t0.y
  return r1 = t3.z
  return r15 = m1
  p0 = q1.p
  st.global [t0.x], m0 if q0.z
  branch q1.p, 1, exit
block 1:
  jump 1
"""


def problems(body: str) -> list[str]:
    return [str(problem) for problem in rom_problems(parse_rom(HEADER + body), NANO)]


def test_a_good_image_has_no_problems() -> None:
    assert problems(GOOD) == []


def stage(index: int, operation: str) -> str:
    return f"block 0 b:\n  stage {index}\n    {operation}\n  jump exit\n"


BROKEN = {
    "stage 0, slot x: cannot run popc; slot y can": stage(0, "x  popc 0"),
    "stage 1, slot z: cannot run lop; slot y can": stage(1, "z  lop.0x8 0, 0"),
    "stage 0, slot z: cannot run ld.global; slot x or y can": stage(0, "z  ld.global [0]"),
    "stage 0, slot y: cannot run min.u; slot z can": stage(0, "y  min.u 0, 0"),
    "stage 1, slot x, a: cannot read t1.y here": stage(1, "x  add t1.y, 0"),
    "stage 0, slot x, b: cannot read m0 here": stage(0, "x  add 0, m0"),
    "stage 1, slot y, a: cannot read %tid.x here": stage(1, "y  add %tid.x, 0"),
    "stage 1, slot x, a: reads t0.x, which nothing writes": stage(1, "x  add t0.x, 0"),
    "stage 2, slot x, a: reads m0, which nothing writes": stage(2, "x  add m0, 0"),
    "stage 1, slot m, a: cannot read t0.x here": stage(1, "m  mul.lo t0.x, 0"),
    "stage 3, slot m: multiplies are issued in stages 0 to 2": stage(3, "m  mul.lo 0, 0"),
    "stage 1, slot m, a: reads ld0.x, but that slot runs add, not a load": (
        "block 0 b:\n  stage 0\n    x  add 0, 0\n  stage 1\n    m  mul.lo ld0.x, 0\n  jump exit\n"
    ),
    "stage 0, slot x: add has no selector, got p1": stage(0, "x  add p1, 0, 0"),
    "stage 0, slot x, selector: cannot read q0.y here": stage(0, "x  sel q0.y, 0, 0"),
    "stage 1, slot p, a: reads q0.x, which nothing writes": stage(1, "p  plop.0x8 q0.x, true"),
    "stage 1, slot p, b: reads q0.p, which nothing writes": stage(1, "p  plop.0x8 true, q0.p"),
    "stage 0, slot p: truth table 0x1f has more than four bits": stage(0, "p  plop.0x1f true, true"),
    "stage 0, port1: r16 is out of range; there are 16": (
        "block 0 b:\n  stage 0, port1=r16\n    x  add port1, 0\n  jump exit\n"
    ),
    "stage 0, slot m, port b: r99 is out of range; there are 16": stage(0, "m  mul.lo 0, r99"),
    "terminator: target1 is the entry, block 0": "block 0 b:\n  branch p0, 0, exit\n",
    "terminator: target0 is 7, there are 1 blocks": "block 0 b:\n  jump 7\n",
    "terminator: never goes to target0 = -1": "block 0 b:\n  branch true, 1, exit\nblock 1:\n  jump exit\n",
    "terminator, branch: reads q0.x, which nothing writes": "block 0 b:\n  branch q0.x, exit, exit\n",
    "terminator, p2: reads q3.z, which nothing writes": "block 0 b:\n  p2 = q3.z\n  jump exit\n",
    "store, address: cannot read imm0 here": "block 0 b:\n  st.global [imm0], 0\n  jump exit\n",
    "store, data: cannot read m2 here": "block 0 b:\n  st.global [0], m2\n  jump exit\n",
    "store, data: reads t3.x, which nothing writes": "block 0 b:\n  st.global [0], t3.x\n  jump exit\n",
    "store, data port: r40 is out of range; there are 16": "block 0 b:\n  st.global [0], r40\n  jump exit\n",
    "store, guard: reads q1.y, which nothing writes": "block 0 b:\n  st.global [0], 0 if q1.y\n  jump exit\n",
    "return to r1: cannot read port0 here": "block 0 b:\n  return r1 = port0\n  jump exit\n",
    "return to r1: reads t1.x, which nothing writes": "block 0 b:\n  return r1 = t1.x\n  jump exit\n",
    "return to r0: register 0 always reads zero": (
        "block 0 b:\n  stage 0\n    x  add 0, 0\n  return r0 = t0.x\n  jump exit\n"
    ),
    "return to r3: the block returns to this register twice": (
        "block 0 b:\n  stage 0\n    x  add 0, 0\n  return r3 = t0.x\n  return r3 = t0.x\n  jump exit\n"
    ),
    "returns: 30 tokens with 2 lanes; the limit is 28": (
        "block 0 b:\n  stage 0\n    x  add 0, 0\n"
        + "".join(f"  return r{i} = t0.x\n" for i in range(1, 7))
        + "  st.global [0], 0\n  jump exit\n"
    ),
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_rule_is_named_with_its_place(message: str) -> None:
    assert f"block 0 'b', {message}" in problems(BROKEN[message])


def test_constant_true_is_not_a_new_predicate() -> None:
    rom = parse_rom(HEADER + "block 0 b:\n  p1 = p0\n  jump exit\n")
    block = rom.blocks[0]
    end = replace(block.terminator, predicates=(None, TRUE, None, PredicateSource(register=0)))
    broken = replace(rom, blocks=(replace(block, terminator=end),))
    (problem,) = rom_problems(broken, NANO)
    assert str(problem) == "block 0 'b', terminator: p1 cannot be set to the constant true"


def test_counts_and_machines() -> None:
    rom = parse_rom(HEADER + "block 0 b:\n  jump exit\n")
    assert [p.message for p in rom_problems(replace(rom, blocks=()), NANO)] == [
        "has 0 blocks; machine 'nano' holds 1 to 32"
    ]
    many = replace(rom, blocks=rom.blocks * 33)
    assert [p.message for p in rom_problems(many, NANO)] == ["has 33 blocks; machine 'nano' holds 1 to 32"]
    with pytest.raises(VerifyError, match="image: is for machine 'nano', not 'classic'"):
        verify_rom(rom, CLASSIC)
