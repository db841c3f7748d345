"""Reads circuits from text; the grammar is in text.py. What does not parse is refused with its line and column."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from toolchain.circuit_ir.ir import (
    Affine,
    Age,
    Circuit,
    Gate,
    Logic,
    Memory,
    Op,
    Rows,
    Unit,
    Value,
    Wire,
    affine,
)
from toolchain.circuit_ir.placed import Layer, PlacedCircuit
from toolchain.errors import CompileError, SourceLocation

T = TypeVar("T")

_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_NAME = r"[A-Za-z_][\w.$]*"
_TERM = re.compile(
    rf" *(?P<sign>[+-])? *(?:(?P<factor>{_NUMBER})(?: +%(?P<wire>{_NAME}))?|%(?P<plain>{_NAME}))"
)
_PLACE = re.compile(rf" *(?P<sign>[+-])? *(?:(?P<factor>{_NUMBER}) +)?d(?P<dimension>\d+)")
_INTEGER = re.compile(r"-?\d+")
_WORD = re.compile(_NAME)
_WIRE = re.compile(rf"%({_NAME})")


def _number(text: str) -> float:
    return int(text) if text.isdigit() else float(text)


@dataclass
class _Line:
    """A line being read, from `at` on."""

    text: str
    number: int
    file: str
    at: int = 0

    def error(self, message: str, at: int | None = None) -> CompileError:
        column = (self.at if at is None else at) + 1
        return CompileError(message, SourceLocation(self.file, self.number, column), excerpt=self.text)

    @property
    def rest(self) -> str:
        return self.text[self.at :]

    def accept(self, literal: str) -> bool:
        """Skips `literal`, spaces before it included, where it comes next."""
        start = self.at
        self.skip()
        if self.text.startswith(literal, self.at):
            self.at += len(literal)
            return True
        self.at = start
        return False

    def expect(self, literal: str) -> None:
        if not self.accept(literal):
            self.skip()
            raise self.error(f"expected '{literal}', found {self._found()}")

    def match(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        self.skip()
        match = pattern.match(self.text, self.at)
        if match is None:
            raise self.error(f"expected {what}, found {self._found()}")
        self.at = match.end()
        return match

    def integer(self) -> int:
        return int(self.match(_INTEGER, "an integer")[0])

    def word(self, what: str) -> str:
        return self.match(_WORD, what)[0]

    def items(self, item: Callable[[], T]) -> list[T]:
        """One or more items between commas."""
        found = [item()]
        while self.accept(","):
            found.append(item())
        return found

    def end(self) -> None:
        self.skip()
        if self.at < len(self.text):
            raise self.error(f"expected the end of the line, found {self._found()}")

    def skip(self) -> None:
        while self.text.startswith(" ", self.at):
            self.at += 1

    def _found(self) -> str:
        return f"'{self.rest.split()[0]}'" if self.rest.strip() else "the end of the line"


class _Reader:
    """Lines of a file, and the wires declared so far."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.lines = [
            _Line(line.rstrip(), number, file)
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip() and not line.lstrip().startswith(";")
        ]
        self.next = 0
        self.last = max(1, len(text.splitlines()))
        self.wires: dict[str, Wire] = {}

    def peek(self) -> _Line | None:
        return self.lines[self.next] if self.next < len(self.lines) else None

    def take(self, what: str) -> _Line:
        """The next line; it must be there."""
        line = self.peek()
        if line is None:
            raise CompileError(f"the file ends where {what} should be", SourceLocation(self.file, self.last))
        self.next += 1
        return line

    def indented(self) -> Iterator[_Line]:
        """The lines that belong to the one just taken."""
        while (line := self.peek()) is not None and line.text.startswith(" "):
            self.next += 1
            line.skip()
            yield line

    def declared(self) -> None:
        """Takes all `wires` lines that come next."""
        while (line := self.peek()) is not None and line.accept("wires "):
            self.next += 1
            low = line.integer()
            line.expect("..")
            high = line.integer()
            line.expect(":")
            for name, at in line.items(lambda line=line: _new_name(line)):
                if name in self.wires:
                    raise line.error(f"wire %{name} is declared twice", at)
                self.wires[name] = Wire(name, low, high)
            line.end()

    def wire(self, line: _Line) -> Wire:
        match = line.match(_WIRE, "a wire")
        return self.named(line, match[1], match.start())

    def named(self, line: _Line, name: str, at: int) -> Wire:
        wire = self.wires.get(name)
        if wire is None:
            raise line.error(f"wire %{name} is not declared", at)
        return wire

    def wire_list(self, line: _Line) -> tuple[Wire, ...]:
        """Wires up to the end of the line; there may be none."""
        wires = [] if not line.rest.strip() else line.items(lambda: self.wire(line))
        line.end()
        return tuple(wires)

    def form(self, line: _Line) -> Affine:
        terms: list[tuple[Wire, float]] = []
        text, at = line.text, line.at
        while (match := _TERM.match(text, at)) is not None:
            sign, factor, wire, plain = match.groups()
            if sign is None and at != line.at:
                break
            size = 1 if factor is None else _number(factor)
            if wire is None and plain is None:
                line.at = match.end()
                return Affine(tuple(terms), -size if sign == "-" else size)
            name = str(plain or wire)
            terms.append(
                (self.named(line, name, match.end() - len(name) - 1), -size if sign == "-" else size)
            )
            at = match.end()
        if not terms:
            line.skip()
            raise line.error("expected a sum of wires and a constant")
        line.at = at
        return Affine(tuple(terms))

    def forms(self, line: _Line) -> tuple[Affine, ...]:
        line.expect("[")
        if line.accept("]"):
            return ()
        forms = line.items(lambda: self.form(line))
        line.expect("]")
        return tuple(forms)


