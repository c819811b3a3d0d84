"""Test and train error of a linear or kernel model in time, for given inputs of any spectrum, exactly."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq

from linsolve import arithmetic
from linsolve.core.arguments import Interval, integer, real_array
from linsolve.core.parameters import parameter
from linsolve.numerics.checked import in_range
from linsolve.numerics.double_double import power_of_two
from linsolve.numerics.spectrum import Spectrum
from linsolve.systems.generalization import raw_weights
from linsolve.systems.generalization.curves import ErrorCurves
from linsolve.systems.generalization.modes import Mode

__all__ = ["GeneralizationOfData"]

_GRID = 4000  # times between which the derivative of the test error changes its sign


class GeneralizationOfData(ErrorCurves):
    r"""Test and train error of a linear model on given inputs in time: mean and standard deviation, at any size.

    A linear model learns samples :math:`y = X w_* + \varepsilon` of given inputs X, shape (n, d), by gradient flow,

    .. math:: \dot w = -\tfrac1n X^T (X w - y) - \mu w .

    Teacher and start are isotropic Gaussian vectors, the label noise :math:`\varepsilon` has the variance
    :math:`\sigma^2`. Along the eigenvectors of :math:`X^T X/n = V \mathrm{diag}(\lambda_i) V^T`, with
    :math:`\rho_i = \lambda_i + \mu`, :math:`q_i = (1 - e^{-\rho_i t})/\rho_i`, the errors of the weights are
    independent, of mean square

    .. math:: c_i = \tfrac1d E |w_*|^2 (e^{-\rho_i t} + \mu q_i)^2 + \tfrac1d E |w(0)|^2 e^{-2 \rho_i t}
        + \tfrac1n \sigma^2 \lambda_i q_i^2 ,

    so that with the covariance :math:`\Sigma` of new inputs, :math:`M = V^T \Sigma V`,

    .. math:: E_{test} = \sigma^2 + \sum_i M_{ii} c_i, \qquad \mathrm{Var}\, E_{test} = 2 \sum_{ij} M_{ij}^2 c_i c_j .

    Parameters
    ----------
    inputs : array_like, shape (sample, input)
        Training inputs, X.
    covariance : array_like, shape (input, input)
        Second moments of new inputs, :math:`\Sigma`, such as ``X_test.T @ X_test / len(X_test)``.
    signal, start : float
        Mean squared lengths of the teacher and of the initial weights, :math:`E |w_*|^2` and :math:`E |w(0)|^2`.
    noise_variance : float
        Variance of the label noise, :math:`\sigma^2`.
    ridge : float
        Weight decay, :math:`\mu`.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If the covariance is not symmetric and positive semi-definite, or the shapes do not fit.

    Notes
    -----
    Exact for: any inputs, averaged over isotropic teachers and label noise; time is in the units of `linsolve.solve`,
    whose loss is half the mean squared error. Not for: one given teacher, for which see `linsolve.solve`. The accuracy
    is that of Gaussian new inputs, up to the fluctuation of the test error.

    After Advani, Saxe and Sompolinsky, "High-dimensional dynamics of generalization error in neural networks" (2020),
    at finite size; the standard deviations were derived here. Accuracy: some rounding errors of 50 digits
    (``tests/systems/generalization/test_of_data.py``).

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> X = np.random.default_rng(0).normal(size=(30, 20))
    >>> law = ls.laws.GeneralizationOfData(X, np.eye(20), noise_variance=0.25)
    >>> law.test_error([0, 3, np.inf]).round(3).tolist(), law.test_error_std([0, 3, np.inf]).round(3).tolist()
    ([1.25, 0.525, 0.876], [0.316, 0.113, 0.367])
    >>> round(law.optimal_stopping_time(), 2)
    3.56
    """

    inputs: Any = parameter("X", "training inputs", axes=("sample", "input"))
    covariance: Any = parameter(r"\Sigma", "second moments of new inputs", axes=("input", "input"))
    signal: Any = parameter("E|w_*|^2", "mean squared length of the teacher", domain="[0, inf)", default=1.0)
    start: Any = parameter("E|w(0)|^2", "mean squared length of the initial weights", domain="[0, inf)", default=0.0)
    noise_variance: Any = parameter(r"\sigma^2", "variance of the label noise", domain="[0, inf)", default=0.0)
    ridge: Any = parameter(r"\mu", "weight decay", domain="[0, inf)", typical=(0.01, 0.5), default=0.0)

    diverges: ClassVar[bool] = False
    draws: ClassVar[int] = 20_000
    sampled: ClassVar[tuple[float, ...]] = (0.5, 3.0, 20.0)
    approximates: ClassVar[str] = "averages over teachers and label noise"
    unapplied: ClassVar[str] = "an average over the labels of a data set; pass its inputs"

    def __post_init__(self) -> None:
        super().__post_init__()
        who = type(self).__name__
        if arithmetic.readable(self.inputs, self.covariance):
            in_range(who, lambda: self.inputs.ravel() @ self.inputs.ravel(), inputs=self.inputs)
            _refuse_indefinite(who, arithmetic.to_numpy(self.covariance))

    def test_moments(self, xp: Any, t: Any) -> tuple[Any, Any]:
        """Return mean and variance of the squared error on new inputs, without label noise."""
        c, mixed = self._test_terms(xp, t)
        mean = xp.sum(c * xp.sum(mixed * xp.eye(c.shape[-1]), axis=-1), axis=-1)
        return mean, 2 * xp.sum(c @ mixed**2 * c, axis=-1)

    def test_deviation(self, xp: Any, t: Any) -> Any:
        """Return the standard deviation of the squared error on new inputs; its square may be no double."""
        c, mixed = self._test_terms(xp, t)
        u, v = power_of_two(xp, xp.max(c, axis=-1)), power_of_two(xp, xp.max(xp.abs(mixed)))
        scaled = c * u[..., None]
        return xp.sqrt(2 * xp.sum(scaled @ (mixed * v) ** 2 * scaled, axis=-1)) / u / v

    def train_moments(self, xp: Any, t: Any) -> tuple[Any, Any]:
        """Return mean and variance of the mean squared error on the training samples."""
        parts, left, noise = self._train_terms(xp, t)
        return xp.sum(parts, axis=-1) + left * noise, 2 * (xp.sum(parts**2, axis=-1) + left * noise**2)

    def train_deviation(self, xp: Any, t: Any) -> Any:
        """Return the standard deviation of the mean squared error on the samples; its square may be no double."""
        parts, left, noise = self._train_terms(xp, t)
        u = power_of_two(xp, xp.sum(parts, axis=-1) + left * noise)
        return xp.sqrt(2 * (xp.sum((parts * u[..., None]) ** 2, axis=-1) + left * (noise * u) ** 2)) / u

    def _test_terms(self, xp: Any, t: Any) -> tuple[Any, Any]:
        """Return mean squares of the errors of the weights, and the covariance of new inputs, in the eigenvectors."""
        spectrum, mixed = self._modes(xp)
        modes = Mode.of(xp, spectrum.values, t, self.ridge, self._unit(xp))
        return modes.weights(*self._sizes()) / spectrum.values.shape[0], mixed

    def _train_terms(self, xp: Any, t: Any) -> tuple[Any, int, Any]:
        """Return mean squares of the residuals, and number and mean square of those that are label noise alone."""
        n, d = self.inputs.shape
        values = self._modes(xp)[0].values[max(0, d - n) :]  # the others are no directions of the labels
        parts = Mode.of(xp, values, t, self.ridge, self._unit(xp)).residuals(*self._sizes()) / d
        return parts, max(0, n - d), self.noise_variance / n

    def _unit(self, xp: Any) -> Any:
        """Return a power of two by which tiny or huge inputs are multiplied, 1 for others."""
        size = xp.max(xp.abs(self.inputs))
        return power_of_two(xp, xp.where(size > 0, size, xp.ones_like(size)))

    def _modes(self, xp: Any) -> tuple[Spectrum, Any]:
        """Return the spectrum of the training inputs times `_unit`, and the covariance in its eigenvectors."""
        inputs = self.inputs * self._unit(xp)
        spectrum = Spectrum.of(xp, xp.matrix_transpose(inputs) @ inputs / inputs.shape[0])
        return spectrum, xp.matrix_transpose(spectrum.vectors) @ self.covariance @ spectrum.vectors

    def _sizes(self) -> tuple[Any, Any, Any]:
        """Return signal, start and noise as for `Mode`."""
        n, d = self.inputs.shape
        return self.signal, self.start, self.noise_variance * d / n

    def floor(self) -> float:
        r"""Return the test error along directions without samples, which no training time removes.

        Without label noise, :math:`\sum_{\lambda_i = 0} M_{ii} D_0/d`; with weight decay :math:`D_0 = E |w_*|^2`.
        """
        law, who = self.cast(np), f"{type(self).__name__}.floor"
        spectrum, mixed = in_range(who, lambda: law._modes(np), **law.parameters())
        size = law.signal + (law.start if law.ridge == 0 else 0.0)
        unseen = np.where(spectrum.values == 0, np.diagonal(mixed), 0.0)
        return float(size * np.maximum(np.mean(unseen), 0.0))

    def optimal_stopping_time(self) -> float:
        """Return the time at which the mean of the test error is least, inf if that is the limit.

        Raises
        ------
        OverflowError
            If the test error is beyond the range of doubles.
        """
        law, who = self.cast(np), f"{type(self).__name__}.optimal_stopping_time"
        spectrum, mixed = in_range(who, lambda: law._modes(np), **law.parameters())
        unit = law._unit(np)
        values = spectrum.values / unit
        rates = values + law.ridge * unit
        signal, start, noise = law._sizes()

        def slope(t: Any) -> Any:
            """Return half the derivative of the test error by the time t in units of `unit`, times d."""
            modes = Mode.of(np, spectrum.values, np.asarray(t) * unit, law.ridge, unit)
            pull = signal * values * modes.teacher + start * rates * modes.start
            return np.sum(np.diagonal(mixed) * modes.start * (noise * modes.values * modes.noise - pull), axis=-1)

        if not (moving := rates[rates > 0]).size:
            return 0.0
        times = np.geomspace(1e-9 / moving.max(), 1e3 / max(moving.min(), 1e-290), _GRID)
        signs = np.sign(in_range(who, lambda: slope(times), **law.parameters()))
        turns = np.flatnonzero((signs[:-1] < 0) & (signs[1:] > 0))
        found = [brentq(slope, times[k], times[k + 1], xtol=1e-300, rtol=1e-15) for k in turns]
        with np.errstate(over="ignore"):  # beyond the largest double is inf
            candidates = np.array([0.0, *found, np.inf]) * unit
        errors = in_range(who, lambda: law.test_moments(np, candidates)[0], **law.parameters())
        return float(candidates[errors <= errors.min() * (1 + 1e-14)][-1])  # the last of those equal to rounding

    @classmethod
    def of_kernel(
        cls, kernel: Any, samples: int, signal: Any = 1.0, start: Any = 0.0, noise_variance: Any = 0.0, ridge: Any = 0.0
    ) -> GeneralizationOfData:
        r"""Return the law of kernel regression in time: the flow of `FrozenKernel.for_mean_loss`.

        Parameters
        ----------
        kernel : array_like, shape (n + m, n + m)
            Kernel K on n training and m test inputs, in this order, positive semi-definite.
        samples : int
            Number of training inputs, n.
        signal, start : float
            The target function and the initial outputs are Gaussian processes of covariance ``signal K``, ``start K``.
        noise_variance : float
            Variance of the label noise.
        ridge : float
            Weight decay of the linearized parameters; the limit is kernel ridge regression with
            :math:`(K + n \mu)^{-1}`.

        Raises
        ------
        ValueError
            If the kernel is not square, symmetric and positive semi-definite, or leaves no test input.

        Examples
        --------
        >>> import numpy as np
        >>> import linsolve as ls
        >>> x = np.linspace(-1.0, 1.0, 30)
        >>> order = np.argsort(np.arange(30) % 3 == 0, kind="stable")  # each third input is a test input
        >>> kernel = np.exp(-((x[order, None] - x[order]) ** 2) / 0.1)
        >>> law = ls.laws.GeneralizationOfData.of_kernel(kernel, samples=20, noise_variance=0.1)
        >>> law.test_error([0.0, 20.0]).round(3).tolist()
        [1.1, 0.174]
        """
        who = f"{cls.__name__}.of_kernel"
        matrix = arithmetic.to_numpy(
            real_array(who, "kernel", kernel, meaning="kernel on all inputs", domain=Interval("[-1e300, 1e300]"))
        )
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(
                f"{who}: kernel has shape {matrix.shape} but must be square (kernel on all inputs); pass one row for "
                "each input"
            )
        count = len(matrix)
        meaning = f"training inputs of {count}; leave at least one test input"
        n = integer(who, "samples", samples, meaning=meaning, high=count - 1, example=count - 1)
        values, vectors = _refuse_indefinite(who, matrix, "kernel", "kernel on all inputs")
        features = vectors * np.sqrt(np.maximum(values, 0))
        train, test = features[:n], features[n:]
        given = (("signal", signal), ("start", start))
        signal, start = (
            count * real_array(who, name, value, meaning="variance, over K", domain=Interval("[0, 1e300]"))
            for name, value in given
        )
        return cls(train, test.T @ test / len(test), signal, start, noise_variance, ridge)

    def sample_errors(self, rng: np.random.Generator, count: int, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return test and train errors of `count` teachers, starts and label noises, shape (count, times)."""
        sizes = float(self.signal), float(self.start), float(self.noise_variance)
        X, covariance = np.asarray(self.inputs), np.asarray(self.covariance)
        return raw_weights.errors(rng, count, X, t, *sizes, decay=float(self.ridge), covariance=covariance)

    @classmethod
    def example(cls, rng: np.random.Generator) -> GeneralizationOfData:
        """Return inputs of unequal variances, fewer or more than their dimension, with label noise and weight decay."""
        n, d = rng.permutation([6, 9])
        scales, tests = 1 / np.sqrt(np.arange(1, d + 1)), rng.normal(size=(2 * d, d))
        inputs = rng.normal(size=(n, d)) * scales
        signal, start, noise = rng.uniform(0.2, 1.0, 3)
        return cls(inputs, tests.T @ tests / len(tests), signal, start, noise, rng.uniform(0.05, 0.3))


def _refuse_indefinite(
    who: str, matrix: np.ndarray, name: str = "covariance", meaning: str = "second moments of new inputs"
) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues and eigenvectors; raise unless the matrix is symmetric and positive semi-definite."""
    size = np.max(np.abs(matrix))
    unit = matrix / (size if size > 0 else 1)
    margin = 100 * len(matrix) * 2.0**-52
    if not (gap := float(np.max(np.abs(unit - unit.T)))) <= margin:
        raise ValueError(f"{who}: {name} - {name}^T = {gap:.3g} must vanish ({meaning}, relative); pass (A + A.T) / 2")
    values, vectors = np.linalg.eigh(unit)
    if not values[0] >= -margin:
        rule, shift = "must be at least 0, relative to the largest entry", -float(values[0]) * float(size)
        shift = shift if float(f"{shift:.3g}") >= shift * (1 - 1e-14) else 1.01 * shift  # not rounded down
        raise ValueError(
            f"{who}: {name} has the eigenvalue {values[0]:.3g}, which {rule} ({meaning}); "
            f"add {shift:.3g} to the diagonal"
        )
    return values * size, vectors
