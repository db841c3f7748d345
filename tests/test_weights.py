"""Placed circuits as tensors: a stock Qwen3.5 layer computes what the evaluator says, in both dtypes."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5DecoderLayer, Qwen3_5RMSNorm

from toolchain.circuit_ir.bounds import UNIT_ERROR
from toolchain.circuit_ir.ir import affine
from toolchain.circuit_ir.parser import parse_circuit
from toolchain.circuit_ir.placed import PlacedCircuit
from toolchain.circuit_ir.placement import place
from toolchain.circuit_ir.verifier import verify_placed
from toolchain.errors import CompileError
from toolchain.machine_spec import MachineSpec
from toolchain.weights_backend.checkpoint import check_exact, model_config
from toolchain.weights_backend.layers import Stream, layer_tensors, norm_weight
from toolchain.weights_backend.numerics import BALLAST_LOG, Dtype, age_decay, rounded

TINY = MachineSpec(
    name="tiny",
    lanes=1,
    warps=2,
    registers=4,
    blocks=4,
    memory_words=6,
    shared_words=6,
    max_returns=8,
    thread_blocks=4,
    heads=3,
    head_rows=16,
    head_values=16,
)
ODD = replace(TINY, name="odd", head_rows=32, head_values=32)
"""A head whose rows and values are no powers of four: two ballast values, an unwritten row read along."""

TAIL = 2.0**-60
"""What silu leaves of a gate at -64 or below."""

DIGIT_NOISE = 2.0**-16
"""A digit's, where the number of rows is no power of four, so that the read's scale rounds."""

LOGIC = """circuit logic
wires 0..1: %x, %y
wires 0..15: %a, %b
inputs: %x, %y, %a, %b
wires 0..1: %carry
wires 0..15: %low, %picked
logic adder
  step(%a + %b - 16) -> %carry, -16 %low
  relu(%a + %b) -> %low
  relu(%x) * (%a) -> %picked
  relu(-%x + 1) * (%b) -> %picked
wires 0..1: %both
logic later
  relu(%carry + %y - 1) -> %both
outputs: %low, %picked, %both
"""

MEMORY = """circuit memory
wires 0..1: %w, %r, %k0, %k1, %q0, %q1, %b0, %b1, %wipe
wires 0..15: %v
inputs: %w, %r, %k0, %k1, %q0, %q1, %b0, %b1, %v, %wipe
wires 0..3: %word
wires 0..1: %back
memory rows
  write [%k0, %k1] back 1
  enable [%w]
  wipe %wipe
  d0 = %b0 back 2
  d1 = %b1
  read [%q0, %q1] where [%r]
  %word = d0 + 2 d1
  %back = d0
wires 0..15: %kept
memory latch
  write []
  enable [%w]
  unwritten 1
  d0 = %v
  read [] where [%r]
  %kept = d0
outputs: %word, %back, %kept
"""

UNWRITTEN = MEMORY.replace("  wipe %wipe\n", "  wipe %wipe\n  unwritten 2\n")
"""The same where one of the addresses has no row: writes to it are lost, reads of the others are not disturbed."""

OLDEST = 60
"""Age to which a counter has to be exact."""
AGE = (
    """circuit age
