"""Lanes of a warp that would have to wait for each other at different places: refused.

`__syncwarp()` and its kin make the lanes of their member mask wait until all of them have come to such an
instruction, to the same one or to another (PTX ISA, "bar.warp.sync": "all threads corresponding to membermask").
The machine cannot wait inside a warp: lanes meet only where their ways join. So a branch that parts lanes must not
lead them to different meetings of the whole warp:

    if (lane != 0) { __syncwarp(); ... } else { ...; __syncwarp(); }      refused
    if (lane >= n) return;  __syncwarp();                                 lanes that have ended are not waited for
    if (lane < 2) { __syncwarp(); }                                       nobody waits anywhere else

The meetings of a side are the first ones on each of its ways, up to where the sides join. A way on which no
meeting comes any more does not count: it may end.
"""

from collections.abc import Iterable, Mapping

import networkx as nx

from toolchain.errors import CompileError, SourceLocation
from toolchain.machine_spec import MachineSpec
from toolchain.mir import uniformity
from toolchain.mir.cfg import Cfg
from toolchain.mir.ir import EXIT, Block, Branch, Function
from toolchain.ptx_frontend import ast
from toolchain.ptx_frontend.clang import source_line

MEETING = ("bar", "shfl", "vote", "match", "redux")
"""Instructions with `.sync` or `.warp.sync` that have a member mask, their last operand."""


def meets_whole_warp(item: ast.Instruction, constants: Mapping[str, int], spec: MachineSpec) -> bool:
    """Whether `item` has a member mask that is known to name all lanes; `constants` are the known registers."""
    if item.opcode not in MEETING or "sync" not in item.modifiers:
        return False
    if item.opcode == "bar" and "warp" not in item.modifiers:
        return False
    match item.operands[-1]:
        case ast.Immediate(mask):
            pass
        case ast.Register(name) if name in constants:
            mask = constants[name]
        case _:
            return False
    everyone = (1 << spec.lanes) - 1
    return mask & everyone == everyone


def check_meetings(function: Function, meetings: Mapping[str, ast.Instruction]) -> None:
    """Raises CompileError where lanes that part come to different ones of `meetings`, the first of each block."""
    cfg = Cfg(function)
    meetings = {label: item for label, item in meetings.items() if label in cfg.reachable}
    if len(meetings) < 2:
        return
    ways = _ways(cfg, meetings)
    joins = nx.immediate_dominators(ways.reverse(copy=False), EXIT)
    diverging = uniformity.diverging(function)
    for block in function.blocks:
        sides = [target for target in block.terminator.targets if target in ways]
        if block.label not in diverging or len(sides) < 2:
            continue
        first, second = (_first_meetings(ways, side, joins[block.label] or EXIT, meetings) for side in sides)
        if first and second and first != second:
            order = [other.label for other in function.blocks]
            one, other = sorted(
                (min(first - second or first), min(second - first or second)), key=order.index
            )
            raise _refusal(meetings[one], meetings[other], block)


def _ways(cfg: Cfg, meetings: Iterable[str]) -> "nx.DiGraph[str]":
    """What can run before some meeting. EXIT is behind the last one, or behind a round of an endless loop."""
    graph = cfg.graph.subgraph(set(meetings).union(*(nx.ancestors(cfg.graph, label) for label in meetings)))
    ways = nx.DiGraph(graph)
    ways.add_edges_from([(label, EXIT) for label in graph if not graph.out_degree(label)])
    position = {label: index for index, label in enumerate(cfg.reverse_postorder)}
    endless = set(ways) - nx.ancestors(ways, EXIT) - {EXIT} if EXIT in ways else set(ways)
    latches = [a for a in endless if any(position[b] <= position[a] for b in graph.successors(a))]
    ways.add_edges_from([(label, EXIT) for label in latches])
    return ways


def _first_meetings(
    ways: "nx.DiGraph[str]", start: str, join: str, meetings: Mapping[str, ast.Instruction]
) -> frozenset[str]:
    """The meetings that lanes can come to first from `start` on, before `join`."""
    found: set[str] = set()
    seen: set[str] = {join, EXIT}
    work = [start]
    while work:
        label = work.pop()
        if label in seen:
            continue
        seen.add(label)
        if label in meetings:
            found.add(label)
        else:
            work += ways.successors(label)
    return frozenset(found)


def _refusal(one: ast.Instruction, other: ast.Instruction, block: Block) -> CompileError:
    parts: SourceLocation | None = block.terminator.source if isinstance(block.terminator, Branch) else None
    return CompileError(
        f"lanes of a warp that part at {parts} would have to wait for each other here ('{one.name}') "
        f"and at {other.where} ('{other.name}'); the machine's lanes meet only where their ways join",
        one.where,
        hint="put one __syncwarp(), shuffle or vote behind the branch in place of one in each side; where all lanes "
        "of a warp go the same way, let the condition come from one lane: c = __shfl_sync(~0u, c, 0)",
        excerpt=source_line(one.where),
    )
