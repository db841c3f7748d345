"""What PTX integer instructions compute, written from the text of the PTX ISA on Python's integers.

It shares no code with the toolchain: the fuzzer judges every level by it. `evaluate` takes bit patterns
(unsigned integers) and gives the bit pattern of the result, as wide as `result_bits` says.
"""

from collections.abc import Callable

BITS = {"pred": 1, **{f"{sign}{bits}": bits for sign in "bsu" for bits in (8, 16, 32, 64)}}
Modifiers = tuple[str, ...]
Rule = Callable[[Modifiers, str, list[int]], int]

COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
BOOLEAN: dict[str, Callable[[bool, bool], bool]] = {
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "xor": lambda a, b: a != b,
}


def number(pattern: int, kind: str) -> int:
    """The number a bit pattern stands for in a type."""
    bits = BITS[kind]
    pattern %= 1 << bits
    return pattern - (1 << bits) if kind[0] == "s" and pattern >= 1 << (bits - 1) else pattern


def types(modifiers: Modifiers) -> list[str]:
    return [word for word in modifiers if word in BITS]


def result_bits(opcode: str, modifiers: Modifiers) -> int:
    """Bits of the result register."""
    first, last = types(modifiers)[0], types(modifiers)[-1]
    if opcode == "setp":
        return 1
    if opcode in ("popc", "clz", "bfind"):
        return 32
    if opcode in ("cvt", "set", "slct"):
        return BITS[first]
    return BITS[last] * (2 if "wide" in modifiers else 1)


def source_types(opcode: str, modifiers: Modifiers) -> list[str]:
    """The type each source operand is read as; predicates come last."""
    kind = types(modifiers)[-1]
    wide = f"{kind[0]}{2 * BITS[kind]}" if "wide" in modifiers else kind
    boolean = ["pred"] if set(modifiers) & set(BOOLEAN) else []
    match opcode:
        case "abs" | "neg" | "not" | "cnot" | "popc" | "clz" | "brev" | "bfind" | "cvt":
            return [kind]
        case "mad" | "mad24":
            return [kind, kind, wide]
        case "sad" | "lop3":
            return [kind] * 3
        case "dp4a" | "dp2a" | "prmt" | "shf":
            return ["b32"] * 3
        case "shl" | "shr":
            return [kind, "u32"]
        case "bfe":
            return [kind, "u32", "u32"]
        case "bfi":
            return [kind, kind, "u32", "u32"]
        case "bmsk" | "szext":
            return ["b32", "b32"]
        case "setp" | "set":
            return [kind, kind, *boolean]
        case "selp":
            return [kind, kind, "pred"]
        case "slct":
            return [types(modifiers)[0]] * 2 + ["s32"]
    return [kind, kind]


def evaluate(opcode: str, modifiers: Modifiers, patterns: list[int]) -> int:
    """The result of an instruction on bit patterns."""
    kind = types(modifiers)[-1]
    sources = source_types(opcode, modifiers)
    values = [number(pattern, source) for pattern, source in zip(patterns, sources, strict=False)]
    values += patterns[len(sources) :]  # lop3's table
    return RULES[opcode](modifiers, kind, values) % (1 << result_bits(opcode, modifiers))


def second_result(modifiers: Modifiers, patterns: list[int]) -> int:
    """setp's q of p|q: the comparison inverted, then combined with the same predicate."""
    return _set_predicate(modifiers, types(modifiers)[-1], _numbers(modifiers, patterns), inverted=True)


def _numbers(modifiers: Modifiers, patterns: list[int]) -> list[int]:
    return [number(p, source) for p, source in zip(patterns, source_types("setp", modifiers), strict=True)]


def clamp(value: int, kind: str) -> int:
    bits = BITS[kind]
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    return min(max(value, low), high)


def _half(modifiers: Modifiers, kind: str, product: int) -> int:
    return product >> BITS[kind] if "hi" in modifiers else product


