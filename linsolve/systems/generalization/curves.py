"""Base of the laws of test and train error in time: means, standard deviations, accuracies, simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import Interval, real_array
from linsolve.core.law import Statistic
from linsolve.core.parameters import batch_shape
from linsolve.numerics.checked import in_range, law_in_range
from linsolve.numerics.quadrature import legendre

__all__ = ["ErrorCurves", "MeanErrors", "share_within"]


class MeanErrors(Statistic):
    """Mean test and train error of a linear model under gradient flow, over random teachers and label noise.

    A subclass declares ``noise_variance`` and defines `test_mean`, `train_mean` and `sample_errors`.
    """

    latest: ClassVar[float] = np.inf  # time, other than infinity
    diverges: ClassVar[bool] = True  # whether an error may grow without bound in time
    sampled: ClassVar[tuple[float, ...]] = (0.3, 1.0, 2.0)  # times at which `prediction` is compared with samples
    draws: ClassVar[int] = 500
    resolution: ClassVar[float] = 0.4
    block: ClassVar[int] = 2**13  # values evaluated at a time

    def __post_init__(self) -> None:
        super().__post_init__()
        self._batch()

    def __call__(self, *t: Any) -> NoReturn:
        """Raise TypeError: the curves are methods."""
        who = type(self).__name__
        raise TypeError(f"{who}: law(t) is not defined (the law has several curves); say law.test_error(t)")

    def test_mean(self, xp: Any, t: Any) -> Any:
        """Return the mean squared error on new inputs, without label noise."""
        raise NotImplementedError

    def train_mean(self, xp: Any, t: Any) -> Any:
        """Return the mean squared error on the training samples."""
        raise NotImplementedError

    def sample_errors(self, rng: np.random.Generator, count: int, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return test and train errors of `count` networks at times `t`, shape (count, times)."""
        raise NotImplementedError

    def test_error(self, t: Any) -> Any:
        """Return the mean squared error on new samples, label noise included.

        Parameters
        ----------
        t : array_like, any shape
            Times, not negative; infinity is allowed.

        Returns
        -------
        array, shape t.shape + batch

        Raises
        ------
        ValueError
            If a time is negative or nan.
        OverflowError
            If the error is beyond the range of doubles.
        """
        return self._at("test_error", t, lambda xp, law, t: law.test_mean(xp, t) + law.noise_variance)

    def train_error(self, t: Any) -> Any:
        """Return the mean squared error on the training samples; arguments as for `test_error`."""
        return self._at("train_error", t, lambda xp, law, t: law.train_mean(xp, t))

    def accuracy(self, t: Any, threshold: Any) -> Any:
        r"""Return the share of new inputs whose squared error, without label noise, is at most `threshold`.

        Errors are Gaussian, so that for a mean square E the share is :math:`\mathrm{erf} \sqrt{\epsilon/(2E)}`.

        Parameters
        ----------
        t : array_like, any shape
            Times, not negative; infinity is allowed.
        threshold : float
            Squared error :math:`\epsilon`, positive.

        Raises
        ------
        ValueError
            If a time is negative or nan, or the threshold is not positive.
        """
        return self._share("accuracy", t, threshold, lambda xp, law, t: law.test_mean(xp, t))

    def train_accuracy(self, t: Any, threshold: Any) -> Any:
        """Return the share of training samples whose squared residual is at most `threshold`; see `accuracy`."""
        return self._share("train_accuracy", t, threshold, lambda xp, law, t: law.train_mean(xp, t))

    def _share(self, name: str, t: Any, threshold: Any, error: Callable[..., Any]) -> Any:
        who, meaning = f"{type(self).__name__}.{name}", "squared error that counts as correct"
        limit = real_array(who, "threshold", threshold, meaning=meaning, domain=Interval("(0, inf)"))
        if limit.ndim:
            raise ValueError(
                f"{who}: threshold has shape {tuple(limit.shape)} but must be one number ({meaning}); call once for "
                "each"
            )
        return self._at(name, t, lambda xp, law, t: share_within(xp, error(xp, law, t), arithmetic.cast(xp, limit)))

    def _at(self, name: str, t: Any, formula: Callable[..., Any]) -> Any:
        """Return ``formula(xp, law, t)`` at checked times; at infinite times inf is allowed if the law `diverges`."""
        who, given = f"{type(self).__name__}.{name}", self.parameters()
        times = real_array(who, "t", t, meaning="time", domain=Interval("[0, inf]"))
        xp = arithmetic.namespace(*(v for v in (times, *given.values()) if arithmetic.namespace(v) is not np))
        law, times = self.cast(xp), arithmetic.cast(xp, times)
        forever = xp.isinf(times)
        finite = xp.where(forever, xp.zeros_like(times), times)
        if arithmetic.readable(times) and (largest := float(arithmetic.to_numpy(finite).max())) > self.latest:
            raise ValueError(f"{who}: t = {largest:g} must be at most {self.latest:g} (time); say inf for the limit")
        found = in_range(who, lambda: law._in_blocks(xp, finite, formula), t=finite, **given)
        if not arithmetic.holds(forever):
            return found
        ends = xp.where(forever, times, xp.zeros_like(times))
        if self.diverges:
            with np.errstate(all="ignore"):
                limit = law._in_blocks(xp, ends, formula)
        else:
            limit = in_range(who, lambda: law._in_blocks(xp, ends, formula), **given)
        return xp.where(xp.reshape(forever, forever.shape + (1,) * (found.ndim - forever.ndim)), limit, found)

    def _in_blocks(self, xp: Any, t: Any, formula: Callable[..., Any]) -> Any:
        """Return a formula at times of any shape, which lead the batch axes of the parameters."""
        batch = self._batch()
        rows, flat = max(1, self.block // math.prod(batch)), xp.reshape(t, (-1, *(1 for _ in batch)))
        parts = [formula(xp, self, flat[k : k + rows]) for k in range(0, flat.shape[0], rows)]
        return xp.reshape(xp.concat(parts), (*t.shape, *batch))

    def _batch(self) -> tuple[int, ...]:
        """Return the shape of the batch axes; raise ValueError unless those of the parameters broadcast."""
        fields = type(self).__dataclass_fields__  # type: ignore[attr-defined]
        own = {name: len(fields[name].metadata["axes"]) for name in self.parameters()}
        shapes = {name: value.shape[: value.ndim - own[name]] for name, value in self.parameters().items()}
        return batch_shape(type(self).__name__, shapes)

    @law_in_range
    def prediction(self, xp: Any) -> dict[str, Any]:
        """Return the means of test and train error at the times `sampled`."""
        t = arithmetic.cast(xp, np.reshape(self.sampled, (-1, *(1 for _ in self._batch()))))
        return {"test error": self.test_mean(xp, t), "train error": self.train_mean(xp, t)}

    def sample(self, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        """Draw the errors of `count` networks."""
        test, train = self.sample_errors(rng, count, np.asarray(self.sampled))
        return {"test error": test, "train error": train}


class ErrorCurves(MeanErrors):
    """Test and train error with their variances from network to network.

    A subclass defines `test_moments` and `train_moments` in place of the means.
    """

    def test_moments(self, xp: Any, t: Any) -> tuple[Any, Any]:
        """Return mean and variance of the squared error on new inputs, without label noise."""
        raise NotImplementedError

    def train_moments(self, xp: Any, t: Any) -> tuple[Any, Any]:
        """Return mean and variance of the mean squared error on the training samples."""
        raise NotImplementedError

    def test_deviation(self, xp: Any, t: Any) -> Any:
        """Return the standard deviation of the squared error on new inputs."""
        return xp.sqrt(self.test_moments(xp, t)[1])

    def train_deviation(self, xp: Any, t: Any) -> Any:
        """Return the standard deviation of the mean squared error on the training samples."""
        return xp.sqrt(self.train_moments(xp, t)[1])

    def test_mean(self, xp: Any, t: Any) -> Any:
        """Return the mean squared error on new inputs, without label noise."""
        return self.test_moments(xp, t)[0]

    def train_mean(self, xp: Any, t: Any) -> Any:
        """Return the mean squared error on the training samples."""
        return self.train_moments(xp, t)[0]

    def test_error_std(self, t: Any) -> Any:
        """Return the standard deviation of the test error from network to network; arguments as for `test_error`."""
        return self._at("test_error_std", t, lambda xp, law, t: law.test_deviation(xp, t))

    def train_error_std(self, t: Any) -> Any:
        """Return the standard deviation of the train error from network to network; arguments as for `test_error`."""
        return self._at("train_error_std", t, lambda xp, law, t: law.train_deviation(xp, t))

    @law_in_range
    def prediction(self, xp: Any) -> dict[str, Any]:
        """Return means and variances of test and train error at the times `sampled`."""
        found, t = {}, arithmetic.cast(xp, np.reshape(self.sampled, (-1, *(1 for _ in self._batch()))))
        for name, moments in (("test", self.test_moments), ("train", self.train_moments)):
            found[f"{name} error"], found[f"{name} variance"] = moments(xp, t)
        return found

    def sample(self, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        """Draw `count` networks: their errors, and the squared deviations from the predicted mean."""
        t = np.asarray(self.sampled)
        drawn = dict(zip(("test", "train"), self.sample_errors(rng, count, t), strict=True))
        means = {"test": self.test_moments(np, t)[0], "train": self.train_moments(np, t)[0]}
        squares = {f"{name} variance": (values - means[name]) ** 2 for name, values in drawn.items()}
        return {f"{name} error": values for name, values in drawn.items()} | squares


def share_within(xp: Any, error: Any, threshold: Any) -> Any:
    r"""Return the probability :math:`\mathrm{erf} \sqrt{\epsilon/(2E)}` that a Gaussian's square is within a threshold.

    By quadrature of :math:`(2x/\sqrt\pi) \int_0^1 e^{-x^2 s^2} ds`, accurate also for small shares.

    Examples
    --------
    >>> import numpy as np
    >>> share_within(np, np.array([0.0, 1.0]), np.array(1.0)).round(6).tolist()  # one standard deviation
    [1.0, 0.682689]
    """
    digits = xp.dps if arithmetic.is_object(xp) else 16
    far, count = math.sqrt(2.4 * digits), 3 * digits  # erf(far) is 1 to these digits
    large = threshold >= 2 * far**2 * error
    square = xp.where(large, far**2 + 0 * error, threshold / xp.where(large, 1 + 0 * error, 2 * error))
    s, weights = legendre(xp, count)
    total = xp.sum(weights * xp.exp(-square[..., None] * s**2), axis=-1)
    share = 2 * xp.sqrt(square / (2 * xp.asin(xp.ones_like(square)))) * total
    return xp.where(large | (share > 1), 1 + 0 * error, share)  # rounding errors lead beyond 1
