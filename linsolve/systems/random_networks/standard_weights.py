"""Kernels of wide networks with standard weights, and the variance of their outputs after training."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from linsolve import arithmetic
from linsolve.core.arguments import integer
from linsolve.core.matrix_arguments import semidefinite
from linsolve.numerics.checked import Argument, checked
from linsolve.numerics.spectrum import Spectrum, integral_weights
from linsolve.systems.random_networks.mean_field import Activation, kernels, named

__all__ = ["StandardKernel", "equicorrelated_variance", "standard_kernel", "trained_variance"]

_MATRICES = {
    "covariance": Argument("output covariance, training points first", axes=("point", "point")),
    "kernel": Argument("tangent kernel, training points first", axes=("point", "point")),
}
_checked = functools.partial(
    checked,
    {
        **_MATRICES,
        "gram": Argument("x.x'/n_0 of the inputs", axes=("sample", "sample")),
        "widths": Argument("input and hidden widths", "[1, inf)", ("layer",), whole=True),
        "weight_variance": Argument("variance of the weights times fan-in", "[0, inf)"),
        "bias_variance": Argument("variance of the biases", "[0, inf)"),
        "q": Argument("variance of an output", "[0, inf)"),
        "q_pair": Argument("covariance of two outputs"),
        "theta": Argument("tangent kernel of an input with itself", "[0, inf)"),
        "theta_pair": Argument("tangent kernel of two inputs"),
        "t": Argument("time", "[0, inf]"),
    },
)


class StandardKernel(NamedTuple):
    r"""Output covariance and the two parts of the tangent kernel, each of shape batch + (sample, sample).

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import ntk
    >>> gram = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> found = ntk.standard_kernel(np, "linear", gram, [2, 3], 1.0, 0.0)
    >>> found.weights.tolist()  # 2 (x.x'/2) + 3 (x.x'/2)
    [[5.0, 2.5], [2.5, 5.0]]
    """

    output: Any
    weights: Any
    biases: Any


@_checked()
def standard_kernel(
    xp: Any,
    activation: Activation | str | float,
    gram: Any,
    widths: Any,
    weight_variance: Any,
    bias_variance: Any,
) -> StandardKernel:
    r"""Return output covariance and tangent kernel of networks with standard weights, to leading order in the width.

    .. math:: \Theta = \sum_{\ell=1}^L p^\ell (n_{\ell-1} \hat q^{\ell-1} + 1), \qquad
        \hat q^0 = \frac{x \cdot x'}{n_0}, \quad \hat q^\ell = E \phi \phi, \quad
        p^L = 1, \quad p^\ell = \sigma_w^2 E \phi' \phi'\; p^{\ell+1},

    with averages over :math:`\Sigma^\ell = \sigma_w^2 \hat q^{\ell-1} + \sigma_b^2`. Weights have variance
    :math:`\sigma_w^2/n_{\ell-1}` and all parameters the learning rate 1.

    Parameters
    ----------
    activation : Activation, str or float
        Units, see `linsolve.ntk.mean_field.named`.
    gram : array, shape batch + (sample, sample)
        :math:`x \cdot x' / n_0`.
    widths : array, shape (L,)
        :math:`n_0, \dots, n_{L-1}`; one output.
    weight_variance, bias_variance : array, shape batch
        :math:`\sigma_w^2` and :math:`\sigma_b^2`.

    Returns
    -------
    StandardKernel
        Output covariance :math:`\Sigma^L`; ``weights`` and ``biases``, the two terms of the sum. With
        :math:`n_\ell = \alpha_\ell M` and :math:`\alpha = \sum_{\ell=1}^{L-1} \alpha_\ell \alpha_{\ell-1}`, Lemma 2 has
        :math:`\kappa_1` and :math:`\kappa_2` equal to ``weights`` divided by :math:`\alpha M`.

    Raises
    ------
    ValueError
        If `gram` is not a Gram matrix, a width is no positive integer, or a variance is negative.

    Notes
    -----
    The diagonal is the exact mean at every width for linear, ReLU and leaky units, and all entries for linear units
    (``tests/systems/random_networks/test_standard_weights.py``, against explicit networks); other entries have errors
    of order 1/width. Lemma 2 prints the sum without the biases' 1, which is of relative order 1/width at fixed depth;
    at :math:`\sigma_b = 0`, :math:`\sigma_w^2 < 2` it becomes the whole kernel of deep ReLU networks.

    Source: Seleznova, thesis (2024), section 3.1, Lemmas 1 and 2, Figures 5 and 6.

    Examples
    --------
    The ratio of Figure 6 at infinite width tends to 4 for ReLU networks without biases:

    >>> import numpy as np
    >>> from linsolve import ntk
    >>> kernel = ntk.standard_kernel(np, "relu", [[1.0, 0.5], [0.5, 1.0]], np.ones(1000), 2.0, 0.0).weights
    >>> round(float(kernel[0, 0] / kernel[0, 1]), 3)
    3.94
    """
    unit = activation if isinstance(activation, Activation) else named(activation)
    one = xp.ones_like(gram)
    variance, bias = weight_variance[..., None, None], bias_variance[..., None, None]
    # one layer has the checks of `gram`
    sigma = kernels(xp, unit, gram, 1, weight_variance, bias_variance)[0]
    weights, biases = widths[..., 0][..., None, None] * gram, one
    unit_matrix = xp.eye(gram.shape[-1], dtype=xp.float64)
    for layer in range(1, widths.shape[-1]):
        own = xp.sum(unit_matrix * sigma, axis=-1)
        value, slopes = unit.averages(xp, own[..., :, None], own[..., None, :], sigma)
        growth = variance * slopes
        weights = widths[..., layer][..., None, None] * value + growth * weights
        biases = 1 + growth * biases
        sigma = variance * value + bias
    return StandardKernel(sigma, weights + 0 * sigma, biases + 0 * sigma)


@_checked()
def equicorrelated_variance(samples: int, q: Any, q_pair: Any, theta: Any, theta_pair: Any, t: Any) -> Any:
    r"""Return the variance of the output at a test point over initial weights, for inputs that are all equivalent.

    .. math:: \mathrm{Var} f_t = \Big(1 + \frac{A_t^2}{S}\Big)(q - q_{sr}) + (1 - A_t)^2 q_{sr}, \quad
        A_t = \frac{S\, \theta_2}{\theta_1 + (S - 1)\, \theta_2}
        \big(1 - e^{-(\theta_1 + (S - 1) \theta_2) t / S}\big) .

    Outputs of the S training points and of the test point have variance q and covariance :math:`q_{sr}`, and the
    tangent kernel is :math:`\theta_1` on the diagonal and :math:`\theta_2` for every pair.

    Parameters
    ----------
    samples : int
        S.
    q, q_pair, theta, theta_pair : array_like, shape batch
        :math:`q`, :math:`q_{sr}`, :math:`\theta_1`, :math:`\theta_2`.
    t : array_like, shape batch
        Time under gradient flow of half the mean squared error; inf after training.

    Returns
    -------
    array, shape batch

    Raises
    ------
    ValueError
        If a covariance exceeds the variance, or the matrices of S + 1 points are not positive semi-definite.

    Notes
    -----
    Exact for these matrices. For data in general position it is an estimate from the mean entries, which exceeds the
    variance in the cases tried; `trained_variance` computes it from the matrices. The variance falls with time if
    :math:`\theta_1/\theta_2 \ge q/q_{sr}`, and otherwise has a minimum where :math:`A_t = S/(q/q_{sr} + S - 1)`.

    Source: Seleznova, thesis (2024), section 3.1, Theorem 3, for ``t = inf``.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import ntk
    >>> ntk.equicorrelated_variance(10, 1.0, 0.5, 4.0, 1.0, [0.0, 1.0, np.inf]).round(4).tolist()
    [1.0, 0.6126, 0.5562]
    """
    samples = integer("equicorrelated_variance", "samples", samples, meaning="training points", example=10)
    xp = arithmetic.namespace(q, q_pair, theta, theta_pair)
    for high, low, names in ((q, q_pair, ("q", "q_pair")), (theta, theta_pair, ("theta", "theta_pair"))):
        large, small = (arithmetic.to_numpy(v) + 0 * arithmetic.to_numpy(high + low) for v in (high, low))
        bad = (small > large) | (small < -large / samples * (1 + 1e-12))
        if bad.any():
            raise ValueError(
                f"equicorrelated_variance: {names[1]} = {small[bad][0]:.6g} must lie between -{names[0]}/samples = "
                f"{-large[bad][0] / samples:.6g} and {names[0]} = {large[bad][0]:.6g} (pairs of samples + 1 points); "
                "change it"
            )
    rate = (theta + (samples - 1) * theta_pair) / samples
    a = theta_pair * integral_weights(xp, rate[..., None], t + 0 * rate)[..., 0]
    return (1 + a**2 / samples) * (q - q_pair) + (1 - a) ** 2 * q_pair


@_checked()
def trained_variance(covariance: Any, kernel: Any, samples: int, t: Any) -> Any:
    r"""Return the variance of outputs at test points over initial weights, in the kernel regime.

    .. math:: \mathrm{Var} f_t(x) = K_{xx} - 2 \theta_t^\top K_{Xx} + \theta_t^\top K_{XX} \theta_t, \qquad
        \theta_t = \Theta_{XX}^{-1} (I - e^{-\Theta_{XX} t/S})\, \Theta_{Xx} .

    Parameters
    ----------
    covariance, kernel : array_like, shape batch + (point, point)
        Covariance ``K`` of the outputs at initialization and tangent kernel, of the S training points, then of the test
        points; see `linsolve.ntk.mean_field.kernels` and `standard_kernel`.
    samples : int
        S, at least 1 and below the number of points.
    t : array_like, shape batch
        Times under gradient flow of half the mean squared error; inf after training.

    Returns
    -------
    array, shape batch + (point - S,)

    Raises
    ------
    ValueError
        If a matrix is not symmetric and positive semi-definite, or `samples` does not lie between 1 and the number of
        points minus 1.

    Notes
    -----
    Source: Seleznova, thesis (2024), section 3.1, (10) and appendix B, before its approximations; Theorem 3 is
    `equicorrelated_variance`.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import ntk
    >>> K, theta = np.eye(3) + 1, 3 * np.eye(3) + 1
    >>> ntk.trained_variance(K, theta, 2, [0.0, np.inf]).round(4).tolist()
    [[2.0], [1.44]]
    """
    who, points = "trained_variance", covariance.shape[-1]
    samples = integer(who, "samples", samples, meaning="training points", high=points - 1, example=1)
    xp = arithmetic.namespace(covariance, kernel)
    for name, a in (("covariance", covariance), ("kernel", kernel)):
        semidefinite(who, name, a, meaning=_MATRICES[name].meaning, margin=1e-9)
    spectrum = Spectrum.of(xp, kernel[..., :samples, :samples] / samples)
    across = xp.matrix_transpose(spectrum.vectors) @ kernel[..., :samples, samples:] / samples
    weights = integral_weights(xp, spectrum.values, t)
    theta = spectrum.vectors @ (weights[..., :, None] * across)
    own = xp.sum(covariance[..., samples:, samples:] * xp.eye(points - samples, dtype=xp.float64), axis=-1)
    linear = xp.sum(theta * covariance[..., :samples, samples:], axis=-2)
    square = xp.sum(theta * (covariance[..., :samples, :samples] @ theta), axis=-2)
    return own - 2 * linear + square
