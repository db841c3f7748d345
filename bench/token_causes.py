"""What saves launch tokens, cause by cause, over the corpus of test kernels.

Two methods, and the table says which:

- *without it*: every kernel is compiled with one pass (or one freedom of the scheduler) taken away, everything else
  left as it is, and its launch of input set 0 runs on the machine interpreter, which must leave the memory that the
  kernel's reference leaves. What the corpus then takes more is what the pass saves. Passes overlap, so the rows do
  not add up to anything. Without a pass many programs no longer fit `classic`; so this is done on a machine with
  the same lanes, predicates and block shape, but room for every program (`ROOMY`), both with and without the pass.
  A kernel that does not compile or not run without the pass even there counts in `lost` and not in the sum.
- *counted*: what the trace as it is says in one token and would otherwise take several for. An EXEC token has the mask
  of its lanes (else: one EXEC a lane), the predicate word has all lanes' predicate registers (else: a token for each
  register that the block sets and each active lane), a SHORT token has a whole value (else: two halves).

`before` in token_causes.json are the totals by kind on `classic` before this was first measured. The totals now are
worked out by `totals`; a test holds the stored table against them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bench.stored import read_json, write_json
from tests.kernels.case import KernelCase
from tests.kernels.cases import CASES
from toolchain.driver import Options, compile_program
from toolchain.errors import CompileError
from toolchain.machine_spec import CLASSIC, MachineSpec
from toolchain.mir import hyperblocks, pipeline, rematerialisation, uniformity, widths
from toolchain.mir.emit_rom import compile_mir
from toolchain.mir.interpreter import MachineResult, run_launch
from toolchain.mir.ir import Function
from toolchain.mir.rom import RomImage
from toolchain.mir.schedule_policy import EVERYTHING, SchedulePolicy

STORED = Path(__file__).parent / "token_causes.json"
ROOMY = replace(CLASSIC, name="roomy", blocks=512, registers=256, head_rows=2048)
"""`classic` with room for programs that are compiled without a pass; memory and block shape are the same."""


@dataclass(frozen=True)
class Ablation:
    """A cause, the passes that are left out to measure it, and what the scheduler may still do."""

    cause: str
    passes: tuple[str, ...] = ()
    policy: SchedulePolicy = EVERYTHING


NOTHING = Ablation("nothing")
ABLATIONS = (
    Ablation("bundles", policy=replace(EVERYTHING, longest=1)),
    Ablation("dead values", policy=replace(EVERYTHING, live_only=False)),
    Ablation("uniform values", (uniformity.PASS_NAME,)),
    Ablation("narrow values", (widths.PASS_NAME,)),
    Ablation("hyperblocks", (hyperblocks.PASS_NAME,)),
    Ablation("rematerialisation", (rematerialisation.PASS_NAME,), replace(EVERYTHING, recompute=False)),
    Ablation("layout", policy=replace(EVERYTHING, ordered=False)),
)


@dataclass(frozen=True)
class Saving:
    """What one cause saves. `lost`: kernels that do not compile or not run without it."""

    cause: str
    method: str
    tokens: int
    lost: int = 0


def lowered(case: KernelCase, spec: MachineSpec) -> Function:
    """The kernel's MIR before any pass that may be left out."""
    first = pipeline.PASSES[0][0]
    compilation = compile_program(case.source, Options(spec, entry=case.entry), stop_before=first)
    function = compilation.last("mir")
    assert isinstance(function, Function)
    return function


def optimised(function: Function, spec: MachineSpec, without: tuple[str, ...] = ()) -> Function:
    """The function after the pipeline's passes, some left out."""
    for name, run in pipeline.PASSES:
        if name not in without:
            function = run(function, spec)
    return function


def compiled(function: Function, spec: MachineSpec, ablation: Ablation) -> RomImage:
    """The program without the ablation's passes; raises CompileError where it does not fit."""
    return compile_mir(optimised(function, spec, ablation.passes), spec, policy=ablation.policy)


def run_exactly(rom: RomImage, case: KernelCase, spec: MachineSpec) -> MachineResult:
    """The case's first launch; raises AssertionError if it leaves other arrays than the kernel's reference."""
    launch_case = case.launches(CLASSIC)[0]
    result = run_launch(rom, spec, launch_case.launch)
    assert launch_case.launch.read_back(result.memory) == launch_case.expected(), case.name
    return result


