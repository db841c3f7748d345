"""Expressions on the machine: each operation is a launch of a kernel of kernels.cu, whose PTX is kept beside it."""

import math
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from runtime.chat.expression import Binary, Count, Expression, Literal, parse_expression, refuse
from runtime.launcher import Engine, Program
from runtime.vocabulary import Token
from toolchain.driver import Options, compile_program
from toolchain.launch import ArrayArgument, Launch, ScalarArgument
from toolchain.machine_spec import MachineSpec
from toolchain.mir.rom import RomImage

PTX = Path(__file__).parent / "kernels.ptx"
SOURCE = PTX.with_suffix(".cu")
REDUCTIONS = {"sum": "sum", "min": "minimum", "max": "maximum", "sort": "sort", "scan": "scan"}
KEEPS_LENGTH = ("sort", "scan")
ELEMENTWISE = ("add", "subtract", "multiply")


@dataclass(frozen=True)
class Value:
    """Numbers in row-major order."""

    shape: tuple[int, ...]
    numbers: tuple[int, ...]

    def text(self) -> str:
        """As it is written in the language: `[[1, 2], [3, 4]]`."""
        if not self.shape:
            return str(self.numbers[0])
        step = len(self.numbers) // self.shape[0]
        rows = [Value(self.shape[1:], self.numbers[i : i + step]) for i in range(0, len(self.numbers), step)]
        return f"[{', '.join(row.text() for row in rows)}]"


@dataclass(frozen=True)
class KernelRun:
    """One launch: the kernel by name, and every token that the machine wrote."""

    kernel: str
    tokens: tuple[Token, ...]


@dataclass(frozen=True)
class Evaluation:
    """An expression's value, and the launches that gave it, in order."""

    value: Value
    runs: tuple[KernelRun, ...]


def evaluate(text: str, spec: MachineSpec, engine: Engine) -> Evaluation:
    """Runs a text of the expression language on the engine, which is of the machine `spec`.

    Raises CompileError with the column where it is no expression, its shapes do not fit each other, or an operation
    does not fit the machine; nothing is launched for an operation that is refused.
    """
    evaluator = _Evaluator(text, spec, engine)
    value = evaluator.value(parse_expression(text))
    return Evaluation(value, tuple(evaluator.runs))


@cache
def kernel(name: str, spec: MachineSpec) -> RomImage:
    """A kernel of the language, compiled for the machine."""
    return compile_program(PTX, Options(spec, entry=name)).rom


@dataclass
class _Evaluator:
    text: str
    spec: MachineSpec
    engine: Engine
    runs: list[KernelRun] = field(default_factory=list)

    def value(self, item: Expression) -> Value:
        if isinstance(item, Literal):
            return Value(item.shape, item.numbers)
        if isinstance(item, Binary):
            left, right = self.value(item.left), self.value(item.right)
            run = self._matmul if item.name == "matmul" else self._elementwise
            return run(item, left, right)
        if isinstance(item, Count):
            return self._count(item, self.value(item.left), self.value(item.right))
        operand = self.value(item.operand)
        if not operand.shape:
            raise self._refuse(item, f"{item.name} takes a vector or a matrix, not a number")
        if item.name in KEEPS_LENGTH and len(operand.shape) > 1:
            raise self._refuse(item, f"{item.name} takes a vector")
        shape = operand.shape if item.name in KEEPS_LENGTH else ()
        count = ScalarArgument("n", len(operand.numbers))
        return self._run(item, REDUCTIONS[item.name], shape, (_array("a", operand), _OUT, count))

    def _elementwise(self, item: Binary, left: Value, right: Value) -> Value:
        if left.shape and right.shape and left.shape != right.shape:
            raise self._refuse(item, f"{_size(left)} and {_size(right)} differ; one may be a number")
        shape = left.shape or right.shape
        arguments = (
            *(_array("a", left), ScalarArgument("a_stride", int(bool(left.shape)))),
            *(_array("b", right), ScalarArgument("b_stride", int(bool(right.shape)))),
            *(_OUT, ScalarArgument("n", math.prod(shape))),
        )
        return self._run(item, item.name, shape, arguments)

    def _matmul(self, item: Binary, left: Value, right: Value) -> Value:
        if not left.shape or not right.shape or left.shape[-1] != right.shape[0]:
            raise self._refuse(item, f"{_size(left)} @ {_size(right)}: the inner lengths must agree")
        inner, outer = left.shape[-1], (left.shape[:-1], right.shape[1:])
        rows, columns = (math.prod(part) for part in outer)
        sizes = (
            ScalarArgument("rows", rows),
            ScalarArgument("inner", inner),
            ScalarArgument("columns", columns),
        )
        arguments = (_array("a", left), _array("b", right), _OUT, *sizes)
        return self._run(item, "product", outer[0] + outer[1], arguments)

    def _count(self, item: Count, left: Value, right: Value) -> Value:
        if not left.shape or right.shape:
            raise self._refuse(item, "count compares a vector or a matrix with a number: count(a > 2)")
        arguments = (_array("a", left), _array("k", right), _OUT, ScalarArgument("n", len(left.numbers)))
        return self._run(item, f"count_{item.relation}", (), arguments)

    def _run(
        self,
        item: Expression,
        name: str,
        shape: tuple[int, ...],
        arguments: tuple[ArrayArgument | ScalarArgument, ...],
    ) -> Value:
        size = math.prod(shape)
        whole = tuple(ArrayArgument("out", (0,) * size) if a is _OUT else a for a in arguments)
        words = sum(argument.words for argument in whole if isinstance(argument, ArrayArgument))
        if words > self.spec.memory_words:
            raise self._refuse(
                item,
                f"this takes {words} words of memory, operands and result; machine '{self.spec.name}' has "
                f"{self.spec.memory_words}",
            )
        launch = Launch((1, 1, 1), (min(size, self.spec.threads), 1, 1), whole)
        result = self.engine.run(Program(kernel(name, self.spec), self.spec, launch), _ignore)
        self.runs.append(KernelRun(name, result.tokens))
        return Value(shape, tuple(launch.read_back(result.memory)["out"]))

    def _refuse(self, item: Expression, message: str) -> Exception:
        return refuse(self.text, item.column, message)


_OUT = ArrayArgument("out", ())
"""Stands for the result, whose size the shape says."""


def _ignore(token: Token) -> None:
    """Hears a token of a launch, which is kept when it has ended."""


def _array(name: str, value: Value) -> ArrayArgument:
    return ArrayArgument(name, value.numbers)


def _size(value: Value) -> str:
    """A value's kind in words."""
    if not value.shape:
        return "a number"
    kind = "a vector" if len(value.shape) == 1 else "a matrix"
    return f"{kind} of {' x '.join(map(str, value.shape))}"
