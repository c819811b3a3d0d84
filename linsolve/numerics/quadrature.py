"""Gauss-Legendre and double-exponential quadrature to the precision of any arithmetic."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from linsolve import arithmetic

__all__ = ["double_exponential", "legendre"]


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


def double_exponential(xp: Any, density: int) -> tuple[Any, Any]:
    """Return nodes and weights of double-exponential quadrature on [0, 1], for integrands singular beyond the ends.

    Parameters
    ----------
    xp : namespace
    density : int
        Nodes for a unit of the variable ``u``, ``x = 1/(1 + exp(-pi sinh u))``. The error is about
        ``exp(-2 pi density a)`` for an integrand analytic where ``|Im u| < a``.

    Examples
    --------
    >>> import numpy as np
    >>> nodes, weights = double_exponential(np, 24)
    >>> float(np.sum(weights * np.sqrt(nodes)).round(14))  # 2/3
    0.66666666666667
    """
    if arithmetic.is_jax(xp):  # as for `legendre`
        nodes, weights = _spread_nodes(np, density)
        return xp.asarray(nodes), xp.asarray(weights)
    return _spread_nodes(xp, density)


@lru_cache(maxsize=16)
def _spread_nodes(xp: Any, density: int) -> tuple[Any, Any]:
    digits = xp.dps if arithmetic.is_object(xp) else 16
    reach = float(np.arcsinh((digits + 2) * np.log(10) / np.pi))
    count = int(np.ceil(reach * density))
    u = (xp.astype(xp.arange(2 * count + 1), xp.float64) - count) / density
    half = xp.pi * xp.sinh(u)
    nodes = 1 / (1 + xp.exp(-half))
    weights = xp.pi * xp.cosh(u) * nodes / (1 + xp.exp(half)) / density
    return nodes, weights


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
