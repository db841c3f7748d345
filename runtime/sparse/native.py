"""Native code from LLVM IR modules, for this processor; object code can be kept and loaded again."""

from collections.abc import Callable
from functools import cache

import llvmlite.binding as llvm
from llvmlite import ir


@cache
def _initialise() -> None:
    """Sets LLVM up for this processor, once a process."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def processor() -> str:
    """The processor that code is made for: object code is good for this one only."""
    _initialise()
    return f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


class NativeCode:
    """A module's functions. `objects` is object code of an earlier process, or None to compile."""

    def __init__(self, module: Callable[[], ir.Module], objects: bytes | None) -> None:
        _initialise()
        target = llvm.Target.from_default_triple()
        features = llvm.get_host_cpu_features().flatten()
        machine = target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=3)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        if objects is None:
            objects = _compile(module(), target.triple, machine)
        self.objects = objects
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(objects))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Address of a function."""
        return self._engine.get_function_address(name)


def _compile(module: ir.Module, triple: str, machine: llvm.TargetMachine) -> bytes:
    module.triple = triple
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    tuning = llvm.create_pipeline_tuning_options(3)
    tuning.loop_vectorization = False  # loops over a node's few terms are slower as vectors
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(parsed, builder)
    return machine.emit_object(parsed)
