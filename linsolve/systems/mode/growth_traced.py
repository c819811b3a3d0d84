r"""Derivatives of the depth-L growth law in JAX, from its closed form for the time.

The solution `a` at time `t` satisfies ``t = T(a0, a, s, depth)``. With the velocity ``F``,

.. math:: da = F\, (dt - \partial_s T\, ds - \partial_D T\, dD) + \frac{F(a)}{F(a_0)}\, da_0 .

The same holds for the distance ``s - a``. The smaller one of the two is differentiated, the other by their sum `s`. The
values are those of `deep_growth`, evaluated by the host: its polynomials depend on the depth, and make a program that
takes minutes to compile.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.numerics.scalar import power

__all__ = ["traced_growth"]

_LATE = 2.0**63  # times beyond this bound stand for inf, in single precision as well


def traced_growth(xp: Any, growth: Any, time: Any, *given: Any) -> tuple[Any, Any]:
    """Return ``growth(np, t, a0, s, depth)`` with the derivatives of ``time(xp, a0, gap, s, depth)`` for JAX."""
    shape = np.broadcast_shapes(*(v.shape for v in given))

    def values(t: Any, *given: Any) -> Any:
        ends = xp.where(t > _LATE, xp.inf, t)
        return xp.on_host(lambda *arrays: growth(np, *arrays), (shape, shape), ends, *given)

    def derivative(found: Any, given: Any, changes: Any) -> Any:
        return _changes(xp, time, found, *given, *changes)

    return xp.with_derivative(values, derivative, *(xp.broadcast_to(v, shape) for v in given))


def _velocity(xp: Any, a: Any, gap: Any, depth: Any) -> Any:
    gain = xp.where(xp.isinf(depth), xp.ones_like(depth), depth)
    return gain * xp.pow(xp.abs(a), 2 - 2 / depth) * gap


def _unless_faint(xp: Any, v: Any, beside: Any) -> Any:
    """Return `v`, with 0 for entries that are subnormal, or soon, and that the start or the target exceeds by far."""
    floor = float(xp.finfo(xp.float64).tiny) * 2**20
    return xp.where((xp.abs(v) < floor) & (xp.abs(v) < xp.abs(beside) * power(xp, -500)), 0 * v, v)


def _changes(
    xp: Any, time: Any, found: Any, t: Any, a0: Any, s: Any, depth: Any, dt: Any, da0: Any, ds: Any, d_depth: Any
) -> tuple[Any, Any]:
    """Return the changes of ``a`` and ``s - a``."""
    a, gap = _unless_faint(xp, found[0], a0), _unless_faint(xp, found[1], s)
    straight = depth == 1
    moving = ~straight & (a0 != 0) & (a != 0) & (gap != 0) & (t > 0) & (t < _LATE) & (s - a0 != 0)
    one = xp.ones_like(a)
    a0_, a_, gap_, s_, depth_ = (
        xp.where(moving, v, safe * one) for v, safe in ((a0, 0.5), (a, 1.0), (gap, 1.0), (s, 2.0), (depth, 2.0))
    )
    speed = _velocity(xp, a_, gap_, depth_)
    carried = xp.pow(xp.abs(a_) / xp.abs(a0_), 2 - 2 / depth_) * (gap_ / (s_ - a0_))  # of both velocities
    # the smaller of a and s - a is held while s and the depth change
    early = xp.abs(a_) < xp.abs(gap_)

    def duration(s: Any, depth: Any) -> Any:
        return time(xp, a0_, xp.where(early, s - a_, gap_), s, depth)

    own = xp.jvp(duration, (s_, depth_), (ds, d_depth))[1]
    small = speed * (dt - own) + carried * da0
    da, dgap = xp.where(early, small, ds + small), xp.where(early, ds - small, -small)
    return _at_rest(xp, moving, straight, (da, dgap), (t, a0, s, depth, a, gap), (dt, da0, ds))


def _at_rest(
    xp: Any, moving: Any, straight: Any, changes: tuple[Any, Any], given: tuple[Any, ...], by: tuple[Any, Any, Any]
) -> tuple[Any, Any]:
    """Return the changes, with those at depth 1, at ``t = 0``, at the saddle and after convergence."""
    (t, a0, s, depth, a, gap), (dt, da0, ds) = given, by
    forever = t > _LATE
    clock = xp.where(forever, 0 * t, t)
    left = xp.where(forever, 0 * t, xp.exp(-clock))
    pull = xp.where(straight, s - a, xp.where(t == 0, _velocity(xp, a, gap, depth), 0 * a))
    # from the saddle a mode of depth 2 grows as exp(2 s t), deeper ones do not leave it
    saddle = xp.where(depth == 2, xp.exp(2 * s * clock), xp.where(depth > 2, 1 + 0 * t, xp.nan + 0 * t))
    onto = (a0 != 0) & (gap == 0) & (s != 0)
    rest = xp.where(straight, left, xp.where(onto | (a0 != 0) & (t > 0), 0 * t, xp.where(a0 == 0, saddle, 1 + 0 * t)))
    share = xp.where(straight, -xp.expm1(-clock), xp.where(onto & (t > 0), 1 + 0 * t, 0 * t))
    share = xp.where(straight & forever, 1 + 0 * t, share)
    # a start on the target: deviations decay at the rate there
    gain = xp.where(xp.isinf(depth), xp.ones_like(depth), depth) * xp.pow(
        xp.where(onto, xp.abs(s), 1 + 0 * s), 2 - 2 / depth
    )
    settled = onto & (s - a0 == 0) & ~straight & (t > 0)
    faded = xp.where(forever, 0 * t, xp.exp(-gain * clock))
    rest, share = xp.where(settled, faded, rest), xp.where(settled, 1 - faded, share)
    da = rest * da0 + share * ds + xp.where(forever, 0 * t, pull) * dt
    return xp.where(moving, changes[0], da), xp.where(moving, changes[1], ds - da)
