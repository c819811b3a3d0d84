"""The two other routes to a trajectory: an ODE integrator and gradient descent with a finite step."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import shown, unknown_name
from linsolve.core.flow import Flow
from linsolve.core.layers import joined, parted
from linsolve.core.query import Problem, pose
from linsolve.core.trajectory import Trajectory

__all__ = ["descend", "integrate"]

_MOST_STEPS = 1e9
_METHODS = ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA")
_LEAST_RTOL = 100 * np.finfo(float).eps  # of solve_ivp


def integrate(
    flow: Flow, t: Any, z0: Any, *, rtol: float = 1e-10, atol: float | None = None, method: Any = "DOP853"
) -> Trajectory:
    """Integrate the gradient flow numerically with SciPy, from any start.

    Parameters
    ----------
    flow : Flow
        What to integrate; only its `velocity` is used.
    t : array_like, any shape
        Finite times, in any order and of either sign; the start is at 0.
    z0 : State
        Start. Each member of a batch is integrated by itself, so that none sets the step of another.
    rtol, atol : float
        Tolerances of ``scipy.integrate.solve_ivp``; `atol` defaults to 1e-6 `rtol` times the largest entry of the
        member's start, so that small components are followed in relative terms.
    method : str or class
        Any method of ``solve_ivp``, by name, or a class of solvers.

    Returns
    -------
    Trajectory
        Same shapes as ``flow(t, z0)``.

    Raises
    ------
    ValueError
        If a time is not finite, a tolerance not a number that can be met, or the method unknown.
    ArithmeticError
        If the integrator gives up; the message says where.

    Notes
    -----
    As in SciPy nothing bounds the number of steps. An explicit method needs about a step for each time constant of the
    fastest mode, however little happens: 1e9 of them take hours. Late times are what ``flow(t, z0)`` is for, or an
    implicit method, ``method="Radau"`` or ``"BDF"``. To bound the work, pass as `method` a subclass of one of SciPy's
    solvers whose ``step`` counts and raises.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> flow, t = ls.BalancedMode(s=2.0), [0.0, 1.0, 2.0]
    >>> traj = ls.integrate(flow, t, 0.01)
    >>> traj["a"].round(6).tolist()
    [0.01, 0.430588, 1.874841]
    >>> bool(np.abs(traj["a"] - flow(t, 0.01)["a"]).max() < 1e-9)
    True
    """
    for name, value, least in (("rtol", rtol, "positive"), ("atol", 0.0 if atol is None else atol, "not negative")):
        if not (isinstance(value, int | float | np.number) and (0 if name == "atol" else 1e-300) <= value < np.inf):
            raise ValueError(f"integrate: {name} = {shown(value)} must be finite and {least} (tolerance); say 1e-10")
    if rtol < _LEAST_RTOL:
        raise ValueError(f"integrate: rtol = {rtol!r} must be at least {_LEAST_RTOL:.2g} (tolerance, of doubles)")
    if not isinstance(method, type) and method not in _METHODS:
        raise ValueError(unknown_name("integrate", "method", method, _METHODS))
    problem = pose(flow, t, z0)
    times = arithmetic.to_numpy(problem.t).ravel()
    if not np.isfinite(times).all():
        raise ValueError(f"integrate: t = {times[~np.isfinite(times)][0]} must be finite; flow(t, z0) takes inf")
    problem_np = pose(flow.cast(np), times, type(flow).State(*(arithmetic.to_numpy(v) for v in problem.z0)))
    own = [tuple(v.shape[v.ndim - len(flow.axes[n]) :]) for n, v in zip(problem.z0._fields, problem.z0, strict=True)]
    out = [np.empty((len(times), *problem.batch, *shape)) for shape in own]
    for index in np.ndindex(problem.batch):
        member, start = _member(problem_np, index, own)
        path = _integrate_one(member, times, start, rtol, atol, method)
        for field, values in zip(out, parted(path, own), strict=True):
            field[(slice(None), *index)] = values
    shape = tuple(problem.t.shape)
    state = type(problem.z0)(*(arithmetic.cast(problem.xp, f.reshape(shape + f.shape[1:])) for f in out))
    return Trajectory(problem.flow, problem.t, state, getattr(method, "__name__", method))


def _member(problem: Problem, index: tuple[int, ...], own: list[tuple[int, ...]]) -> tuple[Flow, list[np.ndarray]]:
    def pick(value: np.ndarray, tail: int) -> np.ndarray:
        lead = value.shape[: value.ndim - tail]
        full = np.broadcast_to(value, problem.batch + value.shape[value.ndim - tail :]) if lead else value
        return full[index] if lead else full

    chosen = {
        name: pick(value, len(type(problem.flow).__dataclass_fields__[name].metadata["axes"]))
        for name, value in problem.flow.parameters().items()
    }
    return type(problem.flow)(**chosen), [pick(v, len(s)) for v, s in zip(problem.z0, own, strict=True)]


def _integrate_one(
    flow: Flow, times: np.ndarray, start: list[np.ndarray], rtol: float, atol: float | None, method: Any
) -> np.ndarray:
    from scipy.integrate import solve_ivp

    shapes = [np.shape(v) for v in start]
    y0 = joined(start)
    scale = np.abs(y0).max()
    floor = 1e-6 * rtol * (scale if scale > 0 else 1.0) if atol is None else atol
    state = type(flow).State

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        return joined(flow.velocity(np, state(*parted(y, shapes))))

    path = np.empty((len(times), y0.size))
    path[times == 0] = y0
    for side in (times > 0, times < 0):
        if not side.any():
            continue
        stops, back = np.unique(np.abs(times[side]), return_inverse=True)
        sign = 1.0 if times[side][0] > 0 else -1.0
        with np.errstate(over="ignore", invalid="ignore"):  # a step beyond a blow-up is rejected by the integrator
            found = solve_ivp(rate, (0.0, sign * stops[-1]), y0, method, sign * stops, rtol=rtol, atol=floor)
        if not found.success:
            reached = found.t[-1] if len(found.t) else 0.0
            raise ArithmeticError(
                f"integrate: {type(flow).__name__} stopped after t = {reached}: {found.message} "
                "The solution may blow up there; ask for earlier times or another method"
            )
        path[side] = found.y.T[back]
    return path


def descend(flow: Flow, t: Any, z0: Any, *, step: float) -> Trajectory:
    """Train by gradient descent with a finite step, as a simulation would.

    Parameters
    ----------
    flow : Flow
        What to train; its `step` is the exact map of one descent step on the weights.
    t : array_like, any shape
        Finite times, not negative; each is answered at the nearest whole number of steps.
    z0 : State
        Start; a batch is trained together.
    step : float
        Length of one step in units of time (learning rates are the flow's own), positive.

    Returns
    -------
    Trajectory
        Its `t` holds the times actually reached, multiples of `step`. It differs from the flow by O(step).

    Raises
    ------
    ValueError
        If the step is not positive and finite, or a time is negative or infinite.
    ArithmeticError
        If the descent diverges; the message says when.

    Examples
    --------
    >>> import linsolve as ls
    >>> flow = ls.BalancedMode(s=2.0)
    >>> exact = flow([1.0], 0.01)["a"]
    >>> [float(abs(ls.descend(flow, [1.0], 0.01, step=step)["a"] - exact)[0].round(4)) for step in (0.1, 0.05, 0.025)]
    [0.0955, 0.0516, 0.0268]
    """
    problem = pose(flow, t, z0)
    xp, who = problem.xp, type(flow).__name__
    if not (isinstance(step, int | float | np.number) and 0 < step < np.inf):
        raise ValueError(f"descend: step = {shown(step)} must be positive and finite (units of time); say 1e-3")
    times = arithmetic.to_numpy(problem.t)
    if not (np.isfinite(times).all() and (times >= 0).all()):
        raise ValueError(f"descend: t = {times.min()} .. {times.max()} must be finite and not negative")
    if times.max() / step > _MOST_STEPS:
        raise ValueError(
            f"descend: t / step = {times.max() / step:.3g} must be at most {_MOST_STEPS:.0e} (steps to take); "
            "take a larger step or an earlier time"
        )
    counts = np.rint(times / step).astype(int)
    wanted, z, done, kept = np.unique(counts), problem.z0, 0, []
    h = arithmetic.cast(xp, step)
    for count in wanted:
        with np.errstate(over="ignore", invalid="ignore"):  # divergence is reported below, by name
            for _ in range(count - done):
                z = problem.flow.step(xp, z, h)
        done = count
        if not all(np.isfinite(arithmetic.to_numpy(v)).all() for v in z):
            raise ArithmeticError(
                f"descend: {who} diverged before t = {count * step:g} at step = {step:g}; take a smaller one"
            )
        kept.append(z)
    where = np.searchsorted(wanted, counts)
    fields = []
    for name, *values in zip(z._fields, *kept, strict=True):
        own = len(flow.axes[name])
        full = [xp.broadcast_to(v, problem.batch + tuple(v.shape[v.ndim - own :])) for v in values]
        stacked = xp.stack([full[i] for i in where.ravel()])
        fields.append(xp.reshape(stacked, where.shape + tuple(stacked.shape[1:])))
    reached = arithmetic.cast(xp, counts * float(step))
    return Trajectory(problem.flow, reached, type(z)(*fields), "gradient descent")
