"""LLVM bitcode to PTX: the pass pipeline chosen for this machine, and LLVM's own NVPTX backend.

A token is what a block costs, and a live value is what a loop iteration costs. So: inline everything, never
unroll or vectorise on the compiler's own account (a `#pragma unroll` is the user's and is obeyed), turn cheap
branches into selects, and keep one induction variable instead of one pointer an array (no loop strength
reduction).
"""

from functools import cache

import llvmlite.binding as llvm

from toolchain.errors import CompileError
from toolchain.ptx_frontend.names import plain_name

TRIPLES = {32: "nvptx-nvidia-cuda", 64: "nvptx64-nvidia-cuda"}
"""By address size in bits."""

CPU = "sm_70"
FEATURES = "+ptx64"

OPTIONS = (
    "-disable-lsr",
    "-two-entry-phi-node-folding-threshold=12",
    "-phi-node-folding-threshold=8",
    "-replexitval=never",
    "-combiner-reduce-load-op-store-width=0",
    "-combiner-shrink-load-replace-store-with-store=0",
)
"""Process-wide LLVM options: one induction variable a loop; branches over cheap arithmetic become selects; no
loop is replaced by its closed form, which wants 64-bit arithmetic; a store of a word whose other bytes stay as
they are is not made a store of bytes."""


@cache
def _initialise() -> None:
    """Sets LLVM up, once a process."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    for option in OPTIONS:
        llvm.set_option("", option)


def bitcode_to_ptx(bitcode: bytes, address_size: int = 32) -> str:
    """PTX for the kernels in `bitcode`, which was compiled for addresses of so many bits."""
    _initialise()
    target = llvm.Target.from_triple(TRIPLES[address_size])
    try:
        module = llvm.parse_bitcode(bitcode)
    except RuntimeError as error:
        raise CompileError(
            f"LLVM {llvm.llvm_version_info[0]} cannot read this clang's bitcode: {error}"
        ) from error
    machine = target.create_target_machine(cpu=CPU, features=FEATURES, opt=2)
    _prepare(module)
    _optimise(module, machine)
    return machine.emit_assembly(module)


def _prepare(module: llvm.ModuleRef) -> None:
    """Names kernels as the user did, and lets every other function be inlined and dropped."""
    taken = {function.name for function in module.functions}
    for function in module.functions:
        if function.is_declaration:
            continue
        if "ptx_kernel" not in str(function).split("{", 1)[0]:
            function.linkage = "internal"
            continue
        plain = plain_name(function.name)
        if plain not in taken:
            taken.add(plain)
            function.name = plain


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    tuning = llvm.create_pipeline_tuning_options(2)
    tuning.loop_unrolling = False
    tuning.loop_interleaving = False
    tuning.loop_vectorization = False
    tuning.slp_vectorization = False
    tuning.inlining_threshold = 100_000
    builder = llvm.create_pass_builder(machine, tuning)
    # Nested ifs become selects while their own joins still stand: later the joins are merged into one.
    early = llvm.create_new_module_pass_manager()
    early.add_always_inliner_pass()
    early.add_sroa_pass()
    early.add_simplify_cfg_pass()
    early.run(module, builder)
    builder.getModulePassManager().run(module, builder)
