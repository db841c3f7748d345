"""Placement against every placement there is, on small random circuits: the fewest layers that heads allow.

Half-layers alone decide how many layers a circuit takes. The exhaustive search gives each operation any half-layer of
its kind after what it reads, and keeps to the heads of a layer; what is left out cannot have fewer layers.
"""

import random
from collections import Counter
from dataclasses import replace

import pytest

from tests.test_placement import head, logic
from toolchain.circuit_ir.ir import Circuit, Logic, Op, Wire, op_reads, op_writes, total
from toolchain.circuit_ir.placement import place
from toolchain.circuit_ir.placement_bounds import lower_bounds
from toolchain.circuit_ir.verifier import placed_problems
from toolchain.machine_spec import NANO, MachineSpec

CASES = 300
OPERATIONS = 8


def random_circuit(seed: int) -> Circuit:
    """Heads and logic that read up to two earlier wires each; the last operation reads all that is not read."""
    rng = random.Random(seed)
    wires, unread = [Wire("in")], set[Wire]()
    operations: list[Op] = []
    for number in range(rng.randrange(3, OPERATIONS)):
        read = rng.sample(wires, min(len(wires), rng.choice((1, 1, 2))))
        written = Wire(f"w{number}", high=1 << 20)
        if rng.random() < 0.6:
            operations.append(head(f"head{number}", read[-1], written, sink=rng.random() < 0.4))
            read = read[-1:]
        else:
            operations.append(logic(f"logic{number}", total(read), written))
        unread = unread - set(read) | {written}
        wires.append(written)
    out = Wire("out", high=1 << 20)
    last = [wire for wire in wires if wire in unread]
    operations.append(logic("last", total(last), out))
    return Circuit("random", (wires[0],), tuple(operations), (out,))


def fits(circuit: Circuit, heads: int, layers: int) -> bool:
    """Whether there is any placement in so many layers, by trying all."""
    end, ready = 2 * layers, dict.fromkeys(circuit.inputs, -1)
    taken: Counter[int] = Counter()

    def rest(index: int) -> bool:
        if index == len(circuit.operations):
            return True
        op = circuit.operations[index]
        kind = int(isinstance(op, Logic))
        after = max(ready[wire] for wire in op_reads(op))
        for time in range(after + 1 + (after + 1 + kind) % 2, end, 2):
            if not kind and taken[time] == heads:
                continue
            taken[time] += 1
            ready.update(dict.fromkeys(op_writes(op), time))
            if rest(index + 1):
                return True
            taken[time] -= 1
        return False

    return rest(0)


def layers_beyond(seed: int, spec: MachineSpec) -> tuple[int, int]:
    """Layers of the placement, and of the longest chain, beyond the fewest that heads allow."""
    circuit = random_circuit(seed)
    placed = place(circuit, spec)
    assert placed_problems(placed, spec) == []
    chain = lower_bounds(circuit).layers
    fewest = next(count for count in range(chain, 2 * OPERATIONS) if fits(circuit, spec.heads, count))
    return len(placed.layers) - fewest, chain - fewest


@pytest.mark.parametrize("heads", [1, 2])
def test_layers_are_the_fewest(heads: int) -> None:
    found = [layers_beyond(seed, replace(NANO, heads=heads)) for seed in range(CASES)]
    assert sum(chain < 0 for _, chain in found) > CASES // 20 // heads**2, "heads are short in too few"
    assert Counter(more for more, _ in found) == {0: CASES}
