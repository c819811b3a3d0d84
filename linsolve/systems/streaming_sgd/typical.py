r"""Typical rate of SGD without noise on isotropic Gaussian inputs: :math:`E \ln[(1 - \kappa G)^2 + \kappa^2 G Z]`.

``G`` and ``Z`` are chi-squared variates of m and ``d - 1`` degrees of freedom. The logarithm is singular at
:math:`G = 1/\kappa`, ``Z = 0``, where the double-exponential rules of both integrals have an end.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma

__all__ = ["log_rate", "neutral_step"]

REACH = 4.6  # of the double-exponential variable, beyond which weights and arguments leave the doubles
NEGLIGIBLE = 1e-30  # relative weight of nodes that are dropped


def log_rate(m: float, d: float, k: float) -> float:
    r"""Return :math:`E \ln(\ell'/\ell)` of a step with :math:`\kappa` = k, for batch size m and dimension d.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.streaming_sgd.typical import log_rate
    >>> rate = log_rate(1, 1, 0.5)  # three quarters of the largest step of the mean
    >>> draws = np.log((1 - 0.5 * np.random.default_rng(0).chisquare(1, 10**6)) ** 2)
    >>> bool(abs(draws.mean() - rate) < 4 * draws.std() / 1000)
    True
    """
    if k * m < 1e-20 and k * d < 1e-20:  # linear in k
        return -2 * k * m
    if k > 1e30:  # the 1 in the rate is negligible
        return 2 * math.log(2 * k) + float(digamma(m / 2) + digamma(m / 2 + (d - 1) / 2))
    left, rest, weights = _batch_nodes(m, k)
    spread, shares = _direction_nodes(d - 1)
    change = left[:, None] * (k * spread + left[:, None] - 2)
    near = change > -0.5  # the logarithm of a number close to 1 loses digits
    far = np.log(np.where(near, 1.0, rest[:, None] ** 2 + k * left[:, None] * spread))
    return float(weights @ np.where(near, np.log1p(np.where(near, change, 0.0)), far) @ shares)


def neutral_step(m: float, d: float) -> float:
    r"""Return the :math:`\kappa` beyond ``2/(m + d + 1)`` at which the typical rate is 0."""
    low = 2 / (m + d + 1)
    if log_rate(m, d, low) >= 0:  # in high dimension both rates vanish at the same step, to rounding
        return low
    high = 2 * low
    while log_rate(m, d, high) < 0:
        high *= 2
    return float(brentq(lambda k: log_rate(m, d, k), low, high, xtol=1e-14 * low, rtol=1e-13))


def _reach(freedom: float) -> tuple[float, float]:
    """Return an interval that holds a chi-squared variate, except for a probability below 1e-28."""
    width = 14 * math.sqrt(2 * freedom)
    return max(freedom - width, 0.0), freedom + width + 150


def _grid(low: float, high: float, fineness: float, off: float) -> tuple[np.ndarray, float]:
    """Return nodes from ``asinh(low)`` to ``asinh(high)`` and their spacing.

    The spacing resolves a density of relative width `fineness` whose center is at ``asinh(off)``.
    """
    spacing = min(0.02, 0.2 * fineness) / max(1.0, abs(off))
    ends = (min(max(math.asinh(end), -REACH), REACH) for end in (low, high))
    start, stop = ends
    return np.arange(start, stop + spacing / 2, spacing), spacing


def _density(freedom: float, log_x: np.ndarray) -> np.ndarray:
    """Return x times the density of a chi-squared variate, up to a constant factor, from log x."""
    off = log_x - math.log(freedom)
    with np.errstate(over="ignore"):
        return np.exp(freedom / 2 * (off - np.expm1(off)))


def _pruned(weights: np.ndarray, *values: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return values and weights where these are not negligible; the weights add up to 1."""
    kept = weights > NEGLIGIBLE * weights.max()
    return (*(v[kept] for v in values), weights[kept] / np.sum(weights[kept]))


def _batch_nodes(m: float, k: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Return :math:`\kappa G`, :math:`1 - \kappa G` and weights, on both sides of :math:`\kappa G = 1`."""
    low, high = (k * end for end in _reach(m))
    gap, width = k * m - 1, k * math.sqrt(2 * m)
    pieces = []
    if low < 1:  # kappa G = 1 / (1 + exp(-pi sinh t))
        center = min(k * m, 1 - min(width, 0.5))
        ends = (_logit(low) / math.pi, _logit(min(high, 1.0)) / math.pi)
        t, h = _grid(*ends, width / (abs(gap) * min(k * m, 1.0) + width), _logit(center) / math.pi)
        fall = np.pi * np.sinh(t)
        near = 1 / (1 + np.exp(fall))
        pieces.append((1 / (1 + np.exp(-fall)), near, -np.log1p(np.exp(-fall)), h * np.pi * np.cosh(t) * near))
    if high > 1:  # kappa G = 1 + exp(pi/2 sinh t)
        ends = (_log(low - 1) * 2 / math.pi, _log(high - 1) * 2 / math.pi)
        t, h = _grid(*ends, width / (abs(gap) + width), 2 / math.pi * math.log(max(gap, width)))
        beyond = np.exp(np.pi / 2 * np.sinh(t))
        share = h * np.pi / 2 * np.cosh(t) * beyond / (1 + beyond)
        pieces.append((1 + beyond, -beyond, np.log1p(beyond), share))
    reached, rest, log_reached, jacobian = (np.concatenate(each) for each in zip(*pieces, strict=True))
    return _pruned(jacobian * _density(m, log_reached - math.log(k)), reached, rest)  # type: ignore[return-value]


def _log(x: float) -> float:
    return -math.inf if x <= 0 else math.log(x)


def _logit(x: float) -> float:
    return math.inf if x >= 1 else _log(x) - math.log1p(-x)


def _direction_nodes(freedom: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights of the other inputs' variate ``Z``; the single node 0 in one dimension."""
    if freedom == 0:
        return np.zeros(1), np.ones(1)
    low, high = (_log(end / freedom) * 2 / math.pi for end in _reach(freedom))
    t, h = _grid(low, high, math.sqrt(2 / freedom), 0.0)
    log_z = math.log(freedom) + np.pi / 2 * np.sinh(t)
    weights = h * np.pi / 2 * np.cosh(t) * _density(freedom, log_z)
    return _pruned(weights, np.exp(log_z))  # type: ignore[return-value]
