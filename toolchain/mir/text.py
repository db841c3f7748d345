"""MIR as text, and back: `parse_mir(print_mir(f)) == f`.

    kernel dot from "dot.cu"
    param a: word 0, words 1, pointer
    shared 16, local 2

    entry:
        %p1 = set.lt.s 0, param.3                                ; dot.cu:3:21
        %s = mov 0 {uniform, narrow}
        branch %p1, count, exit

    count: serial
        %old = ld.shared [3]
        ...

The head is declarations.py's.
A source location follows ` ; `; a line that starts with `;` is a comment.
"""

import re
from collections.abc import Iterable

from toolchain.errors import CompileError, SourceLocation
from toolchain.mir.affine import parse_link_value, print_link_value
from toolchain.mir.declarations import Declarations, print_declarations
from toolchain.mir.ir import (
    STORES,
    TRUE,
    ZERO,
    Barrier,
    Block,
    Branch,
    Function,
    Instruction,
    Jump,
    MirOp,
    Operand,
    Operation,
    Predicate,
    Register,
    Special,
    Terminator,
    Value,
    operand_count,
    writes_predicate,
)
from toolchain.mir.isa import LOADS, SELECTING, SPECIALS, MulOp, Op
from toolchain.mir.rom import LinkValue

OPERATIONS: dict[str, Operation] = {op.value: op for kind in (Op, MulOp, MirOp) for op in kind}
_SOURCE_COLUMN = 64


def print_mir(function: Function) -> str:
    """The text of a function; ends with a newline."""
    lines = [f'kernel {function.name} from "{function.source_file}"']
    lines += print_declarations(
        function.parameters, function.variables, function.shared_words, function.local_words
    )
    for block in function.blocks:
        lines += ["", f"{block.label}:{' serial' if block.serial else ''}"]
        lines += [_with_source(print_instruction(item), item.source) for item in block.instructions]
        lines.append(_with_source(print_terminator(block.terminator), block.terminator.source))
    return "\n".join(lines) + "\n"


def print_instruction(instruction: Instruction) -> str:
    """One instruction without its source location."""
    notes = [name for name in ("uniform", "narrow") if getattr(instruction, name)]
    dest = "" if instruction.dest is None else f"{instruction.dest} = "
    return f"{dest}{_print_body(instruction)}" + (f" {{{', '.join(notes)}}}" if notes else "")


def print_terminator(terminator: Terminator) -> str:
    if isinstance(terminator, Jump):
        return f"jump {terminator.target}"
    if isinstance(terminator, Barrier):
        return f"barrier {terminator.target}"
    return f"branch {terminator.predicate}, {terminator.taken}, {terminator.otherwise}"


def print_operand(operand: Operand) -> str:
    return print_link_value(operand) if isinstance(operand, LinkValue) else str(operand)


def _print_body(instruction: Instruction) -> str:
    op, operands = instruction.op, instruction.operands
    if op in LOADS:
        return f"{op} {_print_address(operands[0], instruction.offset)}"
    if op in STORES:
        guard = ""
        if instruction.predicate is not None:
            guard = f" if {'not ' if instruction.negated else ''}{instruction.predicate}"
        return f"{op} {_print_address(operands[0], instruction.offset)}, {print_operand(operands[1])}{guard}"
    if op is MirOp.SYNC:
        return str(op)
    name = f"{op}.{instruction.table:#x}" if op in (Op.LOP, MirOp.PLOP) else str(op)
    selector = [str(instruction.predicate)] if instruction.predicate is not None else []
    return f"{name} {', '.join(selector + [print_operand(operand) for operand in operands])}"


def _print_address(address: Operand, offset: LinkValue) -> str:
    if address == ZERO:
        return f"[{print_link_value(offset)}]"
    return f"[{print_operand(address)}]" if offset == ZERO else f"[{address} + {print_link_value(offset)}]"


def _with_source(text: str, source: SourceLocation | None) -> str:
    return f"    {text}" if source is None else f"    {text:{_SOURCE_COLUMN}} ; {source}"


_NAME = r"[A-Za-z_$][\w$.]*"
_KERNEL = re.compile(rf'kernel (?P<name>{_NAME}) from "(?P<file>.*)"')
_LABEL = re.compile(rf"(?P<label>{_NAME}):(?P<serial> serial)?")
_REGISTER = re.compile(r"%(?P<name>[A-Za-z_$][\w$]*)")
_NOTES = re.compile(r"(?P<body>.*?) \{(?P<notes>[a-z, ]+)\}")
_STORE = re.compile(r"(?P<address>\[[^]]*\]), (?P<data>.+?)(?: if (?P<not>not )?(?P<guard>%\S+))?")
_SOURCE = re.compile(r"(?P<file>.*?):(?P<line>\d+)(?::(?P<column>\d+))?")


class _LineError(Exception):
    """What is wrong with a line; the caller knows which."""


