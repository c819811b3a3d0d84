r"""Relaxation of a mode with a bias: a scalar equation with two exponentials and a linear term.

.. math:: \dot x = \tfrac12 (T - E(x)), \quad x(0) = 0, \qquad E(x) = 2 N x + G (e^x - 1) + F (1 - e^{-x}),

with ``T, G, F >= 0``, ``N > 0``. E increases, so x increases to the only root ``X`` of ``E = T``. With ``y = X - x``
every sum has terms of one sign:

.. math:: \dot y = -y\, q(y), \qquad q(y) = N + \tfrac12 \big( P \varphi(y) + M \varphi(-y) \big), \quad
    P = G e^X, \; M = F e^{-X}, \; \varphi(y) = (1 - e^{-y})/y .

The time ``t(y)``, the integral of ``1/(y q)`` from y to X, is elementary for ``N = 0`` only. ``1/q`` has no singularity
in ``|Im y| <= pi``: a zero at ``y = a + i b`` needs ``sin b = -2 N b/(P e^-a + M e^a) < 0``. Gauss-Legendre quadrature
on panels therefore converges at a known rate, and t is inverted panel by panel in ``log y``. In the last panel, down to
``y = 0``, the pole ``1/(q(0) y)`` is integrated in closed form. Where ``X > 124``, both exponentials are below 1e-26
from ``y = 60`` to ``X - 60``; this range is one panel, integrated in closed form: ``y q = N y + P/2``.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.numerics.quadrature import legendre
from linsolve.numerics.scalar import broadcast, full_like, phi, where

__all__ = ["LONGEST", "Relaxation", "excess", "rising_root"]

LONGEST = 64  # largest X in high precision: thirty digits of a hundred are correct
_LARGEST = 700  # largest exponent whose exponential is a double
_WIDTH, _DENSE = 4, 15  # width of the panels near 0 and near a large X, and their number
_ROUNDS = 8  # Newton steps inside a panel
_SEARCH = 40  # bracketed Newton steps


def excess(xp: Any, span: Any, grows: Any) -> Any:
    """Return the excess of X over the largest supported value, in floats 700: weights grow by ``exp(X/2)``."""
    over = span / (LONGEST if arithmetic.is_object(xp) else _LARGEST) - 1
    bounded = xp.maximum(over, full_like(xp, over, 0))
    return bounded if arithmetic.is_object(xp) else where(xp, grows, bounded, full_like(xp, over, 0))


def rising_root(xp: Any, T: Any, N: Any, G: Any, F: Any) -> Any:
    """Return the root ``x >= 0`` of ``2 N x + G (e^x - 1) + F (1 - e^-x) = T``; in floats up to 700 unless G is 0.

    Parameters
    ----------
    xp : namespace
    T, N, G, F : array
        Not negative, ``N`` positive; shapes broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.mode.relaxation import rising_root
    >>> N, F = np.array(1.0), np.array(0.0)
    >>> x = rising_root(np, np.array(4.0), N, np.array([0.0, 1.0]), F)
    >>> x.round(4).tolist(), (2 * N * x + np.array([0.0, 1.0]) * np.expm1(x)).round(6).tolist()
    ([2.0, 1.0587], [4.0, 4.0])
    """
    return arithmetic.implicit(xp, partial(_bracketed, xp), partial(_excess_drive, xp), T, N, G, F)


def _excess_drive(xp: Any, x: Any, T: Any, N: Any, G: Any, F: Any) -> Any:
    """Return ``E(x) - T``."""
    return 2 * N * x + G * xp.expm1(_bounded(xp, x)) - F * xp.expm1(-x) - T


def _bracketed(xp: Any, T: Any, N: Any, G: Any, F: Any) -> Any:
    """Return the root by bracketed Newton steps."""
    high = T / (2 * N)
    some, gives = G > T / 2.0**900, F > T
    high = where(xp, some, xp.minimum(high, xp.log1p(T / where(xp, some, G, full_like(xp, G + T, 1)))), high)
    high = where(xp, gives, xp.minimum(high, -xp.log1p(-T / where(xp, gives, F, 2 * T + 1))), high)

    def step(x: Any, low: Any, high: Any) -> tuple[Any, Any, Any]:
        value = _excess_drive(xp, x, T, N, G, F)
        low, high = where(xp, value < 0, x, low), where(xp, value < 0, high, x)
        there = x - value / (2 * N + G * xp.exp(_bounded(xp, x)) + F * xp.exp(-x))
        return where(xp, (there < low) | (there > high), (low + high) / 2, there), low, high

    high = high + 0 * (G + F)
    return arithmetic.repeated(xp, _SEARCH, step, high, full_like(xp, high, 0), high)[0]


def _bounded(xp: Any, x: Any) -> Any:
    """Return the exponents `x`, in floats capped at 700."""
    return x if arithmetic.is_object(xp) else xp.minimum(x, full_like(xp, x, _LARGEST))


class Relaxation(NamedTuple):
    """The relaxation to the root, integrated once for all times; arrays of shape batch, or batch + (panels,).

    Parameters
    ----------
    span : array
        X; 1 for an initial value at the root.
    P, F, N, q0 : array
        Constants of the equation, and ``q(0)``, the final rate.
    tops, bottoms, starts : array, shape batch + (panels,)
        Ends of the panels in y, and the times at which they begin.
    shift : array
        The integral of ``(q(0) - q)/(y q)`` over the last panel.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.mode.relaxation import Relaxation
    >>> T, N, G, F = (np.array(value) for value in (4.0, 1.0, 0.0, 0.0))
    >>> way = Relaxation.of(np, T, N, G, F)  # x' = 2 - x: X - x = 2 exp(-t)
    >>> float(way.span), way.fallen(np, np.array([0.5, 3.0])).round(6).tolist()
    (2.0, [0.5, 3.0])
    """

    span: Any
    P: Any
    F: Any
    N: Any
    q0: Any
    tops: Any
    bottoms: Any
    starts: Any
    shift: Any

    @classmethod
    def of(cls, xp: Any, T: Any, N: Any, G: Any, F: Any, root: Any = None) -> Relaxation:
        """Return the relaxation from ``x = 0``; `root` is the `rising_root`, if it is known."""
        T, N, G, F = broadcast(xp, T, N, G, F)
        span = rising_root(xp, T, N, G, F) if root is None else root
        span = where(xp, span == 0, full_like(xp, span, 1), span)
        P = G * xp.exp(_bounded(xp, span))
        tops, bottoms = _panels(xp, span[..., None])
        way = cls(span, P, F, N, N + (P + F * xp.exp(-span)) / 2, tops, bottoms, tops, span)
        panels = tops.shape[-1]
        place = full_like(xp, tops, 0) + xp.astype(xp.arange(panels), xp.float64)
        spent = way._wide()._integral(xp, bottoms, tops - bottoms, *way._wide()._kinds(xp, place, panels))
        times, starts = full_like(xp, span, 0), []
        for k in range(panels):
            starts.append(times)
            times = times + spent[..., k]
        return way._replace(starts=xp.stack(starts, axis=-1), shift=spent[..., -1] * way.q0)

    def _wide(self) -> Relaxation:
        """Return the relaxation with one more axis on its numbers, which broadcasts against panels or nodes."""
        return self._replace(**{k: getattr(self, k)[..., None] for k in ("span", "P", "F", "N", "q0")})

    def _kinds(self, xp: Any, place: Any, panels: int) -> tuple[Any, Any]:
        """Return two masks: whether the panels with these indices are the last, and whether the long middle one."""
        return place == panels - 1, (place == _DENSE) & (self.span > _WIDTH * (2 * _DENSE + 1))

    def rate(self, xp: Any, y: Any) -> Any:
        """Return ``q(y)``."""
        return self.N + phi(xp, y) * self.kernel(xp, y) / 2

    def kernel(self, xp: Any, y: Any) -> Any:
        """Return ``P + M e^y``."""
        return self.P + self.F * xp.exp(y - self.span)

    def _rate_at_nodes(self, xp: Any, y: Any) -> Any:
        """Return ``q(y)`` for ``y > 0``, in high precision by a single expm1."""
        if not arithmetic.is_object(xp):
            return self.rate(xp, y)
        e = xp.expm1(y)
        return self.N + e * (self.P / (1 + e) + self.F * xp.exp(-self.span)) / (2 * y)

    def _integral(self, xp: Any, bottom: Any, width: Any, last: Any, middle: Any) -> Any:
        """Return the integral of ``1/(y q)`` over `width`; in the last panel without the pole ``1/(q(0) y)``."""
        nodes, weights = legendre(xp, xp.dps // 2 + 4 if arithmetic.is_object(xp) else 16)
        wide, y = self._wide(), bottom[..., None] + width[..., None] * nodes
        q = wide._rate_at_nodes(xp, y)
        share = where(xp, last[..., None], (wide.q0 - q) / wide.q0, full_like(xp, q, 1))
        found = xp.sum(weights * share / (y * q), axis=-1) * width
        if arithmetic.is_object(xp):
            return found
        level = where(xp, middle, bottom + self.P / (2 * self.N), full_like(xp, bottom, 1))
        return where(xp, middle, xp.log1p(width / level) / self.N, found)

    def _panel(self, xp: Any, index: Any) -> tuple[Any, ...]:
        """Return start, top and bottom of the panels at `index`, and masks of the last and of the middle panel."""
        panels = self.tops.shape[-1]
        at = index[..., None] == xp.astype(xp.arange(panels), xp.float64)
        zero = full_like(xp, self.tops, 0)
        ends = (xp.sum(where(xp, at, v, zero), axis=-1) for v in (self.starts, self.tops, self.bottoms))
        return (*ends, *self._kinds(xp, index, panels))

    def time_at(self, xp: Any, y: Any) -> Any:
        """Return the time at which ``X - x`` has fallen to `y`, ``0 < y <= X``."""
        index = xp.sum(xp.astype(y[..., None] <= self.tops[..., 1:], xp.float64), axis=-1)
        start, top, _, last, middle = self._panel(xp, index)
        pole = where(xp, last, xp.log(top / y) / self.q0, full_like(xp, y, 0))
        return start + pole + self._integral(xp, y, top - y, last, middle)

    def fallen(self, xp: Any, t: Any) -> Any:
        """Return ``log(X / y)`` at finite times t."""

        def late(z: Any, way: Any, t: Any) -> Any:
            way = Relaxation(*way)
            start, top, _, *kinds = way._panel(xp, way._index(xp, t))
            return start + way._passed(xp, z - xp.log(way.span / top), top, kinds)[0] - t

        return arithmetic.implicit(xp, lambda way, t: Relaxation(*way)._inverted(xp, t), late, tuple(self), t)

    def _index(self, xp: Any, t: Any) -> Any:
        """Return the indices of the panels that contain times."""
        return xp.sum(xp.astype(t[..., None] >= self.starts[..., 1:], xp.float64), axis=-1)

    def _passed(self, xp: Any, z: Any, top: Any, kinds: Any) -> tuple[Any, Any]:
        """Return the time from the top of a panel to ``y = top exp(-z)``, and ``y``."""
        y, gone = top * xp.exp(-z), -top * xp.expm1(-z)
        return where(xp, kinds[0], z / self.q0, full_like(xp, z, 0)) + self._integral(xp, y, gone, *kinds), y

    def _inverted(self, xp: Any, t: Any) -> Any:
        """Return `fallen` by Newton steps inside a panel."""
        start, top, bottom, last, middle = self._panel(xp, self._index(xp, t))
        tau, before = t - start, xp.log(self.span / top)
        if arithmetic.is_object(xp):  # start from the solution in doubles; every Newton step doubles its digits
            with np.errstate(all="ignore"):  # a guess; the digits come from the steps below
                rough = Relaxation(*(arithmetic.to_numpy(v) for v in self)).fallen(np, arithmetic.to_numpy(t))
            z, rounds, digits = xp.asarray(rough) - before, 0, 10
            while digits < xp.dps:
                rounds, digits = rounds + 1, 2 * digits
        else:
            z, rounds = self._guess(xp, tau, (top, bottom, last, middle)), _ROUNDS
        end = where(xp, last, full_like(xp, top, xp.inf), xp.log(top / where(xp, last, top, bottom)))

        def step(z: Any) -> tuple[Any]:
            z = xp.minimum(xp.maximum(z, full_like(xp, z, 0)), end)
            found, y = self._passed(xp, z, top, (last, middle))
            return (z - (found - tau) * self.rate(xp, y),)

        z = arithmetic.repeated(xp, rounds, step, z)[0]
        return before + xp.maximum(z, full_like(xp, z, 0))

    def _guess(self, xp: Any, tau: Any, panel: tuple[Any, ...]) -> Any:
        """Return an initial guess of ``log(top / y)``: from the nearer rate, two asymptotes, or the closed form."""
        top, bottom, last, middle = panel
        soon, late = self.rate(xp, top) * tau, self.q0 * tau - self.shift
        ending = where(xp, self.shift > 0, xp.maximum(soon, late), xp.minimum(soon, late))
        rest = (
            where(xp, middle, self.P, full_like(xp, top, 0))
            / (2 * self.N)
            / where(xp, middle, top, full_like(xp, top, 1))
        )
        left = xp.maximum((1 + rest) * xp.exp(-self.N * tau) - rest, bottom / top)
        between = -xp.log(where(xp, middle, left, full_like(xp, left, 1)))
        return where(xp, last, ending, where(xp, middle, between, self.rate(xp, (top + bottom) / 2) * tau))


def _panels(xp: Any, span: Any) -> tuple[Any, Any]:
    """Return tops and bottoms of the panels from ``y = X``, shape batch + (1,), down to 0."""
    panels = 8 if arithmetic.is_object(xp) else 2 * _DENSE + 1
    j = xp.astype(xp.arange(panels + 1), xp.float64)
    edges = span * (panels - j) / panels
    if not arithmetic.is_object(xp):
        dense = where(xp, j <= _DENSE, span - _WIDTH * j, _WIDTH * (panels - j))
        edges = where(xp, span > _WIDTH * panels, dense, edges)
    return edges[..., :-1], edges[..., 1:]
