"""MIR text reads back, bad text is refused with its line, and every rule of the verifier is checked."""

from dataclasses import replace

import pytest

from toolchain.errors import CompileError, SourceLocation, VerifyError
from toolchain.mir.ir import (
    TRUE,
    Branch,
    Function,
    Instruction,
    Jump,
    MirOp,
    Predicate,
    Register,
    Special,
)
from toolchain.mir.isa import MulOp, Op
from toolchain.mir.rom import LinkValue
from toolchain.mir.text import parse_mir, print_mir
from toolchain.mir.verifier import verify

SAMPLE = """\
kernel k from "dir with space/k.cu"
param a: word 0, words 2, pointer
param n: word 2, words 1

entry:
    %q = set.lt.s %tid.x, param.2 - 1                                ; k.cu:3:21
    %x = mov 4294967295 {uniform, narrow}
    %y = lop.0x6 %x, ntid.x + 2*param.0 - 4 {narrow}
    branch %q, body, exit                                            ; k.cu:4

body:
    %v = ld.global [%x + (param.0 - 8)>>2] {uniform}
    %w = ld.global [7]
    %m = mul.hi.s %v, %w
    %r = plop.0x8 %q, true
    %s = sel %r, %m, %laneid
    st.global [%x], %s if not %r
    st.global [(param.0)>>2], 0
    jump exit
"""


@pytest.fixture
def sample() -> Function:
    return parse_mir(SAMPLE)


def test_text_reads_back(sample: Function) -> None:
    verify(sample)
    assert parse_mir(print_mir(sample)) == sample
    assert [line.split() for line in print_mir(sample).splitlines()] == [
        line.split() for line in SAMPLE.splitlines()
    ]
    assert sample.blocks[0].instructions[0].source == SourceLocation("k.cu", 3, 21)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%a = frob %b, %c", "unknown operation 'frob'"),
        ("%a = add %b", "takes 2 operands; found 1"),
        ("%a = lop %b, %c", "unknown operation 'lop'"),
        ("add %b, %c", "needs a destination"),
        ("%a = add %b, 3x", "not a link-time constant"),
        ("%a = ld.global %b", "not an address"),
        ("st.global [%a]", "a store is written"),
        ("branch %p, x", "found 2 operands"),
        ("other:", "ends without"),
        ("%a = add %b, %c {red}", "annotation"),
    ],
)
def test_bad_text_is_refused_with_its_line(line: str, message: str) -> None:
    with pytest.raises(CompileError, match=message) as caught:
        parse_mir(f'kernel k from "k.cu"\nentry:\n{line}\njump exit\n', "k.mir")
    assert caught.value.location == SourceLocation("k.mir", 3)


def changed(function: Function, item: Instruction) -> Function:
    """The sample with its first instruction replaced."""
    entry = function.blocks[0]
    first = replace(entry, instructions=(item, *entry.instructions[1:]))
    return replace(function, blocks=(first, *function.blocks[1:]))


ZERO = LinkValue()
X, Q = Register("x"), Predicate("q")
BROKEN = {
    "expected 2 operands": Instruction(Op.ADD, X, (ZERO,)),
    "expected a value": Instruction(Op.ADD, X, (ZERO, Q)),
    "expected a predicate": Instruction(MirOp.PLOP, Q, (TRUE, ZERO)),
    "sel needs a selector": Instruction(Op.SEL, X, (ZERO, ZERO)),
    "only sel, ballot and stores read a predicate": Instruction(Op.ADD, X, (ZERO, ZERO), Q),
    "cannot be 'true'": Instruction(Op.SEL, X, (ZERO, ZERO), TRUE),
    "only a store's guard can be negated": Instruction(MirOp.STORE, None, (ZERO, ZERO), negated=True),
    "must be 0..15": Instruction(Op.LOP, X, (ZERO, ZERO), table=16),
    "only lop and plop have a table": Instruction(Op.ADD, X, (ZERO, ZERO), table=1),
    "only memory operations have an offset": Instruction(MulOp.LO, X, (ZERO, ZERO), offset=LinkValue(1)),
    "offset is not in normal form": Instruction(Op.LOAD, X, (ZERO,), offset=LinkValue(-1)),
    "belongs in the offset": Instruction(Op.LOAD, X, (LinkValue(4),)),
    "only a value can be uniform": Instruction(Op.SET_EQ, Q, (ZERO, ZERO), uniform=True),
    "is not in normal form": Instruction(MirOp.MOV, X, (LinkValue(1, (("param.0", 0),)),)),
    "no special register 'clock'": Instruction(MirOp.MOV, X, (Special("clock"),)),
    "a store has no destination": Instruction(MirOp.STORE, X, (ZERO, ZERO)),
    "writes a predicate": Instruction(Op.SET_EQ, X, (ZERO, ZERO)),
    "writes a register": Instruction(Op.ADD, Q, (ZERO, ZERO)),
    "reserved name": Instruction(MirOp.MOV, Register("laneid"), (ZERO,)),
    "is not a name": Instruction(MirOp.MOV, Register("a b"), (ZERO,)),
    "both a register and a predicate": Instruction(MirOp.MOV, Register("q"), (ZERO,)),
    "not defined on every path": Instruction(MirOp.MOV, X, (Register("nowhere"),)),
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_instructions_are_named(sample: Function, message: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify(changed(sample, BROKEN[message]))
    assert message in str(caught.value) and "entry" in str(caught.value)


def test_broken_structure_is_named(sample: Function) -> None:
    entry, body = sample.blocks
    cases = {
        "has no blocks": (),
        "two blocks have this label": (entry, body, body),
        "no block may be called 'exit'": (entry, replace(body, label="exit")),
        "there is no block 'gone'": (entry, replace(body, terminator=Jump("gone"))),
        "nothing may branch to the entry": (entry, replace(body, terminator=Jump("entry"))),
        "a branch needs a predicate": (entry, replace(body, terminator=Branch(TRUE, "body", "exit"))),
    }
    for message, blocks in cases.items():
        with pytest.raises(VerifyError, match=message):
            verify(replace(sample, blocks=blocks))


def test_a_use_defined_on_one_path_only_is_named() -> None:
    text = """kernel k from "k.cu"
    entry:
        %q = set.eq %tid.x, 0
        branch %q, a, b
    a:
        %x = mov 1
        jump b
    b:
        st.global [0], %x
        jump exit
    """
    with pytest.raises(VerifyError, match=r"b\[0\].*%x is not defined on every path"):
        verify(parse_mir(text))
