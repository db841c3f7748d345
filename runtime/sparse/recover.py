"""From a checkpoint's tensors to the integer network they compute. Nothing but tensors, config and ranges is read."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from runtime.sparse.cells import SlotCells
from runtime.sparse.heads import AgeHead, HeadReader, LayerTensors, MemoryHead
from runtime.sparse.network import (
    HALF_RANGE,
    MOST_AGE,
    NO_TOKEN,
    Age,
    Column,
    MemoryPlace,
    Network,
    NotExactError,
    Phase,
    Read,
    State,
    Write,
)
from runtime.sparse.tensors import Checkpoint, SparseMatrix
from runtime.sparse.units import mlp_phase
from toolchain.weights_backend.slot_ranges import SlotRange

Progress = Callable[[str, int, int], None]
MOST_CODE_BITS = 20
"""Bits of an output code whose tokens are listed."""


@dataclass(eq=False)
class _Found:
    """A state, the phase of the head it was found in, and the cells there were before."""

    state: State
    phase: int
    cells: int
    columns: list[Column]


class _States:
    """Memories found so far: heads that write alike share one, with the columns of all of them."""

    def __init__(self, cells: SlotCells) -> None:
        self._cells = cells
        self.found: list[_Found] = []

    def add(self, head: MemoryHead, phase: int, cells: int) -> tuple[int, list[int]]:
        """The head's state, and where its columns are in it. `cells`: how many there were before the phase."""
        item = next((item for item in self.found if self._alike(item, head)), None)
        if item is None:
            item = _Found(head.state, phase, cells, [])
            self.found.append(item)
        item.columns += [column for column in head.columns if column not in item.columns]
        return self.found.index(item), [item.columns.index(column) for column in head.columns]

    def _alike(self, item: _Found, head: MemoryHead) -> bool:
        """Whether both are written by the same tokens in the same row, and what the head stores is known in time."""
        first, second = item.state, head.state
        same = (first.enable, first.address, first.wipe) == (second.enable, second.address, second.wipe)
        return same and all(self._origin(cell) < item.cells for cell in _reads(head.columns))

    def _origin(self, cell: int) -> int:
        """The cell itself, or the one whose past it is."""
        known = self._cells.cells[cell]
        return known.of if known.tap else cell


def _reads(columns: Iterable[Column]) -> Iterator[int]:
    for column in columns:
        for _, form in column.parts:
            yield from (cell for cell, _ in form.terms)


def recover(
    checkpoint: Checkpoint, ranges: Sequence[SlotRange], place: tuple[int, int], progress: Progress
) -> Network:
    """The network of a checkpoint; `place` is the layer and head that hold global memory.

    Raises NotExactError where the tensors do anything that is not integer arithmetic within the reported ranges.
    """
    layers = checkpoint.circuit_layers
    progress("reading the tensors", 0, layers + 2)
    embedding = checkpoint.dense("model.embed_tokens.weight")
    written = np.zeros(embedding.shape[1], dtype=bool)
    parts = []
    for layer in range(layers):
        parts.append(_layer_matrices(checkpoint, layer))
        attention, (_, _, down) = parts[-1]
        for matrix in (attention.out, down):
            written[np.flatnonzero(np.diff(matrix.start))] = True
        progress("reading the tensors", layer + 1, layers + 2)
    constants = _constants(embedding, written)
    _check_norms(checkpoint, constants, layers)
    cells = SlotCells(ranges, constants)
    inputs, table = _inputs(cells, embedding, constants)
    states = _States(cells)
    phases, memory = list[Phase](), None
    for layer, (attention, (gate, up, down)) in enumerate(parts):
        heads, homes = _heads(cells, states, attention, layer)
        if layer == place[0]:
            memory = homes.get(place[1])
        phases += [heads, mlp_phase(cells, 2 * layer + 1, gate, up, down)]
    outputs, tokens = _outputs(cells, checkpoint, constants)
    progress("reading the tensors", layers + 2, layers + 2)
    if memory is None:
        raise NotExactError(f"layer {place[0]}, head {place[1]} is no memory")
    for index, item in enumerate(states.found):
        _check_columns(cells, item.columns)
        phase = phases[item.phase]
        phases[item.phase] = replace(phase, writes=(*phase.writes, Write(index, tuple(item.columns))))
    end = int(checkpoint.config["eos_token_id"])
    return Network(
        tuple(cells.cells),
        tuple(item.state for item in states.found),
        tuple(phases),
        inputs,
        table,
        outputs,
        tokens,
        end,
        memory,
    )


