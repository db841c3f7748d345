"""Spilling: kernels with more values than registers run, and leave what Python says."""

import random
from dataclasses import replace

import pytest

from tests.random_mir import ProgramMaker, launch_for
from toolchain.errors import CompileError
from toolchain.launch import ArrayArgument, Launch
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec
from toolchain.mir.emit_rom import compile_mir
from toolchain.mir.interpreter import run_launch
from toolchain.mir.ir import Function, Predicate, Register
from toolchain.mir.isa import Op
from toolchain.mir.layout import layout
from toolchain.mir.mir_interpreter import run_mir
from toolchain.mir.regalloc import coalesce
from toolchain.mir.schedule_dag import build_dag
from toolchain.mir.spill import hold_predicates, spill
from toolchain.mir.text import parse_mir
from toolchain.mir.verifier import verify

SPECS = pytest.mark.parametrize("spec", [NANO, CLASSIC], ids=lambda spec: spec.name)
HEAD = 'kernel k from "k.cu"\nparam a: word 0, words 1, pointer\n'
FEW_REGISTERS = replace(CLASSIC, name="few", registers=8)


def mir(body: str, head: str = "") -> Function:
    function = parse_mir(HEAD + head + body)
    verify(function)
    return function


def launch(words: list[int], threads: int) -> Launch:
    return Launch((1, 1, 1), (threads, 1, 1), (ArrayArgument("a", tuple(words), "u32"),))


def many_values(count: int) -> Function:
    """Values loaded before a loop, kept over it, and combined in order after it."""
    loads = [f"    %v{i} = ld.global [%tid.x + (param.0 + {4 * i})>>2]" for i in range(count)]
    sums = [
        line
        for i in range(count)
        for line in (f"    %m{i} = mul.lo %s, 3", f"    %s{i} = add %m{i}, %v{i}", f"    %s = mov %s{i}")
    ]
    body = f"""
entry:
{chr(10).join(loads)}
    %i = mov 0
    %s = mov %tid.x
    jump loop
loop:
    %s1x = add %s, %i
    %s = lop.0x6 %s1x, 5
    %i = add %i, 1
    %more = set.lt.u %i, 4
    branch %more, loop, end
end:
{chr(10).join(sums)}
    st.global [%tid.x + (param.0)>>2], %s
    jump exit
"""
    return mir(body)


def expected(words: list[int], count: int, threads: int) -> list[int]:
    result = list(words)
    for thread in range(threads):
        total = thread
        for step in range(4):
            total = (total + step) ^ 5
        for index in range(count):
            total = (3 * total + words[thread + index]) & 0xFFFFFFFF
        result[thread] = total
    return result


@SPECS
@pytest.mark.parametrize("count", [10, 18])
def test_more_values_than_registers(spec: MachineSpec, count: int) -> None:
    threads = 2
    words = [(i * i + 3) << (i % 24) for i in range(count + threads)]
    rom = compile_mir(many_values(count), spec)
    assert (rom.local_words > 0) == (count > spec.registers - 1)
    at = launch(words, threads)
    assert list(run_launch(rom, spec, at).memory[: len(words)]) == expected(words, count, threads)


def test_each_thread_has_words_of_its_own_after_the_kernels_local_arrays() -> None:
    function = mir(
        """
entry:
    %x = add %tid.x, 7
    %q = set.lt.u %x, 9
    branch %q, small, large
small:
    %x = add %x, 100
    jump large
large:
    st.global [%tid.x + (param.0)>>2], %x
    jump exit
""",
        "shared 3, local 2\n",
    )
    spilled = spill(function, (Register("x"),), NANO).function
    verify(spilled)
    assert spilled.local_words == 3
    stores = [
        item for block in spilled.blocks for item in block.instructions if item.is_store and item.is_shared
    ]
    assert {str(item.offset.terms[0][0]) for item in stores} == {"local.base"}
    assert {item.offset.addend for item in stores} == {8}  # the third word
    at = launch([0] * 5, 5)
    assert run_mir(spilled, NANO, at).memory[:5] == (107, 108, 9, 10, 11)


