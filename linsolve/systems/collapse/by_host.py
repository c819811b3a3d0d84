"""Neural collapse in JAX: the host evaluates it, because the solvable set of a start is chosen by its values."""

from __future__ import annotations

import copy
import dataclasses
import functools
from typing import Any

import numpy as np

__all__ = ["distance_by_host", "evaluated_by_host"]


def _rates(flow: Any) -> list[str]:
    """Return the names of the parameters that are numbers, not counts."""
    return [field.name for field in dataclasses.fields(flow) if not field.metadata["whole"]]


def evaluated_by_host(xp: Any, flow: Any, t: Any, z0: Any) -> Any:
    """Return the fields of the state at times `t`, without derivatives.

    Raises
    ------
    TypeError
        If JAX differentiates the state.
    """
    shape, given = _broadcast(xp, flow, z0, tuple(t.shape))
    ends = tuple(shape + tuple(v.shape[v.ndim - len(flow.axes[name]) :]) for name, v in z0._asdict().items())

    def values(t: np.ndarray, *given: np.ndarray) -> Any:
        own, z = _host_problem(flow, given)
        late = np.where(t > _late(), np.inf, t).reshape(-1)
        return [v.reshape(*t.shape, *v.shape[1:]) for v in own.solution(np, late, z)]

    def refuse(*_: Any) -> Any:
        raise TypeError(
            f"{type(flow).__name__}: solution has no derivatives in JAX (the solvable set of a start and its modes are "
            "chosen by value); differentiate its loss, velocity or observables of a state, or take differences"
        )

    return xp.with_derivative(
        lambda *given: xp.on_host(values, ends, *given), refuse, xp.broadcast_to(t, shape), *given
    )


def distance_by_host(xp: Any, flow: Any, z0: Any) -> Any:
    """Return the largest distance of each start from its nearest solvable set."""
    shape, given = _broadcast(xp, flow, z0, ())

    def worst(*given: np.ndarray) -> Any:
        own, z = _host_problem(flow, given)
        distances = own.conditions(np, z).values()
        return (functools.reduce(np.maximum, distances).reshape(given[0].shape),)

    return xp.on_host(worst, (shape,), *(xp.constant(v) for v in given))[0]


def _broadcast(xp: Any, flow: Any, z0: Any, lead: tuple[int, ...]) -> tuple[tuple[int, ...], list[Any]]:
    """Return the common shape of `lead`, parameters and batch, and kernel values and state in this shape."""
    axes = [*((getattr(flow, name), 0) for name in _rates(flow))]
    axes += [(v, len(flow.axes[name])) for name, v in z0._asdict().items()]
    shape = np.broadcast_shapes(lead, *(v.shape[: v.ndim - own] for v, own in axes))
    return shape, [xp.broadcast_to(v, shape + tuple(v.shape[v.ndim - own :])) for v, own in axes]


def _host_problem(flow: Any, given: tuple[np.ndarray, ...]) -> tuple[Any, Any]:
    """Return flow and state of NumPy arrays with one batch axis."""
    own, batch, names = copy.copy(flow), given[0].shape, _rates(flow)
    for name, value in zip(names, given, strict=False):
        object.__setattr__(own, name, value.reshape(-1))
    fields = (v.reshape(-1, *v.shape[len(batch) :]) for v in given[len(names) :])
    return own, flow.State(*fields)


def _late() -> float:
    return float(np.sqrt(np.finfo(np.float32).max)) / 2
