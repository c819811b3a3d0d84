"""Evaluation plan: times and members as a grid of tiles, steps sorted into stages, and reusable buffers.

Steps that depend only on members are evaluated once per member, steps that depend only on time once per time. See W1,
W3 and W4 in ``benchmarks/RESULTS.md``, blocks and compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import integer
from linsolve.engines.program import BOOLEAN, Program
from linsolve.numerics.threads import shared, workers

__all__ = [
    "COLUMN",
    "ROW",
    "TIME",
    "Buffers",
    "Grid",
    "Plan",
    "Tile",
    "buffers",
    "checked_threads",
    "grid_of",
    "plan_for",
    "plan_of",
    "run_tiles",
    "share_of",
    "tiles",
]  # fmt: skip

TIME, ROW, COLUMN = 1, 2, 4
_NARROW = 64  # number of columns below which copying two member axes into one is faster


class Tile(NamedTuple):
    """Box of the grid: first and last times, rows and columns."""

    t0: int
    t1: int
    r0: int
    r1: int
    c0: int
    c1: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Extent along times, rows and columns."""
        return self.t1 - self.t0, self.r1 - self.r0, self.c1 - self.c0

    def of(self, array: Any) -> Any:
        """Return the part of an array of three axes (of full length or length 1) in the tile."""
        ends = ((self.t0, self.t1), (self.r0, self.r1), (self.c0, self.c1))
        return array[tuple(slice(*end) if n > 1 else slice(None) for end, n in zip(ends, array.shape, strict=True))]


class Grid(NamedTuple):
    """Times, rows and columns of members, and the inputs on them.

    Batch axes along which the same inputs vary are merged. If more than two remain, the inputs are copied to one axis.
    For a single member the times are the columns.

    Parameters
    ----------
    shape : tuple of int
        Times, rows, columns.
    given : dict of str to array
        Each input by name: a number, or an array of three axes with length 1 along those on which it is constant.
    """

    shape: tuple[int, int, int]
    given: dict[str, Any]

    def axes(self, name: str) -> int:
        """Return the axes along which an input varies, as a sum of `TIME`, `ROW` and `COLUMN`."""
        shape = np.shape(self.given[name])
        return sum(axis for axis, n in zip((TIME, ROW, COLUMN), shape, strict=False) if n > 1)


def grid_of(t: np.ndarray, members: Mapping[str, np.ndarray], batch: tuple[int, ...]) -> Grid:
    """Return the grid of times (any shape) and members, arrays that broadcast to `batch`."""
    count, size = t.size, math.prod(batch)
    given: dict[str, Any] = {
        name: v if v.ndim == 0 else v.reshape(1, 1, 1) for name, v in members.items() if v.size == 1
    }
    if size == 1:
        clock = t if t.ndim == 0 and not batch else t.reshape(1, 1, count)
        return Grid((1, 1, count), {**given, "t": clock})
    wide = {name: v.reshape((1,) * (len(batch) - v.ndim) + v.shape) for name, v in members.items() if v.size > 1}
    lengths = _merged(batch, [v.shape for v in wide.values()])
    if len(lengths) > 2 or (len(lengths) == 2 and lengths[1] < _NARROW):
        lengths = [size]
        wide = {name: np.broadcast_to(v, batch) for name, v in wide.items()}
    rows, columns = [1, *lengths][-2:]
    for name, v in wide.items():
        given[name] = _on(v, batch, rows, columns)
    return Grid((count, rows, columns), {**given, "t": t.reshape(count, 1, 1)})


def _merged(batch: tuple[int, ...], shapes: list[tuple[int, ...]]) -> list[int]:
    """Return the lengths of the batch axes after merging adjacent axes along which the same inputs vary."""
    found: list[list[Any]] = []
    for axis, n in enumerate(batch):
        if n > 1:
            vary = [shape[axis] > 1 for shape in shapes]
            if found and found[-1][1] == vary:
                found[-1][0] *= n
            else:
                found.append([n, vary])
    return [n for n, _ in found]


def _on(v: np.ndarray, batch: tuple[int, ...], rows: int, columns: int) -> np.ndarray:
    if v.size == rows * columns:
        return np.ascontiguousarray(v).reshape(1, rows, columns)
    # each input varies along all of the first axes, or all of the last
    return np.ascontiguousarray(v).reshape((1, 1, columns) if v.size == columns and _last(v, batch) else (1, rows, 1))