def _check_columns(cells: SlotCells, columns: Iterable[Column]) -> None:
    """What a state stores has room in 16 bits."""
    for column in columns:
        most = 0
        for weight, form in column.parts:
            ends = (max(f * cells.cells[c].low, f * cells.cells[c].high) for c, f in form.terms)
            most += abs(weight) * max(form.constant + sum(ends), 0)
        if most >= HALF_RANGE:
            raise NotExactError(f"a memory would store {most}")


def _layer_matrices(
    checkpoint: Checkpoint, layer: int
) -> tuple[LayerTensors, tuple[SparseMatrix, SparseMatrix, SparseMatrix]]:
    name, config = f"model.layers.{layer}", checkpoint.config
    if config["linear_num_key_heads"] != config["linear_num_value_heads"]:
        raise NotExactError("key heads are shared")
    attention = LayerTensors(
        checkpoint.sparse(f"{name}.linear_attn.in_proj_qkv.weight"),
        checkpoint.dense(f"{name}.linear_attn.conv1d.weight")[:, 0],
        checkpoint.sparse(f"{name}.linear_attn.in_proj_z.weight"),
        checkpoint.sparse(f"{name}.linear_attn.in_proj_b.weight"),
        checkpoint.sparse(f"{name}.linear_attn.in_proj_a.weight"),
        checkpoint.dense(f"{name}.linear_attn.A_log"),
        checkpoint.dense(f"{name}.linear_attn.dt_bias"),
        checkpoint.dense(f"{name}.linear_attn.norm.weight"),
        checkpoint.sparse(f"{name}.linear_attn.out_proj.weight"),
        config["linear_num_key_heads"],
        config["linear_key_head_dim"],
        config["linear_value_head_dim"],
    )
    gate, up, down = (checkpoint.sparse(f"{name}.mlp.{part}_proj.weight") for part in ("gate", "up", "down"))
    return attention, (gate, up, down)


def _constants(embedding: np.ndarray, written: np.ndarray) -> dict[int, float]:
    """Slots that hold one number in every token and that no layer adds to."""
    same = (embedding == embedding[0]).all(axis=0) & (embedding[0] != 0) & ~written
    return {int(slot): float(embedding[0, slot]) for slot in np.flatnonzero(same)}


def _check_norms(checkpoint: Checkpoint, constants: dict[int, float], layers: int) -> None:
    """Every RMSNorm is the identity, and the layers after the circuits add nothing."""
    hidden = checkpoint.config["hidden_size"]
    rms = (sum(value * value for value in constants.values()) / hidden) ** 0.5
    names = [
        f"model.layers.{n}.{part}"
        for n in range(layers)
        for part in ("input_layernorm", "post_attention_layernorm")
    ]
    for name in (*names, "model.norm"):
        weight = checkpoint.dense(f"{name}.weight").astype(np.float64)
        factor = (1.0 + weight).astype(np.float32) / rms if rms else weight
        if np.abs(factor - 1).max() > 2.0**-20:
            raise NotExactError(f"{name} changes the stream")
    for layer in range(layers, checkpoint.config["num_hidden_layers"]):
        for part in ("self_attn.o_proj", "mlp.down_proj"):
            if checkpoint.dense(f"model.layers.{layer}.{part}.weight").any():
                raise NotExactError(f"layer {layer} is no circuit and adds to the stream")


