"""A test kernel to a cubin: nvcc prints its PTX, ptxas assembles that."""

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.kernels.case import KernelCase
from toolchain.errors import CompileError
from toolchain.ptx_frontend import nvidia
from toolchain.ptx_frontend.names import find_entry
from toolchain.ptx_frontend.parser import parse_ptx

SOURCE = """#include <cuda_runtime.h>
#define warpSize {lanes}
#include "{path}"
"""
"""CUDA's headers declare warpSize, so the kernel's own one comes after them."""


@dataclass(frozen=True)
class Binary:
    """A cubin and the name of its kernel."""

    content: bytes
    kernel: str


def build(case: KernelCase, lanes: int, architecture: str) -> Binary:
    """The cubin of a test kernel for a GPU `architecture` such as sm_90. Raises CompileError where it fails."""
    nvcc = nvidia.find_nvcc()
    if nvcc is None:
        raise CompileError("nvcc is not installed")
    with tempfile.TemporaryDirectory(prefix="qgpuc-") as folder:
        source, ptx, cubin = (Path(folder, name) for name in ("kernel.cu", "kernel.ptx", "kernel.cubin"))
        source.write_text(SOURCE.format(lanes=lanes, path=case.source.resolve()))
        text, _ = nvidia.compile_with_nvcc(nvcc, source, ())
        ptx.write_text(text)
        command = ["ptxas", f"-arch={architecture}", str(ptx), "-o", str(cubin)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise CompileError(f"ptxas refuses '{case.name}': {answer.stdout}{answer.stderr}")
        return Binary(cubin.read_bytes(), find_entry(parse_ptx(text), case.entry).name)
