"""Bits, bytes, hashes and short data types. The references are Python's bytes, zlib and integers."""

import zlib
from base64 import b64encode
from collections.abc import Iterator

import numpy as np

from tests.kernels.case import (
    EDGES,
    INT_MAX,
    ONE,
    TOP,
    WORD,
    LaunchCase,
    array,
    big,
    kernels,
    launch_case,
    line,
    zeros,
)
from toolchain.launch import ArrayArgument, ScalarArgument
from toolchain.machine_spec import MachineSpec


def words(name: str, values: object) -> ArrayArgument:
    return array(name, values, "u32")


def little_endian(value: int) -> bytes:
    return value.to_bytes(4, "little")


def popcount_tricks(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def following(x: int) -> int:
        """The next number with as many ones: its lowest run's top bit moves up, the rest of the run to the end."""
        bits = f"0{x:b}"
        place = bits.rindex("01")
        tail = "".join(sorted(bits[place + 2 :]))
        return int(f"{bits[:place]}10{tail}", 2)

    def case(*values: int) -> LaunchCase:
        count = len(values)
        outputs = (zeros("count", count, "u32"), zeros("power", count, "u32"), zeros("next", count, "u32"))
        return launch_case(
            ONE,
            line(count),
            (words("in", values), *outputs),
            count=[value.bit_count() for value in values],
            power=[1 << (value - 1).bit_length() for value in values],
            next=[following(value) for value in values],
        )

    return (
        case(1, 6, 0x2C, 0x80),
        case(0x7FFFFFFF, 0x55555555, 0x40000000, 0x7FFF0000),
        case(0xBFFFFFFF, 0x80000001, 0x3FFFFFFE, 3),
    )


def crc32_bitwise(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*values: int) -> LaunchCase:
        sums = [zlib.crc32(little_endian(value)) for value in values]
        return launch_case(
            ONE, line(len(values)), (words("in", values), zeros("out", len(values), "u32")), out=sums
        )

    return case(0x64636261, 1), case(0, TOP, 1 << 31, 0xDEADBEEF), case(0xEDB88320, 0xFF000000)


def _strings(*strings: bytes) -> tuple[ArrayArgument, ArrayArgument]:
    """Strings one after another, and where each starts, with the end of the last."""
    starts = np.cumsum([0, *(len(string) for string in strings)])
    return array("text", list(b"".join(strings)), "u8"), array("start", starts, "i32")


def crc32_table(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*strings: bytes) -> LaunchCase:
        arguments = (*_strings(*strings), zeros("out", len(strings), "u32"))
        return launch_case(ONE, line(len(strings)), arguments, out=[zlib.crc32(s) for s in strings])

    return (
        case(b"123456789", b"warp"),
        case(b"", b"\0", b"\xff\xff\xff\xff", b"lane 3"),
        case(bytes(range(250, 256))),
    )


def fnv1a64(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def fnv(string: bytes) -> int:
        value = 14695981039346656037
        for byte in string:
            value = (value ^ byte) * 1099511628211 % (1 << 64)
        return value

    def case(*strings: bytes) -> LaunchCase:
        arguments = (zeros("hash", len(strings), "u64"), *_strings(*strings))
        return launch_case(ONE, line(len(strings)), arguments, hash=[fnv(s) for s in strings])

    return case(b"foobar", b"a"), case(b"", b"\xff", b"\0\0", b"bytes"), case(b"transformer")


def xorshift(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def draws(state: int, steps: int) -> Iterator[int]:
        for _ in range(steps):
            state ^= state << 13 & TOP
            state ^= state >> 17
            state ^= state << 5 & TOP
            yield state

    def case(steps: int, *seeds: int) -> LaunchCase:
        drawn = [[seed, *draws(seed, steps)] for seed in seeds]
        arguments = (words("state", seeds), zeros("sum", len(seeds), "u32"), ScalarArgument("steps", steps))
        return launch_case(
            ONE,
            line(len(seeds)),
            arguments,
            state=[numbers[-1] for numbers in drawn],
            sum=[sum(numbers[1:]) for numbers in drawn],
        )

    return case(3, 1, 2463534242), case(7, TOP, 1 << 31, 0, 12345), case(0, 5, 6), case(-1, 9)


def string_search(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(text: bytes, pattern: bytes) -> LaunchCase:
        n, m = len(text), len(pattern)
        found = [int(text[i : i + m] == pattern and i + m <= n) for i in range(n)]
        threads = min(spec.threads, 8)
        arguments = (array("text", list(text), "u8"), ScalarArgument("n", n))
        arguments += (array("pattern", list(pattern), "u8"), ScalarArgument("m", m))
        arguments += (zeros("matches", n), array("first", [999]))
        place = text.find(pattern)
        return launch_case(
            line(-(-n // threads)),
            line(threads),
            arguments,
            matches=found,
            first=[place if place >= 0 else 999],
        )

    return (
        case(b"abracadabra", b"abra"),
        case(b"aaaaaaaa", b"aaa"),
        case(b"\xff\x80\x7f\x80\x7f", b"\x80\x7f"),
        case(b"short", b"longer than it"),
    )


def uppercase(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(text: bytes) -> LaunchCase:
        upper = text.upper()
        arguments = (array("text", list(text), "u8"), zeros("reversed", len(text), "u8"))
        arguments += (ScalarArgument("n", len(text)),)
        return launch_case(
            ONE, line(min(spec.threads, 8)), arguments, text=list(upper), reversed=list(upper[::-1])
        )

    return case(b"Warp 7z!"), case(b"`az{@AZ["), case(b"\xe1\xfa\0\x7f\x80"), case(b"q")


def saxpy16(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: int, x: tuple[int, ...], y: tuple[int, ...]) -> LaunchCase:
        arguments = (ScalarArgument("a", a), array("x", x, "i16"), array("y", y, "i16"))
        return launch_case(ONE, line(len(x)), arguments, y=np.clip(a * big(x) + big(y), -32768, 32767))

    return (
        case(3, (1, -2, 300, 4), (10, 20, -30, 40)),
        case(-32768, (-32768, 32767, 1, 0, -1), (-1, 32767, 0, -32768, 5)),
        case(32767, (32767, -32768, 1), (32767, -32768, -32767)),
    )


def byte_shuffle(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def permuted(x: int, y: int, selector: int) -> int:
        pool = little_endian(x) + little_endian(y)
        return int.from_bytes(bytes(pool[selector >> (4 * k) & 7] for k in range(4)), "little")

    def case(*pairs: tuple[int, int]) -> LaunchCase:
        count = len(pairs)
        backwards = [int.from_bytes(little_endian(x), "big") for x, _ in pairs]
        middles = [x >> 16 | (back & 0xFFFF) << 16 for (x, _), back in zip(pairs, backwards, strict=True)]
        mixed = [permuted(x, middle, s) for (x, s), middle in zip(pairs, middles, strict=True)]
        arguments = (words("in", [x for x, _ in pairs]), words("selector", [s for _, s in pairs]))
        arguments += (zeros("swapped", count, "u32"), zeros("mixed", count, "u32"))
        return launch_case(ONE, line(count), arguments, swapped=backwards, mixed=mixed)

    return (
        case((0x04030201, 0x0123), (0xDEADBEEF, 0x7654)),
        case((TOP, 0), (0x80000001, 0x7070), (0x00FF7F80, 0x6152), (0, 0x7777)),
        case((0x11223344, 0xFFFF5461), (0xCAFEF00D, 0x89AB)),
    )


def bit_fields(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*fields: tuple[int, int, int, int]) -> LaunchCase:
        plain, extended, inserted = [], [], []
        for x, position, width, field in fields:
            bits = f"{x:032b}"
            low, high = 32 - position, 32 - position - width
            plain.append(int(bits[high:low], 2))
            extended.append(plain[-1] - (int(bits[high]) << width))
            inserted.append(int(bits[:high] + f"{field:032b}"[32 - width :] + bits[low:], 2))
        x, positions, widths, values = zip(*fields, strict=True)
        count = len(fields)
        arguments = (words("in", x), array("position", positions), array("width", widths))
        arguments += (words("field", values), zeros("plain", count, "u32"), zeros("extended", count))
        arguments += (zeros("inserted", count, "u32"),)
        return launch_case(ONE, line(count), arguments, plain=plain, extended=extended, inserted=inserted)

    return (
        case((0x12345678, 8, 8, 0xAB), (0xDEADBEEF, 4, 12, 0)),
        case((TOP, 31, 1, 0), (1 << 31, 1, 31, 0x55555555), (0, 0, 31, TOP), (0x55555555, 0, 1, TOP)),
        case((0x80000000, 16, 16, 0x7FFF), (0x0F0F0F0F, 13, 7, 0x1FF), (TOP, 30, 2, 2)),
    )


def rotate(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def rotated(x: int, n: int) -> int:
        bits = f"{x:032b}"
        return int(bits[n % 32 :] + bits[: n % 32], 2)

    def pair(x: int, n: int) -> int:
        double = (TOP - x) * WORD + x
        return (double << (n % 32)) // WORD % WORD ^ (double >> min(n, 32)) % WORD

    def case(*pairs: tuple[int, int]) -> LaunchCase:
        count = len(pairs)
        outputs = (zeros("left", count, "u32"), zeros("right", count, "u32"), zeros("pair", count, "u32"))
        return launch_case(
            ONE,
            line(count),
            (words("in", [x for x, _ in pairs]), words("amount", [n for _, n in pairs]), *outputs),
            left=[rotated(x, n) for x, n in pairs],
            right=[rotated(x, 32 - n % 32) for x, n in pairs],
            pair=[pair(x, n) for x, n in pairs],
        )

    return (
        case((0x12345678, 4), (1, 31)),
        case((0x80000001, 0), (0x80000001, 1), (0xDEADBEEF, 32), (0xDEADBEEF, 33)),
        case((0, 17), (TOP, 5), (0x55555555, TOP), (1 << 31, 64)),
    )


def vector_loads(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(quads: np.ndarray, pixels: np.ndarray) -> LaunchCase:
        count = len(pixels) // 4
        q, p = big(quads).reshape(count, 4), big(pixels).reshape(count, 4)
        arguments = (array("quads", quads), zeros("out", 4 * count), zeros("sums", 2 * count, "u32"))
        arguments += (array("bytes", pixels, "u8"),)
        sums = np.stack([q.sum(axis=1), p.sum(axis=1)], axis=1)
        return launch_case(ONE, line(count), arguments, out=q[:, ::-1] * p, sums=sums)

    return (
        case(np.arange(1, 9), np.arange(10, 18)),
        case(np.resize(EDGES, 16), np.resize((255, 0, 128, 127, 1), 16)),
        case(np.full(4, INT_MAX), np.full(4, 255)),
    )


def blend_pixels(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: tuple[int, ...], b: tuple[int, ...], weight: int) -> LaunchCase:
        arguments = (array("a", a, "u8"), array("b", b, "u8"), zeros("out", len(a), "u8"))
        arguments += (ScalarArgument("weight", weight),)
        mixed = (weight * big(a) + (256 - weight) * big(b)) // 256
        return launch_case(ONE, line(len(a) // 4), arguments, out=mixed)

    ramp = tuple(range(0, 256, 17))
    return (
        case((10, 20, 30, 40, 50, 60, 70, 80), (200, 100, 50, 0, 8, 7, 6, 5), 64),
        case(ramp, ramp[::-1], 128),
        case((255, 0, 255, 1), (0, 255, 255, 254), 256),
        case((255, 0, 255, 1), (0, 255, 255, 254), 1),
    )


def base64(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(text: bytes) -> LaunchCase:
        count = len(text) // 3
        arguments = (array("in", list(text), "u8"), zeros("out", 4 * count, "u8"))
        return launch_case(ONE, line(count), arguments, out=list(b64encode(text)))

    return case(b"Man lanes"), case(b"\0\0\0\xff\xff\xff\xfb\xef\xbe\x00\x10\x83"), case(b"\xff\xff\xfe")


def delta16(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*values: int) -> LaunchCase:
        difference = np.diff(values, prepend=0)
        arguments = (array("in", values, "i16"), zeros("delta", len(values), "i16"))
        arguments += (zeros("magnitude", len(values), "u16"),)
        return launch_case(ONE, line(len(values)), arguments, delta=difference, magnitude=abs(difference))

    return (
        case(5, 3, -4, 10, 10),
        case(-32768, 32767, -32768, -1, 0, 1, 255, 256),
        case(32767),
        case(-1, -32768),
    )


def morton(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*points: tuple[int, int]) -> LaunchCase:
        x, y = zip(*points, strict=True)
        codes = [
            int("".join(b + a for a, b in zip(f"{x:016b}", f"{y:016b}", strict=True)), 2) for x, y in points
        ]
        arguments = (array("x", x, "u16"), array("y", y, "u16"))
        arguments += (zeros("code", len(x), "u32"), zeros("parity", len(x), "u32"))
        parity = [(a.bit_count() + b.bit_count()) % 2 for a, b in points]
        return launch_case(ONE, line(len(x)), arguments, code=codes, parity=parity)

    return (
        case((5, 9), (0, 1), (255, 0)),
        case((65535, 65535), (65535, 0), (0, 32768), (0x5555, 0xAAAA)),
        case((0x1234, 0xFEDC), (32768, 1)),
    )


def index24(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(width: int, *points: tuple[int, int]) -> LaunchCase:
        x, y = zip(*points, strict=True)
        index = [b * width + a for a, b in points]
        assert all(-(1 << 23) <= value < 1 << 23 for value in (width, *y))
        low = [at % (1 << 24) * 0x9E3779 % WORD for at in index]
        high = [at % WORD * 0x85EBCA6B // WORD for at in index]
        arguments = (array("x", x), array("y", y), ScalarArgument("width", width), zeros("index", len(x)))
        arguments += (zeros("hash", len(x), "u32"),)
        return launch_case(ONE, line(len(x)), arguments, index=index, hash=np.bitwise_xor(low, high))

    return (
        case(10, (3, 4), (0, 0), (9, 9)),
        case(-(1 << 23), (0, -(1 << 23)), (-1, (1 << 23) - 1), (5, -1), (0, 1)),
        case((1 << 23) - 1, (INT_MAX, -2), (1, -(1 << 23))),
    )


def dot_dp4a(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: list[int], b: list[int], threads: int) -> LaunchCase:
        arguments = (array("a", a, "i8"), array("b", b, "i8"), ScalarArgument("n", len(a) // 4))
        arguments += (array("out", [5]),)
        return launch_case(ONE, line(threads), arguments, out=[5 + np.dot(big(a), big(b))])

    return (
        case([1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 6, -5, 4, 3, 2, -1], 2),
        case([-128] * 12, [-128, 127] * 6, 4),
        case([127, -128, -1, 0] * 3, [-128, -1, -1, 99] * 3, 1),
    )


CASES = kernels(
    popcount_tricks, crc32_bitwise, crc32_table, fnv1a64, xorshift, string_search, uppercase, saxpy16,
    byte_shuffle, bit_fields, rotate, vector_loads, blend_pixels, base64, delta16, morton, index24,
    dot_dp4a,
)  # fmt: skip