def _inputs(
    cells: SlotCells, embedding: np.ndarray, constants: dict[int, float]
) -> tuple[tuple[int, ...], np.ndarray]:
    """A cell for each slot that tokens differ in, and the table of their values."""
    slots = [int(slot) for slot in np.flatnonzero(embedding.any(axis=0)) if int(slot) not in constants]
    table = embedding[:, slots]
    whole = np.rint(table).astype(np.int16)
    if (whole != table).any():
        raise NotExactError("the embedding holds a number that is no integer")
    inputs = []
    for column, slot in enumerate(slots):
        cell = cells.new(int(whole[:, column].min()), int(whole[:, column].max()))
        cells.place(slot, cell)
        inputs.append(cell)
    return tuple(inputs), whole


def _heads(
    cells: SlotCells, states: _States, tensors: LayerTensors, layer: int
) -> tuple[Phase, dict[int, MemoryPlace]]:
    """A layer's heads; and where each memory's values are, by its number."""
    before = len(cells.cells)
    found = [
        (number, HeadReader(cells, tensors, number, f"layer {layer}, head {number}").read())
        for number in range(tensors.heads)
    ]
    slots = [slot for _, head in found if isinstance(head, MemoryHead) for slot, _ in head.outputs]
    targets, links = cells.targets(slots, 2 * layer)
    reads, ages, homes = list[Read](), list[Age](), dict[int, MemoryPlace]()
    for number, head in found:
        if isinstance(head, AgeHead):
            ages.append(Age(head.event, head.step, cells.age(head.slot, MOST_AGE)))
        elif head is not None:
            index, places = states.add(head, 2 * layer, before)
            homes[number] = index, tuple(zip(places, head.dimensions, strict=False))
            outputs = tuple((places[column], targets[slot]) for slot, column in head.outputs)
            anchor = None if head.anchor is None else places[head.anchor]
            reads.append(Read(index, head.address, outputs, head.every, anchor))
    return Phase(reads=tuple(reads), ages=tuple(ages), links=tuple(links)), homes


def _outputs(
    cells: SlotCells, checkpoint: Checkpoint, constants: dict[int, float]
) -> tuple[tuple[int, ...], np.ndarray]:
    """The cells that decide the next token, and the token of each of their values.

    A token's logit must be n / 2 less the number of bits that differ from its code, or far below.
    """
    matrix = checkpoint.sparse("lm_head.weight")
    slots = sorted(set(matrix.columns.tolist()) - set(constants))
    if len(slots) > MOST_CODE_BITS:
        raise NotExactError(f"the output reads {len(slots)} slots")
    tokens = np.full(1 << len(slots), NO_TOKEN, dtype=np.int32)
    dense = np.zeros((matrix.shape[0], len(slots)))
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.start))
    places = np.searchsorted(slots, matrix.columns)
    bias = np.zeros(matrix.shape[0])
    for slot, value in constants.items():
        chosen = matrix.columns == slot
        np.add.at(bias, rows[chosen], matrix.values[chosen] * value)
    chosen = ~np.isin(matrix.columns, list(constants))
    dense[rows[chosen], places[chosen]] = matrix.values[chosen]
    said = np.abs(dense).sum(axis=1) > 0
    if (np.abs(dense[said]) != 1).any() or np.abs(bias[said] + dense[said].sum(axis=1) / 2).max() > 1e-3:
        raise NotExactError("an output row is no code of +-1")
    if bias[~said].max(initial=-np.inf) > -len(slots):
        raise NotExactError("a token without a code could be said")
    codes = (dense > 0) @ (1 << np.arange(len(slots)))
    numbers = np.flatnonzero(said)[::-1]  # of tokens with one code the first wins
    tokens[codes[numbers].astype(np.int64)] = numbers
    read = tuple(next(iter(cells.linear(((slot, 1.0),))[0]), -1) for slot in slots)
    if -1 in read:
        raise NotExactError("an output slot is empty")
    return read, tokens
