"""The loss of stochastic gradient descent on Gaussian inputs of any covariance: exact mean, variance and stability."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from linsolve.core.parameters import parameter
from linsolve.numerics.double_double import power_of_two
from linsolve.systems.streaming_sgd.stream import Stream, finite

__all__ = ["StreamingSGDAnisotropic"]


class StreamingSGDAnisotropic(Stream):
    r"""Loss of online SGD on Gaussian inputs of any spectrum: mean and standard deviation at every step.

    As `StreamingSGD`, with inputs :math:`x \sim N(0, \Lambda)`, :math:`\Lambda = \mathrm{diag}(\lambda_i)` in its
    eigenbasis. For the errors :math:`e = w - w_*`, the loss above the noise :math:`\ell = \sum_i \lambda_i e_i^2/2`,
    and :math:`\kappa = \eta/m`, :math:`a_i = \kappa \lambda_i`, the means :math:`c_i = E e_i^2` obey

    .. math:: c_i' = D_i c_i + \kappa^2 m \lambda_i T, \qquad D_i = 1 - 2 m a_i + m (m + 1) a_i^2, \quad
        T = \textstyle\sum_j \lambda_j c_j + \sigma^2,

    and the covariances :math:`V_{ij} = \mathrm{Cov}(e_i^2, e_j^2)`, with :math:`t_i = \sum_j V_{ij} \lambda_j`,
    :math:`w_i = 1 - 2 (m + 2) a_i + (m + 2)(m + 3) a_i^2`, :math:`u_i = (4m + 6) a_i^2 - 4 a_i`,

    .. math:: V_{ij}' &= (D_i D_j + F_{ij}) V_{ij} + F_{ij} c_i c_j
            + \kappa^2 m [\lambda_j (w_i t_i + u_i c_i T) + \lambda_i (w_j t_j + u_j c_j T)] \\
        &\quad + \kappa^4 m \lambda_i \lambda_j [(m + 2)\, \lambda^T V \lambda + 2 T^2]
            + 2 \delta_{ij} \bigl\{ 2 \kappa^2 m \lambda_i w_i (t_i + c_i T)
            + \kappa^4 m (m + 2) \lambda_i^2 (\lambda^T V \lambda + T^2) \bigr\} ,

    .. math:: F_{ij} = 4 m a_i a_j [1 - (m + 1)(a_i + a_j) + (m + 1)(m + \tfrac32) a_i a_j] .

    Parameters
    ----------
    batch, step, noise_variance
        As for `StreamingSGD`.
    spectrum : array_like, shape (mode,)
        Eigenvalues :math:`\lambda_i` of the input covariance.
    distances_squared : array_like, shape (mode,)
        Squared initial errors :math:`(w_0 - w_*)_i^2` along the eigenvectors.

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
    Exact for: Gaussian inputs, fresh at every step, any spectrum, batch size and step. Not for: other inputs with
    the same covariance; a fixed data set, see `linsolve.sgd`. A step takes O(d) operations for the mean and
    O(d^2) for the standard deviation.

    The mean converges if and only if :math:`\eta \lambda_i (1 + 1/m) < 2` for every mode and
    :math:`\frac{\eta}{m} \sum_i \lambda_i / (2 - \eta \lambda_i (1 + 1/m)) < 1`: the step is below `largest_step`.

    Source: Bordelon and Pehlevan, "Learning curves for SGD on structured features" (2022), for the mean; the covariance
    was derived here.

    Accuracy: one step within 1e-45 of exact Gaussian averages at 50 digits
    (``tests/systems/streaming_sgd/test_streaming_sgd.py``).

    Examples
    --------
    >>> import linsolve as ls
    >>> law = ls.laws.StreamingSGDAnisotropic(
    ...     batch=4, step=0.2, spectrum=[2.0, 1.0, 0.1], distances_squared=[1.0, 1.0, 4.0], noise_variance=0.5)
    >>> law.mean([0, 10, 100]).round(4).tolist(), law.std([0, 10, 100]).round(4).tolist()
    ([1.7, 0.1863, 0.0311], [0.0, 0.0584, 0.0304])
    >>> round(float(law.largest_step()), 4), round(float(law.stationary_mean()), 4)
    (0.6484, 0.0271)
    """

    spectrum: Any = parameter(r"\lambda", "eigenvalues of the input covariance", domain="(0, inf)", axes=("mode",))
    distances_squared: Any = parameter("c", "squared errors of the start", domain="[0, inf)", axes=("mode",))
    noise_variance: Any = parameter(r"\sigma^2", "variance of the labels' noise", domain="[0, inf)", default=0.0)

    most: ClassVar[int] = 10_000_000  # steps, which are evaluated one by one
    approximates: ClassVar[str] = "averages over runs of SGD on a stream of Gaussian inputs"
    unapplied: ClassVar[str] = "an average over streams of Gaussian inputs; linsolve.sgd averages over a data set"

    def scaled(self, xp: Any) -> tuple[StreamingSGDAnisotropic, Any]:
        """Return the law of inputs and losses of order 1, and the unit of its losses."""
        rates = power_of_two(xp, xp.max(self.spectrum))
        distances = self.distances_squared / rates
        top = xp.max(self.spectrum * rates * distances)
        factor = power_of_two(xp, xp.maximum(top, self.noise_variance))
        sizes = {"distances_squared": distances * factor, "noise_variance": self.noise_variance * factor}
        return self._with(spectrum=self.spectrum * rates, step=self.step / rates, **sizes), 1 / factor

    def means(self, xp: Any, counts: np.ndarray) -> Any:
        """Return the mean of the loss after `counts` steps, of the shape of `counts`."""
        return _kept(xp, counts, (xp.sum(self.spectrum * c) / 2 for c in self._errors(xp)))

    def variances(self, xp: Any, counts: np.ndarray) -> Any:
        """Return the variance of the loss after `counts` steps, of the shape of `counts`."""
        lam = self.spectrum
        found = _kept(xp, counts, (xp.sum(lam * (v @ lam)) / 4 for v in self._covariances(xp)))
        return xp.where(found < 0, 0 * found, found)  # a variance at rounding level may be computed as negative

    def modes(self, xp: Any, c: Any) -> Any:
        """Return the mean squared errors after a step, from those before."""
        lam, m, k = self.spectrum, self.batch, self.step / self.batch
        return self.decay(xp) * c + k**2 * m * lam * (xp.sum(lam * c) + self.noise_variance)

    def decay(self, xp: Any) -> Any:
        """Return the factor ``D`` of each mode in a step."""
        m, a = self.batch, self.step * self.spectrum / self.batch
        return (1 - m * a) ** 2 + m * a**2

    def covariance(self, xp: Any, c: Any, v: Any) -> Any:
        """Return the covariance of the squared errors after a step, from mean and covariance before."""
        lam, m, k = self.spectrum, self.batch, self.step / self.batch
        a, d = k * lam, self.decay(xp)
        t, total = v @ lam, xp.sum(lam * c) + self.noise_variance
        square = xp.sum(lam * t)
        w, u = 1 - 2 * (m + 2) * a + (m + 2) * (m + 3) * a**2, (4 * m + 6) * a**2 - 4 * a
        both = a[:, None] * a
        f = 4 * m * both * (1 - (m + 1) * (a[:, None] + a) + (m + 1) * (m + 1.5) * both)
        one = k**2 * m * (w * t + u * c * total)[:, None] * lam
        found = (d[:, None] * d + f) * v + f * c[:, None] * c + one + xp.matrix_transpose(one)
        found = found + k**4 * m * ((m + 2) * square + 2 * total**2) * lam[:, None] * lam
        same = 2 * k**2 * m * lam * w * (t + c * total) + k**4 * m * (m + 2) * lam**2 * (square + total**2)
        return found + 2 * same * xp.eye(lam.shape[0])

    def _errors(self, xp: Any) -> Iterator[Any]:
        """Yield the mean squared errors after 0, 1, 2, ... steps."""
        c = self.distances_squared
        while True:
            yield c
            c = self.modes(xp, c)

    def _covariances(self, xp: Any) -> Iterator[Any]:
        """Yield the covariances of the squared errors after 0, 1, 2, ... steps."""
        v = 0 * self.spectrum[:, None] * self.spectrum
        for c in self._errors(xp):
            yield v
            v = self.covariance(xp, c, v)

    def largest_step(self) -> Any:
        """Return the step below which the mean of the loss converges.

        ``2/(c + v)``, ``c = 1 + 1/m``, with the root v of ``sum_i lam_i / (v + c (1 - lam_i)) = m`` for a largest
        eigenvalue of 1, by Newton's method on the inverse of the sum, which is concave: the iterates increase towards
        the root.
        """
        lam, m = self.spectrum / np.max(self.spectrum), self.batch
        c, v = 1 + 1 / m, 1 / m
        for _ in range(60):
            rest = v + c * (1 - lam)
            total = np.sum(lam / rest)
            v = v + (total / m - 1) * total / np.sum(lam / rest**2)
        return self._in_range("largest_step", lambda: 2 / (c + v) / np.max(self.spectrum))

    def stationary_mean(self) -> Any:
        """Return the limit of the mean of the loss, inf if the step is not below `largest_step`."""
        if not self.step < self.largest_step():
            return np.float64(np.inf)
        rates = self.step * self.spectrum
        share = np.sum(rates / (2 - rates * (1 + 1 / self.batch))) / self.batch
        return self._in_range("stationary_mean", lambda: share / (2 * (1 - share)) * self.noise_variance)

    def drawn(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the eigenvalues and the positive initial errors; their signs do not change the loss's distribution."""
        return np.asarray(self.spectrum), np.sqrt(self.distances_squared)

    @classmethod
    def example(cls, rng: np.random.Generator) -> StreamingSGDAnisotropic:
        """Return a stream of four noisy inputs of unequal variances, with a step of a quarter to half the largest."""
        parameters = {
            "batch": int(rng.integers(2, 5)),
            "spectrum": rng.uniform(0.5, 1.5) * np.array([1.0, 0.7, 0.3, 0.1]),
            "distances_squared": rng.uniform(0.2, 2.0, 4),
            "noise_variance": rng.uniform(0.1, 0.5),
        }
        longest = float(cls(step=1.0, **parameters).largest_step())
        return cls(step=rng.uniform(0.25, 0.5) * longest, **parameters)


def _kept(xp: Any, counts: np.ndarray, values: Iterator[Any]) -> Any:
    """Return the entries of a sequence at `counts`; from the first one on that is not finite all are equal."""
    wanted, found = set(counts.ravel().tolist()), {}
    for k, value in zip(range(max(wanted) + 1), values, strict=False):
        if k in wanted:
            found[k] = value
        if not finite(value):
            break
    return xp.reshape(xp.stack([found.get(k, value) for k in counts.ravel().tolist()]), counts.shape)
