"""Each MIR pass on a few lines of text: what it must do, and what it must leave alone."""

from collections.abc import Callable

import pytest

from toolchain.errors import CompileError
from toolchain.machine_spec import CLASSIC, MachineSpec
from toolchain.mir import (
    address_narrowing,
    cleanup,
    coalesce,
    dead_code,
    hyperblocks,
    jump_threading,
    lower_ptx,
    pipeline,
    rematerialisation,
    simplify,
    strength,
    uniformity,
    widths,
)
from toolchain.mir.ir import Function
from toolchain.mir.text import parse_mir, print_mir
from toolchain.mir.verifier import verify
from toolchain.ptx_frontend.parser import parse_ptx

HEADER = (
    'kernel k from "k.cu"\nparam a: word 0, words 1, pointer\nparam n: word 1, words 1\n'
    "param b: word 2, words 1, pointer\n\n"
)


def mir(text: str) -> Function:
    return parse_mir(HEADER + text)


def lines_after(run: Callable[[Function, MachineSpec], Function], text: str) -> list[str]:
    """The function's lines after a pass, labels included, without indentation."""
    function = mir(text)
    verify(function)
    result = run(function, CLASSIC)
    verify(result)
    body = print_mir(result).split("\n\n", 1)[1]
    return [line.strip() for line in body.splitlines() if line.strip()]


def straight(run: Callable[[Function, MachineSpec], Function], body: str) -> list[str]:
    """The instructions of a one-block function after a pass."""
    return lines_after(run, f"entry:\n{body}\njump exit")[1:-1]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("%x = mov 5\n%y = mul.lo %x, 6\nst.global [0], %y", "st.global [0], 30"),
        ("%x = mov param.1\n%y = add %x, 4294967295\nst.global [0], %y", "st.global [0], param.1 - 1"),
        ("%y = mul.lo param.1, 12\nst.global [0], %y", "st.global [0], 12*param.1"),
        ("%x = sub %tid.x, %tid.x\nst.global [0], %x", "st.global [0], 0"),
        (
            "%x = add %tid.x, param.0\n%v = ld.global [%x + 3]\n"
            "st.global [0], %v",
            "%v = ld.global [%tid.x + param.0 + 3]",
        ),
        ("%v = ld.global [0]\n%y = mul.lo %v, 8\nst.global [0], %y", "%y = shl %v, 3"),
        ("%v = ld.global [0]\n%y = mul.hi.u 65536, %v\nst.global [0], %y", "%y = shr.u %v, 16"),
        (
            "%v = ld.global [0]\n%n = lop.0x3 %v, 0\n"
            "%y = lop.0x8 %tid.x, %n\nst.global [0], %y",
            "%y = lop.0x4 %tid.x, %v",
        ),
        ("%v = ld.global [0]\n%y = lop.0x6 %v, %v\nst.global [0], %y", "st.global [0], 0"),
        ("%v = ld.global [0]\n%y = shr.u %v, 40\nst.global [0], %y", "st.global [0], 0"),
        ("%v = ld.global [0]\n%y = shr.s %v, 40\nst.global [0], %y", "%y = shr.s %v, 31"),
        (
            "%v = ld.global [0]\n%q = set.lt.u %v, 4\n%r = plop.0x3 %q, true\n"
            "%y = sel %r, 1, 2\nst.global [0], %y",
            "%r = set.ge.u %v, 4",
        ),
        ("%v = ld.global [0]\n%q = set.eq %v, %v\n%y = sel %q, 1, 2\nst.global [0], %y", "st.global [0], 1"),
        (
            "%v = ld.global [0]\n%p = set.lt.u %v, 4\n%s = set.lt.s %v, 4\n"
            "%q = plop.0x6 %p, %s\n%r = plop.0x3 %q, true\nst.global [0], %v if %r",
            "st.global [0], %v if not %q",
        ),
    ],
)  # fmt: skip
def test_simplify(body: str, expected: str) -> None:
    assert expected in straight(cleanup.run, body)


