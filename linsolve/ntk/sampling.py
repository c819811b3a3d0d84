"""Random networks at the start: the exact law of their norms layer by layer, and explicit networks as its check."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from linsolve.ntk.mean_field import Activation
from linsolve.randomness import generator

__all__ = ["Norms", "explicit", "explicit_kernels", "layer_by_layer"]


class Norms(NamedTuple):
    r""":math:`|x^{\ell-1}|^2` and :math:`|\delta^\ell|^2` for ``l = 1..L``, each of shape (draw, L)."""

    inputs: np.ndarray
    gradients: np.ndarray

    def kernels(self, omega: Any, beta: Any) -> tuple[np.ndarray, np.ndarray]:
        r"""Return :math:`\Theta_W` and :math:`\Theta_b` of every draw."""
        return np.sum(omega * self.gradients * self.inputs, axis=-1), np.sum(beta * self.gradients, axis=-1)


class _Layer(NamedTuple):
    """What the way back needs of a layer: active units, and squared lengths over active and inactive ones."""

    active: np.ndarray
    on: np.ndarray
    off: np.ndarray


def layer_by_layer(
    rng: Any, count: int, widths: Any, weight_variance: float, slope: float, norm_squared: float = 1.0
) -> Norms:
    r"""Draw the norms of networks without biases at the start, exactly, at a cost that does not grow with the width.

    Forward, ``K`` of ``n`` units are active, :math:`K \sim B(n, 1/2)`, and :math:`|x^\ell|^2 = \tau^2 (\chi^2_K + s^2
    \chi^2_{n-K})`, :math:`\tau^2 = \sigma_w^2 |x^{\ell-1}|^2 / n_{\ell-1}`. Backward, :math:`W^\top \delta` is
    :math:`x f/|x|^2`, as :math:`h^\ell \cdot \delta^\ell = f` in every layer, plus a normal vector orthogonal to ``x``
    with variance :math:`\sigma_w^2 |\delta|^2/n` that is independent of all else. For ReLU a layer without active
    units ends the network: all later ``x`` and all gradients but the output's are 0.

    Parameters
    ----------
    rng : numpy.random.Generator or cupy.random.Generator
        One of CuPy draws on its device.
    widths : array_like, shape (L,)
        :math:`n_0, \dots, n_{L-1}`.
    """
    xp, rng = generator(rng)
    n = [int(width) for width in widths]
    x, layers = xp.full(count, float(norm_squared)), []
    inputs, gradients = xp.empty((count, len(n))), xp.ones((count, len(n)))
    inputs[:, 0] = x
    for k in range(1, len(n)):
        active = rng.binomial(n[k], 0.5, count)
        if slope == 0:
            active = xp.where(x > 0, active, xp.zeros_like(active))  # the derivative at 0 is 0: what is dead stays dead
        scale = weight_variance * x / n[k - 1]
        on, off = scale * _chi_squared(xp, rng, active), slope**2 * scale * _chi_squared(xp, rng, n[k] - active)
        layers.append(_Layer(active, on, off))
        inputs[:, k] = x = on + off
    output = xp.sqrt(weight_variance * x / n[-1]) * rng.standard_normal(count)
    for k in range(len(n) - 1, 0, -1):
        noise = weight_variance * gradients[:, k] / n[k]
        gradients[:, k - 1] = _back(xp, rng, layers[k - 1], output, noise, n[k], slope)
    return Norms(inputs, gradients)


def _chi_squared(xp: Any, rng: Any, freedom: Any) -> Any:
    # unlike chisquare, allows for no freedom
    return 2 * rng.standard_gamma(xp.maximum(freedom, xp.zeros_like(freedom)) / 2, freedom.shape)


def _back(xp: Any, rng: Any, layer: _Layer, output: Any, noise: Any, n: int, slope: float) -> Any:
    r"""Return :math:`|\delta|^2` of a layer from `output` and the variance `noise` of the weights' new directions."""
    length = xp.sqrt(layer.on + layer.off)
    length = xp.where(length > 0, length, xp.ones_like(length))
    turned, across = output / length, xp.sqrt(noise) * rng.standard_normal(len(output))
    cos, sin = xp.sqrt(layer.on) / length, xp.sqrt(layer.off) / length
    on = xp.where(layer.active > 0, cos * turned - sin * across, xp.zeros_like(output))
    off = xp.where(layer.active < n, sin * turned + cos * across, xp.zeros_like(output))
    # for ReLU a dead layer has no direction of x, and nothing active either, so that its gradient is 0
    rest = _chi_squared(xp, rng, layer.active - 1) + slope**2 * _chi_squared(xp, rng, n - layer.active - 1)
    return on**2 + slope**2 * off**2 + noise * rest


def explicit(
    rng: np.random.Generator, count: int, widths: Any, weight_variance: float, slope: float, norm_squared: float = 1.0
) -> Norms:
    """Draw the same norms from explicit networks, by forward and backward passes; at a cost of all their weights."""
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
