r"""The hyperbolic rotation that solves every two-layer linear network with data on a line.

Let p and q be the vectors of `TwoLayer` times ``|gamma|``, f the output, y the target and ``r = f - y`` the residual,
with ``g f = |p|^2 - |q|^2``. From ``p' = -2 g r p`` and ``q' = 2 g r q`` the two vectors keep their directions:
``p = p0 exp(theta)``, ``q = q0 exp(-theta)``. With ``c^2 = g^2 y^2 + 4 |p0|^2 |q0|^2``, ``e = exp(-2 c t)``,
``W = (1 - e^2)/(2 c)``,

.. math:: e^{2\theta} = \frac{N}{D}, \quad N = e^2 + (c + g y + 2 |q_0|^2) W, \quad D = e^2 + (c - g y + 2 |p_0|^2) W,
    \quad r = r_0 \frac{e^2}{N D}, \quad \sinh\theta = -\frac{g r_0 W}{\sqrt{N D}} .

For ``t >= 0`` every sum has terms of one sign; for ``t < 0`` the differences are rationalized. Only the square roots of
N, D, ``|p|^2``, ``|q|^2`` are formed, so that initial weights of 1e-150 do not underflow. Networks with smaller initial
weights leave the saddle after e has underflowed, and ``exp(theta)`` may overflow earlier. For these, e is stored as two
factors, and p, q and the roots are multiplied by a power of two, the unit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.numerics.double_double import DoubleDouble, two_prod
from linsolve.numerics.scalar import full_like, integral_of_decay, power, smallest, uniform, unless, where
from linsolve.systems.two_layer.moderate_rotation import moderate

__all__ = [
    "Rotation",
    "RotationFixed",
    "RotationStart",
    "forward",
    "roots",
    "rotated_output",
    "rotation",
    "still",
    "tangent_kernel",
    "unit_for",
    "where_moved",
]


class RotationStart(NamedTuple):
    """Initial values of the rotation, shape batch.

    Parameters
    ----------
    p, q : array
        Lengths ``|p0|, |q0|`` times `unit`; the initial tangent kernel is ``K0 = 2 (p^2 + q^2) / unit^2``.
    g : array
        Coupling, signed: ``g f0 = p^2 - q^2``.
    y, f0, r0, r0_low : array
        Target, output, residual ``f0 - y`` correctly rounded, and the rounding error of the residual.
    c : DoubleDouble
        Convergence rate ``hypot(g y, 2 p q)``.
    mild : array of bool
        Whether ``2^-99 < p, q < 2^99`` and ``|g|, |y| < 2^99``. Then N and D, which change from 1 to
        ``(c + g y + 2 q^2)/(2 c)`` and ``(c - g y + 2 p^2)/(2 c)``, stay between ``2^-400`` and ``2^400``. False in
        object arithmetic.
    unit : array
        Power of two from `unit_for`; 1 unless the weights are so small that N or D would leave the range of doubles.
    """

    p: Any
    q: Any
    g: Any
    y: Any
    f0: Any
    r0: Any
    r0_low: Any
    c: Any
    mild: Any
    unit: Any

    @classmethod
    def of(
        cls,
        p: DoubleDouble,
        q: DoubleDouble,
        g: DoubleDouble,
        y: Any,
        f0: DoubleDouble,
        r0: DoubleDouble | None = None,
        about: tuple[Any, Any, Any] | None = None,
        unit: Any = None,
    ) -> RotationStart:
        """Return the initial values from the lengths times `unit`, coupling, target and output in double-double.

        `r0` is the residual, if it is known more accurately than the difference of output and target. `about` holds
        ``|p0|``, ``|q0|`` and ``g`` up to a few rounding errors, from formulas that interval arithmetic can bound.
        """
        r0 = f0 - y if r0 is None else r0
        target = y.hi if isinstance(y, DoubleDouble) else y
        unit = full_like(p.xp, p.hi, 1) if unit is None else unit
        plain_p, twice_q = p.scaled(1 / unit), q.scaled(2 / unit)
        mild = _mild(p.xp, *(about or (plain_p.hi, twice_q.hi / 2, g.hi)), target)
        c = (g * y).hypot(plain_p * twice_q)
        return cls(p.hi, q.hi, g.hi, target, f0.hi, r0.hi, r0.lo, c, mild, unit)

    @property
    def lengths(self) -> tuple[Any, Any]:
        """Return ``|p0|, |q0|`` without the unit; values below 1e-307 are rounded to subnormal numbers."""
        return self.p * (1 / self.unit), self.q * (1 / self.unit)


def _mild(xp: Any, p: Any, q: Any, g: Any, y: Any) -> Any:
    """Return `RotationStart.mild`."""
    if arithmetic.is_object(xp):
        return xp.zeros_like(p + q) != 0
    low, high = 1 / power(xp, 99), power(xp, 99)
    # compare g and y separately: their product may overflow
    return (p > low) & (p < high) & (q > low) & (q < high) & (xp.abs(g) < high) & (xp.abs(y) < high)


def unit_for(xp: Any, tiny: Any, like: Any) -> Any:
    """Return the unit: ``2^540`` where the initial weights are `tiny` (below ``2^-50``), else 1."""
    one = full_like(xp, like, 1)
    return one if arithmetic.is_object(xp) else unless(xp, tiny, one, power(xp, 540))


class RotationFixed(NamedTuple):
    """Further quantities of the rotation that do not depend on time.

    Parameters
    ----------
    n, m : array, shape batch
        Roots of ``c + g y + 2 q^2`` and ``c - g y + 2 p^2``, times the unit.
    kernel : array, shape batch
        Root of the initial tangent kernel, times the unit.
    moderate : bool
        Whether all initial values are `mild` numbers of NumPy in units of 1 and not stationary.
    rate : float
        The smallest ``4 c``.
    """

    n: Any
    m: Any
    kernel: Any
    moderate: bool
    rate: float

    @classmethod
    def of(cls, xp: Any, start: RotationStart) -> RotationFixed:
        """Return the quantities of initial values."""
        _, (n, m) = forward(xp, start)
        kernel = xp.sqrt(full_like(xp, start.p, 2)) * xp.hypot(start.p, start.q)
        if xp is not np:
            return cls(n, m, kernel, False, 0.0)
        plain = arithmetic.holds(start.mild & (start.unit == 1) & (start.r0 != 0), everywhere=True)
        return cls(n, m, kernel, plain, 4 * float(np.min(start.c.hi)))


class Rotation(NamedTuple):
    """The rotation at times t, shape t.shape + batch.

    Parameters
    ----------
    up, down : array
        Factors of the vectors p and q: ``exp(theta)`` and ``exp(-theta)``, divided by the unit. At a saddle the factor
        of a zero vector would be infinite; it is replaced by a finite number.
    lift : array
        ``-sinh(theta) / (g r0)``; see `tame`.
    bend : array
        ``(cosh(theta) - 1) / (2 (g r0)^2 lift)``, without cancellation.
    fade, done : array
        ``sqrt(r / r0)`` and ``1 - r / r0``, each to full relative accuracy.
    tame : array of bool
        Whether `lift` and `bend` are finite. In the limit at a saddle they are not, and are set to 0.
    moved : array of bool
        False at ``t = 0`` and for stationary weights; there the other fields may have a few rounding errors.
    """

    up: Any
    down: Any
    lift: Any
    bend: Any
    fade: Any
    done: Any
    tame: Any
    moved: Any


def still(start: RotationStart) -> Any:
    """Return whether the initial weights are stationary: at the saddle or on the target."""
    return ((start.p == 0) & (start.q == 0)) | (start.r0 == 0)


def _age(xp: Any, t: Any, start: RotationStart) -> tuple[Any, Any]:
    """Return ``|t|``, and whether it is infinite while ``c`` is 0 or so small that ``1/c`` overflows.

    In floats ``|t|`` is capped at a time at which all functions of ``c t`` have reached their limits.
    """
    age, c = xp.abs(t), start.c.hi
    if arithmetic.is_object(xp):
        endless = (c == 0) & xp.isinf(age)
        return unless(xp, endless, age, 0), endless
    flat = uniform(xp, ~start.mild & (c < 1 / power(xp, 960)))
    endless = flat & xp.isinf(age) if arithmetic.holds(flat) else flat
    end = unless(xp, start.mild, 1000 / unless(xp, flat, c), power(xp, 700))
    age = where(xp, ~flat & (age > end), end, age)
    return unless(xp, endless, age, 0), endless


def _decay(xp: Any, age: Any, start: RotationStart) -> tuple[Any, Any]:
    """Return ``exp(-2 c age)`` as two factors, since the product may underflow; the second is 1 for `mild` values.

    The rounding error of the exponent is corrected, because the exponential amplifies it.
    """
    c = start.c
    if arithmetic.is_object(xp):
        main = xp.exp(-2 * c.hi * age)
        return main, xp.ones_like(main)
    less = unless(xp, start.mild, full_like(xp, c.hi, -1), -2)
    late, scaled = age > power(xp, 900), (c.hi, age)
    if arithmetic.holds(late):  # two_prod overflows beyond 2^996
        shift = unless(xp, late, full_like(xp, age, 1), power(xp, 500))
        scaled = c.hi * shift, age / shift
    _, error = two_prod(xp, *scaled)
    main = xp.exp(less * c.hi * age) * (1 + less * (error + c.lo * age))
    return main, unless(xp, start.mild, main)


def roots(xp: Any, a: Any, hypotenuse: Any, leg: Any, unit: Any) -> tuple[Any, Any]:
    """Return `unit` times the square roots of ``hypotenuse + a`` and ``hypotenuse - a``.

    `leg` is a product of two lengths that each contain the unit: ``hypotenuse^2 = a^2 + (leg/unit^2)^2``.
    """
    large = xp.sqrt(hypotenuse + xp.abs(a)) * unit
    small = leg / unless(xp, large == 0, large)
    return where(xp, a >= 0, large, small), where(xp, a >= 0, small, large)


def forward(xp: Any, start: RotationStart) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return the roots of ``c + g y``, ``c - g y`` and of ``c + g y + 2 q^2``, ``c - g y + 2 p^2``, times the unit."""
    parts = roots(xp, start.g * start.y, start.c.hi, 2 * start.p * start.q, start.unit)
    root = xp.sqrt(full_like(xp, start.p, 2))
    return parts, (xp.hypot(parts[0], root * start.q), xp.hypot(parts[1], root * start.p))