def test_simplify_drops_a_store_that_never_happens() -> None:
    body = "%q = set.eq 1, 2\nst.global [0], 7 if %q"
    assert straight(cleanup.run, body) == []


def test_simplify_knows_a_branch_predicate_behind_the_branch() -> None:
    text = """
    entry:
        %v = ld.global [0]
        %q = set.eq %v, 3
        branch %q, yes, no
    yes:
        %y = sel %q, 1, 2
        st.global [1], %y
        jump exit
    no:
        %y = sel %q, 1, 2
        st.global [1], %y
        jump exit
    """
    lines = lines_after(cleanup.run, text)
    assert "st.global [1], 1" in lines and "st.global [1], 2" in lines


def test_copies_do_not_survive_a_change_of_their_original() -> None:
    text = """
    entry:
        %x = ld.global [0]
        %y = mov %x
        %x = add %x, 1
        st.global [1], %y
        st.global [2], %x
        jump exit
    """
    assert "st.global [1], %y" in lines_after(simplify.run, text)


def test_dead_code_removes_a_counter_that_feeds_only_itself() -> None:
    text = """
    entry:
        %i = mov 0
        %j = mov 0
        jump loop
    loop:
        %i = add %i, 1
        %j = add %j, 2
        %q = set.lt.u %j, 9
        branch %q, loop, exit
    """
    assert not any("%i" in line for line in lines_after(dead_code.run, text))


def test_coalesce_computes_in_place() -> None:
    body = "%r = ld.global [0]\n%t = add %r, 1\n%r = mov %t\nst.global [%r], %t"
    assert straight(coalesce.run, body) == [
        "%r = ld.global [0]",
        "%r = add %r, 1",
        "st.global [%r], %r",
    ]


def narrowed(function: Function, spec: MachineSpec) -> Function:
    return cleanup.run(address_narrowing.run(cleanup.run(function, spec), spec), spec)


def test_narrowing_folds_base_and_index() -> None:
    body = (
        "%b = shl %tid.x, 2\n%p = add %b, param.0\n%p = add %p, 8\n"
        "%w = shr.u %p, 2\n%v = ld.global [%w]\nst.global [0], %v"
    )
    assert straight(narrowed, body)[0] == "%v = ld.global [%tid.x + (param.0 + 8)>>2]"


def test_narrowing_counts_a_loop_pointer_in_words() -> None:
    text = """
    entry:
        %p = mov param.0
        %i = mov 0
        jump loop
    loop:
        %w = shr.u %p, 2
        st.global [%w], %i
        %p = add %p, 4
        %i = add %i, 1
        %q = set.lt.u %i, 3
        branch %q, loop, exit
    """
    lines = lines_after(narrowed, text)
    assert "%pw = add %pw, 1" in lines
    assert not any("shr.u" in line or "add %p," in line for line in lines)


def test_narrowing_keeps_the_shift_of_a_pointer_that_is_also_compared() -> None:
    text = """
    entry:
        %p = mov param.0
        jump loop
    loop:
        %w = shr.u %p, 2
        st.global [%w], 1
        %p = add %p, 4
        %q = set.ne %p, param.2
        branch %q, loop, exit
    """
    lines = lines_after(narrowed, text)
    assert "%w = shr.u %p, 2" in lines and not any("%pw" in line for line in lines)


@pytest.mark.parametrize(
    "body",
    [
        "%b = ld.global [0]\n%w = shr.u %b, 2\nst.global [1], %w",
        "%b = shl %tid.x, 2\n%w = shr.u %b, 2\nst.global [1], %w",
        "%b = add %tid.x, 2\n%w = shr.u %b, 2\n%v = ld.global [%w]\nst.global [1], %v",
    ],
)
def test_narrowing_leaves_other_shifts(body: str) -> None:
    assert any(line.startswith("%w = shr.u") for line in straight(narrowed, body))


