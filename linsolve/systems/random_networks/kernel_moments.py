"""Mean, mean square and dispersion of the tangent kernel of a random network, at every width and depth, in O(L)."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import choice
from linsolve.numerics.checked import Argument, checked

__all__ = [
    "ARGUMENTS",
    "Moments",
    "correlation",
    "gradient_norms",
    "log_moments",
    "log_shares",
    "moments",
    "parametrization",
    "spread",
]

_LOG_2, _LOG_2_3 = np.log(2), np.log(2 / 3)

ARGUMENTS = {
    "widths": Argument("input and hidden widths", "[1, inf)", axes=("layer",), whole=True),
    "weight_variance": Argument("variance of the weights times fan-in", "(0, inf)"),
    "bias_variance": Argument("variance of the biases", "[0, inf)"),
    "slope": Argument("slope of the units at negative arguments"),
    "omega": Argument("weights' part of the kernel", "[0, inf)", axes=("layer",)),
    "beta": Argument("biases' part of the kernel", "[0, inf)", axes=("layer",)),
    "norm_squared": Argument("squared length of the input", "[0, inf)"),
}
_checked = functools.partial(checked, ARGUMENTS)


class Moments(NamedTuple):
    """Logarithms of the moments of ``Theta = Theta_W + Theta_b``, by depth 1 to L.

    Parameters
    ----------
    weights, biases : array, shape batch + (L,)
        Logarithms of the means of the two parts, ``E Theta_W`` and ``E Theta_b``.
    weights_squared, cross, biases_squared : array, shape batch + (L,)
        Logarithms of ``E Theta_W^2``, ``E Theta_W Theta_b`` and ``E Theta_b^2``.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import ntk
    >>> found = ntk.moments(np.full(100, 100), weight_variance=2.0)  # ReLU, as deep as wide
    >>> np.exp(found.log_dispersion(np)[[0, 9, 99]]).round(2).tolist()  # at depth 1, 10, 100
    [1.0, 1.22, 26.42]
    """

    weights: Any
    biases: Any
    weights_squared: Any
    cross: Any
    biases_squared: Any

    def log_mean(self, xp: Any) -> Any:
        """Return the logarithm of ``E Theta``."""
        return xp.logaddexp(self.weights, self.biases)

    def log_square(self, xp: Any) -> Any:
        """Return the logarithm of ``E Theta^2``."""
        return xp.logaddexp(xp.logaddexp(self.weights_squared, self.biases_squared), _LOG_2 + self.cross)

    def log_dispersion(self, xp: Any) -> Any:
        """Return the logarithm of ``E Theta^2 / (E Theta)^2``, finite where the ratio itself overflows."""
        return self.log_square(xp) - 2 * self.log_mean(xp)


@_checked()
def spread(slope: Any) -> tuple[Any, Any]:
    r"""Return :math:`E D^2` and :math:`c = 3 \kappa - 1`, where ``D`` is 1 or `slope`, each with probability 1/2.

    :math:`\kappa = E D^4 / (E D^2)^2`: 2 for ReLU (``slope = 0``), 1 for linear units (``slope = 1``).

    Parameters
    ----------
    slope : array, shape batch
        Slope of the units at negative arguments.

    Returns
    -------
    second, c : array, shape batch

    Raises
    ------
    TypeError
        If an argument is not real.
    ValueError
        If a slope is not finite.
    OverflowError
        If the result leaves the range of doubles.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import ntk
    >>> [tuple(float(value) for value in ntk.spread(np.asarray(slope))) for slope in (0.0, 1.0)]  # ReLU, linear
    [(0.5, 5.0), (1.0, 2.0)]
    """
    xp = arithmetic.namespace(slope)
    size = xp.abs(slope)
    s = xp.where(size > 1, 1 / xp.where(size > 1, size, xp.ones_like(size)), size)  # c is invariant under s -> 1/s
    return (1 + slope**2) / 2, 6 * (1 + s**4) / (1 + s**2) ** 2 - 1


@_checked()
def parametrization(name: str, widths: Any, weight_variance: Any, bias_variance: Any) -> tuple[Any, Any]:
    r"""Return the factors :math:`\omega_\ell, \beta_\ell` of weights and biases in the kernel.

    Standard weights have :math:`\omega = \beta = 1`, NTK weights :math:`\omega_\ell = \sigma_w^2 / n_{\ell-1}`,
    :math:`\beta_\ell = \sigma_b^2`.

    Parameters
    ----------
    name : {"standard", "ntk"}
    widths : array, shape batch + (L,)
        Input and hidden widths, whole numbers from 1.
    weight_variance : array, shape batch
        :math:`\sigma_w^2 > 0`.
    bias_variance : array, shape batch
        :math:`\sigma_b^2`, not negative.

    Returns
    -------
    omega, beta : array, shape batch + (L,)

    Raises
    ------
    TypeError
        If an argument is not real.
    ValueError
        If the name is unknown, a width is no positive integer, or a variance is out of range.
    OverflowError
        If the result leaves the range of doubles.
    """
    one = np.ones_like(widths)
    if choice("parametrization", "name", name, ("standard", "ntk")) == "standard":
        return one, one
    return weight_variance[..., None] / widths, bias_variance[..., None] * one


def _log(xp: Any, value: Any) -> Any:
    positive = value > 0
    return xp.where(positive, xp.log(xp.where(positive, value, xp.ones_like(value))), -xp.inf * xp.ones_like(value))


@_checked(logarithm=True)
def log_moments(
    xp: Any, widths: Any, weight_variance: Any, slope: Any, omega: Any, beta: Any, norm_squared: Any
) -> Moments:
    r"""Return the logarithms of the moments of the tangent kernel at one input, for all depths 1 to L at once.

    For a network with zero initial biases, :math:`h^\ell = W^\ell x^{\ell-1}`, :math:`x^\ell = \phi(h^\ell)`,
    :math:`W^\ell_{ij} \sim N(0, \sigma_w^2/n_{\ell-1})`, with one output and :math:`\delta^\ell = \partial f /
    \partial h^\ell`,

    .. math:: \Theta = \Theta_W + \Theta_b = \sum_{\ell=1}^L |\delta^\ell|^2 (\omega_\ell |x^{\ell-1}|^2 + \beta_\ell).

    With :math:`a = \sigma_w^2 E D^2`, :math:`p_\ell = |x^0|^2 a^{L-1} \omega_\ell n_{\ell-1}/n_0`, :math:`b_\ell =
    \beta_\ell a^{L-\ell}` (`spread` has ``E D^2`` and ``c``),

    .. math:: \mathcal X_{ij} = \prod_{k=i}^{j-1} \Bigl(1 + \frac{c}{n_k}\Bigr), \qquad
        \mathcal C_{ij} = \frac13 \mathcal X_{ij} + \frac23 \prod_{k=i}^{j-1} \Bigl(1 - \frac{1}{n_k}\Bigr),

    .. math:: E\Theta_W = \sum_\ell p_\ell, \qquad
        E\Theta_W^2 = \mathcal X_{1L} \sum_\ell p_\ell^2
        + 2 \sum_{\ell<m} p_\ell p_m \mathcal X_{1\ell} \mathcal C_{\ell m} \mathcal X_{mL},

    .. math:: E\Theta_b = \sum_\ell b_\ell D_\ell, \qquad
        E\Theta_b^2 = \sum_\ell b_\ell^2 D_\ell \mathcal X_{\ell L}
        + 2 \sum_{\ell<m} b_\ell b_m D_\ell \mathcal X_{mL},

    .. math:: E\Theta_W \Theta_b = \sum_\ell p_\ell b_\ell \mathcal X_{\ell L}
        + \sum_{\ell<m} (p_\ell b_m + b_\ell p_m \mathcal C_{\ell m}) \mathcal X_{mL} .

    For ReLU, whose derivative at 0 is 0, :math:`D_\ell = \prod_{k<\ell} (1 - 2^{-n_k})` for :math:`\ell < L`: after a
    dead layer all gradients are 0. Otherwise :math:`D_\ell = 1`.

    Parameters
    ----------
    xp : module
        Array namespace.
    widths : array_like, shape batch + (L,)
        :math:`n_0, \dots, n_{L-1}`; the output has width 1.
    weight_variance : array_like, shape batch
        :math:`\sigma_w^2`.
    slope : array_like, shape batch
        Slope of the units at negative arguments: 0 for ReLU, 1 for linear units.
    omega, beta : array_like, shape batch + (L,)
        See `parametrization`.
    norm_squared : array_like, shape batch
        :math:`|x^0|^2`.

    Notes
    -----
    Exact at every width (``test_the_moments_agree_with_sampled_networks``).

    Source: Seleznova (2024), section 3.2, (11)-(15) and lemma A.4, for ReLU and standard weights.
    ``linsolve card NTKMoments`` lists the published formulas and their verdicts.
    """
    p, b, (up, down), a = log_shares(xp, widths, weight_variance, slope, omega, beta, norm_squared)
    zero = 0 * up  # finite zeros of the full shape
    may_die = xp.where((slope + 0 * a)[..., None] == 0, 2.0 ** -(widths + zero), zero)
    mean, square = _of_weights(xp, p, up, down)
    depths = a[..., None] * xp.arange(widths.shape[-1])
    mean_b, square_b = _of_biases(xp, b, up, a, xp.log1p(-may_die))
    return Moments(mean + depths, mean_b, square + 2 * depths, _across(xp, p + depths, b, (up, down, a)), square_b)


def log_shares(
    xp: Any, widths: Any, weight_variance: Any, slope: Any, omega: Any, beta: Any, norm_squared: Any
) -> tuple[Any, Any, tuple[Any, Any], Any]:
    r"""Return the logarithms of the factors of the sums over layers, of shape ``batch + (L,)``.

    These are :math:`|x^0|^2 \omega_\ell n_{\ell-1}/n_0`, :math:`\beta_\ell`, :math:`1 + c/n_k` and
    :math:`1 - 1/n_k`, and ``a``, of shape ``batch``.
    """
    second, c = spread(slope)
    zero = 0 * (widths + omega + beta) + (0 * (second * weight_variance + norm_squared))[..., None]
    a, widths = _log(xp, weight_variance * second) + zero[..., 0], widths + zero
    share = omega * widths / widths[..., :1] * (norm_squared + zero[..., 0])[..., None]
    steps = xp.log1p(c[..., None] / widths), _log(xp, 1 - 1 / widths)
    return _log(xp, share), _log(xp, beta + zero), steps, a


def _of_weights(xp: Any, p: Any, up: Any, down: Any) -> tuple[Any, Any]:
    """Return log ``E Theta_W`` and log ``E Theta_W^2`` by depth, without powers of ``a``."""
    nothing = -xp.inf * xp.ones_like(p[..., 0])
    total = decayed = square = nothing
    from_input = xp.zeros_like(p[..., 0])  # log of X_{1 l}
    means, squares = [], []
    for k in range(p.shape[-1]):
        if k:
            from_input, square = from_input + up[..., k], square + up[..., k]
            total = xp.logaddexp(total, p[..., k - 1])
            decayed = xp.logaddexp(decayed, p[..., k - 1]) + down[..., k] - up[..., k]
        earlier = xp.logaddexp(total + _LOG_2_3, decayed + _LOG_2_3 + _LOG_2)
        square = xp.logaddexp(square, from_input + p[..., k] + xp.logaddexp(p[..., k], earlier))
        means.append(xp.logaddexp(total, p[..., k]))
        squares.append(square)
    return xp.stack(means, axis=-1), xp.stack(squares, axis=-1)


def _of_biases(xp: Any, b: Any, up: Any, a: Any, alive: Any) -> tuple[Any, Any]:
    """Return log ``E Theta_b`` and log ``E Theta_b^2`` by depth."""
    total = rest = -xp.inf * xp.ones_like(b[..., 0])
    before = xp.zeros_like(b[..., 0])  # log of D_l; the term of the output has no such factor
    means, squares = [], []
    for k in range(b.shape[-1]):
        if k:
            rest = 2 * a + up[..., k] + xp.logaddexp(rest, before + 2 * b[..., k - 1])
            total = a + xp.logaddexp(total, before + b[..., k - 1])
            before = before + alive[..., k]
        rest = xp.logaddexp(rest, _LOG_2 + b[..., k] + total)
        means.append(xp.logaddexp(total, b[..., k]))
        squares.append(xp.logaddexp(rest, 2 * b[..., k]))
    return xp.stack(means, axis=-1), xp.stack(squares, axis=-1)


def _across(xp: Any, p: Any, b: Any, steps: tuple[Any, Any, Any]) -> Any:
    """Return log ``E Theta_W Theta_b`` by depth, from log ``p`` including its powers of ``a``."""
    up, down, a = steps
    weights = grown = decayed = mixed = -xp.inf * xp.ones_like(b[..., 0])
    found = []
    for k in range(b.shape[-1]):
        if k:
            mixed = 2 * a + up[..., k] + mixed
            weights = a + xp.logaddexp(weights, p[..., k - 1])
            grown = a + up[..., k] + xp.logaddexp(grown, b[..., k - 1])
            decayed = a + down[..., k] + xp.logaddexp(decayed, b[..., k - 1])
        coupled = xp.logaddexp(grown - _LOG_2 + _LOG_2_3, decayed + _LOG_2_3)
        ends_here = xp.logaddexp(p[..., k] + xp.logaddexp(b[..., k], coupled), weights + b[..., k])
        mixed = xp.logaddexp(mixed, ends_here)
        found.append(mixed)
    return xp.stack(found, axis=-1)


@_checked()
def gradient_norms(xp: Any, widths: Any, weight_variance: Any, slope: Any) -> Any:
    r"""Return :math:`E |\delta^\ell|^2 = D_\ell a^{L-\ell}` for ``l = 1..L``, shape ``batch + (L,)``.

    Parameters
    ----------
    xp : namespace
        NumPy, or another namespace of arrays.
    widths : array, shape batch + (L,)
        Input and hidden widths, whole numbers from 1.
    weight_variance : array, shape batch
        :math:`\sigma_w^2 > 0`.
    slope : array, shape batch
        Slope of the units at negative arguments.

    Returns
    -------
    array, shape batch + (L,)

    Raises
    ------
    TypeError
        If an argument is not real.
    ValueError
        If a width is no positive integer, a variance is not positive, or shapes do not broadcast.
    OverflowError
        If the result leaves the range of doubles.

    Notes
    -----
    Source: Seleznova (2024), section 3.1, (8), (9). ``linsolve card NTKMoments`` lists the published formulas and their
    verdicts.
    """
    second, _ = spread(slope)
    zero = 0 * widths + 0 * (second * weight_variance)[..., None]
    may_die = xp.where((slope + 0 * second)[..., None] == 0, 2.0**-widths, zero)
    # the gradient at l is 0 if one of the layers 1..l-1 is dead; the gradient of the output is never 0
    hidden = xp.concat([zero[..., :1], xp.cumsum(xp.log1p(-may_die[..., 1:-1]), axis=-1), zero[..., :1]], axis=-1)
    depth = widths.shape[-1]
    return xp.exp(hidden + (depth - 1 - xp.arange(depth)) * _log(xp, weight_variance * second)[..., None])


@_checked()
def correlation(xp: Any, widths: Any, slope: Any) -> Any:
    r"""Return :math:`E|\delta^1|^2 |x^{L-1}|^2 / (E|\delta^1|^2\, E|x^{L-1}|^2) = \mathcal C_{1L}`, shape batch.

    Both factors depend on the same weights. For ReLU the mean of :math:`|\delta^1|^2` is :math:`a^{L-1}`, without the
    factor for dead layers, since a network with a dead layer also has :math:`x^{L-1} = 0`. See `log_moments`.

    Parameters
    ----------
    xp : namespace
        NumPy, or another namespace of arrays.
    widths : array, shape batch + (L,)
        Input and hidden widths, whole numbers from 1.
    slope : array, shape batch
        Slope of the units at negative arguments.

    Returns
    -------
    array, shape batch

    Raises
    ------
    TypeError
        If an argument is not real.
    ValueError
        If a width is no positive integer, a slope is not finite, or shapes do not broadcast.
    OverflowError
        If the result leaves the range of doubles.
    """
    _, c = spread(slope)
    grown, fallen = 1 + c[..., None] / widths[..., 1:], 1 - 1 / widths[..., 1:]
    return xp.prod(grown, axis=-1) / 3 + 2 * xp.prod(fallen, axis=-1) / 3


@_checked(logarithm=True)
def moments(
    widths: Any, weight_variance: Any, slope: Any = 0.0, *, bias_variance: Any = 0.0, weights: str = "standard"
) -> Moments:
    r"""Return `log_moments` in NumPy for an input with :math:`|x^0| = 1`.

    Parameters
    ----------
    widths : array_like, shape batch + (L,)
        Input and hidden widths, whole numbers from 1.
    weight_variance : array_like, shape batch
        :math:`\sigma_w^2 > 0`: 2 for ReLU and 1 for linear units at the edge of chaos.
    slope : array_like, shape batch
        Slope of the units at negative arguments.
    bias_variance : array_like, shape batch
        :math:`\sigma_b^2`, for NTK weights only, where it scales the biases' part of the kernel.
    weights : {"standard", "ntk"}
        See `parametrization`.

    Raises
    ------
    ValueError
        If a width is not a positive integer, `weight_variance` is not positive, or `bias_variance` is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import ntk
    >>> found = ntk.moments([2, 4], weight_variance=2.0)
    >>> [np.exp(part).round(6).tolist() for part in (found.weights, found.biases)]  # by depth: 1, 1 + 4/2; 1, 1 + 1
    [[1.0, 3.0], [1.0, 2.0]]
    """
    choice("moments", "weights", weights, ("standard", "ntk"))
    omega, beta = parametrization(weights, widths, weight_variance, bias_variance)
    return log_moments(np, widths, weight_variance, slope, omega, beta, np.asarray(1.0))
