"""What each dialect file is launched with and what it must leave in memory, from Python integers alone."""

from dataclasses import dataclass
from pathlib import Path

from tests.kernels.case import LaunchCase, array, launch_case, zeros
from toolchain.launch import ScalarArgument

FOLDER = Path(__file__).parent
WORD = 1 << 32


@dataclass(frozen=True)
class DialectCase:
    """One file, its kernel, and its launches."""

    name: str
    entry: str
    launches: tuple[LaunchCase, ...]

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.ptx"


def signed(value: int, bits: int = 32) -> int:
    """The low bits of an integer as a signed one."""
    low = value % (1 << bits)
    return low - (1 << bits) if low >> (bits - 1) else low


def scalars(**values: int) -> tuple[ScalarArgument, ...]:
    return tuple(ScalarArgument(name, value) for name, value in values.items())


def clang14() -> LaunchCase:
    """Each value's rank; odd ranks step by -2 and lie above it, even ones compare with 3."""
    values = [9, -4, 7, 0]
    out = []
    for value in values:
        rank = sum(other < value for other in values)
        step = -2 if rank & 1 else 3
        bias = rank - step if rank > step else 10 * step
        out.append(bias + (-1640531527 if rank & 1 else value))
    arguments = (zeros("o", 5), array("a", values), *scalars(n=4))
    return launch_case((1, 1, 1), (4, 1, 1), arguments, dynamic_shared=16, o=[*out, 0])


def clang19() -> LaunchCase:
    """Sums of bytes, scanned over four lanes; the low half of a rotation beside counts of the odd ones."""
    words = [0x01020304, 0xFF000001, 0x10, 0x7F7F7F7F, 5, 6, 0x01010101, 0xFFFFFFFF]
    out = []
    for warp in (0, 4):
        sums = [sum(word.to_bytes(4, "little")) for word in words[warp : warp + 4]]
        scan = [sum(sums[: lane + 1]) for lane in range(4)]
        odd = [value & 1 for value in scan]
        counts = 10 * sum(odd) + 100 * any(odd) + 1000 * all(odd)
        for value in scan:
            rotated = ((value >> 1 & 7) << 4 | value >> 28) % WORD
            out.append(rotated & 0xFFFF | (counts & 0xFFFF) << 16)
    out = [(value + (7 << 24)) % WORD for value in out]
    arguments = (zeros("o", 8), array("a", [signed(word) for word in words]))
    return launch_case((1, 1, 1), (8, 1, 1), arguments, o=out)


def clang22() -> LaunchCase:
    """A switch by value, a row that is filled and turned round, and a 64-bit sum in shared memory."""
    values = [0, 1, 2, 3, 4, 9, 2, 0]
    low, half, scale = 1000, -77, 0x123456789ABCDEF
    out, count = [], 6
    codes = [1, 2, 3, 4]
    for t in range(count):
        value = values[t]
        switch = {
            0: low + half,
            1: (scale ^ scale >> 32) % WORD,
            2: codes[2 if t % 2 == 0 else 1],
            3: low + half,
        }
        picked = switch.get(value, 3)
        row = [picked, 0, -1, t]
        row[t & 3] = t
        out.append((row[3] + row[2] + 7 * row[1]) ^ row[0])
    structure = low | (half % 65536) << 32 | scale << 64
    arguments = (zeros("o", 10), array("a", values), *scalars(s=structure, n=count))
    total = sum(values[:count])
    return launch_case((1, 1, 1), (8, 1, 1), arguments, o=[*out, total % WORD, total >> 32, 0, 0])


def nvcc13() -> LaunchCase:
    """A window over a tile in shared memory, with a device function and a structure by value."""
    values = [5, 0, -3, 257]
    weights = [1, -2, 3]
    low, step, scale = 7, -1000, 3_000_000_001
    out, total = [], 0
    for t, value in enumerate(values):
        window = sum(weights[k] * values[(t + k) & 3] for k in range(3))
        byte = signed(value, 8)
        pick = -7 if byte == 0 else 100 if byte == 1 else 2 * byte
        out.append(window + pick + scale * low + step + values[t ^ 1] + 1)
        total += window + values[0]
    structure = low | (step % 65536) << 32 | scale << 64
    arguments = (zeros("o", 5), array("a", values), *scalars(r=structure, n=4))
    return launch_case((1, 1, 1), (4, 1, 1), arguments, dynamic_shared=32, o=[*out, total])


