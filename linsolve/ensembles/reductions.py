"""Reductions over the members of an ensemble, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from linsolve.core.arguments import shown, unknown_name
from linsolve.ensembles.histogram import Histogram
from linsolve.ensembles.moments import Extremes, Moments
from linsolve.ensembles.quantiles import Quantiles

__all__ = ["Gatherer", "gatherers", "requested"]

MOMENTS = ("mean", "variance", "standard_error", "count")
NAMES = (*MOMENTS, "min", "max", "quantiles", "histogram")


class Gatherer(Protocol):
    """Reduction of one observable over passes through the members.

    In each pass `question` gives a function of the values of a tile, an array of shape (rows, members), and of a mask
    of the finite ones (None if all are). It is evaluated anywhere and in any order; `absorb` takes the results in the
    order of the tiles.
    """

    def question(self) -> Callable[[np.ndarray, np.ndarray | None], Any] | None:
        """Return the function of a tile for the next pass, None after the last."""

    def absorb(self, answer: Any) -> None:
        """Take the answer of the next tile."""

    def close(self) -> None:
        """End the pass."""

    def results(self) -> Mapping[str, np.ndarray]:
        """Return the results by name, each with the rows as its first axis unless noted."""


def requested(reduce: Any) -> tuple[Any, ...]:
    """Return the requested reductions, checked: names, `Quantiles`, `Histogram`.

    Raises
    ------
    ValueError, TypeError
        If a name is unknown or given twice, or no name is given.
    """
    single = isinstance(reduce, str | Quantiles | Histogram) or not isinstance(reduce, Iterable)
    what = (reduce,) if single else tuple(reduce)
    if not what:
        raise ValueError("ensemble: reduce = () must name at least one reduction (what is kept); say ('mean',)")
    known: dict[str, Any] = {"quantiles": Quantiles(), "histogram": Histogram()}
    found = []
    for each in what:
        if isinstance(each, str):
            if each not in NAMES:
                raise ValueError(unknown_name("ensemble", "reduce", each, NAMES))
            found.append(known.get(each, each))
        elif isinstance(each, Quantiles | Histogram):
            found.append(each)
        else:
            raise TypeError(f"ensemble: reduce = {shown(each)} must be a name, Quantiles or Histogram (what is kept)")
    names = [each if isinstance(each, str) else type(each).__name__.lower() for each in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"ensemble: reduce = {names} must not have {name!r} twice (what is kept); give it once")
    return tuple(found)


def gatherers(what: tuple[Any, ...], members: int, rows: int) -> list[Gatherer]:
    """Return the gatherers of one observable."""
    names = [each for each in what if isinstance(each, str)]
    made: list[Gatherer] = []
    if wanted := [name for name in names if name in MOMENTS]:
        made.append(Moments(wanted))
    if wanted := [name for name in names if name in ("min", "max")]:
        made.append(Extremes(wanted))
    return made + [each.gatherer(members, rows) for each in what if not isinstance(each, str)]
