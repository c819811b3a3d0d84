"""Base of the laws of stochastic gradient descent on a stream of Gaussian inputs, with their simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import step_counts
from linsolve.core.law import Statistic
from linsolve.core.parameters import parameter
from linsolve.numerics.checked import in_range, law_in_range

__all__ = ["COUNTS", "Stream", "finite", "losses"]

COUNTS = "[1, 9007199254740992]"  # whole numbers that doubles represent


class Stream(Statistic):
    """A linear model that sees a fresh minibatch of Gaussian inputs at every step.

    A subclass declares ``noise_variance``, and defines `means` and `variances` of the loss after given numbers of
    steps, `scaled`, an equal law in other units, and `drawn`, the eigenvalues of the input covariance with the initial
    error along each.
    """

    batch: Any = parameter("m", "samples in a minibatch", domain=COUNTS, typical=(1, 10), whole=True)
    step: Any = parameter(r"\eta", "length of a step, in units of time", domain="(0, inf)", typical=(0.01, 0.2))

    draws: ClassVar[int] = 20_000
    most: ClassVar[int] = 2**53  # steps
    sampled: ClassVar[tuple[int, ...]] = (1, 3, 8)  # steps at which `prediction` is compared with samples

    def means(self, xp: Any, counts: np.ndarray) -> Any:
        """Return the mean of the loss after `counts` steps, of the shape of `counts`."""
        raise NotImplementedError

    def variances(self, xp: Any, counts: np.ndarray) -> Any:
        """Return the variance of the loss after `counts` steps, of the shape of `counts`."""
        raise NotImplementedError

    def scaled(self, xp: Any) -> tuple[Self, Any]:
        """Return a law with rates and losses of order 1, whose products are doubles, and the unit of its losses."""
        raise NotImplementedError

    def largest_step(self) -> Any:
        """Return the step below which the mean of the loss converges."""
        raise NotImplementedError

    def drawn(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the eigenvalues of the input covariance and the initial errors of the weights."""
        raise NotImplementedError

    def mean(self, k: Any) -> Any:
        """Return the mean of the loss after `k` steps over all runs.

        Parameters
        ----------
        k : array_like of int, any shape
            Numbers of steps.

        Raises
        ------
        ValueError
            If `k` holds other than whole numbers.
        OverflowError
            If the mean is beyond the range of doubles: the run diverges.
        """
        return self._within("mean", k, lambda xp, law, unit, counts: law.means(xp, counts) * unit)

    def std(self, k: Any) -> Any:
        """Return the standard deviation of the loss of one run after `k` steps.

        Parameters
        ----------
        k : array_like of int, any shape
            Numbers of steps.

        Raises
        ------
        ValueError
            If `k` holds other than whole numbers.
        OverflowError
            If the variance is beyond the range of doubles: the run diverges.
        """
        return self._within("std", k, lambda xp, law, unit, counts: xp.sqrt(law.variances(xp, counts)) * unit)

    def _within(self, name: str, k: Any, formula: Callable[..., Any]) -> Any:
        who, given = f"{type(self).__name__}.{name}", self.parameters()
        counts = step_counts(who, k, most=self.most, fix="for the limit call stationary_mean")
        xp = arithmetic.namespace(*(v for v in given.values() if arithmetic.namespace(v) is not np))

        def at(steps: np.ndarray) -> Any:
            with np.errstate(over="ignore", invalid="ignore"):
                return formula(xp, *self.cast(xp).scaled(xp), steps)

        found = at(counts)
        if not finite(found):
            self._refuse_divergence(who, counts, at)
        return in_range(who, lambda: found, k=np.maximum(counts, 1), **given)

    def _refuse_divergence(self, who: str, counts: np.ndarray, at: Callable[[np.ndarray], Any]) -> None:
        """Raise OverflowError, with the first step at which the loss leaves the doubles, if the loss diverges."""
        low, high = 0, int(counts.max())
        if not finite(at(np.array(low))):
            return
        while high - low > 1:
            steps = np.unique(np.linspace(low, high, 65).astype(int))
            low = int(max(k for k, value in zip(steps, at(steps), strict=True) if finite(value)))
            high = int(min(steps[steps > low]))
        step, most = float(self.step), float(self.largest_step())
        name = "mean" if who.endswith("mean") else "variance"
        if step < most and (name == "mean" or high == 1):  # other parameters are too large
            return
        bound = "diverges (" if step >= most else "is too large for the variance (the mean converges; "
        raise OverflowError(
            f"{who}: step = {step:g} {bound}largest_step = {most:.3g}): the {name} of the loss leaves the doubles at "
            f"step {high} of k = {counts.max()}; use fewer steps or a smaller step"
        )

    def _in_range(self, name: str, formula: Callable[[], Any]) -> Any:
        """Return a number of the law; raise OverflowError, naming a parameter, if it is beyond the doubles."""
        return in_range(f"{type(self).__name__}.{name}", formula, **self.parameters())

    @law_in_range
    def prediction(self, xp: Any) -> dict[str, Any]:
        """Return mean and variance of the loss after `sampled` steps."""
        counts, (law, unit) = np.asarray(self.sampled), self.scaled(xp)
        return {"loss": law.means(xp, counts) * unit, "variance": law.variances(xp, counts) * unit * unit}

    def sample(self, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        """Draw `count` runs of the weights: their losses, and the squared deviations from the predicted mean."""
        found = losses(rng, count, self, self.sampled)
        return {"loss": found, "variance": (found - self.means(np, np.asarray(self.sampled))) ** 2}


def finite(found: Any) -> bool:
    """Return whether all numbers are finite, or have no values yet or unlimited exponents."""
    if arithmetic.is_object(arithmetic.namespace(found)) or not arithmetic.readable(found):
        return True
    return bool(np.isfinite(arithmetic.to_numpy(found)).all())


def losses(rng: np.random.Generator, count: int, law: Any, k: Sequence[int]) -> np.ndarray:
    """Return the loss of simulated runs of the weights after `k` steps, ascending, shape (count, len(k)).

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> from linsolve.systems.streaming_sgd.stream import losses
    >>> law = ls.laws.StreamingSGD(batch=2, step=0.1, dimension=3)
    >>> losses(np.random.default_rng(0), 1000, law, [0, 5]).shape
    (1000, 2)
    """
    spectrum, start = law.drawn()
    m, step, noise = int(law.batch), float(law.step), float(np.sqrt(law.noise_variance))
    error, scale, kept = np.broadcast_to(start, (count, len(start))), np.sqrt(spectrum), []
    for done in range(max(k) + 1):
        if done in k:
            kept.append(np.sum(spectrum * error**2, axis=-1) / 2)
        inputs = rng.normal(size=(count, m, len(start))) * scale
        residual = (inputs @ error[..., None])[..., 0] - noise * rng.normal(size=(count, m))
        error = error - step / m * (residual[:, None] @ inputs)[:, 0]
    return np.stack(kept, axis=-1)
