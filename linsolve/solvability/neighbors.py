"""Exact cases near a network: the projection onto each, its size, and the error of the approximation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from linsolve.core.network_arguments import Network
from linsolve.core.reduced_network import Joint, Reduced, diagonal, joint, norm, whiteness
from linsolve.solvability.bound import Bound, bounded
from linsolve.solvability.conditions import Assessment
from linsolve.solvability.integration import followed
from linsolve.solvability.matches import DeepMatch, LineMatch, Match, WhiteMatch
from linsolve.solvability.projections import Start, chained, class_starts, moved, solved, squared, white_state

__all__ = ["Model", "Neighbor", "nearest", "neighbors", "on_line", "on_modes"]

Model = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class Neighbor:
    """An exact case near the network.

    Parameters
    ----------
    match : Match
        Flow and start.
    projection : str
        The change that makes the network exact.
    moved_start, moved_data : float
        Relative change of the layers (scaled to equal rates) and of the second moments.
    bound : Bound
        Bound on the error of the outputs, root mean square over samples, up to the horizon.
    measured : float
        Largest error over time against the integrated network.
    scale : float
        Largest root mean square of the outputs up to the horizon.
    """

    match: Match
    projection: str
    moved_start: float
    moved_data: float
    bound: Bound
    measured: float
    scale: float

    @property
    def name(self) -> str:
        """Name of the flow."""
        return self.match.name


def _changed(red: Reduced, model: Model) -> float:
    """Return the relative change of the second moments, the larger of the two."""
    sizes = norm(red.covariance), norm(red.cross)
    gaps = norm(model[0] - red.covariance), norm(model[1] - red.cross)
    return max(gap / size if size > 0 else 0.0 for gap, size in zip(gaps, sizes, strict=True))


def _whitened(red: Reduced) -> Iterator[tuple[str, Model]]:
    distance, kappa = whiteness(red.covariance)
    white = kappa * np.eye(len(red.covariance))
    if distance <= red.tolerance:
        yield "", (white, red.cross)
    else:
        yield "inputs whitened, same target map", (white, kappa * red.target)
        yield "inputs whitened, same Sigma_yx", (white, red.cross)


def on_line(red: Reduced) -> Model:
    """Return the second moments of the data projected onto the line of largest power."""
    axis = np.linalg.eigh(red.covariance)[1][:, -1:]
    across = axis @ axis.T
    return across @ red.covariance @ across, red.cross @ across


def on_modes(red: Reduced, modes: Joint) -> Model:
    """Return second moments that are diagonal in the modes."""
    v, u = modes.pairs
    power = diagonal(modes.inputs, red.covariance, modes.inputs)
    return (modes.inputs * power) @ modes.inputs.T, (u * (modes.target * modes.power)) @ v.T


def _starts(red: Reduced) -> list[Start]:
    if squared(red.layers) and solved(white_state(red)):
        return [Start("", white_state(red), red.layers, None)]
    return list(class_starts(red))


def _candidates(network: Network, red: Reduced) -> Iterator[tuple[Match, str, Model, float, float]]:
    """Yield exact cases: match, projection, data, absolute and relative distance of the start."""
    if red.depth == 2:
        starts = _starts(red)
        for data, model in _whitened(red):
            for start in starts:
                kappa = float(model[0][0, 0])
                target = model[1] / kappa
                if start.rest is None:
                    match = WhiteMatch.of(red, start.state, target, kappa)
                else:
                    match = WhiteMatch.small(red, start.state, target, kappa, start.rest)
                yield match, _joined(start.change, data), model, *moved(red, start.layers)
        if len(red.cross) == 1:
            line = LineMatch.of(red, network)
            yield line, "data projected onto a line", on_line(red), 0.0, 0.0
    for shared in (False, True):
        modes, strength, layers = chained(red, joint(red, start=shared))
        model = on_modes(red, modes)
        basis = "modes of start and data" if shared else "modes of the data"
        gaps = moved(red, layers)
        change = f"start balanced in the {basis}" if gaps[1] > red.tolerance else ""
        data = f"data diagonal in the {basis}" if _changed(red, model) > red.tolerance else ""
        yield DeepMatch.of(red, modes, strength), _joined(change, data), model, *gaps


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _distance(red: Reduced, product: np.ndarray, path: np.ndarray) -> float:
    """Return the largest distance of the outputs of two networks over time."""
    return float(red.rms(product - path).max())


def nearest(network: Network, red: Reduced) -> str:
    """Return the name of the first of `neighbors` for a network of which no flow is exact, by default horizon."""
    if red.depth > 2:
        return "DeepMode"  # the only case of this depth
    path = followed(network, red, None)

    def measured(match: Match) -> float:
        return _distance(red, match.product(match.flow(path.times, match.z0).state), path.maps)

    return min((match for match, *_ in _candidates(network, red)), key=measured).name


def neighbors(
    network: Network, red: Reduced, judged: list[Assessment], times: np.ndarray, path: np.ndarray
) -> list[Neighbor]:
    """Return the exact cases near a network, the one with the smallest measured error first.

    Parameters
    ----------
    network : Network
    red : Reduced
    judged : list of Assessment
        Assessed flows; exact ones are skipped.
    times : ndarray, shape (n,)
    path : ndarray, shape (n, c, r)
        The network's map at `times`, integrated.
    """
    if red.depth == 1:
        return []
    exact = {each.name for each in judged if each.match is not None}
    scale = float(red.rms(path).max())
    found: list[Neighbor] = []
    for match, change, model, start, gap in _candidates(network, red):
        if match.name in exact:
            continue
        state = match.flow(times, match.z0).state
        bound, product = bounded(red, match, state, model, start, times)
        measured = _distance(red, product, path)
        if not any(n.name == match.name and abs(n.measured - measured) <= red.tolerance * scale for n in found):
            found.append(Neighbor(match, change, gap, _changed(red, model), bound, measured, scale))
    return sorted(found, key=lambda neighbor: neighbor.measured)
