"""ROM images as text: what is printed reads back as the same object; bad text is refused with its line."""

import pytest

from tests.random_rom import random_rom
from toolchain.errors import CompileError
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec
from toolchain.mir.isa import NOTHING, PredicateSource, Source, SourceKind
from toolchain.mir.rom import EXIT, LinkValue
from toolchain.mir.rom_text import parse_rom, print_rom


@pytest.mark.parametrize("spec", [NANO, CLASSIC], ids=lambda spec: spec.name)
@pytest.mark.parametrize("seed", range(20))
def test_round_trip(spec: MachineSpec, seed: int) -> None:
    rom = random_rom(seed, spec)
    assert parse_rom(print_rom(rom)) == rom


TEXT = """\
rom dot for nano from "dot.cu"
param a: word 0, words 1, pointer
param n: word 1, words 1

block 0 entry:                                                   ; dot.cu:2
  return r2 = t0.x {uniform, narrow}
  branch q0.z, 1, exit                                           ; dot.cu:3:9
"""

LOOP = """\
rom dot for nano from "dot.cu"
param a: word 0, words 1, pointer

block 0 loop:                                                    ; dot.cu:2
  stage 0, port0=r1, port2=r3, imm0=param.1 + 3
    x  ld.global [port0 + (param.0)>>2]                          ; dot.cu:3:9
    y  lop.0x8 port2, imm0
    z  sel p1, %tid.x, 0
  stage 1
    m  mul.hi.s ld0.x, r2
    p  plop.0xe q0.x, true
  return r2 = t0.x {uniform, narrow}
  return r4 = m1
  p0 = q1.p
  st.global [r3 + 4], t0.x if not q1.p
  branch q1.p, 1, exit                                           ; dot.cu:3:9
"""


@pytest.mark.parametrize("text", [TEXT, LOOP])
def test_printed_form_is_stable(text: str) -> None:
    assert print_rom(parse_rom(text)) == text


def test_fields_land_where_they_are_written() -> None:
    (block,) = parse_rom(LOOP).blocks
    first = block.stages[0]
    assert first.ports == (1, 0, 3, 0)
    assert first.immediates == (LinkValue(3, (("param.1", 1),)), LinkValue())
    assert first.x is not None and first.x.offset == LinkValue(0, (("param.0", 1),), 2)
    assert first.z is not None and first.z.predicate == PredicateSource(register=1)
    assert first.z.b == NOTHING
    multiply = block.stages[1].m
    assert multiply is not None and multiply.register_b == 2
    assert multiply.a == Source(SourceKind.LOADED, 0, "x")
    assert (block.terminator.target1, block.terminator.target0) == (1, EXIT)
    store = block.terminator.store
    assert store is not None and store.negated and store.address_register == 3


BAD = {
    "    x  add t0.x, 0\n": (1, "belongs in a block"),
    'rom k for nano from ""\nblock 1:\n  jump exit\n': (2, "block 1 is number 0"),
    'rom k for nano from ""\nblock 0:\n    x  add 0, 0\n': (3, "belongs in a stage"),
    'rom k for nano from ""\nblock 0:\n  stage 0\n    x  frob 0, 0\n': (4, "'frob' is not a valid Op"),
    'rom k for nano from ""\nblock 0:\n  stage 0\n    x  add r1, 0\n': (4, "'r1' is not an operand"),
    'rom k for nano from ""\nblock 0:\n  stage 4\n': (3, "cannot read 'stage 4'"),
    'rom k for nano from ""\nblock 0:\n  branch t0.x, 1, 2\n': (3, "'t0.x' is not a predicate"),
    'rom k for nano from ""\nblock 0 last:\n': (3, "block 'last' ends without"),
    "": (1, "a ROM file starts with"),
}


@pytest.mark.parametrize("text", BAD, ids=[message for _, message in BAD.values()])
def test_bad_text_is_refused_with_its_line(text: str) -> None:
    line, message = BAD[text]
    with pytest.raises(CompileError, match=message) as caught:
        parse_rom(text, "bad.rom")
    assert caught.value.location is not None
    assert (caught.value.location.file, caught.value.location.line) == ("bad.rom", line)
