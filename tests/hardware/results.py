"""RESULTS.json: what each launch of each test kernel left in memory on a device."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.kernels.case import KernelCase
from tests.kernels.cases import CASES
from toolchain.launch import ArrayArgument, Launch
from toolchain.machine_spec import MachineSpec

FILE = Path(__file__).with_name("RESULTS.json")

Arrays = dict[str, list[int]]


@dataclass(frozen=True)
class Result:
    """One launch. `arguments` are as the launch was given, so that a changed test is told from a wrong result."""

    kernel: str
    launch: int
    arguments: dict[str, Any]
    outputs: Arrays


@dataclass(frozen=True)
class Results:
    """All launches on one device."""

    device: str
    compute_capability: str
    driver: int
    nvcc: str
    machine: str
    results: tuple[Result, ...]


class Device(Protocol):
    """What runs kernels. `run` gives every array after the launch."""

    name: str
    compute_capability: str
    driver: int

    def run(self, case: KernelCase, launch: Launch) -> Arrays: ...


def described(launch: Launch) -> dict[str, Any]:
    """A launch as JSON."""
    arguments = {
        argument.name: [argument.element, *argument.values]
        if isinstance(argument, ArrayArgument)
        else argument.value
        for argument in launch.arguments
    }
    extents = {"grid": list(launch.grid), "block": list(launch.block)}
    return {**extents, "dynamic_shared": launch.dynamic_shared, "arguments": arguments}


def launches(spec: MachineSpec) -> Iterator[tuple[KernelCase, int, Launch, Arrays]]:
    """Every launch of the kernels that fit a machine: case, number of the input set, launch, what it must leave."""
    for case in CASES:
        if case.fits(spec):
            for number, launch in enumerate(case.launches(spec)):
                yield case, number, launch.launch, launch.expected()


def run_all(device: Device, nvcc: str, spec: MachineSpec) -> Results:
    """Every launch on `device`."""
    results = tuple(
        Result(case.name, number, described(launch), device.run(case, launch))
        for case, number, launch, _ in launches(spec)
    )
    return Results(device.name, device.compute_capability, device.driver, nvcc, spec.name, results)


def differences(results: Results, spec: MachineSpec) -> list[str]:
    """What is wrong with the results: launches that are missing or were others, and arrays that differ."""
    found = {(result.kernel, result.launch): result for result in results.results}
    wrong = []
    for case, number, launch, expected in launches(spec):
        result = found.get((case.name, number))
        if result is None or result.arguments != described(launch):
            wrong.append(f"{case.name}, input set {number}: did not run as it is now; run it again")
        elif result.outputs != expected:
            wrong.append(f"{case.name}, input set {number}: {result.outputs} instead of {expected}")
    return wrong


def write_results(results: Results, path: Path = FILE) -> None:
    """The file, a launch a line."""
    head = {key: value for key, value in asdict(results).items() if key != "results"}
    lines = ",\n  ".join(json.dumps(asdict(result)) for result in results.results)
    path.write_text(f'{json.dumps(head, indent=1)[:-2]},\n "results": [\n  {lines}\n ]\n}}\n')


def read_results(path: Path = FILE) -> Results:
    """What the file says."""
    content = json.loads(path.read_text())
    return Results(**{**content, "results": tuple(Result(**result) for result in content["results"])})
