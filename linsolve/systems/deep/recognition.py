"""Recognition of balanced, aligned networks: singular modes of given weights, with relative distances."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.arithmetic import spacing
from linsolve.core.arguments import number, real_array, refuse_shape
from linsolve.core.matrix_arguments import chained, layer_rates, semidefinite
from linsolve.core.query import NotExact
from linsolve.systems.deep.closed_forms import mean_rate
from linsolve.systems.deep.starts import TOLERANCE

__all__ = ["distances", "recognized"]

WHO = "DeepNetwork.of"
# strengths closer than this count as degenerate: the data, not the weights, determine the directions of the modes
CLOSE = 1e-7
# a mode below the tolerance whose layers disagree by more than this is a rounding error of the weights
DISAGREEMENT = 0.01
# default tolerance in machine epsilons of the least precise type of weights and target
SPACINGS = 64


def distances(
    layers: Sequence[Any], target: Any, *, rates: Any = 1.0, covariance: Any = None, tolerance: float | None = None
) -> dict[str, float]:
    r"""Return the distances of a deep linear network from being balanced and aligned with its data.

    Parameters
    ----------
    layers, target, rates, covariance, tolerance
        As for `DeepNetwork.of`.

    Returns
    -------
    dict of float
        Relative distances, Frobenius norms; all vanish where `DeepNetwork` is exact.

        * ``"imbalance"``: the largest ``|U_l U_l^T - U_(l+1)^T U_(l+1)|`` over the largest ``|U_l|^2``, where
          :math:`U_\ell = \sqrt{\bar\eta/\eta_\ell}\, W_\ell`;
        * ``"imbalance, mode by mode"``: the largest ``|R_l^T R_l - 1|`` of the layers' frames, which also detects the
          imbalance of weak modes; entries are divided by the columns' lengths where these exceed 1;
        * ``"misalignment"``: the part of ``S Sigma`` that couples different singular modes of the network, over
          ``|S Sigma|``; if the layers are not balanced, in the orthonormal frame closest to that of the outputs;
        * ``"covariance across modes"``: the part of ``Sigma`` that couples different modes, over ``|Sigma|``;
        * ``"rest of the weights"``: the largest ``|U_l - R_(l+1) D R_l^T|`` over the largest ``|U_l|``.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.deep import distances
    >>> found = distances([2 * np.eye(2), np.eye(2)], np.diag([3.0, 1.0]))  # |4 I - I| / |2 I|^2 = 3 sqrt(2) / 8
    >>> round(found["imbalance"], 6)
    0.53033
    """
    return _measured(_checked(layers, target, rates, covariance, tolerance))[0]


def recognized(
    layers: Sequence[Any], target: Any, rates: Any, covariance: Any, tolerance: float | None
) -> tuple[Any, ...]:
    """Return the fields of a `DeepNetwork`, or raise `NotExact`."""
    given = _checked(layers, target, rates, covariance, tolerance)
    found, parts, in_range = _measured(given)
    for name, distance in found.items():
        if not distance <= given.tolerance:
            raise NotExact(
                f"{WHO}: {name} = {distance:.3g} must vanish (relative distance; at most {given.tolerance:.2g}, "
                f"{given.reason}) for the closed form to hold; pass a larger tolerance for rounded weights, or follow "
                "these weights with integrate(deep.deep_weights(target, depth), t, layers)"
            )
    if not in_range:
        sizes = [float(np.abs(w).max()) for w in given.layers]
        raise OverflowError(
            f"{WHO}: layers = {min(sizes):.3g} to {max(sizes):.3g} (their largest entries) have a product beyond the "
            "range of doubles (strengths of modes at time 0); rescale the weights"
        )
    variances = parts[-1]
    if not (variances > 0).all():
        raise ValueError(
            f"{WHO}: covariance = {variances.min():.3g} along a mode must be positive (variance of the inputs); drop "
            "directions without inputs with data.whiten"
        )
    return parts


class _Given(NamedTuple):
    """Checked arguments, the machine epsilon of the weights, and the reason for the tolerance, for messages."""

    layers: list[np.ndarray]
    target: np.ndarray
    rates: np.ndarray
    covariance: np.ndarray
    tolerance: float
    reason: str
    spacing: float


def _checked(layers: Any, target: Any, rates: Any, covariance: Any, tolerance: Any) -> _Given:
    weights = [arithmetic.to_numpy(w) for w in chained(WHO, layers)]
    ends = (weights[-1].shape[0], weights[0].shape[1])
    goal = arithmetic.to_numpy(real_array(WHO, "target", target, meaning="map to be learned"))
    refuse_shape(WHO, "target", goal, ends, meaning="map to be learned", fix="the layers have these outputs and inputs")
    coarsest, kind = max((spacing(w), str(getattr(w, "dtype", "float64"))) for w in (*layers, target, 0.0))
    reason = "as given"
    if tolerance is None:
        tolerance, reason = max(TOLERANCE, SPACINGS * coarsest), f"for weights of {kind.rpartition('.')[2]}"
    else:
        tolerance = number(WHO, "tolerance", tolerance, meaning="relative distance", domain="(0, 1)", example=1e-8)
        coarsest = max(coarsest, tolerance / SPACINGS)
    matrix = np.eye(ends[1]) if covariance is None else covariance
    matrix = arithmetic.to_numpy(real_array(WHO, "covariance", matrix, meaning="covariance of the inputs"))
    refuse_shape(WHO, "covariance", matrix, (ends[1],) * 2, meaning="covariance of the inputs", fix="pass X.T @ X / P")
    semidefinite(WHO, "covariance", matrix, meaning="covariance of the inputs", margin=TOLERANCE)
    return _Given(weights, goal, layer_rates(WHO, rates, len(weights)), matrix, tolerance, reason, coarsest)


def _measured(given: _Given) -> tuple[dict[str, float], tuple[Any, ...], bool]:
    """Return the distances, the fields of the network, and whether its strengths are within the range of doubles."""
    rates, depth = given.rates, len(given.layers)
    unit, one, power = (max(float(np.abs(a).max()) for a in some) or 1.0 for some in _in_units(given))
    target, covariance = given.target / one, given.covariance / power
    ratios = np.sqrt(mean_rate(np, rates)) / np.sqrt(rates)
    equal = [ratio * (w / unit) for w, ratio in zip(given.layers, ratios, strict=True)]
    top = 2.0 ** np.round(np.log2(max(float(np.abs(layer).max()) for layer in equal) or 1.0))
    equal = [layer / top for layer in equal]  # squares are doubles
    largest = max(float(np.linalg.norm(layer)) for layer in equal) or 1.0
    imbalance = max((float(np.linalg.norm(a @ a.T - b.T @ b)) for a, b in pairwise(equal)), default=0.0) / largest**2
    drive = target @ covariance
    frames, d, disagreement = _frames(equal, given.tolerance, given.spacing)
    close = max(CLOSE, given.tolerance)
    turn = _settled(d, frames[-1].T @ drive @ frames[0], frames[0].T @ covariance @ frames[0], close=close)
    frames, d = [_closest_frame(frame @ turn) for frame in frames], np.sum(turn * (d[:, None] * turn), axis=0)
    rest = max(
        float(np.linalg.norm(layer - (after * d) @ before.T))
        for layer, (before, after) in zip(equal, pairwise(frames), strict=True)
    )
    with np.errstate(over="ignore", under="ignore"):
        strengths = (d * top * unit) ** depth
    in_range = bool((np.isfinite(strengths) & (strengths > 0)).all())
    misalignment = _coupling(drive, frames[-1], frames[0]) / (float(np.linalg.norm(drive)) or 1.0)
    noise = 4 * min(given.tolerance, max(disagreement, misalignment, rest / largest))
    u, v, hidden, start = _with_unlearned(frames, strengths, target, covariance, noise)
    found = {
        "imbalance": imbalance,
        "imbalance, mode by mode": disagreement,
        "misalignment": misalignment,
        "covariance across modes": _coupling(covariance, v, v) / (float(np.linalg.norm(covariance)) or 1.0),
        "rest of the weights": rest / largest,
    }
    variances = np.sum(v * (covariance @ v), axis=0)
    s = np.sum(u * (drive @ v), axis=0) / np.where(variances > 0, variances, 1.0)
    return found, (u, s * one, v, start, rates, hidden, variances * power), in_range


def _in_units(given: _Given) -> tuple[Sequence[np.ndarray], ...]:
    return given.layers, [given.target], [given.covariance]


def _closest_frame(u: np.ndarray) -> np.ndarray:
    """Return the matrix with orthonormal columns that is closest to `u`."""
    left, _, right = np.linalg.svd(u, full_matrices=False)
    return np.asarray(left @ right)


def _coupling(matrix: np.ndarray, left: np.ndarray, right: np.ndarray) -> float:
    """Return the norm of the part of `matrix` that couples a mode to other modes or to the complement of all modes."""
    inside = left.T @ matrix @ right
    out = (matrix @ right - left @ inside, left.T @ matrix - inside @ right.T, inside - np.diag(np.diagonal(inside)))
    return float(np.sqrt(sum(np.sum(part**2) for part in out)))


def _frames(equal: list[np.ndarray], tolerance: float, rounding: float) -> tuple[list[np.ndarray], np.ndarray, float]:
    """Return frames of unit columns, input to output, the layers' singular values and the imbalance mode by mode.

    The frames are computed from the first layer, whose singular values are the ``L``-th roots of the map's: an SVD of
    the map would lose the weak modes of a deep network. Modes that are rounding errors of the weights are left out.
    """
    left, d, right = np.linalg.svd(equal[0], full_matrices=False)
    kept = d > max(equal[0].shape) * rounding * max(float(d[0]), np.finfo(float).tiny)
    d, frames = d[kept], [right[kept].T, left[:, kept]]
    lengths = [np.ones_like(d)] * 2  # column lengths of the images of the first frame under the layers
    for layer in equal[1:]:
        moved = layer @ frames[-1]
        length = np.linalg.norm(moved, axis=0)
        frames.append(moved / np.where(length > 0, length, 1.0))
        with np.errstate(over="ignore"):
            lengths.append(lengths[-1] * (length / d))
    off = np.max([np.linalg.norm(_off(*pair), axis=0) for pair in zip(frames, lengths, strict=True)], axis=0)
    kept = (d >= tolerance * d.max(initial=0.0)) | (off <= DISAGREEMENT)
    frames, lengths = [frame[:, kept] for frame in frames], [length[kept] for length in lengths]
    return frames, d[kept], max(float(np.linalg.norm(_off(*pair))) for pair in zip(frames, lengths, strict=True))


def _off(frame: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return ``R^T R - 1`` of ``R = frame diag(length)``, entries divided by the lengths where these exceed 1."""
    short = np.minimum(length, 1.0)
    with np.errstate(divide="ignore"):
        diagonal = short**2 - np.minimum(1 / length, 1.0) ** 2
    overlap = (frame.T @ frame) * short[:, None] * short
    return overlap - np.diag(np.diagonal(overlap) - diagonal)