def _new_name(line: _Line) -> tuple[str, int]:
    match = line.match(_WIRE, "a wire")
    return match[1], match.start()


def parse_circuit(text: str, file: str = "<circuit>") -> Circuit:
    """The circuit that `text` says. Raises CompileError with line and column on anything else."""
    reader = _Reader(text, file)
    circuit = _circuit(reader)
    extra = reader.peek()
    if extra is not None:
        raise extra.error(f"expected nothing after the outputs, found '{extra.text.split()[0]}'")
    return circuit


def parse_placed(text: str, file: str = "<placed>") -> PlacedCircuit:
    """The placed circuit that `text` says. Raises CompileError with line and column on anything else."""
    reader = _Reader(text, file)
    head = reader.take("'placed NAME: hidden N, mlp N, heads N'")
    head.expect("placed ")
    head.word("a name")
    sizes = []
    for mark, size in ((":", "hidden"), (",", "mlp"), (",", "heads")):
        head.expect(mark)
        head.expect(size)
        sizes.append(head.integer())
    head.end()
    ballast = []
    while (line := reader.peek()) is not None and line.accept("ballast "):
        reader.next += 1
        dimension = line.integer()
        line.expect(":")
        ballast.append((dimension, line.integer()))
        line.end()
    circuit = _circuit(reader)
    layers = tuple(_layers(reader, {op.name: op for op in circuit.operations}))
    hidden, mlp, heads = sizes
    return PlacedCircuit(circuit, layers, _slots(reader), tuple(ballast), hidden, mlp, heads)


def _circuit(reader: _Reader) -> Circuit:
    head = reader.take("'circuit NAME'")
    head.expect("circuit ")
    name = head.word("a name")
    head.end()
    reader.declared()
    line = reader.take("'inputs:'")
    line.expect("inputs:")
    inputs = reader.wire_list(line)
    operations: list[Op] = []
    while True:
        reader.declared()
        line = reader.take("'outputs:'")
        if line.accept("outputs:"):
            return Circuit(name, inputs, tuple(operations), reader.wire_list(line))
        operations.append(_operation(reader, line))


def _operation(reader: _Reader, line: _Line) -> Op:
    if line.accept("logic "):
        name = line.word("a name")
        line.end()
        return Logic(name, tuple(_unit(reader, unit) for unit in reader.indented()))
    if line.accept("age "):
        name = line.word("a name")
        line.expect(":")
        event, twice = reader.form(line), None
        if line.accept(","):
            line.expect("twice")
            twice = reader.form(line)
        line.expect("->")
        output = reader.wire(line)
        line.end()
        return Age(name, event, output, twice)
    if not line.accept("memory "):
        raise line.error(f"expected logic, memory, age, wires or outputs, found '{line.text.split()[0]}'")
    name, sink = line.word("a name"), False
    if line.accept(","):
        line.expect("sink")
        sink = True
    line.end()
    return _memory(reader, line, name, sink)


def _unit(reader: _Reader, line: _Line) -> Unit:
    kind = line.word("relu or step")
    if kind not in tuple(Gate):
        raise line.error(f"expected relu or step, found '{kind}'", line.at - len(kind))
    line.expect("(")
    gate = reader.form(line)
    line.expect(")")
    up = None
    if line.accept("*"):
        line.expect("(")
        up = reader.form(line)
        line.expect(")")
    line.expect("->")
    outputs = line.items(lambda: _weighted_wire(reader, line))
    line.end()
    return Unit(Gate(kind), gate, tuple(outputs), up)


def _weighted_wire(reader: _Reader, line: _Line) -> tuple[Wire, float]:
    start = line.at
    form = reader.form(line)
    if len(form.terms) != 1 or form.constant:
        raise line.error("expected one wire with its weight", start + 1)
    return form.terms[0]


