"""The forms a program takes on its way, and how each is recognised, read, printed, checked and measured.

form      suffix     value
cuda      .cu        the path of the file
ptx       .ptx       text
ast                  ptx_frontend.ast.Module
mir       .mir       mir.ir.Function
rom       .rom       mir.rom.RomImage
circuit   .circuit   circuit_ir.ir.Circuit: the machine itself, not one program
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolchain.circuit_ir.ir import Circuit
from toolchain.circuit_ir.parser import parse_circuit, parse_placed
from toolchain.circuit_ir.placed import PlacedCircuit
from toolchain.circuit_ir.text import print_circuit, print_placed
from toolchain.circuit_ir.verifier import verify_circuit, verify_placed
from toolchain.errors import CompileError
from toolchain.machine_spec import MachineSpec
from toolchain.mir import rom_text, text, verifier
from toolchain.mir.ir import Function
from toolchain.mir.rom import RomImage
from toolchain.mir.rom_verifier import verify_rom
from toolchain.ptx_frontend.ast import Module
from toolchain.ptx_frontend.printer import print_ptx
from toolchain.ptx_frontend.verifier import verify_ptx

Verify = Callable[[Any, MachineSpec], None]


def _trust(value: Any, spec: MachineSpec) -> None:
    """For forms that the next pass reads and checks."""


@dataclass(frozen=True)
class Form:
    """One form. `size` is what `qgpuc run` says of it; `parse` takes the text and the file's name."""

    name: str
    suffix: str
    parse: Callable[[str, str], Any]
    print: Callable[[Any], str]
    size: Callable[[Any], str]
    verify: Verify = _trust


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _cuda_size(path: Path) -> str:
    return _count(len(path.read_text(errors="replace").splitlines()), "line")


def _ast_size(module: Module) -> str:
    return _count(sum(1 for function in module.entries for _ in function.instructions), "instruction")


def _mir_size(function: Function) -> str:
    instructions = sum(len(block.instructions) for block in function.blocks)
    return f"{_count(instructions, 'instruction')} in {_count(len(function.blocks), 'block')}"


def _rom_size(rom: RomImage) -> str:
    slots = sum(
        getattr(stage, slot) is not None for block in rom.blocks for stage in block.stages for slot in "xyzmp"
    )
    return f"{_count(slots, 'operation')} in {_count(len(rom.blocks), 'block')} of four stages"


def _circuit_size(circuit: Circuit) -> str:
    return _count(len(circuit.operations), "operation")


def placed_size(placed: PlacedCircuit) -> str:
    """The numbers of a placed circuit, in one line."""
    return f"{len(placed.layers)} layers, hidden {placed.hidden}, MLP {placed.mlp}, {placed.heads} heads"


FORMS = {
    form.name: form
    for form in (
        Form("cuda", ".cu", lambda text, file: Path(file), lambda path: path.read_text(), _cuda_size),
        Form(
            "ptx",
            ".ptx",
            lambda text, file: text,
            lambda ptx: ptx,
            lambda ptx: _count(len(ptx.splitlines()), "line"),
        ),
        Form(
            "ast", "", lambda text, file: None, print_ptx, _ast_size, lambda module, spec: verify_ptx(module)
        ),
        Form(
            "mir",
            ".mir",
            text.parse_mir,
            text.print_mir,
            _mir_size,
            lambda function, spec: verifier.verify(function),
        ),
        Form("rom", ".rom", rom_text.parse_rom, rom_text.print_rom, _rom_size, verify_rom),
        Form("circuit", ".circuit", parse_circuit, print_circuit, _circuit_size, verify_circuit),
        Form("placed", ".placed", parse_placed, print_placed, placed_size, verify_placed),
    )
}


def form_of(path: Path, named: str | None = None) -> Form:
    """The form of a file by `--from`, else by its suffix or whole name. Raises CompileError where neither says."""
    if named is not None:
        return FORMS[named]
    for form in FORMS.values():
        if form.suffix and form.suffix in (path.suffix, f".{path.name}"):
            return form
    suffixes = ", ".join(form.suffix for form in FORMS.values() if form.suffix)
    raise CompileError(
        f"cannot tell what '{path}' is from its suffix", hint=f"name it {suffixes}, or say --from FORM"
    )


def read_form(path: Path, form: Form) -> Any:
    """The value in a file. Raises CompileError where it cannot be read or parsed."""
    return form.parse(read_text(path), str(path))


def read_text(path: Path) -> str:
    """A file's text. Raises CompileError where it cannot be read."""
    try:
        return path.read_text()
    except OSError as error:
        raise CompileError(f"cannot read '{path}': {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CompileError(f"cannot read '{path}': it is not text") from error
