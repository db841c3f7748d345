"""Runs CUDA kernels on the host: compiles .cu files as C++ against qgpu_host.hpp and runs launches of them.

Nothing of the toolchain takes part: a launch's numbers go in, arrays come out. Many kernels share one program,
each file in a namespace of its own, and many launches share one run of it.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolchain.launch import Argument, ArrayArgument, Launch, ScalarArgument

HEADER = Path(__file__).with_name("qgpu_host.hpp")
FLAGS = (
    "-std=c++17",
    "-O1",
    "-fwrapv",
    "-fsigned-char",
    "-fno-strict-aliasing",
    "-fno-exceptions",
    "-fno-rtti",
    "-w",
)
SANITIZE = ("-fsanitize=undefined", "-fno-sanitize-recover=all", "-DQGPU_SANITIZE", "-g")
"""Shifts by 32 or more, misaligned and null pointers, indices outside an array. Signed overflow wraps, as on GPUs."""
EMPTY_HEADERS = (
    "cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h", "device_functions.h",
)  # fmt: skip
ELEMENT_BYTES = {"i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8}
SECONDS = 600
DYNAMIC_SHARED = re.compile(
    r"extern\s+(?:__align__\([^)]*\)\s*)?__shared__\s+(?:__align__\([^)]*\)\s*)?"
    r"(?P<type>[^;\[\]]*?)\s*\b(?P<name>\w+)\s*\[\s*\]\s*;"
)
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.M)

Arrays = dict[str, list[int]]


class OracleError(Exception):
    """The host compiler refuses a kernel, or there is none."""


class OracleFault(Exception):
    """A launch that has no result: a deadlock, a store outside its arrays, undefined behaviour."""


@dataclass(frozen=True)
class HostKernel:
    """A kernel of a .cu file; `entry` is its name as C++ spells it, `scale<int>` for a template's instance."""

    source: Path
    entry: str


@dataclass(frozen=True)
class HostProgram:
    """A compiled program that runs launches of `kernels`."""

    path: Path
    kernels: tuple[HostKernel, ...]

    def run(self, launches: Iterable[tuple[HostKernel, Launch]], lanes: int) -> list[Arrays | OracleFault]:
        """The arrays after each launch, or why it has none. `lanes` is the width of a warp."""
        asked = list(launches)
        lines = [launch_line(self.kernels.index(kernel), launch, lanes) for kernel, launch in asked]
        answer = subprocess.run(
            [str(self.path)], input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=SECONDS
        )
        answers = answer.stdout.splitlines()
        if answer.returncode != 0 or len(answers) != len(asked):
            raise OracleError(f"the host program failed ({answer.returncode}): {answer.stderr}")
        return [
            read_answer(line, launch, answer.stderr) for line, (_, launch) in zip(answers, asked, strict=True)
        ]


def cxx_compiler() -> list[str] | None:
    """The command of a C++ compiler, None if there is none. g++ first: the front end here is clang."""
    for name in ("g++", "clang++"):
        if shutil.which(name):
            return [name]
    zig = [sys.executable, "-m", "ziglang"]
    if subprocess.run([*zig, "version"], capture_output=True, check=False).returncode == 0:
        return [*zig, "c++", "-fno-sanitize=undefined"]
    return None


def build(kernels: Sequence[HostKernel], folder: Path, *, sanitize: bool = False) -> HostProgram:
    """Compiles the kernels' files into one program in `folder`. Raises OracleError with the compiler's text.

    With `sanitize`, a launch that does what C++ leaves undefined is a fault.
    """
    compiler = cxx_compiler()
    if compiler is None:
        raise OracleError("no C++ compiler: install g++, clang++ or the ziglang package")
    for name in EMPTY_HEADERS:
        (folder / name).touch()
    source, program = folder / "host.cpp", folder / "host"
    source.write_text(program_text(kernels))
    flags = [*FLAGS, *(SANITIZE if sanitize else ()), f"-I{folder}"]
    answer = subprocess.run(
        [*compiler, *flags, str(source), "-o", str(program)], capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        raise OracleError(answer.stderr)
    return HostProgram(program, tuple(kernels))


def program_text(kernels: Sequence[HostKernel]) -> str:
    """The program's C++: each file once, in a namespace, its macros undone after it; then a table of kernels."""
    files = list(dict.fromkeys(kernel.source for kernel in kernels))
    parts = [f'#include "{HEADER}"']
    for number, file in enumerate(files):
        text = file.read_text()
        parts += [f"namespace unit{number} {{", f'#line 1 "{file}"', host_text(text), "}"]
        parts += [f"#undef {name}" for name in dict.fromkeys(MACRO.findall(text))]
    table = ", ".join(f"qgpu::Entry<unit{files.index(k.source)}::{k.entry}>::launch" for k in kernels)
    parts.append(f"static const qgpu::Launcher kernels[] = {{{table}}};")
    parts.append(f"int main() {{ return qgpu::serve(kernels, {len(kernels)}); }}\n")
    return "\n".join(parts)


def host_text(text: str) -> str:
    """A .cu file's text with dynamic shared memory as pointers to the one area it is: C++ has no such arrays."""
    return DYNAMIC_SHARED.sub(r"static \g<type> *const \g<name> = (\g<type> *)qgpu::dynamic_shared;", text)


def launch_line(kernel: int, launch: Launch, lanes: int) -> str:
    """A launch as qgpu::serve reads it."""
    numbers = (kernel, lanes, *launch.grid, *launch.block, launch.dynamic_shared)
    return " ".join([*map(str, numbers), *map(argument_text, launch.arguments)])


def argument_text(argument: Argument) -> str:
    """An array as its bytes, little-endian; a scalar as 64 bits, of which the parameter takes what it holds."""
    if isinstance(argument, ScalarArgument):
        return f"scalar {argument.value % (1 << 64)}"
    size = ELEMENT_BYTES[argument.element]
    content = b"".join((value % (1 << 8 * size)).to_bytes(size, "little") for value in argument.values)
    return f"array {len(content)} {content.hex()}"


def read_answer(line: str, launch: Launch, errors: str) -> Arrays | OracleFault:
    """The arrays of a launch by name, as integers of their element types."""
    kind, _, rest = line.partition(" ")
    if kind != "ok":
        return OracleFault(f"{rest}\n{errors}" if "standard error" in rest else rest)
    arrays = [argument for argument in launch.arguments if isinstance(argument, ArrayArgument)]
    contents = [bytes.fromhex(text.removeprefix(":")) for text in rest.split(" ")] if arrays else []
    return {
        argument.name: elements(content, argument.element)
        for argument, content in zip(arrays, contents, strict=True)
    }


def elements(content: bytes, element: str) -> list[int]:
    """Bytes as integers of an element type."""
    size = ELEMENT_BYTES[element]
    signed = element.startswith("i")
    parts = (content[start : start + size] for start in range(0, len(content), size))
    return [int.from_bytes(part, "little", signed=signed) for part in parts]


def run_oracle(source: Path, entry: str, launch: Launch, lanes: int, *, sanitize: bool = False) -> Arrays:
    """The arrays after one launch of one kernel. Raises OracleFault where the launch has no result."""
    kernel = HostKernel(source, entry)
    with tempfile.TemporaryDirectory(prefix="qgpu-oracle-") as folder:
        program = build((kernel,), Path(folder), sanitize=sanitize)
        result = program.run([(kernel, launch)], lanes)[0]
    if isinstance(result, OracleFault):
        raise result
    return result
