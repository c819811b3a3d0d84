"""Solution of the depth-L growth law: inversion of the closed form for the time, on whole arrays."""

from __future__ import annotations

from math import comb, factorial
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.numerics.scalar import full_like, uniform, where
from linsolve.systems.mode.growth_begun import Growth
from linsolve.systems.mode.growth_far import LONGEST
from linsolve.systems.mode.growth_iteration import Path, fall_of, guess, head_of
from linsolve.systems.mode.growth_tables import Tables, cut
from linsolve.systems.mode.growth_time import (
    Start,
    deep_growth_time,
    far,
    head,
    horner,
    linear,
    logarithmic,
    near,
    unfolded,
)
from linsolve.systems.mode.growth_traced import traced_growth

__all__ = ["deep_growth"]

_ORDER = 5  # order of the Taylor series of a step
_LATE = 40  # time of the tail after which ``w`` is its value without saturation, and ``1 + w`` is 1, to 17 digits
_SPARE = 3  # terms that doubles do not need: the series is multiplied by the square of ``|z| <= 1``


def deep_growth(
    xp: Any, t: Any, a0: Any, s: Any, depth: Any, tau: Any = 1, growth: Growth | None = None
) -> tuple[Any, Any]:
    r"""Return ``a`` and ``s - a`` where ``tau a' = depth |a|^(2 - 2/depth) (s - a)``, each to full relative accuracy.

    ``depth = inf`` is the depth-normalized limit ``tau a' = a^2 (s - a)``. The closed form for the time,
    `deep_growth_time`, is inverted without iteration. In the tail the distance to the fixed point is a polynomial of
    its value without saturation. In the head, and where `a` falls toward 0, a polynomial guess is followed by one step
    of sixth order in ``l = log|a/a0|``, which does not saturate. The polynomials depend on the depth, see `tables_of`.
    At infinite depth the time is a logarithm beside `e`, so that neither `l` nor a series is needed in doubles.
    Depths below 9/4 use a linear guess and one more step, in ``e = (exp(n l) - 1)/n``. This power of ``a`` would grow
    linearly without saturation; the slope of the time in it lies between 1/2 and 5/2 for every depth and initial value.
    High precision uses further steps in ``e``.

    Parameters
    ----------
    xp : namespace
    t : array
        Time, not negative; inf allowed.
    a0, s, depth, tau : array
        Initial value; fixed point; depth, at least 1; time constant. Where ``a0 s < 0`` and the depth lies between 1
        and 2, ``a`` reaches 0 in finite time, and the result is meaningless. Shapes broadcast against `t`.
    growth : Growth, optional
        ``Growth.of`` of these, if it is known.

    Returns
    -------
    a, gap : array
        The solution and its distance ``s - a`` to the fixed point; at ``t = 0`` bitwise equal to `a0` and ``s - a0``.
        ``a0 = 0`` is stationary unless the depth is 1.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.mode.growth import deep_growth
    >>> t, one = np.array([0.0, 1.0, np.inf]), np.array(1.0)
    >>> a, gap = deep_growth(np, t, 0.5 * one, one, 2 * one)  # a' = 2 a (1 - a): 1/(1 + exp(-2 t))
    >>> a.round(6).tolist(), gap.round(6).tolist()
    ([0.5, 0.880797, 1.0], [0.5, 0.119203, 0.0])
    """
    if arithmetic.is_jax(xp):
        return traced_growth(xp, deep_growth, deep_growth_time, t / tau, a0, s, depth)
    a0, s, depth, tau, some, aim, hard, tables, law, at = growth or Growth.of(xp, a0, s, depth, tau)
    one, still, straight = full_like(xp, a0, 1), a0 == 0, depth == 1
    forever = xp.isinf(t)
    t = where(xp, forever, full_like(xp, t, 0), t)
    clock = t / tau + 0 * one
    if law is None:
        own = clock * where(xp, straight, one, at.pace)
        a, gap = _curved(xp, own, at, some, aim, tables, hard)
    else:
        rate = where(xp, straight | law.extreme, one, at.pace)
        own, root = _bounded_product(xp, clock, rate), xp.pow(t, one / 8)
        passed = law.clock(xp, root * law.goal_root)
        own = where(xp, law.extreme & ~straight, law.clock(xp, root * law.root), own)
        since = law.since(xp, root, own, passed)
        # a small mode that falls keeps its ratio to the initial value
        begin = where(xp, law.falls & ~law.big, some, law.begin)
        a, gap = _curved(xp, xp.maximum(since, 0 * since), at, begin, aim, tables, hard)
        a, changed = law.replaced(xp, a, some, root, own, passed, since)
        gap = where(xp, changed, aim - a, gap)
    faint = own > full_like(xp, own, 700)  # exp(-own) is subnormal, the product with a large value is not
    left, done = xp.exp(-where(xp, faint, own / 2, own)), -xp.expm1(-own)
    again = where(xp, faint, left, 1 + 0 * own)
    a = where(xp, straight, a0 * left * again + s * done, where(xp, still, 0 * a, a))
    gap = where(xp, straight, (s - a0) * left * again, where(xp, still, s + 0 * a, gap))
    learned = straight | (~still & ~at.negative)
    a = where(xp, forever, where(xp, learned, s, 0 * s), a)
    gap = where(xp, forever, where(xp, learned, 0 * s, s), gap)
    start = t + where(xp, forever, full_like(xp, t, 1), full_like(xp, t, 0)) == 0
    return where(xp, start, a0, a), where(xp, start, s - a0, gap)


