"""What each test kernel does on `classic`, input set 0: EXEC, VAL, SHORT tokens, executed lane-instructions. Exact.

A lane-instruction is one operation of a block (a slot that is used, or the store) in one lane of the EXEC token's
mask: so operations of the block times active lanes, summed over the EXEC tokens. Time does not enter; with the tokens
per second of an engine, lane-instructions per second follow.
"""

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass

from bench.kernels import program
from runtime.vocabulary import Kind, Token
from tests.kernels.case import KernelCase
from tests.kernels.cases import CASES
from toolchain.machine_spec import CLASSIC
from toolchain.mir.rom import Block, RomImage


@dataclass(frozen=True)
class Activity:
    """Counts of one launch. `executions`: EXEC tokens, the closing one aside; `values`: VAL, `shorts`: SHORT tokens."""

    kernel: str
    tokens: int
    blocks: int
    executions: int
    values: int
    shorts: int
    lane_instructions: int


def operations(block: Block) -> int:
    """Slots that the block uses, and its store."""
    slots = (slot for stage in block.stages for slot in (stage.x, stage.y, stage.z, stage.m, stage.p))
    return sum(slot is not None for slot in slots) + (block.terminator.store is not None)


def activity(kernel: str, rom: RomImage, tokens: Iterable[Token]) -> Activity:
    """The counts of a launch's tokens."""
    tokens = tuple(tokens)
    executed = [token for token in tokens if token.kind is Kind.EXEC and not token.is_end]
    sizes = [operations(block) for block in rom.blocks]
    return Activity(
        kernel,
        len(tokens),
        len(rom.blocks),
        len(executed),
        sum(token.kind is Kind.VAL for token in tokens),
        sum(token.kind is Kind.SHORT for token in tokens),
        sum(sizes[token.a] * token.mask.bit_count() for token in executed),
    )


def lines(cases: Iterable[KernelCase] = CASES) -> Iterator[str]:
    """A row a kernel, and the sum."""
    yield "| kernel, `classic` | tokens | blocks | EXEC | VAL | SHORT | lane-instructions |"
    yield "|---|---|---|---|---|---|---|"
    total = Activity("all", 0, 0, 0, 0, 0, 0)
    for case in cases:
        if not case.fits(CLASSIC):
            continue
        item = program(case, CLASSIC)
        row = astuple(activity(case.name, item.rom, item.interpret().tokens))
        total = Activity("all", *(a + b for a, b in zip(astuple(total)[1:], row[1:], strict=True)))
        yield f"| {' | '.join(map(str, row))} |"
    yield f"| {' | '.join(map(str, astuple(total)))} |"
