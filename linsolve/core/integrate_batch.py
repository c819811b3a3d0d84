"""Fixed-step integration of whole ensembles on any array library: an independent check of closed forms on a GPU."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import integer, number
from linsolve.core.flow import Flow
from linsolve.core.integrate import finite_times, refuse_divergence, refuse_steps
from linsolve.core.query import Problem, pose
from linsolve.core.trajectory import Trajectory

__all__ = ["Simulated", "fixed_steps", "simulate_batch"]

_MOST_STEPS = 1e7


class Simulated(NamedTuple):
    """A simulated trajectory and its difference from the simulation with steps twice as long.

    Parameters
    ----------
    trajectory : Trajectory
    error : State
        Absolute difference in each field, of the shape of the field. It estimates the error of the coarse steps. The
        error of the trajectory is ``2^order`` times smaller, unless rounding dominates.
    """

    trajectory: Trajectory
    error: Any


def simulate_batch(flow: Flow, t: Any, z0: Any, *, step: float, order: int = 8) -> Simulated:
    r"""Integrate all members of a batch together, by equal steps of an explicit Runge--Kutta method of even order.

    The method is the extrapolated midpoint rule (Gragg 1965). Over a step `h` the modified midpoint rule with
    :math:`n_j = 2j` substeps has an error in even powers of :math:`h/n_j`, so that Aitken--Neville extrapolation of
    :math:`j = 1, \dots, k` has order :math:`2k`,

    .. math:: T_{j,l+1} = T_{j,l} + \frac{T_{j,l} - T_{j-1,l}}{(n_j/n_{j-l})^2 - 1} .

    This is a Runge--Kutta method of any even order. All members take the same steps, without a branch on a value, so
    that the method runs on any array library, also on a GPU.

    Parameters
    ----------
    flow : Flow
        The network; only its `velocity` is used.
    t : array_like, any shape
        Finite times, not negative.
    z0 : State
        Initial state, any batch; arrays of NumPy, CuPy or another array-API library.
    step : float
        Longest step, in units of time; between two times all steps are equal.
    order : int
        Order of the method, even, 2 to 12.

    Returns
    -------
    Simulated

    Raises
    ------
    ValueError
        If the order is not even or too high, a time is infinite or negative, or too many steps are needed.
    ArithmeticError
        If the simulation diverges; explicit methods diverge unless `step` times the fastest rate is small.

    Notes
    -----
    The flow is integrated twice, with `step` and with half of `step`; the finer solution is returned. The order is
    measured in ``tests/core/test_simulate_batch.py``.

    Source: Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I (1993), II.9, (9.10) and (9.13).

    Examples
    --------
    >>> import linsolve as ls
    >>> from linsolve.core.integrate_batch import simulate_batch
    >>> flow = ls.BalancedMode(s=[1.0, 2.0])
    >>> found = simulate_batch(flow, [0.0, 1.0], 0.1, step=0.1)
    >>> found.trajectory["a"][1].round(9).tolist() == flow(1.0, 0.1)["a"].round(9).tolist()
    True
    """
    who = "simulate_batch"
    order = integer(who, "order", order, meaning="of the error, an even number", low=2, high=12, example=8)
    if order % 2:
        raise ValueError(f"{who}: order = {order} must be an even integer from 2 to 12 (of the error); say 8")
    step = number(who, "step", step, meaning="units of time", example=0.01)
    problem = pose(flow, t, z0)
    times = finite_times(who, problem)
    refuse_steps(who, times, step, _MOST_STEPS)
    stops, place = np.unique(times, return_inverse=True)
    coarse, fine = (_path(problem, stops, step, split, order) for split in (1, 2))
    for stop, state in zip(stops, fine, strict=True):
        refuse_divergence(who, problem, state, stop, step)
    xp = problem.xp

    def gathered(path: list[Any]) -> list[Any]:
        fields = zip(*path, strict=True)
        stacked = [xp.stack([field[k] for k in place.ravel()]) for field in fields]
        return [xp.reshape(v, tuple(times.shape) + tuple(v.shape[1:])) for v in stacked]

    state, other = gathered(fine), gathered(coarse)
    error = type(problem.z0)(*(xp.abs(a - b) for a, b in zip(state, other, strict=True)))
    route = f"extrapolated midpoint rule of order {order}"
    return Simulated(Trajectory(problem.flow, problem.t, type(problem.z0)(*state), route), error)


def _path(problem: Problem, stops: np.ndarray, step: float, split: int, order: int) -> list[Any]:
    """Return the states at ascending times, by steps of `step` over `split`."""
    flow, xp = problem.flow, problem.xp
    own = [v.shape[v.ndim - len(flow.axes[name]) :] for name, v in zip(problem.z0._fields, problem.z0, strict=True)]
    z = tuple(xp.broadcast_to(v, problem.batch + tuple(s)) for v, s in zip(problem.z0, own, strict=True))
    now, found = 0.0, []
    for stop in stops.tolist():
        z = fixed_steps(flow, xp, z, stop - now, split * int(np.ceil((stop - now) / step)), order)
        now = stop
        found.append(z)
    return found


def fixed_steps(flow: Flow, xp: Any, z: tuple[Any, ...], time: float, count: int, order: int) -> tuple[Any, ...]:
    """Return the state after `time`, by `count` equal steps of the extrapolated midpoint rule of even `order`."""
    with np.errstate(over="ignore", invalid="ignore"):  # divergence raises a named error
        for _ in range(count):
            z = _step(flow, xp, z, time / count, order // 2)
    return z


def _step(flow: Flow, xp: Any, z: tuple[Any, ...], h: float, levels: int) -> tuple[Any, ...]:
    """Return the state after one step, by extrapolation of midpoint rules with 2, 4, ... substeps."""
    slope = flow.velocity(xp, flow.State(*z))  # type: ignore[arg-type]
    row: list[tuple[Any, ...]] = []
    for j in range(1, levels + 1):
        above, row = row, [_midpoint(flow, xp, z, slope, h, 2 * j)]
        for k, higher in enumerate(above, 1):
            weight = 1 / ((j / (j - k)) ** 2 - 1)
            row.append(tuple(a + (a - b) * weight for a, b in zip(row[-1], higher, strict=True)))
    return row[-1]


def _midpoint(flow: Flow, xp: Any, z: tuple[Any, ...], slope: Any, h: float, count: int) -> tuple[Any, ...]:
    """Return the state after `count` substeps of the modified midpoint rule."""
    part = h / count
    before, now = z, tuple(a + part * v for a, v in zip(z, slope, strict=True))
    for _ in range(count - 1):
        rate = flow.velocity(xp, flow.State(*now))  # type: ignore[arg-type]
        before, now = now, tuple(a + 2 * part * v for a, v in zip(before, rate, strict=True))
    return now
