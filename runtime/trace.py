"""The tokens of a launch in words a person reads, one at a time as the model writes them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from runtime.vocabulary import HALF_BITS, Kind, Token, Vocabulary
from toolchain.launch import ELEMENT_BITS, ArrayArgument, Launch
from toolchain.machine_spec import PREDICATES, WORD_BITS, MachineSpec
from toolchain.mir.rom import Block, RomImage

HEADER = "# qgpuc trace"


class Narrator:
    """Says what each token of a launch means, and of one that makes no sense, that it makes none."""

    def __init__(self, rom: RomImage, spec: MachineSpec, launch: Launch) -> None:
        self.rom = rom
        self.spec = spec
        self.launch = launch
        self._returns: Iterator[_Place] = iter(())
        self._store: list[int] = []
        self._element = ""

    def say(self, token: Token) -> str:
        """The token in words. A MEM record is told whole by its last token; the others only open it."""
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
            case Kind.SHORT if self._store:
                return self._stored(token, "", token.a)
            case Kind.VAL | Kind.SHORT:
                return f"{token.kind:4} {token.a} -> {self._returned(token)}"
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
        self._returns = _places(block, lanes)
        source = block.source and f"{Path(block.source.file).name}:{block.source.line}"
        names = ", ".join(name for name in (block.label, source) if name)
        return f"EXEC block {token.a}{f' ({names})' if names else ''} warp {token.b} lanes {mask}"

    def _store_half(self, token: Token) -> str:
        self._store.append(token.a)
        if len(self._store) == 2:
            return f"VAL  {token.a} low half"
        word = self._store[1] | token.a << HALF_BITS
        signed = word - (1 << WORD_BITS) if word >> (WORD_BITS - 1) else word
        return self._stored(token, " high half", signed)

    def _stored(self, token: Token, part: str, signed: int) -> str:
        address, self._store = self._store[0], []
        return f"{token.kind:4} {token.a}{part}: [{address}] = {signed} {self._element}".rstrip()

    def _returned(self, token: Token) -> str:
        """Where a VAL or SHORT after an EXEC goes. A SHORT says both halves, so it takes both places."""
        place = next(self._returns, None)
        if place is None:
            return "nothing: the block returns no more"
        if token.kind is Kind.VAL:
            return place.half
        if not place.whole:
            return f"{place.half}, which is no whole value"
        next(self._returns)
        return place.whole


@dataclass(frozen=True)
class _Place:
    """Where a VAL goes; `whole`: where a SHORT goes that comes instead of it and the next one, if it may."""

    half: str
    whole: str = ""


def _places(block: Block, lanes: list[int]) -> Iterator[_Place]:
    """Where each VAL after an EXEC goes, in order (see encoding.return_sequence)."""
    if block.returns_predicates:
        yield _Place(f"predicates, {PREDICATES} bits a lane")
    for item in block.returns:
        for place in ["all lanes"] if item.uniform else [f"lane {lane}" for lane in lanes]:
            if item.narrow:
                yield _Place(f"r{item.register} {place}")
            else:
                yield _Place(f"r{item.register}.lo {place}", f"r{item.register} {place}")
                yield _Place(f"r{item.register}.hi {place}")


def print_trace(rom: RomImage, spec: MachineSpec, launch: Launch, tokens: Iterable[Token]) -> str:
    """A trace file: one token a line, with its place in the launch and its words."""
    narrator, vocabulary = Narrator(rom, spec, launch), Vocabulary(spec)
    lines = [f"{HEADER}: kernel {rom.kernel}, machine {spec.name}"]
    for index, token in enumerate(tokens):
        lines.append(f"{index:5}  {vocabulary.text(token):<20} {narrator.say(token)}".rstrip())
    return "\n".join(lines) + "\n"