def _bounded_product(xp: Any, time: Any, rate: Any) -> Any:
    """Return the product, capped at `LONGEST` against overflow; the solution converges at far smaller values."""
    if arithmetic.is_object(xp):
        return time * rate
    longest = LONGEST / where(xp, rate > 1, rate, full_like(xp, rate, 1))
    return xp.minimum(time, longest) * rate


def _curved(xp: Any, own: Any, at: Start, a0: Any, s: Any, tables: Tables, hard: Any) -> tuple[Any, Any]:
    """Return ``a`` and ``s - a`` at rescaled times, for depths above 1 and initial values that are not stationary."""
    over = (own >= at.span) & (s != 0)
    rest = _beyond(xp, own, at.span, over, s)
    falling, ending = at.negative & over, ~at.negative & over
    tail = _Tail(
        m=at.m,
        w=at.w,
        near_w=at.near_w,
        unit=where(xp, at.negative, full_like(xp, at.w, 1), at.w * xp.exp(at.near_w)),
        terms=at.ending,
        polynomial=[where(xp, at.big, b, a) for a, b in zip(tables.below, tables.above, strict=True)],
    )
    # engines evaluate each branch where it is taken
    w = grown = fallen = full_like(xp, own, 1)
    theta = _bounded_product(xp, rest, at.exchange)
    late = theta > full_like(xp, theta, _LATE)
    if arithmetic.holds(ending):
        w = _ended(xp, theta, late, tail)
    if not arithmetic.holds(ending, everywhere=True):
        grown = _grown(xp, xp.minimum(own, at.span), head_of(xp, at, tables, hard), hard)
    if arithmetic.holds(falling):
        past = -rest * where(xp, at.big, at.exchange, full_like(xp, at.z0, 1))
        fallen = _grown(xp, where(xp, falling, past, full_like(xp, past, 0)), fall_of(xp, at, tables, hard), hard)
    start = where(xp, falling & at.big, xp.sign(a0) * xp.abs(s), a0)
    over = start * where(xp, falling, fallen, where(xp, at.big, full_like(xp, grown, 1), grown))
    here = s / (1 + w)
    if not arithmetic.is_object(xp):
        here = where(xp, late, s, here)  # bitwise equal, and needs no exponential
    a = where(xp, ending, here, over / where(xp, at.big & ~falling, grown, full_like(xp, grown, 1)))
    return a, where(xp, ending, w * a, s - a)


def _beyond(xp: Any, own: Any, span: Any, over: Any, s: Any) -> Any:
    """Return the time spent beyond the span of the head, 0 before."""
    zero = full_like(xp, own, 0)
    if arithmetic.is_object(xp):
        return where(xp, over, own - span, zero)
    return xp.maximum(own - where(xp, s == 0, full_like(xp, span, xp.inf), span), zero)


