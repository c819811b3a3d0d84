"""Statistics of ensembles on a GPU, reduced during evaluation without storing the members."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import unknown_name
from linsolve.core.flow import Flow
from linsolve.engines.cuda import Given, asked, device, in_blocks, inputs_of, kinds_of, known_program
from linsolve.engines.cuda_source import OPTIONS, TIMES, reduction
from linsolve.ensembles.blocks import sequence
from linsolve.ensembles.members import drawn
from linsolve.ensembles.reductions import Histogram
from linsolve.ensembles.result import Ensemble

__all__ = ["LANES", "TILE", "Reduction", "ensemble", "reduce"]

LANES = 1 << 14  # number of threads; equal on every device, so that results are equal
THREADS = 128
TILE = 1 << 20  # members drawn from one seed
MOST_CELLS = 1536  # largest names x bins of histograms in the shared memory of a thread block, for `TIMES` times
STATISTICS = ("mean", "variance", "standard_error", "count", "min", "max")
_FIELDS = ("mean", "spread", "low", "high")


class _Reducer:
    """The compiled reduction of a flow, for inputs of certain kinds."""

    def __init__(self, xp: Any, flow: type[Flow], names: tuple[str, ...], kinds: Any, edges: int) -> None:
        self.xp, self.program = xp, known_program(flow, names)
        self.raw = xp.RawKernel(reduction(self.program, dict(kinds), edges), "reduce", options=OPTIONS)


_compiled: Callable[..., _Reducer] = lru_cache(maxsize=64)(_Reducer)


class Reduction:
    """Moments, extremes and counts over members, given in blocks of whole `LANES`.

    Parameters
    ----------
    xp : module
        CuPy.
    flow : type
        Class of a flow of single numbers.
    names : tuple of str
        State fields and observables.
    t : ndarray, shape (T,)
        Times.
    edges : ndarray, optional
        Ascending edges of a histogram, common to all names and times.

    Notes
    -----
    Thread ``l`` reduces members ``l, l + LANES, ...`` in order by Welford's recurrence, and threads are merged in
    pairs, ``l`` with ``l + LANES/2`` and so on. The result is bitwise identical for any division into blocks, and on
    any device with the same elementary functions.
    """

    def __init__(self, xp: Any, flow: type[Flow], names: tuple[str, ...], t: np.ndarray, edges: Any = None) -> None:
        if edges is not None and len(names) * (len(edges) + 1) > MOST_CELLS:
            raise ValueError(
                f"cuda: edges = {len(edges)} for {len(names)} names must be at most {MOST_CELLS // len(names) - 1} "
                "(what a block of the device holds); take fewer bins, or fewer names at once"
            )
        self.xp, self.flow, self.names, self.members = xp, flow, names, 0
        self.clock, self.times = xp.asarray(np.ascontiguousarray(t)), len(t)
        shape = (len(names), self.times, LANES)
        self.gathered = {name: xp.full(shape, {"low": np.inf, "high": -np.inf}.get(name, 0.0)) for name in _FIELDS}
        self.edges = None if edges is None else xp.asarray(np.ascontiguousarray(edges))
        self.counts = None if edges is None else xp.zeros((len(names), self.times, len(edges) + 1), dtype=xp.uint64)

    def absorb(self, inputs: Mapping[str, Given], first: int, last: int) -> None:
        """Reduce members `first` to `last` of a batch, where `first` follows the members already reduced."""
        if first != self.members or first % LANES:
            raise ValueError(
                f"cuda: first = {first} must be {self.members}, a multiple of {LANES} (members come in order, in whole "
                "lanes); cut blocks there"
            )
        edges = 0 if self.edges is None else int(self.edges.size)
        made = _compiled(self.xp, self.flow, self.names, kinds_of(inputs), edges)
        arguments: list[Any] = [
            np.int64(first),
            np.int64(last - first),
            np.int64(LANES),
            np.int32(self.times),
            self.clock,
        ]
        for name in made.program.inputs:
            if name != "t":
                arguments += inputs[name].on(self.xp, first, last)
        arguments += [self.gathered[name] for name in _FIELDS]
        if edges:
            arguments += [self.edges, self.counts]
        made.raw((LANES // THREADS, -(-self.times // TIMES)), (THREADS,), tuple(arguments))
        self.members = last

    def results(self) -> dict[tuple[str, str], np.ndarray]:
        """Return the statistics by name, of shape (T,), as NumPy arrays.

        Raises
        ------
        ValueError
            If a value was not finite.
        """
        whole, rest = divmod(self.members, LANES)
        number = np.where(np.arange(LANES) < rest, whole + 1.0, float(whole))
        mean, spread = self._merged(number)
        low, high = (
            arithmetic.to_numpy(function(self.gathered[name], axis=-1))
            for name, function in (("low", self.xp.min), ("high", self.xp.max))
        )
        found: dict[tuple[str, str], np.ndarray] = {}
        for k, name in enumerate(self.names):
            if not (np.isfinite(mean[k]).all() and np.isfinite(low[k]).all() and np.isfinite(high[k]).all()):
                raise ValueError(
                    f"ensemble: {name} = nan or inf for some member must be finite; look for it on the host, where "
                    "linsolve.ensemble says which, or leaves it out by nonfinite='omit'"
                )
            variance = spread[k] / max(1, self.members - 1)
            found[name, "mean"], found[name, "variance"] = mean[k], variance
            found[name, "standard_error"] = np.sqrt(variance / self.members)
            found[name, "count"] = np.full(self.times, self.members)
            found[name, "min"], found[name, "max"] = low[k], high[k]
            if self.counts is not None:
                counts = arithmetic.to_numpy(self.counts)[k].astype(np.int64)
                found[name, "histogram"] = counts[:, 1:-1]
                found[name, "below"], found[name, "above"] = counts[:, 0], counts[:, -1]
        return found

    def _merged(self, number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and sum of squared deviations over all lanes, merged in pairs."""
        mean, spread = self.gathered["mean"], self.gathered["spread"]
        while len(number) > 1:
            half = len(number) // 2
            total = number[:half] + number[half:]
            share = self.xp.asarray(number[half:] / np.maximum(total, 1.0))
            weight = share * self.xp.asarray(number[:half])
            away = mean[..., half:] - mean[..., :half]
            spread = spread[..., :half] + spread[..., half:] + away * away * weight
            mean, number = mean[..., :half] + away * share, total
        return arithmetic.to_numpy(mean)[..., 0], arithmetic.to_numpy(spread)[..., 0]


