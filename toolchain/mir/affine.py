"""Arithmetic and text of `LinkValue`: what is known when a kernel is linked costs nothing when it runs.

Text: `7`, `param.0`, `param.3 - 1`, `2*param.0 + ntid.x`, `(param.0 + 4)>>2`. Negative addends print as such.
"""

import re

from toolchain.mir.rom import LinkValue

MASK = 0xFFFFFFFF


def constant(value: int) -> LinkValue:
    return LinkValue(value & MASK)


def symbol(name: str) -> LinkValue:
    return LinkValue(0, ((name, 1),))


def is_constant(value: object) -> bool:
    """Whether it is a LinkValue whose number is known now."""
    return isinstance(value, LinkValue) and not value.terms


def number(value: LinkValue) -> int:
    """The number of a constant."""
    return value.resolve({})


def normal(value: LinkValue) -> LinkValue:
    """The one form of this value: sorted nonzero terms, addend in 0 .. 2**32 - 1, constants unshifted."""
    factors: dict[str, int] = {}
    for name, factor in value.terms:
        factors[name] = (factors.get(name, 0) + factor) & MASK
    terms = tuple(sorted((name, _signed(factor)) for name, factor in factors.items() if factor))
    if not terms:
        return LinkValue((value.addend & MASK) >> value.shift)
    return LinkValue(value.addend & MASK, terms, value.shift)


def add(a: LinkValue, b: LinkValue) -> LinkValue | None:
    """a + b, None where it is not affine: of shifted values see `add_words`."""
    if a.shift or b.shift:
        return None
    return normal(LinkValue(a.addend + b.addend, a.terms + b.terms))


def scale(a: LinkValue, factor: int) -> LinkValue | None:
    """a * factor, None for a shifted value."""
    if a.shift:
        return None
    return normal(LinkValue(a.addend * factor, tuple((name, by * factor) for name, by in a.terms)))


def word_address(a: LinkValue) -> LinkValue | None:
    """The word address of byte address a, None if a is already shifted."""
    if a.shift:
        return None
    return normal(LinkValue(a.addend, a.terms, 2))


def add_words(a: LinkValue, b: LinkValue) -> LinkValue | None:
    """a + b modulo 2**30, for word addresses; either may be shifted by 2 or not at all."""
    if a.shift == b.shift == 0:
        return add(a, b)
    if {a.shift, b.shift} - {0, 2}:
        return None
    bytes_a = LinkValue(a.addend, a.terms) if a.shift else scale(a, 4)
    bytes_b = LinkValue(b.addend, b.terms) if b.shift else scale(b, 4)
    if bytes_a is None or bytes_b is None:
        return None
    total = add(bytes_a, bytes_b)
    return None if total is None else word_address(total)


def _signed(value: int) -> int:
    value &= MASK
    return value - (1 << 32) if value >> 31 else value


def print_link_value(value: LinkValue) -> str:
    parts: list[tuple[int, str]] = []
    for name, factor in value.terms:
        parts.append((factor, name if abs(factor) == 1 else f"{abs(factor)}*{name}"))
    addend = value.addend
    if value.terms:
        addend = _signed(addend)
    if addend or not parts:
        parts.append((addend, str(abs(addend))))
    text = "".join((" - " if sign < 0 else " + ") + body for sign, body in parts)
    text = text[3:] if text.startswith(" + ") else "-" + text[3:]
    return f"({text})>>{value.shift}" if value.shift else text


_SHIFTED = re.compile(r"\((?P<inner>.*)\)>>(?P<shift>\d+)")
_TERM = re.compile(r"\s*(?P<sign>[+-]?)\s*(?:(?P<factor>\d+)\*)?(?P<body>[A-Za-z_][\w.]*|\d+)\s*")


def parse_link_value(text: str) -> LinkValue:
    """The inverse of `print_link_value`, in normal form; raises ValueError on anything else."""
    text = text.strip()
    shifted = _SHIFTED.fullmatch(text)
    shift = int(shifted["shift"]) if shifted else 0
    rest = shifted["inner"] if shifted else text
    addend, terms, position = 0, [], 0
    while position < len(rest):
        match = _TERM.match(rest, position)
        if match is None or (position and not match["sign"]):
            raise ValueError(f"'{text}' is not a link-time constant")
        sign = -1 if match["sign"] == "-" else 1
        if match["body"].isdigit():
            addend += sign * int(match["body"])
        else:
            terms.append((match["body"], sign * int(match["factor"] or 1)))
        position = match.end()
    if not rest.strip():
        raise ValueError("a link-time constant is missing")
    return normal(LinkValue(addend, tuple(terms), shift))
