"""Values that one SHORT token says: where it comes instead of two halves, and that every level keeps it whole."""

from dataclasses import replace

import pytest

from runtime.launcher import ModelEngine
from runtime.levels import Program
from runtime.loader import load_tokens
from runtime.trace import Narrator
from runtime.vocabulary import Kind, Token, Vocabulary, execute, short, val, word_tokens
from tests.test_circuit_machine import both_levels, first_difference
from toolchain.circuit_ir.evaluator import logical_evaluator
from toolchain.circuit_ir.machine.build import build_machine
from toolchain.circuit_ir.tokens import output_code, token_of_code
from toolchain.errors import CompileError
from toolchain.launch import ArrayArgument, Launch
from toolchain.machine_build import ensure_checkpoint
from toolchain.machine_spec import NANO, MachineSpec
from toolchain.mir.interpreter import run_launch
from toolchain.mir.rom import RomImage
from toolchain.mir.rom_text import parse_rom

HEADER = 'rom test for {} from "test.cu"\nparam a: word 0, words 1, pointer\n'
EDGES = (0, 1, -1, 2047, 2048, -2048, -2049, 32767, 32768, -32768, 65535, 1 << 16, -(1 << 31), (1 << 31) - 1)
EDGES += (0x0FFFF800, 0x7FFFFFFF & ~0x800, 15, 16, -16, -17, 255, 256, -256, -257, 1 << 12, 0xF800, 0xFFF)
"""Signed values at each end of what fits, and with digits that look like a sign's."""
COPY = """
block 0:
  stage 0
    x  ld.global [%tid.x]
    y  add %tid.x, 0
  stage 1
    x  add t0.x, 0
  return r1 = t1.x
  return r2 = t0.y {narrow}
  jump 1
block 1:
  st.shared [r2], r1
  jump 2
block 2:
  stage 0, port0=r2
    x  ld.shared [port0]
  return r3 = t0.x
  st.global [r2 + 30], r1
  jump 3
block 3:
  st.global [r2 + 32], r3
  jump exit
"""
"""Each lane takes a word through a register, shared memory and global memory."""


def signed(value: int) -> int:
    return (value & 0x7FFFFFFF) - (value & 0x80000000)


def pairs() -> list[tuple[int, int]]:
    """Every edge beside a short and a long value, first and second: two words for two lanes."""
    return [pair for edge in EDGES for other in (-5, 70000) for pair in ((edge, other), (other, edge))]


