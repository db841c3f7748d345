"""`qgpuc merge`: a base and a machine to one folder, whole or not at all."""

import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from runtime.vocabulary import Vocabulary
from toolchain.circuit_ir.bounds import prove
from toolchain.errors import CompileError
from toolchain.machine_build import Progress, placed_circuit, quiet
from toolchain.machine_spec import MachineSpec
from toolchain.merge.base import INDEX_FILE, LINEAR, TEXT_CLASS, Base, open_base
from toolchain.merge.base_layers import base_tensor
from toolchain.merge.circuit_layers import circuit_layer, token_rows
from toolchain.merge.design import Design, Mode, design
from toolchain.merge.occupancy import zero_slots
from toolchain.merge.readout import Readout, output_rows, plan_readout
from toolchain.merge.report import MergeReport, write_report
from toolchain.merge.separation import Separation, separate, shortest_row
from toolchain.merge.silence import HalfLayer, refuse_open, shut
from toolchain.merge.silence_run import refuse_changed, run_silence
from toolchain.merge.stock_layers import EMBEDDING_FILE, NORM_FILE, base_file, circuit_file
from toolchain.merge.tensor_files import NAMES, NewTensor, StoredTensor, narrowed, of_array, write_tensors
from toolchain.merge.text_bias import TextBias, final_rows, text_bias
from toolchain.merge.tokens import check_tokenizer, generation_config, write_tokenizer
from toolchain.weights_backend.checkpoint import FORMAT, PROOF_FILE, SPEC_FILE, check_exact, memory_place
from toolchain.weights_backend.numerics import Dtype

AUTO = "auto"
MODES = (AUTO, "in-place", "widened")
RUN_BY_DEFAULT = 256
"""Text rows with the least margins that are run through the stock layers, where not all are asked for."""
SPARE = 1 << 26
"""Bytes of the disk that are left free."""


@dataclass(frozen=True)
class Merge:
    """Everything decided before the first byte is written."""

    base: Base
    design: Design
    separations: tuple[Separation, ...]
    shortest: float
    readout: Readout
    note: str
    """Why not in place, where that was asked for too."""


