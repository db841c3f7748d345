"""Logical circuit IR: what a token computes, as wires, gated sums, and rows of recurrent memory.

    Circuit = (name, inputs: Wire*, operations: Op*, outputs: Wire*)
    Op      = Logic | Memory | Age
    Logic   = (name, units: Unit*)
    Unit    = (kind: relu | step, gate: Affine, up: Affine?, outputs: (Wire, weight)*)
              outputs += weight * kind(gate) * up
    Memory  = (name, write: Rows, enable: Affine*, values: Value*, read: Rows, outputs: (Wire, (dimension, weight)*)*,
               wipe: Affine?, anchor: Affine, sink, unwritten?)
              one row of values written, one row (or the sum of some) read, in one token
    Rows    = (bits: Affine*, literals: Affine*, every, tap, complements: Affine*)
    Value   = (form: Affine, tap)
    Age     = (name, event: Affine, output: Wire, twice: Affine?)
              2**-n, n the tokens since the event, those where `twice` is 1 counted twice
    Affine  = ((Wire, coefficient)*, constant)
    Wire    = (name, low, high)

text.py is the same as text, verifier.py the rules, evaluator.py the meaning.

A wire is a small integer, the same meaning in every token; it is the sum of what its operations add. A Logic
operation is one SwiGLU layer's work, a Memory or Age operation one Gated DeltaNet head's. Where an affine form
has a *tap* it is read from that many tokens back (the convolution reaches three).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, order=True)
class Wire:
    """A named integer with an inclusive range that its builder promises and the evaluator checks."""

    name: str
    low: int = 0
    high: int = 1

    def __str__(self) -> str:
        return f"%{self.name}"

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class Affine:
    """sum of coefficient * wire + constant. Terms are sorted by wire, coefficients nonzero."""

    terms: tuple[tuple[Wire, float], ...] = ()
    constant: float = 0

    def __add__(self, other: Affine | Wire | float) -> Affine:
        other = affine(other)
        merged = dict(self.terms)
        for wire, factor in other.terms:
            merged[wire] = merged.get(wire, 0) + factor
        return _from_dict(merged, self.constant + other.constant)

    __radd__ = __add__

    def __neg__(self) -> Affine:
        return self * -1

    def __sub__(self, other: Affine | Wire | float) -> Affine:
        return self + affine(other) * -1

    def __rsub__(self, other: Affine | Wire | float) -> Affine:
        return affine(other) - self

    def __mul__(self, factor: float) -> Affine:
        if factor == 0:
            return Affine()
        return Affine(tuple((wire, value * factor) for wire, value in self.terms), self.constant * factor)

    __rmul__ = __mul__

    @property
    def wires(self) -> tuple[Wire, ...]:
        return tuple(wire for wire, _ in self.terms)

    def range(self) -> tuple[float, float]:
        """Interval of the form over its wires' ranges."""
        low = high = self.constant
        for wire, factor in self.terms:
            ends = (factor * wire.low, factor * wire.high)
            low, high = low + min(ends), high + max(ends)
        return low, high


def _from_dict(terms: dict[Wire, float], constant: float) -> Affine:
    kept = [(wire, factor) for wire, factor in terms.items() if factor]
    return Affine(tuple(sorted(kept, key=lambda term: term[0].name)), constant)


def affine(value: Affine | Wire | float) -> Affine:
    """A wire or a number as an affine form."""
    if isinstance(value, Affine):
        return value
    if isinstance(value, Wire):
        return Affine(((value, 1),))
    return Affine(constant=value)


def total(values: Iterable[Affine | Wire | float]) -> Affine:
    """Sum of many forms (one merge, not one a term)."""
    merged: dict[Wire, float] = {}
    constant: float = 0
    for value in values:
        form = affine(value)
        constant += form.constant
        for wire, factor in form.terms:
            merged[wire] = merged.get(wire, 0) + factor
    return _from_dict(merged, constant)