def test_a_value_used_at_once_is_neither_stored_nor_loaded() -> None:
    function = mir(
        "entry:\n    %x = ld.global [0]\n    %y = add %x, 1\n    st.global [0], %y\n    jump exit\n"
    )
    spilled = spill(function, (Register("x"),), NANO).function
    assert [item.op for item in spilled.blocks[0].instructions[3:]] == [Op.LOAD, Op.ADD, "st.global"]


def test_reloads_are_not_shared_and_ordered_only_with_their_own_word() -> None:
    function = mir(
        """
entry:
    %x = ld.shared [%frame + (local.base + 4)>>2]
    st.shared [%frame + (local.base)>>2], %tid.x
    %y = ld.shared [%frame + (local.base + 4)>>2]
    %z = ld.shared [%frame + (local.base)>>2]
    %s = add %x, %y
    %t = add %s, %z
    st.global [0], %t
    jump exit
""".replace("entry:\n", "entry:\n    %frame = mov 1\n    jump body\nbody:\n")
    )
    nodes = build_dag(function.block("body"), (), frame=Register("frame")).nodes
    loads = [node for node in nodes if node.is_load]
    store = next(index for index, node in enumerate(nodes) if node.is_store)
    assert len(loads) == 3
    assert [node.strict for node in loads] == [(), (), (store,)]
    merged = build_dag(function.block("body"), ()).nodes
    assert [bool(node.strict) for node in merged if node.is_load] == [False, True, True]


PREDICATES = """
entry:
    %v = ld.global [%tid.x + (param.0)>>2]
    TESTS
    %i = mov 0
    jump loop
loop:
    %i = add %i, 1
    %more = set.lt.u %i, %v
    branch %more, loop, end
end:
    %s0 = mov 0
    SUMS
    st.global [%tid.x + (param.0)>>2], %sLAST
    jump exit
"""


@SPECS
@pytest.mark.parametrize("count", [3, 9])
def test_more_predicates_than_there_are(spec: MachineSpec, count: int) -> None:
    """Each is set before a loop and read after it."""
    tests = "\n    ".join(f"%p{i} = set.lt.u %v, {3 * i + 1}" for i in range(count))
    sums = "\n    ".join(
        f"%d{i} = sel %p{i}, {1 << i}, 0\n    %s{i + 1} = add %s{i}, %d{i}" for i in range(count)
    )
    body = PREDICATES.replace("TESTS", tests).replace("SUMS", sums).replace("LAST", str(count))
    words = [5, 1, 11, 0, 25][: spec.lanes + 1]
    rom = compile_mir(mir(body), spec)
    result = run_launch(rom, spec, launch(words, len(words)))
    wanted = [sum((value < 3 * i + 1) << i for i in range(count)) for value in words]
    assert list(result.memory[: len(words)]) == wanted


def test_a_held_predicate_is_a_number_between_blocks() -> None:
    body = PREDICATES.replace("TESTS", "%p = set.lt.u %v, 3").replace("LAST", "1")
    function = mir(body.replace("SUMS", "%s1 = sel %p, 1, %s0"))
    held = hold_predicates(function, (Predicate("p"),))
    verify(held)
    assert [item.op for item in held.block("entry").instructions[1:3]] == [Op.SET_LT_U, Op.SEL]
    assert [item.op for item in held.block("end").instructions[1:3]] == [Op.SET_NE, Op.SEL]


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_on_a_machine_of_few_registers(seed: int) -> None:
    rng = random.Random(seed)
    private = bool(seed % 2)
    function = ProgramMaker(rng, private=private, registers=7, size=3).function()
    at = launch_for(FEW_REGISTERS, rng)
    try:
        rom = compile_mir(function, FEW_REGISTERS)
    except CompileError as error:
        assert error.limit == "blocks"
        return
    reference = function if private else layout(coalesce(layout(function)))
    assert run_launch(rom, FEW_REGISTERS, at).memory == run_mir(reference, FEW_REGISTERS, at).memory


def test_some_random_programs_spill() -> None:
    spilled = 0
    for seed in range(8):
        function = ProgramMaker(random.Random(seed), private=True, registers=7, size=3).function()
        try:
            spilled += compile_mir(function, FEW_REGISTERS).local_words > 0
        except CompileError as error:
            assert error.limit == "blocks"
    assert spilled >= 2
