"""One flow and start, prepared for checking: in doubles, in high precision, with times from the flow's own clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.flow import Flow
from linsolve.core.query import Problem, pose, spread
from linsolve.core.verify.statements import refuse_ill_stated

__all__ = ["Case", "distance", "prepare", "time_derivative"]


class Case(NamedTuple):
    """What every check starts from.

    Parameters
    ----------
    flow, z0 : Flow, State
        In doubles.
    xp, exact, start : namespace, Flow, State
        The same numbers in high precision.
    clock : float
        The flow's own unit of time, ``|z0| / |velocity(z0)|``, the shortest of a batch.
    moving : bool
        False where every start of the batch is stationary; the clock is then 1.
    step : mpf
        Step of the difference quotients: its square is far below any tolerance, its quotient far above rounding.
    tolerance : float
        For statements that hold exactly.
    batch : tuple of int
    """

    flow: Flow
    z0: Any
    xp: Any
    exact: Any
    start: Any
    clock: float
    moving: bool
    step: Any
    tolerance: float
    batch: tuple[int, ...]

    def times(self, *multiples: float) -> Any:
        """Return multiples of the clock as a high-precision time axis in front of the batch."""
        clock = self.xp.asarray([m * self.clock for m in multiples])
        return self.xp.reshape(clock, (len(multiples),) + (1,) * len(self.batch))

    def follow(self, t: Any, start: Any = None) -> Any:
        """Return the closed form in high precision, with all its axes."""
        state = self.exact.solution(self.xp, t, self.start if start is None else start)
        return spread(
            Problem(self.exact, self.xp, t[(slice(None),) + (0,) * len(self.batch)], self.start, self.batch), state
        )


def prepare(flow: Flow, z0: Any, dps: int) -> Case:
    """Return the case of a flow and a start."""
    xp = arithmetic.precise(2 * dps)
    posed = pose(flow, 0.0, z0)
    doubles = pose(flow.cast(np), 0.0, type(posed.z0)(*(arithmetic.to_numpy(v) for v in posed.z0)))
    refuse_ill_stated(doubles)
    exact, start = flow.cast(xp), type(posed.z0)(*(arithmetic.cast(xp, v) for v in posed.z0))
    step = xp.asarray(xp.context.mpf(10) ** (-(2 * dps) // 3))
    tolerance = 10.0 ** (-0.6 * dps)
    clock = _clock(doubles)
    unit, moving = (1.0, False) if clock is None else (clock, True)
    return Case(doubles.flow, doubles.z0, xp, exact, start, unit, moving, step, tolerance, doubles.batch)


def _clock(problem: Any) -> float | None:
    """Return the shortest ``|z0| / |velocity(z0)|`` of the batch; None where nothing moves."""
    own = [len(problem.flow.axes[name]) for name in problem.z0._fields]

    def size(state: Any) -> Any:
        squares = [np.sum(v * v, axis=tuple(range(-k, 0))) if k else v * v for v, k in zip(state, own, strict=True)]
        return np.sqrt(sum(squares[1:], squares[0]))

    speed = np.atleast_1d(size(problem.flow.velocity(np, problem.z0)))
    length = np.broadcast_to(size(problem.z0), np.broadcast_shapes(np.shape(size(problem.z0)), speed.shape))
    moving = (speed > 0) & (length > 0)
    return float(np.min(length[moving] / np.broadcast_to(speed, length.shape)[moving])) if moving.any() else None


def distance(found: Any, expected: Any, floor: Any = 0.0) -> float:
    """Return the largest difference between two arrays, relative to the larger of `expected` and `floor`."""
    difference, size = abs(found - expected), abs(expected)
    worst = difference.max() if difference.shape else difference
    scale = size.max() if size.shape else size
    worst, scale = _scalar(worst), max(_scalar(scale), _scalar(floor))
    return float(worst / scale) if scale > 0 else float(worst)


def _scalar(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def time_derivative(function: Callable[[Any], Any], t: Any, step: Any) -> list[Any]:
    """Return the central difference quotient of a function of time that returns a tuple of arrays."""
    later, earlier = function(t + step), function(t - step)
    return [(b - a) / (2 * step) for a, b in zip(earlier, later, strict=True)]
