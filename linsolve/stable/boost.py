r"""The hyperbolic rotation by which every two-layer network on a line of data learns.

With ``p' = -2 g r p``, ``q' = 2 g r q``, ``g f = |p|^2 - |q|^2``, ``r = f - y`` the two vectors keep their directions:
``p = p0 exp(theta)``, ``q = q0 exp(-theta)``. With ``c^2 = g^2 y^2 + 4 |p0|^2 |q0|^2``, ``e = exp(-2 c t)``,
``W = (1 - e^2)/(2 c)``,

.. math:: e^{2\theta} = \frac{N}{D}, \quad N = e^2 + (c + g y + 2 |q_0|^2) W, \quad D = e^2 + (c - g y + 2 |p_0|^2) W,
    \quad r = r_0 \frac{e^2}{N D}, \quad \sinh\theta = -\frac{g r_0 W}{\sqrt{N D}} .

For ``t >= 0`` every sum here has terms of one sign; for ``t < 0`` the differences are rationalized. Only the square
roots of N, D, ``|p|^2``, ``|q|^2`` are formed, so that starts of 1e-150 do not underflow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from linsolve import arithmetic
from linsolve.stable.compensated import Twofold, two_prod
from linsolve.stable.scalar import integral_of_decay, log1p_ratio, smallest

__all__ = ["Boost", "BoostStart", "boost", "boost_blow_up", "boost_output", "boost_time_to"]


class BoostStart(NamedTuple):
    """Where a boost starts: what is needed of the network, once for all times.

    Parameters
    ----------
    p, q : array
        Lengths ``|p0|, |q0|``, in units in which ``K0 = 2 (p^2 + q^2)`` is the tangent kernel.
    g : array
        Coupling, signed: ``g f0 = p^2 - q^2``.
    y, f0, r0, r0_low : array
        Target, output and residual; ``r0`` correctly rounded, not the difference of rounded numbers, and what its
        rounding left.
    c : Twofold
        Rate of learning, ``hypot(g y, 2 p q)``.
    mild : array of bool
        Whether ``2^-99 < p, q < 2^99`` and ``|g|, |y| < 2^99``, so that N and D, which go from 1 to ``n^2/(2c)`` and
        ``m^2/(2c)``, stay between ``2^-400`` and ``2^400``; false in object arithmetic.
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

    @classmethod
    def of(
        cls,
        p: Twofold,
        q: Twofold,
        g: Twofold,
        y: Any,
        f0: Twofold,
        r0: Twofold | None = None,
        about: tuple[Any, Any, Any] | None = None,
    ) -> BoostStart:
        """Return the start for lengths, coupling, target and output given to twice the working precision.

        The residual may be given where it is known better than as a difference of output and target. So may ``p, q, g``
        as they are `about`, to a few rounding errors: what these are between is easier to see from the formula.
        """
        r0 = f0 - y if r0 is None else r0
        target = y.hi if isinstance(y, Twofold) else y
        mild = _mild(p.xp, *(about or (p.hi, q.hi, g.hi)), target)
        return cls(p.hi, q.hi, g.hi, target, f0.hi, r0.hi, r0.lo, (g * y).hypot(p * q * 2), mild)


def _mild(xp: Any, p: Any, q: Any, g: Any, y: Any) -> Any:
    """Return `BoostStart.mild`."""
    if arithmetic.is_object(xp):
        return xp.zeros_like(p + q) != 0
    low, high = 1 / 2**99, 2**99
    # the product of g and y might overflow
    return (p > low) & (p < high) & (q > low) & (q < high) & (xp.abs(g) < high) & (xp.abs(y) < high)


class Boost(NamedTuple):
    """A boost at times t.

    Parameters
    ----------
    up, down : array
        ``exp(theta)``, ``exp(-theta)``; where one of them is infinite (at a saddle) it is replaced by a finite number,
        and multiplies a vector that is 0.
    lift : array
        ``-sinh(theta) / (g r0)``, an integral of the residual; see `tame`.
    bend : array
        ``(cosh(theta) - 1) / (2 (g r0)^2 lift)``, without cancellation.
    fade, done : array
        ``sqrt(r / r0)`` and ``1 - r / r0``, each to full relative accuracy.
    tame : array of bool
        Whether `lift` and `bend` are finite; where they are not, at the end of an approach to the saddle, they are 0.
    moved : array of bool
        False at ``t = 0`` and for stationary starts, whose other fields may be off by a few rounding errors.
    """

    up: Any
    down: Any
    lift: Any
    bend: Any
    fade: Any
    done: Any
    tame: Any
    moved: Any