def _backward(xp: Any, k: Any, rate: Any, c: Any, push: Any, unit: Any) -> tuple[Any, Any]:
    """Return `unit` times ``sqrt(|c - rate|)``, and whether ``c < rate``; ``c^2 - rate^2 = 4 (k/unit)^2 push``."""
    rises = rate > 0
    size = where(xp, rises, c + rate, 1)
    through = 2 * k * xp.sqrt(xp.abs(push) / size)
    return where(xp, rises, through, xp.sqrt(unless(xp, rises, c - rate, 0)) * unit), rises & (push < 0)


def _root(xp: Any, e: Any, part: Any, falls: Any) -> Any:
    """Return ``sqrt(e^2 + part^2)``, or ``sqrt(e^2 - part^2)`` where `falls`."""
    rest = where(xp, falls & (e > part), e - part, 0)
    return where(xp, falls, xp.sqrt(rest) * xp.sqrt(e + part), xp.hypot(e, part))


def rotation(xp: Any, t: Any, start: RotationStart, fixed: RotationFixed | None = None) -> Any:
    """Return the rotation at times `t`, negative (down to `blow_up_time`) and infinite included.

    Parameters
    ----------
    xp : namespace
    t : array
        Time; its shape broadcasts against the start's.
    start : RotationStart
    fixed : RotationFixed, optional
        ``RotationFixed.of(xp, start)``, if it is known.

    Returns
    -------
    Rotation
        Every field within a few rounding errors, relative, for `t >= 0`; a `ModerateRotation` has the same fields.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.two_layer.hyperbolic_rotation import RotationStart, rotation
    >>> from linsolve.numerics.double_double import DoubleDouble
    >>> p, q, g = (DoubleDouble(np, np.array(value)) for value in (0.5, 0.0, 1.0))
    >>> start = RotationStart.of(p, q, g, np.array(1.0), DoubleDouble(np, np.array(0.25)))
    >>> b = rotation(np, np.array([0.0, np.inf]), start)
    >>> (start.p * b.up).round(6).tolist()  # |p|^2 ends at y
    [0.5, 1.0]
    """
    fixed = fixed or RotationFixed.of(xp, start)
    if fixed.moderate and (found := moderate(t, start, fixed)) is not None:
        return found
    c, push = start.c.hi, start.g * start.r0
    moved = uniform(xp, (t != 0) & ~still(start))
    t = where(xp, uniform(xp, moved | (start.mild & (t >= 0))), t + full_like(xp, c, 0), 0)
    back = uniform(xp, t < 0)
    age, endless = _age(xp, t, start)
    e, again = _decay(xp, age, start)
    e = unless(xp, endless, e, 0)
    half_W = unless(xp, endless, integral_of_decay(xp, age, 4 * c))  # W may overflow, its root does not
    om, n, m = 2 * xp.sqrt(half_W / 2), fixed.n, fixed.m
    simple = start.mild & ~back
    W = 2 * where(xp, start.mild, half_W, 1)
    finite = [where(xp, start.mild, v, 1) for v in (n, m)]
    ends = [xp.sqrt(e * e + v * v * W) for v in finite]
    falls_n = falls_m = back
    if arithmetic.holds(back):
        p, q = start.lengths
        back_n, falls_n = _backward(xp, start.q, 2 * q**2 + start.g * start.y, c, push, start.unit)
        back_m, falls_m = _backward(xp, start.p, 2 * p**2 - start.g * start.y, c, -push, start.unit)
        n, m = where(xp, back, back_n, n), where(xp, back, back_m, m)
    n, m, e = n * om, m * om, e * start.unit * again
    if not arithmetic.holds(simple, everywhere=True):
        other = _root(xp, e, n, back & falls_n), _root(xp, e, m, back & falls_m)
        ends = [where(xp, simple, one, two) for one, two in zip(ends, other, strict=True)]
    return _assemble(xp, start, (fixed.kernel, e, om, n, m, *ends), back, endless, moved)


