"""A checkpoint opened for the sparse engine: integer programs where its tensors are proved, else every rounding."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from llvmlite import ir

from runtime.sparse.careful import CarefulModel
from runtime.sparse.emitter import Extents
from runtime.sparse.encode import Pool
from runtime.sparse.executor import executor_module
from runtime.sparse.flat import FlatNetwork
from runtime.sparse.native import NativeCode, processor
from runtime.sparse.network import NotExactError
from runtime.sparse.pack import PACK_FILE, Pack, read_pack, source_hash, write_pack
from runtime.sparse.plans import Compiler, Programs
from runtime.sparse.recover import Progress, recover
from runtime.sparse.session import LostExactnessError, Session
from runtime.sparse.stepper import add_token_loop
from runtime.sparse.tensors import Checkpoint
from toolchain.weights_backend.checkpoint import StatePlace
from toolchain.weights_backend.slot_ranges import RANGES_FILE, SlotRanges, tensors_hash


class SparseModel:
    """A checkpoint. `reason` says why it runs with every rounding, None where integers are proved enough."""

    def __init__(self, directory: Path, place: StatePlace, cache: Path, progress: Progress) -> None:
        """`place`: where global memory is held. `cache`: a folder for native code.

        Raises CompileError where the folder is no checkpoint.
        """
        self.checkpoint, self._cache, self._progress = Checkpoint(directory), cache, progress
        self._place = place
        self.reason: str | None = None
        self._sessions: dict[tuple[int, bool], Session] = {}
        self.pack = self._open()

    def _open(self) -> Pack | None:
        path, shards = self.checkpoint.directory / PACK_FILE, self.checkpoint.shards()
        pack = read_pack(path, shards)
        if pack is not None:
            return pack
        try:
            ranges = SlotRanges.read(self.checkpoint.directory / RANGES_FILE)
        except (OSError, ValueError, KeyError, TypeError):
            self.reason = f"the bounds report {RANGES_FILE} is missing or damaged"
            return None
        tensors = tensors_hash(shards)
        if tensors != ranges.tensors:
            self.reason = "the tensors are not those that the bounds report is for"
            return None
        try:
            network = recover(
                self.checkpoint, ranges.ranges, (self._place.layer, self._place.head), self._progress
            )
            programs = Compiler(FlatNetwork.of(network), Pool.empty()).programs()
        except NotExactError as error:
            self.reason = str(error)
            return None
        write_pack(path, network, programs, tensors, shards)
        return Pack(programs, lambda: network)

    @cached_property
    def careful(self) -> CarefulModel:
        """The same checkpoint with every rounding of the stock model."""
        return CarefulModel(self.checkpoint)

    @cached_property
    def _compiler(self) -> Compiler:
        assert self.pack is not None
        return self.pack.compiler()

    def session(self, width: int, *, profile: bool = False) -> Session:
        """Memory and code for `width` launches side by side; with `profile` the code counts what it executes."""
        assert self.pack is not None
        if (width, profile) not in self._sessions:
            code = token_loop(self.pack.programs, width, self._cache, profile=profile)
            self._sessions[width, profile] = Session(self.pack.programs, lambda: self._compiler, code, width)
        return self._sessions[width, profile]

    def run(self, given: Sequence[int], limit: int, on_token: Callable[[int], None]) -> list[int]:
        """What the model says after these tokens, to the end token or up to `limit`."""
        if self.pack is not None and self.reason is None:
            session = self.session(1)
            try:
                session.begin([given])
                (tokens,), _ = session.run(limit)
            except LostExactnessError as error:
                self.reason = f"integers were not enough: {error}"
            else:
                for token in tokens:
                    on_token(token)
                return tokens
        return self.careful.run(given, limit, on_token)

    def memory(self, words: int) -> tuple[int, ...]:
        """The first words of global memory, as the recurrent state holds them after the last token."""
        if self.reason is None:
            return self.session(1).memory(0, words, self._place.bits)
        return self.careful.memory(self._place.layer, self._place.head, words, self._place.bits)


def token_loop(programs: Programs, width: int, cache: Path, *, profile: bool = False) -> NativeCode:
    """Native code for `width` launches side by side; its object code is kept in `cache` for the next process."""
    extents = Extents(width, programs.embedding.shape[1], programs.layout.size, profile)
    key = hashlib.sha256(f"{extents} {processor()} {source_hash()}".encode()).hexdigest()[:16]
    path = cache / f"sparse-{key}.o"
    objects = path.read_bytes() if path.exists() else None
    code = NativeCode(lambda: _module(extents), objects)
    if objects is None:
        _keep(path, code.objects)
    return code


def _module(extents: Extents) -> ir.Module:
    module = executor_module(extents)
    add_token_loop(module, extents)
    return module


def _keep(path: Path, objects: bytes) -> None:
    """Writes object code, whole or not at all; a cache that cannot be written is left as it is."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".sparse-", delete=False) as file:
            file.write(objects)
        os.replace(file.name, path)
    except OSError:
        return
