"""Joint limits of large depth and width for the tangent kernel, by phase: dispersion and change in the first step."""

from __future__ import annotations

import functools
import math
from typing import Any

from linsolve.core.arguments import Interval, choice, real_array
from linsolve.numerics.checked import Argument, checked

__all__ = [
    "ARGUMENTS", "PHASES", "crossover", "dispersion", "first_step",
    "of_biases", "of_both", "of_weights", "phi_1", "phi_2", "phi_3",
]  # fmt: skip

PHASES = ("ordered", "edge of chaos", "chaotic")
_TERMS = 22  # the last term of the series is below 1e-21 at |z| = 1


ARGUMENTS = {
    "z": Argument("argument"),
    "ratio": Argument("depth over width", "[0, inf)"),
    "c": Argument("growth of mean squares by a layer, times its width", "[0, inf)"),
    "biases": Argument("mean of the biases' part over that of the weights'", "[0, inf)"),
    "gain": Argument("depth times the logarithm of the gain of a layer"),
}
_checked = functools.partial(checked, ARGUMENTS)


def _series(z: Any, first: int) -> Any:
    total = 0 * z
    for k in reversed(range(_TERMS)):
        total = total * z + 1 / math.factorial(k + first)
    return total


def _phi(xp: Any, order: int, offset: Any, shift: Any = None) -> Any:
    r"""Return :math:`e^{-s} \varphi_k(s + a)`, offset ``a`` and shift ``s >= 0``, finite at large ``s``."""
    shift = 0 * offset if shift is None else shift
    z, down = shift + offset, xp.exp(-shift)
    small = xp.abs(z) < 1
    near, far = xp.where(small, z, 0 * z), xp.where(small, xp.ones_like(z), z)
    value = (xp.exp(offset) - down) / far
    for k in range(1, order):
        value = (value - down / math.factorial(k)) / far
    return xp.where(small, down * _series(near, order), value)


@_checked()
def phi_1(xp: Any, z: Any) -> Any:
    r"""Return :math:`\varphi_1 = (e^z - 1)/z`, 1 at 0.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import limits
    >>> limits.phi_1(np, np.array([0.0, np.log(2)])).round(6).tolist()  # 1, 1/log(2)
    [1.0, 1.442695]
    """
    return _phi(xp, 1, z)


@_checked()
def phi_2(xp: Any, z: Any) -> Any:
    r"""Return :math:`\varphi_2 = (e^z - 1 - z)/z^2`, 1/2 at 0.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import limits
    >>> limits.phi_2(np, np.array([0.0, 1.0])).round(6).tolist()  # 1/2, e - 2
    [0.5, 0.718282]
    """
    return _phi(xp, 2, z)


@_checked()
def phi_3(xp: Any, z: Any) -> Any:
    r"""Return :math:`\varphi_3 = (\varphi_2 - 1/2)/z`, 1/6 at 0.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import limits
    >>> limits.phi_3(np, np.array([0.0, 1.0])).round(6).tolist()  # 1/6, e - 5/2
    [0.166667, 0.218282]
    """
    return _phi(xp, 3, z)


