"""What the host writes before the first CTA token: the launch's shape, the linked program, and the memory.

    load       = INIT warps grids program memory CTA(0)
    program    = for each block: PROG rows, then LIVE rows for each possible number of active lanes
               | CONST records, where the program is in the weights

All zero ROM rows, empty return sequences and zero memory words are left out: recurrent state starts as zero.
"""

from collections.abc import Iterator

from runtime.vocabulary import HALF_BITS, Kind, Token, val, word_tokens
from toolchain.errors import CompileError
from toolchain.launch import Argument, ArrayArgument, Launch
from toolchain.machine_spec import CHUNK_BITS, MachineSpec
from toolchain.mir.encoding import Symbols, block_rows, return_sequence
from toolchain.mir.link_constants import link_constants
from toolchain.mir.rom import Parameter, RomImage, Variable

AXES = ("x", "y", "z")
TID_BITS = 5
"""Bits of one thread index in a WARP row; three of them a lane."""
WORD_BYTES = 4


def load_tokens(
    rom: RomImage, spec: MachineSpec, launch: Launch, *, baked: bool = False
) -> tuple[Token, ...]:
    """All tokens the host writes, INIT to CTA(0), to the machine over `spec` or, if `baked`, to the kernel's own.

    Raises CompileError on a launch the machine cannot hold.
    """
    symbols = link_symbols(rom, spec, launch)
    tokens = [*_init(spec, launch), *_warps(spec, launch), *_grids(spec, launch)]
    if baked:
        tokens += _constants(rom, symbols)
    else:
        for index in range(len(rom.blocks)):
            tokens += _program(rom, spec, launch, symbols, index)
    tokens += _memory(spec, initial_memory(rom.variables, launch))
    return (*tokens, Token(Kind.CTA, 0))


def link_symbols(rom: RomImage, spec: MachineSpec, launch: Launch) -> dict[str, int]:
    """The link-time constants of a launch: parameter words, extents, and where variables stand.

    Checks the launch against the kernel and the machine; raises CompileError where it does not fit.
    """
    check_machine(rom, spec)
    check_launch(spec, launch)
    check_memory(rom, spec, launch)
    symbols = {f"ntid.{axis}": extent for axis, extent in zip(AXES, launch.block, strict=True)}
    symbols |= {f"nctaid.{axis}": extent for axis, extent in zip(AXES, launch.grid, strict=True)}
    if len(launch.arguments) != len(rom.parameters):
        wanted = _count(len(rom.parameters), "argument")
        raise CompileError(
            f"kernel '{rom.kernel}' takes {wanted}, got {len(launch.arguments)}",
            hint=f"its parameters are {_signature(rom.parameters)}",
        )
    for parameter, argument, address in zip(
        rom.parameters, launch.arguments, launch.array_addresses(), strict=True
    ):
        value = _argument_value(rom, parameter, argument, address)
        for word in range(parameter.words):
            symbols[f"param.{parameter.word + word}"] = value >> (32 * word) & 0xFFFFFFFF
    symbols |= _variable_addresses(rom.variables, launch)
    symbols["local.base"] = WORD_BYTES * (rom.shared_words + _dynamic_words(launch))
    symbols["local.words"] = rom.local_words
    return symbols


