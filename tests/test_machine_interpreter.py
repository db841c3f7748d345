"""The machine interpreter against plain arithmetic: every operation, returns, stores, warps, divergence."""

import random
from collections.abc import Callable

import pytest

from runtime.vocabulary import Kind, Token, execute, short, val
from toolchain.errors import CompileError, SourceLocation, VerifyError
from toolchain.launch import ArrayArgument, Launch, ScalarArgument
from toolchain.machine_spec import CLASSIC, NANO
from toolchain.mir.interpreter import STEP_LIMIT, InternalError, MachineFault, MachineResult, run_launch
from toolchain.mir.isa import MulOp, Op, executes
from toolchain.mir.rom import RomImage
from toolchain.mir.rom_text import parse_rom

EDGES = (
    0,
    1,
    2,
    31,
    32,
    33,
    0x7FFF,
    0xFFFF,
    0x10000,
    0x7FFFFFFF,
    0x80000000,
    0x80000001,
    0xFFFFFFFE,
    0xFFFFFFFF,
)
WORD = 1 << 32


def integer(word: int) -> int:
    """Two's complement, from the definition: the top bit weighs -2**31."""
    return (word & 0x7FFFFFFF) - (word & 0x80000000)


def bits(word: int) -> list[int]:
    return [word // 2**i % 2 for i in range(32)]


def word(values: list[int]) -> int:
    return sum(bit * 2**i for i, bit in enumerate(values))


def leading_zeros(a: int) -> int:
    return next((i for i, bit in enumerate(reversed(bits(a))) if bit), 32)


FORMULAS: dict[str, Callable[[int, int], int]] = {
    Op.ADD: lambda a, b: (a + b) % WORD,
    Op.SUB: lambda a, b: (a - b) % WORD,
    Op.MIN_U: lambda a, b: a if a < b else b,
    Op.MAX_U: lambda a, b: b if a < b else a,
    Op.MIN_S: lambda a, b: a if integer(a) < integer(b) else b,
    Op.MAX_S: lambda a, b: b if integer(a) < integer(b) else a,
    Op.SHL: lambda a, b: a * 2**b % WORD if b < 64 else 0,
    Op.SHR_U: lambda a, b: a // 2**b if b < 64 else 0,
    Op.SHR_S: lambda a, b: integer(a) // 2 ** min(b, 64) % WORD,
    Op.POPC: lambda a, _: sum(bits(a)),
    Op.CLZ: lambda a, _: leading_zeros(a),
    Op.BREV: lambda a, _: word(bits(a)[::-1]),
    MulOp.LO: lambda a, b: a * b % WORD,
    MulOp.HI_U: lambda a, b: a * b // WORD,
    MulOp.HI_S: lambda a, b: integer(a) * integer(b) // WORD % WORD,
    Op.SET_EQ: lambda a, b: int(a == b),
    Op.SET_NE: lambda a, b: int(a != b),
    Op.SET_LT_U: lambda a, b: int(a < b),
    Op.SET_GE_U: lambda a, b: int(a >= b),
    Op.SET_LT_S: lambda a, b: int(integer(a) < integer(b)),
    Op.SET_GE_S: lambda a, b: int(integer(a) >= integer(b)),
}

HEADER = 'rom test for nano from "test.cu"\nparam a: word 0, words 1, pointer\nparam n: word 1, words 1\n'


def image(body: str) -> RomImage:
    return parse_rom(HEADER + body)


def launch(
    words: tuple[int, ...] = (0,) * 8, n: int = 0, block: tuple[int, int, int] = (1, 1, 1), grid: int = 1
) -> Launch:
    return Launch((grid, 1, 1), block, (ArrayArgument("a", words, "u32"), ScalarArgument("n", n)))


def run(body: str, what: Launch, step_limit: int = STEP_LIMIT) -> MachineResult:
    return run_launch(image(body), NANO, what, step_limit=step_limit)


def operation(name: str) -> str:
    """Stores `name(a[0], a[1])` to a[2]."""
    if name.startswith("mul"):
        compute = f"  stage 1\n    m  {name} ld0.x, ld0.y\n"
        return compute + "  st.global [0 + 2], m1\n"
    if name.startswith("set"):
        compute = f"  stage 1\n    y  {name} t0.x, t0.y\n"
        return compute + "  stage 2, imm0=1\n    y  sel q1.y, imm0, 0\n  st.global [0 + 2], t2.y\n"
    slot = "y" if executes("y", Op(name.split(".0x")[0])) else "z"
    return f"  stage 1\n    {slot}  {name} t0.x, t0.y\n  st.global [0 + 2], t1.{slot}\n"


LOADS = "block 0:\n  stage 0\n    x  ld.global [0]\n    y  ld.global [0 + 1]\n"


@pytest.mark.parametrize("name", FORMULAS, ids=str)
def test_operation(name: str) -> None:
    rng = random.Random(name)
    cases = [(a, b) for a in EDGES for b in EDGES]
    cases += [(rng.getrandbits(32), rng.getrandbits(32)) for _ in range(20)]
    body = LOADS + operation(str(name)) + "  jump exit\n"
    for a, b in cases:
        result = run(body, launch((a, b, 0)))
        assert result.memory[2] == FORMULAS[name](a, b), (hex(a), hex(b))


@pytest.mark.parametrize("table", range(16))
def test_truth_tables(table: int) -> None:
    body = LOADS + operation(f"lop.{table:#x}") + "  jump exit\n"
    for a, b in ((0xFF00FF00, 0xF0F0F0F0), (0, 0xFFFFFFFF), (0x12345678, 0x9ABCDEF0)):
        expected = word([table // 2 ** (2 * p + q) % 2 for p, q in zip(bits(a), bits(b), strict=True)])
        assert run(body, launch((a, b, 0))).memory[2] == expected
    logic = (
        LOADS
        + "  stage 1\n    x  set.ne t0.x, 0\n    y  set.ne t0.y, 0\n"
        + f"  stage 2\n    p  plop.{table:#x} q1.x, q1.y\n"
        + "  stage 3, imm0=1\n    x  sel q2.p, imm0, 0\n  st.global [0 + 2], t3.x\n  jump exit\n"
    )
    for a in (0, 7):
        for b in (0, 7):
            expected = table // 2 ** (2 * (a > 0) + (b > 0)) % 2
            assert run(logic, launch((a, b, 0))).memory[2] == expected


def test_stages_read_before_they_write_and_results_are_forwarded() -> None:
    body = """
block 0:
  stage 0, imm0=5
    x  add imm0, imm0
    m  mul.lo imm0, imm0
  stage 1, imm0=1
    x  add t0.x, imm0
    y  sub t0.x, imm0
  stage 2
    z  add m0, t1.x
  stage 3
    x  add t2.z, t1.y
  return r1 = t3.x {uniform, narrow}
  return r2 = m0 {narrow}
  st.global [0], t2.z
  jump 1
block 1:
  stage 0, port0=r1, port1=r2
    x  sub port0, port1
  return r1 = t0.x
  st.global [0 + 1], r1
  jump exit
"""
    result = run(body, launch(block=(2, 1, 1)))
    assert result.memory[:2] == (36, 45)
    assert result.tokens == (
        execute(0, 0, 0b11), val(45), val(25), val(25),
        Token(Kind.MEM, 0), short(36), Token(Kind.MEM, 0), short(36),
        execute(1, 0, 0b11), short(20), short(20),
        Token(Kind.MEM, 1), short(45), Token(Kind.MEM, 1), short(45),
        Token(Kind.EXEC),
    )  # fmt: skip


def test_loads_see_memory_before_the_block_and_wrap() -> None:
    body = """
block 0:
  stage 0, imm0=9
    x  add imm0, 0
    y  ld.global [0 + 64]
  stage 3
    x  ld.global [0]
  return r1 = t3.x
  return r2 = t0.y
  st.global [0], t0.x
  jump 1
block 1:
  st.global [0 + 1], r1
  jump 2
block 2:
  st.global [0 + 2], r2
  jump exit
"""
    assert run(body, launch((7, 0, 0))).memory[:3] == (9, 7, 7)


DIVERGE = """
block 0 entry:
  stage 0, imm0=1
    x  set.lt.u %tid.x, imm0
    y  add %tid.x, 0
  return r1 = t0.y {narrow}
  p1 = q0.x
  branch q0.x, 1, 2
block 1 low:
  stage 0, imm0=100
    x  add imm0, 0
  return r2 = t0.x {uniform, narrow}
  jump 3
block 2 high:
  stage 0, imm0=200
    x  add imm0, 0
  return r2 = t0.x {uniform, narrow}
  jump 3
block 3 join:
  stage 0, port0=r2
    x  sel p1, port0, 0
  st.global [r1], r2 if not p1
  jump exit
"""


def test_divergent_lanes_meet_again_and_stores_are_compacted() -> None:
    result = run(DIVERGE, launch(block=(3, 1, 1)))
    assert result.tokens == (
        execute(0, 0, 0b11), val(0b0010), val(0), val(1),
        execute(1, 0, 0b01), val(100),
        execute(2, 0, 0b10), val(200),
        execute(3, 0, 0b11), Token(Kind.MEM, 1), short(200),
        execute(0, 1, 0b01), val(0), val(2),
        execute(2, 1, 0b01), val(200),
        execute(3, 1, 0b01), Token(Kind.MEM, 2), short(200),
        Token(Kind.EXEC),
    )  # fmt: skip
    assert result.memory[:4] == (0, 200, 200, 0)
    assert result.steps == 7


def test_predicates_of_inactive_lanes_are_kept() -> None:
    body = """
block 0:
  stage 0, imm0=1
    x  set.eq 0, 0
    y  set.eq %tid.x, imm0
  p0 = q0.x
  p3 = q0.x
  branch q0.y, 1, 2
block 1:
  stage 0
    x  set.ne 0, 0
  p0 = q0.x
  jump 2
block 2:
  jump exit
"""
    result = run(body, launch(block=(2, 1, 1)))
    assert [token.a for token in result.tokens if token.kind is Kind.VAL] == [0b1001_1001, 0b1000_1001]


def test_thread_blocks_run_in_order_and_every_special_register_reads() -> None:
    body = """
block 0:
  stage 0, imm0=ntid.x, imm1=nctaid.x
    x  add %ctaid.x, imm1
    y  add %warpid, imm0
    z  add %laneid, %tid.y
  return r1 = t0.x {uniform}
  return r2 = t0.y {uniform, narrow}
  return r3 = t0.z {narrow}
  jump exit
"""
    result = run(body, launch(block=(2, 2, 1), grid=2))
    assert result.tokens == (
        execute(0, 0, 0b11), short(2), val(2), val(0), val(1),
        execute(0, 1, 0b11), short(2), val(3), val(1), val(2),
        Token(Kind.CTA, 1),
        execute(0, 0, 0b11), short(3), val(2), val(0), val(1),
        execute(0, 1, 0b11), short(3), val(3), val(1), val(2),
        Token(Kind.EXEC),
    )  # fmt: skip


def test_a_warp_runs_until_its_lanes_are_done() -> None:
    body = """
block 0:
  jump 1
block 1:
  stage 0, port0=r1, imm0=1
    x  add port0, imm0
  stage 1, imm0=2
    x  set.ne t0.x, imm0
  return r1 = t0.x {uniform, narrow}
  branch q1.x, 1, exit
"""
    result = run(body, launch(block=(4, 1, 1)))
    order = [(token.a, token.b) for token in result.tokens[:-1] if token.kind is Kind.EXEC]
    assert order == [(0, 0), (1, 0), (1, 0), (0, 1), (1, 1), (1, 1)]


PARTS = (("low half of ", 0), ("high half of ", 0), ("", 1))
"""-2049 takes two tokens, -2048 one."""


def test_provenance_names_lane_register_and_line() -> None:
    body = """
block 0 entry:
  stage 0, imm0=2049
    x  add %tid.x, 0                    ; k.cu:3:5
    y  sub %tid.x, imm0
  return r4 = t0.x
  return r5 = t0.y
  st.global [t0.x], t0.y                ; k.cu:4
  jump exit
"""
    result = run(body, launch(block=(2, 1, 1)))
    told = [str(place) for place in result.provenance]
    assert len(told) == len(result.tokens)
    assert told[0] == "run block 'entry', warp 0, block 0, thread block 0"
    place = "warp 0, block 0, thread block 0"
    assert told[2] == f"register r4, lane 1, {place} (k.cu:3:5)"
    assert told[3:6] == [f"{part}register r5, lane {lane}, {place}" for part, lane in PARTS]
    assert told[8] == f"high half of word 0, lane 0, {place} (k.cu:4)"
    assert told[9:11] == [f"{what}word 1, lane 1, {place} (k.cu:4)" for what in ("store to ", "")]
    assert told[-1] == "the launch is over, thread block 0"


@pytest.mark.parametrize("note", ["uniform", "narrow"])
def test_broken_promises_do_not_pass(note: str) -> None:
    body = f"""
block 0:
  stage 0, imm0=70000
    x  add %tid.x, imm0             ; k.cu:9
  return r1 = t0.x {{{note}}}
  jump exit
"""
    with pytest.raises(InternalError, match=f"as {note}") as caught:
        run(body, launch(block=(2, 1, 1)))
    assert caught.value.location == SourceLocation("k.cu", 9)


def test_stores_out_of_range_are_faults() -> None:
    body = "block 0:\n  st.global [0 + param.1], 0                  ; k.cu:7\n  jump exit\n"
    assert run(body, launch(n=61)).tokens[1] == Token(Kind.MEM, 61)
    assert run(body, launch(n=1 << 30)).tokens[1] == Token(Kind.MEM, 0)
    for address in (62, 64, 1 << 20, -1):
        with pytest.raises(MachineFault, match="lane 0 stores to word") as caught:
            run(body, launch(n=address))
        assert caught.value.location == SourceLocation("k.cu", 7)


def test_guarded_off_stores_may_be_out_of_range() -> None:
    body = """
block 0:
  stage 0, imm0=1
    x  set.lt.u %tid.x, imm0
  st.global [0 + 999], 0 if not q0.x
  jump exit
"""
    assert run(body, launch()).tokens == (execute(0, 0, 1), Token(Kind.EXEC))


def test_endless_loops_are_faults() -> None:
    with pytest.raises(MachineFault, match="did not end within 50 blocks"):
        run("block 0:\n  jump 1\nblock 1:\n  jump 1\n", launch(), step_limit=50)


def test_what_cannot_be_read_is_refused() -> None:
    for text in ("x  add t0.x, 0", "x  add m0, 0", "m  mul.lo t0.x, 0"):
        body = f"block 0:\n  stage 0\n    {text}\n  jump exit\n"
        with pytest.raises(VerifyError, match="cannot read"):
            run(body, launch())


def test_another_machine_is_refused() -> None:
    with pytest.raises(CompileError, match="is for machine 'nano', not 'classic'"):
        run_launch(image("block 0:\n  jump exit\n"), CLASSIC, launch())
