"""Infinitely wide networks at initialization: Gaussian averages, kernels, phases and the edge of chaos."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import choice, integer, number
from linsolve.numerics.checked import Argument, checked
from linsolve.systems.random_networks import hyperbolic_tangent
from linsolve.systems.random_networks.limits import PHASES

__all__ = [
    "ACTIVATIONS", "CHI_ERROR", "Activation", "Edge",
    "chi", "edge_of_chaos", "error_function", "fixed_point", "kernels", "named", "phase", "piecewise_linear",
]  # fmt: skip

_EPS = 2.0**-52
CHI_ERROR = 8 * _EPS  # bound of the relative error of `chi`, for exact or correctly rounded arguments

_checked = functools.partial(
    checked,
    {
        "weight_variance": Argument("variance of the weights times fan-in", "[0, inf)"),
        "bias_variance": Argument("variance of the biases", "[0, inf)"),
        "q": Argument("variance of the preactivations", "[0, inf)"),
        "s11": Argument("variance of u", "[0, inf)"),
        "s22": Argument("variance of v", "[0, inf)"),
        "s12": Argument("covariance of u and v"),
        "slope": Argument("slope of the units at negative arguments"),
        "gram": Argument("x.x'/n_0 of the inputs", axes=("sample", "sample")),
    },
)


class Activation(NamedTuple):
    r"""An activation function: its Gaussian averages, its function and its derivative.

    ``averages(xp, s11, s22, s12)`` returns :math:`E \phi(u) \phi(v)` and :math:`E \phi'(u) \phi'(v)` for ``(u, v)``
    normal with these covariances.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import mean_field
    >>> relu = mean_field.named("relu")
    >>> relu.derivative(np.array([-1.0, 2.0])).tolist()
    [0.0, 1.0]
    >>> [round(float(mean), 6) for mean in relu.averages(np, np.array(1.0), np.array(1.0), np.array(1.0))]  # u = v
    [0.5, 0.5]
    """

    averages: Callable[..., tuple[Any, Any]]
    function: Callable[[np.ndarray], np.ndarray]
    derivative: Callable[[np.ndarray], np.ndarray]


@_checked()
def piecewise_linear(xp: Any, s11: Any, s22: Any, s12: Any, slope: Any = 0.0) -> tuple[Any, Any]:
    r"""Return the averages of units with `slope` at negative arguments.

    For ReLU (slope 0), :math:`\vartheta = \operatorname{atan2}(r, \Sigma_{12})`, :math:`r^2 = \Sigma_{11}
    \Sigma_{22} - \Sigma_{12}^2`,

    .. math:: E \phi \phi = \frac{r + (\pi - \vartheta) \Sigma_{12}}{2 \pi}, \qquad
        E \phi' \phi' = \frac{\pi - \vartheta}{2 \pi},

    and any slope ``s`` follows from :math:`\phi(u) = r(u) - s\, r(-u)`: ``s = 1`` gives :math:`\Sigma_{12}` and 1.
    """
    _refuse_no_covariance(xp, "piecewise_linear", s11, s22, s12)
    rest = s11 * s22 - s12**2
    rest = xp.sqrt(xp.where(rest > 0, rest, 0 * rest))  # rounding may make this negative for equal inputs
    angle = xp.atan2(rest, s12)
    same, opposite = rest + (xp.pi - angle) * s12, rest - angle * s12
    value = (1 + slope**2) * same - 2 * slope * opposite
    return value / (2 * xp.pi), ((1 + slope**2) * (xp.pi - angle) + 2 * slope * angle) / (2 * xp.pi)


@_checked()
def error_function(xp: Any, s11: Any, s22: Any, s12: Any) -> tuple[Any, Any]:
    r"""Return the averages of units :math:`\phi = \operatorname{erf}`.

    .. math:: E \phi \phi = \frac2\pi \arcsin \frac{2 \Sigma_{12}}{\sqrt{(1 + 2\Sigma_{11})(1 + 2\Sigma_{22})}},
        \qquad E \phi' \phi' = \frac4\pi \bigl[(1 + 2\Sigma_{11})(1 + 2\Sigma_{22}) - 4\Sigma_{12}^2\bigr]^{-1/2} .

    Source: Seleznova (2024), appendix E.2. ``linsolve card NTKMoments`` lists the published formulas and their
    verdicts.
    """
    _refuse_no_covariance(xp, "error_function", s11, s22, s12)
    # the determinant s11 s22 - s12^2 is exactly 0 for equal inputs
    apart = s11 * s22 - s12**2
    root = xp.sqrt(1 + 2 * (s11 + s22) + 4 * xp.where(apart > 0, apart, 0 * apart))
    # near equal inputs of large variance atan2 is accurate and arcsin is not
    return 2 / xp.pi * xp.atan2(2 * s12, root), 4 / xp.pi / root


def _refuse_no_covariance(xp: Any, who: str, s11: Any, s22: Any, s12: Any) -> None:
    """Raise if a covariance exceeds the geometric mean of the variances by more than rounding."""
    largest = xp.sqrt(s11) * xp.sqrt(s22)
    bad = arithmetic.to_numpy(xp.abs(s12) > largest * (1 + 1e-6) + 0 * s12)
    if bad.any():
        sizes = [np.broadcast_to(arithmetic.to_numpy(v), bad.shape)[bad][0] for v in (s12, largest)]
        raise ValueError(
            f"{who}: s12 = {float(sizes[0]):.6g} must be at most sqrt(s11 s22) = {float(sizes[1]):.6g} in size "
            "(covariance of u and v); pass a positive semi-definite covariance"
        )


def _erf(h: np.ndarray) -> np.ndarray:
    from scipy.special import erf

    return erf(h)


def _line(slope: float) -> Activation:
    return Activation(
        functools.partial(piecewise_linear, slope=slope),
        lambda h: np.where(h > 0, h, slope * h),
        lambda h: np.where(h > 0, 1.0, slope),
    )


ACTIVATIONS = {
    "relu": _line(0.0),
    "linear": _line(1.0),
    "erf": Activation(error_function, _erf, lambda h: 2 / math.sqrt(math.pi) * np.exp(-(h**2))),
    "tanh": Activation(hyperbolic_tangent.averages, np.tanh, lambda h: 1 - np.tanh(h) ** 2),
}


def named(activation: str | float, who: str = "named") -> Activation:
    """Return an activation function by name, or the piecewise linear one with this slope at negative arguments.

    Parameters
    ----------
    activation : str or float
        One of `ACTIVATIONS`, or the slope at negative arguments.
    who : str
        Function that was called, for errors.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import mean_field
    >>> mean_field.named(0.1).function(np.array([-1.0, 2.0])).tolist()  # leaky
    [-0.1, 2.0]
    """
    if isinstance(activation, str):
        return ACTIVATIONS[choice(who, "activation", activation, ACTIVATIONS)]
    meaning = "slope of the units at negative arguments, or a name"
    return _line(number(who, "activation", activation, meaning=meaning, domain="(-inf, inf)", example=0.1))


@_checked()
def kernels(
    xp: Any, activation: Activation | str | float, gram: Any, depth: int, weight_variance: Any, bias_variance: Any
) -> tuple[Any, Any]:
    r"""Return output covariance and tangent kernel at infinite width, NTK weights, after `depth` layers.

    .. math:: \Sigma^1 = \Theta^1 = \sigma_w^2 \frac{x \cdot x'}{n_0} + \sigma_b^2, \qquad
        \Sigma^{\ell+1} = \sigma_w^2 E \phi \phi + \sigma_b^2, \qquad
        \Theta^{\ell+1} = \Sigma^{\ell+1} + \sigma_w^2\, E \phi' \phi'\, \Theta^\ell,

    with averages over :math:`\Sigma^\ell`. The output is a Gaussian process with covariance :math:`\Sigma^L`, trained
    with the kernel :math:`\Theta^L`.

    Parameters
    ----------
    activation : Activation, str or float
        See `named`.
    gram : array, shape batch + (sample, sample)
        :math:`x \cdot x' / n_0`.
    depth : int
        Number ``L`` of layers of weights, at least 1.
    weight_variance, bias_variance : array, shape batch
        :math:`\sigma_w^2` and :math:`\sigma_b^2`.

    Raises
    ------
    ValueError
        If `depth` is below 1, a variance is negative, or `gram` is not a Gram matrix.
    OverflowError
        If the kernels are beyond the range of doubles.

    Notes
    -----
    Source: Seleznova (2024), (2.30), (2.31), (2.55), (2.56). ``linsolve card NTKMoments`` lists the published formulas
    and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import mean_field
    >>> gram = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> output, tangent = mean_field.kernels(np, mean_field.named("linear"), gram, 3, 1.0, 0.0)
    >>> output.tolist(), tangent.tolist()  # the tangent kernel has a share of each of three layers
    ([[1.0, 0.5], [0.5, 1.0]], [[3.0, 1.5], [1.5, 3.0]])
    """
    depth = integer("kernels", "depth", depth, meaning="layers of weights", high=100_000, example=3)
    unit = activation if isinstance(activation, Activation) else named(activation)
    unit_matrix = xp.eye(gram.shape[-1], dtype=xp.float64)
    own = xp.sum(unit_matrix * gram, axis=-1)
    symmetric = bool(xp.all(gram == xp.matrix_transpose(gram))) and bool(xp.all(own >= 0))
    if not (symmetric and bool(xp.all(gram**2 <= own[..., :, None] * own[..., None, :] * (1 + 1e-9)))):
        raise ValueError(
            "kernels: gram must be symmetric with |gram_ij|^2 <= gram_ii gram_jj (x.x'/n_0 of the inputs); pass "
            "x @ x.T / n_0"
        )
    weight_variance, bias_variance = weight_variance[..., None, None], bias_variance[..., None, None]
    sigma = weight_variance * gram + bias_variance
    theta = sigma
    for _ in range(depth - 1):
        own = xp.sum(unit_matrix * sigma, axis=-1)
        value, slopes = unit.averages(xp, own[..., :, None], own[..., None, :], sigma)
        sigma = weight_variance * value + bias_variance
        theta = sigma + weight_variance * slopes * theta
    return sigma, theta


@_checked()
def fixed_point(xp: Any, weight_variance: Any, bias_variance: Any) -> Any:
    r"""Return the variance of the preactivations of erf networks in late layers, ``q = sigma_w^2 E phi^2 + sigma_b^2``.

    The map is increasing and concave, so that Newton's method from :math:`\sigma_w^2 + \sigma_b^2` decreases to the
    only stable fixed point. At a double root at 0 every step halves the iterate.

    Parameters
    ----------
    weight_variance, bias_variance : array
        :math:`\sigma_w^2` and :math:`\sigma_b^2`.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import mean_field
    >>> q = mean_field.fixed_point(np, np.array(1.0), np.array(0.5))
    >>> round(float(q), 4)
    0.956
    >>> round(float(2 / np.pi * np.arcsin(2 * q / (1 + 2 * q)) + 0.5), 4)  # a layer further on
    0.956
    """
    q = weight_variance + bias_variance
    for _ in range(200):
        value, slopes = _erf_averages(xp, q)
        excess, steep = weight_variance * value + bias_variance - q, 1 - weight_variance * slopes / (1 + 2 * q)
        q = q + xp.where(steep > 0, excess / xp.where(steep > 0, steep, xp.ones_like(steep)), 0 * q)
        q = xp.where(q > 0, q, 0 * q)
    return q


def _erf_averages(xp: Any, q: Any) -> tuple[Any, Any]:
    """Return `error_function` at equal inputs of variance q, in a form that neither cancels nor overflows."""
    root = xp.sqrt(q + 0.25)
    return 2 / xp.pi * xp.atan2(q, root), 2 / xp.pi / root


@_checked()
def chi(xp: Any, activation: str | float, weight_variance: Any, bias_variance: Any = 0.0) -> Any:
    r"""Return :math:`\chi_1 = \sigma_w^2 E \phi'^2` at the fixed point, the growth of squared gradients per layer.

    It is :math:`\sigma_w^2 (1 + s^2)/2` for units with slope ``s`` at negative arguments (ReLU :math:`\sigma_w^2/2`,
    linear :math:`\sigma_w^2`), for any biases. For erf and tanh it is evaluated at :math:`q^*`, see `fixed_point`; for
    tanh by quadrature.

    The relative error is below 8 eps, including rounding of the arguments
    (``test_chi_is_accurate_enough_to_decide_the_phase``); `phase` relies on it.

    Parameters
    ----------
    activation, weight_variance, bias_variance
        As for `kernels`.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import mean_field
    >>> float(mean_field.chi(np, "relu", np.array(2.0))), float(mean_field.chi(np, "linear", np.array(2.0)))
    (1.0, 2.0)
    """
    if isinstance(activation, str) and activation == "erf":
        q = fixed_point(xp, weight_variance, bias_variance)
        return weight_variance * _erf_averages(xp, q)[1]
    if isinstance(activation, str) and activation == "tanh":
        q = hyperbolic_tangent.fixed_point(xp, weight_variance, bias_variance)
        return weight_variance * hyperbolic_tangent.line(xp, q)[1]
    one = xp.ones_like(weight_variance)
    return weight_variance * named(activation).averages(xp, one, one, one)[1] + 0 * bias_variance


def phase(found: float, error: float | None = None) -> str:
    r"""Return the phase of networks with :math:`\chi_1` = `found`: the edge of chaos if it is 1 within its error.

    Parameters
    ----------
    found : float
        :math:`\chi_1`, not negative.
    error : float, optional
        Absolute error of `found`; by default the error bound of `chi`.

    Examples
    --------
    >>> from linsolve.systems.random_networks import mean_field
    >>> [mean_field.phase(chi) for chi in (0.9, 1.0, 1.1)]
    ['ordered', 'edge of chaos', 'chaotic']
    """
    found = number("phase", "found", found, meaning="chi_1, growth of gradients", domain="[0, inf)", example=1.0)
    if error is None:
        error = CHI_ERROR * found
    if abs(found - 1) <= number("phase", "error", error, meaning="error of found", domain="[0, inf)", example=1e-14):
        return PHASES[1]
    return PHASES[0] if found < 1 else PHASES[2]


class Edge(NamedTuple):
    r"""A point on the edge of chaos, where :math:`\chi_1 = 1`.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks.mean_field import Edge, chi
    >>> edge = Edge(weight_variance=np.array(2.0), bias_variance=np.array(0.0))  # of ReLU networks
    >>> float(chi(np, "relu", *edge))
    1.0
    """

    weight_variance: Any
    bias_variance: Any


@_checked()
def edge_of_chaos(xp: Any, q: Any, activation: str = "erf") -> Edge:
    r"""Return the edge of chaos of erf or tanh networks, parametrized by the fixed-point variance :math:`q^* \ge 0`.

    .. math:: \sigma_w^2 = \frac1{E \phi'^2}, \qquad \sigma_b^2 = q^* - \sigma_w^2 E \phi^2 ;

    for erf :math:`\sigma_w^2 = \frac\pi4 \sqrt{1 + 4 q^*}` and :math:`\sigma_b^2 = q^* - \frac12 \sqrt{1 + 4 q^*}
    \arcsin \frac{2 q^*}{1 + 2 q^*}`, for tanh both by quadrature.

    Parameters
    ----------
    q : array
        :math:`q^*`.
    activation : {"erf", "tanh"}

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import mean_field
    >>> edge = mean_field.edge_of_chaos(np, np.array([0.0, 1.0]))
    >>> edge.weight_variance.round(4).tolist()  # from pi/4
    [0.7854, 1.7562]
    >>> mean_field.chi(np, "erf", *edge).round(6).tolist()
    [1.0, 1.0]
    """
    if choice("edge_of_chaos", "activation", activation, ("erf", "tanh")) == "tanh":
        return Edge(*hyperbolic_tangent.edge(xp, q))
    root = xp.sqrt(1 + 4 * q)
    # with y = 2 q/root, the arcsin is arctan y and sigma_b^2 = (y - arctan y) root/2, which is of third order
    y = 2 * q / root
    small = y < 0.2
    near, series = xp.where(small, y, 0 * y), 0 * y
    for k in reversed(range(12)):
        series = 1 / (2 * k + 3) - near**2 * series
    return Edge(xp.pi / 4 * root, root / 2 * xp.where(small, near**3 * series, y - xp.atan(y)))
