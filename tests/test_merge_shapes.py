"""Merges into bases of other shapes and kinds: what is padded or widened, and how far the text is the base's."""

import json
import tracemalloc
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from runtime.launcher import run_program
from runtime.merged import MergedModel
from tests.random_bases import random_base
from tests.test_merged import dot, text
from toolchain.machine_spec import NANO
from toolchain.merge.base import TEXT_CLASS, WHOLE_CLASS
from toolchain.merge.design import Mode
from toolchain.merge.merge import merge
from toolchain.merge.report import MergeReport
from toolchain.merge.text_bias import LENGTH, SEED, SEQUENCES


@dataclass(frozen=True)
class Variant:
    """A base, and what becomes of it. `most`: largest difference of a text logit, of a spread of about 1."""

    changes: Mapping[str, Any]
    dtype: torch.dtype
    mode: Mode
    padded: tuple[str, ...]
    changed: int
    most: float


VARIANTS = {
    "more units and heads, two value heads a key head": Variant(
        {"intermediate_size": 4096, "linear_num_key_heads": 16, "linear_num_value_heads": 32},
        torch.bfloat16, Mode.IN_PLACE, (), 0, 0.0,
    ),
    "fewer units and heads": Variant(
        {"intermediate_size": 1024, "linear_num_key_heads": 4, "linear_num_value_heads": 8},
        torch.bfloat16, Mode.IN_PLACE, ("MLP 1024 to 3008", "key heads 4 to 12", "value heads 8 to 24"), 14, 0.1,
    ),
    "tied, float32": Variant({"tie_word_embeddings": True}, torch.float32, Mode.IN_PLACE, (), 0, 0.0),
    "narrow": Variant(
        {"hidden_size": 256, "intermediate_size": 512}, torch.bfloat16, Mode.WIDENED, ("MLP 512 to 3008",), 22, 0.1
    ),
    "narrow, float32": Variant(
        {"hidden_size": 256, "intermediate_size": 512}, torch.float32, Mode.WIDENED, ("MLP 512 to 3008",), 22, 0.01
    ),
}  # fmt: skip


def logits(folder: Path, dtype: torch.dtype, prompt: torch.Tensor) -> torch.Tensor:
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    with torch.inference_mode():
        return model(prompt).logits.float()


def check_dot(folder: Path) -> None:
    report = run_program(dot(), MergedModel(folder), check=True, unsigned=False)
    assert (report.check, report.arrays["c"]) == ("exact", [32])


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_shapes(variant: Variant, tmp_path: Path) -> None:
    base = random_base(tmp_path / "base", variant.changes, dtype=variant.dtype)
    report = merge(base, NANO, tmp_path / "out")
    assert report.design.mode is variant.mode
    assert report.design.padded == variant.padded
    assert len(report.changed) == variant.changed
    assert [run.changed for run in report.runs] == [(), ()]
    check_dot(tmp_path / "out")
    words = report.base.vocabulary
    prompt = text(words, 100)
    ours, theirs = (logits(folder, variant.dtype, prompt) for folder in (tmp_path / "out", base))
    assert float((ours[..., :words] - theirs).abs().max()) <= variant.most
    assert 0.3 < float(theirs.std()) < 2
    assert bool((ours[..., words:].amax(-1) < ours[..., :words].amax(-1)).all()), (
        "a machine's token wins on text"
    )


def test_padding_alone_is_what_changes_rounding(tmp_path: Path) -> None:
    """With zeros in its layers the base rounds as the merged model does: the circuit layers add nothing to that."""
    variant = VARIANTS["fewer units and heads"]
    base = random_base(tmp_path / "base", variant.changes)
    report = merge(base, NANO, tmp_path / "out")
    model: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.bfloat16)
    prompt = text(report.base.vocabulary, 100)
    with torch.inference_mode():
        whole = model(prompt, use_cache=False).logits
        kept = model.model.layers[report.design.layers :]
        model.model.layers = kept
        model.model.config.layer_types = model.model.config.layer_types[report.design.layers :]
        model.model.config.num_hidden_layers = len(kept)
        alone = model(prompt, use_cache=False).logits
    assert torch.equal(whole, alone)


