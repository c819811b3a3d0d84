"""Derivative of the tangent kernel along the first gradient step, gates held: exact mean and explicit networks."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import integer, refuse_beyond_memory
from linsolve.core.randomness import seeded
from linsolve.numerics.checked import checked
from linsolve.systems.random_networks.kernel_moments import ARGUMENTS, log_shares, spread

__all__ = ["Networks", "Pass", "draw", "log_change", "tangent"]

MOST = 10**9  # numbers that are drawn for a layer, in ten seconds

_LOG_4 = np.log(4)


@checked(ARGUMENTS, logarithm=True)
def log_change(xp: Any, widths: Any, weight_variance: Any, slope: Any, omega: Any, beta: Any, norm_squared: Any) -> Any:
    r"""Return :math:`\ln(-E\Delta\Theta/\eta)` of the first step, gates held, for all depths 1 to L.

    A step with learning rate :math:`\eta \to 0` on the loss :math:`(f - y)^2/2` at the input of the kernel changes the
    kernel by :math:`\Delta\Theta = -\eta (f - y) \nabla f \cdot \nabla\Theta`. With the gates of a piecewise linear
    network fixed, :math:`g^k = \partial f/\partial x^{k-1}` and :math:`P_{mk} = \partial x^{k-1}/\partial h^m`,

    .. math:: \nabla f \cdot \nabla \Theta = 4 \sum_{m<k} \omega_k |\delta^k|^2
        (\omega_m |x^{m-1}|^2 + \beta_m)\; x^{k-1} \cdot P_{mk} P_{mk}^\top g^k,

    The average of this times ``y`` over initial weights vanishes. The average of this times ``f`` gives, in the symbols
    of `log_moments`,

    .. math:: -\frac{E\Delta\Theta}{\eta} = 4 \sum_{m<k} p_k (p_m \mathcal X_{1m} + b_m)
        \,\mathcal S_{mk} \mathcal X_{kL}, \qquad
        \mathcal S_{ij} = \frac13 \prod_{k=i}^{j-1} \Bigl(1 + \frac{c}{n_k}\Bigr)
        - \frac13 \prod_{k=i}^{j-1} \Bigl(1 - \frac1{n_k}\Bigr) .

    Parameters
    ----------
    xp, widths, weight_variance, slope, omega, beta, norm_squared
        As in `log_moments`; layers learn at the rates :math:`\eta \omega_\ell` and :math:`\eta \beta_\ell`.

    Notes
    -----
    Exact at every width for the derivative with gates held, which does not depend on the target. It is the mean change
    to first order in the learning rate for linear units only: a step of ReLU units also flips gates, which adds a term
    of first order that depends on the target, see ``NTKFirstStep``. A large step may increase the kernel: a network of
    one hidden layer of linear units without biases has
    :math:`\Delta\Theta = -4 g |x|^2 f + g^2 |x|^2 \Theta`, :math:`g = \eta (f - y)`. Networks with a dead layer
    contribute 0. The law ``NTKFirstStep`` checks this function.

    Source: Seleznova (2024), section 3.2, theorem 4.1 (A.10), for ReLU: the relative change tends to infinity in the
    chaotic phase and to 0 in the ordered phase. Both hold for the magnitude of the derivative, whose mean is negative;
    the source holds the gates fixed, too. At the edge of chaos it grows with depth at a constant ratio of depth and
    width, see `linsolve.systems.random_networks.limits.first_step`. ``linsolve card NTKFirstStep`` lists the published
    formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import first_step
    >>> widths, one, none = np.array([1.0, 3.0]), np.ones(2), np.zeros(2)
    >>> found = first_step.log_change(np, widths, np.array(1.0), np.array(1.0), one, none, np.array(1.0))
    >>> float(-np.exp(found[-1]).round(6))  # -4 E f^2 of linear units without biases
    -4.0
    """
    p, b, (up, down), a = log_shares(xp, widths, weight_variance, slope, omega, beta, norm_squared)
    nothing = -xp.inf * xp.ones_like(p[..., 0])
    step = xp.log((spread(slope)[1] + 1) / 3)[..., None] - xp.log(widths + 0 * up)
    from_input = xp.zeros_like(p[..., 0])
    apart = together = total = nothing
    found = []
    for k in range(p.shape[-1]):
        if k:
            from_input, total = from_input + up[..., k], total + up[..., k]
            # S_(m, k+1) = S_mk (1 + c/n_k) + (c + 1)/(3 n_k) prod (1 - 1/n), all terms positive
            apart = xp.logaddexp(apart + up[..., k], together + step[..., k])
            together = together + down[..., k]
        total = xp.logaddexp(total, p[..., k] + apart)
        together = xp.logaddexp(together, xp.logaddexp(p[..., k] + from_input, b[..., k] - k * a))
        found.append(total + _LOG_4 + 2 * k * a)
    return xp.stack(found, axis=-1)


class Pass(NamedTuple):
    r"""Forward and backward pass: :math:`x^{\ell-1}`, :math:`\delta^\ell`, :math:`\phi'(h^\ell)` and ``f``.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import first_step
    >>> networks = first_step.draw(np.random.default_rng(0), 5, [2, 4], weight_variance=2.0, slope=0.0)
    >>> here = networks.evaluate()
    >>> [x.shape for x in here.inputs], here.kernel(np.ones(2), np.zeros(2)).shape
    ([(5, 2), (5, 4)], (5,))
    """

    inputs: list[np.ndarray]
    gradients: list[np.ndarray]
    slopes: list[np.ndarray]
    output: np.ndarray

    def norms(self) -> list[np.ndarray]:
        """Return the squared lengths of inputs and gradients, each of shape (count, L)."""
        return [np.stack([_squared(v) for v in part], axis=-1) for part in (self.inputs, self.gradients)]

    def kernel(self, omega: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """Return the tangent kernel at the input."""
        return sum(
            _squared(d) * (omega[k] * _squared(x) + beta[k])
            for k, (x, d) in enumerate(zip(self.inputs, self.gradients, strict=True))
        )


class Networks(NamedTuple):
    """Explicit networks of equal widths with one input each: weights and biases, one array per layer.

    Parameters
    ----------
    weights : list of ndarray, shapes (count, n_l, n_(l-1))
        Weights of each layer, first to last; the last has one row.
    biases : list of ndarray, shapes (count, n_l)
    x : ndarray, shape (count, n_0)
        The input of each network.
    slope : float
        Slope of the units at negative arguments: 0 for ReLU, 1 for linear units.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks.first_step import Networks
    >>> weights, biases = [np.array([[[2.0]]]), np.array([[[3.0]]])], [np.zeros((1, 1))] * 2
    >>> network = Networks(weights, biases, x=np.array([[1.0]]), slope=0.0)  # 3 relu(2 x)
    >>> network.evaluate().output.tolist()
    [6.0]
    >>> network.evaluate().kernel(np.ones(2), np.zeros(2)).tolist()  # 3^2 + 2^2
    [13.0]
    """

    weights: list[np.ndarray]
    biases: list[np.ndarray]
    x: np.ndarray
    slope: float

    def evaluate(self) -> Pass:
        """Return forward and backward pass."""
        inputs, slopes, last = [self.x], [], len(self.weights) - 1
        for k, (w, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            h = _apply(w, inputs[-1]) + b
            if k < last:
                slopes.append(np.where(h > 0, 1.0, self.slope))
                inputs.append(slopes[-1] * h)
        gradients = [np.ones_like(h)]
        for w, d in zip(self.weights[:0:-1], slopes[::-1], strict=True):
            gradients.append(d * _back(w, gradients[-1]))
        return Pass(inputs, gradients[::-1], slopes, h[:, 0])

    def step(self, rate: float, target: float, omega: np.ndarray, beta: np.ndarray) -> Networks:
        r"""Return the networks after one step of gradient descent on :math:`(f - y)^2/2`."""
        here = self.evaluate()
        size = rate * (here.output - target)[:, None]
        pairs = list(zip(here.inputs, here.gradients, strict=True))
        weights = [
            w - omega[k] * (size * d)[:, :, None] * x[:, None, :]
            for k, (w, (x, d)) in enumerate(zip(self.weights, pairs, strict=True))
        ]
        biases = [b - beta[k] * size * d for k, (b, (_, d)) in enumerate(zip(self.biases, pairs, strict=True))]
        return Networks(weights, biases, self.x, self.slope)


def _squared(v: np.ndarray) -> np.ndarray:
    return np.sum(v**2, axis=-1)


def _apply(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    return (w @ x[:, :, None])[:, :, 0]


def _back(w: np.ndarray, d: np.ndarray) -> np.ndarray:
    return (d[:, None, :] @ w)[:, 0, :]


@checked(ARGUMENTS, single=True)
def draw(
    rng: np.random.Generator, count: int, widths: Any, weight_variance: float, slope: float, norm_squared: float = 1.0
) -> Networks:
    """Draw explicit networks at initialization, with the same input and zero biases.

    Parameters
    ----------
    rng : numpy.random.Generator
    count : int
        Number of networks.
    widths : array_like, shape (L,)
        Input and hidden widths; one output.
    weight_variance : float
        Variance of the weights times fan-in.
    slope : float
        Slope of the units at negative arguments: 0 for ReLU, 1 for linear units.
    norm_squared : float
        Squared length of the input.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import first_step
    >>> networks = first_step.draw(np.random.default_rng(0), 5, [2, 4], weight_variance=2.0, slope=0.0)
    >>> [w.shape for w in networks.weights]
    [(5, 4, 2), (5, 1, 4)]
    """
    rng, sizes = seeded("draw", rng), [*(int(n) for n in widths), 1]
    count = integer("draw", "count", count, meaning="networks", low=0, example=1000)
    low, high = max((sorted(pair) for pair in pairwise(sizes)), key=math.prod)
    arrays = {"widths": high, "count": count, "units of the next layer": low, "weights and draws": 2}
    refuse_beyond_memory("draw", arrays, "weights")
    if count * low * high > MOST:
        raise ValueError(
            f"draw: widths = {high}, {low} and count = {count} must have a product of at most {MOST} (numbers that are "
            "drawn); use fewer"
        )
    x = np.zeros((count, sizes[0]))
    x[:, 0] = np.sqrt(norm_squared)
    shapes = list(zip(sizes[1:], sizes[:-1], strict=True))
    weights = [np.sqrt(weight_variance / before) * rng.standard_normal((count, n, before)) for n, before in shapes]
    return Networks(weights, [np.zeros((count, n)) for n, _ in shapes], x, slope)


def tangent(networks: Networks, here: Pass, omega: np.ndarray, beta: np.ndarray) -> np.ndarray:
    r"""Return :math:`\nabla f \cdot \nabla\Theta` of every network, differentiated along the gradient of ``f``.

    Parameters
    ----------
    networks : Networks
    here : Pass
        Result of ``networks.evaluate()`` for the same networks.
    omega, beta : ndarray, shape (L,)
        Factors of the layers' weights and biases in the kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import first_step
    >>> weights, biases = [np.array([[[2.0]]]), np.array([[[3.0]]])], [np.zeros((1, 1))] * 2
    >>> network = first_step.Networks(weights, biases, x=np.array([[1.0]]), slope=0.0)  # f = u w, kernel u^2 + w^2
    >>> first_step.tangent(network, network.evaluate(), np.ones(2), np.zeros(2)).tolist()  # 4 u w
    [24.0]
    """
    moved, layers = [np.zeros_like(here.inputs[0])], range(len(here.inputs))
    for k in layers[:-1]:
        push = (omega[k] * _squared(here.inputs[k]) + beta[k])[:, None] * here.gradients[k]
        moved.append(here.slopes[k] * (push + _apply(networks.weights[k], moved[-1])))
    turned = np.zeros_like(here.gradients[-1])
    total = np.zeros(len(turned))
    for k in reversed(layers):
        x, d = here.inputs[k], here.gradients[k]
        total += 2 * np.sum(d * turned, axis=-1) * (omega[k] * _squared(x) + beta[k])
        total += 2 * omega[k] * _squared(d) * np.sum(x * moved[k], axis=-1)
        if k:
            pull = omega[k] * _squared(d)[:, None] * x
            turned = here.slopes[k - 1] * (_back(networks.weights[k], turned) + pull)
    return total
