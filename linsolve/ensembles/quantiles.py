"""Order statistics of any number of members in bounded memory: exact in several passes, or to 2^-8 in one."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import numpy as np

from linsolve.core.arguments import Interval, real_array
from linsolve.ensembles.gatherer import OnePass

__all__ = ["Counts", "Quantiles", "float_of", "key_of"]

ERROR = 2.0**-8  # relative error of the sketch
SHIFT = 45  # bits of a key dropped in the first pass; sign, exponent and 7 bits of the fraction remain
OFFSET = 1 << (63 - SHIFT)  # makes the codes of the first pass positive
HELD = 1 << 20  # largest number of values that are held instead of counted
COUNTED = 1 << 18  # approximate number of counts in memory
MOST_ROWS = 1 << 17  # largest rows x levels for unique codes of 64 bits


def key_of(values: np.ndarray) -> np.ndarray:
    """Return 64-bit integers in the order of the doubles; zeros of both signs have the same key."""
    bits = (values + 0.0).view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


def float_of(keys: np.ndarray) -> np.ndarray:
    """Return the doubles of keys."""
    return (keys ^ ((keys >> 63) & np.int64(2**63 - 1))).view(np.float64)


class Counts:
    """Counts of integers; equal integers are merged when the list has doubled."""

    def __init__(self) -> None:
        self.codes, self.numbers = np.empty(0, np.int64), np.empty(0, np.int64)
        self.parts: list[tuple[np.ndarray, np.ndarray]] = []
        self.size = 0

    def add(self, codes: np.ndarray, numbers: np.ndarray) -> None:
        """Add integers with their multiplicities."""
        self.parts.append((codes, numbers))
        self.size += len(codes)
        if self.size > max(len(self.codes), COUNTED):
            self.join()

    def join(self) -> None:
        """Merge the added integers into ascending `codes` and their `numbers`."""
        codes = np.concatenate([self.codes, *(codes for codes, _ in self.parts)])
        numbers = np.concatenate([self.numbers, *(numbers for _, numbers in self.parts)])
        order = np.argsort(codes, kind="stable")
        codes, numbers = codes[order], numbers[order]
        first = _beginnings(codes)
        self.codes, self.numbers = codes[first], np.add.reduceat(numbers, first)
        self.parts, self.size = [], 0


def _beginnings(codes: np.ndarray) -> np.ndarray:
    """Return the first index of each of the distinct values of an ascending array."""
    return np.flatnonzero(np.diff(codes, prepend=codes[:1] - 1))


def tally(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct integers, ascending, and their multiplicities."""
    codes = np.sort(codes)
    first = _beginnings(codes)
    return codes[first], np.diff(first, append=len(codes))