def initial_memory(variables: tuple[Variable, ...], launch: Launch) -> tuple[int, ...]:
    """Global memory as the launch finds it, in words: the arrays, then the kernel's variables."""
    words = list(launch.initial_words())
    symbols = _variable_addresses(variables, launch)
    for variable in variables:
        words += [0] * (symbols[f"global.{variable.name}"] // WORD_BYTES - len(words))
        words += [word if isinstance(word, int) else word.resolve(symbols) for word in variable.initial]
        words += [0] * (variable.words - len(variable.initial))
    return tuple(words)


def _variable_addresses(variables: tuple[Variable, ...], launch: Launch) -> dict[str, int]:
    """The link-time symbols of the variables: they follow the arrays, each at a multiple of its alignment."""
    addresses: dict[str, int] = {}
    word = len(launch.initial_words())
    for variable in variables:
        align = variable.align // WORD_BYTES
        word = -(-word // align) * align
        addresses[f"global.{variable.name}"] = WORD_BYTES * word
        word += variable.words
    return addresses


def check_machine(rom: RomImage, spec: MachineSpec) -> None:
    """Refuses a ROM image that was scheduled for another machine."""
    if rom.machine != spec.name:
        raise CompileError(
            f"the ROM image of kernel '{rom.kernel}' is for machine '{rom.machine}', not '{spec.name}'",
            hint=f"compile it with --machine {spec.name}, or run it on '{rom.machine}'",
        )


def check_launch(spec: MachineSpec, launch: Launch) -> None:
    """Refuses a launch that is over a limit of the machine, and says which limit and by how much."""
    for what, extents in (("grid", launch.grid), ("block", launch.block)):
        if min(extents) < 1:
            raise CompileError(f"{what} {_shape(extents)} has an extent below 1")
    words = len(launch.initial_words())
    limits = (
        ("threads", f"block {_shape(launch.block)} has", launch.threads_per_block, spec.threads, "threads"),
        (
            "thread_blocks",
            f"grid {_shape(launch.grid)} has",
            launch.thread_blocks,
            spec.thread_blocks,
            "blocks",
        ),
        ("memory_words", "the launch's arrays take", words, spec.memory_words, "words of global memory"),
    )
    for limit, what, value, most, unit in limits:
        if value > most:
            raise CompileError(
                f"{what} {value} {unit}; machine '{spec.name}' has room for {most} ({value - most} too many)",
                hint="make it smaller, or choose a larger machine with --machine",
                limit=limit,
            )


def check_memory(rom: RomImage, spec: MachineSpec, launch: Launch) -> None:
    """Refuses a launch whose variables, shared memory and local arrays have no room beside its arrays."""
    if launch.dynamic_shared < 0:
        raise CompileError(f"the dynamic shared memory is {launch.dynamic_shared} bytes", hint="--shared 64")
    arrays = len(launch.initial_words())
    variables = len(initial_memory(rom.variables, launch)) - arrays
    dynamic, local = _dynamic_words(launch), rom.local_words * launch.threads_per_block
    checks = (
        ("memory_words", spec.memory_words, "global memory", {"arrays": arrays, "variables": variables}),
        (
            "shared_words",
            spec.shared_words,
            "shared memory",
            {
                "static": rom.shared_words,
                "dynamic (--shared)": dynamic,
                f"local arrays of {_count(launch.threads_per_block, 'thread')}": local,
            },
        ),
    )
    for limit, most, space, parts in checks:
        total = sum(parts.values())
        if total > most:
            listed = ", ".join(f"{what} {words}" for what, words in parts.items() if words)
            raise CompileError(
                f"kernel '{rom.kernel}' needs {total} words of {space} ({listed}); "
                f"machine '{spec.name}' has {most}",
                hint="use smaller arrays or fewer threads, or choose a larger machine with --machine",
                limit=limit,
            )


def _dynamic_words(launch: Launch) -> int:
    return -(-launch.dynamic_shared // WORD_BYTES)


def existing_lanes(spec: MachineSpec, launch: Launch) -> tuple[int, ...]:
    """Mask of each warp's lanes that have a thread."""
    threads = (1 << launch.threads_per_block) - 1
    return tuple(threads >> (spec.lanes * warp) & ((1 << spec.lanes) - 1) for warp in range(spec.warps))


def indices(linear: int, extents: tuple[int, int, int]) -> tuple[int, int, int]:
    """The (x, y, z) index of the `linear`-th thread or thread block; x runs fastest."""
    width, height, _ = extents
    return linear % width, linear // width % height, linear // (width * height)


def _argument_value(rom: RomImage, parameter: Parameter, argument: Argument, address: int) -> int:
    """The parameter's bits; raises CompileError on the wrong kind or a value that does not fit."""
    place = f"argument '{argument.name}' for parameter '{parameter.name}' of kernel '{rom.kernel}'"
    if isinstance(argument, ArrayArgument):
        if not parameter.pointer and not parameter.unread:
            kind, value = _kind(parameter), "3" if parameter.words <= 2 else "0x..., its first field lowest"
            article = "an" if kind[0] in "aeiou" else "a"
            raise CompileError(
                f"{place} is an array; the parameter is {article} {kind}",
                hint=f"--arg {argument.name}={value}",
            )
        return address
    if parameter.pointer and argument.value:  # 0 is the null pointer
        raise CompileError(
            f"{place} is an integer; the parameter is a pointer",
            hint=f"pass an array: --arg {argument.name}=[1,2,3] or --arg {argument.name}=zeros:3",
        )
    bits = 32 * parameter.words
    if not -(1 << (bits - 1)) <= argument.value < 1 << bits:
        raise CompileError(f"{place} is {argument.value}; it does not fit {bits} bits")
    return argument.value % (1 << bits)


def _signature(parameters: tuple[Parameter, ...]) -> str:
    return ", ".join(f"{item.name} ({_kind(item)})" for item in parameters) or "none"


def _kind(parameter: Parameter) -> str:
    """What a parameter takes."""
    if parameter.unread:
        return "anything"
    if parameter.words > 2:
        return f"structure of {WORD_BYTES * parameter.words} bytes"
    return "array" if parameter.pointer else "integer"


def _shape(extents: tuple[int, int, int]) -> str:
    return "x".join(str(extent) for extent in extents)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _payload(bits: int, tokens: int) -> Iterator[Token]:
    """`bits` as VAL tokens, low 16 bits first."""
    for index in range(tokens):
        yield val(bits >> (HALF_BITS * index) & 0xFFFF)


def _init(spec: MachineSpec, launch: Launch) -> Iterator[Token]:
    lanes = sum(mask << (spec.lanes * warp) for warp, mask in enumerate(existing_lanes(spec, launch)))
    yield Token(Kind.INIT)
    yield from _payload(lanes, 2)


def _warps(spec: MachineSpec, launch: Launch) -> Iterator[Token]:
    for warp, mask in enumerate(existing_lanes(spec, launch)):
        if not mask:
            return
        bits = 0
        for lane in range(spec.lanes):
            if mask >> lane & 1:
                for axis, index in enumerate(indices(spec.lanes * warp + lane, launch.block)):
                    bits |= index << (3 * TID_BITS * lane + TID_BITS * axis)
        yield Token(Kind.WARP, warp)
        yield from _payload(bits, 4)


def _grids(spec: MachineSpec, launch: Launch) -> Iterator[Token]:
    width = spec.thread_blocks.bit_length() - 1
    for block in range(launch.thread_blocks):
        bits = sum(index << (width * axis) for axis, index in enumerate(indices(block, launch.grid)))
        if block + 1 < launch.thread_blocks:
            bits |= (block + 1) << (3 * width) | 1 << (4 * width)
        yield Token(Kind.GRID, block)
        yield from _payload(bits, 2)


def _program(
    rom: RomImage, spec: MachineSpec, launch: Launch, symbols: Symbols, index: int
) -> Iterator[Token]:
    block = rom.blocks[index]
    for row, chunks in enumerate(block_rows(spec, block, symbols, rom.serial)):
        if chunks:
            yield Token(Kind.PROG, index, row)
        for chunk in chunks:
            yield from _payload(chunk, CHUNK_BITS // HALF_BITS)
    for active in range(1, min(spec.lanes, launch.threads_per_block) + 1):
        entries = return_sequence(spec, block, active)
        if entries:
            yield Token(Kind.LIVE, index, active)
        yield from map(val, entries)
        yield from [val(0)] * (-len(entries) % (CHUNK_BITS // HALF_BITS))


def _constants(rom: RomImage, symbols: Symbols) -> Iterator[Token]:
    for number, constant in enumerate(link_constants(rom)):
        value = constant.resolve(symbols)
        if value:
            yield Token(Kind.CONST, number)
            yield from _payload(value, 2)


def _memory(spec: MachineSpec, words: tuple[int, ...]) -> Iterator[Token]:
    for address, value in enumerate(words):
        if value:
            yield Token(Kind.MEM, address)
            yield from word_tokens(spec, value)
