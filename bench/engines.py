"""The sparse engine against the stock model, on `classic`: `qgpuc bench --engines` measures both in one run.

- *stock*: greedy decoding of one launch by transformers, token by token, the load aside.
- *one core*: every kernel's launch on the sparse engine, the load aside, the median of some repetitions.
- *side by side*: launches of one program in the lanes of vectors, one process a core, started together.
- *traced*: one launch again and again until traces have been made for its blocks.

All are in tokens a second of wall clock. Each engine's tokens are compared with the machine interpreter's.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

from bench.activity import activity
from bench.host import Host, describe, read_measurement
from bench.kernels import program
from bench.stored import write_json
from runtime.launcher import Program, SparseEngine
from runtime.sparse.encode import Op
from runtime.sparse.session import Session, Snapshot
from runtime.vocabulary import Kind, Vocabulary
from tests.kernels.cases import cases_for
from toolchain.machine_build import ensure_checkpoint
from toolchain.machine_spec import CLASSIC

STORED = Path(__file__).parent / "engines.json"
DTYPE = "bfloat16"
WIDTH = 16
CORES = 2
REPETITIONS = 5
STOCK_KERNEL = "dot"
TRACED_KERNEL = "queens"
LIMIT = 100_000
PROFILED_TOKENS = 24
"""Of each launch."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Engines:
    """One measurement: rates in tokens a second; `microseconds` a token, and `records` executed, by kind of token."""

    host: Host
    kernels: int
    tokens: int
    lane_instructions: int
    stock_rate: float
    stock_tokens: int
    rate: float
    load_rate: float
    side_by_side_rate: float
    traced_rate: float
    untraced_rate: float
    open_seconds: float
    microseconds: dict[str, float]
    records: dict[str, dict[str, float]]


def _launch(item: Program) -> tuple[list[int], list[int]]:
    return item.ids(item.load()), item.ids(item.interpret().tokens)


def _corpus() -> list[tuple[list[int], list[int]]]:
    return [_launch(program(case, CLASSIC)) for case in cases_for(CLASSIC)]


def _timed(session: Session, load: list[int], wanted: list[int]) -> tuple[float, float]:
    """Seconds of the load, and the median of those of the launch."""
    begin = time.perf_counter()
    start = session.begin([load] * session.width)
    return time.perf_counter() - begin, _launch_seconds(session, start, wanted)


def _launch_seconds(session: Session, start: Snapshot, wanted: list[int]) -> float:
    """The median of some launches from `start` on."""
    times = []
    for _ in range(REPETITIONS):
        session.resume(start)
        begin = time.perf_counter()
        said, _ = session.run(LIMIT)
        times.append(time.perf_counter() - begin)
        if said != [wanted] * session.width:
            raise AssertionError("the sparse engine says something else than the machine interpreter")
    return median(times)


def rates(width: int) -> tuple[float, float]:
    """Launch and load tokens a second over all kernels, of `width` launches side by side."""
    session, corpus = _session(width), _corpus()
    times = [_timed(session, load, wanted) for load, wanted in corpus]
    loads, launches = (sum(column) for column in zip(*times, strict=True))
    return (
        width * sum(len(wanted) for _, wanted in corpus) / launches,
        width * sum(len(load) for load, _ in corpus) / loads,
    )


def _session(width: int, *, profile: bool = False) -> Session:
    return SparseEngine(ensure_checkpoint(CLASSIC, DTYPE)).model.session(width, profile=profile)


def _side_by_side() -> float:
    """Launch tokens a second of all cores: each process measures itself while the others run."""
    command = [sys.executable, "-c", f"from bench.engines import rates; print(rates({WIDTH})[0])"]
    root = Path(__file__).parent.parent
    running = [subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) for _ in range(CORES)]
    return sum(float(process.communicate()[0]) for process in running)


def _traced() -> tuple[float, float]:
    """Launch tokens a second of one kernel: with traces for what it runs, and before there are any."""
    session = _session(1)
    load, wanted = _launch(_program(TRACED_KERNEL))
    start = session.begin([load])
    before = _launch_seconds(session, start, wanted)
    session.hot = 2
    _launch_seconds(session, start, wanted)  # makes them
    return len(wanted) / _launch_seconds(session, start, wanted), len(wanted) / before


def _program(kernel: str) -> Program:
    return next(program(case, CLASSIC) for case in cases_for(CLASSIC) if case.name == kernel)


def _open_seconds() -> float:
    """Seconds from the packed checkpoint to an engine that takes tokens, the median of some."""
    path, times = ensure_checkpoint(CLASSIC, DTYPE), []
    _session(1)
    for _ in range(REPETITIONS):
        begin = time.perf_counter()
        SparseEngine(path).model.session(1)
        times.append(time.perf_counter() - begin)
    return median(times)


