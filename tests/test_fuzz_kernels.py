"""Random kernels on the PTX interpreter, in MIR and in the ROM image, against the same text compiled as C++."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.judge import LIMITS, check_kernel
from tests.fuzz.kernels import FEATURES, kernel_of, random_kernel
from tests.fuzz.tape import ENTRY_BITS, Tape, shrink
from tests.fuzz_kernels import check_alone, check_seeds
from tests.oracle.driver import cxx_compiler
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec

MACHINES = (NANO.name, CLASSIC.name)
QUICK = 15
BATCHES = 20
BATCH = 50

needs_cxx = pytest.mark.skipif(cxx_compiler() is None, reason="needs a C++ compiler")


def check_batch(seeds: range, spec: MachineSpec, folder: Path) -> None:
    """Every kernel is right, or over one of the machine's limits; most are right."""
    outcomes = check_seeds(seeds, spec, check_kernel, folder)
    wrong = [
        outcome
        for outcome in outcomes
        if outcome.kind != "right" and not (outcome.kind == "refused" and outcome.detail in LIMITS)
    ]
    assert wrong == [], f"python -m tests.fuzz_kernels --machine {spec.name} shrinks these"
    assert sum(outcome.kind == "right" for outcome in outcomes) > 0.7 * len(outcomes)


@needs_cxx
@pytest.mark.parametrize(
    "spec, seeds", ((NANO, range(QUICK)), (CLASSIC, range(QUICK, 2 * QUICK))), ids=MACHINES
)
def test_random_kernels(spec: MachineSpec, seeds: range, tmp_path: Path) -> None:
    check_batch(seeds, spec, tmp_path)


@needs_cxx
@pytest.mark.slow
@pytest.mark.parametrize("spec, first", ((NANO, 1000), (CLASSIC, 2000)), ids=MACHINES)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_two_thousand_random_kernels(batch: int, spec: MachineSpec, first: int, tmp_path: Path) -> None:
    check_batch(range(first + BATCH * batch, first + BATCH * (batch + 1)), spec, tmp_path)


@needs_cxx
@settings(
    max_examples=8,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(st.integers(0, (1 << ENTRY_BITS) - 1), min_size=60, max_size=400))
def test_any_tape_is_a_kernel(entries: list[int]) -> None:
    """Hypothesis chooses; what it finds wrong it shrinks."""
    kernel = kernel_of(Tape(entries), "k", launches=1)
    outcome = check_alone(kernel, CLASSIC, check_kernel)
    allowed = outcome.kind == "right" or (outcome.kind == "refused" and outcome.detail in LIMITS)
    assert allowed, f"{outcome}\n{kernel.source}\n{kernel.launches[0]}"


def test_a_seed_is_always_the_same_kernel() -> None:
    assert random_kernel(3) == random_kernel(3)
    assert random_kernel(3).source != random_kernel(4).source


def test_a_recorded_tape_writes_the_kernel_again() -> None:
    tape = Tape(seed=5)
    kernel = kernel_of(tape, "k")
    assert kernel_of(Tape(tape.read), "k") == kernel


def test_every_feature_comes() -> None:
    seen = frozenset[str]().union(*(random_kernel(seed).features for seed in range(60)))
    assert seen == {name for name, _ in FEATURES}


def test_a_tape_shrinks_to_what_fails() -> None:
    """Only the two entries that matter are left, at their places among zeros or none."""
    assert shrink([7, 9, 1, 100, 3, 50, 8], lambda tape: 100 in tape and 50 in tape) == [100, 50]
