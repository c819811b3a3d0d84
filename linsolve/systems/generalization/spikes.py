r"""Singular values of a matrix of low rank plus noise: spikes, their overlaps with the signal, and the rest.

For a matrix of m rows and n columns, :math:`A = m/n`, of noise with variance 1/n plus a signal of singular value s, a
spike :math:`\hat s = \sqrt{(1 + s^2)(A + s^2)}/s` leaves the bulk for :math:`s > A^{1/4}`. With
:math:`\hat s^2 = 1 + A + 2 \sqrt A \cos\theta` in the bulk and :math:`q = s^2/\sqrt A`, the sum of a function over all
singular values exceeds that over the Marchenko-Pastur law by its average over

.. math:: \frac{\delta_0 + \delta_\pi}{4} - \frac{d\theta}{2 \pi}
    + \sum_s \frac{d\theta}{\pi}\, \frac{q \cos\theta - q^2}{1 - 2 q \cos\theta + q^2} ,

and by its values at the spikes: the first two terms are those of real Gaussian noise (Bai and Silverstein 2004), the
others follow from the phase of :math:`1 - q e^{-i \theta}`, of which a spike is a zero. The modes of the bulk have the
overlaps

.. math:: \sum_\beta g(\hat s_\beta)\, u \cdot \hat u_\beta\, \hat v_\beta \cdot v
    = \frac{2 s}{\pi} \int_0^\pi \frac{g(\hat s)}{\hat s} \frac{\sin^2\theta\, d\theta}{1 - 2 q \cos\theta + q^2}

with the signal.
"""

from __future__ import annotations

from typing import Any

from linsolve.numerics.quadrature import legendre

__all__ = ["bulk_overlap", "correction", "density", "overlap", "spike"]

_POINTS, _PANELS = 24, 8  # of the angle: nodes of a panel, and panels to either end, each half as long as the last


def spike(xp: Any, strengths: Any, aspect: Any) -> tuple[Any, Any]:
    """Return whether singular values of the signal leave the bulk, and the singular values of the matrix they give.

    Examples
    --------
    >>> import numpy as np
    >>> found, values = spike(np, np.array([0.5, 2.0]), np.array(0.25))
    >>> found.tolist(), values.round(4).tolist()
    ([False, True], [1.5, 2.3049])
    """
    found = strengths**4 > aspect
    safe = xp.where(found, strengths, xp.ones_like(strengths))
    above = xp.sqrt((1 + safe**2) * (aspect + safe**2)) / safe
    return found, xp.where(found, above, 1 + xp.sqrt(aspect) + 0 * strengths)


def overlap(xp: Any, strengths: Any, aspect: Any) -> Any:
    r"""Return the product of the overlaps of left and right singular vectors of spike and signal, 0 if it is hidden.

    :math:`\sqrt{1 - A (1 + s^2)/(s^2 (A + s^2))}\, \sqrt{1 - (A + s^2)/(s^2 (1 + s^2))}
    = (s^4 - A)/(s^2 \sqrt{(A + s^2)(1 + s^2)})`.

    Examples
    --------
    >>> import numpy as np
    >>> overlap(np, np.array([0.5, 2.0]), np.array(0.25)).round(4).tolist()
    [0.0, 0.8542]
    """
    found = strengths**4 > aspect
    safe = xp.where(found, strengths, xp.ones_like(strengths))
    value = (safe**4 - aspect) / (safe**2 * xp.sqrt((aspect + safe**2) * (1 + safe**2)))
    return xp.where(found, value, xp.zeros_like(value))


def correction(xp: Any, strengths: Any, aspect: Any) -> tuple[Any, Any]:
    """Return singular values in the bulk and signed weights of the correction of order 1 to sums over all modes.

    Examples
    --------
    >>> import numpy as np
    >>> strengths, aspect = np.array([2.0]), np.array(0.25)
    >>> values, weights = correction(np, strengths, aspect)
    >>> float(np.sum(weights).round(12))  # a spike is no longer in the bulk
    -1.0
    >>> float((np.sum(weights * values**2) + spike(np, strengths, aspect)[1][0] ** 2).round(12))  # the signal's square
    4.0
    """
    angles, values, weights = _bulk(xp, aspect)
    cosine, root = xp.cos(angles), xp.sqrt(aspect)
    q = strengths[..., None] ** 2 / root
    each = (q * cosine - q**2) / (1 - 2 * q * cosine + q**2)
    inside = weights * (xp.sum(each, axis=-2) - xp.ones_like(cosine) / 2)
    ends = xp.stack([1 + root, xp.abs(1 - root)])
    return xp.concat([values, ends]), xp.concat([inside, xp.ones_like(ends) / 4])


def bulk_overlap(xp: Any, strengths: Any, aspect: Any) -> tuple[Any, Any]:
    """Return singular values in the bulk, and weights of the sum of their overlaps times the signal.

    Examples
    --------
    >>> import numpy as np
    >>> strengths, aspect = np.array([0.5, 2.0]), np.array(0.25)
    >>> values, weights = bulk_overlap(np, strengths, aspect)
    >>> along = strengths * overlap(np, strengths, aspect) * spike(np, strengths, aspect)[1]
    >>> float((np.sum(weights * values) + np.sum(along)).round(12))  # the signal's square
    4.25
    """
    angles, values, weights = _bulk(xp, aspect)
    s = strengths[..., None]
    q = s**2 / xp.sqrt(aspect)
    each = 2 * s**2 * xp.sin(angles) ** 2 / (1 - 2 * q * xp.cos(angles) + q**2)
    return values, weights * xp.sum(each, axis=-2) / values


def density(xp: Any, aspect: Any) -> tuple[Any, Any]:
    """Return singular values in the bulk and the weights of the Marchenko-Pastur law, without those that are 0.

    Examples
    --------
    >>> import numpy as np
    >>> values, weights = density(np, np.array(0.25))
    >>> [float(np.sum(weights * values**k).round(12)) for k in (0, 2, 4)]  # 1, 1, 1 + A
    [1.0, 1.0, 1.25]
    """
    angles, values, weights = _bulk(xp, aspect)
    return values, 2 * weights * (xp.sin(angles) / values) ** 2


def _bulk(xp: Any, aspect: Any) -> tuple[Any, Any, Any]:
    """Return angles, singular values and weights of averages over the angle, by panels that resolve both ends."""
    nodes, weights = legendre(xp, _POINTS)
    lengths = [0.5 ** (k + 2) for k in range(_PANELS - 1)] + [0.5**_PANELS]
    starts = [1 - 0.5 ** (k + 1) for k in range(_PANELS)]
    upper = xp.concat([start + length * nodes for start, length in zip(starts, lengths, strict=True)])
    sizes = xp.concat([length * weights for length in lengths])
    shares, root = xp.concat([1 - upper, upper]), xp.sqrt(aspect)
    angles = shares * 2 * xp.asin(xp.ones_like(aspect))
    return angles, xp.sqrt((1 - root) ** 2 + 4 * root * xp.cos(angles / 2) ** 2), xp.concat([sizes, sizes])
