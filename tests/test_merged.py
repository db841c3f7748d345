"""Folders that `qgpuc merge` writes, at work: refusals, launches that leave no trace, text that stays the base's."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from runtime.arguments import parse_launch
from runtime.launcher import Program, run_program
from runtime.merged import MergedModel
from tests.random_bases import random_base
from toolchain.driver import Options, compile_program
from toolchain.errors import CompileError
from toolchain.machine_spec import NANO
from toolchain.merge.merge import merge
from toolchain.merge.report import MergeReport
from toolchain.weights_backend.checkpoint import SPEC_FILE


@dataclass(frozen=True)
class Merged:
    """A random base, and `nano` merged into it in place."""

    base: Path
    folder: Path
    report: MergeReport
    model: MergedModel

    @property
    def words(self) -> int:
        return self.report.base.vocabulary


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Merged]:
    folder = tmp_path_factory.mktemp("merged")
    base = random_base(folder / "base")
    report = merge(base, NANO, folder / "out")
    yield Merged(base, folder / "out", report, MergedModel(folder / "out"))


def dot() -> Program:
    compilation = compile_program(Path("examples/dot.cu"), Options(NANO, "auto", None, ()))
    arguments = ("a=[1,2,3]", "b=[4,5,6]", "c=zeros:1", "n=3")
    return Program(compilation.rom, NANO, parse_launch("1", "1", arguments, 0))


def text(words: int, count: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, words, (1, count), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("description", [None, "{", "{}", '{"format": 2, "machine": {}, "memory": {}}'])
def test_folder_that_is_not_merged_is_refused(tmp_path: Path, description: str | None) -> None:
    if description is not None:
        (tmp_path / SPEC_FILE).write_text(description)
    with pytest.raises(CompileError, match="no language model with a machine in it"):
        MergedModel(tmp_path)


def test_launch_on_the_circuit_layers_is_exact(merged: Merged) -> None:
    report = run_program(dot(), merged.model, check=True, unsigned=False)
    assert report.check == "exact"
    assert report.arrays["c"] == [32]


def test_a_launch_leaves_no_trace(merged: Merged) -> None:
    """A conversation with a launch in it, and its result as text, against one that never had the launch."""
    model, prompt, result = merged.model.model, text(merged.words, 40), text(merged.words, 4, seed=2)
    with torch.inference_mode():
        ours, theirs = (model(prompt, use_cache=True) for _ in range(2))
        assert run_program(dot(), merged.model, check=True, unsigned=False).check == "exact"
        for part in (result, text(merged.words, 1, seed=3)):
            ours, theirs = (model(part, cache=output.cache, use_cache=True) for output in (ours, theirs))
            assert torch.equal(ours.logits, theirs.logits)


def test_stock_generate_through_all_layers_is_exact(merged: Merged) -> None:
    """After text, which the base's full-attention layer mixes in."""
    program, first = dot(), merged.words
    load = torch.tensor([[first + number for number in program.ids(program.load())]])
    said = [first + number for number in program.ids(program.interpret().tokens)]
    prompt = torch.cat([text(first, 20), load], dim=1)
    written = merged.model.model.generate(input_ids=prompt, max_new_tokens=len(said) + 8, do_sample=False)
    assert written[0, prompt.shape[1] :].tolist() == said


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_text_is_the_base_s_bit_for_bit(merged: Merged, dtype: torch.dtype) -> None:
    models: list[Any] = [
        AutoModelForCausalLM.from_pretrained(folder, dtype=dtype) for folder in (merged.folder, merged.base)
    ]
    words, prompt = merged.words, text(merged.words, 150)
    with torch.inference_mode():
        ours, theirs = (model(prompt, use_cache=True, output_hidden_states=True) for model in models)
        assert torch.equal(ours.hidden_states[-1], theirs.hidden_states[-1])
        assert torch.equal(ours.logits[..., :words], theirs.logits)
        for token in text(words, 5, seed=1)[0]:
            ours, theirs = (
                model(token.reshape(1, 1), cache=output.cache, use_cache=True)
                for model, output in zip(models, (ours, theirs), strict=True)
            )
            assert torch.equal(ours.logits[..., :words], theirs.logits)
    assert float(theirs.logits.float().std()) > 0.01  # the base says something
