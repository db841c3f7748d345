"""Every input that must be refused: exit status 2, a message that says what and where, no traceback."""

import json
from pathlib import Path

import pytest

from toolchain.cli import run_command

DOT = ("a=[1,2,3]", "b=[4,5,6]", "c=zeros:1", "n=3")


def refused(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    """What the command says on stderr; it must refuse."""
    capsys.readouterr()
    assert run_command(command) == 2
    text = capsys.readouterr().err
    assert text.strip() and "Traceback" not in text
    return text


def arguments(*values: str) -> list[str]:
    return [part for value in values for part in ("--arg", value)]


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def compile_refused(capsys: pytest.CaptureFixture[str], folder: Path, name: str, text: str) -> str:
    """Compiling `text` to a ROM image is refused, and leaves no folder behind, not even a temporary one."""
    source = write(folder, name, text)
    message = refused(capsys, "compile", source, "-o", str(folder / "out"), "--to", "rom")
    assert [path.name for path in folder.iterdir()] == [name]
    return message


def test_syntax_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "__global__ void k(int *a) {\n    a[0] = 1\n}\n"
    message = compile_refused(capsys, tmp_path, "broken.cu", text)
    assert f"{tmp_path}/broken.cu:2:" in message
    assert "expected ';'" in message
    assert "a[0] = 1" in message


def test_float_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "__global__ void k(float *a) {\n    a[0] = a[0] * 2.5f;\n}\n"
    message = compile_refused(capsys, tmp_path, "float.cu", text)
    assert "float.cu:2" in message
    assert "float" in message
    assert "hint:" in message


def test_unsupported_instruction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """.version 6.4
.target sm_70
.address_size 32
.visible .entry k(.param .u32 p) {
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [p];
    tex.1d.v4.s32.s32 {%r1, %r1, %r1, %r1}, [%r1, {%r1}];
    ret;
}
"""
    message = compile_refused(capsys, tmp_path, "texture.ptx", text)
    assert "texture.ptx:7" in message
    assert "tex" in message
    assert "hint:" in message


def test_too_many_registers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What atomics give cannot be spilled: eighteen old values are alive at once."""
    old = "\n".join(f"    int v{i} = atomicAdd(a + {i}, 1);" for i in range(18))
    total = " + ".join(f"v{i} * v{i}" for i in range(18))
    text = f"__global__ void k(int *a) {{\n{old}\n    __syncthreads();\n    a[0] = {total};\n}}\n"
    message = compile_refused(capsys, tmp_path, "wide.cu", text)
    assert "register" in message
    assert "15" in message
    assert "wide.cu:" in message


def test_too_many_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stores = "\n".join(f"    a[{i}] = a[{i}] * a[{i + 1}] + {i};" for i in range(60))
    message = compile_refused(capsys, tmp_path, "long.cu", f"__global__ void k(int *a) {{\n{stores}\n}}\n")
    assert "block" in message
    assert "32" in message
    assert "long.cu:" in message


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("--block", "33"), "33 threads"),
        (("--block", "4,4,4"), "64 threads"),
        (("--grid", "129"), "129 blocks"),
        (("--grid", "0"), "below 1"),
        (("--block", "two"), "integers"),
    ],
)
def test_launch_over_the_limits(
    options: tuple[str, ...], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", "examples/dot.cu", *options, *arguments(*DOT), "--engine", "interp"]
    assert part in refused(capsys, *command)


def test_array_that_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    values = arguments("a=zeros:100", "b=zeros:30", "c=zeros:1", "n=3")
    message = refused(capsys, "run", "examples/dot.cu", *values, "--engine", "interp")
    assert "131" in message
    assert "126" in message


@pytest.mark.parametrize(
    ("values", "part"),
    [
        (DOT[:3], "4 arguments, got 3"),
        ((*DOT, "more=1"), "4 arguments, got 5"),
        (("a=3", *DOT[1:]), "pointer"),
        ((*DOT[:3], "n=[3]"), "an array"),
        ((*DOT[:3], "n=1.5"), "not an integer"),
        (("a=[1,2", *DOT[1:]), "']'"),
        (("a=[1,x]", *DOT[1:]), "not an integer"),
        (("a=[4294967296]", *DOT[1:]), "does not fit i32"),
        (("a:u8=[-1]", *DOT[1:]), "does not fit u8"),
        (("a:f32=[1]", *DOT[1:]), "element type"),
        ((*DOT[:3], "n=99999999999"), "does not fit 32 bits"),
        (("nonsense", *DOT[1:]), "cannot read the argument"),
        (("a=[1]", "a=[2]", *DOT[2:]), "given twice"),
        (("a=zeros:-1", *DOT[1:]), "elements"),
    ],
)
def test_arguments(values: tuple[str, ...], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "examples/dot.cu", *arguments(*values), "--engine", "interp"]
    assert part in refused(capsys, *command)


def test_rom_of_another_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    command = ["compile", "examples/dot.cu", "-o", str(folder), "--to", "rom", "--machine", "nano"]
    assert run_command(command) == 0
    command = ["run", str(folder / "dot.rom"), *arguments(*DOT), "--engine", "interp", "--machine", "classic"]
    message = refused(capsys, *command)
    assert "'nano'" in message
    assert "'classic'" in message


@pytest.mark.parametrize("target", ["/dev/null/out", "/proc/qgpuc-out/deeper"])
def test_folder_that_cannot_be_written(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "compile", "examples/dot.cu", "-o", target, "--to", "rom")
    assert f"cannot write '{target}'" in message


def test_output_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = write(tmp_path, "taken", "mine")
    message = refused(capsys, "compile", "examples/dot.cu", "-o", target, "--to", "rom")
    assert "it is a file" in message
    assert Path(target).read_text() == "mine"


def test_unreadable_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = ("--engine", "interp")
    assert "no-such.cu" in refused(capsys, "run", str(tmp_path / "no-such.cu"), *engine)
    assert "suffix" in refused(capsys, "run", write(tmp_path, "kernel.txt", ""), *engine)
    assert "not text" in refused(capsys, "run", _binary(tmp_path, "kernel.ptx"), *engine)
    for suffix in ("ptx", "mir", "rom"):
        assert f"kernel.{suffix}" in refused(
            capsys, "run", write(tmp_path, f"kernel.{suffix}", "what?\n"), *engine
        )
    several = "__global__ void f(int *a) { a[0] = 1; }\n__global__ void g(int *a) { a[0] = 2; }\n"
    message = refused(capsys, "run", write(tmp_path, "several.cu", several), *engine)
    assert "--entry" in message
    assert "f, g" in message


def _binary(folder: Path, name: str) -> str:
    (folder / name).write_bytes(bytes(range(256)))
    return str(folder / name)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("--machine", "huge"), "unknown machine 'huge'"),
        (("--machine", "none.toml"), "cannot read the machine file"),
        (("--engine", "sparse", "--checkpoint", "nowhere"), "is not a checkpoint of this toolchain"),
        (("--engine", "gpu"), "gpu"),
        (("--frontend", "gcc"), "unknown front end 'gcc'"),
        (("--entry", "nothing"), "nothing"),
        (("--no-such-option",), "no-such-option"),
    ],
)
def test_options(options: tuple[str, ...], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "examples/dot.cu", *arguments(*DOT), "--engine", "interp", *options]
    assert part in refused(capsys, *command)


def test_errors_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "examples/dot.cu", *arguments(*DOT[:3]), "--engine", "interp", "--json"]
    error = json.loads(refused(capsys, *command))["error"]
    assert "4 arguments, got 3" in error["message"]
    assert "hint" in error
    error = json.loads(refused(capsys, "run", "--json"))["error"]
    assert "KERNEL" in error["message"]


def checkpoint_refused(capsys: pytest.CaptureFixture[str], folder: Path) -> str:
    command = ["run", "examples/dot.cu", *arguments(*DOT), "--machine", "nano", "--checkpoint", str(folder)]
    return refused(capsys, *command)


def test_missing_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "checkpoint" in checkpoint_refused(capsys, tmp_path / "nowhere")


def test_foreign_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "config.json", json.dumps({"model_type": "llama", "hidden_size": 8}))
    assert "checkpoint" in checkpoint_refused(capsys, tmp_path)


def test_truncated_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from toolchain.machine_build import ensure_checkpoint
    from toolchain.machine_spec import NANO

    for path in ensure_checkpoint(NANO, "bfloat16").iterdir():
        content = path.read_bytes()
        half = len(content) // 2 if path.suffix == ".safetensors" else len(content)
        (tmp_path / path.name).write_bytes(content[:half])
    message = checkpoint_refused(capsys, tmp_path)
    assert "checkpoint" in message


def test_checkpoint_of_another_machine(capsys: pytest.CaptureFixture[str]) -> None:
    from toolchain.machine_build import ensure_checkpoint
    from toolchain.machine_spec import NANO

    folder = str(ensure_checkpoint(NANO, "bfloat16"))
    command = ["run", "examples/dot.cu", *arguments(*DOT), "--machine", "classic", "--checkpoint", folder]
    message = refused(capsys, *command)
    assert "'nano'" in message
    assert "'classic'" in message


SHARED = """extern __shared__ int extra[];
__global__ void k(int *out) {
    __shared__ int cells[40];
    int mine[4] = {1, 2, 3, 4}, i = threadIdx.x;
    cells[i] = i;
    extra[i] = mine[i & 3];
    __syncthreads();
    mine[i & 3] = cells[(i + 1) & 3];
    out[i] = extra[i] + mine[out[i] & 3];
}
"""


def test_more_shared_memory_than_there_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path, "shared.cu", SHARED)
    command = ("run", source, "--engine", "interp", "--quiet", "--arg", "out=zeros:4", "--block")
    message = refused(capsys, *command, "32", "--shared", "128")
    assert "needs 200 words of shared memory" in message
    assert "static 40, dynamic (--shared) 32, local arrays of 32 threads 128" in message
    assert "hint:" in message
    assert run_command([*command, "4", "--shared", "16"]) == 0
    assert "out = [2, 3, 4, 5]" in capsys.readouterr().out
    assert "--shared" in refused(capsys, *command, "4", "--shared", "-1")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("__shared__ int s[4]; int *p = out[9] ? s : out; s[1] = 2; out[0] = p[1];", "pointer"),
        ('asm("barrier.arrive 1, 32;"); out[0] = 1;', "a barrier of some of the threads"),
        ("__shared__ float s[4]; s[threadIdx.x] = 1.5f; out[0] = s[out[1]];", "floating point"),
    ],
)
def test_memory_that_the_machine_cannot_follow(
    body: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"__global__ void k(int *out) {{\n    {body}\n}}\n"
    answer = compile_refused(capsys, tmp_path, "memory.cu", text)
    assert message in answer
    assert "memory.cu:2" in answer
    assert "hint:" in answer
