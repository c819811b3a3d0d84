"""Numerical routes to a trajectory: an adaptive ODE integrator, and gradient descent with a finite step."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import choice, integer, number, shown
from linsolve.core.flow import Flow
from linsolve.core.named_arguments import named_arguments
from linsolve.core.parameters import own_axes
from linsolve.core.query import Problem, pose
from linsolve.core.trajectory import Trajectory

__all__ = [
    "descend",
    "finite_times",
    "first_zero",
    "integrate",
    "joined",
    "parted",
    "raised",
    "refuse_steps",
]

_METHODS = ("RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA")
_ROUNDING = 1e-16  # of the largest entry of a field, below which others have no digits
_TINY = 5e-324  # smallest positive atol; solvers divide by it where the state is 0
_FALL = 1e-6  # a state that has fallen by this factor needs smaller tolerances than its start
_FINEST = 1e-320  # smallest error that has two digits as a double
_RTOL = "[2.3e-14, inf)"  # the smallest rtol of solve_ivp is 100 eps


def joined(arrays: Sequence[Any]) -> np.ndarray:
    """Return all entries of the arrays as one vector."""
    return np.concatenate([np.ravel(v) for v in arrays])


def parted(y: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Split the last axis of `y` into arrays of these shapes."""
    cuts = np.cumsum([int(np.prod(s, dtype=int)) for s in shapes])[:-1]
    return [part.reshape(y.shape[:-1] + tuple(s)) for part, s in zip(np.split(y, cuts, axis=-1), shapes, strict=True)]


