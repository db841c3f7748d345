"""The loader's records, decoded again bit by bit, and the launches it refuses."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest

from runtime.loader import initial_memory, link_symbols, load_tokens
from runtime.vocabulary import Kind, Token, Vocabulary
from tests.random_rom import random_launch, random_rom
from toolchain.errors import CompileError
from toolchain.launch import Argument, ArrayArgument, Launch, ScalarArgument
from toolchain.machine_spec import CLASSIC, NANO, STAGES, MachineSpec
from toolchain.mir.encoding import return_sequence, stage_fields, terminator_fields
from toolchain.mir.isa import Layout, stage_layout, terminator_layout
from toolchain.mir.rom import LinkValue, Parameter, RomImage, Variable
from toolchain.mir.rom_text import parse_rom


@dataclass
class Records:
    """What a load says: payload bits of each record, low token first."""

    payloads: dict[Token, list[int]] = field(default_factory=dict)

    def bits(self, token: Token) -> int:
        return sum(value << (16 * i) for i, value in enumerate(self.payloads.get(token, [])))


def decode_records(tokens: Iterable[Token]) -> Records:
    """Groups a load's VAL tokens under the record they belong to, a SHORT as two of them; no record comes twice."""
    records = Records()
    current: list[int] = []
    for token in tokens:
        if token.kind is Kind.VAL:
            current.append(token.a)
        elif token.kind is Kind.SHORT:
            current += [token.a & 0xFFFF, 0xFFFF if token.a < 0 else 0]
        else:
            assert token not in records.payloads, token
            current = records.payloads[token] = []
    return records


def fields_of(layout: Layout, row: int) -> dict[str, int]:
    """Nonzero fields of a row's bits."""
    found = {}
    for index, chunk in enumerate(layout):
        position = 64 * index
        for name, width in chunk:
            value = row >> position & ((1 << width) - 1)
            position += width
            if value:
                found[name] = value
    return found


@pytest.mark.parametrize("spec", [NANO, CLASSIC], ids=lambda spec: spec.name)
@pytest.mark.parametrize("seed", range(6))
def test_rows_decode_to_the_same_fields(spec: MachineSpec, seed: int) -> None:
    rom, launch = random_rom(seed, spec), random_launch(seed, spec)
    symbols = link_symbols(rom, spec, launch)
    tokens = load_tokens(rom, spec, launch)
    records = decode_records(tokens)
    assert tokens[-1] == Token(Kind.CTA, 0)
    for index, block in enumerate(rom.blocks):
        for row, stage in enumerate(block.stages):
            bits = records.bits(Token(Kind.PROG, index, row))
            assert fields_of(stage_layout(spec, row), bits) == stage_fields(spec, row, stage, symbols)
        bits = records.bits(Token(Kind.PROG, index, STAGES))
        assert fields_of(terminator_layout(spec), bits) == terminator_fields(
            spec, block.terminator, symbols, rom.serial
        )
        for active in range(1, min(spec.lanes, launch.threads_per_block) + 1):
            entries = records.payloads.get(Token(Kind.LIVE, index, active), [])
            expected = return_sequence(spec, block, active)
            assert tuple(entries) == expected + (0,) * (-len(expected) % 4)
    for token, payload in records.payloads.items():
        if token.kind is Kind.PROG:
            assert payload and len(payload) % 4 == 0, "zero rows are left out, chunks are whole"
            assert any(payload[-4:]), "trailing zero chunks are left out"


@pytest.mark.parametrize("spec", [NANO, CLASSIC], ids=lambda spec: spec.name)
def test_every_token_has_an_id(spec: MachineSpec) -> None:
    vocabulary = Vocabulary(spec)
    for token in load_tokens(random_rom(3, spec), spec, random_launch(3, spec)):
        assert vocabulary.token(vocabulary.id(token)) == token


SMALL = parse_rom("""
rom small for classic from "small.cu"
param a: word 0, words 1, pointer
param n: word 1, words 1
param wide: word 2, words 2
block 0:
  stage 0, imm0=param.1, imm1=param.3
    x  add imm0, imm1
  return r1 = t0.x {narrow}
  jump exit
""")
ARRAY = ArrayArgument("a", (5, 0, -1))
ARGUMENTS: tuple[Argument, ...] = (ARRAY, ScalarArgument("n", -2), ScalarArgument("wide", (7 << 32) | 9))


