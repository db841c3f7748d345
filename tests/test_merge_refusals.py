"""What `qgpuc merge` refuses: in words, with nothing left behind."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file

from runtime.merged import MergedModel
from tests.random_bases import random_base
from toolchain.cli import run_command
from toolchain.errors import CompileError
from toolchain.weights_backend.checkpoint import SPEC_FILE

LINE = ["--machine", "nano"]


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_base(tmp_path_factory.mktemp("good") / "base", shard="20MB")


@pytest.fixture
def base(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "base"))


def change_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def first_shard(folder: Path) -> Path:
    return min(folder.glob("*.safetensors"))


def cut(folder: Path) -> None:
    path = first_shard(folder)
    path.write_bytes(path.read_bytes()[:-100])


def other_rows(folder: Path) -> None:
    change_config(folder, vocab_size=500)


def many_tokens(folder: Path) -> None:
    path = folder / "tokenizer.json"
    table = json.loads(path.read_text())
    table["model"]["vocab"]["extra"] = 400
    path.write_text(json.dumps(table))


def half(folder: Path) -> None:
    for path in folder.glob("*.safetensors"):
        save_file({name: item.to(torch.float16) for name, item in load_file(path).items()}, path)


def small_heads(folder: Path) -> None:
    shutil.rmtree(folder)
    random_base(folder, {"linear_key_head_dim": 32})


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "another architecture": (lambda f: change_config(f, architectures=["LlamaForCausalLM"]), "LlamaForCausalLM"),
    "no architecture": (lambda f: change_config(f, architectures=None), "a model without a name"),
    "no config": (lambda f: (f / "config.json").unlink(), "cannot read"),
    "config that is no JSON": (lambda f: (f / "config.json").write_text("{"), "is no JSON"),
    "a missing shard": (lambda f: first_shard(f).unlink(), "lacks model-00001-of-"),
    "no tensors": (lambda f: [path.unlink() for path in f.glob("model*")], "neither"),
    "a shard cut short": (cut, "is cut short"),
    "a shard that is none": (lambda f: first_shard(f).write_bytes(b"\xff" * 64), "is no safetensors file"),
    "another number of rows": (other_rows, "where config.json says"),
    "a tokenizer of more tokens than rows": (many_tokens, "its embedding has 400 rows"),
    "a damaged tokenizer": (lambda f: (f / "tokenizer.json").write_text("{}"), "is no tokenizer"),
    "half precision": (half, "F16"),
    "a machine inside already": (lambda f: (f / SPEC_FILE).write_text("{}"), "has a machine in it already"),
    "heads too small": (small_heads, "heads hold 32 rows"),
}  # fmt: skip


def refused(base: Path, target: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What is said; nothing must have been written."""
    before = sorted(path.name for path in target.parent.iterdir())
    assert run_command(["merge", "--base", str(base), *LINE, "-o", str(target)]) == 2
    assert sorted(path.name for path in target.parent.iterdir()) == before
    return capsys.readouterr().err


@pytest.mark.parametrize(("damage", "words"), BROKEN.values(), ids=BROKEN)
def test_broken_base(
    damage: Callable[[Path], object],
    words: str,
    base: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(base)
    said = refused(base, tmp_path / "out", capsys)
    assert words in said
    assert "Traceback" not in said


def test_no_disk_space(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1 << 40, 1 << 40, 1 << 20))
    assert "0.0 GB free" in refused(base, tmp_path / "out", capsys)


def test_disk_that_fills_up(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("toolchain.merge.merge.write_tensors", full)
    assert "No space left on device" in refused(base, tmp_path / "out", capsys)


def test_folder_that_holds_something(base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("")
    assert "is there already" in refused(base, tmp_path / "out", capsys)
    assert (tmp_path / "out" / "mine").exists()


def test_in_place_that_cannot_be_proved_names_tokens(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows on both sides of the origin have no direction that separates them."""
    for path in base.glob("*.safetensors"):
        tensors = load_file(path)
        if "model.embed_tokens.weight" in tensors:
            rows = tensors["model.embed_tokens.weight"]
            rows[7] = -rows[8]
            save_file(tensors, path, {"format": "pt"})
    line = ["merge", "--base", str(base), *LINE, "--mode", "in-place", "-o", str(tmp_path / "out")]
    assert run_command(line) == 2
    said = capsys.readouterr().err
    assert "cannot be shut to text" in said
    assert "--mode widened" in said
    assert not (tmp_path / "out").exists()


def test_a_base_is_no_merged_folder(good: Path) -> None:
    with pytest.raises(CompileError, match="no language model with a machine in it"):
        MergedModel(good)
