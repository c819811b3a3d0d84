"""Laws: asymptotic expansions with the order of their error, and averages with a standard error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.parameters import Parametrized

__all__ = ["Expansion", "Law", "Statistic"]


class Law(Parametrized):
    """A statement about a flow that holds in a limit or on average.

    A law is an `Expansion`, whose error vanishes with a stated order in a small parameter, or a `Statistic`, whose
    prediction lies within a few standard errors of sampled networks. Its attribute `approximates` names the exact
    solution that it approximates.

    Examples
    --------
    >>> import linsolve as ls
    >>> issubclass(ls.laws.LearningTime, ls.Law), ls.laws.LearningTime.approximates
    (True, 'the two-layer network on white inputs from a start of size sigma')
    """

    approximates: ClassVar[str]

    @classmethod
    def example(cls, rng: np.random.Generator) -> Law:
        """Return a typical instance, drawn generically."""
        raise NotImplementedError


class Expansion(Law):
    """A law in a small parameter, with the order of its error.

    A subclass gives `approximation` and `exact` as pure functions of ``(xp, small)`` that return arrays by name, and
    `orders`, the exponent of the relative error (in the sup norm) by the same names.

    Examples
    --------
    >>> import linsolve as ls
    >>> class SmallAngle(ls.laws.Expansion):
    ...     orders = {"sine": 2}
    ...     def approximation(self, xp, small):
    ...         return {"sine": small}
    ...     def exact(self, xp, small):
    ...         return {"sine": xp.sin(small)}
    >>> SmallAngle().measured_orders()["sine"].round(2).tolist()
    [2.0, 2.0]
    """

    orders: ClassVar[Mapping[str, float]]
    scales: ClassVar[tuple[float, ...]] = (1e-2, 1e-3, 1e-4)
    dps: ClassVar[int | None] = None

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the law's values at a value of the small parameter, by name."""
        raise NotImplementedError

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the exact values, from a flow's closed form or an integration."""
        raise NotImplementedError

    def errors(self) -> dict[str, np.ndarray]:
        """Return the relative errors at `scales`, by name, evaluated to `dps` digits where that is set."""
        xp = np if self.dps is None else arithmetic.precise(self.dps)
        law, found = self.cast(xp), {name: np.empty(len(self.scales)) for name in self.orders}
        for k, scale in enumerate(self.scales):
            small = arithmetic.cast(xp, scale)
            guess, truth = law.approximation(xp, small), law.exact(xp, small)
            for name, errors in found.items():
                size = xp.max(xp.abs(truth[name]))
                errors[k] = arithmetic.to_numpy(xp.max(xp.abs(guess[name] - truth[name])) / size)
        return found

    def measured_orders(self) -> dict[str, np.ndarray]:
        """Return the slopes of log error against log scale between neighboring scales, by name."""
        steps = np.diff(np.log(self.scales))
        return {name: np.diff(np.log(errors)) / steps for name, errors in self.errors().items()}


class Statistic(Law):
    """A law for averages over random networks.

    A subclass gives `prediction`, values by name, and `sample`, draws by the same names with the draws along the first
    axis; means of independent draws are compared with the predictions in units of their standard error.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> class Dice(ls.laws.Statistic):
    ...     def prediction(self, xp):
    ...         return {"eyes": 7 / 2}
    ...     def sample(self, rng, count):
    ...         return {"eyes": rng.integers(1, 7, count)}
    >>> bool(abs(Dice().scores(np.random.default_rng(0))["eyes"]) < 4)
    True
    """

    draws: ClassVar[int] = 4000

    def prediction(self, xp: Any) -> dict[str, Any]:
        """Return the predicted means, by name."""
        raise NotImplementedError

    def sample(self, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        """Return `count` independent draws of the predicted quantities by name, along the first axis."""
        raise NotImplementedError

    def scores(self, rng: np.random.Generator, count: int | None = None) -> dict[str, np.ndarray]:
        """Return the z-scores of sampled means against the predictions, by name."""
        drawn, predicted = self.sample(rng, count or self.draws), self.cast(np).prediction(np)
        scores = {}
        for name, value in predicted.items():
            mean, error = drawn[name].mean(axis=0), drawn[name].std(axis=0, ddof=1) / np.sqrt(len(drawn[name]))
            scores[name] = (mean - value) / error
        return scores