def _profile() -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Microseconds a token of each kind (fitted over the kernels), and records executed by kind of record."""
    vocabulary, kinds = Vocabulary(CLASSIC), (Kind.EXEC, Kind.VAL, Kind.SHORT, Kind.MEM)
    session, counting = _session(1), _session(1, profile=True)
    rows, seconds = [], []
    records = {kind.value: np.zeros(len(counting.profile)) for kind in kinds}
    totals = dict.fromkeys(records, 0)
    for load, wanted in _corpus():
        seconds.append(_timed(session, load, wanted)[1])
        spoken = [vocabulary.token(token).kind for token in wanted[:-1]]  # the last is not fed again
        other = sum(kind not in kinds for kind in spoken)
        rows.append([*(spoken.count(kind) for kind in kinds), other, 1])
        counts = _counts(counting, load, wanted[:PROFILED_TOKENS])
        for kind, count in zip(spoken, counts, strict=False):
            if kind in kinds:
                records[kind.value] += count
                totals[kind.value] += 1
    weights = 1 / np.sqrt(np.array(seconds))
    fit = np.linalg.lstsq(np.array(rows) * weights[:, None], np.array(seconds) * weights, rcond=None)[0]
    names = [*records, "other", "launch"]
    microseconds = {name: round(float(value) * 1e6, 2) for name, value in zip(names, fit, strict=True)}
    labels = ["terms", *(op.name for op in Op)]
    table: dict[str, dict[str, float]] = {}
    for kind, counts in records.items():
        pairs = zip(labels, counts.tolist(), strict=True)
        table[kind] = {label: round(count / totals[kind], 1) for label, count in pairs if count}
    return microseconds, table


def _counts(session: Session, load: list[int], tokens: list[int]) -> Iterator[np.ndarray]:
    """What the code counts in each token of the launch: all up to it, less all up to the one before."""
    start, before = session.begin([load]), np.zeros(len(session.profile))
    for end in range(1, len(tokens) + 1):
        session.resume(start)
        session.profile[:] = 0
        session.feed([tokens[:end]])
        yield session.profile - before
        before = session.profile.copy()


def _stock() -> tuple[float, int]:
    """Tokens a second of the stock model's decoding, and how many it decoded."""
    from runtime.transformers_engine import TransformersEngine

    load, wanted = _launch(
        next(program(case, CLASSIC) for case in cases_for(CLASSIC) if case.name == STOCK_KERNEL)
    )
    times: list[float] = []
    said = TransformersEngine(ensure_checkpoint(CLASSIC, DTYPE)).decode(
        load, len(wanted), lambda _: times.append(time.perf_counter())
    )
    if said != wanted:
        raise AssertionError("the stock model says something else than the machine interpreter")
    return (len(times) - 1) / (times[-1] - times[0]), len(times)


def measure(path: Path = STORED, progress: Say = print) -> None:
    """Measures all of it and stores it. Raises AssertionError where an engine is wrong."""
    host = describe()
    activities = [
        activity(case.name, item.rom, item.interpret().tokens)
        for case in cases_for(CLASSIC)
        for item in [program(case, CLASSIC)]
    ]
    progress("sparse engine, one core")
    rate, load_rate = rates(1)
    open_seconds = _open_seconds()
    traced, untraced = _traced()
    microseconds, records = _profile()
    progress("sparse engine, side by side")
    together = _side_by_side()
    progress("stock model")
    stock_rate, stock_tokens = _stock()
    result = Engines(
        host, len(activities), sum(item.tokens for item in activities),
        sum(item.lane_instructions for item in activities), round(stock_rate, 3), stock_tokens, round(rate),
        round(load_rate), round(together), round(traced), round(untraced), round(open_seconds, 3), microseconds,
        records,
    )  # fmt: skip
    write_json(path, asdict(result))


def read(path: Path = STORED) -> Engines:
    """The last measurement."""
    return read_measurement(path, Engines)


def summary(path: Path = STORED) -> Iterator[str]:
    """The rows that the README quotes."""
    item = read(path)
    ratio = item.rate / item.stock_rate
    yield f"| sparse engine, one core, launch tokens a second over {item.kernels} kernels | {item.rate:,} | 150,000 |"
    yield f"| the stock model's decoding, {CORES} cores | {item.stock_rate:.2f} | |"
    yield f"| sparse engine over stock decoding | {ratio:,.0f} x | 2,000 x |"
    yield (
        f"| {WIDTH} launches side by side in each of {CORES} processes, launch tokens a second | "
        f"{item.side_by_side_rate:,} | 1,000,000 |"
    )
    yield f"| opening the packed `classic` checkpoint | {item.open_seconds} s | 0.5 s |"


def lines(path: Path = STORED) -> Iterator[str]:
    """The last measurement, and where its time goes."""
    item = read(path)
    yield from item.host.lines()
    yield ""
    yield "| what | measured | to reach |"
    yield "|---|---|---|"
    yield from summary(path)
    yield f"| load tokens a second | {item.load_rate:,} | |"
    yield f"| `{TRACED_KERNEL}`: launch tokens a second without traces | {item.untraced_rate:,} | |"
    yield f"| `{TRACED_KERNEL}`: with traces | {item.traced_rate:,} | |"
    instructions = item.lane_instructions * item.rate / item.tokens
    yield f"| executed lane-instructions a second, one core | {instructions:,.0f} | |"
    yield ""
    labels = sorted({label for counts in item.records.values() for label in counts})
    yield f"| token | microseconds | {' | '.join(labels)} |"
    yield "|---" * (2 + len(labels)) + "|"
    for kind, counts in item.records.items():
        cells = " | ".join(str(counts.get(label, 0)) for label in labels)
        yield f"| {kind} | {item.microseconds[kind]} | {cells} |"
    yield ""
    yield f"A launch itself takes {item.microseconds['launch']} microseconds. Terms of linear forms in EXEC tokens are"
    yield "what is left: a term is two program words, a cell and a multiplication, and an EXEC token's program is"
    yield "larger than the first-level cache. Traces cut the terms of a block that is run often, memos (docs/ENGINE.md)"
    yield "those of the tokens between EXECs; the next limit is the interpretation of the words of a term."
