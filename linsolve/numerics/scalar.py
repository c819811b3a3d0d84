"""Scalar kernels: phi, integrals of exponentials, the logistic equation."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic

__all__ = [
    "broadcast",
    "column",
    "full_like",
    "integral_of_decay",
    "largest",
    "log1p_ratio",
    "logistic",
    "phi",
    "power",
    "root_of_twice",
    "smallest",
    "total",
    "uniform",
    "unless",
    "where",
]


_NUMBER = (float, int)  # np.float64 is a float


def where(xp: Any, flag: Any, yes: Any, no: Any) -> Any:
    """Return ``xp.where(flag, yes, no)``; by one NumPy flag, Python chooses a number or an array in 1/10 of the time.

    An array that is chosen so is returned as it is, not copied.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.scalar import where
    >>> two, flags = np.float64(2.0), np.array([True, False])
    >>> float(where(np, two > 3, two, 3)), where(np, flags, two, 3).tolist()
    (3.0, [2.0, 3.0])
    """
    if type(flag) is not np.bool_:
        return xp.where(flag, yes, no)
    found, other = (yes, no) if flag else (no, yes)
    if isinstance(other, _NUMBER):
        if isinstance(found, _NUMBER):
            return found if type(found) is np.float64 else np.float64(found)
        if arithmetic.is_double(found):
            return found
    elif type(found) is type(other) is np.ndarray and found.shape == other.shape and found.dtype == other.dtype:
        return found
    return xp.where(flag, yes, no)


def uniform(xp: Any, flags: Any) -> Any:
    """Return one flag of NumPy for flags that all are equal, others as they are: `where` then chooses one side.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.scalar import uniform
    >>> uniform(np, np.array([True, True])), uniform(np, np.array([True, False])).tolist()
    (np.True_, [True, False])
    """
    if xp is not np or type(flags) is not np.ndarray:
        return flags
    if flags.size == 1:
        return flags.reshape(())[()]
    count = np.count_nonzero(flags)
    return np.True_ if count == flags.size else flags if count else np.False_


def unless(xp: Any, flag: Any, x: Any, instead: float = 1) -> Any:
    """Return `x`, with the safe operand `instead` in the entries where `flag` holds."""
    return where(xp, flag, instead, x)


def full_like(xp: Any, x: Any, value: float) -> Any:
    """Return `value` in the shape of `x`: ``xp.full_like``, or one number of NumPy for one number."""
    return np.float64(value) if type(x) is np.float64 else xp.full_like(x, value)


def total(xp: Any, v: Any) -> Any:
    """Return ``xp.sum(v, axis=-1)``, of few numbers of NumPy in half the time."""
    return np.add.reduce(v, axis=-1) if xp is np else xp.sum(v, axis=-1)


def largest(xp: Any, v: Any) -> Any:
    """Return ``xp.max(v, axis=-1)``, of few numbers of NumPy in half the time."""
    return np.maximum.reduce(v, axis=-1) if xp is np else xp.max(v, axis=-1)


def column(x: Any) -> Any:
    """Return ``x[..., None]``, which broadcasts along an own axis; one number of NumPy as it is, in half the time."""
    return x if isinstance(x, np.generic) else x[..., None]


def broadcast(xp: Any, *values: Any) -> Any:
    """Return arrays of one shape: ``xp.broadcast_arrays``, or numbers of NumPy as they are."""
    return values if all(type(v) is np.float64 for v in values) else xp.broadcast_arrays(*values)


def power(xp: Any, exponent: int) -> float:
    """Return ``2^exponent``; where JAX computes in single precision, ``2^(exponent/8)``, the same share of the range.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.scalar import power
    >>> power(np, 540) == 2.0**540
    True
    """
    single = xp is not np and arithmetic.is_jax(xp) and arithmetic.precision(xp) > 2.0**-50
    return 2.0 ** (exponent // 8 if single else exponent)


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
    nonzero = unless(xp, x == 0, x)
    limit = arithmetic.first_order(xp, full_like(xp, x, 1), lambda: -x / 2)
    return where(xp, x == 0, limit, arithmetic.ratio(xp, -xp.expm1(-nonzero), nonzero))


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
    return xp.where(large, 2 * xp.sqrt(x / 2), xp.sqrt(2 * unless(xp, large, x)))


def log1p_ratio(xp: Any, x: Any) -> Any:
    """Return ``log(1 + x) / x``, equal to 1 at 0 and infinite at ``x <= -1``, outside the domain of the logarithm.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.numerics.scalar import log1p_ratio
    >>> log1p_ratio(np, np.array([0.0, 1e-12, 1.0, -1.0])).round(6).tolist()
    [1.0, 1.0, 0.693147, inf]
    """
    inside = unless(xp, (x == 0) | (x <= -1), x)
    limit = arithmetic.first_order(xp, xp.ones_like(x), lambda: -x / 2)
    ratio = xp.where(x == 0, limit, xp.log1p(inside) / inside)
    return unless(xp, x <= -1, ratio, xp.inf)


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
    for k, (other_bound, other) in enumerate(candidates[1:], 2):
        better = other_bound < bound
        value = where(xp, better, other, value)
        if k < len(candidates):
            bound = where(xp, better, other_bound, bound)
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
    x = xp.abs(rate * unless(xp, none, t, 0))
    short = x == 0 if arithmetic.is_object(xp) else x < 1 / 2**60  # the integral is t, also if x underflows
    done = -xp.expm1(-x) / unless(xp, none, xp.abs(rate))
    done = where(xp, uniform(xp, t < 0), -done, done)
    return where(xp, uniform(xp, short), t + full_like(xp, x, 0), done)


def logistic(xp: Any, t: Any, a0: Any, s: Any) -> tuple[Any, Any]:
    """Return ``a`` and ``s - a`` where ``a' = a (s - a)``, ``a(0) = a0``, each to full relative accuracy.

    With ``x = s t``, ``a = a0 / (r + (1 - r) exp(-x))`` for ``0 < r = a0/s <= 1``; for ``x < 0`` numerator and
    denominator are multiplied by ``exp(x)``, and ``1 - r`` is ``(s - a0)/s``, so that both terms are positive.
    Otherwise, with ``S = (1 - exp(-x))/s``, ``a = a0 / (exp(-x) + a0 S)`` for ``x >= 0``; for ``x < 0`` numerator and
    denominator are multiplied by ``exp(x)``. Nothing overflows, and for ``a0 >= 0, t >= 0`` nothing is subtracted.
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
    soon = unless(xp, flat, t, 0)
    x, below, forward = s * soon, _below(xp, a0, s), uniform(xp, t >= 0)
    if arithmetic.is_jax(xp):  # t = inf, a large number in JAX, has no derivative by s at s = 0
        soon = xp.where(t < 2.0**60, t, xp.zeros_like(t))
        x = xp.where(flat, arithmetic.first_order(xp, xp.zeros_like(x), lambda: s * soon), x)
        fall = -xp.abs(x)
    else:
        fall = xp.abs(s) * -xp.abs(soon)
    decay = xp.exp(fall)
    if below is np.True_ and forward is np.True_:
        den = _sum_below(xp, a0, s, below, forward, decay)
        return where(xp, uniform(xp, decay == 0), s, a0 / den), (s - a0) * decay / den
    rising, done = x >= 0, -xp.expm1(fall)
    down, up = where(xp, rising, decay, 1), unless(xp, rising, decay)
    still = 1 - fall == 1
    rate = 1 / unless(xp, flat | still if arithmetic.is_jax(xp) else flat, s)  # its derivative may overflow
    # at a0 = 0, s = 0 and t = inf the integral is infinite, but its product with a0 is 0
    early = unless(xp, a0 == 0, t, 0)
    if arithmetic.is_jax(xp):
        early = arithmetic.first_order(xp, early, lambda: -x * soon / 2)
    integral = where(xp, still, early, rate * where(xp, rising, done, -done))
    # where a0 S may overflow, numerator and denominator are divided by a0; at t = 0 the quotient would be rounded
    huge = (xp.abs(a0) > 1) & ((xp.abs(a0) > 2.0**100) | (xp.abs(t) > 2.0**900)) & ~below
    if not arithmetic.is_object(xp):
        huge = huge & (t != 0)
    top, unit = unless(xp, huge, a0), 1 / where(xp, huge, a0, 1)
    den = down * unit + top * integral
    if below is not np.False_:
        den = where(xp, below, _sum_below(xp, a0, s, below, forward, decay), den)
    # a0 = 0 is stationary; otherwise the denominator is positive while the solution exists
    safe = unless(xp, (a0 == 0) | (den == 0), den)
    settled = (down == 0) & (a0 != 0)  # a0 S may underflow, but a = s
    if not (arithmetic.is_object(xp) or arithmetic.is_jax(xp)):
        settled = settled | (a0 == s)  # stationary, whatever the rounding of the denominator
    return where(xp, settled, s, top * up / safe), where(xp, a0 == 0, s, (s - a0) * unit * down / safe)


def _below(xp: Any, a0: Any, s: Any) -> Any:
    """Return where ``0 < a0 <= s``, and neither ``a0/s`` nor ``1/s`` underflow or overflow."""
    if arithmetic.is_object(xp) or arithmetic.is_jax(xp):
        return np.False_
    return uniform(xp, (s >= 2.0**-500) & (a0 <= s) & (a0 >= s * 2.0**-500))


def _sum_below(xp: Any, a0: Any, s: Any, below: Any, forward: Any, decay: Any) -> Any:
    """Return ``r + (1 - r) exp(-x)``, backward in time times ``exp(x)``.

    It is exactly 1 at ``x = 0``, as the error of ``1 - r`` is lost in the sum; backward this error may be all of it.
    """
    target = unless(xp, ~below, s)
    share = unless(xp, ~below, a0 / target)
    if forward is np.True_:
        return share + (1 - share) * decay
    return where(xp, forward, share + (1 - share) * decay, (target - a0) / target + share * decay)
