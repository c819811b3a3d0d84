"""The loss of SGD on isotropic Gaussian inputs: exact mean and variance, stability, typical run."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from linsolve.core.parameters import parameter
from linsolve.numerics.double_double import power_of_two
from linsolve.systems.streaming_sgd.stream import COUNTS, Stream
from linsolve.systems.streaming_sgd.typical import log_rate, neutral_step

__all__ = ["StreamingSGD"]


class StreamingSGD(Stream):
    r"""Loss of online SGD on isotropic Gaussian inputs: mean and standard deviation after any number of steps.

    A linear model with targets :math:`y = w_* \cdot x + \varepsilon` sees m fresh samples at every step,

    .. math:: w' = w - \frac{\eta}{m} \sum_{\mu=1}^m x_\mu (w \cdot x_\mu - y_\mu), \qquad
        x \sim N(0, \lambda I_d), \quad \varepsilon \sim N(0, \sigma^2) .

    Its loss above the noise, :math:`\ell = \lambda |w - w_*|^2 / 2`, has for :math:`\kappa = \eta \lambda / m`

    .. math:: E \ell' &= a\, E\ell + b, \qquad a = (1 - \kappa m)^2 + \kappa^2 m (d + 1), \quad
            b = \tfrac12 \kappa^2 m d \sigma^2, \\
        \mathrm{Var}\, \ell' &= (a^2 + v_2)\, \mathrm{Var}\, \ell + v_2 (E\ell)^2 + v_1 E\ell + v_0,

    .. math:: v_2 &= 2 \kappa^2 m [(2 - \kappa(2m + d + 3))^2 + \kappa^2 (m + 2)(d + 3)], \\
        v_1 &= 2 \kappa^2 m \sigma^2 [(1 - \kappa(m + d + 2))^2 + \kappa^2 (dm + d + m + 2)], \quad
        v_0 = \tfrac12 \kappa^4 \sigma^4 m d (m + d + 2) .

    Parameters
    ----------
    batch : int
        Samples in a minibatch, ``m``.
    step : float
        Length of a step, :math:`\eta`, in units of time (the step times the gradient of the mean loss is subtracted).
    dimension : int
        Number of inputs, ``d``.
    noise_variance : float
        Variance of the labels' noise, :math:`\sigma^2`.
    distance_squared : float
        :math:`|w_0 - w_*|^2`.
    input_variance : float
        Variance of each input, :math:`\lambda`.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit.
    OverflowError
        In `mean` and `std`, if the loss diverges beyond the range of doubles; the message contains `largest_step`.

    Notes
    -----
    Exact for: Gaussian inputs, fresh at every step, any dimension, batch size and step. Not for: other inputs with
    the same covariance, whose variance differs; a fixed data set, see `linsolve.sgd`; inputs of unequal variances,
    see `StreamingSGDAnisotropic`. The loss leaves out the noise's :math:`\sigma^2/2`.

    Mean and variance after k steps come from powers of a matrix of nonnegative entries, in a time that grows as
    ``log k``. They converge if the step is below `largest_step` (mean) and :math:`a^2 + v_2 < 1` (variance). Without
    noise :math:`\ell'/\ell` is independent from step to step, so that :math:`\log \ell` is a random walk, whose mean
    slope is `typical_rate`: most runs converge up to `typical_largest_step`, although the mean diverges before.

    Source: Bordelon and Pehlevan, "Learning curves for SGD on structured features" (2022), for the mean, in the
    isotropic case; the variance was derived here.

    Accuracy: 1e-12 relative at every number of steps up to 2^53, against 50 digits
    (``tests/systems/streaming_sgd/test_streaming_sgd.py``).

    Examples
    --------
    >>> import linsolve as ls
    >>> law = ls.laws.StreamingSGD(batch=4, step=0.1, dimension=10, noise_variance=0.5)
    >>> law.mean([0, 10, 100]).round(4).tolist(), law.std([0, 10, 100]).round(4).tolist()
    ([0.5, 0.1168, 0.0385], [0.0, 0.0475, 0.0173])
    >>> round(float(law.largest_step()), 4), round(float(law.stationary_mean()), 4)
    (0.5333, 0.0385)
    """

    dimension: Any = parameter("d", "number of inputs", domain=COUNTS, typical=(2, 20), whole=True)
    noise_variance: Any = parameter(r"\sigma^2", "variance of the labels' noise", domain="[0, inf)", default=0.0)
    distance_squared: Any = parameter("r_0", "squared distance of the start", domain="[0, inf)", default=1.0)
    input_variance: Any = parameter(r"\lambda", "variance of each input", domain="(0, inf)", default=1.0)

    approximates: ClassVar[str] = "averages over runs of SGD on a stream of isotropic Gaussian inputs"
    unapplied: ClassVar[str] = "an average over streams of Gaussian inputs; linsolve.sgd averages over a data set"

    def scaled(self, xp: Any) -> tuple[StreamingSGD, Any]:
        """Return the law of inputs of variance 1, and the unit of its losses."""
        distance = self.input_variance * self.distance_squared
        factor = power_of_two(xp, xp.maximum(distance, self.noise_variance))
        sizes = {"distance_squared": distance * factor, "noise_variance": self.noise_variance * factor}
        own = {"input_variance": xp.ones_like(distance), "step": self.step * self.input_variance}
        return self._with(**sizes, **own), 1 / factor

    def coefficients(self, xp: Any) -> tuple[Any, Any, tuple[Any, Any, Any]]:
        """Return ``a``, ``b`` and ``(v0, v1, v2)``."""
        m, d, noise = self.batch, self.dimension, self.noise_variance
        k = self.step * self.input_variance / m
        growth = (1 - k * m) ** 2 + k**2 * m * (d + 1)
        v0 = k**4 * noise**2 * m * d * (m + d + 2) / 2
        v1 = 2 * k**2 * m * noise * ((1 - k * (m + d + 2)) ** 2 + k**2 * (d * m + d + m + 2))
        v2 = 2 * k**2 * m * ((2 - k * (2 * m + d + 3)) ** 2 + k**2 * (m + 2) * (d + 3))
        return growth, k**2 * m * d * noise / 2, (v0, v1, v2)

    def means(self, xp: Any, counts: np.ndarray) -> Any:
        """Return the mean of the loss after `counts` steps, of the shape of `counts`."""
        a, b, _ = self.coefficients(xp)
        one, loss = 0 * a + 1, self.input_variance * self.distance_squared / 2
        logs = 0 * a, _log(xp, a, self._lost())
        return _powers(xp, counts, ((one, 0 * a), (b, a)), logs, (one, loss))[1]

    def variances(self, xp: Any, counts: np.ndarray) -> Any:
        """Return the variance of the loss after `counts` steps, of the shape of `counts`."""
        a, b, (v0, v1, v2) = self.coefficients(xp)
        zero, one = 0 * a, 0 * a + 1
        loss = self.input_variance * self.distance_squared / 2
        rows = (
            (one, zero, zero, zero),
            (b, a, zero, zero),
            (b**2, 2 * a * b, a**2, zero),
            (v0, v1, v2, a**2 + v2),
        )
        lost = self._lost()
        fall, spread = _log(xp, a, lost), _log(xp, a**2 + v2, lost * (1 + a) - v2)
        return _powers(xp, counts, rows, (zero, fall, 2 * fall, spread), (one, loss, loss**2, zero))[3]

    def _lost(self) -> Any:
        """Return ``1 - a`` without cancellation."""
        m, k = self.batch, self.step * self.input_variance / self.batch
        return k * m * (2 - k * (m + self.dimension + 1))

    def largest_step(self) -> Any:
        r"""Return :math:`2m / (\lambda (m + d + 1))`, below which the mean of the loss converges."""
        share = self.batch / (self.batch + self.dimension + 1)
        return self._in_range("largest_step", lambda: 2 * share / self.input_variance)

    def stationary_mean(self) -> Any:
        """Return the limit of the mean of the loss, inf if the step is not below `largest_step`."""
        left = 1 - self.step / self.largest_step()
        if left <= 0:
            return np.float64(np.inf)
        share = self.step * self.input_variance * self.dimension / (4 * self.batch)
        return self._in_range("stationary_mean", lambda: share / left * self.noise_variance)

    def stationary_std(self) -> Any:
        """Return the limit of the standard deviation of the loss, inf if its variance diverges."""
        unit = dataclasses.replace(self, noise_variance=1.0)  # the limit is proportional to the noise
        with np.errstate(over="ignore", invalid="ignore"):  # of steps at which the variance diverges
            a, _, (v0, v1, v2) = unit.coefficients(np)
            left = unit._lost() * (1 + a) - v2
        if not left > 0:
            return np.float64(np.inf)
        mean = unit.stationary_mean()
        share = (v0 + (v1 + v2 * mean) * mean) / left
        return self._in_range("stationary_std", lambda: np.sqrt(share) * self.noise_variance)

    def typical_rate(self) -> float:
        r"""Return :math:`E \ln(\ell'/\ell)` without noise: the slope of the logarithm of almost every run's loss.

        By quadrature over the two chi-squared variates of
        :math:`\ell'/\ell = (1 - \kappa G)^2 + \kappa^2 G Z`, :math:`G \sim \chi^2_m`, :math:`Z \sim \chi^2_{d-1}`. It
        is at most :math:`\ln a`, the slope of the logarithm of the mean.
        """
        m, d = float(self.batch), float(self.dimension)
        k = self._in_range("typical_rate", lambda: self.step * self.input_variance / m)
        return log_rate(m, d, float(k))

    def typical_largest_step(self) -> float:
        """Return the step from which almost every run without noise diverges, above `largest_step`."""
        m, d = float(self.batch), float(self.dimension)
        step = m * neutral_step(m, d)
        return float(self._in_range("typical_largest_step", lambda: step / self.input_variance))

    def drawn(self) -> tuple[np.ndarray, np.ndarray]:
        """Return equal eigenvalues, and an initial error along the first input."""
        start = np.zeros(int(self.dimension))
        start[0] = np.sqrt(self.distance_squared)
        return np.full(len(start), float(self.input_variance)), start

    @classmethod
    def example(cls, rng: np.random.Generator) -> StreamingSGD:
        """Return a stream of a few noisy inputs, with a step of a quarter to half the largest."""
        m, d = int(rng.integers(2, 5)), int(rng.integers(3, 8))
        step, variance = rng.uniform(0.25, 0.5) * 2 * m / (m + d + 1), rng.uniform(0.5, 2.0)
        return cls(m, step / variance, d, rng.uniform(0.1, 0.5), rng.uniform(0.5, 2.0), variance)


def _log(xp: Any, factor: Any, lost: Any) -> Any:
    """Return the logarithm of a factor, from its distance `lost` from 1 where it is close to 1."""
    near = lost < 0.5
    zero, one = 0 * factor, 0 * factor + 1
    return xp.where(near, xp.log1p(-xp.where(near, lost, zero)), xp.log(xp.where(near, one, factor)))


def _powers(xp: Any, counts: np.ndarray, rows: Any, logs: Any, start: Any) -> list[Any]:
    """Return powers `counts` of a lower triangular matrix times a vector, by repeated squaring.

    The entries are not negative, and the diagonal of each square comes from its logarithms: a squaring then adds few
    rounding errors to the entries, where it would double those of the diagonal.
    """
    matrix = xp.stack([xp.stack(list(row)) for row in rows])
    state = [value + xp.zeros(counts.shape) for value in start]
    own, logs = xp.eye(len(start)), xp.stack(list(logs))
    bits = int(counts.max()).bit_length()
    for bit in range(bits):
        taken = xp.asarray((counts >> bit) % 2 == 1)
        moved = [sum(matrix[i, j] * state[j] for j in range(i + 1)) for i in range(len(start))]
        state = [xp.where(taken, new, old) for new, old in zip(moved, state, strict=True)]
        if bit + 1 < bits:
            matrix = (1 - own) * (matrix @ matrix) + own * xp.exp(2.0 ** (bit + 1) * logs)
    return state
