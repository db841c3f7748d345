"""Folders that `qgpuc merge` writes, at work: refusals, launches that leave no trace, text that stays the base's."""

from pathlib import Path

import pytest

from runtime.merged import MergedModel
from toolchain.errors import CompileError
from toolchain.weights_backend.checkpoint import SPEC_FILE


@pytest.mark.parametrize("description", [None, "{", "{}", '{"format": 2, "machine": {}, "memory": {}}'])
def test_folder_that_is_not_merged_is_refused(tmp_path: Path, description: str | None) -> None:
    if description is not None:
        (tmp_path / SPEC_FILE).write_text(description)
    with pytest.raises(CompileError, match="no language model with a machine in it"):
        MergedModel(tmp_path)
