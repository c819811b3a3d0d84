r"""Error of a neighboring exact solution: bounded by Gronwall's lemma, and measured against the network.

In layers scaled to equal learning rates and the time :math:`\bar\eta t`, gradient flow is :math:`\dot\theta = -\nabla
L(\theta)`. Let :math:`\tilde\theta` be the exact solution of a neighboring problem, :math:`\rho = |\theta -
\tilde\theta|_F`, and :math:`G = \Sigma_{yx} - Y \Sigma_{xx}`. The Gauss-Newton part of the Hessian is positive
semi-definite and contracts distances, so that

.. math:: \dot\rho \le \mu\,\rho + r, \qquad
    \mu = \max_{s \in [0, 1]} \|G_s\|_2 \max_l \sum_{m \ne l} \prod_{k \ne l, m} (\|\tilde U_k\|_2 + \rho),

.. math:: \|G_s\|_2 \le \|\tilde G\|_2 + \|\Sigma_{xx}\|_2
    \Big(\prod_k (\|\tilde U_k\|_2 + \rho) - \prod_k \|\tilde U_k\|_2\Big),

with the residual :math:`r = |\dot{\tilde\theta} + \nabla L(\tilde\theta)|_F`; every term has a closed form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.reduced_network import Reduced
from linsolve.solvability.matches import Match

__all__ = ["Bound", "after_interval", "bounded"]

ROUNDS = 200


class Bound(NamedTuple):
    """Bound on the error of the outputs up to a time, and its constants.

    Parameters
    ----------
    value : float
        Bound on the root mean square over samples of the outputs' error, valid at every time up to the horizon. At each
        time it is the smaller of the next two.
    gronwall : float
        Bound from Gronwall's lemma; inf if the distance may blow up before the horizon.
    energy : float
        Bound from the loss, which does not increase.
    start : float
        Initial distance ``|theta(0) - theta~(0)|``, in layers of equal learning rates.
    lipschitz : float
        Largest one-sided Lipschitz constant ``mu`` along the trajectory (at distance 0), per unit of time.
    growth : float
        Integral of ``mu`` over time: small errors may grow by ``exp(growth)``.
    residual : float
        Largest residual ``r`` of the vector field, per unit of time.
    reach : float
        Time up to which Gronwall's bound is finite.
    distance : float
        Bound on the distance of the weights, in layers of equal learning rates, by Gronwall's lemma.
    """

    value: float
    gronwall: float
    energy: float
    start: float
    lipschitz: float
    growth: float
    residual: float
    reach: float
    distance: float


def _others(size: np.ndarray) -> float:
    """Return the largest ``sum_{m != l} prod_{k != l, m} size_k``."""
    depth = len(size)
    if depth == 2:
        return 1.0
    found = 0.0
    for left_out in range(depth):
        rest = np.delete(size, left_out)
        found = max(found, float(sum(np.prod(np.delete(rest, m)) for m in range(depth - 1))))
    return found


def _spread(size: np.ndarray, rho: float) -> float:
    """Return a bound on the change of a product of matrices of norms `size` whose joint change is `rho`.

    Terms with k changed factors are at most ``e_{L-k}(size) (rho / sqrt(k))^k``, and with one factor by Cauchy-Schwarz.
    """
    depth = len(size)
    symmetric = np.poly(-size)  # elementary symmetric polynomials of the norms
    single = np.sqrt(sum(float(np.prod(np.delete(size, i))) ** 2 for i in range(depth))) * rho
    return single + sum(float(symmetric[depth - k]) * (rho / np.sqrt(k)) ** k for k in range(2, depth + 1))


def after_interval(rho: float, span: float, residual: float, mu: Callable[[float], float]) -> float:
    """Return a bound on the distance after an interval, from the largest value of every constant in it.

    Since ``mu``, a function of the distance, increases, the bound is the least fixed point of an increasing iteration.
    """
    ceiling = rho
    for _ in range(ROUNDS):
        with np.errstate(over="ignore"):
            x = mu(ceiling) * span
        if not x < 300:
            break
        after = rho * np.exp(x) + residual * span * (np.expm1(x) / x if x > 0 else 1.0)
        if after <= ceiling * (1 + 1e-10):
            return float(after)
        ceiling = after
    return float("inf")


def _rate(rho: float, size: np.ndarray, gap: float, top: float) -> float:
    """Return ``mu`` at a distance, from the norms of the layers, of the gradient, and of the second moment."""
    grown = size + rho
    return _others(grown) * (gap + top * float(np.prod(grown) - np.prod(size)))


def bounded(
    red: Reduced, match: Match, state: Any, model: tuple[np.ndarray, np.ndarray], start: float, times: np.ndarray
) -> tuple[Bound, np.ndarray]:
    """Return the bound on the error of a neighboring solution, and the neighbor's map.

    Parameters
    ----------
    red : Reduced
        The network.
    match : Match
        The neighbor.
    state : State
        States of the neighbor at `times`.
    model : pair of ndarray
        ``Sigma_xx`` and ``Sigma_yx`` of the neighbor.
    start : float
        Initial distance.
    times : ndarray, shape (n,)
        From 0 to the horizon.
    """
    product = match.product(state)
    gap = red.cross - product @ red.covariance
    change = (model[1] - red.cross) - product @ (model[0] - red.covariance)
    residual = match.pushed(state, change)
    gaps = np.linalg.norm(gap, ord=2, axis=(-2, -1))
    power = np.linalg.eigvalsh(red.covariance)
    # the loss of the network does not increase, so it bounds the distance of its map from the target
    energies = red.rms(red.product - red.target) + red.rms(product - red.target)
    span, top = red.clock * np.diff(times), float(np.sqrt(power[-1]))

    def norms(i: int) -> np.ndarray:
        return match.sizes(type(state)(*(field[i] for field in state)))

    others = [1.0 if red.depth == 2 else _others(norms(i)) for i in range(len(times))]
    slopes = gaps * np.array(others)
    rho, reach, size = start, 0.0, norms(0)
    distances = [rho]
    gronwalls = [top * _spread(size, rho)]
    for i in range(len(span)):
        following = norms(i + 1)
        gap_now, residual_now = max(gaps[i], gaps[i + 1]), max(residual[i], residual[i + 1])
        larger = np.maximum(size, following)
        mu = partial(_rate, size=larger, gap=float(gap_now), top=float(power[-1]))
        rho = after_interval(rho, span[i], float(residual_now), mu)
        distances.append(rho)
        if not np.isfinite(rho):
            break
        reach, size = float(times[i + 1]), following
        gronwalls.append(top * _spread(size, rho))
    gronwalls += [float("inf")] * (len(times) - len(gronwalls))
    value = float(np.max(np.minimum(gronwalls, energies)))
    found = Bound(
        value,
        float(np.max(gronwalls)),
        float(np.max(energies)),
        start,
        float(np.max(slopes)) * red.clock,
        float(np.sum(span * np.maximum(slopes[1:], slopes[:-1]))),
        float(np.max(residual)) * red.clock,
        reach,
        float(np.max(distances)),
    )
    return found, product
