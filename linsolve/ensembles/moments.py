"""Moments and extremes over the members of an ensemble, merged tile by tile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Extremes", "Moments"]


class Sums(NamedTuple):
    """Number, mean and sum of squared deviations of the rows of a tile."""

    number: np.ndarray
    mean: np.ndarray
    squares: np.ndarray


def moments(values: np.ndarray, finite: np.ndarray | None) -> Sums:
    """Return count, mean and sum of squared deviations of each row, in two passes with compensated residuals."""
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
