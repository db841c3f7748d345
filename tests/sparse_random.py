"""Random programs on the sparse engine against the machine interpreter: `python -m tests.sparse_random`.

Every `--stock`-th program of nano is also checked in the stock model, by prefill.
"""

import argparse
import sys
from itertools import count

from runtime.launcher import Program, SparseEngine
from runtime.transformers_engine import TransformersEngine
from tests.random_rom import random_launch, random_rom
from toolchain.machine_build import ensure_checkpoint
from toolchain.machine_spec import CLASSIC, NANO, MachineSpec
from toolchain.mir.interpreter import MachineFault

DTYPE = "bfloat16"
LONGEST = 20_000
"""Launch tokens after which a random program is left out: it may not end."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--machine", choices=("classic", "nano"), default="classic")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument(
        "--stock", type=int, default=0, help="check every N-th program in the stock model as well"
    )
    options = parser.parse_args()
    spec = {"classic": CLASSIC, "nano": NANO}[options.machine]
    done, wrong, programs, checked = run(spec, options.tokens, options.first, options.stock)
    print(f"{programs} programs, {done:,} tokens, {wrong} programs wrong; {checked} also in the stock model")
    return int(wrong > 0)


def run(spec: MachineSpec, tokens: int, first: int, stock: int) -> tuple[int, int, int, int]:
    """Tokens fed or said, wrong programs, programs, and those checked in the stock model too."""
    checkpoint = ensure_checkpoint(spec, DTYPE)
    engine = SparseEngine(checkpoint)
    model = TransformersEngine(checkpoint) if stock else None
    done = wrong = programs = checked = 0
    for seed in count(first):
        if done >= tokens:
            break
        program = Program(random_rom(seed, spec), spec, random_launch(seed, spec))
        try:
            wanted = program.ids(program.interpret().tokens)
        except MachineFault:
            continue
        if len(wanted) > LONGEST:
            continue
        load = program.ids(program.load())
        bad = engine.model.run(load, len(wanted) + 1, lambda _: None) != wanted
        if model is not None and programs % stock == 0:
            bad |= model.prefill_check(load, wanted) is not None
            checked += 1
        if bad:
            print(f"seed {seed} is wrong", file=sys.stderr)
        wrong, programs, done = wrong + bad, programs + 1, done + len(load) + len(wanted)
    return done, wrong, programs, checked


if __name__ == "__main__":
    sys.exit(main())
