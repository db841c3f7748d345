"""What this version of the machine runs, and for everything else the reason and what to do instead.

`check_supported` lists every instruction of a kernel that is refused, with the user's own lines, before
anything is lowered. Calls are gone by then (inline_calls.py). SUPPORTED is the one table of instructions that
are accepted; REFUSALS says why not, first match first.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from toolchain.errors import CompileError, SourceLocation
from toolchain.ptx_frontend.arithmetic_forms import ARITHMETIC, DATA
from toolchain.ptx_frontend.ast import (
    FloatImmediate,
    Function,
    Instruction,
    SpecialRegister,
)
from toolchain.ptx_frontend.clang import source_line
from toolchain.ptx_frontend.printer import print_instruction

LISTED = 20
"""At most so many instructions are listed in one error."""

ORDER = r"(weak|volatile|relaxed|acquire|release|acq_rel|cta|cluster|gpu|sys)\."
SPACE = r"(global|shared(::cta)?)\."
PREFIX = rf"({ORDER}|{SPACE})*"
"""Order, scope and space stand in any order: compilers differ."""
HINTS = r"((nc|c[agvs]|lu|w[bt]|L[12]::\w+)\.)*"
VECTOR = r"(v[24]\.)?"
UPDATE = r"(add|min|max)\.[su](32|64)|(inc|dec)\.u32|(and|or|xor)\.b(32|64)"
ALIGNED = r"(\.aligned)?"
BARRIER = rf"(cta\.)?(sync{ALIGNED}|red\.popc{ALIGNED}\.u32|red\.(and|or){ALIGNED}\.pred)"

SUPPORTED: dict[str, str] = {
    **ARITHMETIC,
    "cvta": r"(to\.)?(global|const|shared(::cta)?|local)\.u(32|64)",
    "ld": rf"{PREFIX}((param|const|local)\.)?{HINTS}{VECTOR}{DATA}",
    "st": rf"{PREFIX}(local\.)?{HINTS}{VECTOR}{DATA}",
    "atom": rf"{PREFIX}({UPDATE}|exch\.b(32|64)|cas\.b(16|32|64))",
    "red": rf"{PREFIX}({UPDATE})",
    "shfl": r"(sync\.)?(up|down|bfly|idx)\.b32",
    "vote": r"(sync\.)?((all|any|uni)\.pred|ballot\.b32)",
    "match": r"(any|all)\.sync\.b(32|64)",
    "activemask": "b32",
    "redux": r"sync\.((add|min|max)\.[su]32|(and|or|xor)\.b32)",
    "bra": r"(uni)?",
    "brx": "idx(\\.uni)?",
    "ret": "(uni)?",
    "exit": "",
    "bar": rf"warp\.sync|{BARRIER}",
    "barrier": BARRIER,
    "membar": r"\w+",
    "fence": r".*",
    "nanosleep": "u32",
    "prefetch": r".*",
}
"""Opcode -> the modifiers that are accepted, as a regular expression over what follows the first dot.

