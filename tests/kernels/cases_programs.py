"""Small algorithms with tables, local arrays, device functions and control flow."""

from collections import Counter
from collections.abc import Callable
from itertools import combinations, pairwise, permutations

import numpy as np

from tests.kernels.case import (
    EDGES,
    INT_MAX,
    INT_MIN,
    ONE,
    TOP,
    Extents,
    LaunchCase,
    array,
    big,
    kernels,
    launch_case,
    line,
    wrap,
    zeros,
)
from toolchain.launch import ScalarArgument
from toolchain.machine_spec import MachineSpec


def signed(value: int) -> int:
    return wrap([value], "i32")[0]


def binary_search(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(values: tuple[int, ...], keys: tuple[int, ...]) -> LaunchCase:
        arguments = (array("sorted", values), ScalarArgument("n", len(values)), array("key", keys))
        arguments += (zeros("position", len(keys)),)
        return launch_case(ONE, line(len(keys)), arguments, position=np.searchsorted(values, keys))

    return (
        case((2, 3, 5, 7, 11), (5, 4, 100, -1)),
        case((INT_MIN, -1, -1, 0, INT_MAX), (INT_MIN, INT_MAX, -1, 1)),
        case((), (3, 4)),
        case((6,) * 7, (5, 6, 7)),
    )


def sort_local(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*values: int) -> LaunchCase:
        rows = np.asarray(values).reshape(-1, 4)
        return launch_case(ONE, line(len(rows)), (array("rows", rows),), rows=np.sort(rows))

    return (
        case(4, 2, 3, 1, 9, 8, 9, 7),
        case(*EDGES, *EDGES[::-1]),
        case(1, 2, 3, 4, 4, 3, 2, 1, 5, 5, 5, 5),
        case(INT_MAX, INT_MIN, INT_MAX, INT_MIN),
    )


def digit_histogram(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*values: int) -> LaunchCase:
        counts = [Counter(str(value)) for value in values]
        best = [min(count, key=lambda digit, c=count: (-c[digit], digit)) for count in counts]
        times = [count[digit] for count, digit in zip(counts, best, strict=True)]
        arguments = (array("in", values, "u32"), zeros("digit", len(values)), zeros("times", len(values)))
        return launch_case(ONE, line(len(values)), arguments, digit=[int(d) for d in best], times=times)

    return case(1223, 90), case(TOP, 0), case(4000000000, 999999999), case(7)


def bytecode(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    stop, add, multiply, save, exclusive_or, shift, jump = range(7)

    def case(program: tuple[tuple[int, int], ...], values: tuple[int, ...]) -> LaunchCase:
        steps: dict[int, Callable[[int, int, int], int]] = {
            add: lambda a, saved, operand: a + operand,
            multiply: lambda a, saved, operand: a * operand,
            save: lambda a, saved, operand: a,
            exclusive_or: lambda a, saved, operand: a ^ saved,
            shift: lambda a, saved, operand: a // 2**operand,
            jump: lambda a, saved, operand: a,
        }

        def run(a: int) -> int:
            saved, at = 0, 0
            while program[at][0] != stop:
                operation, operand = program[at]
                if operation not in steps:
                    return -1
                at = operand if operation == jump and a > 0 else at + 1
                a = signed(steps[operation](a, saved, operand))
                saved = a if operation == save else saved
            return a

        words = [signed(operand << 4 | operation) for operation, operand in program]
        arguments = (array("program", words), array("in", values), zeros("out", len(values)))
        return launch_case(ONE, line(len(values)), arguments, out=[run(value) for value in values])

    return (
        case(((add, 5), (save, 0), (multiply, -3), (exclusive_or, 0), (stop, 0)), (1, 2, -8, 100)),
        case(((add, -3), (jump, 0), (stop, 0)), (7, 0, -1, 9)),
        case(((save, 0), (shift, 31), (exclusive_or, 0), (multiply, 7), (stop, 0)), EDGES[:4]),
        case(((jump, 2), (9, 0), (stop, 0)), (INT_MAX, 0, INT_MIN)),
    )


def noinline_call(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: tuple[int, ...], b: tuple[int, ...]) -> LaunchCase:
        arguments = (array("a", a, "u32"), array("b", b, "u32"), zeros("out", len(a), "u32"))
        return launch_case(ONE, line(len(a)), arguments, out=big(a) ** 3 - [3**k for k in b])

    return (
        case((5, 2, 1, 10), (2, 3, 0, 1)),
        case((TOP, 1 << 31, 0), (20, 21, 7)),
        case((65536, 1625), (0, 25)),
    )


def inline_functions(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(a: tuple[int, ...], b: tuple[int, ...]) -> LaunchCase:
        arguments = (array("a", a), array("b", b), zeros("out", len(a)), zeros("width", len(a), "u32"))
        return launch_case(
            ONE,
            line(len(a)),
            arguments,
            out=np.clip(a, np.subtract(b, 10), np.add(b, 10)),
            width=np.clip(abs(big(a) - big(b)), 1, 1000),
        )

    return (
        case((3, 40, -40, 25), (5, 10, -10, 20)),
        case(EDGES[:4], (INT_MAX - 10, INT_MIN + 10, 0, -1)),
        case((7, 1000, 0, -1), (7, 0, 1000, 1000)),
    )


def grid3d(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(grid: Extents, block: Extents, shape: Extents) -> LaunchCase:
        x, y, z = np.meshgrid(*(np.arange(extent) for extent in shape), indexing="ij")
        out = (x + 10 * y + 100 * z + 1000 * grid[2]).transpose(2, 1, 0)
        sizes = (
            ScalarArgument("nx", shape[0]),
            ScalarArgument("ny", shape[1]),
            ScalarArgument("nz", shape[2]),
        )
        return launch_case(grid, block, (zeros("out", x.size), *sizes), out=out)

    return (
        case((2, 1, 2), (2, 2, 1), (4, 2, 2)),
        case((1, 2, 2), (2, 1, 2), (2, 2, 3)),
        case((2, 2, 2), (2, 2, 2), (3, 3, 4)),
        case((1, 1, 1), (1, 1, 4), (1, 1, 3)),
    )


def levenshtein(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def distance(a: str, b: str) -> int:
        """By recursion on the last letters."""
        if not a or not b:
            return len(a) + len(b)
        if a[-1] == b[-1]:
            return distance(a[:-1], b[:-1])
        return 1 + min(distance(a[:-1], b), distance(a, b[:-1]), distance(a[:-1], b[:-1]))

    def case(a: str, b: str) -> LaunchCase:
        arguments = (array("a", list(a.encode()), "i8"), ScalarArgument("n", len(a)))
        arguments += (array("b", list(b.encode()), "i8"), zeros("distance", 1))
        return launch_case(ONE, line(len(b)), arguments, distance=[distance(a, b)])

    return (
        case("sunday", "satur"),
        case("abc", "abc"),
        case("kitten", "sitting"),
        case("x", "yyxy"),
        case("", "gpu"),
    )


def knapsack(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(items: tuple[tuple[int, int], ...], threads: int) -> LaunchCase:
        """Every subset of the items is tried."""
        subsets = [subset for size in range(len(items) + 1) for subset in combinations(items, size)]
        totals = [(sum(w for w, _ in subset), sum(v for _, v in subset)) for subset in subsets]
        best = [max(value for weight, value in totals if weight <= c) for c in range(threads)]
        weights, values = [w for w, _ in items], [v for _, v in items]
        arguments = (array("weight", weights), array("value", values), ScalarArgument("items", len(items)))
        return launch_case(ONE, line(threads), (*arguments, zeros("best", threads)), best=best)

    return (
        case(((1, 4), (2, 5), (3, 9)), 6),
        case(((5, 10), (4, 40), (6, 30), (3, 50)), 8),
        case((), 3),
        case(((9, 5), (0, 7), (1, -3), (2, INT_MAX - 7)), 4),
    )


def floyd_warshall(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(matrix: np.ndarray) -> LaunchCase:
        """The shortest of all paths that visit no vertex twice."""
        n = len(matrix)
        best = matrix.copy()
        for length in range(2, n + 1):
            for path in permutations(range(n), length):
                whole = sum(matrix[a, b] for a, b in pairwise(path))
                best[path[0], path[-1]] = min(best[path[0], path[-1]], whole)
        return launch_case(ONE, line(n), (array("distance", matrix), ScalarArgument("n", n)), distance=best)

    none = 1000
    return (
        case(np.asarray([[0, 3, 10], [2, 0, 4], [none, 1, 0]])),
        case(np.asarray([[0, 5, none, 10], [none, 0, 3, none], [none, none, 0, 1], [2, none, none, 0]])),
        case(np.asarray([[0, -2, 7], [3, 0, none], [none, -5, 0]])),
        case(np.full((2, 2), none) * (1 - np.eye(2, dtype=int))),
    )


def queens(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(n: int, threads: int) -> LaunchCase:
        boards = [
            board
            for board in permutations(range(n))
            if len({c + r for r, c in enumerate(board)}) == len({c - r for r, c in enumerate(board)}) == n
        ]
        ways = [sum(board[0] == column for board in boards) for column in range(threads)]
        return launch_case(ONE, line(threads), (zeros("ways", threads), ScalarArgument("n", n)), ways=ways)

    return case(4, 4), case(5, 1), case(3, 3), case(2, 2)


def global_table(spec: MachineSpec) -> tuple[LaunchCase, ...]:
    def case(*items: int) -> LaunchCase:
        due = [(40, -8, -2, 1000000, 25 - 255)[item] for item in items]
        arguments = (array("item", items), zeros("out", len(items)), zeros("change", len(items)))
        return launch_case(ONE, line(len(items)), arguments, out=due, change=np.diff(due, prepend=due[0]))

    return case(0, 1, 2, 3, 4), case(4, 4), case(1, 0, 3, 1, 2, 2, 4, 0), case(2)


CASES = kernels(
    binary_search, sort_local, digit_histogram, bytecode, noinline_call, inline_functions, grid3d, levenshtein,
    knapsack, floyd_warshall, queens, global_table,
)  # fmt: skip