def _requested(what: Any, members: int) -> tuple[tuple[str, ...], np.ndarray | None]:
    """Return the requested statistics and edges."""
    names, edges = [], None
    for one in (what,) if isinstance(what, str | Histogram) else tuple(what):
        if isinstance(one, Histogram):
            if one.edges is None:
                raise ValueError(
                    "cuda: Histogram must have edges on a device (a device has one pass); give Histogram(edges=...)"
                )
            edges = np.asarray(one.edges)
            names += ["histogram", "below", "above"]
        elif one in STATISTICS:
            names.append(one)
        else:
            raise ValueError(unknown_name("cuda", "statistic on a device", str(one), STATISTICS))
    if members == 1 and {"variance", "standard_error"} & set(names):
        raise ValueError("cuda: members = 1 must be at least 2 for a variance (networks); take more, or the mean")
    return tuple(dict.fromkeys(names)), edges


def reduce(
    flow: Flow, t: Any, z0: Any, names: Iterable[str] | str, what: Any = ("mean",), *, block: int | None = None
) -> dict[str, dict[str, np.ndarray]]:
    """Return statistics of observables over all members at each time, on a GPU and without storing the members.

    Parameters
    ----------
    flow, t, z0, names
        As for `linsolve.engines.cuda.evaluate`.
    what : str, Histogram or iterable of them
        "mean", "variance" (over ``n - 1``), "standard_error", "count", "min", "max", `Histogram` with edges.
    block : int, optional
        Members per kernel call, a multiple of `LANES`; halved automatically if memory is insufficient.

    Returns
    -------
    dict of str to dict of str to array
        NumPy arrays of shape ``t.shape``.

    Raises
    ------
    ImportError, OSError, ValueError, TypeError, NotExact, MemoryError
    """
    xp = device()
    wanted = (names,) if isinstance(names, str) else tuple(dict.fromkeys(names))
    problem = asked(flow, t, z0)
    inputs, members = inputs_of(problem, known_program(type(flow), wanted)), math.prod(problem.batch)
    statistics, edges = _requested(what, members)
    gathering = Reduction(xp, type(flow), wanted, arithmetic.to_numpy(problem.t).reshape(-1), edges)
    size = LANES * max(1, -(-(members if block is None else int(block)) // LANES))
    pool = xp.get_default_memory_pool()
    in_blocks(
        lambda first, last: gathering.absorb(inputs, first, last),
        members, 1 << (size - 1).bit_length(), xp.cuda.memory.OutOfMemoryError, pool.free_all_blocks, LANES,
    )  # fmt: skip
    results, shape = gathering.results(), tuple(problem.t.shape)
    return {
        name: {key: _shaped(results[name, key], shape) for key in statistics}
        | ({} if edges is None else {"edges": edges})
        for name in wanted
    }


def _shaped(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return value.reshape(shape + value.shape[1:])


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

    ``linsolve.ensemble(..., device="cuda")`` calls this function after checking its arguments.

    Parameters
    ----------
    factory : callable
        ``factory(rng, count)``, with a ``cupy.random.Generator``, returns a flow of single numbers and a start of CuPy
        arrays of shape (count,); `random_networks` does.
    members, t, observe, reduce, rng
        As for `linsolve.ensemble`; `reduce` without quantiles, histograms with edges.
    tile : int, optional
        Members drawn from one seed, a multiple of `LANES`. The networks depend on it, so it is not reduced
        automatically if memory is insufficient: pass a smaller value.

    Notes
    -----
    Tile k is drawn by ``cupy.random.Philox4x3210(SeedSequence(rng, spawn_key=(k,)))``: the same networks on every
    device, but different from those of NumPy's generators. Initial states are checked on the host, on one copy of each
    tile.
    """
    xp = device()
    tile = TILE if tile is None else int(tile)
    if tile % LANES:
        raise ValueError(f"ensemble: tile = {tile} must be a multiple of {LANES} on a device (members from one seed)")
    statistics, edges = _requested(reduce, members)
    seed, gathering, flow = sequence(rng), None, None
    for number, first in enumerate(range(0, members, tile)):
        last = min(first + tile, members)
        try:
            own = generator(seed, number)
            problem = drawn(lambda _, count, own=own: factory(own, count), seed, number, last - first, t)
        except xp.cuda.memory.OutOfMemoryError as error:
            raise MemoryError(
                f"ensemble: memory of the device is lacking for tile = {tile} (members drawn from one seed); give a "
                f"smaller multiple of {LANES}"
            ) from error
        if len(problem.batch) > 1:
            raise ValueError(f"ensemble: batch = {problem.batch} must be members only on a device; make one at a time")
        if gathering is None:
            flow = problem.flow
            gathering = Reduction(xp, type(flow), tuple(observe), t.reshape(-1), edges)
        inputs = inputs_of(problem, known_program(type(problem.flow), tuple(observe)))
        gathering.absorb({name: _shifted(value, first) for name, value in inputs.items()}, first, last)
    assert gathering is not None
    results = {key: _shaped(v, t.shape) for key, v in gathering.results().items() if key[1] in statistics}
    lost = {name: np.zeros(t.shape, np.int64) for name in observe}
    bins = {} if edges is None else dict.fromkeys(observe, edges)
    return Ensemble(flow, members, t, results, (), bins, lost, 1)


class _Tail:
    """Values of the members from number `first`, indexed by their number in the whole ensemble."""

    def __init__(self, values: Any, first: int) -> None:
        self.values, self.first = values, first

    def __getitem__(self, part: slice) -> Any:
        return self.values[part.start - self.first : part.stop - self.first]


def _shifted(value: Given, first: int) -> Given:
    return value._replace(values=_Tail(value.values, first)) if value.kind == "member" else value


def generator(seed: np.random.SeedSequence, number: int) -> Any:
    """Return the device's random generator of one tile."""
    random = device().random
    return random.Generator(
        random.Philox4x3210(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, number)))
    )
