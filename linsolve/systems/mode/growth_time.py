"""The depth-L growth law ``a' = depth |a|^(2 - 2/depth) (s - a)``: initial values, series and closed-form time."""

from __future__ import annotations

from typing import Any, NamedTuple

from linsolve import arithmetic
from linsolve.numerics.scalar import full_like, where

__all__ = [
    "Start", "deep_growth_time", "far", "far_terms", "head", "horner", "linear", "logarithmic", "near", "near_terms",
    "saturation", "start_of", "terms_of", "unfolded", "unreachable",
]  # fmt: skip

_LONGEST = 700  # largest logarithm: its exponential is a double
_STEEPEST = 600  # largest n times a logarithm: its exponential may be multiplied by other numbers without overflow


class Start(NamedTuple):
    """Initial values of a growth, in variables in which its time has no cancellation; every field of shape batch.

    With ``y = a/s`` the path has a head, far from the fixed point, and a tail. In the head ``z = y`` where
    ``|a0| <= |s|`` and ``z = 1/y`` elsewhere, so that ``|z|`` only grows, and ``l = log(z/z0)``. Time is measured in a
    unit that depends on the initial value, the own clock: it is
    ``head(l) = int_0^l exp(n l') / (1 - z0 exp(l')) dl'`` with ``n = 2/depth - 1`` or ``n = 2 - 2/depth``. The head
    ends at ``z = 3/5``, or at ``a = -s`` where `a0` and `s` differ in sign. Beyond ``a = -s``, `a` falls toward 0 with
    ``z = y``, ``l < 0``.

    Parameters
    ----------
    n, z0, series : array
        Exponent and initial value of the head, and ``z0^2 far(z0)``.
    end, span : array
        ``l`` and time (own clock) at the end of the head, 0 where the initial value lies beyond it.
    pace, exchange : array
        Ratio of the own clock to time; ratio of the tail's clock, ``|s|^(2 - 2/depth)`` times time, to the own clock.
    w, near_w : array
        ``s/a - 1`` at the beginning of the tail, and `near` at this value.
    z_fall, series_fall : array
        The values of `z0` and `series` at the beginning of the fall.
    m : array
        ``1 - 2/depth``.
    rising, falling, ending : list of array
        `far_terms` of the head and of the fall; `near_terms`; each of shape batch.
    big, negative : array of bool
        ``|a0| > |s|``; ``a0 s < 0``.
    """

    n: Any
    z0: Any
    series: Any
    end: Any
    span: Any
    pace: Any
    exchange: Any
    w: Any
    near_w: Any
    z_fall: Any
    series_fall: Any
    m: Any
    rising: list[Any]
    falling: list[Any]
    ending: list[Any]
    big: Any
    negative: Any


