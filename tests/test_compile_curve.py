"""The curve of compile time against program size: its generator, its fit, its stored table."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench import compile_curve


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_is_found(power: float) -> None:
    sizes = [3.0, 10.0, 41.0, 200.0]
    assert compile_curve.exponent(sizes, [7 * size**power for size in sizes]) == pytest.approx(power)


def test_programs_grow_with_their_rounds() -> None:
    points = [compile_curve.point(rounds, runs=1) for rounds in (1, 2, 4)]
    assert points[0].operations < points[1].operations < points[2].operations
    assert points[0].blocks <= points[1].blocks < points[2].blocks
    for item in points:
        assert "frontend" not in item.seconds
        assert item.seconds["schedule"] > 0
        assert item.total == pytest.approx(sum(item.seconds.values()))


def test_a_stored_curve_is_read_back_and_printed(tmp_path: Path) -> None:
    """A doubled size at four times the seconds: the table must say exponent 2, and one bar is four times the other."""
    stored = compile_curve.read()
    small = compile_curve.Point(1, 10, 2, {"one": 0.5, "two": 0.25})
    large = compile_curve.Point(2, 20, 4, {"one": 2.0, "two": 1.0})
    curve = replace(stored, points=(small, large))
    compile_curve.write(curve, tmp_path / "curve.json")
    assert compile_curve.read(tmp_path / "curve.json") == curve
    lines = list(compile_curve.lines(tmp_path / "curve.json"))
    bars = [line.count("#") for line in lines if "#" in line]
    assert bars == [compile_curve.WIDTH // 4, compile_curve.WIDTH]
    assert "| all | 3.000 | 100% | 2.00 |" in lines
    assert "| one | 2.000 | 67% | 2.00 |" in lines


def test_the_stored_curve_has_every_size() -> None:
    assert [item.rounds for item in compile_curve.read().points] == list(compile_curve.SIZES)
