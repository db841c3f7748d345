"""Which ROM fields hold link-time constants, and the numbering by which a program in the weights takes them.

A field is an immediate or a word offset: `rom{row}.imm{i}`, `rom{row}.{slot}.offset`. It is symbolic where some block
has a value there that depends on the launch; then all its values are constants of the table, so that one read brings
whichever it is. Equal values share a number.
"""

from collections.abc import Iterator

from toolchain.machine_spec import STAGES
from toolchain.mir.rom import Block, LinkValue, RomImage

ZERO = LinkValue()


def linked_fields(block: Block) -> Iterator[tuple[str, LinkValue]]:
    """Every field of a block that the linker resolves, by name."""
    for row, stage in enumerate(block.stages):
        for index, value in enumerate(stage.immediates):
            yield f"rom{row}.imm{index}", value
        for slot, op in (("x", stage.x), ("y", stage.y)):
            if op is not None:
                yield f"rom{row}.{slot}.offset", op.offset
    if block.terminator.store is not None:
        yield f"rom{STAGES}.st.offset", block.terminator.store.offset


def symbolic_fields(rom: RomImage) -> frozenset[str]:
    """Fields whose value in some block depends on the launch."""
    return frozenset(name for block in rom.blocks for name, value in linked_fields(block) if value.terms)


def link_constants(rom: RomImage) -> tuple[LinkValue, ...]:
    """The table: distinct nonzero values of symbolic fields, in program order."""
    symbolic = symbolic_fields(rom)
    fields = (item for block in rom.blocks for item in linked_fields(block))
    return tuple(dict.fromkeys(value for name, value in fields if name in symbolic and value != ZERO))
