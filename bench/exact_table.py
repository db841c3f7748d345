"""The scheduler against the exact search (exact_schedule.py) on the small kernels of the corpus.

`qgpuc bench --exact` searches anew and stores the table; how far a search comes in its time depends on the machine.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.exact_schedule import ExactCuts
from bench.stored import read_rows, write_rows
from bench.token_causes import lowered, optimised, run_exactly
from tests.kernels.case import KernelCase
from tests.kernels.cases import CASES
from toolchain.machine_spec import CLASSIC
from toolchain.mir.emit_rom import compile_mir

STORED = Path(__file__).parent / "exact_table.json"
LARGEST = 16
"""Nodes of the largest block of a kernel in the table."""
SECONDS = 5.0
"""Time for one block's search."""


@dataclass(frozen=True)
class Row:
    """One kernel. `visit` tokens are one visit of every block with all lanes, stores aside; `launch` a whole launch."""

    kernel: str
    blocks: int
    largest: int
    visit: int
    visit_best: int
    visit_bound: int
    launch: int
    launch_best: int
    proven: bool


def row(case: KernelCase, seconds: float = SECONDS, largest: int = LARGEST) -> Row | None:
    """The kernel's row; None if a block is too large. Both programs run, and must leave what the reference says."""
    function = optimised(lowered(case, CLASSIC), CLASSIC)
    plain = compile_mir(function, CLASSIC)
    sizes = ExactCuts(CLASSIC, 0.0, 0)
    compile_mir(function, CLASSIC, find_cut=sizes.find)
    if max(item.nodes for item in sizes.outcomes) > largest:
        return None
    cuts = ExactCuts(CLASSIC, seconds, largest)
    best = compile_mir(function, CLASSIC, find_cut=cuts.find)
    return Row(
        case.name,
        len(cuts.outcomes),
        max(item.nodes for item in cuts.outcomes),
        sum(item.heuristic for item in cuts.outcomes),
        sum(item.cut.tokens for item in cuts.outcomes),
        sum(item.bound for item in cuts.outcomes),
        len(run_exactly(plain, case, CLASSIC).tokens),
        len(run_exactly(best, case, CLASSIC).tokens),
        all(item.proven for item in cuts.outcomes),
    )


def measure(path: Path = STORED, progress: Callable[[str], None] = lambda line: None) -> None:
    """Searches every small kernel (some minutes), and writes the table."""
    rows = []
    for case in CASES:
        found = row(case) if case.fits(CLASSIC) else None
        if found is not None:
            rows.append(found)
            progress(str(found))
    write_rows(path, rows)


def lines(path: Path = STORED) -> Iterator[str]:
    """The stored table."""
    rows = read_rows(path, Row)
    yield "| kernel | MIR blocks | largest graph | scheduler | best found | lower bound | launch | launch, best |"
    yield "|---" * 8 + "|"
    for item in rows:
        bound = "optimal" if item.proven else f"{item.visit_bound}"
        visit = f"{item.visit} | {item.visit_best} | {bound}"
        yield (
            f"| {item.kernel} | {item.blocks} | {item.largest} | {visit} | {item.launch} | {item.launch_best} |"
        )
    proven = sum(item.proven for item in rows)
    as_good = sum(item.visit <= item.visit_bound for item in rows)
    yield ""
    yield (
        f"{len(rows)} kernels whose blocks have at most {LARGEST} operations; the optimum is proven for {proven}, "
        f"and the scheduler reaches it in {as_good}. Tokens of one visit of each block with all lanes, stores aside: "
        f"{sum(item.visit for item in rows)} by the scheduler, {sum(item.visit_best for item in rows)} the best "
        f"found, {sum(item.visit_bound for item in rows)} the proven lower bound."
    )
