"""Where training ends from ``E = 0`` and from aligned starts, and how fast: what theory says without following it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import real_array
from linsolve.systems.collapse.contrasts import averaged, contrasts, members, split
from linsolve.systems.collapse.network import kernel
from linsolve.systems.whitened import starts as whitened_start

__all__ = [
    *("PARTS", "Rate", "aligned_limit", "balanced_limit", "final_rates"),
    *("fitted", "frame_of", "obstructed", "slowest", "slows_down"),
]

PARTS = ("sample", "class", "global")
LARGEST = 2000  # rows of the tangent kernel that are still diagonalized
SETTLED = 0.02  # relative difference of two slopes of one exponential
EXCITED = 1e-8  # of the residual; a direction with less of it is kept empty by a symmetry


class Rate(NamedTuple):
    """How a part of the residual falls: law ``"exp"`` (rate: of its size per unit of time), ``"1/t"`` or ``"none"``."""

    law: str
    predicted: float | None
    measured: float | None


def balanced_limit(flow: Any, b: Any) -> Any:
    r"""Return the end of training at zero loss from ``E = 0``, eqs. (29), (60), for the bias that it ends with.

    .. math:: W W^T = \sqrt{m/\mu_c}\, (T A T^T)^{1/2}, \quad
        H_1^T H_1 = \sqrt{\mu_c/m}\, A^{-1/2} (A^{1/2} T^T T A^{1/2})^{1/2} A^{-1/2}, \quad T = I - b 1^T,

    ``A = I - alpha J``, ``alpha = kappa_n m / mu_g``. Which bias it ends with depends on the path.

    Parameters
    ----------
    flow : NeuralCollapse
        Without batch.
    b : array_like, shape (C,)
        Final bias.

    Returns
    -------
    State
        Of `flow`; ``W H = T Y``.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> from linsolve.studies.collapse import balanced_limit
    >>> flow = ls.NeuralCollapse(kappa_d=2.0, kappa_c=1.0, kappa_n=0.5, classes=3, m=4)
    >>> end = balanced_limit(flow, [1 / 3, 1 / 3, 1 / 3])
    >>> bool(flow.loss(np, end) < 1e-12)
    True
    >>> (end.gram_w / end.gram_w[0, 0]).round(6).tolist()  # a simplex
    [[1.0, -0.5, -0.5], [-0.5, 1.0, -0.5], [-0.5, -0.5, 1.0]]
    """
    classes, m = int(flow.classes), int(flow.m)
    b = real_array("balanced_limit", "b", b, meaning="final bias")
    if b.shape != (classes,):
        raise ValueError(f"balanced_limit: b has shape {b.shape} but needs ({classes},), a bias of each class")
    _, mu_c, mu_g = (float(v) for v in flow.rates_of_features(np))
    root, q, y = np.sqrt(mu_c / m), np.sqrt(mu_c / mu_g), members(np, classes, m)
    target = np.eye(classes) - b[:, None]
    half, back = (np.eye(classes) + (v - 1) / classes for v in (q, 1 / q))  # A^(1/2), A^(-1/2)
    means = root * back @ _root(half @ target.T @ target @ half) @ back
    return flow.State(target @ y, _root(target @ half @ half @ target.T) / root, y.T @ means @ y, b)


def _root(a: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(a)
    known = values > 1e-15 * values[-1]  # the rest is rounding, and its root would not be
    return (vectors * np.sqrt(np.where(known, values, 0))) @ vectors.T


def aligned_limit(flow: Any, epsilon: Any) -> tuple[np.ndarray, np.ndarray]:
    r"""Return squared lengths of classifier and class means in each mode at the end of training from aligned starts.

    .. math:: w^2 = \frac m2 \Big(\epsilon + \sqrt{\epsilon^2 + \frac{4}{m \mu_c}}\Big), \qquad
        h^2 = \frac{\mu_c}{2} \Big(-\epsilon + \sqrt{\epsilon^2 + \frac{4}{m \mu_c}}\Big), \qquad w h = 1 .

    The simplex is lost with their spread: ``NC3 = 1 - (C - 1) / sqrt(sum w^2 sum h^2)``, zero for equal ``epsilon``.

    Parameters
    ----------
    flow : NeuralCollapse
        Without batch.
    epsilon : array_like
        Imbalance ``w^2/m - h^2/mu_c`` of each of the C - 1 modes.

    Examples
    --------
    >>> import linsolve as ls
    >>> from linsolve.studies.collapse import aligned_limit
    >>> flow = ls.NeuralCollapse(kappa_d=2.0, kappa_c=1.0, kappa_n=0.5, classes=3, m=4)
    >>> classifier, means = aligned_limit(flow, [-0.5, 0.5])
    >>> classifier.round(4).tolist(), (classifier * means).round(6).tolist()  # the product is 1 in every mode
    ([0.5275, 2.5275], [1.0, 1.0])
    """
    epsilon, m = np.asarray(epsilon, dtype=float), int(flow.m)
    mu = float(flow.rates_of_features(np)[1])
    least = (
        4 / (m * mu) / (np.abs(epsilon) + np.sqrt(epsilon**2 + 4 / (m * mu)))
    )  # the smaller of the two, no difference
    most = np.abs(epsilon) + np.sqrt(epsilon**2 + 4 / (m * mu))
    return m / 2 * np.where(epsilon > 0, most, least), mu / 2 * np.where(epsilon > 0, least, most)


def frame_of(flow: Any, z: Any) -> tuple[float, float]:
    """Return ``gamma``, ``theta``: ``W W^T`` is a multiple of ``I - gamma J``, class means of ``I - theta J``."""
    classes, y = int(flow.classes), members(np, int(flow.classes), int(flow.m))
    off, found = ~np.eye(classes, dtype=bool), []
    for gram in (z.gram_w, averaged(np, averaged(np, z.gram_h, y).T, y)):
        apart = np.trace(gram) / classes - np.mean(gram[off])
        found.append(float(-np.mean(gram[off]) / apart) if apart > 1e-9 * np.abs(gram).max() else np.nan)
    return found[0], found[1]


def obstructed(flow: Any, weights: tuple[np.ndarray, np.ndarray, np.ndarray]) -> bool:
    r"""Return whether parity keeps a start from the target.

    With ``E = 0``, no scatter, and a constant mode that contrasts of classes do not see, contrasts of outputs and of
    class means are a balanced square network of their own. It keeps the sign of its map's determinant, and the
    target's, the identity, is positive. From a negative one all modes but one are learned: training goes to a saddle,
    the loss of contrasts at ``m/2``, from which only rounding leads away.

    Parameters
    ----------
    flow : NeuralCollapse
        Without batch.
    weights : (h, w, b)
        At the start.
    """
    h, w, _ = weights
    classes, m = int(flow.classes), int(flow.m)
    basis, y = contrasts(np, classes), members(np, classes, m)
    means = h @ y.T / m
    rows, columns = basis.T @ w, means @ basis * np.sqrt(m / float(flow.rates_of_features(np)[1]))
    seen = w.sum(axis=0) @ columns, rows @ means.mean(axis=1), h - means @ y
    unit = max(float(np.linalg.norm(w)), 1.0) * float(np.linalg.norm(h))
    if max(float(np.linalg.norm(part)) for part in seen) > 1e-9 * unit:
        return False
    found = whitened_start.obstructed(np, np.eye(classes - 1), rows @ columns, columns.T @ columns, rows @ rows.T)
    return bool(found > 0)


def slows_down(flow: Any, weights: tuple[Any, Any, Any]) -> bool:
    """Return whether scatter within classes falls as ``1/t``: ``E = 0``, no mean, and scatter along ``1^T W``.

    Then ``W W^T`` loses the direction of ``1``, and with it the pull on what scatters along ``1^T W``.
    """
    h, w, b = weights
    classes, m = w.shape[0], int(flow.m)
    sample, _, whole = split(np, h, members(np, classes, m))
    size, e = np.abs(w.T @ w).max() / m, flow.imbalance_of(h, w)
    centered = np.abs(whole).max() <= 1e-9 * np.abs(h).max() and np.abs(classes * b - 1).max() <= 1e-9
    seen = np.abs(w.sum(axis=0) @ sample).max() > 1e-9 * np.abs(w).max() * np.abs(h).max()
    return bool(size > 0 and np.abs(e).max() <= 1e-9 * size and centered and seen and len(h) >= classes)


def final_rates(flow: Any, end: Any, residual: np.ndarray) -> dict[str, float | None]:
    r"""Return the rates at which parts of the residual fall exponentially at the end of training.

    There ``R' = -Theta R`` with the tangent kernel :math:`\Theta = I \otimes (H^T H + 1 1^T) + W W^T \otimes K`, and a
    part falls with the smallest positive eigenvalue in whose eigenspace it has a share; or with twice the rate of the
    samples' part, which drives the others in second order, the global one only where features have a mean.

    Parameters
    ----------
    flow : NeuralCollapse
        Without batch.
    end : State
        The limit.
    residual : array, shape (C, N)
        Late, above rounding: which directions are there at all.

    Returns
    -------
    dict
        By `PARTS`; None for a part that is not there, or where the kernel is too large.
    """
    found: dict[str, float | None] = dict.fromkeys(PARTS)
    if residual.size > LARGEST:
        return found
    y, size = members(np, int(flow.classes), int(flow.m)), np.linalg.norm(residual)
    for value, seen in _eigenspaces(flow, end, residual):
        for name, part in zip(PARTS, split(np, seen, y), strict=True):
            if np.linalg.norm(part) > EXCITED * size:
                found[name] = value
    slow, scale = found["sample"], np.trace(end.gram_h)
    if slow is not None:
        driven = ["class"] + ["global"] * bool(np.abs(split(np, end.gram_h, y)[2]).max() > 1e-9 * scale)
        found |= {k: min(v, 2 * slow) for k, v in found.items() if v is not None and k in driven}
    return found


def slowest(flow: Any, end: Any, residual: np.ndarray | None = None) -> float | None:
    """Return the smallest rate of the residual at the end; without `residual` the smallest positive of class means."""
    if residual is not None:
        return min((v for v in final_rates(flow, end, residual).values() if v is not None), default=None)
    classes, m = int(flow.classes), int(flow.m)
    y, (_, middle, _) = members(np, classes, m), (float(v) for v in flow.rates_of_features(np))
    means = averaged(np, averaged(np, end.gram_h, y).T, y)
    theta = np.kron(np.eye(classes), m * (means + 1))
    theta += np.kron(end.gram_w, middle * np.eye(classes) + m * float(flow.kappa_n))
    values = np.linalg.eigvalsh(theta)
    return float(values[values > 1e-6 * values[-1]][0])


def _eigenspaces(flow: Any, end: Any, residual: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """Give eigenvalues of the tangent kernel, largest first, and the residual's share in each eigenspace."""
    theta = np.kron(np.eye(int(flow.classes)), end.gram_h + 1) + np.kron(end.gram_w, kernel(flow))
    values, vectors = np.linalg.eigh(theta)
    share = vectors.T @ residual.ravel()
    groups = np.cumsum(np.diff(values, prepend=values[0]) > 1e-7 * values[-1])
    for group in range(groups[-1], -1, -1):
        inside = groups == group
        if values[inside].mean() < 1e-9 * values[-1]:  # left, as training ends, by what decays elsewhere
            return
        yield float(values[inside].mean()), (vectors[:, inside] @ share[inside]).reshape(residual.shape)


def fitted(t: np.ndarray, size: np.ndarray, law: str, floor: float) -> float | None:
    """Return minus the slope of ``log size``: in t for ``"exp"``, in ``log t`` else; None if it has not settled.

    An exponential has settled where the slopes of both halves of the fitted stretch, late, above rounding and after the
    last change of sign, differ by less than `SETTLED`.
    """
    if law == "1/t":
        return float(-np.polyfit(np.log(t[-8:]), np.log(size[-8:]), 1)[0])
    low = np.flatnonzero(size <= floor)
    last = low[0] if len(low) else len(t)  # rounding sets in
    above = np.flatnonzero(size > 1e-3 * size.max())
    rises = np.flatnonzero(np.diff(size[:last]) > 0)  # the size has a minimum where the part changes its sign
    first = (max(above[-1], rises[-1] + 1 if len(rises) else 0) + 1 + last) // 2
    if last - first < 4:
        return None
    middle = (first + last) // 2
    early, late, rate = (
        float(-np.polyfit(t[a:b], np.log(size[a:b]), 1)[0]) for a, b in ((first, middle), (middle, last), (first, last))
    )
    return rate if abs(early - late) <= SETTLED * abs(rate) else None
