"""Linear network that moves as another architecture does, with the way back from its answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from linsolve.solvability.directions import Directions, learned, shares
from linsolve.solvability.trajectory import NetworkTrajectory
from linsolve.solvability.verdict import Verdict

__all__ = ["Equivalent", "Probes", "directions"]

LATE = 1e4  # horizons of a closed form that are searched for learning times
POINTS = 129


class Probes(NamedTuple):
    """Directions of a map: their measure, sizes (k,), probes (k, n_out, n_in), and final strengths (k,)."""

    measure: str
    values: np.ndarray
    probes: np.ndarray
    wanted: np.ndarray


class Equivalent(NamedTuple):
    """Arguments of `applies` and `solve` for the equivalent network.

    Parameters
    ----------
    weights, data, rates, covariances, test, names
        Arguments of the network.
    probes : Probes
        Directions that are learned.
    verdict, trajectory : callable
        Functions of the network's answers that return those of the architecture.
    """

    weights: list[np.ndarray]
    data: tuple[np.ndarray, np.ndarray]
    rates: np.ndarray
    covariances: bool
    test: Any
    names: Sequence[str] | None
    probes: Probes
    verdict: Callable[[Verdict], Verdict]
    trajectory: Callable[[NetworkTrajectory], NetworkTrajectory]


def directions(
    probes: Probes, verdict: Verdict, integrated: Callable[[np.ndarray], np.ndarray], until: float
) -> Directions:
    """Return the learning times of the directions, by the closed form if there is one, else by integration.

    Parameters
    ----------
    probes : Probes
    verdict : Verdict
        Of the equivalent network.
    integrated : callable
        Maps of the network at increasing times, shape (n, n_out, n_in).
    until : float
        Horizon of the verdict; a closed form is searched beyond it.
    """
    grid = np.linspace(0.0, until, POINTS)
    if not verdict.exact:
        times = learned(integrated, probes.probes, probes.wanted, grid)
        return Directions(probes.measure, probes.values, times, until, np.zeros(len(times), dtype=bool))
    match = verdict.match()
    late = np.concatenate([grid, until * np.geomspace(1.0, LATE, POINTS)[1:]])

    def maps(times: np.ndarray) -> np.ndarray:
        return match.map(match.flow(times, match.z0))

    times = learned(maps, probes.probes, probes.wanted, late)
    end = shares(maps(np.array([np.inf])), probes.probes, probes.wanted)[:, 0]
    return Directions(probes.measure, probes.values, times, float(late[-1]), np.isinf(times) & (end < 0.5))
