"""Evaluation of a program with NumPy in cache-sized tiles and reusable buffers.

Allocating large temporaries costs more than the arithmetic. See the rows "ours, NumPy" of W1, W3, W4 and W7 in
``benchmarks/RESULTS.md``.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from linsolve.engines.branches import Stage, stages
from linsolve.engines.constants import UFUNCS, early_values
from linsolve.engines.plan import Grid, Plan, Tile, buffers, plan_of, share_of, tiles
from linsolve.engines.program import BOOLEAN, Program
from linsolve.numerics.threads import workers

__all__ = ["Blocks"]

# members of a tile, outputs of one of its blocks; large enough that threads seldom wait for the interpreter
MEMBERS = OUTPUTS = 65_536
_BRANCHED = 2  # times as many outputs with branches, which NumPy evaluates for few of them in each block
_MANY, _FEW_MEMBERS = 32, 2048  # members of a tile if more than _MANY values are kept per member
_AT_ONCE = 4096  # most members whose steps are computed before the tiles
_MORE_MEMBERS = 16_384  # the same if most work is per member: the calls of NumPy then cost less than their numbers
_TILES, _TIMES = 8, 4096  # number of tiles at least, times of a tile at most
_SHARE = 2**22  # least work per thread, in steps x outputs: a millisecond
_APART = 50_000  # least numbers in an operation of one of several threads: they wait for the interpreter after each
_WORTH = 60  # least cost of a branch that is evaluated only where it is taken, in additions
_PICK = 3  # cost of picking a number from an array, in operations on a number
_CHOICES = 8  # most buffers of choices
_IDLE, _SHAPES = 2**26, 16  # bytes of buffers kept for the next call, and number of block shapes with cached views


class Blocks:
    """A program on a grid, evaluated tile by tile from any thread.

    The same NumPy functions are applied to the same numbers as in plain evaluation, so that results are bitwise equal.
    A step that is constant along an axis is not repeated along it; `where` with a uniform condition returns one branch
    without copying. A long branch of a `where` is evaluated only for the numbers that take it (`branches`).

    Parameters
    ----------
    program : Program
    grid : Grid
    """

    def __init__(self, program: Program, grid: Grid) -> None:
        self.program, self.grid, self.plan = program, grid, plan_of(program, grid)
        self.early = early_values(self.plan, grid)
        self.members = _FEW_MEMBERS if len(self.plan.kept) > _MANY else MEMBERS
        if len(self.plan.member) > grid.shape[0] * len(self.plan.full):
            self.members = max(self.members, _MORE_MEMBERS)
        self.kept = self._kept() if grid.shape[1] * grid.shape[2] <= _AT_ONCE else {}

    def _kept(self) -> dict[int, np.ndarray]:
        """Return the values of all members that other steps need: threads share calls on few numbers badly."""
        (whole,) = tiles((1, *self.grid.shape[1:]), _AT_ONCE)
        bench = _taken(self.plan, _AT_ONCE)
        try:
            bench.prepare(whole, self.grid, self.early, {})
            return {k: bench.values[k].copy() for k in self.plan.kept}
        finally:
            _given_back(bench)

    def tiles(self) -> list[Tile]:
        """Return a division into tiles, at least one per thread if a tile has enough work."""
        times, rows, columns = self.grid.shape
        parts = max(1, _TILES * _TIMES // times)  # of the members; NumPy is slow on few of them at many times
        least = max(_APART // times, -(-rows * columns // min(parts, _TILES)))
        members = share_of(self.plan, self.grid, _SHARE, least, workers())
        return list(tiles(self.grid.shape, min(self.members, members), _TIMES))

    def __call__(self, tile: Tile, outputs: dict[str, np.ndarray]) -> bool:
        """Write the outputs in a tile into arrays of its shape, by name; return whether all of them are finite."""
        finite = True
        high, wide = tile.shape[1:]
        bench = _taken(self.plan, high * wide)
        try:
            bench.prepare(tile, self.grid, self.early, self.kept)
            block = max(1, bench.outputs // (high * wide))
            for k in range(tile.t0, tile.t1, block):
                part = tile._replace(t0=k, t1=min(k + block, tile.t1))
                finite &= bench.run(part, {name: v[k - tile.t0 : part.t1 - tile.t0] for name, v in outputs.items()})
        finally:
            _given_back(bench)
        return finite


def _as_real(a: Any, out: np.ndarray) -> np.ndarray:
    np.copyto(out, a)
    return out


def _choose(condition: Any, a: Any, b: Any, room: Callable[[], np.ndarray] | None = None) -> Any:
    """Return ``where(condition, a, b)``: `a` or `b` itself for a uniform condition, otherwise in `room` if given."""
    true = np.count_nonzero(condition)
    if true == 0:
        return b
    if true == condition.size:
        return a
    return np.where(condition, a, b) if room is None else _select(condition, a, b, room())


def _select(condition: Any, a: Any, b: Any, out: np.ndarray) -> np.ndarray:
    """Write ``where(condition, a, b)`` bit by bit: `np.where` jumps for each number, mostly the wrong way."""
    a, b, bits = (np.asarray(v).view(np.int64) for v in (a, b, out))
    np.bitwise_xor(a, b, out=bits)
    np.bitwise_and(bits, -condition.view(np.int8), out=bits)  # true is -1, all of whose bits are set
    np.bitwise_xor(bits, b, out=bits)
    return out


_OTHERS: dict[str, Any] = {"where": _choose, "astype": _as_real}


class _Room:
    """Memory for many arrays of few numbers, used again: the system clears new memory page by page."""

    def __init__(self) -> None:
        self.numbers, self.used = np.empty(0), 0

    def __call__(self, count: int) -> np.ndarray:
        """Return `count` numbers that no one has used since `used` was 0."""
        if self.used + count > self.numbers.size:
            self.numbers, self.used = np.empty(5 * (self.used + count) // 4), 0  # arrays in the old memory keep it
        self.used += count
        return self.numbers[self.used - count : self.used]


def _picker(shape: tuple[int, int, int], places: np.ndarray, room: _Room) -> Callable[[Any], Any]:
    """Return a function that picks the numbers at flat indices of a block from an array that broadcasts to it."""
    known = {shape: places}

    def pick(v: np.ndarray) -> np.ndarray:
        if v.size == 1:
            return v.reshape(())
        if v.shape not in known:
            known[v.shape] = _places_in(v.shape, shape, places, room)
        out = room(places.size) if v.dtype == np.float64 else None
        return v.reshape(-1).take(known[v.shape], mode="clip", out=out)

    return pick


def _places_in(own: tuple[int, ...], shape: tuple[int, int, int], places: np.ndarray, room: _Room) -> np.ndarray:
    """Return the flat indices in an array of shape `own` of the places of a block, whose shape it broadcasts to."""
    members = shape[1] * shape[2]
    if own in ((1, *shape[1:]), (shape[0], 1, 1)):  # `unravel_index` takes as long as picking from five arrays
        at = np.floor_divide(places, members, out=room(places.size).view(np.int64))
        return at if own[0] > 1 else np.subtract(places, np.multiply(at, members, out=at), out=at)
    at = np.unravel_index(places, shape)
    return np.ravel_multi_index([k if n > 1 else 0 * k for k, n in zip(at, own, strict=True)], own)


def _joined(stages: list[Stage], program: Program) -> dict[int, tuple[int, int]]:
    """Return results of stages that a choice takes under a condition of the stage: the choice, and its other value.

    At the places of the stage its result is chosen; elsewhere the other value, or neither is needed.
    """
    found, before = dict[int, tuple[int, int]](), set[int]()
    everywhere = {k for stage in stages if not stage.when for k in stage.steps}
    own = {k for stage in stages for k in stage.steps}
    users = {k: [j for j in everywhere if k in program.steps[j].args] for stage in stages for k in stage.results}
    for stage in stages:
        for k in stage.results if stage.when else ():
            for j in users[k] if k not in program.outputs.values() else ():
                step = program.steps[j]
                if step.op == "where" and (step.args[0], k == step.args[1]) in stage.when:
                    other = step.args[2 if k == step.args[1] else 1]
                    if other in before or other not in own:
                        found[k] = j, other
        before.update(stage.steps)
    return found


class _Bench:
    """Buffers of one thread and the NumPy calls on them, by shape of the block."""

    def __init__(self, plan: Plan, members: int) -> None:
        self.plan, self.members = plan, members
        program, outputs = plan.program, set(plan.program.outputs.values())
        self.direct = {k for k in outputs if k in set(plan.full) and program.steps[k].kind != BOOLEAN}
        self.direct = {k for k in self.direct if program.steps[k].op != "where"}
        self.of_members = buffers(program, plan.member, set(plan.kept), set())
        self.stages = stages(program, plan.full, _WORTH)
        conditions = {c for stage in self.stages for c, _ in stage.when}
        order = [k for stage in self.stages for k in stage.steps]
        self.of_all = buffers(program, order, (outputs | conditions) & set(plan.full), self.direct)
        self.outputs = _BRANCHED * OUTPUTS if conditions else OUTPUTS
        self.joined = _joined(self.stages, program)
        self.done: set[int] = set()  # choices that a stage has made
        size = max(self.outputs, members)
        self.pools = {
            False: ([np.empty(members) for _ in range(self.of_members.reals)],
                    [np.empty(members, dtype=bool) for _ in range(self.of_members.booleans)]),
            True: ([np.empty(size) for _ in range(self.of_all.reals)],
                   [np.empty(size, dtype=bool) for _ in range(self.of_all.booleans)]),
        }  # fmt: skip
        self.pooled = sum(v.nbytes for pools in self.pools.values() for pool in pools for v in pool)
        self.chosen: dict[int, np.ndarray] = {}  # buffers of choices of which some are not uniform
        self.room = _Room()
        self.calls: dict[tuple, list[tuple]] = {}
        self.forget()

    @property
    def bytes(self) -> int:
        """Memory of all buffers."""
        return self.pooled + self.room.numbers.nbytes + sum(v.nbytes for v in self.chosen.values())

    def forget(self) -> None:
        """Release all arrays but the buffers."""
        self.values: list[Any] = [None] * len(self.plan.program.steps)
        self.inputs: dict[str, Any] = {}
        self.timed: dict[int, Any] = {}
        self.done.clear()  # an error may have left some
        if len(self.calls) > _SHAPES:
            self.calls.clear()

    def prepare(self, tile: Tile, grid: Grid, early: dict[int, Any], kept: dict[int, np.ndarray]) -> None:
        """Compute the steps that depend only on the members of a tile, unless `kept` has those of all members."""
        self.inputs = grid.given
        for k, v in early.items():
            self.values[k] = v
            if self.plan.axes[k]:
                self.timed[k] = v
        if kept:
            for k, v in kept.items():
                self.values[k] = tile.of(v) if v.ndim else v  # a uniform choice of a constant is one number
        else:
            self._run(self._calls(tile._replace(t0=0, t1=1), self.plan.member, False), tile)

    def run(self, block: Tile, outputs: dict[str, np.ndarray]) -> bool:
        """Compute a block of a prepared tile; return whether all outputs and their sum are finite."""
        values, program = self.values, self.plan.program
        for k, v in self.timed.items():
            values[k] = block.of(v)
        written: dict[int, np.ndarray] = {}
        for name, k in program.outputs.items():
            if k in self.direct and k not in written:
                written[k] = outputs[name]
        for stage in self.stages:
            places = self._places(stage, block.shape) if stage.when else None
            if places is None:
                self._run(self._calls(block, stage.steps, True), block, written)
            else:
                self._run_some(stage, block, places)
        for name, k in program.outputs.items():
            if written.get(k) is not outputs[name]:
                np.copyto(outputs[name], values[k])
        with np.errstate(over="ignore", invalid="ignore"):
            return all(math.isfinite(np.add.reduce(values[k], axis=None)) for k in program.outputs.values())

    def _run(self, calls: list[tuple], tile: Tile, written: dict[int, np.ndarray] | None = None) -> None:
        values = self.values
        for function, k, args, out in calls:
            if function is None:
                values[k] = tile.of(self.inputs[args])
                continue
            if function is _choose:
                if k in self.done:
                    self.done.remove(k)
                else:
                    values[k] = _choose(*(values[a] for a in args), self._room_of(k, tile.shape))
                continue
            if out is None:
                out = written[k]  # type: ignore[index]
            if len(args) == 2:
                values[k] = function(values[args[0]], values[args[1]], out=out)
            else:
                values[k] = function(values[args[0]], out=out)

    def _places(self, stage: Stage, shape: tuple[int, int, int]) -> np.ndarray | None:
        """Return the flat indices of the numbers of a block that need a stage; None if evaluating all costs less."""
        asked = [self.values[c] if holds else ~self.values[c] for c, holds in stage.when]
        # NumPy is slow on pairs of conditions of different shapes; one that depends on time alone mostly holds
        taken = reduce(operator.and_, [v for v in asked if not v.all()] or asked[:1])
        share = np.count_nonzero(taken) / taken.size
        picked = sum(self.plan.axes[k] > 0 for k in stage.given)
        dear = share * (len(stage.steps) + _PICK * picked) > len(stage.steps)
        if dear or any(self._extent(k, shape) != shape for k in stage.results):
            return None
        return np.flatnonzero(np.broadcast_to(taken, shape))

    def _run_some(self, stage: Stage, block: Tile, places: np.ndarray) -> None:
        """Evaluate a stage at some places of a block; elsewhere its results are 1, or what is chosen there later."""
        found: dict[int, np.ndarray] = {}
        self.room.used = 0
        if places.size:
            pick = _picker(block.shape, places, self.room)
            found = {k: pick(self.values[k]) for k in stage.given}
            for function, k, args, _ in self._calls(block, stage.steps, True):
                if function is None:
                    found[k] = pick(block.of(self.inputs[args]))
                elif function is _choose:
                    real = self.plan.program.steps[k].kind != BOOLEAN
                    found[k] = _choose(*(found[a] for a in args), partial(self.room, places.size) if real else None)
                else:
                    pool = self._pool(k, True)
                    found[k] = function(*(found[a] for a in args), out=None if pool is None else pool[: places.size])
        some = {k: self._copied(found[k]) for k in stage.results if found}  # before the first buffer is filled
        for k in stage.results:
            out, kind = self._buffer(k, block.shape, True), self.plan.program.steps[k].kind
            value = np.empty(block.shape, dtype=bool if kind == BOOLEAN else float) if out is None else out
            chosen, other = self.joined.get(k, (None, None))
            value[...] = 1 if other is None else self.values[other]
            if found:
                value.reshape(-1)[places] = some[k]
            self.values[k] = value
            if chosen is not None:
                self.values[chosen] = value
                self.done.add(chosen)

    def _copied(self, v: np.ndarray) -> np.ndarray:
        """Return a copy of some numbers."""
        if v.dtype != np.float64 or not v.ndim:
            return v.copy()
        copy = self.room(v.size)
        copy[:] = v
        return copy

    def _room_of(self, k: int, shape: tuple[int, ...]) -> Callable[[], np.ndarray] | None:
        """Return a function that returns the buffer of a choice, made when first needed; None if there are many."""
        if self.plan.program.steps[k].kind == BOOLEAN or (k not in self.chosen and len(self.chosen) == _CHOICES):
            return None

        def room() -> np.ndarray:
            own = self._extent(k, shape)
            count = math.prod(own)
            if k not in self.chosen or self.chosen[k].size < count:
                self.chosen[k] = np.empty(count)
            return self.chosen[k][:count].reshape(own)

        return room

    def _calls(self, tile: Tile, steps: list[int], full: bool) -> list[tuple]:
        """Return function, step, arguments and buffer of each of the steps of a stage, for tiles of this shape."""
        key = (tile.shape, full, steps[0] if steps else None)
        if key not in self.calls:
            found: list[tuple] = []
            for k in steps:
                step = self.plan.program.steps[k]
                if step.op == "input":
                    found.append((None, k, step.data, None))
                else:
                    function: Callable = _OTHERS.get(step.op) or UFUNCS[step.op]
                    found.append((function, k, step.args, self._buffer(k, tile.shape, full)))
            self.calls[key] = found
        return self.calls[key]

    def _extent(self, k: int, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a step's values in a tile."""
        return tuple(n if self.plan.axes[k] & (1 << axis) else 1 for axis, n in enumerate(shape))

    def _buffer(self, k: int, shape: tuple[int, ...], full: bool) -> np.ndarray | None:
        pool, own = self._pool(k, full), self._extent(k, shape)
        return None if pool is None else pool[: own[0] * own[1] * own[2]].reshape(own)

    def _pool(self, k: int, full: bool) -> np.ndarray | None:
        at = (self.of_all if full else self.of_members).of.get(k)
        return None if at is None else self.pools[full][self.plan.program.steps[k].kind == BOOLEAN][at]


_idle: list[_Bench] = []  # a stack, most recent last; used without a lock, which could be held during a fork


def _taken(plan: Plan, members: int) -> _Bench:
    """Return idle buffers of a plan, or new ones."""
    for bench in reversed(_idle.copy()):
        if bench.plan is plan and bench.members >= members:
            try:
                _idle.remove(bench)
            except ValueError:  # another thread took the buffers
                continue
            return bench
    return _Bench(plan, members)


def _given_back(bench: _Bench) -> None:
    """Keep buffers for the next call, up to `_IDLE` bytes in total."""
    bench.forget()
    held = bench.bytes
    if held > _IDLE:
        return
    _idle.append(bench)
    for other in reversed(_idle.copy()):
        if other is not bench:
            held += other.bytes
            if held > _IDLE:
                with contextlib.suppress(ValueError):
                    _idle.remove(other)
