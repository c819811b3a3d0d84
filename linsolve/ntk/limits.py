"""The dispersion of the tangent kernel when depth and width grow together, by phase."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["PHASES", "dispersion", "of_biases", "of_both", "of_weights", "phi_1", "phi_2"]

PHASES = ("ordered", "edge of chaos", "chaotic")
_TERMS = 22  # the last term of the series is below 1e-21 at |z| = 1


def _small(xp: Any, z: Any) -> tuple[Any, Any, Any]:
    """Return where ``|z| < 1``, ``z`` there (else 0), and ``z`` elsewhere (else 1)."""
    small = xp.abs(z) < 1
    return small, xp.where(small, z, 0 * z), xp.where(small, xp.ones_like(z), z)


def _series(z: Any, first: int) -> Any:
    total = 0 * z
    for k in reversed(range(_TERMS)):
        total = total * z + 1 / math.factorial(k + first)
    return total


def phi_1(xp: Any, z: Any) -> Any:
    r"""Return :math:`\varphi_1 = (e^z - 1)/z`, 1 at 0."""
    small, near, far = _small(xp, z)
    return xp.where(small, _series(near, 1), xp.expm1(far) / far)


def phi_2(xp: Any, z: Any) -> Any:
    r"""Return :math:`\varphi_2 = (e^z - 1 - z)/z^2`, 1/2 at 0."""
    small, near, far = _small(xp, z)
    return xp.where(small, _series(near, 2), (xp.expm1(far) - far) / far**2)


def _steepness(xp: Any, x: Any, y: Any) -> Any:
    """Return the divided difference of `phi_1` between ``x`` and ``y``."""
    small = (xp.abs(x) < 1) & (xp.abs(y) < 1)
    u, v = xp.where(small, x, 0 * x), xp.where(small, y, 0 * y)
    # sum of [z^k] = (x^k - y^k)/(x - y) over (k + 1)!, with [z^(k+1)] = x [z^k] + y^k
    power, between, total = xp.ones_like(v), xp.ones_like(v), 0 * v
    for k in range(1, _TERMS):
        total = total + between / math.factorial(k + 1)
        power = power * v
        between = u * between + power
    gap = xp.where(small, xp.ones_like(x), x - y)
    return xp.where(small, total, (phi_1(xp, x) - phi_1(xp, y)) / gap)


def of_weights(xp: Any, ratio: Any, c: Any) -> Any:
    r"""Return :math:`V_W = \lim E\Theta_W^2 / (E\Theta_W)^2` for :math:`L/M \to \lambda`.

    .. math:: V_W = e^{c\lambda} \bigl[ \tfrac13 + \tfrac43 \varphi_2(-(c + 1)\lambda) \bigr] .

    Parameters
    ----------
    ratio : array
        :math:`\lambda \ge 0`.
    c : array
        5 for ReLU, 2 for linear units: see `linsolve.ntk.moments.spread`.

    Notes
    -----
    Source: Seleznova (2024), section 3.2, (8). Erratum: :math:`e^{5\lambda}/(2\lambda)` for large :math:`\lambda`,
    where it is :math:`e^{5\lambda}/3`; at 1/4, 1/2, 1, 2 the printed value is 0.966, 0.891, 0.728, 0.503 times this
    one. It follows from :math:`\mathcal C = \prod (1 + 1/n_k)`, see `linsolve.ntk.log_moments`.
    """
    return xp.exp(c * ratio) * (1 / 3 + 4 / 3 * phi_2(xp, -(c + 1) * ratio))


def of_biases(xp: Any, ratio: Any, c: Any) -> Any:
    r"""Return :math:`V_b = \lim E\Theta_b^2/(E\Theta_b)^2 = 2 \varphi_2(c \lambda)` at the edge of chaos."""
    return 2 * phi_2(xp, c * ratio)


def of_both(xp: Any, ratio: Any, c: Any) -> Any:
    r"""Return :math:`V_{Wb} = \lim E\Theta_W\Theta_b/(E\Theta_W E\Theta_b)` at the edge of chaos, ``x = c lambda``.

    .. math:: V_{Wb} = \tfrac13 (\varphi_1(x) - \varphi_2(x))
        + \tfrac23 \frac{\varphi_1(x) - \varphi_1(-\lambda)}{(c + 1) \lambda} + \varphi_2(x) .
    """
    x = c * ratio
    second = phi_2(xp, x)
    return (phi_1(xp, x) - second) / 3 + 2 / 3 * _steepness(xp, x, -ratio) + second


def dispersion(xp: Any, found: str, ratio: Any, c: Any, biases: Any) -> Any:
    r"""Return :math:`\lim E\Theta^2/(E\Theta)^2` as :math:`L, M \to \infty`, :math:`L/M \to \lambda`, constant width.

    .. math:: V = 1 \text{ (ordered)}, \qquad V = V_W \text{ (chaotic)}, \qquad
        V = \frac{V_W + 2 \alpha V_{Wb} + \alpha^2 V_b}{(1 + \alpha)^2} \text{ (edge of chaos)},

    with :math:`\alpha = E\Theta_b / E\Theta_W`. For standard weights this is :math:`n_0 / (M |x^0|^2)`. In the ordered
    phase the biases' part must not vanish; without it the limit is :math:`V_W` in all phases.

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
    Source: Seleznova (2024), section 3.2, (8)-(10). Errata: (9) inherits that of (8) (ReLU, :math:`\alpha = \lambda =
    1`: 23.166, for 30.506 here).
    """
    if found not in PHASES:
        raise ValueError(f"dispersion: found = {found!r} is unknown (phase of the network); give one of {PHASES}")
    weights = of_weights(xp, ratio, c)
    if found == "chaotic":
        return weights
    if found == "ordered":
        return xp.ones_like(weights)
    mixed = weights + 2 * biases * of_both(xp, ratio, c) + biases**2 * of_biases(xp, ratio, c)
    return mixed / (1 + biases) ** 2
