"""The GPU itself, from a machine's numbers to a checkpoint: circuit -> placed -> weights.

This list of three is the second half of the toolchain. None of it depends on a kernel: a program is data.
"""

import dataclasses
import hashlib
import os
import shutil
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from toolchain import forms
from toolchain.circuit_ir.evaluator import Evaluator
from toolchain.circuit_ir.ir import Circuit
from toolchain.circuit_ir.machine.build import build_machine
from toolchain.circuit_ir.placed import PlacedCircuit
from toolchain.circuit_ir.placement import place
from toolchain.circuit_ir.placement_cache import place_cached
from toolchain.circuit_ir.specialise import specialise
from toolchain.circuit_ir.text import print_circuit, print_placed
from toolchain.circuit_ir.tokens import embedding
from toolchain.errors import CompileError
from toolchain.forms import Form, read_form
from toolchain.machine_spec import MachineSpec
from toolchain.mir.rom import RomImage
from toolchain.weights_backend.checkpoint import Embed, Progress, build_checkpoint
from toolchain.weights_backend.numerics import Dtype

DTYPES = tuple(dtype.value for dtype in Dtype)
STALE_SECONDS = 86400
PACKAGE = Path(__file__).parent
SOURCES = ("circuit_ir", "weights_backend", "mir/encoding.py", "mir/isa.py", "machine_spec.py")
"""Everything of this package that decides what a checkpoint holds; `runtime/vocabulary.py` does too."""


@dataclass(frozen=True)
class Model:
    """What a checkpoint is made of: a placed machine, and what a token's embedding sets in it."""

    spec: MachineSpec
    placed: PlacedCircuit
    embed: Embed = embedding


def quiet(stage: str, done: int, count: int) -> None:
    """Reports no progress."""


def logical_circuit(spec: MachineSpec) -> Circuit:
    """The machine over `spec` as wires and gated sums."""
    return build_machine(spec)


@cache
def placed_circuit(spec: MachineSpec) -> PlacedCircuit:
    """The same with a layer, a slot and a head for everything."""
    return place_cached(logical_circuit(spec), spec, plan_folder())


def specialised_model(rom: RomImage, spec: MachineSpec) -> Model:
    """A kernel's own machine, with the program in its weights."""
    special = specialise(rom, spec)
    placed = place_cached(special.circuit, special.spec, plan_folder())
    return Model(special.spec, placed, special.embedding)


def placed_evaluator(spec: MachineSpec) -> Evaluator:
    """A fresh evaluator of the placed circuit."""
    return placed_circuit(spec).evaluator()


def build(spec: MachineSpec, dtype: str, target: Path, progress: Progress = quiet) -> None:
    """Writes the machine's checkpoint, whole or not at all; a folder that holds something is refused."""
    build_checkpoint(spec, Dtype(dtype), target, placed_circuit(spec), progress=progress)


def read_placed(path: Path, form: Form, spec: MachineSpec) -> PlacedCircuit:
    """A placed circuit from a .placed file, or from a .circuit file by placing it. Both are verified."""
    value = read_form(path, form)
    form.verify(value, spec)
    name = value.name if isinstance(value, Circuit) else value.circuit.name
    if name != spec.name:
        raise CompileError(f"'{path}' is machine '{name}', not '{spec.name}'", hint=f"--machine {name}")
    return place(value, spec) if isinstance(value, Circuit) else value


def write_circuits(placed: PlacedCircuit, spec: MachineSpec, folder: Path) -> None:
    """The machine's logical and placed circuit as text."""
    (folder / f"{spec.name}.circuit").write_text(print_circuit(placed.circuit))
    (folder / f"{spec.name}.placed").write_text(print_placed(placed))


def build_beside(model: Model, dtype: str, folder: Path, progress: Progress = quiet) -> None:
    """Writes the checkpoint's files into a folder that already holds text forms."""
    inner = folder / "checkpoint"
    build_checkpoint(model.spec, Dtype(dtype), inner, model.placed, progress=progress, embed=model.embed)
    for path in inner.iterdir():
        path.rename(folder / path.name)
    inner.rmdir()


def placed_size(spec: MachineSpec) -> str:
    """The numbers of the machine's placed circuit, in one line."""
    return forms.placed_size(placed_circuit(spec))


def cache_folder() -> Path:
    """Where this user's checkpoints, plans and native code are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qgpuc"


def plan_folder() -> Path:
    """Where placements are kept as plans."""
    return cache_folder() / "plans"


def cached_checkpoint(spec: MachineSpec, dtype: str) -> Path:
    """Where the checkpoint of a machine lies once it is built: by name, dtype, and what it was built from."""
    return cache_folder() / f"{spec.name}-{dtype}-{_fingerprint(spec, dtype)}"


def ensure_checkpoint(spec: MachineSpec, dtype: str, progress: Progress = quiet) -> Path:
    """The cached checkpoint, built if it is not there."""
    folder = cached_checkpoint(spec, dtype)
    if not (folder / "config.json").exists():
        build(spec, dtype, folder, progress)
        _drop_stale(folder, f"{spec.name}-{dtype}-")
    return folder


def _drop_stale(newest: Path, prefix: str) -> None:
    """Removes this machine's checkpoints of older circuits that are a day old."""
    for folder in newest.parent.glob(f"{prefix}*"):
        if folder != newest and time.time() - folder.stat().st_mtime > STALE_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def _fingerprint(spec: MachineSpec, dtype: str) -> str:
    """Changes whenever the circuits, the tensors or the tokens might."""
    digest = hashlib.sha256(repr((dataclasses.astuple(spec), dtype)).encode())
    files = [PACKAGE.parent / "runtime" / "vocabulary.py"]
    for name in SOURCES:
        path = PACKAGE / name
        files += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    for path in files:
        digest.update(path.relative_to(PACKAGE.parent).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
