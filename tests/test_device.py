"""What is prepared for a GPU, as far as a CPU can run it: the static step, the rows, the rounding of other kernels."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers.models.qwen3_5 import modeling_qwen3_5

from bench import device
from bench.kernels import program
from bench.static_decoding import StaticDecoder
from runtime.transformers_engine import TransformersEngine, load_model
from tests.conftest import case_of
from toolchain.machine_build import ensure_checkpoint
from toolchain.machine_spec import NANO

TF32_BITS = 13
"""Of a float32 mantissa, what TF32 lacks."""


@pytest.fixture(scope="module")
def model() -> Any:
    return load_model(ensure_checkpoint(NANO, device.DTYPE))


def traced(kernel: str) -> tuple[list[int], list[int]]:
    item = program(case_of(kernel), NANO)
    return item.ids(item.load()), item.ids(item.interpret().tokens)


def test_static_steps_say_what_the_interpreter_says(model: Any) -> None:
    """Two launches side by side, twice over: emptying the cache leaves nothing behind."""
    load, launch = traced("dot")
    decoder = StaticDecoder(model, len(load) + len(launch), 2)
    for _ in range(2):
        decoder.prefill(load, chunk=100)
        assert decoder.decode(len(launch)) == [launch, launch]


def tf32(numbers: torch.Tensor) -> torch.Tensor:
    """Rounded to nearest, away from zero at ties."""
    bits = numbers.contiguous().view(torch.int32)
    return ((bits + (1 << (TF32_BITS - 1))) >> TF32_BITS << TF32_BITS).view(torch.float32)


@pytest.mark.parametrize("rounded", [lambda x: x.to(torch.bfloat16).float(), tf32], ids=["bfloat16", "TF32"])
def test_keys_and_queries_may_be_rounded(
    rounded: Callable[[torch.Tensor], torch.Tensor], model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As kernels do that multiply in these formats: one-hot rows stay what they are."""
    normed = modeling_qwen3_5.l2norm
    monkeypatch.setattr(modeling_qwen3_5, "l2norm", lambda *args, **named: rounded(normed(*args, **named)))
    load, launch = traced("dot")
    assert TransformersEngine(ensure_checkpoint(NANO, device.DTYPE), model).said(load, launch) == launch
    monkeypatch.setattr(modeling_qwen3_5, "l2norm", lambda *args, **named: 0 * normed(*args, **named))
    assert TransformersEngine(ensure_checkpoint(NANO, device.DTYPE), model).said(load, launch) != launch


def test_rows_of_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel and no time: the first row of each kind; a mode that fails is a row."""
    monkeypatch.setattr(device, "cases_for", lambda spec: [case_of("dot")])
    monkeypatch.setattr(device, "MODES", (device.EAGER, device.GRAPH))
    rows = list(device.run_path(NANO, device.REFERENCE, 0))
    expected = [("prefill", device.EAGER, 12, 0), ("decode dot", device.EAGER, 12, 0)]
    assert [(row.what, row.mode, row.tokens, row.wrong) for row in rows[:2]] == expected
    assert rows[0].note == "1 of 1 kernels"
    if not torch.cuda.is_available():
        assert [(row.what, row.mode, row.note) for row in rows[2:]] == [
            ("error", device.GRAPH, "RuntimeError: no GPU")
        ]


def test_where_a_wrong_model_differs_first(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong:
        """Says one token wrong."""

        def said(self, load: list[int], launch: list[int]) -> list[int]:
            return [launch[0] + 1, *launch[1:]]

    programs = {"dot": program(case_of("dot"), NANO)}
    engine: Any = Wrong()
    rows = list(device._prefill_rows(engine, model, programs, "some", float("inf")))
    assert (rows[0].wrong, rows[0].note) == (1, "1 of 1 kernels; wrong in dot")
    assert rows[1].note == "as on the CPU"


def test_measurement_is_printed(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    assert "nothing of this has run on one" in next(device.lines(path))
    row = device.Row("reference", "prefill", "eager", 1, 12, 0, 3.5, "all")
    content = {"machine": "nano", "device": "some", "versions": {"torch": "2"}, "rows": [row.__dict__]}
    path.write_text(json.dumps(content))
    printed = list(device.lines(path))
    assert printed[0] == "The stock model, `nano`, bfloat16, on some; torch 2."
    assert printed[-1] == "| reference | prefill | eager | 1 | 12 | 0 | 3.5 | all |"
