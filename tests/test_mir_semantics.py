"""Random MIR functions leave the same memory before and after each pass, and after all of them.

The interpreter also checks every `uniform` and `narrow` it meets, so the analyses are tested by running.
"""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolchain.launch import ArrayArgument, Launch, ScalarArgument
from toolchain.machine_spec import NANO, MachineSpec
from toolchain.mir import (
    address_narrowing,
    cleanup,
    coalesce,
    dead_code,
    hyperblocks,
    jump_threading,
    pipeline,
    rematerialisation,
    simplify,
    strength,
    uniformity,
    widths,
)
from toolchain.mir.ir import Function
from toolchain.mir.lower_ptx import with_clean_entry, zero_undefined
from toolchain.mir.mir_interpreter import run_mir
from toolchain.mir.text import parse_mir, print_mir
from toolchain.mir.verifier import verify

PASSES: tuple[Callable[[Function, MachineSpec], Function], ...] = (
    simplify.run, dead_code.run, coalesce.run, cleanup.run, address_narrowing.run, strength.run,
    jump_threading.run, hyperblocks.run, rematerialisation.run, uniformity.run, widths.run, pipeline.optimise,
)  # fmt: skip

HEADER = 'kernel k from "k.cu"\nparam a: word 0, words 1, pointer\nparam n: word 1, words 1\n\n'
REGISTERS = [f"%r{i}" for i in range(5)]
FLAGS = [f"%p{i}" for i in range(3)]
VALUES = [
    *REGISTERS,
    "%tid.x",
    "%ctaid.x",
    "%laneid",
    "0",
    "1",
    "3",
    "4294967295",
    "65535",
    "param.1",
    "ntid.x",
]
TWO = ["add", "sub", "min.u", "max.s", "lop.0x8", "lop.0x6", "lop.0xe", "shl", "shr.u", "shr.s"]
TWO += ["mul.lo", "mul.hi.u", "mul.hi.s"]
COMPARE = ["set.eq", "set.ne", "set.lt.u", "set.ge.u", "set.lt.s", "set.ge.s"]
WORDS = 16


@st.composite
def instruction_lines(draw: st.DrawFn, slot: int) -> list[str]:
    """One operation. Each thread stores into words of its own, and reads those or words nobody writes."""
    value, register, flag = st.sampled_from(VALUES), st.sampled_from(REGISTERS), st.sampled_from(FLAGS)
    kind = draw(st.integers(0, 9))
    if kind < 4:
        return [f"{draw(register)} = {draw(st.sampled_from(TWO))} {draw(value)}, {draw(value)}"]
    if kind == 4:
        return [f"{draw(flag)} = {draw(st.sampled_from(COMPARE))} {draw(value)}, {draw(value)}"]
    if kind == 5:
        return [f"{draw(flag)} = plop.{draw(st.integers(0, 15)):#x} {draw(flag)}, {draw(flag)}"]
    if kind == 6:
        return [f"{draw(register)} = sel {draw(flag)}, {draw(value)}, {draw(value)}"]
    if kind == 7:
        one = draw(st.sampled_from(["mov", "popc", "clz", "brev"]))
        return [f"{draw(register)} = {one} {draw(value)}"]
    own = [
        f"%g{slot} = mul.lo %ctaid.x, 3",
        f"%g{slot} = add %g{slot}, %tid.x",
        f"%h{slot} = shl %g{slot}, 3",
    ]
    own += [f"%h{slot} = add %h{slot}, param.0", f"%k{slot} = shr.u %h{slot}, 2"]
    offset = draw(st.integers(0, 1))
    if kind == 8:
        return [*own, f"{draw(register)} = ld.global [%k{slot} + {offset}]"]
    guard = draw(st.sampled_from(["", f" if {draw(flag)}", f" if not {draw(flag)}"]))
    return [*own, f"st.global [%k{slot} + {offset}], {draw(value)}{guard}"]


@st.composite
def functions(draw: st.DrawFn) -> Function:
    """A few blocks with any branches; a counter ends every loop."""
    count = draw(st.integers(1, 5))
    labels = [f"b{i}" for i in range(count)]
    lines: list[str] = ["start:", "%fuel = mov 0", "jump b0"]
    for index, label in enumerate(labels):
        lines += [f"{label}:", "%fuel = add %fuel, 1"]
        for number in range(draw(st.integers(0, 5))):
            lines += draw(instruction_lines(10 * index + number))
        targets = st.sampled_from([*labels, "exit"])
        if draw(st.booleans()):
            lines += [f"branch {draw(st.sampled_from(FLAGS))}, {draw(targets)}, {draw(targets)}"]
        else:
            lines += [f"jump {draw(targets)}"]
    return zero_undefined(with_clean_entry(parse_mir(HEADER + "\n".join(_with_fuel(lines)))))


def _with_fuel(lines: list[str]) -> list[str]:
    """Every block first leaves if it has run out of fuel."""
    result: list[str] = []
    for line in lines:
        result.append(line)
        if line == "%fuel = add %fuel, 1":
            number = len(result)
            result += ["%out = set.lt.u 12, %fuel", f"branch %out, exit, f{number}", f"f{number}:"]
    return result


def launch(values: list[int], n: int) -> Launch:
    return Launch((2, 1, 1), (3, 1, 1), (ArrayArgument("a", tuple(values), "u32"), ScalarArgument("n", n)))


words = st.one_of(st.sampled_from([0, 1, 0xFFFFFFFF, 0x80000000, 65535]), st.integers(0, (1 << 32) - 1))


@pytest.mark.parametrize("run", PASSES, ids=lambda run: run.__module__.rsplit(".", 1)[-1])
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)
@given(function=functions(), values=st.lists(words, min_size=WORDS, max_size=WORDS), n=st.integers(-3, 40))
def test_a_pass_keeps_memory(
    run: Callable[[Function, MachineSpec], Function], function: Function, values: list[int], n: int
) -> None:
    verify(function)
    before = run_mir(function, NANO, launch(values, n)).memory
    after = run(function, NANO)
    verify(after)
    assert parse_mir(print_mir(after)) == after
    assert run_mir(after, NANO, launch(values, n)).memory == before
