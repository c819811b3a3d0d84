r"""Gaussian tokens of an in-context regression: moments of a context, mean squared error, an exact cubature.

A sequence has N tokens :math:`x_n \sim N(0, \Lambda)` with targets :math:`y_n = w \cdot x_n`,
:math:`w \sim N(0, 1)`, and a query :math:`x_q \sim N(0, \Lambda)` with target :math:`y = w \cdot x_q`. Linear
attention predicts :math:`\hat y = \beta^\top M x_q` from :math:`\beta = \sum_n y_n x_n/N`. All functions work in the
eigenbasis of :math:`\Lambda`, where :math:`\Lambda_{dd} = \lambda_d`.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.systems.whitened import starts

__all__ = ["curvature", "least_error", "mean_error", "network_outputs", "refuse_lost_rates"]


def refuse_lost_rates(who: str, variance: Any, tau: Any, dim: Any) -> None:
    r"""Raise OverflowError if a rate :math:`\lambda^2 c/\tau` may leave the range of doubles."""
    if arithmetic.is_object(arithmetic.namespace(variance, tau)) or not arithmetic.readable(variance, tau, dim):
        return
    values, times, d = (np.log10(arithmetic.to_numpy(v)) for v in (variance, tau, dim + 2))
    low, high = 3 * values.min() - times.max(), 3 * values.max() + d.max() - times.min()
    meaning = "tokens and time constant"
    starts.refuse_lost_rates(who, "rates variance^3 / tau", meaning, (low, high), variance=variance, tau=tau)


def _excess(xp: Any, context: Any, variance: Any) -> Any:
    r"""Return :math:`(\lambda_d + \mathrm{tr}\,\Lambda)/N`, by which a context of N tokens exceeds its covariance."""
    return (variance + xp.sum(variance, axis=-1, keepdims=True)) / context[..., None]


def curvature(xp: Any, context: Any, variance: Any) -> Any:
    r"""Return :math:`c_d = \lambda_d + (\lambda_d + \mathrm{tr}\,\Lambda)/N`, shape batch + (d,).

    It is the eigenvalue of :math:`C`, with :math:`E \beta \beta^\top = \Lambda C`. The best map is :math:`M = C^{-1}`.
    """
    return variance + _excess(xp, context, variance)


def least_error(xp: Any, context: Any, variance: Any) -> Any:
    r"""Return the mean squared error of the best map, :math:`\sum_d \lambda_d (1 - \lambda_d/c_d)`, shape batch."""
    return xp.sum(variance * (_excess(xp, context, variance) / curvature(xp, context, variance)), axis=-1)


def mean_error(xp: Any, context: Any, variance: Any, matrix: Any) -> Any:
    r"""Return the mean squared error :math:`E (y - \beta^\top M x_q)^2` of a map M, shape batch.

    The error of the best map and :math:`\sum_{de} \lambda_d c_d \lambda_e (M_{de} - \delta_{de}/c_d)^2`, both positive.
    """
    c = curvature(xp, context, variance)
    off = matrix - xp.eye(variance.shape[-1]) / c[..., None]
    weights = (variance * c)[..., :, None] * variance[..., None, :]
    return least_error(xp, context, variance) + xp.sum(weights * off * off, axis=(-2, -1))


def network_outputs(xp: Any, context: Any, variance: Any) -> tuple[Any, Any]:
    r"""Return ``(inputs, targets)``; the mean squared error of a map M is ``|inputs @ M sqrt(Lambda) - targets|^2``.

    The error is quadratic in the task and the query, whose averages are sums over an orthonormal basis. It is quadratic
    in :math:`\hat\Lambda = \sum_n x_n x_n^\top/N`, too. Mean and covariance of this sum of independent terms are those
    of :math:`\Lambda + (x x^\top - \Lambda)/\sqrt N` with a single token x. Products of up to five entries of a
    Gaussian token have the same averages over the nodes :math:`0, \pm\sqrt{3 \lambda_d}` with weights 2/3, 1/6, 1/6.

    Returns
    -------
    inputs : array, shape batch + (3^d, d, d)
        :math:`\hat\Lambda`, times the square root of its weight.
    targets : array, shape batch + (3^d, d, d)
        :math:`\Lambda^{1/2}`, times the same square root.
    """
    count = variance.shape[-1]
    signs = np.array(list(product((-1, 0, 1), repeat=count)))
    weights = xp.asarray(4.0 ** np.sum(signs == 0, axis=1)) / 6.0**count
    tokens = xp.asarray(signs) * xp.sqrt(3 * variance)[..., None, :]
    covariance = (xp.eye(count) * variance[..., None])[..., None, :, :]
    spread = tokens[..., :, None] * tokens[..., None, :] - covariance
    share = xp.sqrt(weights)[:, None, None]
    inputs = share * (covariance + spread / xp.sqrt(context)[..., None, None, None])
    return inputs, share * (xp.eye(count) * xp.sqrt(variance)[..., None])[..., None, :, :]
