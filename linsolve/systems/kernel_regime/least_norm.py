"""Regression with the tangent kernel of a linear network: the map that it learns, and its norm."""

from __future__ import annotations

from typing import Any, NamedTuple

from linsolve import arithmetic
from linsolve.core.arguments import number, real_array, refuse_shape
from linsolve.numerics.checked import in_range
from linsolve.numerics.spectrum import Spectrum
from linsolve.systems.kernel_regime.kernel_matrix import refuse_negative, symmetric

__all__ = ["Regression", "regression"]


class Regression(NamedTuple):
    """Map learned by kernel regression, and the square of its norm.

    Parameters
    ----------
    map : array, shape (n_in,)
        Map of the inputs to the output.
    norm_squared : array, shape ()
        Square of its norm in the kernel's Hilbert space.

    Examples
    --------
    >>> from linsolve import kernels
    >>> kernels.regression([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0]], [2.0]).map.tolist()
    [2.0, 0.0]
    """

    map: Any
    norm_squared: Any


def regression(kernel: Any, X: Any, y: Any, *, tolerance: float = 1e-10) -> Regression:
    r"""Return regression with the kernel ``x^T M x'`` without ridge: the map that fits the samples at the least norm.

    .. math:: \hat\beta = M X^\top (X M X^\top)^+ y = \arg\min \hat\beta^\top M^+ \hat\beta
        \;\text{ with }\; X \hat\beta = y, \qquad |\hat\beta|_M^2 = y^\top (X M X^\top)^+ y .

    In a linear network whose first layer has learned a direction :math:`\beta` in the span of the samples,
    :math:`M = b\,(A \beta \beta^\top + I)` and every kernel met in training learns the same map, the pseudoinverse
    :math:`X^+ y`, whatever ``A``: with :math:`y = X (s \beta + \beta_\perp)` only the norm changes,
    :math:`b |\hat\beta|_M^2 = s^2/(1 + A) + |\beta_\perp|^2`. White inputs are not needed.

    Parameters
    ----------
    kernel : array_like, shape (n_in, n_in)
        ``M``, symmetric and positive semi-definite, such as `input_kernel` of a network.
    X : array_like, shape (P, n_in)
        Samples, one in each row.
    y : array_like, shape (P,)
        Targets.
    tolerance : float
        Eigenvalues of the Gram matrix below this fraction of the largest count as 0.

    Returns
    -------
    Regression

    Raises
    ------
    ValueError
        If the kernel is not symmetric or has a negative eigenvalue, or shapes do not fit.
    OverflowError
        If the map is beyond the range of doubles.

    Notes
    -----
    Source: Atanasov, Bordelon, Pehlevan (2022), appendix F, (49)-(52).

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import kernels
    >>> X, beta = np.array([[3.0, 4.0, 0.0]]), np.array([0.6, 0.8, 0.0])
    >>> found = [kernels.regression(A * np.outer(beta, beta) + np.eye(3), X, [10.0]) for A in (0.0, 3.0)]
    >>> [each.map.round(12).tolist() for each in found], [round(float(each.norm_squared), 12) for each in found]
    ([[1.2, 1.6, 0.0], [1.2, 1.6, 0.0]], [4.0, 1.0])
    """
    who = "regression"
    tolerance = number(who, "tolerance", tolerance, meaning="of eigenvalues", domain="[0, 1)", example=1e-10)
    M = symmetric(who, kernel)
    X, y = real_array(who, "X", X, meaning="samples"), real_array(who, "y", y, meaning="targets")
    if M.ndim != 2 or X.ndim != 2 or X.shape[1] != M.shape[0]:
        raise ValueError(
            f"{who}: X has shape {tuple(X.shape)} but must be (P, n_in) for kernel of shape {tuple(M.shape)} (one "
            "sample in each row); transpose it"
        )
    refuse_shape(who, "y", y, (X.shape[0],), meaning="targets", fix="give one for each sample")
    xp = arithmetic.namespace(M, X, y)
    M, X, y = (arithmetic.cast(xp, value) for value in (M, X, y))
    refuse_negative(who, Spectrum.of(xp, M), 1 + 0 * M[0, 0])
    sizes = {"kernel": M, "X": X, "y": y}

    def solved() -> Any:
        scale = xp.max(xp.abs(M)) * xp.max(xp.abs(X)) ** 2
        unit = xp.where(scale > 0, scale, xp.ones_like(scale))
        values, vectors = xp.linalg.eigh((X @ M @ xp.matrix_transpose(X)) / unit)
        c, kept = xp.matrix_transpose(vectors) @ y, values > tolerance * xp.max(xp.abs(values))
        dual = vectors @ (xp.where(kept, c, xp.zeros_like(c)) / xp.where(kept, values, xp.ones_like(values)))
        return xp.concat([M @ (xp.matrix_transpose(X) @ dual) / unit, xp.sum(y * dual)[None] / unit])

    found = in_range(who, solved, **sizes)
    return Regression(found[:-1], found[-1])