def nvrtc() -> LaunchCase:
    """Constant and pointer tables, a structure of 24 bytes, a byte, and 64-bit words in shared memory."""
    weights, first = [1, -2, 3, 0], [10, 20, 30, 40]
    a, b, c, d, e = 11, -3, -100_000, 0x1_0000_0003, 200
    out = []
    for t in range(8):
        swapped = (d * (t ^ 1) + c) % (1 << 64)
        mixed = swapped % WORD ^ swapped >> 32
        table = first[2 * (t & 1) + 1]
        value = weights[t & 3] + table + (t * b + e * a) + c + (c >> 4) + mixed
        out.append(value * 4)
    structure = a | (b % WORD) << 32 | (c % WORD) << 64 | d << 128
    arguments = (zeros("o", 8), *scalars(p=structure, e=e))
    return launch_case((1, 1, 1), (8, 1, 1), arguments, dynamic_shared=64, o=out)


def triton() -> LaunchCase:
    """The distance of each value to its block's least, and the sum of those; the last lanes are masked."""
    values = [5, 3, 9, -2, 8, 8, 7, 100, 40, 41, 30, 77]
    least = [min(values[:8]), min(values[8:])]
    out = [value - least[i // 8] for i, value in enumerate(values)]
    arguments = (array("x", values), zeros("y", 12), zeros("m", 2), *scalars(n=12))
    return launch_case((2, 1, 1), (8, 1, 1), arguments, y=out, m=least)


def numba() -> LaunchCase:
    """int64 arrays as numba passes them: parent, memory information, items, size, pointer, extent, stride, factor."""
    values = [3, -5, 1 << 40, 7]
    factor = -(1 << 33) + 5
    doubled = [2 * (t * factor - 3) for t in range(4)]
    out = [values[t] * abs(doubled[t] - doubled[t ^ 1]) + doubled[t] for t in range(4)]
    before, after = scalars(meminfo=0, parent=0, items=4, size=8), scalars(extent=4, stride=8, factor=factor)
    arguments = (*before, array("v", values, "i64"), *after)
    case = launch_case((1, 1, 1), (4, 1, 1), arguments)
    return LaunchCase(case.launch, {"v": [signed(value, 64) for value in out]})


def tinygrad() -> LaunchCase:
    """Sums of three with a gate past the end; the sums of pairs, their maximum, and the first byte."""
    values = [131, 2, 3, -4, 5, 6, 7, 8, -90, 10, 11, 12]
    start = 1000
    gated = [value if i < 11 else -1640531527 for i, value in enumerate(values)]
    sums = [start + sum(gated[3 * t : 3 * t + 3]) for t in range(4)]
    pairs = [sums[0] + sums[1], sums[2] + sums[3]]
    arguments = (zeros("o", 4), array("a", values), *scalars(start=start))
    return launch_case(
        (1, 1, 1), (4, 1, 1), arguments, o=[*pairs, max(map(signed, pairs)), signed(values[0], 8)]
    )


def byhand() -> LaunchCase:
    """See the file: nested scopes, vector registers, parameters in registers, every literal form."""
    r = 12
    entry = [16, 5, 15, 9]
    received = []
    for t in range(4):
        result, less = t + (r != 0), r < t
        received.append(result + 1000 if less else result - (r - 1))
    rows = []
    for t in range(4):
        raised = entry[t]
        while raised < 8:
            raised += 5
        rows += [raised + received[t ^ 1] + entry[t], -3, 2, 3]
    arguments = (zeros("o", 16), *scalars(visible=r))
    return launch_case((1, 1, 1), (4, 1, 1), arguments, o=rows)


CASES = (
    DialectCase("clang14", "_Z7rankingPiPKii", (clang14(),)),
    DialectCase("clang19", "prefixes", (clang19(),)),
    DialectCase("clang22", "tally", (clang22(),)),
    DialectCase("nvcc13", "_Z6windowPiPKi5Rangei", (nvcc13(),)),
    DialectCase("nvrtc", "mix", (nvrtc(),)),
    DialectCase("triton", "softmin_kernel", (triton(),)),
    DialectCase("numba", "_ZN6cudapy8__main__6spreadB2v1Ex", (numba(),)),
    DialectCase("tinygrad", "r_4_3", (tinygrad(),)),
    DialectCase("byhand", "call", (byhand(),)),
)
