"""Runs a linked program on an engine and holds what it writes against the machine interpreter.

An engine executes the load tokens and gives back every token of the launch and the memory it ends with:

    interp          the machine interpreter (toolchain/mir/interpreter.py): the definition of the result
    sparse          a checkpoint's nonzero weights as native integer code (runtime/sparse)
    transformers    a stock Qwen3.5 checkpoint, unmodified `transformers`, greedy, token by token

The host encodes, feeds, and reads the result out of the recurrent state. It computes nothing of the kernel.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from runtime.loader import load_tokens
from runtime.sparse.model import SparseModel
from runtime.transformers_engine import TransformersEngine, checkpoint_spec
from runtime.vocabulary import Token, Vocabulary
from toolchain.circuit_ir.specialise import program_digest, specialised_name
from toolchain.errors import CompileError
from toolchain.launch import Launch
from toolchain.machine_build import Progress, cache_folder, quiet
from toolchain.machine_spec import MachineSpec
from toolchain.mir.interpreter import MachineFault, MachineResult, Provenance, run_launch
from toolchain.mir.rom import RomImage

OnToken = Callable[[Token], None]
TOKEN_LIMIT = 100_000
"""Tokens after which a launch that has not ended is given up."""
NO_FAULT = "a launch without a fault"
"""What a level expects of one that faults."""


@dataclass(frozen=True)
class Program:
    """A ROM image, the machine it is for, and a launch of it; `baked`: the kernel's own machine, if that runs it."""

    rom: RomImage
    spec: MachineSpec
    launch: Launch
    baked: MachineSpec | None = None

    def load(self) -> tuple[Token, ...]:
        return load_tokens(self.rom, self.spec, self.launch, baked=self.baked is not None)

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens of the machine that runs it."""
        return Vocabulary(self.baked or self.spec)

    def ids(self, tokens: Iterable[Token]) -> list[int]:
        """The tokens' numbers on the machine that runs it."""
        return [self.vocabulary.id(token) for token in tokens]

    def on(self, machine: MachineSpec, checkpoint: Path) -> "Program":
        """The program for a checkpoint's machine. Raises CompileError where that is another one, or a kernel's own
        with another program."""
        if not machine.program and machine == self.spec:
            return replace(self, baked=None)
        if machine.program == program_digest(self.rom, self.spec) and machine.name == self.machine_name:
            return replace(self, baked=machine)
        if machine.program:
            raise CompileError(
                f"the checkpoint '{checkpoint}' is specialised: machine '{machine.name}', program {machine.program}; "
                f"this is '{self.machine_name}', program {program_digest(self.rom, self.spec)}",
                hint="compile this kernel with --specialise for it, or leave out --checkpoint",
            )
        raise CompileError(
            f"the checkpoint '{checkpoint}' is machine '{machine.name}', not '{self.spec.name}'",
            hint="choose another --checkpoint, or --machine",
        )

    @property
    def machine_name(self) -> str:
        """The kernel's own machine by name."""
        return specialised_name(self.rom, self.spec)

    def interpret(self) -> MachineResult:
        """The launch as it must be."""
        return run_launch(self.rom, self.spec, self.launch)


@dataclass(frozen=True)
class EngineResult:
    """The tokens of a launch, from the first EXEC to the closing one, and global memory after it."""

    tokens: tuple[Token, ...]
    memory: tuple[int, ...]


class Engine(Protocol):
    """Something that executes launches. `on_token` hears each token as it is written; raising stops it."""

    name: str

    def run(self, program: Program, on_token: OnToken) -> EngineResult: ...


class InterpreterEngine:
    """The machine interpreter as an engine."""

    name = "interp"

    def run(self, program: Program, on_token: OnToken) -> EngineResult:
        result = program.interpret()
        for token in result.tokens:
            on_token(token)
        return EngineResult(result.tokens, result.memory)


