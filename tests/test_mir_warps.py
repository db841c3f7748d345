"""Shared memory, barriers, atomics, shuffles and ballots in MIR: hand-written kernels with their own references.

Each kernel runs in the MIR interpreter, before and after optimisation, and on the machine.
"""

import random

import pytest

from tests.random_mir import ProgramMaker, launch_for
from toolchain.errors import CompileError, VerifyError
from toolchain.launch import ArrayArgument, Launch
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec
from toolchain.mir import hyperblocks, liveness, pipeline, uniformity
from toolchain.mir.emit_rom import compile_mir
from toolchain.mir.hyperblock import FreshNames, absorb
from toolchain.mir.interpreter import MachineFault, run_launch
from toolchain.mir.ir import Function, MirOp
from toolchain.mir.isa import Op
from toolchain.mir.layout import layout
from toolchain.mir.mir_interpreter import run_mir
from toolchain.mir.text import parse_mir, print_mir
from toolchain.mir.verifier import verify

SPECS = pytest.mark.parametrize("spec", [NANO, CLASSIC], ids=lambda spec: spec.name)
HEAD = 'kernel k from "k.cu"\nparam a: word 0, words 1, pointer\n'


def mir(body: str, head: str = "") -> Function:
    function = parse_mir(HEAD + head + body)
    verify(function)
    assert parse_mir(print_mir(function)) == function
    return function


def launch(words: list[int], threads: int, grid: int = 1) -> Launch:
    return Launch((grid, 1, 1), (threads, 1, 1), (ArrayArgument("a", tuple(words), "u32"),))


def check(function: Function, spec: MachineSpec, at: Launch, expected: list[int]) -> None:
    """Every level leaves `expected` in the array."""
    best = pipeline.optimise(function, spec)
    assert list(run_mir(function, spec, at).memory[: len(expected)]) == expected
    assert list(run_mir(layout(best), spec, at).memory[: len(expected)]) == expected
    for version in (function, best):
        assert list(run_launch(compile_mir(version, spec), spec, at).memory[: len(expected)]) == expected


REVERSE = """
entry:
    %b = shl %tid.x, 2
    %g = add %b, param.0
    %gw = shr.u %g, 2
    %v = ld.global [%gw]
    %sw = shr.u %b, 2
    st.shared [%sw], %v
    barrier after
after:
    %last = mov ntid.x - 1
    %other = sub %last, %tid.x
    %ob = shl %other, 2
    %ow = shr.u %ob, 2
    %w = ld.shared [%ow]
    st.global [%gw], %w
    jump exit
"""


@SPECS
def test_shared_memory_and_a_barrier_reverse_a_block(spec: MachineSpec) -> None:
    threads = spec.lanes * 2 + 1
    words = [100 + 7 * i for i in range(threads)]
    check(mir(REVERSE, "shared 32, local 0\n"), spec, launch(words, threads), words[::-1])


def test_shared_addresses_are_narrowed_to_words() -> None:
    best = pipeline.optimise(mir(REVERSE, "shared 32, local 0\n"), NANO)
    assert not [i for block in best.blocks for i in block.instructions if i.op in (Op.SHL, Op.SHR_U)]


SUM_TREE = """
entry:
    %v = ld.global [%tid.x + (param.0)>>2]
    %a = mov %tid.x
    st.shared [%a], %v
    %step = mov ntid.x
    jump loop
loop:
    %step = shr.u %step, 1
    barrier half
half:
    %mine = set.lt.u %tid.x, %step
    branch %mine, add, next
add:
    %i = add %tid.x, %step
    %x = ld.shared [%tid.x]
    %y = ld.shared [%i]
    %s = add %x, %y
    st.shared [%a], %s
    jump next
next:
    %more = set.lt.u 1, %step
    branch %more, loop, end
end:
    %first = set.eq %tid.x, 0
    branch %first, write, exit
write:
    %t = ld.shared [0]
    st.global [(param.0)>>2], %t
    jump exit
"""


@SPECS
def test_tree_reduction_has_barriers_in_a_uniform_loop(spec: MachineSpec) -> None:
    threads = spec.lanes * 4
    words = [3 * i * i + 1 for i in range(threads)]
    check(mir(SUM_TREE, "shared 32, local 0\n"), spec, launch(words, threads), [sum(words), *words[1:]])


COUNT = """
entry:
    %v = ld.global [%tid.x + (param.0)>>2]
    %bin = lop.0x8 %v, 3
    %odd = lop.0x8 %v, 1
    %p = set.ne %odd, 0
    %old = mov 99
    branch %p, bump, done
bump: serial
    %old = ld.SPACE [%bin + BASE]
    %new = add %old, 1
    st.SPACE [%bin + BASE], %new
    jump done
done:
    st.global [%tid.x + (param.0)>>2], %old
    jump exit
"""


