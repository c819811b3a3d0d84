"""From the weights of a deep linear network back to its modes, with the distances at which that fails."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from linsolve.core.arguments import real_array
from linsolve.core.query import NotExact
from linsolve.systems.deep.closed_forms import mean_rate
from linsolve.systems.deep.frames import TOLERANCE
from linsolve.systems.deep.given import POSITIVE

__all__ = ["distances", "recognized"]

WHO = "DeepNetwork.of"
CLOSE = 1e-7  # strengths closer than this share a plane in which the data, not the weights, choose the directions


def distances(layers: Sequence[Any], target: Any, *, rates: Any = 1.0, covariance: Any = None) -> dict[str, float]:
    r"""Return how far a deep linear network is from being balanced and aligned with its data.

    Parameters
    ----------
    layers, target, rates, covariance
        As for `DeepNetwork.of`.

    Returns
    -------
    dict of float
        Relative distances, Frobenius norms; all vanish where `DeepNetwork` is exact.

        * ``"imbalance"``: the largest ``|U_l U_l^T - U_(l+1)^T U_(l+1)|`` over the largest ``|U_l|^2``, where
          :math:`U_\ell = \sqrt{\bar\eta/\eta_\ell}\, W_\ell`;
        * ``"imbalance, mode by mode"``: the largest ``|R_l^T R_l - 1|`` of the layers' frames, which also sees the
          imbalance of weak modes;
        * ``"misalignment"``: what of ``S Sigma`` couples different singular modes of the network, over ``|S Sigma|``;
          where the layers are not balanced, of the orthonormal frame closest to that of the outputs;
        * ``"covariance across modes"``: the same of ``Sigma``, over ``|Sigma|``;
        * ``"rest of the weights"``: the largest ``|U_l - R_(l+1) D R_l^T|`` over the largest ``|U_l|``.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.deep import distances
    >>> found = distances([2 * np.eye(2), np.eye(2)], np.diag([3.0, 1.0]))  # |4 I - I| / |2 I|^2 = 3 sqrt(2) / 8
    >>> round(found["imbalance"], 6)
    0.53033
    """
    return _measured(*_checked(layers, target, rates, covariance))[0]


def recognized(layers: Sequence[Any], target: Any, rates: Any, covariance: Any) -> tuple[Any, ...]:
    """Return the parts of a `DeepNetwork` in the order of its fields, or raise `NotExact`."""
    found, parts = _measured(*_checked(layers, target, rates, covariance))
    for name, distance in found.items():
        if not distance <= TOLERANCE:
            raise NotExact(
                f"{WHO}: {name} = {distance:.3g} must vanish (relative distance; at most {TOLERANCE:g}) for the closed "
                "form to hold; follow these weights with integrate(deep.deep_weights(target, depth), t, layers)"
            )
    return parts


def _checked(layers: Sequence[Any], target: Any, rates: Any, covariance: Any) -> tuple[Any, ...]:
    weights = [real_array(WHO, f"layers[{i}]", w, meaning="weights of a layer") for i, w in enumerate(layers)]
    shapes = [tuple(w.shape) for w in weights]
    chained = all(len(s) == 2 for s in shapes) and all(a[0] == b[1] for a, b in pairwise(shapes))
    if not weights or not chained:
        raise ValueError(f"{WHO}: layers have shapes {shapes}, which must chain; give matrices, the first layer first")
    target = real_array(WHO, "target", target, meaning="map to be learned")
    ends = (shapes[-1][0], shapes[0][1])
    if tuple(target.shape) != ends:
        raise ValueError(f"{WHO}: target has shape {tuple(target.shape)} but the layers map as {ends}; transpose it?")
    rates = real_array(WHO, "rates", rates, meaning="learning rates of the layers", domain=POSITIVE)
    rates = np.broadcast_to(rates, (len(weights),)) if rates.ndim == 0 else rates
    if tuple(rates.shape) != (len(weights),):
        raise ValueError(f"{WHO}: rates have shape {tuple(rates.shape)} but need ({len(weights)},), one for each layer")
    n_in = ends[1]
    covariance = np.eye(n_in) if covariance is None else covariance
    covariance = real_array(WHO, "covariance", covariance, meaning="covariance of the inputs")
    if (
        tuple(covariance.shape) != (n_in, n_in)
        or np.abs(covariance - covariance.T).max() > 1e-9 * np.abs(covariance).max()
    ):
        raise ValueError(f"{WHO}: covariance, shape {tuple(covariance.shape)}, must be symmetric, ({n_in}, {n_in})")
    return weights, target, rates, covariance


def _measured(
    weights: list[np.ndarray], target: np.ndarray, rates: np.ndarray, covariance: np.ndarray
) -> tuple[dict[str, float], tuple[Any, ...]]:
    equal = [np.sqrt(mean_rate(np, rates) / rate) * w for w, rate in zip(weights, rates, strict=True)]
    largest = max(float(np.linalg.norm(layer)) for layer in equal) or 1.0
    imbalance = max((float(np.linalg.norm(a @ a.T - b.T @ b)) for a, b in pairwise(equal)), default=0.0) / largest**2
    drive = target @ covariance
    frames, strengths = _frames(equal, drive, covariance)
    rest = max(
        float(np.linalg.norm(layer - (after * strengths) @ before.T))
        for layer, (before, after) in zip(equal, pairwise(frames), strict=True)
    )
    u, v, hidden, start = _with_unlearned(frames, strengths ** len(equal), target, covariance)
    found = {
        "imbalance": imbalance,
        "imbalance, mode by mode": max(float(np.linalg.norm(r.T @ r - np.eye(len(strengths)))) for r in frames),
        "misalignment": _coupling(drive, _closest_frame(u), v) / (float(np.linalg.norm(drive)) or 1.0),
        "covariance across modes": _coupling(covariance, v, v) / (float(np.linalg.norm(covariance)) or 1.0),
        "rest of the weights": rest / largest,
    }
    variances = np.sum(v * (covariance @ v), axis=0)
    s = np.sum(u * (drive @ v), axis=0) / np.where(variances > 0, variances, 1.0)
    return found, (u, s, v, start, rates, hidden, variances)


def _closest_frame(u: np.ndarray) -> np.ndarray:
    """Return the matrix with orthonormal columns that is closest to `u`."""
    left, _, right = np.linalg.svd(u, full_matrices=False)
    return np.asarray(left @ right)


def _coupling(matrix: np.ndarray, left: np.ndarray, right: np.ndarray) -> float:
    """Return the norm of what `matrix` couples other than mode to mode, and the rest to the rest."""
    inside = left.T @ matrix @ right
    out = (matrix @ right - left @ inside, left.T @ matrix - inside @ right.T, inside - np.diag(np.diagonal(inside)))
    return float(np.sqrt(sum(np.sum(part**2) for part in out)))


def _frames(equal: list[np.ndarray], drive: np.ndarray, covariance: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the frames of the layers, input to output, and the singular values that the layers share.

    The frames follow from the first layer, whose singular values are the roots of the map's: one SVD of the map would
    lose the weak modes of a deep network.
    """
    left, d, right = np.linalg.svd(equal[0], full_matrices=False)
    kept = d > max(equal[0].shape) * np.finfo(float).eps * max(float(d[0]), np.finfo(float).tiny)
    d, frames = d[kept], [right[kept].T, left[:, kept]]
    for layer in equal[1:]:
        frames.append(layer @ frames[-1] / d)
    turn = _settled(d, frames[-1].T @ drive @ frames[0], frames[0].T @ covariance @ frames[0])
    turned = [frame @ turn for frame in frames]
    return turned, np.sum(turn * (d[:, None] * turn), axis=0)