class CheckpointEngine(ABC):
    """An engine that a checkpoint folder decides."""

    name: str

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.spec, self.place = checkpoint_spec(checkpoint)

    @abstractmethod
    def decode(self, load: Sequence[int], limit: int, on_token: Callable[[int], None]) -> list[int]:
        """The tokens that are said after those of the load, up to the end token or `limit`."""

    @abstractmethod
    def memory(self) -> tuple[int, ...]:
        """Global memory after the last token."""

    def run(self, program: Program, on_token: OnToken) -> EngineResult:
        program = program.on(self.spec, self.checkpoint)
        vocabulary, load = program.vocabulary, program.ids(program.load())
        written = self.decode(load, TOKEN_LIMIT, lambda number: on_token(vocabulary.token(number)))
        tokens = tuple(vocabulary.token(number) for number in written)
        if not tokens or not tokens[-1].is_end:
            raise CompileError(
                f"the launch did not end within {TOKEN_LIMIT} tokens", hint="does the kernel end?"
            )
        return EngineResult(tokens, self.memory())


class SparseEngine(CheckpointEngine):
    """The checkpoint's nonzero weights as native integer code (runtime/sparse)."""

    name = "sparse"

    def __init__(self, checkpoint: Path, progress: Progress = quiet) -> None:
        super().__init__(checkpoint)
        self.model = SparseModel(checkpoint, self.place, cache_folder(), progress)

    def decode(self, load: Sequence[int], limit: int, on_token: Callable[[int], None]) -> list[int]:
        return self.model.run(load, limit, on_token)

    def memory(self) -> tuple[int, ...]:
        return self.model.memory(self.spec.memory_words)


class ModelEngine(CheckpointEngine):
    """A stock model decoding token by token. `checkpoint` is a folder that `qgpuc build` made."""

    name = "transformers"

    def __init__(self, checkpoint: Path) -> None:
        super().__init__(checkpoint)
        self.model = TransformersEngine(checkpoint)

    def decode(self, load: Sequence[int], limit: int, on_token: Callable[[int], None]) -> list[int]:
        return self.model.decode(load, limit, on_token)

    def memory(self) -> tuple[int, ...]:
        return tuple(self.model.memory())

    def prefill_check(self, program: Program, expected: MachineResult) -> "Difference | None":
        """Checks a whole proposed trace in one pass; names the first token the model would not write."""
        program = program.on(self.spec, self.checkpoint)
        index = self.model.prefill_check(program.ids(program.load()), program.ids(expected.tokens))
        if index is None:
            return None
        return difference_at(index, None, expected, program.spec, self.name)

    def wrong_tokens(self, program: Program, expected: MachineResult) -> int:
        """How many tokens of a trace the model would not write, each after the right ones before it."""
        program = program.on(self.spec, self.checkpoint)
        wanted = program.ids(expected.tokens)
        said = self.model.said(program.ids(program.load()), wanted)
        return sum(a != b for a, b in zip(said, wanted, strict=True))


def open_engine(name: str, checkpoint: Path | None, progress: Progress = quiet) -> Engine:
    """The engine by name; `checkpoint` is its weights. Raises CompileError where either is not there."""
    if name == "interp":
        return InterpreterEngine()
    if checkpoint is None:
        raise CompileError(f"the {name} engine needs a checkpoint", hint="--checkpoint DIR")
    return ModelEngine(checkpoint) if name == "transformers" else SparseEngine(checkpoint, progress)


@dataclass(frozen=True)
class Difference:
    """The first place where a level departs from the one before it.

    `undefined` is what the launch does that CUDA leaves undefined: then levels may differ, and none is at fault.
    """

    level: str
    expected: str
    found: str
    token: int | None = None
    place: Provenance | None = None
    undefined: str = ""

    def as_json(self) -> dict[str, object]:
        where: dict[str, object] = {}
        if self.place is not None:
            where = {
                "what": self.place.what,
                "thread_block": self.place.thread_block,
                "block": self.place.block,
                "warp": self.place.warp,
                "lane": self.place.lane,
                "source": str(self.place.source) if self.place.source else None,
            }
        return {
            "level": self.level,
            "token": self.token,
            "expected": self.expected,
            "found": self.found,
            "undefined": self.undefined or None,
            **where,
        }

    def __str__(self) -> str:
        head = f"{self.level} differs" + ("" if self.token is None else f" at token {self.token}")
        place = f", {self.place}" if self.place else ""
        text = f"{head}{place}: expected {self.expected}, found {self.found}"
        if not self.undefined:
            return text
        return f"{text}\nCUDA leaves this launch undefined, so that levels may differ: {self.undefined}"


