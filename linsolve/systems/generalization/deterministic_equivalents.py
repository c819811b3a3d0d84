r"""Averages over Gaussian inputs of any covariance in the limit of many inputs, by a self-consistent equation.

For n samples of inputs with the covariance eigenvalues :math:`\lambda_i` the resolvent of :math:`A = X^T X/n` is
:math:`p (A + p)^{-1} \simeq \kappa (\Sigma + \kappa)^{-1}`, where :math:`\kappa(p)` solves the self-consistent equation

.. math:: p = \kappa \Big(1 - \tfrac1n \sum_i \frac{\lambda_i}{\lambda_i + \kappa}\Big) ,

and two resolvents, for a matrix B that commutes with :math:`\Sigma`, satisfy

.. math:: p q\, \mathrm{tr}\, B (A + p)^{-1} \Sigma (A + q)^{-1} \simeq \frac{\mu \nu}{1 - g(\mu, \nu)}
    \sum_i \frac{b_i \lambda_i}{(\lambda_i + \mu)(\lambda_i + \nu)}, \qquad
    g(\mu, \nu) = \tfrac1n \sum_i \frac{\lambda_i^2}{(\lambda_i + \mu)(\lambda_i + \nu)} ,

:math:`\mu = \kappa(p)`, :math:`\nu = \kappa(q)`. Exponentials of A are integrals over a hyperbola around the spectrum,
:math:`e^{-A t} = \frac{1}{2 \pi i} \int e^{p t} (A + p)^{-1} dp`, on which the trapezoidal rule converges
geometrically; its nodes at all times lie on the same rays, along which :math:`\kappa` is continued from large p.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

__all__ = ["Equivalents"]

_NODES, _STEP, _SCALE, _ANGLE = 40, 3.3 / 40, 3.424, 1.1  # hyperbola on which the sum of absolute values is 1.03
_FAR = 30.0  # radius over the largest scale, from which kappa is continued
_NEWTON = 60  # steps, at most
_RATIO = 4.0  # of neighboring radii, at most

_U = (np.arange(_NODES) + 0.5) * _STEP
_W = _SCALE * (1 + np.sin(1j * _U - _ANGLE))  # upper half of the hyperbola, in units of 1/t
_WEIGHTS = np.exp(_W) * _STEP * _SCALE * np.cos(1j * _U - _ANGLE) / (2 * np.pi)  # of integrals over dp t/(2 pi i)

_GONE = 350.0  # exponent beyond which a decayed average counts as 0

Values = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Equivalents:
    """Deterministic equivalents for positive eigenvalues of the covariance and a number of samples.

    Parameters
    ----------
    values : array, shape (d,)
        Positive eigenvalues.
    samples : float
    """

    def __init__(self, values: np.ndarray, samples: float) -> None:
        self.values, self.samples = values, samples
        self.rank = len(values)
        self.fixed = self._fixed_point()
        self.edge = self._edge()

    def remainder(self, kappa: np.ndarray) -> np.ndarray:
        """Return the quotient of p and kappa; kappa may have any shape."""
        k = np.asarray(kappa)[..., None]
        if self.rank > self.samples:
            return 1 - np.sum(self.values / (self.values + k), axis=-1) / self.samples
        return 1 - self.rank / self.samples + np.sum(k / (self.values + k), axis=-1) / self.samples

    def overlap(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return ``1 - g(first, second)``, the difference quotient of p."""
        a, b = (self.values + np.asarray(k)[..., None] for k in (first, second))
        return 1 - np.sum(self.values / a * (self.values / b), axis=-1) / self.samples

    def _fixed_point(self) -> float:
        """Return kappa at p = 0: 0 unless there are fewer samples than inputs."""
        if self.rank <= self.samples:
            return 0.0
        top = 2 * self.values.max() * self.rank / self.samples
        return float(brentq(self.remainder, 0.0, top, xtol=1e-300, rtol=1e-15, maxiter=2000))

    def _edge(self) -> float:
        """Return the lower edge of the continuous spectrum, a minimum of -p over real kappa."""
        if self.rank == self.samples:
            return 0.0
        if self.rank < self.samples:
            low, high = -self.values.min() * (1 - 1e-15), 0.0
        else:
            low, high = 0.0, self.fixed
        critical = brentq(lambda k: float(self.overlap(k, k)), low, high, xtol=1e-300, rtol=1e-15, maxiter=2000)
        return float(-critical * self.remainder(critical))

    def kappa(self, times: np.ndarray, shift: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the nodes p of the hyperbolas around -shift and kappa there, shape (times, nodes); times ascend."""
        far = max(1 / times[0], _FAR * self.values.max() * (1 + self.rank / self.samples))
        found, p = np.empty((len(times), _NODES), dtype=complex), _W / times[:, None] - shift
        k, radius = far * _W + np.sum(self.values) / self.samples - shift, far
        for row, target in enumerate(1 / times):
            count = max(1, int(np.ceil(np.log(radius / target) / np.log(_RATIO))))
            for r in np.geomspace(radius, target, count + 1)[1:]:
                k = self._solved(r * _W - shift, k)
            found[row], radius = k, target
        return p, found

    def _solved(self, p: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Return the solutions of the self-consistent equation near a guess, by Newton's method."""
        for _ in range(_NEWTON):
            step = (k * self.remainder(k) - p) / self.overlap(k, k)
            k = k - step
            if np.max(np.abs(step) / np.abs(k)) <= 4e-16:
                break
        physical = np.sum(self.values**2 / np.abs(self.values + k[:, None]) ** 2, axis=-1) <= self.samples * (1 + 1e-9)
        if not physical.all():
            raise ArithmeticError(
                "GeneralizationOfCovariance: covariance has eigenvalues for which the self-consistent equation has not "
                "converged (deterministic equivalent); rescale it, or drop its smallest eigenvalues"
            )
        return k

    def integral(self, times: np.ndarray, formula: Values, shift: float = 0.0) -> np.ndarray:
        r"""Return the integral of :math:`e^{p t} f(p, \kappa)/(2 \pi i)` around the spectrum, at positive times."""
        found, order = np.zeros(len(times)), _kept(times, shift)
        if not len(order):
            return found
        p, k = self.kappa(times[order], shift)
        found[order] = 2 * np.real(formula(p, k) @ _WEIGHTS) / times[order] * np.exp(-shift * times[order])
        return found

    def signal(self, times: np.ndarray, power: np.ndarray) -> np.ndarray:
        r"""Return the average of :math:`\mathrm{tr}\, B e^{-A t} \Sigma e^{-A t}` for the eigenvalues `power` of B."""
        shift = self.edge if self.rank < self.samples else 0.0
        found, order = np.zeros(len(times)), _kept(times, shift)
        if not len(order):
            return found
        weights = np.concatenate([_WEIGHTS, _WEIGHTS.conj()])
        for k, t, p, mu in zip(order, times[order], *self.kappa(times[order], shift), strict=True):
            p, mu = (np.concatenate([v, v.conj()]) for v in (p, mu))
            left = 1 / (self.values + mu[:_NODES, None])
            right = 1 / (self.values + mu[:, None])
            pairs = (left * (power * self.values)) @ right.T
            pairs = pairs / self.correlated(left, right)
            ratio = mu / p * weights
            found[k] = 2 * np.real(ratio[:_NODES] @ pairs @ ratio) / t**2 * np.exp(-2 * shift * t)
        return found

    def correlated(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return 1 - g for all pairs of rows of ``1 / (values + kappa)``."""
        return 1 - (left * self.values**2) @ right.T / self.samples

    def noise(self, times: np.ndarray) -> np.ndarray:
        r"""Return the average of :math:`\frac1n \mathrm{tr}\, \Sigma A^{-1} (1 - e^{-A t})^2`."""

        def formula(p: np.ndarray, k: np.ndarray) -> np.ndarray:
            return (1 / self.overlap(np.asarray(self.fixed), k) - 1) / p

        return 2 * self.integral(times, formula) - self.integral(2 * times, formula)

    def signal_limit(self, power: np.ndarray) -> float:
        """Return `signal` at infinite time."""
        if self.rank <= self.samples:
            return 0.0
        k = self.fixed
        shares = k / (self.values + k)
        return float(np.sum(power * self.values * shares**2) / self.overlap(np.asarray(k), np.asarray(k)))

    def noise_limit(self) -> float:
        """Return `noise` at infinite time."""
        k = np.asarray(self.fixed)
        return np.inf if self.rank == self.samples else float(1 / self.overlap(k, k) - 1)

    def residual_signal(self, times: np.ndarray, power: np.ndarray) -> np.ndarray:
        r"""Return the average of :math:`\mathrm{tr}\, B A e^{-A t}`."""

        def formula(p: np.ndarray, k: np.ndarray) -> np.ndarray:
            early = np.abs(k[:, :1]) > self.values.max()  # the two forms differ by a constant, whose integral is 0
            factor = np.where(early[..., None], self.values, -k[..., None])
            return np.sum(factor * (power / (self.values + k[..., None])), axis=-1)

        return self.integral(times, formula, self.edge)

    def residual_noise(self, times: np.ndarray) -> np.ndarray:
        r"""Return the average of :math:`\frac1n \mathrm{tr}\, e^{-X X^T t/n}`."""
        left = max(0.0, 1 - self.rank / self.samples)

        def formula(p: np.ndarray, k: np.ndarray) -> np.ndarray:
            return 1 / k - left / p

        return left + self.integral(times, formula, self.edge)


def _kept(times: np.ndarray, shift: float) -> np.ndarray:
    """Return the indices of the times in ascending order, without those at which the average has decayed."""
    order = np.argsort(times)
    return order[shift * times[order] <= _GONE]
