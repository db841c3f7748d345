"""Runs clang on a CUDA file, with our prelude in place of NVIDIA's headers, and reads its diagnostics."""

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from toolchain.errors import CompileError, SourceLocation

PRELUDE = Path(__file__).with_name("prelude.cuh")

STUB_HEADERS = (
    "cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h", "device_functions.h",
    "stdint.h", "stddef.h", "limits.h", "stdio.h", "stdlib.h", "assert.h",
    "cstdint", "cstddef", "climits", "cstdio", "cstdlib", "cassert",
)  # fmt: skip
"""Headers a kernel file may include; the prelude already declares what a kernel can use of them."""

FLAGS = (
    "-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_70", "-nocudainc", "-nocudalib", "-nostdlibinc",
    "-std=c++17", "-malign-double", "-fwrapv", "-fno-jump-tables", "-gline-tables-only",
    "-O2", "-Xclang", "-disable-llvm-passes", "-c", "-emit-llvm",
    "-fno-color-diagnostics", "-fno-caret-diagnostics", "-Wno-unknown-cuda-version",
)  # fmt: skip
"""-O2 only so that clang marks nothing `noinline`; the passes are ours (llvm_passes.py). -fwrapv: the machine
wraps, and no loop is turned into another on the grounds that it must not. No jump tables: the machine
branches two ways, and a table of constants would take global memory. -malign-double: 64-bit integers lie at
multiples of eight bytes, as they do in CUDA, also where addresses have 32 bits."""

DIAGNOSTIC = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+):(?P<column>\d+): (?P<kind>(?:fatal )?error|warning): (?P<text>.*)$",
    re.M,
)


@dataclass(frozen=True)
class Clang:
    """A clang that was found: `command` starts it, `version` is its major version."""

    name: str
    command: tuple[str, ...]
    version: int


def find_clang() -> Clang | None:
    """The ziglang wheel's clang, else the system's, else None."""
    if importlib.util.find_spec("ziglang") is not None:
        return Clang("ziglang clang", (sys.executable, "-m", "ziglang", "clang"), 22)
    system = shutil.which("clang")
    if system is None:
        return None
    answer = subprocess.run([system, "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"version (\d+)", answer.stdout)
    return Clang("system clang", (system,), int(version.group(1)) if version else 0)


def compile_to_bitcode(
    compiler: Clang, path: Path, defines: tuple[str, ...] = (), address_size: int = 32
) -> tuple[bytes, str]:
    """LLVM bitcode of the device side of `path`, unoptimised, and the compiler's warnings.

    Raises CompileError at the first error's line; further errors follow in its hint.
    """
    with tempfile.TemporaryDirectory(prefix="qgpuc-") as folder:
        for header in STUB_HEADERS:
            Path(folder, header).touch()
        output = Path(folder, "kernel.bc")
        command = [*compiler.command, *FLAGS, f"-m{address_size}", *_version_flags(compiler)]
        command += ["-isystem", folder, "-include", str(PRELUDE), *(f"-D{define}" for define in defines)]
        command += [str(path), "-o", str(output)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise diagnostics_error(answer.stderr, path)
        return output.read_bytes(), "\n".join(m.group(0) for m in DIAGNOSTIC.finditer(answer.stderr))


def _version_flags(compiler: Clang) -> tuple[str, ...]:
    if compiler.version < 16:
        return "-Xclang", "-target-feature", "-Xclang", "+ptx64", "-Xclang", "-opaque-pointers"
    return ()


def diagnostics_error(stderr: str, path: Path) -> CompileError:
    """The CompileError for what clang printed about `path`: the first error's place, the others as a list."""
    errors = [match for match in DIAGNOSTIC.finditer(stderr) if "error" in match["kind"]]
    own = [match for match in errors if match["file"] == str(path)] or errors
    if not own:
        return CompileError(f"clang could not compile '{path}'", hint=stderr.strip())
    first = own[0]
    location = SourceLocation(first["file"], int(first["line"]), int(first["column"]))
    others = "; ".join(f"{m['file']}:{m['line']}: {m['text']}" for m in own[1:6])
    hint = f"also: {others}" if others else ""
    return CompileError(first["text"], location, hint=hint, excerpt=source_line(location))


def source_line(location: SourceLocation) -> str:
    """The text at a location, tabs as single spaces so that a caret stands right; empty if unreadable."""
    try:
        lines = Path(location.file).read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return lines[location.line - 1].replace("\t", " ") if 0 < location.line <= len(lines) else ""