def said(value: int) -> list[Token]:
    """What says a signed value, from the definition."""
    if -2048 <= value <= 2047:
        return [short(value)]
    return [val(value % (1 << 16)), val(value % (1 << 32) // (1 << 16))]


def program(words: tuple[int, ...], spec: MachineSpec = NANO) -> tuple[RomImage, Launch]:
    argument = ArrayArgument("a", (*(value % (1 << 32) for value in words), *[9] * (34 - len(words))), "u32")
    return parse_rom(HEADER.format(spec.name) + COPY), Launch((1, 1, 1), (2, 1, 1), (argument,))


def expected(words: tuple[int, ...]) -> list[Token]:
    """The launch of `program`, from the machine's definition."""
    first, second = words
    tokens = [execute(0, 0, 3), *said(first), *said(second), val(0), val(1), execute(1, 0, 3)]
    tokens += [Token(Kind.SMEM, 0), *said(first), Token(Kind.SMEM, 1), *said(second), execute(2, 0, 3)]
    tokens += [*said(first), *said(second)]
    tokens += [Token(Kind.MEM, 30), *said(first), Token(Kind.MEM, 31), *said(second), execute(3, 0, 3)]
    tokens += [Token(Kind.MEM, 32), *said(first), Token(Kind.MEM, 33), *said(second), Token(Kind.EXEC)]
    return tokens


@pytest.mark.parametrize("value", EDGES)
def test_a_word_is_said_in_one_token_where_it_fits(value: int) -> None:
    assert list(word_tokens(NANO, value % (1 << 32))) == said(value)


def test_a_machine_may_have_other_short_values() -> None:
    narrow = replace(NANO, short_bits=5)
    assert word_tokens(narrow, 15) == (short(15),)
    assert word_tokens(narrow, 16) == (val(16), val(0))
    assert word_tokens(narrow, 2**32 - 16) == (short(-16),)
    with pytest.raises(ValueError, match="is not a token of machine"):
        Vocabulary(narrow).id(short(16))
    with pytest.raises(CompileError, match="short_bits is 17; a token has room for 2 to 16"):
        replace(NANO, short_bits=17)


@pytest.mark.parametrize("value", [-2048, -1, 0, 1, 2047])
def test_the_output_spells_a_short_value_with_its_sign(value: int) -> None:
    vocabulary = Vocabulary(NANO)
    code = 1 << 17 | value % (1 << 16)
    assert output_code(vocabulary, short(value)) == code
    assert token_of_code(vocabulary, code) == short(value)
    assert vocabulary.text(short(value)) == f"SHORT({value})"


@pytest.mark.parametrize("code", [1 << 17 | 2048, 1 << 17 | 0xF7FF, 3 << 16])
def test_a_code_of_no_token_is_refused(code: int) -> None:
    with pytest.raises(ValueError, match=r"not a token|names no token"):
        token_of_code(Vocabulary(NANO), code)


@pytest.mark.parametrize("words", pairs())
def test_what_the_interpreter_says(words: tuple[int, int]) -> None:
    rom, launch = program(words)
    result = run_launch(rom, NANO, launch)
    assert list(result.tokens) == expected(words)
    assert [signed(value) for value in result.memory[30:34]] == [*words, *words]
    assert len(result.provenance) == len(result.tokens)


@pytest.mark.parametrize("words", [(a, b) for a, b in zip(EDGES, EDGES[1:] + EDGES[:1], strict=True)])
def test_what_the_circuit_says(words: tuple[int, int]) -> None:
    rom, launch = program(words)
    load = load_tokens(rom, NANO, launch)
    for evaluator in both_levels(NANO):
        inputs = build_machine(NANO).inputs
        assert first_difference(evaluator, inputs, NANO, load, expected(words)) is None


@pytest.mark.parametrize("bits", [5, 8, 9, 16])
def test_circuits_of_other_short_values(bits: int) -> None:
    spec = replace(NANO, name="other", short_bits=bits)
    circuit, edge = build_machine(spec), 1 << (bits - 1)
    for words in ((edge - 1, edge), (-edge, -edge - 1), (edge + 16, -1)):
        rom, launch = program(words, spec)
        tokens = run_launch(rom, spec, launch).tokens
        assert (short(words[0]) in tokens) == (words[0] < edge)
        assert short(words[1]) in tokens or words[1] != -1
        load = load_tokens(rom, spec, launch)
        assert first_difference(logical_evaluator(circuit), circuit.inputs, spec, load, tokens) is None


UNIFORM = """
block 0:
  stage 0, imm0={value}
    x  add imm0, 0
    y  set.eq %tid.x, 0
  return r1 = t0.x {{uniform}}
  return r2 = t0.x
  p1 = q0.y
  st.global [0], t0.x if q0.y
  jump 1
block 1:
  st.global [0 + 1], r1
  jump exit
"""


@pytest.mark.parametrize("value", EDGES)
def test_uniform_values_and_stores_left_out(value: int) -> None:
    rom = parse_rom(HEADER.format("nano") + UNIFORM.format(value=value % (1 << 32)))
    launch = Launch((2, 1, 1), (3, 1, 1), (ArrayArgument("a", (9, 9), "u32"),))
    result = run_launch(rom, NANO, launch)
    assert [signed(item) for item in result.memory[:2]] == [value, value]
    assert result.tokens.count(Token(Kind.MEM, 0)) == launch.thread_blocks
    evaluator, load = both_levels(NANO)[0], load_tokens(rom, NANO, launch)
    assert first_difference(evaluator, build_machine(NANO).inputs, NANO, load, result.tokens) is None


def test_the_load_says_short_words_in_one_token() -> None:
    rom, launch = program((-7, 70000))
    tokens = load_tokens(rom, NANO, launch)
    place = tokens.index(Token(Kind.MEM, 0))
    wanted = (
        Token(Kind.MEM, 0),
        short(-7),
        Token(Kind.MEM, 1),
        val(70000 % 65536),
        val(1),
        Token(Kind.MEM, 2),
    )
    assert tokens[place : place + 6] == wanted


def test_the_trace_tells_short_values() -> None:
    rom, launch = program((-7, 70000))
    narrator = Narrator(rom, NANO, launch)
    told = [narrator.say(token) for token in run_launch(rom, NANO, launch).tokens]
    assert told[1:4] == ["SHORT -7 -> r1 lane 0", "VAL  4464 -> r1.lo lane 1", "VAL  1 -> r1.hi lane 1"]
    assert "SHORT -7: [0] = -7 (shared)" in told
    assert "SHORT -7: [30] = -7 (a[30])" in told
    assert "VAL  1 high half: [31] = 70000 (a[31])" in told
    narrator.say(execute(0, 0, 3))
    for token in (short(1), short(2), short(3)):
        last = narrator.say(token)
    assert last == "SHORT 3 -> r2 lane 0, which is no whole value"


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_stock_model_says_short_values(dtype: str) -> None:
    """Decoding, token by token, with what the model itself said before; then its memory."""
    engine = ModelEngine(ensure_checkpoint(NANO, dtype))
    words = (-2048, 2047)
    rom, launch = program(words)
    assert list(engine.run(Program(rom, NANO, launch), lambda token: None).tokens) == expected(words)
    assert [signed(value) for value in engine.model.memory()[30:34]] == [*words, *words]
    for words in ((-2049, -1), (2048, 0), (65535, -(1 << 31))):
        rom, launch = program(words)
        assert engine.prefill_check(Program(rom, NANO, launch), run_launch(rom, NANO, launch)) is None