def _settled(values: np.ndarray, *matrices: np.ndarray, close: float = CLOSE) -> np.ndarray:
    """Return a rotation among modes of equal values that diagonalizes matrices with a common eigenbasis."""
    turn, begin = np.eye(len(values)), 0
    for end in range(1, len(values) + 1):
        if end < len(values) and values[end - 1] - values[end] <= close * values[0]:
            continue
        block = slice(begin, end)
        # a generic linear combination of commuting matrices and of the values has their common eigenvectors
        mixed = np.diag(values[block] / (values[0] or 1.0) - 1)
        for weight, matrix in zip((1.0, 0.6180339887498949), matrices, strict=False):
            part = matrix[block, block]
            mixed = mixed + weight * (part + part.T) / (np.linalg.norm(matrix) or 1.0)
        turn[block, block] = np.linalg.eigh(mixed)[1][:, ::-1]
        begin = end
    return turn


def _with_unlearned(
    frames: list[np.ndarray], strengths: np.ndarray, target: np.ndarray, covariance: np.ndarray, noise: float
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...], np.ndarray]:
    """Return u, v, hidden frames and initial strengths, extended by the modes of the target absent in the weights."""
    v, u = frames[0], frames[-1]
    left, right = (np.eye(len(q)) - q @ q.T for q in (u, v))
    a, s, b = np.linalg.svd(left @ target @ right, full_matrices=False)
    kept = s > max(4 * max(target.shape) * np.finfo(float).eps, noise) * np.linalg.norm(target)
    kept[0] |= not (kept.any() or len(strengths))  # one mode of strength 0 if neither target nor weights have a mode
    a, s, b = a[:, kept], s[kept], b[kept].T
    if len(s):
        turn = _settled(s, b.T @ covariance @ b)
        a, b = _closest_frame(left @ a @ turn), _closest_frame(right @ b @ turn)
    hidden = tuple(np.hstack([frame, np.zeros((len(frame), len(s)))]) for frame in frames[1:-1])
    return np.hstack([u, a]), np.hstack([v, b]), hidden, np.concatenate([strengths, np.zeros(len(s))])
