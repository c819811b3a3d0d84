"""Polynomials that invert the time of a deep growth, built for each depth from the closed form of that time.

The closed form gives the times of chosen points on the path; these times are the nodes at which the inverse is
interpolated.
"""

from __future__ import annotations

from functools import lru_cache
from math import cos, log2, pi
from typing import Any, NamedTuple

import numpy as np

from linsolve.numerics.scalar import full_like
from linsolve.systems.mode.growth_time import far, far_terms, head, logarithmic, near, near_terms, unfolded

__all__ = ["Tables", "cut", "tables_of"]

_FINE = 10_000  # denominator of the nodes
_HEAD, _TAIL = 8, 17  # numbers of nodes
_FEW_TERMS, _TERMS = 10, 18  # terms of the series at the nodes, for guesses and for doubles
_KEPT = 64  # number of depths whose tables are cached
_LEAST_CUT = 1e-12  # of `cut`
_REACH = 1271  # ``_REACH/_FINE`` is the size of `unfolded` where the tail begins


class Tables(NamedTuple):
    """Coefficients, constant first, that depend on the depth only.

    Parameters
    ----------
    rising, falling : list of array
        Coefficients of `toward`, for paths to ``z = 3/5`` and to ``z = -1``.
    down, across : list of array
        Coefficients of `from_rest`, for paths to ``z = 3/5`` and to ``z = -1``.
    below, above : list of array
        Coefficients of `tail`, for ``w > 0`` and for ``w < 0``.
    """

    rising: list[Any]
    falling: list[Any]
    down: list[Any]
    across: list[Any]
    below: list[Any]
    above: list[Any]


def tables_of(xp: Any, depth: Any, hard: Any, big: bool = True, negative: bool = True) -> Tables:
    """Return the tables of depths above 1; where `hard` holds, the tables of heads are unused.

    Tables of initial values beyond the fixed point, `big`, or of the opposite sign, `negative`, are copies of others
    unless such values occur. The tables of a few depths, as doubles or in high precision, are computed once and cached.
    """
    if not isinstance(depth, np.ndarray | np.float64) or not (depth.dtype == np.float64 or hasattr(xp, "dps")):
        return _made(xp, depth, hard, big, negative)
    if depth.size <= _KEPT:
        depths, flags = tuple(depth.reshape(-1).tolist()), tuple(np.reshape(hard, -1).tolist())
        return _remembered(xp, depths, flags, depth.shape, big, negative)
    if depth.dtype == np.float64:
        different, first, which = np.unique(depth, return_index=True, return_inverse=True)
        if different.size <= _KEPT:
            found = tables_of(xp, different, np.reshape(hard, -1)[first], big, negative)
            return Tables(*([c[which.reshape(depth.shape)] for c in several] for several in found))
    return _made(xp, depth, hard, big, negative)


@lru_cache(maxsize=64)
def _remembered(
    xp: Any, depth: tuple[Any, ...], hard: tuple[bool, ...], shape: tuple[int, ...], big: bool, negative: bool
) -> Tables:
    with np.errstate(under="ignore"):
        made = _made(xp, xp.reshape(xp.asarray(depth), shape), np.reshape(hard, shape), big, negative)
    return Tables(*([c[()] for c in several] for several in made))  # numbers of NumPy, if they are single


def _made(xp: Any, depth: Any, hard: Any, big: bool, negative: bool) -> Tables:
    m, one = 1 - 2 / xp.where(hard, 3 * xp.ones_like(depth), depth), xp.ones_like(depth)
    end, m_tail = 3 * one / 5, 1 - 2 / depth
    slow, series = far_terms(xp, 2 - m, _FEW_TERMS), near_terms(xp, m_tail, _TERMS)
    rising, below = toward(xp, -m, end, slow), tail(xp, m_tail, series, 1)
    found = Tables(rising, rising, rising, rising, below, below)
    if negative:
        found = found._replace(falling=toward(xp, -m, -one, slow))
    if big:
        fast = far_terms(xp, 3 + m, _FEW_TERMS)
        down, above = from_rest(xp, 1 + m, end, fast), tail(xp, m_tail, series, -1)
        found = found._replace(down=down, across=down, above=above)
        if negative:
            found = found._replace(across=from_rest(xp, 1 + m, -one, fast))
    return found


