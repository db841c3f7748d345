"""The sparse engine: what it says is what the stock model says, on right weights and on wrong ones.

The stock model is held against the machine interpreter on every kernel (test_kernels.py, `make model`); here every
kernel and random programs run on the sparse engine and are held against the same interpreter, and a sample and all
wrong checkpoints against the stock model itself.
"""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from runtime.launcher import Program, SparseEngine, run_program
from runtime.sparse.model import SparseModel
from runtime.sparse.pack import PACK_FILE
from runtime.transformers_engine import TransformersEngine
from runtime.vocabulary import Kind, Vocabulary
from tests.conftest import case_of, compiled
from tests.kernels.case import MACHINES, KernelCase, LaunchCase
from tests.kernels.cases import cases_for
from tests.random_rom import random_launch, random_rom
from toolchain.machine_build import ensure_checkpoint
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec
from toolchain.mir.interpreter import MachineFault
from toolchain.weights_backend.slot_ranges import RANGES_FILE, SlotRanges, tensors_hash

DTYPE = "bfloat16"


@pytest.fixture(scope="module")
def engines() -> dict[str, SparseEngine]:
    return {spec.name: SparseEngine(ensure_checkpoint(spec, DTYPE)) for spec in MACHINES}


def program_of(case: KernelCase, spec: MachineSpec, launch: LaunchCase) -> Program:
    return Program(compiled(case.name, spec.name).rom, spec, launch.launch)


def ids(program: Program) -> tuple[list[int], list[int]]:
    """Load tokens and the launch tokens they must lead to."""
    return program.ids(program.load()), program.ids(program.interpret().tokens)


@pytest.mark.parametrize(
    ("case", "spec"),
    [(case, spec) for spec in MACHINES for case in cases_for(spec)],
    ids=lambda item: item.name,
)
def test_every_kernel(case: KernelCase, spec: MachineSpec, engines: dict[str, SparseEngine]) -> None:
    for launch in case.launches(spec):
        engine = engines[spec.name]
        report = run_program(program_of(case, spec, launch), engine, check=True, unsigned=False)
        assert report.check == "exact", str(report.check)
        assert report.arrays == launch.expected()
        assert engine.model.reason is None, "ran with every rounding instead of integers"


def random_programs(spec: MachineSpec, seeds: range) -> Iterator[tuple[int, Program]]:
    """Random ROM images that end without a fault."""
    for seed in seeds:
        program = Program(random_rom(seed, spec), spec, random_launch(seed, spec))
        try:
            program.interpret()
        except MachineFault:
            continue
        yield seed, program


@pytest.mark.parametrize("spec", MACHINES, ids=lambda spec: spec.name)
def test_random_programs(spec: MachineSpec, engines: dict[str, SparseEngine]) -> None:
    """`python -m tests.sparse_random` runs a million tokens of these."""
    for seed, program in random_programs(spec, range(60)):
        load, wanted = ids(program)
        assert engines[spec.name].model.run(load, len(wanted) + 1, lambda _: None) == wanted, f"seed {seed}"


def test_random_programs_in_the_stock_model(engines: dict[str, SparseEngine]) -> None:
    stock = TransformersEngine(ensure_checkpoint(NANO, DTYPE))
    for seed, program in random_programs(NANO, range(100, 104)):
        load, wanted = ids(program)
        said = engines[NANO.name].model.run(load, len(wanted) + 1, lambda _: None)
        assert stock.prefill_check(load, said) is None, f"seed {seed}"


def test_float32_checkpoint() -> None:
    engine = SparseEngine(ensure_checkpoint(NANO, "float32"))
    case = case_of("collatz")
    for launch in case.launches(NANO):
        report = run_program(program_of(case, NANO, launch), engine, check=True, unsigned=False)
        assert (report.check, report.arrays) == ("exact", launch.expected())
    assert engine.model.reason is None


# --- launches side by side, traces