@named_arguments("integrate")
def integrate(
    flow: Flow,
    t: Any,
    z0: Any,
    *,
    rtol: float = 1e-10,
    atol: Any = None,
    method: Any = "DOP853",
    max_evaluations: int = 200_000,
) -> Trajectory:
    """Integrate the gradient flow numerically with SciPy, from any initial state.

    Parameters
    ----------
    flow : Flow
        The network; only its `velocity` is used.
    t : array_like, any shape
        Finite times, in any order and of either sign; the initial time is 0.
    z0 : State
        Initial state. Each member of a batch is integrated separately, with its own step sizes.
    rtol : float
        Relative tolerance of ``scipy.integrate.solve_ivp``.
    atol : float or sequence of float
        Absolute tolerance, or one for each field of the state. It defaults to 1e-6 `rtol` times the largest entry of
        the member's initial state, for raw weights of each layer, as layers of one network may differ by many decades.
        In DOP853 it rises and falls with the largest entry of each field, down to this. A member that falls by six
        decades is integrated again with that of its smallest state.
    method : str or class
        Any method of ``solve_ivp``, by name, or a class of solvers.
    max_evaluations : int
        Largest number of evaluations of the velocity for each member and each direction of time.

    Returns
    -------
    Trajectory
        Same shapes as ``flow(t, z0)``.

    Raises
    ------
    ValueError
        If a time is not finite, a tolerance is out of range, or the method is unknown.
    ArithmeticError
        If the integrator fails or needs more than `max_evaluations`; the message contains the time that was reached.

    Notes
    -----
    An explicit method needs about 10 evaluations per time constant of the fastest mode, even if the solution changes
    slowly. For late times use ``flow(t, z0)``, or an implicit method, ``method="Radau"`` or ``"BDF"``.

    The error of a step is relative to the state at its time. If a state falls by many decades, early errors can remain
    in entries that depend on invariants of the flow, as Gram matrices of unbalanced layers do: from a start of 1e4
    times the target, states of `WhitenedTwoLayer` had errors of 3e-8, and 3e-10 with ``rtol=1e-13``.

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
    who = "integrate"
    rtol = number(who, "rtol", rtol, meaning="relative tolerance of doubles", domain=_RTOL, example=1e-10)
    if atol is not None:
        atol = _checked_atol(who, atol, flow)
    _refuse_no_solver(who, method)
    most = integer(
        who, "max_evaluations", max_evaluations, meaning="of the velocity, for each member", high=2**53, example=200_000
    )
    problem = pose(flow, t, z0, who)
    times = finite_times(who, problem, negative=True).ravel()
    problem_np = pose(flow.cast(np), times, type(flow).State(*(arithmetic.to_numpy(v) for v in problem.z0)))
    own = _own_shapes(problem)
    out = [np.empty((len(times), *problem.batch, *shape)) for shape in own]
    for index in np.ndindex(problem.batch):
        member, start = _member(problem_np, index, own)
        path = _integrate_one(member, times, start, rtol, atol, method, most)
        for field, values in zip(out, parted(path, own), strict=True):
            field[(slice(None), *index)] = values
    shape = tuple(problem.t.shape)
    state = type(problem.z0)(*(arithmetic.cast(problem.xp, f.reshape(shape + f.shape[1:])) for f in out))
    return Trajectory(problem.flow, problem.t, state, getattr(method, "__name__", method))


def _checked_atol(who: str, atol: Any, flow: Any) -> float | list[float]:
    about: dict[str, Any] = {"meaning": "absolute tolerance", "domain": "[0, inf)", "example": 1e-16}
    if not isinstance(atol, list | tuple):
        return number(who, "atol", atol, **about)
    fields = getattr(getattr(flow, "State", None), "_fields", atol)
    if len(atol) != len(fields):
        rule = f"must be a number, or {len(fields)} of them (absolute tolerance of each field of the state)"
        raise ValueError(f"{who}: atol = {shown(atol)} {rule}; say 1e-16")
    return [number(who, f"atol[{k}]", each, **about) for k, each in enumerate(atol)]


def _refuse_no_solver(who: str, method: Any) -> None:
    """Raise ValueError unless `method` is the name of a method of `solve_ivp` or a class of solvers."""
    from scipy.integrate import OdeSolver

    if not isinstance(method, type):
        choice(who, "method", method, _METHODS)
    elif not issubclass(method, OdeSolver) or method is OdeSolver:
        raise ValueError(
            f"{who}: method = {method.__name__} must be one of {', '.join(sorted(_METHODS))}, or a subclass of "
            "scipy.integrate.OdeSolver (integrator); say 'DOP853'"
        )


def finite_times(who: str, problem: Problem, *, negative: bool = False) -> np.ndarray:
    """Return the times as a NumPy array; check that they are finite and, unless `negative`, not negative."""
    times = arithmetic.to_numpy(problem.t)
    bad = times[~np.isfinite(times) | ((times < 0) & (not negative))]
    if bad.size:
        rule = "finite" if negative else "finite and not negative"
        raise ValueError(f"{who}: t = {bad[0]} must be {rule} (time); flow(t, z0) takes inf")
    return times


def _own_shapes(problem: Problem) -> list[tuple[int, ...]]:
    """Return the shape of each field of the state without batch axes."""
    axes = problem.flow.axes
    return [tuple(v.shape[v.ndim - len(axes[n]) :]) for n, v in zip(problem.z0._fields, problem.z0, strict=True)]


def _member(problem: Problem, index: tuple[int, ...], own: list[tuple[int, ...]]) -> tuple[Flow, list[np.ndarray]]:
    """Return flow and initial state of one member of a batch."""

    def pick(value: np.ndarray, tail: int) -> np.ndarray:
        lead = value.shape[: value.ndim - tail]
        full = np.broadcast_to(value, problem.batch + value.shape[value.ndim - tail :]) if lead else value
        return full[index] if lead else full

    chosen = {
        name: pick(value, len(own_axes(type(problem.flow).__dataclass_fields__[name], value)))
        for name, value in problem.flow.parameters().items()
    }
    return type(problem.flow)(**chosen), [pick(v, len(s)) for v, s in zip(problem.z0, own, strict=True)]


def raised(floor: np.ndarray, y: np.ndarray, counts: Sequence[int], share: float) -> np.ndarray:
    """Return absolute tolerances that are at least `share` of the largest entry of their part of the state.

    Tolerances of a small start would stop an integrator later, where an entry of a state of order one passes 0. The
    parts follow one another and have `counts` entries.
    """
    begin = np.cumsum([0, *counts[:-1]])
    return np.maximum(floor, share * np.repeat(np.maximum.reduceat(np.abs(y), begin), counts))


def _following(floor: np.ndarray, counts: Sequence[int], share: float) -> Any:
    """Return DOP853 with tolerances that rise and fall with the parts of the state, down to `floor`.

    If the state has fallen by `_FALL`, so does the floor: the sign of a state below its tolerance is lost to errors.
    """
    from scipy.integrate import DOP853

    class Following(DOP853):
        atol: np.ndarray

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.floor, self.scale = floor, np.abs(self.y).max()

        def _step_impl(self) -> Any:
            largest = np.abs(self.y).max()
            if 0 < largest < _FALL * self.scale:
                self.floor, self.scale = np.minimum(self.floor, max(share * largest, _TINY)), largest
            self.atol = raised(self.floor, self.y, counts, share)
            return super()._step_impl()

    return Following


class _Spent(Exception):
    """Raised when the budget of evaluations is used up."""


class _Rate:
    """Velocity of a flow in SciPy's form, on states flattened to one vector, with a budget of evaluations."""

    def __init__(self, flow: Flow, start: Sequence[np.ndarray], most: int) -> None:
        self.flow, self.start = flow, joined(start)
        ends = np.cumsum([np.size(v) for v in start])
        self.parts = [(slice(end - np.size(v), end), np.shape(v)) for v, end in zip(start, ends, strict=True)]
        self.most, self.left, self.time = most, most, 0.0

    def state(self, y: np.ndarray) -> Any:
        return type(self.flow).State(*(y[part].reshape(shape) for part, shape in self.parts))

    def __call__(self, t: float, y: np.ndarray) -> np.ndarray:
        self.left, self.time = self.left - 1, t
        if self.left < 0:
            raise _Spent
        return joined(self.flow.velocity(np, self.state(y)))

    def solve(self, who: str, end: float, method: Any, **options: Any) -> Any:
        """Return the solution of `solve_ivp` until `end`, or until an event.

        Raises
        ------
        ArithmeticError
            If the integrator fails or the budget is used up.
        """
        from scipy.integrate import solve_ivp
        from scipy.linalg import LinAlgWarning

        name, self.left = type(self.flow).__name__, self.most
        try:
            # the integrator rejects steps beyond a blow-up
            with np.errstate(over="ignore", invalid="ignore"), warnings.catch_warnings():
                warnings.simplefilter("error", LinAlgWarning)
                found = solve_ivp(self, (0.0, end), self.start, method, **options)
        except (np.linalg.LinAlgError, LinAlgWarning) as error:
            raise ArithmeticError(
                f"{who}: {name} stopped at t = {self.time:g}: its velocity cannot be evaluated there ({error}); use "
                "earlier times"
            ) from None
        except _Spent:
            raise ArithmeticError(
                f"{who}: t = {end:g} is too late (time); {name} has reached t = {self.time:.6g} after max_evaluations "
                f"= {self.most} of the velocity; use flow(t, z0), method='Radau', or more evaluations"
            ) from None
        if found.status < 0:
            raise ArithmeticError(
                f"{who}: {name} stopped at t = {self.time:.6g}: {found.message} The solution may blow up there, or "
                "rounding errors grow; use earlier times or another method"
            )
        return found


