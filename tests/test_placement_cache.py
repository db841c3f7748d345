"""Plans: a placement as text and back, and that a cache of them never gives another placement than the verifier's."""

from pathlib import Path

import pytest

from tests.test_placement import chain, wide_chain
from toolchain.circuit_ir import placement_cache
from toolchain.circuit_ir.machine.build import build_machine
from toolchain.circuit_ir.placement import place
from toolchain.circuit_ir.placement_cache import place_cached
from toolchain.circuit_ir.placement_plan import PlanError, parse_plan, print_plan
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec

CIRCUIT = wide_chain(60, 4)
"""Slots are erased and used again."""


def broken(old: str, new: str) -> str:
    """The plan of CIRCUIT with one change."""
    text = print_plan(place(CIRCUIT, NANO))
    assert text.count(old) >= 1
    return text.replace(old, new, 1)


BAD = {
    "empty": "",
    "of another circuit": print_plan(place(chain(3), NANO)),
    "cut short": print_plan(place(CIRCUIT, NANO))[:900],
    "not text": "\x00\xff",
    "no operation": broken("logic step1", "logic"),
    "twice the same": broken("logic step1", "logic step0"),
    "unknown operation": broken("logic step1", "logic step9"),
    "logic as a head": broken("heads\n  logic step1", "heads step1\n  logic"),
    "in the wrong order": broken("step0", "step2")
    .replace("logic step2\n", "logic step0\n")
    .replace("logic step0\n", "logic step2\n", 1),
    "unknown wire": broken("g1.n7", "g1.n777"),
    "slot taken": broken("  2 g0.n0", "  2 g0.n1"),
    "slot out of range": broken("\n  2 ", "\n  2000 "),
    "not erased": broken("  erase 2", "  erase"),
    "ballast": broken("ballast 64@0", "ballast 16@0"),
    "too narrow": broken("hidden 128", "hidden 64"),
    "MLP": broken("MLP 128", "MLP 64"),
    "no number": broken("hidden 128", "hidden many"),
}


@pytest.mark.parametrize("spec", [NANO, CLASSIC], ids=lambda spec: spec.name)
def test_plans_of_the_machines_read_back(spec: MachineSpec) -> None:
    circuit = build_machine(spec)
    placed = place(circuit, spec)
    text = print_plan(placed)
    assert parse_plan(text, circuit) == placed
    assert print_plan(parse_plan(text, circuit)) == text


def test_a_plan_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = place_cached(CIRCUIT, NANO, tmp_path)
    assert wanted == place(CIRCUIT, NANO)
    (path,) = tmp_path.iterdir()
    assert path.read_text() == print_plan(wanted)
    monkeypatch.setattr(placement_cache, "place", None)
    assert place_cached(CIRCUIT, NANO, tmp_path) == wanted


def test_other_limits_have_another_plan(tmp_path: Path) -> None:
    for spec in (NANO, CLASSIC):
        place_cached(CIRCUIT, spec, tmp_path)
    assert len([*tmp_path.iterdir()]) == 2


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_bad_plan_is_made_anew(text: str, tmp_path: Path) -> None:
    wanted = place_cached(CIRCUIT, NANO, tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_text(text)
    assert place_cached(CIRCUIT, NANO, tmp_path) == wanted
    assert path.read_text() == print_plan(wanted)


def test_a_plan_of_another_circuit_is_named() -> None:
    with pytest.raises(PlanError, match="no plan of wide"):
        parse_plan(BAD["of another circuit"], CIRCUIT)


def test_a_cache_that_cannot_be_written_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.write_text("")
    assert place_cached(CIRCUIT, NANO, folder) == place(CIRCUIT, NANO)
