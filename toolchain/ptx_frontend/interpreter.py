"""The PTX interpreter: what a kernel means. Every later stage is held against it.

Execution order (the machine's): thread blocks run in order, x fastest. In a block, a warp runs until all its
live lanes have exited or wait at a barrier, then the next live warp in cyclic order runs. In a warp, the
lanes at the smallest program counter run one instruction, lowest lane first; program counters are those of
order.py, which follow the control flow and not the text. So of two lanes that store to one address in one
instruction the higher one wins, and atomics are made lowest lane first.

Left open by the PTX ISA and fixed here: quotient and remainder by zero are all ones, as on NVIDIA's hardware;
registers and the carry flag start at zero; addresses outside memory and misaligned ones fault, and so does
a barrier that can never be complete.

`interpret` gives the memory a launch leaves; `prepare` gives the Machine itself. An Observer (observer.py)
hears of every access and barrier and may let the launch go on where it would fault.
"""

from dataclasses import dataclass, field

from toolchain.errors import CompileError
from toolchain.launch import NO_END, Launch
from toolchain.machine_spec import MachineSpec
from toolchain.ptx_frontend import barriers, effects
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
    LOCAL_BYTES,
    READ_ONLY,
    WINDOW_BYTES,
    WINDOWS,
    LaunchFault,
    Space,
    global_and_constant_space,
    parameter_space,
    variables_space,
)
from toolchain.ptx_frontend.names import find_entry
from toolchain.ptx_frontend.observer import Access, AccessKind, Observer
from toolchain.ptx_frontend.operations import operation, wrap
from toolchain.ptx_frontend.order import Code, layout
from toolchain.ptx_frontend.verifier import verify_ptx

STEP_LIMIT = 1_000_000

Extents = tuple[int, int, int]


@dataclass
class Thread:
    """One lane of a warp. `pc` past the end of the code means it has exited; `waiting` is its barrier."""

    number: int
    """Among all threads of the launch, block by block."""
    lane: int
    warp: int
    special: dict[str, int]
    registers: dict[str, int]
    local: Space
    pc: int = 0
    waiting: "barriers.Wait | None" = None
    carry: int = 0
    """The condition code CC.CF."""

    @property
    def index(self) -> Extents:
        """%tid."""
        return self.special["%tid.x"], self.special["%tid.y"], self.special["%tid.z"]

    @property
    def block(self) -> Extents:
        """%ctaid."""
        return self.special["%ctaid.x"], self.special["%ctaid.y"], self.special["%ctaid.z"]

    def __str__(self) -> str:
        thread, block = (",".join(map(str, extents)) for extents in (self.index, self.block))
        return f"thread ({thread}) of block ({block})"