@SPECS
@pytest.mark.parametrize("space", ["global", "shared"])
def test_atomics_give_each_lane_its_own_ticket(spec: MachineSpec, space: str) -> None:
    threads = spec.lanes * 2
    words = [(5 * i) % 7 for i in range(threads)]
    base = "(param.0 + 64)>>2" if space == "global" else "8"
    counts, tickets = [0] * 4, []
    for value in words:
        tickets.append(counts[value & 3] if value & 1 else 99)
        counts[value & 3] += value & 1
    expected = [*tickets, *([0] * (16 - threads)), *(counts if space == "global" else [0] * 4)]
    body = COUNT.replace("SPACE", space).replace("BASE", base)
    at = launch([*words, *([0] * (20 - threads))], threads)
    check(mir(body, "shared 12, local 0\n"), spec, at, expected)


CAS_LOOP = """
entry:
    %v = ld.global [%tid.x + (param.0 + 4)>>2]
    jump retry
retry:
    %seen = ld.global [(param.0)>>2]
    %m = mul.lo %seen, 3
    %want = add %m, %v
    jump cas
cas: serial
    %old = ld.global [(param.0)>>2]
    %same = set.eq %old, %seen
    st.global [(param.0)>>2], %want if %same
    TERMINATOR
again:
    branch %same, exit, retry
"""


@SPECS
@pytest.mark.parametrize("terminator", ["branch %same, exit, retry", "jump again"])
def test_compare_and_swap_loop_ends_when_every_lane_has_swapped(spec: MachineSpec, terminator: str) -> None:
    threads = spec.lanes + 1
    values = [10 + i for i in range(threads)]
    total = 1
    for value in values:  # lanes that fail see the new value at the next try, lowest first
        total = (3 * total + value) & 0xFFFFFFFF
    function = mir(CAS_LOOP.replace("TERMINATOR", terminator))
    check(function, spec, launch([1, *values], threads), [total, *values])


def test_lanes_meet_again_after_a_serial_block_that_ends_a_loop() -> None:
    """Without a latch the lowest lane would run the whole loop alone, and the ballot would see only it."""
    body = """
entry:
    %i = mov 0
    jump head
head:
    %votes = ballot true
    st.global [%tid.x + (param.0)>>2], %votes
    %i = add %i, 1
    %more = set.lt.u %i, 3
    branch %more, bump, exit
bump: serial
    %old = ld.shared [0]
    %new = add %old, 1
    st.shared [0], %new
    jump head
"""
    at = launch([0] * CLASSIC.lanes, CLASSIC.lanes)
    memory = run_launch(compile_mir(mir(body, "shared 1, local 0\n"), CLASSIC), CLASSIC, at).memory
    assert list(memory[: CLASSIC.lanes]) == [0b1111] * CLASSIC.lanes


WARP = """
entry:
    %v = ld.global [%tid.x + (param.0)>>2]
    %next = add %laneid, 1
    %n = shfl %v, %next
    %first = shfl %v, 0
    %odd = lop.0x8 %v, 1
    %p = set.ne %odd, 0
    %votes = ballot %p
    %all = ballot true
    %x = add %n, %first
    %shifted = shl %votes, 16
    %y = add %x, %shifted
    %high = shl %all, 24
    %z = add %y, %high
    st.global [%tid.x + (param.0)>>2], %z
    jump exit
"""


@SPECS
def test_shuffles_and_ballots(spec: MachineSpec) -> None:
    lanes = spec.lanes
    threads = 2 * lanes
    words = [5, 8, 2, 11, 7, 7, 4, 10][:threads]
    expected = []
    for thread in range(threads):
        warp = words[thread - thread % lanes :][:lanes]
        votes = sum((value & 1) << lane for lane, value in enumerate(warp))
        value = warp[(thread + 1) % lanes] + warp[0] + (votes << 16) + (((1 << lanes) - 1) << 24)
        expected.append(value)
    check(mir(WARP), spec, launch(words, threads), expected)


def test_what_warp_operations_give_is_described() -> None:
    """Ballots and broadcasts are the same in all lanes, a shuffle of a uniform value is a copy."""
    body = """
entry:
    %u = ld.global [(param.0)>>2]
    %v = ld.global [%tid.x + (param.0)>>2]
    %p = set.eq %v, 3
    %b = ballot %p
    %c = shfl %v, 2
    %d = shfl %v, %laneid
    %e = shfl %u, %laneid
    %s = add %b, %c
    %t = add %d, %e
    %r = add %s, %t
    st.global [(param.0)>>2], %r
    jump exit
"""
    entry = pipeline.optimise(mir(body), CLASSIC).blocks[0]
    found = {str(item.dest): item for item in entry.instructions if item.dest is not None}
    assert found["%b"].uniform and found["%b"].narrow
    assert found["%c"].uniform and not found["%c"].narrow
    assert not found["%d"].uniform
    shuffled = uniformity.run(mir(body), CLASSIC).blocks[0].instructions[6]
    assert shuffled.op is MirOp.MOV and shuffled.uniform


