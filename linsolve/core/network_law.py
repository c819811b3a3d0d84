"""A law of one network: its values at given times by name, each with the order and the estimate of its error."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve.core.arguments import Interval, known_array, unknown_name
from linsolve.core.network_arguments import Network, read
from linsolve.core.network_observables import NetworkObservables
from linsolve.core.notebook import html_table
from linsolve.core.query import NotExact
from linsolve.core.series import NamedSeries
from linsolve.core.trajectory import Deferred, read_only

__all__ = ["Estimate", "GivenNetwork", "LawTrajectory", "NetworkLaw"]

_MISSING = {
    "map": " (the law does not determine the map outside the span of the data, where the first layer does not vanish)",
    **dict.fromkeys(("ntk", "train_loss"), " (second moments have no samples)"),
}
ROUNDING = 1e-12  # least error reported: rounding of the closed forms


class Estimate(NamedTuple):
    """Observable of a law: its value, the order of its relative error in the small parameter, and its estimate.

    `error` may be a number or a function. `scaling` is the dependence of the error on the small parameter, in words, if
    it is not a power.
    """

    value: Callable[[], Any]
    order: float
    error: float | Callable[[], float]
    scaling: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class GivenNetwork(NetworkObservables):
    """Checked weights, data and rates of the caller `who`, at given times."""

    who: str  # type: ignore[misc]
    network: Network
    times: np.ndarray
    samples: tuple[np.ndarray, np.ndarray] | None

    @classmethod
    def read(
        cls,
        who: str,
        weights: Any,
        data: Any,
        rates: Any = None,
        covariances: bool = False,
        tolerance: Any = None,
        bias: Any = None,
    ) -> GivenNetwork:
        """Return checked arguments; errors name the caller and the argument."""
        network = read(who, weights, data, rates, covariances, tolerance, bias=bias)
        samples = None
        if not covariances:
            X, Y = (np.array(each, dtype=float) for each in data)
            samples = X, Y.reshape(len(X), -1)
        return cls(who, network, np.zeros(()), samples)

    def at(self, times: np.ndarray) -> GivenNetwork:
        """Return the network at other times."""
        return dataclasses.replace(self, times=times)

    def require_small(self, law: Any, small: float) -> None:
        """Raise NotExact unless the small parameter of a law is below 1."""
        if not small < 1:
            fix = "scale the start, or use linsolve.solve"
            self.refuse(law.symbol, f"{small:.3g}", "must be below 1", law.meaning, fix)

    def refuse(self, name: str, value: Any, rule: str, meaning: str, fix: str) -> None:
        """Raise NotExact for a condition of the law that fails."""
        raise NotExact(f"{self.who}: {name} = {value} {rule} ({meaning}, a condition of the law); {fix}")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LawTrajectory(NamedSeries):
    """Values of a law for one network, by name, each evaluated at its first access.

    Parameters
    ----------
    law : type
        The law.
    t : ndarray or None
        Times; None for a law without time.
    route : str
        "law", its name, the order and the estimate of the relative error of the first quantity.
    values : Deferred
        Values by name: those of `linsolve.solve` where they are the same quantity, with the same shapes.
    orders : dict of str to float
        Exponent of the relative error in the small parameter.
    scalings : dict of str to str
        Dependence of the relative error on the small parameter, "sigma^2", with logarithms.
    error : Deferred
        Estimated relative error by name: largest error over the times, over the largest absolute value.

    Examples
    --------
    >>> import linsolve as ls
    >>> law = ls.laws.MatchedOutputs.of([[[0.02], [0.0]], [[0.01, 0.0]]], ([[1.0]], [2.0]))
    >>> traj = law([0.0, 2.0, 4.0])
    >>> traj.route, traj.keys()
    ('law MatchedOutputs, relative error O(sigma^2), about 1e-05', ['map', 'loss', 'train_loss', 'ntk'])
    >>> traj["map"][:, 0, 0].round(4).tolist()
    [0.0002, 0.5023, 1.998]
    """

    flow: ClassVar[None] = None  # as for a network that is integrated

    law: type
    t: np.ndarray | None
    route: str
    values: Deferred
    orders: Mapping[str, float]
    scalings: Mapping[str, str]
    error: Deferred

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(super().__getitem__(name))

    def _unknown(self, name: Any) -> str:
        return unknown_name(self.law.__name__, "observable", name, self.keys()) + _MISSING.get(name, "")

    def _repr_html_(self) -> str:
        rows = [(name, f"O({self.scalings[name]})", f"{self.error[name]:.1g}") for name in self.keys()]
        return html_table(self.route, ("value", "relative error", "estimate"), rows)

    def _lead(self) -> dict[str, Any]:
        return {} if self.t is None else super()._lead()


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class NetworkLaw:
    """A law of one network; ``law(t)``, or ``law()`` without time, returns its values as a `LawTrajectory`.

    Parameters
    ----------
    law : type
        The law.
    given : GivenNetwork
        The network.
    small : float
        Value of the small parameter.
    predict : callable
        Function of the network at given times that returns an `Estimate` for every name.
    latest : float
        Latest time of the law.
    expansion : bool
        Whether the small parameter must be below 1.
    source : GivenNetwork, optional
        The network with its biases, `given` by default: a pickle holds it, and the law is derived from it again.

    Raises
    ------
    NotExact
        If the small parameter of an expansion is not below 1.
    """

    law: Any
    given: GivenNetwork
    small: float
    predict: Callable[[GivenNetwork], Mapping[str, Estimate]]
    latest: float = np.inf
    expansion: bool = True
    source: GivenNetwork | None = None

    def __post_init__(self) -> None:
        if self.expansion:
            self.given.require_small(self.law, self.small)

    def __call__(self, t: Any = None) -> LawTrajectory:
        """Return the values at times `t`, any shape, in units of the network's time; without `t` if it has no time."""
        who = self.law.__name__
        if self.law.timed != (t is not None):
            rule = "needs times" if self.law.timed else "has no time"
            raise TypeError(f"{who}: the law {rule}; call it as {'law(t)' if self.law.timed else 'law()'}")
        times = None
        if self.law.timed:
            times = read_only(known_array(who, "t", t, meaning="time", domain=Interval("[0, inf]")))
            if not times.max() <= self.latest:
                raise ValueError(
                    f"{who}: t = {times.max():.3g} must be at most {self.latest:.3g} (time of the network; long after "
                    "phase I); end earlier"
                )
        found = self.predict(self.given if times is None else self.given.at(times))
        values = Deferred(**{name: each.value for name, each in found.items()})
        error = Deferred(**{name: _floored(each.error) for name, each in found.items()})
        orders = {name: each.order for name, each in found.items()}
        scalings = {name: each.scaling or self._power(each.order) for name, each in found.items()}
        first = next(iter(found))
        route = f"law {who}, relative error O({scalings[first]}), about {error[first]:.0e}"
        return LawTrajectory(self.law, times, route, values, orders, scalings, error)

    def __reduce__(self) -> Any:
        return self.law.of_given, (self.source or self.given,)  # functions cannot be pickled

    def _power(self, order: float) -> str:
        symbol = self.law.symbol if self.law.symbol.isalpha() or order == 1 else f"({self.law.symbol})"
        return symbol if order == 1 else f"{symbol}^{order:g}"

    def __repr__(self) -> str:
        widths = "-".join(map(str, self.given.network.widths))
        return f"{self.law.__name__}.of({widths} network; {self.law.symbol} = {self.small:.3g})"


def _floored(error: float | Callable[[], float]) -> Callable[[], float]:
    return lambda: max(float(error() if callable(error) else error), ROUNDING)
