"""Random networks at the start: the exact law of their norms layer by layer, and explicit networks as its check."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.randomness import generator, halves
from linsolve.systems.random_networks.mean_field import Activation

__all__ = ["Norms", "explicit", "explicit_kernels", "layer_by_layer"]


class Norms(NamedTuple):
    r""":math:`|x^{\ell-1}|^2` and :math:`|\delta^\ell|^2` for ``l = 1..L``, each of shape (draw, L).

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks.sampling import Norms
    >>> drawn = Norms(inputs=np.array([[1.0, 2.0]]), gradients=np.array([[3.0, 1.0]]))
    >>> weights, biases = drawn.kernels(np.ones(2), np.ones(2))
    >>> weights.tolist(), biases.tolist()  # 3 * 1 + 1 * 2 and 3 + 1
    ([5.0], [4.0])
    """

    inputs: np.ndarray
    gradients: np.ndarray

    def kernels(self, omega: Any, beta: Any) -> tuple[np.ndarray, np.ndarray]:
        r"""Return :math:`\Theta_W` and :math:`\Theta_b` of every draw."""
        return np.sum(omega * self.gradients * self.inputs, axis=-1), np.sum(beta * self.gradients, axis=-1)


def layer_by_layer(
    rng: Any, count: int, widths: Any, weight_variance: float, slope: float, norm_squared: float = 1.0
) -> Norms:
    r"""Draw the norms of networks without biases at the start, exactly, at a cost that hardly grows with the width.

    Forward, ``K`` of ``n`` units are active, :math:`K \sim B(n, 1/2)`, and :math:`|x^\ell|^2 = \tau^2 (\chi^2_K + s^2
    \chi^2_{n-K})`, :math:`\tau^2 = \sigma_w^2 |x^{\ell-1}|^2 / n_{\ell-1}`. Backward, :math:`W^\top \delta` is
    :math:`x f/|x|^2`, as :math:`h^\ell \cdot \delta^\ell = f` in every layer, plus a normal vector orthogonal to ``x``
    with variance :math:`\sigma_w^2 |\delta|^2/n` that is independent of all else. For ReLU, ``s = 0``,

    .. math:: |\delta^{\ell-1}|^2 = f^2/|x^\ell|^2 + \sigma_w^2 |\delta^\ell|^2 \chi^2_{K-1} / n ,

    and a layer without active units ends the network: all later ``x`` and all gradients but the output's are 0.

    Parameters
    ----------
    rng : numpy.random.Generator or cupy.random.Generator
        One of CuPy draws on its device.
    widths : array_like, shape (L,)
        :math:`n_0, \dots, n_{L-1}`.
    count : int
        Networks.
    weight_variance : float
        :math:`\sigma_w^2`, the variance of the weights times fan-in.
    slope : float
        Slope of the units at negative arguments: 0 for ReLU, 1 for linear units.
    norm_squared : float
        :math:`|x^0|^2`.

    Notes
    -----
    Given the numbers of active units, no variate depends on another: each kind is drawn for all layers at once. The
    law is compared with explicit networks in ``tests/test_ntk_sampling.py``.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import ntk
    >>> rng = np.random.default_rng(0)
    >>> drawn = ntk.sampling.layer_by_layer(rng, 20_000, [3, 10, 10], weight_variance=2.0, slope=0.0)
    >>> weights, _ = drawn.kernels(np.ones(3), np.ones(3))
    >>> bool(abs(weights.mean() / np.exp(ntk.moments([3, 10, 10], 2.0).weights[-1]) - 1) < 0.05)
    True
    """
    xp, rng = generator("layer_by_layer", rng)
    n = [int(width) for width in widths]
    inputs, gradients = xp.full((len(n), count), float(norm_squared)), xp.ones((len(n), count))
    if len(n) > 1:
        units, variances = (xp.asarray([[v] for v in each]) for each in (n[1:], [weight_variance / v for v in n]))
        active = xp.concat([halves(rng, width, (len(list(same)), count)) for width, same in groupby(n[1:])])
        square = slope**2
        parts = _squares(xp, rng, active, units - active, square)
        inputs[1:, :] = variances[:-1, :] * (parts[0] + parts[1] if square else parts[0])
        for before, here in pairwise(inputs):
            here *= before
        if not square:
            active *= inputs[:-1, :] > 0  # the derivative at 0 is 0: what is dead stays dead
        output = variances[-1, :] * inputs[-1, :] * rng.standard_normal(count) ** 2
        along = output / xp.where(inputs[1:, :] > 0, inputs[1:, :], xp.ones_like(output))
        rest = _squares(xp, rng, active - 1, units - active - 1, square)
        if square:
            _back(xp, rng, gradients, along, variances[1:, :], rest[0] + rest[1], parts, square)
        else:
            _back_through_relu(gradients, along, variances[1:, :] * rest[0])
    return Norms(inputs.T, gradients.T)


def _squares(xp: Any, rng: Any, active: Any, inactive: Any, square: float) -> list[Any]:
    """Return chi-squared variates for the active units and, unless `square` is 0, that times those for the others.

    Without freedom, or with less than none, they are 0, which `chisquare` does not allow for.
    """
    found = []
    for freedom, scale in ((active, 1), (inactive, square)) if square else ((active, 1),):
        drawn = rng.standard_gamma(xp.maximum(freedom, xp.zeros_like(freedom)) / 2, freedom.shape)
        drawn *= 2 * scale
        found.append(drawn)
    return found


def _back_through_relu(gradients: Any, along: Any, rest: Any) -> None:
    r"""Fill :math:`|\delta|^2` from the last layer, whose is there, to the first.

    Parameters
    ----------
    gradients : array, shape (L, draw)
    along : array, shape (L - 1, draw)
        Squared part of :math:`W^\top \delta` along ``x``; 0 in dead layers, where ``x`` has no direction.
    rest : array, shape (L - 1, draw)
        What is across ``x``, over active units, if :math:`|\delta| = 1` in the layer after.
    """
    for k in range(len(along) - 1, -1, -1):
        gradients[k, :] = along[k, :] + rest[k, :] * gradients[k + 1, :]


def _back(
    xp: Any, rng: Any, gradients: Any, along: Any, variances: Any, rest: Any, parts: list[Any], square: float
) -> None:
    r"""Do the same where inactive units count.

    `parts` has the squares of ``x`` over active and over inactive units. These two parts of ``x`` span a plane, in
    which :math:`W^\top \delta` has a component across ``x`` too; `rest` is what is across that plane.
    """
    cos, sin = (xp.sqrt(part / (parts[0] + parts[1])) for part in parts)
    # the sign of f does not matter: that of `across` is as likely one as the other
    along, across = xp.sqrt(along), xp.sqrt(variances) * rng.standard_normal(along.shape)
    across = xp.where((cos > 0) & (sin > 0), across, xp.zeros_like(across))  # one part alone spans no plane
    for k in range(len(along) - 1, -1, -1):
        turned = xp.sqrt(gradients[k + 1, :]) * across[k, :]
        on, off = cos[k, :] * along[k, :] - sin[k, :] * turned, sin[k, :] * along[k, :] + cos[k, :] * turned
        gradients[k, :] = on**2 + square * off**2 + variances[k, :] * rest[k, :] * gradients[k + 1, :]


def explicit(
    rng: np.random.Generator, count: int, widths: Any, weight_variance: float, slope: float, norm_squared: float = 1.0
) -> Norms:
    """Draw the same norms from explicit networks, by forward and backward passes; at a cost of all their weights.

    Parameters
    ----------
    rng : numpy.random.Generator
    count, widths, weight_variance, slope, norm_squared
        As in `layer_by_layer`.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import ntk
    >>> drawn = ntk.sampling.explicit(np.random.default_rng(0), 2000, [3, 10, 10], weight_variance=1.0, slope=1.0)
    >>> weights, _ = drawn.kernels(np.ones(3), np.ones(3))
    >>> bool(abs(weights.mean() / np.exp(ntk.moments([3, 10, 10], 1.0, 1.0).weights[-1]) - 1) < 0.2)
    True
    """
    n = [int(width) for width in widths]
    x = np.zeros((count, n[0]))
    x[:, 0] = np.sqrt(norm_squared)
    inputs, weights, slopes = [x], [], []
    for before, after in pairwise(n):
        w = np.sqrt(weight_variance / before) * rng.standard_normal((count, after, before))
        h = (w @ x[..., None])[..., 0]
        d = np.where(h > 0, 1.0, slope)
        x = d * h
        inputs.append(x)
        weights.append(w)
        slopes.append(d)
    gradient = np.sqrt(weight_variance / n[-1]) * rng.standard_normal((count, n[-1]))
    gradients = [np.ones((count, 1))]
    for k in range(len(n) - 2, -1, -1):
        gradient = slopes[k] * gradient
        gradients.append(gradient)
        gradient = np.einsum("cij,ci->cj", weights[k], gradient)
    squared = [np.sum(v**2, axis=-1) for v in inputs], [np.sum(v**2, axis=-1) for v in reversed(gradients)]
    return Norms(np.stack(squared[0], axis=-1), np.stack(squared[1], axis=-1))


def explicit_kernels(
    rng: np.random.Generator,
    activation: Activation,
    x: np.ndarray,
    widths: Any,
    weight_variance: float,
    bias_variance: float,
) -> np.ndarray:
    r"""Return the tangent kernel of one explicit network with NTK weights and biases, between the columns of `x`.

    :math:`h^\ell = \sigma_w W^\ell x^{\ell-1} / \sqrt{n_{\ell-1}} + \sigma_b b^\ell`, all entries standard normal.

    Parameters
    ----------
    x : ndarray, shape (n_0, sample)
        Inputs.
    widths : sequence of int
        Hidden widths.
    rng : numpy.random.Generator
    activation : Activation
        See ``linsolve.systems.random_networks.mean_field.named``.
    weight_variance, bias_variance : float
        :math:`\sigma_w^2` and :math:`\sigma_b^2`.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import mean_field, sampling
    >>> relu, x, rng = mean_field.named("relu"), np.sqrt(2) * np.eye(2), np.random.default_rng(0)
    >>> drawn = sampling.explicit_kernels(rng, relu, x, widths=[1000], weight_variance=2.0, bias_variance=0.0)
    >>> limit = mean_field.kernels(np, relu, x.T @ x / 2, 2, 2.0, 0.0)[1]
    >>> limit.round(4).tolist(), bool(np.abs(drawn - limit).max() < 0.5)
    ([[4.0, 0.6366], [0.6366, 4.0]], True)
    """
    sizes = [len(x), *(int(width) for width in widths), 1]
    inputs, slopes, weights = [x], [], []
    for before, after in pairwise(sizes):
        w = np.sqrt(weight_variance / before) * rng.standard_normal((after, before))
        h = w @ inputs[-1] + np.sqrt(bias_variance) * rng.standard_normal((after, 1))
        weights.append(w)
        slopes.append(activation.derivative(h))
        inputs.append(activation.function(h))
    gradient, kernel = np.ones((1, x.shape[1])), np.zeros((x.shape[1], x.shape[1]))
    for k in range(len(weights) - 1, -1, -1):
        features = weight_variance / sizes[k] * inputs[k].T @ inputs[k] + bias_variance
        kernel += features * (gradient.T @ gradient)
        if k:
            gradient = slopes[k - 1] * (weights[k].T @ gradient)
    return kernel
