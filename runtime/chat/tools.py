"""The tools that a model may call: expressions in the ordinary mode, CUDA of its own in the advanced one.

Whatever is wrong with a call is its response, so that the model can try again.
"""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from runtime.arguments import parse_launch
from runtime.chat.evaluation import KernelRun, evaluate
from runtime.chat.format import Schema, tool_schema
from runtime.launcher import Engine, Program
from runtime.vocabulary import Token
from toolchain.driver import Options, compile_program
from toolchain.errors import CompileError
from toolchain.launch import Launch
from toolchain.machine_spec import MachineSpec
from toolchain.mir.interpreter import run_launch
from toolchain.mir.rom import RomImage

MOST_TOKENS = 5000
"""Tokens that the launch of a model's own kernel may take: it runs in the model, one after another."""
MOST_STEPS = MOST_TOKENS
"""A token is at least a step, so that a launch of more steps takes more tokens, or does nothing."""
KERNEL_FILE = "kernel.cu"


@dataclass(frozen=True)
class Response:
    """What goes back to the model; `failed`: it says what was wrong. `runs`: the launches, in order."""

    text: str
    failed: bool
    runs: tuple[KernelRun, ...] = ()


class Tool(Protocol):
    """A tool: how the model is told of it, and what a call of it does."""

    name: str
    system: str
    """What the model is told beside the schema."""
    schema: Schema

    def call(self, arguments: Mapping[str, str]) -> Response:
        """Raises CompileError where the arguments are refused."""
        ...


class EvaluateTool:
    """Ordinary mode: an expression of prebuilt kernels (expression.py)."""

    name = "evaluate"
    system = "Answer questions about numbers with evaluate."
    schema = tool_schema(name, "Evaluates an expression on the GPU.", ("expression",))

    def __init__(self, spec: MachineSpec, engine: Engine) -> None:
        self.spec, self.engine = spec, engine

    def call(self, arguments: Mapping[str, str]) -> Response:
        found = evaluate(_argument(arguments, "expression").strip(), self.spec, self.engine)
        return Response(found.value.text(), False, found.runs)


class CudaTool:
    """Advanced mode: a kernel that the model writes, and its launch."""

    name = "run_cuda"
    system = (
        "Answer questions by writing a CUDA kernel and running it with run_cuda. The kernel takes int pointers and "
        "ints. Give each of its parameters a value, in order, separated by spaces: a=[1,2,3] c=zeros:1 n=3."
    )
    schema = tool_schema(
        name,
        "Compiles a CUDA kernel, launches it on the GPU, gives its arrays.",
        ("source", "grid", "block", "arguments"),
    )

    def __init__(self, spec: MachineSpec, engine: Engine) -> None:
        self.spec, self.engine = spec, engine

    def call(self, arguments: Mapping[str, str]) -> Response:
        rom, launch = compiled_call(arguments, self.spec)
        program = Program(rom, self.spec, launch)
        refuse_long(program)
        result = self.engine.run(program, _ignore)
        arrays = launch.read_back(result.memory)
        return Response(json.dumps(arrays), False, (KernelRun(rom.kernel, result.tokens),))


def compiled_call(arguments: Mapping[str, str], spec: MachineSpec) -> tuple[RomImage, Launch]:
    """The kernel of a run_cuda call, compiled, and its launch. Raises CompileError at the model's own line."""
    texts = {name: _argument(arguments, name) for name in ("source", "grid", "block", "arguments")}
    launch = parse_launch(texts["grid"].strip(), texts["block"].strip(), tuple(texts["arguments"].split()))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / KERNEL_FILE
        path.write_text(texts["source"])
        return compile_program(path, Options(spec)).rom, launch


def refuse_long(program: Program) -> None:
    """Raises CompileError where the launch takes more than MOST_TOKENS, or does what a kernel must not.

    On the machine interpreter, which is thousands of times as fast as the model.
    """
    result = run_launch(program.rom, program.spec, program.launch, step_limit=MOST_STEPS)
    if len(result.tokens) > MOST_TOKENS:
        raise CompileError(
            f"the launch takes {len(result.tokens)} tokens; {MOST_TOKENS} may run in the model"
        )


def respond(tools: Mapping[str, Tool], name: str, arguments: Mapping[str, str]) -> Response:
    """A call's response, whatever was called."""
    if name not in tools:
        return Response(f"error: there is no tool '{name}', only {', '.join(tools)}", True)
    try:
        return tools[name].call(arguments)
    except CompileError as error:
        return Response(f"error: {described(error)}", True)


def described(error: CompileError) -> str:
    """An error in a line or two: place, message, the line of source, hint. The place is in what the model wrote."""
    place = ""
    if error.location is not None:
        place = f"line {error.location.line}, column {error.location.column}: "
    parts = [place + error.message, error.excerpt.strip(), error.hint]
    return "\n".join(part for part in parts if part)


def _argument(arguments: Mapping[str, str], name: str) -> str:
    if name not in arguments:
        raise CompileError(f"the call lacks the parameter '{name}'")
    return arguments[name]


def _ignore(token: Token) -> None:
    """Hears a token of a launch, which is kept when it has ended."""
