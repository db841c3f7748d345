"""Tokens at the edges of the circuit: what an embedding row sets, and the code by which the output names a token."""

from runtime.vocabulary import VALUES, Kind, Token, Vocabulary, short, val
from toolchain.circuit_ir.machine.back import CTA_BIT, MEM_BIT, SMEM_BIT
from toolchain.circuit_ir.machine.context import TOKEN_BITS

CODE_BITS = TOKEN_BITS + 2
HEADER = 1 << TOKEN_BITS
"""The code's bit of what is neither VAL nor SHORT."""
WHOLE = 2 << TOKEN_BITS
"""The code's bit of SHORT."""


def embedding(vocabulary: Vocabulary, token: Token) -> dict[str, int]:
    """Names and values of the input wires that are not zero for a token."""
    raw = vocabulary.raw(token)
    values = {f"raw{bit}": 1 for bit in range(TOKEN_BITS) if raw >> bit & 1}
    values[f"is.{token.kind.lower()}"] = 1
    if token.kind is Kind.SHORT:
        values[f"is.{Kind.VAL.lower()}"] = 1  # a payload like VAL, and short besides
    return values


def output_code(vocabulary: Vocabulary, token: Token) -> int | None:
    """The 18-bit code the circuit's outputs spell for a token, or None for one only the host writes."""
    fields = vocabulary.raw(token)
    match token.kind:
        case Kind.VAL:
            return fields
        case Kind.SHORT:
            return WHOLE | fields
        case Kind.EXEC:
            return HEADER | fields
        case Kind.CTA:
            return HEADER | 1 << CTA_BIT | fields
        case Kind.MEM:
            return HEADER | 1 << MEM_BIT | fields
        case Kind.SMEM:
            return HEADER | 1 << SMEM_BIT | fields
    return None


def token_of_code(vocabulary: Vocabulary, code: int) -> Token:
    """The token that a code names; raises ValueError on a code that names none."""
    fields = code & (VALUES - 1)
    if code & WHOLE:
        token = short(fields - VALUES if fields >> (TOKEN_BITS - 1) else fields)
        if code & HEADER or vocabulary.raw(token) != fields:
            raise ValueError(f"code {code:#x} names no token")
        return token
    if not code & HEADER:
        return val(fields)
    kind, base = Kind.EXEC, 0
    for other, bit in ((Kind.MEM, MEM_BIT), (Kind.SMEM, SMEM_BIT), (Kind.CTA, CTA_BIT)):
        if fields >> bit & 1:
            kind, base = other, 1 << bit
    first, count = vocabulary.ranges()[kind]
    if fields - base >= count:
        raise ValueError(f"code {code:#x} names no token")
    return vocabulary.token(first + fields - base)