def test_launches_side_by_side_take_different_ways(engines: dict[str, SparseEngine]) -> None:
    """Launches of one program with data of their own: each says what it says alone."""
    model, case = engines[NANO.name].model, case_of("collatz")
    programs = [program_of(case, NANO, launch) for launch in case.launches(NANO)]
    pairs = [ids(program) for program in programs]
    assert len({len(load) for load, _ in pairs}) > 1
    assert len({tuple(wanted) for _, wanted in pairs}) > 1
    width = 16
    given = [pairs[lane % len(pairs)][0] for lane in range(width)]
    session = model.session(width)
    session.begin(given)
    said, ended = session.run(10_000)
    assert ended
    assert said == [pairs[lane % len(pairs)][1] for lane in range(width)]


@pytest.mark.parametrize("width", [1, 16])
def test_traces_change_nothing(width: int, engines: dict[str, SparseEngine]) -> None:
    """Specialised to program rows, the same tokens; and another program drops the traces of the one before."""
    session = engines[NANO.name].model.session(width)
    session.hot = 2
    for name in ("collatz", "matmul3x3", "collatz"):
        case = case_of(name)
        load, wanted = ids(program_of(case, NANO, case.launches(NANO)[0]))
        start = session.begin([load] * width)
        assert session.traces == 0
        for _ in range(3):
            session.resume(start)
            assert session.run(10_000) == ([wanted] * width, True)
        assert session.traces > 0
        assert session.traced > 0


# --- wrong weights

WEIGHTS = (
    "mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight", "linear_attn.in_proj_qkv.weight",
    "linear_attn.out_proj.weight", "linear_attn.in_proj_b.weight",
)  # fmt: skip


def copied(folder: Path, shard: str) -> Path:
    """A copy of nano's checkpoint without its pack, of which only `shard` may be written; the original's folder."""
    source = ensure_checkpoint(NANO, DTYPE)
    folder.mkdir()
    for path in source.iterdir():
        if path.name not in (shard, PACK_FILE, RANGES_FILE):
            os.link(path, folder / path.name)
    return source


def places() -> dict[str, str]:
    """The tensor file that holds each tensor."""
    index = ensure_checkpoint(NANO, DTYPE) / "model.safetensors.index.json"
    return json.loads(index.read_text())["weight_map"]


def with_wrong_weight(folder: Path, seed: int) -> str:
    """A copy of nano's checkpoint in which one nonzero weight is another number; says which."""
    import torch
    from safetensors.torch import load_file, save_file

    rng, where = random.Random(seed), places()
    layers = sum(name.endswith("A_log") for name in where)
    names = [f"model.layers.{layer}.{weight}" for layer in range(layers) for weight in WEIGHTS]
    rng.shuffle(names)
    source = ensure_checkpoint(NANO, DTYPE)
    name = next(name for name in names if bool(load_file(source / where[name])[name].any()))
    copied(folder, where[name])
    (folder / RANGES_FILE).write_bytes((source / RANGES_FILE).read_bytes())
    tensors = load_file(source / where[name])
    entries = torch.nonzero(tensors[name])
    row, column = entries[rng.randrange(len(entries))].tolist()
    old = float(tensors[name][row, column])
    new = rng.choice([0.0, -old, 2 * old])
    tensors[name][row, column] = new
    save_file(tensors, folder / where[name], metadata={"format": "pt"})
    return f"{name}[{row}, {column}]: {old} -> {new}"


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 40))]
)
def test_wrong_weight_goes_wrong_as_the_stock_model_does(seed: int, tmp_path: Path) -> None:
    what = with_wrong_weight(tmp_path / "wrong", seed)
    case = case_of("maximum")
    load, wanted = ids(program_of(case, NANO, case.launches(NANO)[0]))
    engine = SparseEngine(tmp_path / "wrong")
    said = engine.model.run(load, len(wanted), lambda _: None)
    assert engine.model.reason is not None, what
    assert said == TransformersEngine(tmp_path / "wrong").decode(load, len(wanted)), what


