"""The program of a flow: parameters, time and start in, state and observables out."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable
from typing import Any

from linsolve.core.arguments import unknown_name
from linsolve.engines.trace import Program, Tracer

__all__ = ["elementwise", "limits_of", "program_of"]


def elementwise(flow: Any) -> bool:
    """Whether a flow's parameters and state are single numbers for each network, so that it can be one program."""
    own = [field.metadata["axes"] for field in dataclasses.fields(flow)]  # type: ignore[arg-type]
    return not any(own) and not any(flow.axes.values())


def program_of(flow: Any, names: Iterable[str] | None = None) -> Program:
    """Return the program of a flow's closed form.

    Parameters
    ----------
    flow : type
        A flow whose parameters and state are single numbers; see `elementwise`.
    names : iterable of str, optional
        State fields and observables wanted, as a `Trajectory` gives them; by default the state.

    Returns
    -------
    Program
        Its inputs are the parameters, the fields of the start and ``t``, by name.

    Raises
    ------
    ValueError
        If the flow has arrays of its own, or a name is not known.
    """
    xp, traced, z0 = _traced(flow)
    t = xp.input("t")
    state = traced.solution(xp, t, z0)
    found = _Found(traced, xp, t, z0, state)
    for name in names if names is not None else flow.State._fields:  # type: ignore[attr-defined]
        xp.program.outputs[name] = xp.asarray(found[name]).index
    return xp.program


def limits_of(flow: Any, forward: bool = False) -> Program:
    """Return the program of a flow's `conditions`, by name, and of its `lifetime`, as "low" and "high".

    The former is left out if only later times are asked for, `forward`.
    """
    xp, traced, z0 = _traced(flow)
    low, high = traced.lifetime(xp, z0)
    found = {**traced.conditions(xp, z0), **({} if forward else {"low": low}), "high": high}
    for name, value in found.items():
        xp.program.outputs[name] = xp.asarray(value).index
    return xp.program


def _traced(flow: Any) -> tuple[Tracer, Any, Any]:
    """Return a namespace that records, and a flow and a start that are its inputs."""
    if not elementwise(flow):
        raise ValueError(
            f"program_of: flow = {flow.__name__} has parameters or states with axes of their own (only single numbers "
            "can be one program); call the flow itself"
        )
    xp = Tracer()
    traced = object.__new__(flow)
    for name in (field.name for field in dataclasses.fields(flow)):  # type: ignore[arg-type]
        object.__setattr__(traced, name, xp.input(name))
    return xp, traced, flow.State(*(xp.input(f"start.{name}") for name in flow.State._fields))  # type: ignore[attr-defined]


class _Found:
    """What a trajectory has by name, in the order of preference of `Trajectory`."""

    def __init__(self, flow: Any, xp: Any, t: Any, z0: Any, state: Any) -> None:
        self.flow, self.xp, self.state = copy.copy(flow), xp, state
        self.along = flow.along(xp, t, z0)

    def __getitem__(self, name: str) -> Any:
        if name in self.state._fields:
            return getattr(self.state, name)
        if name in self.along:
            return self.along[name]
        if name == "loss" or name in self.flow.declared:
            return getattr(self.flow, name)(self.xp, self.state)
        invariants = self.flow.invariants(self.xp, self.state)
        if name in invariants:
            return invariants[name]
        known = dict.fromkeys([*self.state._fields, "loss", *self.along, *self.flow.declared, *invariants])
        raise ValueError(unknown_name(type(self.flow).__name__, "observable", name, list(known)))
