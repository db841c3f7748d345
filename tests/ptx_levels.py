"""Small PTX kernels on every level of the program: PTX, MIR after each pass, ROM image.

A body reads its thread's word of array `a` from %r1 and leaves a result in %r2, which is stored to array `d`.
%r20 and %r21 are the arrays' addresses, %r22 is the thread, %r24 and %r25 the addresses of its words.
"""

from toolchain.launch import ArrayArgument, Launch
from toolchain.machine_spec import MachineSpec
from toolchain.mir import lower_ptx, pipeline
from toolchain.mir.emit_rom import compile_mir
from toolchain.mir.interpreter import run_launch
from toolchain.mir.ir import Function
from toolchain.mir.mir_interpreter import run_mir
from toolchain.mir.verifier import verify
from toolchain.ptx_frontend.ast import Module
from toolchain.ptx_frontend.interpreter import interpret
from toolchain.ptx_frontend.parser import parse_ptx
from toolchain.ptx_frontend.support import unsupported

WORD = 1 << 32
PTX = """.version 7.8
.target sm_80
.address_size 32
VARIABLES
.visible .entry k(.param .u32 .ptr .global a, .param .u32 .ptr .global d)
{
LOCALS
.reg .b32 %r<40>; .reg .b16 %rs<9>; .reg .pred %p<9>; .reg .b64 %rd<20>;
ld.param.u32 %r20, [a];
ld.param.u32 %r21, [d];
mov.u32 %r22, %tid.x;
shl.b32 %r23, %r22, 2;
add.u32 %r24, %r20, %r23;
add.u32 %r25, %r21, %r23;
ld.global.u32 %r1, [%r24];
BODY
RESULT
ret;
}
"""


def kernel(body: str, *, variables: str = "", local: str = "", result: bool = True) -> Module:
    """A kernel with a body; without `result`, nothing is stored behind it."""
    text = PTX.replace("VARIABLES", variables).replace("LOCALS", local).replace("BODY", body)
    module = parse_ptx(text.replace("RESULT", "st.global.u32 [%r25], %r2;" if result else ""), "k.ptx")
    assert unsupported(module.entries[0]) == ()
    return module


def launch_of(words: list[int], threads: int, *, out: int = 0, dynamic_shared: int = 0) -> Launch:
    """One thread block; array `d` has a word for each thread, or `out` of them."""
    arrays = (ArrayArgument("a", tuple(words), "u32"), ArrayArgument("d", (0,) * (out or threads), "u32"))
    return Launch((1, 1, 1), (threads, 1, 1), arrays, dynamic_shared)


def lowered(module: Module, spec: MachineSpec) -> Function:
    return lower_ptx.run(module.entries[0], spec, "", module.variables)


def check(module: Module, spec: MachineSpec, launch: Launch, **expected: list[int]) -> None:
    """Every level leaves the expected arrays, the PTX interpreter among them."""
    size = len(launch.initial_words())

    def arrays(memory: tuple[int, ...]) -> dict[str, list[int]]:
        found = launch.read_back(memory[:size])
        return {name: found[name] for name in expected}

    assert arrays(interpret(module, "k", launch, spec)) == expected
    function = lowered(module, spec)
    verify(function)
    assert arrays(run_mir(function, spec, launch).memory) == expected
    for name, run in pipeline.PASSES:
        function = run(function, spec)
        verify(function)
        assert arrays(run_mir(function, spec, launch).memory) == expected, name
    assert arrays(run_launch(compile_mir(function, spec), spec, launch).memory) == expected
