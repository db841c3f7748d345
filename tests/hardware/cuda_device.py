"""A GPU through the CUDA driver API (libcuda, by ctypes). CUDA Driver API reference, chapter "Module Management" ff."""

import ctypes
from functools import lru_cache
from typing import Any

from tests.hardware.build import build
from tests.hardware.results import Arrays
from tests.kernels.case import KernelCase
from toolchain.launch import ArrayArgument, Launch

PARAMETER_BYTES = 64
"""Room for a scalar or a structure by value; the driver reads as much as the kernel's parameter has."""

COMPUTE_CAPABILITY = (75, 76)
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR."""


class CudaError(RuntimeError):
    """A driver call that failed."""


class CudaDevice:
    """The first GPU. `lanes` is what `warpSize` is to be in the kernels."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.build = lru_cache(maxsize=1)(build)  # a kernel's launches follow each other
        try:
            self.cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise CudaError(f"there is no NVIDIA driver here: {error}") from error
        self.call("cuInit", 0)
        self.handle, version, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(self.handle), 0)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, len(name), self.handle)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.handle)
        self.call("cuCtxSetCurrent", context)
        major, minor = map(self.attribute, COMPUTE_CAPABILITY)
        self.name, self.driver = name.value.decode(), version.value
        self.compute_capability = f"{major}.{minor}"

    def call(self, function: str, *arguments: Any) -> None:
        """A driver call. Raises CudaError with the driver's own words."""
        status = getattr(self.cuda, function)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorString(status, ctypes.byref(text))
            raise CudaError(f"{function}: {(text.value or b'unknown').decode()} ({status})")

    def attribute(self, number: int) -> int:
        """A CUdevice_attribute."""
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, self.handle)
        return value.value

    def run(self, case: KernelCase, launch: Launch) -> Arrays:
        """Every array after the launch; the module is loaded afresh, so its variables are as they begin."""
        binary = self.build(case, self.lanes, f"sm_{self.compute_capability.replace('.', '')}")
        module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), binary.content)
        self.call("cuModuleGetFunction", ctypes.byref(kernel), module, binary.kernel.encode())
        arrays = {a.name: self.upload(a) for a in launch.arguments if isinstance(a, ArrayArgument)}
        values = [
            arrays[argument.name].value or 0 if isinstance(argument, ArrayArgument) else argument.value
            for argument in launch.arguments
        ]
        self.launch(kernel, launch, values)
        outputs: Arrays = {}
        for argument in launch.arguments:
            if isinstance(argument, ArrayArgument):
                outputs |= self.download(argument, arrays[argument.name])
        self.call("cuModuleUnload", module)
        return outputs

    def launch(self, kernel: ctypes.c_void_p, launch: Launch, values: list[int]) -> None:
        """Runs the kernel to its end."""
        low = 1 << (8 * PARAMETER_BYTES)
        buffers = [
            ctypes.create_string_buffer((value % low).to_bytes(PARAMETER_BYTES, "little"), PARAMETER_BYTES)
            for value in values
        ]
        pointers = (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))
        extents = (*launch.grid, *launch.block)
        self.call("cuLaunchKernel", kernel, *extents, launch.dynamic_shared, None, pointers, None)
        self.call("cuCtxSynchronize")

    def upload(self, argument: ArrayArgument) -> ctypes.c_uint64:
        """Device memory with the array's values."""
        words = _alone(argument).initial_words()
        content = b"".join(word.to_bytes(4, "little") for word in words) or bytes(4)
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(len(content)))
        self.call("cuMemcpyHtoD_v2", address, content, ctypes.c_size_t(len(content)))
        return address

    def download(self, argument: ArrayArgument, address: ctypes.c_uint64) -> Arrays:
        """The array in device memory, which is given back."""
        words = (ctypes.c_uint32 * max(argument.words, 1))()
        self.call("cuMemcpyDtoH_v2", words, address, ctypes.c_size_t(ctypes.sizeof(words)))
        self.call("cuMemFree_v2", address)
        return _alone(argument).read_back(list(words))


def _alone(argument: ArrayArgument) -> Launch:
    """A launch of nothing but the array: it knows how values lie in words."""
    return Launch((1, 1, 1), (1, 1, 1), (argument,))
