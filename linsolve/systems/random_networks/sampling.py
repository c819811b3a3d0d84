"""Random networks at initialization: exact sampling of the norms layer by layer, checked by explicit networks."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import Interval, integer, real_array, refuse_beyond_memory
from linsolve.core.randomness import generator, halves
from linsolve.numerics.checked import checked, in_range
from linsolve.systems.random_networks.first_step import draw
from linsolve.systems.random_networks.kernel_moments import ARGUMENTS
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


@checked(ARGUMENTS, single=True, widths=ARGUMENTS["widths"]._replace(domain=f"[1, {2**53}]"))
def layer_by_layer(
    rng: Any, count: int, widths: Any, weight_variance: float, slope: float, norm_squared: float = 1.0
) -> Norms:
    r"""Draw the norms of networks with zero initial biases, exactly, at a cost almost independent of the width.

    Forward, ``K`` of ``n`` units are active, :math:`K \sim B(n, 1/2)`, and :math:`|x^\ell|^2 = \tau^2 (\chi^2_K + s^2
    \chi^2_{n-K})`, :math:`\tau^2 = \sigma_w^2 |x^{\ell-1}|^2 / n_{\ell-1}`. Backward, :math:`W^\top \delta` is
    :math:`x f/|x|^2`, as :math:`h^\ell \cdot \delta^\ell = f` in every layer, plus a normal vector orthogonal to ``x``
    with variance :math:`\sigma_w^2 |\delta|^2/n` that is independent of everything else. For ReLU, ``s = 0``,

    .. math:: |\delta^{\ell-1}|^2 = f^2/|x^\ell|^2 + \sigma_w^2 |\delta^\ell|^2 \chi^2_{K-1} / n ,

    and after a layer without active units all ``x`` are 0, as are all gradients except that of the output.

    Parameters
    ----------
    rng : numpy.random.Generator or cupy.random.Generator
        A CuPy generator draws on its device.
    count : int
        Number of networks.
    widths : array_like, shape (L,)
        :math:`n_0, \dots, n_{L-1}`.
    weight_variance : float
        :math:`\sigma_w^2`, the variance of the weights times fan-in.
    slope : float
        Slope of the units at negative arguments: 0 for ReLU, 1 for linear units.
    norm_squared : float
        :math:`|x^0|^2`.

    Notes
    -----
    Given the numbers of active units, the variates are independent, and each kind is drawn for all layers at once.
    ``test_the_sampler_has_the_law_of_explicit_networks`` checks the sampler against explicit networks.

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
    count = integer("layer_by_layer", "count", count, meaning="networks", low=0, example=1000)
    refuse_beyond_memory("layer_by_layer", {"count": count, "layers": len(widths), "arrays": 8}, "norms")
    n, weight_variance, slope = [int(width) for width in widths], float(weight_variance), float(slope)
    inputs, gradients = xp.full((len(n), count), float(norm_squared)), xp.ones((len(n), count))
    if len(n) > 1:
        units, variances = (xp.asarray([[v] for v in each]) for each in (n[1:], [weight_variance / v for v in n]))
        active = xp.concat([halves(rng, width, (len(list(same)), count)) for width, same in groupby(n[1:])])
        square = slope * slope
        parts = _squares(xp, rng, active, units - active, square)
        inputs[1:, :] = variances[:-1, :] * (parts[0] + parts[1] if square else parts[0])
        for before, here in pairwise(inputs):
            here *= before
        if not square:
            active *= inputs[:-1, :] > 0  # the derivative at 0 is 0: all layers after a dead layer are dead
        output = variances[-1, :] * inputs[-1, :] * rng.standard_normal(count) ** 2
        along = output / xp.where(inputs[1:, :] > 0, inputs[1:, :], xp.ones_like(output))
        rest = _squares(xp, rng, active - 1, units - active - 1, square)
        if square:
            _back(xp, rng, gradients, along, variances[1:, :], rest[0] + rest[1], parts, square)
        else:
            _back_through_relu(gradients, along, variances[1:, :] * rest[0])
    return Norms(inputs.T, gradients.T)


def _squares(xp: Any, rng: Any, active: Any, inactive: Any, square: float) -> list[Any]:
    """Return chi-squared variates for the active units and, unless `square` is 0, `square` times those for the others.

    They are 0 where the degrees of freedom are not positive, for which `chisquare` raises.
    """
    found = []
    for freedom, scale in ((active, 1), (inactive, square)) if square else ((active, 1),):
        drawn = rng.standard_gamma(xp.maximum(freedom, xp.zeros_like(freedom)) / 2, freedom.shape)
        drawn *= 2 * scale
        found.append(drawn)
    return found


