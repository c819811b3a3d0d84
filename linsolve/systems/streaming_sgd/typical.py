r"""Typical rate of SGD without noise on isotropic Gaussian inputs: :math:`E \ln[(1 - \kappa G)^2 + \kappa^2 G Z]`.

``G`` and ``Z`` are chi-squared variates of m and ``d - 1`` degrees of freedom. The logarithm is singular at
:math:`G = 1/\kappa`, ``Z = 0``, where the double-exponential rules of both integrals have an end.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

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
    left, rest, weights = _batch_nodes(m, k)
    spread, shares = _direction_nodes(d - 1)
    values = np.log(rest[:, None] ** 2 + k * left[:, None] * spread)
    return float(weights @ values @ shares)


def neutral_step(m: float, d: float) -> float:
    r"""Return the :math:`\kappa` beyond ``2/(m + d + 1)`` at which the typical rate is 0."""
    low = 2 / (m + d + 1)
    high = 2 * low
    while log_rate(m, d, high) < 0:
        high *= 2
    return float(brentq(lambda k: log_rate(m, d, k), low, high, xtol=1e-14 * low, rtol=1e-13))


def _grid(freedom: float, off: float) -> tuple[np.ndarray, float]:
    """Return nodes and spacing, fine enough for a chi-squared variate `off` in logarithm from the rule's center."""
    spacing = 0.02 / (math.sqrt(1 + freedom / 10) * max(1.0, abs(off)))
    nodes = np.arange(-REACH, REACH + spacing / 2, spacing)
    return nodes, spacing


def _density(freedom: float, log_x: np.ndarray) -> np.ndarray:
    """Return x times the density of a chi-squared variate, from log x."""
    with np.errstate(over="ignore"):
        return np.exp(freedom / 2 * (log_x - math.log(2)) - np.exp(log_x) / 2 - math.lgamma(freedom / 2))


def _pruned(weights: np.ndarray, *values: np.ndarray) -> tuple[np.ndarray, ...]:
    kept = weights > NEGLIGIBLE * weights.max()
    return (*(v[kept] for v in values), weights[kept])


def _batch_nodes(m: float, k: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Return :math:`\kappa G`, :math:`1 - \kappa G` and weights, on both sides of :math:`\kappa G = 1`."""
    t, h = _grid(m, math.log(k * m))
    fall = np.pi * np.sinh(t)
    rise = np.pi / 2 * np.sinh(t)
    below = 1 / (1 + np.exp(-fall))  # kappa G = below, on (0, 1)
    near = 1 / (1 + np.exp(fall))
    beyond = np.exp(rise)  # kappa G = 1 + beyond
    jacobian = np.concatenate([np.pi * np.cosh(t) * near, np.pi / 2 * np.cosh(t) * beyond / (1 + beyond)])
    reached = np.concatenate([below, 1 + beyond])
    log_reached = np.concatenate([-np.log1p(np.exp(-fall)), np.log1p(beyond)])
    weights = h * jacobian * _density(m, log_reached - math.log(k))
    return _pruned(weights, reached, np.concatenate([near, -beyond]))  # type: ignore[return-value]


def _direction_nodes(freedom: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights of the other inputs' variate ``Z``; the single node 0 in one dimension."""
    if freedom == 0:
        return np.zeros(1), np.ones(1)
    t, h = _grid(freedom, 0.0)
    log_z = math.log(freedom) + np.pi / 2 * np.sinh(t)
    weights = h * np.pi / 2 * np.cosh(t) * _density(freedom, log_z)
    return _pruned(weights, np.exp(log_z))  # type: ignore[return-value]
