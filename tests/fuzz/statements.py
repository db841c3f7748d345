"""Random statements, as lines of text. Threads communicate only where all of them come together.

`converged` holds where every thread of the block runs the same statements: there barriers, shuffles and votes are
allowed. Elsewhere a thread touches its own words only, or makes atomics whose order does not matter and whose
results it does not use.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.fuzz.expressions import NARROW, Expressions

STATEMENTS = (
    ("assign", 6), ("store", 3), ("if", 5), ("for", 3), ("while", 2), ("switch", 2), ("walk", 1), ("sweep", 1),
)  # fmt: skip
"""Statements of every kernel, with how often each comes."""
FEATURE_STATEMENTS = {
    "wide": (("wide", 4),),
    "narrow": (("narrow", 3),),
    "local": (("local", 3),),
    "vector": (("vector", 2),),
    "own_atomics": (("own_atomic", 3),),
    "counters": (("count", 3),),
    "division": (("divide", 3),),
    "intrinsics": (("intrinsic", 4),),
    "functions": (("invoke", 2),),
    "constants": (("lookup", 2),),
}
"""Statements of kernels with a feature."""
MEETINGS = {
    "shared": (("exchange", 3), ("barrier_vote", 1)),
    "tally": (("tally", 2),),
    "warp": (("shuffle", 3), ("vote", 2), ("match", 1)),
}
"""Statements that all threads of a block must reach together, by feature."""
COUNTS = {
    "atomicAdd": "unsigned", "atomicSub": "unsigned", "atomicMin": "int", "atomicMax": "int", "atomicAnd": "unsigned",
    "atomicOr": "unsigned", "atomicXor": "unsigned", "atomicInc": "unsigned", "atomicDec": "unsigned",
}  # fmt: skip
"""Atomics that commute with themselves, and the type they work on. Inc and dec do with one bound for all."""
LOOPS = ("for", "while", "walk", "sweep")


@dataclass
class Statements(Expressions):
    """A kernel while it is written. `budget` counts statements still allowed."""

    budget: int = 0
    names: int = 0
    converged: bool = False
    breakable: list[bool] = field(default_factory=list)
    """For each open loop: threads may leave it one by one."""
    places: tuple[str, ...] = ()
    """Words of the thread's own; `{}` stands for 0 or 1."""
    uniform: tuple[str, ...] = ()
    """Values that are the same in all threads of a block."""
    count: str = "atomicAdd"
    """The atomic that this kernel's counters take."""
    width: int = 2
    """Lanes of a shuffle's segments."""

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def meets(self) -> bool:
        """Whether the kernel has statements that all threads must reach together."""
        return any(feature in self.features for feature in MEETINGS)

    def place(self) -> str:
        """A word of the thread's own."""
        index = self.pick(("0", "1", f"({self.pick(self.variables)} & 1)"))
        return self.pick(self.places).format(index)

    def leaf(self) -> str:
        return self.place() if self.places and self.chance(0.06) else super().leaf()

    def body(self, most: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self.random.randint(1, most)):
            if self.budget > 0:
                self.budget -= 1
                lines += self.statement()
        return lines

    def divergent_body(self, most: int) -> list[str]:
        """Statements that only some threads run."""
        before, self.converged = self.converged, False
        lines = self.body(most)
        self.converged = before
        return lines

    def special_kinds(self) -> list[str]:
        """Statements that the kernel's features bring and that may stand here, each as often as it is to come."""
        weights = [item for f, items in FEATURE_STATEMENTS.items() if f in self.features for item in items]
        if self.converged:
            weights += [item for f, items in MEETINGS.items() if f in self.features for item in items]
        return [kind for kind, weight in weights for _ in range(weight)]

    def statement(self) -> list[str]:
        kinds = [kind for kind, weight in STATEMENTS for _ in range(weight)]
        if self.converged:
            kinds += ["uniform_if", "uniform_for"] * 2
        special = self.special_kinds()
        kind = self.pick(special if special and self.chance(0.4) else kinds)
        if len(self.counters) >= 2 and kind in (*LOOPS, "uniform_for"):
            kind = "assign"
        return self.write(kind)

    def write(self, kind: str) -> list[str]:
        """A statement of a kind."""
        writers: dict[str, Callable[[], list[str]]] = {
            "assign": self.assign, "store": self.store, "if": self.branch, "for": self.counted,
            "while": self.fuelled, "switch": self.switch, "walk": self.walk, "sweep": self.sweep,
            "wide": self.assign_wide, "narrow": self.narrow, "local": self.local, "vector": self.vector,
            "divide": self.divide, "intrinsic": self.intrinsic, "invoke": self.invoke, "lookup": self.lookup,
            "own_atomic": self.own_atomic, "count": self.count_up, "exchange": self.exchange,
            "barrier_vote": self.barrier_vote, "tally": self.tally, "shuffle": self.shuffle, "vote": self.vote,
            "match": self.match, "uniform_if": self.uniform_branch, "uniform_for": self.uniform_loop,
        }  # fmt: skip
        return writers[kind]()

    # What a thread does alone.

    def assign(self) -> list[str]:
        operator = self.pick(("=", "=", "=", "+=", "-=", "^=", "*=", "|=", "&="))
        return [f"{self.pick(self.variables)} {operator} {self.expression()};"]

    def assign_wide(self) -> list[str]:
        if self.chance(0.3):
            return [f"wide[w] {self.pick(('=', '+=', '^='))} {self.wide(self.depth)};"]
        operator = self.pick(("=", "+=", "-=", "^=", "*="))
        return [f"{self.pick(self.wides)} {operator} {self.wide(self.depth)};"]

    def store(self) -> list[str]:
        place = self.place()
        if self.chance(0.1):
            mask = self.random.choice((0xFF, 0xFFFF, 0xFF0000, 0xFFFF0000))
            return [f"{place} = ({place} & ~{mask}u) | ({self.expression()} & {mask}u);"]
        return [f"{place} {self.pick(('=', '=', '+=', '^='))} {self.expression()};"]

    def narrow(self) -> list[str]:
        """A store to a byte or a halfword of the thread's own word, or a load of one."""
        bits, count = self.random.choice(((8, 4), (16, 2)))
        kind = self.pick([name for name in NARROW if ("char" in name) == (bits == 8)])
        place = f"(({kind} *)(bytes + 4 * w))[{self.expression(0)} & {count - 1}]"
        if self.chance(0.35):
            return [f"{self.pick(self.variables)} {self.pick(('=', '+='))} {place};"]
        return [f"{place} {self.pick(('=', '=', '+='))} {self.expression()};"]

    def local(self) -> list[str]:
        element = f"local[{self.expression(0)} & 3]"
        if self.chance(0.4):
            return [f"{self.pick(self.variables)} {self.pick(('=', '^='))} {element};"]
        return [f"{element} {self.pick(('=', '+='))} {self.expression()};"]

    def vector(self) -> list[str]:
        """A load of two or four words, or a store of the thread's own two."""
        if self.chance(0.4):
            return [f"((int2 *)out)[w] = make_int2({self.expression(1)}, {self.expression(1)});"]
        p, lanes = self.fresh("p"), self.random.choice((2, 4))
        source = f"((const int{lanes} *){self.pick('ab')})[{self.expression(0)} & {8 // lanes - 1}]"
        parts = "xy" if lanes == 2 else "xyzw"
        return [
            f"int{lanes} {p} = {source};",
            f"{self.pick(self.variables)} ^= {p}.{self.pick(parts)} + {p}.x;",
        ]

    def divide(self) -> list[str]:
        if self.wides and self.chance(0.4):
            return [f"{self.pick(self.wides)} {self.pick(('=', '^='))} {self.wide_quotient(self.wide(1))};"]
        return [
            f"{self.pick(self.variables)} {self.pick(('=', '^='))} {self.quotient(self.expression(1), 1)};"
        ]

    def intrinsic(self) -> list[str]:
        return [
            f"{self.pick(self.variables)} {self.pick(('=', '^='))} {self.rare_call(self.expression(1), 1)};"
        ]

    def invoke(self) -> list[str]:
        return [f"{self.pick(self.variables)} {self.pick(('=', '+='))} {self.invocation(1)};"]

    def lookup(self) -> list[str]:
        table, mask = self.tables[-1]
        return [f"{self.pick(self.variables)} ^= {table}[{self.expression(1)} & {mask}];"]

    def own_atomic(self) -> list[str]:
        """On a word no other thread touches: its result is defined."""
        name = self.pick((*COUNTS, "atomicExch", "atomicCAS"))
        place = f"({COUNTS.get(name, 'unsigned')} *)&{self.place()}"
        arguments = [self.expression(1) for _ in range(2 if name == "atomicCAS" else 1)]
        return [
            f"{self.pick(self.variables)} {self.pick(('=', '^='))} {name}({', '.join([place, *arguments])});"
        ]

    def update(self, place: str) -> list[str]:
        """An atomic whose place among others does not matter; the result is not used."""
        value = "9" if self.count in ("atomicInc", "atomicDec") else self.expression(1)
        if self.count == "atomicAdd" and self.chance(0.2):
            x, seen, now = self.fresh("x"), self.fresh("seen"), self.fresh("now")
            return [
                f"unsigned {x} = {value}, {seen}, {now} = *(volatile unsigned *)&{place};",
                f"do {{ {seen} = {now}; {now} = atomicCAS(&{place}, {seen}, {seen} + {x}); }} while ({now} != {seen});",
            ]
        return [f"{self.count}(({COUNTS[self.count]} *)&{place}, {value});"]

    def count_up(self) -> list[str]:
        return self.update(f"totals[{self.pick(('0', '1', f'({self.expression(0)} & 3)'))}]")

    def branch(self) -> list[str]:
        condition = self.condition(1)
        if not self.meets() and self.chance(0.15):
            return [f"if ({condition}) return;"]
        if self.breakable and self.breakable[-1] and self.chance(0.4):
            return [f"if ({condition}) {self.pick(('break', 'continue'))};"]
        lines = [f"if ({condition}) {{", *self.divergent_body(3)]
        if self.chance(0.5):
            lines += ["} else {", *self.divergent_body(3)]
        return [*lines, "}"]

    def loop(self, head: str, counter: str, end: str) -> list[str]:
        self.counters.append(counter)
        self.breakable.append(True)
        lines = [head, *self.divergent_body(4), end]
        self.breakable.pop()
        self.counters.pop()
        return lines

    def counted(self) -> list[str]:
        """The bound is computed again each time and may change; it never passes 7."""
        i = self.fresh("i")
        bound = self.pick((str(self.random.randrange(1, 6)), f"(int)({self.expression(1)} & 7)"))
        step = self.pick((f"++{i}", f"{i} += {self.random.randrange(1, 4)}"))
        if self.chance(0.25):
            return self.loop(f"for (int {i} = {bound}; {i} > 0; --{i}) {{", i, "}")
        return self.loop(f"for (int {i} = 0; {i} < {bound}; {step}) {{", i, "}")

    def fuelled(self) -> list[str]:
        f = self.fresh("f")
        begin, condition = f"unsigned {f} = {self.random.randrange(2, 8)};", self.condition(1)
        if self.chance(0.4):
            return [begin, *self.loop("do {", f, f"}} while ({f}-- > 0 && {condition});")]
        return [begin, *self.loop(f"while ({condition} && {f}-- != 0) {{", f, "}")]

    def switch(self) -> list[str]:
        value = self.expression(1)
        lines = [f"switch ({value}) {{" if self.chance(0.2) else f"switch (({value}) & 7) {{"]
        self.breakable.append(False)
        for case in sorted(self.random.sample(range(8), self.random.randint(2, 4))):
            lines += [f"case {case}: {{", *self.divergent_body(2), "}"]
            if not self.chance(0.2):
                lines.append("break;")
        if self.chance(0.6):
            lines += ["default: {", *self.divergent_body(2), "}"]
        self.breakable.pop()
        return [*lines, "}"]

    def walk(self) -> list[str]:
        """A pointer that a loop moves over four words of one input or the other."""
        p, i = self.fresh("p"), self.fresh("i")
        start = f"{self.pick('ab')} + ({self.expression(1)} & 3)"
        if self.chance(0.4):
            start = f"{self.condition(1)} ? {start} : a + {self.random.randrange(5)}"
        head = f"for (int {i} = 0; {i} < {self.random.randrange(1, 5)}; ++{i}) {{"
        lines = self.loop(head, i, f"{self.pick(self.variables)} {self.pick('+^')}= *{p}++; }}")
        return [f"const int *{p} = {start};", *lines]

    def sweep(self) -> list[str]:
        """A pointer that a loop moves over the thread's own words of `out`."""
        q = self.fresh("q")
        head = f"for (int *{q} = out + 2 * w; {q} != out + 2 * w + 2; ++{q}) {{"
        statement = f"*{q} {self.pick(('=', '+=', '^='))} {self.expression()};"
        return [head, statement, f"{self.pick(self.variables)} ^= *{q};", "}"]

    # What all threads of a block do together.

    def uniform_condition(self) -> str:
        return f"({self.pick(self.uniform)} & {self.random.randrange(1, 4)}) == 0"

    def uniform_branch(self) -> list[str]:
        lines = [f"if ({self.uniform_condition()}) {{", *self.body(2)]
        if self.chance(0.4):
            lines += ["} else {", *self.body(2)]
        return [*lines, "}"]

    def uniform_loop(self) -> list[str]:
        i = self.fresh("i")
        bound = self.pick((str(self.random.randrange(1, 4)), f"(int)({self.pick(self.uniform)} & 3)"))
        self.counters.append(i)
        self.breakable.append(False)
        lines = [f"for (int {i} = 0; {i} < {bound}; ++{i}) {{", *self.body(3), "}"]
        self.breakable.pop()
        self.counters.pop()
        return lines

    def exchange(self) -> list[str]:
        """Each thread reads what another one wrote before the barrier."""
        other = self.pick(("(l + 1 < m ? l + 1 : 0)", "(m - 1 - l)", "((l ^ 1) < m ? l ^ 1 : l)", "0"))
        variable = self.pick(self.variables)
        return [
            f"tile[l] = {self.expression()};",
            "__syncthreads();",
            f"{variable} {self.pick(('=', '+=', '^='))} tile[{other}];",
            "__syncthreads();",
        ]

    def barrier_vote(self) -> list[str]:
        name = self.pick(("__syncthreads_count", "__syncthreads_and", "__syncthreads_or"))
        return [f"{self.pick(self.variables)} ^= {name}({self.condition(1)});"]

    def tally(self) -> list[str]:
        """Atomics on shared words between two barriers; then everyone reads the sums."""
        lines = ["if (l == 0) {", f"sums[0] = {self.literal()};", f"sums[1] = {self.literal()};", "}"]
        lines += ["__syncthreads();"]
        if self.chance(0.5):
            lines += [f"if ({self.condition(1)}) {{", *self.update(f"sums[{self.expression(0)} & 1]"), "}"]
        lines += self.update(f"sums[{self.expression(0)} & 1]")
        lines += ["__syncthreads();", f"{self.pick(self.variables)} ^= sums[{self.pick('01')}];"]
        return [*lines, "__syncthreads();"]

    def shuffle(self) -> list[str]:
        name = self.pick(("__shfl_sync", "__shfl_xor_sync", "__shfl_up_sync", "__shfl_down_sync"))
        by = str(self.random.randrange(self.width))
        if name == "__shfl_sync" and self.chance(0.6):
            by = self.expression(0)
        variable = self.pick(self.variables)
        return [f"{variable} = {name}(0xffffffffu, {self.expression(1)}, {by}, {self.width});"]

    def vote(self) -> list[str]:
        if self.chance(0.15):
            return [f"{self.pick(self.variables)} += __activemask();", "__syncwarp();"]
        name = self.pick(("__ballot_sync", "__any_sync", "__all_sync", "__uni_sync"))
        return [f"{self.pick(self.variables)} ^= {name}(0xffffffffu, {self.condition(1)});"]

    def match(self) -> list[str]:
        value = f"(int)({self.expression(1)} & {self.random.choice((1, 3))})"
        if self.chance(0.6):
            return [f"{self.pick(self.variables)} += __match_any_sync(0xffffffffu, {value});"]
        same = self.fresh("same")
        return [
            f"int {same};",
            f"{self.pick(self.variables)} += __match_all_sync(0xffffffffu, {value}, &{same}) + {same};",
        ]
