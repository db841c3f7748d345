"""What the threads of a block do together: shared memory, barriers, serial blocks, shuffles, ballots.

Each program runs on the machine interpreter and on the machine's circuit, against values worked out by hand.
"""

import pytest

from runtime.loader import load_tokens
from runtime.vocabulary import Kind, Token, Vocabulary
from toolchain.circuit_ir.evaluator import logical_evaluator
from toolchain.circuit_ir.machine.build import build_machine
from toolchain.circuit_ir.tokens import embedding, token_of_code
from toolchain.launch import ArrayArgument, Launch
from toolchain.machine_spec import NANO
from toolchain.mir.interpreter import MachineFault, MachineResult, run_launch
from toolchain.mir.rom_text import parse_rom, print_rom

HEADER = 'rom test for nano from "test.cu"\nparam a: word 0, words 1, pointer\n'


def launch(words: tuple[int, ...], threads: int, grid: int = 1) -> Launch:
    return Launch((grid, 1, 1), (threads, 1, 1), (ArrayArgument("a", words, "u32"),))


def run(body: str, what: Launch) -> MachineResult:
    """The launch on the interpreter; the circuit must write the same tokens, and the text must read back."""
    rom = parse_rom(HEADER + body)
    assert parse_rom(print_rom(rom)) == rom
    result = run_launch(rom, NANO, what)
    circuit, vocabulary = build_machine(NANO), Vocabulary(NANO)
    evaluator, wires = logical_evaluator(circuit), {wire.name: wire for wire in circuit.inputs}
    said: list[Token] = []
    load = load_tokens(rom, NANO, what)
    for index, token in enumerate((*load, *result.tokens[:-1])):
        values = {wires[name]: value for name, value in embedding(vocabulary, token).items()}
        code = sum(bit << i for i, bit in enumerate(evaluator.run(values)))
        if index >= len(load) - 1:
            said.append(token_of_code(vocabulary, code))
    assert tuple(said) == result.tokens
    return result


def executed(result: MachineResult) -> list[tuple[int, int, int]]:
    """(block, warp, mask) of every EXEC but the closing one."""
    return [(t.a, t.b, t.mask) for t in result.tokens if t.kind is Kind.EXEC and not t.is_end]


STORE_SHARED = """
block 0:
  stage 0, imm0=100
    x  add %tid.x, imm0
    y  add %tid.x, 0
  st.shared [t0.y + 3], t0.x
  barrier 1
"""


def test_shared_memory_is_seen_by_the_other_warps_after_a_barrier() -> None:
    """Thread t stores 100 + t, then reads what thread 3 - t stored."""
    body = (
        STORE_SHARED
        + """
block 1:
  stage 0, imm0=3
    z  sub imm0, %tid.x
    y  add %tid.x, 0
  stage 1
    x  ld.shared [t0.z + 3]
  st.global [t0.y], t1.x
  jump exit
"""
    )
    result = run(body, launch((7, 7, 7, 7), 4))
    assert result.memory[:4] == (103, 102, 101, 100)
    assert executed(result) == [(0, 0, 3), (0, 1, 3), (1, 0, 3), (1, 1, 3)]
    assert Token(Kind.SMEM, 3) in result.tokens


def test_shared_memory_is_zero_when_a_thread_block_begins() -> None:
    body = """
block 0:
  stage 0
    x  ld.shared [0 + 5]
    y  ld.global [0]
    z  add %ctaid.x, 0
  stage 1, imm0=9
    x  add t0.x, imm0
    z  add t0.z, 0
  st.shared [0 + 5], t1.x
  return r1 = t1.x
  jump 1
block 1:
  stage 0, port0=r1
    x  add port0, 0
    z  add %ctaid.x, 0
  st.global [t0.z], t0.x
  jump exit
"""
    assert run(body, launch((0, 0, 0), 1, grid=3)).memory[:3] == (9, 9, 9)


def test_global_and_shared_words_of_one_address_are_apart() -> None:
    body = """
block 0:
  stage 0, imm0=5
    x  add imm0, 0
  st.shared [0 + 1], t0.x
  jump 1
block 1:
  stage 0
    x  ld.global [0 + 1]
    y  ld.shared [0 + 1]
  stage 1
    x  sub t0.x, t0.y
  st.global [0], t1.x
  jump exit
"""
    assert run(body, launch((0, 40), 1)).memory[:2] == (35, 40)


