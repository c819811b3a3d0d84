"""Checks of the range of a closed form: conditions, limit, time to a loss, lifetime."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.flow import Flow
from linsolve.core.query import NotExact, sizes
from linsolve.core.verify.case import Case, clock, distance, distances, implements, largest

__all__ = ["check_conditions", "check_lifetime", "check_limit", "check_time_to"]

Row = tuple[float, float, str]

_FAR = 1e30  # norm at which the integration stops and the growth is extrapolated
_RANGE = 1e154  # largest number whose square is a double


def check_conditions(case: Case) -> Row | None:
    """Check on random weights that the conditions vanish exactly where the residual does, and that violations raise.

    The residual from the initial state, which obeys the conditions, is checked where no random weights obey them.
    """
    worst, details = [0.0], []
    if case.definition is not None:
        state = case.definition.state(case.weights)
        held = np.ones(case.batch, dtype=bool)
        for value in case.exact.conditions(case.xp, state).values():
            held &= np.broadcast_to(arithmetic.to_numpy(value) <= case.flow.tolerance, case.batch)
        with np.errstate(all="ignore"):
            residual = _residual(case, state)
        obeying = "random starts that obey them" if held.any() else "the start, since no random one obeys them"
        details.append(f"residual of {obeying} ({int(held.sum())} of {held.size})")
        worst.append(float(np.max(residual[held] if held.any() else _residual(case, case.start))))
        if not held.all():
            # a residual of nan means that the closed form does not hold
            needless = int(np.sum(~held & (residual <= case.tolerance)))
            details.append(f"random starts refused needlessly: {needless or 'none'}")
            worst += [np.inf] if needless else []
    known = type(case.flow).counterexamples(np.random.default_rng(0))
    accepted = [name for name, (flow, z0) in known.items() if not _refused(flow, z0, name)]
    worst += [np.inf] if accepted else []
    details += [f"counterexamples accepted: {', '.join(accepted) or 'none'}"] if known else []
    return (largest(worst), case.tolerance, "; ".join(details)) if details else None


def _residual(case: Case, state: Any) -> np.ndarray:
    """Return the largest residual of the closed form from an initial state, shape batch."""
    unit = clock(case.flow, type(case.z0)(*(arithmetic.to_numpy(v) for v in state))) or 1.0
    t, step = case.times(0.5 * unit / case.clock), case.step * unit
    # evaluate all times at once, since some closed forms are costly to prepare; the last time tests the initial value
    path = case.follow(case.xp.concat([t, t - step, t + step, 0 * t + step], axis=0), state)
    velocity = case.exact.velocity(case.xp, type(state)(*(v[:1] for v in path)))
    found = [distances(v[3], start + 0 * v[3], 0.0, case.batch) for v, start in zip(path, state, strict=True)]
    for v, speed, start in zip(path, velocity, state, strict=True):
        rate = (v[2] - v[1]) / (2 * step)
        found.append(distances(rate, (speed + 0 * v[:1])[0], float(abs(start).max()) / unit, case.batch))
    return np.max(found, axis=0)  # type: ignore[no-any-return]


def _refused(flow: Flow, z0: Any, name: str) -> bool:
    try:
        flow(1.0, z0)
    except NotExact as refusal:
        return name in str(refusal)
    return False


def check_limit(case: Case) -> Row | None:
    """Compare the stated limit with the closed form at a million clocks and at infinity, from every initial state."""
    if not implements(case.flow, "limit"):
        return None
    worst = []
    for z in case.starts:
        held = case.holds(z)
        late = np.reshape([1e6 * (clock(case.flow, z) or 1.0), np.inf], (2,) + (1,) * len(case.batch))
        with np.errstate(all="ignore"):
            limit, states = case.flow.limit(np, z), case.flow.solution(np, late, z)
        for stated, found, start in zip(limit, states, z, strict=True):
            for moment in (0, 1):
                value = np.broadcast_to(found, np.broadcast_shapes(found.shape, (2, *stated.shape)))[moment]
                far = distances(value, stated + 0 * value, np.max(np.abs(start), initial=0.0), case.batch)
                worst.append(np.max(far[held], initial=0.0))
    return largest(worst), 1e-5, f"stated limit against t = 1e6 clocks and t = inf, from {len(case.starts)} starts"


def check_time_to(case: Case) -> Row | None:
    """Compare the time to a loss with the known time; it must be 0 above the initial loss, inf below the limit."""
    if not (case.moving and implements(case.flow, "time_to")):
        return None
    worst = []
    for multiple in (0.4, 1.5, 4.0):
        t = case.times(multiple)
        state = case.follow(t)
        loss = case.exact.loss(case.xp, type(state)(*(v[0] for v in state)))
        found = case.exact.time_to(case.xp, case.start, loss=loss)
        worst.append(distance(found, t[0] + 0 * found))
    worst += [_wrong_times(case, z) for z in case.starts]
    return largest(worst), case.tolerance, "time to the loss of a known time, 0 above it, inf below the limit's"


def _wrong_times(case: Case, z: Any) -> float:
    """Return the number of members with a wrong time to a loss above, below or inside the range of the loss."""
    flow = case.flow
    with np.errstate(all="ignore"):
        end = flow.solution(np, np.full(case.batch, np.inf), z)
        first, last = flow.loss(np, z), flow.loss(np, end)
        moving = case.holds(z) & (last < first * (1 - 1e-9))
        middle = (first + last) / 2
        asked = {name: flow.time_to(np, z, loss=loss) for name, loss in (("zero", 0 * first), ("below", last / 2))}
        above, t = flow.time_to(np, z, loss=2 * first + 1), flow.time_to(np, z, loss=middle)
        found = np.broadcast_to(flow.loss(np, flow.solution(np, t, z)), case.batch)
    wrong = case.holds(z) & (first > 0) & ~np.isposinf(asked["zero"])
    wrong |= case.holds(z) & (last > 1e-9 * first) & ~np.isposinf(asked["below"])
    wrong |= case.holds(z) & (above != 0)
    wrong |= moving & ~(np.abs(found - middle) <= 1e-6 * first)
    return float(np.sum(wrong))


def check_lifetime(case: Case) -> Row | None:
    """Compare the stated lifetime with an integration of the velocity up to the range of doubles.

    A blow-up time must agree to 1e-3. Where the solution grows exponentially instead, the stated end must lie between
    0.7 and 1 times the time at which the squared state leaves the range of doubles.
    """
    if not implements(case.flow, "lifetime"):
        return None
    worst = []
    for z in case.starts[:2]:
        for stated, sign in zip(case.flow.lifetime(np, z), (-1, 1), strict=True):
            ends = np.broadcast_to(np.abs(arithmetic.to_numpy(stated)), case.batch)
            if sign > 0 and np.isinf(ends).all():
                continue  # the loss decreases, so that no blow-up is possible; `limit` checks late times
            end, pole = _reached(case, z, sign)
            with np.errstate(invalid="ignore", divide="ignore"):
                apart = np.where(np.isinf(ends) & np.isinf(end), 0.0, np.abs(ends / end - 1))
            within = ~pole & (ends <= end) & (ends >= 0.7 * end)
            offered = (ends > 0) & case.holds(z)
            worst.append(np.max(np.where(within | ~offered, 0.0, apart), initial=0.0))
    return largest(worst), 1e-3, "stated ends of the solution against an integration up to the range of doubles"


def _reached(case: Case, z: Any, sign: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``|t|`` at which the squared state leaves the range of doubles, or inf, and whether it blows up there.

    The integration uses a rescaled time in which the state grows by at most a factor e per unit.
    """
    from scipy.integrate import solve_ivp

    flow, state, batch = case.flow, type(z), case.batch
    own = [v.shape[v.ndim - len(flow.axes[name]) :] for name, v in zip(z._fields, z, strict=True)]
    shapes = [batch + shape for shape in own]
    cuts = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    start = np.concatenate([np.broadcast_to(v, shape).ravel() for v, shape in zip(z, shapes, strict=True)])
    unit = clock(flow, z) or 1.0

    def parts(y: np.ndarray) -> Any:
        return state(*(y[a:b].reshape(shape) for a, b, shape in zip(cuts[:-1], cuts[1:], shapes, strict=True)))

    def paces(y: np.ndarray) -> tuple[Any, Any, Any]:
        at = parts(y)
        velocity = flow.velocity(np, at)
        length = np.broadcast_to(sizes(flow, at), batch)
        return velocity, length, np.broadcast_to(sizes(flow, velocity), batch) / np.where(length > 0, length, 1.0)

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        velocity, length, pace = paces(y)
        slow = 1 / ((0.1 / unit + pace) * (1 + length / _FAR))  # slow down members with large norms
        fields = [np.reshape(slow, batch + (1,) * v) for v in map(len, own)]
        moved = [(f * v + np.zeros(s)).ravel() for f, v, s in zip(fields, velocity, shapes, strict=True)]
        return np.concatenate([*(sign * v for v in moved), slow.ravel()])

    def alive(_: float, y: np.ndarray) -> float:
        return float(np.min(np.broadcast_to(sizes(flow, parts(y)), batch)) - _FAR)

    alive.terminal = True  # type: ignore[attr-defined]
    y0 = np.concatenate([start, np.zeros(int(np.prod(batch)))])
    # relative accuracy for decaying components, so that rounding does not change their sign
    floor = np.concatenate(
        [np.full(start.size, 1e-70 * np.max(np.abs(start))), np.full(y0.size - start.size, 1e-9 * unit)]
    )
    with np.errstate(all="ignore"):
        y = solve_ivp(rate, (0.0, 150.0), y0, "DOP853", rtol=1e-5, atol=floor, events=alive).y[:, -1]
        _, length, pace = paces(y)
    far, t = length >= _FAR / 2, y[cuts[-1] :].reshape(batch)
    left = np.log(_RANGE / np.where(far, length, 1.0)) / np.where(far, pace, 1.0)
    return np.where(far, t + left, np.inf), far & (pace * t > 1e6)
