"""The machine that measures, as a measurement is stored with it."""

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from bench.stored import Row, read_json

VECTOR_FLAGS = ("sse4_2", "avx", "avx2", "bmi2", "fma", "avx512", "amx", "neon", "asimd", "sve")
"""Of the processor's flags, what these begin is named: it decides how fast integer and matrix code can be."""
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True)
class Host:
    """Sizes in bytes as the system words them. `load`: other work as it began, processes that wanted to run."""

    processor: str
    cores: int
    caches: list[str]
    flags: list[str]
    memory_gigabytes: float
    system: str
    python: str
    torch: str
    llvmlite: str
    load: float

    def lines(self) -> Iterator[str]:
        """The description, then what it ran and under which load; no line is long."""
        caches = ", ".join(self.caches) or "caches unknown"
        yield f"On {self.cores} cores of {self.processor} ({caches}),"
        yield f"{self.memory_gigabytes} GB, {self.system};"
        yield f"Python {self.python}, torch {self.torch}, llvmlite {self.llvmlite}."
        yield f"Load average as the measurement began: {self.load}."


def read_measurement(path: Path, kind: type[Row]) -> Row:
    """A stored measurement: an object with the machine as its field `host`."""
    item = read_json(path)
    return kind(**{**item, "host": Host(**item["host"])})


def describe() -> Host:
    """This machine, now."""
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    info = _processor_info()
    flags = info.get("flags", info.get("Features", "")).split()
    return Host(
        info.get("model name") or platform.processor() or platform.machine(),
        os.cpu_count() or 1,
        list(_caches()),
        sorted(flag for flag in flags if flag.startswith(VECTOR_FLAGS)),
        round(pages * page / 1e9, 1),
        platform.platform(),
        platform.python_version(),
        version("torch"),
        version("llvmlite"),
        round(os.getloadavg()[0], 1),
    )


def _processor_info() -> dict[str, str]:
    """The first processor's fields in /proc/cpuinfo; empty where there is none."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return {}
    first = path.read_text().split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _caches() -> Iterator[str]:
    """Level, kind and size of each cache of the first core."""
    for folder in sorted(CACHES.glob("index*")):
        level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        yield f"L{level} {kind.lower()} {size}"