def _nodes(count: int, top: int = _FINE) -> list[int]:
    """Return Chebyshev points between 0 and `top`, taken from both ends in turn and rounded to integers."""
    found = [round(top * (1 + cos(pi * (2 * k + 1) / (2 * count))) / 2) for k in range(count)]
    return [found[k // 2 if k % 2 == 0 else -1 - k // 2] for k in range(count)]


def _through(x: list[Any], f: list[Any]) -> list[Any]:
    """Return the coefficients, constant first, of the interpolating polynomial, by Newton's divided differences."""
    f, count = list(f), len(x)
    for level in range(1, count):
        for k in range(count - 1, level - 1, -1):
            f[k] = (f[k] - f[k - 1]) / (x[k] - x[k - level])
    found = [f[-1]]
    for k in range(count - 2, -1, -1):  # expand the Newton form
        above = found
        found = [f[k] - x[k] * above[0]]
        found += [above[j] - x[k] * above[j + 1] for j in range(len(above) - 1)]
        found.append(above[-1])
    return found


def toward(xp: Any, n: Any, top: Any, coefficients: list[Any]) -> list[Any]:
    """Return a polynomial of ``x = 1/sqrt(W)``, ``W = 1 + time/2``, whose product with `W` approximates the saturation.

    The saturation is the difference between the time left to ``z = top`` and the `linear` ``Q`` of the logarithm left,
    for ``n <= 0``, in the clock of the end. The first coefficient is 0.
    """
    series = top * top * far(xp, top, coefficients)
    xs, fs = [], []
    for a in _nodes(_HEAD):
        Q = (2 * (_FINE**2 - a**2) + 0 * n) / a**2
        l = logarithmic(xp, -Q, n)  # noqa: E741
        z, power = top * xp.exp(l), 1 - n * Q
        left = series - head(xp, l, n, top, z, power, far(xp, z, coefficients))
        x = 1 / xp.sqrt(1 + left / 2)
        xs.append(x)
        fs.append((left - Q) * x)
    return [0 * n, *_through(xs, fs)]


def from_rest(xp: Any, n: Any, top: Any, coefficients: list[Any]) -> list[Any]:
    """Return a polynomial of ``x = sqrt(W)`` for ``n > 0``, where `W` is `n` times the time since ``z = 0``.

    The unit of time is such that ``W = (z/top)^n (1 + n G)``, with ``G = z/(n + 1) + z^2 far(z)`` from saturation. The
    polynomial approximates ``G/(1 + n G)``; its last coefficient is 0.
    """
    xs, fs = [], []
    for a in _nodes(_HEAD):
        s = (a + 0 * n) / _FINE
        z = top * xp.exp(2 * xp.log(s) / n)
        G = z / (n + 1) + z * z * far(xp, z, coefficients)
        xs.append(s * xp.sqrt(1 + n * G))
        fs.append(G / (1 + n * G))
    return [*_through(xs, fs), 0 * n]


def cut(xp: Any, m: Any) -> Any:
    """Return a lower bound, within a few percent, of the singularity of `tail` in ``-1/E``.

    Beside depth 1 the singularity leaves for infinity; the distance kept instead avoids overflow of the polynomial.
    """
    return xp.maximum((1 + m) * (1 + m) * (25 - 8 * m) / 25, full_like(xp, m, _LEAST_CUT))


def tail(xp: Any, m: Any, coefficients: list[Any], sign: int) -> list[Any]:
    """Return a polynomial of `unfolded` ``-cut(m) E`` that approximates ``w/E``, where ``E = w exp(near(w))``.

    ``E`` decays as ``exp(-time)``; `w` lies between 0 and 2/3 or, for negative `sign`, between -2/5 and 0.
    """
    pace, xs, fs = cut(xp, m), [], []
    for a in _nodes(_TAIL, _REACH):
        # 4 v/(1 - v)^2 where v = a/_FINE
        w = (sign * 4 * a * _FINE + 0 * m) / (_FINE - sign * a) ** 2
        few = coefficients[: 2 - int(54 / log2(a / _FINE))]  # the remainder is below half an ulp
        ratio = xp.exp(near(xp, w, m, few))
        xs.append(unfolded(xp, -pace * w * ratio))
        fs.append(1 / ratio)
    return _through(xs, fs)
