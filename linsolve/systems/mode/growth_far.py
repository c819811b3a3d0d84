r"""Deep growth from initial values, and at times, for which its closed form would leave the range of doubles.

Where ``|a0/s|`` is beyond ``2^400`` or below its inverse, saturation is negligible until ``a = 2^(+-400) s``. There the
growth is a power of time; the closed form begins at ``2^(+-400) s``, at the time then left. A mode that falls ends as a
power of time. Products of times, rates and powers are formed from eighth roots, which neither overflow nor underflow.
"""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple

from linsolve.numerics.scalar import full_like, where
from linsolve.systems.mode.growth_time import linear, logarithmic

__all__ = ["LONGEST", "PowerLaw"]

LONGEST = 1e290  # largest time in the units of a mode
_EXTREME = 2.0**300  # products of the times, rates and powers of less extreme values are doubles
_DISTANT = 400 * log(2)  # logarithm of the ratio to s beyond which saturation is negligible
_LATE, _FALLEN = 2.0**800, 2.0**100  # times after which a fall is a power law, in units of a0 and of s
_STEEPEST = 650  # largest logarithm of a factor; multiplied by a time that is not 0, it ends the growth


class PowerLaw(NamedTuple):
    """The growth without saturation, and the initial value of the closed form; every field of shape batch.

    Parameters
    ----------
    n : array
        Exponent of the head, as of a `Start`.
    root, goal_root : array
        Eighth roots of the rates of the clocks of `a0` and of `s`.
    p, p_root, m, m_root : array
        Exponents `q` and eighth roots of the rates of ``|a| = (rate t)^(-1/q)``, above and below `s`.
    begin, reach : array
        Initial value of the closed form; absolute logarithm of its ratio to `a0`, and ``2^14`` where the
        growth never reaches it.
    big, extreme, distant, free, falls : array of bool
        ``|a0| > |s|``; a value beyond ``2^300`` or below its inverse; a ratio beyond ``2^400`` or below its inverse;
        ``s = 0``; ``a0 s < 0``.
    """

    n: Any
    root: Any
    goal_root: Any
    p: Any
    p_root: Any
    m: Any
    m_root: Any
    begin: Any
    reach: Any
    big: Any
    extreme: Any
    distant: Any
    free: Any
    falls: Any

    @classmethod
    def of(cls, xp: Any, a0: Any, s: Any, depth: Any, tau: Any) -> PowerLaw:
        """Return the power law from an initial value that is not 0, in arrays of one shape, to depths above 1."""
        m, size, free = 1 - 2 / depth, xp.abs(a0), s == 0
        p, one = 1 + m, full_like(xp, m, 1)
        goal = where(xp, free, size, xp.abs(s))
        big, falls = free | (size > goal), xp.sign(a0) * xp.sign(s) < 0
        gain = where(xp, xp.isinf(depth), one, depth)
        ratio = xp.abs(xp.log(size) - xp.log(goal))
        extreme = distant = ratio > _DISTANT
        for v in (size, goal, gain, tau):
            extreme = extreme | (v > _EXTREME) | (v < 1 / _EXTREME)
        edge = where(xp, big, where(xp, distant & big, goal, one) * 2.0**400, goal / 2.0**400)
        rate, of_goal = xp.pow(gain, one / 8) / xp.pow(tau, one / 8), xp.pow(goal, one / 8)
        return cls(
            n=where(xp, big, p, -m),
            root=rate * where(xp, big, xp.pow(size, p / 8), xp.pow(size, m / 8) * of_goal),
            goal_root=rate * xp.pow(goal, p / 8),
            p=p,
            p_root=rate * xp.pow(p, one / 8),
            m=m,
            m_root=rate * xp.pow(xp.abs(m), one / 8) * of_goal,
            begin=where(xp, distant, xp.sign(a0) * edge, a0),
            reach=where(xp, free | (falls & ~big), 2.0**14 * one, where(xp, distant, ratio - _DISTANT, 0 * one)),
            big=big,
            extreme=extreme,
            distant=distant,
            free=free,
            falls=falls,
        )

    @property
    def leaves(self) -> Any:
        """Return whether the growth reaches `begin`; a small mode of the sign opposite to `s` falls away from it."""
        return self.distant & (self.big | ~self.falls)

    def clock(self, xp: Any, root: Any) -> Any:
        """Return the eighth power of ``root``, at most `LONGEST`."""
        capped = xp.minimum(root, full_like(xp, root, LONGEST ** (1 / 8)))
        square = capped * capped
        fourth = square * square
        return fourth * fourth

    def since(self, xp: Any, root: Any, own: Any, clock: Any) -> Any:
        """Return the time since ``a = begin``, in its units, for the eighth root of the time.

        `own` and `clock` are the times in the units of `a0` and `s`.
        """
        unit = xp.pow(full_like(xp, self.p, 2.0), 400 * self.p)
        above = xp.minimum(clock, LONGEST / unit) * unit + xp.expm1(-self.p * self.reach) / self.p
        slow = xp.maximum(self.m, 0 * self.m)
        unit = xp.exp(xp.minimum(slow * self.reach, full_like(xp, self.m, _STEEPEST)))
        below = xp.minimum(own - linear(xp, self.reach, -slow), LONGEST / unit) * unit
        fast = xp.minimum(self.m, 0 * self.m)  # below depth 2 the growth quickens
        later = self.clock(xp, root * (self.root * xp.exp(fast * self.reach / 8)))
        below = where(xp, fast < 0, later - linear(xp, self.reach, fast), below)
        return where(xp, self.leaves, where(xp, self.big, above, below), own)

    def replaced(self, xp: Any, a: Any, a0: Any, root: Any, own: Any, clock: Any, since: Any) -> tuple[Any, Any]:
        """Return `a` and whether it was replaced by the power law; arguments as of `since`."""
        sinks = self.falls & ~self.big
        l = xp.abs(logarithmic(xp, where(xp, sinks, -own, own), self.n))  # noqa: E741
        l = xp.minimum(l, self.reach)  # noqa: E741
        early = where(xp, self.free | sinks, l > _STEEPEST, self.leaves & (since <= 0))
        half = xp.exp(where(xp, self.big | sinks, -l, l) / 2)
        a = where(xp, early, a0 * half * half, a)
        above, size = self.big & (self.free | early), xp.abs(self.m)
        below = (sinks | (early & (self.m < 0))) & (size * own > _LATE)
        below = where(xp, self.big, self.falls & (self.m * clock > _FALLEN), below)
        late = where(xp, above, self.p * own > _LATE, below)
        rate = root * where(xp, above, self.p_root, self.m_root)
        q = where(xp, late, where(xp, above, self.p, self.m), full_like(xp, own, 1))
        end = xp.sign(a0) * xp.pow(where(xp, late, rate, full_like(xp, own, 1)), -8 / q)
        return where(xp, late, end, a), early | late
