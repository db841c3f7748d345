"""The native executor on networks of a few cells: what it computes, and that cells outside their range are noticed."""

import random
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from runtime.sparse.encode import Op, Pool
from runtime.sparse.flat import FlatNetwork
from runtime.sparse.model import token_loop
from runtime.sparse.network import (
    NO_ROW,
    NO_TOKEN,
    Address,
    Cell,
    Column,
    Form,
    Network,
    Node,
    NotExactError,
    Phase,
    Read,
    State,
    Write,
)
from runtime.sparse.plans import Compiler
from runtime.sparse.session import LostExactnessError, Session
from runtime.sparse.stable import LEAST_TERMS

END = 3
TERMS = LEAST_TERMS
"""As many are worth a memo."""
WIDTHS = pytest.mark.parametrize("width", [1, 16])


def network(phases: tuple[Phase, ...], embedding: list[list[int]], states: tuple[State, ...] = ()) -> Network:
    """Cells 0, 1, ... hold the embedding's columns, promised to be bits; the next one says the token's number."""
    columns = len(embedding[0])
    cells = (*(Cell(0, 1) for _ in range(columns)), Cell(0, 1))
    tokens = np.array([END, 1], dtype=np.int32)
    table = np.array(embedding, dtype=np.int16)
    return Network(cells, states, phases, tuple(range(columns)), table, (columns,), tokens, END, (0, ()))


def session(item: Network, width: int, folder: Path) -> Session:
    compiler = Compiler(FlatNetwork.of(item), Pool.empty())
    programs = compiler.programs()
    return Session(programs, lambda: compiler, token_loop(programs, width, folder), width)


def gate(table: list[int]) -> Phase:
    """out += table[in]"""
    return Phase(nodes=(Node(((0, 1),), 0, np.array(table, dtype=np.int32)[:, None], ((0, 1),), ()),))


@WIDTHS
def test_a_table(width: int, tmp_path: Path) -> None:
    """Tokens 0 and 1 hold a bit; 1 - bit is said: token 0 leads to 1, which leads to the end."""
    loop = session(network((gate([1, 0]),), [[0], [1]]), width, tmp_path)
    loop.begin([[0]] * width)
    assert loop.run(10) == ([[1, END]] * width, True)


@WIDTHS
@pytest.mark.parametrize("table", [[0, 1, 1], [0, 1, 2], [0, 2, 1]], ids=["step", "table", "other table"])
def test_a_gated_form(table: list[int], width: int, tmp_path: Path) -> None:
    """out += table[a + b] * (c - b + 1), which says token 0 or 1 or is no code, for all bits a, b, c."""
    up = Form(((1, -1), (2, 1)), 1)
    gated = Node(((0, 1), (1, 1)), 0, np.array(table, dtype=np.int32)[:, None], (), ((0, 3, 1, up),))
    rows = [[token >> bit & 1 for bit in range(3)] for token in range(8)]
    said = [table[a + b] * (c - b + 1) for a, b, c in rows]
    item = network((Phase(nodes=(gated,)),), rows)
    loop = session(item, width, tmp_path)
    for token, code in enumerate(said):
        if code in (0, 1):
            assert loop.begin([[token]] * width).said == [item.tokens[code]] * width
        else:
            with pytest.raises(LostExactnessError):
                loop.begin([[token]] * width)


@WIDTHS
@pytest.mark.parametrize("value", [2, 7, 3000])
def test_a_cell_above_its_range_is_noticed(value: int, width: int, tmp_path: Path) -> None:
    """The third token's cell is no bit: there is no such row in the table."""
    loop = session(network((gate([1, 0]),), [[0], [1], [value]]), width, tmp_path)
    with pytest.raises(LostExactnessError):
        loop.begin([[2]] * width)


@WIDTHS
@pytest.mark.parametrize("value", [2, 255])
def test_an_address_that_is_none_is_noticed(value: int, width: int, tmp_path: Path) -> None:
    state = State(Form((), -1), Address((), (NO_ROW,)), None, 2)
    read = Read(0, Address((0,), (0, 1)), ((0, 1),))
    write = Write(0, (Column(((1, Form((), 1)),)),))
    loop = session(network((Phase((write,), (read,)),), [[0], [value]], (state,)), width, tmp_path)
    assert loop.begin([[0]] * width).said == [END] * width
    with pytest.raises(LostExactnessError):
        loop.begin([[1]] * width)


