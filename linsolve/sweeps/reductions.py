"""What becomes of the members of an ensemble: moments and extremes, gathered tile by tile, and the names of all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from linsolve.inputs import shown, unknown_name

__all__ = ["Extremes", "Gatherer", "Moments", "gatherers", "requested"]

MOMENTS = ("mean", "variance", "standard_error", "count")
NAMES = (*MOMENTS, "min", "max", "quantiles", "histogram")


class Gatherer(Protocol):
    """Gathers one observable over passes through the members.

    In each pass `question` gives a function that is asked, anywhere and in any order, of the values of each tile:
    an array of shape (rows, members), and which of them are finite or None if all are. Its answers are absorbed in the
    order of the tiles.
    """

    def question(self) -> Callable[[np.ndarray, np.ndarray | None], Any] | None:
        """Return what the next pass asks of each tile; None if nothing is left to ask."""

    def absorb(self, answer: Any) -> None:
        """Take the answer of the next tile."""

    def close(self) -> None:
        """End the pass."""

    def results(self) -> Mapping[str, np.ndarray]:
        """Return what was gathered, by name, each with the rows as an axis (the first unless said otherwise)."""


class Sums(NamedTuple):
    """Number, mean and sum of squared deviations of the rows of a tile."""

    number: np.ndarray
    mean: np.ndarray
    squares: np.ndarray


def moments(values: np.ndarray, finite: np.ndarray | None) -> Sums:
    """Return count, mean and sum of squared deviations of each row, in two passes with their residuals put right."""
    count = np.full(len(values), values.shape[-1]) if finite is None else finite.sum(axis=-1)
    some = np.maximum(count, 1)
    with np.errstate(over="ignore", invalid="ignore"):  # the result is refused where it overflows
        mean = (values if finite is None else np.where(finite, values, 0)).sum(axis=-1) / some
        apart = values - mean[:, None]
        if finite is not None:
            apart = np.where(finite, apart, 0)
        rest = apart.sum(axis=-1) / some
        squares = np.square(apart, out=apart).sum(axis=-1) - some * rest**2
    return Sums(count, mean + rest, np.maximum(squares, 0))


class Moments:
    r"""Mean and variance, merged in the order of the tiles (Chan, Golub, LeVeque 1983).

    .. math:: m \leftarrow m + \delta \frac{n'}{n + n'}, \qquad
        M_2 \leftarrow M_2 + M_2' + \delta^2 \frac{n n'}{n + n'}, \qquad \delta = m' - m .

    The mean is kept as an unevaluated sum of two doubles; `squares` is a sum of terms that are not negative.
    """

    def __init__(self, wanted: Iterable[str]) -> None:
        self.wanted, self.asked = tuple(wanted), False
        self.count: Any = 0
        self.mean: Any = 0.0
        self.low: Any = 0.0
        self.squares: Any = 0.0

    def question(self) -> Any:
        """Return `moments`, once."""
        return None if self.asked else moments

    def absorb(self, answer: Sums) -> None:
        """Merge a tile."""
        count, mean, squares = answer
        total = np.maximum(self.count + count, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            apart = np.where(count > 0, (mean - self.mean) - self.low, 0)
            self.squares = self.squares + squares + apart**2 * (self.count * (count / total))
            step = self.low + apart * (count / total)
            moved = self.mean + step
            back = moved - self.mean  # what rounding left out of the sum
            self.low = (self.mean - (moved - back)) + (step - back)
        self.mean, self.count = moved, self.count + count

    def close(self) -> None:
        """End the only pass."""
        self.asked = True

    def results(self) -> dict[str, np.ndarray]:
        """Return mean, variance (over ``n - 1``), standard error of the mean and count, as wanted; nan of too few."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            several = self.count > 1
            variance = np.where(several, self.squares / np.where(several, self.count - 1, 1), np.nan)
            mean = np.where(self.count > 0, self.mean + self.low, np.nan)
            error = np.sqrt(variance / np.maximum(self.count, 1))
        found = {"mean": mean, "variance": variance, "standard_error": error, "count": self.count}
        return {name: found[name] for name in self.wanted}


def extremes(values: np.ndarray, finite: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return minimum and maximum of each row."""
    if finite is None:
        return values.min(axis=-1), values.max(axis=-1)
    return np.where(finite, values, np.inf).min(axis=-1), np.where(finite, values, -np.inf).max(axis=-1)


class Extremes:
    """Smallest and largest value."""

    def __init__(self, wanted: Iterable[str] = ("min", "max")) -> None:
        self.wanted, self.asked = tuple(wanted), False
        self.low: Any = np.inf
        self.high: Any = -np.inf

    def question(self) -> Any:
        """Return `extremes`, once."""
        return None if self.asked else extremes

    def absorb(self, answer: tuple[np.ndarray, np.ndarray]) -> None:
        """Take a tile."""
        self.low, self.high = np.minimum(self.low, answer[0]), np.maximum(self.high, answer[1])

    def close(self) -> None:
        """End the only pass."""
        self.asked = True

    def results(self) -> dict[str, np.ndarray]:
        """Return minimum and maximum, as wanted; nan of none."""
        none = self.low > self.high
        found = {"min": np.where(none, np.nan, self.low), "max": np.where(none, np.nan, self.high)}
        return {name: found[name] for name in self.wanted}


def requested(reduce: Any) -> tuple[Any, ...]:
    """Return what is to be gathered, names and `Quantiles` and `Histogram`, checked.

    Raises
    ------
    ValueError, TypeError
        For names that are unknown, for the same thing twice, and for none.
    """
    from linsolve.sweeps.reductions_histogram import Histogram
    from linsolve.sweeps.reductions_quantiles import Quantiles

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
    """Return the gatherers of one observable that do what was requested."""
    names = [each for each in what if isinstance(each, str)]
    made: list[Gatherer] = []
    if wanted := [name for name in names if name in MOMENTS]:
        made.append(Moments(wanted))
    if wanted := [name for name in names if name in ("min", "max")]:
        made.append(Extremes(wanted))
    return made + [each.gatherer(members, rows) for each in what if not isinstance(each, str)]
