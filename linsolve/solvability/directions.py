"""Times at which the directions of a target map are learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

__all__ = ["Directions", "learned", "shares"]

POINTS, ROUNDS = 33, 3  # of each refinement of a crossing; the last is linear
SHOWN = 6


class Directions(NamedTuple):
    """Directions of the target, and the first times at which half of each is learned.

    Parameters
    ----------
    measure : str
        Meaning of `values`, such as "singular value".
    values : ndarray, shape (k,)
        Size of each direction, the largest first.
    times : ndarray, shape (k,)
        First time at which the map has half of the target's strength; inf if that is not before `until`.
    until : float
        Latest time of the search, in units of time.
    never : ndarray of bool, shape (k,)
        Whether the direction is never half learned, by the limit of an exact solution: adapters of rank r learn r
        directions. False for others, and where the limit is not known.
    """

    measure: str
    values: np.ndarray
    times: np.ndarray
    until: float
    never: np.ndarray

    def __str__(self) -> str:
        """Return the times in a sentence."""
        if not len(self.values):
            return "Nothing is left to learn: the target has no direction."
        found = [f"{value:.4g} {self._learned(k)}" for k, value in enumerate(self.values[:SHOWN])]
        more = f"; {len(self.values) - SHOWN} more" if len(self.values) > SHOWN else ""
        return f"Half learned, by {self.measure}: {'; '.join(found)}{more}."

    def _learned(self, k: int) -> str:
        """Return the time of a direction in words."""
        if self.never[k]:
            return "never"
        if self.times[k] == 0:
            return "from the start"
        return f"at t = {self.times[k]:.4g}" if np.isfinite(self.times[k]) else f"not by t = {self.until:.4g}"


def shares(maps: np.ndarray, probes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the learned shares of directions, shape (k, n), of maps of shape (n, n_out, n_in); see `learned`."""
    return np.asarray(np.einsum("nij,kij->kn", maps, probes) / wanted[:, None])


def learned(
    maps: Callable[[np.ndarray], np.ndarray], probes: np.ndarray, wanted: np.ndarray, grid: np.ndarray
) -> np.ndarray:
    """Return the first times at which ``<probe, map>`` reaches half of `wanted`, inf where it does not on the grid.

    Parameters
    ----------
    maps : callable
        Maps of the network at increasing times, shape (n, n_out, n_in).
    probes : ndarray, shape (k, n_out, n_in)
    wanted : ndarray, shape (k,)
        Final strengths, positive.
    grid : ndarray
        Increasing times from 0; crossings within one interval are resolved as one.
    """
    ends = np.zeros((2, len(wanted))), np.zeros((2, len(wanted)))  # times around each crossing, and strengths there
    ends[0][1] = np.inf
    for _ in range(ROUNDS):
        for k, share in enumerate(shares(maps(grid), probes, wanted)):
            reached = np.flatnonzero((share >= 0.5) & (grid >= ends[0][0, k]) & (grid <= ends[0][1, k]))
            if reached.size:
                around = [max(int(reached[0]) - 1, 0), int(reached[0])]
                ends[0][:, k], ends[1][:, k] = grid[around], share[around]
        begin, end = ends[0]
        inside = np.isfinite(end) & (begin < end)
        if not inside.any():
            return end
        grid = np.unique(np.concatenate([[0.0], *np.linspace(begin[inside], end[inside], POINTS).T]))
    low, high = ends[1]
    part = np.divide(0.5 - low, high - low, out=np.ones_like(low), where=high > low)
    return np.where(inside, begin + part * np.where(inside, end - begin, 0.0), end)
