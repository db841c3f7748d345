"""ROM image to bits: field values of every row, 64-bit chunks, and each block's expanded return sequence."""

from collections.abc import Mapping, Sequence

from toolchain.machine_spec import CHUNK_BITS, STAGES, MachineSpec
from toolchain.mir.isa import (
    ALU_SLOTS,
    COMPARISONS,
    LOAD_SLOTS,
    LOADS,
    RETURN_PREDICATES,
    RETURN_STORE,
    SELECTING,
    STORE_TOKENS,
    Layout,
    MulOp,
    Op,
    multiply_sources,
    operand_sources,
    predicate_sources,
    return_sources,
    stage_layout,
    store_sources,
    terminator_layout,
)
from toolchain.mir.rom import EXIT, AluOp, Block, Multiply, Stage, Store, Terminator

Symbols = Mapping[str, int]
Serial = frozenset[int]
"""Indices of a program's serial blocks."""

_OP_LINES: dict[Op, tuple[str, ...]] = {
    Op.ADD: ("sum",),
    Op.SUB: ("sub", "sum"),
    Op.MIN_U: ("sub", "min"),
    Op.MIN_S: ("sub", "min", "order"),
    Op.MAX_U: ("sub", "max"),
    Op.MAX_S: ("sub", "max", "order"),
    Op.SEL: ("sel",),
    Op.SET_EQ: ("sub", "eq"),
    Op.SET_NE: ("sub", "ne"),
    Op.SET_LT_U: ("sub", "ltu"),
    Op.SET_GE_U: ("sub", "geu"),
    Op.SET_LT_S: ("sub", "lts"),
    Op.SET_GE_S: ("sub", "ges"),
    Op.LOAD: ("ld",),
    Op.LOAD_SHARED: ("lds",),
    Op.LOP: (),
    Op.SHL: ("shl",),
    Op.SHR_U: ("shr",),
    Op.SHR_S: ("shr", "sarfill"),
    Op.POPC: ("popc",),
    Op.CLZ: ("clz",),
    Op.BREV: ("brev",),
    Op.SHFL: ("shfl",),
    Op.BALLOT: ("ballot",),
}
"""Control lines that an operation raises. The comparisons, minimum and maximum subtract."""

assert all("sub" in _OP_LINES[op] for op in COMPARISONS)


def _alu_fields(spec: MachineSpec, stage: int, slot: str, op: AluOp, symbols: Symbols) -> dict[str, int]:
    sources = operand_sources(stage)
    fields = {f"{slot}.{line}": 1 for line in _OP_LINES[op.op]}
    fields |= {f"{slot}.a": sources.index(op.a), f"{slot}.b": sources.index(op.b)}
    if op.op in SELECTING:
        fields[f"{slot}.q"] = predicate_sources(stage).index(op.predicate)
    if op.op is Op.LOP:
        fields["y.table"] = op.table
    if op.op in LOADS:
        assert slot in LOAD_SLOTS
        fields[f"{slot}.offset"] = op.offset.resolve(symbols) % (1 << spec.address_bits)
    return fields


def _multiply_fields(stage: int, op: Multiply) -> dict[str, int]:
    sources = multiply_sources(stage)
    return {
        "m.mul": 1,
        "m.high": int(op.op is not MulOp.LO),
        "m.signed": int(op.op is MulOp.HI_S),
        "m.porta": op.register_a,
        "m.portb": op.register_b,
        "m.a": sources.index(op.a),
        "m.b": sources.index(op.b),
    }


def stage_fields(spec: MachineSpec, index: int, stage: Stage, symbols: Symbols) -> dict[str, int]:
    """Nonzero fields of a stage row."""
    fields = {f"port{i}": register for i, register in enumerate(stage.ports)}
    fields |= {f"imm{i}": value.resolve(symbols) for i, value in enumerate(stage.immediates)}
    for slot in ALU_SLOTS:
        op = getattr(stage, slot)
        if op is not None:
            fields |= _alu_fields(spec, index, slot, op, symbols)
    if stage.m is not None:
        fields |= _multiply_fields(index, stage.m)
    if stage.p is not None:
        predicates = predicate_sources(index)
        fields |= {
            "p.a": predicates.index(stage.p.a),
            "p.b": predicates.index(stage.p.b),
            "p.table": stage.p.table,
        }
    return {name: value for name, value in fields.items() if value}


def _store_fields(spec: MachineSpec, store: Store, symbols: Symbols) -> dict[str, int]:
    return {
        "st.enable": 1,
        "st.shared": int(store.shared),
        "st.guard": predicate_sources(STAGES).index(store.guard),
        "st.guardneg": int(store.negated),
        "st.addrport": store.address_register,
        "st.addr": store_sources().index(store.address),
        "st.dataport": store.data_register,
        "st.data": store_sources().index(store.data),
        "st.offset": store.offset.resolve(symbols) % (1 << spec.address_bits),
    }


