"""The stock model on a GPU: whether it is exact there, and how fast, on the reference kernels and on those of fla.

    python -m bench.device -o bench/device.json [--machine classic] [--seconds 540]

The two round differently: the reference works in float32, the chunks of flash-linear-attention (fla) multiply in the
tensors' dtype or TF32. Transformers takes the latter where it can import `fla` and `causal_conv1d`. A process of its
own runs each, the reference one with these imports blocked. It does, as far as the time goes,

- *prefill*: every test kernel's trace, each token against the argmax after the tokens before it, half of the time at
  most; of the first kernel that is wrong, where the residual stream first differs from the CPU's;
- *decode*: a few kernels to the end, and the speed of 1 and of 64 launches side by side: eager, in a CUDA graph, and
  with torch.compile (`static_decoding.py`).

A row is stored as soon as it is there. What fails is a row with its error, and stops nothing else. Without a GPU the
same runs on the CPU, the CUDA graph aside.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.kernels import program
from bench.static_decoding import StaticDecoder
from bench.stored import read_json, write_json
from runtime.launcher import Program
from runtime.transformers_engine import TransformersEngine, load_model
from tests.kernels.cases import cases_for
from toolchain.machine_build import ensure_checkpoint
from toolchain.machine_spec import PRESETS, MachineSpec

STORED = Path(__file__).parent / "device.json"
DTYPE = "bfloat16"
REFERENCE, FLASH = "reference", "flash-linear-attention"
PATHS = (REFERENCE, FLASH)
FLASH_MODULES = ("fla", "causal_conv1d")
PACKAGES = ("torch", "transformers", "flash-linear-attention", "causal-conv1d", "triton")
EAGER, GRAPH, COMPILED = "eager", "CUDA graph", "torch.compile"
MODES = (EAGER, GRAPH, COMPILED)
BATCHES = (1, 64)
DECODED = ("dot", "gcd", "prefix_sum")
SPEED_TOKENS = 64
"""Tokens of a decode that is timed; a launch that has ended goes on as it comes."""


@dataclass(frozen=True)
class Row:
    """`what` was run in `mode` on a kernel path: tokens, how many were wrong, and the speed; or the error."""

    path: str
    what: str
    mode: str
    batch: int
    tokens: int
    wrong: int
    tokens_per_second: float
    note: str = ""

    def line(self) -> str:
        speed = f"{self.tokens_per_second:,.1f}" if self.tokens_per_second else ""
        cells = (self.path, self.what, self.mode, self.batch, self.tokens, self.wrong, speed, self.note)
        return f"| {' | '.join(map(str, cells))} |"


HEADER = (
    "| kernels | run | mode | launches | tokens | wrong | tokens/s | note |",
    "|---|---|---|---|---|---|---|---|",
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The stock model on a GPU: exactness and speed.")
    parser.add_argument("-o", "--output", type=Path, default=STORED)
    parser.add_argument("--machine", choices=sorted(PRESETS), default="classic")
    parser.add_argument("--seconds", type=float, default=540, help="for both paths together")
    parser.add_argument("--path", choices=PATHS, help="run one path here, and print its rows as JSON")
    options = parser.parse_args(arguments)
    spec = PRESETS[options.machine]
    if options.path is not None:
        for row in run_path(spec, options.path, options.seconds):
            print(json.dumps(asdict(row)), flush=True)
        return 0
    ensure_checkpoint(spec, DTYPE)
    end, rows = time.monotonic() + options.seconds, list[Row]()
    for number, path in enumerate(PATHS):
        left = (end - time.monotonic()) / (len(PATHS) - number)
        for row in _child_rows(spec, path, left):
            print(row.line(), flush=True)
            rows.append(row)
            content = {"machine": spec.name, **describe(), "rows": [asdict(item) for item in rows]}
            write_json(options.output, content)
    return 0


def describe() -> dict[str, object]:
    """The device, and the versions of what runs on it."""
    import torch

    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU: no GPU"
    return {"device": name, "versions": found}


def _child_rows(spec: MachineSpec, path: str, seconds: float) -> Iterator[Row]:
    """The rows of a path's own process, and one more where it ends badly."""
    command = [
        sys.executable,
        "-m",
        "bench.device",
        "--machine",
        spec.name,
        "--path",
        path,
        "--seconds",
        str(seconds),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            yield Row(**json.loads(line))
    if child.returncode:
        yield Row(path, "process", "", 0, 0, 0, 0.0, f"ended with status {child.returncode}")


def run_path(spec: MachineSpec, path: str, seconds: float) -> Iterator[Row]:
    """All runs of one kernel path, as far as `seconds` go. To be called before transformers is imported."""
    if path == REFERENCE:
        for name in FLASH_MODULES:
            sys.modules[name] = None  # pyright: ignore[reportArgumentType] - makes its import an ImportError
    elif missing := [name for name in FLASH_MODULES if not _importable(name)]:
        yield Row(path, "import", "", 0, 0, 0, 0.0, f"not installed: {', '.join(missing)}")
        return
    begin = time.monotonic()
    checkpoint = ensure_checkpoint(spec, DTYPE)
    model = load_model(checkpoint)
    programs = {case.name: program(case, spec) for case in cases_for(spec)}
    engine, half = TransformersEngine(checkpoint, model), begin + seconds / 2
    yield from _guarded(path, EAGER, half, lambda: _prefill_rows(engine, model, programs, path, half))
    for mode in MODES:
        rows = partial(_decode_rows, model, programs, path, mode)
        yield from _guarded(path, mode, begin + seconds, rows)


def _importable(name: str) -> bool:
    try:
        __import__(name)
    except Exception:  # a broken install raises what it likes
        return False
    return True


def _guarded(path: str, mode: str, end: float, rows: Callable[[], Iterator[Row]]) -> Iterator[Row]:
    """The rows, until `end` has come after one; an error is a row too."""
    try:
        for row in rows():
            yield row
            if time.monotonic() > end:
                return
    except Exception as error:  # whatever a kernel or a compiler raises is a result here
        text = str(error).strip().splitlines() or [""]
        yield Row(path, "error", mode, 0, 0, 0, 0.0, f"{type(error).__name__}: {text[0][:200]}")


def _tokens(item: Program) -> tuple[list[int], list[int]]:
    return item.ids(item.load()), item.ids(item.interpret().tokens)


def _decode_rows(model: Any, programs: dict[str, Program], path: str, mode: str) -> Iterator[Row]:
    """Kernels decoded to the end, then the speed of each batch."""
    traces = {name: _tokens(programs[name]) for name in DECODED if name in programs}
    longest = max(len(load) + max(len(launch), SPEED_TOKENS) for load, launch in traces.values()) + 8
    for batch in BATCHES:
        decoder = StaticDecoder(model, longest, batch, _forward(model, mode))
        first = next(iter(traces.values()))[0]
        if mode == GRAPH:
            decoder.capture(first)
        for name, (load, launch) in traces.items():
            decoder.prefill(load)
            said = decoder.decode(len(launch))
            wrong = sum(a != b for tokens in said for a, b in zip(tokens, launch, strict=True))
            yield Row(path, f"decode {name}", mode, batch, batch * len(launch), wrong, 0.0)
        decoder.prefill(first)
        _wait()
        begin = time.perf_counter()
        decoder.decode(SPEED_TOKENS)
        _wait()
        count = batch * (SPEED_TOKENS - 1)
        yield Row(path, "decode speed", mode, batch, count, 0, count / (time.perf_counter() - begin))


def _forward(model: Any, mode: str) -> Any:
    import torch

    if mode == GRAPH and not torch.cuda.is_available():
        raise RuntimeError("no GPU")
    return torch.compile(model, mode="reduce-overhead") if mode == COMPILED else model


def _wait() -> None:
    """Until the device has done what it was given."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _prefill_rows(
    engine: TransformersEngine, model: Any, programs: dict[str, Program], path: str, end: float
) -> Iterator[Row]:
    """All kernels as one row; then where the first wrong one differs."""
    done = tokens = wrong = fed = 0
    bad: list[str] = []
    begin = time.perf_counter()
    for name, item in programs.items():
        load, launch = _tokens(item)
        misses = sum(a != b for a, b in zip(engine.said(load, launch), launch, strict=True))
        done, tokens, wrong, fed = (
            done + 1,
            tokens + len(launch),
            wrong + misses,
            fed + len(load) + len(launch),
        )
        if misses:
            bad.append(name)
        if time.monotonic() > end:
            break
    note = f"{done} of {len(programs)} kernels" + (f"; wrong in {', '.join(bad)}" if bad else "")
    yield Row(path, "prefill", EAGER, 1, tokens, wrong, fed / (time.perf_counter() - begin), note)
    if bad:
        load, launch = _tokens(programs[bad[0]])
        yield Row(
            path,
            f"residual stream of {bad[0]}",
            EAGER,
            1,
            0,
            0,
            0.0,
            first_difference(model, [*load, *launch]),
        )


def first_difference(model: Any, tokens: list[int]) -> str:
    """The first layer and token where the stream differs from that of the model's copy on the CPU, in words."""
    import copy

    import torch

    with torch.inference_mode():
        ids = torch.tensor([tokens])
        own = model(input_ids=ids.to(model.device), output_hidden_states=True).hidden_states
        other = copy.deepcopy(model).cpu()(input_ids=ids, output_hidden_states=True).hidden_states
    for layer, (ours, theirs) in enumerate(zip(own, other, strict=True)):
        places = (ours.cpu() != theirs)[0].any(dim=1).nonzero()
        if len(places):
            place = int(places[0])
            most = float((ours.cpu().float() - theirs.float())[0, place].abs().max())
            return f"differs from the CPU's first before layer {layer}, at token {place}, by {most:g} at most"
    return "as on the CPU"


def lines(path: Path = STORED) -> Iterator[str]:
    """The last measurement; without one, that there is none."""
    if not path.exists():
        yield "The stock model on a GPU: not measured, nothing of this has run on one. `python -m bench.device` does."
        return
    content = read_json(path)
    versions = ", ".join(f"{name} {number}" for name, number in content["versions"].items())
    yield f"The stock model, `{content['machine']}`, {DTYPE}, on {content['device']}; {versions}."
    yield ""
    yield from HEADER
    yield from (Row(**row).line() for row in content["rows"])


if __name__ == "__main__":
    sys.exit(main())