def coarse(values: np.ndarray, finite: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return a tally of rows and leading bits."""
    codes = (key_of(values) >> SHIFT) + OFFSET
    codes += np.arange(len(values))[:, None] << (64 - SHIFT)
    return tally(codes.ravel() if finite is None else codes[finite])


def within(
    low: np.ndarray, width: np.ndarray, shift: np.ndarray, values: np.ndarray, finite: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return a tally of targets and next bits for the values whose keys lie at most `width` above `low`.

    `low`, `width` (less than 2^SHIFT) and `shift` have shape (rows, levels).
    """
    keys, found = key_of(values), []
    levels = low.shape[1]
    for level in range(levels):
        start = low[:, level, None]
        inside = (keys >= start) & (keys <= start + width[:, level, None])
        if finite is not None:
            inside &= finite
        row = np.nonzero(inside)[0]
        rest = (keys[inside] - low[row, level]) >> shift[row, level]
        found.append(((row * levels + level) << SHIFT) | rest)
    return tally(np.concatenate(found))


def whole(values: np.ndarray, finite: np.ndarray | None) -> np.ndarray:
    """Return the values, with nan in place of nonfinite values."""
    return values.copy() if finite is None else np.where(finite, values, np.nan)


@dataclasses.dataclass(frozen=True)
class Quantiles:
    r"""Order statistics: for each level q, the smallest value ``x`` with ``P(value <= x) >= q``.

    The result is that of ``numpy.quantile(..., method="inverted_cdf")``, in bounded memory for any number of members.

    Parameters
    ----------
    levels : sequence of float
        Between 0 and 1, ascending.
    exact : bool
        Whether the quantiles are bitwise exact. Exact quantiles need one pass over the members if all values fit in
        memory, otherwise two to six passes, more for closer values; each pass counts the next bits of the values that
        share the bits found before. Otherwise a single pass gives a relative error of ``2^-8`` (absolute 1e-307 around
        0).

    Notes
    -----
    A double is mapped to a 64-bit integer of the same order. The first pass counts sign, exponent and 7 bits of the
    fraction, which gives the rank of each bin and bounds the relative error.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> from linsolve import ensembles
    >>> def modes(rng, count):
    ...     return ls.BalancedMode(s=1.0), ls.BalancedMode.State(np.linspace(0.0, 1.0, count))
    >>> found = ls.ensemble(modes, 101, 0.0, observe="a", reduce=ensembles.Quantiles([0.25, 0.5]))
    >>> found["a", "quantiles"].round(6).tolist()
    [0.25, 0.5]
    """

    levels: tuple[float, ...] = (0.05, 0.25, 0.5, 0.75, 0.95)
    exact: bool = True

    def __post_init__(self) -> None:
        levels = real_array("Quantiles", "levels", self.levels, meaning="probability", domain=Interval("[0, 1]"))
        levels = np.atleast_1d(levels)
        if levels.ndim != 1 or (np.diff(levels) <= 0).any():
            raise ValueError(f"Quantiles: levels = {self.levels} must ascend along one axis (probabilities); sort them")
        if not isinstance(self.exact, bool | np.bool_):
            raise TypeError(f"Quantiles: exact = {self.exact!r} must be True or False (to the last bit); say True")
        object.__setattr__(self, "levels", tuple(levels.tolist()))

    def gatherer(self, members: int, rows: int) -> Any:
        """Return the gatherer: all values at once if they fit, otherwise bit by bit."""
        if self.exact and members * rows <= HELD:
            return Held(self.levels)
        if rows * len(self.levels) > MOST_ROWS:
            raise ValueError(
                f"Quantiles: levels x times = {rows * len(self.levels)} must be at most {MOST_ROWS} "
                "(quantiles followed at once); use fewer times"
            )
        return Refined(self.levels, rows, self.exact)


def ranks(levels: tuple[float, ...], count: np.ndarray) -> np.ndarray:
    """Return the rank, from 1, of each level among `count` values, as in ``inverted_cdf``; shape (rows, levels)."""
    count = np.asarray(count)[:, None]
    place = count * np.asarray(levels)
    return np.clip(np.ceil(place).astype(np.int64), 1, np.maximum(count, 1))


class Held(OnePass):
    """Order statistics of few values, held in memory."""

    of_tile = staticmethod(whole)

    def __init__(self, levels: tuple[float, ...]) -> None:
        self.levels = levels
        self.parts: list[np.ndarray] = []

    def absorb(self, answer: np.ndarray) -> None:
        """Merge a tile."""
        self.parts.append(answer)

    def results(self) -> dict[str, np.ndarray]:
        """Return the quantiles, shape (levels, rows); nan for an empty row."""
        values = np.sort(np.concatenate(self.parts, axis=-1), axis=-1)  # nan sorts last
        rank = ranks(self.levels, np.isfinite(values).sum(axis=-1))
        return {"quantiles": np.take_along_axis(values, rank - 1, axis=-1).T + 0.0}


class Refined:
    """Order statistics with known leading bits, refined in each pass."""

    def __init__(self, levels: tuple[float, ...], rows: int, exact: bool) -> None:
        self.levels, self.rows, self.exact = levels, rows, exact
        self.low: Any = None  # lower bound of each key, shape (rows, levels)
        self.count: Any = np.zeros(rows, np.int64)
        self.known = -1  # number of completed passes - 1
        shape = (rows, len(levels))
        self.rank, self.inside = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self.left = np.full(shape, SHIFT)  # number of unknown bits
        self.shift = np.zeros(shape, np.int64)  # number of bits unknown after this pass
        self.counts = Counts()

    def question(self) -> Any:
        """Return the tally function of the next pass."""
        if self.low is None:
            return coarse
        if not self.exact or not (self.left > 0).any():
            return None
        most = max(COUNTED // self.left.size, 1 << 10)
        few = (self.inside <= most) | (self.left <= most.bit_length() - 1)
        self.shift = np.where(few, 0, self.left - (most.bit_length() - 1))
        width = np.where(self.left > 0, (np.int64(1) << self.left) - 1, -1)  # empty interval if all bits are known
        return partial(within, self.low, width, self.shift)

    def absorb(self, answer: tuple[np.ndarray, np.ndarray]) -> None:
        """Merge a tile."""
        self.counts.add(*answer)

    def close(self) -> None:
        """Find the bin of each order statistic from the counts."""
        self.counts.join()
        codes, numbers = self.counts.codes, self.counts.numbers
        self.counts = Counts()
        if self.low is None:
            self._place_first(codes, numbers)
        else:
            self._place(codes, numbers)

    def _place_first(self, codes: np.ndarray, numbers: np.ndarray) -> None:
        row = codes >> (64 - SHIFT)
        self.count = np.bincount(row, numbers, self.rows).astype(np.int64)
        self.rank = ranks(self.levels, self.count)
        before = (np.cumsum(self.count) - self.count)[:, None]
        below = np.cumsum(numbers)
        place = np.minimum(np.searchsorted(below, before + self.rank), max(len(codes) - 1, 0))
        self.low = np.zeros(self.rank.shape, np.int64)
        if len(codes):
            self.rank -= below[place] - numbers[place] - before
            self.inside = numbers[place]
            self.low = ((codes[place] & ((1 << (64 - SHIFT)) - 1)) - OFFSET) << SHIFT
        self.left[self.count == 0] = 0

    def _place(self, codes: np.ndarray, numbers: np.ndarray) -> None:
        target = codes >> SHIFT
        open_ = (self.left > 0).ravel()
        total = np.bincount(target, numbers, self.left.size).astype(np.int64)
        if (total[open_] != self.inside.ravel()[open_]).any():
            raise ValueError(
                "ensemble: factory gave other members when drawn again (quantiles need the same ones in every pass); "
                "draw from its rng alone, or use Quantiles(exact=False)"
            )
        before, below = np.cumsum(total) - total, np.cumsum(numbers)
        place = np.searchsorted(below, (before + self.rank.ravel())[open_])
        rank, inside, low = self.rank.ravel(), self.inside.ravel(), self.low.ravel()
        rank[open_] -= below[place] - numbers[place] - before[open_]
        inside[open_] = numbers[place]
        low[open_] += (codes[place] & ((1 << SHIFT) - 1)) << self.shift.ravel()[open_]
        self.rank, self.inside, self.low = (v.reshape(self.left.shape) for v in (rank, inside, low))
        self.left = np.where(self.left > 0, self.shift, 0)

    def results(self) -> dict[str, np.ndarray]:
        """Return the quantiles, shape (levels, rows), at the midpoint of unknown bits; nan for an empty row."""
        middle = np.where(self.left > 0, np.int64(1) << np.maximum(self.left - 1, 0), 0)
        return {"quantiles": np.where(self.count[:, None] > 0, float_of(self.low + middle), np.nan).T}