class Gate(StrEnum):
    """relu(s), or the step [s >= 0] of an integer s (two hidden units; its slope is chosen per dtype)."""

    RELU = "relu"
    STEP = "step"


@dataclass(frozen=True)
class Unit:
    """gate(`gate`) * `up` added to each output with its weight. `up` of None is 1."""

    kind: Gate
    gate: Affine
    outputs: tuple[tuple[Wire, float], ...]
    up: Affine | None = None

    def reads(self) -> Iterator[Wire]:
        yield from self.gate.wires
        if self.up is not None:
            yield from self.up.wires


@dataclass(frozen=True)
class Logic:
    """A gated sum: units of one MLP that belong together. The name says which part of the machine they are."""

    name: str
    units: tuple[Unit, ...]


@dataclass(frozen=True)
class Rows:
    """The rows an address selects: row = base + the bits' value where every literal holds, else no row.

    `bits` are little-endian 0/1 forms; `literals` are forms that are 1 (true) or at most 0. With `every` > 0 the
    address is all of the first `every` rows at once, and a read brings their sum. Where `complements` are given,
    complements[i] is 1 - bits[i], computed apart, so that either is exactly 0 when it is not 1.
    """

    bits: tuple[Affine, ...] = ()
    literals: tuple[Affine, ...] = ()
    every: int = 0
    tap: int = 0
    complements: tuple[Affine, ...] = ()


@dataclass(frozen=True)
class Value:
    """relu(form) stored in one value dimension; read `tap` tokens back."""

    form: Affine
    tap: int = 0


@dataclass(frozen=True)
class Memory:
    """A head: state rows that one token writes (where every `enable` form is 1; else at most 0) and reads.

    The write is seen by the token's own read. `outputs` are sums of weight * dimension of the row read.
    `wipe`: where 1, all rows are forgotten first. `anchor`: the form that carries the norm's ballast, 1 for
    an ordinary head; a head that reads many rows at once has it on one row only.
    """

    name: str
    write: Rows
    enable: tuple[Affine, ...]
    values: tuple[Value, ...]
    read: Rows
    outputs: tuple[tuple[Wire, tuple[tuple[int, float], ...]], ...]
    wipe: Affine | None = None
    anchor: Affine = Affine(constant=1)
    sink: bool = False
    """Placed as late as its readers allow: its inputs live long, its outputs are wide."""
    unwritten: int | None = None
    """A row without a key, so never written: read along, it makes the read's scale a power of two."""


@dataclass(frozen=True)
class Age:
    """`output` = 2**-n where n >= 1 tokens have passed since `event` was 1; 0 in the event's own token.

    A token where `twice` is 1 counts for two.
    """

    name: str
    event: Affine
    output: Wire
    twice: Affine | None = None


Op = Logic | Memory | Age


@dataclass(frozen=True)
class Circuit:
    """Operations in dependency order. `inputs` come from the token's embedding, `outputs` make the next token."""

    name: str
    inputs: tuple[Wire, ...]
    operations: tuple[Op, ...]
    outputs: tuple[Wire, ...]


def op_reads(op: Op) -> Iterator[Wire]:
    """Every wire an operation reads, repeats included."""
    match op:
        case Logic():
            for unit in op.units:
                yield from unit.reads()
        case Memory():
            for rows in (op.write, op.read):
                for form in (*rows.bits, *rows.literals, *rows.complements):
                    yield from form.wires
            for form in (*op.enable, op.anchor, *(value.form for value in op.values)):
                yield from form.wires
            if op.wipe is not None:
                yield from op.wipe.wires
        case Age():
            yield from op.event.wires
            if op.twice is not None:
                yield from op.twice.wires


def op_writes(op: Op) -> Iterator[Wire]:
    """Every wire an operation adds to, repeats included."""
    match op:
        case Logic():
            for unit in op.units:
                for wire, _ in unit.outputs:
                    yield wire
        case Memory():
            for wire, _ in op.outputs:
                yield wire
        case Age():
            yield op.output