def small(
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (1, 1, 1),
    arguments: tuple[Argument, ...] = ARGUMENTS,
) -> Launch:
    return Launch(grid, block, arguments)


def test_symbols_are_parameter_words_and_extents() -> None:
    symbols = link_symbols(SMALL, CLASSIC, small((2, 3, 1), (4, 1, 2)))
    assert symbols == {
        "ntid.x": 4, "ntid.y": 1, "ntid.z": 2, "nctaid.x": 2, "nctaid.y": 3, "nctaid.z": 1,
        "param.0": 0, "param.1": 0xFFFFFFFE, "param.2": 9, "param.3": 7, "local.base": 0, "local.words": 0,
    }  # fmt: skip


def test_pointers_are_byte_addresses_in_argument_order() -> None:
    rom = replace(
        SMALL, parameters=(Parameter("a", 0, 1, True), Parameter("n", 1), Parameter("b", 2, 2, True))
    )
    launch = small(arguments=(ARRAY, ScalarArgument("n", 0), ArrayArgument("b", (1, 2))))
    symbols = link_symbols(rom, CLASSIC, launch)
    assert (symbols["param.0"], symbols["param.2"], symbols["param.3"]) == (0, 12, 0)


def test_variables_follow_the_arrays_and_local_arrays_the_shared_memory() -> None:
    table = Variable("table", 3, (5, LinkValue(4, (("global.other", 1),))))
    rom = replace(SMALL, variables=(table, Variable("other", 2)), shared_words=6, local_words=3)
    launch = replace(small(), dynamic_shared=10)
    symbols = link_symbols(rom, CLASSIC, launch)
    first = len(launch.initial_words())
    assert (symbols["global.table"], symbols["global.other"]) == (4 * first, 4 * (first + 3))
    assert (symbols["local.base"], symbols["local.words"]) == (4 * (6 + 3), 3)
    words = (*launch.initial_words(), 5, 4 * (first + 3) + 4, 0, 0, 0)
    assert initial_memory(rom.variables, launch) == words
    records = decode_records(load_tokens(rom, CLASSIC, launch))
    assert records.bits(Token(Kind.MEM, first + 1)) == words[first + 1]


def test_an_array_for_a_structure_says_how_to_give_one() -> None:
    rom = replace(SMALL, parameters=(Parameter("p", 0, 3),))
    with pytest.raises(CompileError, match="the parameter is a structure of 12 bytes") as caught:
        link_symbols(rom, CLASSIC, small(arguments=(ArrayArgument("p", (1, 2, 3)),)))
    assert caught.value.hint == "--arg p=0x..., its first field lowest"
    number = ScalarArgument("p", 1 | 2 << 32 | 3 << 64)
    symbols = link_symbols(rom, CLASSIC, small(arguments=(number,)))
    assert [symbols[f"param.{word}"] for word in range(3)] == [1, 2, 3]


def test_variables_stand_at_multiples_of_their_alignment() -> None:
    """Behind an array of three words: a word, then pairs of words, then four together."""
    variables = (Variable("one", 1, (7,)), Variable("pairs", 2, (1, 2), 8), Variable("four", 4, (3,), 16))
    rom = replace(SMALL, parameters=(Parameter("a", 0, 1, True),), variables=variables)
    launch = small(arguments=(ArrayArgument("a", (4, 5, 6)),))
    symbols = link_symbols(rom, CLASSIC, launch)
    assert [symbols[f"global.{name}"] for name in ("one", "pairs", "four")] == [12, 16, 32]
    assert initial_memory(variables, launch) == (4, 5, 6, 7, 1, 2, 0, 0, 3, 0, 0, 0)