def test_a_value_of_a_serial_block_is_not_uniform() -> None:
    body = COUNT.replace("SPACE", "shared").replace("%bin + BASE", "0")
    function = uniformity.run(mir(body), CLASSIC)
    assert not any(item.uniform for item in function.block("bump").instructions)


def votes_of_a_side(spec: MachineSpec) -> tuple[Function, Launch, list[int]]:
    """A ballot on one side of a branch counts the lanes there, whatever is if-converted around it."""
    body = """
entry:
    %odd = lop.0x8 %tid.x, 1
    %p = set.ne %odd, 0
    %b = mov 0
    branch %p, side, join
side:
    %b = ballot true
    jump join
join:
    st.global [%tid.x + (param.0)>>2], %b
    jump exit
"""
    odd = sum(1 << lane for lane in range(spec.lanes) if lane % 2)
    expected = [odd if lane % 2 else 0 for lane in range(spec.lanes)]
    return mir(body), launch([9] * spec.lanes, spec.lanes), expected


@SPECS
def test_a_ballot_stays_on_its_side_of_a_branch(spec: MachineSpec) -> None:
    check(votes_of_a_side(spec)[0], spec, *votes_of_a_side(spec)[1:])


def test_a_shuffle_after_a_join_is_not_copied_into_the_sides() -> None:
    """It reads lanes that came from the other side."""
    body = """
entry:
    %odd = lop.0x8 %tid.x, 1
    %p = set.ne %odd, 0
    branch %p, one, two
one:
    %x = mul.lo %tid.x, %tid.x
    st.global [%tid.x + (param.0 + 64)>>2], %x
    jump join
two:
    %x = add %tid.x, 100
    st.global [%tid.x + (param.0 + 128)>>2], %x
    jump join
join:
    %o = lop.0x6 %laneid, 1
    %y = shfl %x, %o
    st.global [%tid.x + (param.0)>>2], %y
    jump exit
"""
    check(mir(body), CLASSIC, launch([0] * 40, 4), [1, 100, 9, 102])


MISSED = """
entry:
    %p = set.eq %tid.x, 0
    branch %p, wait, other
wait:
    barrier other
other:
    st.global [%tid.x + (param.0)>>2], 1
    jump exit
"""


def test_a_barrier_that_lanes_miss_is_an_error() -> None:
    function, at = mir(MISSED), launch([0, 0], 2)
    with pytest.raises(CompileError, match="miss the barrier"):
        run_mir(function, NANO, at)
    with pytest.raises(MachineFault, match="have not reached"):
        run_launch(compile_mir(function, NANO), NANO, at)


def test_barriers_and_serial_blocks_keep_their_place() -> None:
    """No pass takes them into another block."""
    for seed in range(8):
        function = ProgramMaker(random.Random(seed), private=True).function()
        best = hyperblocks.run(function, CLASSIC)
        serial = {block.label: len(block.instructions) for block in function.blocks if block.serial}
        kept = {block.label: len(block.instructions) for block in best.blocks if block.serial}
        assert kept.items() <= serial.items()


