"""The hyperbolic rotation without its exceptions: moderate initial weights, forward in time, in NumPy.

No branch of `hyperbolic_rotation.rotation` for tiny weights, saddles, or negative and late times is then taken, and
the formulas that remain have a third of the operations. The results are bitwise equal
(``test_without_exceptions_the_rotation_has_the_same_bits``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.numerics.double_double import two_prod
from linsolve.numerics.scalar import integral_of_decay, uniform

__all__ = ["ModerateRotation", "moderate"]

_LATEST = 2.0**700
_SHORT = 2.0**-60  # `integral_of_decay` below it is the time


class ModerateRotation:
    """The fields of a `Rotation`: all but `up`, `down`, `moved` and `tame` are evaluated at the first access to one."""

    tame = np.True_

    def __init__(self, t: Any, start: Any, fixed: Any, moved: Any, short: bool) -> None:
        c = start.c
        _, error = two_prod(np, c.hi, t)
        e = np.exp(-2 * c.hi * t) * (1 - 2 * (error + c.lo * t))
        if short:
            half = integral_of_decay(np, t, 4 * c.hi)
            W, om = 2 * half, 2 * np.sqrt(half / 2)
        else:
            W = np.expm1(-4 * c.hi * t) / (-2 * c.hi)
            om = np.sqrt(W)
        square, (n, m) = e * e, (fixed.n, fixed.m)
        root_n, root_d = np.sqrt(square + n * n * W), np.sqrt(square + m * m * W)
        self.moved, self.up, self.down = moved, root_n / root_d, root_d / root_n
        self._parts = fixed, e, om, root_n, root_d

    def __getattr__(self, name: str) -> Any:
        if name not in ("lift", "bend", "fade", "done"):
            raise AttributeError(name)
        fixed, e, om, root_n, root_d = self._parts
        if name in ("lift", "bend"):
            both = om / (root_n + root_d)
            self.lift, self.bend = (om / root_n) * (om / root_d), both * both
        else:
            low, high = np.minimum(root_n, root_d), np.maximum(root_n, root_d)
            first = e / low
            left, share = first * (fixed.kernel * om / high), (fixed.n * om / root_n) * (fixed.m * om / root_d)
            self.fade, self.done = first / high, np.where(first == 0, 1.0, left * left + share * share)
        return getattr(self, name)


def moderate(t: Any, start: Any, fixed: Any) -> ModerateRotation | None:
    """Return the rotation at times `t` of NumPy, None if an exception may apply to one of them.

    The initial values must be moderate (``fixed.moderate``).
    """
    number = isinstance(t, np.generic)
    low, high = (t, t) if number else (np.minimum.reduce(t, axis=None), np.maximum.reduce(t, axis=None))
    if not (low >= 0 and high < _LATEST):
        return None
    moved = np.True_ if low > 0 else uniform(np, t != 0)
    return ModerateRotation(t, start, fixed, moved, low * fixed.rate < _SHORT)
