"""The sanitizer: each kind of undefined behaviour in a small kernel, and a twin that does the same rightly.

A file of tests/sanitizer has two kernels, `wrong` and `right`. The lines that a finding must name are marked
`// here`, or `// first` and `// second`.
"""

import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from toolchain.cli import run_command
from toolchain.driver import Options, compile_program
from toolchain.launch import ArrayArgument, Launch, ScalarArgument
from toolchain.machine_spec import CLASSIC
from toolchain.ptx_frontend.ast import Module
from toolchain.ptx_frontend.parser import parse_ptx
from toolchain.sanitizer.addresses import variable_name
from toolchain.sanitizer.findings import Finding, Kind, SanitizerReport
from toolchain.sanitizer.sanitizer import Tool, sanitize

FOLDER = Path(__file__).parent / "sanitizer"
MARKS = ("// here", "// first", "// second")
LAUNCH = Launch(
    (1, 1, 1), (4, 1, 1),
    (ArrayArgument("a", (1, 2, 3, 4)), ArrayArgument("b", (0,) * 4), ScalarArgument("n", 4)),
)  # fmt: skip
TWO_BLOCKS = replace(LAUNCH, grid=(2, 1, 1))
TWO_WARPS = replace(LAUNCH, block=(8, 1, 1))


@dataclass(frozen=True)
class Wanted:
    """The finding a wrong kernel has: what, at which address, by which threads, how often."""

    kind: Kind
    address: str | None
    threads: tuple[int, ...]
    count: int
    launch: Launch = LAUNCH
    note: bool = False


CASES = {
    "global_bounds": Wanted(Kind.OUT_OF_BOUNDS, "a[4]", (3,), 1),
    "null_pointer": Wanted(Kind.OUT_OF_BOUNDS, "global address 0x0", (0,), 4),
    "variable_bounds": Wanted(Kind.OUT_OF_BOUNDS, "table[-1]", (0,), 1),
    "shared_bounds": Wanted(Kind.OUT_OF_BOUNDS, "tile[4]", (3,), 1),
    "dynamic_bounds": Wanted(Kind.OUT_OF_BOUNDS, "buffer[4]", (3,), 1, replace(LAUNCH, dynamic_shared=16)),
    "local_bounds": Wanted(Kind.OUT_OF_BOUNDS, "local memory[4]", (3,), 1),
    "misaligned": Wanted(Kind.MISALIGNED, "a[0] + 1 bytes", (1,), 3),
    "read_only": Wanted(Kind.READ_ONLY, "table[0]", (0,), 4),
    "unwritten_shared": Wanted(Kind.UNINITIALISED, "tile[4]", (3,), 1),
    "unwritten_local": Wanted(Kind.UNINITIALISED, "local memory[1]", (1,), 2),
    "race_shared": Wanted(Kind.RACE, "tile[2]", (2, 0), 4),
    "race_in_warp": Wanted(Kind.RACE, "b[1]", (1, 0), 4),
    "race_between_blocks": Wanted(Kind.RACE, "b[0]", (0, 0), 1, TWO_BLOCKS),
    "race_with_atomic": Wanted(Kind.RACE, "b[0]", (0, 3), 3),
    "message": Wanted(Kind.RACE, "b[1]", (0, 0), 1, TWO_BLOCKS),
    "same_value": Wanted(Kind.RACE, "b[0]", (0, 1), 3, note=True),
    "divergent_barrier": Wanted(Kind.DIVERGENT_BARRIER, None, (2,), 1),
    "different_barriers": Wanted(Kind.DIFFERENT_BARRIERS, None, (0, 4), 1, TWO_WARPS),
    "early_exit": Wanted(Kind.EARLY_EXIT, None, (0,), 1, note=True),
    "exited_lane": Wanted(Kind.INACTIVE_LANE, None, (1,), 3),
    "absent_lanes": Wanted(Kind.MEMBER_MASK, None, (1,), 2),
    "own_mask": Wanted(Kind.MEMBER_MASK, None, (1,), 2),
    "absent_syncwarp": Wanted(Kind.DIVERGENT_BARRIER, None, (1,), 1),
}


@cache
def module_of(name: str) -> Module:
    """Both kernels of a file, as clang compiles them."""
    path = (FOLDER / f"{name}.cu").relative_to(Path.cwd())
    module = compile_program(path, Options(CLASSIC), stop_before="select-entry").last("ast")
    assert isinstance(module, Module)
    return module


