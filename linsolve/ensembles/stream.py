"""Statistics over any number of random networks, streamed in constant memory.

See the streamed ensembles in ``benchmarks/RESULTS.md``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import choice, integer, listed, shown, times, unknown_name
from linsolve.core.flow import Flow
from linsolve.core.named_arguments import named_arguments
from linsolve.ensembles.blocks import sequence
from linsolve.ensembles.execute import check_workers, run
from linsolve.ensembles.gatherer import Gatherer
from linsolve.ensembles.members import Answer, Lost, Tiles, drawn, named, names_of, values_of
from linsolve.ensembles.reductions import gatherers, requested
from linsolve.ensembles.result import Ensemble

__all__ = ["TILE", "Ensemble", "ensemble"]

TILE = 4096  # members drawn from one seed
MOST = 10**12  # largest members x times: one day at 0.1 microseconds each


@named_arguments("ensemble")
def ensemble(
    factory: Callable[[np.random.Generator, int], tuple[Any, Any]],
    members: int,
    t: Any,
    *,
    observe: Sequence[str] | str = ("loss",),
    reduce: Any = ("mean", "variance"),
    rng: Any = None,
    block: int | None = None,
    threads: int | None = None,
    executor: Any = None,
    progress: bool | None = None,
    nonfinite: str = "raise",
    tile: int | None = None,
    device: str | None = None,
) -> Ensemble:
    r"""Return statistics over random networks in closed form, in memory independent of their number.

    Parameters
    ----------
    factory : callable
        ``factory(rng, count)`` returns a flow and a start with `count` members along the leading batch axis, drawn
        only from `rng`, for example by `random_networks`. For executors in other processes it must be picklable.
    members : int
        Number of networks.
    t : array_like, shape () or (T,)
        Times, ascending; ``inf`` is the limit.
    observe : str or sequence of str
        Observables: any names of a trajectory of the flow.
    reduce : str, Quantiles, Histogram or sequence of them
        Statistics of each observable: ``"mean"``, ``"variance"`` (over ``members - 1``), ``"standard_error"`` of the
        mean, ``"count"``, ``"min"``, ``"max"``, ``"quantiles"`` for `Quantiles` with default arguments, ``"histogram"``
        for `Histogram` with default arguments.
    rng : None, int, numpy.random.Generator or SeedSequence
        As in SPEC 7 of Scientific Python.
    block : int, optional
        Members per task, rounded up to whole tiles; one tile by default. Use larger blocks for remote executors.
    threads, executor, progress
        As for `run`: the cores of this process by default, any `concurrent.futures.Executor`, a progress bar where the
        standard error is a terminal.
    nonfinite : str
        ``"raise"`` raises for nan and infinities; ``"omit"`` omits them and counts them in `Ensemble.omitted`.
    tile : int, optional
        Members drawn from one seed, by default `TILE`; on a GPU a multiple of 2^14, by default 2^22. The networks
        depend on it.
    device : str, optional
        ``"cuda"`` draws, evaluates and reduces on a GPU (extra ``[cuda12]`` or ``[cuda13]``). It requires a flow of
        single numbers and a factory that takes a ``cupy.random.Generator``, as `random_networks` does. Quantiles,
        histograms without edges and nan are not supported. The random numbers differ from those of NumPy, so the same
        `rng` gives different networks.

    Returns
    -------
    Ensemble
        ``found["loss", "mean"]``, of shape t.shape + rest of the batch + own.

    Raises
    ------
    ValueError, TypeError
        If an argument is invalid, before any evaluation; if values are not finite, with tile and member.
    BlockError
        If the factory fails for a tile.
    NotExact
        If the closed form does not hold for a member.

    Notes
    -----
    Tile k is drawn from ``SeedSequence(rng, spawn_key=(k,))`` and tiles are merged in order. The result is bitwise
    identical for any `block`, number of threads and executor (``tests/ensembles/test_ensemble.py``). Memory holds a few
    tiles per worker and the reductions. Quantiles and histograms without edges need further passes over the members,
    which are drawn again from the same seeds.

    Examples
    --------
    >>> import linsolve as ls
    >>> from linsolve import ensembles
    >>> wide = ensembles.random_networks(width=10**9, sigma_u=1e-5, sigma_w=1e-5, y=1.0)
    >>> found = ls.ensemble(wide, 20_000, [0.0, 1.0, 10.0], reduce=("mean", "standard_error"), rng=0)
    >>> found["loss", "mean"].round(4).tolist()
    [1.0, 0.0614, 0.0]
    """
    who = "ensemble"
    if device is not None:
        workers = {"block": block, "threads": threads, "executor": executor, "progress": progress}
        return _on_device(who, device, factory, members, t, observe, reduce, rng, nonfinite, tile, workers)
    members = integer(who, "members", members, meaning="networks", example=100_000)
    clock = _ascending(who, t)
    _refuse_large(who, members, clock)
    tile = TILE if tile is None else integer(who, "tile", tile, meaning="members from one seed", example=100_000)
    block = tile if block is None else integer(who, "block", block, meaning="members of a task", example=100_000)
    observe, what = _names(who, observe), requested(reduce)
    choice(who, "nonfinite", nonfinite, ("raise", "omit"))
    if members == 1 and {"variance", "standard_error"} & {v for v in what if isinstance(v, str)}:
        raise ValueError(f"{who}: members = 1 must be at least 2 for a variance (networks); use more, or the mean")
    if not callable(factory) or isinstance(factory, Flow) or not _takes_two(factory):
        rule = "must be callable as factory(rng, count) (count: members), and return a flow and a start"
        raise TypeError(f"{who}: factory = {shown(factory)} {rule}; ensembles.random_networks makes one")
    check_workers(who, executor, threads, progress)
    seed = sequence(rng, "ensemble")

    flow, shapes = _probe(factory, seed, min(members, 2), clock, observe)
    sizes = {name: int(np.prod(shape, dtype=np.int64)) for name, shape in shapes.items()}
    gathering = {name: gatherers(what, members, sizes[name]) for name in observe}
    omitted = {name: np.zeros(sizes[name], np.int64) for name in observe}
    plan = Tiles(factory, seed, members, tile, -(-block // tile), clock, {}, shapes)
    those: dict[str, Any] = {"executor": executor, "threads": threads, "progress": progress}
    passes = 0
    while questions := _questions(gathering):
        passes += 1
        those["label"] = who if passes == 1 else f"{who}, pass {passes}"
        _pass(plan.asking(questions), gathering, omitted if passes == 1 else None, nonfinite, those)
    values, edges = _results(gathering, shapes)
    for (name, key), value in values.items():
        _refuse_results(name, key, value, members - omitted[name].max())
    lost = {name: count.reshape(shapes[name]) for name, count in omitted.items()}
    levels = next((v.levels for v in what if hasattr(v, "levels")), ())
    return Ensemble(flow, members, clock, values, levels, edges, lost, passes)


def _takes_two(factory: Any) -> bool:
    """Return whether a function accepts two arguments, as far as its signature is known."""
    try:
        inspect.signature(factory).bind(None, None)
    except ValueError:  # builtins without a signature
        return True
    except TypeError:
        return False
    return True


def _on_device(
    who: str, device: Any, factory: Any, members: Any, t: Any, observe: Any, reduce: Any, rng: Any, nonfinite: str,
    tile: Any, workers: dict[str, Any],
) -> Ensemble:  # fmt: skip
    """Return the ensemble from a GPU, after checking that the GPU supports the arguments."""
    choice(who, "device", device, ("cuda",))
    for name, value in workers.items():
        if value is not None:
            raise ValueError(
                f"{who}: {name} = {value!r} does not go with device = 'cuda' (it does the work); leave it out"
            )
    if nonfinite != "raise":
        raise ValueError(f"{who}: nonfinite = {nonfinite!r} must be 'raise' on a device; leave out on the host")
    from linsolve.ensembles import cuda_reduce

    members = integer(who, "members", members, meaning="networks", example=100_000)
    if tile is not None:
        tile = integer(who, "tile", tile, meaning="members from one seed", example=cuda_reduce.TILE)
    clock = _ascending(who, t)
    _refuse_large(who, members, clock)
    return cuda_reduce.ensemble(
        factory, members, clock, observe=_names(who, observe), reduce=reduce, rng=rng, tile=tile
    )


def _refuse_large(who: str, members: int, clock: np.ndarray) -> None:
    """Raise if the members cannot be evaluated in a day; the error estimates the time and suggests a fix."""
    count = members * max(1, clock.size)
    if count > MOST:
        days = Decimal(count) / (86_400 * 10_000_000)
        raise ValueError(
            f"{who}: members = {Decimal(members):.3g} at {clock.size} times take {days:.3g} days at 0.1 "
            f"microseconds each, but must be at most {MOST / max(1, clock.size):.3g} (networks); a million give means "
            "to 0.1 % of the standard deviation"
        )


def _pass(
    tiles: Tiles,
    gathering: Mapping[str, list[Gatherer]],
    omitted: dict[str, np.ndarray] | None,
    nonfinite: str,
    workers: dict[str, Any],
) -> None:
    """Evaluate every tile and absorb the results in the order of the tiles."""
    asked = {name: [g for g in all_ if g.question() is not None] for name, all_ in gathering.items()}
    with closing(run(range(len(tiles)), tiles, describe=tiles.describe, **workers)) as finished:  # type: ignore[type-var]
        for tile, answer in _in_order(finished, tiles.each):
            for name, lost, answers in zip(tiles.questions, *answer, strict=True):
                if lost is not None and nonfinite == "raise":
                    _refuse(name, lost, tiles, tile)
                if lost is not None and omitted is not None:
                    omitted[name] += lost.members
                for gatherer, said in zip(asked[name], answers, strict=True):
                    gatherer.absorb(said)
    for all_ in asked.values():
        for gatherer in all_:
            gatherer.close()


def _in_order(finished: Iterable[tuple[int, list[Answer]]], each: int) -> Iterator[tuple[int, Answer]]:
    """Yield the results of tiles in order, buffering blocks that finish early."""
    early: dict[int, list[Answer]] = {}
    following = 0
    for block, answers in finished:
        early[block] = answers
        while following in early:
            yield from enumerate(early.pop(following), following * each)
            following += 1


def _questions(gathering: Mapping[str, list[Gatherer]]) -> dict[str, tuple[Any, ...]]:
    found = {name: tuple(q for g in all_ if (q := g.question()) is not None) for name, all_ in gathering.items()}
    return {name: questions for name, questions in found.items() if questions}


def _refuse(name: str, lost: Lost, tiles: Tiles, tile: int) -> None:
    start, stop = tiles.span(tile)
    key = (*tiles.seed.spawn_key, tile)
    worst = int(np.argmax(lost.members))
    count, first = int(lost.members[worst]), int(lost.first[worst])
    per_time = len(lost.members) // max(1, tiles.t.size)
    time = tiles.t.reshape(-1)[worst // per_time]
    raise ValueError(
        f"ensemble: {name} = nan or inf for {count} of the members {start} to {stop - 1} (tile {tile}), first for "
        f"member {start + first}, at t = {time} must be finite; look at index {first} of factory(rng, {stop - start}) "
        f"with the generator of SeedSequence({tiles.seed.entropy}, spawn_key={key}), or leave them out by "
        "nonfinite='omit'"
    )


def _results(
    gathering: Mapping[str, list[Gatherer]], shapes: Mapping[str, tuple[int, ...]]
) -> tuple[dict[tuple[str, str], np.ndarray], dict[str, np.ndarray]]:
    """Return the statistics in the shapes of the observables, and the edges of histograms."""
    values, edges = {}, {}
    for name, all_ in gathering.items():
        for gatherer in all_:
            for key, value in gatherer.results().items():
                if key == "edges":
                    edges[name] = value
                elif key == "quantiles":
                    values[name, key] = value.reshape(len(value), *shapes[name])
                else:
                    values[name, key] = value.reshape(shapes[name] + value.shape[1:])
    return values, edges


def _refuse_results(name: str, key: str, value: np.ndarray, fewest: int) -> None:
    if np.isfinite(value).all():
        return
    if fewest < 2:
        raise ValueError(
            f"ensemble: {key} of {name} needs more members than the {fewest} whose values are finite at some time "
            "(others were left out); use more, or other times"
        )
    raise OverflowError(
        f"ensemble: {key} of {name} overflows (values are too large to be summed or squared); rescale, or ask for "
        "quantiles"
    )


def _probe(
    factory: Any, seed: np.random.SeedSequence, count: int, t: np.ndarray, observe: tuple[str, ...]
) -> tuple[Any, dict[str, tuple[int, ...]]]:
    """Return the flow of a few members and the shapes of observables, after checking that the flow has them."""
    problem = drawn(named(factory, 0), seed, 0, count, t)
    known = names_of(problem)
    for name in observe:
        if name not in known:
            raise ValueError(unknown_name(type(problem.flow).__name__, "observable", name, known))
    few = problem._replace(t=problem.xp.reshape(problem.t, (-1,))[:1])
    shapes = {name: tuple(t.shape) + v.shape[1:-1] for name, v in zip(observe, values_of(few, observe), strict=True)}
    return problem.flow, shapes


def _ascending(who: str, t: Any) -> np.ndarray:
    clock = arithmetic.to_numpy(times(who, t))
    if clock.ndim > 1 or (np.diff(np.atleast_1d(clock)) <= 0).any():
        raise ValueError(f"{who}: t = {shown(t)} must be one time, or times that ascend along one axis; sort them")
    return clock


def _names(who: str, observe: Any) -> tuple[str, ...]:
    names = listed(observe)
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{who}: observe = {shown(observe)} must be names of observables; say ('loss',)")
    if len(set(names)) < len(names):
        raise ValueError(f"{who}: observe = {names} must not repeat a name; give each once")
    return names
