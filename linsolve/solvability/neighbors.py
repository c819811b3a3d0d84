"""Exact cases near a network that is none: which projection leads there, how far, and what it costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from linsolve.solvability.bound import Bound, bounded
from linsolve.solvability.conditions import Assessment, white_state
from linsolve.solvability.joint_modes import Joint, joint
from linsolve.solvability.matches import DeepMatch, LineMatch, Match, WhiteMatch
from linsolve.solvability.network import Network
from linsolve.solvability.projections import balanced, chained, imbalances, isotropic
from linsolve.solvability.reduction import TOLERANCE, Reduced, norm, whiteness
from linsolve.systems.whitened.imbalance import imbalance
from linsolve.systems.whitened.whitened_two_layer import WhitenedTwoLayer

__all__ = ["Neighbor", "neighbors"]

Model = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class Neighbor:
    """An exact case near the network.

    Parameters
    ----------
    match : Match
        Its flow and start.
    projection : str
        What was changed.
    moved_start, moved_data : float
        Relative change of the layers (rates made equal) and of the second moments.
    bound : Bound
        On the error of the outputs, root mean square over samples, up to the horizon.
    measured : float
        That error against the integrated network, at its worst time.
    scale : float
        Largest root mean square of the outputs up to the horizon, to compare the two with.
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


def _moved(red: Reduced, layers: tuple[np.ndarray, ...]) -> tuple[float, float]:
    """Return the distance of other layers, absolute and relative."""
    gap = float(np.sqrt(sum(norm(a - b) ** 2 for a, b in zip(layers, red.layers, strict=True))))
    size = float(np.sqrt(sum(norm(a) ** 2 for a in red.layers)))
    return gap, gap / size if size > 0 else 0.0


def _changed(red: Reduced, model: Model) -> float:
    """Return the relative change of the second moments, the larger of the two."""
    sizes = norm(red.covariance), norm(red.cross)
    gaps = norm(model[0] - red.covariance), norm(model[1] - red.cross)
    return max(gap / size if size > 0 else 0.0 for gap, size in zip(gaps, sizes, strict=True))


def _whitened(red: Reduced) -> Iterator[tuple[str, Model]]:
    distance, kappa = whiteness(red.covariance)
    white = kappa * np.eye(len(red.covariance))
    if distance <= TOLERANCE:
        yield "", (white, red.cross)
    else:
        yield "inputs whitened, same target map", (white, kappa * red.target)
        yield "inputs whitened, same Sigma_yx", (white, red.cross)


def _starts(red: Reduced) -> Iterator[tuple[str, WhitenedTwoLayer.State, tuple[np.ndarray, ...]]]:
    """Yield starts of `WhitenedTwoLayer`: what was done, state, layers."""
    if imbalance(np, *white_state(red)).distance <= TOLERANCE:
        yield "", white_state(red), red.layers
        return
    for lam in imbalances(red):
        layers = balanced(red, lam)  # of layers that vanish, as where one is zero, only rounding is left
        if layers is not None and imbalance(np, *WhitenedTwoLayer.of(*layers)).distance <= TOLERANCE:
            done = "start balanced" if lam == 0 else f"start lambda-balanced, lambda = {lam:.4g}"
            yield done, WhitenedTwoLayer.of(*layers), layers
    wide = isotropic(red)
    if wide is not None:
        whole, layers, kappa = wide
        r = red.product.shape[1]
        state = WhitenedTwoLayer.State(red.product, whole[:r, :r], whole[r:, r:])
        yield f"start isotropic, as of infinite width (lambda = 2 kappa = {2 * kappa:.4g})", state, layers


def _candidates(network: Network, red: Reduced) -> Iterator[tuple[Match, str, Model, float, float]]:
    """Yield exact cases: match, what was done, data, distance of the start, the same relative."""
    if red.depth == 2:
        for data, model in _whitened(red):
            for start, state, layers in _starts(red):
                kappa = float(model[0][0, 0])
                match = WhiteMatch.of(red, state, model[1] / kappa, kappa)
                yield match, _said(start, data), model, *_moved(red, layers)
        if len(red.cross) == 1:
            line = LineMatch.of(red, network)
            axis = np.linalg.eigh(red.covariance)[1][:, -1:]
            across = axis @ axis.T
            yield line, "data projected onto a line", (across @ red.covariance @ across, red.cross @ across), 0.0, 0.0
    for shared in (False, True):
        modes, strength, layers = chained(red, joint(red, start=shared))
        v, u = modes.pairs
        model = (modes.inputs * _powers(red, modes)) @ modes.inputs.T, (u * (modes.target * modes.power)) @ v.T
        basis = "modes of start and data" if shared else "modes of the data"
        moved = _moved(red, layers)
        start = f"start balanced in the {basis}" if moved[1] > TOLERANCE else ""
        data = f"data diagonal in the {basis}" if _changed(red, model) > TOLERANCE else ""
        yield DeepMatch.of(red, modes, strength), _said(start, data), model, *moved


def _powers(red: Reduced, modes: Joint) -> np.ndarray:
    return np.einsum("rk,rs,sk->k", modes.inputs, red.covariance, modes.inputs)


def _said(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def neighbors(
    network: Network, red: Reduced, judged: list[Assessment], times: np.ndarray, path: np.ndarray
) -> list[Neighbor]:
    """Return the exact cases near a network, the one with the smallest measured error first.

    Parameters
    ----------
    network : Network
    red : Reduced
    judged : list of Assessment
        Flows that are exact are no neighbors.
    times : ndarray, shape (n,)
    path : ndarray, shape (n, c, r)
        The network's map at `times`, integrated.
    """
    if red.depth == 1:
        return []
    exact = {judgment.name for judgment in judged if judgment.match is not None}
    scale = float(red.rms(path).max())
    found: list[Neighbor] = []
    for match, done, model, start, moved in _candidates(network, red):
        if match.name in exact:
            continue
        state = match.flow(times, match.z0).state
        bound, product = bounded(red, match, state, model, start, times)
        measured = float(red.rms(product - path).max())
        if not any(n.name == match.name and abs(n.measured - measured) <= TOLERANCE * scale for n in found):
            found.append(Neighbor(match, done, moved, _changed(red, model), bound, measured, scale))
    return sorted(found, key=lambda neighbor: neighbor.measured)
