"""NVIDIA's own front ends, where they are installed: NVRTC through ctypes, and nvcc -ptx."""

import ctypes
import importlib.util
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from toolchain.errors import CompileError, SourceLocation
from toolchain.ptx_frontend.clang import source_line

ARCHITECTURE = "compute_75"
"""The oldest architecture CUDA 13 compiles for."""

DIAGNOSTIC = re.compile(
    r"^(?P<file>[^(\n]+)\((?P<line>\d+)\): (?:catastrophic )?error(?:[ :#].*?)?: (?P<text>.*)$", re.M
)


def find_nvrtc() -> Path | None:
    """The NVRTC library of the nvidia-cuda-nvrtc wheel, or None."""
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec else []:
        found = sorted(Path(root).glob("*/lib/libnvrtc.so.*")) + sorted(Path(root).glob("*/bin/nvrtc64*.dll"))
        found = [path for path in found if "builtins" not in path.name and ".alt." not in path.name]
        if found:
            return found[0]
    return None


def compile_with_nvrtc(library: Path, path: Path, defines: tuple[str, ...]) -> tuple[str, str]:
    """PTX and the compiler's log. Raises CompileError at the user's line."""
    nvrtc = ctypes.CDLL(str(library))
    program = ctypes.c_void_p()
    options = [f"--gpu-architecture={ARCHITECTURE}", "-lineinfo", "-default-device", f"-I{path.parent}"]
    options += [f"-D{define}" for define in defines]
    encoded = [option.encode() for option in options]
    status = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), path.read_bytes(), str(path).encode(), 0, None, None
    )
    if status != 0:
        raise CompileError(f"NVRTC could not start (status {status})")
    status = nvrtc.nvrtcCompileProgram(program, len(encoded), (ctypes.c_char_p * len(encoded))(*encoded))
    log = _nvrtc_text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
    if status != 0:
        raise _diagnostics_error(log, path, "NVRTC")
    text = _nvrtc_text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return text, log.strip()


def _nvrtc_text(size_of: Any, read: Any, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(max(size.value, 1))
    read(program, buffer)
    return buffer.value.decode(errors="replace")


def find_nvcc() -> str | None:
    """nvcc on the path, or None."""
    return shutil.which("nvcc")


def compile_with_nvcc(nvcc: str, path: Path, defines: tuple[str, ...]) -> tuple[str, str]:
    """PTX and the compiler's warnings. Raises CompileError at the user's line."""
    with tempfile.TemporaryDirectory(prefix="qgpuc-") as folder:
        output = Path(folder, "kernel.ptx")
        command = [nvcc, "-ptx", f"-arch={ARCHITECTURE}", "-lineinfo", *(f"-D{define}" for define in defines)]
        answer = subprocess.run(
            [*command, str(path), "-o", str(output)], capture_output=True, text=True, check=False
        )
        if answer.returncode != 0:
            raise _diagnostics_error(answer.stdout + answer.stderr, path, "nvcc")
        return output.read_text(), answer.stderr.strip()


def _diagnostics_error(log: str, path: Path, compiler: str) -> CompileError:
    errors = list(DIAGNOSTIC.finditer(log))
    if not errors:
        return CompileError(f"{compiler} could not compile '{path}'", hint=log.strip())
    location = SourceLocation(errors[0]["file"], int(errors[0]["line"]))
    others = "; ".join(f"{m['file']}:{m['line']}: {m['text']}" for m in errors[1:6])
    return CompileError(
        errors[0]["text"], location, hint=f"also: {others}" if others else "", excerpt=source_line(location)
    )
