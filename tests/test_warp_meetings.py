"""Lanes that would wait for each other at different places are refused; all else compiles and is right.

Bodies as in ptx_levels.py: %r1 is the thread's word, %r22 the thread, %r2 the result.
"""

import pytest

from tests.ptx_levels import kernel, launch_of, lowered
from toolchain.errors import CompileError
from toolchain.machine_spec import CLASSIC, NANO
from toolchain.mir.mir_interpreter import run_mir

SYNC = "bar.warp.sync -1;"
SHUFFLE = "shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xffffffff;"
VOTE = "mov.u32 %r9, -1; vote.sync.ballot.b32 %r2, %p2, %r9;"
PART = "mov.u32 %r2, 0; setp.eq.u32 %p2, %r1, 0; setp.lt.u32 %p1, %r22, 1;"
BOTH = "{part} @%p1 bra A; {first} bra.uni B; A: {second} B:"

REFUSED = {
    "a sync in each side": BOTH.format(part=PART, first=SYNC, second=SYNC),
    "a shuffle and a vote": BOTH.format(part=PART, first=SHUFFLE, second=VOTE),
    "a mask of the machine's lanes": BOTH.format(part=PART, first=SYNC, second=SYNC).replace("-1", "15"),
    "sides that end": f"{PART} @%p1 bra A; {SYNC} ret; A: {SYNC}",
    "one way of a side leads to the other's": f"""{PART} @!%p1 bra A; @%p2 bra A; {SYNC} bra.uni B; A: {SYNC} B:""",
    "in a loop": f"""{PART} L: @%p1 bra A; {SYNC} bra.uni B; A: {SYNC} B: add.u32 %r2, %r2, 1;
        setp.lt.u32 %p3, %r2, 4; @%p3 bra L;""",
    "a count that lanes leave a loop with": f"""{PART} L: add.u32 %r2, %r2, 1; setp.lt.u32 %p3, %r2, %r22; @%p3 bra L;
        setp.lt.u32 %p4, %r2, 2; @%p4 bra A; {SYNC} bra.uni B; A: {SYNC} B:""",
    "what each side defines": f"""{PART} mov.u32 %r3, 0; @%p1 bra A; mov.u32 %r3, 1; A: setp.eq.u32 %p3, %r3, 0;
        @%p3 bra C; {SYNC} bra.uni B; C: {SYNC} B:""",
}
ACCEPTED = {
    "one side only": f"{PART} @%p1 bra A; {SYNC} A:",
    "one side, and behind both": f"{PART} @%p1 bra A; {SYNC} A: {SYNC}",
    "lanes that have ended": f"{PART} @%p1 bra A; {SYNC} {SHUFFLE} bra.uni B; A: ret; B: {SYNC}",
    "a side that may end": f"{PART} @%p1 bra A; {SYNC} bra.uni B; A: @%p2 bra C; B: {SYNC} C:",
    "a loop with a sync, and a sync behind": f"""{PART} L: {SYNC} add.u32 %r2, %r2, 1; setp.lt.u32 %p3, %r2, %r22;
        @%p3 bra L; {SYNC}""",
    "one side in an endless round": f"""{PART} L: @%p1 bra A; {SYNC} A: {SYNC} add.u32 %r2, %r2, 1;
        setp.lt.u32 %p3, %r2, 4; @%p3 bra L;""",
    "masks of a side's own lanes": BOTH.format(
        part=PART, first="bar.warp.sync 14;", second="bar.warp.sync 1;"
    ),
    "masks that are not known": BOTH.format(
        part=PART, first="bar.warp.sync %r1;", second="bar.warp.sync %r1;"
    ),
    "barriers of the block": BOTH.format(part=PART, first="bar.sync 0;", second="bar.sync 0;"),
    "activemask": BOTH.format(part=PART, first="activemask.b32 %r2;", second="activemask.b32 %r2;"),
    "a condition from one lane": BOTH.format(
        part=PART + "shfl.sync.idx.b32 %r3, %r22, 0, 31, -1; setp.lt.u32 %p1, %r3, 1;",
        first=SYNC,
        second=SYNC,
    ),
    "a condition from a vote": BOTH.format(
        part=PART + "vote.sync.any.pred %p1, %p1, -1;", first=SYNC, second=SYNC
    ),
    "a condition from the block": BOTH.format(
        part=PART + "mov.u32 %r3, %ctaid.x; setp.eq.u32 %p1, %r3, 0;", first=SYNC, second=SYNC
    ),
    "a counter behind a divergent if": f"""{PART} @%p1 bra A; add.u32 %r2, %r2, 1; A: mov.u32 %r3, 0;
        L: and.b32 %r4, %r3, 1; setp.eq.u32 %p3, %r4, 0; @%p3 bra C; {SYNC} bra.uni B; C: {SYNC} B:
        add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 4; @%p4 bra L;""",
    "a counter behind an early end": f"""{PART} @%p1 bra E; mov.u32 %r3, 0;
        L: and.b32 %r4, %r3, 1; setp.eq.u32 %p3, %r4, 0; @%p3 bra C; {SYNC} bra.uni B; C: {SYNC} B:
        add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 4; @%p4 bra L; bra.uni F; E: ret; F:""",
}


@pytest.mark.parametrize("name", REFUSED)
def test_lanes_that_part_must_not_wait_at_different_places(name: str) -> None:
    with pytest.raises(CompileError, match="would have to wait for each other") as caught:
        lowered(kernel(REFUSED[name]), CLASSIC)
    assert caught.value.location is not None
    assert caught.value.location.file == "k.ptx"
    assert "behind the branch" in caught.value.hint


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_the_machine_can_do_is_accepted(name: str) -> None:
    lowered(kernel(ACCEPTED[name]), CLASSIC)


def test_a_mask_counts_with_the_lanes_that_the_machine_has() -> None:
    """Lanes 0 and 1 are all there are on nano."""
    module = kernel(BOTH.format(part=PART, first="bar.warp.sync 3;", second="bar.warp.sync 3;"))
    lowered(module, CLASSIC)
    with pytest.raises(CompileError, match="would have to wait for each other"):
        lowered(module, NANO)


def test_the_sync_behind_the_branch_that_the_hint_asks_for_orders_both_sides() -> None:
    """Lane 0 writes a word; the others read it behind the sync."""
    body = f"""setp.lt.u32 %p1, %r22, 1; @!%p1 bra A; st.global.u32 [%r20], 41; A: {SYNC}
    ld.global.u32 %r2, [%r20];"""
    launch = launch_of([7] * 4, 4)
    memory = run_mir(lowered(kernel(body), CLASSIC), CLASSIC, launch).memory
    assert launch.read_back(memory[: len(launch.initial_words())])["d"] == [41] * 4