def merge(
    folder: Path,
    spec: MachineSpec,
    target: Path,
    *,
    mode: str = AUTO,
    exhaustive: bool = False,
    progress: Progress = quiet,
) -> MergeReport:
    """Writes the merged model to `target`, which is new or empty.

    `exhaustive`: the stock layers run every row of the vocabulary, in both dtypes, not only the nearest to failing.
    Raises CompileError where the base cannot take the machine, or nothing can be written.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CompileError(f"'{target}' is there already", hint="name a new folder with -o")
    base = open_base(folder)
    check_tokenizer(base)
    plan = _plan(base, spec, mode)
    _check_room(plan, target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        temporary.chmod(0o755)
    except OSError as error:
        raise CompileError(f"cannot write '{target}': {error.strerror}") from error
    try:
        report = _write(plan, temporary, exhaustive, progress)
        if target.exists():
            target.rmdir()
        os.replace(temporary, target)
    except OSError as error:
        raise CompileError(f"cannot write '{target}': {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return report


def _plan(base: Base, spec: MachineSpec, mode: str) -> Merge:
    """In place if that is proved, else widened, as far as `mode` allows."""
    note = ""
    if mode != "widened":
        try:
            return _plan_mode(base, spec, Mode.IN_PLACE, note)
        except CompileError as error:
            if mode != AUTO:
                raise
            note = error.message
    return _plan_mode(base, spec, Mode.WIDENED, note)


def _plan_mode(base: Base, spec: MachineSpec, mode: Mode, note: str) -> Merge:
    laid = design(mode, spec, placed_circuit(spec), base.shape, base.dtype)
    separations: list[Separation] = []
    if mode is Mode.IN_PLACE:
        zero = zero_slots(laid.placed, fresh=base.dtype is Dtype.FLOAT32)
        separations = separate(base.embedding, zero[:-1])
        refuse_open(laid, separations)
    final = np.ones(laid.shape.hidden)
    if mode is Mode.IN_PLACE:
        final = 1 + base.tensors["model.norm.weight"].numbers()[:, 0].astype(np.float64)
    readout = plan_readout(laid, base, final)
    return Merge(base, laid, tuple(separations), shortest_row(base.embedding), readout, note)


def merged_config(plan: Merge) -> dict[str, object]:
    """config.json of the merged model."""
    base, shape = plan.base, plan.design.shape
    layers = plan.design.layers
    return {
        **base.config,
        "architectures": [TEXT_CLASS],
        "model_type": "qwen3_5_text",
        "dtype": base.dtype.value,
        "vocab_size": base.vocabulary + Vocabulary(plan.design.spec).size,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.mlp,
        "linear_num_key_heads": shape.key_heads,
        "linear_num_value_heads": shape.value_heads,
        "num_hidden_layers": layers + len(base.layer_types),
        "layer_types": [LINEAR] * layers + base.layer_types,
        "tie_word_embeddings": False,
    }


def _check_room(plan: Merge, target: Path) -> None:
    """Refuses a disk that is too small before anything is written."""
    shape, item = plan.design.shape, plan.base.dtype.bytes
    rows = 2 * (plan.base.vocabulary + Vocabulary(plan.design.spec).size)
    channels = shape.key_heads * shape.key_dim * 2 + shape.value_heads * shape.value_dim
    layer = shape.hidden * (3 * shape.mlp + channels + 2 * shape.value_heads * shape.value_dim)
    stored = (
        sum(tensor.size for tensor in plan.base.tensors.values()) * shape.hidden // plan.base.shape.hidden
    )
    needed = (rows * shape.hidden + layer * plan.design.layers) * item + stored + SPARE
    place = next(parent for parent in (target, *target.absolute().parents) if parent.exists())
    free = shutil.disk_usage(place).free
    if free < needed:
        raise CompileError(
            f"the merged model takes {needed / 1e9:.1f} GB; '{place}' has {free / 1e9:.1f} GB free",
            hint="choose another place with -o",
        )


def _write(plan: Merge, folder: Path, exhaustive: bool, progress: Progress) -> MergeReport:
    laid, base = plan.design, plan.base
    bounds = prove(laid.placed, laid.heads, base.dtype)
    (folder / PROOF_FILE).write_text("\n".join(bounds.lines()) + "\n")
    writer = _Writer(plan, folder, progress)
    _write_json(folder / "config.json", merged_config(plan))
    writer.write_all()
    _write_json(folder / "generation_config.json", generation_config(base, laid.spec))
    memory = memory_place(laid.placed)
    _write_json(
        folder / SPEC_FILE,
        {
            "format": FORMAT,
            "machine": asdict(laid.spec),
            "dtype": base.dtype.value,
            "memory": asdict(replace(memory, head=memory.head * laid.shape.group)),
            "merge": {
                "mode": laid.mode.value,
                "layers": laid.layers,
                "first_token": base.vocabulary,
                "tokens": Vocabulary(laid.spec).size,
            },
        },
    )
    write_tokenizer(base, laid.spec, folder)
    tokens = _tokens_to_run(plan, exhaustive)
    runs = tuple(run_silence(folder, laid.layers, dtype, tokens) for dtype in Dtype)
    refuse_changed(runs)
    assert writer.bias is not None
    report = MergeReport(
        design=laid,
        base=base,
        note=plan.note,
        half_layers=tuple(writer.proofs),
        runs=runs,
        readout=plan.readout,
        bias=writer.bias,
        identical=writer.identical,
        changed=tuple(writer.changed),
        size=writer.size,
    )
    write_report(report, folder)
    return report


def _tokens_to_run(plan: Merge, exhaustive: bool) -> np.ndarray:
    """Ids of the text rows that the stock layers run: all, or those with the least margins and an even choice."""
    count = plan.base.vocabulary
    if exhaustive or count <= RUN_BY_DEFAULT:
        return np.arange(count)
    worst = [found.token for found in plan.separations]
    spread = range(0, count, math.ceil(count / RUN_BY_DEFAULT))
    return np.array(sorted({*worst, *spread}))


class _Writer:
    """Writes the tensors in the order of the forward pass, a file at a time."""

    def __init__(self, plan: Merge, folder: Path, progress: Progress) -> None:
        self.plan, self.folder, self.progress = plan, folder, progress
        self.kind = NAMES[plan.base.dtype]
        self.proofs: list[HalfLayer] = []
        self.identical = 0
        self.changed: list[str] = []
        self.size = 0
        self.index: dict[str, str] = {}
        self.bias: TextBias | None = None
        self.files = plan.design.layers + len(plan.base.layer_types) + 3

    def write_all(self) -> None:
        base, layers = self.plan.base, self.plan.design.layers
        self._file(EMBEDDING_FILE, [self._rows("model.embed_tokens.weight", base.embedding)])
        for number in range(layers):
            self._file(circuit_file(number), self._circuit(number))
        for number in range(len(base.layer_types)):
            stored = base.layer(number)
            new = [
                self._base(name, stored[name], f"model.layers.{layers + number}.{name}")
                for name in sorted(stored)
            ]
            self._file(base_file(number), new)
        norm = "model.norm.weight"
        self._file(NORM_FILE, [self._base(norm, base.tensors[norm], norm)])
        self.bias = self._bias()
        self._file("output.safetensors", [self._rows("lm_head.weight", base.output)])
        table = {"metadata": {"total_size": self.size}, "weight_map": dict(sorted(self.index.items()))}
        _write_json(self.folder / INDEX_FILE, table)

    def _bias(self) -> TextBias:
        """What keeps the machine's tokens down on text; all but the output matrix is written."""
        plan, laid = self.plan, self.plan.design
        if laid.mode is Mode.IN_PLACE:
            free = zero_slots(laid.placed, fresh=plan.base.dtype is Dtype.FLOAT32)[-1]
        else:
            free = range(plan.base.shape.hidden)
        rows = final_rows(self.folder, laid, plan.base)
        return text_bias(rows, np.array(free), plan.base, output_rows(laid, plan.readout))

    def _file(self, name: str, tensors: list[NewTensor]) -> None:
        self.size += write_tensors(self.folder / name, tensors)
        self.index |= {tensor.name: name for tensor in tensors}
        self.progress("tensors", len(set(self.index.values())), self.files)

    def _circuit(self, number: int) -> list[NewTensor]:
        plan = self.plan
        tensors = circuit_layer(plan.design, number)
        for name, tensor in tensors.items():
            check_exact(name, tensor, plan.base.dtype)
        if plan.design.mode is Mode.IN_PLACE:
            epsilon = plan.base.config["rms_norm_eps"]
            assert isinstance(epsilon, float)
            self.proofs += shut(plan.design, number, tensors, list(plan.separations), plan.shortest, epsilon)
        return [
            of_array(f"model.layers.{number}.{name}", array, self.kind) for name, array in tensors.items()
        ]

    def _base(self, name: str, stored: StoredTensor, new_name: str) -> NewTensor:
        tensor, identical = base_tensor(self.plan.design, name, stored, new_name)
        self._count(new_name, identical)
        return tensor

    def _count(self, name: str, identical: bool) -> None:
        if identical:
            self.identical += 1
        else:
            self.changed.append(name)

    def _rows(self, name: str, stored: StoredTensor) -> NewTensor:
        """The base's rows, then those of the machine's tokens."""
        text, identical = base_tensor(self.plan.design, name, stored, name)
        self._count(name, identical)
        count = Vocabulary(self.plan.design.spec).size
        shape = (stored.rows + count, self.plan.design.shape.hidden)
        return NewTensor(name, self.kind, shape, self._with_machine_rows(text, name))

    def _with_machine_rows(self, text: NewTensor, name: str) -> Iterator[bytes]:
        yield from text.pieces
        plan = self.plan
        embedding = name == "model.embed_tokens.weight"
        shared = None if self.bias is None else self.bias.vector
        for rows in token_rows(plan.design) if embedding else output_rows(plan.design, plan.readout, shared):
            yield narrowed(rows, self.kind).tobytes()


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")
