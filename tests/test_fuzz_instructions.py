"""Random PTX instructions on every level against a reference written from the PTX ISA."""

from dataclasses import replace

import pytest

from tests.fuzz_instructions import NAMES, PAIRS, check, main, random_batch

QUICK = 4


@pytest.mark.parametrize("seed", range(QUICK))
def test_random_instructions(seed: int) -> None:
    """1,280 cases."""
    assert check(random_batch(seed)) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(0, 20_000, 1_000))
def test_fifty_thousand_cases(seed: int) -> None:
    assert main(["--cases", "2500", "--seed", str(seed)]) == 0


def test_every_family_is_among_them() -> None:
    drawn = {item.name.strip("@").split(".")[0] for seed in range(60) for item in random_batch(seed).snippets}
    assert drawn == {name.split(".")[0] for name in (*NAMES, *PAIRS)}


def test_a_wrong_result_is_found() -> None:
    """The check itself: the text says another instruction than the reference."""
    batch = random_batch(0, ("add.u32",))
    snippets = tuple(replace(item, text=item.text.replace("add.u32", "sub.u32")) for item in batch.snippets)
    wrong = check(replace(batch, snippets=snippets))
    assert {item.level for item in wrong} == {"ptx", "mir", "mir after all passes", "rom"}