def _vanishes(xp: Any, x: Any) -> Any:
    """Whether `x` is too small to divide by: in floats, well before quotients overflow."""
    return x == 0 if arithmetic.is_object(xp) else x < 1 / 2**700


def _still(start: BoostStart) -> Any:
    return ((start.p == 0) & (start.q == 0)) | (start.r0 == 0)


def _unless(xp: Any, flag: Any, x: Any, instead: int = 1) -> Any:
    """Return `x`, and `instead` where `flag` holds, as a safe operand."""
    return xp.where(flag, xp.full_like(x, instead), x)


def _clock(xp: Any, t: Any, start: BoostStart) -> tuple[Any, Any, Any]:
    """Return ``|t|``, the rate and where the boost has ended although its rate is 0, free of overflow.

    In floats ``|t|`` is cut where everything that depends on ``c t`` has long ended, and rates so small that ``1/c``
    would overflow count as 0.
    """
    age, c = xp.abs(t), start.c.hi
    if arithmetic.is_object(xp):
        adrift = (c == 0) & xp.isinf(age)
        return _unless(xp, adrift, age, 0), c, adrift
    flat = ~start.mild & (c < 1 / 2**960)
    adrift = flat & (age > 2**900)
    end = xp.where(start.mild, xp.full_like(c, 2**700), 1000 / _unless(xp, flat, c))
    age = xp.where(~flat & (age > end), end, age)
    return _unless(xp, adrift, age, 0), _unless(xp, flat, c, 0), adrift


def _decay(xp: Any, age: Any, c: Twofold) -> Any:
    """Return ``exp(-2 c age)``; the rounding of the exponent, which exp would amplify, is corrected for."""
    main = xp.exp(-2 * c.hi * age)
    if arithmetic.is_object(xp):
        return main
    late = age > 2**900
    part = xp.where(late, xp.zeros_like(age), age)
    _, error = two_prod(xp, c.hi + xp.zeros_like(part), part)
    return main * (1 - 2 * (error + c.lo * part))


def _roots(xp: Any, a: Any, hypotenuse: Any, leg: Any) -> tuple[Any, Any]:
    """Return the square roots of ``hypotenuse + a`` and ``hypotenuse - a``, where ``hypotenuse^2 = a^2 + leg^2``."""
    large = xp.sqrt(hypotenuse + xp.abs(a))
    small = leg / _unless(xp, large == 0, large)
    return xp.where(a >= 0, large, small), xp.where(a >= 0, small, large)


def _forward(xp: Any, start: BoostStart) -> tuple[Any, Any]:
    """Return the square roots of ``c + g y + 2 q^2`` and ``c - g y + 2 p^2``."""
    plus, minus = _roots(xp, start.g * start.y, start.c.hi, 2 * start.p * start.q)
    root = xp.sqrt(xp.full_like(start.p, 2))
    return xp.hypot(plus, root * start.q), xp.hypot(minus, root * start.p)


def _backward(xp: Any, k: Any, rate: Any, c: Any, push: Any) -> tuple[Any, Any]:
    """Return the square root and the sign of ``c - rate``, where ``c^2 - rate^2 = 4 k^2 push``."""
    rises = rate > 0
    size = _unless(xp, ~rises, c + rate)
    through = 2 * k * xp.sqrt(xp.abs(push) / size)
    return xp.where(rises, through, xp.sqrt(_unless(xp, rises, c - rate, 0))), rises & (push < 0)


def _root(xp: Any, e: Any, part: Any, falls: Any) -> Any:
    """Return ``sqrt(e^2 + part^2)``, or ``sqrt(e^2 - part^2)`` where `falls`."""
    rest = xp.where(falls & (e > part), e - part, xp.zeros_like(e + part))
    return xp.where(falls, xp.sqrt(rest) * xp.sqrt(e + part), xp.hypot(e, part))


