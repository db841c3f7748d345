"""qgpuc compile: a kernel to any later form."""

from pathlib import Path

import click

from toolchain import machine_build
from toolchain.circuit_ir.placed import PlacedCircuit
from toolchain.commands.options import DTYPE, KERNEL
from toolchain.commands.progress import building
from toolchain.driver import PIPELINE, Compilation, Options, Step, compile_program
from toolchain.errors import CompileError
from toolchain.forms import form_of, placed_size
from toolchain.machine_build import Model
from toolchain.machine_spec import MachineSpec, load_spec
from toolchain.mir.rom import RomImage
from toolchain.output import output_folder

TARGETS = ("ptx", "mir", "rom", "circuit", "weights")
CIRCUITS = ("circuit", "placed")
CIRCUIT_TARGETS = ("circuit", "weights")
KEPT = ("ptx", "mir", "rom")
"""Program forms that are written to the output folder."""


@click.command(name="compile")
@KERNEL
@DTYPE
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="folder to write")
@click.option("--to", "target", type=click.Choice(TARGETS), default="weights", show_default=True)
@click.option(
    "--dump-after", "dump", metavar="PASS", help="also write the program after this pass, or after all"
)
@click.option(
    "--address-size",
    type=click.Choice(("32", "64")),
    default="32",
    show_default=True,
    help="bits of a pointer in the PTX clang prints; ptxas takes 64 only",
)
@click.option("--specialise", is_flag=True, help="bake the kernel into the weights: no program tokens")
def command(
    kernel: Path,
    source_form: str | None,
    entry: str | None,
    machine: str,
    frontend: str,
    defines: tuple[str, ...],
    dtype: str,
    output: Path,
    target: str,
    dump: str | None,
    address_size: str,
    specialise: bool,
) -> None:
    """Compile KERNEL (.cu, .ptx, .mir, .rom, .circuit or .placed) and write every form it goes through to a folder."""
    names = [item.name for item in PIPELINE]
    if dump is not None and dump != "all" and dump not in names:
        raise CompileError(f"there is no pass '{dump}'", hint=f"passes are {', '.join(names)}, or all")
    options = Options(load_spec(machine), frontend, entry, defines, int(address_size))
    form = form_of(kernel, source_form)
    with output_folder(output) as folder:
        rom: RomImage | None = None
        placed: PlacedCircuit | None = None
        if form.name in CIRCUITS:
            placed = machine_build.read_placed(kernel, form, options.spec)
            refuse_earlier(kernel, form.name, target, specialise)
        else:
            rom = compile_kernel(kernel, options, form.name, target, dump, folder)
        if target in CIRCUIT_TARGETS:
            model = machine_model(options.spec, rom if specialise else None, placed)
            machine_build.write_circuits(model.placed, model.spec, folder)
            click.echo(f"{'circuit':8} {placed_size(model.placed)}")
            if target == "weights":
                with building(f"building the {model.spec.name} checkpoint") as progress:
                    machine_build.build_beside(model, dtype, folder, progress)
    click.echo(f"written to {output}")


def machine_model(spec: MachineSpec, rom: RomImage | None, placed: PlacedCircuit | None) -> Model:
    """The kernel's own machine if there is a ROM image to bake, else the one given, else the general one."""
    if rom is not None:
        return machine_build.specialised_model(rom, spec)
    return Model(spec, placed or machine_build.placed_circuit(spec))


def refuse_earlier(kernel: Path, form: str, target: str, specialise: bool) -> None:
    """A circuit is no program: there is nothing before it to stop at, and nothing to bake into the weights."""
    if specialise:
        raise CompileError(f"'{kernel}' is a {form}, not a kernel", hint="leave out --specialise")
    if target not in CIRCUIT_TARGETS:
        raise CompileError(f"'{kernel}' is {form}, which comes after {target}", hint="choose a later --to")


def compile_kernel(
    kernel: Path, options: Options, form: str, target: str, dump: str | None, folder: Path
) -> RomImage | None:
    """The program's half: every form up to the ROM image, and the dumps that were asked for.

    Gives the ROM image, if `target` is not before it.
    """
    program = target if target in KEPT else KEPT[-1]
    compilation = compile_program(kernel, options, source_form=form, target=program)
    write_forms(compilation, kernel.stem, folder)
    for number, step in enumerate(compilation.steps[1:]):
        if dump in ("all", step.name):
            write_dump(step, number, kernel.stem, folder)
    for name, size in compilation.sizes():
        click.echo(f"{name:8} {size}")
    return compilation.rom if program == KEPT[-1] else None


def write_forms(compilation: Compilation, stem: str, folder: Path) -> None:
    """The last value of each form that has a file."""
    for name in KEPT:
        steps = [step for step in compilation.steps if step.form.name == name]
        if steps:
            form = steps[-1].form
            (folder / f"{stem}{form.suffix}").write_text(form.print(steps[-1].value))


def write_dump(step: Step, number: int, stem: str, folder: Path) -> None:
    """One pass's result, named so that the folder lists in the order of the pipeline."""
    suffix = step.form.suffix or ".ptx"
    (folder / f"{stem}.{number:02}-{step.name}{suffix}").write_text(step.form.print(step.value))