`bar.warp.sync` and fences cost nothing: the lanes of a warp already meet at every post-dominator, and memory
operations happen in order.
"""

SPECIAL_REGISTERS = frozenset(
    {f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"}
    | {f"%lanemask_{relation}" for relation in ("eq", "lt", "le", "gt", "ge")}
    | {"%laneid", "%warpid", "%nwarpid", "WARP_SZ"}
)


@dataclass(frozen=True)
class Unsupported:
    """One refused instruction: what it is, what to do instead, and where."""

    instruction: str
    reason: str
    suggestion: str
    where: SourceLocation
    ptx: SourceLocation

    def __str__(self) -> str:
        return f"{self.where}: {self.reason} ({self.instruction}); {self.suggestion}"


@dataclass(frozen=True)
class Refusal:
    """A kind of instruction that is refused, recognised by `matches`."""

    reason: str
    suggestion: str
    matches: Callable[[Instruction], bool]


def _opcodes(*names: str) -> Callable[[Instruction], bool]:
    return lambda instruction: instruction.opcode in names


def _word(pattern: str) -> Callable[[Instruction], bool]:
    compiled = re.compile(pattern)
    return lambda instruction: any(compiled.fullmatch(word) for word in instruction.modifiers)


def _is_float(instruction: Instruction) -> bool:
    floats = re.compile(r"(b?f(16|32|64)(x2)?|tf32|e\dm\d(x2)?|approx|ftz)")
    return any(floats.fullmatch(word) for word in instruction.modifiers) or any(
        isinstance(operand, FloatImmediate) for operand in instruction.operands
    )


NOT_YET = "is not in this version of the machine"
REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        "floating point is not supported", "use integers; fixed point with __mulhi often serves", _is_float
    ),
    Refusal(
        "textures and surfaces are not supported",
        "read an array instead",
        _opcodes("tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep"),
    ),
    Refusal(
        "matrix instructions are not supported",
        "write the product as loops",
        lambda instruction: (
            instruction.opcode in ("mma", "wmma", "wgmma", "tcgen05", "ldmatrix", "stmatrix", "movmatrix")
        ),
    ),
    Refusal(
        "this atomic operation is not supported",
        "use one on 32- or 64-bit integers in global or shared memory",
        _opcodes("atom", "red"),
    ),
    Refusal(
        "this warp operation is not supported",
        "use shuffles and reductions of 32-bit integers, votes, and matches",
        _opcodes("shfl", "vote", "match", "activemask", "redux", "elect"),
    ),
    Refusal(
        "a barrier of some of the threads, or one that does not wait, is not supported",
        "use __syncthreads(), which all threads of the block reach",
        _opcodes("bar", "barrier", "mbarrier"),
    ),
    Refusal(
        "an asynchronous copy is not supported",
        "load and store the elements",
        _opcodes("cp", "multimem", "griddepcontrol", "prefetchu", "discard", "applypriority"),
    ),
    Refusal(
        "this memory access is not supported",
        "use elements of 8 to 64 bits, in vectors of at most four",
        _opcodes("ld", "ldu", "st"),
    ),
    Refusal(
        f"8- and 16-bit data {NOT_YET}",
        "use 32-bit elements and mask them",
        _word(r"[bsu](8|16)(x\d)?"),
    ),
    Refusal("a trap is not supported", "write an error code to an array", _opcodes("trap", "brkpt")),
    Refusal(
        "an instruction this toolchain does not know",
        "write it with plain integer operations",
        lambda _: True,
    ),
)


def refusal(instruction: Instruction) -> Refusal | None:
    """Why an instruction is refused; None if it is supported."""
    for operand in instruction.operands:
        if isinstance(operand, FloatImmediate):
            return next(refusal for refusal in REFUSALS if refusal.matches is _is_float)
        if isinstance(operand, SpecialRegister) and operand.name not in SPECIAL_REGISTERS:
            return Refusal(
                f"special register {operand.name} is not supported",
                "compute it from tid, ntid, ctaid, nctaid, laneid and warpid",
                lambda _: True,
            )
    accepted = SUPPORTED.get(instruction.opcode)
    fits = accepted is not None and re.fullmatch(accepted, ".".join(instruction.modifiers)) is not None
    if fits:
        return None
    return next(refusal for refusal in REFUSALS if refusal.matches(instruction))


def unsupported(function: Function) -> tuple[Unsupported, ...]:
    """Every refused instruction of a kernel, in order."""
    found = []
    for instruction in function.instructions:
        reason = refusal(instruction)
        if reason is not None:
            found.append(
                Unsupported(
                    print_instruction(instruction), reason.reason, reason.suggestion,
                    instruction.where, instruction.location,
                )
            )  # fmt: skip
    return tuple(found)


def check_supported(function: Function) -> None:
    """Raises CompileError where the kernel has instructions the machine does not run.

    The error stands at the first one; its hint says what to do instead and lists every one with its source
    line.
    """
    found = unsupported(function)
    if not found:
        return
    reasons = {item.reason: item.suggestion for item in reversed(found)}
    lines = {(str(item.where), item.reason): item for item in reversed(found)}
    listing = [f"{item.where}: {item.reason}: {item.instruction}" for item in reversed(lines.values())]
    if len(listing) > LISTED:
        listing[LISTED:] = [f"... and {len(listing) - LISTED} more"]
    suggestions = list(reversed(reasons.values()))
    first = found[0]
    raise CompileError(
        first.reason
        if len(reasons) == 1
        else f"{first.reason}, and {len(reasons) - 1} more kinds of instruction",
        first.where,
        hint="; ".join(suggestions) + "\nall of them:\n    " + "\n    ".join(listing),
        excerpt=source_line(first.where),
    )