def _half24(modifiers: Modifiers, kind: str, values: list[int]) -> int:
    """The 48-bit product of 24-bit operands: bits 47..16 or 31..0."""
    a, b = (value % (1 << 24) for value in values[:2])
    if kind[0] == "s":
        a, b = (value - (1 << 24) if value >> 23 else value for value in (a, b))
    return a * b >> 16 if "hi" in modifiers else a * b


def _quotient(values: list[int]) -> int:
    a, b = values
    if b == 0:
        return -1  # left open by the ISA; NVIDIA's hardware gives all ones
    size = abs(a) // abs(b)
    return -size if (a < 0) != (b < 0) else size


def _remainder(values: list[int]) -> int:
    a, b = values
    return -1 if b == 0 else a - b * _quotient(values)


def _dot(modifiers: Modifiers, kind: str, values: list[int]) -> int:
    """dp4a: four bytes with four bytes; dp2a: two halves with the two lower or upper bytes."""
    a, b, c = values
    count, bits = (2, 16) if modifiers[0] in ("lo", "hi") else (4, 8)
    first = 2 if modifiers[0] == "hi" else 0
    sign_a, sign_b = (word[0] for word in modifiers[-2:])
    return c + sum(
        number(a >> bits * i, f"{sign_a}{bits}") * number(b >> 8 * (first + i), f"{sign_b}8")
        for i in range(count)
    )


def _shift_right(modifiers: Modifiers, kind: str, values: list[int]) -> int:
    return values[0] >> min(values[1], BITS[kind])


def _funnel(modifiers: Modifiers, kind: str, values: list[int]) -> int:
    low, high, amount = values
    amount = min(amount, 32) if "clamp" in modifiers else amount % 32
    both = high << 32 | low
    return both << amount >> 32 if "l" in modifiers else both >> amount


def _logic3(modifiers: Modifiers, kind: str, values: list[int]) -> int:
    a, b, c, table = values
    index = [(a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1) for i in range(32)]
    return sum((table >> row & 1) << i for i, row in enumerate(index))


def _find(modifiers: Modifiers, kind: str, values: list[int]) -> int:
    """The highest bit that differs from the sign."""
    bits, (value,) = BITS[kind], values
    sign = value < 0
    found = next((i for i in reversed(range(bits)) if (value >> i & 1) != sign), -1)
    return bits - 1 - found if "shiftamt" in modifiers and found >= 0 else found


def _extract(modifiers: Modifiers, kind: str, values: list[int]) -> int:
    """bfe, bit by bit as the ISA's pseudocode has it."""
    a, place, length = values[0], values[1] & 0xFF, values[2] & 0xFF
    top = BITS[kind] - 1
    fill = a >> min(place + length - 1, top) & 1 if kind[0] == "s" and length else 0
    inside = (i < length and place + i <= top for i in range(top + 1))
    return sum((a >> (place + i) & 1 if here else fill) << i for i, here in enumerate(inside))


def _insert(modifiers: Modifiers, kind: str, values: list[int]) -> int:
    """bfi, bit by bit."""
    field, result, place, length = values[0], values[1], values[2] & 0xFF, values[3] & 0xFF
    for i in range(length):
        if place + i < BITS[kind]:
            result = result & ~(1 << (place + i)) | (field >> i & 1) << (place + i)
    return result


def _mask(modifiers: Modifiers, kind: str, values: list[int]) -> int:
    start, length = (min(v, 32) if "clamp" in modifiers else v % 32 for v in values)
    return sum(1 << i for i in range(start, min(start + length, 32)))


def _extend(modifiers: Modifiers, kind: str, values: list[int]) -> int:
    a, count = values[0], min(values[1], 32) if "clamp" in modifiers else values[1] % 32
    low = a % (1 << count)
    return low - (1 << count) if kind[0] == "s" and count and low >> (count - 1) else low


