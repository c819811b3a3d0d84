"""Histograms of more members than can be held."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import numpy as np

from linsolve.core.arguments import real_array, shown, unknown_name
from linsolve.ensembles.moments import Extremes

__all__ = ["Histogram"]


@dataclasses.dataclass(frozen=True)
class Histogram:
    """Counts of members between edges, which are common to all times.

    As in ``numpy.histogram`` a bin includes its lower edge, the last one both. Members outside are counted too.

    Parameters
    ----------
    bins : int
        Their number, 64 by default, between the smallest and the largest value, which a first pass over the members
        finds.
    spacing : str
        Of those bins: ``"linear"``, the default, or ``"log"``.
    edges : array_like, shape (bins + 1,), optional
        Ascending; in place of the first pass, and of the other two.

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
                    f"Histogram: edges = {shown(self.edges)} must be at least two that ascend (edges of bins)"
                )
            object.__setattr__(self, "edges", tuple(edges.tolist()))
            for name, value in (("bins", self.bins), ("spacing", self.spacing)):
                if value is not None:
                    what = f"{name} = {value!r} does not go with edges = ... (they say where the bins are); give one"
                    raise ValueError(f"Histogram: {what}")
            return
        object.__setattr__(self, "bins", 64 if self.bins is None else self.bins)
        object.__setattr__(self, "spacing", "linear" if self.spacing is None else self.spacing)
        if isinstance(self.bins, bool) or not isinstance(self.bins, int | np.integer) or self.bins < 1:
            raise ValueError(f"Histogram: bins = {self.bins!r} must be a positive integer (number of bins); say 64")
        if self.spacing not in ("linear", "log"):
            raise ValueError(unknown_name("Histogram", "spacing", self.spacing, ("linear", "log")))

    def gatherer(self, members: int, rows: int) -> Any:
        """Return what gathers it."""
        return Binned(self, rows)


def binned(edges: np.ndarray, values: np.ndarray, finite: np.ndarray | None) -> np.ndarray:
    """Return counts of each row, shape (rows, bins + 2): below, in the bins, above."""
    place = np.searchsorted(edges, values, side="right")
    place -= values == edges[-1]
    place += (len(edges) + 1) * np.arange(len(values))[:, None]
    place = place.ravel() if finite is None else place[finite]
    return np.bincount(place, minlength=len(values) * (len(edges) + 1)).reshape(len(values), -1)


class Binned:
    """Counts between edges that are given, or found by a first pass."""

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
        """Take a tile."""
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
        if low > high:  # no value at all
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
        if (np.diff(ends) <= 0).any():  # all values are one, nearly
            half = max(abs(low), 1.0) / 2 if self.about.spacing == "linear" else 0.0
            ends = np.linspace(low - half, high + half, len(ends)) if half else low * np.geomspace(0.5, 2, len(ends))
        return ends

    def results(self) -> dict[str, np.ndarray]:
        """Return counts, shape (rows, bins), those below and above, shape (rows,), and the edges."""
        counts = self.counts
        return {"histogram": counts[:, 1:-1], "below": counts[:, 0], "above": counts[:, -1], "edges": self.edges}
