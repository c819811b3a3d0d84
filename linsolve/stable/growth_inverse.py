"""The depth-L growth law solved: its closed form for the time, inverted on whole arrays."""

from __future__ import annotations

from typing import Any

from linsolve.stable.growth import Start, head, near, start_of, terms_of
from linsolve.stable.scalar import log1p_ratio, phi

__all__ = ["deep_growth"]

_ROUNDS = 3  # of Halley's iteration reach the accuracy of a double; one more is done (tests/test_deep_mode.py counts)


def _plan(xp: Any) -> list[int]:
    """Return the number of series terms of each round: those of doubles, then thrice the digits every round."""
    digits, reached = getattr(xp, "dps", 16), 14
    plan = [terms_of(min(digits, 16))] * _ROUNDS
    while reached < digits:
        reached *= 3
        plan.append(terms_of(min(digits, reached + 3)))
    return plan


def deep_growth(xp: Any, t: Any, a0: Any, s: Any, depth: Any) -> tuple[Any, Any]:
    r"""Return ``a`` and ``s - a`` where ``a' = depth |a|^(2 - 2/depth) (s - a)``, each to full relative accuracy.

    For ``depth = inf`` the depth-normalized limit ``a' = a^2 (s - a)``. The closed form for the time,
    `deep_growth_time`, is inverted by Halley's iteration in the variable ``e = (exp(n l) - 1)/n``, the power of ``a``
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
    l = _solve_head(xp, own, rest, at, falling, ending, plan)  # noqa: E741
    size = xp.where(falling & at.big, xp.sign(a0) * xp.abs(s), a0 + 0 * l)
    a = size * xp.exp(xp.where(at.big & ~falling, -l, l))
    w = _solve_tail(xp, _bounded_product(xp, rest, at.exchange), at, ending, plan)
    return xp.where(ending, s / (1 + w), a), xp.where(ending, s * w / (1 + w), s - a)


def _solve_head(xp: Any, own: Any, rest: Any, at: Start, falling: Any, ending: Any, plan: list[int]) -> Any:
    """Return ``l`` at times of the own clock: up to `at.end`; where `falling`, down from 0; 0 where `ending`."""
    zero = xp.zeros_like(own)
    n, z0 = xp.where(falling, -at.m, at.n), xp.where(falling, at.z_fall, at.z0)
    series, end = xp.where(falling, at.series_fall, at.series), xp.where(falling | ending, zero, at.end)
    below = z0 < 0
    # nothing is left to find where the tail has begun
    z0, series = xp.where(ending, zero, z0), xp.where(ending, zero, series)
    fallen = rest * xp.where(at.big, at.exchange, xp.ones_like(at.z0))
    target = xp.where(falling, -fallen, xp.where(ending, zero, xp.minimum(own, at.span)))
    l = _guess(xp, target, n, z0, end, at.span, falling)  # noqa: E741
    for terms in plan:
        found, power, z = head(xp, l, n, z0, series, terms, below)
        off = (found - target) / power
        gentle = xp.abs(off * z) < 1  # else Newton's step, which cannot overshoot from the far side
        step = -off * (1 - z) / xp.where(gentle, 1 - off * z / 2, 1 + zero)
        l = l + step * log1p_ratio(xp, n * step)  # noqa: E741
        l = xp.where(falling, xp.minimum(l, zero), xp.maximum(xp.minimum(l, end), zero))  # noqa: E741
    return l


def _guess(xp: Any, target: Any, n: Any, z0: Any, end: Any, span: Any, falling: Any) -> Any:
    """Return ``l`` as if ``e`` grew linearly: through both ends of the head, or at its first pace where falling."""
    full = end * phi(xp, -n * end)
    some = xp.where(span > 0, span, xp.ones_like(span))
    e = xp.where(falling, target * (1 - z0), full * (target / some))
    soon = e * log1p_ratio(xp, xp.where((n < 0) & ~falling, 0 * e, n * e))
    # where the power of a saturates, from the end
    missing = full * ((some - target) / some) * xp.exp(-n * end)
    late = end - missing * log1p_ratio(xp, xp.where((n < 0) & ~falling, -n * missing, 0 * e))
    return xp.where((n < 0) & ~falling, xp.maximum(late, 0 * e), soon)


def _solve_tail(xp: Any, theta: Any, at: Start, ending: Any, plan: list[int]) -> Any:
    """Return ``w = s/a - 1`` at `theta` after `at.w` where `ending`: ``x + near(at.w) - near(at.w e^-x) = theta``."""
    start, near_start = xp.where(ending, at.w, 0 * theta), xp.where(ending, at.near_w, 0 * theta)
    x = theta + near_start * xp.expm1(-theta)
    for terms in plan:
        w = start * xp.exp(-x)
        step = (theta - x - near_start + near(xp, w, at.m, terms)) / xp.pow(1 + w, at.m)
        x = xp.maximum(x + step / (1 - step * at.m * w / (1 + w) / 2), 0 * x)
    return start * xp.exp(-x)
