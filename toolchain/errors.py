"""The one exception a user of the toolchain sees: what is wrong, where, and what to do about it."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class SourceLocation:
    """A place in a file a person wrote. Lines and columns count from 1; column 0 means the whole line."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"


class CompileError(Exception):
    """Input that is refused. Printed without a traceback; the command exits with status 2.

    `message` says what is wrong, `hint` what to do instead, `excerpt` is the offending source text, and
    `limit` names the machine limit that was broken, where one was.
    """

    def __init__(
        self,
        message: str,
        location: SourceLocation | None = None,
        *,
        hint: str = "",
        excerpt: str = "",
        limit: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.hint = hint
        self.excerpt = excerpt
        self.limit = limit

    def __str__(self) -> str:
        head = f"{self.location}: error: {self.message}" if self.location else f"error: {self.message}"
        lines = [head]
        if self.excerpt:
            lines.append("    " + self.excerpt.rstrip())
            if self.location and self.location.column:
                lines.append("    " + " " * (self.location.column - 1) + "^")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class VerifyError(CompileError):
    """An IR object breaks a rule of its own stage: a bug in the pass before it, or a hand-written dump."""