def whole_class(folder: Path, target: Path) -> Path:
    """The same model as the text part of the conditional-generation class, with something to see with."""
    target.mkdir()
    tensors = load_file(folder / "model.safetensors")
    renamed = {name.replace("model.", "model.language_model.", 1): tensor for name, tensor in tensors.items()}
    renamed["model.visual.patch_embed.proj.weight"] = torch.ones(2, 3)
    save_file(renamed, target / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == [TEXT_CLASS]
    outer = {"architectures": [WHOLE_CLASS], "model_type": "qwen3_5", "text_config": config}
    (target / "config.json").write_text(json.dumps({**outer, "tie_word_embeddings": False}))
    return target


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for path in folder.glob("*.safetensors"):
        found |= load_file(path)
    return found


def test_shards_and_the_whole_class_give_the_same(tmp_path: Path) -> None:
    single = random_base(tmp_path / "base")
    shards = random_base(tmp_path / "shards", shard="20MB")
    assert len([*shards.glob("*.safetensors")]) > 2
    folders = [single, shards, whole_class(single, tmp_path / "whole")]
    merged = []
    for number, folder in enumerate(folders):
        merge(folder, NANO, tmp_path / f"out{number}")
        merged.append(tensors_of(tmp_path / f"out{number}"))
    for other in merged[1:]:
        assert other.keys() == merged[0].keys()
        assert all(torch.equal(tensor, merged[0][name]) for name, tensor in other.items())


def test_base_tensors_are_there_byte_for_byte(tmp_path: Path) -> None:
    """Against the files, without the report's own comparison."""
    base = random_base(tmp_path / "base")
    report = merge(base, NANO, tmp_path / "out")
    old, new = tensors_of(base), tensors_of(tmp_path / "out")
    for name, tensor in old.items():
        parts = name.split(".")
        if parts[1] == "layers":
            parts[2] = str(int(parts[2]) + report.design.layers)
        assert torch.equal(new[".".join(parts)][: len(tensor)], tensor)
    assert report.identical == len(old)


def test_memory_stays_below_a_shard_and_a_half(tmp_path: Path) -> None:
    base = random_base(tmp_path / "base", {"vocab_size": 8000}, words=1000)
    shard = max(path.stat().st_size for path in base.glob("*.safetensors"))
    tracemalloc.start()
    try:
        report = merge(base, NANO, tmp_path / "out")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert shard == report.base.largest_shard
    assert peak < 1.5 * shard


def test_machine_tokens_are_kept_down_on_text(tmp_path: Path) -> None:
    """On the calibration text, in the stock model of the whole folder; without the shared direction one would win."""
    report = merge(random_base(tmp_path / "base"), NANO, tmp_path / "out")
    words = report.base.vocabulary
    ids = np.random.default_rng(SEED).integers(words, size=SEQUENCES * LENGTH)
    found = logits(tmp_path / "out", torch.float32, torch.from_numpy(ids).reshape(SEQUENCES, LENGTH))
    margin = float((found[..., :words].amax(-1) - found[..., words:].amax(-1)).min())
    assert report.bias.before < 0 < report.bias.margin
    assert margin == pytest.approx(report.bias.margin, abs=0.1)


def test_report_and_card(tmp_path: Path) -> None:
    report: MergeReport = merge(random_base(tmp_path / "base"), NANO, tmp_path / "out")
    stored = json.loads((tmp_path / "out" / "merge_report.json").read_text())
    assert stored["base_tensors"] == {"identical": report.identical, "changed": []}
    assert len(stored["silence"]["half_layers"]) == 2 * report.design.layers
    narrowest = min(stored["silence"]["half_layers"], key=lambda half: half["cosine"])
    shown = (tmp_path / "out" / "merge_report.txt").read_text()
    assert f"smallest cosine {narrowest['cosine']:.4f}, token {narrowest['token']}" in shown
    card = (tmp_path / "out" / "README.md").read_text()
    for words in ("18 layers", "`nano`", "Positions: 4096", "Memory:", "License:"):
        assert words in card