def _assemble(xp: Any, start: RotationStart, parts: tuple, back: Any, endless: Any, moved: Any) -> Rotation:
    kernel, e, om, n, m, root_n, root_d = parts
    unit = start.unit
    low, high = xp.minimum(root_n, root_d), xp.maximum(root_n, root_d)
    tame, some = low > 0, arithmetic.holds(low > 0, everywhere=True)

    def safe(v: Any) -> Any:
        return v if some else unless(xp, v == 0, v)

    high = safe(high)
    if not arithmetic.is_object(xp):
        tame = uniform(xp, (low > unit / power(xp, 700)) & (low / unit > om / power(xp, 600)))
    span = where(xp, tame, om, 1)
    slow, fast, both = (span / where(xp, tame, v / unit, 1) for v in (low, high, low + high))
    if not arithmetic.is_object(xp):
        tame = uniform(
            xp, tame & ((slow / power(xp, 380)) * (fast / power(xp, 380)) < 1) & (high / power(xp, 700) < low)
        )
    # on the stable manifold of the saddle e and low vanish together, with ratio 1
    fade = unless(xp, endless, e / low if some else unless(xp, low == 0, e / safe(low)), 0)
    sign = unless(xp, back, full_like(xp, e, 1), -1)
    share = (n / safe(root_n)) * (m / safe(root_d))
    left, turned = fade * (kernel * om / high), where(xp, tame, both, 0)
    done = sign * (left * left + share * share)
    return Rotation(
        up=_ratio(xp, _in_unit(xp, root_n, unit), root_d, start.mild & ~back),
        down=_ratio(xp, _in_unit(xp, root_d, unit), root_n, start.mild & ~back),
        lift=sign * where(xp, tame, slow, 0) * where(xp, tame, fast, 0),
        bend=sign * (turned * turned),
        fade=fade * unit / high,
        done=unless(xp, fade == 0, done),
        tame=tame,
        moved=moved,
    )