wires 0..1: %event, %twice
inputs: %event, %twice
wires 0..1: %age
age age: %event, twice %twice -> %age
"""
    + f"wires 0..1: {', '.join(f'%over{n}' for n in range(OLDEST))}\nlogic over\n"
    + "".join(
        f"  relu(-{4 << n} %age + 3.5) -> %over{n}\n  relu(-{4 << n} %age + 2.5) -> -%over{n}\n"
        for n in range(OLDEST)
    )
    + f"outputs: {', '.join(f'%over{n}' for n in range(OLDEST))}\n"
)

dtypes = pytest.mark.parametrize("dtype", list(Dtype))


def placed_of(text: str, spec: MachineSpec = TINY) -> PlacedCircuit:
    placed = place(parse_circuit(text), spec)
    verify_placed(placed, spec)
    return placed


def stock_layers(placed: PlacedCircuit, spec: MachineSpec, dtype: Dtype) -> list[Qwen3_5DecoderLayer]:
    config = Qwen3_5TextConfig.from_dict(model_config(spec, placed, dtype))
    stream, kind = Stream.of(placed, dtype), getattr(torch, dtype.value)
    layers = []
    for number, layer in enumerate(placed.layers):
        tensors = layer_tensors(spec, stream, placed, layer)
        for name, tensor in tensors.items():
            check_exact(name, tensor, dtype)
        module = Qwen3_5DecoderLayer(config, number)
        module.load_state_dict({name: torch.from_numpy(tensor) for name, tensor in tensors.items()})
        layers.append(module.to(kind).eval())
    return layers


def run_stock(
    placed: PlacedCircuit, spec: MachineSpec, dtype: Dtype, tokens: list[dict[str, int]]
) -> list[np.ndarray]:
    """The residual stream after each layer: [token, slot]."""
    stream = Stream.of(placed, dtype)
    slots = {wire.name: slot for wire, slot in placed.slots.items()}
    state = torch.zeros((1, len(tokens), placed.hidden), dtype=getattr(torch, dtype.value))
    for row, values in enumerate(tokens):
        for slot, size in stream.ballast:
            state[0, row, slot] = size
        for name, value in values.items():
            state[0, row, slots[name]] = value
    rows = []
    empty = torch.zeros(0)
    with torch.inference_mode():
        for layer in stock_layers(placed, spec, dtype):
            state = layer(state, position_embeddings=(empty, empty))
            rows.append(state[0].float().numpy())
    return rows


def expected(placed: PlacedCircuit, tokens: list[dict[str, int]]) -> list[np.ndarray]:
    evaluator = placed.evaluator()
    wires = {wire.name: wire for wire in placed.circuit.inputs}
    found = [evaluator.layers({wires[n]: v for n, v in values.items()}) for values in tokens]
    return [np.array([cells[number][1:] for cells in found]) for number in range(len(placed.layers))]


def check(
    text: str, spec: MachineSpec, dtype: Dtype, tokens: list[dict[str, int]], tolerance: float = TAIL
) -> None:
    placed = placed_of(text, spec)
    ballast = [slot for slot, _ in placed.ballast]
    used = sorted(set(placed.slots.values()))
    assert not set(ballast) & set(used)
    pairs = zip(run_stock(placed, spec, dtype, tokens), expected(placed, tokens), strict=True)
    for number, (stock, exact) in enumerate(pairs):
        np.testing.assert_allclose(stock[:, used], exact[:, used], 0, tolerance, err_msg=f"layer {number}")
        sizes = [size for _, size in Stream.of(placed, dtype).ballast]
        np.testing.assert_array_equal(stock[:, ballast], np.tile(sizes, (len(tokens), 1)))


@dtypes
def test_logic(dtype: Dtype) -> None:
    tokens = [
        {"a": a, "b": b, "x": x, "y": y}
        for a in range(16)
        for b in range(16)
        for x, y in ((0, 1), (1, 0), (1, 1))
    ]
    check(LOGIC, TINY, dtype, tokens)


@dtypes
@pytest.mark.parametrize("spec", [TINY, ODD], ids=lambda spec: spec.name)
@pytest.mark.parametrize("text", [MEMORY, UNWRITTEN], ids=["all", "unwritten"])
def test_memory(dtype: Dtype, spec: MachineSpec, text: str) -> None:
    rng = random.Random(7)
    bits = ("w", "r", "k0", "k1", "q0", "q1", "b0", "b1")
    tokens = []
    for _ in range(300):
        values = {name: rng.randrange(2) for name in bits}
        tokens.append(values | {"v": rng.randrange(16), "wipe": int(rng.random() < 0.03)})
    check(text, spec, dtype, tokens, TAIL if spec is TINY else DIGIT_NOISE)


@dtypes
@pytest.mark.parametrize("event", [0, 5])
@pytest.mark.parametrize("often", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_age(dtype: Dtype, event: int, often: float) -> None:
    """over[n] is [older than n], n below 60, `twice` tokens ageing by two; 1 where there was no event."""
    placed, rng = placed_of(AGE), random.Random(3)
    count = event + OLDEST + 1
    tokens = [
        {"event": int(i == event), "twice": int(i > event and rng.random() < often)} for i in range(count)
    ]
    stock = run_stock(placed, TINY, dtype, tokens)
    slots = {wire.name: slot for wire, slot in placed.slots.items()}
    age = 0
    for index, token in enumerate(tokens):
        age += (1 + token["twice"]) if index > event else 0
        over = [0 if 0 < age <= n else 1 for n in range(OLDEST)]
        found = [stock[-1][index, slots[f"over{n}"]] for n in range(OLDEST)]
        noise = TAIL if dtype is Dtype.BFLOAT16 else 4 * UNIT_ERROR
        np.testing.assert_allclose(found, over, 0, noise, err_msg=f"token {index}, age {age}")


@dtypes
@pytest.mark.parametrize("hidden", [64, 320, 576, 1024, 1984, 2048])
def test_norm_is_the_identity(dtype: Dtype, hidden: int) -> None:
    spec = replace(TINY, max_hidden=2048)
    placed = placed_of(LOGIC, spec)
    shares, left = [], hidden
    while left:
        shares.append(max(4**power for power in range(7) if 4**power <= left))
        left -= shares[-1]
    stream = Stream.of(replace(placed, hidden=hidden, ballast=tuple(enumerate(shares))), dtype)
    kind = getattr(torch, dtype.value)
    norm = Qwen3_5RMSNorm(hidden)
    norm.load_state_dict({"weight": torch.from_numpy(norm_weight(hidden))})
    rows = torch.randint(0, 256, (20, hidden), generator=torch.Generator().manual_seed(1)).to(kind)
    for slot, size in stream.ballast:
        rows[:, slot] = size
    with torch.inference_mode():
        normed = norm.to(kind)(rows)
    assert torch.equal(normed, rows)


def test_constants_take_as_many_ballast_dimensions_as_they_need() -> None:
    """200.5 has ten significant bits: in bfloat16 it takes two of the dimensions, in float32 one."""
    used = {}
    for dtype in Dtype:
        stream = Stream({}, ((0, 16 * 2.0**BALLAST_LOG), (1, 8 * 2.0**BALLAST_LOG)), 64, 1, dtype)
        row = np.zeros(64, dtype=np.float32)
        stream.add_constant(row, 200.5)
        assert sum(float(row[slot]) * size for slot, size in stream.ballast) == 200.5
        assert all(rounded(float(weight), dtype) == weight for weight in row)
        used[dtype] = int(np.count_nonzero(row))
    assert used == {Dtype.BFLOAT16: 2, Dtype.FLOAT32: 1}


def test_a_constant_that_does_not_fit_is_refused() -> None:
    stream = Stream({}, ((0, 2.0**BALLAST_LOG),), 4, 1, Dtype.BFLOAT16)
    with pytest.raises(ValueError, match="needs more than 1 ballast dimensions"):
        stream.add_constant(np.zeros(4, dtype=np.float32), 257.0)


def test_constants_add_up() -> None:
    stream = Stream({}, ((0, 2.0**BALLAST_LOG), (1, 2.0**BALLAST_LOG)), 4, 1, Dtype.BFLOAT16)
    row = np.zeros(4, dtype=np.float32)
    for value in (3.5, -1.25, 100.0):
        stream.add_form(row, affine(value), 2.0)
    assert float(row.sum()) * 2.0**BALLAST_LOG == 204.5


def test_inexact_weights_are_refused() -> None:
    tensor = np.array([[1.0, 257.0]], dtype=np.float32)
    check_exact("mlp.up_proj.weight", tensor, Dtype.FLOAT32)
    with pytest.raises(CompileError, match=r"mlp.up_proj.weight holds 257.0, which bfloat16 rounds to 256.0"):
        check_exact("mlp.up_proj.weight", tensor, Dtype.BFLOAT16)
    check_exact("input_layernorm.weight", norm_weight(64), Dtype.BFLOAT16)


@dtypes
def test_age_decay(dtype: Dtype) -> None:
    """The numbers are the dtype's, and halve once and twice, as torch computes it from them."""
    numbers = age_decay(dtype)
    for number in (numbers.log_rate, numbers.bias, numbers.once, numbers.more):
        assert number == rounded(number, dtype)
    kind = getattr(torch, dtype.value)
    for more, halvings in ((0.0, 1), (numbers.more, 2)):
        log_rate, bias = (
            torch.tensor(number, dtype=kind).float() for number in (numbers.log_rate, numbers.bias)
        )
        a = torch.tensor(numbers.once + more).to(kind).float()
        decay = float(torch.exp(-log_rate.exp() * torch.nn.functional.softplus(a + bias)))
        assert decay**OLDEST == pytest.approx(2.0 ** (-halvings * OLDEST), rel=halvings * 2.0**-10)


@pytest.mark.parametrize("value", [0.0, 1.0, 255.0, 256.0, 257.0, 0.1, -3.14159, 2.0**-40 / 3, 1e30])
def test_rounding_is_that_of_torch(value: float) -> None:
    for dtype in Dtype:
        stock = float(
            torch.tensor(value, dtype=torch.float64).to(torch.float32).to(getattr(torch, dtype.value))
        )
        assert rounded(float(np.float32(value)), dtype) == stock


def test_every_hidden_unit_is_used_once() -> None:
    placed = placed_of(LOGIC)
    for layer in placed.layers:
        tensors = layer_tensors(TINY, Stream.of(placed, Dtype.BFLOAT16), placed, layer)
        used = np.count_nonzero(np.any(tensors["mlp.down_proj.weight"] != 0, axis=0))
        assert used == layer.units
