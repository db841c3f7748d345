"""Random PTX instructions with edge operands, on the PTX interpreter, in MIR and in the ROM image.

A case is one instruction (or a pair that passes a carry) on one thread's operands; a batch is one kernel of
several instructions on 32 threads. tests/instruction_reference.py says what each must give. To run many:

    python -m tests.fuzz_instructions --cases 50000 --seed 1
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from tests import instruction_reference as reference
from toolchain.errors import CompileError
from toolchain.launch import ArrayArgument, Launch
from toolchain.machine_spec import CLASSIC, MachineSpec
from toolchain.mir import emit_rom, lower_ptx, pipeline
from toolchain.mir.interpreter import run_launch
from toolchain.mir.mir_interpreter import run_mir
from toolchain.ptx_frontend.interpreter import interpret
from toolchain.ptx_frontend.parser import parse_ptx
from toolchain.ptx_frontend.support import check_supported

MACHINE = replace(
    CLASSIC, name="fuzz", registers=64, blocks=256, memory_words=1022, shared_words=1022, head_rows=1024
)
"""CLASSIC with room for a batch: the same lanes, warps, slots and stages."""
THREADS = 32
OPERANDS = 3
IN_BATCH = 10
WORDS = 2 * OPERANDS

EDGES = (
    0,
    1,
    2,
    3,
    5,
    7,
    8,
    15,
    16,
    24,
    31,
    32,
    33,
    63,
    64,
    65,
    127,
    128,
    129,
    255,
    256,
    0x7FFF,
    0x8000,
    0xFFFF,
)
EDGES += (0x10000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 1 << 32, (1 << 32) + 1)
EDGES += ((1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 2, (1 << 64) - 1)

NUMBERS = ("s16", "u16", "s32", "u32", "s64", "u64")
PATTERNS = ("b16", "b32", "b64")
ALL = tuple(f"{sign}{bits}" for sign in "su" for bits in (8, 16, 32, 64))
HALVES = ("lo", "hi")
SIGNED, UNSIGNED = (
    ("eq", "ne", "lt", "le", "gt", "ge"),
    ("eq", "ne", "lo", "ls", "hi", "hs", "lt", "le", "gt", "ge"),
)


def _names() -> Iterator[str]:
    """Every form of every instruction, as PTX writes it."""
    for kind in NUMBERS:
        yield from (f"{name}.{kind}" for name in ("add", "sub", "min", "max", "sad", "shr", "div", "rem"))
        yield from (f"{name}.{half}.{kind}" for name in ("mul", "mad") for half in HALVES)
    for kind in NUMBERS[:4]:
        yield from (f"{name}.wide.{kind}" for name in ("mul", "mad"))
    for kind in PATTERNS:
        yield from (f"{name}.{kind}" for name in ("and", "or", "xor", "not", "cnot", "shl", "shr", "selp"))
        yield f"slct.{kind}.s32"
    for kind in ("s16", "s32", "s64"):
        yield from (f"abs.{kind}", f"neg.{kind}")
    for kind in ("s32", "u32"):
        yield from (f"{name}.{half}.{kind}" for name in ("mul24", "mad24") for half in HALVES)
        yield from (f"szext.{mode}.{kind}" for mode in ("clamp", "wrap"))
        for other in ("s32", "u32"):
            yield f"dp4a.{kind}.{other}"
            yield from (f"dp2a.{half}.{kind}.{other}" for half in HALVES)
    for kind in ("s32", "u32", "s64", "u64"):
        yield from (f"bfind.{kind}", f"bfind.shiftamt.{kind}", f"bfe.{kind}")
    for kind in ("b32", "b64"):
        yield from (f"{name}.{kind}" for name in ("popc", "clz", "brev", "bfi"))
    yield from ("add.sat.s32", "sub.sat.s32", "lop3.b32", "prmt.b32", "bmsk.clamp.b32", "bmsk.wrap.b32")
    yield from (f"prmt.b32.{mode}" for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"))
    yield from (f"shf.{way}.{mode}.b32" for way in "lr" for mode in ("wrap", "clamp"))
    for kind in (*NUMBERS, *PATTERNS):
        for name in {"s": SIGNED, "u": UNSIGNED, "b": ("eq", "ne")}[kind[0]]:
            for boolean in ("", ".and", ".or", ".xor"):
                yield f"setp.{name}{boolean}.{kind}"
                yield f"set.{name}{boolean}.{'us'[len(name + kind) % 2]}32.{kind}"
    yield from (f"cvt{sat}.{to}.{source}" for sat in ("", ".sat") for to in ALL for source in ALL)


NAMES = tuple(dict.fromkeys(_names()))


def _pairs() -> Iterator[str]:
    """Extended-precision pairs: the first sets the carry, the second takes it."""
    for kind in ("s32", "u32", "s64", "u64"):
        for last in ("", "cc."):
            yield from (f"add.cc.{kind} addc.{last}{kind}", f"sub.cc.{kind} subc.{last}{kind}")
            yield from (
                f"mad.{half}.cc.{kind} madc.{other}.{last}{kind}" for half in HALVES for other in HALVES
            )


PAIRS = tuple(_pairs())

Expect = Callable[[list[int]], int]
"""The result from a thread's operands, 64 bits each."""


