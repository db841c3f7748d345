"""Random choices on a tape: recorded while a kernel is written, replayed to write it again, shrunk when it is wrong.

A kernel is a function of its tape. Every choice reads one 32-bit entry, and zero chooses the simplest, so a tape
with entries left out or made smaller gives a smaller kernel that is as well defined as the first.
"""

import random
from collections.abc import Callable, Iterable

ENTRY_BITS = 32


class Tape(random.Random):
    """A `random.Random` that reads `entries`, then more from `seed`, or zeros where `seed` is None."""

    def __init__(self, entries: Iterable[int] = (), seed: int | None = None) -> None:
        super().__init__(0)
        self.pending = iter(tuple(entries))
        self.more = None if seed is None else random.Random(seed)
        self.read: list[int] = []

    def entry(self) -> int:
        """The next entry of the tape."""
        value = next(self.pending, None)
        if value is None:
            value = 0 if self.more is None else self.more.getrandbits(ENTRY_BITS)
        self.read.append(value)
        return value

    def random(self) -> float:
        return self.entry() / (1 << ENTRY_BITS)

    def getrandbits(self, k: int) -> int:
        """`k` bits, from the high end of as many entries as hold them."""
        entries = max(1, -(-k // ENTRY_BITS))
        value = 0
        for _ in range(entries):
            value = value << ENTRY_BITS | self.entry()
        return value >> (entries * ENTRY_BITS - k)

    def _randbelow(self, n: int) -> int:  # one entry each, so that a tape's entries keep their places
        return self.entry() * n >> ENTRY_BITS


def shrink(entries: list[int], fails: Callable[[list[int]], bool], tries: int = 400) -> list[int]:
    """A tape as short and small as `tries` attempts find that still `fails`."""
    budget = [tries]

    def attempt(candidate: list[int]) -> bool:
        if budget[0] <= 0 or candidate == entries:
            return False
        budget[0] -= 1
        return fails(candidate)

    progress = True
    while progress and budget[0] > 0:
        progress = False
        size = max(1, len(entries) // 2)
        while size >= 1:
            start = 0
            while start < len(entries):
                shorter = entries[:start] + entries[start + size :]
                zeroed = entries[:start] + [0] * len(entries[start : start + size]) + entries[start + size :]
                if attempt(shorter):
                    entries, progress = shorter, True
                elif attempt(zeroed):
                    entries, progress = zeroed, True
                    start += size
                else:
                    start += size
            size //= 2
        while entries and entries[-1] == 0:
            entries = entries[:-1]
    return entries
