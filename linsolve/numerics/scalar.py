"""Scalar kernels: phi, the logistic equation, the scalar Riccati equation."""

from __future__ import annotations

from typing import Any

from linsolve import arithmetic

__all__ = [
    "integral_of_decay", "log1p_ratio", "logistic", "phi", "riccati", "riccati_lifetime", "root_of_twice", "smallest",
]  # fmt: skip


def phi(xp: Any, x: Any) -> Any:
    """Return ``(1 - exp(-x)) / x``, equal to 1 at 0 and to 0 at infinity.

    ``t phi(lam t)`` is the integral of ``exp(-lam s)`` from 0 to t, for every real ``lam``.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.scalar import phi
    >>> phi(np, np.asarray([0.0, 1e-12, np.inf])).tolist()
    [1.0, 0.9999999999995, 0.0]
    """
    nonzero = xp.where(x == 0, xp.ones_like(x), x)
    limit = arithmetic.first_order(xp, xp.ones_like(x), lambda: -x / 2)
    return xp.where(x == 0, limit, -xp.expm1(-nonzero) / nonzero)


def root_of_twice(xp: Any, x: Any) -> Any:
    """Return ``sqrt(2 x)``, without overflow of ``2 x``.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.scalar import root_of_twice
    >>> root_of_twice(np, np.array([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    large = x > 1
    return xp.where(large, 2 * xp.sqrt(x / 2), xp.sqrt(2 * xp.where(large, xp.ones_like(x), x)))


def log1p_ratio(xp: Any, x: Any) -> Any:
    """Return ``log(1 + x) / x``, equal to 1 at 0 and infinite at ``x <= -1``, outside the domain of the logarithm.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.scalar import log1p_ratio
    >>> log1p_ratio(np, np.array([0.0, 1e-12, 1.0, -1.0])).round(6).tolist()
    [1.0, 1.0, 0.693147, inf]
    """
    inside = xp.where((x == 0) | (x <= -1), xp.ones_like(x), x)
    limit = arithmetic.first_order(xp, xp.ones_like(x), lambda: -x / 2)
    ratio = xp.where(x == 0, limit, xp.log1p(inside) / inside)
    return xp.where(x <= -1, xp.full_like(x, xp.inf), ratio)


def smallest(xp: Any, *candidates: tuple[Any, Any]) -> Any:
    """Return, elementwise, the value of the candidate ``(bound, value)`` with the smallest bound.

    The candidates are expressions that are equal in exact arithmetic. The rounding error of each is proportional to the
    sum of the magnitudes of its terms, its bound.

    Parameters
    ----------
    xp : namespace
    *candidates : (array, array)
        Bound and value of each candidate; for equal bounds the earlier one is chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.scalar import smallest
    >>> candidates = (np.array([1.0, 3.0]), np.array([10.0, 10.0])), (np.array([2.0, 2.0]), np.array([20.0, 20.0]))
    >>> smallest(np, *candidates).tolist()  # of bounds 1 and 2, then of 3 and 2
    [10.0, 20.0]
    """
    bound, value = candidates[0]
    for other_bound, other in candidates[1:]:
        better = other_bound < bound
        value = xp.where(better, other, value)
        bound = xp.where(better, other_bound, bound)
    return value


def integral_of_decay(xp: Any, t: Any, rate: Any) -> Any:
    """Return ``sign(t)`` times the integral of ``exp(-|rate| s)`` from 0 to ``|t|``, also at ``t = inf`` or rate 0.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.scalar import integral_of_decay
    >>> integral_of_decay(np, np.array([2.0, np.inf, 2.0]), np.array([0.0, 4.0, 4.0])).round(6).tolist()
    [2.0, 0.25, 0.249916]
    """
    none = rate == 0
    x = xp.abs(rate * xp.where(none, xp.zeros_like(t), t))
    short = x == 0 if arithmetic.is_object(xp) else x < 1 / 2**60  # the integral is t, also if x underflows
    done = -xp.expm1(-x) / xp.where(none, xp.ones_like(x), xp.abs(rate))
    return xp.where(short, t + xp.zeros_like(x), xp.where(t < 0, -done, done))


def logistic(xp: Any, t: Any, a0: Any, s: Any) -> tuple[Any, Any]:
    """Return ``a`` and ``s - a`` where ``a' = a (s - a)``, ``a(0) = a0``, each to full relative accuracy.

    With ``x = s t`` and ``S = (1 - exp(-x))/s``, ``a = a0 / (exp(-x) + a0 S)`` for ``x >= 0``. For ``x < 0`` numerator
    and denominator are multiplied by ``exp(x)``. Nothing overflows, and for ``a0 >= 0, t >= 0`` nothing is subtracted.
    Where ``1 + x`` rounds to 1, ``S = t``.

    Parameters
    ----------
    xp : namespace
    t, a0, s : array
        Time (inf allowed), initial value, and stable (``s > 0``) or unstable (``s < 0``) fixed point; shapes broadcast.

    Returns
    -------
    a, gap : array
        The solution and its distance ``s - a`` to the fixed point.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.scalar import logistic
    >>> a, gap = logistic(np, np.array([0.0, 1.0, np.inf]), np.array(0.5), np.array(1.0))  # 1/(1 + exp(-t))
    >>> a.round(6).tolist(), gap.round(6).tolist()
    ([0.5, 0.731059, 1.0], [0.5, 0.268941, 0.0])
    """
    flat = s == 0 if arithmetic.is_object(xp) else xp.abs(s) < 1 / 2**1022  # 1/s would overflow
    x = s * xp.where(flat, xp.zeros_like(t), t)
    if arithmetic.is_jax(xp):  # t = inf, a large number in JAX, has no derivative by s at s = 0
        soon = xp.where(t < 2.0**60, t, xp.zeros_like(t))
        x = xp.where(flat, arithmetic.first_order(xp, xp.zeros_like(x), lambda: s * soon), x)
    size, rising = xp.abs(x), x >= 0
    decay, done = xp.exp(-size), -xp.expm1(-size)
    down = xp.where(rising, decay, xp.ones_like(x))
    up = xp.where(rising, xp.ones_like(x), decay)
    still, rate = 1 + size == 1, 1 / xp.where(flat, xp.ones_like(s), s)
    # at a0 = 0, s = 0 and t = inf the integral is infinite, but its product with a0 is 0
    early = xp.where(a0 == 0, xp.zeros_like(t), t)
    if arithmetic.is_jax(xp):
        early = arithmetic.first_order(xp, early, lambda: -x * soon / 2)
    integral = xp.where(still, early, rate * xp.where(rising, done, -done))
    # where a0 S may overflow, numerator and denominator are divided by a0
    huge = (xp.abs(a0) > 1) & ((xp.abs(a0) > 2.0**100) | (xp.abs(t) > 2.0**900))
    top, unit = xp.where(huge, xp.ones_like(a0), a0), 1 / xp.where(huge, a0, xp.ones_like(a0))
    den = down * unit + top * integral
    # a0 = 0 is stationary; otherwise the denominator is positive while the solution exists
    safe = xp.where((a0 == 0) | (den == 0), xp.ones_like(den), den)
    settled = (down == 0) & (a0 != 0)  # a0 S may underflow, but a = s
    return xp.where(settled, s, top * up / safe), xp.where(a0 == 0, s, (s - a0) * unit * down / safe)


def _discriminant(xp: Any, A: Any, b: Any, C: Any) -> tuple[Any, Any]:
    """Return ``w = sqrt(|b^2 + A C|)`` and the mask ``b^2 + A C > 0`` (hyperbolic), without overflow of the squares."""
    root = xp.sqrt(xp.abs(A)) * xp.sqrt(xp.abs(C))
    same = xp.sign(A) * xp.sign(C) >= 0
    size = xp.abs(b)
    w = xp.where(same, xp.hypot(b, root), xp.sqrt(xp.abs(size - root)) * xp.sqrt(size + root))
    return w, same | (size >= root)


def _slope(a0: Any, A: Any, B: Any, C: Any) -> Any:
    return C + a0 * (B - A * a0)


def riccati(xp: Any, t: Any, a0: Any, A: Any, B: Any, C: Any) -> Any:
    """Return the solution of ``a' = C + B a - A a^2``, ``a(0) = a0``, for real coefficients of any sign and magnitude.

    With ``w^2 = B^2/4 + A C``, ``T = tanh(w t)/w`` (``tan`` where ``w^2 < 0``) and ``v0`` the initial velocity,
    ``a = a0 + v0 T / (1 + (A a0 - B/2) T)``. Numerator and denominator are evaluated from decaying exponentials
    only. Where their two terms have opposite signs, the difference is computed from ``w^2 - k^2 = A v0``.

    Parameters
    ----------
    xp : namespace
    t : array
        Time inside `riccati_lifetime`; may be negative or infinite.
    a0, A, B, C : array
        Initial value and coefficients; shapes broadcast.

    Returns
    -------
    array
        At ``t = 0`` bitwise equal to `a0`.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.scalar import riccati
    >>> one, t = np.array(1.0), np.array([0.0, 0.5, np.inf])
    >>> riccati(np, t, 0 * one, one, 0 * one, one).round(6).tolist()  # a' = 1 - a^2: tanh t
    [0.0, 0.462117, 1.0]
    >>> round(float(riccati(np, t[1], 0 * one, -one, 0 * one, one)), 6)  # a' = 1 + a^2: tan t
    0.546302
    """
    flip = xp.where(t < 0, -xp.ones_like(t), xp.ones_like(t))
    t, A, B, C = xp.abs(t), A * flip, B * flip, C * flip
    b, v0 = B / 2, _slope(a0, A, B, C)
    w, hyperbolic = _discriminant(xp, A, b, C)
    k = A * a0 - b
    turn = w * xp.where(hyperbolic | (w == 0), xp.zeros_like(t + w), t)
    u = 2 * w * xp.where(w == 0, xp.zeros_like(t), t)
    u = xp.where(hyperbolic, u, xp.zeros_like(u))
    e2 = xp.exp(-u)
    real = 2 * integral_of_decay(xp, t, 2 * xp.where(hyperbolic, w, xp.ones_like(w)))
    spin = xp.sin(turn) / xp.where(w == 0, xp.ones_like(w), w)
    even = xp.where(hyperbolic, 1 + e2, xp.cos(turn))
    odd = xp.where(hyperbolic, real, spin)
    scale = xp.where(odd > 1, odd, xp.ones_like(odd))
    even, odd = even / scale, xp.where(odd > 1, xp.ones_like(odd), odd)
    late = hyperbolic & (u > 1)
    den = _weighted(xp, k, A * v0, w, e2 / scale, even, odd, scale, late)
    num = _weighted(xp, b, A * C, w, e2 / scale, even, odd, scale, late)
    still = (v0 == 0) | (den == 0)
    safe = xp.where(still, xp.ones_like(den), den)
    change = xp.where(still, xp.zeros_like(den), v0 * odd / safe)
    quotient = (a0 * num + C * odd) / safe
    return smallest(
        xp,
        (xp.abs(a0) + xp.abs(change), a0 + change),
        (xp.where(still, xp.full_like(den, xp.inf), (xp.abs(a0 * num) + xp.abs(C * odd)) / xp.abs(safe)), quotient),
    )


def _weighted(xp: Any, k: Any, gap: Any, w: Any, e2: Any, even: Any, odd: Any, scale: Any, late: Any) -> Any:
    """Return ``even + k odd``; for late times and ``k < 0`` from ``gap = w^2 - k^2``, which avoids cancellation."""
    through_gap = late & (k < 0)
    size = xp.where(through_gap, xp.abs(k), xp.zeros_like(k))
    root = xp.where(through_gap, w, xp.ones_like(w))
    return xp.where(through_gap, gap / (root + size) / (root * scale) + (1 + size / root) * e2, even + k * odd)


def riccati_lifetime(xp: Any, a0: Any, A: Any, B: Any, C: Any) -> tuple[Any, Any]:
    """Return the open interval of time around 0 on which the solution of `riccati` is finite.

    Parameters
    ----------
    xp : namespace
    a0, A, B, C : array
        Initial value and coefficients of `riccati`; shapes broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.scalar import riccati_lifetime
    >>> ends = riccati_lifetime(np, np.array(0.0), np.array(-1.0), np.array(0.0), np.array(1.0))  # tan t
    >>> [round(float(end / np.pi), 6) for end in ends]
    [-0.5, 0.5]
    """
    return -_blow_up(xp, a0, -A, -B, -C), _blow_up(xp, a0, A, B, C)


def _blow_up(xp: Any, a0: Any, A: Any, B: Any, C: Any) -> Any:
    b, v0 = B / 2, _slope(a0, A, B, C)
    w, hyperbolic = _discriminant(xp, A, b, C)
    k = A * a0 - b
    one = xp.ones_like(k + w)
    # hyperbolic: 1 + k T = 0 requires k < -w, that is A v0 = w^2 - k^2 < 0
    ends = hyperbolic & (k < 0) & (A * v0 < 0)
    size = xp.where(ends, w - k, one)
    x = xp.where(ends, 2 * w, 0 * one) / size
    near = log1p_ratio(xp, -xp.where(x > 1 / 2, 0 * one, x)) / size
    ratio = xp.where(ends & (x > 1 / 2), xp.abs(A * v0) / size / size, one)
    far = -xp.log(ratio) / xp.where(ends & (x > 1 / 2), 2 * w, one)
    real = xp.where(ends, xp.where(x > 1 / 2, far, near), xp.full_like(one, xp.inf))
    spin = xp.where(hyperbolic, one, w)
    turn = xp.atan2(spin, -k) / spin
    return xp.where(hyperbolic, real, turn)
