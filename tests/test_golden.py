"""golden/KERNEL/{ptx,mir,rom,circuit,trace}: what the compiler makes, for `nano`, of what CI runs on every level.

    ptx, mir, rom          the form as the next stage gets it
    circuit                the part of the machine's circuit that the program reaches, placed on its own
    trace                  the tokens the machine's placed circuit writes for input set 0
    golden/machine/nano    the machine's placed circuit

A difference means that the compiler's output changed. If it was meant to: `make golden`, and read the diff.
"""

import difflib
from pathlib import Path

import pytest

from runtime.launcher import Program
from runtime.levels import open_circuit
from runtime.trace import print_trace
from tests.conftest import ROOT, case_of, compiled
from tests.kernels.cases import QUICK
from toolchain.circuit_ir.plan import plan_text, program_plan
from toolchain.forms import FORMS
from toolchain.machine_build import placed_circuit
from toolchain.machine_spec import NANO

GOLDEN = ROOT / "golden"
MACHINE = "machine"
STAGES = ("ptx", "mir", "rom", "circuit", "trace")
NAMES = {f"{name}/{stage}" for name in QUICK for stage in STAGES} | {f"{MACHINE}/{NANO.name}"}
TOKEN_LIMIT = 1000


def circuit_trace(name: str) -> str:
    """What the placed circuit writes, token by token, fed with nothing but its own tokens after the load."""
    launch = case_of(name).launches(NANO)[0].launch
    program = Program(compiled(name, NANO.name).rom, NANO, launch)
    circuit = open_circuit("placed", program)
    token = [circuit.feed(token) for token in program.load()][-1]
    tokens = [token]
    while not token.is_end and len(tokens) < TOKEN_LIMIT:
        token = circuit.feed(token)
        tokens.append(token)
    return print_trace(program.rom, NANO, launch, tokens)


def produce(name: str) -> str:
    """The text that golden/`name` must hold."""
    folder, stage = name.split("/")
    if folder == MACHINE:
        return plan_text(placed_circuit(NANO))
    if stage == "circuit":
        return program_plan(compiled(folder, NANO.name).rom, NANO)
    if stage == "trace":
        return circuit_trace(folder)
    return FORMS[stage].print(compiled(folder, NANO.name).last(stage))


@pytest.mark.parametrize("name", sorted(NAMES))
def test_golden(name: str, request: pytest.FixtureRequest) -> None:
    path = GOLDEN / name
    text = produce(name)
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return
    assert path.exists(), f"golden/{name} is missing; write it with `make golden`"
    old = path.read_text()
    changes = difflib.unified_diff(old.splitlines(), text.splitlines(), f"golden/{name}", "now", lineterm="")
    assert old == text, "\n".join([*changes, "If this change is meant: `make golden`, and read the diff."])


def test_no_orphans(request: pytest.FixtureRequest) -> None:
    found = {path.relative_to(GOLDEN).as_posix(): path for path in GOLDEN.rglob("*") if path.is_file()}
    orphans = sorted(set(found) - NAMES)
    if request.config.getoption("--update-golden"):
        remove([found[name] for name in orphans])
        return
    assert not orphans, f"no test makes {orphans}; `make golden` removes them"


def remove(paths: list[Path]) -> None:
    for path in paths:
        path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