def findings_of(name: str, entry: str, launch: Launch) -> tuple[Finding, ...]:
    return sanitize(module_of(name), entry, launch, CLASSIC).findings


def marked_lines(name: str) -> list[int]:
    lines = (FOLDER / f"{name}.cu").read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if line.endswith(MARKS)]


def lines_of(finding: Finding) -> list[int]:
    return sorted({place.source.line for place in finding.places})


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_found_at_its_lines(name: str) -> None:
    wanted = CASES[name]
    everything = findings_of(name, "wrong", wanted.launch)
    found = [item for item in everything if item.kind is wanted.kind and lines_of(item) == marked_lines(name)]
    assert len(found) == 1, everything
    finding = found[0]
    assert all(
        place.source.column > 0 and place.source.file.endswith(f"{name}.cu") for place in finding.places
    )
    assert tuple(place.thread[0] for place in finding.places if place.thread) == wanted.threads
    assert (finding.address, finding.count, finding.note) == (wanted.address, wanted.count, wanted.note)


@pytest.mark.parametrize("name", CASES)
def test_the_right_twin_is_clean(name: str) -> None:
    assert findings_of(name, "right", CASES[name].launch) == ()


def test_every_file_and_every_kind_is_tested() -> None:
    assert {path.stem for path in FOLDER.glob("*.cu")} == {*CASES, "endless"}
    assert {wanted.kind for wanted in CASES.values()} == set(Kind) - {Kind.FAULT}


def ptx_findings(
    text: str, launch: Launch = LAUNCH, tools: frozenset[Tool] = frozenset(Tool)
) -> SanitizerReport:
    """The report of statements in which %r1 is the thread, %r2 the thread block, %r3 and %r4 are a and b."""
    module = parse_ptx(
        f""".version 7.0 .target sm_70 .address_size 32
        .visible .entry k(.param .u32 a, .param .u32 b, .param .u32 n)
        {{ .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .pred %p<4>; .shared .align 4 .b8 tile[16];
        mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; ld.param.u32 %r3, [a]; ld.param.u32 %r4, [b];
        setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r2, 0; shl.b32 %r5, %r1, 2; add.u32 %r6, %r4, %r5;
        {text}
        ret; }}"""
    )
    return sanitize(module, "k", launch, CLASSIC, tools=tools)


def kinds(report: SanitizerReport) -> list[Kind]:
    return [finding.kind for finding in report.findings]


@pytest.mark.parametrize(
    ("first", "second", "races"),
    [
        ("red.relaxed.gpu.global.add.u32", "red.relaxed.gpu.global.add.u32", False),
        ("red.relaxed.cta.global.add.u32", "red.relaxed.gpu.global.add.u32", True),
        ("red.global.add.u32", "st.relaxed.gpu.global.u32", False),
        ("red.global.add.u32", "st.volatile.global.u32", False),
        ("red.global.add.u32", "st.global.u32", True),
        ("st.volatile.global.u32", "st.volatile.global.u32", False),
        ("st.volatile.global.u32", "st.relaxed.cta.global.u32", True),
        ("red.global.add.u32", "st.volatile.global.u8", True),
    ],
)
def test_strong_accesses_race_by_scope_and_size(first: str, second: str, races: bool) -> None:
    """Thread block 0 makes the first access, thread block 1 the second, of one word."""
    text = f"@!%p1 ret; @%p2 {first} [%r4], 1; @%p2 ret; {second} [%r4], 2;"
    assert kinds(ptx_findings(text, TWO_BLOCKS)) == ([Kind.RACE] if races else [])


@pytest.mark.parametrize(
    ("release", "acquire", "races"),
    [
        ("st.release.gpu.global.u32 [%r4], 1;", "ld.acquire.gpu.global.u32 %r7, [%r4];", False),
        ("st.relaxed.gpu.global.u32 [%r4], 1;", "ld.acquire.gpu.global.u32 %r7, [%r4];", True),
        ("st.release.gpu.global.u32 [%r4], 1;", "ld.relaxed.gpu.global.u32 %r7, [%r4];", True),
        ("membar.gl; st.relaxed.gpu.global.u32 [%r4], 1;", "ld.acquire.gpu.global.u32 %r7, [%r4];", False),
        ("st.release.gpu.global.u32 [%r4], 1;", "ld.relaxed.gpu.global.u32 %r7, [%r4]; membar.gl;", False),
        (
            "atom.acq_rel.gpu.global.exch.b32 %r7, [%r4], 1;",
            "atom.acq_rel.gpu.global.add.u32 %r7, [%r4], 1;",
            False,
        ),
        ("membar.gl; red.global.add.u32 [%r4], 1;", "atom.global.add.u32 %r7, [%r4+4], 1; membar.gl;", True),
    ],
)
def test_a_message_needs_a_release_and_an_acquire(release: str, acquire: str, races: bool) -> None:
    text = f"""@!%p1 ret; @!%p2 bra reader; st.global.u32 [%r4+12], 42; {release} ret;
        reader: {acquire} ld.global.u32 %r8, [%r4+12];"""
    assert kinds(ptx_findings(text, TWO_BLOCKS)) == ([Kind.RACE] if races else [])