def test_jump_threading_skips_and_merges() -> None:
    text = """
    entry:
        %q = set.eq %tid.x, 0
        branch %q, a, b
    a:
        jump c
    c:
        st.global [0], 1
        jump d
    d:
        jump exit
    b:
        jump d
    """
    assert lines_after(jump_threading.run, text) == [
        "entry:",
        "%q = set.eq %tid.x, 0",
        "branch %q, c, exit",
        "c:",
        "st.global [0], 1",
        "jump exit",
    ]


def test_strength_expands_times_three() -> None:
    body = "%v = ld.global [0]\n%m = mul.lo %v, 3\n%y = add %m, 1\nst.global [0], %y"
    lines = straight(strength.run, body)
    assert not any("mul" in line for line in lines) and len(lines) == 6


DIAMOND = """
    entry:
        %v = ld.global [%tid.x]
        %q = set.lt.s %v, 0
        branch %q, neg, pos
    neg:
        %r = sub 0, %v
        jump end
    pos:
        %r = add %v, 1
        jump end
    end:
        st.global [%tid.x], %r
        jump exit
    """


def test_hyperblocks_convert_a_diamond_to_a_select() -> None:
    lines = lines_after(hyperblocks.run, DIAMOND)
    assert [line for line in lines if line.endswith(":")] == ["entry:"]
    assert sum(" = sel " in line for line in lines) == 1


def test_hyperblocks_guard_the_store_of_one_side() -> None:
    text = """
    entry:
        %q = set.lt.s %tid.x, param.1
        branch %q, body, exit
    body:
        st.global [%tid.x], 1
        jump exit
    """
    assert "st.global [%tid.x], 1 if %q" in lines_after(hyperblocks.run, text)


def test_hyperblocks_never_put_two_stores_together() -> None:
    text = """
    entry:
        %q = set.lt.s %tid.x, param.1
        branch %q, a, b
    a:
        st.global [%tid.x], 1
        jump exit
    b:
        st.global [%tid.x + 8], 1
        jump exit
    """
    function = hyperblocks.run(mir(text), CLASSIC)
    assert all(sum(str(i.op) == "st.global" for i in block.instructions) < 2 for block in function.blocks)


def test_rematerialisation_recomputes_an_index() -> None:
    text = """
    entry:
        %i = add %tid.x, 8
        %v = ld.global [%i]
        %q = set.eq %v, 0
        branch %q, exit, more
    more:
        %u = ld.global [0]
        st.global [1], %u
        jump last
    last:
        st.global [%i], 2
        jump exit
    """
    lines = lines_after(rematerialisation.run, text)
    assert lines.count("%i = add %tid.x, 8") == 2


def annotated(run: Callable[[Function, MachineSpec], Function], text: str, note: str) -> set[str]:
    """Registers that have a definition with the annotation."""
    return {line.split(" = ")[0] for line in lines_after(run, text) if "{" in line and note in line}


LOOP = """
    entry:
        %n = ld.global [%tid.x]
        %i = mov 0
        %s = mov 0
        jump loop
    loop:
        %i = add %i, 1
        %u = ld.global [%i]
        %s = add %s, %u
        %q = set.lt.u %i, LIMIT
        branch %q, loop, after
    after:
        %j = add %i, 1
        %c = add %ctaid.x, 1
        st.global [%tid.x], %j
        st.global [%tid.x], %c
        st.global [%tid.x], %s
        jump exit
    """


def test_a_counter_is_uniform_in_a_loop_whose_end_is_uniform() -> None:
    assert annotated(uniformity.run, LOOP.replace("LIMIT", "param.1"), "uniform") == {
        "%i", "%s", "%u", "%j", "%c"
    }  # fmt: skip


def test_a_counter_is_not_uniform_after_lanes_left_at_different_times() -> None:
    """Inside, the lanes that are left go together; behind the loop they meet with different counts."""
    assert annotated(uniformity.run, LOOP.replace("LIMIT", "%n"), "uniform") == {"%i", "%s", "%u", "%c"}