def boost(xp: Any, t: Any, start: BoostStart) -> Boost:
    """Return the boost at times `t`, negative (down to `boost_blow_up`) and infinite included.

    Parameters
    ----------
    xp : namespace
    t : array
        Time; its shape broadcasts against the start's.
    start : BoostStart
        From where, and by how much.

    Returns
    -------
    Boost
        Relative accuracy of a few rounding errors in every field, for `t >= 0`.
    """
    c, push = start.c.hi, start.g * start.r0
    moved = (t != 0) & ~_still(start)
    t = xp.where(moved | (start.mild & (t >= 0)), t + xp.zeros_like(c), xp.zeros_like(t + c))
    back = t < 0
    age, rate, adrift = _clock(xp, t, start)
    e = _unless(xp, adrift, _decay(xp, age, start.c), 0)
    W = _unless(xp, adrift, integral_of_decay(xp, 2 * age, 2 * rate))
    om, (n, m) = xp.sqrt(W), _forward(xp, start)
    sums = [xp.sqrt(e * e + _unless(xp, ~start.mild, v) ** 2 * W) for v in (n, m)]
    rate_n = 2 * start.q**2 + start.g * start.y
    rate_m = 2 * start.p**2 - start.g * start.y
    back_n, falls_n = _backward(xp, start.q, rate_n, c, push)
    back_m, falls_m = _backward(xp, start.p, rate_m, c, -push)
    n, m = xp.where(back, back_n, n) * om, xp.where(back, back_m, m) * om
    root_n, root_d = _root(xp, e, n, back & falls_n), _root(xp, e, m, back & falls_m)
    simple = start.mild & ~back
    root_n, root_d = (xp.where(simple, one, other) for one, other in zip(sums, (root_n, root_d), strict=True))
    return _assemble(xp, start, (e, om, n, m, root_n, root_d), back, adrift, moved)


def _assemble(xp: Any, start: BoostStart, parts: tuple, back: Any, adrift: Any, moved: Any) -> Boost:
    e, om, n, m, root_n, root_d = parts
    low, high = xp.minimum(root_n, root_d), xp.maximum(root_n, root_d)
    high = _unless(xp, high == 0, high)
    tame = low > 0 if arithmetic.is_object(xp) else (low * 2**700 > 1) & (low * 2**600 > om)
    slow, fast = om / _unless(xp, ~tame, low), om / high
    if not arithmetic.is_object(xp):
        tame = tame & ((slow / 2**380) * (fast / 2**380) < 1) & (high < low * 2**700)
    safe_n, safe_d = _unless(xp, _vanishes(xp, root_n), root_n), _unless(xp, _vanishes(xp, root_d), root_d)
    # e and low vanish together where the saddle attracts: their ratio is 1
    fade = xp.where(low == 0, xp.ones_like(e), e / _unless(xp, low == 0, low))
    sign = xp.where(back, -xp.ones_like(e), xp.ones_like(e))
    kernel = xp.sqrt(xp.full_like(start.p, 2)) * xp.hypot(start.p, start.q)
    share = (n / _unless(xp, root_n == 0, root_n)) * (m / _unless(xp, root_d == 0, root_d))
    done = sign * ((fade * (kernel * om / high)) ** 2 + share**2)
    return Boost(
        up=root_n / safe_d,
        down=root_d / safe_n,
        lift=sign * _unless(xp, ~tame, slow, 0) * _unless(xp, ~tame, fast, 0),
        bend=sign * _unless(xp, ~tame, om / (low + high), 0) ** 2,
        fade=_unless(xp, adrift, fade / high, 0),
        done=_unless(xp, adrift | (fade == 0), done),
        tame=tame,
        moved=moved,
    )


def boost_output(xp: Any, b: Boost, start: BoostStart) -> tuple[Any, Any]:
    """Return the output and the sum of the magnitudes of its two terms, in the form in which that is smaller.

    Either a weighted mean of ``f0`` and ``y``, or ``(|p|^2 - |q|^2)/g``.
    """
    p, q = start.p * b.up, start.q * b.down
    old, new = start.f0 * b.fade * b.fade, start.y * b.done
    mean, spread = old + new, xp.abs(old) + xp.abs(new)
    none = start.g == 0
    g = _unless(xp, none, start.g)
    size = xp.where(none, xp.full_like(p, xp.inf), (p**2 + q**2) / xp.abs(g))
    f = smallest(xp, (spread, mean), (2 * size, (p - q) * (p + q) / g))  # the mean, unless clearly worse
    return xp.where(b.moved, f, start.f0 + xp.zeros_like(f)), xp.minimum(spread, size)


