"""Evaluation of a block of a grid, tile by tile, each tile with its own random numbers."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from linsolve.core.arguments import choice, shown
from linsolve.core.flow import Flow
from linsolve.core.query import pose
from linsolve.ensembles.axes import Block, free_name, tiles

__all__ = ["SINGLE", "Evaluation", "check_engine", "observed", "sequence", "stream"]

ENOUGH = 2**12  # smallest size for which blocks are faster than the plain formula
SINGLE = "value"  # name of an unnamed return value


def sequence(rng: Any, who: str = "sweep") -> np.random.SeedSequence:
    """Return the SeedSequence of an `rng` argument as in SPEC 7 of Scientific Python; a generator is advanced.

    Raises
    ------
    TypeError, ValueError
        If `rng` is not None, an integer, a generator or a SeedSequence.
    """
    if isinstance(rng, np.random.SeedSequence):
        return rng
    if isinstance(rng, np.random.Generator):
        return np.random.SeedSequence([int(v) for v in rng.integers(0, 2**63, size=4)])
    whole = isinstance(rng, int | np.integer) and not isinstance(rng, bool)
    if rng is not None and not whole:
        rule = "must be None, an integer, a numpy.random.Generator or SeedSequence (seed)"
        raise TypeError(f"{who}: rng = {shown(rng)} {rule}; say 0")
    if whole and rng < 0:
        raise ValueError(f"{who}: rng = {rng} must be at least 0 (seed); say 0")
    return np.random.SeedSequence(rng if rng is None else int(rng))


def stream(seed: np.random.SeedSequence, number: int) -> np.random.Generator:
    """Return the random generator of one tile, identical on any worker."""
    return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, number)))


@dataclass(frozen=True)
class Evaluation:
    """Picklable evaluation of blocks by workers.

    Parameters
    ----------
    observe : callable
        Function of the axes by name, as arrays that broadcast to a tile, and of ``rng`` if there is a seed.
    tile, shape : tuple of int
        Shapes of a tile and of the grid.
    seed : SeedSequence, optional
    """

    observe: Callable[..., Any]
    tile: tuple[int, ...]
    shape: tuple[int, ...]
    seed: np.random.SeedSequence | None = None

    def __call__(self, block: Block) -> dict[str, np.ndarray]:
        """Return the values in a block: arrays of shape ``block.shape + own``, by name."""
        found: dict[str, np.ndarray] = {}
        for number, place in tiles(block, self.tile, self.shape):
            cells = tuple(part.stop - part.start for part in place)
            values = self._tile(block, place, cells, number)
            if cells == block.shape:
                return values
            if not found:
                found = {name: np.empty(block.shape + v.shape[len(cells) :], v.dtype) for name, v in values.items()}
            same({name: (v.dtype, v.shape[len(cells) :]) for name, v in found.items()}, values, len(cells))
            for name, value in values.items():
                found[name][place] = value
        return found

    def _tile(self, block: Block, place: tuple[slice, ...], cells: tuple[int, ...], number: int) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for k, (name, values) in enumerate(block.values.items()):
            given[name] = values[place[k]].reshape((1,) * k + (-1,) + (1,) * (len(cells) - k - 1))
        if self.seed is not None:
            given["rng"] = stream(self.seed, number)
        return _shaped(self.observe(**given), cells, block.values)


def same(known: Mapping[str, tuple[np.dtype, tuple[int, ...]]], values: Mapping[str, Any], ndim: int) -> None:
    """Raise if values differ from earlier blocks in names, types or own axes.

    Raises
    ------
    ValueError
    """
    if list(known) != list(values):
        raise ValueError(
            f"sweep: observe gave {', '.join(values)} but {', '.join(known)} before (observed values); "
            "return the same everywhere"
        )
    for name, (dtype, own) in known.items():
        now = values[name].dtype, values[name].shape[ndim:]
        if now != (dtype, own):
            raise ValueError(
                f"sweep: observe gave {name} of {now[0]} with own axes {now[1]} but of {dtype} with {own} before "
                "(observed values); return the same everywhere"
            )


def _shaped(result: Any, cells: tuple[int, ...], axes: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return a function's result as arrays of shape ``cells + own``, by name."""
    if isinstance(result, Mapping):
        named = dict(result)
    elif isinstance(result, tuple) and hasattr(result, "_fields"):
        named = dict(zip(result._fields, result, strict=True))
    else:
        named = {SINGLE: result}
    if not named:
        raise ValueError("sweep: observe gave nothing (observed values); return an array, or arrays by name")
    return {name: _broadcast(name, value, cells, axes) for name, value in named.items()}


def _broadcast(name: Any, value: Any, cells: tuple[int, ...], axes: Mapping[str, Any]) -> np.ndarray:
    if not free_name(name) or name in axes:
        rule = "is the name of an axis" if name in axes else "cannot name an array of a store"
        raise ValueError(f"sweep: observe gave {name!r}, which {rule} (name of a value); rename it, such as 'loss'")
    if np.ma.is_masked(value):
        raise ValueError(f"sweep: observe gave {name} with masked entries (observed values); fill them, say by nan")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise TypeError(
            f"sweep: observe gave {name}, which is not a rectangular array; return rows of equal length"
        ) from error
    if array.dtype.kind not in "biufc":
        raise TypeError(f"sweep: observe gave {name} made of {array.dtype}, not of numbers; return an array")
    lead = array.shape[: len(cells)]
    if array.ndim and (len(lead) < len(cells) or any(n not in (1, m) for n, m in zip(lead, cells, strict=True))):
        raise ValueError(
            f"sweep: observe gave {name} of shape {array.shape} where the grid's axes {', '.join(axes)} have {cells}; "
            "it must have one leading axis for each, of this length or 1, then its own"
        )
    return np.broadcast_to(array, cells + array.shape[len(cells) :])


# flows


def check_engine(who: str, flow: type[Flow], names: tuple[str, ...], engine: Any) -> None:
    """Raise if an engine is unknown, cannot evaluate the flow, or needs a missing extra.

    Raises
    ------
    ValueError, ModuleNotFoundError
    """
    from linsolve.engines.evaluate import ENGINES, traceable

    if engine is None or choice(who, "engine", engine, ENGINES) == "plain":
        return
    if not (engine == "compiled" and hasattr(flow, "compiled_solution")) and not traceable(flow, names):
        raise ValueError(
            f"{who}: engine = {engine!r} cannot evaluate {', '.join(names)} of {flow.__name__} (only single numbers "
            "of each network, from elementary functions, can be one program); leave it out"
        )
    if engine == "compiled" and importlib.util.find_spec("llvmlite") is None:
        raise ModuleNotFoundError(
            f"{who}: engine = 'compiled' needs llvmlite (compiler); pip install "
            '".[fast]" in the clone, or leave the engine out'
        )


def observed(
    flow: Flow, t: np.ndarray, start: Any, names: tuple[str, ...], engine: str | None
) -> tuple[tuple[int, ...], dict[str, np.ndarray]]:
    """Return the batch shape and the observables by name, of shape t.shape + batch + own, using one thread."""
    from linsolve.engines.evaluate import observables

    problem = pose(flow, t, start)
    found = observables(problem, names, None, engine, 1, ENOUGH)
    return problem.batch, {name: np.asarray(value) for name, value in found.items()}
