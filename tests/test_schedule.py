"""The scheduler's parts: packing, cuts, layout, registers, and what is refused."""

import pytest

from toolchain.errors import CompileError, SourceLocation
from toolchain.launch import ArrayArgument, Launch, ScalarArgument
from toolchain.machine_spec import CLASSIC, NANO
from toolchain.mir.emit_rom import compile_mir
from toolchain.mir.interpreter import run_launch
from toolchain.mir.ir import Function, MirOp
from toolchain.mir.isa import Op
from toolchain.mir.layout import layout, ordered, split_joins
from toolchain.mir.regalloc import coalesce
from toolchain.mir.rom import RomImage
from toolchain.mir.schedule import schedule
from toolchain.mir.schedule_dag import build_dag
from toolchain.mir.text import parse_mir
from toolchain.mir.verifier import verify

HEADER = 'kernel k from "k.cu"\nparam a: word 0, words 1, pointer\nparam n: word 1, words 1\n'


def mir(body: str) -> Function:
    function = parse_mir(HEADER + body)
    verify(function)
    return function


def launch(words: tuple[int, ...], n: int = 0, threads: int = 1) -> Launch:
    return Launch((1, 1, 1), (threads, 1, 1), (ArrayArgument("a", words, "u32"), ScalarArgument("n", n)))


def compiled(body: str) -> RomImage:
    return compile_mir(mir(body), NANO)


DOT = """
entry:
    %s = mov 0 {uniform, narrow}
    %i = mov 0 {uniform, narrow}
    jump loop
loop:
    %x = ld.global [%i + (param.0)>>2]
    %y = ld.global [%i + (param.0 + 12)>>2]
    %m = mul.lo %x, %y
    %s2 = add %s, %m
    %i2 = add %i, 1
    %q = set.lt.s %i2, param.1
    %s = mov %s2
    %i = mov %i2
    branch %q, loop, done
done:
    st.global [(param.0 + 24)>>2], %s
    jump exit
"""


@pytest.mark.parametrize("spec", [NANO, CLASSIC], ids=lambda spec: spec.name)
def test_dot_product_takes_a_block_an_iteration(spec) -> None:
    rom = compile_mir(mir(DOT), spec)
    result = run_launch(rom, spec, launch((1, 2, 3, 4, 5, 6, 0), 3))
    assert result.memory[6] == 32
    assert len(rom.blocks) == 3
    assert len(result.tokens) <= 24


def test_copies_cost_nothing_where_names_can_be_shared() -> None:
    rom = compiled(DOT)
    assert [len(block.returns) for block in rom.blocks] == [2, 2, 0]
    assert all(
        item.op is not MirOp.MOV for block in coalesce(mir(DOT)).blocks[1:] for item in block.instructions
    )


def test_values_that_die_inside_a_block_are_not_returned() -> None:
    rom = compiled("""
entry:
    %x = ld.global [%tid.x + (param.0)>>2]
    %y = mul.lo %x, 3
    %z = add %y, 1
    st.global [%tid.x + (param.0)>>2], %z
    jump exit
""")
    (block,) = rom.blocks
    assert block.returns == ()


def test_a_cheap_value_is_computed_again_rather_than_returned() -> None:
    rom = compiled("""
entry:
    %t = add %tid.x, 1
    st.global [%t + (param.0)>>2], 5
    st.global [%t + (param.0 + 8)>>2], 6
    jump exit
""")
    assert [block.returns for block in rom.blocks] == [(), ()]


def test_equal_operations_are_done_once() -> None:
    block = mir("""
entry:
    %a = add %tid.x, 1
    %b = add %tid.x, 1
    %c = mul.lo %a, %b
    st.global [(param.0)>>2], %c
    jump exit
""").blocks[0]
    assert [node.op for node in build_dag(block, ()).nodes] == [Op.ADD, "mul.lo", MirOp.STORE]


def test_loads_stay_behind_stores_and_stores_in_order() -> None:
    body = """
entry:
    st.global [%tid.x + (param.0)>>2], 7
    %x = ld.global [(param.0)>>2]
    st.global [%tid.x + (param.0)>>2], 8
    st.global [%tid.x + (param.0 + 4)>>2], %x
    jump exit
"""
    result = run_launch(compiled(body), NANO, launch((1, 2)))
    assert result.memory[:2] == (8, 7)


def test_swaps_keep_the_old_values() -> None:
    body = """
entry:
    %a = ld.global [(param.0)>>2]
    %b = ld.global [(param.0 + 4)>>2]
    %i = mov 0
    jump loop
loop:
    %t = mov %a
    %a = mov %b
    %b = mov %t
    %i = add %i, 1
    %q = set.lt.u %i, param.1
    branch %q, loop, done
done:
    st.global [(param.0)>>2], %a
    st.global [(param.0 + 4)>>2], %b
    jump exit
"""
    rom = compiled(body)
    assert run_launch(rom, NANO, launch((1, 2), 3)).memory[:2] == (2, 1)
    assert run_launch(rom, NANO, launch((1, 2), 4)).memory[:2] == (1, 2)


def test_old_values_survive_long_blocks() -> None:
    """A register is rewritten early, from itself, and its old value is needed after many more operations."""
    lines = ["    %b = add %a, 1"] + [f"    %h{i} = shl %h{i - 1}, 1" for i in range(1, 9)]
    body = (
        "\nentry:\n    %a = ld.global [(param.0)>>2]\n    %h0 = mov %a\n    jump loop\nloop:\n"
        + "\n".join(lines)
        + "\n    %c = add %h8, %a\n    st.global [(param.0)>>2], %c\n    %a = mov %b\n    %h0 = mov %b\n"
        + "    %q = set.lt.u %a, param.1\n    branch %q, loop, exit\n"
    )
    result = run_launch(compiled(body), NANO, launch((1,), 3))
    assert result.memory[0] == 2 + (2 << 8)


