"""Statistics of ensembles on a GPU, reduced during evaluation without storing the members."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import shown
from linsolve.core.query import Problem
from linsolve.engines.cuda import device, kernel, prepared
from linsolve.engines.cuda_source import THREADS, TIMES, reduction
from linsolve.ensembles.blocks import sequence
from linsolve.ensembles.members import drawn, named
from linsolve.ensembles.reductions import Histogram, requested
from linsolve.ensembles.result import Ensemble

__all__ = ["LANES", "TILE", "Reduction", "ensemble"]

LANES = 1 << 14  # number of threads; equal on every device, so that results are equal
TILE = 1 << 22  # members drawn from one seed
STATISTICS = ("mean", "variance", "standard_error", "count", "min", "max")


class Reduction:
    """Moments, extremes and counts over members, given in batches of whole `LANES` except the last.

    Parameters
    ----------
    names : tuple of str
        State fields and observables.
    times : int
        Number of times.
    edges : ndarray, optional
        Ascending edges of a histogram, common to all names and times.

    Notes
    -----
    Thread ``l`` reduces members ``l, l + LANES, ...`` in order by Welford's recurrence; threads are merged in halves.
    The result is bitwise identical for any division into batches, and on any device with the same elementary functions.
    """

    def __init__(self, names: tuple[str, ...], times: int, edges: np.ndarray | None = None) -> None:
        self.xp, self.names, self.members = device(), names, 0
        self.edges = self.xp.asarray(np.zeros(0) if edges is None else np.ascontiguousarray(edges))
        self.counts = self.xp.zeros((len(names), times, self.edges.size + 1), dtype=self.xp.uint64)
        nothing = self.xp.asarray([0.0, 0.0, math.inf, -math.inf])
        self.kept = self.xp.ascontiguousarray(self.xp.broadcast_to(nothing, (len(names), times, LANES, 4)))

    def absorb(self, problem: Problem) -> None:
        """Reduce the members of a checked query, which follow those already reduced.

        Raises
        ------
        ValueError
            If the members already reduced do not fill whole lanes.
        """
        if self.members % LANES:
            raise ValueError(
                f"cuda: members = {self.members} must be a multiple of {LANES} (reduced before); cut there"
            )
        program, inputs, times, arrays = prepared(self.xp, problem, self.names)
        count = math.prod(problem.batch)
        sizes = np.int64(self.members), np.int64(count), np.int64(LANES), np.int32(times)
        rest = self.kept, np.int32(self.edges.size), self.edges, self.counts
        grid = LANES // THREADS, -(-times // TIMES)
        kernel(self.xp, reduction, "reduce", program, inputs)(grid, (THREADS,), (*sizes, *arrays, *rest))
        self.members += count

    def results(self) -> dict[tuple[str, str], np.ndarray]:
        """Return the statistics by name, with the times along the first axis, as NumPy arrays.

        Raises
        ------
        ValueError
            If a value was not finite.
        """
        xp, (mean, squares, low, high) = self.xp, (self.kept[..., k] for k in range(4))
        number = xp.asarray(self.members // LANES + (np.arange(LANES) < self.members % LANES), dtype=xp.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            # the spread of all members is that within the threads plus that between their means
            whole = mean[..., 0] + _sum(number * (mean - mean[..., :1])) / self.members
            between = xp.where(number > 0, number * (mean - whole[..., None]) ** 2, 0.0)  # of threads with members
            spread = _sum(squares) + _sum(between)
        ends = low.min(axis=-1), high.max(axis=-1)
        total, spread, low, high = arithmetic.to_numpy(xp.stack([whole, spread, *ends]))
        counts = arithmetic.to_numpy(self.counts).astype(np.int64)
        variance = spread / max(1, self.members - 1)
        for name, *values in zip(self.names, low, high, total, strict=True):
            if not np.isfinite(values).all():
                raise ValueError(
                    f"ensemble: {name} = nan or inf for some member must be finite; use the host, where "
                    "linsolve.ensemble names the member, or omits it with nonfinite='omit'"
                )
        found = {
            "mean": total,
            "variance": variance,
            "standard_error": np.sqrt(variance / self.members),
            "count": np.full(total.shape, self.members),
            "min": low,
            "max": high,
            "histogram": counts[..., 1:-1],
            "below": counts[..., 0],
            "above": counts[..., -1],
        }
        return {(name, key): value[k] for k, name in enumerate(self.names) for key, value in found.items()}


def _sum(values: Any) -> Any:
    """Return the sums over `LANES`, a power of two, in halves: in the same order on every device."""
    while values.shape[-1] > 1:
        half = values.shape[-1] // 2
        values = values[..., :half] + values[..., half:]
    return values[..., 0]


def _requested(what: Any, members: int) -> tuple[tuple[str, ...], np.ndarray | None]:
    """Return the requested statistics and edges."""
    names, edges = [], None
    for one in what:
        if isinstance(one, Histogram):
            if one.edges is None:
                raise ValueError(
                    "ensemble: Histogram must have edges on a device (a device has one pass); give Histogram(edges=...)"
                )
            edges = np.asarray(one.edges)
            names += ["histogram", "below", "above"]
        elif one in STATISTICS:
            names.append(one)
        else:
            raise ValueError(
                f"ensemble: reduce = {type(one).__name__} is not available on a GPU, which has {', '.join(STATISTICS)} "
                "and Histogram(edges=...); leave out device"
            )
    if members == 1 and {"variance", "standard_error"} & set(names):
        raise ValueError("ensemble: members = 1 must be at least 2 for a variance (networks); use more, or the mean")
    return tuple(dict.fromkeys(names)), edges


def ensemble(
    factory: Any,
    members: int,
    t: np.ndarray,
    *,
    observe: Sequence[str],
    reduce: Any = ("mean", "variance"),
    rng: Any = None,
    tile: int | None = None,
) -> Ensemble:
    """Return statistics over random networks that are drawn, evaluated and reduced on a GPU.

    ``linsolve.ensemble(..., device="cuda")`` calls this function.

    Parameters
    ----------
    factory : callable
        ``factory(rng, count)``, with a ``cupy.random.Generator``, returns a flow of single numbers and a start of CuPy
        arrays of shape (count,); `random_networks` does.
    members, t, observe, reduce, rng
        As for `linsolve.ensemble`; `reduce` without quantiles, histograms with edges.
    tile : int, optional
        Members drawn from one seed, a multiple of `LANES`. If memory runs out, pass a smaller tile; this draws other
        networks.

    Notes
    -----
    Tile k is drawn by ``cupy.random.Philox4x3210(SeedSequence(rng, spawn_key=(k,)))``: the same networks on every
    device, but different from those of NumPy's generators.
    """
    tile = TILE if tile is None else int(tile)
    if tile % LANES:
        raise ValueError(
            f"ensemble: tile = {tile} must be a multiple of {LANES} on a device (members from one seed); say {TILE}"
        )
    if not callable(factory):
        raise TypeError(
            f"ensemble: factory = {shown(factory)} must be a function of rng and count; pass random_networks(...)"
        )
    statistics, edges = _requested(requested(reduce), members)
    xp, seed, flow = device(), sequence(rng), None
    try:
        gathering = Reduction(tuple(observe), t.size, edges)
    except xp.cuda.memory.OutOfMemoryError as error:
        raise MemoryError(
            f"ensemble: memory of the device is lacking for t of {t.size} times and observe of {len(observe)} names "
            "(statistics of each thread); give fewer times or names at once"
        ) from error
    for number, first in enumerate(range(0, members, tile)):
        own = generator(seed, number)
        try:
            draw = named(factory, first, passed=(xp.cuda.memory.OutOfMemoryError,))
            problem = drawn(lambda _, n, own=own, draw=draw: draw(own, n), seed, number, min(tile, members - first), t)
            if len(problem.batch) > 1:
                raise ValueError(
                    f"ensemble: batch = {problem.batch} must be members only on a device; make one at a time"
                )
            gathering.absorb(problem)
        except xp.cuda.memory.OutOfMemoryError as error:
            raise MemoryError(
                f"ensemble: memory of the device is lacking for tile = {tile} (members drawn from one seed); give a "
                f"smaller multiple of {LANES}"
            ) from error
        flow = flow or problem.flow
    bins = {} if edges is None else dict.fromkeys(observe, edges)
    lost = {name: np.zeros(t.shape, np.int64) for name in observe}
    found = {key: value for key, value in gathering.results().items() if key[1] in statistics}
    for (name, statistic), value in found.items():
        if not np.isfinite(value).all():
            raise OverflowError(f"ensemble: {statistic} of {name} leaves the range of doubles; leave it out of reduce")
    values = {key: value.reshape(t.shape + value.shape[1:]) for key, value in found.items()}
    return Ensemble(flow, members, t, values, (), bins, lost, 1)


def generator(seed: np.random.SeedSequence, number: int) -> Any:
    """Return the device's random generator of one tile."""
    random = device().random
    return random.Generator(
        random.Philox4x3210(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, number)))
    )
