"""Reductions over the members of an ensemble: moments, extremes and histograms, merged tile by tile."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import listed, real_array, shown, unknown_name
from linsolve.ensembles.gatherer import Gatherer, OnePass
from linsolve.ensembles.quantiles import Quantiles

__all__ = ["Extremes", "Histogram", "Moments", "gatherers", "requested"]

MOMENTS = ("mean", "variance", "standard_error", "count")
NAMES = (*MOMENTS, "min", "max", "quantiles", "histogram")


class Sums(NamedTuple):
    """Number, mean and sum of squared deviations of the rows of a tile."""

    number: np.ndarray
    mean: np.ndarray
    squares: np.ndarray


def moments(values: np.ndarray, finite: np.ndarray | None) -> Sums:
    """Return count, mean and sum of squared deviations of each row, in two passes with compensated residuals."""
    count = np.full(len(values), values.shape[-1]) if finite is None else finite.sum(axis=-1)
    some = np.maximum(count, 1)
    with np.errstate(over="ignore", invalid="ignore"):  # overflow raises later
        mean = (values if finite is None else np.where(finite, values, 0)).sum(axis=-1) / some
        apart = values - mean[:, None]
        if finite is not None:
            apart = np.where(finite, apart, 0)
        rest = apart.sum(axis=-1) / some
        squares = np.square(apart, out=apart).sum(axis=-1) - some * rest**2
    return Sums(count, mean + rest, np.maximum(squares, 0))


class Moments(OnePass):
    r"""Mean and variance, merged in the order of the tiles (Chan, Golub, LeVeque 1983).

    .. math:: m \leftarrow m + \delta \frac{n'}{n + n'}, \qquad
        M_2 \leftarrow M_2 + M_2' + \delta^2 \frac{n n'}{n + n'}, \qquad \delta = m' - m .

    The mean is kept as an unevaluated sum of two doubles; `squares` is a sum of terms that are not negative.
    """

    of_tile = staticmethod(moments)

    def __init__(self, wanted: Iterable[str]) -> None:
        self.wanted = tuple(wanted)
        self.count: Any = 0
        self.mean: Any = 0.0
        self.low: Any = 0.0
        self.squares: Any = 0.0

    def absorb(self, answer: Sums) -> None:
        """Merge a tile."""
        count, mean, squares = answer
        total = np.maximum(self.count + count, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            apart = np.where(count > 0, (mean - self.mean) - self.low, 0)
            self.squares = self.squares + squares + apart**2 * (self.count * (count / total))
            step = self.low + apart * (count / total)
            moved = self.mean + step
            back = moved - self.mean  # rounding error of the sum
            self.low = (self.mean - (moved - back)) + (step - back)
        self.mean, self.count = moved, self.count + count

    def results(self) -> dict[str, np.ndarray]:
        """Return mean, variance (over ``n - 1``), standard error and count, as requested; nan for too few members."""
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


class Extremes(OnePass):
    """Smallest and largest value."""

    of_tile = staticmethod(extremes)

    def __init__(self, wanted: Iterable[str] = ("min", "max")) -> None:
        self.wanted = tuple(wanted)
        self.low: Any = np.inf
        self.high: Any = -np.inf

    def absorb(self, answer: tuple[np.ndarray, np.ndarray]) -> None:
        """Merge a tile."""
        self.low, self.high = np.minimum(self.low, answer[0]), np.maximum(self.high, answer[1])

    def results(self) -> dict[str, np.ndarray]:
        """Return minimum and maximum, as requested; nan for an empty row."""
        none = self.low > self.high
        found = {"min": np.where(none, np.nan, self.low), "max": np.where(none, np.nan, self.high)}
        return {name: found[name] for name in self.wanted}


@dataclasses.dataclass(frozen=True)
class Histogram:
    """Counts of members in bins that are common to all times.

    As in ``numpy.histogram`` a bin includes its lower edge, and the last bin both edges. Members outside the edges are
    counted separately.

    Parameters
    ----------
    bins : int
        Number of bins between the smallest and the largest value, 64 by default. A first pass over the members finds
        these values.
    spacing : str
        Spacing of the bins: ``"linear"``, the default, or ``"log"``.
    edges : array_like, shape (bins + 1,), optional
        Ascending edges; they replace `bins` and `spacing`, and no first pass is needed.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> from linsolve import ensembles
    >>> def modes(rng, count):
    ...     return ls.BalancedMode(s=np.arange(count) % 2 + 1.0), ls.BalancedMode.State(np.zeros(count))
    >>> found = ls.ensemble(modes, 100, 0.0, observe="loss", reduce=ensembles.Histogram(edges=[0.0, 1.0, 2.0]))
    >>> found["loss", "histogram"].tolist()  # half of the losses are 1/2, half 2
    [50, 50]
    """

    bins: Any = None
    spacing: str | None = None
    edges: Any = None

    def __post_init__(self) -> None:
        if self.edges is not None:
            edges = np.atleast_1d(real_array("Histogram", "edges", self.edges, meaning="edges of bins"))
            if edges.ndim != 1 or len(edges) < 2 or (np.diff(edges) <= 0).any():
                raise ValueError(
                    f"Histogram: edges = {shown(self.edges)} must be at least two that ascend (edges of bins); say "
                    "(0.0, 1.0)"
                )
            object.__setattr__(self, "edges", tuple(edges.tolist()))
            for name, value in (("bins", self.bins), ("spacing", self.spacing)):
                if value is not None:
                    what = f"{name} = {value!r} does not go with edges = ... (they determine the bins); give one"
                    raise ValueError(f"Histogram: {what}")
            return
        object.__setattr__(self, "bins", 64 if self.bins is None else self.bins)
        object.__setattr__(self, "spacing", "linear" if self.spacing is None else self.spacing)
        if isinstance(self.bins, bool) or not isinstance(self.bins, int | np.integer) or self.bins < 1:
            raise ValueError(f"Histogram: bins = {self.bins!r} must be a positive integer (number of bins); say 64")
        if self.spacing not in ("linear", "log"):
            raise ValueError(unknown_name("Histogram", "spacing", self.spacing, ("linear", "log")))

    def gatherer(self, members: int, rows: int) -> Any:
        """Return the gatherer."""
        return Binned(self, rows)


def binned(edges: np.ndarray, values: np.ndarray, finite: np.ndarray | None) -> np.ndarray:
    """Return counts of each row, shape (rows, bins + 2): below, in the bins, above."""
    place = np.searchsorted(edges, values, side="right")
    place -= values == edges[-1]
    place += (len(edges) + 1) * np.arange(len(values))[:, None]
    place = place.ravel() if finite is None else place[finite]
    return np.bincount(place, minlength=len(values) * (len(edges) + 1)).reshape(len(values), -1)


class Binned:
    """Counts between edges that are given or found in a first pass."""

    def __init__(self, about: Histogram, rows: int) -> None:
        self.about, self.rows, self.done = about, rows, False
        self.edges: Any = None if about.edges is None else np.array(about.edges)
        self.extremes = Extremes()
        self.counts: Any = 0

    def question(self) -> Any:
        """Return `extremes` for the first pass unless edges were given, then `binned`."""
        if self.edges is None:
            return self.extremes.question()
        return None if self.done else partial(binned, self.edges)

    def absorb(self, answer: Any) -> None:
        """Merge a tile."""
        if self.edges is None:
            self.extremes.absorb(answer)
        else:
            self.counts = self.counts + answer

    def close(self) -> None:
        """Fix the edges after the first pass."""
        if self.edges is None:
            self.edges = self._edges()
        else:
            self.done = True

    def _edges(self) -> np.ndarray:
        low, high = float(np.min(self.extremes.low)), float(np.max(self.extremes.high))
        if low > high:  # no finite value
            low, high = 0.0, 1.0
        if self.about.spacing == "log":
            if low <= 0:
                raise ValueError(
                    f"Histogram: spacing = 'log' needs values above 0 (smallest is {low:g}); say 'linear' or give edges"
                )
            ends = np.geomspace(low, high, self.about.bins + 1)
        else:
            ends = np.linspace(low, high, self.about.bins + 1)
        ends[0], ends[-1] = low, high
        if (np.diff(ends) <= 0).any():  # all values are nearly equal
            half = max(abs(low), 1.0) / 2 if self.about.spacing == "linear" else 0.0
            ends = np.linspace(low - half, high + half, len(ends)) if half else low * np.geomspace(0.5, 2, len(ends))
        return ends

    def results(self) -> dict[str, np.ndarray]:
        """Return counts, shape (rows, bins), those below and above, shape (rows,), and the edges."""
        counts = self.counts
        return {"histogram": counts[:, 1:-1], "below": counts[:, 0], "above": counts[:, -1], "edges": self.edges}


def requested(reduce: Any) -> tuple[Any, ...]:
    """Return the checked reductions: names, `Quantiles`, `Histogram`.

    Raises
    ------
    ValueError, TypeError
        If a name is unknown or given twice, or no name is given.
    """
    what = (reduce,) if isinstance(reduce, Quantiles | Histogram) else listed(reduce)
    if not what:
        raise ValueError("ensemble: reduce = () must name at least one reduction (statistics); say ('mean',)")
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
            raise TypeError(
                f"ensemble: reduce = {shown(each)} must be a name, Quantiles or Histogram (statistics); say 'mean'"
            )
    names = [each if isinstance(each, str) else type(each).__name__.lower() for each in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"ensemble: reduce = {names} must not have {name!r} twice (statistics); give it once")
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