def _integrate_one(
    flow: Flow, times: np.ndarray, start: list[np.ndarray], rtol: float, atol: Any, method: Any, most: int
) -> np.ndarray:
    rate = _Rate(flow, start, most)
    scale = np.abs(rate.start).max()
    if atol is None and 0 < scale < _FINEST / rtol:
        raise ValueError(
            f"integrate: z0 = {scale:.3g} is too small for rtol = {rtol:g} (largest entry of the initial state; its "
            "errors are no doubles); use flow(t, z0)"
        )
    counts, floors = [np.size(v) for v in start], atol if isinstance(atol, list) else [atol] * len(start)
    if atol is None:
        scales = getattr(flow, "weight_scales", None)  # layers may differ by many decades
        sizes = scales(start, scale) if scales is not None and scale > 0 else [scale or 1.0] * len(start)
        floors = [1e-6 * rtol * size for size in sizes]
    # never 0, which would divide by zero where an entry of the state vanishes
    floor = np.maximum(np.repeat(floors, counts), _TINY)

    follows = atol is None and method == "DOP853"
    used = _following(floor, counts, max(1e-6 * rtol, _ROUNDING)) if follows else method
    path = np.empty((len(times), rate.start.size))
    path[times == 0] = rate.start
    for sign, side in ((1.0, times > 0), (-1.0, times < 0)):
        if side.any():
            stops, back = np.unique(np.abs(times[side]), return_inverse=True)
            found = rate.solve("integrate", sign * stops[-1], used, t_eval=sign * stops, rtol=rtol, atol=floor)
            least = np.abs(found.y).max(axis=0).min()
            if atol is None and not follows and 0 < least < _FALL * scale:  # the start is no measure of these errors
                finer = np.minimum(floor, max(1e-6 * rtol * least, _TINY))
                found = rate.solve("integrate", sign * stops[-1], used, t_eval=sign * stops, rtol=rtol, atol=finer)
            path[side] = found.y.T[back]
    return path


def first_zero(
    flow: Flow,
    z0: Any,
    event: Callable[[Any], float],
    *,
    until: float,
    rtol: float,
    atol: float,
    newton: int = 0,
    max_evaluations: int = 200_000,
) -> tuple[float, Any]:
    """Return the first time at which `event(state)` vanishes along the gradient flow of one network, and the state.

    Parameters
    ----------
    flow : Flow
    z0 : State
        Initial state, without batch axes.
    event : callable
        Function of a State.
    until : float
        Latest time of the search.
    rtol, atol, max_evaluations
        As for `integrate`.
    newton : int
        Number of Newton steps in time, each with a new integration, which remove the error of the interpolant.

    Raises
    ------
    ArithmeticError
        If the event does not occur before `until`.
    """
    who, rate = "first_zero", _Rate(flow, list(z0), max_evaluations)

    def reached(_: float, y: np.ndarray) -> float:
        return event(rate.state(y))

    reached.terminal = True  # type: ignore[attr-defined]
    tolerances: dict[str, Any] = {"rtol": rtol, "atol": atol}
    found = rate.solve(who, until, "DOP853", events=reached, **tolerances)
    time, y = float(found.t[-1]), found.y[:, -1]
    for _ in range(newton if found.status == 1 else 0):
        y = rate.solve(who, time, "DOP853", t_eval=[time], **tolerances).y[:, -1]
        move = 1e-6 * time * rate(0.0, y)
        time -= 2e-6 * time * reached(time, y) / (reached(time, y + move) - reached(time, y - move))
    if found.status != 1 or not np.isfinite(time):
        raise ArithmeticError(f"{who}: t = {time:g} is reached without the event (time); use another start")
    return time, rate.state(y)


