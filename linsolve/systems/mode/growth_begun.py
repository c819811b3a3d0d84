"""Quantities of the depth-L growth law that do not depend on time."""

from __future__ import annotations

from typing import Any, NamedTuple

from linsolve import arithmetic
from linsolve.numerics.scalar import broadcast, full_like, where
from linsolve.systems.mode.growth_far import PowerLaw
from linsolve.systems.mode.growth_tables import Tables, tables_of
from linsolve.systems.mode.growth_time import Start, start_of, terms_of

__all__ = ["Growth"]


class Growth(NamedTuple):
    """A growth and its quantities that do not depend on time, in arrays of one shape.

    Parameters
    ----------
    a0, s, depth, tau : array
        As of `deep_growth`.
    some, aim : array
        Initial value and target with safe operands for stationary values and for paths that end at 0.
    hard : array of bool
        Whether the depth is below 9/4.
    tables : Tables
        Polynomials of the depth.
    law : PowerLaw or None
        Power law of extreme values, in floats.
    at : Start
        Initial values of the closed form.
    """

    a0: Any
    s: Any
    depth: Any
    tau: Any
    some: Any
    aim: Any
    hard: Any
    tables: Tables
    law: PowerLaw | None
    at: Start

    @classmethod
    def of(cls, xp: Any, a0: Any, s: Any, depth: Any, tau: Any = 1) -> Growth:
        """Return the growth from `a0`; arguments as of `deep_growth`, in any arithmetic but JAX's."""
        curved = where(xp, depth == 1, 2 * full_like(xp, depth, 1), depth)
        hard = curved < 9 * full_like(xp, curved, 1) / 4
        some = where(xp, a0 == 0, full_like(xp, a0, 1), a0)
        big, negative = arithmetic.holds(xp.abs(some) > xp.abs(s)), arithmetic.holds(xp.sign(some) * xp.sign(s) < 0)
        tables = tables_of(xp, curved, hard, big, negative)  # functions of the depth alone, hence before broadcasting
        a0, some, s, depth, tau = broadcast(xp, a0, some, s, depth, tau + full_like(xp, depth, 0))
        # a safe operand where the path would end at 0
        aim = where(xp, (depth < 2) & (xp.sign(some) * xp.sign(s) < 0) & (depth != 1), -s, s)
        curved, law = curved + 0 * full_like(xp, a0, 1), None
        if not arithmetic.is_object(xp):
            law = PowerLaw.of(xp, some, aim, curved, tau)
        at = start_of(xp, some if law is None else law.begin, aim, curved, terms_of(getattr(xp, "dps", 16)))
        return cls(a0, s, depth, tau, some, aim, hard, tables, law, at)
