r"""Distance of branches from any curve of their weights: bounded by Gronwall's lemma.

In layers scaled to equal learning rates and the time :math:`\bar\eta t`, gradient flow is :math:`\dot\theta = -\nabla
L(\theta)`. Let :math:`\tilde\theta` be any curve, :math:`\rho = |\theta - \tilde\theta|_F`, and
:math:`G_k = (S_k - M_k) \Sigma_k` the gradient of context k. The Gauss-Newton part of the Hessian is positive
semi-definite, and the rest couples the two layers of each branch, so that

.. math:: \dot\rho \le \mu\,\rho + r, \qquad
    \mu = \max_b \|\mathcal G_b\|_2 + \sqrt m\,\|\Sigma\|_2 (J \rho + \sqrt m\,\rho^2/2), \qquad
    J^2 = \sum_b m_b (\|\tilde W_1^b\|_2^2 + \|\tilde W_2^b\|_2^2),

with the residual :math:`r = |\dot{\tilde\theta} + \nabla L(\tilde\theta)|_F`. A branch with a head for each context has
the gradients of its contexts one below the other as :math:`\mathcal G_b`, its heads as :math:`W_2^b` and :math:`m_b =
1`; one with a single head for m contexts has the sum of the gradients and :math:`m_b = m`.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from linsolve.core.reduced_network import norm
from linsolve.solvability.bound import Bound, after_interval
from linsolve.solvability.branched.branches import Branch, Branches

__all__ = ["bounded", "grid"]

POINTS = 257
EARLIEST = 1e-4  # of the horizon: the first of the times that are spaced evenly in their logarithms


def grid(end: float) -> np.ndarray:
    """Return times from 0 to `end`, close to each other also where learning ends long before `end`."""
    if end == 0:
        return np.zeros(1)
    return np.unique(np.concatenate([np.linspace(0.0, end, POINTS), np.geomspace(EARLIEST * end, end, POINTS)]))


def _spectral(matrices: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(matrices, 2, axis=(-2, -1)))


def _single(branch: Branch) -> int:
    """Return the number of contexts that share a head."""
    return 1 if branch.wire.headed else len(branch.contexts)


def _gap(branch: Branch, gradients: np.ndarray) -> np.ndarray:
    """Return the norm of the gradients that act on a branch."""
    own = gradients[..., branch.contexts, :, branch.columns]
    if not branch.wire.headed:
        return _spectral(np.sum(own, axis=-3))
    return _spectral(own.reshape(*own.shape[:-3], -1, own.shape[-1]))


def _rate(rho: float, gap: float, slope: float, curvature: float) -> float:
    """Return ``mu`` at a distance."""
    return float(np.float64(gap + slope * rho + curvature * rho**2 / 2))


def bounded(net: Branches, times: np.ndarray, layers: list[np.ndarray], moves: list[np.ndarray]) -> Bound:
    """Return the bound on the distance of the outputs of a network from those of a curve.

    Parameters
    ----------
    net : Branches
    times : ndarray, shape (n,)
        From 0 to the horizon.
    layers, moves : list of ndarray
        All layers of the curve, as `Branches.start`, and their time derivatives.
    """
    flow, scales = net.flow(), np.tile(net.scales, len(net.branches))
    made = net.maps(layers)
    velocity = flow.velocity(np, flow.State(*layers))
    squares = [
        np.sum((scale * (move - true)).reshape(len(times), -1) ** 2, axis=1)
        for scale, move, true in zip(scales, moves, velocity, strict=True)
    ]
    residual = np.sqrt(np.sum(squares, axis=0))
    start = float(
        np.sqrt(sum(norm(scale * (w - v[0])) ** 2 for scale, w, v in zip(scales, net.start, layers, strict=True)))
    )
    gradients = (net.target - made) @ net.covariance
    gaps = net.clock * np.max([_gap(each, gradients) for each in net.branches], axis=0)
    sizes = np.zeros(len(times))
    for k, branch in enumerate(net.branches):
        first, last = layers[2 * k], layers[2 * k + 1]
        last = last.reshape(len(times), -1, last.shape[-1])
        squared = (scales[0] * _spectral(first)) ** 2 + (scales[1] * _spectral(last)) ** 2
        sizes = sizes + _single(branch) * squared
    sizes, most = np.sqrt(sizes), float(np.sqrt(max(map(_single, net.branches))))
    top = float(np.max(np.linalg.eigvalsh(net.covariance)))
    slope = net.clock * top * most
    energies = net.rms(net.target - net.maps(net.start)) + net.rms(net.target - made)
    rho, reach = start, 0.0
    distances = [rho]
    for i, span in enumerate(np.diff(times)):
        gap, size, push = (float(max(each[i], each[i + 1])) for each in (gaps, sizes, residual))
        rho = after_interval(
            rho, float(span), push, partial(_rate, gap=gap, slope=slope * size, curvature=slope * most)
        )
        if not np.isfinite(rho):
            break
        distances.append(rho)
        reach = float(times[i + 1])
    far = np.concatenate([distances, np.full(len(times) - len(distances), np.inf)])
    gronwall = np.sqrt(top) * (sizes * far + most * far**2 / 2)
    growth = float(np.sum(np.diff(times) * np.maximum(gaps[1:], gaps[:-1])))
    return Bound(
        float(np.max(np.minimum(gronwall, energies))), float(np.max(gronwall)), float(np.max(energies)), start,
        float(np.max(gaps)), growth, float(np.max(residual)), reach, float(np.max(far)),
    )  # fmt: skip
