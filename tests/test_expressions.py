"""The expression language against numpy, on every engine level that is quick; refusals with their column."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.chat.evaluation import PTX, SOURCE, Value, evaluate, kernel
from runtime.chat.expression import parse_expression
from runtime.chat.reference import reference_value
from runtime.launcher import InterpreterEngine, SparseEngine
from tests.conftest import ROOT
from toolchain.errors import CompileError
from toolchain.machine_build import ensure_checkpoint
from toolchain.machine_spec import CLASSIC, NANO
from toolchain.ptx_frontend import cuda

INTERPRETER = InterpreterEngine()


def shown(array: np.ndarray) -> str:
    return str(array.tolist())


def wrapped(result: np.ndarray) -> str:
    """A result as 32-bit words."""
    return shown(np.asarray(result).astype(np.int64).astype(np.uint32).astype(np.int32))


def run(text: str) -> str:
    return evaluate(text, NANO, INTERPRETER).value.text()


def arrays(*shape: int) -> st.SearchStrategy[np.ndarray]:
    edges = st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31), 65536])
    numbers = st.lists(
        st.integers(-99, 99) | edges, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))
    )
    return numbers.map(lambda items: np.array(items, dtype=np.int64).reshape(shape))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_operations_against_numpy(data: st.DataObject) -> None:
    rows, inner, columns = (data.draw(st.integers(1, 3)) for _ in range(3))
    a, b = data.draw(arrays(inner)), data.draw(arrays(inner))
    m, n, k = data.draw(arrays(rows, inner)), data.draw(arrays(inner, columns)), int(data.draw(arrays(1))[0])
    expected = {
        f"{shown(a)} @ {shown(b)}": a @ b,
        f"{shown(m)} @ {shown(a)}": m @ a,
        f"{shown(a)} @ {shown(n)}": a @ n,
        f"{shown(m)} @ {shown(n)}": m @ n,
        f"{shown(a)} + {shown(b)}": a + b,
        f"{shown(m)} - {shown(m)}": m - m,
        f"{shown(a)} - {k}": a - k,
        f"{k} * {shown(m)}": k * m,
        f"sum({shown(m)})": m.sum(),
        f"min({shown(a)})": a.min(),
        f"max({shown(m)})": m.max(),
        f"sort({shown(a)})": np.sort(a),
        f"scan({shown(a)})": np.cumsum(a),
        f"count({shown(a)} == {k})": (a == k).sum(),
        f"count({shown(m)} > {k})": (m > k).sum(),
        f"count({shown(a)} < {k})": (a < k).sum(),
    }
    for text, result in expected.items():
        assert run(text) == wrapped(result), text
        assert str(reference_value(parse_expression(text)).tolist()) == wrapped(result), text


@pytest.mark.parametrize(
    ("text", "result", "kernels"),
    [
        ("1 + 2 * 3", "7", ["multiply", "add"]),
        ("[1, 2] + [3, 4] @ [[1, 0], [0, 1]]", "[4, 6]", ["product", "add"]),
        ("10 - 3 - 2", "5", ["subtract", "subtract"]),
        ("(1 + 2) * [1, -1]", "[3, -3]", ["add", "multiply"]),
        ("sum(sort([3, 1, 2]) * [1, 10, 100])", "321", ["sort", "multiply", "sum"]),
        ("[1,2]-1", "[0, 1]", ["subtract"]),
        ("count([1, 2, 3] > min([2, 5]))", "1", ["minimum", "count_above"]),
        ("2147483647 + 1", "-2147483648", ["add"]),
        ("[[7]]", "[[7]]", []),
    ],
)
def test_several_operations(text: str, result: str, kernels: list[str]) -> None:
    found = evaluate(text, NANO, INTERPRETER)
    assert found.value.text() == result
    assert [item.kernel for item in found.runs] == kernels


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "cannot read"),
        ("[1, 2", 6, "cannot read"),
        ("[1, 2] @", 9, "cannot read"),
        ("[1, x]", 5, "cannot read"),
        ("avg([1])", 1, "no function 'avg'"),
        ("1 + []", 5, "at least one number"),
        ("[[1], [2, 3]]", 1, "one length"),
        ("[[1], 2]", 1, "one length"),
        ("[[[1]]]", 1, "two dimensions"),
        ("3 * 4294967296", 5, "does not fit 32 bits"),
        ("[1, 2] + [1, 2, 3]", 1, "a vector of 2 and a vector of 3 differ"),
        ("[1, 2] @ [1, 2, 3]", 1, "inner lengths"),
        ("2 @ [1, 2]", 1, "a number @ a vector of 2"),
        ("1 + sort([[1]])", 5, "sort takes a vector"),
        ("sum(3)", 1, "not a number"),
        ("count(2 > [1])", 1, "count compares"),
        (f"sort({[1] * 40})", 1, "takes 80 words of memory, operands and result; machine 'nano' has 62"),
    ],
)
def test_refusals(text: str, column: int, message: str) -> None:
    with pytest.raises(CompileError, match=message) as caught:
        evaluate(text, NANO, INTERPRETER)
    location = caught.value.location
    assert location is not None
    assert location.column == column


def test_the_largest_that_fits() -> None:
    numbers = list(range(31, 0, -1))
    assert run(f"sort({numbers})") == str(sorted(numbers))
    assert evaluate(f"sort({[1] * 40})", CLASSIC, INTERPRETER).value.shape == (40,)


def test_nothing_is_launched_where_an_operation_is_refused() -> None:
    class Never(InterpreterEngine):
        """Fails where it is asked to run."""

        def run(self, program, on_token):
            raise AssertionError("launched")

    with pytest.raises(CompileError):
        evaluate("[1, 2] @ [1, 2, 3]", NANO, Never())


def test_on_a_checkpoint() -> None:
    engine = SparseEngine(ensure_checkpoint(NANO, "bfloat16"))
    found = evaluate("sort([[2, 1], [0, 3]] @ [5, -7])", NANO, engine)
    assert found.value == Value((2,), (-21, 3))
    assert all(item.tokens[-1].is_end for item in found.runs)


def entries(text: str) -> Sequence[str]:
    return [line.split()[2].rstrip("(") for line in text.splitlines() if line.startswith(".visible .entry")]


def test_stored_ptx_is_that_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Printed anew by clang; `make kernels` writes it."""
    monkeypatch.chdir(ROOT)
    printed = cuda.compile_cuda(SOURCE.relative_to(ROOT), "clang", (), 32).text
    assert printed == PTX.read_text()
    assert {kernel(name, NANO).kernel for name in entries(printed)} == {*entries(printed)}
