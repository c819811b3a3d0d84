r"""The error of using a neighboring exact solution: bounded by Gronwall's lemma, and measured against the network.

In layers of equal rates and the time :math:`\bar\eta t`, gradient flow is :math:`\dot\theta = -\nabla L(\theta)`. Let
:math:`\tilde\theta` be the exact solution of a neighboring problem, :math:`\rho = |\theta - \tilde\theta|_F`, and
:math:`G = \Sigma_{yx} - Y \Sigma_{xx}`. The Gauss-Newton part of the Hessian only draws trajectories together, so that

.. math:: \dot\rho \le \mu\,\rho + r, \qquad
    \mu = \max_{s \in [0, 1]} \|G_s\|_2 \max_l \sum_{m \ne l} \prod_{k \ne l, m} (\|\tilde U_k\|_2 + \rho),

.. math:: \|G_s\|_2 \le \|\tilde G\|_2 + \|\Sigma_{xx}\|_2
    \Big(\prod_k (\|\tilde U_k\|_2 + \rho) - \prod_k \|\tilde U_k\|_2\Big),

with the residual :math:`r = |\dot{\tilde\theta} + \nabla L(\tilde\theta)|_F`; all of it is known in closed form.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linsolve.solvability.matches import Match
from linsolve.solvability.reduction import Reduced

__all__ = ["Bound", "bounded"]

ROUNDS = 200


class Bound(NamedTuple):
    """A bound on the error of the outputs up to a time, and the constants it is made of.

    Parameters
    ----------
    value : float
        Bound on the root mean square over samples of the outputs' error, at every time up to the horizon: at each time
        the smaller of the next two.
    gronwall : float
        From Gronwall's lemma; inf where the distance may blow up before the horizon.
    energy : float
        From the loss alone, which never grows.
    start : float
        Distance of the starts, ``|theta(0) - theta~(0)|``, in layers of equal rates.
    lipschitz : float
        Largest one-sided Lipschitz constant ``mu`` along the trajectory (at distance 0), per unit of time.
    growth : float
        Its integral over time: small errors may grow by ``exp(growth)``.
    residual : float
        Largest residual ``r`` of the vector field, per unit of time.
    reach : float
        Time up to which Gronwall's bound is finite.
    """

    value: float
    gronwall: float
    energy: float
    start: float
    lipschitz: float
    growth: float
    residual: float
    reach: float


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


def _step(rho: float, span: float, size: np.ndarray, gap: float, top: float, residual: float) -> float:
    """Return the distance after an interval, with every constant at its larger end.

    The distance enters ``mu``: the iteration climbs to the least fixed point, beyond which no solution can get.
    """
    ceiling = rho
    for _ in range(ROUNDS):
        grown = size + ceiling
        with np.errstate(over="ignore"):
            mu = _others(grown) * (gap + top * float(np.prod(grown) - np.prod(size)))
            x = mu * span
        if not x < 300:
            break
        after = rho * np.exp(x) + residual * span * (np.expm1(x) / x if x > 0 else 1.0)
        if after <= ceiling * (1 + 1e-10):
            return float(after)
        ceiling = after
    return float("inf")


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
        Its states at `times`.
    model : pair of ndarray
        Its ``Sigma_xx`` and ``Sigma_yx``.
    start : float
        Distance of the starts.
    times : ndarray, shape (n,)
        From 0 to the horizon.
    """
    product = match.product(state)
    gap = red.cross - product @ red.covariance
    change = (model[1] - red.cross) - product @ (model[0] - red.covariance)
    sizes, residual = match.sizes(state), match.pushed(state, change)
    gaps = np.linalg.norm(gap, ord=2, axis=(-2, -1))
    power = np.linalg.eigvalsh(red.covariance)
    # the loss of the network never grows, and so bounds how far its map is from the target
    energies = red.rms(red.product - red.target) + red.rms(product - red.target)
    rho, reach, top = start, 0.0, float(np.sqrt(power[-1]))
    gronwalls = [top * _spread(sizes[0], rho)]
    span = red.clock * np.diff(times)
    slopes = np.array([gap * _others(size) for gap, size in zip(gaps, sizes, strict=True)])
    for i in range(len(span)):
        if np.isfinite(rho):
            size = np.maximum(sizes[i], sizes[i + 1])
            now = max(gaps[i], gaps[i + 1]), max(residual[i], residual[i + 1])
            rho = _step(rho, span[i], size, float(now[0]), float(power[-1]), float(now[1]))
            reach = float(times[i + 1]) if np.isfinite(rho) else reach
        gronwalls.append(top * _spread(sizes[i + 1], rho) if np.isfinite(rho) else float("inf"))
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
    )
    return found, product
