"""Symbolic proof that the implemented closed form, evaluated on SymPy symbols, satisfies the implemented equation."""

from __future__ import annotations

from functools import cache
from typing import Any

from linsolve import arithmetic
from linsolve.core.flow import Flow

__all__ = ["closed_form", "latex", "unproved"]


def closed_form(cls: type[Flow]) -> tuple[Any, Any, Any, Any, Any]:
    """Return the flow in symbols, its namespace, time, initial state and closed form."""
    import sympy

    parameters, start, point = cls.symbols()
    time = sympy.Symbol("t", positive=True)
    xp = arithmetic.symbolic({**point, time: sympy.Rational(7, 10)})
    flow = cls(**{name: xp.asarray(value) for name, value in parameters.items()})
    z0 = cls.State(*(xp.asarray(value) for value in start))
    return flow, xp, time, z0, flow.solution(xp, xp.asarray(time), z0)


@cache
def unproved(cls: type[Flow]) -> int:
    """Return the number of state entries whose residual, or error at ``t = 0``, SymPy cannot reduce to 0."""
    from linsolve.arithmetic.identities import prove_zero

    flow, xp, time, z0, state = closed_form(cls)
    velocity = flow.velocity(xp, state)
    open_entries = 0
    for value, rate, start in zip(state, velocity, z0, strict=True):
        for x, v, x0 in zip(value.flat, rate.flat, start.flat, strict=True):
            open_entries += not (prove_zero(x.diff(time) - v) and prove_zero(x.subs(time, 0) - x0))
    return open_entries


def latex(cls: type[Flow]) -> dict[str, str]:
    r"""Return the implemented closed form in LaTeX, by entry of the state, for the region of `Flow.symbols`.

    Examples
    --------
    >>> from linsolve import BalancedMode
    >>> from linsolve.core.verify.symbols import latex
    >>> latex(BalancedMode)["a"].startswith(r"\frac{a_{0}}{")
    True
    """
    import sympy

    _, _, _, _, state = closed_form(cls)
    lines = {}
    for name, value in zip(state._fields, state, strict=True):
        for k, entry in enumerate(value.flat):
            lines[name if value.size == 1 else f"{name}_{k}"] = sympy.latex(sympy.factor_terms(entry))
    return lines
