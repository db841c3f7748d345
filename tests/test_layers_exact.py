"""The stock model's residual stream, slot by slot, against exact arithmetic: after every layer, at every token.

Nothing may differ but the age counters, whose powers of two round. This is far stronger than right tokens: an error
that no token shows today is still an error of the layer that made it.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from runtime.loader import load_tokens
from runtime.transformers_engine import TransformersEngine
from runtime.vocabulary import Token, Vocabulary
from tests.random_rom import random_launch, random_rom
from toolchain.circuit_ir.bounds import prove
from toolchain.circuit_ir.ir import Age
from toolchain.circuit_ir.placed import PlacedCircuit
from toolchain.circuit_ir.tokens import embedding
from toolchain.machine_build import placed_circuit
from toolchain.machine_spec import NANO
from toolchain.mir.interpreter import run_launch
from toolchain.weights_backend.checkpoint import build_checkpoint
from toolchain.weights_backend.numerics import Dtype

TAIL = 2.0**-60
"""What silu leaves of a gate at -64 or below."""


def _tokens(seed: int) -> list[Token]:
    rom, launch = random_rom(seed, NANO), random_launch(seed, NANO)
    return [*load_tokens(rom, NANO, launch), *run_launch(rom, NANO, launch, strict=False).tokens]


def _stream(engine: TransformersEngine, ids: list[int], hidden: int) -> Iterator[np.ndarray]:
    """The residual stream after each circuit layer: [token, slot]."""
    captured: dict[int, list[torch.Tensor]] = {}
    model = engine._model  # the test looks inside on purpose
    hooks = []
    for number, layer in enumerate(model.model.layers[:-1]):

        def keep(_module, _inputs, output, number: int = number) -> None:
            captured.setdefault(number, []).append(output.float().reshape(-1, hidden))

        hooks.append(layer.register_forward_hook(keep))
    engine.said(ids, ids[-1:])
    for hook in hooks:
        hook.remove()
    for number in sorted(captured):
        yield torch.cat(captured[number]).numpy()


def _expected(placed: PlacedCircuit, vocabulary: Vocabulary, tokens: list[Token]) -> np.ndarray:
    """The same in exact arithmetic: [layer, token, slot]."""
    evaluator = placed.evaluator()
    wires = {wire.name: wire for wire in placed.circuit.inputs if wire in placed.slots}
    rows = []
    for token in tokens:
        values = {wires[n]: v for n, v in embedding(vocabulary, token).items() if n in wires}
        rows.append([cells[1:] for cells in evaluator.layers(values)])
    return np.array(rows).transpose(1, 0, 2)


def _allowed(placed: PlacedCircuit, dtype: Dtype) -> np.ndarray:
    """What the bounds proof allows each slot to be off by: nothing, on the data path."""
    allowed = np.full(placed.hidden, TAIL)
    for wire, noise in prove(placed, NANO, dtype).noise.items():
        allowed[placed.slots[wire]] = max(allowed[placed.slots[wire]], noise)
    ages = [placed.slots[op.output] for layer in placed.layers for op in layer.heads if isinstance(op, Age)]
    allowed[[*ages, *(slot for slot, _ in placed.ballast)]] = np.inf
    return allowed


@pytest.mark.parametrize("dtype", list(Dtype))
def test_every_slot_of_every_layer_is_exact(dtype: Dtype, tmp_path: Path) -> None:
    placed, vocabulary = placed_circuit(NANO), Vocabulary(NANO)
    build_checkpoint(NANO, dtype, tmp_path / "nano", placed)
    engine = TransformersEngine(tmp_path / "nano")
    tokens = _tokens(seed=3)
    expected, allowed = _expected(placed, vocabulary, tokens), _allowed(placed, dtype)
    stream = list(_stream(engine, [vocabulary.id(token) for token in tokens], placed.hidden))
    assert len(stream) == len(placed.layers)
    for number, found in enumerate(stream):
        # the last token is left out: nothing follows it, so the engine does not feed it
        difference = np.abs(found - expected[number][: len(found)])
        token, slot = np.unravel_index(int((difference - allowed).argmax()), difference.shape)
        names = [wire.name for wire, place in placed.slots.items() if place == slot]
        worst = float(difference[token, slot])
        assert worst <= allowed[slot], (
            f"layer {number + 1}, token {token}, slot {slot} ({names}): off by {worst}"
        )