def _steepness(xp: Any, a: Any, b: Any, shift: Any = None) -> Any:
    r"""Return :math:`e^{-s}` times the divided difference of `phi_1` between ``x = s + a`` and ``y = s + b``.

    It is the second divided difference of exp at 0, ``x`` and ``y``.
    """
    shift = 0 * (a + b) if shift is None else shift + 0 * (a + b)
    x, y = shift + a, shift + b
    small = (xp.abs(x) < 1) & (xp.abs(y) < 1)
    u, v = xp.where(small, x, 0 * x), xp.where(small, y, 0 * y)
    # sum of [z^k] = (x^k - y^k)/(x - y) over (k + 1)!, with [z^(k+1)] = x [z^k] + y^k
    power, between, total = xp.ones_like(v), xp.ones_like(v), 0 * v
    for k in range(1, _TERMS):
        total = total + between / math.factorial(k + 1)
        power = power * v
        between = u * between + power
    # of the three orders of nested differences, the one with the largest divisor does not cancel
    gap, first, last, one = xp.abs(a - b), xp.abs(x), xp.abs(y), xp.ones_like(x)
    by_gap, by_first = (gap >= first) & (gap >= last), first >= last
    at_x, at_y = _phi(xp, 1, a + 0 * shift, shift), _phi(xp, 1, b + 0 * shift, shift)
    between_both = xp.exp(xp.where(a > b, a, b)) * _phi(xp, 1, -gap)
    top = xp.where(by_gap, at_x - at_y, between_both - xp.where(by_first, at_y, at_x))
    below = xp.where(by_gap, a - b, xp.where(by_first, x, y))
    return xp.where(small, xp.exp(-shift) * total, top / xp.where(small, one, below))


@_checked()
def of_weights(xp: Any, ratio: Any, c: Any) -> Any:
    r"""Return :math:`V_W = \lim E\Theta_W^2 / (E\Theta_W)^2` for :math:`L/M \to \lambda`.

    .. math:: V_W = e^{c\lambda} \bigl[ \tfrac13 + \tfrac43 \varphi_2(-(c + 1)\lambda) \bigr] .

    Parameters
    ----------
    ratio : array
        :math:`\lambda \ge 0`.
    c : array
        5 for ReLU, 2 for linear units: see `linsolve.ntk.spread`.

    Notes
    -----
    Source: Seleznova (2024), section 3.2, (8). ``linsolve card NTKDispersionLimit`` lists the published formulas and
    their verdicts. The error is a few rounding errors times ``1 + c ratio``
    (``test_limits_have_full_accuracy_at_every_ratio``).

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import limits
    >>> limits.of_weights(np, np.array([0.0, 0.25, 1.0]), 5.0).round(3).tolist()  # ReLU: wide networks do not vary
    [1.0, 2.659, 76.969]
    """
    return xp.exp(c * ratio) * (1 / 3 + 4 / 3 * _phi(xp, 2, -(c + 1) * ratio))


@_checked()
def of_biases(xp: Any, ratio: Any, c: Any) -> Any:
    r"""Return :math:`V_b = \lim E\Theta_b^2/(E\Theta_b)^2 = 2 \varphi_2(c \lambda)` at the edge of chaos.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import limits
    >>> limits.of_biases(np, np.array([0.0, 0.2]), 5.0).round(6).tolist()  # 1, 2 (e - 2)
    [1.0, 1.436564]
    """
    return 2 * _phi(xp, 2, c * ratio)


@_checked()
def of_both(xp: Any, ratio: Any, c: Any) -> Any:
    r"""Return :math:`V_{Wb} = \lim E\Theta_W\Theta_b/(E\Theta_W E\Theta_b)` at the edge of chaos, ``x = c lambda``.

    .. math:: V_{Wb} = \tfrac13 (\varphi_1(x) - \varphi_2(x))
        + \tfrac23 \frac{\varphi_1(x) - \varphi_1(-\lambda)}{(c + 1) \lambda} + \varphi_2(x) .

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import limits
    >>> limits.of_both(np, np.array([0.0, 0.2]), 5.0).round(3).tolist()
    [1.0, 1.503]
    """
    x = c * ratio
    second = _phi(xp, 2, x)
    return (_phi(xp, 1, x) - second) / 3 + 2 / 3 * _steepness(xp, x, -ratio) + second


