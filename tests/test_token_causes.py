"""What saves tokens, cause by cause: the stored table is of now, and programs without a pass are right, too."""

import json

import pytest

from bench import token_causes
from tests.conftest import case_of as case
from tests.conftest import compiled
from tests.kernels.cases import CASES
from toolchain.machine_spec import CLASSIC
from toolchain.mir.interpreter import run_launch

SMALL = ("dot", "saxpy", "guarded_copy", "prefix_sum", "reduce_tree", "histogram_range")


def test_the_stored_totals_are_of_now() -> None:
    """A change of the compiler that changes tokens has to be measured: `qgpuc bench --causes`."""
    now = token_causes.totals(CASES, lambda item: compiled(item.name, CLASSIC.name).rom)
    assert json.loads(token_causes.STORED.read_text())["after"] == now


@pytest.mark.parametrize("ablation", token_causes.ABLATIONS, ids=lambda item: item.cause)
def test_programs_without_a_pass_are_right(ablation: token_causes.Ablation) -> None:
    """`run_exactly` holds the memory against each kernel's reference; what is taken away costs tokens somewhere."""
    more = 0
    for name in SMALL:
        function = token_causes.lowered(case(name), CLASSIC)
        counts = [
            len(token_causes.run_exactly(rom, case(name), token_causes.ROOMY).tokens)
            for rom in (
                token_causes.compiled(function, token_causes.ROOMY, token_causes.NOTHING),
                token_causes.compiled(function, token_causes.ROOMY, ablation),
            )
        ]
        more += counts[1] - counts[0]
    assert more > 0 or ablation.cause == "layout"


def test_the_driver_and_the_ablation_compile_alike() -> None:
    for name in SMALL:
        function = token_causes.lowered(case(name), CLASSIC)
        rom = token_causes.compiled(function, CLASSIC, token_causes.NOTHING)
        other = compiled(name, CLASSIC.name).rom
        launch = case(name).launches(CLASSIC)[0].launch
        assert run_launch(rom, CLASSIC, launch).tokens == run_launch(other, CLASSIC, launch).tokens


def test_the_table_names_every_cause() -> None:
    table = "\n".join(token_causes.lines())
    for cause in (*(item.cause for item in token_causes.ABLATIONS), "masks", "predicates", "short values"):
        assert f"| {cause} |" in table
