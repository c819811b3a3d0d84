"""Exact averages of one raw SGD step over Gaussian inputs and noise: product Gauss-Hermite quadrature in 50 digits.

The fourth power of a weight after a step has degree 8 in each input and 4 in each label's noise, for which 5 and 3
nodes are exact.
"""

import itertools

import mpmath
import numpy as np

mp = mpmath.MPContext()
mp.dps = 60


def _five():
    """Return the roots of x^5 - 10 x^3 + 15 x and their weights."""
    near, far = (mp.sqrt(5 - mp.sqrt(10)), mp.sqrt(5 + mp.sqrt(10)))
    w_near, w_far = ((7 + 2 * mp.sqrt(10)) / 60, (7 - 2 * mp.sqrt(10)) / 60)
    return [(-far, w_far), (-near, w_near), (mp.mpf(0), mp.mpf(8) / 15), (near, w_near), (far, w_far)]


FIVE = _five()
THREE = [(-mp.sqrt(3), mp.mpf(1) / 6), (mp.mpf(0), mp.mpf(2) / 3), (mp.sqrt(3), mp.mpf(1) / 6)]


def squares_after(spectrum, start, m, step, noise_variance):
    """Return E e_i^2 and E e_i^2 e_j^2 after a step from the error `start`."""
    d = len(spectrum)
    scale, noise, kappa = [mp.sqrt(mp.mpf(lam)) for lam in spectrum], mp.sqrt(mp.mpf(noise_variance)), mp.mpf(step) / m
    second, fourth = np.full(d, mp.mpf(0)), np.full((d, d), mp.mpf(0))
    for nodes in itertools.product(*[FIVE] * (m * d), *[THREE] * m):
        weight = mp.fprod(w for _, w in nodes)
        values = [x for x, _ in nodes]
        after = [mp.mpf(e) for e in start]
        for i in range(m):
            x = [s * v for s, v in zip(scale, values[i * d : i * d + d], strict=True)]
            residual = mp.fsum(a * mp.mpf(e) for a, e in zip(x, start, strict=True)) - noise * values[m * d + i]
            after = [e - kappa * a * residual for e, a in zip(after, x, strict=True)]
        square = np.array([e * e for e in after])
        second = second + weight * square
        fourth = fourth + weight * square[:, None] * square
    return second, fourth