@pytest.mark.parametrize(
    ("rom", "launch", "message"),
    [
        (replace(SMALL, shared_words=127), small(), "needs 127 words of shared memory (static 127)"),
        (
            replace(SMALL, shared_words=6, local_words=30),
            replace(small(block=(4, 1, 1)), dynamic_shared=4),
            "needs 127 words of shared memory (static 6, dynamic (--shared) 1, local arrays of 4 threads 120)",
        ),
        (replace(SMALL, variables=(Variable("table", 126),)), small(), "words of global memory (arrays"),
        (SMALL, replace(small(), dynamic_shared=-4), "the dynamic shared memory is -4 bytes"),
    ],
)
def test_what_has_no_room_is_refused(rom: RomImage, launch: Launch, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        link_symbols(rom, CLASSIC, launch)
    assert message in caught.value.message
    assert caught.value.hint


def test_the_null_pointer_is_an_argument() -> None:
    rom = replace(SMALL, parameters=(Parameter("a", 0, 1, True),))
    assert link_symbols(rom, CLASSIC, small(arguments=(ScalarArgument("a", 0),)))["param.0"] == 0
    with pytest.raises(CompileError, match="the parameter is a pointer"):
        link_symbols(rom, CLASSIC, small(arguments=(ScalarArgument("a", 8),)))


def test_the_shape_of_a_launch() -> None:
    records = decode_records(load_tokens(SMALL, CLASSIC, small((2, 3, 1), (3, 2, 1))))
    assert records.bits(Token(Kind.INIT)) == 0b0011_1111
    lanes = [records.bits(Token(Kind.WARP, 0)) >> (15 * lane) & 0x7FFF for lane in range(4)]
    assert lanes == [x | y << 5 for x, y in ((0, 0), (1, 0), (2, 0), (0, 1))]
    assert records.bits(Token(Kind.WARP, 1)) == (1 | 1 << 5) | (2 | 1 << 5) << 15
    assert Token(Kind.WARP, 2) not in records.payloads
    grid = [records.bits(Token(Kind.GRID, c)) for c in range(6)]
    assert [row & 0xFFF for row in grid] == [x | y << 6 for y in range(3) for x in range(2)]
    assert [row >> 18 & 0x3F for row in grid] == [1, 2, 3, 4, 5, 0]
    assert [row >> 24 for row in grid] == [1, 1, 1, 1, 1, 0]


def test_memory_without_its_zero_words() -> None:
    records = decode_records(load_tokens(SMALL, CLASSIC, small()))
    memory = {token.a: records.bits(token) for token in records.payloads if token.kind is Kind.MEM}
    assert memory == {0: 5, 2: 0xFFFFFFFF}


@pytest.mark.parametrize(
    ("threads", "rows"), [(1, [1]), (3, [1, 2, 3]), (4, [1, 2, 3, 4]), (9, [1, 2, 3, 4])]
)
def test_return_rows_for_possible_lane_counts_only(threads: int, rows: list[int]) -> None:
    records = decode_records(load_tokens(SMALL, CLASSIC, small(block=(threads, 1, 1))))
    assert [token.b for token in records.payloads if token.kind is Kind.LIVE] == rows


BAD = {
    "grid 1x0x1 has an extent below 1": small(grid=(1, 0, 1)),
    "block 33x1x1 has 33 threads; machine 'classic' has room for 32 (1 too many)": small(block=(33, 1, 1)),
    "grid 65x2x1 has 130 blocks; machine 'classic' has room for 64 (66 too many)": small(grid=(65, 2, 1)),
    "arrays take 130 words of global memory; machine 'classic' has room for 126 (4 too many)": small(
        arguments=(ArrayArgument("a", (0,) * 130), *ARGUMENTS[1:])
    ),
    "kernel 'small' takes 3 arguments, got 2": small(arguments=ARGUMENTS[:2]),
    "argument 'n' for parameter 'n' of kernel 'small' is an array": small(
        arguments=(ARRAY, ArrayArgument("n", (1,)), ARGUMENTS[2])
    ),
    "argument 'a' for parameter 'a' of kernel 'small' is an integer": small(
        arguments=(ScalarArgument("a", 1), *ARGUMENTS[1:])
    ),
    "is 4294967296; it does not fit 32 bits": small(
        arguments=(ARRAY, ScalarArgument("n", 1 << 32), ARGUMENTS[2])
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_a_launch_that_cannot_be_held_is_refused(message: str) -> None:
    with pytest.raises(CompileError) as caught:
        load_tokens(SMALL, CLASSIC, BAD[message])
    assert message in str(caught.value)


def test_another_machines_image_is_refused() -> None:
    foreign: RomImage = replace(SMALL, machine="wide")
    with pytest.raises(CompileError, match="is for machine 'wide', not 'classic'"):
        load_tokens(foreign, CLASSIC, small())
