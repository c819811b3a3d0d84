"""Statistics over the members of a batch, evaluated tile by tile; see "W1, mean" in ``benchmarks/RESULTS.md``."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from linsolve.core.arguments import unknown_name
from linsolve.core.flow import Flow
from linsolve.core.query import heard, pose, refuse_overflow
from linsolve.engines.evaluate import inputs_of, prepared, reevaluate_extremes, shape_of
from linsolve.engines.plan import Tile, run_tiles, tiles
from linsolve.ensembles.gatherer import OnePass
from linsolve.ensembles.reductions import gatherers, requested

__all__ = ["reduce"]

_HELD = 2**19  # values per tile, for any number of times and threads
_SUMS = 32  # largest number of sums, unless tiles would be too large
_AT_ONCE = 256  # tiles per merge


def reduce(
    flow: Flow,
    t: Any,
    z0: Any,
    names: Iterable[str] | str,
    what: Any = "mean",
    *,
    engine: str = "blocks",
    threads: int | None = None,
) -> dict[str, dict[str, np.ndarray]]:
    """Return statistics of observables over all members, at each time, without storing the ensemble.

    Parameters
    ----------
    flow : Flow
        A flow whose parameters and state are single numbers.
    t, z0
        Times and start, as for the flow itself.
    names : str or iterable of str
        State fields and observables of a `Trajectory`.
    what : str, Histogram, Quantiles, or iterable of them
        "mean", "variance" (over ``n - 1``), "standard_error", "count", "min", "max", "quantiles", "histogram", as
        in `linsolve.ensemble`.
    engine : str
        "blocks" (NumPy) or "compiled" (extra ``[fast]``).
    threads : int, optional
        Number of threads, by default one per processor. The result does not depend on it, since tiles are fixed and
        merged in order.

    Returns
    -------
    dict of str to dict of str to array
        Requested statistics of each name, of shape ``t.shape`` followed by bins or quantiles.

    Raises
    ------
    ValueError, TypeError
        If an input is invalid, a name is unknown, or the flow has own axes.
    NotExact
        If the closed form does not hold for this start.
    OverflowError
        If a value or an intermediate result is beyond the range of doubles.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> from linsolve.ensembles.reduce_members import reduce
    >>> modes = ls.BalancedMode(s=np.linspace(1, 2, 1001))
    >>> reduce(modes, [0.0, 1.0], 0.1, "a", ("mean", "max"))["a"]["mean"].round(6).tolist()
    [0.1, 0.912291]
    """
    if engine not in ("blocks", "compiled"):
        raise ValueError(unknown_name("reduce", "engine", engine, ("blocks", "compiled")))
    wanted = (names,) if isinstance(names, str) else tuple(dict.fromkeys(names))
    asked = requested(what)
    problem = pose(flow.cast(np), t, z0)
    problem = problem._replace(t=np.atleast_1d(problem.t))
    if not problem.batch or np.prod(problem.batch) == 1:
        raise ValueError(
            "reduce: batch = () must have several members (of the statistics); give a batch of parameters or starts"
        )
    with heard(problem):
        inputs = inputs_of(problem)
        made = prepared(problem, engine, wanted, inputs)
        reevaluate_extremes(problem, inputs, {}, True)
        count, rows, columns = made.grid.shape
        kept = {
            name: [_MeanOnly()] if asked == ("mean",) else gatherers(asked, rows * columns, count) for name in wanted
        }
        finite = True
        if asked == ("mean",) and engine == "compiled":
            finite = _add_up(made, kept, threads)
        boxes = list(tiles(made.grid.shape, max(8, min(_HELD // count, 8192) // 8 * 8)))
        while asking := {
            name: [(g, q) for g in each if (q := g.question()) is not None] for name, each in kept.items()
        }:
            asking = {name: each for name, each in asking.items() if each}
            if not asking:
                break
            finite &= _one_pass(made, boxes, asking, threads)
    if not finite:
        refuse_overflow(problem)
    shape = shape_of(problem._replace(batch=(), t=np.asarray(t)))
    return {name: _shaped(each, shape, count) for name, each in kept.items()}


def _add_up(made: Any, kept: dict[str, list[Any]], threads: int | None) -> bool:
    """Sum tiles in machine code without storing values, for the means; return whether all sums are finite."""
    finite = True
    most = max(512, 32 * _HELD // made.grid.shape[0])
    boxes = made.tiles(_SUMS)  # as many on every computer, as the sums depend on it
    if boxes[0].shape[1] * boxes[0].shape[2] > most:
        boxes = list(tiles(made.grid.shape, most))
    for k in range(0, len(boxes), _AT_ONCE):
        some = boxes[k : k + _AT_ONCE]
        for box, sums in zip(some, run_tiles(made.sums, some, threads), strict=True):
            for name, (mean,) in kept.items():
                mean.absorb((box.shape[1] * box.shape[2], sums[name]))
                finite &= bool(np.isfinite(sums[name]).all())
    for (mean,) in kept.values():
        mean.close()
    return finite


def _one_pass(made: Any, boxes: list[Tile], asking: dict[str, list[tuple]], threads: int | None) -> bool:
    """Evaluate every tile, absorb the results in order, and return whether all values are finite."""
    finite = True
    largest = max(math.prod(tile.shape) for tile in boxes)
    held = threading.local()  # allocating buffers costs more than the arithmetic

    def ask(tile: Tile) -> tuple[bool, list[Any]]:
        if not hasattr(held, "values"):
            held.values = {name: np.empty(largest) for name in made.program.outputs}
        values = {name: v[: math.prod(tile.shape)].reshape(tile.shape) for name, v in held.values.items()}
        whole = made(tile, values)
        flat = {name: v.reshape(len(v), -1) for name, v in values.items()}
        return whole, [question(flat[name], None) for name, each in asking.items() for _, question in each]

    gathering = [g for each in asking.values() for g, _ in each]
    for k in range(0, len(boxes), _AT_ONCE):
        for whole, answers in run_tiles(ask, boxes[k : k + _AT_ONCE], threads):
            finite &= whole
            for gatherer, answer in zip(gathering, answers, strict=True):
                gatherer.absorb(answer)
    for gatherer in gathering:
        gatherer.close()
    return finite


def _shaped(each: list[Any], shape: tuple[int, ...], count: int) -> dict[str, np.ndarray]:
    """Return all results by name, with time axes in place of rows."""
    found: dict[str, np.ndarray] = {}
    for gatherer in each:
        for name, value in gatherer.results().items():
            rows = np.shape(value)[:1] == (count,) and name != "edges"
            found[name] = np.reshape(value, shape + np.shape(value)[1:]) if rows else value
    return found


def _sums(values: np.ndarray, finite: np.ndarray | None) -> tuple[int, np.ndarray]:
    return values.shape[-1], values.sum(axis=-1)


class _MeanOnly(OnePass):
    """Mean from one sum per tile, added by compensated summation (Neumaier)."""

    of_tile = staticmethod(_sums)

    def __init__(self) -> None:
        self.total: Any = 0.0
        self.low: Any = 0.0
        self.count = 0

    def absorb(self, answer: tuple[int, np.ndarray]) -> None:
        """Add a tile."""
        count, part = answer
        total = self.total + part
        back = total - self.total
        self.low = self.low + ((self.total - (total - back)) + (part - back))
        self.total, self.count = total, self.count + count

    def results(self) -> dict[str, np.ndarray]:
        """Return the mean of each row."""
        return {"mean": (self.total + self.low) / self.count}