def boost_blow_up(xp: Any, start: BoostStart) -> Any:
    r"""Return the negative time at which the solution backward in time ends, ``-inf`` where it does not.

    ``t* = -log(1 + X)/(4 c)``, ``X = c (m + c)/(2 k^2 |g r0|)`` with ``k = p`` and ``m = 2 p^2 - g y`` where
    ``g r0 > 0``, else ``k = q`` and ``m = 2 q^2 + g y``.
    """
    push, c = start.g * start.r0, start.c.hi
    size = xp.abs(push)
    k = xp.where(push > 0, start.p, start.q)
    rate = start.p**2 + start.q**2 + size + c
    never = (k == 0) | (size == 0)
    root = xp.sqrt(_unless(xp, never, rate)) / _unless(xp, never, k) / xp.sqrt(2 * _unless(xp, never, size))
    if not arithmetic.is_object(xp):
        never = never | (root > 2**511)
    root = _unless(xp, never, root)
    scale = xp.sqrt(c) * root
    early = scale <= 1
    near = root**2 / 4 * log1p_ratio(xp, _unless(xp, ~early, scale, 0) ** 2)
    far = xp.log(xp.hypot(xp.ones_like(scale), scale)) / (2 * _unless(xp, early, c))
    return -xp.where(never, xp.full_like(near, xp.inf), xp.where(early, near, far))


def boost_time_to(xp: Any, start: BoostStart, *, loss: Any) -> Any:
    r"""Return the first time at which ``r^2`` has fallen to `loss`; inf where it never does.

    With ``eps = sqrt(loss)`` and ``K`` the tangent kernel then, ``tanh(2 c t)/c = 2 (|r0| - eps)/(|r0| K + eps K0)``;
    for late times the logarithm of the three ratios that make up ``exp(4 c t)``.
    """
    c, size, eps = start.c.hi, xp.abs(start.r0), xp.sqrt(loss)
    gap = _gap(xp, start, loss)
    there = gap <= 0
    target = start.y + xp.where(start.r0 < 0, -eps, eps)
    drift, both = start.g * target, 2 * start.p * start.q
    half = xp.hypot(drift, both)
    never = (eps == 0) | _still(start) | ((both == 0) & (start.f0 * target <= 0))
    idle = there | never
    part = _unless(xp, there, eps) / _unless(xp, there, size)
    down = _unless(xp, idle, half + part * (start.p**2 + start.q**2))
    if not arithmetic.is_object(xp):  # times beyond 1e300 end there
        down = xp.maximum(down, xp.full_like(down, 1 / 2**1000))
    gap = _unless(xp, idle, gap / _unless(xp, there, size), 0)
    early = (c * gap < down / 2) & ~idle
    T = _unless(xp, ~early, gap / down, 0)
    z = c * T
    near = T / 4 * (log1p_ratio(xp, z) + log1p_ratio(xp, -z))
    # on the way to a saddle p (or q) is 0 and divides out of a ratio, whose value does not depend on it
    gain = start.g * start.y
    start = start._replace(
        p=_unless(xp, (start.p == 0) & (gain > 0), start.p), q=_unless(xp, (start.q == 0) & (gain < 0), start.q)
    )
    far = _late_time(xp, start, _roots(xp, drift, half, 2 * start.p * start.q), part, idle | early)
    time = xp.where(early, near, far)
    return xp.where(there, xp.zeros_like(time), xp.where(never, xp.full_like(time, xp.inf), time))


def _gap(xp: Any, start: BoostStart, loss: Any) -> Any:
    """Return ``|r0| - sqrt(loss)``, also where the two nearly agree."""
    size, eps = xp.abs(start.r0), xp.sqrt(loss)
    square, error = two_prod(xp, size, size)
    between = (square - loss) + (error + 2 * start.r0 * start.r0_low)
    near = eps > size / 2
    return xp.where(near, between / _unless(xp, ~near, size + eps), size - eps)


def _late_time(xp: Any, start: BoostStart, then: tuple[Any, Any], part: Any, unused: Any) -> Any:
    n, m = _forward(xp, start)
    plus, minus = _roots(xp, start.g * start.y, start.c.hi, 2 * start.p * start.q)
    shift_n = _unless(xp, unused, xp.hypot(plus, then[1])) / _unless(xp, unused, n)
    shift_m = _unless(xp, unused, xp.hypot(minus, then[0])) / _unless(xp, unused, m)
    logs = xp.log(shift_n) + xp.log(shift_m) - xp.log(_unless(xp, unused, part)) / 2
    return logs / (2 * _unless(xp, unused, start.c.hi))
