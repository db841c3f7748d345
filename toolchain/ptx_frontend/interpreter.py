"""The PTX interpreter: what a kernel means. Every later stage is held against it.

Execution order (the machine's): thread blocks run in order, x fastest. In a block, a warp runs until all its
live lanes have exited or wait at a barrier, then the next live warp in cyclic order runs. In a warp, the
lanes at the smallest program counter run one instruction, lowest lane first; program counters are those of
order.py, which follow the control flow and not the text. So of two lanes that store to one address in one
instruction the higher one wins, and atomics are made lowest lane first.

Left open by the PTX ISA and fixed here: division by zero gives all ones and its remainder the dividend;
registers start at zero; addresses outside memory and misaligned ones fault.
"""

from dataclasses import dataclass, field

from toolchain.errors import CompileError
from toolchain.launch import Launch
from toolchain.machine_spec import MachineSpec
from toolchain.ptx_frontend import effects
from toolchain.ptx_frontend.ast import (
    TYPE_BITS,
    Address,
    Function,
    Immediate,
    Instruction,
    Module,
    Negated,
    Operand,
    Pair,
    Register,
    SpecialRegister,
    Symbol,
    Vector,
)
from toolchain.ptx_frontend.memory import (
    WINDOWS,
    LaunchFault,
    Space,
    global_space,
    parameter_space,
    variables_space,
)
from toolchain.ptx_frontend.names import find_entry
from toolchain.ptx_frontend.operations import operation, wrap
from toolchain.ptx_frontend.order import Code, layout
from toolchain.ptx_frontend.verifier import verify_ptx

STEP_LIMIT = 1_000_000
LOCAL_BYTES = 4096
CONST_BYTES = 65536


@dataclass
class Thread:
    """One lane of a warp. `pc` past the end of the code means it has exited; `waiting` names its barrier."""

    lane: int
    special: dict[str, int]
    registers: dict[str, int]
    local: Space
    pc: int = 0
    waiting: str = ""
    pending: Instruction | None = None
    """The bar.red this thread waits in."""


@dataclass
class Machine:
    """One launch while it runs."""

    spec: MachineSpec
    entry: Function
    code: Code
    spaces: dict[str, Space]
    register_types: dict[str, str]
    tables: dict[str, tuple[str, ...]]
    steps_left: int
    threads: list[Thread] = field(default_factory=list)

    # Operands.

    def read(self, thread: Thread, operand: Operand, type_name: str) -> int:
        """A source operand as the integer its type says."""
        match operand:
            case Register(name):
                value = thread.registers[name]
            case Immediate(value):
                pass
            case SpecialRegister(name):
                value = thread.special[name]
            case Negated(Register(name)):
                value = 1 - thread.registers[name]
            case Symbol(name, offset):
                value = self.symbol_address(thread, name)[1] + offset
            case Vector(elements):
                bits = TYPE_BITS[type_name] // len(elements)
                parts = (
                    self.read(thread, element, f"u{bits}") << (bits * i) for i, element in enumerate(elements)
                )
                value = sum(parts)
            case _:
                raise CompileError(f"operand {operand} has no value")
        return wrap(value, type_name)

    def write(self, thread: Thread, operand: Operand, value: int, type_name: str) -> None:
        """Writes a result. A wider register is sign- or zero-extended as the type says."""
        if isinstance(operand, Vector):
            bits = TYPE_BITS[type_name] // len(operand.elements)
            for index, element in enumerate(operand.elements):
                self.write(thread, element, value >> (bits * index), f"u{bits}")
        elif isinstance(operand, Register):
            width = TYPE_BITS[self.register_types[operand.name]]
            thread.registers[operand.name] = wrap(value, type_name) & ((1 << width) - 1)

    def symbol_address(self, thread: Thread, name: str) -> tuple[Space, int]:
        """The space and address of a variable."""
        for space in (*self.spaces.values(), thread.local):
            if name in space.addresses:
                return space, space.addresses[name]
        raise CompileError(f"'{name}' is not a variable of the module")

    def locate(self, thread: Thread, operand: Operand, space_name: str) -> tuple[Space, int]:
        """The space and byte address of a memory operand; an empty space name means a generic address."""
        assert isinstance(operand, Address)
        address = operand.offset
        if isinstance(operand.base, Symbol):
            space, start = self.symbol_address(thread, operand.base.name)
            return space, start + address
        if operand.base is not None:
            bits = TYPE_BITS[self.register_types[operand.base.name]]
            address = (thread.registers[operand.base.name] + address) & ((1 << bits) - 1)
        if not space_name:
            space_name = next((n for n, w in WINDOWS.items() if w and 0 <= address - w < 1 << 24), "global")
            address -= WINDOWS[space_name]
        return (thread.local if space_name == "local" else self.spaces[space_name]), address

    # Execution.

    def run_block(self) -> None:
        """Runs the thread block in `threads` to its end."""
        lanes = self.spec.lanes
        warps = [self.threads[i : i + lanes] for i in range(0, len(self.threads), lanes)]
        current = 0
        while any(self.live(warp) for warp in warps):
            runnable = [i for i, warp in enumerate(warps) if any(self.runnable(t) for t in warp)]
            if not runnable:
                self.release_barrier()
                continue
            current = min(runnable, key=lambda i: (i - current) % len(warps))
            self.run_warp(warps[current])
            current = (current + 1) % len(warps)

    def run_warp(self, warp: list[Thread]) -> None:
        """Runs a warp until its live lanes have exited or wait at a block-wide barrier."""
        while True:
            ready = [thread for thread in warp if self.runnable(thread)]
            if not ready:
                held = [thread for thread in warp if thread.waiting == "warp"]
                for thread in held:
                    thread.waiting = ""
                if not held:
                    return
                continue
            pc = min(thread.pc for thread in ready)
            self.step([thread for thread in ready if thread.pc == pc], pc)

    def live(self, warp: list[Thread]) -> bool:
        """Whether a thread of the warp has not exited."""
        return any(thread.pc < len(self.code.instructions) for thread in warp)

    def runnable(self, thread: Thread) -> bool:
        """Neither exited nor waiting."""
        return not thread.waiting and thread.pc < len(self.code.instructions)

    def release_barrier(self) -> None:
        """All live threads wait: lets them go, and gives bar.red its result."""
        waiting = [thread for thread in self.threads if thread.waiting]
        effects.finish_barrier(self, waiting)
        for thread in waiting:
            thread.waiting = ""

    def step(self, threads: list[Thread], pc: int) -> None:
        """One instruction on the lanes that stand at `pc`."""
        instruction = self.code.instructions[pc]
        self.steps_left -= 1
        if self.steps_left < 0:
            raise LaunchFault("the launch did not end within its step limit", instruction.where)
        guard = instruction.guard
        following = self.code.following[pc]
        active = []
        for thread in threads:
            thread.pc = following
            if guard is None or thread.registers[guard.register] != guard.negated:
                active.append(thread)
        if active:
            self.execute(instruction, active)

    def execute(self, instruction: Instruction, threads: list[Thread]) -> None:
        """Arithmetic by operations.py, the rest by effects.py."""
        computed = operation(instruction.opcode, instruction.modifiers)
        if computed is None:
            effect = effects.EFFECTS.get(instruction.opcode)
            if effect is None:
                raise CompileError(f"the interpreter has no '{instruction.name}'", instruction.where)
            effect(self, instruction, threads)
            return
        destination, *sources = instruction.operands
        for thread in threads:
            values = [self.read(thread, s, t) for s, t in zip(sources, computed.sources, strict=True)]
            first, second = destination, None
            if isinstance(destination, Pair):
                first, second = destination.first, destination.second
            other = computed.second(*values) if second is not None and computed.second else 0
            self.write(thread, first, computed.evaluate(*values), computed.result)
            if second is not None:
                self.write(thread, second, other, computed.result)