def _permute(modifiers: Modifiers, kind: str, values: list[int]) -> int:
    a, b, control = values
    source = (b << 32 | a).to_bytes(8, "little")
    n = control & 3
    modes = {
        "f4e": [n + i for i in range(4)],
        "b4e": [(n - i) % 8 for i in range(4)],
        "rc8": [n] * 4,
        "ecl": [max(n, i) for i in range(4)],
        "ecr": [min(n, i) for i in range(4)],
        "rc16": [2 * (n & 1), 2 * (n & 1) + 1] * 2,
    }
    picks = modes.get(modifiers[-1])
    if picks is not None:
        return int.from_bytes(bytes(source[i] for i in picks), "little")
    nibbles = [control >> 4 * i & 15 for i in range(4)]
    signs = [0xFF if source[nibble & 7] & 0x80 else 0 for nibble in nibbles]
    picked = [sign if nibble & 8 else source[nibble & 7] for nibble, sign in zip(nibbles, signs, strict=True)]
    return int.from_bytes(bytes(picked), "little")


def _compared(modifiers: Modifiers, kind: str, values: list[int]) -> bool:
    name = modifiers[0]
    if name in UNSIGNED:
        values = [value % (1 << BITS[kind]) for value in values[:2]]
    return COMPARE[UNSIGNED.get(name, name)](values[0], values[1])


def _set_predicate(modifiers: Modifiers, kind: str, values: list[int], *, inverted: bool = False) -> int:
    holds = _compared(modifiers, kind, values) != inverted
    combine = BOOLEAN.get(modifiers[1])
    return int(holds if combine is None else combine(holds, bool(values[2])))


RULES: dict[str, Rule] = {
    "add": lambda m, k, v: clamp(v[0] + v[1], k) if "sat" in m else v[0] + v[1],
    "sub": lambda m, k, v: clamp(v[0] - v[1], k) if "sat" in m else v[0] - v[1],
    "mul": lambda m, k, v: _half(m, k, v[0] * v[1]),
    "mad": lambda m, k, v: _half(m, k, v[0] * v[1]) + v[2],
    "mul24": _half24,
    "mad24": lambda m, k, v: _half24(m, k, v) + v[2],
    "div": lambda m, k, v: _quotient(v),
    "rem": lambda m, k, v: _remainder(v),
    "sad": lambda m, k, v: v[2] + abs(v[0] - v[1]),
    "dp4a": _dot,
    "dp2a": _dot,
    "abs": lambda m, k, v: abs(v[0]),
    "neg": lambda m, k, v: -v[0],
    "min": lambda m, k, v: min(v),
    "max": lambda m, k, v: max(v),
    "and": lambda m, k, v: v[0] & v[1],
    "or": lambda m, k, v: v[0] | v[1],
    "xor": lambda m, k, v: v[0] ^ v[1],
    "not": lambda m, k, v: ~v[0],
    "cnot": lambda m, k, v: int(v[0] == 0),
    "shl": lambda m, k, v: v[0] << min(v[1], BITS[k]),
    "shr": _shift_right,
    "shf": _funnel,
    "lop3": _logic3,
    "popc": lambda m, k, v: f"{v[0]:b}".count("1"),
    "clz": lambda m, k, v: BITS[k] - len(f"{v[0]:b}".lstrip("0")),
    "brev": lambda m, k, v: int(f"{v[0]:0{BITS[k]}b}"[::-1], 2),
    "bfind": _find,
    "bfe": _extract,
    "bfi": _insert,
    "bmsk": _mask,
    "szext": _extend,
    "prmt": _permute,
    "setp": _set_predicate,
    "set": lambda m, k, v: -_set_predicate(m, k, v),
    "selp": lambda m, k, v: v[0] if v[2] else v[1],
    "slct": lambda m, k, v: v[0] if v[2] >= 0 else v[1],
    "cvt": lambda m, k, v: clamp(v[0], types(m)[0]) if "sat" in m else v[0],
}
