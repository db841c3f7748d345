"""Random kernels, compiled and run on the machine interpreter, against the same text compiled as C++."""

from pathlib import Path

import pytest

from tests.fuzz_kernels import check_kernel, cxx_compiler, expected_memory, parsed_module, random_kernel
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec

QUICK = 25
BATCHES = 20

needs_cxx = pytest.mark.skipif(cxx_compiler() is None, reason="needs g++ or cc")


def check_batch(seeds: range, specs: tuple[MachineSpec, ...], folder: Path) -> None:
    """Every kernel is right on every machine, or over one of its limits; most are right."""
    kernels = [random_kernel(seed) for seed in seeds]
    expected = expected_memory(kernels, folder)
    module = parsed_module("\n".join(kernel.source for kernel in kernels), folder)
    sources = {kernel.name: kernel.source for kernel in kernels}
    limits = {"blocks", "registers", "predicates", "returns"}
    right = 0
    for spec in specs:
        for kernel in kernels:
            outcome = check_kernel(module, kernel, spec, expected[kernel.name])
            right += outcome.kind == "right"
            allowed = outcome.kind == "right" or (outcome.kind == "refused" and outcome.detail in limits)
            assert allowed, f"{spec.name}, {outcome}\n{sources[kernel.name]}"
    assert right > 0.8 * len(kernels) * len(specs)


@needs_cxx
def test_random_kernels(tmp_path: Path) -> None:
    check_batch(range(QUICK), (NANO, CLASSIC), tmp_path)


@needs_cxx
@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_many_random_kernels(batch: int, tmp_path: Path) -> None:
    check_batch(range(1000 + 50 * batch, 1050 + 50 * batch), (NANO, CLASSIC), tmp_path)


def test_a_seed_is_always_the_same_kernel() -> None:
    assert random_kernel(3) == random_kernel(3)
    assert random_kernel(3).source != random_kernel(4).source