def _corpus(cases: Iterable[KernelCase]) -> list[tuple[KernelCase, Function]]:
    return [(case, lowered(case, CLASSIC)) for case in cases if case.fits(CLASSIC)]


def totals(cases: Iterable[KernelCase], program: Callable[[KernelCase], RomImage]) -> dict[str, int]:
    """Launch tokens of the corpus on `classic`, input set 0, by kind of token. `program` compiles a kernel."""
    counts: Counter[str] = Counter()
    for case in cases:
        if not case.fits(CLASSIC):
            continue
        result = run_exactly(program(case), case, CLASSIC)
        counts.update(str(token.kind) for token in result.tokens)
    return dict(sorted(counts.items()))


def _program(case: KernelCase) -> RomImage:
    return compiled(lowered(case, CLASSIC), CLASSIC, NOTHING)


def ablated(cases: Iterable[KernelCase], progress: Callable[[str], None] = lambda line: None) -> list[Saving]:
    """What each ablation costs, on ROOMY."""
    corpus = _corpus(cases)
    whole = {case.name: _tokens(case, function, NOTHING) for case, function in corpus}
    found = []
    for ablation in ABLATIONS:
        saved, lost = 0, 0
        for case, function in corpus:
            least, tokens = whole[case.name], _tokens(case, function, ablation)
            if least is None or tokens is None:
                lost += 1
            else:
                saved += tokens - least
        found.append(Saving(ablation.cause, "without it", saved, lost))
        progress(f"{ablation.cause}: {saved} tokens, {lost} kernels lost")
    return found


def _tokens(case: KernelCase, function: Function, ablation: Ablation) -> int | None:
    """Tokens of the launch; None if the program does not fit or does not run."""
    try:
        return len(run_exactly(compiled(function, ROOMY, ablation), case, ROOMY).tokens)
    except CompileError:
        return None


def counted(cases: Iterable[KernelCase]) -> list[Saving]:
    """What the traces on `classic` say in one token instead of several."""
    masks = predicates = shorts = 0
    for case, function in _corpus(cases):
        rom = compiled(function, CLASSIC, NOTHING)
        for token in run_exactly(rom, case, CLASSIC).tokens:
            shorts += token.kind == "SHORT"
            if token.kind != "EXEC" or token.is_end:
                continue
            lanes = token.mask.bit_count()
            masks += lanes - 1
            flags = sum(source is not None for source in rom.blocks[token.a].terminator.predicates)
            predicates += max(0, flags * lanes - 1)
    return [
        Saving("masks", "counted", masks),
        Saving("predicates", "counted", predicates),
        Saving("short values", "counted", shorts),
    ]


def measure(path: Path = STORED, progress: Callable[[str], None] = lambda line: None) -> None:
    """Measures every cause (some minutes), and writes the table; `before` stays."""
    before = read_json(path)["before"]
    savings = [*ablated(CASES, progress), *counted(CASES)]
    causes = {
        item.cause: {"method": item.method, "tokens": item.tokens, "lost": item.lost} for item in savings
    }
    table = {"before": before, "after": totals(CASES, _program), "causes": causes}
    write_json(path, table, indent=2)


def lines(path: Path = STORED) -> Iterator[str]:
    """The stored table."""
    table = read_json(path)
    before, after = table["before"], table["after"]
    kinds = sorted({*before, *after})
    yield f"| launch tokens of the corpus, `classic` | total | {' | '.join(kinds)} |"
    yield "|---" * (2 + len(kinds)) + "|"
    for name, counts in (("before", before), ("now", after)):
        total = sum(counts.values())
        yield f"| {name} | {total} | {' | '.join(str(counts.get(kind, 0)) for kind in kinds)} |"
    yield f"| now, part of before | {sum(after.values()) / sum(before.values()):.1%} |{' |' * len(kinds)}"
    yield ""
    yield "| cause | tokens saved | method | kernels that need it |"
    yield "|---|---|---|---|"
    for cause, item in table["causes"].items():
        yield f"| {cause} | {item['tokens']} | {item['method']} | {item['lost'] or ''} |"
