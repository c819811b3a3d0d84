"""Checks of the form of a flow's methods: errors name the method that returns a wrong type or shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from linsolve.core.flow import Flow
from linsolve.core.query import NotExact, Problem, refuse_overflow

__all__ = ["refuse_ill_stated", "refuse_unportable"]

_TIMES = np.zeros(7)  # every solution exists at t = 0; few states have an axis of length 7
_ARITHMETIC = "array-API names of xp only (xp.exp, not numpy.exp), Python integers, no branch on a value"


def refuse_ill_stated(problem: Problem) -> None:
    """Evaluate each method once in doubles and check the form of the returned value.

    Raises
    ------
    TypeError
        If a method fails or returns a value of the wrong form; the message names the method and the form.
    OverflowError
        If the loss is beyond the range of doubles.
    NotImplementedError
        If the loss, the descent or the velocity is missing; a flow for numerical integration needs no solution.
    """
    flow, z0 = problem.flow, problem.z0
    solved = type(flow).solution is not Flow.solution
    clock = _TIMES.reshape(_TIMES.shape + (1,) * len(problem.batch))
    loss = _said(problem, "loss", z0)
    _refuse_shape(problem, "loss", loss, problem.batch)
    if problem.xp is np and np.isinf(loss).any():
        refuse_overflow(problem)
    of_states = [("velocity", (z0,)), ("descent", (z0, z0)), *([("solution", (clock, z0))] if solved else [])]
    for name, arguments in of_states:
        lead = (len(_TIMES), *problem.batch) if name == "solution" else problem.batch
        _refuse_no_state(problem, name, _said(problem, name, *arguments), lead)
    for name, arguments in (("conditions", (z0,)), ("invariants", (z0,)), ("rates", (z0,)), ("along", (clock, z0))):
        said, known = _said(problem, name, *arguments), {"loss": None, **flow.declared}
        if not isinstance(said, Mapping):
            raise TypeError(_wrong(problem, name, said, "a dict of arrays by name"))
        for each in said if name in ("rates", "along") else ():
            if each not in known:
                raise TypeError(_wrong(problem, name, each, f"rates or forms of observables: {', '.join(known)}"))
    ends = _said(problem, "lifetime", z0)
    if not (isinstance(ends, tuple) and len(ends) == 2):
        raise TypeError(_wrong(problem, "lifetime", ends, "two times, the beginning and the end of the solution"))


def refuse_unportable(error: Exception, case: Any) -> None:
    """Raise a TypeError naming the method that works in doubles but not in high precision, if there is one."""
    statements: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("loss", lambda: case.exact.loss(case.xp, case.start)),
        ("velocity", lambda: case.exact.velocity(case.xp, case.start)),
        ("descent", lambda: case.exact.descent(case.xp, case.start, case.start)),
        ("solution", lambda: case.follow(case.times(0.0, 0.5))),
    )
    for name, evaluate in statements:
        try:
            evaluate()
        except NotImplementedError:
            continue
        except Exception as found:
            raise TypeError(
                f"{type(case.flow).__name__}: {name} works in doubles but not in {case.xp} ({_read(found)}); it may "
                f"use {_ARITHMETIC}"
            ) from error


def _said(problem: Problem, name: str, *arguments: Any) -> Any:
    who = type(problem.flow).__name__
    try:
        with np.errstate(over="ignore"):
            return getattr(problem.flow, name)(problem.xp, *arguments)
    except (NotExact, NotImplementedError, Warning):
        raise
    except Exception as error:
        raise TypeError(f"{who}: {name} fails ({_read(error)}); it is called as in {who}.{name}(xp, ...)") from error


def _read(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _wrong(problem: Problem, name: str, said: Any, rule: str) -> str:
    kind = said if isinstance(said, str) else type(said).__name__
    return f"{type(problem.flow).__name__}: {name} returns {kind} but must return {rule}; change {name}"


def _refuse_no_state(problem: Problem, name: str, said: Any, lead: tuple[int, ...]) -> None:
    state = type(problem.z0)
    if not isinstance(said, state):
        raise TypeError(_wrong(problem, name, said, f"self.State({', '.join(state._fields)})"))  # type: ignore[attr-defined]
    for field, value, start in zip(problem.z0._fields, said, problem.z0, strict=True):
        own = len(problem.flow.axes[field])
        _refuse_shape(problem, f"{field} of {name}", value, lead + tuple(start.shape[start.ndim - own :]))


def _refuse_shape(problem: Problem, name: str, value: Any, shape: tuple[int, ...]) -> None:
    found = getattr(value, "shape", None)
    if found is None:
        raise TypeError(_wrong(problem, name, value, f"an array of shape {shape}"))
    try:
        fits = np.broadcast_shapes(found, shape) == tuple(shape)
    except ValueError:
        fits = False
    if not fits:
        axes = "times, batch and own axes" if "solution" in name else "batch and own axes"
        raise TypeError(_wrong(problem, name, value, f"shape {shape} ({axes}), not {tuple(found)}"))