def _back_through_relu(gradients: Any, along: Any, rest: Any) -> None:
    r"""Fill :math:`|\delta|^2` from the given last layer to the first.

    Parameters
    ----------
    gradients : array, shape (L, draw)
    along : array, shape (L - 1, draw)
        Squared part of :math:`W^\top \delta` along ``x``; 0 in dead layers, where ``x`` has no direction.
    rest : array, shape (L - 1, draw)
        Squared part orthogonal to ``x``, over active units, if :math:`|\delta| = 1` in the layer after.
    """
    for k in range(len(along) - 1, -1, -1):
        gradients[k, :] = along[k, :] + rest[k, :] * gradients[k + 1, :]


def _back(
    xp: Any, rng: Any, gradients: Any, along: Any, variances: Any, rest: Any, parts: list[Any], square: float
) -> None:
    r"""Fill the squared norms for units of any slope; `parts` holds those of ``x`` over active and inactive units.

    These two parts of ``x`` span a plane, in which :math:`W^\top \delta` also has a component orthogonal to ``x``.
    `rest` is the part of :math:`W^\top \delta` orthogonal to that plane.
    """
    cos, sin = (xp.sqrt(part / (parts[0] + parts[1])) for part in parts)
    # the sign of f is irrelevant, since `across` is symmetric about 0
    along, across = xp.sqrt(along), xp.sqrt(variances) * rng.standard_normal(along.shape)
    across = xp.where((cos > 0) & (sin > 0), across, xp.zeros_like(across))  # a single part does not span a plane
    for k in range(len(along) - 1, -1, -1):
        turned = xp.sqrt(gradients[k + 1, :]) * across[k, :]
        on, off = cos[k, :] * along[k, :] - sin[k, :] * turned, sin[k, :] * along[k, :] + cos[k, :] * turned
        gradients[k, :] = on**2 + square * off**2 + variances[k, :] * rest[k, :] * gradients[k + 1, :]


@checked(ARGUMENTS, single=True)
def explicit(
    rng: np.random.Generator, count: int, widths: Any, weight_variance: float, slope: float, norm_squared: float = 1.0
) -> Norms:
    """Draw the same norms from explicit networks, by forward and backward passes over all weights.

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
    integer("explicit", "count", count, meaning="networks", low=0, example=1000)
    return Norms(*draw(rng, count, widths, weight_variance, slope, norm_squared).evaluate().norms())


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
    rng : numpy.random.Generator
    activation : Activation
        See ``linsolve.systems.random_networks.mean_field.named``.
    x : ndarray, shape (n_0, sample)
        Inputs.
    widths : sequence of int
        Hidden widths.
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
    who = "explicit_kernels"
    x = real_array(who, "x", x, meaning="inputs, one a column")
    if x.ndim != 2 or not isinstance(activation, Activation):
        raise ValueError(
            f"{who}: x has shape {tuple(x.shape)} and activation is of type {type(activation).__name__}, but they must "
            "be (n_0, sample) and an Activation (inputs and units); such as mean_field.named('relu')"
        )
    hidden = [integer(who, "widths", width, meaning="hidden widths", example=100) for width in widths]
    numbers = [
        float(real_array(who, name, value, meaning=ARGUMENTS[name].meaning, domain=Interval("[0, inf)")))
        for name, value in (("weight_variance", weight_variance), ("bias_variance", bias_variance))
    ]
    return in_range(who, lambda: _explicit_kernel(rng, activation, x, hidden, *numbers), x=x)


def _explicit_kernel(
    rng: np.random.Generator, unit: Activation, x: np.ndarray, hidden: list[int], weight_variance: float, bias: float
) -> np.ndarray:
    sizes = [len(x), *hidden, 1]
    inputs, slopes, weights = [x], [], []
    for before, after in pairwise(sizes):
        w = np.sqrt(weight_variance / before) * rng.standard_normal((after, before))
        h = w @ inputs[-1] + np.sqrt(bias) * rng.standard_normal((after, 1))
        weights.append(w)
        slopes.append(unit.derivative(h))
        inputs.append(unit.function(h))
    gradient, kernel = np.ones((1, x.shape[1])), np.zeros((x.shape[1], x.shape[1]))
    for k in range(len(weights) - 1, -1, -1):
        features = weight_variance / sizes[k] * inputs[k].T @ inputs[k] + bias
        kernel += features * (gradient.T @ gradient)
        if k:
            gradient = slopes[k - 1] * (weights[k].T @ gradient)
    return kernel
