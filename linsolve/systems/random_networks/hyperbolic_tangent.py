r"""Gaussian averages of tanh units, by the trapezoidal rule.

The rule converges exponentially, with an error of :math:`e^{-\pi^2/(\eta \sqrt q)}` at step :math:`\eta` from the poles
of tanh; Gauss-Hermite quadrature is far less accurate for variances above 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from linsolve import arithmetic

__all__ = ["averages", "edge", "fixed_point", "line"]

MOST = 4000  # largest number of nodes of a line
LARGE = 1500  # largest number of nodes of a line of the plane


def _grid(xp: Any, who: str, q: Any, most: int) -> tuple[Any, Any]:
    """Return nodes and weights of the standard normal distribution for functions ``tanh(sqrt(q) z)``."""
    digits = 1.3 * (xp.dps if arithmetic.is_object(xp) else 17)
    depth = digits * math.log(10)
    top = float(np.max(arithmetic.to_numpy(q), initial=0.0)) if arithmetic.readable(q) else 10.0
    step, reach = min(0.5, math.pi**2 / (depth * math.sqrt(max(top, 1e-6)))), math.sqrt(2 * depth)
    count = int(reach / step) + 1
    if 2 * count + 1 > most:
        raise ValueError(
            f"{who}: q = {top:.4g} needs {2 * count + 1} nodes, more than {most} (variance of the preactivations of "
            "tanh units); reduce the variances"
        )
    k = xp.astype(xp.arange(2 * count + 1), xp.float64) - count
    z = k * (arithmetic.cast(xp, float(count)) ** -1 * arithmetic.cast(xp, reach))
    weights = xp.exp(-(z**2) / 2)
    return z, weights / xp.sum(weights)


def _tanh(xp: Any, u: Any) -> tuple[Any, Any]:
    """Return ``tanh u`` and its derivative ``sech^2 u``, without overflow or cancellation."""
    less = xp.exp(-2 * xp.abs(u))
    return xp.sign(u) * -xp.expm1(-2 * xp.abs(u)) / (1 + less), 4 * less / (1 + less) ** 2


def line(xp: Any, q: Any) -> tuple[Any, Any, Any]:
    r"""Return :math:`E \tanh^2`, :math:`E \operatorname{sech}^4` and :math:`dE\tanh^2/dq` at variance q."""
    z, weights = _grid(xp, "tanh", q, MOST)
    root = xp.sqrt(q)[..., None]
    value, slope = _tanh(xp, root * z)
    safe = xp.where(q > 0, q, xp.ones_like(q))
    steep = xp.sum(weights * value * slope * z, axis=-1) / xp.sqrt(safe)
    steep = xp.where(q > 0, steep, xp.ones_like(q))
    return xp.sum(weights * value**2, axis=-1), xp.sum(weights * slope**2, axis=-1), steep


def edge(xp: Any, q: Any) -> tuple[Any, Any]:
    r"""Return the variances of weights and biases at which :math:`\chi_1 = 1` and the fixed point is q.

    The variance of the biases is the mean of :math:`t (u (1 - t^2/3) - t)`, :math:`t = \tanh u`, over that of
    :math:`\operatorname{sech}^4 u`: since :math:`q\, E \operatorname{sech}^4 u = E u (t - t^3/3)`, by parts.
    """
    z, weights = _grid(xp, "tanh", q, MOST)
    u = xp.sqrt(q)[..., None] * z
    value, slope = _tanh(xp, u)
    steep = xp.sum(weights * slope**2, axis=-1)
    return 1 / steep, xp.sum(weights * value * _excess(xp, u, value), axis=-1) / steep


def _excess(xp: Any, u: Any, value: Any) -> Any:
    """Return ``u (1 - t^2/3) - t`` for ``t = tanh u``, which is of fifth order, by the continued fraction of tanh."""
    small = xp.abs(u) < 2
    near = xp.where(small, u, 0 * u)
    square, tail = near**2, 0 * near
    for k in reversed(range(7, 87, 2)):
        tail = square / (k + tail)
    second = square / (5 + tail)
    first = square / (3 + second)
    below = ((1 + first) * (3 + second) * (5 + tail)) ** 2
    return xp.where(small, near**5 * (20 + 9 * tail + tail**2 - square / 3) / below, u * (1 - value**2 / 3) - value)


def averages(xp: Any, s11: Any, s22: Any, s12: Any) -> tuple[Any, Any]:
    r"""Return :math:`E \tanh u \tanh v` and :math:`E \operatorname{sech}^2 u \operatorname{sech}^2 v`.

    ``u = sqrt(s11) z1``, ``v = s12/sqrt(s11) z1 + sqrt((s11 s22 - s12^2)/s11) z2``.
    """
    s11, s22, s12 = (v + 0 * (s11 + s22 + s12) for v in (s11, s22, s12))
    z, weights = _grid(xp, "tanh", xp.maximum(s11, s22), LARGE)
    rest = s11 * s22 - s12**2
    rest = xp.where(rest > 0, rest, 0 * rest)
    some = s11 > 0
    safe = xp.where(some, s11, xp.ones_like(s11))
    along = xp.where(some, s12 / xp.sqrt(safe), 0 * s12)
    across = xp.where(some, xp.sqrt(rest / safe), xp.sqrt(s22))
    value, slopes = 0 * s12, 0 * s12
    for k in range(z.shape[0]):
        u, du = _tanh(xp, xp.sqrt(s11) * z[k])
        v, dv = _tanh(xp, (along * z[k])[..., None] + across[..., None] * z)
        value = value + weights[k] * u * xp.sum(weights * v, axis=-1)
        slopes = slopes + weights[k] * du * xp.sum(weights * dv, axis=-1)
    return value, slopes


def fixed_point(xp: Any, weight_variance: Any, bias_variance: Any) -> Any:
    """Return the stable fixed point of ``q = sigma_w^2 E tanh^2 + sigma_b^2``, by Newton's method from above."""
    q = weight_variance + bias_variance
    for _ in range(60):
        value, _, steep = line(xp, q)
        excess, rate = weight_variance * value + bias_variance - q, 1 - weight_variance * steep
        q = q + xp.where(rate > 0, excess / xp.where(rate > 0, rate, xp.ones_like(rate)), 0 * q)
        q = xp.where(q > 0, q, 0 * q)
    return q
