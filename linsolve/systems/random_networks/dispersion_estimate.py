"""The dispersion of the tangent kernel from a sample of random networks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import real_array
from linsolve.numerics.double_double import power_of_two

__all__ = ["DispersionEstimate", "estimate_dispersion"]


class DispersionEstimate(NamedTuple):
    r"""Estimate of :math:`E[\Theta^2]/E[\Theta]^2` and its standard error, shape batch.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import ntk
    >>> found = ntk.estimate_dispersion(np.random.default_rng(0).exponential(size=10_000))
    >>> bool(abs(found.value - 2) < 4 * found.error)
    True
    """

    value: Any
    error: Any


def estimate_dispersion(kernels: Any) -> DispersionEstimate:
    r"""Return the jackknife estimate of the dispersion :math:`r = E[\Theta^2]/E[\Theta]^2` from independent draws.

    With :math:`\hat r` the ratio of the sample moments of all N draws and :math:`\hat r_{-i}` that without draw i, the
    estimate is the mean of :math:`N \hat r - (N-1) \hat r_{-i}`, and its standard error is their standard deviation
    divided by :math:`\sqrt N`.

    Parameters
    ----------
    kernels : array_like, shape (N,) + batch
        Values of a kernel entry for N networks, at least three; the mean must not be zero.

    Returns
    -------
    DispersionEstimate

    Raises
    ------
    ValueError
        For fewer than three draws, and where the draws without one of them have mean zero.

    Notes
    -----
    The bias is :math:`O(N^{-2})`. With :math:`g = \mu_3/(\mu_1 \mu_2)` the ratio :math:`\hat r` itself has the relative
    bias :math:`[3 (r - 1) - 2 (g - 1)]/N` to leading order, and the estimator of the source, with its prefactor
    corrected to 1/N, :math:`4 (r - 1)/N` (``tests/systems/random_networks/test_dispersion_estimate.py``). No estimator
    of a ratio of moments is unbiased for all distributions. The variance of :math:`\Theta^2` grows as
    :math:`e^{20 L/M}` for ReLU units, so that no estimate from draws is reliable for L/M > 0.3; `moments` is exact.

    Source: Seleznova, thesis (2024), section 3.2, appendix C.3.

    Examples
    --------
    >>> from linsolve import ntk
    >>> [round(float(v), 4) for v in ntk.estimate_dispersion([1.0, 2.0, 3.0, 2.0])]  # of few draws
    [1.1594, 0.0951]
    """
    who = "estimate_dispersion"
    kernels = real_array(who, "kernels", kernels, meaning="kernel entry of each network")
    if kernels.ndim < 1 or kernels.shape[0] < 3:
        raise ValueError(
            f"{who}: kernels has shape {tuple(kernels.shape)} but needs at least 3 along its first axis (one value for "
            "each network); draw more networks"
        )
    kernels = arithmetic.to_numpy(kernels)
    kernels = kernels * power_of_two(np, np.abs(kernels).max(axis=0))
    n, first, second = len(kernels), kernels.sum(axis=0), (kernels**2).sum(axis=0)
    others, size = first - kernels, np.abs(kernels).sum(axis=0)
    if (np.minimum(np.abs(others).min(axis=0), np.abs(first)) <= 1e-12 * size).any():
        raise ValueError(
            f"{who}: mean of kernels = 0 must not vanish, with or without any one draw (the dispersion is a ratio by "
            "its square); use entries of nonzero mean"
        )
    whole, without = n * second / first**2, (n - 1) * (second - kernels**2) / others**2
    pseudo = n * whole - (n - 1) * without
    return DispersionEstimate(pseudo.mean(axis=0)[()], pseudo.std(axis=0, ddof=1)[()] / np.sqrt(n))
