"""The forms of PTX arithmetic that the machine runs: a part of `support.SUPPORTED`."""

HALF = r"[bsu]16"
WORD = r"[bsu]32"
WIDE = r"[bsu]64"
SOME = r"[bsu](16|32|64)"
BITS = r"b(32|64)"
NUMBER = r"[su](16|32|64)"
SIGNED = r"s(16|32|64)"
DATA = r"[bsu](8|16|32|64)"
COMPARISON = r"(eq|ne|lt|le|gt|ge|lo|ls|hi|hs)"
BOOLEAN = r"(\.(and|or|xor))?"
FIELD = r"[su](32|64)"
CARRY = r"[su](32|64)"

ARITHMETIC: dict[str, str] = {
    "add": rf"{SOME}|sat\.s32|cc\.{CARRY}",
    "addc": rf"(cc\.)?{CARRY}",
    "sub": rf"{SOME}|sat\.s32|cc\.{CARRY}",
    "subc": rf"(cc\.)?{CARRY}",
    "mul": rf"(lo|hi)\.{SOME}|wide\.[su](16|32)",
    "mad": rf"(lo|hi)\.(cc\.)?{FIELD}|(lo|hi)\.{SOME}|wide\.[su](16|32)",
    "madc": rf"(lo|hi)\.(cc\.)?{FIELD}",
    "mul24": r"(lo|hi)\.[su]32",
    "mad24": r"(lo|hi)\.[su]32",
    "div": NUMBER,
    "rem": NUMBER,
    "sad": NUMBER,
    "dp4a": r"[su]32\.[su]32",
    "dp2a": r"(lo|hi)\.[su]32\.[su]32",
    "abs": SIGNED,
    "neg": SIGNED,
    "min": NUMBER,
    "max": NUMBER,
    "and": rf"{SOME}|pred",
    "or": rf"{SOME}|pred",
    "xor": rf"{SOME}|pred",
    "not": rf"{SOME}|pred",
    "cnot": SOME,
    "shl": SOME,
    "shr": SOME,
    "shf": r"[lr]\.(wrap|clamp)\.b32",
    "lop3": "b32",
    "popc": BITS,
    "clz": BITS,
    "brev": BITS,
    "bfind": rf"(shiftamt\.)?{FIELD}",
    "bfe": FIELD,
    "bfi": BITS,
    "bmsk": r"(clamp|wrap)\.b32",
    "szext": r"(clamp|wrap)\.[su]32",
    "prmt": r"b32(\.(f4e|b4e|rc8|ecl|ecr|rc16))?",
    "setp": rf"{COMPARISON}{BOOLEAN}\.{SOME}",
    "set": rf"{COMPARISON}{BOOLEAN}\.[su]32\.{SOME}",
    "selp": SOME,
    "slct": rf"{SOME}\.s32",
    "mov": rf"{SOME}|pred",
    "cvt": rf"(sat\.)?{DATA}\.{DATA}",
}
"""Opcode -> the modifiers that are accepted, as a regular expression over what follows the first dot."""
