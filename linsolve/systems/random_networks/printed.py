"""Formulas of Seleznova (2024), section 3.2, as published, for comparison with `limits` and `kernel_moments`."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.arguments import integer
from linsolve.numerics.checked import Argument, checked
from linsolve.systems.random_networks import limits
from linsolve.systems.random_networks.kernel_moments import ARGUMENTS

__all__ = ["edge_limit", "finite", "pair_bound", "weights_limit"]


@checked(limits.ARGUMENTS)
def weights_limit(xp: Any, ratio: Any) -> Any:
    r"""Return the limit in the chaotic phase by (8); compare `linsolve.systems.random_networks.limits.of_weights`.

    .. math:: \frac{e^{5\lambda}}{2\lambda} \Bigl( 1 - \frac{1 - e^{-4\lambda}}{4\lambda} \Bigr) .

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import limits, printed
    >>> ratio = np.array([0.25, 0.5, 1.0, 2.0])
    >>> (printed.weights_limit(np, ratio) / limits.of_weights(np, ratio, 5.0)).round(3).tolist()
    [0.966, 0.891, 0.728, 0.503]
    """
    return 2 * xp.exp(5 * ratio) * limits.phi_2(xp, -4 * ratio)


@checked(limits.ARGUMENTS)
def edge_limit(xp: Any, ratio: Any, biases: Any) -> Any:
    r"""Return the limit at the edge of chaos by (9), where `biases` is :math:`\alpha_0 = n_0/M`, :math:`|x| = 1`.

    Compare `linsolve.systems.random_networks.limits.dispersion`.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.random_networks import printed
    >>> round(float(printed.edge_limit(np, np.array(1.0), np.array(1.0))), 3)
    23.166
    """
    first = limits.phi_1(xp, 5 * ratio) - limits.phi_1(xp, ratio)
    both = first / (4 * ratio) + limits.phi_2(xp, 5 * ratio)
    own = limits.of_biases(xp, ratio, 5 + 0 * ratio)
    return (weights_limit(xp, ratio) + 2 * biases * both + biases**2 * own) / (1 + biases) ** 2


@checked(ARGUMENTS, single=True)
def finite(widths: np.ndarray, weight_variance: float) -> np.ndarray:
    r"""Return :math:`E\Theta^2/(E\Theta)^2` of ReLU networks by (11)-(15) for all depths 1 to L, :math:`|x| = 1`.

    The published (13) lacks the factor 2 of the cross terms, multiplies them by :math:`\mathcal X_{1L}`, and has
    :math:`\mathcal C = \prod (1 + 1/n)`. Compare `linsolve.systems.random_networks.kernel_moments`.

    Parameters
    ----------
    widths : ndarray, shape (L,)
        :math:`n_0, \dots, n_{L-1}`.
    weight_variance : float
        :math:`\sigma_w^2`.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import ntk
    >>> widths = np.array([3, 10, 10, 10])
    >>> true = np.exp(ntk.moments(widths, 2.0).log_dispersion(np))
    >>> (ntk.printed.finite(widths, 2.0) / true).round(3).tolist()  # by depth
    [1.0, 0.963, 0.933, 0.941]
    """
    a = float(weight_variance) / 2
    unit = max(a, 1.0)  # all terms in units of its powers, so that nothing overflows
    t, u = a / unit, 1.0
    grown, squares = 1.0, 0.0
    crossed = total = biases = rest = mixed = coupled = chain = last = 0.0
    found = []
    for k, p in enumerate(widths / widths[0]):
        if k:
            up, small = 1 + 5 / widths[k], 1 + 1 / widths[k]
            grown, chain = grown * up, (chain + last) * small
            rest, mixed = t**2 * up * (rest + u**2), t**2 * up * mixed
            biases, coupled, u = t * (biases + u), t * small * (coupled + u), u / unit
        squares, crossed = squares + p**2, crossed + p * chain
        rest, mixed = rest + 2 * u * biases, mixed + t**k * (p * (coupled + u) + u * total)
        total, last = total + p, p
        square = t ** (2 * k) * grown * (squares + crossed) + 2 * mixed + rest + u**2
        found.append(square / (t**k * total + biases + u) ** 2)
    return np.array(found)


@checked(
    {
        "gain": Argument("gain of a layer, half of the weight variance", "(0, inf)"),
        "cosine": Argument("cosine of the two inputs", "[-1, 1]"),
    },
    single=True,
)
def pair_bound(depth: int, gain: float, cosine: float) -> np.ndarray:
    r"""Return the estimate (18) of :math:`E\Theta(x, x')/E\Theta(x, x)` of ReLU networks, for depths 1 to `depth`.

    .. math:: \frac{\sum_\ell a^{L-\ell} \prod_{k=\ell}^{L-1} g(\rho_{k-1})}{\sum_\ell a^{L-\ell}}, \qquad
        g = \frac12 + \frac{\arcsin \rho}{\pi}, \quad
        \rho_k = \frac1\pi \Bigl(\sqrt{1 - \rho_{k-1}^2} + \rho_{k-1} \frac\pi2 + \rho_{k-1} \arcsin \rho_{k-1}\Bigr),

    the ratio of the biases' part at infinite width. Compare `linsolve.ntk.pair_ratio`.

    Examples
    --------
    >>> from linsolve.systems.random_networks import printed
    >>> printed.pair_bound(3, 0.8, 0.0).round(4).tolist()
    [1.0, 0.7778, 0.6867]
    """
    rho, pairs, all_, found = cosine, 0.0, 0.0, []
    for _ in range(integer("pair_bound", "depth", depth, meaning="layers", low=1, high=10**6, example=10)):
        found.append((pairs + 1) / (all_ + 1))
        turned = np.arcsin(rho)
        pairs, all_ = gain * (0.5 + turned / np.pi) * (pairs + 1), gain * (all_ + 1)
        rho = min((np.sqrt(1 - rho**2) + rho * (np.pi / 2 + turned)) / np.pi, 1.0)
    return np.array(found)
