"""A network as JSON and back: plain lists, no code."""

import json
from typing import Any

import numpy as np

from runtime.sparse.network import (
    Address,
    Age,
    Cell,
    Column,
    Form,
    Link,
    Network,
    Node,
    Phase,
    Read,
    State,
    Write,
)

Json = Any


def network_to_json(network: Network) -> bytes:
    """All but the embedding and the tokens of output codes, which are arrays of their own."""
    value = {
        "cells": [[cell.low, cell.high, cell.tap, cell.of] for cell in network.cells],
        "states": [
            [_form(s.enable), _address(s.address), None if s.wipe is None else _form(s.wipe), s.rows]
            for s in network.states
        ],
        "phases": [_phase(phase) for phase in network.phases],
        "inputs": network.inputs,
        "outputs": network.outputs,
        "end": network.end,
        "memory": network.memory,
    }
    return json.dumps(value, separators=(",", ":")).encode()


def network_from_json(text: bytes, embedding: np.ndarray, tokens: np.ndarray) -> Network:
    """The network that `network_to_json` printed."""
    value = json.loads(text)
    states = [
        State(_to_form(enable), _to_address(address), None if wipe is None else _to_form(wipe), rows)
        for enable, address, wipe, rows in value["states"]
    ]
    state, columns = value["memory"]
    memory = state, tuple((column, _pairs(parts)) for column, parts in columns)
    return Network(
        tuple(Cell(*cell) for cell in value["cells"]), tuple(states), tuple(map(_to_phase, value["phases"])),
        tuple(value["inputs"]), embedding, tuple(value["outputs"]), tokens, value["end"], memory,
    )  # fmt: skip


def _form(form: Form) -> Json:
    return [form.terms, form.constant]


def _to_form(value: Json) -> Form:
    return Form(_pairs(value[0]), value[1])


def _pairs(value: Json) -> tuple[tuple[int, int], ...]:
    return tuple((first, second) for first, second in value)


def _address(address: Address) -> Json:
    return [address.inputs, address.rows]


def _to_address(value: Json) -> Address:
    return Address(tuple(value[0]), tuple(value[1]))


def _phase(phase: Phase) -> Json:
    return {
        "writes": [
            [
                write.state,
                [[[weight, _form(form)] for weight, form in column.parts] for column in write.columns],
            ]
            for write in phase.writes
        ],
        "reads": [
            [r.state, _address(r.address), r.outputs, None if r.every is None else _form(r.every), r.anchor]
            for r in phase.reads
        ],
        "ages": [[_form(age.event), _form(age.step), age.cell] for age in phase.ages],
        "nodes": [
            [n.terms, n.low, n.table.tolist(), n.sums, [[a, c, w, _form(up)] for a, c, w, up in n.products]]
            for n in phase.nodes
        ],
        "links": [[link.cell, _form(link.form)] for link in phase.links],
    }


def _to_phase(value: Json) -> Phase:
    writes = [
        Write(state, tuple(Column(tuple((w, _to_form(form)) for w, form in parts)) for parts in columns))
        for state, columns in value["writes"]
    ]
    reads = [
        Read(state, _to_address(address), _pairs(outputs), None if every is None else _to_form(every), anchor)
        for state, address, outputs, every, anchor in value["reads"]
    ]
    nodes = [
        Node(
            _pairs(terms), low, np.array(table, dtype=np.int32).reshape(len(table), -1), _pairs(sums),
            tuple((a, c, w, _to_form(up)) for a, c, w, up in products),
        )
        for terms, low, table, sums, products in value["nodes"]
    ]  # fmt: skip
    return Phase(
        tuple(writes),
        tuple(reads),
        tuple(Age(_to_form(event), _to_form(step), cell) for event, step, cell in value["ages"]),
        tuple(nodes),
        tuple(Link(cell, _to_form(form)) for cell, form in value["links"]),
    )
