"""Test and train error of a linear model in time, in the limit of many inputs and samples."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import refuse_fractions
from linsolve.core.parameters import parameter
from linsolve.numerics.checked import in_range
from linsolve.systems.generalization import raw_weights
from linsolve.systems.generalization.curves import ErrorCurves
from linsolve.systems.generalization.marchenko_pastur import LATEST, atom, bulk
from linsolve.systems.generalization.modes import Mode
from linsolve.systems.generalization.stopping import rise, stopping_time

__all__ = ["GeneralizationInTime"]


class GeneralizationInTime(ErrorCurves):
    r"""Test and train error of a linear model in time: double descent, overfitting, optimal stopping, grokking.

    A linear model learns n samples :math:`y = w_* \cdot x + \varepsilon` of d independent standard Gaussian inputs by
    gradient flow, :math:`\dot w = -X^T (X w - y)/n`. Teacher and start are isotropic Gaussian vectors,
    :math:`D_0 = E |w_*|^2 + E |w(0)|^2`, the label noise has variance :math:`\sigma^2`. In the limit of many inputs
    and samples at :math:`\gamma = d/n` the mean squared errors are

    .. math:: E_{test}(t) &= D_0 S(2t) + \sigma^2 + 2 \gamma \sigma^2 \int_0^t [S(u) - S(2u)]\, du , \\
        E_{train}(t) &= D_0 K(2t) + \sigma^2 [1 + \gamma (S(2t) - 1)] ,

    with the averages of :math:`e^{-\lambda \tau}` and :math:`\lambda e^{-\lambda \tau}` over the Marchenko-Pastur law,

    .. math:: S(\tau) = P(k \ge 0) - P(k \ge 2)/\gamma, \quad k \sim \mathrm{Skellam}(\gamma \tau, \tau), \qquad
        K(\tau) = -S'(\tau) = e^{-(1 + \gamma) \tau} \frac{I_1(2 \sqrt\gamma\, \tau)}{\sqrt\gamma\, \tau} .

    S is also the probability that a busy period of a queue with arrivals at rate :math:`\gamma` and services at rate 1
    (M/M/1) lasts longer than :math:`\tau`; for :math:`\gamma > 1` it never ends with probability :math:`1 - 1/\gamma`.

    Parameters
    ----------
    dimension, samples : float
        Number of inputs, ``d``, and of training samples, ``n``. Their ratio determines the means; standard deviations
        are proportional to :math:`1/\sqrt d` at a given ratio.
    signal, start : float
        Mean squared lengths of the teacher and of the initial weights, :math:`E |w_*|^2` and :math:`E |w(0)|^2`.
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
    Exact for: isotropic Gaussian inputs in the limit of many inputs and samples; at finite size the relative error of
    the means is of order 1/d (at :math:`\gamma = 1` for times small against :math:`d^2`). Not for: other inputs, for
    which `GeneralizationOfData` holds at any size. Time is in the units of `linsolve.solve`, whose loss is half the
    mean squared error.

    In the end the test error exceeds :math:`\sigma^2` by the `floor` :math:`D_0 \max(0, 1 - 1/\gamma)` and by
    :math:`\sigma^2 \gamma/(1 - \gamma)` for :math:`\gamma < 1`, :math:`\sigma^2/(\gamma - 1)` for :math:`\gamma > 1`:
    the interpolation peak. At :math:`\gamma = 1` it exceeds it by :math:`D_0/\sqrt{2 \pi t} + 2 (2 - \sqrt 2)\,
    \sigma^2 \sqrt{t/\pi}` at late times.

    After Advani, Saxe and Sompolinsky, "High-dimensional dynamics of generalization error in neural networks" (2020);
    the accuracy is that of Levi, Beck and Bar-Sinai, "Grokking in Linear Estimators" (2024). The kernels in closed form
    and the standard deviations were derived here. Accuracy: K and S within 1e-14 relative of 50 digits down to values
    of 1e-60, the curves within 1e-12 for times to 1e8 (``tests/systems/generalization/test_in_time.py``).

    Examples
    --------
    >>> import linsolve as ls
    >>> law = ls.laws.GeneralizationInTime(dimension=1000, samples=500)
    >>> law.accuracy([0, float("inf")], 1e-3).round(4).tolist(), float(law.floor())  # however long one waits
    ([0.0252, 0.0357], 0.5)
    >>> noisy = ls.laws.GeneralizationInTime(dimension=400, samples=400, noise_variance=0.25)
    >>> best = noisy.optimal_stopping_time()
    >>> round(float(best), 3), noisy.test_error([0, best, 1000]).round(3).tolist()
    (2.465, [1.25, 0.65, 5.364])
    """

    dimension: Any = parameter("d", "number of inputs", domain="(0, inf)", typical=(50, 500))
    samples: Any = parameter("n", "number of training samples", domain="(0, inf)", typical=(50, 500))
    signal: Any = parameter("E|w_*|^2", "mean squared length of the teacher", domain="[0, inf)", default=1.0)
    start: Any = parameter("E|w(0)|^2", "mean squared length of the initial weights", domain="[0, inf)", default=0.0)
    noise_variance: Any = parameter(r"\sigma^2", "variance of the label noise", domain="[0, inf)", default=0.0)

    batched: ClassVar[bool] = True
    latest: ClassVar[float] = LATEST
    block: ClassVar[int] = 2**9  # at some hundred nodes each they stay in a cache
    approximates: ClassVar[str] = "averages over Gaussian data sets, teachers and starts"
    unapplied: ClassVar[str] = "an average over Gaussian inputs; GeneralizationOfData averages over your own"

    def test_moments(self, xp: Any, t: Any) -> tuple[Any, Any]:
        """Return mean and variance of the squared error on new inputs, without label noise."""
        d, empty = self.dimension, atom(xp, self.dimension, self.samples)
        unseen = self.signal + self.start  # along directions without samples
        found, modes = self._modes(xp, t)
        mean, square = self._averages(xp, found, modes.weights(*self._sizes()))
        # where eigenvalues reach down to 0, the fitted noise grows without bound
        endless = xp.isinf(t) & (d == self.samples) & (self.noise_variance > 0)
        mean, square = (xp.where(endless, xp.full_like(v, xp.inf), v) for v in (mean, square))
        return empty * unseen + mean, 2 / d * (empty * unseen**2 + square)

    def train_moments(self, xp: Any, t: Any) -> tuple[Any, Any]:
        """Return mean and variance of the mean squared error on the training samples."""
        n, noise = self.samples, self.noise_variance
        left = atom(xp, n, self.dimension)  # share of directions of the labels that no weights fit
        found, modes = self._modes(xp, t)
        mean, square = self._averages(xp, found, modes.residuals(*self._sizes()))
        return left * noise + mean, 2 / n * (left * noise**2 + n / self.dimension * square)

    def _modes(self, xp: Any, t: Any) -> tuple[Any, Mode]:
        found = bulk(xp, self.dimension, self.samples, t)
        return found, Mode.of(xp, found.values, t)

    def _sizes(self) -> list[Any]:
        """Return signal, start and noise as for `Mode`, with an axis of nodes."""
        noise = self.dimension / self.samples * self.noise_variance
        return [v[..., None] for v in (self.signal, self.start, noise)]

    @staticmethod
    def _averages(xp: Any, found: Any, values: Any) -> tuple[Any, Any]:
        """Return the averages of values and of their squares over the continuous spectrum."""
        return found.mean(xp, values), found.mean(xp, values**2)

    def floor(self) -> Any:
        r"""Return :math:`D_0 \max(0, 1 - n/d)`, the test error without noise that no amount of training removes."""
        xp = arithmetic.namespace(*(v for v in self.parameters().values() if arithmetic.namespace(v) is not np))
        law = self.cast(xp)
        return (law.signal + law.start) * atom(xp, law.dimension, law.samples)

    def optimal_stopping_time(self) -> Any:
        r"""Return the time at which the test error is least, :math:`\gamma \sigma^2 [S(t) - S(2t)] = D_0 K(2t)`.

        It is 0 for a signal and a start of 0, and infinite without label noise.
        """
        given = self.parameters()
        xp = arithmetic.namespace(*(v for v in given.values() if arithmetic.namespace(v) is not np))
        law = self.cast(xp)
        noisy = law.noise_variance > 0
        found = in_range(f"{type(self).__name__}.optimal_stopping_time", lambda: law._stopping(xp, noisy), **given)
        size = law.signal + law.start + 0 * found
        return xp.where(size > 0, xp.where(noisy, found, xp.full_like(found, xp.inf)), xp.zeros_like(found))

    def _stopping(self, xp: Any, noisy: Any) -> Any:
        """Return the optimal stopping time, where it is finite."""
        d, n, size = self.dimension, self.samples, self.signal + self.start
        safe = xp.where(noisy & (size > 0), self.noise_variance, xp.ones_like(self.noise_variance))
        ratio = n / d * xp.where(size > 0, size, xp.ones_like(size)) / safe
        root = xp.sqrt(d / n)

        def rate(t: Any, ratio: Any, d: Any, n: Any) -> Any:
            found = bulk(xp, d, n, t)
            return rise(xp, found.values, found.weights, ratio, t)

        known = ratio <= LATEST
        ratio = xp.where(known, ratio, xp.ones_like(ratio))
        ends = ((1 - root) ** 2 + 0 * ratio, (1 + root) ** 2 + 0 * ratio)
        found = stopping_time(xp, *ends, ratio, rate, d + 0 * ratio, n + 0 * ratio)
        return xp.where(known, found, xp.full_like(found, xp.nan))

    def sample_errors(self, rng: np.random.Generator, count: int, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return test and train errors of `count` networks on as many data sets at times `t`, shape (count, times)."""
        who = "GeneralizationInTime.sample"
        for name, value in self.parameters().items():
            if value.size > 1:
                rule = "but must be one number (of sampled networks); sample each law"
                raise ValueError(f"{who}: {name} has shape {value.shape} {rule}")
        for name in ("dimension", "samples"):
            refuse_fractions(who, name, getattr(self, name), "of sampled networks")
        shape = int(self.samples), int(self.dimension)
        sizes = float(self.signal), float(self.start), float(self.noise_variance)
        drawn = [raw_weights.errors(rng, 1, rng.normal(size=shape), t, *sizes) for _ in range(count)]
        test, train = zip(*drawn, strict=True)
        return np.concatenate(test), np.concatenate(train)

    @classmethod
    def example(cls, rng: np.random.Generator) -> GeneralizationInTime:
        """Return networks of 60 to 89 inputs with label noise, with fewer or more samples than inputs."""
        d = int(rng.integers(60, 90))
        n = round(d / rng.choice([0.4, 1.6]))
        return cls(d, n, rng.uniform(0.5, 1.5), rng.uniform(0.1, 0.5), rng.uniform(0.1, 0.5))
