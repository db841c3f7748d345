"""ROM images as text, and back: `parse_rom(print_rom(image)) == image`.

    rom dot for nano from "dot.cu"
    param a: word 0, words 1, pointer
    shared 16, local 2
    variable table: words 4 = 1, 0x80000000

    block 1 loop serial:                                             ; dot.cu:4
      stage 0 port0=r1 imm0=1
        x  ld.global [port0 + (param.0)>>2]                     ; dot.cu:4:14
        z  add port0, imm0
      stage 1
        m  mul.lo ld0.x, r2
        p  plop.0x8 p0, true
      return r1 = t0.z {uniform, narrow}
      p0 = q1.x
      st.global [r3 + 4], t3.x if not q1.x
      branch q1.x, 1, 2                                         ; or: jump 1, or: barrier 1

A multiply or a store names the register of its own port; a register beside a source that is not a port (which
changes nothing) is written `t0.x/r3`. Stages without an operation, a port or an immediate are left out.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from toolchain.errors import CompileError, SourceLocation
from toolchain.machine_spec import PREDICATES, STAGES
from toolchain.mir.affine import parse_link_value, print_link_value
from toolchain.mir.declarations import Declarations, print_declarations
from toolchain.mir.isa import (
    ALU_SLOTS,
    LOADS,
    NOTHING,
    SELECTING,
    SPECIALS,
    TRUE,
    MulOp,
    Op,
    PredicateSource,
    Source,
    SourceKind,
)
from toolchain.mir.rom import (
    EXIT,
    AluOp,
    Block,
    LinkValue,
    Multiply,
    PredicateLogic,
    Return,
    RomImage,
    Stage,
    Store,
    Terminator,
)

_COLUMN = 64
_ONE_OPERAND = (Op.POPC, Op.CLZ, Op.BREV, Op.BALLOT, *LOADS)


# --- Printing


def print_rom(rom: RomImage) -> str:
    """The text of an image; ends with a newline."""
    lines = [f'rom {rom.kernel} for {rom.machine} from "{rom.source_file}"']
    lines += print_declarations(rom.parameters, rom.variables, rom.shared_words, rom.local_words)
    for index, block in enumerate(rom.blocks):
        lines += ["", *_block_lines(index, block)]
    return "\n".join(lines) + "\n"


def _line(text: str, source: SourceLocation | None) -> str:
    return text if source is None else f"{text:{_COLUMN}} ; {source}"


def _block_lines(index: int, block: Block) -> Iterator[str]:
    label = block.label and f" {block.label}"
    yield _line(f"block {index}{label}{' serial' if block.serial else ''}:", block.source)
    for number, stage in enumerate(block.stages):
        if stage != Stage():
            yield from _stage_lines(number, stage)
    end = block.terminator
    for item in block.returns:
        notes = [name for name in ("uniform", "narrow") if getattr(item, name)]
        yield f"  return r{item.register} = {item.value}" + (f" {{{', '.join(notes)}}}" if notes else "")
    for number, source in enumerate(end.predicates):
        if source is not None:
            yield f"  p{number} = {source}"
    if end.store is not None:
        yield _line(f"  {_store_text(end.store)}", end.store.source)
    yield _line(f"  {_branch_text(end)}", end.source)


def _stage_lines(number: int, stage: Stage) -> Iterator[str]:
    notes = [f"port{i}=r{register}" for i, register in enumerate(stage.ports) if register]
    notes += [f"imm{i}={print_link_value(v)}" for i, v in enumerate(stage.immediates) if v != LinkValue()]
    yield "  stage " + ", ".join([str(number), *notes])
    for slot in ALU_SLOTS:
        op: AluOp | None = getattr(stage, slot)
        if op is not None:
            yield _line(f"    {slot}  {_alu_text(op)}", op.source)
    if stage.m is not None:
        a, b = _own(stage.m.a, stage.m.register_a), _own(stage.m.b, stage.m.register_b)
        yield _line(f"    m  {stage.m.op} {a}, {b}", stage.m.source)
    if stage.p is not None:
        yield _line(f"    p  plop.{stage.p.table:#x} {stage.p.a}, {stage.p.b}", stage.p.source)


def _alu_text(op: AluOp) -> str:
    name = f"{op.op}.{op.table:#x}" if op.op is Op.LOP or op.table else str(op.op)
    has_address = op.op in LOADS or op.offset != LinkValue()
    first = _address(str(op.a), op.offset) if has_address else str(op.a)
    operands = [first]
    if op.op in SELECTING or op.predicate != TRUE:
        operands.insert(0, str(op.predicate))
    if op.op not in _ONE_OPERAND or op.b != NOTHING:
        operands.append(str(op.b))
    return f"{name} {', '.join(operands)}"


def _address(base: str, offset: LinkValue) -> str:
    return f"[{base} + {print_link_value(offset)}]" if offset != LinkValue() else f"[{base}]"


def _own(source: Source, register: int) -> str:
    """An operand that has a register port to itself."""
    if source.kind is SourceKind.PORT:
        return f"r{register}"
    return f"{source}/r{register}" if register else str(source)


def _store_text(store: Store) -> str:
    address = _address(_own(store.address, store.address_register), store.offset)
    text = f"st.{'shared' if store.shared else 'global'} {address}, {_own(store.data, store.data_register)}"
    if store.guard == TRUE and not store.negated:
        return text
    return f"{text} if {'not ' if store.negated else ''}{store.guard}"


def _branch_text(end: Terminator) -> str:
    target0, target1 = ("exit" if target == EXIT else str(target) for target in (end.target0, end.target1))
    name = "barrier" if end.barrier else "jump" if end.branch == TRUE and target0 == target1 else "branch"
    return f"{name} {target0}" if name != "branch" else f"branch {end.branch}, {target1}, {target0}"


# --- Parsing

_LOCATION = re.compile(r"(?P<file>.*?):(?P<line>\d+)(?::(?P<column>\d+))?")
_HEADER = re.compile(r'rom (?P<kernel>\S+) for (?P<machine>\S+) from "(?P<file>.*)"')
_BLOCK = re.compile(r"block (?P<index>\d+)(?: (?!serial:)(?P<label>\S+))?(?P<serial> serial)?:")
_STAGE = re.compile(r"stage (?P<index>[0-3])(?P<notes>(?:, (?:port[0-3]|imm[01])=[^,]+)*)")
_OPERATION = re.compile(
    r"(?P<slot>[xyzmp])  (?P<name>[a-z.]+?)(?:\.(?P<table>0x[0-9a-f]+))? (?P<operands>.+)"
)
_RETURN = re.compile(r"return r(?P<register>\d+) = (?P<value>\S+)(?: \{(?P<notes>[a-z, ]+)\})?")
_PREDICATE = re.compile(r"p(?P<index>[0-3]) = (?P<source>\S+)")
_STORE = re.compile(
    r"st\.(?P<space>global|shared) (?P<address>\[[^]]*\]), (?P<data>\S+)(?: if (?P<not>not )?(?P<guard>\S+))?"
)
_BRANCH = re.compile(
    r"branch (?P<branch>\S+), (?P<target1>exit|\d+), (?P<target0>exit|\d+)|(?P<kind>jump|barrier) (?P<jump>exit|\d+)"
)
_SOURCE = re.compile(
    r"(?P<file>0)|%(?P<special>\S+)|m(?P<product>\d)|(?P<kind>port|imm|t|ld)(?P<index>\d)(?:\.(?P<slot>[xyz]))?"
)
_FLAG = re.compile(r"true|p(?P<register>\d)|q(?P<stage>\d)\.(?P<slot>[xyzp])")


@dataclass
class _Draft:
    """A block as far as it has been read."""

    label: str
    serial: bool
    source: SourceLocation | None
    stages: list[Stage] = field(default_factory=lambda: [Stage()] * STAGES)
    stage: int = -1
    returns: list[Return] = field(default_factory=list)
    predicates: list[PredicateSource | None] = field(default_factory=lambda: [None] * PREDICATES)
    store: Store | None = None
    end: Terminator | None = None

    def finish(self) -> Block:
        if self.end is None:
            raise ValueError(f"block '{self.label}' ends without a jump or a branch")
        p, s = self.predicates, self.stages
        end = replace(self.end, predicates=(p[0], p[1], p[2], p[3]), store=self.store)
        stages = s[0], s[1], s[2], s[3]
        return Block(stages, end, tuple(self.returns), self.label, self.serial, self.source)


class _Parser:
    def __init__(self) -> None:
        self.header: re.Match[str] | None = None
        self.head = Declarations()
        self.blocks: list[Block] = []
        self.draft: _Draft | None = None
        self.forms: tuple[
            tuple[re.Pattern[str], Callable[[re.Match[str], SourceLocation | None], None]], ...
        ] = (
            (_HEADER, self.rom),
            (_BLOCK, self.block),
            (_STAGE, self.stage),
            (_OPERATION, self.operation),
            (_RETURN, self.returned),
            (_PREDICATE, self.predicate),
            (_STORE, self.store),
            (_BRANCH, self.branch),
        )

    def line(self, text: str) -> None:
        body, mark, where = text.partition(" ; ")
        body = body.strip()
        if not body or body.startswith(";") or self.head.read(body):
            return
        location = _LOCATION.fullmatch(where.strip()) if mark else None
        source = None
        if location:
            source = SourceLocation(location["file"], int(location["line"]), int(location["column"] or 0))
        for pattern, action in self.forms:
            if match := pattern.fullmatch(body):
                action(match, source)
                return
        raise ValueError(f"cannot read '{body}'")

    def current(self) -> _Draft:
        if self.draft is None:
            raise ValueError("this line belongs in a block")
        return self.draft

    def rom(self, match: re.Match[str], _: SourceLocation | None) -> None:
        self.header = match

    def block(self, match: re.Match[str], source: SourceLocation | None) -> None:
        self.close()
        if int(match["index"]) != len(self.blocks):
            raise ValueError(f"block {match['index']} is number {len(self.blocks)}")
        self.draft = _Draft(match["label"] or "", match["serial"] is not None, source)

    def close(self) -> None:
        if self.draft is not None:
            self.blocks.append(self.draft.finish())
        self.draft = None

    def stage(self, match: re.Match[str], _: SourceLocation | None) -> None:
        draft = self.current()
        draft.stage = int(match["index"])
        ports, immediates = [0] * 4, [LinkValue()] * 2
        for note in match["notes"].split(", ")[1:]:
            name, value = note.split("=")
            if name.startswith("port"):
                ports[int(name[-1])] = _register(value)
            else:
                immediates[int(name[-1])] = parse_link_value(value)
        draft.stages[draft.stage] = Stage(
            (ports[0], ports[1], ports[2], ports[3]), (immediates[0], immediates[1])
        )

    def operation(self, match: re.Match[str], source: SourceLocation | None) -> None:
        draft = self.current()
        if draft.stage < 0:
            raise ValueError("an operation belongs in a stage")
        slot, table = match["slot"], int(match["table"] or "0", 16)
        operands = match["operands"].split(", ")
        if slot == "m":
            (a, register_a), (b, register_b) = map(_own_source, operands)
            op: AluOp | Multiply | PredicateLogic = Multiply(
                MulOp(match["name"]), a, b, register_a, register_b, source
            )
        elif slot == "p":
            op = PredicateLogic(_flag(operands[0]), _flag(operands[1]), table, source)
        else:
            op = _alu(match["name"], table, operands, source)
        draft.stages[draft.stage] = replace(draft.stages[draft.stage], **{slot: op})

    def returned(self, match: re.Match[str], _: SourceLocation | None) -> None:
        notes = (match["notes"] or "").split(", ")
        self.current().returns.append(
            Return(_source(match["value"]), int(match["register"]), "uniform" in notes, "narrow" in notes)
        )

    def predicate(self, match: re.Match[str], _: SourceLocation | None) -> None:
        self.current().predicates[int(match["index"])] = _flag(match["source"])

    def store(self, match: re.Match[str], source: SourceLocation | None) -> None:
        base, offset = _parse_address(match["address"])
        address, address_register = _own_source(base)
        data, data_register = _own_source(match["data"])
        guard = TRUE if match["guard"] is None else _flag(match["guard"])
        negated = match["not"] is not None
        shared = match["space"] == "shared"
        self.current().store = Store(
            address, data, address_register, data_register, offset, guard, negated, shared, source
        )

    def branch(self, match: re.Match[str], source: SourceLocation | None) -> None:
        jump = match["jump"]
        target0, target1 = (jump, jump) if jump else (match["target0"], match["target1"])
        branch = TRUE if jump else _flag(match["branch"])
        barrier = match["kind"] == "barrier"
        targets = _target(target0), _target(target1)
        self.current().end = Terminator(*targets, branch, barrier=barrier, source=source)


def parse_rom(text: str, file: str = "<rom>") -> RomImage:
    """The image that `text` says. Raises CompileError with the line on anything else."""
    parser = _Parser()
    lines = text.splitlines()
    for number, line in enumerate([*lines, ""], 1):
        try:
            parser.line(line)
            if number > len(lines):
                parser.close()
        except ValueError as error:
            raise CompileError(str(error), SourceLocation(file, number), excerpt=line) from None
    if parser.header is None:
        raise CompileError(
            "a ROM file starts with 'rom KERNEL for MACHINE from \"FILE\"'", SourceLocation(file, 1)
        )
    header, head = parser.header, parser.head
    return RomImage(
        header["kernel"], header["machine"], tuple(head.parameters), tuple(parser.blocks), header["file"],
        tuple(head.variables), head.shared_words, head.local_words,
    )  # fmt: skip


def _alu(name: str, table: int, operands: list[str], source: SourceLocation | None) -> AluOp:
    predicate = TRUE
    if _FLAG.fullmatch(operands[0]):
        predicate, operands = _flag(operands[0]), operands[1:]
    operands = operands or [str(NOTHING)]
    if len(operands) > 2:
        raise ValueError(f"'{name}' takes at most two operands")
    base, offset = _parse_address(operands[0]) if operands[0].startswith("[") else (operands[0], LinkValue())
    b = _source(operands[1]) if len(operands) == 2 else NOTHING
    return AluOp(Op(name), _source(base), b, predicate, table, offset, source)


def _parse_address(text: str) -> tuple[str, LinkValue]:
    base, plus, offset = text[1:-1].partition(" + ")
    return base, parse_link_value(offset) if plus else LinkValue()


def _target(text: str) -> int:
    return EXIT if text == "exit" else int(text)


def _register(text: str) -> int:
    if not re.fullmatch(r"r\d+", text):
        raise ValueError(f"'{text}' is not a register")
    return int(text[1:])


def _own_source(text: str) -> tuple[Source, int]:
    """The inverse of `_own`: a source and the register of its port."""
    if re.fullmatch(r"r\d+", text):
        return Source(SourceKind.PORT), _register(text)
    source, slash, register = text.partition("/")
    return _source(source), _register(register) if slash else 0


def _source(text: str) -> Source:
    match = _SOURCE.fullmatch(text)
    if match is None or (match["special"] is not None and match["special"] not in SPECIALS):
        raise ValueError(f"'{text}' is not an operand")
    if text == "0":
        return NOTHING
    if match["special"]:
        return Source(SourceKind.SPECIAL, name=match["special"])
    if match["product"]:
        return Source(SourceKind.PRODUCT, int(match["product"]))
    kind = SourceKind(match["kind"])
    if kind in (SourceKind.PORT, SourceKind.IMMEDIATE):
        return Source(kind, index=int(match["index"]))
    return Source(kind, int(match["index"]), match["slot"] or "")


def _flag(text: str) -> PredicateSource:
    match = _FLAG.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a predicate")
    if match["register"]:
        return PredicateSource(register=int(match["register"]))
    return PredicateSource(stage=int(match["stage"]), slot=match["slot"]) if match["slot"] else TRUE
