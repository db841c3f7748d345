"""CUDA to PTX: chooses a front end and runs it.

    clang    the ziglang wheel's clang or the system's; LLVM IR, then our own passes and LLVM's NVPTX backend
    nvrtc    the nvidia-cuda-nvrtc wheel, through ctypes
    nvcc     nvcc -ptx

`auto` takes the first that is installed, in this order. The clang path needs no NVIDIA software: the CUDA
names come from `prelude.cuh`. Only the clang path prints PTX with 32-bit addresses, its default; there `size_t`
and `long` have 32 bits too (write `long long` for 64). `warpSize` is the machine's.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from toolchain.errors import CompileError
from toolchain.ptx_frontend import clang, llvm_passes, nvidia


@dataclass(frozen=True)
class PtxText:
    """PTX and the front end that printed it; `warnings` is what the compiler said about the user's file."""

    text: str
    frontend_name: str
    warnings: str = ""


def compile_cuda(
    path: Path, frontend: str = "auto", defines: tuple[str, ...] = (), address_size: int = 32
) -> PtxText:
    """The PTX of a `.cu` file. `defines` are macros, `NAME` or `NAME=VALUE`; `address_size` is 32 or 64.

    Raises CompileError where the file cannot be read, no front end is installed, or the compiler refuses it;
    then the location is the user's own line.
    """
    if frontend not in FRONTENDS and frontend != "auto":
        raise CompileError(f"unknown front end '{frontend}'", hint=f"use one of auto, {', '.join(FRONTENDS)}")
    try:
        path.read_bytes()
    except OSError as error:
        raise CompileError(f"cannot read '{path}': {error.strerror}") from error
    names = list(FRONTENDS) if frontend == "auto" else [frontend]
    for name in names:
        result = FRONTENDS[name](path, defines, address_size)
        if result is not None:
            return replace(result, text=tidy_ptx(result.text, str(path)))
    raise CompileError(
        f"no CUDA front end is installed (tried {', '.join(names)})",
        hint="`pip install ziglang` brings a clang that compiles CUDA",
    )


def _with_clang(path: Path, defines: tuple[str, ...], address_size: int) -> PtxText | None:
    compiler = clang.find_clang()
    if compiler is None:
        return None
    bitcode, warnings = clang.compile_to_bitcode(compiler, path, defines, address_size)
    return PtxText(llvm_passes.bitcode_to_ptx(bitcode, address_size), compiler.name, warnings)


def _with_nvrtc(path: Path, defines: tuple[str, ...], _address_size: int) -> PtxText | None:
    library = nvidia.find_nvrtc()
    if library is None:
        return None
    text, warnings = nvidia.compile_with_nvrtc(library, path, defines)
    return PtxText(text, "nvrtc", warnings)


def _with_nvcc(path: Path, defines: tuple[str, ...], _address_size: int) -> PtxText | None:
    nvcc = nvidia.find_nvcc()
    if nvcc is None:
        return None
    text, warnings = nvidia.compile_with_nvcc(nvcc, path, defines)
    return PtxText(text, "nvcc", warnings)


def tidy_ptx(text: str, file: str) -> str:
    """The PTX without debug sections, their labels and comments; the file named as the user named it."""
    text = re.sub(r"\.section[^{]*\{[^}]*\}", "", text)
    lines: list[str] = []
    for line in text.splitlines():
        line = re.sub(r"\s*//.*$", "", line)
        if re.match(r"\$L__(tmp|func_begin|func_end)\d+:", line) or '.pragma "nounroll"' in line:
            continue
        if match := re.match(r'(\s*\.file\s+\d+\s+)"(.*)"', line):
            same = match[2].rsplit("/", 1)[-1] == file.rsplit("/", 1)[-1]
            line = f'{match[1]}"{file if same else match[2]}"'
        if line.strip():
            lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


FRONTENDS: dict[str, Callable[[Path, tuple[str, ...], int], PtxText | None]] = {
    "clang": _with_clang,
    "nvrtc": _with_nvrtc,
    "nvcc": _with_nvcc,
}
"""Front ends by name, in the order `auto` tries them. Each answers None where it is not installed."""
