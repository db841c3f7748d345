"""The packed file beside a checkpoint: its programs, ready to run. A cache: it can be deleted at any time.

It is keyed by the hash of the tensors and of this package's source. As hashing gigabytes takes longer than a launch,
the tensor files' sizes and times of change stand in for the hash as long as they stay the same.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from runtime.sparse.encode import Pool, StateLayout
from runtime.sparse.flat import FlatNetwork
from runtime.sparse.network import Network
from runtime.sparse.network_json import network_from_json, network_to_json
from runtime.sparse.plans import ClassPlan, Compiler, Plan, Programs
from runtime.sparse.specialise import Facts
from runtime.sparse.stable import Changing
from toolchain.weights_backend.slot_ranges import tensors_hash

PACK_FILE = "sparse.npz"
Shards = list[list[str | int]]
"""[name, size, time of change in ns] of each tensor file."""


@dataclass(frozen=True)
class Pack:
    """Programs, and the network that traces are made of."""

    programs: Programs
    network: Callable[[], Network]

    def compiler(self) -> Compiler:
        """A compiler whose traces go on after the packed programs' tables."""
        return Compiler(
            FlatNetwork.of(self.network()), Pool.holding(self.programs.tables), self.programs.memos
        )


def source_hash() -> str:
    """Changes with any module that decides what a pack holds."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def shard_times(shards: list[Path]) -> Shards:
    return [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in shards]


def write_pack(path: Path, network: Network, programs: Programs, tensors: str, shards: list[Path]) -> None:
    """Writes the pack, whole or not at all; a folder that cannot be written is left without one."""
    head = {"source": source_hash(), "tensors": tensors, "shards": shard_times(shards), **_head(programs)}
    arrays = _arrays(programs) | {
        "head": np.frombuffer(json.dumps(head).encode(), dtype=np.uint8),
        "network": np.frombuffer(network_to_json(network), dtype=np.uint8),
    }
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".sparse-", delete=False) as file:
            np.savez(file, allow_pickle=False, **arrays)
        os.chmod(file.name, 0o644)
        os.replace(file.name, path)
    except OSError:
        return


def read_pack(path: Path, shards: list[Path]) -> Pack | None:
    """The pack, if it is of these tensors and of this source; else None."""
    try:
        with np.load(path, allow_pickle=False) as file:
            head = json.loads(file["head"].tobytes())
            if head["source"] != source_hash():
                return None
            if head["shards"] != shard_times(shards) and head["tensors"] != tensors_hash(shards):
                return None
            programs = _programs(
                head, {name: file[name] for name in file.files if name not in ("head", "network")}
            )
    except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError, BadZipFile):
        return None

    def network() -> Network:
        with np.load(path, allow_pickle=False) as file:
            return network_from_json(file["network"].tobytes(), programs.embedding, programs.tokens)

    return Pack(programs, network)


def _head(programs: Programs) -> dict[str, object]:
    layout = programs.layout
    return {
        "plans": [[plan.prefix, plan.prefix_cells, plan.suffix, plan.cells] for plan in programs.plans],
        "key": programs.key,
        "history": programs.history,
        "layout": [layout.start, layout.columns, layout.rows, layout.size],
        "end": programs.end,
        "memory": programs.memory,
        "cells": programs.cells,
        "memos": programs.memos,
    }


def _arrays(programs: Programs) -> dict[str, np.ndarray]:
    arrays = {name: getattr(programs, name) for name in ("classes", "code", "tables", "embedding", "tokens")}
    for number, base in enumerate(programs.bases):
        arrays[f"low{number}"], arrays[f"high{number}"] = base.facts.low, base.facts.high
        for name in ("cells", "states"):
            changed = sorted(getattr(base.changing, name))
            arrays[f"changing_{name}{number}"] = np.array(changed, dtype=np.int32)
        arrays[f"numbers{number}"] = np.array(sorted(base.numbers.items()), dtype=np.int32).reshape(-1, 2)
    return arrays


def _programs(head: dict, arrays: dict[str, np.ndarray]) -> Programs:
    start, columns, rows, size = head["layout"]
    state, parts = head["memory"]
    bases = tuple(
        ClassPlan(
            Facts(arrays[f"low{number}"], arrays[f"high{number}"]),
            dict(arrays[f"numbers{number}"].tolist()),
            Changing(
                *(frozenset(arrays[f"changing_{name}{number}"].tolist()) for name in ("cells", "states"))
            ),
        )
        for number in range(len(head["plans"]))
    )
    return Programs(
        arrays["classes"], tuple(Plan(*plan) for plan in head["plans"]), bases, tuple(head["key"]),
        tuple(head["history"]), StateLayout(tuple(start), tuple(columns), tuple(rows), size), arrays["code"],
        arrays["tables"], arrays["embedding"], arrays["tokens"], head["end"],
        (state, tuple((column, tuple((d, w) for d, w in dims)) for column, dims in parts)), head["cells"],
        head["memos"],
    )  # fmt: skip
