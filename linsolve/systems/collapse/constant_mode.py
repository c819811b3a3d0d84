"""The constant mode of a classifier where it has hidden units of its own: mean feature, mean output and bias."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import real_array
from linsolve.systems.collapse.contrasts import averaged, members
from linsolve.systems.collapse.decoupled_modes import plane
from linsolve.systems.collapse.metrics import bounded_ratio, class_grams, trace
from linsolve.systems.mode.biased_mode import BiasedMode

__all__ = ["ConstantMode", "coupling", "equal_bias_limit", "unevenness"]


def _crossed(xp: Any, a: Any) -> Any:
    """Return the size of what leads from the constant direction to contrasts, shape batch."""
    sums = xp.sum(a, axis=-1)
    sums = sums - xp.sum(sums, axis=-1, keepdims=True) / a.shape[-1]
    return xp.sqrt(xp.sum(sums * sums, axis=-1))


def coupling(xp: Any, z: Any, y: Any) -> Any:
    """Return how far the constant mode is from hidden units of its own, relative, shape batch."""
    means, product = class_grams(xp, z.gram_h, y)[0], averaged(xp, z.product, y)
    w, h = trace(xp, z.gram_w), trace(xp, z.gram_h) * y.shape[0] / y.shape[1]
    both = xp.sqrt(xp.abs(w * h))
    worst = 0 * both
    for block, size in (
        (z.gram_w, w), (means, h), (product, both), (xp.matrix_transpose(product), both),
    ):  # fmt: skip
        worst = xp.maximum(worst, bounded_ratio(xp, _crossed(xp, block), size))
    return worst


def unevenness(xp: Any, z: Any, y: Any) -> Any:
    """Return how far biases are from one another, in units of the bias 1/C at which classes are fitted, shape batch."""
    uneven = y.shape[0] * z.b - xp.sum(z.b, axis=-1, keepdims=True)
    return xp.sqrt(xp.sum(uneven * uneven, axis=-1) / y.shape[0])


class ConstantMode:
    """The constant mode as a `BiasedMode` in the plane that ``w = W^T e`` and ``h = H1 e`` span, ``e = 1/sqrt(C)``.

    Parameters
    ----------
    xp : namespace
    rates : tuple
        ``m``, ``mu_g`` and ``N``.
    z : State
        Of the whole network.
    y : array, shape (C, N)
        Membership.
    used : array of bool, shape batch
        Where the mode is asked for; elsewhere it rests at nothing.
    """

    def __init__(self, xp: Any, rates: tuple[Any, Any, Any], z: Any, y: Any, used: Any) -> None:
        classes = y.shape[0]
        grams = z.gram_w, averaged(xp, z.product, y), class_grams(xp, z.gram_h, y)[0]
        ww, wh, hh = (
            xp.where(used, xp.sum(g, axis=(-2, -1)) / classes, 0 * xp.astype(used, xp.float64)) for g in grams
        )
        bias = xp.where(used, xp.sum(z.b, axis=-1), xp.ones_like(ww))
        self.classes = classes
        self.idle = not arithmetic.to_numpy(used).any()
        self.mode = BiasedMode(*(value + 0 * ww for value in rates))
        m, mu = self.mode.m, self.mode.mu
        self.start = self.mode.State(*plane(xp, ww, wh, hh, (m, mu)), bias)

    def excess(self, xp: Any) -> Any:
        """Return by how much the way of the mode exceeds what `BiasedMode` reaches."""
        return xp.zeros_like(self.start.B) if self.idle else self.mode.conditions(xp, self.start)["span"]

    def followed(self, xp: Any, t: Any) -> tuple[Any, Any, Any, Any]:
        """Return what the mode adds to each entry of ``W H``, ``W W^T``, ``H^T H`` and b, each a number a network."""
        z = self.start if self.idle else self.mode.solution(xp, t, self.start)
        sizes = (xp.sum(a * b, axis=-1) / self.classes for a, b in ((z.w, z.h), (z.w, z.w), (z.h, z.h)))
        return *sizes, z.B / self.classes


def equal_bias_limit(self: Any, beta: Any) -> Any:
    r"""Return the limit from ``E = 0`` that ends at ``b = beta 1`` with zero loss, eqs. (29), (60), corrected.

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
    beta = real_array(f"{type(self).__name__}.equal_bias_limit", "beta", beta, meaning="final bias")
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
