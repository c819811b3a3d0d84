r"""Optimal stopping: the time at which the test error of a linear model is least.

The test error rises at the rate :math:`2 \int e^{-\lambda t} [r (1 - e^{-\lambda t}) - D_0 \lambda e^{-\lambda t}]`,
:math:`r = \gamma \sigma^2`. Along an eigenvector it is least at :math:`\ln(1 + D_0 \lambda/r)/\lambda`, between the
values of which at the ends of the spectrum the optimal time lies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.numerics.scalar import log1p_ratio

__all__ = ["least_time", "rise", "stopping_time"]

_STEPS = 64  # halvings of an interval of log t, to rounding
_GRID, _FINER, _ROUNDS = 200, 25, 6  # times of a search on grids, and between neighbors


def rise(xp: Any, values: Any, weights: Any, ratio: Any, t: Any) -> Any:
    r"""Return the rate of the test error over :math:`2r`, for eigenvalues along the last axis, with `ratio` = D0/r."""
    x = values * t[..., None]
    return xp.sum(weights * xp.exp(-x) * (-xp.expm1(-x) - ratio[..., None] * values * xp.exp(-x)), axis=-1)


def stopping_time(xp: Any, low: Any, high: Any, ratio: Any, rate: Callable[..., Any], *given: Any) -> Any:
    r"""Return the time at which the test error is least, for the ends of the positive spectrum.

    Parameters
    ----------
    xp : namespace
    low, high : array
        Smallest and largest eigenvalue; `low` may be 0.
    ratio : array
        Positive and finite, :math:`D_0/(\gamma \sigma^2)`.
    rate : callable
        Function ``(t, ratio, *given)`` that rises through 0 at the solution.
    *given : array
        Further parameters of `rate`, for derivatives.
    """

    def solve(low: Any, high: Any, ratio: Any, *given: Any) -> Any:
        def halve(a: Any, b: Any) -> tuple[Any, Any]:
            middle = (a + b) / 2
            rising = rate(xp.exp(middle), ratio, *given) > 0
            return xp.where(rising, a, middle), xp.where(rising, middle, b)

        ends = arithmetic.repeated(
            xp, _STEPS, halve, *(xp.log(ratio * log1p_ratio(xp, ratio * v)) for v in (high, low))
        )
        return xp.exp((ends[0] + ends[1]) / 2)

    return arithmetic.implicit(
        xp, solve, lambda t, low, high, ratio, *given: rate(t, ratio, *given), low, high, ratio, *given
    )


def least_time(error: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> float:
    """Return the time at which a test error is least, by finer and finer grids; inf if it is least at the end."""
    s = np.linspace(np.log(low), np.log(high), _GRID)
    values = error(np.exp(s))
    k = int(np.argmin(values))
    start = float(error(np.zeros(())))
    if k == _GRID - 1 or values[-1] <= values[k] * (1 + 1e-14):
        return float(np.inf) if values[-1] <= start else 0.0
    if start <= values[k]:
        return 0.0
    for _ in range(_ROUNDS):
        s = np.linspace(s[max(k - 1, 0)], s[min(k + 1, len(s) - 1)], _FINER)
        k = int(np.argmin(error(np.exp(s))))
    return float(np.exp(s[k]))
