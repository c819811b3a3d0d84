"""First time at which the loss of a closed form falls to a value, by bisection of its exact loss."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.query import Problem, clock, sizes

__all__ = ["first_time"]

EARLIEST, LATEST = -1000, 490  # powers of 2 between which times are searched; later ones overflow in products


def first_time(problem: Problem, loss: Any) -> Any:
    """Return the first time at which the loss is at most `loss`, inf if never, nan if the loss is not a number.

    Under gradient flow the loss does not rise. It thus stays below a value that it has reached, and bisection finds the
    first such time: first its power of 2, then its digits. It tends to that of the limit and reaches no lower value.

    Parameters
    ----------
    problem : Problem
        Flow and start; the times are not used.
    loss : array
        Value to be reached; its shape broadcasts against batch.
    """
    xp, lead = problem.xp, np.broadcast_shapes(loss.shape, problem.batch)
    value, zero = _loss_of(problem), arithmetic.cast(problem.xp, np.zeros(lead))
    first, limit = value(zero), value(xp.inf + zero)
    falls = arithmetic.to_numpy((first > loss) & ~(limit >= loss))
    low, high = np.full(lead, EARLIEST), _clock(problem) + np.zeros(lead, dtype=int)
    for growth in 2 ** np.arange(10):  # later times only where needed: far too late ones cost digits
        hit = arithmetic.to_numpy(value(_power(xp, high)) <= loss)
        early = falls & ~hit & (high < LATEST)
        if not early.any():
            break
        low, high = np.where(early, high, low), np.where(early, np.minimum(high + growth, LATEST), high)
    while (high - low > 1).any():
        middle = (low + high) // 2
        hit = arithmetic.to_numpy(value(_power(xp, middle)) <= loss)
        low, high = np.where(hit, low, middle), np.where(hit, middle, high)
    last = value(_power(xp, high)) <= loss  # not so, if no searched time is late enough
    begin, end = _power(xp, low), _power(xp, high)
    for _ in range(math.ceil(-math.log2(float(arithmetic.precision(xp)))) + 1):
        half = (begin + end) / 2
        hit = value(half) <= loss
        begin, end = xp.where(hit, begin, half), xp.where(hit, half, end)
    found = xp.where(last & falls, end, xp.inf + zero)
    return xp.where(first <= loss, zero, xp.where(xp.isnan(first), first, found))


def _clock(problem: Problem) -> np.ndarray:
    """Return the power of 2 next to the size of the start over that of its velocity, 0 without one, shape batch."""
    flow, states = problem.flow, (problem.z0, problem.flow.velocity(problem.xp, problem.z0))
    size, speed = (sizes(flow, type(z)(*map(arithmetic.to_numpy, z))) for z in states)
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.log2(size) - np.log2(speed)
    return np.where(np.isfinite(power), np.clip(power, EARLIEST + 1, LATEST), 0.0).astype(int)


def _power(xp: Any, exponent: np.ndarray) -> Any:
    return arithmetic.cast(xp, np.ldexp(1.0, exponent))


def _loss_of(problem: Problem) -> Any:
    """Return the loss of the closed form as a function of times of the shape of the batch."""
    flow, xp, z0 = problem.flow, problem.xp, problem.z0
    more = {"begun": flow.begun(xp, z0)} if "solution" in flow.beginning else {}

    def value(t: Any) -> Any:
        t = clock(xp, t, 0)
        along = flow.along(xp, t, z0)
        return along["loss"] if "loss" in along else flow.loss(xp, flow.solution(xp, t, z0, **more))

    return value
