"""The exact search: never worse than the scheduler, right when run, and the same optimum as plain enumeration."""

from itertools import combinations

import pytest

from bench import exact_table
from bench.exact_schedule import ExactCuts, ExactSearch
from bench.token_causes import lowered, optimised, run_exactly
from tests.conftest import case_of as case
from toolchain.machine_spec import CLASSIC, NANO
from toolchain.mir import liveness
from toolchain.mir.emit_rom import compile_mir, prepare
from toolchain.mir.schedule_cut import CutSearch, Packer
from toolchain.mir.schedule_dag import Dag, build_dag
from toolchain.mir.schedule_pack import pack
from toolchain.mir.schedule_pack_exact import pack_exactly

SMALL = ("dot", "saxpy", "vector_add", "prefix_sum", "guarded_copy", "puzzle_broadcast", "transpose_shared")


@pytest.mark.parametrize("name", SMALL)
def test_never_worse_and_right(name: str) -> None:
    found = exact_table.row(case(name), 2.0)
    assert found is not None
    assert found.visit_bound <= found.visit_best <= found.visit
    assert found.proven


def dags(name: str) -> list[Dag]:
    function = prepare(optimised(lowered(case(name), NANO), NANO))
    live = liveness.analyse(function)
    return [build_dag(block, live.after[block.label]) for block in function.blocks]


def least(dag: Dag) -> int:
    """Tokens of the cheapest sequence of sets of nodes, each computed once: every one is tried."""
    search = CutSearch(Packer(dag), NANO)
    count = len(dag.nodes)
    everything = (1 << count) - 1
    best = {0: 0}
    for done in range(everything + 1):
        if done not in best:
            continue
        rest = [index for index in range(count) if not done >> index & 1]
        for size in range(1, len(rest) + 1):
            for chosen in combinations(rest, size):
                nodes = sum(1 << index for index in chosen)
                after = done | nodes
                if not all(before(dag, index, after, done) for index in chosen):
                    continue
                if search.packer.pack(nodes) is None and not packs(search.packer, nodes, count):
                    continue
                alive = [
                    i for i in chosen if dag.is_output(i) or any(not after >> u & 1 for u in dag.users[i])
                ]
                flags = any(dag.nodes[index].is_flag for index in alive)
                total = best[done] + 1 + sum(search.weights[index] for index in alive) + flags
                best[after] = min(best.get(after, total), total)
    return best[everything]


def before(dag: Dag, index: int, after: int, done: int) -> bool:
    """Whether what must come before the node does; blocks that rewrite what they read are left to other tests."""
    node = dag.nodes[index]
    inside = all(after >> ref & 1 for ref in (*node.refs, *node.loose))
    return inside and all(done >> ref & 1 for ref in node.strict)


def packs(packer: Packer, nodes: int, count: int) -> bool:
    indices = [index for index in range(count) if nodes >> index & 1]
    items = {index: packer.item(index, packer.refs[index] & nodes) for index in indices}
    return pack_exactly(items, count) is not None


@pytest.mark.parametrize("name", ["vector_add", "saxpy", "puzzle_broadcast", "maximum"])
def test_the_bound_is_below_all_ways_without_recomputation(name: str) -> None:
    checked = 0
    for dag in dags(name):
        branches = dag.branch is not None
        rewrites = any(register in dag.readers for register in (*dag.outputs, *dag.predicate_outputs))
        if len(dag.nodes) > 8 or not dag.nodes or branches or rewrites:
            continue
        known = CutSearch(Packer(dag), NANO).search()
        assert known is not None
        bound, cut = ExactSearch(dag, NANO, 5.0).run(known)
        assert cut.tokens == bound <= least(dag) <= known.tokens
        checked += 1
    assert checked


def test_exact_packing_takes_all_that_the_scheduler_packs() -> None:
    for name in ("dot", "reduce_tree"):
        for dag in dags(name):
            packer = Packer(dag)
            for start in range(len(dag.nodes)):
                nodes = sum(1 << index for index in range(start, min(start + 6, len(dag.nodes))))
                items = {
                    i: packer.item(i, packer.refs[i] & nodes) for i in range(len(dag.nodes)) if nodes >> i & 1
                }
                if pack(items, len(dag.nodes)) is not None:
                    assert pack_exactly(items, len(dag.nodes)) is not None


def test_what_is_too_large_is_left_as_it_is() -> None:
    function = optimised(lowered(case("dot"), CLASSIC), CLASSIC)
    cuts = ExactCuts(CLASSIC, 1.0, 1)
    rom = compile_mir(function, CLASSIC, find_cut=cuts.find)
    assert rom == compile_mir(function, CLASSIC)
    assert all(item.cut.tokens == item.heuristic for item in cuts.outcomes)
    run_exactly(rom, case("dot"), CLASSIC)