def test_a_barrier_orders_its_own_thread_block_only() -> None:
    text = "@%p1 st.global.u32 [%r4], 1; bar.sync 0; ld.global.u32 %r7, [%r4];"
    assert kinds(ptx_findings(text)) == []
    races = ptx_findings(text, TWO_BLOCKS).findings
    assert [(finding.kind, finding.note, finding.count) for finding in races] == [
        (Kind.RACE, True, 1),  # both store the same value
        (Kind.RACE, False, 4),  # the second thread block's store, after four loads of the first
    ]


def test_syncwarp_orders_the_lanes_of_its_mask_only() -> None:
    text = "@%p1 st.global.u32 [%r4], 1; bar.warp.sync {}; ld.global.u32 %r7, [%r4];"
    assert kinds(ptx_findings(text.format("-1"))) == []
    assert kinds(ptx_findings(text.format("-1"), TWO_WARPS)) == [Kind.RACE]
    pairs = "shl.b32 %r8, 3, %r1; and.b32 %r8, %r1, 2; shl.b32 %r8, 3, %r8;"
    assert kinds(ptx_findings(pairs + text.format("%r8"))) == [Kind.RACE]


def test_barriers_that_can_never_be_complete_end_in_a_finding() -> None:
    """Two numbers: on hardware the thread block hangs."""
    text = "setp.lt.u32 %p3, %r1, 4; @%p3 bar.sync 1; @%p3 ret; bar.sync 2;"
    report = ptx_findings(text, TWO_WARPS)
    assert kinds(report) == [Kind.DIFFERENT_BARRIERS]
    assert report.complete
    assert kinds(ptx_findings("bar.sync 1, 64;")) == [Kind.DIVERGENT_BARRIER]


def test_named_barriers_with_counts_are_clean() -> None:
    """One warp arrives, the other waits for both."""
    text = """setp.lt.u32 %p3, %r1, 4; @!%p3 bra waits; st.shared.u32 [tile], 1; bar.arrive 1, 8; ret;
        waits: bar.sync 1, 8;"""
    assert kinds(ptx_findings(text.replace("st.shared.u32 [tile], 1;", ""), TWO_WARPS)) == []


def test_a_lane_outside_the_warp() -> None:
    """This machine's warps have 4 lanes; `down` past the last one is the edge of the warp, `bfly` is not."""
    text = "shfl.sync.{}.b32 %r7, %r1, {}, 31, -1;"
    assert kinds(ptx_findings(text.format("down", 1))) == []
    for mode, distance in (("down", 4), ("bfly", 16), ("idx", 9)):
        assert kinds(ptx_findings(text.format(mode, distance))) == [Kind.INACTIVE_LANE]


def test_byte_arrays_are_indexed_by_the_access() -> None:
    report = ptx_findings("mov.u32 %r7, tile; ld.shared.u32 %r8, [%r7+16]; ld.shared.u8 %r8, [%r7+17];")
    assert [finding.address for finding in report.findings] == ["tile[4]", "tile[17]"]
    assert [finding.width for finding in report.findings] == [4, 1]


def test_an_access_that_is_not_allowed_is_left_out() -> None:
    """The load gives zero, the store writes nothing, and the launch goes on."""
    text = "ld.global.u32 %r7, [%r3+16]; add.u32 %r7, %r7, 5; st.global.u32 [%r6], %r7; st.global.u32 [%r3-4], 9;"
    report = ptx_findings(text)
    assert kinds(report) == [Kind.OUT_OF_BOUNDS] * 2
    assert LAUNCH.read_back(report.memory) == {"a": [1, 2, 3, 4], "b": [5, 5, 5, 5]}