@_checked()
def dispersion(xp: Any, found: str, ratio: Any, c: Any, biases: Any) -> Any:
    r"""Return :math:`\lim E\Theta^2/(E\Theta)^2` as :math:`L, M \to \infty`, :math:`L/M \to \lambda`, constant width.

    .. math:: V = 1 \text{ (ordered)}, \qquad V = V_W \text{ (chaotic)}, \qquad
        V = \frac{V_W + 2 \alpha V_{Wb} + \alpha^2 V_b}{(1 + \alpha)^2} \text{ (edge of chaos)},

    with :math:`\alpha = E\Theta_b / E\Theta_W`. For standard weights this is :math:`n_0 / (M |x^0|^2)`. Without the
    biases' part, :math:`\alpha = 0`, the limit is :math:`V_W` in all phases.

    Parameters
    ----------
    found : {"ordered", "edge of chaos", "chaotic"}
        Phase.
    ratio, c : array
        See `of_weights`.
    biases : array
        :math:`\alpha`.

    Notes
    -----
    Source: Seleznova (2024), section 3.2, (8)-(10). ``linsolve card NTKDispersionLimit`` lists the published formulas
    and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import limits
    >>> [round(float(limits.dispersion(np, phase, np.array(1.0), 5.0, np.array(1.0))), 3) for phase in limits.PHASES]
    [1.0, 30.506, 76.969]
    """
    choice("dispersion", "found", found, PHASES)
    weights = of_weights(xp, ratio, c) + 0 * biases
    if found == "chaotic":
        return weights
    if found == "ordered":
        return xp.where(biases > 0, xp.ones_like(weights), weights)
    mixed = weights + 2 * biases * of_both(xp, ratio, c) + biases**2 * of_biases(xp, ratio, c)
    return mixed / (1 + biases) ** 2


@_checked()
def crossover(xp: Any, ratio: Any, c: Any, biases: Any, gain: Any) -> Any:
    r"""Return :math:`\lim E\Theta^2/(E\Theta)^2` between the phases, where :math:`L \ln a \to \nu`.

    The edge of chaos has a width of order ``1/L`` in ``a``. With :math:`x = c\lambda` and the divided difference
    :math:`\varphi_1[u, v] = (\varphi_1(u) - \varphi_1(v))/(u - v)`,

    .. math:: V = \frac{e^{2\nu} V_W + 2 \alpha e^\nu I + 2 \alpha^2 \varphi_1[2\nu + x, \nu]}
        {(e^\nu + \alpha \varphi_1(\nu))^2}, \qquad
        I = \tfrac13 (\varphi_1 + 2 \varphi_2)(\nu + x) + \tfrac23 \varphi_1[\nu + x, \nu - \lambda],

    which tends to the three limits of `dispersion` as :math:`\nu \to -\infty, 0, \infty`.

    Parameters
    ----------
    ratio, c, biases : array
        See `dispersion`; :math:`\alpha` is the ratio at :math:`\nu = 0`.
    gain : array
        :math:`\nu`.

    Notes
    -----
    Not in the source, which has the three phases only. The law ``NTKDispersionCrossover`` checks this function.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import limits
    >>> ratio, biases, gain = np.array(1.0), np.array(1.0), np.array([-30.0, 0.0, 30.0])
    >>> limits.crossover(np, ratio, 5.0, biases, gain).round(3).tolist()
    [1.091, 30.506, 75.884]
    """
    x, safe = c * ratio, xp.where(biases > 0, biases, xp.ones_like(biases))
    gain = xp.minimum(xp.maximum(gain, -1e100 + 0 * gain), 1e100 + 0 * gain)  # exact beyond these bounds
    positive = gain > 0
    # in units of e^(shift), the larger of the two parts, so that neither limit overflows
    shift, down = xp.where(positive, gain, 0 * gain), xp.exp(xp.where(positive, 0 * gain, gain))

    def offset(given: Any, less: Any) -> Any:
        return xp.where(positive, less, given)

    ahead, behind = offset(gain + x, x + 0 * gain), offset(gain - ratio, -ratio + 0 * gain)
    first, second = _phi(xp, 1, ahead, shift), _phi(xp, 2, ahead, shift)
    both = (first + 2 * second + 2 * _steepness(xp, ahead, behind, shift)) / 3
    twice = offset(2 * gain + x, x + 0 * gain), offset(gain, -gain)
    own = 2 * safe**2 * _steepness(xp, *twice, 2 * shift)
    weights = of_weights(xp, ratio, c)
    square = down**2 * weights + 2 * safe * down * both + own
    mean = down + safe * _phi(xp, 1, offset(gain, 0 * gain), shift)
    return xp.where(biases > 0, square / mean / mean, weights + 0 * mean)


