r"""Neural collapse where the kernel of the features is white between samples, for classes of any sizes."""

from __future__ import annotations

from typing import Any

from linsolve.numerics.cache import Memory
from linsolve.systems.collapse import starts as start
from linsolve.systems.collapse.contrasts import contrasts, norm, shares
from linsolve.systems.collapse.metrics import bounded_ratio, trace
from linsolve.systems.whitened.imbalance import imbalance
from linsolve.systems.whitened.matrix_riccati import matrix_riccati

__all__ = ["WhiteFeatures"]


class WhiteFeatures:
    r"""Starts with features of mean zero under a kernel with ``kappa_c = kappa_n``.

    Then ``K = mu_s I + kappa_n 1 1^T``. With the bias at the class frequencies ``b = m/N`` the average residual is zero
    and remains zero, and with a basis ``U`` of contrasts between samples

    .. math:: \dot W = -(W H - T) H^\top, \quad \dot H = -\mu_s W^\top (W H - T), \quad T = Y - m 1^\top/N,

    Scatter within classes is then learned together with class means: ``H U / a`` and ``a W``, with ``a^4 = mu_s``, are
    a two-layer network on white inputs with target ``Y U`` in the time ``sqrt(mu_s) t``. It obeys a matrix Riccati
    equation. A bias ``m/N + beta 1`` relaxes alone, ``beta' = -eta_b N beta``, if ``1^T W = 0``.

    Parameters
    ----------
    xp : namespace
    flow : NeuralCollapse
    z : State
    """

    def __init__(self, xp: Any, flow: Any, z: Any) -> None:
        self.flow, self.z, self.y = flow, z, flow._members(xp)
        self.basis = contrasts(xp, self.y.shape[1])
        self.square = xp.sqrt(flow.kappa_d - flow.kappa_c)[..., None, None]
        inner = xp.matrix_transpose(self.basis) @ z.gram_h @ self.basis
        self.start = z.product @ self.basis, inner / self.square, z.gram_w * self.square
        self.memory = Memory()

    def conditions(self, xp: Any) -> dict[str, Any]:
        """Return, by name, the distances from the solvable set of each start."""
        flow, z = self.flow, self.z
        lift = max(flow._sizes) * (flow.kappa_c - flow.kappa_n)
        off = self.y.shape[0] * z.b - shares(xp, self.y)
        even = xp.sum(off, axis=-1, keepdims=True) / self.y.shape[0]
        sums = norm(xp, z.gram_w @ (even + 0 * off)[..., None])
        return {
            "kappa_c - kappa_n (classes are of unequal size)": lift / (flow.kappa_d - flow.kappa_c + lift) + 0 * sums,
            "mean of the features": start.distances(xp, z, self.y)["mean of the features"] + 0 * sums,
            "bias off the class frequencies": norm(xp, (off - even)[..., None]),
            "bias that the classifier sees": bounded_ratio(xp, sums, trace(xp, z.gram_w) + 0 * sums),
            "distance of the imbalance from a solvable one": imbalance(xp, *self.start).distance + 0 * sums,
        }

    def at(self, xp: Any, t: Any) -> tuple[Any, Any, Any, Any]:
        """Return product, Gram matrices and bias at times `t`, shape lead + batch."""
        pace = self.square[..., 0, 0]
        product, inner, outer = matrix_riccati(xp, pace * t, self.y @ self.basis, *self.start, memory=self.memory)
        back = xp.matrix_transpose(self.basis)
        goal = shares(xp, self.y) / self.y.shape[0]
        b = self.z.b + (goal - self.z.b) * self.flow._bias_done(xp, t)[..., None]
        return product @ back, outer / self.square, self.basis @ inner @ back * self.square, b
