"""One flow and initial state, prepared for checks in doubles and in high precision, with times in units of a clock."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.definition import Definition
from linsolve.core.flow import Flow
from linsolve.core.query import Problem, pose, sizes, spread
from linsolve.core.verify.statements import refuse_ill_stated

__all__ = ["Case", "clock", "distance", "distances", "implements", "largest", "prepare"]

_TIMES = (0.0, 0.3, 1.0, 2.5, 6.0)


def implements(flow: Flow, name: str) -> bool:
    """Return whether a flow overrides a method of `Flow`."""
    own, base = (getattr(cls, name) for cls in (type(flow), Flow))
    return getattr(own, "__func__", own) is not getattr(base, "__func__", base)


class _Fields(NamedTuple):
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


class Case(_Fields):
    """Input of every check.

    Parameters
    ----------
    flow, z0 : Flow, State
        Flow and initial state in doubles.
    xp, exact, start : namespace, Flow, State
        Namespace, flow and initial state in high precision.
    clock : float
        Unit of time of the flow, ``|z0| / |velocity(z0)|``, the shortest of a batch.
    moving : bool
        False if every state of the batch is stationary; the clock is then 1.
    step : mpf
        Step of the difference quotients: truncation errors are far below any tolerance, rounding errors negligible.
    tolerance : float
        Tolerance for statements that hold exactly.
    batch : tuple of int
    """

    def times(self, *multiples: float) -> Any:
        """Return multiples of the clock in high precision, along an axis in front of the batch."""
        times = self.xp.asarray([m * self.clock for m in multiples])
        return self.xp.reshape(times, (len(multiples),) + (1,) * len(self.batch))

    def follow(self, t: Any, start: Any = None) -> Any:
        """Return the closed form in high precision, with all its axes."""
        z0 = self.start if start is None else start
        state = self.exact.solution(self.xp, t, z0)
        return spread(Problem(self.exact, self.xp, t[(slice(None),) + (0,) * len(self.batch)], z0, self.batch), state)

    @cached_property
    def path(self) -> tuple[Any, Any]:
        """The times 0, 0.3, 1, 2.5 and 6 clocks, and the closed form at these times in high precision."""
        t = self.times(*_TIMES)
        return t, self.follow(t)

    @cached_property
    def definition(self) -> Definition | None:
        """The raw network in high precision, if the flow declares one."""
        found: Definition | None = self.exact.definition(self.xp) if implements(self.flow, "definition") else None
        return found

    @cached_property
    def weights(self) -> dict[str, Any]:
        """Random weights of the raw network."""
        assert self.definition is not None
        return self.definition.draw(self.xp, np.random.default_rng(1), self.batch)

    @cached_property
    def jacobian(self) -> dict[str, Any]:
        """Derivative of the output of the raw network by `weights`."""
        assert self.definition is not None
        return self.definition.jacobian(self.xp, self.weights, self.batch, self.step)

    @cached_property
    def starts(self) -> list[Any]:
        """The initial state and, for a raw network, three random states and the state of zero weights, in doubles."""
        if self.definition is None:
            return [self.z0]
        rng = np.random.default_rng(2)
        drawn = [self.definition.draw(self.xp, rng, self.batch) for _ in range(3)]
        drawn.append({name: 0 * value for name, value in drawn[0].items()})
        state = type(self.z0)
        return [self.z0, *(state(*map(arithmetic.to_numpy, self.definition.state(w))) for w in drawn)]

    def holds(self, z: Any) -> np.ndarray:
        """Return whether a state in doubles satisfies the conditions of the closed form, shape batch."""
        held = np.ones(self.batch, dtype=bool)
        for value in self.flow.conditions(np, z).values():
            held &= np.broadcast_to(value <= self.flow.tolerance, self.batch)
        return held


def prepare(flow: Flow, z0: Any, dps: int) -> Case:
    """Return the case of a flow and an initial state."""
    xp = arithmetic.precise(2 * dps)
    posed = pose(flow, 0.0, z0, "verify")
    doubles = pose(flow.cast(np), 0.0, type(posed.z0)(*(arithmetic.to_numpy(v) for v in posed.z0)))
    refuse_ill_stated(doubles)
    exact, start = flow.cast(xp), type(posed.z0)(*(arithmetic.cast(xp, v) for v in posed.z0))
    step = xp.asarray(xp.context.mpf(10) ** (-(2 * dps) // 3))
    unit = clock(doubles.flow, doubles.z0)
    one, moving = (1.0, False) if unit is None else (unit, True)
    return Case(doubles.flow, doubles.z0, xp, exact, start, one, moving, step, 10.0 ** (-0.6 * dps), doubles.batch)


def clock(flow: Flow, z0: Any) -> float | None:
    """Return the shortest ``|z0| / |velocity(z0)|`` of a batch; None if all members are stationary."""
    length, speed = np.broadcast_arrays(*map(np.atleast_1d, (sizes(flow, z0), sizes(flow, flow.velocity(np, z0)))))
    moving = (speed > 0) & (length > 0)
    return float(np.min(length[moving] / speed[moving])) if moving.any() else None


def largest(values: Any) -> float:
    """Return the largest of `values`, nan if one of them is nan, 0 if there are none."""
    found = [float(value) for value in values]
    return float(np.max(found)) if found else 0.0


def distance(found: Any, expected: Any, floor: Any = 0.0) -> float:
    """Return the largest difference between two arrays, relative to the larger of `expected` and `floor`."""
    with np.errstate(invalid="ignore"):  # inf - inf is nan, which fails every check
        worst, size = (_largest_entry(v) for v in (found - expected, expected))
    scale = max(size, _scalar(floor))
    return float(worst / scale) if scale > 0 else float(worst)


def distances(found: Any, expected: Any, floor: Any, batch: tuple[int, ...]) -> np.ndarray:
    """Return `distance` for each member of a batch; batch axes follow the time axes."""
    difference, size = (np.abs(arithmetic.to_numpy(v)) for v in (found - expected, expected + 0 * found))
    rest = tuple(range(len(batch), difference.ndim))
    worst, size = (np.max(v, axis=rest) if rest else v for v in (difference, size))
    scale = np.maximum(size, floor)
    return np.asarray(worst / np.where(scale > 0, scale, 1.0))


def _largest_entry(values: Any) -> Any:
    """Return the largest absolute value; nan if an entry is nan, which the maximum of an object array may ignore."""
    flat = abs(values)
    if not flat.shape:
        return _scalar(flat)
    return np.nan if (flat != flat).any() else _scalar(flat.max())


def _scalar(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