def test_a_warp_alone_passes_its_barriers() -> None:
    body = "block 0:\n  barrier 1\nblock 1:\n  barrier 2\nblock 2:\n  jump exit\n"
    assert executed(run(body, launch((0,), 2))) == [(0, 0, 3), (1, 0, 3), (2, 0, 3)]


def test_exited_lanes_and_warps_are_not_waited_for() -> None:
    """Threads 0 and 1 exit (all of warp 0), and thread 5; the others meet at the barrier."""
    body = """
block 0:
  stage 0, imm0=2, imm1=5
    x  set.lt.u %tid.x, imm0
    y  set.eq %tid.x, imm1
  stage 1
    p  plop.0xe q0.x, q0.y
  branch q1.p, exit, 1
block 1:
  barrier 2
block 2:
  jump exit
"""
    assert executed(run(body, launch((0,), 6))) == [
        (0, 0, 3), (0, 1, 3), (1, 1, 3), (0, 2, 3), (1, 2, 1), (2, 1, 3), (2, 2, 1),
    ]  # fmt: skip


def test_a_barrier_that_some_lanes_of_a_warp_miss() -> None:
    body = """
block 0:
  stage 0
    x  set.eq %tid.x, 0
  branch q0.x, 1, 2
block 1:
  barrier 2
block 2:
  jump exit
"""
    with pytest.raises(MachineFault, match=r"lanes \[0\] of warp 0 wait at a barrier that its lanes \[1\]"):
        run(body, launch((0,), 2))


def test_a_serial_block_is_atomic() -> None:
    """Each thread adds its index + 1 to a[0] and keeps what was there before."""
    body = """
block 0:
  jump 1
block 1 add serial:
  stage 0, imm0=1
    x  ld.global [0]
    z  add %tid.x, imm0
  stage 1
    x  add t0.x, t0.z
  return r1 = t0.x
  st.global [0], t1.x
  jump 2
block 2:
  stage 0, port0=r1
    x  add %tid.x, 0
    y  add port0, 0
  st.global [t0.x + 1], t0.y
  jump exit
"""
    result = run(body, launch((10, 0, 0, 0), 3))
    assert result.memory[:4] == (16, 10, 11, 13)
    assert executed(result) == [
        (0, 0, 3), (1, 0, 1), (1, 0, 2), (2, 0, 3), (0, 1, 1), (1, 1, 1), (2, 1, 1),
    ]  # fmt: skip


def test_serial_after_a_branch_only_on_its_side() -> None:
    """Lane 0 goes to the serial block 1, lane 1 to block 2, which is not."""
    body = """
block 0:
  stage 0
    x  set.eq %tid.x, 0
  branch q0.x, 1, 2
block 1 serial:
  jump 2
block 2:
  jump exit
"""
    assert executed(run(body, launch((0,), 2))) == [(0, 0, 3), (1, 0, 1), (2, 0, 3)]


def test_shuffles_read_every_lane_of_the_warp() -> None:
    """Each lane reads its neighbour's value, the lane number taken modulo the lanes; lane 1 of warp 1 has no thread."""
    body = """
block 0:
  stage 0, imm0=10, imm1=3
    x  add %tid.x, imm0
    z  add %laneid, imm1
  stage 1
    y  shfl t0.x, t0.z
  stage 2
    x  add t1.y, 0
  return r1 = t2.x
  jump 1
block 1:
  stage 0, port0=r1
    x  add %tid.x, 0
    y  add port0, 0
  st.global [t0.x], t0.y
  jump exit
"""
    assert run(body, launch((0, 0, 0), 3)).memory[:3] == (11, 10, 10)


def test_ballots_count_active_lanes_only() -> None:
    """Lane 1 alone goes through block 1; its ballot of `true` is 2, and of `tid.x = 0` it is 0."""
    body = """
block 0:
  stage 0
    x  set.eq %tid.x, 0
  stage 1
    y  ballot q0.x
  stage 2
    x  add t1.y, 0
  return r1 = t2.x {uniform}
  p0 = q0.x
  branch q0.x, 2, 1
block 1:
  stage 0
    y  ballot p0
  stage 1
    y  ballot true
  stage 2, imm0=16
    x  add t0.y, imm0
    z  add t1.y, imm0
  return r2 = t2.x
  return r3 = t2.z
  jump 2
block 2:
  stage 0, port0=r1, port1=r2
    x  add %tid.x, 0
    y  add port0, port1
  stage 1, port0=r3
    z  add port0, t0.y
  st.global [t0.x], t1.z
  jump exit
"""
    assert run(body, launch((0, 0), 2)).memory[:2] == (1, 1 + 16 + 18)