class _Tail(NamedTuple):
    """Constants of the tail.

    Parameters
    ----------
    m, w, near_w : array
        As of a `Start`.
    unit : array
        ``w exp(near(w))``, from which `w` would decay as ``exp(-time)``.
    terms : list of array
        Of `near`.
    polynomial : list of array
        Of `tail`.
    """

    m: Any
    w: Any
    near_w: Any
    unit: Any
    terms: list[Any]
    polynomial: list[Any]


def _grown(xp: Any, time: Any, path: Path, hard: Any) -> Any:
    """Return the factor ``z/z0`` at times of a path."""
    e, endless = guess(xp, time, path), uniform(xp, path.n == -1)
    if arithmetic.is_object(xp) or not arithmetic.holds(endless):
        return _grown_at(xp, time, path, hard, e)
    if endless is np.True_:
        return _grown_endless(xp, time, path, e)
    own = where(xp, endless, e, full_like(xp, e, 0))
    return where(xp, endless, _grown_endless(xp, time, path, own), _grown_at(xp, time, path, hard, e))


def _grown_endless(xp: Any, time: Any, path: Path, e: Any) -> Any:
    """Return the factor at infinite depth, ``1/(1 - e)``, where the time is ``e - z0 log(1 - e/(1 - z0))``."""
    factor = 1 / (1 - e)
    found = e - path.z0 * xp.log1p(-e * (1 / (1 - path.z0)))
    change = _step(xp, (time - found) * factor, path.n, path.z0 * factor)
    return factor + factor * _small_expm1(xp, change, path.n)


def _grown_at(xp: Any, time: Any, path: Path, hard: Any, e: Any) -> Any:
    """Return the factor at any depth."""
    n = path.n
    l = where(xp, n == 0, e, xp.log1p(n * e) * (1 / where(xp, n == 0, full_like(xp, n, 1), n)))  # noqa: E741
    bent = _bent(xp, time, path, l)
    l, e = where(xp, hard, bent, l), where(xp, hard, xp.minimum(linear(xp, bent, n), path.highest), e)  # noqa: E741
    factor = xp.exp(l)
    z, power = path.z0 * factor, 1 + n * e
    slow = n + 1 < full_like(xp, n, 1) / 4  # otherwise the second integral is known already
    second = (z * power - path.z0) * (1 / where(xp, slow, full_like(xp, n, 1), n + 1))
    second = where(xp, slow, path.z0 * linear(xp, where(xp, slow, l, 0 * l), n + 1), second)
    found = e + second + z * z * power * far(xp, z, path.terms[:-_SPARE]) - path.series
    change = _step(xp, (time - found) / power, n, z)
    for _ in range(_more(xp)):
        l = _bent(xp, time, path, l + change)  # noqa: E741
        factor, change = xp.exp(l), 0 * l
    return factor + factor * _small_expm1(xp, change, n)


def _ended(xp: Any, theta: Any, late: Any, tail: _Tail) -> Any:
    """Return `w` at times `theta` of the tail; where `late` holds, its value without saturation."""
    E = tail.unit * xp.exp(-theta)
    w = E * where(xp, late, full_like(xp, E, 1), horner(unfolded(xp, -cut(xp, tail.m) * E), tail.polynomial))
    for _ in range(_more(xp)):
        w = _bent_tail(xp, theta, tail, w)
    return w


def _more(xp: Any) -> int:
    """Return the number of further steps that this arithmetic needs; each multiplies the digits by `_ORDER`."""
    digits, more, reached = getattr(xp, "dps", 16), 0, 14
    while digits > 16 and reached < digits:
        reached, more = reached * _ORDER, more + 1
    return more


