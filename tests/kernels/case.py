"""A test kernel: its file, the machines it fits, its launches and what they must leave in memory."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toolchain.launch import ELEMENT_BITS, Argument, ArrayArgument, Launch
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec

FOLDER = Path(__file__).parent

INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
WORD = 1 << 32
TOP = WORD - 1
MACHINES = (NANO, CLASSIC)
EDGES = (0, -1, INT_MIN, INT_MAX, 1, -2, 0x55555555, -0x55555556)

Extents = tuple[int, int, int]


@dataclass(frozen=True)
class LaunchCase:
    """One launch and the arrays it must change; arrays that are not named must stay as they were."""

    launch: Launch
    changed: dict[str, list[int]]

    def expected(self) -> dict[str, list[int]]:
        """Every array after the launch."""
        arrays = self.launch.read_back(self.launch.initial_words())
        for name, values in self.changed.items():
            assert len(values) == len(arrays[name]), name
            arrays[name] = values
        return arrays


Launches = Callable[[MachineSpec], tuple[LaunchCase, ...]]


@dataclass(frozen=True)
class KernelCase:
    """A kernel, its file, its launches on a machine, and the machines it fits."""

    name: str
    source: Path
    entry: str
    launches: Launches
    machines: tuple[MachineSpec, ...] = MACHINES

    def fits(self, spec: MachineSpec) -> bool:
        """Whether the kernel is meant for the machine."""
        return spec in self.machines


def array(name: str, values: object, element: str | None = None) -> ArrayArgument:
    """An array of `element`s; without one, u32 for a numpy array of that type and else i32."""
    numbers = values if isinstance(values, np.ndarray) else big(values)
    assert numbers.dtype.kind in "iuO", numbers.dtype
    chosen = element or ("u32" if numbers.dtype == np.uint32 else "i32")
    return ArrayArgument(name, tuple(int(value) for value in numbers.ravel()), chosen)


def zeros(name: str, count: int, element: str = "i32") -> ArrayArgument:
    return ArrayArgument(name, (0,) * count, element)


def launch_case(
    grid: Extents,
    block: Extents,
    arguments: tuple[Argument, ...],
    *,
    dynamic_shared: int = 0,
    **changed: object,
) -> LaunchCase:
    """A launch with the arrays it changes, as anything numpy reads; wrapped to the array's element type.

    `dynamic_shared` is in bytes.
    """
    elements = {
        argument.name: argument.element for argument in arguments if isinstance(argument, ArrayArgument)
    }
    wrapped = {name: wrap(values, elements[name]) for name, values in changed.items()}
    return LaunchCase(Launch(grid, block, arguments, dynamic_shared), wrapped)


def wrap(values: object, element: str) -> list[int]:
    """Integers of any size reduced to the element's bits, signed or not."""
    size = 1 << ELEMENT_BITS[element]
    reduced = [int(value) % size for value in np.asarray(values, dtype=object).ravel()]
    return [value - size if element.startswith("i") and 2 * value >= size else value for value in reduced]


def big(values: object) -> np.ndarray:
    """An array of Python integers, which do not wrap."""
    return np.asarray(values, dtype=object)


def line(count: int) -> Extents:
    return (count, 1, 1)


ONE = line(1)


def kernels(
    *launches: Launches, machines: tuple[MachineSpec, ...] = MACHINES, folder: Path = FOLDER
) -> tuple[KernelCase, ...]:
    """A case for each function of launches: the kernel and its file are named as the function."""
    names = [function.__name__ for function in launches]
    return tuple(
        KernelCase(name, folder / f"{name}.cu", name, function, machines)
        for name, function in zip(names, launches, strict=True)
    )
