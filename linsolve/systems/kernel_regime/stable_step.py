r"""Largest step at which minibatch SGD on a linear model and a fixed data set converges in the mean square.

The second moment :math:`M = E\, \delta \delta^T` of the distance from a minimum without residuals, and the covariance
of any start, follow

.. math:: M' = M - h\, \mathcal A M + h^2 \mathcal B M, \qquad \mathcal A M = S M + M S, \quad
    \mathcal B M = (1 - \varphi)\, S M S + \varphi\, \frac1n \sum_i (x_i \cdot M x_i)\, x_i x_i^T,

in the notation of `linsolve.systems.kernel_regime.minibatch`. Both maps are symmetric, and :math:`\mathcal A^{-1}` and
:math:`\mathcal B` map positive matrices to positive ones. The largest eigenvalue of the update thus reaches 1 at
:math:`h = 1/\lambda_{\max}(\mathcal A^{-1/2} \mathcal B \mathcal A^{-1/2})`, as in Mulayoff and Michaeli, "Exact mean
square linear stability analysis for SGD" (2024).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic

__all__ = ["step_ratio"]

ACCURACY = 1e-10  # relative, of the largest eigenvalue


def step_ratio(rows: Any, h: Any, phi: Any) -> np.ndarray:
    """Return the step over the largest one at which mean square residuals stay bounded, shape batch.

    Parameters
    ----------
    rows : array, shape batch + (n, r)
        Inputs, one sample a row.
    h : array, shape batch
        Step on the gradient of the mean of the samples' losses.
    phi : array
        Covariance of the mean over a minibatch, relative to that over one sample.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.kernel_regime.stable_step import step_ratio
    >>> round(float(step_ratio(np.array([[1.0], [2.0]]), np.array(0.5), np.array(0.0))), 12)  # descent: h S / 2
    0.625
    """
    rows, h, phi = (arithmetic.to_numpy(v) for v in (rows, h, phi))
    batch = np.broadcast_shapes(rows.shape[:-2], h.shape, phi.shape)
    rows = np.broadcast_to(rows, batch + rows.shape[-2:])
    found = np.empty(batch)
    for index in np.ndindex(batch):
        found[index] = _top(rows[index], float(np.broadcast_to(phi, batch)[index]))
    return np.asarray(h * found)


def _top(rows: np.ndarray, phi: float) -> float:
    """Return the largest eigenvalue of ``A^-1/2 B A^-1/2`` for one data set."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    n = len(rows)
    left, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    learned = sizes > np.finfo(float).eps * max(rows.shape) * sizes.max(initial=0.0)
    x, s = left[:, learned] * sizes[learned], sizes[learned] ** 2 / n  # in the eigenbasis of S
    root = 1 / np.sqrt(s[:, None] + s)

    def update(m: np.ndarray) -> np.ndarray:
        m = m.reshape(root.shape) * root
        drawn = x.T @ (np.sum((x @ m) * x, axis=1)[:, None] * x) / n
        return (((1 - phi) * s[:, None] * m * s + phi * drawn) * root).ravel()

    if len(s) < 2:
        return float(np.sum(update(np.ones_like(root))))
    operator, start = LinearOperator((root.size, root.size), matvec=update, dtype=float), np.eye(len(s)).ravel()
    return float(eigsh(operator, k=1, which="LA", v0=start, tol=ACCURACY, return_eigenvectors=False)[0])