def _step(xp: Any, off: Any, n: Any, z: Any) -> Any:
    """Return the change of ``l`` within the short time `off`, in units of the slope of ``e``, to sixth order."""
    most = full_like(xp, off, 1) / 8
    still = 1 - z
    h, r = xp.minimum(xp.maximum(off * still, -most), most), z / still
    # with r' = r (1 + r), each derivative of l by h is r (1 + r) d/dr - (k - 1) (r + n) of the previous one
    second, third = [-n, -1 + 0 * n], [2 * n * n, 4 * n - 1, 1 + 0 * n]
    fourth = _next(third, n, 3)
    derivatives = [second, third, fourth, _next(fourth, n, 4)]
    parts = [horner(r, [c / factorial(k) for c in derivative]) for k, derivative in enumerate(derivatives, 2)]
    return h + h * h * horner(h, parts)


def _next(polynomial: list[Any], n: Any, k: int) -> list[Any]:
    """Return ``r (1 + r) p'(r) - k (r + n) p(r)``."""
    last, out = len(polynomial) - 1, []
    for j in range(last + 2):
        here = (j - k * n) * polynomial[j] if j <= last else 0 * n
        out.append(here + ((j - 1 - k) * polynomial[j - 1] if j > 0 else 0 * n))
    return out


def _small_expm1(xp: Any, x: Any, n: Any) -> Any:
    """Return ``exp(x) - 1`` for small `x`."""
    return x * horner(x, [full_like(xp, n, 1) / factorial(k + 1) for k in range(6)])


def _bent(xp: Any, time: Any, path: Path, l: Any) -> Any:  # noqa: E741
    """Return ``l`` after a step of fifth order in ``e``, which is safe for any guess of ``l``."""
    n, z = path.n, path.z0 * xp.exp(l)
    power = xp.exp(n * l)
    found = head(xp, l, n, path.z0, z, power, far(xp, z, path.terms)) - path.series
    e, _ = _change(xp, (time - found) / power, n, z)
    l = l + logarithmic(xp, e, n)  # noqa: E741
    return xp.minimum(xp.maximum(l, path.low), path.high)


def _bent_tail(xp: Any, theta: Any, tail: _Tail, w: Any) -> Any:
    """Return `w` after a step of fifth order in its logarithm."""
    gone, one = w == 0, full_like(xp, w, 1)
    x = xp.log(xp.abs(where(xp, gone, one, tail.w))) - xp.log(xp.abs(where(xp, gone, one, w)))
    found = x + tail.near_w - near(xp, w, tail.m, tail.terms)
    # an exponent for each number, as in `start_of`
    slope = xp.pow(1 + w, 0 * w - tail.m)
    _, later = _change(xp, (theta - found) * slope, -tail.m, 1 / (1 + w))
    return where(xp, gone, w, tail.w * xp.exp(-x - later))


def _change(xp: Any, off: Any, n: Any, y: Any) -> tuple[Any, Any]:
    """Return the changes of ``e`` of the head and ``x`` of the tail within the time `off`, in units of the slope.

    Computed by Taylor series of the equations ``e' = 1 - y`` and ``x' = p``, where ``y' = y g``, ``p' = -n p g``,
    ``g = p (1 - y)``: for `e` from ``p = 1`` and ``y = z``, for `x` from ``p = 1`` and ``y = a/s``.
    """
    ys, ps, gs = [y], [1 + 0 * off], [1 - y]
    for k in range(_ORDER - 1):
        ys.append(_leibniz(ys, gs, k))
        ps.append(-n * _leibniz(ps, gs, k))
        gs.append(ps[-1] - _leibniz(ps, ys, k + 1))
    # otherwise a Newton step, which cannot overshoot from the far side
    late = where(xp, xp.abs(off * y) < 1, off, 0 * off)
    return off * _mean(xp, [1 - y, *(-v for v in ys[1:])], late), off * _mean(xp, ps, late)


def _leibniz(a: list[Any], b: list[Any], k: int) -> Any:
    """Return the k-th derivative of a product, given those of its factors."""
    return sum((comb(k, i) * a[i] * b[k - i] for i in range(1, k + 1)), a[0] * b[k])


def _mean(xp: Any, derivatives: list[Any], time: Any) -> Any:
    """Return the mean over `time` of the function with these derivatives at its start, the value first."""
    count = len(derivatives)
    total = derivatives[-1]
    for k in range(count - 1, 0, -1):
        total = total * time + factorial(count) // factorial(k) * derivatives[k - 1]
    return total * (full_like(xp, total, 1) / factorial(count))
