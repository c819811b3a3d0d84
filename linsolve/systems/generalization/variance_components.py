r"""Signal and label noise of a linear model from its training samples: maximum likelihood of two variances.

For an isotropic Gaussian teacher of mean square :math:`D_0` and label noise of variance :math:`\sigma^2` the residuals
of the start are Gaussian with covariance :math:`(D_0/d)\, X X^T + \sigma^2`: independent along the left singular
vectors of X, of variance proportional to :math:`1 + h x_i`, :math:`h \propto D_0/\sigma^2`, for the eigenvalues
:math:`x_i` of :math:`X X^T` over their mean.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["VarianceComponents"]

_WIDEST = 36.0  # logarithm of the largest ratio; beyond it the smaller variance is rounding
_GRID, _ROUNDS = 145, 6


class VarianceComponents(NamedTuple):
    """Mean square of the teacher and variance of the label noise, with the covariance of the two estimates."""

    signal: float
    noise: float
    covariance: np.ndarray

    @classmethod
    def of(cls, inputs: np.ndarray, residuals: np.ndarray) -> VarianceComponents:
        """Return the most likely variances of one output.

        Parameters
        ----------
        inputs : array, shape (n, d)
            Training inputs with an entry other than 0.
        residuals : array, shape (n, outputs)
            Labels less the outputs of the start; the outputs are alike and independent.

        Examples
        --------
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X, teacher = rng.normal(size=(2000, 500)), rng.normal(size=500) / np.sqrt(500)
        >>> found = VarianceComponents.of(X, (X @ teacher + rng.normal(size=2000) / 2)[:, None])
        >>> round(found.noise, 2), np.sqrt(np.diagonal(found.covariance)).round(2).tolist()
        (0.25, [0.07, 0.01])
        """
        x, squares, counts = _along(inputs, residuals)
        mean = float(counts @ x) / len(inputs)
        low, high = -_WIDEST, _WIDEST
        for _ in range(_ROUNDS):
            s = np.linspace(low, high, _GRID)
            spread = 1 + np.exp(s)[:, None] * (x / mean)
            scale = (squares / spread) @ counts / len(inputs)
            with np.errstate(divide="ignore"):
                best = int(np.argmin(np.log(scale) + np.log(spread) @ counts / len(inputs)))
            low, high = s[max(best - 1, 0)], s[min(best + 1, _GRID - 1)]
        noise = float(scale[best])
        signal = float(np.exp(s[best])) * noise * inputs.shape[1] / mean
        if s[best] < 1 - _WIDEST:
            signal = 0.0
        elif s[best] > _WIDEST - 1:
            reached = x > 0
            signal, noise = inputs.shape[1] * float(np.mean(squares[reached] / x[reached])), 0.0
        slopes = np.stack([x / inputs.shape[1], np.ones_like(x)])
        variances = np.array([signal, noise]) @ slopes
        kept = variances > 0
        relative = slopes[:, kept] / variances[kept]
        information = residuals.shape[1] / 2 * (relative * counts[kept]) @ relative.T
        if not kept.all():  # directions without any residual: there is no noise
            return cls(signal, noise, np.diag([1 / information[0, 0] if signal > 0 else 0.0, 0.0]))
        return cls(signal, noise, np.linalg.pinv(information, hermitian=True))


def _along(inputs: np.ndarray, residuals: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return eigenvalues of X X^T, the mean squares of the residuals along them, and multiplicities."""
    left, sizes, _ = np.linalg.svd(inputs, full_matrices=False)
    along = left.T @ residuals
    x, squares, counts = sizes**2, np.mean(along**2, axis=1), np.ones(len(sizes))
    if beyond := len(inputs) - len(x):  # directions of the labels that no weights reach
        rest = np.sum((residuals - left @ along) ** 2) / residuals.shape[1] / beyond
        x, squares, counts = np.append(x, 0.0), np.append(squares, rest), np.append(counts, beyond)
    return x, squares, counts
