"""Error of a closed form whose conditions hold only up to a tolerance: bounded by Gronwall's lemma."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linsolve.core.network_arguments import Network
from linsolve.core.reduced_network import Reduced, joint, norm, whiteness
from linsolve.solvability.bound import bounded
from linsolve.solvability.conditions import Assessment
from linsolve.solvability.matches import DeepMatch, LineMatch, Match, WhiteMatch
from linsolve.solvability.neighbors import Model, on_line, on_modes

__all__ = ["ROUNDING", "Deviation", "deviation"]

ROUNDING = 1e-13  # conditions that hold to this relative distance hold up to rounding
ENTRIES = 4_000_000  # of the states of all times
POINTS, FEWEST = 65, 9


class Deviation(NamedTuple):
    """Distance of a network from the conditions of a closed form, and the error of that closed form.

    Parameters
    ----------
    distance : float
        Largest relative distance from a condition, or relative size of a part that is left out.
    error : float
        Bound on the error of weights and outputs, relative to the largest; inf if no bound is known.
    """

    distance: float
    error: float


def deviation(network: Network, red: Reduced, found: Assessment, times: np.ndarray) -> Deviation:
    """Return the distance of a network from the exact case it was assessed as, and the error of that closed form.

    The assumed distance of the start from an exact one is the sum of all relative distances, plus the parts of layers
    and data that the tolerance leaves out.

    Parameters
    ----------
    network : Network
        With all directions of the inputs above rounding.
    red : Reduced
        The network in the directions above its tolerance.
    found : Assessment
        The exact case.
    times : ndarray
        Times; the error is bounded up to the latest.
    """
    size, scale = float(np.sqrt(sum(norm(w) ** 2 for w in red.layers))), norm(network.cross)
    lost, push = _left_out(network, red)
    off = [each.distance for each in found.conditions if each.needed]
    furthest = max(*off, lost / size if size > 0 else 0.0, push / scale if scale > 0 else 0.0)
    match, end = found.match, float(np.max(times, initial=0.0))
    model = None if match is None else _model(red, match)
    if match is None or model is None or not np.isfinite(end):
        return Deviation(furthest, float("inf"))
    start = sum(off) * size + lost + push * red.clock * end * size ** (red.depth - 1)
    points = int(np.clip(ENTRIES // (len(red.cross) + len(red.covariance)) ** 2, FEWEST, POINTS))
    grid = np.linspace(0.0, end, points)
    state = match.flow(grid, match.z0).state
    bound, product = bounded(red, match, state, model, start, grid)
    errors = [  # the closed form keeps the deviation of the start
        (2 * bound.distance, float(np.max(match.sizes(state)))),
        (bound.value, float(np.max(red.rms(product)))),
    ]
    return Deviation(furthest, max(error / most if most > 0 else 0.0 for error, most in errors))


def _model(red: Reduced, match: Match) -> Model | None:
    """Return the second moments for which a match is exact, None if its distance from the network is not bounded."""
    if isinstance(match, WhiteMatch):
        return whiteness(red.covariance)[1] * np.eye(len(red.covariance)), red.cross
    if isinstance(match, LineMatch):
        return on_line(red)
    return on_modes(red, joint(red)) if isinstance(match, DeepMatch) else None


def _left_out(network: Network, red: Reduced) -> tuple[float, float]:
    """Return the norms of the parts of the outer layers and of ``Sigma_yx`` outside the coordinates of `red`.

    The first layer acts on an input direction in proportion to the direction's share of the data.
    """
    scales = np.sqrt(red.clock / network.rates)
    first, last = scales[0] * network.weights[0] @ network.span, scales[-1] * network.weights[-1]
    cross, inside = network.cross @ network.span, network.span.T @ red.inputs
    share = np.sqrt(network.power / network.power[0])
    lost = (first - (first @ inside) @ inside.T) * share, last - red.outputs @ (red.outputs.T @ last)
    seen = red.outputs @ (red.outputs.T @ (cross @ inside)) @ inside.T
    return float(np.hypot(norm(lost[0]), norm(lost[1]))), norm(cross - seen)
