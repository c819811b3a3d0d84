"""Gauss-Legendre quadrature to the precision of any arithmetic."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from linsolve import arithmetic

__all__ = ["legendre"]


def legendre(xp: Any, count: int) -> tuple[Any, Any]:
    """Return nodes and weights of Gauss-Legendre quadrature on [0, 1], each of shape (count,).

    Examples
    --------
    >>> import numpy as np
    >>> nodes, weights = legendre(np, 5)
    >>> float(np.sum(weights * nodes**9).round(14))
    0.1
    """
    if arithmetic.is_jax(xp):  # an array made while JAX traces a function does not outlive it
        nodes, weights = _nodes(np, count)
        return xp.asarray(nodes), xp.asarray(weights)
    return _nodes(xp, count)


@lru_cache(maxsize=16)
def _nodes(xp: Any, count: int) -> tuple[Any, Any]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    if not arithmetic.is_object(xp):
        return xp.asarray((nodes + 1) / 2), xp.asarray(weights / 2)
    x, digits = xp.asarray(nodes), 14
    while digits < 2 * xp.dps:  # each Newton step doubles the digits
        value, slope = _polynomial(x, count)
        x, digits = x - value / slope, 2 * digits
    _, slope = _polynomial(x, count)
    return (x + 1) / 2, 1 / ((1 - x * x) * slope * slope)


def _polynomial(x: Any, count: int) -> tuple[Any, Any]:
    """Return the Legendre polynomial of degree `count` and its derivative."""
    before, value = 1 + 0 * x, x
    for k in range(2, count + 1):
        before, value = value, ((2 * k - 1) * x * value - (k - 1) * before) / k
    return value, count * (x * value - before) / (x * x - 1)