@dataclass(frozen=True)
class Snippet:
    """One instruction of a batch: its PTX, the width of its result, and what it must give."""

    name: str
    text: str
    bits: int
    expect: Expect


@dataclass(frozen=True)
class Batch:
    """A kernel and its operands: thread t has `operands[t]`."""

    snippets: tuple[Snippet, ...]
    operands: tuple[tuple[int, ...], ...]

    @property
    def cases(self) -> int:
        return len(self.snippets) * len(self.operands)

    @property
    def text(self) -> str:
        body = "\n".join(snippet.text for snippet in self.snippets)
        return HEAD.replace("OPERAND_BYTES", str(4 * WORDS)) + body + "\nret;\n}\n"

    @property
    def launch(self) -> Launch:
        words = [w for values in self.operands for v in values for w in (v & 0xFFFFFFFF, v >> 32)]
        results = (0,) * (2 * len(self.snippets) * len(self.operands))
        arguments = (ArrayArgument("a", tuple(words), "u32"), ArrayArgument("d", results, "u32"))
        return Launch((1, 1, 1), (len(self.operands), 1, 1), arguments)

    def expected(self) -> list[int]:
        """The result of each snippet on each thread, snippet by snippet."""
        return [snippet.expect(list(values)) for snippet in self.snippets for values in self.operands]

    def results(self, memory: tuple[int, ...]) -> list[int]:
        """The same from memory after the launch."""
        start = WORDS * len(self.operands)
        return [memory[start + i] | memory[start + i + 1] << 32 for i in range(0, 2 * self.cases, 2)]


HEAD = """.version 8.0
.target sm_75
.address_size 32
.visible .entry k(.param .u32 .ptr .global a, .param .u32 .ptr .global d)
{
.reg .b64 %x<4>; .reg .b32 %w<4>; .reg .b16 %h<4>; .reg .pred %p<3>;
.reg .b32 %r<999>; .reg .b64 %rd<999>; .reg .b16 %rs<999>; .reg .pred %q<999>;
.reg .b32 %in, %out, %t, %s, %bit;
ld.param.u32 %in, [a];
ld.param.u32 %out, [d];
mov.u32 %t, %tid.x;
shl.b32 %s, %t, 3;
add.u32 %out, %out, %s;
mad.lo.u32 %in, %t, OPERAND_BYTES, %in;
ld.global.b64 %x1, [%in];
ld.global.b64 %x2, [%in+8];
ld.global.b64 %x3, [%in+16];
cvt.u32.u64 %w1, %x1; cvt.u32.u64 %w2, %x2; cvt.u32.u64 %w3, %x3;
cvt.u16.u64 %h1, %x1; cvt.u16.u64 %h2, %x2; cvt.u16.u64 %h3, %x3;
shr.u32 %bit, %w3, 1; and.b32 %bit, %bit, 1; setp.ne.u32 %p1, %bit, 0;
shr.u32 %bit, %w3, 2; and.b32 %bit, %bit, 1; setp.ne.u32 %p2, %bit, 0;
"""
"""%x, %w and %h hold the operands, %p1 and %p2 bits 1 and 2 of the third one."""


def _place(bits: int, number: int) -> str:
    """The register with operand `number` for a type; 8-bit types read 16-bit registers."""
    return {64: "%x", 32: "%w"}.get(bits, "%h") + str(number)


def _destination(bits: int, index: int) -> str:
    return {64: "%rd", 32: "%r", 1: "%q"}.get(bits, "%rs") + str(index)


def _stored(dest: str, index: int, bits: int) -> str:
    """PTX that stores a result as 64 bits, zero-extended; `index` is its place in the batch."""
    wide = f"%rd{index + 500}"
    text = {
        64: f"mov.b64 {wide}, {dest};",
        32: f"cvt.u64.u32 {wide}, {dest};",
        1: f"selp.u64 {wide}, 1, 0, {dest};",
    }.get(bits, f"cvt.u64.u16 {wide}, {dest};")
    return f"{text} st.global.b64 [%out+{8 * THREADS * index}], {wide};"


def _literal(value: int, kind: str, random: Random) -> str:
    """A constant operand of a type, signed or in hexadecimal."""
    if kind[0] == "s" or random.random() < 0.3:
        return str(reference.number(value, f"s{reference.BITS[kind]}"))
    return hex(value % (1 << reference.BITS[kind]))


