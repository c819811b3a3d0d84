"""Limits of training from ``E = 0`` and from aligned starts, and final rates, without simulation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import Interval, real_array, refuse_shape, shown
from linsolve.systems.collapse.contrasts import averaged, contrasts, members, split
from linsolve.systems.collapse.features import BlockFeatures
from linsolve.systems.collapse.network import kernel
from linsolve.systems.collapse.starts import refuse_unequal
from linsolve.systems.whitened import starts as whitened_start

__all__ = [
    *("PARTS", "Rate", "aligned_limit", "balanced_limit", "equal_bias_limit", "final_rates"),
    *("fitted", "frame_of", "obstructed", "slowest", "slows_down"),
]

PARTS = ("sample", "class", "global")
_SQUARES = Interval("[-1e150, 1e150]")  # numbers whose squares are doubles
LARGEST = 2000  # largest number of rows of a tangent kernel that is diagonalized
SETTLED = 0.02  # largest relative difference of two fitted slopes of one exponential
EXCITED = 1e-8  # relative to the residual; smaller components are excluded by a symmetry


class Rate(NamedTuple):
    """Decay of a part of the residual: law ``"exp"`` (rate of its norm per unit of time), ``"1/t"`` or ``"none"``."""

    law: str
    predicted: float | None
    measured: float | None


def balanced_limit(flow: Any, b: Any) -> Any:
    r"""Return the limit of training from ``E = 0`` at zero loss, eqs. (29), (60), for a given final bias.

    .. math:: W W^T = \sqrt{m/\mu_c}\, (T A T^T)^{1/2}, \quad
        H_1^T H_1 = \sqrt{\mu_c/m}\, A^{-1/2} (A^{1/2} T^T T A^{1/2})^{1/2} A^{-1/2}, \quad T = I - b 1^T,

    ``A = I - alpha J``, ``alpha = kappa_n m / mu_g``. For unequal class sizes, with ``S = diag(sqrt(m_c))`` and the
    kernel ``B`` of class averages (`NeuralCollapse.kernel_of_classes`), ``G = S H_1^T H_1 S`` and ``T_S = T S``,

    .. math:: W W^T = (T_S B^{-1} T_S^T)^{1/2}, \quad
        G = B^{1/2} (B^{-1/2} T_S^T T_S B^{-1/2})^{1/2} B^{1/2} .

    The final bias depends on the path.

    Parameters
    ----------
    flow : NeuralCollapse
        Flow without batch axes.
    b : array_like, shape (C,)
        Final bias.

    Returns
    -------
    State
        State of `flow`; ``W H = T Y``.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> flow = ls.NeuralCollapse(kappa_d=2.0, kappa_c=1.0, kappa_n=0.5, classes=3, m=4)
    >>> end = ls.collapse.balanced_limit(flow, [1 / 3, 1 / 3, 1 / 3])
    >>> bool(flow.loss(np, end) < 1e-12)
    True
    >>> (end.gram_w / end.gram_w[0, 0]).round(6).tolist()  # a simplex
    [[1.0, -0.5, -0.5], [-0.5, 1.0, -0.5], [-0.5, -0.5, 1.0]]
    """
    classes = _classes("balanced_limit", flow)
    b = real_array("balanced_limit", "b", b, meaning="final bias", domain=_SQUARES)
    refuse_shape("balanced_limit", "b", b, (classes,), meaning="final bias", fix="give one for each class")
    target, y = np.eye(classes) - b[:, None], members(np, classes, flow.sizes)
    if len(set(flow.sizes)) > 1:
        return _unequal_limit(flow, b, target, y)
    m, (_, mu_c, mu_g) = flow.sizes[0], (float(v) for v in flow.rates_of_features(np))
    root, q = np.sqrt(mu_c / m), np.sqrt(mu_c / mu_g)
    half, back = (np.eye(classes) + (v - 1) / classes for v in (q, 1 / q))  # A^(1/2), A^(-1/2)
    means = root * back @ _root(half @ target.T @ target @ half) @ back
    return flow.State(target @ y, _root(target @ half @ half @ target.T) / root, y.T @ means @ y, b)


def _unequal_limit(flow: Any, b: np.ndarray, target: np.ndarray, y: np.ndarray) -> Any:
    roots, (values, vectors) = np.sqrt(flow.sizes), np.linalg.eigh(flow.kernel_of_classes(np))
    half, back = ((vectors * v) @ vectors.T for v in (np.sqrt(values), 1 / np.sqrt(values)))
    seen = target * roots @ back
    means = half @ _root(seen.T @ seen) @ half / roots / roots[:, None]
    return flow.State(target @ y, _root(seen @ seen.T), y.T @ means @ y, b)


def _classes(who: str, flow: Any) -> int:
    """Return the number of classes; raise for another flow, or one with batch axes."""
    if not isinstance(flow, BlockFeatures) or "gram_w" not in flow.axes or flow.kappa_d.ndim:
        text = type(flow).__name__ if isinstance(flow, BlockFeatures) else shown(flow)
        raise TypeError(f"{who}: flow = {text} must be one NeuralCollapse (network without batch axes); use a member")
    return int(flow.classes)


def _root(a: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(a)
    known = values > 1e-15 * values[-1]  # smaller values are rounding errors, which the square root would magnify
    return (vectors * np.sqrt(np.where(known, values, 0))) @ vectors.T


def equal_bias_limit(self: Any, beta: Any) -> Any:
    r"""Return the limit from ``E = 0`` at zero loss and with ``b = beta 1``: eqs. (62) and (66), with ``theta``.

    .. math:: W W^T = \sqrt{m/\mu_c}\,(I - \gamma J), \quad H_1^T H_1 = \sqrt{\mu_c/m}\,(I - \theta J), \quad
        \gamma = \frac{1 - |1 - \beta C| q}{C}, \;\; \theta = \frac{1 - |1 - \beta C|/q}{C}, \;\;
        q = \sqrt{\mu_c/\mu_g},

    ``J = 1 1^T``: a simplex (``gamma = theta = 1/C``) at ``beta = 1/C`` only.

    Parameters
    ----------
    beta : array_like, shape batch
        Final bias of every class.

    Returns
    -------
    State
    """
    who = f"{type(self).__name__}.equal_bias_limit"
    refuse_unequal(who, self.sizes, "use linsolve.collapse.balanced_limit(flow, b)")
    beta = real_array(who, "beta", beta, meaning="final bias", domain=_SQUARES)
    xp = arithmetic.namespace(*(v for v in (beta, self.kappa_d) if arithmetic.namespace(v) is not np))
    beta, flow, n = arithmetic.cast(xp, beta), self.cast(xp), self._classes
    _, middle, large = flow.rates_of_features(xp)
    root, q, off = xp.sqrt(middle / self._each), xp.sqrt(middle / large), xp.abs(1 - n * beta)
    gamma, theta = (1 - off * q) / n, (1 - off / q) / n
    y, one = members(xp, n, self._each), xp.eye(n, dtype=xp.float64)
    means = root[..., None, None] * (one - theta[..., None, None])
    return self.State(
        (one - beta[..., None, None]) @ y,
        (one - gamma[..., None, None]) / root[..., None, None],
        xp.matrix_transpose(y) @ means @ y,
        beta[..., None] + xp.zeros(n, dtype=xp.float64),
    )


def aligned_limit(flow: Any, epsilon: Any) -> tuple[np.ndarray, np.ndarray]:
    r"""Return squared lengths of classifier and class means in each mode at the end of training from aligned starts.

    .. math:: w^2 = \frac m2 \Big(\epsilon + \sqrt{\epsilon^2 + \frac{4}{m \mu_c}}\Big), \qquad
        h^2 = \frac{\mu_c}{2} \Big(-\epsilon + \sqrt{\epsilon^2 + \frac{4}{m \mu_c}}\Big), \qquad w h = 1 .

    The limit deviates from a simplex when the ``epsilon`` differ: ``NC3 = 1 - (C - 1) / sqrt(sum w^2 sum h^2)``, zero
    for equal ``epsilon``.

    Parameters
    ----------
    flow : NeuralCollapse
        Flow without batch axes.
    epsilon : array_like
        Imbalance ``w^2/m - h^2/mu_c`` of each of the C - 1 modes.

    Examples
    --------
    >>> import linsolve as ls
    >>> flow = ls.NeuralCollapse(kappa_d=2.0, kappa_c=1.0, kappa_n=0.5, classes=3, m=4)
    >>> classifier, means = ls.collapse.aligned_limit(flow, [-0.5, 0.5])
    >>> classifier.round(4).tolist(), (classifier * means).round(6).tolist()  # the product is 1 in every mode
    ([0.5275, 2.5275], [1.0, 1.0])
    """
    _classes("aligned_limit", flow)
    refuse_unequal("aligned_limit", flow.sizes, "for unequal sizes use balanced_limit")
    m = flow.sizes[0]
    epsilon = real_array("aligned_limit", "epsilon", epsilon, meaning="imbalance of the modes", domain=_SQUARES)
    mu = float(flow.rates_of_features(np)[1])
    least = (
        4 / (m * mu) / (np.abs(epsilon) + np.sqrt(epsilon**2 + 4 / (m * mu)))
    )  # the smaller of the two as a quotient, without cancellation
    most = np.abs(epsilon) + np.sqrt(epsilon**2 + 4 / (m * mu))
    return m / 2 * np.where(epsilon > 0, most, least), mu / 2 * np.where(epsilon > 0, least, most)


def frame_of(flow: Any, z: Any) -> tuple[float, float]:
    """Return gamma, theta: ``W W^T``, Gram matrix of class means are multiples of ``I - gamma J``, ``I - theta J``."""
    classes, y = int(flow.classes), members(np, int(flow.classes), int(flow.m))
    off, found = ~np.eye(classes, dtype=bool), []
    for gram in (z.gram_w, averaged(np, averaged(np, z.gram_h, y).T, y)):
        spread = np.trace(gram) / classes - np.mean(gram[off])
        found.append(float(-np.mean(gram[off]) / spread) if spread > 1e-9 * np.abs(gram).max() else np.nan)
    return found[0], found[1]


def obstructed(flow: Any, weights: tuple[np.ndarray, np.ndarray, np.ndarray]) -> bool:
    r"""Return whether parity makes the target unreachable.

    With ``E = 0``, no scatter, and a constant mode decoupled from the contrasts of classes, the contrasts of outputs
    and of class means form a balanced square network. Training conserves the sign of the determinant of its map. The
    target is the identity, whose determinant is positive. From a negative determinant all modes but one are learned.
    Training converges to a saddle where the loss of contrasts is ``m/2``. Only rounding errors leave the saddle.

    Parameters
    ----------
    flow : NeuralCollapse
        Flow without batch axes.
    weights : (h, w, b)
        Initial features, classifier and bias.
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
    """Return whether scatter within classes decays as ``1/t``: ``E = 0``, no mean, and scatter along ``1^T W``.

    Then the component of ``W W^T`` along ``1`` decays to zero, and so does the decay rate of scatter along ``1^T W``.
    """
    h, w, b = weights
    classes, m = w.shape[0], int(flow.m)
    sample, _, whole = split(np, h, members(np, classes, m))
    size, e = np.abs(w.T @ w).max() / m, flow.imbalance_of(h, w)
    centered = np.abs(whole).max() <= 1e-9 * np.abs(h).max() and np.abs(classes * b - 1).max() <= 1e-9
    seen = np.abs(w.sum(axis=0) @ sample).max() > 1e-9 * np.abs(w).max() * np.abs(h).max()
    return bool(size > 0 and np.abs(e).max() <= 1e-9 * size and centered and seen and len(h) >= classes)