@dataclass
class _MemoryParts:
    write: Rows | None = None
    read: Rows | None = None
    enable: tuple[Affine, ...] = ()
    wipe: Affine | None = None
    anchor: Affine = field(default_factory=lambda: affine(1))
    unwritten: int | None = None
    values: list[Value] = field(default_factory=list)
    outputs: list[tuple[Wire, tuple[tuple[int, float], ...]]] = field(default_factory=list)


def _memory(reader: _Reader, head: _Line, name: str, sink: bool) -> Memory:
    parts = _MemoryParts()
    for line in reader.indented():
        _memory_line(reader, line, parts)
        line.end()
    if parts.write is None or parts.read is None:
        raise head.error(f"memory {name} has no {'write' if parts.write is None else 'read'} line", 0)
    return Memory(
        name,
        parts.write,
        parts.enable,
        tuple(parts.values),
        parts.read,
        tuple(parts.outputs),
        parts.wipe,
        parts.anchor,
        sink,
        parts.unwritten,
    )


def _memory_line(reader: _Reader, line: _Line, parts: _MemoryParts) -> None:
    if line.rest.startswith("%"):
        wire = reader.wire(line)
        line.expect("=")
        parts.outputs.append((wire, _places(line)))
    elif line.accept("write "):
        parts.write = _rows(reader, line)
    elif line.accept("read "):
        parts.read = _rows(reader, line)
    elif line.accept("enable "):
        parts.enable = reader.forms(line)
    elif line.accept("wipe "):
        parts.wipe = reader.form(line)
    elif line.accept("anchor "):
        parts.anchor = reader.form(line)
    elif line.accept("unwritten "):
        parts.unwritten = line.integer()
    else:
        line.expect(f"d{len(parts.values)} =")
        parts.values.append(Value(reader.form(line), _back(line)))


def _places(line: _Line) -> tuple[tuple[int, float], ...]:
    """`d0 + 2 d1`, or 0 for none."""
    places: list[tuple[int, float]] = []
    while (match := _PLACE.match(line.text, line.at)) is not None:
        sign, factor, dimension = match.groups()
        if sign is None and places:
            break
        size = 1 if factor is None else _number(factor)
        places.append((int(dimension), -size if sign == "-" else size))
        line.at = match.end()
    if not places and not line.accept("0"):
        line.skip()
        raise line.error("expected a sum of dimensions, as in 'd0 + 2 d1'")
    return tuple(places)


def _rows(reader: _Reader, line: _Line) -> Rows:
    line.skip()
    every = 0
    bits = reader.forms(line) if line.rest.startswith("[") else None
    if line.accept("every "):
        every = line.integer()
    elif bits is None:
        raise line.error("expected an address, as in '[%a, %b]' or 'every 8'")
    complements = reader.forms(line) if line.accept("not ") else ()
    literals = reader.forms(line) if line.accept("where ") else ()
    return Rows(bits or (), literals, every, _back(line), complements)


def _back(line: _Line) -> int:
    return line.integer() if line.accept("back ") else 0


def _layers(reader: _Reader, operations: dict[str, Op]) -> Iterator[Layer]:
    count = 0
    while (line := reader.peek()) is not None and line.accept("layer "):
        reader.next += 1
        start = line.at
        if line.integer() != count:
            raise line.error(f"expected layer {count}", start)
        line.end()
        count += 1
        heads: list[Memory | Age] = []
        logic: list[Logic] = []
        erase: list[int] = []
        for part in reader.indented():
            if part.accept("heads:"):
                heads = [op for op in _placed(part, operations) if not isinstance(op, Logic)]
            elif part.accept("logic:"):
                logic = [op for op in _placed(part, operations) if isinstance(op, Logic)]
            else:
                part.expect("erase:")
                erase = part.items(part.integer)
            part.end()
        yield Layer(tuple(heads), tuple(logic), tuple(erase))


def _placed(line: _Line, operations: dict[str, Op]) -> list[Op]:
    """The operations a layer names, of the kind its title says."""
    wanted = "logic" if line.text.lstrip().startswith("logic") else "a head"

    def item() -> Op:
        name = line.word("an operation")
        op, at = operations.get(name), line.at - len(name)
        if op is None:
            raise line.error(f"the circuit has no operation {name}", at)
        if isinstance(op, Logic) != (wanted == "logic"):
            raise line.error(f"operation {name} is not {wanted}", at)
        return op

    return line.items(item)


def _slots(reader: _Reader) -> dict[Wire, int]:
    reader.declared()
    slots: dict[Wire, int] = {}
    while (line := reader.peek()) is not None:
        reader.next += 1
        line.expect("slot ")
        slot = line.integer()
        line.expect(":")
        for wire in reader.wire_list(line):
            if wire in slots:
                raise line.error(f"{wire} has slot {slots[wire]} already")
            slots[wire] = slot
    return slots