def parse_mir(text: str, file: str = "<mir>") -> Function:
    """The function that `text` says. Raises CompileError with the line on anything else."""
    header: tuple[str, str] | None = None
    head = Declarations()
    blocks: list[Block] = []
    label: str | None = None
    serial = False
    body: list[Instruction] = []
    for number, full in enumerate(text.splitlines(), 1):
        line, source = _split_source(full)
        try:
            if not line:
                continue
            if match := _KERNEL.fullmatch(line):
                header = (match["name"], match["file"])
            elif head.read(line):
                continue
            elif match := _LABEL.fullmatch(line):
                if label is not None:
                    raise _LineError(f"block '{label}' ends without a jump, a branch or a barrier")
                label, serial, body = match["label"], match["serial"] is not None, []
            elif label is None:
                raise _LineError("an instruction stands outside a block")
            elif (terminator := _parse_terminator(line, source)) is not None:
                blocks.append(Block(label, tuple(body), terminator, serial))
                label = None
            else:
                body.append(_parse_instruction(line, source))
        except (_LineError, ValueError) as error:
            raise CompileError(str(error), SourceLocation(file, number), excerpt=full) from None
    last = SourceLocation(file, max(1, len(text.splitlines())))
    if header is None:
        raise CompileError("a MIR file starts with 'kernel NAME from \"FILE\"'", SourceLocation(file, 1))
    if label is not None:
        raise CompileError(f"block '{label}' ends without a jump, a branch or a barrier", last)
    return Function(
        header[0], tuple(head.parameters), tuple(blocks), header[1],
        tuple(head.variables), head.shared_words, head.local_words,
    )  # fmt: skip


def _split_source(line: str) -> tuple[str, SourceLocation | None]:
    if line.lstrip().startswith(";"):
        return "", None
    body, mark, source = line.partition(" ; ")
    match = _SOURCE.fullmatch(source.strip()) if mark else None
    if match is None:
        return body.strip(), None
    return body.strip(), SourceLocation(match["file"], int(match["line"]), int(match["column"] or 0))


def _parse_terminator(line: str, source: SourceLocation | None) -> Terminator | None:
    word, _, rest = line.partition(" ")
    if word == "jump":
        return Jump(rest.strip(), source)
    if word == "barrier":
        return Barrier(rest.strip(), source)
    if word != "branch":
        return None
    parts = _split(rest)
    if len(parts) != 3:
        raise _LineError(f"'branch' takes a predicate and two labels; found {len(parts)} operands")
    return Branch(_predicate(parts[0]), parts[1], parts[2], source)


def _parse_instruction(line: str, source: SourceLocation | None) -> Instruction:
    notes: set[str] = set()
    if match := _NOTES.fullmatch(line):
        line, notes = match["body"], set(_split(match["notes"]))
    if notes - {"uniform", "narrow"}:
        raise _LineError(f"unknown annotation in {{{', '.join(sorted(notes))}}}")
    left, equals, right = line.partition(" = ")
    dest, body = (left, right) if equals else ("", line)
    word, _, rest = body.strip().partition(" ")
    op, table = _operation(word)
    uniform, narrow = "uniform" in notes, "narrow" in notes
    if op in STORES:
        match = _STORE.fullmatch(rest)
        if match is None or dest:
            raise _LineError(f"a store is written '{op} [ADDRESS], DATA' with an optional 'if [not] %p'")
        address, offset = _parse_address(match["address"])
        guard = _predicate(match["guard"]) if match["guard"] else None
        operands = (address, _value(match["data"]))
        return Instruction(op, None, operands, guard, match["not"] is not None, 0, offset, source=source)
    if op is MirOp.SYNC and not dest and not rest:
        return Instruction(op, None, (), source=source)
    if not dest:
        raise _LineError(f"'{word}' needs a destination")
    target = _predicate(dest) if writes_predicate(op) else _register(dest)
    if op in LOADS:
        address, offset = _parse_address(rest)
        return Instruction(op, target, (address,), None, False, 0, offset, uniform, narrow, source)
    parts = _split(rest)
    selector = _predicate(parts.pop(0)) if op in SELECTING and parts else None
    expected = operand_count(op)
    if len(parts) != expected:
        raise _LineError(f"'{word}' takes {expected} operands; found {len(parts)}")
    operands = _operands(op, parts)
    return Instruction(op, target, operands, selector, False, table, ZERO, uniform, narrow, source)


def _operands(op: Operation, parts: Iterable[str]) -> tuple[Operand, ...]:
    if op is MirOp.PLOP:
        return tuple(_predicate(part) for part in parts)
    return tuple(_value(part) for part in parts)


def _operation(word: str) -> tuple[Operation, int]:
    if word in OPERATIONS and OPERATIONS[word] not in (Op.LOP, MirOp.PLOP):
        return OPERATIONS[word], 0
    name, _, table = word.partition(".")
    if name in (Op.LOP, MirOp.PLOP) and re.fullmatch(r"0x[0-9a-f]", table):
        return OPERATIONS[name], int(table, 16)
    raise _LineError(f"unknown operation '{word}'")


def _parse_address(text: str) -> tuple[Value, LinkValue]:
    if not (text.startswith("[") and text.endswith("]")):
        raise _LineError(f"'{text}' is not an address; write [%register + offset]")
    inner = text[1:-1]
    if not inner.startswith("%"):
        return ZERO, parse_link_value(inner)
    base, plus, offset = inner.partition(" + ")
    return _value(base), parse_link_value(offset) if plus else ZERO


def _value(text: str) -> Value:
    if not text.startswith("%"):
        return parse_link_value(text)
    return Special(text[1:]) if text[1:] in SPECIALS else _register(text)


def _register(text: str) -> Register:
    match = _REGISTER.fullmatch(text.strip())
    if match is None:
        raise _LineError(f"'{text}' is not a register")
    return Register(match["name"])


def _predicate(text: str) -> Predicate:
    if text.strip() == "true":
        return TRUE
    match = _REGISTER.fullmatch(text.strip())
    if match is None:
        raise _LineError(f"'{text}' is not a predicate")
    return Predicate(match["name"])


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text else []