def _in_unit(xp: Any, x: Any, unit: Any) -> Any:
    """Return ``x / unit``; the compiler of JAX divides by the product of two divisors, which would overflow."""
    return x * unless(xp, unit != 1, unit, 1 / power(xp, 540)) if arithmetic.is_jax(xp) else x / unit


def _ratio(xp: Any, x: Any, y: Any, simple: Any) -> Any:
    """Return ``x/y``, replaced by a finite number where the quotient overflows or nearly does."""
    if arithmetic.holds(simple, everywhere=True) and not arithmetic.is_object(xp):
        return x / y
    return x / unless(xp, y == 0 if arithmetic.is_object(xp) else ~simple & (y <= x / power(xp, 1000)), y)


def where_moved(xp: Any, moved: Any, now: Any, first: Any) -> Any:
    """Return `now`, and where the weights have not moved `first`, bitwise."""
    return now if arithmetic.holds(moved, everywhere=True) else xp.where(moved, now, first)


def tangent_kernel(xp: Any, b: Rotation, start: RotationStart) -> Any:
    """Return the tangent kernel ``2 (|p|^2 + |q|^2)``."""
    up, down = (xp.where(b.moved, v, 1 / start.unit) for v in (b.up, b.down))
    p, q = start.p * up, start.q * down
    return 2 * (p * p + q * q)


def rotated_output(xp: Any, b: Rotation, start: RotationStart) -> tuple[Any, Any]:
    """Return the output and the sum of the magnitudes of its terms, from the form with the smaller sum.

    The forms are a weighted mean of ``f0`` and ``y``, and ``(|p|^2 - |q|^2)/g``.
    """
    p, q = start.p * b.up, start.q * b.down
    old, new = start.f0 * b.fade * b.fade, start.y * b.done
    mean, spread = old + new, xp.abs(old) + xp.abs(new)
    none = start.g == 0
    g = unless(xp, none, start.g)
    size = unless(xp, none, (p * p + q * q) / xp.abs(g), xp.inf)
    f = smallest(xp, (spread, mean), (2 * size, (p - q) * (p + q) / g))  # the mean, unless it is clearly less accurate
    return where(xp, b.moved, f, start.f0 + full_like(xp, f, 0)), xp.minimum(spread, size)
