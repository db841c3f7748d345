"""The parse tree of grammar.lark to the AST: one short method a rule."""

from math import prod
from typing import Any

from lark import Token, Tree

from toolchain.errors import CompileError, SourceLocation
from toolchain.ptx_frontend.ast import (
    Address,
    FloatImmediate,
    Function,
    Group,
    Guard,
    Immediate,
    Instruction,
    Label,
    Module,
    Negated,
    Operand,
    Pair,
    Parameter,
    PointerAttributes,
    Register,
    SpecialRegister,
    Symbol,
    Variable,
    Vector,
)
from toolchain.ptx_frontend.scopes import (
    FileIndex,
    Line,
    Registers,
    Scope,
    Signature,
    Statement,
    Table,
    flatten,
)

Node = Tree | Token | None

ATTRIBUTES = ("alignment", "word", "unused")


def integer(token: Token | str) -> int:
    """The value of a PTX integer literal: decimal, 0x, 0b, octal with a leading 0, with or without U."""
    digits = str(token).rstrip("U")
    if digits[:2] in ("0x", "0X", "0b", "0B"):
        return int(digits, 0)
    return int(digits, 8) if digits.startswith("0") and digits.isdigit() and len(digits) > 1 else int(digits)


class TreeBuilder:
    """Builds one Module. In operands every name is a Symbol at first; `flatten` finds the registers."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.lines = text.splitlines()
        self.version = ""
        self.targets: tuple[str, ...] = ()
        self.address_bits = 64
        self.variables: list[Variable] = []
        self.files: FileIndex = {}
        self.functions: list[tuple[Function, Scope]] = []
        self.aliases: dict[str, str] = {}

    def module(self, tree: Tree) -> Module:
        """The Module of a whole parse tree."""
        for item in tree.children:
            self._item(item)
        functions = tuple(
            flatten(function, scope, self.files, self.file, self.aliases)
            for function, scope in self.functions
            if function.name not in self.aliases
        )
        return Module(
            self.version, self.targets, self.address_bits, tuple(self.variables), functions, self.file
        )

    def error(self, message: str, token: Token) -> CompileError:
        """A CompileError at a token."""
        line, column = token.line or 1, token.column or 0
        excerpt = self.lines[line - 1].replace("\t", " ") if line <= len(self.lines) else ""
        return CompileError(message, SourceLocation(self.file, line, column), excerpt=excerpt)

    # Module level.

    def _item(self, node: Tree) -> None:
        children: list[Any] = node.children
        match node.data:
            case "version":
                self.version = str(children[0])
            case "target":
                self.targets = tuple(str(child) for child in children)
            case "address_size":
                self.address_bits = integer(children[0]) if str(children[0]).isdigit() else 64
            case "file":
                self._file(node)
            case "alias":
                self.aliases[str(children[0])] = str(children[1])
            case "module_variable":
                external = any(child == ".extern" for child in children)
                self.variables += self._variables(children[-1], external)
            case "entry" | "device_function":
                self._function(node)

    def _file(self, node: Tree) -> None:
        children: list[Any] = node.children
        self.files[integer(children[0])] = str(children[1])[1:-1]

    def _function(self, node: Tree) -> None:
        before: list[Tree] = []
        after: list[Tree] = []
        name: Token | None = None
        scope: Scope = []
        performance: list[tuple[str, tuple[int, ...]]] = []
        defined = False
        for child in node.children:
            if isinstance(child, Token):
                name = child if child.type == "NAME" else name
            elif child.data == "parameters":
                (after if name is not None else before).append(child)
            elif child.data == "performance":
                words: list[Any] = child.children
                values = tuple(integer(value) for value in words[1:] if value is not None)
                performance.append((str(child.children[0])[1:], values))
            else:
                scope, defined = self._scope(child), True
        assert name is not None
        results = tuple(self._parameter(p) for tree in before for p in tree.children if p is not None)
        parameters = tuple(self._parameter(p) for tree in after for p in tree.children if p is not None)
        function = Function(
            str(name), node.data == "entry", parameters, results,
            is_declaration=not defined, performance=tuple(performance),
        )  # fmt: skip
        self.functions.append((function, scope))

    def _parameter(self, node: Tree) -> Parameter:
        passed, *children = node.children
        position = next(i for i, child in enumerate(children) if isinstance(child, Token))
        words, align = self._attributes(children[:position])
        sizes = [self._dimension(child) for child in children[position + 1 :]]
        pointer = None
        if "ptr" in words:
            at = words.index("ptr")
            space = words[at + 1] if at + 1 < len(words) else ""
            words, pointer, align = words[:at], PointerAttributes(space, align), 0
        return Parameter(
            str(children[position]), words[-1], align, sizes[0] if sizes else None, pointer, str(passed)[1:]
        )

    def _attributes(self, nodes: list) -> tuple[list[str], int]:
        """The `.word`s among attributes, without their dot, and the alignment (0 if none)."""
        words, align = [], 0
        for node in nodes:
            if node.data == "alignment":
                align = integer(node.children[0])
            elif node.data == "word":
                words.append(str(node.children[0])[1:])
        return words, align

    def _dimension(self, node: Tree) -> int:
        children: list[Any] = node.children
        return integer(children[0]) if children else 0

    # Variables.

    def _variables(self, node: Tree, external: bool = False, space: str = "") -> list[Variable]:
        children: list[Any] = node.children
        if isinstance(children[0], Token):
            space, children = str(children[0])[1:], children[1:]
        attributes = [child for child in children if child.data in ATTRIBUTES]
        words, align = self._attributes(attributes)
        vector = tuple(int(word[1:]) for word in words[:-1] if word in ("v2", "v4", "v8"))
        result = []
        for declarator in children[len(attributes) :]:
            name, *rest = declarator.children
            dimensions = tuple(self._dimension(child) for child in rest[:-1])
            shape = dimensions + vector
            initialiser = () if rest[-1] is None else tuple(self._initialiser(rest[-1], name, shape))
            if shape[:1] == (0,) and initialiser:
                shape = (len(initialiser) // prod(shape[1:]), *shape[1:])
            result.append(Variable(space, str(name), words[-1], align, shape, initialiser, external))
        return result

    def _initialiser(self, node: Tree, name: Token, shape: tuple[int, ...] = ()) -> list[int | str]:
        """The elements; a row in braces that is not the last is filled up with zeros."""
        match node.data:
            case "initialisers":
                values: list[int | str] = []
                row = prod(shape[1:])
                for child in node.children:
                    if child is not None:
                        values += [0] * (-len(values) % row if child.data == "initialisers" else 0)
                        values += self._initialiser(child, name, shape[1:])
                return values
            case "integer":
                return [self._integer(node)]
            case "initial_symbol" | "initial_generic":
                names = [child for child in node.children if isinstance(child, Token)]
                offset = sum(self._offset(child) for child in node.children if isinstance(child, Tree))
                return [f"{names[-1]}+{offset}" if offset else str(names[-1])]
            case _:
                raise self.error(f"variable '{name}' is initialised with something other than integers", name)

    def _offset(self, node: Tree) -> int:
        """`+4` or `-4` after a symbol."""
        value = self._integer(node.children[0])
        return -value if node.data == "backward" else value

    # Statements.

    def _scope(self, node: Tree) -> Scope:
        return [statement for child in node.children for statement in self._statement(child)]

    def _statement(self, node: Tree) -> list[Statement]:
        children: list[Any] = node.children
        match node.data:
            case "instruction":
                return [self._instruction(children)]
            case "line":
                return [self._line(children)]
            case "label":
                return [Label(str(children[0]))]
            case "scope":
                return [self._scope(node)]
            case "registers":
                return [self._registers(node)]
            case "local_variable":
                return list(self._variables(node))
            case "local_parameter":
                return list(self._variables(node, space="param"))
            case "branch_targets":
                return [Table(tuple(str(child) for child in children))]
            case "prototype":
                return [Signature(" ".join(str(children[0]).split()))]
            case "file":
                self._file(node)
        return []

    def _line(self, tokens: list[Any]) -> Line:
        """`.loc`, with the place it was inlined at if that is told: the integers after `inlined_at`."""
        after = tokens.index("inlined_at") + 1 if "inlined_at" in tokens else None
        caller = None if after is None else self._line(tokens[after:])
        return Line(integer(tokens[0]), integer(tokens[1]), integer(tokens[2]), caller)

    def _registers(self, node: Tree) -> Registers:
        words, _ = self._attributes([child for child in node.children if child.data in ATTRIBUTES])
        names: list[str] = []
        for child in node.children:
            if child.data != "register":
                continue
            parts: list[Any] = child.children
            name, count = parts
            names += [str(name)] if count is None else [f"{name}{i}" for i in range(integer(count))]
        vectors = [int(word[1:]) for word in words[:-1] if word in ("v2", "v4")]
        return Registers(words[-1], tuple(names), vectors[0] if vectors else 0)

    def _instruction(self, children: list) -> Instruction:
        guard = None
        if isinstance(children[0], Tree):
            parts = children[0].children
            guard, children = Guard(str(parts[-1]), len(parts) == 2), children[1:]
        opcode = children[0]
        modifiers, operands = [], []
        for child in children[1:]:
            if child is None:
                continue
            if isinstance(child, Token):
                modifiers.append(str(child)[1:])
            else:
                operands.append(self._operand(child))
        location = SourceLocation(self.file, opcode.line, opcode.column)
        return Instruction(str(opcode), tuple(modifiers), tuple(operands), guard, location)

    # Operands.

    def _integer(self, node: Tree) -> int:
        children: list[Any] = node.children
        value = integer(children[-1])
        return -value if len(children) == 2 else value

    def _operand(self, node: Tree) -> Operand:
        children: list[Any] = node.children
        match node.data:
            case "name":
                return Symbol(str(children[0]))
            case "integer":
                return Immediate(self._integer(node))
            case "address":
                return self._address(self._operand(children[0]), node)
            case "element":
                if integer(children[1]):
                    raise self.error("an element other than [0] of an array; write name+BYTES", children[0])
                return Symbol(str(children[0]))
            case "displaced":
                return Symbol(str(children[0]), self._integer(children[1]))
            case "displaced_back":
                return Symbol(str(children[0]), -self._integer(children[1]))
            case "component":
                return SpecialRegister(f"{children[0]}{children[1]}")
            case "negated":
                return Negated(Register(str(children[0])))
            case "pair":
                return Pair(self._operand(children[0]), self._operand(children[1]))
            case "floating":
                return FloatImmediate("".join(str(child) for child in children))
            case "vector":
                return Vector(tuple(self._operand(child) for child in children))
            case _:  # group and texture_address
                return Group(tuple(self._operand(child) for child in children if child is not None))

    def _address(self, inner: Operand, node: Tree) -> Address:
        if isinstance(inner, Immediate):
            return Address(None, inner.value)
        if isinstance(inner, Symbol):
            return Address(Symbol(inner.name), inner.offset)
        token = next(node.scan_values(lambda value: isinstance(value, Token)))
        raise self.error("an address is a register or symbol, with or without an offset", token)