class CheckFailed(Exception):
    """Stops an engine at its first wrong token."""

    def __init__(self, difference: Difference) -> None:
        super().__init__(str(difference))
        self.difference = difference


class Checker:
    """Compares each token with the machine interpreter's as it comes."""

    def __init__(self, expected: MachineResult, spec: MachineSpec, level: str) -> None:
        self.expected = expected
        self.spec = spec
        self.level = level
        self.index = 0

    def __call__(self, token: Token) -> None:
        tokens = self.expected.tokens
        if self.index >= len(tokens) or tokens[self.index] != token:
            raise CheckFailed(difference_at(self.index, token, self.expected, self.spec, self.level))
        self.index += 1


def difference_at(
    index: int, found: Token | None, expected: MachineResult, spec: MachineSpec, level: str
) -> Difference:
    """A level's wrong token against the machine interpreter's; `found` is None where only that is known."""
    vocabulary = Vocabulary(spec)
    inside = index < len(expected.tokens)
    wanted = vocabulary.text(expected.tokens[index]) if inside else "no more tokens"
    seen = "another token" if found is None else vocabulary.text(found)
    return Difference(level, wanted, seen, index, expected.provenance[index] if inside else None)


def memory_difference(
    found: tuple[int, ...], expected: tuple[int, ...], level: str, result: MachineResult | None = None
) -> Difference | None:
    """The first word of global memory that differs; with `result`, the last token that stored it."""
    for address, (got, want) in enumerate(zip(found, expected, strict=False)):
        if got != want:
            index = None if result is None else _last_store(result, address)
            place = None if result is None or index is None else result.provenance[index]
            return Difference(
                level, f"memory[{address}] = {want}", f"memory[{address}] = {got}", index, place
            )
    return None


def fault_difference(level: str, fault: CompileError) -> Difference:
    """A level that stops where the launch must run through."""
    place = Provenance("the fault", 0, source=fault.location)
    return Difference(level, NO_FAULT, fault.message, place=place)


def _last_store(result: MachineResult, address: int) -> int | None:
    """Index of the last MEM record of a word, None if the launch never wrote it."""
    stores = [
        index for index, token in enumerate(result.tokens) if token.kind == "MEM" and token.a == address
    ]
    return stores[-1] if stores else None


@dataclass(frozen=True)
class RunReport:
    """What `run` prints: arrays, token counts, and what the check said ("exact", a Difference, or None)."""

    arrays: Mapping[str, list[int]]
    load: int
    launch: int
    check: "str | Difference | None"
    engine: str

    def as_json(self) -> dict[str, object]:
        check = (
            {"first_difference": self.check.as_json()} if isinstance(self.check, Difference) else self.check
        )
        return {
            "arrays": dict(self.arrays),
            "tokens": {"load": self.load, "launch": self.launch},
            "check": check,
            "engine": self.engine,
        }


def run_program(
    program: Program, engine: Engine, *, check: bool, unsigned: bool, on_token: OnToken = lambda token: None
) -> RunReport:
    """Runs a launch; with `check`, stops at the first token that is not the machine interpreter's.

    With `check`, a launch that faults on the machine interpreter is not run.
    """
    load = len(program.load())
    try:
        expected = program.interpret() if check else None
    except MachineFault as fault:
        return RunReport({}, load, 0, fault_difference("machine", fault), engine.name)
    checker = Checker(expected, program.spec, engine.name) if expected else None
    heard: list[Token] = []

    def hear(token: Token) -> None:
        heard.append(token)
        on_token(token)
        if checker is not None:
            checker(token)

    try:
        result = engine.run(program, hear)
    except CheckFailed as failed:
        return RunReport({}, load, len(heard), failed.difference, engine.name)
    arrays = program.launch.read_back(result.memory, unsigned=unsigned)
    verdict: str | Difference | None = None
    if expected is not None:
        memory = memory_difference(result.memory, expected.memory, f"{engine.name} memory", expected)
        verdict = memory or "exact"
    return RunReport(arrays, load, len(result.tokens), verdict, engine.name)