def test_integer_arithmetic_takes_the_weights_as_they_are(tmp_path: Path) -> None:
    """Two rows of the output exchanged, and a report that vouches for it: the integer code says what the model says."""
    from safetensors.torch import load_file, save_file

    name, folder = "lm_head.weight", tmp_path / "wrong"
    source = copied(folder, places()[name])
    case, vocabulary = case_of("maximum"), Vocabulary(NANO)
    load, wanted = ids(program_of(case, NANO, case.launches(NANO)[0]))
    first, second = [row for row in sorted(set(wanted)) if vocabulary.token(row).kind is Kind.EXEC][:2]
    tensors = load_file(source / places()[name])
    tensors[name][[first, second]] = tensors[name][[second, first]]
    save_file(tensors, folder / places()[name], metadata={"format": "pt"})
    hashed = tensors_hash(sorted(folder.glob("*.safetensors")))
    SlotRanges(hashed, SlotRanges.read(source / RANGES_FILE).ranges).write(folder / RANGES_FILE)
    model = SparseEngine(folder).model
    said = model.run(load, len(wanted), lambda _: None)
    assert model.reason is None
    assert said != wanted
    assert said == TransformersEngine(folder).decode(load, len(wanted))


# --- the packed file


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Nano's checkpoint with a pack of its own."""
    source, folder = ensure_checkpoint(NANO, DTYPE), tmp_path / "copy"
    folder.mkdir()
    for path in source.iterdir():
        if path.name != PACK_FILE:
            os.link(path, folder / path.name)
    return folder


def opened(folder: Path, packed: list[str]) -> SparseModel:
    return SparseEngine(folder, lambda stage, done, count: packed.append(stage)).model


def test_pack_is_used_while_it_is_good(copy: Path) -> None:
    packed: list[str] = []
    first = opened(copy, packed)
    assert packed
    packed.clear()
    second = opened(copy, packed)
    assert not packed
    assert first.pack is not None
    assert second.pack is not None
    assert np.array_equal(first.pack.programs.code, second.pack.programs.code)
    load, wanted = ids(program_of(case_of("dot"), NANO, case_of("dot").launches(NANO)[0]))
    assert second.run(load, 1000, lambda _: None) == wanted


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 no archive", None])
def test_damaged_pack_is_made_again(copy: Path, damage: bytes | None) -> None:
    opened(copy, [])
    whole = (copy / PACK_FILE).read_bytes()
    (copy / PACK_FILE).write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    packed: list[str] = []
    assert opened(copy, packed).reason is None
    assert packed
    assert (copy / PACK_FILE).read_bytes() == whole


def test_changed_tensors_make_the_pack_stale(copy: Path) -> None:
    """A tensor file that changes on disk is noticed, and no proof holds for it."""
    opened(copy, [])
    shard = sorted(copy.glob("*.safetensors"))[5]
    data = bytearray(shard.read_bytes())
    shard.unlink()  # it is a link to the cache's own
    data[-1] ^= 0x80
    shard.write_bytes(bytes(data))
    assert opened(copy, []).reason == "the tensors are not those that the bounds report is for"


def test_touched_tensors_keep_the_pack(copy: Path) -> None:
    opened(copy, [])
    for shard in copy.glob("*.safetensors"):
        data = shard.read_bytes()
        shard.unlink()
        shard.write_bytes(data)
    packed: list[str] = []
    assert opened(copy, packed).reason is None
    assert not packed


def test_without_a_bounds_report_every_rounding_is_worked_out(copy: Path) -> None:
    (copy / RANGES_FILE).unlink()
    model = opened(copy, [])
    assert model.reason is not None
    load, wanted = ids(program_of(case_of("dot"), NANO, case_of("dot").launches(NANO)[0]))
    assert model.run(load, 1000, lambda _: None) == wanted


def test_classic_opens_from_its_pack() -> None:
    """What `qgpuc bench` times: no tensor is read once the pack is there."""
    ensure = ensure_checkpoint(CLASSIC, DTYPE)
    SparseEngine(ensure)
    packed: list[str] = []
    assert opened(ensure, packed).reason is None
    assert not packed