def _settled(values: np.ndarray, *matrices: np.ndarray) -> np.ndarray:
    """Return a rotation among modes of equal values that makes matrices diagonal which have a common eigenbasis."""
    turn, begin = np.eye(len(values)), 0
    for end in range(1, len(values) + 1):
        if end < len(values) and values[end - 1] - values[end] <= CLOSE * values[0]:
            continue
        block = slice(begin, end)
        # a generic combination of commuting matrices has their common eigenvectors; the values take part as well
        mixed = np.diag(values[block] / values[0] - 1)
        for weight, matrix in zip((1.0, 0.6180339887498949), matrices, strict=False):
            part = matrix[block, block]
            mixed = mixed + weight * (part + part.T) / (np.linalg.norm(matrix) or 1.0)
        turn[block, block] = np.linalg.eigh(mixed)[1][:, ::-1]
        begin = end
    return turn


def _with_unlearned(
    frames: list[np.ndarray], strengths: np.ndarray, target: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...], np.ndarray]:
    """Return u, v, hidden frames and starts with the target's modes appended that the weights do not hold."""
    v, u = frames[0], frames[-1]
    size = np.linalg.norm(target)
    # the columns of u are orthonormal only where the layers are balanced
    left, right = (np.eye(len(q)) - q @ np.linalg.pinv(q) for q in (u, v))
    a, s, b = np.linalg.svd(left @ target @ right, full_matrices=False)
    kept = s > 4 * max(target.shape) * np.finfo(float).eps * size
    a, s, b = a[:, kept], s[kept], b[kept].T
    if len(s):
        turn = _settled(s, b.T @ covariance @ b)
        a, b = a @ turn, b @ turn
    hidden = tuple(np.hstack([frame, np.zeros((len(frame), len(s)))]) for frame in frames[1:-1])
    return np.hstack([u, a]), np.hstack([v, b]), hidden, np.concatenate([strengths, np.zeros(len(s))])
