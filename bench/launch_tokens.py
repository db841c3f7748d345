"""Tokens the model writes for input set 0 of each test kernel, and those the host writes before. Exact."""

from collections.abc import Iterable, Iterator

from bench.kernels import MACHINES, program
from tests.kernels.case import KernelCase
from tests.kernels.cases import CASES


def lines(cases: Iterable[KernelCase] = CASES) -> Iterator[str]:
    """A row a kernel."""
    columns = " | ".join(f"{spec.name}: {what}" for spec in MACHINES for what in ("launch", "load", "blocks"))
    yield f"| kernel | {columns} |"
    yield "|---" * (1 + 3 * len(MACHINES)) + "|"
    for case in cases:
        counts: list[object] = []
        for spec in MACHINES:
            if not case.fits(spec):
                counts += ["", "", ""]
                continue
            item = program(case, spec)
            counts += [len(item.interpret().tokens), len(item.load()), len(item.rom.blocks)]
        yield f"| {case.name} | {' | '.join(map(str, counts))} |"