def interpret(
    module: Module, entry: str, launch: Launch, spec: MachineSpec, *, step_limit: int = STEP_LIMIT
) -> tuple[int, ...]:
    """Global memory after the launch: `spec.memory_words` unsigned words.

    `entry` is a kernel's name (see names.py). Raises LaunchFault, naming the source line, for an address
    outside memory or a launch that takes more than `step_limit` instructions (an instruction of a warp counts
    once), and CompileError for arguments that do not fit.
    """
    kernel = find_entry(module, entry)
    verify_ptx(module)
    if launch.threads_per_block > spec.threads:
        raise CompileError(
            f"a block of {launch.threads_per_block} threads; machine '{spec.name}' has {spec.threads}",
            limit="threads",
        )
    variables = (*module.variables, *kernel.variables)
    constants = variables_space("const", variables, CONST_BYTES)
    spaces = {
        "global": global_space(module, launch, spec, constants),
        "param": parameter_space(kernel, launch),
        "const": constants,
        "shared": variables_space("shared", variables, 4 * spec.memory_words),
    }
    machine = Machine(
        spec, kernel, layout(kernel), spaces, kernel.register_types(),
        {table.name: table.labels for table in kernel.tables}, step_limit,
    )  # fmt: skip
    gx, gy, gz = launch.grid
    for z in range(gz):
        for y in range(gy):
            for x in range(gx):
                spaces["shared"] = variables_space("shared", variables, 4 * spec.memory_words)
                machine.threads = _threads(kernel, launch, spec, (x, y, z), variables)
                machine.run_block()
    content = spaces["global"].content
    return tuple(int.from_bytes(content[i : i + 4], "little") for i in range(0, len(content), 4))


def _threads(
    kernel: Function, launch: Launch, spec: MachineSpec, block: tuple[int, int, int], variables: tuple
) -> list[Thread]:
    """The threads of one block, x fastest, with their special registers."""
    threads = []
    for number in range(launch.threads_per_block):
        bx, by, _ = launch.block
        lane = number % spec.lanes
        thread = (number % bx, number // bx % by, number // (bx * by))
        special = {"%laneid": lane, "%warpid": number // spec.lanes, "WARP_SZ": spec.lanes}
        special["%nwarpid"] = spec.warps
        for axis, *values in zip("xyz", thread, launch.block, block, launch.grid, strict=True):
            for name, value in zip(("tid", "ntid", "ctaid", "nctaid"), values, strict=True):
                special[f"%{name}.{axis}"] = value
        everyone = (1 << spec.lanes) - 1
        below = (1 << lane) - 1
        masks = {"eq": 1 << lane, "lt": below, "le": below | 1 << lane}
        masks |= {"gt": everyone & ~masks["le"], "ge": everyone & ~below}
        special |= {f"%lanemask_{name}": mask for name, mask in masks.items()}
        registers = {register.name: 0 for register in kernel.registers}
        threads.append(Thread(lane, special, registers, variables_space("local", variables, LOCAL_BYTES)))
    return threads
