"""What is computed when: the steps of a program sorted into stages, and buffers that are used again."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from linsolve.engines.grid import COLUMN, ROW, TIME, Grid
from linsolve.engines.trace import BOOLEAN, Program

__all__ = ["Buffers", "Plan", "buffers", "plan_for", "plan_of", "share_of"]


class Plan(NamedTuple):
    """The steps that a program's outputs need, by what they depend on.

    Parameters
    ----------
    program : Program
    inputs : tuple of (str, int)
        Along which axes of the grid each input varies.
    axes : list of int
        Along which axes of the grid each step varies.
    early : list of int
        Steps that vary with time only or not at all: computed once.
    member : list of int
        Steps that vary among members only: computed once for each, whatever the number of times.
    full : list of int
        The others.
    kept : list of int
        Those of `member` that `full` and the outputs need.
    common : list of int
        Those of `early` that other steps and the outputs need.
    """

    program: Program
    inputs: tuple[tuple[str, int], ...]
    axes: list[int]
    early: list[int]
    member: list[int]
    full: list[int]
    kept: list[int]
    common: list[int]


def plan_of(program: Program, grid: Grid) -> Plan:
    """Return the plan of a program on a grid, made once for each way in which its inputs vary."""
    return plan_for(program, tuple((name, grid.axes(name)) for name in program.inputs))


@lru_cache(maxsize=64)
def plan_for(program: Program, inputs: tuple[tuple[str, int], ...]) -> Plan:
    """Return the plan of a program whose inputs vary along these axes, by name."""
    vary, axes = dict(inputs), list[int]()
    for step in program.steps:
        if step.op == "input":
            axes.append(vary[step.data])
        else:
            found = 0
            for k in step.args:
                found |= axes[k]
            axes.append(found)
    early, member, full = [], [], []
    for k in program.used():
        if not axes[k] & (ROW | COLUMN):
            early.append(k)
        elif axes[k] & TIME:
            full.append(k)
        else:
            member.append(k)
    wanted = {a for k in full for a in program.steps[k].args} | set(program.outputs.values())
    shared = wanted | {a for k in member for a in program.steps[k].args}
    kept, common = [k for k in member if k in wanted], [k for k in early if k in shared]
    return Plan(program, inputs, axes, early, member, full, kept, common)


def share_of(plan: Plan, grid: Grid, steps: int) -> int:
    """Return the members of one of equal parts of a grid in which no fewer steps are computed, if it has so many."""
    times, rows, columns = grid.shape
    least = -(-steps // (times * len(plan.full) + len(plan.member) + 1))
    return -(-rows * columns // max(1, rows * columns // least))


class Buffers(NamedTuple):
    """Which buffer each step writes to, and how many there are, of real numbers and of truth values."""

    of: dict[int, int]
    reals: int
    booleans: int


def buffers(program: Program, steps: list[int], keep: set[int], own: set[int]) -> Buffers:
    """Give each step a buffer, free again after its last use.

    Parameters
    ----------
    program : Program
    steps : list of int
        Steps of one stage, in order.
    keep : set of int
        Steps whose buffer is never free again.
    own : set of int
        Steps that get none: they are written elsewhere.
    """
    return _buffers(program, tuple(steps), frozenset(keep), frozenset(own))


@lru_cache(maxsize=128)
def _buffers(program: Program, steps: tuple[int, ...], keep: frozenset[int], own: frozenset[int]) -> Buffers:
    last = {k: k for k in steps}
    for k in steps:
        for a in program.steps[k].args:
            if a in last:
                last[a] = k
    endless = max(steps, default=0) + 1
    last.update(dict.fromkeys(keep & last.keys(), endless))
    for k in reversed(steps):  # a choice that is the same everywhere is no copy: what it may be lives as long
        if program.steps[k].op == "where":
            for a in program.steps[k].args[1:]:
                if a in last:
                    last[a] = max(last[a], last[k])
    free: dict[str, list[int]] = {"real": [], "boolean": []}
    count, found = {"real": 0, "boolean": 0}, dict[int, int]()
    ending: dict[int, list[int]] = {}
    for k, end in last.items():
        ending.setdefault(end, []).append(k)
    for k in steps:
        for a in ending.get(k, ()):
            if a != k and a in found:
                free[program.steps[a].kind].append(found[a])
        if k in own or program.steps[k].op in ("input", "where"):
            continue
        kind = program.steps[k].kind
        if free[kind]:
            found[k] = free[kind].pop()
        else:
            found[k], count[kind] = count[kind], count[kind] + 1
        if last[k] == k:
            free[kind].append(found[k])
    return Buffers(found, count["real"], count[BOOLEAN])