@dataclass
class Machine:
    """One launch while it runs."""

    spec: MachineSpec
    launch: Launch
    entry: Function
    code: Code
    spaces: dict[str, Space]
    variables: tuple
    steps_left: int
    observer: Observer | None = None
    gap: int = 0
    threads: list[Thread] = field(default_factory=list)
    arrived: dict[int, int] = field(default_factory=dict)
    """Threads that came to a barrier with bar.arrive, by its number."""

    def __post_init__(self) -> None:
        self.register_types = self.entry.register_types()
        self.tables = {table.name: table.labels for table in self.entry.tables}

    # Operands.

    def read(self, thread: Thread, operand: Operand, type_name: str) -> int:
        """A source operand as the integer its type says."""
        match operand:
            case Register(name):
                value = thread.registers[name]
            case Immediate(value):
                pass
            case SpecialRegister(name):
                if name not in thread.special:
                    raise CompileError(f"the interpreter has no special register {name}")
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
            space_name = space_of_address(address)
            address -= WINDOWS[space_name]
        return (thread.local if space_name == "local" else self.spaces[space_name]), address

    def may_access(
        self, kind: AccessKind, thread: Thread, instruction: Instruction, place: tuple[Space, int, int],
        value: int = 0,
    ) -> bool:  # fmt: skip
        """Whether an access to (space, address, bytes) is made; the observer has a say before it faults."""
        space, address, size = place
        if self.observer is not None:
            return self.observer.access(Access(kind, thread, instruction, space, address, size, value))
        if kind is not AccessKind.LOAD and space.name in READ_ONLY:
            raise LaunchFault(f"{thread} makes a {kind.value} to {space.name} memory", instruction.where)
        verb = {AccessKind.LOAD: "loads", AccessKind.STORE: "stores", AccessKind.ATOMIC: "updates"}[kind]
        space.check(address, size, instruction.where, f"{thread} {verb}")
        return True

    # Execution.

    def run(self) -> None:
        """Runs the launch, one thread block after another."""
        gx, gy, gz = self.launch.grid
        for number in range(gx * gy * gz):
            block = (number % gx, number // gx % gy, number // (gx * gy))
            limit = 4 * self.spec.shared_words
            self.spaces["shared"] = variables_space(
                "shared", self.variables, limit, gap=self.gap, dynamic=self.launch.dynamic_shared
            )
            self.threads = _threads(self, number, block)
            self.arrived = {}
            if self.observer is not None:
                self.observer.begin_block(self)
            self._run_block()

    def memory(self) -> tuple[int, ...]:
        """Global memory as unsigned words: the arrays, the variables, the rest."""
        content = self.spaces["global"].packed().ljust(4 * self.spec.memory_words, b"\0")
        return tuple(int.from_bytes(content[i : i + 4], "little") for i in range(0, len(content), 4))

    def warp_of(self, thread: Thread) -> list[Thread]:
        """All threads of the warp that `thread` is in."""
        first = thread.warp * self.spec.lanes
        return self.threads[first : first + self.spec.lanes]

    def _run_block(self) -> None:
        lanes = self.spec.lanes
        warps = [self.threads[i : i + lanes] for i in range(0, len(self.threads), lanes)]
        current = 0
        while any(self.live(thread) for thread in self.threads):
            runnable = [i for i, warp in enumerate(warps) if any(self.runnable(t) for t in warp)]
            if not runnable:
                barriers.release_block(self)
                continue
            current = min(runnable, key=lambda i: (i - current) % len(warps))
            self._run_warp(warps[current])
            current = (current + 1) % len(warps)

    def _run_warp(self, warp: list[Thread]) -> None:
        """Runs a warp until its live lanes have exited or wait at a block-wide barrier."""
        while True:
            ready = [thread for thread in warp if self.runnable(thread)]
            if len(ready) < len(warp) and barriers.release_lanes(self, warp, stuck=not ready):
                continue
            if not ready:
                return
            pc = min(thread.pc for thread in ready)
            self._step([thread for thread in ready if thread.pc == pc], pc)

    def live(self, thread: Thread) -> bool:
        """Whether a thread has not exited."""
        return thread.pc < len(self.code.instructions)

    def runnable(self, thread: Thread) -> bool:
        """Neither exited nor waiting."""
        return thread.waiting is None and self.live(thread)

    def _step(self, threads: list[Thread], pc: int) -> None:
        """One instruction on the lanes that stand at `pc`."""
        instruction = self.code.instructions[pc]
        self.steps_left -= 1
        if self.steps_left < 0:
            raise LaunchFault(f"the launch did not end within its step limit: {NO_END}", instruction.where)
        guard = instruction.guard
        following = self.code.following[pc]
        active = []
        for thread in threads:
            thread.pc = following
            if guard is None or thread.registers[guard.register] != guard.negated:
                active.append(thread)
        if active:
            self._execute(instruction, active)

    def _execute(self, instruction: Instruction, threads: list[Thread]) -> None:
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
            if computed.takes_carry:
                values.append(thread.carry)
            first, second = destination, None
            if isinstance(destination, Pair):
                first, second = destination.first, destination.second
            other = computed.second(*values) if second is not None and computed.second else 0
            if computed.carry is not None:
                thread.carry = computed.carry(*values)
            self.write(thread, first, computed.evaluate(*values), computed.result)
            if second is not None:
                self.write(thread, second, other, computed.result)


def space_of_address(address: int) -> str:
    """The space a generic address is in."""
    inside = (name for name, window in WINDOWS.items() if window and 0 <= address - window < WINDOW_BYTES)
    return next(inside, "global")


def prepare(
    module: Module, entry: str, launch: Launch, spec: MachineSpec, *,
    step_limit: int = STEP_LIMIT, observer: Observer | None = None, gap: int = 0,
) -> Machine:  # fmt: skip
    """A launch before its first instruction. `gap` bytes (a power of two) separate arrays and variables.

    `entry` is a kernel's name (see names.py). Raises CompileError for arguments that do not fit.
    """
    kernel = find_entry(module, entry)
    verify_ptx(module)
    if launch.threads_per_block > spec.threads:
        raise CompileError(
            f"a block of {launch.threads_per_block} threads; machine '{spec.name}' has {spec.threads}",
            limit="threads",
        )
    memory, constants = global_and_constant_space(module, kernel, launch, spec, gap)
    spaces = {"global": memory, "param": parameter_space(kernel, launch, gap), "const": constants}
    variables = (*module.variables, *kernel.variables)
    return Machine(spec, launch, kernel, layout(kernel), spaces, variables, step_limit, observer, gap)


def interpret(
    module: Module, entry: str, launch: Launch, spec: MachineSpec, *, step_limit: int = STEP_LIMIT
) -> tuple[int, ...]:
    """Global memory after the launch: `spec.memory_words` unsigned words.

    Raises LaunchFault, naming the source line, for an address outside memory or a launch that takes more than
    `step_limit` instructions (an instruction of a warp counts once), and what `prepare` raises.
    """
    machine = prepare(module, entry, launch, spec, step_limit=step_limit)
    machine.run()
    return machine.memory()


def _threads(machine: Machine, block_number: int, block: Extents) -> list[Thread]:
    """The threads of one block, x fastest, with their special registers."""
    launch, spec = machine.launch, machine.spec
    bx, by, _ = launch.block
    everyone = (1 << spec.lanes) - 1
    threads = []
    for number in range(launch.threads_per_block):
        lane = number % spec.lanes
        thread = (number % bx, number // bx % by, number // (bx * by))
        special = {"%laneid": lane, "%warpid": number // spec.lanes, "WARP_SZ": spec.lanes}
        special |= {"%nwarpid": spec.warps, "%smid": 0, "%nsmid": 1, "%gridid": 0}
        special["%dynamic_smem_size"] = launch.dynamic_shared
        for axis, *values in zip("xyz", thread, launch.block, block, launch.grid, strict=True):
            for name, value in zip(("tid", "ntid", "ctaid", "nctaid"), values, strict=True):
                special[f"%{name}.{axis}"] = value
        below = (1 << lane) - 1
        masks = {"eq": 1 << lane, "lt": below, "le": below | 1 << lane}
        masks |= {"gt": everyone & ~masks["le"], "ge": everyone & ~below}
        special |= {f"%lanemask_{name}": mask for name, mask in masks.items()}
        registers = {register.name: 0 for register in machine.entry.registers}
        local = variables_space("local", machine.variables, LOCAL_BYTES, gap=machine.gap)
        first = block_number * launch.threads_per_block
        threads.append(Thread(first + number, lane, number // spec.lanes, special, registers, local))
    return threads
