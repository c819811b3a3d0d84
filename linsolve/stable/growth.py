"""The depth-L growth law ``a' = depth |a|^(2 - 2/depth) (s - a)``: its start, its series, and the time it takes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linsolve.stable.scalar import phi

__all__ = ["Start", "deep_growth_time", "head", "near", "start_of", "terms_of"]

_LONGEST = 700  # of a logarithm: exp of it is still a double
_STEEPEST = 600  # of n times a logarithm, so that products of such powers with other numbers are
_BLOCK = 16  # series terms come in multiples of it


class Start(NamedTuple):
    """Where a growth starts, in the variables in which its time has no cancellation; every field of shape batch.

    With ``y = a/s`` the path has a head, far from the fixed point, and a tail. In the head ``z = y`` where
    ``|a0| <= |s|`` and ``z = 1/y`` elsewhere, so that ``|z|`` only grows, ``l = log(z/z0)``, and in units of the
    start's own clock time is ``head(l) = int_0^l exp(n l') / (1 - z0 exp(l')) dl'`` with ``n = 2/depth - 1`` or
    ``n = 2 - 2/depth``. It ends at ``|s/a - 1| = 3/5``, or at ``a = -s`` where start and `s` differ in sign; below
    that, `a` falls toward 0 with ``z = y``, ``l < 0``.

    Parameters
    ----------
    n, z0, series : array
        Exponent and start of the head, and ``z0^2 far(z0)``.
    end, span : array
        ``l`` and time (own clock) at the end of the head, 0 where the start lies beyond it.
    pace, exchange : array
        Own clock per time; and unit of the tail's clock, ``|s|^(2 - 2/depth)`` times time, per own clock.
    w, near_w : array
        ``s/a - 1`` where the tail begins, and `near` of it.
    z_fall, series_fall : array
        The same as `z0` and `series` where the fall begins.
    m : array
        ``1 - 2/depth``.
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
    big: Any
    negative: Any


def terms_of(digits: int) -> int:
    """Return how many terms of a power series in 5/8, the slowest here, give `digits` decimal digits."""
    return -(-5 * digits // _BLOCK) * _BLOCK


def _series(xp: Any, x: Any, up: Any, down: Any, lower: int, terms: int) -> Any:
    """Return ``1 + r_1 (1 + r_2 (...))``, the series of term ratios ``r_k = x (k + up) k / ((k + down) (k + lower))``.

    By Horner's rule; in multiple precision, in integers with a common binary point, as fast as that arithmetic's own
    special functions.
    """
    if hasattr(xp, "dps"):
        return _series_of_integers(xp, x, up, down, lower, terms)
    total = xp.ones_like(x)
    for k in range(terms, 0, -1):
        total = 1 + (k + up) * k / ((k + down) * (k + lower)) * x * total
    return total


def _series_of_integers(xp: Any, x: Any, up: Any, down: Any, lower: int, terms: int) -> Any:
    bits, ldexp = terms * 7 // 10 + 64, xp.context.ldexp  # a term of `far` is worth 0.68 bits
    one = 1 << bits
    x, up, down = (
        np.array([int(ldexp(v, bits)) for v in a.flat], dtype=object).reshape(a.shape)
        for a in (a.view(np.ndarray) for a in (x, up, down))
    )
    k = np.array(range(1, terms + 1), dtype=object).reshape((terms,) + (1,) * x.ndim)
    inner = (k * one + up) * k * x // ((k * one + down) * (k + lower))
    outer = np.full_like(inner, one)
    for _ in range(_BLOCK.bit_length() - 1):  # the nest halved, to call NumPy less often
        outer = outer[0::2] + (inner[0::2] * outer[1::2] >> bits)
        inner = inner[0::2] * inner[1::2] >> bits
    total = np.full(inner.shape[1:], one, dtype=object)
    for a, b in zip(outer[::-1], inner[::-1], strict=True):
        total = np.asarray(a + (b * total >> bits), dtype=object)
    return xp.pack([ldexp(xp.element(v), -bits) for v in total.flat], total.shape)


def far(xp: Any, z: Any, q: Any, terms: int, below: Any = None) -> Any:
    """Return ``sum_k z^k/(k + q) = 2F1(1, q; 1 + q; z)/q`` for ``-1 <= z <= 5/8``, ``q > 0``, from positive terms.

    For ``z < 0`` (`below`, where that is known without z) by Pfaff's transformation
    ``sum_k k!/(1 + q)_k x^k / (q (1 - z))``, ``x = z/(z - 1) <= 1/2``.
    """
    below = z < 0 if below is None else below
    x = xp.where(below, -z / (1 + xp.abs(z)), z)
    first = xp.where(below, xp.ones_like(q), q)
    total = _series(xp, x, first - 1, q, 0, terms)
    return total / (q * xp.where(below, 1 - z, xp.ones_like(z)))


def near(xp: Any, w: Any, m: Any, terms: int) -> Any:
    """Return ``sum_{k >= 1} binom(m, k) w^k / k``, the integral of ``((1 + u)^m - 1)/u`` from 0 to ``|w| <= 3/5``."""
    return m * w * _series(xp, -w, -m, xp.ones_like(m), 1, terms)


def head(
    xp: Any,
    l: Any,  # noqa: E741
    n: Any,
    z0: Any,
    series: Any,
    terms: int,
    below: Any = None,
) -> tuple[Any, Any, Any]:
    """Return ``int_0^l exp(n l')/(1 - z0 exp(l')) dl'``, ``exp(n l)`` and ``z0 exp(l)``, for `l` of either sign.

    The first two terms of the geometric series are integrated as they stand, regular at ``n = 0`` and ``n = -1`` (depth
    2 and inf); the rest is `far`, at both ends, of which `series` is the one at the start; `below` says where
    ``z0 < 0``, and what it likes where ``z0 = 0``.
    """
    z, power = z0 * xp.exp(l), xp.exp(n * l)
    # (exp((n + 1) l) - 1)/(n + 1) from decaying exponentials on both sides
    second = xp.where(l < 0, z0 + 0 * z, z * power) * l * phi(xp, (n + 1) * xp.abs(l))
    return l * phi(xp, -n * l) + second + z * z * power * far(xp, z, n + 2, terms, below) - series, power, z


def _ratio(xp: Any, over: Any, under: Any) -> Any:
    return over / xp.where(under == 0, xp.ones_like(under), under)


def start_of(xp: Any, a0: Any, s: Any, depth: Any, terms: int) -> Start:
    """Return the `Start` of arrays of one shape; ``a0 = 0`` and depths without a solution must be masked before."""
    b = 2 / depth
    m, gain = 1 - b, xp.where(xp.isinf(depth), xp.ones_like(depth), depth)
    size, goal = xp.abs(a0), xp.abs(s)
    big = size > goal
    z0 = xp.where(big, _ratio(xp, s, a0), _ratio(xp, a0, s))
    negative, z = z0 < 0, xp.abs(z0)
    n = xp.where(big, 2 - b, -m)
    one = xp.ones_like(z0)
    top = xp.where(negative, xp.where(big, one, z), xp.where(big, 2 * one / 5, 5 * one / 8))
    inside = z < top
    end = xp.where(inside, xp.log(_ratio(xp, top, z)), 0 * one)
    end = xp.where(z == 0, _LONGEST * one, end)
    end = xp.minimum(end, _STEEPEST / xp.where(n * end > _STEEPEST, n, one * _STEEPEST / _LONGEST))
    w = xp.where(inside | negative, xp.where(big, -3 * one, 3 * one) / 5, _ratio(xp, s - a0, a0))
    series = z0 * z0 * far(xp, z0, n + 2, terms)
    z_fall = xp.where(negative, xp.where(big, -one, z0), 0 * one)
    return Start(
        n=n,
        z0=z0,
        series=series,
        end=end,
        span=head(xp, end, n, z0, series, terms)[0],
        pace=gain * xp.where(big, xp.pow(size, 2 - b), xp.pow(size, m) * goal),
        exchange=xp.pow(xp.where(z == 0, one, z), n),
        w=w,
        near_w=near(xp, w, m, terms),
        z_fall=z_fall,
        series_fall=z_fall * z_fall * far(xp, z_fall, 2 - m, terms),
        m=m,
        big=big,
        negative=negative,
    )


def deep_growth_time(xp: Any, a0: Any, gap: Any, s: Any, depth: Any) -> Any:
    """Return the time at which the growth law, started at `a0`, has the distance ``s - a = gap`` to its fixed point.

    Parameters
    ----------
    xp : namespace
    a0, gap, s, depth : array
        Start, not 0; distance, not 0, between that of the start and that of the limit; fixed point; depth > 1 (at
        least 2 where ``a0 s < 0``). Shapes broadcast.

    Returns
    -------
    array
        Time, by the closed form: no iteration.
    """
    a0, gap, s, depth = xp.broadcast_arrays(a0, gap, s, depth)
    terms = terms_of(getattr(xp, "dps", 16))
    at = start_of(xp, a0, s, depth, terms)
    a, change = s - gap, (s - a0) - gap
    l = _log_ratio(xp, a, a0, change)  # noqa: E741
    l = xp.where(at.big, -l, l)  # noqa: E741
    early = (l < at.end) & (~at.negative | at.big)
    first = head(xp, xp.minimum(l, at.end), at.n, at.z0, at.series, terms)[0]
    fall = _fall_time(xp, at, xp.where(at.big, xp.log(xp.abs(_ratio(xp, a, s))), l), early, terms)
    fall = xp.where(at.big, _ratio(xp, fall, at.exchange), fall)
    tail = _ratio(xp, _tail_time(xp, at, s * change / (a0 * gap), gap / a, early, terms), at.exchange)
    return xp.where(early, first, at.span + xp.where(at.negative, fall, tail)) / at.pace


def _log_ratio(xp: Any, over: Any, under: Any, difference: Any) -> Any:
    """Return ``log(over/under)`` of two numbers of one sign, given their difference without cancellation."""
    change = difference / under
    close = xp.abs(change) < 1 / 2
    far_off = xp.log(xp.where(close, xp.ones_like(change), over / under))
    return xp.where(close, xp.log1p(xp.where(close, change, xp.zeros_like(change))), far_off)


def _tail_time(xp: Any, at: Start, drop: Any, w: Any, early: Any, terms: int) -> Any:
    """Return the time from `at.w` to `w`, or, from a start in the tail, to where ``w0/w = 1 + drop``."""
    asked = ~at.negative & ~early
    whole = asked & (at.end == 0)
    w = xp.where(asked, w, at.w)
    x = xp.where(whole, xp.log1p(xp.where(whole, drop, xp.zeros_like(w))), xp.log(at.w / w))
    return x + at.near_w - near(xp, w, at.m, terms)


def _fall_time(xp: Any, at: Start, l: Any, early: Any, terms: int) -> Any:  # noqa: E741
    """Return the time to fall by the factor ``exp(l)``."""
    l = xp.where(at.negative & ~early, l, xp.zeros_like(l))  # noqa: E741
    return -head(xp, l, -at.m, at.z_fall, at.series_fall, terms)[0]
