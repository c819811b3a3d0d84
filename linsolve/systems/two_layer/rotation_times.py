"""Time to a given loss, and backward blow-up time, of the hyperbolic rotation."""

from __future__ import annotations

from typing import Any

from linsolve import arithmetic
from linsolve.numerics.double_double import two_prod
from linsolve.numerics.scalar import log1p_ratio, unless
from linsolve.systems.two_layer.hyperbolic_rotation import RotationStart, forward, roots, still

__all__ = ["blow_up_time", "time_to_loss"]


def blow_up_time(xp: Any, start: RotationStart) -> Any:
    r"""Return the negative time at which the backward solution blows up, ``-inf`` where it does not.

    ``t* = -log(1 + X)/(4 c)``, ``X = c (m + c)/(2 k^2 |g r0|)`` with ``k = p`` and ``m = 2 p^2 - g y`` where
    ``g r0 > 0``, else ``k = q`` and ``m = 2 q^2 + g y``. The code computes ``sqrt(X)`` divided by the unit of the
    rotation, since X overflows for the smallest initial weights.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.two_layer.hyperbolic_rotation import RotationStart
    >>> from linsolve.numerics.double_double import DoubleDouble
    >>> from linsolve.systems.two_layer.rotation_times import blow_up_time
    >>> p, q, g, f0 = (DoubleDouble(np, np.array(value)) for value in (2.0, 0.0, 1.0, 4.0))
    >>> start = RotationStart.of(p, q, g, np.array(1.0), f0)  # f' = 4 f (1 - f)
    >>> round(float(blow_up_time(np, start)), 6)  # -log(4/3)/4
    -0.071921
    """
    push, c, (p, q), unit = start.g * start.r0, start.c.hi, start.lengths, start.unit
    size = xp.abs(push)
    k = xp.where(push > 0, start.p, start.q)
    rate = p**2 + q**2 + size + c
    never = (k == 0) | (size == 0)
    root = xp.sqrt(unless(xp, never, rate)) / unless(xp, never, k) / xp.sqrt(2 * unless(xp, never, size))
    scale = xp.sqrt(c) * root
    early = scale <= 1 / unit
    if not arithmetic.is_object(xp):  # times beyond 1e304 count as infinite
        never = never | xp.where(early, root > 2.0**511 / unit, c < 1 / 2.0**1012)
    brief = never | ~early
    root, part = xp.where(brief, 1 / unit, root) * unit, unless(xp, brief, scale, 0) * unit
    near = root**2 / 4 * log1p_ratio(xp, part**2)
    far = (xp.log(xp.hypot(1 / unit, scale)) + xp.log(unit)) / (2 * unless(xp, early | never, c))
    return -xp.where(never, xp.full_like(near, xp.inf), xp.where(early, near, far))


