r"""Neural collapse in JAX: values by the host, derivatives by the variational equation along the solution.

The solvable set of a start and its modes depend on values, so the host chooses them. A change of the start and the
kernel obeys :math:`\delta z' = (\partial v/\partial z)\, \delta z + (\partial v/\partial p)\, \delta p`, v the velocity
along the solution. It is integrated by the Runge-Kutta method of order 8 of `scipy.integrate.DOP853`. The steps grow
with time, as the fast modes decay. A derivative is nan where a generic change grows by more than 1e6, near a saddle.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

__all__ = ["distance_by_host", "evaluated_by_host"]

_STEPS = 128
_GRADED = 1.5  # power of the grid of times
_FAR = 200.0  # largest product of time and rate that the steps cover; later the solution must have converged
_CONVERGED = 1e-12
_GROWTH = 1e6  # largest growth of a change; beyond it, near a saddle, rounding errors of the derivative are large


def _rates(flow: Any) -> list[str]:
    """Return the names of the parameters that are numbers, not counts."""
    return [field.name for field in dataclasses.fields(flow) if not field.metadata["whole"]]


def _with(flow: Any, values: Any) -> Any:
    """Return the flow with these values of the parameters that are numbers."""
    return flow._with(**dict(zip(_rates(flow), values, strict=True)))


def evaluated_by_host(xp: Any, flow: Any, t: Any, z0: Any) -> Any:
    """Return the fields of the state at times `t`."""
    shape, given = _broadcast(xp, flow, z0, tuple(t.shape))

    def values(t: Any, *given: Any) -> Any:
        return tuple(v[..., 0, *(slice(None),) * own] for v, own in _path(xp, flow, t[..., None], given))

    def derivative(found: Any, given: Any, changes: Any) -> Any:
        return _changes(xp, flow, found, given, changes)

    return xp.with_derivative(values, derivative, xp.broadcast_to(t, shape), *given)


def _path(xp: Any, flow: Any, t: Any, given: Any) -> list[tuple[Any, int]]:
    """Return the fields of the state at times `t`, shape batch + (times,), each with the number of its own axes."""
    owns = [len(flow.axes[name]) for name in flow.State._fields]
    state = given[len(_rates(flow)) :]
    ends = [tuple(t.shape) + tuple(v.shape[v.ndim - own :]) for v, own in zip(state, owns, strict=True)]

    def values(t: np.ndarray, *given: np.ndarray) -> Any:
        own, z = _host_problem(flow, given)
        clock = np.moveaxis(np.where(t > _late(), np.inf, t).reshape(-1, t.shape[-1]), -1, 0)
        return [np.moveaxis(v, 0, 1).reshape(*t.shape, *v.shape[2:]) for v in own.solution(np, clock, z)]

    return list(zip(xp.on_host(values, ends, t, *given), owns, strict=True))


def _changes(xp: Any, flow: Any, found: Any, given: Any, changes: Any) -> Any:
    """Return the changes of the state; nan if changes grow, and at times not reached before it has converged."""
    from scipy.integrate import DOP853

    (t, *given), (dt, *changes) = given, changes
    count = len(_rates(flow))

    def velocity(*values: Any) -> Any:
        return tuple(_with(flow, values[:count]).velocity(xp, flow.State(*values[count:])))

    pace = _pace(xp, flow, given, found)
    far = t * pace > _FAR
    end = xp.where(far, _FAR / pace, t)
    marks = np.linspace(0.0, 1.0, _STEPS + 1) ** _GRADED
    nodes = np.append((marks[:-1, None] + np.diff(marks)[:, None] * DOP853.C).ravel(), 1.0)
    path = [xp.moveaxis(v, -1 - own, 0) for v, own in _path(xp, flow, end[..., None] * xp.asarray(nodes), given)]
    along = tuple(xp.reshape(v[:-1], (_STEPS, len(DOP853.C), *v.shape[1:])) for v in path)

    def step(carried: Any, over: Any) -> tuple[Any, None]:
        share, states = over

        def advanced(change: Any, kernel: Any) -> Any:
            slopes: list[Any] = []
            for k, row in enumerate(DOP853.A):
                moved = _combined(change, share * end, row, slopes)
                there = (*given[:count], *(v[k] for v in states))
                slopes.append(xp.jvp(velocity, there, (*kernel, *moved))[1])
            return _combined(change, share * end, DOP853.B, slopes)

        change, probe = carried
        return (advanced(change, changes[:count]), advanced(probe, still)), None

    still, probe = tuple(0 * v for v in given[:count]), _generic(xp, given[count:])
    start = tuple(changes[count:]), probe
    carried, after = xp.scan(step, start, (xp.asarray(np.diff(marks)), along))
    grown = _largest(xp, after, t.ndim) > _GROWTH * _largest(xp, probe, t.ndim)
    ahead = velocity(*given[:count], *found)
    result = []
    for change, last, value, speed in zip(carried, path, found, ahead, strict=True):
        axes = tuple(range(t.ndim, value.ndim))
        gone = xp.max(xp.abs(last[-1] - value), axis=axes) <= _CONVERGED * xp.max(xp.abs(value), axis=axes)
        own = (..., *(None,) * len(axes))
        kept = change * xp.where(far & ~gone | grown, xp.nan, 1.0)[own]  # `where` would hide nan in reverse mode
        result.append(kept + xp.where(far, xp.zeros_like(dt), dt)[own] * speed)
    return tuple(result)


def _generic(xp: Any, state: Any) -> Any:
    """Return a change of the state in a generic direction, of its size."""
    return tuple(xp.cos(1 + xp.reshape(xp.arange(v.size) % 1000, v.shape)) * xp.max(xp.abs(v)) for v in state)


def _largest(xp: Any, state: Any, lead: int) -> Any:
    """Return the largest entry of all fields."""
    sizes = [xp.max(xp.abs(v), axis=tuple(range(lead, v.ndim))) for v in state]
    return functools.reduce(xp.maximum, sizes)


def _combined(state: Any, h: Any, row: Any, slopes: list[Any]) -> Any:
    """Return the state after a step `h` along a combination of slopes."""
    used = [(float(a), slope) for a, slope in zip(row, slopes, strict=False) if a != 0]
    return tuple(
        v + h[(..., *(None,) * (v.ndim - h.ndim))] * sum(a * slope[i] for a, slope in used) if used else v
        for i, v in enumerate(state)
    )


def _pace(xp: Any, flow: Any, given: Any, found: Any) -> Any:
    """Return a bound on the rates of the velocity at the start and at the end."""
    count = len(_rates(flow))
    own, z0 = _with(flow, given[:count]), given[count:]
    samples, kernel = sum(own.sizes), own._fastest()
    traces = [
        kernel * xp.sum(xp.linalg.diagonal(z[1]), axis=-1) + xp.sum(xp.linalg.diagonal(z[2]), axis=-1)
        for z in (z0, found)
    ]
    return samples * own.eta_b + kernel + xp.maximum(*traces)


def distance_by_host(xp: Any, flow: Any, z0: Any) -> Any:
    """Return the largest distance of each start from its nearest solvable set."""
    shape, given = _broadcast(xp, flow, z0, ())

    def worst(*given: np.ndarray) -> Any:
        own, z = _host_problem(flow, given)
        distances = own.conditions(np, z).values()
        return (functools.reduce(np.maximum, distances).reshape(given[0].shape),)

    return xp.on_host(worst, (shape,), *(xp.constant(v) for v in given))[0]


def _broadcast(xp: Any, flow: Any, z0: Any, lead: tuple[int, ...]) -> tuple[tuple[int, ...], list[Any]]:
    """Return the common shape of `lead`, parameters and batch; then kernel values and state, broadcast to it."""
    axes = [*((getattr(flow, name), 0) for name in _rates(flow))]
    axes += [(v, len(flow.axes[name])) for name, v in z0._asdict().items()]
    shape = np.broadcast_shapes(lead, *(v.shape[: v.ndim - own] for v, own in axes))
    return shape, [xp.broadcast_to(v, shape + tuple(v.shape[v.ndim - own :])) for v, own in axes]


def _host_problem(flow: Any, given: tuple[np.ndarray, ...]) -> tuple[Any, Any]:
    """Return flow and state of NumPy arrays with one batch axis."""
    batch, count = given[0].shape, len(_rates(flow))
    fields = (v.reshape(-1, *v.shape[len(batch) :]) for v in given[count:])
    return _with(flow, [value.reshape(-1) for value in given[:count]]), flow.State(*fields)


def _late() -> float:
    return float(np.sqrt(np.finfo(np.float32).max)) / 2