def terminator_fields(
    spec: MachineSpec, terminator: Terminator, symbols: Symbols, serial: Serial = frozenset()
) -> dict[str, int]:
    """Nonzero fields of a terminator row; `serial` are the program's serial blocks.

    Predicate code 0 keeps the old value, so TRUE cannot be a new value.
    """
    predicates = predicate_sources(STAGES)
    fields = {"branch": predicates.index(terminator.branch), "barrier": int(terminator.barrier)}
    for index, target in enumerate((terminator.target0, terminator.target1)):
        fields |= {f"exit{index}": 1} if target == EXIT else {f"target{index}": target}
        fields[f"serial{index}"] = int(target in serial)
    for index, source in enumerate(terminator.predicates):
        fields[f"p{index}"] = 0 if source is None else predicates.index(source)
    if terminator.store is not None:
        fields |= _store_fields(spec, terminator.store, symbols)
    return {name: value for name, value in fields.items() if value}


def pack(layout: Layout, fields: Mapping[str, int]) -> tuple[int, ...]:
    """Field values to 64-bit chunks, trailing zero chunks left out."""
    chunks, known = [], set()
    for chunk in layout:
        value, position = 0, 0
        for name, width in chunk:
            field = fields.get(name, 0)
            assert 0 <= field < 1 << width, (name, field)
            value |= field << position
            position += width
            known.add(name)
        assert position <= CHUNK_BITS
        chunks.append(value)
    assert set(fields) <= known, set(fields) - known
    while chunks and chunks[-1] == 0:
        chunks.pop()
    return tuple(chunks)


def block_rows(
    spec: MachineSpec, block: Block, symbols: Symbols, serial: Serial = frozenset()
) -> tuple[tuple[int, ...], ...]:
    """The five ROM rows of a block: four stages and the terminator, each as 64-bit chunks."""
    rows = [
        pack(stage_layout(spec, index), stage_fields(spec, index, stage, symbols))
        for index, stage in enumerate(block.stages)
    ]
    rows.append(pack(terminator_layout(spec), terminator_fields(spec, block.terminator, symbols, serial)))
    return tuple(rows)


ENTRY_HIGH = 10
"""Bit of a return entry: the high half of a value (its low half was the token before)."""
ENTRY_NARROW = 11
"""Bit of a return entry: the value's only token; its high half is zero."""
ENTRY_RANK = 12
"""First of the entry's rank bits: which active lane, one-hot; all ones: every active lane (uniform)."""


def return_entry(
    code: int, register: int = 0, rank: int = 0, *, high: bool = False, narrow: bool = False
) -> int:
    """A return entry's 16 bits. `rank` is the one-hot field's value."""
    return code | register << 5 | high << ENTRY_HIGH | narrow << ENTRY_NARROW | rank << ENTRY_RANK


def return_sequence(spec: MachineSpec, block: Block, active: int) -> tuple[int, ...]:
    """Entries for the tokens after EXEC when `active` lanes run: predicates, values, then store records.

    Entry n is what the token at age n + 1 says. Store records stand for as many stores as there are active
    lanes; the model leaves out those of lanes whose guard does not hold. Values are in `returns` order, each
    value lane by lane.
    """
    entries: list[int] = []
    if block.returns_predicates:
        entries.append(return_entry(RETURN_PREDICATES))
    every_lane = (1 << spec.lanes) - 1
    for item in block.returns:
        code = return_sources().index(item.value) + 1
        for rank in [every_lane] if item.uniform else [1 << k for k in range(active)]:
            if item.narrow:
                entries.append(return_entry(code, item.register, rank, narrow=True))
            else:
                entries.append(return_entry(code, item.register, rank))
                entries.append(return_entry(code, item.register, rank, high=True))
    if block.terminator.store is not None:
        entries += [
            return_entry(RETURN_STORE + part, 0, 1 << k)
            for k in range(active)
            for part in range(STORE_TOKENS)
        ]
    return tuple(entries)


def return_tokens(block: Block, active: int) -> int:
    """Length of the longest sequence `block` can write with `active` lanes (for the limit `max_returns`)."""
    lanes: Sequence[int] = [1 if item.uniform else active for item in block.returns]
    halves = [1 if item.narrow else 2 for item in block.returns]
    values = sum(count * half for count, half in zip(lanes, halves, strict=True))
    return int(block.returns_predicates) + values + (STORE_TOKENS * active if block.terminator.store else 0)
