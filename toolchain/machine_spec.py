"""The machine's numbers. Every stage reads them from a `MachineSpec`; nothing else hard-codes them."""

import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path

from toolchain.errors import CompileError

STAGES = 4
"""Pipeline stages of a block."""
MUL_STAGES = 3
"""Stages 0..2 can issue a multiply; its result is ready two stages later (stage 2's at the end of the block)."""
PREDICATES = 4
"""Predicate registers of a lane."""
WORD_BITS = 32
RETURN_ENTRY_BITS = 16
"""One entry of a block's return sequence is one program token."""
CHUNK_BITS = 64
"""Bits of a state row written by one program write: four tokens of 16 bits, the convolution's reach."""


_DESCRIPTIVE = ("name", "program")
"""Fields of a spec that are no extents."""
_COMPILED = ("program", "constants")
"""Fields that a machine file cannot set."""


@dataclass(frozen=True)
class MachineSpec:
    """One machine. Extents are counts; memory in 32-bit words; `head_rows` and `head_values` are a head's shape."""

    name: str
    lanes: int
    warps: int
    registers: int
    blocks: int
    memory_words: int
    shared_words: int
    """Shared memory of a thread block; local arrays live in it too."""
    max_returns: int
    """Tokens a block may write after its EXEC: returned values and store records together."""
    thread_blocks: int
    heads: int
    head_rows: int
    head_values: int
    short_bits: int = 12
    """Bits of a signed value that one SHORT token says whole."""
    max_layers: int = 24
    max_hidden: int = 2048
    max_mlp: int = 6144
    program: str = ""
    """Digest of the program that is in the weights; empty on a machine whose program is state."""
    constants: int = 0
    """Link-time constants that such a program takes as CONST records."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in (*_DESCRIPTIVE, "constants") and value < 1:
                raise CompileError(f"machine '{self.name}': {field.name} is {value}; it must be positive")
        for name in ("lanes", "warps", "registers", "blocks", "thread_blocks", "head_rows", "head_values"):
            value = getattr(self, name)
            if value & (value - 1):
                raise CompileError(f"machine '{self.name}': {name} is {value}; it must be a power of two")
        rows = {
            "warps * registers": self.warps * self.registers,
            "blocks * lanes": self.blocks * self.lanes,
            "memory_words + 2": self.memory_words + 2,
            "shared_words + 2": self.shared_words + 2,
            "thread_blocks + 1": self.thread_blocks + 1,
            "constants + 1": self.constants + 1,
        }
        for what, count in rows.items():
            if count > self.head_rows:
                raise CompileError(
                    f"machine '{self.name}': {what} = {count} rows do not fit a head of {self.head_rows}"
                )
        if self.lanes > 4 or self.warps > 8 or self.lanes * PREDICATES > 16:
            raise CompileError(
                f"machine '{self.name}': at most 4 lanes and 8 warps, so that a mask or 4 predicates fit a token"
            )
        if not 2 <= self.short_bits <= 16:
            raise CompileError(
                f"machine '{self.name}': short_bits is {self.short_bits}; a token has room for 2 to 16"
            )
        if self.max_returns > 60:
            raise CompileError(
                f"machine '{self.name}': max_returns is {self.max_returns}; the age counter is exact up to 60"
            )

    @property
    def threads(self) -> int:
        """Threads a thread block may have."""
        return self.lanes * self.warps

    @property
    def address_bits(self) -> int:
        """Bits of a word address. Addresses wrap modulo 2 ** address_bits."""
        return self.head_rows.bit_length() - 1


CLASSIC = MachineSpec(
    name="classic",
    lanes=4,
    warps=8,
    registers=16,
    blocks=32,
    memory_words=126,
    shared_words=126,
    max_returns=48,
    thread_blocks=64,
    heads=16,
    head_rows=128,
    head_values=128,
)
NANO = MachineSpec(
    name="nano",
    lanes=2,
    warps=4,
    registers=16,
    blocks=32,
    memory_words=62,
    shared_words=62,
    max_returns=28,
    thread_blocks=8,
    heads=12,
    head_rows=64,
    head_values=128,
)
WIDE = replace(CLASSIC, name="wide", registers=32, warps=4)

PRESETS = {spec.name: spec for spec in (CLASSIC, NANO, WIDE)}


def load_spec(name_or_file: str) -> MachineSpec:
    """A preset by name, or a TOML file whose keys are `MachineSpec` fields (`base = "classic"` inherits the rest).

    Raises CompileError on an unknown name, an unreadable file, or numbers no circuit can be built for.
    """
    if name_or_file in PRESETS:
        return PRESETS[name_or_file]
    path = Path(name_or_file)
    if path.suffix != ".toml":
        raise CompileError(
            f"unknown machine '{name_or_file}'", hint=f"use one of {', '.join(PRESETS)}, or a .toml file"
        )
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise CompileError(f"cannot read the machine file '{path}': {error}") from error
    base = PRESETS.get(str(table.pop("base", "classic")))
    known = {field.name for field in fields(MachineSpec)} - set(_COMPILED)
    unknown = sorted(set(table) - known)
    if base is None or unknown:
        raise CompileError(
            f"machine file '{path}': "
            + (f"unknown keys {', '.join(unknown)}" if unknown else "unknown base machine"),
            hint=f"keys are {', '.join(sorted(known))}; base is one of {', '.join(PRESETS)}",
        )
    table.setdefault("name", path.stem)
    try:
        return replace(base, **table)
    except TypeError as error:
        raise CompileError(f"machine file '{path}': {error}") from error
