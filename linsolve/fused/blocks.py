"""A program evaluated with NumPy in tiles that fit the cache, with a few buffers and no other temporaries."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from linsolve.fused.grid import Grid, Tile, tiles
from linsolve.fused.plan import Plan, buffers, plan_of
from linsolve.fused.trace import BOOLEAN, Program

__all__ = ["UFUNCS", "Blocks", "early_values"]

_SAME = "exp expm1 log log1p sqrt sin cos tan sinh cosh tanh sign isinf isnan isfinite minimum maximum hypot pow atan2"
UFUNCS: dict[str, Any] = {name: getattr(np, name) for name in _SAME.split()} | {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "mod": np.remainder, "neg": np.negative,
    "abs": np.abs, "not": np.logical_not, "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_OPERATORS = {"add": "add", "sub": "sub", "mul": "mul", "div": "truediv", "mod": "mod", "neg": "neg"}

# members of a tile, outputs of a block of it: long enough that threads seldom wait for the interpreter
MEMBERS = OUTPUTS = 65_536
_MANY, _FEW_MEMBERS, _FEW_OUTPUTS = 32, 1024, 16_384  # where more values than these are kept for each member


class Blocks:
    """A program on a grid, ready to be evaluated tile by tile from any thread.

    The same NumPy functions are called on the same numbers as in plain evaluation, so that every bit is the same. A
    step that does not vary along an axis is not repeated along it, and a choice that falls the same way in the whole
    block costs a count.

    Parameters
    ----------
    program : Program
    grid : Grid
    """

    def __init__(self, program: Program, grid: Grid) -> None:
        self.program, self.grid, self.plan = program, grid, plan_of(program, grid)
        self.early = early_values(self.plan, grid)
        few = len(self.plan.kept) > _MANY
        self.members, self.outputs = (_FEW_MEMBERS, _FEW_OUTPUTS) if few else (MEMBERS, OUTPUTS)
        self._local = threading.local()

    def tiles(self) -> list[Tile]:
        """Return a division into tiles of moderate size."""
        count = self.grid.shape[1] * self.grid.shape[2]
        return list(tiles(self.grid.shape, max(min(self.members, 4096), min(self.members, count // 8)), 4096))

    def __call__(self, tile: Tile, outputs: dict[str, np.ndarray]) -> None:
        """Write what the program gives in a tile into arrays of the shape of the tile, by name."""
        bench = self._bench(tile)
        bench.prepare(tile)
        high, wide = tile.shape[1:]
        block = max(1, self.outputs // (high * wide))
        for k in range(tile.t0, tile.t1, block):
            part = tile._replace(t0=k, t1=min(k + block, tile.t1))
            bench.run(part, {name: v[k - tile.t0 : part.t1 - tile.t0] for name, v in outputs.items()})

    def _bench(self, tile: Tile) -> _Bench:
        high, wide = tile.shape[1:]
        bench = getattr(self._local, "bench", None)
        if bench is None or bench.members < high * wide:
            bench = self._local.bench = _Bench(self.plan, self.grid, self.early, high * wide, self.outputs)
        return bench


def early_values(plan: Plan, grid: Grid) -> dict[int, Any]:
    """Return the values of the steps that no member changes, computed as plain evaluation would: numbers as numbers."""
    values: dict[int, Any] = {}
    for k in plan.early:
        step = plan.program.steps[k]
        given = [values[a] for a in step.args]
        if step.op == "input":
            values[k] = grid.given[step.data]
        elif step.op == "constant":
            values[k] = step.data
        elif step.op == "where":
            values[k] = np.where(*given)
        elif step.data == "square":
            values[k] = given[0] ** 2
        elif step.op == "astype":
            values[k] = np.asarray(given[0], dtype=float)
        elif step.op in _OPERATORS:
            values[k] = getattr(operator, _OPERATORS[step.op])(*given)
        else:
            values[k] = UFUNCS[step.op](*given)
    return {k: np.asarray(v, dtype=bool if plan.program.steps[k].kind == BOOLEAN else float) for k, v in values.items()}


def _as_real(a: Any, out: np.ndarray) -> np.ndarray:
    np.copyto(out, a)
    return out


def _choose(condition: Any, a: Any, b: Any) -> Any:
    """Return ``where(condition, a, b)``, which is `a` or `b` itself where the condition is the same everywhere."""
    true = np.count_nonzero(condition)
    if true == 0:
        return b
    if true == condition.size:
        return a
    return np.where(condition, a, b)


_OTHERS: dict[str, Any] = {"where": _choose, "astype": _as_real}


class _Bench:
    """One thread's buffers, and the calls on them for blocks of each shape."""

    def __init__(self, plan: Plan, grid: Grid, early: dict[int, Any], members: int, size: int) -> None:
        self.plan, self.grid, self.early, self.members = plan, grid, early, members
        program, outputs = plan.program, set(plan.program.outputs.values())
        self.direct = {k for k in outputs if k in set(plan.full) and program.steps[k].kind != BOOLEAN}
        self.direct = {k for k in self.direct if program.steps[k].op != "where"}
        self.of_members = buffers(program, plan.member, set(plan.kept), set())
        self.of_all = buffers(program, plan.full, outputs & set(plan.full), self.direct)
        size = max(size, members)
        self.pools = {
            False: ([np.empty(members) for _ in range(self.of_members.reals)],
                    [np.empty(members, dtype=bool) for _ in range(self.of_members.booleans)]),
            True: ([np.empty(size) for _ in range(self.of_all.reals)],
                   [np.empty(size, dtype=bool) for _ in range(self.of_all.booleans)]),
        }  # fmt: skip
        self.calls: dict[tuple, list[tuple]] = {}
        self.values: list[Any] = [early.get(k) for k in range(len(program.steps))]
        self.timed = [k for k in plan.early if plan.axes[k]]

    def prepare(self, tile: Tile) -> None:
        """Compute what the members of a tile need once."""
        with np.errstate(all="ignore"):  # what no time will choose may overflow; see `hoisted`
            self._run(self._calls(tile._replace(t0=0, t1=1), False), tile)

    def run(self, block: Tile, outputs: dict[str, np.ndarray]) -> None:
        """Compute a block of a prepared tile."""
        values, program = self.values, self.plan.program
        for k in self.timed:
            values[k] = block.of(self.early[k])
        written: dict[int, np.ndarray] = {}
        for name, k in program.outputs.items():
            if k in self.direct and k not in written:
                written[k] = outputs[name]
        self._run(self._calls(block, True), block, written)
        for name, k in program.outputs.items():
            if written.get(k) is not outputs[name]:
                np.copyto(outputs[name], values[k])

    def _run(self, calls: list[tuple], tile: Tile, written: dict[int, np.ndarray] | None = None) -> None:
        values = self.values
        for function, k, args, out in calls:
            if function is None:
                values[k] = tile.of(self.grid.given[args])
                continue
            if function is _choose:
                values[k] = _choose(values[args[0]], values[args[1]], values[args[2]])
                continue
            if out is None:
                out = written[k]  # type: ignore[index]
            if len(args) == 2:
                values[k] = function(values[args[0]], values[args[1]], out=out)
            else:
                values[k] = function(values[args[0]], out=out)

    def _calls(self, tile: Tile, full: bool) -> list[tuple]:
        """Return function, step, arguments and buffer of each step of a stage, for tiles of this shape."""
        key = (tile.shape, full)
        if key not in self.calls:
            found: list[tuple] = []
            for k in self.plan.full if full else self.plan.member:
                step = self.plan.program.steps[k]
                if step.op == "input":
                    found.append((None, k, step.data, None))
                else:
                    function: Callable = _OTHERS.get(step.op) or UFUNCS[step.op]
                    found.append((function, k, step.args, self._buffer(k, tile.shape, full)))
            self.calls[key] = found
        return self.calls[key]

    def _buffer(self, k: int, shape: tuple[int, ...], full: bool) -> np.ndarray | None:
        at = (self.of_all if full else self.of_members).of.get(k)
        if at is None:
            return None
        pool = self.pools[full][self.plan.program.steps[k].kind == BOOLEAN]
        own = tuple(n if self.plan.axes[k] & (1 << axis) else 1 for axis, n in enumerate(shape))
        return pool[at][: own[0] * own[1] * own[2]].reshape(own)
