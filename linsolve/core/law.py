"""Laws that hold in a limit or on average: asymptotic expansions with an order, statistics with a standard error."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.parameters import Parametrized
from linsolve.core.query import NotExact

__all__ = ["Expansion", "Law", "Statistic"]


class Law(Parametrized):
    """A statement about a flow that holds in a limit or on average.

    A law is an `Expansion`, whose error has a stated order in a small parameter, or a `Statistic`, whose prediction
    lies within a few standard errors of sampled networks. The class attribute `approximates` describes the approximated
    system.

    A law is created only if its parameters satisfy its `conditions`.

    Raises
    ------
    NotExact
        If a condition does not vanish; the message contains its name and its value.

    Examples
    --------
    >>> import linsolve as ls
    >>> issubclass(ls.laws.LearningTime, ls.Law), ls.laws.LearningTime.approximates
    (True, 'the two-layer network on white inputs from a start of size sigma')
    """

    approximates: ClassVar[str]
    tolerance: ClassVar[float] = 1e-9
    batched: ClassVar[bool] = False  # whether parameters may have batch axes

    def __post_init__(self) -> None:
        super().__post_init__()
        self._refuse_batch()
        # defaults are NumPy numbers, beside parameters of any library
        given = [value for value in self.parameters().values() if arithmetic.namespace(value) is not np]
        for name, value in self.conditions(arithmetic.namespace(*given)).items():
            size = float(np.max(arithmetic.to_numpy(value)))
            if not size <= self.tolerance:
                raise NotExact(
                    f"{type(self).__name__}: {name} = {size:.3g} must vanish (relative distance; at most "
                    f"{self.tolerance:g}) for the law to hold; change the parameters"
                )

    def _refuse_batch(self) -> None:
        """Raise if a law of one network is given the parameters of several."""
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            own, value = field.metadata.get("axes"), getattr(self, field.name)
            if not self.batched and own is not None and value.ndim > len(own):
                axes = f"axes ({', '.join(own)})" if own else "no axes"
                raise ValueError(
                    f"{type(self).__name__}: {field.name} has shape {tuple(value.shape)} but must have {axes} "
                    f"({field.metadata['doc']}; a law describes one network); make one law for each"
                )

    def conditions(self, xp: Any) -> dict[str, Any]:
        """Return the relative distances of the parameters from the conditions of the law, by name; 0 if satisfied."""
        return {}

    @classmethod
    def counterexamples(cls, rng: np.random.Generator) -> dict[str, dict[str, Any]]:
        """Return, by name of each condition, parameters that violate it; `verify` checks that they raise `NotExact`."""
        return {}

    @classmethod
    def example(cls, rng: np.random.Generator) -> Law:
        """Return a typical instance, drawn at random."""
        raise NotImplementedError(f"{cls.__name__}: example is not defined (a typical instance); define it")


class Expansion(Law):
    """A law in a small parameter, with the order and the size of its error.

    A subclass defines `approximation` and `exact` as pure functions of ``(xp, small)`` that return arrays by name, and
    `orders`, the exponent of the relative error (in the sup norm) by the same names. It may define `constants`, such
    that the relative error of a typical instance is at most ``constant * small**order``, and `special_cases`, in which
    the error is 0. Both detect a wrong factor that does not change the order.

    Examples
    --------
    >>> import linsolve as ls
    >>> class SmallAngle(ls.laws.Expansion):
    ...     orders = {"sine": 2}
    ...     constants = {"sine": 0.17}
    ...     def approximation(self, xp, small):
    ...         return {"sine": small}
    ...     def exact(self, xp, small):
    ...         return {"sine": xp.sin(small)}
    >>> SmallAngle().measured_orders()["sine"].round(2).tolist()
    [2.0, 2.0]
    >>> ls.verify(SmallAngle()).ok
    True
    """

    orders: ClassVar[Mapping[str, float]]
    constants: ClassVar[Mapping[str, float]] = {}
    scales: ClassVar[tuple[float, ...]] = (1e-2, 1e-3, 1e-4)
    dps: ClassVar[int | None] = None

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the values of the law at a value of the small parameter, by name."""
        raise NotImplementedError(f"{type(self).__name__}: approximation is not defined (the law); define it")

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the exact values, from a flow's closed form or an integration."""
        raise NotImplementedError(f"{type(self).__name__}: exact is not defined (the exact values); define it")

    def special_cases(self) -> list[tuple[Expansion, float, str]]:
        """Return instances, finite values of the small parameter, and names for which the law is exact."""
        return []

    def errors(self) -> dict[str, np.ndarray]:
        """Return the relative errors at `scales`, by name, evaluated with `dps` digits if set."""
        return self.errors_at(self.scales)

    def errors_at(self, scales: tuple[float, ...]) -> dict[str, np.ndarray]:
        """Return the relative errors at the given values of the small parameter, by name."""
        xp = np if self.dps is None else arithmetic.precise(self.dps)
        law, found = self.cast(xp), {name: np.empty(len(scales)) for name in self.orders}
        for k, scale in enumerate(scales):
            small = arithmetic.cast(xp, scale)
            guess, truth = law.approximation(xp, small), law.exact(xp, small)
            for name, errors in found.items():
                size = xp.max(xp.abs(truth[name]))
                errors[k] = arithmetic.to_numpy(xp.max(xp.abs(guess[name] - truth[name])) / size)
        return found

    def measured_orders(self, errors: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
        """Return the slopes of log error against log scale between neighboring scales, by name."""
        steps = np.diff(np.log(self.scales))
        errors = self.errors() if errors is None else errors
        return {name: np.diff(np.log(values)) / steps for name, values in errors.items()}


class Statistic(Law):
    """A law for averages over random networks.

    A subclass defines `prediction`, values by name, and `sample`, draws by the same names with the draws along the
    first axis. Means of independent draws are compared with the predictions in units of their standard error. The
    number of draws must be large enough to detect a relative deviation of `resolution`.

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
    resolution: ClassVar[float] = 0.3

    def prediction(self, xp: Any) -> dict[str, Any]:
        """Return the predicted means, by name."""
        raise NotImplementedError(f"{type(self).__name__}: prediction is not defined (the means); define it")

    def sample(self, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        """Return `count` independent draws of the predicted quantities, by name, along the first axis."""
        raise NotImplementedError(f"{type(self).__name__}: sample is not defined (random draws); define it")

    def measured(self, rng: np.random.Generator, count: int | None = None) -> dict[str, tuple[Any, Any, Any]]:
        """Return prediction, mean of the draws and standard error of the mean, by name."""
        drawn, predicted = self.sample(rng, count or self.draws), self.cast(np).prediction(np)
        return {
            name: (value, drawn[name].mean(axis=0), drawn[name].std(axis=0, ddof=1) / np.sqrt(len(drawn[name])))
            for name, value in predicted.items()
        }

    def scores(self, rng: np.random.Generator, count: int | None = None) -> dict[str, np.ndarray]:
        """Return the z-scores of sampled means against the predictions, by name."""
        return {name: (mean - value) / error for name, (value, mean, error) in self.measured(rng, count).items()}