def final_rates(flow: Any, end: Any, residual: np.ndarray) -> dict[str, float | None]:
    r"""Return the exponential rates of the parts of the residual at the end of training.

    At the end ``R' = -Theta R`` with the tangent kernel :math:`\Theta = I \otimes (H^T H + \eta_b 1 1^T) + W W^T
    \otimes K`. A part of the residual decays with the smallest positive eigenvalue whose eigenspace it overlaps, or
    with twice the rate of the sample part if that is slower. The reason is that the sample part drives the class part
    in second order, and the global part, too, if the features have a nonzero mean.

    Parameters
    ----------
    flow : NeuralCollapse
        Flow without batch axes.
    end : State
        The limit.
    residual : array, shape (C, N)
        Residual at a late time, above rounding; its nonzero components select the eigenspaces.

    Returns
    -------
    dict
        Rate of each of `PARTS`; None for a part that is zero, or if the kernel is too large to diagonalize.
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
    """Return the smallest final rate of the residual; without `residual`, the smallest positive one of class means."""
    if residual is not None:
        return min((v for v in final_rates(flow, end, residual).values() if v is not None), default=None)
    classes, m = int(flow.classes), int(flow.m)
    y, (_, middle, _) = members(np, classes, m), (float(v) for v in flow.rates_of_features(np))
    means = averaged(np, averaged(np, end.gram_h, y).T, y)
    theta = np.kron(np.eye(classes), m * (means + float(flow.eta_b)))
    theta += np.kron(end.gram_w, middle * np.eye(classes) + m * float(flow.kappa_n))
    values = np.linalg.eigvalsh(theta)
    return float(values[values > 1e-6 * values[-1]][0])


def _eigenspaces(flow: Any, end: Any, residual: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """Yield eigenvalues of the tangent kernel, largest first, and the residual's projection on each eigenspace."""
    theta = np.kron(np.eye(int(flow.classes)), end.gram_h + float(flow.eta_b)) + np.kron(end.gram_w, kernel(flow))
    values, vectors = np.linalg.eigh(theta)
    share = vectors.T @ residual.ravel()
    groups = np.cumsum(np.diff(values, prepend=values[0]) > 1e-7 * values[-1])
    for group in range(groups[-1], -1, -1):
        inside = groups == group
        if values[inside].mean() < 1e-9 * values[-1]:  # residue of other, decaying directions
            return
        yield float(values[inside].mean()), (vectors[:, inside] @ share[inside]).reshape(residual.shape)


def fitted(t: np.ndarray, size: np.ndarray, law: str, floor: float) -> float | None:
    """Return minus the slope of ``log size``, in t for ``"exp"``, else in ``log t``; None before convergence.

    The fit uses late times, above rounding and after the last change of sign. It has converged if the slopes of both
    halves of that interval differ by less than `SETTLED`.
    """
    if law == "1/t":
        return float(-np.polyfit(np.log(t[-8:]), np.log(size[-8:]), 1)[0])
    low = np.flatnonzero(size <= floor)
    last = low[0] if len(low) else len(t)  # first time at rounding level
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
