"""The depth-L growth law solved: its closed form for the time, inverted on whole arrays."""

from __future__ import annotations

from math import comb, factorial
from typing import Any

from linsolve.stable.growth import Start, head, linear, logarithmic, series_at, start_of, terms_of

__all__ = ["deep_growth"]

_ORDER = 5  # of the Taylor series of a step
_ROUNDS = 1  # before the one that reaches the accuracy of a double


def _plan(xp: Any) -> list[int]:
    """Return the number of series terms of each round, of which each gives `_ORDER` times as many digits."""
    digits, reached = getattr(xp, "dps", 16), 15
    plan = [terms_of(16 // _ORDER**k + 1) for k in range(_ROUNDS, 0, -1)] + [terms_of(16)]
    while digits > 16 and reached < digits:
        reached *= _ORDER
        plan.append(terms_of(min(digits, reached + 3)))
    return plan


def deep_growth(xp: Any, t: Any, a0: Any, s: Any, depth: Any) -> tuple[Any, Any]:
    r"""Return ``a`` and ``s - a`` where ``a' = depth |a|^(2 - 2/depth) (s - a)``, each to full relative accuracy.

    For ``depth = inf`` the depth-normalized limit ``a' = a^2 (s - a)``. The closed form for the time,
    `deep_growth_time`, is inverted by steps of fifth order in the variable ``e = (exp(n l) - 1)/n``, the power of ``a``
    that would grow linearly without saturation: there the slope of time lies between 1/2 and 8/3 for every depth and
    start, so that a fixed number of rounds serves all. Stored is ``l = log|a/a0|``, which does not saturate.

    Parameters
    ----------
    xp : namespace
    t : array
        Time, not negative; inf allowed.
    a0, s, depth : array
        Start; fixed point; depth, at least 1. Where ``a0 s < 0`` and the depth lies between 1 and 2, ``a`` reaches 0 in
        finite time, and what is returned has no meaning. Shapes broadcast against `t`.

    Returns
    -------
    a, gap : array
        The solution and its distance ``s - a`` to the fixed point; at ``t = 0`` bitwise `a0` and ``s - a0``. A
        start at 0 stays there, unless the depth is 1.
    """
    a0, s, depth = xp.broadcast_arrays(a0, s, depth)
    one = xp.ones_like(a0)
    still, straight = a0 == 0, depth == 1
    some = xp.where(still, one, a0)
    reaching = (depth < 2) & (xp.sign(some) * xp.sign(s) < 0)
    plan = _plan(xp)
    at = start_of(xp, some, s, xp.where(straight | reaching, 2 * one, depth), max(plan))
    forever = xp.isinf(t)
    rate = xp.where(straight, one, at.pace)
    clock = xp.where(forever, xp.zeros_like(t), t) + 0 * one
    own = _bounded_product(xp, clock, rate)
    a, gap = _curved(xp, own, at, some, s, plan)
    left, done = xp.exp(-own), -xp.expm1(-own)
    a = xp.where(straight, a0 * left + s * done, xp.where(still, 0 * a, a))
    gap = xp.where(straight, (s - a0) * left, xp.where(still, s + 0 * a, gap))
    learned = straight | (~still & ~at.negative)
    a = xp.where(forever, xp.where(learned, s, 0 * s), a)
    gap = xp.where(forever, xp.where(learned, 0 * s, s), gap)
    begin = clock + xp.where(forever, xp.ones_like(t), xp.zeros_like(t)) == 0
    return xp.where(begin, a0, a), xp.where(begin, s - a0, gap)


def _bounded_product(xp: Any, time: Any, rate: Any) -> Any:
    """Return the product, at most 1e290, so that it stays a double: long before that everything has converged."""
    longest = 10**290 / xp.where(rate > 1, rate, xp.ones_like(rate))
    return xp.where(time > longest, longest, time) * rate


def _curved(xp: Any, own: Any, at: Start, a0: Any, s: Any, plan: list[int]) -> tuple[Any, Any]:
    """Return ``a`` and ``s - a`` at times of the own clock, for depths above 1 and starts that move."""
    over = (own >= at.span) & (s != 0)
    rest = xp.where(over, own - at.span, xp.zeros_like(own))
    falling, ending = at.negative & over, ~at.negative & over
    l, w = _solve(xp, own, rest, at, falling, ending, plan)  # noqa: E741
    size = xp.where(falling & at.big, xp.sign(a0) * xp.abs(s), a0 + 0 * l)
    a = size * xp.exp(xp.where(at.big & ~falling, -l, l))
    return xp.where(ending, s / (1 + w), a), xp.where(ending, s * w / (1 + w), s - a)


def _solve(xp: Any, own: Any, rest: Any, at: Start, falling: Any, ending: Any, plan: list[int]) -> tuple[Any, Any]:
    """Return ``l`` and ``w`` at times of the own clock, `rest` of them after the head.

    ``l`` goes up to `at.end`; where `falling`, down from 0; it is 0 where `ending`. There ``w = s/a - 1``, elsewhere 0,
    is ``at.w exp(-x)`` with ``x + near(at.w) - near(w)`` the time since. Both are found by the same steps, with ``-w``
    in the place of `z`.
    """
    zero, nowhere = xp.zeros_like(own), xp.zeros_like(at.w)
    n = xp.where(falling | ending, -at.m, at.n)
    first = xp.where(ending, -at.w, xp.where(falling, at.z_fall, at.z0))
    series, end = xp.where(falling, at.series_fall, at.series), xp.where(falling | ending, zero, at.end)
    coefficients = [
        xp.where(ending, c, xp.where(falling, a, b)) for a, b, c in zip(at.falling, at.rising, at.ending, strict=True)
    ]
    fallen = rest * xp.where(at.big, at.exchange, xp.ones_like(at.z0))
    theta = _bounded_product(xp, xp.where(ending, rest, zero), at.exchange)
    target = xp.where(ending, theta - at.near_w, xp.where(falling, -fallen, xp.minimum(own, at.span)))
    l = xp.where(ending, zero, _guess(xp, xp.where(ending, zero, target), n, first, end, at.span, falling))  # noqa: E741
    x = theta + xp.where(ending, at.near_w, nowhere) * xp.expm1(-theta)
    for terms in plan:
        z = first * xp.exp(xp.where(ending, -x, l))
        power = xp.exp(xp.where(ending, -n * xp.log1p(xp.where(ending, -z, zero)), n * l))
        total, u = series_at(xp, z, coefficients[:terms])
        found = xp.where(ending, x + n * u * total, head(xp, l, n, first, z, power, total) - series)
        e, later = _change(xp, (target - found) / power, n, xp.where(ending, 1 / (1 - z), z))
        l = l + logarithmic(xp, xp.where(ending, zero, e), n)  # noqa: E741
        l = xp.where(falling, xp.minimum(l, zero), xp.maximum(xp.minimum(l, end), zero))  # noqa: E741
        x = xp.where(ending, xp.maximum(x + later, zero), zero)
    return l, xp.where(ending, at.w, nowhere) * xp.exp(-x)


def _change(xp: Any, off: Any, n: Any, y: Any) -> tuple[Any, Any]:
    """Return by how much ``e`` of the head and ``x`` of the tail change within the time `off`, in units of the slope.

    By the Taylor series of their own equations, ``e' = 1 - y`` and ``x' = p`` where ``y' = y g``, ``p' = -n p g``,
    ``g = p (1 - y)``: of `e` from ``p = 1`` and ``y = z``, of `x` from ``p = 1`` and ``y = a/s``.
    """
    ys, ps, gs = [y], [1 + 0 * off], [1 - y]
    for k in range(_ORDER - 1):
        ys.append(_leibniz(ys, gs, k))
        ps.append(-n * _leibniz(ps, gs, k))
        gs.append(ps[-1] - _leibniz(ps, ys, k + 1))
    # else Newton's step, which cannot overshoot from the far side
    late = xp.where(xp.abs(off * y) < 1, off, 0 * off)
    return off * _mean(xp, [1 - y, *(-v for v in ys[1:])], late), off * _mean(xp, ps, late)


def _leibniz(a: list[Any], b: list[Any], k: int) -> Any:
    """Return the k-th derivative of a product, given those of its factors."""
    return sum((comb(k, i) * a[i] * b[k - i] for i in range(1, k + 1)), a[0] * b[k])


def _mean(xp: Any, derivatives: list[Any], time: Any) -> Any:
    """Return the mean over `time`, from now, of what has these derivatives, itself first."""
    count = len(derivatives)
    total = derivatives[-1]
    for k in range(count - 1, 0, -1):
        total = total * time + factorial(count) // factorial(k) * derivatives[k - 1]
    return total * (xp.ones_like(total) / factorial(count))


def _guess(xp: Any, target: Any, n: Any, z0: Any, end: Any, span: Any, falling: Any) -> Any:
    """Return ``l`` as if ``e`` grew linearly: through both ends of the head, or at its first pace where falling."""
    pace = linear(xp, end, n) / xp.where(span > 0, span, xp.ones_like(span))
    late = (n < 0) & ~falling  # the power of a saturates: from the end, where it is (1 + n e) of the start's
    missing = pace * (span - target) * xp.exp(-n * end)
    e = xp.where(late, -missing, xp.where(falling, target * (1 - z0), pace * target))
    l = logarithmic(xp, e, n)  # noqa: E741
    return xp.where(late, xp.maximum(end + l, 0 * l), l)
