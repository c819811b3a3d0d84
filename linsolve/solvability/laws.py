"""Laws of small starts near a network: their estimated error, and the measured one."""

from __future__ import annotations

import dataclasses

import numpy as np

from linsolve.core.network_arguments import Network
from linsolve.core.network_law import GivenNetwork
from linsolve.core.query import NotExact
from linsolve.core.reduced_network import Reduced, whiteness
from linsolve.solvability.neighbors import Neighbor

__all__ = ["NearLaw", "near_laws"]

ENTRIES = 4_000_000  # entries of the matrices of a law at all times; larger networks are compared at fewer times
FEWEST = 8


@dataclasses.dataclass(frozen=True)
class NearLaw:
    """A law that is nearer to a network than every exact case.

    Parameters
    ----------
    name : str
        Name of the law: ``linsolve.laws.NAME.of(weights, data, rates)``.
    scaling : str
        Dependence of the law's relative error on the size of the start.
    estimate : float
        Estimate of the relative error by the omitted term.
    measured : float
        Largest error of the outputs over time, root mean square over samples, against the integrated network.
    scale : float
        Largest root mean square of the outputs up to the horizon.
    """

    name: str
    scaling: str
    estimate: float
    measured: float
    scale: float


def near_laws(
    network: Network, red: Reduced, near: list[Neighbor], times: np.ndarray, path: np.ndarray
) -> tuple[NearLaw, ...]:
    """Return the laws with smaller measured errors than the nearest exact case, the smallest first.

    Parameters
    ----------
    network : Network
    red : Reduced
    near : list of Neighbor
        The nearest exact case first.
    times : ndarray, shape (n,)
    path : ndarray, shape (n, c, r)
        The network's map at `times`, integrated.
    """
    step = -(-len(times) * (network.widths[0] + network.widths[-1]) ** 2 // ENTRIES)
    if red.depth != 2 or not near or len(times) < FEWEST * step or whiteness(red.covariance)[0] > red.tolerance:
        return ()
    from linsolve.systems.small_start.matched import RefinedMatchedSolution
    from linsolve.systems.small_start.matched_outputs import MatchedOutputs

    span, (first, last) = network.span, network.weights
    given = GivenNetwork("applies", network._replace(weights=((first @ span) @ span.T, last)), np.zeros(()), None)
    scale, found = float(red.rms(path).max()), []
    for law in (MatchedOutputs, RefinedMatchedSolution):
        try:
            traj = law.applied(given)(times[::step])
        except NotExact:
            continue
        measured = float(red.rms(red.outputs.T @ traj["map"] @ red.inputs - path[::step]).max())
        if measured < near[0].measured:
            found.append(NearLaw(law.__name__, traj.scalings["map"], traj.error["map"], measured, scale))
    return tuple(sorted(found, key=lambda each: each.measured))
