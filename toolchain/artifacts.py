"""Any artifact as text: what `inspect` prints and `diff` compares."""

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

from runtime.trace import HEADER
from toolchain.circuit_ir.placed import PlacedCircuit
from toolchain.circuit_ir.plan import PLAN_HEADER, plan_text
from toolchain.errors import CompileError
from toolchain.forms import FORMS, form_of, read_form, read_text
from toolchain.weights_backend.checkpoint import PROOF_FILE, SPEC_FILE

ORDER = [*(form.suffix for form in FORMS.values() if form.suffix), ".trace"]
"""Suffixes, or whole names, of artifacts that are text, in the order a program goes through them."""


def describe(path: Path) -> dict[str, str]:
    """Texts by name: one for a file; for a folder, its artifacts, then its checkpoint."""
    if path.is_file():
        return {path.name: describe_file(path)}
    items = [item for item in path.iterdir() if item.is_file() and _suffix(item) in ORDER]
    items.sort(key=lambda item: (ORDER.index(_suffix(item)), item.name))
    texts = {item.name: describe_file(item) for item in items}
    if (path / "config.json").exists():
        texts |= describe_checkpoint(path)
    if not texts:
        raise CompileError(f"'{path}' holds no artifact of this toolchain")
    return texts


def _suffix(path: Path) -> str:
    return path.suffix or f".{path.name}"


def describe_file(path: Path) -> str:
    """One artifact, parsed and printed, so that what does not parse is refused; a placed circuit as its plan."""
    if path.suffix == ".safetensors":
        return _tensors(path)
    if path.suffix == ".json":
        return json.dumps(_read_json(path), indent=2, sort_keys=True) + "\n"
    text = read_text(path)
    if text.startswith(HEADER):
        return text
    if text.startswith(PLAN_HEADER):
        return text  # a plan, as in golden/: for people only
    form = form_of(path)
    value = read_form(path, form)
    return plan_text(value) if isinstance(value, PlacedCircuit) else form.print(value)


def describe_checkpoint(folder: Path) -> dict[str, str]:
    """A checkpoint's configuration, its machine, its proof of exactness, and each tensor's type, shape and digest."""
    described = [name for name in ("config.json", SPEC_FILE) if (folder / name).exists()]
    configs = {name: describe_file(folder / name) for name in described}
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise CompileError(
            f"the checkpoint '{folder}' has no tensors", hint="build it again with `qgpuc build`"
        )
    proof = folder / PROOF_FILE
    proofs = {PROOF_FILE: proof.read_text()} if proof.exists() else {}
    return configs | proofs | {path.name: _tensors(path) for path in files}


def _read_json(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise CompileError(f"'{path}' is not JSON: {error}") from error


def _tensors(path: Path) -> str:
    """A line a tensor, read from the file's own header (8 bytes of length, then JSON)."""
    broken = CompileError(
        f"'{path}' is cut short or not safetensors", hint="build it again with `qgpuc build`"
    )
    with path.open("rb") as stream:
        start = stream.read(8)
        if len(start) < 8:
            raise broken
        (length,) = struct.unpack("<Q", start)
        size = path.stat().st_size
        if length > size - 8:
            raise broken
        try:
            header = json.loads(stream.read(length))
        except ValueError as error:
            raise broken from error
        lines = []
        for name in sorted(set(header) - {"__metadata__"}):
            begin, end = header[name]["data_offsets"]
            if 8 + length + end > size:
                raise broken
            stream.seek(8 + length + begin)
            digest = hashlib.sha256(stream.read(end - begin)).hexdigest()[:16]
            lines.append(f"{name} {header[name]['dtype']} {header[name]['shape']} {digest}")
    return "\n".join(lines) + "\n"
