"""Random kernels in bulk: `python -m tests.fuzz_kernels --seeds 0:2000`. See tests/fuzz/ and docs/TESTING.md.

Counts what is right, refused and wrong. A kernel that is wrong, or that breaks the compiler, is shrunk and kept in
tests/regressions. Ends with status 1 if there was one.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from tests.fuzz import regressions
from tests.fuzz.judge import Outcome, check_kernel, check_ptx, expected_arrays
from tests.fuzz.kernels import FuzzKernel, kernel_of, random_kernel
from tests.fuzz.tape import Tape, shrink
from tests.oracle.driver import Arrays, OracleError, OracleFault
from toolchain.machine_spec import CLASSIC, NANO, PRESETS, MachineSpec

BATCH = 50
"""Kernels in one program of the oracle."""
FAULTY = ("wrong", "crash")

Check = Callable[[FuzzKernel, MachineSpec, Sequence[Arrays], Path], Outcome]


def check_seeds(
    seeds: Sequence[int], spec: MachineSpec, check: Check, folder: Path, *, sanitize: bool = False
) -> list[Outcome]:
    """What became of each seed's kernel that fits the machine."""
    kernels = [random_kernel(seed) for seed in seeds]
    kernels = [kernel for kernel in kernels if kernel.lanes <= spec.lanes]
    expected = expected_arrays(kernels, spec.lanes, folder, sanitize=sanitize)
    return [check(kernel, spec, expected[kernel.name], folder) for kernel in kernels]


def check_alone(kernel: FuzzKernel, spec: MachineSpec, check: Check) -> Outcome:
    """What became of one kernel; refused where the oracle has no result."""
    with tempfile.TemporaryDirectory(prefix="qgpu-fuzz-") as name:
        folder = Path(name)
        try:
            expected = expected_arrays([kernel], spec.lanes, folder, sanitize=True)
        except (OracleError, OracleFault) as error:
            return Outcome(kernel.name, "refused", str(error))
        return check(kernel, spec, expected[kernel.name], folder)


def smallest(seed: int, spec: MachineSpec, kind: str, check: Check) -> FuzzKernel:
    """A kernel as small as can be found that fails as the seed's does."""
    name = f"fuzz{seed}"
    tape = Tape(seed=seed)
    kernel_of(tape, name)

    def fails(entries: list[int]) -> bool:
        kernel = kernel_of(Tape(entries), name)
        return kernel.lanes <= spec.lanes and check_alone(kernel, spec, check).kind == kind

    return kernel_of(Tape(shrink(tape.read, fails)), name)


def keep(kernel: FuzzKernel) -> Path:
    """The kernel among the regressions, with the oracle's results for each machine it fits."""
    expected: dict[str, list[Arrays]] = {}
    with tempfile.TemporaryDirectory(prefix="qgpu-fuzz-") as folder:
        for spec in (NANO, CLASSIC):
            if kernel.lanes <= spec.lanes:
                expected[spec.name] = expected_arrays([kernel], spec.lanes, Path(folder))[kernel.name]
    return regressions.save(regressions.Regression(kernel, expected))


@click.command(help=__doc__)
@click.option("--seeds", default="0:100", show_default=True, help="FIRST:LAST, the last one left out")
@click.option("--machine", "machines", multiple=True, default=("nano", "classic"), help="may be repeated")
@click.option("--ptx", is_flag=True, help="only the PTX interpreter")
@click.option("--sanitize", is_flag=True, help="the oracle refuses what C++ leaves undefined")
@click.option("--shrink/--no-shrink", "shrinks", default=True, help="shrink and keep what is wrong")
def main(seeds: str, machines: tuple[str, ...], ptx: bool, sanitize: bool, shrinks: bool) -> None:
    """The command line."""
    first, last = map(int, seeds.split(":"))
    check = check_ptx if ptx else check_kernel
    counts: Counter[tuple[str, str, str]] = Counter()
    faulty = False
    for start in range(first, last, BATCH):
        batch = range(start, min(start + BATCH, last))
        for spec in (PRESETS[name] for name in machines):
            with tempfile.TemporaryDirectory(prefix="qgpu-fuzz-") as folder:
                outcomes = check_seeds(batch, spec, check, Path(folder), sanitize=sanitize)
            for outcome in outcomes:
                counts[spec.name, outcome.kind, outcome.detail if outcome.kind == "refused" else ""] += 1
                if outcome.kind in FAULTY:
                    faulty = True
                    click.echo(f"{spec.name}: {outcome.kernel}: {outcome.kind}: {outcome.detail}")
                    if shrinks:
                        kernel = smallest(int(outcome.kernel[1:]), spec, outcome.kind, check)
                        click.echo(f"  kept as {keep(kernel)}")
        click.echo(f"{batch.stop - first} seeds, {sum(counts.values())} kernels", err=True)
    for (machine, kind, detail), count in sorted(counts.items()):
        click.echo(f"{count:6} {machine:8} {kind:8} {detail}")
    if faulty:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