def time_to_loss(xp: Any, start: RotationStart, *, loss: Any) -> Any:
    r"""Return the first time at which ``r^2`` has fallen to `loss`; inf where it never does.

    With ``eps = sqrt(loss)`` and ``K`` the tangent kernel at this time,
    ``tanh(2 c t)/c = 2 (|r0| - eps)/(|r0| K + eps K0)``. Late times are computed from the logarithms of the three
    factors of ``exp(4 c t)``.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.two_layer.hyperbolic_rotation import RotationStart
    >>> from linsolve.numerics.double_double import DoubleDouble
    >>> from linsolve.systems.two_layer.rotation_times import time_to_loss
    >>> p, q, g, f0 = (DoubleDouble(np, np.array(value)) for value in (0.5, 0.0, 1.0, 0.25))
    >>> start = RotationStart.of(p, q, g, np.array(1.0), f0)  # f' = 4 f (1 - f)
    >>> round(float(time_to_loss(np, start, loss=np.array(0.01))), 6)  # to f = 0.9: log(27)/4
    0.823959
    """
    c, size, eps, (p, q) = start.c.hi, xp.abs(start.r0), xp.sqrt(loss), start.lengths
    gap = _gap(xp, start, loss)
    there = gap <= 0
    target = start.y + xp.where(start.r0 < 0, -eps, eps)
    drift = start.g * target
    half = xp.hypot(drift, 2 * p * q)
    never = (eps == 0) | still(start) | _kept_away(xp, start, target)
    idle = there | never
    part = unless(xp, idle, eps) / unless(xp, idle, size)
    down = unless(xp, idle, half + part * (p**2 + q**2))
    gap = unless(xp, idle, gap / unless(xp, there, size), 0)
    if not arithmetic.is_object(xp):  # times beyond 1e304 count as infinite
        slow = xp.where(c * gap < down / 2, down < 1 / 2.0**1012, c < 1 / 2.0**1012)
        never = never | (~there & slow)
        idle, down = idle | never, unless(xp, never, down)
    gap, early = unless(xp, idle, gap, 0), (c * gap < down / 2) & ~idle
    T = unless(xp, ~early, gap / down, 0)
    z = c * T
    near = T / 4 * (log1p_ratio(xp, z) + log1p_ratio(xp, -z))
    # on the stable manifold of a saddle p (or q) is 0 and cancels from a ratio, which does not depend on it
    gain = start.g * start.y
    start = start._replace(
        p=unless(xp, (start.p == 0) & (gain > 0), start.p), q=unless(xp, (start.q == 0) & (gain < 0), start.q)
    )
    then = roots(xp, drift, half, 2 * start.p * start.q, start.unit)
    under = part == 0  # the quotient of the two doubles underflows
    log_part = xp.log(unless(xp, under, part)) + xp.where(
        under & ~idle, xp.log(unless(xp, eps == 0, eps)) - xp.log(unless(xp, size == 0, size)), xp.zeros_like(part)
    )
    far = _late_time(xp, start, then, log_part, idle | early)
    time = xp.where(early, near, far)
    return xp.where(there, xp.zeros_like(time), xp.where(never, xp.full_like(time, xp.inf), time))


def _kept_away(xp: Any, start: RotationStart, target: Any) -> Any:
    """Return whether p or q is 0, so that the output keeps its sign, and `target` does not have this sign."""
    side = xp.where(start.p == 0, -target, target)
    side = xp.where(start.g < 0, -side, side)
    return ((start.p == 0) | (start.q == 0)) & ((side <= 0) | (start.g == 0))


def _gap(xp: Any, start: RotationStart, loss: Any) -> Any:
    """Return ``|r0| - sqrt(loss)``, accurate also where the two nearly agree."""
    size, eps = xp.abs(start.r0), xp.sqrt(loss)
    square, error = two_prod(xp, size, size)
    between = (square - loss) + (error + 2 * start.r0 * start.r0_low)
    near = eps > size / 2
    return xp.where(near, between / unless(xp, ~near, size + eps), size - eps)


def _late_time(xp: Any, start: RotationStart, then: tuple[Any, Any], log_part: Any, unused: Any) -> Any:
    (plus, minus), (n, m) = forward(xp, start)
    shift_n = _log_ratio(xp, xp.hypot(plus, then[1]), n, start.unit, unused)
    shift_m = _log_ratio(xp, xp.hypot(minus, then[0]), m, start.unit, unused)
    logs = shift_n + shift_m - unless(xp, unused, log_part, 0) / 2
    return logs / (2 * unless(xp, unused, start.c.hi))


def _log_ratio(xp: Any, x: Any, y: Any, unit: Any, unused: Any) -> Any:
    """Return ``log(x/y)``, as ``log(x) - log(y)`` for the smallest initial weights, where ``x/y`` may overflow."""
    tiny, unused = unit != 1, unused | (x == 0)
    quotient = unless(xp, unused, x) / unless(xp, unused | tiny, y)
    return xp.log(quotient) - xp.log(unless(xp, unused | ~tiny, y))
