"""Averages over the Marchenko-Pastur density in 50 digits, by quadrature in the eigenvalue itself."""

import mpmath

mp = mpmath.MPContext()
mp.dps = 50


def average(gamma, function, scale):
    """Return the integral of ``function(height, eigenvalue)`` over the continuous spectrum; `scale` is a time.

    The height is the eigenvalue above the lower edge. The integrand is resolved in each decade around ``1/scale``.
    """
    gamma = mp.mpf(gamma)
    edge, width = (1 - mp.sqrt(gamma)) ** 2, 4 * mp.sqrt(gamma)
    marks = {width * mp.mpf(10) ** k for k in range(-12, 0)} | {edge * 10**k for k in range(-2, 3)}
    marks |= {mp.mpf(10) ** k / mp.mpf(scale) for k in range(-24, 3)}
    points = [mp.mpf(0), *sorted(m for m in marks if 0 < m < width), width]

    def integrand(h):
        return mp.sqrt(h * (width - h)) / (2 * mp.pi * gamma * (edge + h)) * function(h, edge + h)

    return mp.quad(integrand, points)


def kernels(gamma, tau):
    """Return the continuous parts of S and K at time `tau`, the edge's exponential divided out to keep digits."""
    gamma, tau = mp.mpf(gamma), mp.mpf(tau)
    outer = mp.exp(-tau * (1 - mp.sqrt(gamma)) ** 2)
    return [outer * average(gamma, lambda h, v, power=power: v**power * mp.exp(-tau * h), tau) for power in (0, 1)]


def errors(gamma, t, size, noise):
    """Return test error and train error at time `t`, from the modes of gradient flow."""
    gamma, t, size, noise = (mp.mpf(v) for v in (gamma, t, size, noise))
    fitted = average(gamma, lambda h, v: mp.expm1(-v * t) ** 2 / v, t)
    decayed, weighted = kernels(gamma, 2 * t)
    test = size * (decayed + max(0, 1 - 1 / gamma)) + noise * (1 + gamma * fitted)
    return test, size * weighted + noise * (gamma * decayed + max(0, 1 - gamma))
