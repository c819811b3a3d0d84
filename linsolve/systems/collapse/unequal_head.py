r"""Closed form of a frozen classifier for classes of unequal sizes, mode by mode of the classifier.

On ``sqrt(m_c)`` times the averages over classes the kernel of the features is ``B = L L^T`` (`kernel_of_classes`). A
singular mode of the classifier, of singular value s, has the residual

.. math:: r = A x - y, \qquad A = [s L, \sqrt{\eta_b m}], \qquad x = (L^{-1} h, \beta), \qquad
    \dot x = -A^\top (A x - y), \qquad b = b_0 + \sqrt{\eta_b}\, \beta, \quad \beta_0 = 0,

This is a linear least-squares problem with ``C + 1`` unknowns. The target y is reduced by ``b_0``. With the singular
value decomposition ``A = P S Q^T``,

.. math:: x(t) = Q \big[ e^{-S^2 t} Q^\top x_0 + S\, t\, \varphi(S^2 t)\, P^\top y \big], \quad
    r(t) = P e^{-S^2 t} P^\top r_0, \quad \varphi(x) = (1 - e^{-x})/x .

Deviations from the averages decay as ``exp(-mu_s s^2 t)``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from linsolve.arithmetic import precision
from linsolve.numerics.spectrum import exponents, integral_weights

__all__ = ["UnequalHead", "padded"]


def padded(xp: Any, a: Any, count: int) -> Any:
    """Return the first `count` rows, padded with zeros."""
    if a.shape[-2] >= count:
        return a[..., :count, :]
    return xp.concat([a, xp.zeros((*a.shape[:-2], count - a.shape[-2], a.shape[-1]), dtype=xp.float64)], axis=-2)


def _times(xp: Any, matrices: Any, rows: Any) -> Any:
    """Return the product of a matrix for each row with that row, shape batch + (rows, k)."""
    return xp.sum(matrices * rows[..., None, :], axis=-1)


class UnequalHead(NamedTuple):
    """Modes of a `FrozenHead` with unequal class sizes.

    Parameters
    ----------
    outputs, features : array, shape batch + (C, C), batch + (n, n)
        Singular vectors of the classifier, as columns.
    size : array, shape batch + (C, 1)
        Singular values, decreasing, then zeros.
    bias : array, shape batch
        ``sqrt(eta_b)``.
    roots, frame : array, shape (C,), (C, N)
        ``sqrt(m_c)``, and the membership divided by it.
    root : array, shape batch + (C, C)
        ``L``.
    rate : array, shape batch
        ``mu_s``.
    left, values, right : array, shape batch + (C, C, C), batch + (C, C + 1), batch + (C, C + 1, C + 1)
        ``P``, ``S`` with one zero appended, ``Q`` of each mode.
    """

    outputs: Any
    features: Any
    size: Any
    bias: Any
    roots: Any
    frame: Any
    root: Any
    rate: Any
    left: Any
    values: Any
    right: Any

    @classmethod
    def of(cls, xp: Any, flow: Any) -> UnequalHead:
        """Return the modes of a flow."""
        u, v, s = flow._modes(xp)
        classes, y = flow.w.shape[-2], flow._members(xp)
        root, s = xp.linalg.cholesky(flow.kernel_of_classes(xp)), padded(xp, s, classes)
        roots = xp.sqrt(xp.sum(y, axis=-1))
        features = s[..., None] * root[..., None, :, :]
        rate = xp.sqrt(flow.eta_b)
        bias = rate[..., None, None, None] * roots[:, None] + 0 * features[..., :1]
        p, values, qh = xp.linalg.svd(xp.concat([features + 0 * bias, bias], axis=-1), full_matrices=True)
        floor = (classes + 1) * precision(xp) * values[..., :1]
        values = xp.where(values > floor, values, xp.zeros_like(values))
        values = xp.concat([values, 0 * values[..., :1]], axis=-1)
        sample = flow.kappa_d - flow.kappa_c
        return cls(u, v, s, rate, roots, y / roots[:, None], root, sample, p, values, xp.matrix_transpose(qh))

    def _split(self, xp: Any, h: Any) -> tuple[Any, Any]:
        """Return features on class averages and their deviations, a row for each singular vector of the features."""
        rows = xp.matrix_transpose(self.features) @ h
        averages = rows @ xp.matrix_transpose(self.frame)
        return averages, rows - averages @ self.frame

    def _unknowns(self, xp: Any, averages: Any) -> Any:
        """Return ``x`` of each mode at the start, shape batch + (C, C + 1)."""
        seen, turned = padded(xp, averages, self.size.shape[-2]), xp.matrix_transpose
        scaled = turned(xp.linalg.solve(self.root, turned(seen)))
        return xp.concat([scaled, 0 * scaled[..., :1]], axis=-1)

    def _goal(self, xp: Any, b: Any) -> Any:
        """Return ``P^T y`` of each mode, with one zero appended."""
        turned = xp.matrix_transpose(self.outputs)
        inside = _times(xp, xp.matrix_transpose(self.left), (turned - turned @ b[..., :, None]) * self.roots)
        return xp.concat([inside, 0 * inside[..., :1]], axis=-1)

    def at(self, xp: Any, t: Any, h: Any, b: Any) -> tuple[Any, Any]:
        """Return features and bias at times `t`, shape lead + batch."""
        averages, rest = self._split(xp, h)
        inside = _times(xp, xp.matrix_transpose(self.right), self._unknowns(xp, averages))
        squares, moment = self.values**2, t[..., None]
        left, grown = xp.exp(-exponents(xp, squares, moment)), integral_weights(xp, squares, moment)
        x = _times(xp, self.right, left * inside + self.values * grown * self._goal(xp, b))
        seen = x[..., :-1] @ xp.matrix_transpose(self.root)
        count = min(averages.shape[-2], self.size.shape[-2])
        unseen = averages[..., count:, :] + 0 * seen[..., :1, :]
        averages = xp.concat([seen[..., :count, :], unseen], axis=-2)
        decay = padded(xp, self._decay(xp, t) - 1, averages.shape[-2]) + 1
        change = self.bias[..., None] * (self.outputs @ x[..., -1:])[..., 0]
        return self.features @ (averages @ self.frame + decay * rest), b + change

    def _decay(self, xp: Any, t: Any) -> Any:
        """Return the decay of deviations from class averages in each mode, shape lead + batch + (C, 1)."""
        return xp.exp(-exponents(xp, self.rate[..., None] * self.size[..., 0] ** 2, t))[..., None]

    def losses(self, xp: Any, t: Any, h: Any, b: Any) -> tuple[Any, Any, Any]:
        """Return the losses of deviations, of contrasts of class averages, and of the average, from exponentials."""
        averages, rest = self._split(xp, h)
        x = _times(xp, xp.matrix_transpose(self.right), self._unknowns(xp, averages))
        r = (self.values * x - self._goal(xp, b))[..., :-1]
        r = xp.exp(-exponents(xp, self.values[..., :-1] ** 2, t[..., None])) * r
        r = _times(xp, self.left, r)
        sample = self._decay(xp, t) * self.size * padded(xp, rest, self.size.shape[-2])
        even = self.roots / xp.sqrt(xp.sum(self.roots**2))
        whole = xp.sum(r * even, axis=-1, keepdims=True) * even
        return tuple(xp.sum(part**2, axis=(-2, -1)) / 2 for part in (sample, r - whole, whole))
