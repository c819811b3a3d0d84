"""What is worth saying aloud: parity, the wide limit, and the cases that are known to have no closed form."""

from __future__ import annotations

import numpy as np

from linsolve.solvability.conditions import Assessment
from linsolve.solvability.matches import DeepMatch, LineMatch, WhiteMatch
from linsolve.solvability.network import Network
from linsolve.solvability.reduction import Reduced, norm
from linsolve.systems.two_layer.two_layer import TwoLayer

__all__ = ["remarks"]


def remarks(network: Network, red: Reduced, judged: list[Assessment]) -> list[str]:
    """Return remarks in sentences."""
    found = [*_parity(judged), *_rank(red), *_wide(network, red)]
    if not any(judgment.match is not None for judgment in judged):
        found += _impossible(red, judged)
    return found


def _parity(judged: list[Assessment]) -> list[str]:
    found = []
    for judgment in judged:
        match = judgment.match
        if isinstance(match, WhiteMatch) and float(match.flow.obstructed(np, match.z0)) > 0:  # type: ignore[attr-defined]
            found.append(f"parity: {match.flow.prospect(match.z0)}.")  # type: ignore[attr-defined]
        if isinstance(match, DeepMatch):
            wrong = int(np.sum(match.z0.a * match.flow.s < 0))  # type: ignore[attr-defined]
            if wrong:
                found.append(
                    f"parity: modes that start with the sign opposite to their target's: {wrong}; they end at 0."
                )
        if isinstance(match, LineMatch):
            flow: TwoLayer = match.flow  # type: ignore[assignment]
            if float(flow.loss(np, flow.limit(np, flow.state(match.z0)))) > 1e-12 * float(flow.y) ** 2:
                found.append("parity: the start lies on the stable manifold of the saddle, where the flow ends.")
    return found


def _rank(red: Reduced) -> list[str]:
    """Say where the narrowest layer keeps the network from the target."""
    if red.depth == 1:
        return []
    narrow = min(len(layer) for layer in red.layers[:-1])
    strengths = np.linalg.svd(red.target @ red.root, compute_uv=False)
    rank = int(np.sum(strengths > 1e-12 * strengths[0])) if strengths[0] > 0 else 0
    if rank <= narrow:
        return []
    least = float(np.sum(strengths[narrow:] ** 2)) / 2
    return [f"rank: the target has {rank} modes, the narrowest layer {narrow} units; the loss stays above {least:.4g}."]


def _wide(network: Network, red: Reduced) -> list[str]:
    """Recognize a wide random start: Gram matrices of the layers isotropic up to the noise of h independent units."""
    if red.depth != 2:
        return []
    width = len(network.weights[0])
    (x, z), y = red.grams, red.product
    r, c = len(x), len(z)
    means = float(np.trace(x)) / r, float(np.trace(z)) / c
    if width < 4 * (r + c) or min(means) <= 0:
        return []
    # independent Gaussian entries put a relative variance of (n + 1) / h into such a Gram matrix
    noise = [norm(g - m * np.eye(n)) / (m * np.sqrt(n)) for g, m, n in zip((x, z), means, (r, c), strict=True)]
    noise.append(norm(y) / np.sqrt(means[0] * means[1] * max(r, c)))
    limits = [3 * np.sqrt((n + 1) / width) for n in (r, c, min(r, c))]
    if any(a > b for a, b in zip(noise, limits, strict=True)):
        return []
    return [
        f"wide random start, {width} hidden units: behaves as lambda = 2 sigma^2 h = {sum(means):.4g} mode by mode, "
        f"up to O(h^(-1/2)) = {width**-0.5:.2g}; approximate, never exact at finite width."
    ]


def _impossible(red: Reduced, judged: list[Assessment]) -> list[str]:
    broken = {judgment.name: {c.name for c in judgment.violated} for judgment in judged}
    if red.depth > 2:
        if "alignment" in broken["DeepMode"] or "commuting covariance" in broken["DeepMode"]:
            return [f"{red.depth} layers, not aligned with the data's modes: no closed form is known."]
        return [f"{red.depth} layers, aligned but not balanced: a mode has t(a) by quadrature only, no closed form."]
    found = []
    if "white inputs" in broken["WhitenedTwoLayer"]:
        found.append("general input covariance and a start not aligned with its modes: no closed form is known.")
    if "two-eigenvalue class" in broken["WhitenedTwoLayer"]:
        found.append(
            "general imbalance: no closed form is known; for three distinct eigenvalues none that is rational in "
            "exponentials exists."
        )
    return found
