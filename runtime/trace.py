"""The tokens of a launch in words a person reads, one at a time as the model writes them."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from runtime.vocabulary import Kind, Token, Vocabulary
from toolchain.launch import ELEMENT_BITS, ArrayArgument, Launch
from toolchain.machine_spec import PREDICATES, MachineSpec
from toolchain.mir.rom import Block, RomImage

HALF_BITS = 16
HEADER = "# qgpuc trace"


class Narrator:
    """Says what each token of a launch means, and of one that makes no sense, that it makes none."""

    def __init__(self, rom: RomImage, spec: MachineSpec, launch: Launch) -> None:
        self.rom = rom
        self.spec = spec
        self.launch = launch
        self._returns: Iterator[str] = iter(())
        self._store: list[int] = []
        self._element = ""

    def say(self, token: Token) -> str:
        """The token in words. A MEM record is told whole by its last token; its first two only open it."""
        match token.kind:
            case Kind.EXEC if token.is_end:
                return "END  the launch is over"
            case Kind.EXEC:
                return self._execute(token)
            case Kind.CTA:
                return f"CTA  thread block {token.a} begins"
            case Kind.MEM | Kind.SMEM:
                self._store = [token.a]
                self._element = self.element(token.a) if token.kind is Kind.MEM else "(shared)"
                return f"{token.kind:4} [{token.a}] {self._element}".rstrip()
            case Kind.VAL if self._store:
                return self._store_half(token)
            case Kind.VAL:
                return f"VAL  {token.a} -> {next(self._returns, 'nothing: the block returns no more')}"
        return f"{token.kind}: only the host writes these"

    def element(self, address: int) -> str:
        """`(c[0])` for a word of an argument's array, else nothing."""
        for argument, byte in zip(self.launch.arguments, self.launch.array_addresses(), strict=True):
            if isinstance(argument, ArrayArgument) and 0 <= address - byte // 4 < argument.words:
                index = (4 * address - byte) * 8 // ELEMENT_BITS[argument.element]
                return f"({argument.name}[{index}])"
        return ""

    def _execute(self, token: Token) -> str:
        self._store = []
        lanes = [lane for lane in range(self.spec.lanes) if token.mask >> lane & 1]
        mask = "".join("1" if lane in lanes else "-" for lane in range(self.spec.lanes))
        if token.a >= len(self.rom.blocks):
            self._returns = iter(())
            return f"EXEC block {token.a} (the program has none) warp {token.b} lanes {mask}"
        block = self.rom.blocks[token.a]
        self._returns = iter(list(_returned(block, lanes)))
        source = block.source and f"{Path(block.source.file).name}:{block.source.line}"
        names = ", ".join(name for name in (block.label, source) if name)
        return f"EXEC block {token.a}{f' ({names})' if names else ''} warp {token.b} lanes {mask}"

    def _store_half(self, token: Token) -> str:
        self._store.append(token.a)
        if len(self._store) == 2:
            return f"VAL  {token.a} low half"
        address, low, high = self._store
        self._store = []
        word = low | high << HALF_BITS
        signed = word - (1 << 32) if word >> 31 else word
        return f"VAL  {token.a} high half: [{address}] = {signed} {self._element}".rstrip()


def _returned(block: Block, lanes: list[int]) -> Iterator[str]:
    """Where each VAL after an EXEC goes, in order (see encoding.return_sequence)."""
    if block.returns_predicates:
        yield f"predicates, {PREDICATES} bits a lane"
    for item in block.returns:
        for place in ["all lanes"] if item.uniform else [f"lane {lane}" for lane in lanes]:
            if item.narrow:
                yield f"r{item.register} {place}"
            else:
                yield f"r{item.register}.lo {place}"
                yield f"r{item.register}.hi {place}"


def print_trace(rom: RomImage, spec: MachineSpec, launch: Launch, tokens: Iterable[Token]) -> str:
    """A trace file: one token a line, with its place in the launch and its words."""
    narrator, vocabulary = Narrator(rom, spec, launch), Vocabulary(spec)
    lines = [f"{HEADER}: kernel {rom.kernel}, machine {spec.name}"]
    for index, token in enumerate(tokens):
        lines.append(f"{index:5}  {vocabulary.text(token):<20} {narrator.say(token)}".rstrip())
    return "\n".join(lines) + "\n"
