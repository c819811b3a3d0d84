r"""Clock of a race: strengths that grow as exponentials of one integral of their common error.

.. math:: \dot x_p = c_p x_p\, g, \quad g = 1 - \sum_p x_p, \quad 0 < c_p \leq 1, \; x_p \geq 0 .

With :math:`\dot\theta = g` the strengths are :math:`x_p = x_p(0) e^{c_p \theta}`, and :math:`\theta` tends to the root
:math:`\theta_\infty` of :math:`\sum_p x_p(0) e^{c_p \theta} = 1`. With the final strengths :math:`X_p`, of sum 1, and
:math:`\delta = \theta_\infty - \theta`,

.. math:: \dot\delta = -g = -\sum_p X_p (1 - e^{-c_p \delta}) = -\delta k(\delta), \quad
    k(\delta) = \sum_p X_p c_p \varphi(c_p \delta), \; \varphi(x) = (1 - e^{-x})/x .

The time is that of a single pathway of speed :math:`k(0)`, logistic in :math:`u = \log|e^\delta - 1|`, and an integral
without a pole,

.. math:: t = \frac{u_0 - u}{k(0)}
    + \int_\delta^{\delta_0} \frac{k(0) \varphi(\delta) - k}{\delta\, k(0)\, \varphi(\delta)\, k}\, d\delta, \qquad
    \frac{dt}{du} = -\frac{\varphi(\delta)}{k(\delta)} .

:math:`\varphi/k` falls with :math:`\delta`, below the target from :math:`1/k(0)` to 1, so that Newton's method for u at
a given time converges monotonically from the start. Above the target, :math:`\delta < 0`, it is slow where
:math:`|\delta|` exceeds `FARTHEST`. No singularity of the integrand is within 3 of the path, and below the target it is
analytic in a strip of half-width :math:`\pi/2` in :math:`\log \delta`, whatever the parameters. In doubles the path is
therefore integrated once for all times, by Gauss-Legendre quadrature on panels: of length 3 above the target, growing
by the factor e below it. A time adds a part of one panel. In high precision the quadrature of long paths is
double-exponential.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.numerics.quadrature import double_exponential, legendre
from linsolve.numerics.scalar import phi, unless

__all__ = ["FARTHEST", "NONE", "RaceClock"]

NONE = -1e6  # stands for the logarithm of 0
_GONE = 800  # exp(-800) underflows
FARTHEST = 40  # above the target
_ROUNDS = 20  # largest number of Newton steps in doubles
_NODES = 20  # of a panel
_ABOVE = [*(3.0 * k for k in range(14)), np.inf]  # ends of the panels; the last ends with the path
_BELOW = [0.0, *(3 * math.exp(k) for k in range(13)), np.inf]
_CLOSE = 2.0**-40  # a Newton step below this share of u leaves an error below rounding: it converges quadratically


class RaceClock(NamedTuple):
    """Path of a race in its clock; arrays of shape batch, or batch + (pathway,).

    Parameters
    ----------
    logs, c : array, shape batch + (pathway,)
        Logarithms of the final strengths, and exponents, at most 1.
    span : array, shape batch
        ``theta_inf``, negative if the race starts above its target.
    pace : array, shape batch
        ``k(0)``, the final rate.
    ends, before : array, shape batch + (panels + 1,) and batch + (panels,), optional
        Values of delta between the panels, from 0 to `span`, and the integrals from `span` to the panels; in doubles.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.gated.race_clock import RaceClock
    >>> way = RaceClock.of(np, np.log([0.1, 0.1]), np.array([1.0, 0.5]), np.array(0.8))
    >>> np.exp(way.logs).round(4).tolist()  # the pathway of twice the speed wins
    [0.7298, 0.2702]
    >>> float(np.sum(np.exp(way.logs)))
    1.0
    """

    logs: Any
    c: Any
    span: Any
    pace: Any
    ends: Any = None
    before: Any = None

    @classmethod
    def of(cls, xp: Any, logs: Any, c: Any, gap: Any) -> RaceClock:
        """Return the clock of a race from the logarithms of its strengths, exponents, and the error at the start."""
        logs, c = xp.broadcast_arrays(logs, c)
        span = arithmetic.implicit(xp, partial(_span, xp), partial(_short, xp), logs, c, gap + 0 * logs[..., 0])
        final = logs + c * span[..., None]
        final = (
            final - _total(xp, final, c, 0 * span)[0][..., None]
        )  # of sum 1, whatever the rounding of the logarithms
        way = cls(final, c, span, xp.sum(c * xp.exp(final), axis=-1))
        return way if arithmetic.is_object(xp) else way._integrated(xp)

    def _integrated(self, xp: Any) -> RaceClock:
        """Return the clock with the integrals over its panels."""
        sizes = xp.where((self.span < 0)[..., None], *(xp.asarray(ends, dtype=xp.float64) for ends in (_ABOVE, _BELOW)))
        ends = xp.sign(self.span)[..., None] * xp.minimum(sizes, xp.abs(self.span)[..., None])
        parts = self._wide()._integral(xp, ends[..., :-1], ends[..., 1:], *legendre(xp, _NODES))
        before, done = [], xp.zeros_like(self.span)
        for k in reversed(range(parts.shape[-1])):
            before.append(done)
            done = done + parts[..., k]
        return self._replace(ends=ends, before=xp.stack(before[::-1], axis=-1))

    def _wide(self) -> RaceClock:
        """Return the clock with an axis for the nodes of a quadrature."""
        return self._replace(
            logs=self.logs[..., None, :],
            c=self.c[..., None, :],
            **{name: getattr(self, name)[..., None] for name in ("span", "pace")},
        )

    def rate(self, xp: Any, delta: Any) -> Any:
        """Return ``k(delta)``."""
        x, ends = self.c * delta[..., None], xp.exp(self.logs)
        if arithmetic.is_object(xp):
            return xp.sum(ends * self.c * phi(xp, x), axis=-1)
        near = x > -1  # beyond, exp(-x) may overflow
        if arithmetic.holds(near, everywhere=True):
            flat = xp.abs(delta) < 1 / 2.0**60
            return xp.where(flat, self.pace, xp.sum(ends * xp.expm1(-x), axis=-1) / -unless(xp, flat, delta))
        early = ends - xp.exp(xp.where(near, self.logs, self.logs - x))
        early = early / xp.where(near, xp.ones_like(x), delta[..., None] + 0 * x)
        return xp.sum(xp.where(near, ends * self.c * phi(xp, xp.where(near, x, xp.zeros_like(x))), early), axis=-1)

    def gap(self, xp: Any, delta: Any) -> Any:
        """Return the error ``g``."""
        return delta * self.rate(xp, delta)

    def time(self, xp: Any, u: Any) -> tuple[Any, Any]:
        """Return the time of ``u = log|exp(delta) - 1|``, and minus its derivative."""
        delta = self._delta(xp, u)
        if arithmetic.is_object(xp):
            passed = self._integral(xp, delta, self.span, *self._nodes(xp))
        else:
            top, before = self._panel(xp, delta)
            passed = before + self._integral(xp, delta, top, *legendre(xp, _NODES))
        return (_logistic(xp, self.span) - u) / self.pace + passed, self._slope(xp, u)

    def _panel(self, xp: Any, delta: Any) -> tuple[Any, Any]:
        """Return the end of the panel of delta towards `span`, and the integral from there to `span`."""
        inner = xp.abs(self.ends[..., 1:-1])
        index = xp.sum(xp.astype(xp.abs(delta)[..., None] > inner, xp.float64), axis=-1)
        at = index[..., None] == xp.astype(xp.arange(inner.shape[-1] + 1), xp.float64)
        top, before = (xp.sum(xp.where(at, v, 0 * v), axis=-1) for v in (self.ends[..., 1:], self.before))
        return top, before

    def _integral(self, xp: Any, low: Any, high: Any, nodes: Any, weights: Any) -> Any:
        """Return the integral without a pole between two values of delta."""
        wide, width = self._wide(), high - low
        d = low[..., None] + width[..., None] * nodes
        k, single = wide.rate(xp, d), phi(xp, d)
        nonzero = xp.where(d == 0, xp.ones_like(d), d)
        rest = (wide.pace * single - k) / nonzero / (wide.pace * single * k)
        return width * xp.sum(weights * rest, axis=-1)

    def _slope(self, xp: Any, u: Any) -> Any:
        """Return minus the derivative of the time by u."""
        delta = self._delta(xp, u)
        return phi(xp, delta) / self.rate(xp, delta)

    def _nodes(self, xp: Any) -> tuple[Any, Any]:
        """Return nodes and weights on [0, 1] for the integral from `span` in high precision."""
        longest = float(np.abs(arithmetic.to_numpy(self.span).astype(float)).max())
        if longest > 60:
            half = np.arcsin(0.5 / np.hypot(1, np.log1p(longest) / np.pi))  # of the strip in the node's variable
            return double_exponential(xp, int(np.ceil((xp.dps + 4) * np.log(10) / (2 * np.pi * half))))
        panels = int(np.ceil((longest + 0.1) / 3))
        nodes, weights = legendre(xp, xp.dps * 4 // 5 + 8)
        return xp.concat([(nodes + k) / panels for k in range(panels)]), xp.concat([weights / panels] * panels)

    def left(self, xp: Any, t: Any) -> Any:
        """Return ``delta`` at finite times."""

        def late(u: Any, way: Any, t: Any) -> Any:
            return RaceClock(*way).time(xp, u)[0] - t

        u = arithmetic.implicit(xp, lambda way, t: RaceClock(*way)._inverted(xp, t), late, tuple(self), t)
        return self._delta(xp, u)

    def _delta(self, xp: Any, u: Any) -> Any:
        """Return delta at u."""
        return _unlogistic(xp, u, self.span)

    def _inverted(self, xp: Any, t: Any) -> Any:
        """Return u at times `t`, by Newton steps from the start."""
        if arithmetic.is_object(xp):
            return self._refined(xp, t)
        start = _logistic(xp, self.span)

        def step(u: Any, done: Any) -> tuple[Any, Any]:
            if arithmetic.holds(done, everywhere=True):
                return u, done
            bounded = xp.maximum(u, xp.full_like(u, -_GONE))
            found, slope = self.time(xp, bounded)
            move = (found + (bounded - u) / self.pace - t) / slope
            # above the target u = log(1 - exp(-|delta|)) is tiny; below it, u crosses 0
            size = xp.abs(u) + unless(xp, self.span < 0, xp.ones_like(u), 0)
            return xp.where(done, u, u + move), done | (xp.abs(move) <= _CLOSE * size)

        first = start - t * self.rate(xp, self.span) / phi(xp, self.span)
        return arithmetic.repeated(xp, _ROUNDS, step, first, first != first)[0]

    def _refined(self, xp: Any, t: Any) -> Any:
        """Return u in high precision: the time of the solution in doubles, and a short integral from there."""
        with np.errstate(all="ignore"):
            rough = RaceClock(*(arithmetic.to_numpy(v).astype(float) for v in self[:4]))._integrated(np)
            u = xp.asarray(rough._inverted(np, arithmetic.to_numpy(t).astype(float)))
        late = self.time(xp, u)[0] - t
        nodes, weights = legendre(xp, 4 + xp.dps // 16)  # the way is 1e-10 or less
        wide, move, digits = self._wide(), 0 * u, 10
        while digits < 2 * xp.dps:
            between = wide._slope(xp, u[..., None] + move[..., None] * nodes)
            move = move + (late - move * xp.sum(weights * between, axis=-1)) / self._slope(xp, u + move)
            digits = 2 * digits
        return u + move

    def reaching(self, xp: Any, gap: Any) -> Any:
        """Return the time at which the error has fallen to `gap`, of the sign of the initial error and not zero."""
        delta = arithmetic.implicit(xp, partial(_reached, xp), partial(_missing, xp), self.logs, self.c, gap)
        return self.time(xp, _logistic(xp, delta))[0]


def _logistic(xp: Any, x: Any) -> Any:
    """Return ``log|exp(x) - 1|``."""
    high, low = x > 30, x < -1
    near = xp.log(xp.abs(xp.expm1(xp.where(high | low, xp.ones_like(x), x))))
    sides = xp.log1p(-xp.exp(-xp.abs(x)))
    return xp.where(high, x + sides, xp.where(low, sides, near))


def _unlogistic(xp: Any, u: Any, span: Any) -> Any:
    """Return x of the sign of `span` with ``u = log|exp(x) - 1|``."""
    below, high, small = (span < 0) & (u < 0), u > 30, u < -1
    one = -xp.ones_like(u)
    above = xp.where(high, u + xp.log1p(xp.exp(-xp.abs(u))), xp.log1p(xp.exp(xp.where(high, one, u))))
    early = xp.log(-xp.expm1(xp.where(below & ~small, u, one)))
    late = xp.log1p(-xp.exp(xp.where(below & small, u, one)))
    return xp.where(span < 0, xp.where(small, late, early), above)


def _powers(xp: Any, logs: Any, c: Any, delta: Any) -> Any:
    return logs - c * delta[..., None]


def _total(xp: Any, logs: Any, c: Any, delta: Any) -> tuple[Any, Any]:
    """Return ``log sum exp(logs - c delta)`` and minus its derivative."""
    powers = _powers(xp, logs, c, delta)
    top = xp.max(powers, axis=-1)
    parts = xp.exp(powers - top[..., None])
    whole = xp.sum(parts, axis=-1)
    return top + xp.log(whole), xp.sum(c * parts, axis=-1) / whole


def _where_total_is(xp: Any, logs: Any, c: Any, level: Any) -> Any:
    """Return delta with ``log sum exp(logs - c delta) = level``, by Newton steps from the left of a convex function."""

    def step(delta: Any) -> tuple[Any]:
        value, slope = _total(xp, logs, c, delta)
        return (delta + (value - level) / slope,)

    rounds = _ROUNDS + (xp.dps // 8 if arithmetic.is_object(xp) else 0)
    return arithmetic.repeated(xp, rounds, step, xp.max((logs - level[..., None]) / c, axis=-1))[0]


def _grown(xp: Any, logs: Any, c: Any, span: Any) -> Any:
    """Return ``sum exp(logs) (exp(c span) - 1)``, accurate for short and for long spans."""
    z = c * span[..., None]
    near = xp.abs(z) < 1
    early = xp.exp(xp.where(near, logs, xp.zeros_like(logs))) * xp.expm1(xp.where(near, z, xp.zeros_like(z)))
    return xp.sum(xp.where(near, early, xp.exp(logs + z) - xp.exp(logs)), axis=-1)


def _short(xp: Any, span: Any, logs: Any, c: Any, gap: Any) -> Any:
    """Return the growth of the sum of strengths minus the error at the start."""
    return _grown(xp, logs, c, span) - gap


def _span(xp: Any, logs: Any, c: Any, gap: Any) -> Any:
    """Return ``theta_inf``: the root of the sum of logarithms, then of the growth itself."""
    span = -_where_total_is(xp, logs, c, 0 * gap)
    for _ in range(2):  # near the end the logarithm of the sum loses digits
        close = xp.abs(span) < 1
        some = xp.where(close, span, 0 * span)
        slope = xp.sum(c * xp.exp(logs + c * some[..., None]), axis=-1)
        slope = xp.where(close, slope, xp.ones_like(slope))
        span = span - xp.where(close, _short(xp, some, logs, c, gap) / slope, 0 * span)
    return span


def _missing(xp: Any, delta: Any, logs: Any, c: Any, gap: Any) -> Any:
    """Return the error at `delta` minus `gap`."""
    return -_grown(xp, logs, c, -delta) - gap


def _reached(xp: Any, logs: Any, c: Any, gap: Any) -> Any:
    """Return ``delta`` at which the error is `gap`."""
    delta = _where_total_is(xp, logs, c, xp.log1p(-gap))
    for _ in range(2):  # as in `_span`
        slope = xp.sum(c * xp.exp(_powers(xp, logs, c, delta)), axis=-1)
        close = xp.abs(delta) < 1
        delta = delta - xp.where(close, _missing(xp, delta, logs, c, gap) / slope, 0 * delta)
    return delta
