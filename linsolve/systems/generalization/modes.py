r"""The errors of a linear model along an eigenvector of its inputs' covariance.

Along an eigenvector of :math:`X^T X/n` of eigenvalue :math:`\lambda`, with :math:`\rho = \lambda + \mu` for the weight
decay :math:`\mu`, :math:`q = (1 - e^{-\rho t})/\rho` and label noise of component :math:`\nu`, gradient flow gives

.. math:: w - w_* = e^{-\rho t} w(0) - (e^{-\rho t} + \mu q)\, w_* + q \sqrt{\lambda/n}\; \nu .
"""

from __future__ import annotations

from typing import Any, NamedTuple

from linsolve.numerics.spectrum import exponents, integral_weights

__all__ = ["Mode"]


class Mode(NamedTuple):
    r"""Eigenvalues, along the last axis, and factors of the start, of the teacher and of the noise.

    For inputs in a unit u, the eigenvalues are :math:`u^2 \lambda` and the factor of the noise is :math:`q/u`.
    """

    values: Any
    start: Any
    teacher: Any
    noise: Any
    unit: Any = 1.0

    @classmethod
    def of(cls, xp: Any, values: Any, t: Any, decay: Any = 0.0, unit: Any = 1.0) -> Mode:
        """Return the factors at times `t`, whose shape leads that of the eigenvalues; infinity is allowed."""
        rates, t, decay = values / unit + decay * unit, t / unit, decay * unit
        start, noise = xp.exp(-exponents(xp, rates, t)), integral_weights(xp, rates, t)
        return cls(values, start, start + decay * noise, noise, unit)

    def weights(self, signal: Any, start: Any, noise: Any) -> Any:
        r"""Return d times the mean square of an error of the weights; `noise` is :math:`\gamma \sigma^2`."""
        return signal * self.teacher**2 + start * self.start**2 + noise * (self.values * self.noise) * self.noise

    def residuals(self, signal: Any, start: Any, noise: Any) -> Any:
        r"""Return :math:`\gamma` times the mean square of a residual; `noise` is :math:`\gamma \sigma^2`."""
        values = self.values / self.unit / self.unit
        return values * (signal * self.teacher**2 + start * self.start**2) + noise * self.teacher**2