BROKEN = {
    "the entry cannot be serial": "entry: serial\njump exit\n",
    "cannot end in a barrier": "entry:\njump s\ns: serial\nbarrier exit\n",
    "cannot have warp operations": "entry:\njump s\ns: serial\n%v = ballot true\njump exit\n",
    "at most one store": "entry:\njump s\ns: serial\nst.global [0], 1\nst.shared [0], 1\njump exit\n",
    "cannot load what it has stored": (
        "entry:\njump s\ns: serial\nst.shared [0], 1\n%v = ld.shared [1]\njump exit\n"
    ),
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_serial_blocks_are_named(message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        verify(parse_mir(HEAD + BROKEN[message]))


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("variable t: words 1\nvariable t: words 2\n", "two variables are called 't'"),
        ("variable t: words 1 = 0x1, 0x2\n", "more initial words"),
    ],
)
def test_broken_declarations_are_named(head: str, message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        verify(parse_mir(HEAD + head + "entry:\njump exit\n"))


def test_a_serial_block_that_does_not_fit_one_machine_block_is_refused_with_its_line() -> None:
    chain = "\n".join(f"    %x{i + 1} = add %x{i}, %x{i}" for i in range(5))
    body = f"entry:\n    jump s\ns: serial\n    %x0 = ld.shared [0] ; k.cu:5:3\n{chain}\n    st.shared [0], %x5\n"
    with pytest.raises(CompileError, match="does not fit one machine block") as caught:
        compile_mir(mir(body + "    jump exit\n", "shared 1, local 0\n"), CLASSIC)
    assert caught.value.location is not None and caught.value.location.line == 5


def test_the_image_has_the_functions_declarations() -> None:
    head = "shared 3, local 2\nvariable table: words 4 = 0x1, 0x80000000\n"
    function = mir(
        "entry:\n    %v = ld.global [(global.table + 4)>>2]\n    st.global [0], %v\n    jump exit\n", head
    )
    rom = compile_mir(pipeline.optimise(function, NANO), NANO)
    assert (rom.shared_words, rom.local_words, rom.variables) == (3, 2, function.variables)


@SPECS
@pytest.mark.parametrize("seed", range(6))
def test_random_programs_keep_their_memory_through_all_passes(spec: MachineSpec, seed: int) -> None:
    rng = random.Random(seed)
    function = ProgramMaker(rng, private=True).function()
    at = launch_for(spec, rng)
    assert (
        run_mir(layout(pipeline.optimise(function, spec)), spec, at).memory
        == run_mir(function, spec, at).memory
    )


@pytest.mark.parametrize("line", ["sync.warp", "%y = shfl %x, 0", "%y = ballot true", "%y = add %x, 1"])
def test_what_concerns_the_warp_is_not_copied(line: str) -> None:
    """A copy would run apart from the original; plain arithmetic may be copied."""
    body = f"""
entry:
    %p = set.eq %tid.x, 0
    %x = ld.global [(param.0)>>2]
    branch %p, one, two
one:
    %x = add %x, 5
    jump join
two:
    %x = add %x, 6
    jump join
join:
    {line}
    jump exit
"""
    function = mir(body)
    one, join = function.block("one"), function.block("join")
    before = liveness.analyse(function).before
    copied = absorb(one, join, before, FreshNames(function), only=False)
    assert (copied is not None) == ("add" in line)
    assert absorb(one, join, before, FreshNames(function), only=True) is not None


TURNS = """
entry:
    %i = mov 0
    jump head
head:
    %other = set.ne %tid.x, %i
    branch %other, meet, turn
turn:
    %x = ld.shared [0]
    %y = mul.lo %x, 3
    %z = add %y, 1
    st.shared [0], %z
    %w = ld.global [%tid.x + (param.0)>>2]
    %v = add %w, %z
    st.global [%tid.x + (param.0)>>2], %v
    jump meet
meet:
    barrier on
on:
    %i = add %i, 1
    %more = set.ne %i, ntid.x
    branch %more, head, exit
"""


@SPECS
def test_lanes_meet_at_a_barrier_in_a_loop_whose_header_divides_them(spec: MachineSpec) -> None:
    """A copy of the header before the loop would make a loop with two entries."""
    threads, value, expected = spec.lanes + 1, 0, []
    for thread in range(threads):
        value = 3 * value + 1
        expected.append(thread + value)
    check(mir(TURNS, "shared 1, local 0\n"), spec, launch(list(range(threads)), threads), expected)


LEADERS = """
entry:
    %z = mov 0
    jump vote
vote:
    %votes = ballot true
    %minus = sub 0, %votes
    %lowest = lop.0x8 %votes, %minus
    %mine = shl 1, %laneid
    %win = set.eq %lowest, %mine
    branch %win, turn, meet
turn:
    %x = ld.shared [0]
    %y = mul.lo %x, 3
    %z = add %y, %tid.x
    st.shared [0], %z
    jump meet
meet:
    branch %win, end, vote
end:
    LAST
    jump exit
"""


@SPECS
def test_lanes_that_leave_a_loop_wait_for_the_others(spec: MachineSpec) -> None:
    """The code after the loop is not run in it, one lane at a time."""
    last = "sync.warp\n    %t = ld.shared [0]\n    %s = add %z, %t\n    st.global [%tid.x + (param.0)>>2], %s"
    threads, values = 2 * spec.lanes, list[int]()
    for thread in range(threads):
        values.append((3 * values[-1] if values else 0) + thread)
    ends = [values[thread - thread % spec.lanes + spec.lanes - 1] for thread in range(threads)]
    expected = [value + end for value, end in zip(values, ends, strict=True)]
    check(
        mir(LEADERS.replace("LAST", last), "shared 1, local 0\n"),
        spec,
        launch([0] * threads, threads),
        expected,
    )


def test_lanes_wait_for_the_one_whose_turn_it_is() -> None:
    """Copies of `meet` would let the others vote again before the winner has stored."""
    two = "st.shared [0], %z\n    %w = ld.shared [1]\n    %n = add %w, 1\n    st.shared [1], %n"
    body = LEADERS.replace("    LAST\n", "").replace("st.shared [0], %z", two)
    function = mir(body, "shared 2, local 0\n")
    assert "meet" in [block.label for block in hyperblocks.run(function, CLASSIC).blocks]
