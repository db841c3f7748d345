"""Kernels that were wrong once, kept as NAME.cu and NAME.json: the launches, and what they leave on each machine."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.kernels import FuzzKernel
from tests.oracle.driver import Arrays
from toolchain.launch import Argument, ArrayArgument, Launch, ScalarArgument

FOLDER = Path(__file__).parent.parent / "regressions"


@dataclass(frozen=True)
class Regression:
    """A kernel and, by machine, its arrays after each launch."""

    kernel: FuzzKernel
    expected: dict[str, list[Arrays]]


def save(regression: Regression, folder: Path = FOLDER) -> Path:
    """Writes the two files; answers the .cu's path."""
    kernel = regression.kernel
    path = folder / f"{kernel.name}.cu"
    path.write_text(kernel.source)
    launches = [_launch_json(launch) for launch in kernel.launches]
    text = json.dumps({"launches": launches, "expected": regression.expected}, indent=1)
    path.with_suffix(".json").write_text(_short_lists(text) + "\n")
    return path


def load(path: Path) -> Regression:
    """The regression of a .cu file; its kernel is named as the file."""
    data = json.loads(path.with_suffix(".json").read_text())
    launches = tuple(_launch(item) for item in data["launches"])
    return Regression(FuzzKernel(path.stem, path.read_text(), launches), data["expected"])


def _launch_json(launch: Launch) -> dict[str, Any]:
    arguments = [
        {"name": a.name, "value": a.value}
        if isinstance(a, ScalarArgument)
        else {"name": a.name, "element": a.element, "values": list(a.values)}
        for a in launch.arguments
    ]
    shape = {"grid": list(launch.grid), "block": list(launch.block), "dynamic_shared": launch.dynamic_shared}
    return {**shape, "arguments": arguments}


def _launch(data: dict[str, Any]) -> Launch:
    arguments: list[Argument] = [
        ScalarArgument(item["name"], item["value"])
        if "value" in item
        else ArrayArgument(item["name"], tuple(item["values"]), item["element"])
        for item in data["arguments"]
    ]
    return Launch(tuple(data["grid"]), tuple(data["block"]), tuple(arguments), data["dynamic_shared"])


def _short_lists(text: str) -> str:
    """Indented JSON with every list of numbers on one line."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        bare = line.strip()
        if inside:
            lines[-1] += bare + ("" if bare.startswith("]") or not bare.endswith(",") else " ")
            inside = not bare.startswith("]")
        else:
            lines.append(line)
            inside = bare.endswith("[") and not bare.startswith(
                ('"launches', '"arguments', '"nano', '"classic')
            )
    return "\n".join(lines)