def test_a_code_of_no_token_is_noticed(tmp_path: Path) -> None:
    item = network((gate([1, 0]),), [[0], [1]])
    loop = session(item, 1, tmp_path)
    item.tokens[1] = NO_TOKEN
    with pytest.raises(LostExactnessError, match="NO_TOKEN"):
        loop.begin([[0]])


def test_a_table_entry_of_more_than_16_bits_is_no_exact_program() -> None:
    with pytest.raises(NotExactError):
        Compiler(FlatNetwork.of(network((gate([0, 1, 40_000]),), [[0], [2]])), Pool.empty()).programs()


def remembering() -> tuple[Network, list[tuple[int, ...]]]:
    """A network of two bits of memory that says whether they differ, worked out by a node of many terms.

    Also its tokens as bits: kind, write the first bit, write the second, data. The first memory is written before the
    phase that reads the key, so that a memo can stand on it; the second in that phase, so that it can but be an input.
    """
    tokens: list[tuple[int, ...]] = list(product((0, 1), repeat=4))
    embedding = np.array([[kind, 1 - kind, *others] for kind, *others in tokens], dtype=np.int16)
    kind, first, second, data, keyed, held, other, same, out = 0, 2, 3, 4, 5, 6, 7, 8, 9
    one_row = Address((), (0,))

    def write(state: int, enable: int) -> tuple[State, Write]:
        column = Column(((1, Form(((data, 1),))),))
        return State(Form(((enable, 1),), -1), one_row, None, 1), Write(state, (column,))

    (early, write_early), (late, write_late) = write(0, first), write(1, second)
    never = State(Form((), -1), Address((), (NO_ROW,)), None, 2)
    step = np.arange(TERMS + 1)[:, None] // TERMS
    xor = np.zeros((3 * TERMS + 1, 1), dtype=np.int32)
    xor[[TERMS, 2 * TERMS]] = 1
    phases = (
        Phase((write_early,)),
        Phase(
            (write_late, Write(2, (Column(((1, Form((), 1)),)),))),
            (Read(2, Address((kind,), (0, 1)), ((0, keyed),)), Read(1, one_row, ((0, other),))),
        ),
        Phase(
            reads=(Read(0, one_row, ((0, held),)),),
            nodes=(Node(((other, 1),) * TERMS, 0, step.astype(np.int32), ((0, same),), ()),),
        ),
        Phase(nodes=(Node(((held, 1), (same, 2)) * TERMS, 0, xor, ((0, out),), ()),)),
    )
    codes = np.array([END, 1], dtype=np.int32)
    cells, inputs = (Cell(0, 1),) * 10, tuple(range(5))
    return Network(
        cells, (early, late, never), phases, inputs, embedding, (out,), codes, END, (0, ())
    ), tokens


@WIDTHS
def test_what_is_remembered(width: int, tmp_path: Path) -> None:
    """Random tokens against the memory that they write, after each; and not every token makes a memo."""
    item, tokens = remembering()
    draw = random.Random(width)
    quiet = [number for number, (_, first, second, _) in enumerate(tokens) if not (first or second)]
    choices = [range(len(tokens)) if draw.random() < 0.3 else quiet for _ in range(40)]
    given = [[draw.choice(choice) for choice in choices] for _ in range(width)]
    compiler = Compiler(FlatNetwork.of(item), Pool.empty())
    programs = compiler.programs()
    loop = Session(programs, lambda: compiler, token_loop(programs, width, tmp_path, profile=True), width)
    memory = [[0, 0] for _ in given]
    for end in range(1, len(given[0]) + 1):
        for launch, bits in zip(given, memory, strict=True):
            _, first, second, data = tokens[launch[end - 1]]
            bits[:] = data if first else bits[0], data if second else bits[1]
        loop.profile[:] = 0
        said = loop.begin([launch[:end] for launch in given]).said
        assert said == [1 if first != second else END for first, second in memory]
    assert 0 < loop.profile[Op.REMEMBER] < loop.profile[Op.MEMO]
