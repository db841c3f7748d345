"""A miscompile is pinned: to the pass that made it, to the token, lane and source line where it shows."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.launcher import Checker, CheckFailed, InterpreterEngine, Program, run_program
from runtime.levels import check_circuit, check_program
from runtime.trace import Narrator
from runtime.vocabulary import END, Kind, Token, execute, val
from tests.conftest import case_of, compiled
from toolchain.cli import run_command
from toolchain.driver import Compilation, Step
from toolchain.errors import CompileError
from toolchain.machine_spec import NANO
from toolchain.mir.ir import ZERO, Function, MirOp
from toolchain.mir.isa import Op


def program() -> Program:
    return Program(compiled("dot", "nano").rom, NANO, case_of("dot").launches(NANO)[0].launch)


def without_loads(function: Function) -> Function:
    """The function with zeros in place of what it loads."""
    blocks = []
    for block in function.blocks:
        changed = [
            replace(item, op=MirOp.MOV, operands=(ZERO,), offset=ZERO) if item.op is Op.LOAD else item
            for item in block.instructions
        ]
        blocks.append(replace(block, instructions=tuple(changed)))
    return replace(function, blocks=tuple(blocks))


def test_a_wrong_pass_is_named() -> None:
    good = compiled("vector_add", "nano")
    names = [step.name for step in good.steps]
    bad = names.index("strength")
    steps: list[Step] = list(good.steps)
    steps[bad] = replace(steps[bad], value=without_loads(steps[bad].value))
    launch = case_of("vector_add").launches(NANO)[0].launch
    reports = list(check_program(Compilation(tuple(steps)), Program(good.rom, NANO, launch)))
    assert [report.level for report in reports][-1] == "mir:strength"
    wrong = reports[-1].difference
    assert wrong is not None
    assert wrong.expected == "memory[8] = 11"
    assert wrong.place is not None
    assert wrong.place.lane == 0
    assert str(wrong.place.source).endswith("vector_add.cu:4:10")


def test_a_difference_in_an_undefined_launch_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lane that the thread block has not is read: the levels give something else, and none of them is wrong."""
    path = tmp_path / "fold.cu"
    path.write_text(
        "__global__ void fold(int *a) {\n    int v = a[0];\n"
        "    v += __shfl_down_sync(0xffffffffu, v, 1);\n    if (threadIdx.x == 0) a[0] = v;\n}\n"
    )
    command = ["check", str(path), "--machine", "nano", "--arg", "a=[21]", "--up-to", "program"]
    assert run_command([*command, "--block", "2"]) == 0
    capsys.readouterr()
    assert run_command([*command, "--block", "1"]) == 1
    reason = capsys.readouterr().out.splitlines()[-1]
    assert "undefined" in reason and "inactive-lane" in reason
    assert "fold.cu:3" in reason


def test_constants_and_unnamed_variables_are_no_difference(tmp_path: Path) -> None:
    """The PTX has constants in a memory of their own, and `unnamed` before `first`; the machine has neither."""
    path = tmp_path / "constants.cu"
    path.write_text(
        "__constant__ int table[3] = {5, 6, 7};\n__device__ int unnamed = 8, first = 9;\n"
        "__global__ void constants(int *out) { out[threadIdx.x] = table[threadIdx.x] + first; }\n"
        "__global__ void other(int *out) { out[0] = unnamed; }\n"
    )
    command = ["check", str(path), "--entry", "constants", "--machine", "nano", "--block", "3"]
    assert (
        run_command([*command, "--arg", "out=zeros:3", "--expect", "out=[14,15,16]", "--up-to", "program"])
        == 0
    )


def test_a_wrong_token_is_named() -> None:
    result = program().interpret()
    place = next(i for i, token in enumerate(result.tokens) if token.kind is Kind.VAL)
    checker = Checker(result, NANO, "somewhere")
    for token in result.tokens[:place]:
        checker(token)
    with pytest.raises(CheckFailed) as failed:
        checker(val(result.tokens[place].a ^ 1))
    difference = failed.value.difference
    assert difference.token == place
    assert difference.found == f"VAL({result.tokens[place].a ^ 1})"
    assert "dot.cu:4" in str(difference)
    assert "source" in difference.as_json()


def test_a_token_too_many_is_wrong() -> None:
    result = program().interpret()
    checker = Checker(result, NANO, "somewhere")
    for token in result.tokens:
        checker(token)
    with pytest.raises(CheckFailed, match="no more tokens"):
        checker(END)


def test_the_circuit_is_held_against_the_interpreter() -> None:
    """A trace that the interpreter would not write is not what the circuit says either."""
    result = program().interpret()
    last = max(i for i, token in enumerate(result.tokens) if token.kind is Kind.MEM) + 1
    tokens = list(result.tokens)
    tokens[last] = val(tokens[last].a ^ 1)
    report = check_circuit("circuit", program(), replace(result, tokens=tuple(tokens)))
    assert report.difference is not None
    assert report.difference.token == last


class Liar(InterpreterEngine):
    """An engine that gets one bit of memory wrong and all tokens right."""

    name = "liar"

    def run(self, program: Program, on_token):
        result = super().run(program, on_token)
        return replace(result, memory=(result.memory[0] ^ 4, *result.memory[1:]))


def test_memory_is_checked_too() -> None:
    report = run_program(program(), Liar(), check=True, unsigned=False)
    assert not isinstance(report.check, str)
    assert "memory[0] = 1" in str(report.check)


def test_exit_status_of_a_failed_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A ROM image is its own reference: only a PTX file beside it could say that it is wrong. So break a MIR pass."""
    from toolchain import driver
    from toolchain.driver import Pass

    broken = Pass("broken", "mir", "mir", lambda function, options: without_loads(function))
    pipeline = (*driver.PIPELINE[:-1], broken, driver.PIPELINE[-1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "PIPELINE", pipeline)
        command = ["examples/dot.cu", "--machine", "nano"]
        for argument in ("a=[1,2,3]", "b=[4,5,6]", "c=zeros:1", "n=3"):
            command += ["--arg", argument]
        assert run_command(["check", *command, "--up-to", "program"]) == 1
        last = capsys.readouterr().out.splitlines()[-1]
        assert re.match(r"mir:broken +mir:broken differs", last)
        assert run_command(["run", *command, "--engine", "interp", "--check", "--json"]) == 1
        assert '"first_difference"' in capsys.readouterr().out


def test_narrator_makes_sense_of_nonsense() -> None:
    narrator = Narrator(program().rom, NANO, program().launch)
    assert "the program has none" in narrator.say(execute(31, 3, 3))
    assert "returns no more" in narrator.say(val(7))
    assert "thread block 2" in narrator.say(Token(Kind.CTA, 2))
    assert "(a[1])" in narrator.say(Token(Kind.MEM, 1))
    assert "only the host" in narrator.say(Token(Kind.PROG, 1))
    assert "over" in narrator.say(END)


def test_a_launch_without_room_is_refused_not_wrong() -> None:
    """The PTX interpreter has room for any array; the machine is asked before a level is."""
    good = program()
    room = NANO.memory_words + 1
    large = replace(good.launch.arguments[0], values=(0,) * room)
    launch = replace(good.launch, arguments=(large, *good.launch.arguments[1:]))
    with pytest.raises(CompileError, match=f"has room for {NANO.memory_words}|has {NANO.memory_words}"):
        list(check_program(compiled("dot", "nano"), replace(good, launch=launch)))
