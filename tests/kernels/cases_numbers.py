"""Number theory, division and 64-bit arithmetic. The references are Python integers, which have no width."""

import math
from itertools import accumulate
from itertools import permutations as orders

import numpy as np

from tests.kernels.case import (
    EDGES,
    INT_MAX,
    INT_MIN,
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
from toolchain.launch import ScalarArgument
from toolchain.machine_spec import MachineSpec

TOP64 = (1 << 64) - 1
MIN64 = -(1 << 63)
Pairs = tuple[tuple[int, int], ...]


def truncated(x: int, y: int) -> tuple[int, int]:
    """Quotient toward zero and the remainder with the dividend's sign; 0 and 0 where C++ leaves them undefined."""
    if y == 0 or (x, y) == (INT_MIN, -1):
        return 0, 0
    quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return quotient, x - quotient * y


def sieve(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(n: int, threads: int) -> LaunchCase:
        primes = [int(i > 1 and all(i % d for d in range(2, i))) for i in range(n)]
        arguments = (array("prime", [7] * n), ScalarArgument("n", n))
        return launch_case(ONE, line(threads), arguments, prime=primes)

    return case(26, 4), case(50, 3), case(4, spec.threads), case(1, 1)


def gcd_signed(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*pairs: tuple[int, int]) -> LaunchCase:
        a, b = zip(*pairs, strict=True)
        arguments = (array("a", a), array("b", b), zeros("out", len(a)))
        return launch_case(ONE, line(len(a)), arguments, out=[math.gcd(x, y) for x, y in pairs])

    return (
        case((12, 18), (-21, 14), (35, -15), (-9, -6)),
        case((INT_MIN, 6), (INT_MAX, INT_MIN), (0, -5), (INT_MIN, 1 << 30)),
        case((0, 0), (INT_MAX, INT_MAX - 1)),
    )


def modular_power(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*triples: tuple[int, int, int]) -> LaunchCase:
        names = ("base", "exponent", "modulus")
        arguments = tuple(array(n, v, "u32") for n, v in zip(names, zip(*triples, strict=True), strict=True))
        arguments += (zeros("out", len(triples), "u32"),)
        return launch_case(ONE, line(len(triples)), arguments, out=[pow(*triple) for triple in triples])

    return (
        case((3, 5, 7), (2, 10, 1000)),
        case((TOP, 3, 65536), (65535, 65535, 65521), (12345, 0, 2), (0, 9, 5)),
        case((7, 1, 1), (TOP, 1 << 31, 65535)),
    )


def division_signed(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*pairs: tuple[int, int]) -> LaunchCase:
        a, b = zip(*pairs, strict=True)
        quotients, remainders = zip(*(truncated(x, y) for x, y in pairs), strict=True)
        arguments = (array("a", a), array("b", b), zeros("quotient", len(a)), zeros("remainder", len(a)))
        return launch_case(ONE, line(len(a)), arguments, quotient=quotients, remainder=remainders)

    return (
        case((17, 5), (-17, 5), (17, -5), (-17, -5)),
        case((INT_MIN, 1), (INT_MIN, INT_MIN), (INT_MIN, INT_MAX), (INT_MAX, INT_MIN)),
        case((INT_MIN, -1), (INT_MAX, -1), (5, 0), (0, INT_MIN)),
        case((INT_MIN, 3), (INT_MIN, -2), (-1, INT_MAX), (1 << 30, -(1 << 30))),
    )


def division_unsigned(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*pairs: tuple[int, int]) -> LaunchCase:
        a, b = zip(*pairs, strict=True)
        results = [divmod(x, y) if y else (0, 0) for x, y in pairs]
        quotients, remainders = zip(*results, strict=True)
        arguments = (array("a", a, "u32"), array("b", b, "u32"))
        arguments += (zeros("quotient", len(a), "u32"), zeros("remainder", len(a), "u32"))
        return launch_case(ONE, line(len(a)), arguments, quotient=quotients, remainder=remainders)

    return (
        case((17, 5), (100, 10), (3, 7), (65536, 255)),
        case((TOP, 1), (TOP, TOP), (TOP - 1, TOP), (TOP, 2)),
        case((TOP, 1 << 31), ((1 << 31) - 1, 1 << 31), (0, TOP), (9, 0)),
        case((TOP, 3), (TOP, 65536), (1 << 31, 65535), (TOP, 0x80000001)),
    )


def division64(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*pairs: tuple[int, int]) -> LaunchCase:
        a, b = zip(*pairs, strict=True)
        quotients, remainders = zip(*(divmod(x, y) for x, y in pairs), strict=True)
        arguments = (array("a", big(a), "u64"), array("b", big(b), "u64"))
        arguments += (zeros("quotient", len(a), "u64"), zeros("remainder", len(a), "u64"))
        return launch_case(ONE, line(len(a)), arguments, quotient=quotients, remainder=remainders)

    return (
        case((10**12 + 7, 10**5), (1000, 7)),
        case((TOP64, 1), (TOP64, TOP64), (TOP64, WORD), (TOP64 - 1, TOP64)),
        case((1 << 63, 3), (0, 1 << 63), (TOP64, TOP), (1 << 32, (1 << 32) + 1)),
    )


def division64_signed(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*pairs: tuple[int, int]) -> LaunchCase:
        a, b = zip(*pairs, strict=True)
        arguments = (array("sum", big(a), "i64"), zeros("mean", len(a), "i64"), array("count", b))
        return launch_case(ONE, line(len(a)), arguments, mean=[truncated(x, y)[0] for x, y in pairs])

    return (
        case((10**12, 7), (-(10**12), 7)),
        case((MIN64, 1), (MIN64, INT_MIN), (MIN64 + 1, -1), (-MIN64 - 1, INT_MAX)),
        case((-1, 2), (1 << 40, -(1 << 20))),
    )


def divide_constants(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(values: tuple[int, ...]) -> LaunchCase:
        count = len(values)
        signed = [(truncated(x, 7)[0], truncated(x, 10)[1], truncated(x, -16)[0]) for x in values]
        unsigned = [(x % WORD // 3, x % WORD % 1000) for x in values]
        arguments = (array("in", values), zeros("out", 3 * count), zeros("unsigned_out", 2 * count, "u32"))
        return launch_case(ONE, line(count), arguments, out=signed, unsigned_out=unsigned)

    return case((100, -100, 6, -7)), case(EDGES[:4]), case(EDGES[4:]), case((INT_MIN + 1, -16, 15, -999))


def square_root(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*values: int) -> LaunchCase:
        arguments = (array("in", values, "u32"), zeros("out", len(values), "u32"))
        return launch_case(ONE, line(len(values)), arguments, out=[math.isqrt(value) for value in values])

    return case(0, 1, 24, 25), case(TOP, 65535**2, 65535**2 - 1, 1 << 31), case(2, 1 << 30)


def josephus(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def survivor(people: int, k: int) -> int:
        circle = list(range(people))
        place = 0
        while len(circle) > 1:
            place = (place + k - 1) % len(circle)
            circle.pop(place)
        return circle[0]

    def case(*pairs: tuple[int, int]) -> LaunchCase:
        people, k = zip(*pairs, strict=True)
        arguments = (array("people", people, "u32"), array("k", k, "u32"), zeros("survivor", len(k), "u32"))
        return launch_case(ONE, line(len(k)), arguments, survivor=[survivor(*pair) for pair in pairs])

    return case((7, 3), (5, 2)), case((1, 9), (2, 1), (10, 1000003), (12, 12)), case((16, 1 << 31), (3, 1))


def permutations(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(n: int, indices: tuple[int, ...]) -> LaunchCase:
        every = list(orders(range(n)))
        packed = [sum(item << (4 * k) for k, item in enumerate(every[index])) for index in indices]
        arguments = (array("index", indices, "u32"), zeros("out", len(indices), "u32"))
        arguments += (ScalarArgument("n", n),)
        return launch_case(ONE, line(len(indices)), arguments, out=packed)

    return case(3, (0, 1, 2, 5)), case(6, (719, 0, 360, 123)), case(1, (0,)), case(8, (40319, 20160))


def fibonacci64(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def fibonacci(n: int) -> int:
        return sum(math.comb(n - 1 - k, k) for k in range((n + 1) // 2))

    def case(*n: int) -> LaunchCase:
        arguments = (array("n", n), zeros("out", len(n), "u64"))
        return launch_case(ONE, line(len(n)), arguments, out=[fibonacci(k) for k in n])

    return case(50, 10), case(93, 47, 48, 0), case(94, 1, 2, 60)


def factorial64(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*n: int) -> LaunchCase:
        arguments = (array("n", n, "u32"), zeros("out", len(n), "u64"))
        return launch_case(ONE, line(len(n)), arguments, out=[math.factorial(k) for k in n])

    return case(13, 5), case(20, 21, 0, 1), case(12, 25)


def splitmix64(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def mix(seed: int) -> int:
        with np.errstate(over="ignore"):
            z = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return int(z ^ (z >> np.uint64(31)))

    def case(*seeds: int) -> LaunchCase:
        arguments = (array("seed", big(seeds), "u64"), zeros("out", len(seeds), "u64"))
        return launch_case(ONE, line(len(seeds)), arguments, out=[mix(seed) for seed in seeds])

    return case(0, 1), case(TOP64, 1 << 63, TOP, WORD), case(0x61C8864680B583EB, 0xDEADBEEFCAFEF00D)


def add128(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def words(value: int) -> list[int]:
        return [value >> (32 * k) & TOP for k in range(4)]

    def case(*pairs: tuple[int, int]) -> LaunchCase:
        a, b = zip(*pairs, strict=True)
        arguments = (array("a", [words(x) for x in a], "u32"), array("b", [words(y) for y in b], "u32"))
        arguments += (zeros("sum", 4 * len(a), "u32"),)
        return launch_case(ONE, line(len(a)), arguments, sum=[words(x + y) for x, y in pairs])

    top = (1 << 128) - 1
    return (
        case((3 << 64, 5), (TOP64, 1)),
        case((top, 1), (top, top)),
        case((1 << 127, 1 << 127), (TOP, TOP << 32), (0, 0)),
    )


def determinant3(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def determinant(m: list[int]) -> int:
        return sum(
            m[p[0]] * m[3 + p[1]] * m[6 + p[2]] * (-1) ** sum(p[i] > p[j] for j in range(3) for i in range(j))
            for p in orders(range(3))
        )

    def case(*matrices: list[int]) -> LaunchCase:
        arguments = (array("matrices", matrices), zeros("out", len(matrices)))
        return launch_case(ONE, line(len(matrices)), arguments, out=[determinant(m) for m in matrices])

    return (
        case([2, 0, 1, 1, 3, 2, 1, 1, 4], [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        case([*EDGES, 5], [*EDGES[3:], *EDGES[:4]]),
        case([1, 0, 0, 0, 1, 0, 0, 0, 1], [0, 1, 0, 1, 0, 0, 0, 0, 1], [-7] * 9),
    )


def luhn(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def valid(number: str) -> int:
        doubled = sum(int(digit) for c in number[::2] for digit in str(2 * int(c)))
        return int((doubled + sum(int(c) for c in number[1::2])) % 10 == 0)

    def case(*numbers: str) -> LaunchCase:
        arguments = (
            array("digits", list("".join(numbers).encode()), "i8"),
            array("valid", [-1] * len(numbers)),
        )
        return launch_case(ONE, line(len(numbers)), arguments, valid=[valid(number) for number in numbers])

    return (
        case("17893729", "17893720"),
        case("00000000", "99999999", "59595959", "12345674"),
        case("10000008"),
    )


def pascal(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(row: int, threads: int) -> LaunchCase:
        arguments = (zeros("out", threads), ScalarArgument("row", row))
        return launch_case(ONE, line(threads), arguments, out=[math.comb(row, i) for i in range(threads)])

    return case(4, 5), case(10, spec.threads), case(0, 3), case(6, 4)


def max_subarray(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*rows: tuple[int, ...]) -> LaunchCase:
        length = len(rows[0])
        best = []
        for row in rows:
            sums = [0, *accumulate(row)]
            best.append(max(sums[j] - sums[i] for j in range(length + 1) for i in range(j)))
        arguments = (array("in", rows), ScalarArgument("length", length), zeros("out", len(rows)))
        return launch_case(ONE, line(len(rows)), arguments, out=best)

    return (
        case((1, -3, 4, -1, 2), (-2, -1, -5, -1, -9)),
        case((5, -2, 3), (INT_MIN, INT_MAX, 0), (-1, 0, -1), (INT_MIN, INT_MIN + 1, -(1 << 30))),
        case((-7,), (INT_MIN,)),
    )


def limits64(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(limits: tuple[int, ...], *rows: tuple[int, ...]) -> LaunchCase:
        below = [[v for v in row if v <= limit] for row, limit in zip(rows, limits, strict=True)]
        length = len(rows[0])
        arguments = (array("rows", rows, "i64"), array("limit", limits, "i64"))
        arguments += (zeros("nearest", len(rows), "i64"), zeros("above", len(rows)))
        return launch_case(
            ONE,
            line(len(rows)),
            (*arguments, ScalarArgument("length", length)),
            nearest=[max(kept, default=MIN64) for kept in below],
            above=[length - len(kept) for kept in below],
        )

    top = -MIN64 - 1
    return (
        case((10, -(1 << 40)), (3, 12, 10), (-(1 << 41), -1, 5)),
        case((MIN64, top, 1 << 32), (MIN64, -1), (top, MIN64), ((1 << 32) + 1, (1 << 32) - 1)),
        case((-1,), (0, WORD - 1, top)),
    )


def shifts64(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*pairs: tuple[int, int]) -> LaunchCase:
        values, amounts = zip(*pairs, strict=True)
        out = [(x << n, x >> n, (x - (x >> 63 << 64)) >> n) for x, n in pairs]
        arguments = (
            array("in", values, "u64"),
            zeros("out", 3 * len(values), "u64"),
            array("amount", amounts),
        )
        return launch_case(ONE, line(len(values)), arguments, out=out)

    return (
        case((0x123456789ABCDEF0, 4), (1 << 63, 40)),
        case((TOP64, 0), (TOP64, 63), (1 << 63, 63), (1 << 63, 31)),
        case((0xDEADBEEFCAFEF00D, 32), (0xDEADBEEFCAFEF00D, 33), (1, 32), (0x7FFFFFFF80000000, 31)),
    )


def product_high64(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*pairs: tuple[int, int]) -> LaunchCase:
        a, b = zip(*pairs, strict=True)
        arguments = (array("a", a, "u64"), array("b", b, "u64"), zeros("out", len(a), "u64"))
        return launch_case(ONE, line(len(a)), arguments, out=[x * y >> 64 for x, y in pairs])

    return (
        case((10**19, 10**19), (1 << 40, 1 << 40)),
        case((TOP64, TOP64), (TOP64, 1), (1 << 63, 2), (TOP64, WORD)),
        case((TOP, TOP), (WORD + 1, TOP64 - 1), (0, TOP64)),
    )


def matrix_power(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(exponent: int, *matrices: tuple[int, ...]) -> LaunchCase:
        powers = []
        for matrix in matrices:
            power = big(np.eye(2, dtype=int))
            for _ in range(exponent):
                power = power @ big(matrix).reshape(2, 2)
            powers.append(power)
        arguments = (array("in", matrices, "u32"), zeros("out", 4 * len(matrices), "u32"))
        return launch_case(
            ONE, line(len(matrices)), (*arguments, ScalarArgument("exponent", exponent)), out=powers
        )

    return (
        case(5, (1, 1, 1, 0), (2, 0, 0, 3)),
        case(64, (1, 1, 1, 0), (TOP, 1, 0, TOP)),
        case(0, (7, 7, 7, 7)),
        case(7, (1 << 31, 3, 5, 65536), (0, TOP, 1, 0)),
    )


CASES = kernels(
    sieve, gcd_signed, modular_power, division_signed, division_unsigned, division64, division64_signed,
    divide_constants, square_root, josephus, permutations, fibonacci64, factorial64, splitmix64, add128,
    determinant3, luhn, pascal, max_subarray, limits64, shifts64, product_high64, matrix_power,
)  # fmt: skip