def terms_of(digits: int) -> int:
    """Return the number of terms of a power series in ``|u| <= 0.2252``, the slowest one, for `digits` digits."""
    return -(-8 * digits // 5)


def unfolded(xp: Any, z: Any) -> Any:
    """Return `u` with ``z = 4 u/(1 + u)^2``, which maps the plane with a cut from 1 to infinity to the unit disk."""
    root = 1 + xp.sqrt(1 - z)
    return z / (root * root)


def horner(x: Any, coefficients: list[Any]) -> Any:
    """Return the value at `x` of the polynomial with these coefficients, constant first.

    A recorded program may use fused multiply-adds, which halve the rounding errors.
    """
    fused, total = getattr(x, "fused", None), coefficients[-1]
    for c in coefficients[-2::-1]:
        total = total * x + c if fused is None else fused(total, c)
    return total


def far_terms(xp: Any, q: Any, terms: int) -> list[Any]:
    """Return the coefficients of `far` in `u`, which solves ``u (1 + u) f' + q (1 - u) f = (1 + u)^2/(1 - u)``.

    The recurrence multiplies by factors of size at most 1, so that rounding errors do not grow.
    """
    found = [1 / q]
    for k in range(1, terms):
        found.append((min(2 * k + 1, 4) + (q - (k - 1)) * found[-1]) / (q + k))
    return found


def far(xp: Any, z: Any, coefficients: list[Any]) -> Any:
    """Return ``sum_k z^k/(k + q) = 2F1(1, q; 1 + q; z)/q``, ``-1 <= z <= 3/5``, ``q > 0``, from `far_terms`."""
    return horner(unfolded(xp, z), coefficients)


def near_terms(xp: Any, m: Any, terms: int) -> list[Any]:
    """Return the coefficients of `near` without its leading factors.

    Multiplied by `k` they are the coefficients of ``((1 - v)/(1 + v))^(2 m + 1)``, minus their values at ``m = 0``,
    divided by `m`.
    """
    before, here = 0 * m, -4 + 0 * m
    found = [here]
    for k in range(1, terms):
        before, here = here, ((k - 1) * before - (2 + 4 * m) * here - 8 * (-1) ** k) / (k + 1)
        found.append(here / (k + 1))
    return found


def near(xp: Any, w: Any, m: Any, coefficients: list[Any]) -> Any:
    """Return ``sum_{k >= 1} binom(m, k) w^k/k``, the integral of ``((1 + u)^m - 1)/u`` to ``-2/5 <= w <= 2/3``."""
    v = unfolded(xp, -w)
    return m * v * horner(v, coefficients)


def linear(xp: Any, l: Any, n: Any) -> Any:  # noqa: E741
    """Return ``e = (exp(n l) - 1)/n``, at ``n = 0`` its limit `l`; ``1/n`` is computed once per member."""
    return where(
        xp,
        n == 0,
        arithmetic.first_order(xp, l, lambda: n * l * l / 2),
        xp.expm1(n * l) * (1 / where(xp, n == 0, full_like(xp, n, 1), n)),
    )


def logarithmic(xp: Any, e: Any, n: Any) -> Any:
    """Return the inverse `l` of `linear`; infinite where ``n e <= -1``, outside the domain of the logarithm."""
    over = n * e <= -1
    found = xp.log1p(where(xp, over, 0 * e, n * e)) * (1 / where(xp, n == 0, full_like(xp, n, 1), n))
    return where(
        xp, over, xp.inf + 0 * e, where(xp, n == 0, arithmetic.first_order(xp, e, lambda: -n * e * e / 2), found)
    )


def saturation(xp: Any, l: Any, n: Any, z0: Any, z: Any, power: Any, rest: Any) -> Any:  # noqa: E741
    """Return the difference between `head` and `linear`, plus ``z0^2 far(z0)``.

    The second term of the geometric series is integrated separately; this is regular at ``n = -1`` (depth inf).
    """
    # (exp((n + 1) l) - 1)/(n + 1) from decaying exponentials for either sign of l
    second = where(xp, l < 0, z0 + 0 * z, -z * power) * linear(xp, -xp.abs(l), n + 1)
    return second + z * z * power * rest


def head(xp: Any, l: Any, n: Any, z0: Any, z: Any, power: Any, rest: Any) -> Any:  # noqa: E741
    """Return ``int_0^l exp(n l')/(1 - z0 exp(l')) dl'`` plus ``z0^2 far(z0)``, for `l` of either sign.

    The first term of the geometric series is regular at ``n = 0`` (depth 2). At the end ``z = z0 exp(l)``,
    ``power = exp(n l)``, and `rest` is ``far(z)`` with ``q = n + 2``.
    """
    return linear(xp, l, n) + saturation(xp, l, n, z0, z, power, rest)


def _head_time(xp: Any, l: Any, n: Any, z0: Any, series: Any, coefficients: list[Any]) -> Any:  # noqa: E741
    z = z0 * xp.exp(l)
    return head(xp, l, n, z0, z, xp.exp(n * l), far(xp, z, coefficients)) - series


def _ratio(xp: Any, over: Any, under: Any) -> Any:
    return arithmetic.ratio(xp, over, where(xp, under == 0, full_like(xp, under, 1), under))


def unreachable(xp: Any, a0: Any, s: Any) -> Any:
    """Return whether the ratio of two nonzero numbers leaves the range of doubles."""
    size, goal = xp.abs(a0), xp.abs(s)
    low, high = xp.minimum(size, goal), xp.maximum(size, goal)
    return (low > 0) & (low < high / 2.0**1021)


def start_of(xp: Any, a0: Any, s: Any, depth: Any, terms: int) -> Start:
    """Return the `Start` of arrays of one shape; the caller masks ``a0 = 0`` and depths without a solution."""
    b = 2 / depth
    m, gain = 1 - b, where(xp, xp.isinf(depth), full_like(xp, depth, 1), depth)
    size, goal = xp.abs(a0), xp.abs(s)
    big = size > goal
    z0 = where(xp, big, _ratio(xp, s, a0), _ratio(xp, a0, s))
    negative, z = z0 < 0, xp.abs(z0)
    n = where(xp, big, 2 - b, -m)
    one = full_like(xp, z0, 1)
    top = where(xp, negative, where(xp, big, one, z), 3 * one / 5)
    inside = z < top
    end = where(xp, inside, xp.log(_ratio(xp, top, z)), 0 * one)
    end = where(xp, z == 0, _LONGEST * one, end)
    if not arithmetic.is_object(xp):
        end = xp.minimum(end, _STEEPEST / where(xp, n * end > _STEEPEST, n, one * _STEEPEST / _LONGEST))
    w = where(xp, inside | negative, where(xp, big, -2 * one / 5, 2 * one / 3), _ratio(xp, s - a0, a0))
    # of the depth alone, hence computed once for all members of one depth
    down, falling, ending = far_terms(xp, 3 + m, terms), far_terms(xp, 2 - m, terms), near_terms(xp, m, terms)
    rising = [where(xp, big, a, b) for a, b in zip(down, falling, strict=True)]
    series = z0 * z0 * far(xp, z0, rising)
    z_fall = where(xp, negative, where(xp, big, -one, z0), 0 * one)

    def power(base: Any, exponent: Any) -> Any:
        # an exponent for each number: NumPy rounds powers of 2, 1/2 and -1 otherwise if it is one number for all
        return xp.pow(base, 0 * base + exponent)

    return Start(
        n=n,
        z0=z0,
        series=series,
        end=end,
        span=_head_time(xp, end, n, z0, series, rising),
        pace=gain * where(xp, big, power(size, 2 - b), power(size, m) * goal),
        exchange=power(where(xp, z == 0, one, z), n),
        w=w,
        near_w=near(xp, w, m, ending),
        z_fall=z_fall,
        series_fall=z_fall * z_fall * far(xp, z_fall, falling),
        m=m,
        rising=rising,
        falling=falling,
        ending=ending,
        big=big,
        negative=negative,
    )


def deep_growth_time(xp: Any, a0: Any, gap: Any, s: Any, depth: Any) -> Any:
    """Return the time at which the growth law with initial value `a0` reaches the distance ``s - a = gap``.

    Parameters
    ----------
    xp : namespace
    a0, gap, s, depth : array
        Initial value, not 0; distance to the fixed point, not 0, between its initial value and its limit; fixed point;
        depth > 1 (at least 2 where ``a0 s < 0``). Shapes broadcast.

    Returns
    -------
    array
        Time, from the closed form, without iteration.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.mode.growth_time import deep_growth_time
    >>> one = np.array(1.0)
    >>> time = deep_growth_time(np, 0.01 * one, 0.5 * one, one, 2 * one)  # a' = 2 a (1 - a), from 1/100 to 1/2
    >>> round(float(2 * time), 6), round(float(np.log(99)), 6)
    (4.59512, 4.59512)
    """
    a0, gap, s, depth = xp.broadcast_arrays(a0, gap, s, depth)
    terms = terms_of(getattr(xp, "dps", 16))
    at = start_of(xp, a0, s, depth, terms)
    a, change = s - gap, (s - a0) - gap
    l = _log_ratio(xp, a, a0, change)  # noqa: E741
    l = where(xp, at.big, -l, l)  # noqa: E741
    early = (l < at.end) & (~at.negative | at.big)
    first = _head_time(xp, xp.minimum(l, at.end), at.n, at.z0, at.series, at.rising)
    fall = _fall_time(xp, at, where(xp, at.big, xp.log(xp.abs(_ratio(xp, a, s))), l), early)
    fall = where(xp, at.big, _ratio(xp, fall, at.exchange), fall)
    tail = _ratio(
        xp, _tail_time(xp, at, _drop(xp, s, change, a0, gap), arithmetic.ratio(xp, gap, a), early), at.exchange
    )
    time = arithmetic.ratio(xp, where(xp, early, first, at.span + where(xp, at.negative, fall, tail)), at.pace)
    if arithmetic.is_object(xp):
        return time
    lost = unreachable(xp, a0, s) | unreachable(xp, gap, a) | xp.isinf(at.pace)
    lost = lost | ((at.n * at.end > _STEEPEST - 1) & (l > at.end))  # beyond a truncated head
    return where(xp, lost, full_like(xp, time, xp.nan), time)


def _drop(xp: Any, s: Any, change: Any, a0: Any, gap: Any) -> Any:
    """Return ``w0/w - 1``; for JAX without products, which underflow at targets below 1e-150."""
    if arithmetic.is_jax(xp):
        return xp.divide(s, a0) * xp.divide(change, gap)
    return s * change / (a0 * gap)


def _log_ratio(xp: Any, over: Any, under: Any, difference: Any) -> Any:
    """Return ``log(over/under)`` of two numbers of one sign, given their difference without cancellation."""
    change = arithmetic.ratio(xp, difference, under)
    close = xp.abs(change) < 1 / 2
    far_off = xp.log(where(xp, close, full_like(xp, change, 1), arithmetic.ratio(xp, over, under)))
    return where(xp, close, xp.log1p(where(xp, close, change, full_like(xp, change, 0))), far_off)


def _tail_time(xp: Any, at: Start, drop: Any, w: Any, early: Any) -> Any:
    """Return the time from `at.w` to `w`; for an initial value in the tail, the time to ``w0/w = 1 + drop``."""
    asked = ~at.negative & ~early
    whole = asked & (at.end == 0)
    w = where(xp, asked, w, at.w)
    x = where(xp, whole, xp.log1p(where(xp, whole, drop, full_like(xp, w, 0))), xp.log(arithmetic.ratio(xp, at.w, w)))
    return x + at.near_w - near(xp, w, at.m, at.ending)


def _fall_time(xp: Any, at: Start, l: Any, early: Any) -> Any:  # noqa: E741
    """Return the time to fall by the factor ``exp(l)``."""
    l = where(xp, at.negative & ~early, l, full_like(xp, l, 0))  # noqa: E741
    return -_head_time(xp, l, -at.m, at.z_fall, at.series_fall, at.falling)
