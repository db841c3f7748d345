"""Random MIR, scheduled and run: the machine must leave the same memory as the MIR interpreter."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.random_mir import ProgramMaker, launch_for
from toolchain.errors import CompileError
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec
from toolchain.mir import liveness
from toolchain.mir.emit_rom import compile_mir
from toolchain.mir.interpreter import run_launch
from toolchain.mir.layout import layout
from toolchain.mir.mir_interpreter import run_mir
from toolchain.mir.regalloc import coalesce
from toolchain.mir.schedule_cut import Cut, CutSearch, Packer
from toolchain.mir.schedule_dag import build_dag
from toolchain.mir.schedule_line import line_of
from toolchain.mir.schedule_orders import orders
from toolchain.mir.schedule_policy import QUICK
from toolchain.mir.verifier import verify


def check(seed: int, spec: MachineSpec, *, private: bool) -> bool:
    """Compiles and compares; False where the program does not fit the machine."""
    rng = random.Random(seed)
    function = ProgramMaker(rng, private=private).function()
    verify(function)
    launch = launch_for(spec, rng)
    try:
        rom = compile_mir(function, spec)
    except CompileError as error:
        if error.limit:
            return False
        raise
    reference = function if private else layout(coalesce(layout(function)))
    assert run_launch(rom, spec, launch).memory == run_mir(reference, spec, launch).memory
    return True


@pytest.mark.parametrize("spec", [NANO, CLASSIC], ids=lambda spec: spec.name)
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 1 << 30), private=st.booleans())
def test_memory_is_what_the_mir_interpreter_says(spec: MachineSpec, seed: int, private: bool) -> None:
    check(seed, spec, private=private)


def test_most_random_programs_fit() -> None:
    fits = sum(check(seed, CLASSIC, private=bool(seed % 2)) for seed in range(20))
    assert fits >= 10


@pytest.mark.parametrize("blocks_first", [False, True])
def test_a_bound_leaves_out_only_cuts_that_are_not_cheaper(blocks_first: bool) -> None:
    """Against the best cut of each earlier order: the same cut as without a bound where that is cheaper, else none."""
    outcomes: set[bool] = set()
    for seed in range(12):
        function = ProgramMaker(random.Random(seed), private=False).function()
        live = liveness.analyse(function)
        for block in function.blocks:
            dag = build_dag(block, live.after[block.label])
            if not dag.nodes:
                continue
            search = CutSearch(Packer(dag), CLASSIC, blocks_first=blocks_first)
            best: Cut | None = None
            for order in orders(dag):
                line = line_of(dag, order, CLASSIC)
                free = search.cut(line, None)
                if best is not None and free is not None:
                    cheaper = search.cost_of(free) < search.cost_of(best)
                    assert search.cut(line, best) == (free if cheaper else None)
                    outcomes.add(cheaper)
                if best is None or (free is not None and search.cost_of(free) < search.cost_of(best)):
                    best = free
    assert outcomes == {False, True}


def test_a_quick_search_finds_nothing_better() -> None:
    """Never fewer machine blocks than the whole search, a cut wherever that finds one, and not always as good."""
    outcomes: set[bool] = set()
    for seed in range(12):
        function = ProgramMaker(random.Random(seed), private=False).function()
        live = liveness.analyse(function)
        for block in function.blocks:
            packer = Packer(build_dag(block, live.after[block.label]))
            whole = CutSearch(packer, CLASSIC, blocks_first=True)
            quick, best = CutSearch(packer, CLASSIC, blocks_first=True, policy=QUICK).search(), whole.search()
            assert (quick is None) == (best is None)
            if quick is not None and best is not None:
                assert whole.cost_of(quick) >= whole.cost_of(best)
                outcomes.add(whole.cost_of(quick) > whole.cost_of(best))
    assert outcomes == {False, True}
