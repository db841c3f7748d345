"""What the sanitizer has found: one Finding for all occurrences at the same source lines."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from toolchain.errors import SourceLocation
from toolchain.ptx_frontend.ast import Instruction
from toolchain.ptx_frontend.clang import source_line
from toolchain.ptx_frontend.interpreter import Extents, Thread


class Kind(Enum):
    """What is wrong."""

    OUT_OF_BOUNDS = "out-of-bounds"
    MISALIGNED = "misaligned"
    READ_ONLY = "read-only"
    UNINITIALISED = "uninitialised"
    RACE = "race"
    DIVERGENT_BARRIER = "divergent-barrier"
    DIFFERENT_BARRIERS = "different-barriers"
    EARLY_EXIT = "early-exit"
    MEMBER_MASK = "member-mask"
    INACTIVE_LANE = "inactive-lane"
    FAULT = "fault"


@dataclass(frozen=True)
class Place:
    """What a thread did and where. The thread is None where the whole launch stops."""

    action: str
    source: SourceLocation
    thread: Extents | None = None
    block: Extents | None = None

    @property
    def by(self) -> str:
        """The action and who did it."""
        if self.thread is None or self.block is None:
            return self.action
        thread, block = (",".join(map(str, extents)) for extents in (self.thread, self.block))
        return f"{self.action} by thread ({thread}) of block ({block})"

    def __str__(self) -> str:
        return f"{self.source}: {self.by}"

    def as_json(self) -> dict[str, object]:
        """The fields, `source` as FILE:LINE:COLUMN."""
        return {
            "action": self.action,
            "source": str(self.source),
            "thread": self.thread,
            "block": self.block,
        }


def place(action: str, instruction: Instruction, thread: Thread) -> Place:
    """The place of one thread's instruction."""
    return Place(action, instruction.where, thread.index, thread.block)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: `places` is where, one or two of them; `count` how often it happened there.

    `address` is `array[index]` and `width` the bytes of the access, where it is about memory. A `note` is no
    error: hardware allows it.
    """

    kind: Kind
    message: str
    places: tuple[Place, ...]
    address: str | None = None
    width: int | None = None
    note: bool = False
    count: int = 1

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for occurrences that are one finding: the same kind at the same lines."""
        return self.kind, self.note, tuple(sorted(str(item.source) for item in self.places))

    def as_json(self) -> dict[str, object]:
        """The fields under their names."""
        return {
            "kind": self.kind.value,
            "severity": "note" if self.note else "error",
            "message": self.message,
            "address": self.address,
            "width": self.width,
            "places": [item.as_json() for item in self.places],
            "count": self.count,
        }

    def __str__(self) -> str:
        lines = [f"{'note: ' if self.note else ''}{self.kind.value}: {self.message}"]
        for item in self.places:
            lines.append(f"    {item}")
            text = source_line(item.source).strip()
            if text:
                lines.append(f"        {text}")
        if self.count > 1:
            lines.append(f"    {self.count} times")
        return "\n".join(lines)


class TooManyFindings(Exception):
    """Ends a launch that has more findings than were asked for."""


class Findings:
    """Collects findings. Raises TooManyFindings where there is one more than `limit` different ones."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.by_key: dict[tuple[object, ...], Finding] = {}

    def add(self, finding: Finding) -> None:
        """One more occurrence; its first one is what is told."""
        known = self.by_key.get(finding.key)
        if known is None and len(self.by_key) >= self.limit:
            raise TooManyFindings
        self.by_key[finding.key] = finding if known is None else replace(known, count=known.count + 1)


@dataclass(frozen=True)
class SanitizerReport:
    """The findings in the order they came, global memory afterwards, and whether the launch ran to its end."""

    findings: tuple[Finding, ...]
    memory: tuple[int, ...]
    complete: bool

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return sum(not finding.note for finding in self.findings)

    def as_json(self, arrays: Mapping[str, list[int]]) -> dict[str, object]:
        """The report with the arrays after the launch."""
        return {
            "findings": [finding.as_json() for finding in self.findings],
            "errors": self.errors,
            "complete": self.complete,
            "arrays": dict(arrays),
        }