@_checked(
    biases=Argument("mean of the biases' part over that of the weights'", "(0, inf)"),
    gain=Argument("gain of a layer", "[0, inf)"),
)
def first_step(xp: Any, found: str, ratio: Any, c: Any, biases: Any, gain: Any) -> Any:
    r"""Return the limit of the scaled mean derivative along the first step, :math:`r = -E\Delta\Theta/(\eta E\Theta)`.

    With gates held, for learning rate :math:`\eta` and the loss :math:`(f - y)^2/2` at the same input, standard
    weights and constant width, with :math:`\alpha = n_0/(M |x^0|^2)` and :math:`x = c\lambda`,

    .. math:: \frac{M r}{a^L} \to \frac{4 (c + 1)}{3 \alpha (1 - a)^2} \text{ (ordered)}, \qquad
        \frac{r}{L} \to \frac{4 (F_W + \alpha F_b)}{\alpha (1 + \alpha)} \text{ (edge of chaos)}, \qquad
        \frac{r}{L a^{L-1}} \to \frac{4 F_W}{\alpha} \text{ (chaotic)},

    .. math:: F_W = \tfrac13 (c + 1) \lambda\, e^x \varphi_3(-(c + 1) \lambda), \qquad
        F_b = \tfrac13 \bigl( \varphi_1'(x) - \varphi_1[x, -\lambda] \bigr) .

    Parameters
    ----------
    found : {"ordered", "edge of chaos", "chaotic"}
        Phase.
    ratio, c, biases : array
        See `dispersion`.
    gain : array
        ``a``, below 1 in the ordered phase and not used in the others.

    Notes
    -----
    Source: Seleznova (2024), section 3.2, theorem 4.1, which states the limits 0 and infinity; see
    `linsolve.ntk.first_step`.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import limits
    >>> float(limits.first_step(np, "ordered", np.array(1.0), 5.0, np.array(1.0), gain=0.5))  # 4 (5 + 1)/3 / (1/2)^2
    32.0
    """
    choice("first_step", "found", found, PHASES)
    if found == "ordered":
        real_array("first_step", "gain", gain, meaning="gain of a layer, ordered phase", domain=Interval("[0, 1)"))
        return 4 * (c + 1) / 3 / biases / (1 - gain) ** 2 + 0 * ratio
    x = c * ratio
    weights = (c + 1) * ratio / 3 * xp.exp(x) * _phi(xp, 3, -(c + 1) * ratio)
    if found == "chaotic":
        return 4 * weights / biases
    return 4 * (weights + biases * _bent(xp, x, -ratio) / 3) / biases / (1 + biases)


def _bent(xp: Any, x: Any, y: Any) -> Any:
    """Return the derivative of `phi_1` at ``x`` minus its divided difference between ``x`` and ``y``."""
    small = (xp.abs(x) < 1) & (xp.abs(y) < 1)
    u, v = xp.where(small, x, 0 * x), xp.where(small, y, 0 * y)
    # over (k + 1)!, z^k has the difference (x - y) times [x, x, y], with [z^(k+1)] = x [z^k] + [x, y] of z^k
    power, between, twice, total = xp.ones_like(v), xp.ones_like(v), xp.ones_like(v), 0 * v
    for k in range(2, _TERMS):
        total = total + twice / math.factorial(k + 1)
        power = power * v
        between = u * between + power
        twice = u * twice + between
    return xp.where(small, (u - v) * total, _steepness(xp, x, x) - _steepness(xp, x, y))