def test_nothing_that_changes_is_uniform_in_a_loop_that_contains_a_divergent_branch() -> None:
    text = """
    entry:
        %i = mov 0
        %v = ld.global [%tid.x]
        jump loop
    loop:
        %i = add %i, 1
        %q = set.lt.u %v, %i
        branch %q, odd, latch
    odd:
        st.global [%tid.x], %i
        jump latch
    latch:
        %r = set.lt.u %i, 9
        branch %r, loop, exit
    """
    lines = lines_after(uniformity.run, text)
    assert "%i = mov 0 {uniform}" in lines and "%i = add %i, 1" in lines


def test_widths_bound_a_counter_by_a_constant() -> None:
    bounded = lines_after(widths.run, LOOP.replace("LIMIT", "100"))
    assert {"%i = add %i, 1 {narrow}", "%j = add %i, 1 {narrow}", "%s = add %s, %u"} <= set(bounded)
    assert "%i = add %i, 1" in lines_after(widths.run, LOOP.replace("LIMIT", "param.1"))
    assert "%i = add %i, 1" in lines_after(widths.run, LOOP.replace("LIMIT", "70000"))


@pytest.mark.parametrize(
    ("line", "narrow"),
    [
        ("%r = lop.0x8 %v, 65535", True),
        ("%r = lop.0x8 %v, 65536", False),
        ("%r = shr.u %v, 16", True),
        ("%r = shr.u %v, 15", False),
        ("%r = shr.s %v, 16", False),
        ("%r = popc %v", True),
        ("%r = min.u %v, 65535", True),
        ("%r = min.s %v, 65535", False),
        ("%r = lop.0x3 %tid.x, 0", False),
        ("%r = sub 0, %tid.x", False),
        ("%r = sub 31, %tid.x", True),
        ("%r = mul.lo %ctaid.x, ntid.x", True),
        ("%r = mul.lo %ctaid.x, param.1", False),
        ("%r = shl %tid.x, 11", True),
        ("%r = shl %tid.x, 12", False),
        ("%r = mov (param.0)>>2", True),
        ("%r = mul.hi.u %v, 65536", True),
    ],
)
def test_widths_of_single_operations(line: str, narrow: bool) -> None:
    body = f"%v = ld.global [0]\n{line}\nst.global [0], %r"
    assert (line + " {narrow}" in straight(widths.run, body)) == narrow


PTX = """
.version 7.0
.target sm_70
.address_size 32
.visible .entry k(.param .u32 .ptr .align 4 a, .param .u32 n)
{
    .reg .pred %p<3>;
    .reg .b32 %r<9>;
    BODY
    ret;
}
"""


def test_lowering_handles_guards_swaps_and_pairs() -> None:
    body = """
    ld.param.u32 %r1, [a]; ld.param.u32 %r2, [n];
    setp.gt.s32 %p1|%p2, %r2, 3;
    mov.u32 %r3, 1;
    @!%p1 add.s32 %r3, %r3, %r2;
    @%p2 st.global.u32 [%r1+4], %r3;
    """
    kernel = parse_ptx(PTX.replace("BODY", body)).entries[0]
    function = pipeline.optimise(lower_ptx.run(kernel, CLASSIC, "k.ptx"), CLASSIC)
    text = print_mir(function)
    assert "set.lt.s 3, param.1" in text and "[(param.0 + 4)>>2]" in text and "if %q2" in text


@pytest.mark.parametrize(
    "line",
    [
        "add.f32 %r1, %r2, %r3;",
        "ld.global.f32 %r1, [%r2];",
        "atom.global.add.f32 %r1, [%r2], %r3;",
        "mov.u32 %r1, %clock;",
    ],
)
def test_lowering_refuses_with_the_line(line: str) -> None:
    with pytest.raises(CompileError) as caught:
        lower_ptx.run(parse_ptx(PTX.replace("BODY", line), "k.ptx").entries[0], CLASSIC)
    assert caught.value.location is not None and caught.value.location.line == 9
    assert caught.value.hint