def _operand(random: Random) -> int:
    choice = random.random()
    if choice < 0.35:
        return random.choice(EDGES)
    if choice < 0.45:
        return 1 << random.randrange(64)
    if choice < 0.55:
        return -random.choice(EDGES) % (1 << 64)
    if choice < 0.65:
        return random.choice(EDGES) & 0xFFFFFFFF | random.choice(EDGES) << 32 & (0xFFFFFFFF << 32)
    return random.getrandbits(random.choice((8, 16, 31, 32, 33, 48, 64, 64)))


def _instruction(name: str, index: int, random: Random) -> Snippet:
    """A snippet of one instruction, some operands constant, sometimes guarded."""
    opcode, *words = name.split(".")
    modifiers = tuple(words)
    kinds = reference.source_types(opcode, modifiers)
    bits = reference.result_bits(opcode, modifiers)
    texts: list[str] = []
    values: list[Callable[[list[int]], int]] = []
    constant_place = random.randrange(6)
    for place, kind in enumerate(kinds):
        if kind == "pred":
            negated = random.random() < 0.3
            texts.append("!%p1" if negated else "%p1")
            values.append(lambda v, negated=negated: (v[2] >> 1 & 1) ^ negated)
        elif place == constant_place or place >= OPERANDS:
            value = _operand(random)
            texts.append(_literal(value, kind, random))
            values.append(lambda v, value=value, kind=kind: value % (1 << reference.BITS[kind]))
        else:
            texts.append(_place(reference.BITS[kind], place + 1))
            values.append(lambda v, place=place, kind=kind: v[place] % (1 << reference.BITS[kind]))
    if opcode == "lop3":
        table = random.randrange(256)
        texts.append(str(table))
        values.append(lambda v: table)

    def plain(v: list[int]) -> int:
        return reference.evaluate(opcode, modifiers, [value(v) for value in values])

    if opcode == "setp" and random.random() < 0.5:
        return _dual(name, index, texts, lambda v: [value(v) for value in values])
    if opcode == "cvt":
        return _conversion(name, index, texts[0], plain, random)
    dest = _destination(bits, index)
    line = f"{name} {dest}, {', '.join(texts)};"
    return _guarded(name, line, dest, index, bits, plain, random)


def _guarded(
    name: str, line: str, dest: str, index: int, bits: int, plain: Expect, random: Random
) -> Snippet:
    """The line, in a quarter of the cases behind a guard, over an old value."""
    if bits == 1 or random.random() < 0.75:
        return Snippet(name, line + _stored(dest, index, bits), bits, plain)
    negated = random.random() < 0.5
    old = random.getrandbits(15)
    text = f"mov.b{bits} {dest}, {old}; @{'!' if negated else ''}%p2 {line}" + _stored(dest, index, bits)
    return Snippet(f"@{name}", text, bits, lambda v: plain(v) if (v[2] >> 2 & 1) != negated else old)


def _dual(name: str, index: int, texts: list[str], values: Callable[[list[int]], list[int]]) -> Snippet:
    """setp with two destinations; the result has both."""
    opcode, *modifiers = name.split(".")
    line = f"{name} %q{index}|%q{index + 500}, {', '.join(texts)};"
    line += f"selp.u32 %r{index}, 1, 0, %q{index}; selp.u32 %r{index + 500}, 2, 0, %q{index + 500};"
    line += f"add.u32 %r{index}, %r{index}, %r{index + 500};" + _stored(f"%r{index}", index, 32)
    words = tuple(modifiers)

    def expect(v: list[int]) -> int:
        return reference.evaluate(opcode, words, values(v)) + 2 * reference.second_result(words, values(v))

    return Snippet(f"{name} p|q", line, 32, expect)


def _conversion(name: str, index: int, text: str, plain: Expect, random: Random) -> Snippet:
    """cvt into a register as wide as the result or wider: extended as the result's type says."""
    to = reference.types(tuple(name.split(".")))[0]
    bits = random.choice([size for size in (16, 32, 64) if size >= reference.BITS[to]])
    dest = _destination(bits, index)
    line = f"{name} {dest}, {text};" + _stored(dest, index, bits)
    return Snippet(name, line, bits, lambda v: reference.number(plain(v), to) % (1 << bits))