def _last(v: np.ndarray, batch: tuple[int, ...]) -> bool:
    axis = max(k for k, n in enumerate(batch) if n > 1)
    return v.shape[axis] > 1


def tiles(shape: tuple[int, int, int], members: int, times: int | None = None) -> Iterator[Tile]:
    """Divide a grid into tiles of about `members` members and, unless None, at most `times` times, members first."""
    count, rows, columns = shape
    wide = min(columns, members)
    high = max(1, min(rows, members // wide))
    long = count if times is None else times
    for r in range(0, rows, high):
        for c in range(0, columns, wide):
            for k in range(0, count, long):
                yield Tile(k, min(k + long, count), r, min(r + high, rows), c, min(c + wide, columns))


class Plan(NamedTuple):
    """Steps required by the outputs of a program, by dependence on times and members.

    Parameters
    ----------
    program : Program
    inputs : tuple of (str, int)
        Axes of the grid along which each input varies.
    axes : list of int
        Axes of the grid along which each step varies.
    early : list of int
        Steps that are constant or vary only with time: computed once.
    member : list of int
        Steps that vary only between members: computed once per member.
    full : list of int
        All other steps.
    kept : list of int
        Steps of `member` required by `full` and the outputs.
    common : list of int
        Steps of `early` required by other steps and the outputs.
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
    """Return the plan of a program on a grid, cached by the axes along which its inputs vary."""
    return plan_for(program, tuple((name, grid.axes(name)) for name in program.inputs))


@lru_cache(maxsize=64)
def plan_for(program: Program, inputs: tuple[tuple[str, int], ...]) -> Plan:
    """Return the plan of a program whose inputs vary along the given axes, by name."""
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


def share_of(plan: Plan, grid: Grid, steps: int, least: int = 1, threads: int = 1) -> int:
    """Return the members of one of equal parts of a grid, each with at least `steps` steps and `least` members.

    More parts than threads are a multiple of the threads, which then end together.
    """
    times, rows, columns = grid.shape
    least = max(least, -(-steps // (times * len(plan.full) + len(plan.member) + 1)))
    parts = max(1, rows * columns // least)
    if parts > threads:
        parts -= parts % threads
    return -(-rows * columns // parts)


class Buffers(NamedTuple):
    """Buffer of each step, and the numbers of buffers of reals and of truth values."""

    of: dict[int, int]
    reals: int
    booleans: int


def buffers(program: Program, steps: list[int], keep: set[int], own: set[int]) -> Buffers:
    """Assign a buffer to each step, released after its last use.

    Parameters
    ----------
    program : Program
    steps : list of int
        Steps of one stage, in order.
    keep : set of int
        Steps whose buffer is not released.
    own : set of int
        Steps without a buffer, written elsewhere.
    """
    return _buffers(program, tuple(steps), frozenset(keep), frozenset(own))


@lru_cache(maxsize=128)
def _buffers(program: Program, steps: tuple[int, ...], keep: frozenset[int], own: frozenset[int]) -> Buffers:
    place = {k: j for j, k in enumerate(steps)}
    last = place.copy()
    for k in steps:
        for a in program.steps[k].args:
            if a in last:
                last[a] = max(last[a], place[k])
    last.update(dict.fromkeys(keep & last.keys(), len(steps)))
    for k in reversed(steps):  # a uniform `where` is not a copy: both branches live as long as it
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
        for a in ending.get(place[k], ()):
            if a != k and a in found:
                free[program.steps[a].kind].append(found[a])
        if k in own or program.steps[k].op in ("input", "where"):
            continue
        kind = program.steps[k].kind
        if free[kind]:
            found[k] = free[kind].pop()
        else:
            found[k], count[kind] = count[kind], count[kind] + 1
        if last[k] == place[k]:
            free[kind].append(found[k])
    return Buffers(found, count["real"], count[BOOLEAN])


def run_tiles(work: Callable[[Tile], Any], tiles: list[Tile], threads: int | None) -> list[Any]:
    """Return the results of `work` on each tile, in the order of the tiles, from `threads` threads."""
    return shared(work, tiles, checked_threads(threads))


def checked_threads(threads: int | None) -> int:
    """Return the number of threads, by default one per processor."""
    if threads is None:
        return workers()
    return integer("linsolve", "threads", threads, meaning="number of threads", example=2)
