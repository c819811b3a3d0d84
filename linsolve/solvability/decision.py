"""A network judged: read, reduced, measured, compared with its own integration."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.arguments import shown
from linsolve.solvability.conditions import Assessment, Condition, assess
from linsolve.solvability.matches import Match
from linsolve.solvability.neighbors import neighbors
from linsolve.solvability.network import WHO, read
from linsolve.solvability.raw_weights import follow, horizon, kernel_change, refuse_endless
from linsolve.solvability.reduction import Reduced, reduced
from linsolve.solvability.remarks import remarks
from linsolve.solvability.verdict import Verdict

__all__ = ["judge"]

POINTS = 129


def judge(weights: Any, data: Any, rates: Any, covariances: bool, until: float | None) -> Verdict:
    """Return the verdict; see `linsolve.applies`."""
    network = read(weights, data, rates, covariances)
    red = reduced(network)
    if until is None:
        until = horizon(network, red)
    elif not (isinstance(until, int | float | np.number) and 0 < until < np.inf):
        raise ValueError(
            f"{WHO}: until = {shown(until)} must be positive and finite (time); leave it out for a learning time"
        )
    else:
        refuse_endless(red, float(until))
    times = np.linspace(0.0, float(until), POINTS)
    judged = assess(network, red)
    path, final = follow(network, red, times)
    near = neighbors(network, red, judged, times, path)
    errors = {a.name: _error(a.match, red, times, path) for a in judged if a.match is not None}
    if red.depth > 1:
        change = kernel_change(network, red, final)
        detail = f"of the tangent kernel up to t = {until:.4g}; exact only at infinite width, never claimed here"
        judged.append(Assessment("FrozenKernel", (Condition("constant kernel", change, detail),)))
    notes = remarks(network, red, judged)
    return Verdict(network.widths, tuple(judged), tuple(near), float(until), tuple(notes), errors)


def _error(match: Match, red: Reduced, times: np.ndarray, path: np.ndarray) -> float:
    """Return the largest rms distance of an exact flow from the integrated network, relative to its largest output."""
    state = match.flow(times, match.z0).state
    # a match may have coordinates of its own; maps are compared in those of the network
    into = red.outputs.T @ match.outputs, match.inputs.T @ red.inputs
    gap = into[0] @ match.product(state) @ into[1] - path
    scale = float(red.rms(path).max())
    return float(red.rms(gap).max()) / (scale if scale > 0 else 1.0)