def test_each_tool_finds_its_own() -> None:
    text = """mov.u32 %r7, tile; ld.shared.u32 %r8, [%r7]; st.shared.u32 [%r7], %r1; ld.shared.u32 %r8, [%r7+16];
        vote.sync.any.pred %p3, %p1, 1;"""
    found = {tool: set(kinds(ptx_findings(text, tools=frozenset({tool})))) for tool in Tool}
    assert found == {
        Tool.MEMCHECK: {Kind.OUT_OF_BOUNDS},
        Tool.INITCHECK: {Kind.UNINITIALISED},
        Tool.RACECHECK: {Kind.RACE},
        Tool.SYNCCHECK: {Kind.MEMBER_MASK},
    }


def test_a_launch_without_end_is_a_finding() -> None:
    report = sanitize(module_of("endless"), "wrong", LAUNCH, CLASSIC, step_limit=1000)
    assert kinds(report) == [Kind.FAULT]
    assert lines_of(report.findings[0]) == marked_lines("endless")
    assert not report.complete
    assert sanitize(module_of("endless"), "right", LAUNCH, CLASSIC).findings == ()


def test_the_limit_of_findings_ends_the_launch() -> None:
    text = "ld.global.u32 %r7, [%r3+16]; st.global.u32 [%r3+16], 1; st.global.u32 [%r4], 1;"
    module = module_of("global_bounds")
    assert not sanitize(module, "wrong", LAUNCH, CLASSIC, limit=0).complete
    assert len(ptx_findings(text).findings) == 3


def test_names_of_variables() -> None:
    names = {
        "tile": "tile",
        "_ZZ1kPiE4tile": "tile",
        "_ZZ1kPiE5tile2_0": "tile2",
        "_ZN2ns5tableE": "table",
        "_ZL2a1": "a1",
        "__local_depot0": "local memory",
    }
    assert {symbol: variable_name(symbol) for symbol in names} == names


# The command line.

ARGUMENTS = ("--block", "4", "--arg", "a=[1,2,3,4]", "--arg", "b=zeros:4", "--arg", "n=4")


def run(name: str, entry: str, *options: str) -> int:
    path = (FOLDER / f"{name}.cu").relative_to(Path.cwd())
    return run_command(["run", str(path), "--entry", entry, *ARGUMENTS, *options])


def test_the_command_prints_findings(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("race_shared", "wrong", "--sanitize") == 1
    assert capsys.readouterr().out == (
        "race: store and load of tile[2] in shared memory, 4 bytes, are in no order between two threads of a block\n"
        "    tests/sanitizer/race_shared.cu:5:13: store by thread (2,0,0) of block (0,0,0)\n"
        "        tile[i] = a[i];  // first\n"
        "    tests/sanitizer/race_shared.cu:6:12: load by thread (0,0,0) of block (0,0,0)\n"
        "        b[i] = tile[(i + 2) % 4];  // second\n"
        "    4 times\n\n"
        "a = [1, 2, 3, 4]\nb = [3, 4, 1, 2]\n1 error\n"
    )
    assert run("race_shared", "right", "--sanitize") == 0
    assert capsys.readouterr().out.endswith("clean\n")
    assert run("same_value", "wrong", "--sanitize") == 0
    assert capsys.readouterr().out.endswith("clean, 1 note\n")


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("global_bounds", "wrong", "--sanitize", "--json") == 1
    told = json.loads(capsys.readouterr().out)
    (finding,) = told["findings"]
    assert (finding["kind"], finding["address"], finding["width"]) == ("out-of-bounds", "a[4]", 4)
    assert finding["places"][0]["source"].endswith("global_bounds.cu:4:12")
    assert finding["places"][0]["thread"] == [3, 0, 0]
    assert (told["errors"], told["complete"]) == (1, True)


def test_what_cannot_be_sanitized_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("race_shared", "wrong", "--sanitize", "--grid", "1000") == 2
    image = tmp_path / "kernel.rom"
    image.write_text("")
    assert run_command(["run", str(image), "--sanitize"]) == 2
    assert "--sanitize reads cuda or ptx" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [("run", "--check", "--engine", "interp"), ("check", "--up-to", "program")]
)
def test_check_reports_an_access_that_leaves_its_array(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    first, *options = command
    path = str((FOLDER / "global_bounds.cu").relative_to(Path.cwd()))
    arguments = [first, path, "--entry", "wrong", *ARGUMENTS, *options, "--json"]
    assert run_command(arguments) == 1
    difference = json.loads(capsys.readouterr().out)["check"]["first_difference"]
    assert "a[4]" in difference["found"]
    assert "thread (3,0,0)" in difference["what"]
    assert difference["source"].endswith("global_bounds.cu:4:12")
    assert run_command([*arguments[:3], "right", *arguments[4:]]) == 0