def _carrying(name: str, index: int, random: Random) -> Snippet:
    """Two instructions that pass a carry, and, where the second sets it again, a third that shows it."""
    first, second = name.split()
    kind = first.split(".")[-1]
    bits = reference.BITS[kind]
    shown = ".cc." in second
    low, high, last = (_destination(bits, index + offset) for offset in (100, 200, 300))
    a, b, c = (_place(bits, place) for place in (1, 2, 3))
    sources = f"{a}, {b}, {c}" if first.startswith("mad") else f"{a}, {b}"
    others = f"{b}, {c}, {a}" if first.startswith("mad") else f"{b}, {c}"
    line = f"{first} {low}, {sources}; {second} {high}, {others};"
    line += (
        f"{'subc' if 'sub' in first else 'addc'}.{kind} {last}, 0, 0;" if shown else f"mov.b{bits} {last}, 0;"
    )
    mixed = _destination(bits, index)
    line += f"xor.b{bits} {mixed}, {low}, {high}; xor.b{bits} {mixed}, {mixed}, {last};"

    def expect(v: list[int]) -> int:
        x, y, z = (value % (1 << bits) for value in v)
        one, carry = _extended(first, [x, y, z], 0)
        two, carry = _extended(second, [y, z, x], carry)
        three = (-carry if "sub" in first else carry) if shown else 0
        return (one ^ two ^ three) % (1 << bits)

    return Snippet(name, line + _stored(mixed, index, bits), bits, expect)


def _extended(name: str, patterns: list[int], carry: int) -> tuple[int, int]:
    """An extended-precision instruction: its word and its carry or borrow."""
    opcode, *words = name.split(".")
    bits = reference.BITS[words[-1]]
    a, b, c = patterns
    if opcode.startswith("mad"):
        product = reference.evaluate("mul", (words[0], words[-1]), [a, b])
        total = product + c + carry
    elif opcode.startswith("sub"):
        total = a - b - carry
    else:
        total = a + b + carry
    return total % (1 << bits), int(not 0 <= total < 1 << bits)


def random_batch(seed: int, names: tuple[str, ...] = (*NAMES, *PAIRS)) -> Batch:
    """A kernel of random instructions; the same for the same seed."""
    random = Random(seed)
    snippets = []
    for index in range(IN_BATCH):
        families = sorted({name.split(".")[0] for name in names})
        family = random.choice(families)
        name = random.choice([each for each in names if each.split(".")[0] == family])
        snippets.append((_carrying if " " in name else _instruction)(name, index, random))
    operands = tuple(tuple(_operand(random) for _ in range(OPERANDS)) for _ in range(THREADS))
    return Batch(tuple(snippets), operands)


@dataclass(frozen=True)
class Wrong:
    """A result that is not the reference's."""

    level: str
    name: str
    text: str
    operands: tuple[int, ...]
    expected: int
    got: int

    def __str__(self) -> str:
        inputs = ", ".join(hex(value) for value in self.operands)
        return f"{self.level}: {self.text}\n  of {inputs}: {self.got:#x}, expected {self.expected:#x}"


def memories(batch: Batch, spec: MachineSpec) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Memory after the launch on each level."""
    module = parse_ptx(batch.text, "fuzz.ptx")
    launch = batch.launch
    check_supported(module.entries[0])
    yield "ptx", interpret(module, "k", launch, spec)
    function = lower_ptx.run(module.entries[0], spec)
    yield "mir", run_mir(function, spec, launch).memory
    function = pipeline.optimise(function, spec)
    yield "mir after all passes", run_mir(function, spec, launch).memory
    yield "rom", run_launch(emit_rom.compile_mir(function, spec), spec, launch).memory


def check(batch: Batch, spec: MachineSpec = MACHINE) -> list[Wrong]:
    """Every wrong result of a batch on every level."""
    expected = batch.expected()
    wrong = []
    for level, memory in memories(batch, spec):
        for index, (want, got) in enumerate(zip(expected, batch.results(memory), strict=True)):
            if want != got:
                snippet = batch.snippets[index // len(batch.operands)]
                operands = batch.operands[index % len(batch.operands)]
                wrong.append(Wrong(level, snippet.name, snippet.text, operands, want, got))
    return wrong


def main(arguments: list[str]) -> int:
    """Checks random batches; prints the first wrong results of each and the totals. 1 if any was wrong.

    A batch that the machine has no room for (its predicates, mostly) does not count.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="instructions whose names begin so")
    options = parser.parse_args(arguments)
    names = tuple(name for name in (*NAMES, *PAIRS) if name.startswith(options.only))
    begin, done, faults, over, seed = time.monotonic(), 0, 0, 0, options.seed - 1
    while done < options.cases:
        seed += 1
        batch = random_batch(seed, names)
        try:
            wrong = check(batch)
        except CompileError as error:
            if not error.limit:
                raise
            over += 1
            continue
        done, faults = done + batch.cases, faults + len(wrong)
        for item in {item.name: item for item in reversed(wrong)}.values():
            print(f"seed {seed}: {item}", flush=True)
    print(f"{over} batches over a limit of the machine")
    print(f"{done} cases, {faults} wrong results, {time.monotonic() - begin:.0f} s", flush=True)
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
