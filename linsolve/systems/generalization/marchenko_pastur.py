r"""Averages over the Marchenko-Pastur law: a quadrature of positive terms, accurate at every aspect ratio and time.

The eigenvalues of :math:`X^T X/n` for n samples of d independent standard Gaussian inputs have, for
:math:`\gamma = d/n`, the density :math:`\sqrt{(\lambda_+ - \lambda)(\lambda - \lambda_-)}/(2 \pi \gamma \lambda)`
between :math:`\lambda_\pm = (1 \pm \sqrt\gamma)^2`, and an atom of mass :math:`\max(0, 1 - 1/\gamma)` at 0. With
:math:`\lambda = \lambda_- + 4 \sqrt\gamma/(1 + e^{-2y})` it is :math:`(2/\pi)\, \mathrm{sech}^3 y\, dy/\lambda`,
analytic for :math:`|\mathrm{Im}\, y| < \pi/2` at every :math:`\gamma`, so that the trapezoidal rule converges
geometrically.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from linsolve import arithmetic
from linsolve.arithmetic import precision
from linsolve.numerics.double_double import DoubleDouble

__all__ = ["LATEST", "Bulk", "atom", "bulk", "mean_decay", "weighted_decay"]

LATEST = 1e250  # time beyond which nodes would underflow


class Bulk(NamedTuple):
    """Lower edge of the continuous spectrum, nodes above it (last axis), and their weights."""

    edge: DoubleDouble
    heights: Any
    weights: Any

    @property
    def values(self) -> Any:
        """The eigenvalues at the nodes."""
        return self.edge.hi[..., None] + self.heights

    def mean(self, xp: Any, values: Any) -> Any:
        """Return the average of `values` at the nodes over all eigenvalues; those at 0 contribute nothing."""
        return xp.sum(self.weights * values, axis=-1)

    def decayed(self, xp: Any, tau: Any, values: Any) -> Any:
        r"""Return the average of `values` times :math:`e^{-\lambda \tau}`.

        At the edge the exponent, which may be large, is evaluated in twice the precision.
        """
        early = tau < 2.0**900  # later exp(-edge tau) is 0 or 1
        exponent = self.edge * xp.where(early, tau, 0 * tau)
        at_edge = xp.exp(-xp.where(early, exponent.hi, self.edge.hi * tau)) * (1 - exponent.lo)
        return at_edge * self.mean(xp, values * xp.exp(-self.heights * tau[..., None]))


def bulk(xp: Any, dimension: Any, samples: Any, time: Any) -> Bulk:
    r"""Return nodes and weights of the continuous spectrum for functions of :math:`\lambda t`.

    Parameters
    ----------
    xp : namespace
    dimension, samples : array
        Positive; only their ratio :math:`\gamma = d/n` counts.
    time : array
        Infinity, or at most `LATEST`; the nodes are dense where :math:`\lambda - \lambda_-` is the larger of ``1/t``
        and :math:`\lambda_-`. The shapes broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> found = bulk(np, np.array(4.0), np.array(10.0), np.array(0.0))
    >>> [float(found.mean(np, found.values**k).round(13)) for k in range(3)]  # 1, 1, 1 + gamma
    [1.0, 1.0, 1.4]
    """
    s, step, bend = _steps(xp)
    root = (DoubleDouble(xp, dimension + 0 * samples) / samples).sqrt()
    edge, width = (root - 1.0) * (root - 1.0), 4 * root.hi
    floor = xp.maximum(edge.hi, 1 / LATEST + 0 * edge.hi)
    y = bend * xp.sinh(s / bend) - _log1p_product(xp, width, xp.minimum(time, 1 / floor))[..., None] / 2
    small = xp.exp(-xp.abs(y))
    sech = 2 * small / (1 + small**2)
    heights = width[..., None] * xp.where(y > 0, 1 + 0 * y, small**2) / (1 + small**2)
    jacobian = step * xp.cosh(s / bend) * sech / xp.asin(xp.ones_like(y))
    return Bulk(edge, heights, jacobian * (sech**2 / (edge.hi[..., None] + heights)))


def _steps(xp: Any) -> tuple[Any, float, float]:
    """Return nodes, their spacing, and the distance from the center beyond which they spread out.

    The error is about ``exp(-pi^2/(2 step))``; the tails decay at least as ``exp(-abs(y))``.
    """
    eps = precision(xp)
    digits = -math.log(eps) if isinstance(eps, float) else float(-xp.log(eps))
    step, bend = 4.6 / (digits + 5), digits / 6
    half = math.ceil(bend * math.asinh((digits + 2) / bend) / step)
    return arithmetic.cast(xp, [float(k) for k in range(-half, half + 1)]) * step, step, bend


def _log1p_product(xp: Any, a: Any, b: Any) -> Any:
    """Return ``log(1 + a b)`` for nonnegative numbers whose product may overflow."""
    large = b > 1
    safe = xp.where(large, b, 1 + 0 * b)
    return xp.where(large, xp.log(safe) + xp.log(a + 1 / safe), xp.log1p(a * xp.where(large, 0 * b, b)))


def atom(xp: Any, dimension: Any, samples: Any) -> Any:
    r"""Return the share of eigenvalues that are 0, :math:`\max(0, 1 - n/d)`."""
    return xp.where(dimension > samples, (dimension - samples) / dimension, 0 * (dimension - samples))


def mean_decay(xp: Any, dimension: Any, samples: Any, tau: Any) -> Any:
    r"""Return :math:`S(\tau)`, the average of :math:`e^{-\lambda \tau}`, the atom at 0 included.

    Examples
    --------
    >>> import numpy as np
    >>> float(mean_decay(np, np.array(2.0), np.array(1.0), np.array(1e3)))
    0.5
    """
    return atom(xp, dimension, samples) + bulk(xp, dimension, samples, tau).decayed(xp, tau, 1.0)


def weighted_decay(xp: Any, dimension: Any, samples: Any, tau: Any) -> Any:
    r"""Return :math:`K(\tau) = -S'(\tau)`, the average of :math:`\lambda e^{-\lambda \tau}`.

    Examples
    --------
    >>> import numpy as np
    >>> float(weighted_decay(np, np.array(2.0), np.array(1.0), np.array(0.0)).round(14))
    1.0
    """
    found = bulk(xp, dimension, samples, tau)
    return found.decayed(xp, tau, found.values)
