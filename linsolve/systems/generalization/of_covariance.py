"""Test and train error of a linear model in time, in the limit of many inputs of any covariance and many samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import refuse_fractions
from linsolve.core.parameters import parameter
from linsolve.systems.generalization.curves import MeanErrors
from linsolve.systems.generalization.deterministic_equivalents import Equivalents
from linsolve.systems.generalization.raw_weights import flowed
from linsolve.systems.generalization.stopping import least_time

__all__ = ["GeneralizationOfCovariance"]


_EARLIEST = 1e-28  # time in units of the mean variance, before which nothing is learned in doubles


class GeneralizationOfCovariance(MeanErrors):
    r"""Test and train error of a linear model on Gaussian inputs of any covariance in time: deterministic equivalents.

    A linear model learns n samples :math:`y = w_* \cdot x + \varepsilon`, :math:`x \sim N(0, \Sigma)`, from weights 0
    by gradient flow, :math:`\dot w = -X^T (X w - y)/n`. Along the eigenvectors of :math:`\Sigma`, of eigenvalues
    :math:`\lambda_i`, the teacher has the mean squares :math:`b_i`; the label noise has variance :math:`\sigma^2`. In
    the limit of many inputs and samples, with :math:`p = \kappa (1 - \frac1n \sum_i \frac{\lambda_i}{\lambda_i +
    \kappa})`,

    .. math:: E_{test}(t) = \sigma^2 + \oint\!\!\oint \frac{dp\, dq}{(2 \pi i)^2}\, e^{(p + q) t}\,
        \frac{\kappa_p \kappa_q}{p q}\, \frac{\sum_i b_i \lambda_i / [(\lambda_i + \kappa_p)(\lambda_i + \kappa_q)]}
        {1 - \frac1n \sum_i \lambda_i^2 / [(\lambda_i + \kappa_p)(\lambda_i + \kappa_q)]}
        + \sigma^2 [2 I(t) - I(2t)], \quad
        I(\tau) = \oint \frac{dp}{2 \pi i}\, \frac{e^{p \tau}}{p} \Big(\frac{\kappa}{p} - 1\Big) ,

    .. math:: E_{train}(t) = -\oint \frac{dp}{2 \pi i}\, e^{2 p t} \kappa \sum_i \frac{b_i}{\lambda_i + \kappa}
        + \sigma^2 \oint \frac{dp}{2 \pi i}\, \frac{e^{2 p t}}{\kappa} .

    Parameters
    ----------
    variances : array_like, shape (input,)
        Eigenvalues of the covariance of the inputs, :math:`\lambda_i`, not negative, not all 0.
    samples : float
        Number of training samples, ``n``.
    signal : array_like, shape (input,)
        Mean square of the teacher along each eigenvector, :math:`b_i`.
    noise_variance : float
        Variance of the label noise, :math:`\sigma^2`.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit.

    Notes
    -----
    Exact for: Gaussian inputs in the limit of many inputs and samples; at finite size the relative error of the means
    is of order 1/d while the error has not decayed exponentially. Not for: late times without label noise, when the
    slowest mode of each data set dominates; a spectrum that a few eigenvalues dominate. `GeneralizationOfData` holds at
    any size for given inputs. From other initial weights `signal` is the mean square of :math:`w_* - w(0)`. Equal
    variances give `GeneralizationInTime`. Time is in the units of `linsolve.solve`, whose loss is half the mean squared
    error. The standard deviations from data set to data set are not known in closed form here; `sample` draws them.

    After Velikanov, Panov and Yarotsky, "Generalization error of spectral algorithms" (2024), for the equivalents; the
    integrals over hyperbolas and their continuation along rays were derived here. Accuracy: within 1e-12 relative of
    50-digit contour integrals (``tests/systems/generalization/test_of_covariance.py``); with almost equal variances the
    error grows as 1e-16 ``d/|n - d|`` where the numbers of samples and inputs almost agree.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> variances = 1 / np.arange(1.0, 401.0)
    >>> law = ls.laws.GeneralizationOfCovariance(variances, 200, np.full(400, 0.25), noise_variance=0.5)
    >>> best = law.optimal_stopping_time()
    >>> round(best, 1), law.test_error([0.0, best, np.inf]).round(3).tolist()
    (61.3, [2.142, 1.068, 1.472])
    """

    variances: Any = parameter(r"\lambda", "variances of the inputs", axes=("input",), domain="[0, 1e100]")
    samples: Any = parameter("n", "number of training samples", domain="[1e-3, 1e12]", typical=(50, 500))
    signal: Any = parameter("b", "mean squares of the teacher", axes=("input",), domain="[0, 1e150]")
    noise_variance: Any = parameter(r"\sigma^2", "variance of the label noise", domain="[0, 1e150]", default=0.0)

    latest: ClassVar[float] = 1e30
    approximates: ClassVar[str] = "averages over Gaussian data sets and teachers"
    unapplied: ClassVar[str] = "an average over Gaussian inputs; GeneralizationOfData averages over your own"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not arithmetic.to_numpy(self.variances).any():
            raise ValueError(
                f"{type(self).__name__}: variances = 0 must have an entry above 0 (variances of the inputs); leave out "
                "inputs that are constant"
            )

    def test_mean(self, xp: Any, t: Any) -> Any:
        """Return the mean squared error on new inputs, without label noise."""

        def value(found: Equivalents, power: np.ndarray, t: np.ndarray) -> np.ndarray:
            return found.signal(t, power) + self._noise() * found.noise(t)

        def limit(found: Equivalents, power: np.ndarray) -> float:
            fitted = self._noise() * found.noise_limit() if self._noise() > 0 else 0.0
            return found.signal_limit(power) + fitted

        return self._evaluated(xp, t, value, limit, lambda variances, power: variances @ power)

    def train_mean(self, xp: Any, t: Any) -> Any:
        """Return the mean squared error on the training samples."""

        def value(found: Equivalents, power: np.ndarray, t: np.ndarray) -> np.ndarray:
            return found.residual_signal(2 * t, power) + self._noise() * found.residual_noise(2 * t)

        def limit(found: Equivalents, power: np.ndarray) -> float:
            return self._noise() * max(0.0, 1 - found.rank / found.samples)

        return self._evaluated(xp, t, value, limit, lambda variances, power: variances @ power + self._noise())

    def _noise(self) -> float:
        return float(arithmetic.to_numpy(self.noise_variance))

    def _numbers(self) -> tuple[Equivalents, np.ndarray, float]:
        """Return the equivalents of inputs of mean variance 1, the teacher's mean squares, and the mean variance."""
        variances, signal = (np.asarray(arithmetic.to_numpy(v), dtype=float) for v in (self.variances, self.signal))
        moving = variances > 0
        unit = float(np.mean(variances[moving]))
        equivalents = Equivalents(variances[moving] / unit, float(arithmetic.to_numpy(self.samples)))
        return equivalents, signal[moving] * unit, unit

    def _evaluated(
        self, xp: Any, t: Any, value: Callable[..., Any], limit: Callable[..., Any], start: Callable[..., Any]
    ) -> Any:
        """Return a mean at times 0, at positive times and at infinity."""
        found, power, unit = self._numbers()
        times = np.asarray(arithmetic.to_numpy(t), dtype=float)
        flat = times.ravel() * unit
        result = np.full(flat.shape, start(found.values, power))
        late, finite = flat == np.inf, (flat > _EARLIEST) & (flat < np.inf)
        if finite.any():
            result[finite] = value(found, power, flat[finite])
        if late.any():
            result[late] = limit(found, power)
        return arithmetic.cast(xp, result.reshape(times.shape))

    def floor(self) -> float:
        """Return the test error without label noise that no amount of training removes."""
        found, power, _ = self._numbers()
        return found.signal_limit(power)

    def optimal_stopping_time(self) -> float:
        """Return the time at which the test error is least, inf if that is the limit.

        Raises
        ------
        OverflowError
            If the time is beyond the range of doubles.
        """
        found, power, unit = self._numbers()
        if not power.any():
            return 0.0
        noise = float(arithmetic.to_numpy(self.noise_variance))
        size = max(float(power.max()), noise)  # the errors are homogeneous in signal and noise
        law = dataclasses.replace(self, variances=found.values, signal=power / size, noise_variance=noise / size)
        slowest = max(found.edge, found.values.min() * 1e-3, 1e-8)
        best = least_time(lambda t: law.test_mean(np, t), 1e-4 / found.values.max(), 1e3 / slowest)
        if best < np.inf and best / np.finfo(float).max > unit:
            raise OverflowError(
                f"GeneralizationOfCovariance: variances = {unit:.3g} on average are so small that the optimal "
                "stopping time leaves the range of doubles (variances of inputs); measure them in smaller units"
            )
        return best / unit

    def sample_errors(self, rng: np.random.Generator, count: int, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return test and train errors of `count` networks on as many data sets at times `t`, shape (count, times)."""
        refuse_fractions("GeneralizationOfCovariance.sample", "samples", self.samples, "of sampled networks")
        variances, signal = np.asarray(self.variances), np.asarray(self.signal)
        tests, trains = [], []
        for _ in range(count):
            inputs = rng.normal(size=(int(self.samples), len(variances))) * np.sqrt(variances)
            teacher = rng.normal(size=len(signal)) * np.sqrt(signal)
            labels = inputs @ teacher + np.sqrt(self._noise()) * rng.normal(size=len(inputs))
            weights = flowed(inputs, labels, np.zeros(len(signal)), t)
            tests.append((weights - teacher) ** 2 @ variances)
            trains.append(np.mean((weights @ inputs.T - labels) ** 2, axis=-1))
        return np.array(tests), np.array(trains)

    @classmethod
    def example(cls, rng: np.random.Generator) -> GeneralizationOfCovariance:
        """Return inputs of a power-law spectrum with label noise, with fewer or more samples than inputs."""
        d = int(rng.integers(60, 90))
        n = round(d / rng.choice([0.4, 1.6]))
        rank = np.arange(1.0, d + 1)
        return cls(rank**-0.5, n, rank ** rng.uniform(-1.0, 0.0) / d, rng.uniform(0.1, 0.5))