@named_arguments("descend")
def descend(flow: Flow, t: Any, z0: Any, *, step: float, max_steps: int = 2_000_000) -> Trajectory:
    """Train by gradient descent with a finite step.

    Parameters
    ----------
    flow : Flow
        The network; its `step` is the exact map of one descent step on the weights.
    t : array_like, any shape
        Finite times, not negative; each is rounded to the nearest whole number of steps.
    z0 : State
        Initial state; a batch is trained together.
    step : float
        Length of one step in units of time, positive; the learning rates are those of the flow.
    max_steps : int
        Largest number of steps.

    Returns
    -------
    Trajectory
        Its `t` contains the times actually reached, multiples of `step`. It differs from the flow by O(step).

    Raises
    ------
    ValueError
        If the step is not positive and finite, or a time is negative, infinite, or needs more than `max_steps` steps.
    ArithmeticError
        If the weights leave the range of doubles; the message contains the first time at which they do. An
        observable of finite weights that leaves it raises OverflowError, an ArithmeticError, at its access.

    Examples
    --------
    >>> import linsolve as ls
    >>> flow = ls.BalancedMode(s=2.0)
    >>> exact = flow([1.0], 0.01)["a"]
    >>> [float(abs(ls.descend(flow, [1.0], 0.01, step=step)["a"] - exact)[0].round(4)) for step in (0.1, 0.05, 0.025)]
    [0.0955, 0.0516, 0.0268]
    """
    step = number("descend", "step", step, meaning="units of time", example=1e-3)
    most = integer("descend", "max_steps", max_steps, meaning="steps to take", high=2**53, example=2_000_000)
    problem = pose(flow, t, z0, "descend")
    times = finite_times("descend", problem)
    refuse_steps("descend", times, step, most)
    xp, counts = problem.xp, np.rint(times / step).astype(int)
    wanted, z, done, kept = np.unique(counts), problem.z0, 0, []
    h = arithmetic.cast(xp, step)
    for count in wanted:
        after = _stepped(problem, z, count - done, h)
        if not is_finite(after):
            while is_finite(z):
                z, done = _stepped(problem, z, 1, h), done + 1
            raise ArithmeticError(
                f"descend: {type(flow).__name__} diverged before t = {done * step:g} at step = {step:g}; use a smaller "
                "one"
            )
        z, done = after, count
        kept.append(z)
    where = np.searchsorted(wanted, counts)
    fields = []
    for own, *values in zip(_own_shapes(problem), *kept, strict=True):
        full = [xp.broadcast_to(v, problem.batch + own) for v in values]
        stacked = xp.stack([full[i] for i in where.ravel()])
        fields.append(xp.reshape(stacked, where.shape + tuple(stacked.shape[1:])))
    reached = arithmetic.cast(xp, counts * step)
    return Trajectory(problem.flow, reached, type(z)(*fields), "gradient descent")


def refuse_steps(who: str, times: np.ndarray, step: float, most: float) -> None:
    """Raise ValueError for times that need more than `most` steps."""
    with np.errstate(over="ignore"):
        count = times.max() / np.float64(step)
    most = min(most, 1e308)
    if count > most:
        raise ValueError(
            f"{who}: t / step = {count:.3g} must be at most {most:.3g} (steps to take); use a larger "
            "step or an earlier time"
        )


def _stepped(problem: Problem, z: Any, count: int, h: Any) -> Any:
    """Return the state after `count` steps of descent, not finite if it diverges."""
    with np.errstate(all="ignore"):
        try:
            for _ in range(count):
                z = problem.flow.step(problem.xp, z, h)
        except np.linalg.LinAlgError:  # a decomposition of a state that is not finite
            z = type(z)(*(problem.xp.nan * v for v in z))
    return z


def is_finite(z: Any) -> bool:
    """Return whether all entries of a state are finite."""
    return all(np.isfinite(arithmetic.to_numpy(v)).all() for v in z)
