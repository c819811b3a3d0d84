r"""Gradient descent and Polyak's heavy ball on one quadratic mode, after any number of steps at once.

.. math:: z_{k+1} = z_k - m z_k + b (z_k - z_{k-1}), \quad z_0 = z_{-1} = 1, \qquad m = h \lambda .

With ``r = (s +- d)/2`` the roots of ``r^2 - s r + b``, ``s = 1 + b - m`` and
``d^2 = ((1 - sqrt b)^2 - m) ((1 + sqrt b)^2 - m)``,

.. math:: z_k = \frac{r_+^k + r_-^k}{2} + \frac{1 - b - m}{2} \, \frac{r_+^k - r_-^k}{r_+ - r_-} .

A negative s is turned into a positive one by ``(-1)^k``; then the two terms have one sign wherever the roots are real,
and the quotient is ``k r^(k-1)`` where they meet.
"""

from __future__ import annotations

from typing import Any

from linsolve.numerics.scalar import phi

__all__ = ["descent_power", "heavy_ball"]


def descent_power(xp: Any, k: Any, parity: Any, m: Any) -> Any:
    """Return ``(1 - m)^k``, what k steps of gradient descent leave of a mode, to the last digit for small m too.

    Parameters
    ----------
    xp : namespace
    k, parity : array
        Number of steps and ``(-1)^k``.
    m : array
        Step times eigenvalue.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.kernel_regime.momentum import descent_power
    >>> k = np.array([0.0, 1.0, 2.0, 3.0])
    >>> descent_power(np, k, (-1) ** k, np.array(1.5)).round(6).tolist()  # (1 - 3/2)^k: it overshoots
    [1.0, -0.5, 0.25, -0.125]
    """
    gone = m == 1
    beyond = m > 1
    safe = xp.where(gone, xp.zeros_like(m), m)
    size = xp.exp(k * xp.log1p(xp.where(beyond, safe - 2, -safe)))
    left = xp.where(beyond, parity, xp.ones_like(parity)) * size
    return xp.where(gone, xp.where(k == 0, xp.ones_like(left), xp.zeros_like(left)), left)


def heavy_ball(xp: Any, k: Any, parity: Any, m: Any, b: Any) -> Any:
    """Return what k steps of gradient descent with momentum leave of a mode, started at rest.

    Parameters
    ----------
    xp : namespace
    k, parity : array
        Number of steps and ``(-1)^k``.
    m : array
        Step times eigenvalue.
    b : array
        Momentum, ``0 < b < 1``.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.systems.kernel_regime.momentum import heavy_ball
    >>> k = np.array([0.0, 1.0, 2.0])
    >>> heavy_ball(np, k, (-1) ** k, np.array(0.25), np.array(0.5)).round(6).tolist()  # 3/4 - 3/16 - 1/8 = 7/16
    [1.0, 0.75, 0.4375]
    """
    beta, s = xp.sqrt(b), 1 + b - m
    u, w = (1 - beta) ** 2 - m, (1 + beta) ** 2 - m
    back, real, half = s < 0, (u >= 0) | (w <= 0), (1 - b - m) / 2
    d, near = xp.sqrt(xp.abs(u * w)), xp.where(back, -w, u)
    slide = _real_roots(xp, k, (m, xp.where(real, near, xp.zeros_like(m)), d, half), real, back, b)
    swing = _complex_roots(xp, k, (xp.abs(near), xp.where(back, -u, w), d, half), real, back, beta)
    left = xp.where(back, parity, xp.ones_like(parity)) * xp.where(real, slide, swing)
    return xp.where(m == 0, xp.ones_like(left), left)


def _real_roots(xp: Any, k: Any, parts: tuple[Any, Any, Any, Any], real: Any, back: Any, b: Any) -> Any:
    """Return the mode where both roots are real, of one sign; if positive, ``(1 - r)(1 - b/r) = m`` gives log r."""
    m, near, d, half = parts
    beta = xp.sqrt(b)
    d = xp.where(real, d, xp.zeros_like(d))
    r, apart = beta + (near + d) / 2, 2 * xp.log1p((near + d) / (2 * beta))
    slow = real & ~back & (r > 1 / 2)
    ratio = xp.where(slow, -m / (1 - b / r), xp.zeros_like(r))
    growth = xp.exp(k * xp.where(slow, xp.log1p(ratio), xp.log(r)))
    quotient = k * phi(xp, k * apart) / (phi(xp, apart) * r)
    return growth * ((1 + xp.exp(-k * apart)) / 2 + xp.abs(half) * quotient)


def _complex_roots(xp: Any, k: Any, parts: tuple[Any, Any, Any, Any], real: Any, back: Any, beta: Any) -> Any:
    """Return the mode where the roots are ``sqrt(b) exp(+- i angle)``, the angle from its half's sine and cosine."""
    near, far, d, half = parts
    one = xp.ones_like(d)
    turn = k * 2 * xp.atan2(xp.sqrt(near), xp.sqrt(xp.where(real, one, far)))
    pull = xp.where(back, -half, half) / xp.where(real, one, d / 2)
    return xp.exp(k * xp.log(beta)) * (xp.cos(turn) + pull * xp.sin(turn))