# --- Layout


def labels(function: Function) -> list[str]:
    return [block.label for block in function.blocks]


TWO_BACK_EDGES = """
entry:
    %i = mov 0
    jump head
head:
    %q = set.eq %tid.x, %i
    branch %q, one, two
one:
    %i = add %i, 1
    %p = set.lt.u %i, 5
    branch %p, head, exit
two:
    %i = add %i, 2
    %p = set.lt.u %i, 5
    branch %p, head, done
done:
    st.global [%tid.x + (param.0)>>2], %i
    jump exit
"""


def test_what_follows_a_loop_is_behind_it() -> None:
    body = """
entry:
    %i = mov 0
    %q = set.lt.u %tid.x, 1
    branch %q, after, loop
after:
    st.global [%tid.x + (param.0)>>2], %i
    jump exit
loop:
    %i = add %i, 1
    %p = set.lt.u %i, %tid.x
    branch %p, loop, after
"""
    assert labels(layout(mir(body))) == ["entry", "loop", "after"]


def test_sides_that_meet_at_the_header_get_a_latch() -> None:
    body = """
entry:
    %i = mov 0
    jump head
head:
    %p = set.lt.u %i, 5
    branch %p, body, done
body:
    %q = set.eq %tid.x, %i
    branch %q, one, two
one:
    %i = add %i, 1
    jump head
two:
    %i = add %i, 2
    jump head
done:
    st.global [%tid.x + (param.0)>>2], %i
    jump exit
"""
    assert list(split_joins(ordered(mir(body)))) == ["head"]
    function = layout(mir(body))
    assert labels(function) == ["entry", "head", "body", "two", "one", "head.latch", "done"]
    assert not list(split_joins(function))
    result = run_launch(compiled(body), NANO, launch((0, 0, 0), threads=3))
    assert result.memory[:3] == (5, 6, 5)


def test_sides_stand_before_the_block_they_meet_in() -> None:
    function = layout(mir(TWO_BACK_EDGES))
    assert not list(split_joins(function))
    result = run_launch(compile_mir(mir(TWO_BACK_EDGES), NANO), NANO, launch((0, 0, 0), threads=3))
    assert result.memory[:3] == (5, 6, 5)


def test_straight_lines_are_joined_and_empty_blocks_dropped() -> None:
    body = """
entry:
    %a = mov 1
    jump one
one:
    jump two
two:
    %q = set.eq %tid.x, %a
    branch %q, three, four
three:
    jump four
four:
    st.global [(param.0)>>2], %a
    jump exit
"""
    assert labels(layout(mir(body))) == ["entry"]


def test_lanes_meet_after_a_branch() -> None:
    body = """
entry:
    %r = mov 1
    %q = set.eq %tid.x, 0
    branch %q, low, high
high:
    %x = ld.global [%tid.x + (param.0)>>2]
    %r = mul.lo %x, %r
    jump join
low:
    %r = mov 2
    jump join
join:
    st.global [%tid.x + (param.0)>>2], %r
    jump exit
"""
    result = run_launch(compiled(body), NANO, launch((5, 6), threads=2))
    assert result.memory[:2] == (2, 6)
    masks = [token.mask for token in result.tokens[:-1] if token.kind == "EXEC"]
    assert sorted(masks[1:3]) == [0b01, 0b10]
    assert (masks[0], masks[3]) == (0b11, 0b11)


# --- What does not fit


def many_values(count: int) -> str:
    loads = [f"    %v{i} = ld.global [%j{i}]    ; k.cu:{10 + i}" for i in range(count)]
    indices = [f"    %j{i} = add %v{i}, {i}" for i in range(count)]
    stores = [f"    st.global [(param.0)>>2], %v{i}" for i in range(count)]
    first = "\n".join(f"    %j{i} = mov {i}" for i in range(count))
    return (
        f"\nentry:\n{first}\n    jump loop\nloop:\n"
        + "\n".join(loads + indices)
        + "\n    %q = set.eq %v0, 7\n    branch %q, loop, done\ndone:\n"
        + "\n".join(stores)
        + "\n    jump exit\n"
    )


def test_too_many_registers_are_refused_with_the_place() -> None:
    with pytest.raises(CompileError) as caught:
        compiled(many_values(16))
    assert caught.value.limit == "registers"
    assert "registers at once at k.cu:" in caught.value.message
    assert "the machine has 15" in caught.value.message
    assert caught.value.location is not None and caught.value.location.file == "k.cu"


def test_as_many_registers_as_there_are_fit() -> None:
    assert len(compiled(many_values(7)).blocks) <= NANO.blocks


def test_too_many_blocks_are_refused_with_the_place() -> None:
    stores = "\n".join(f"    st.global [(param.0 + {4 * i})>>2], %tid.x    ; k.cu:{i + 1}" for i in range(40))
    with pytest.raises(CompileError) as caught:
        compiled(f"\nentry:\n{stores}\n    jump exit\n")
    assert caught.value.limit == "blocks"
    assert caught.value.message == "the kernel needs 40 program blocks, machine 'nano' has 32 (8 too many)"
    assert caught.value.location == SourceLocation("k.cu", 1)


def test_schedules_are_stable() -> None:
    function = layout(mir(DOT))
    assert schedule(function, NANO) == schedule(function, NANO)
    assert compile_mir(mir(DOT), NANO) == compile_mir(mir(DOT), NANO)
