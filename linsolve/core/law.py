"""Laws that hold in a limit or on average: asymptotic expansions with an order, statistics with a standard error."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.parameters import Parametrized
from linsolve.core.query import NotExact

if TYPE_CHECKING:
    from linsolve.core.network_law import GivenNetwork, NetworkLaw

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
    symbol: ClassVar[str] = "sigma"  # of the small parameter of one network
    meaning: ClassVar[str] = "size of the start"
    timed: ClassVar[bool] = True  # whether the law of one network has a time
    unapplied: ClassVar[str] = ""  # reason why the law has no network of its own

    def __post_init__(self) -> None:
        super().__post_init__()
        self._refuse_batch()
        # defaults are NumPy numbers, beside parameters of any library
        given = [value for value in self.parameters().values() if arithmetic.namespace(value) is not np]
        for name, value in self.conditions(arithmetic.namespace(*given)).items():
            if not arithmetic.readable(value):
                continue
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

    @classmethod
    def of(
        cls,
        weights: Any,
        data: Any,
        rates: Any = None,
        *,
        bias: Any = None,
        covariances: bool = False,
        tolerance: float | None = None,
    ) -> NetworkLaw:
        r"""Return the law of a network on a data set, a function of time (of nothing if the law has no time).

        Parameters
        ----------
        weights : sequence of array_like
            ``W1, ..., WL`` from the first layer, shape (n_1, n_in), to the last, shape (n_out, n_{L-1}) or, for one
            output, (n_{L-1},).
        data : pair of array_like
            Samples ``(X, Y)``, shapes (P, n_in) and (P, n_out) or (P,); with ``covariances=True`` the moments
            ``(Sigma_xx, Sigma_yx) = (X^T X / P, Y^T X / P)``.
        rates : array_like, shape (L,), optional
            Learning rates, positive; 1 by default.
        bias : sequence of array_like, or a number, optional
            Trained biases, one entry a layer, as in `linsolve.solve`; they need samples.
        covariances : bool
            Whether `data` holds second moments instead of samples.
        tolerance : float, optional
            Relative distance up to which a condition holds, as in `linsolve.applies`.

        Returns
        -------
        NetworkLaw
            ``law(t)`` is a `LawTrajectory`: ``traj["map"]``, ``traj["loss"]``, ... with the shapes and the units of
            time of `linsolve.solve`, ``traj.route``, and the estimated relative errors ``traj.error["map"]``, ...

        Raises
        ------
        NotExact
            If a condition of the law fails for this network, or no network without biases is equivalent; the message
            contains the condition and its value.
        TypeError
            If the law has no network of its own.
        ValueError
            If shapes do not fit, entries are not finite, or rates are not positive.

        Notes
        -----
        The loss is half the mean squared error, :math:`\dot W_l = -\eta_l \partial L / \partial W_l`. The estimates
        are the sizes of the leading omitted terms over all of training (of phase I): within a factor of
        30 of the error (``tests/systems/test_laws_of_networks.py``), unless errors of a single number cancel.

        A bias of the first layer alone is a weight of the constant input 1: the law of the network on ``(x, 1)``. On
        centered inputs, if only the last layer has a bias, or if the hidden biases are zero and the last is the mean of
        the targets, the law is that of the network without biases on centered targets. Then ``offset`` is exact, and
        observables that `linsolve.solve` does not have are left out. Other biases are refused, as are those of
        statistics over random weights.

        Examples
        --------
        >>> import numpy as np
        >>> import linsolve as ls
        >>> rng = np.random.default_rng(0)
        >>> X, weights = np.sqrt(3) * np.eye(3), [0.01 * rng.normal(size=(4, 3)), 0.01 * rng.normal(size=(2, 4))]
        >>> law = ls.laws.MatchedOutputs.of(weights, (X, X @ rng.normal(size=(3, 2))), rates=[1.0, 0.5])
        >>> t = np.linspace(0.0, 20.0, 50)
        >>> exact = ls.solve(weights, law.given.samples, t, rates=[1.0, 0.5])
        >>> bool(np.abs(law(t)["map"] - exact["map"]).max() < 1e-3)
        True
        """
        from linsolve.core.network_law import GivenNetwork

        if reason := cls.without_network():
            raise TypeError(f"{cls.__name__}.of: the law has no network of its own ({reason}); pass its parameters")
        given = GivenNetwork.read(f"{cls.__name__}.of", weights, data, rates, covariances, tolerance, bias)
        if given.network.biases and issubclass(cls, Statistic):
            given.refuse("bias", "given", "must be left out", "an average over weights without biases", "leave it out")
        return cls.of_given(given)

    @classmethod
    def of_given(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the law of a checked network, with or without biases."""
        from linsolve.core.biased_law import biased_law

        return biased_law(cls.applied, given) if given.network.biases else cls.applied(given)

    @classmethod
    def without_network(cls) -> str:
        """Return the reason why the law has no network of its own, "" if `of` applies it to one."""
        own = (getattr(cls, name).__func__ is not getattr(Law, name).__func__ for name in ("of", "applied"))
        return "" if any(own) else cls.unapplied or "the class does not define applied"

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the law of a checked network; see `of`."""
        raise NotImplementedError(f"{cls.__name__}: applied is not defined (the law of a network); define it")

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
