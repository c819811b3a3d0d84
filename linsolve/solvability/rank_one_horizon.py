"""Learning time of rank-one attention heads: the default horizon of `applies`. Heads are those of `rank_one`."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.solvability.integration import LEARNED, STILL
from linsolve.solvability.matches import Match
from linsolve.systems.attention.sequences import first_time, separate_pull

__all__ = ["learning_time", "pace"]

USUAL = 3e3  # time constants of the fastest weight that are integrated by default
SMALL = 1e-13  # removable share of the loss that counts as rounding
LITTLE = 0.5  # relative change of a head up to the latest time


def pace(heads: Any) -> float:
    """Return the largest curvature of the loss, at the start or at the target, times the learning rate."""
    variance, c = heads.tokens.variance[-1], heads.tokens.curvature[-1]
    size = max(float(np.cbrt(1 / c)), *(float(np.linalg.norm(w)) for w in heads.weights))
    return float(heads.clock * variance**2 * c * size**4)


def learning_time(heads: Any, exact: Match | None) -> float:
    """Return the time at which the removable loss has fallen to 5 %, at most `USUAL` time constants.

    The removable loss is that above the final loss of an exact flow, else that above the least loss of the heads. Heads
    without an exact flow stay at a saddle or a minimum once none of them can change by more than half up to the latest
    time.
    """
    last = USUAL / pace(heads)
    if exact is None:
        first, least = float(heads.moments.loss(heads.map)), _least_loss(heads)
    else:
        flow: Any = exact.flow
        first, least = flow([0.0, np.inf], exact.z0)["loss"].tolist()
    idle = not any(v.any() for v in separate_pull(heads.moments, *heads.weights))
    if idle or not first - least > SMALL * heads.moments.power:
        return last / USUAL
    goal, moved = (least + share * (first - least) for share in (LEARNED, STILL))
    if exact is None:
        return _integrated(heads, last, goal, moved)
    return _solved(exact, last, goal)


def _solved(exact: Match, last: float, goal: float) -> float:
    """Return the time at which the loss of the closed form is `goal`, at most `last`."""
    from scipy.optimize import brentq

    flow: Any = exact.flow

    def above(t: float) -> float:
        return float(flow(t, exact.z0)["loss"]) - goal

    return last if above(last) > 0 else float(brentq(above, 0.0, last))


def _integrated(heads: Any, last: float, goal: float, moved: float) -> float:
    """Return the time at which the loss of the heads is `goal`, or below `moved` and still, at most `last`."""
    moments, until = heads.moments, heads.clock * last

    def above(_: float, weights: Any) -> float:
        return _loss(heads, weights) - goal

    def moving(t: float, weights: Any) -> float:
        if _loss(heads, weights) > moved:
            return 1.0
        speed, size = _norms(separate_pull(moments, *weights)), _norms(weights)
        return float(np.max(speed / np.where(size > 0, size, 1.0))) * (until - t) - LITTLE

    return first_time(moments, separate_pull, heads.weights, until, [above, moving]) / heads.clock


def _loss(heads: Any, weights: Any) -> float:
    return float(heads.moments.loss(np.einsum("h,ha,hb->ab", *weights)))


def _norms(weights: Any) -> np.ndarray:
    """Return the norm of all weights of each head."""
    value, key, query = weights
    return np.asarray(np.sqrt(value**2 + np.sum(key**2, axis=1) + np.sum(query**2, axis=1)))


def _least_loss(heads: Any) -> float:
    """Return the least loss of the heads that learn; on sequences that of any map, which bounds it from below."""
    moments, d = heads.moments, heads.weights[1].shape[1]
    if heads.sampled:
        linear = moments.linear.ravel()
        best = np.linalg.lstsq(moments.quadratic.reshape(d * d, d * d), linear)[0]
        return float(moments.power - linear @ best) / 2
    parts = sum(np.any(np.reshape(w, (len(w), -1)), axis=1).astype(int) for w in heads.weights)
    learning = int(np.sum(parts > 1))  # of a head with one weight other than 0, all gradients vanish
    gains = np.sort(heads.tokens.variance**2 / heads.tokens.curvature)[::-1]
    return float(moments.power - np.sum(gains[:learning])) / 2
