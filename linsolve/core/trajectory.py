"""Trajectories: the states of a flow at given times, with observables by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import cached_property
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import shown, unknown_name
from linsolve.core.notebook import html_table
from linsolve.core.pytrees import register_trajectory
from linsolve.core.query import Problem, clock, observed
from linsolve.core.series import Series

__all__ = ["Deferred", "Trajectory", "read_only"]

_EVALUATED = ("shared", "_along", "_evaluated", "_invariants")  # of a trajectory, evaluated again where missing


def read_only(value: Any) -> Any:
    """Return a read-only view of a NumPy array, which values not yet evaluated depend on; anything else as it is."""
    if type(value) is np.ndarray and value.flags.writeable:
        value = value.view()
        value.setflags(write=False)
    return value


def _protected(state: Any) -> Any:
    """Return a state with read-only arrays, None as it is."""
    return None if state is None else type(state)(*map(read_only, state))


class Deferred(MutableMapping[str, Any]):
    """Values by name, each evaluated by a function without arguments at its first access; arrays are read-only.

    A function that refers to the mapping it is in makes a cycle, which keeps all arrays until the next garbage
    collection. A value that several functions need is therefore a function with `functools.cache`.

    Examples
    --------
    >>> from functools import cache
    >>> from linsolve.core.trajectory import Deferred
    >>> two = cache(lambda: 2)
    >>> found = Deferred(two=two, four=lambda: two() ** 2)
    >>> found["four"], list(found | {"five": 5})
    (4, ['two', 'four', 'five'])
    """

    def __init__(self, **functions: Callable[[], Any]) -> None:
        self._values: dict[str, Any] = dict(functions)

    def __getitem__(self, name: str) -> Any:
        if callable(value := self._values[name]):
            self._values[name] = value = value()
        return read_only(value)

    def __setitem__(self, name: str, value: Any) -> None:
        self._values[name] = value

    def __delitem__(self, name: str) -> None:
        del self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __reduce__(self) -> Any:
        return Deferred, (), None, None, iter([(name, self[name]) for name in self])  # functions cannot be pickled

    def __repr__(self) -> str:
        shown = [f"{name}: {value!r}" if not callable(value) else name for name, value in self._values.items()]
        return f"{{{', '.join(shown)}}}"

    def __or__(self, other: Mapping[str, Any]) -> Deferred:
        found = Deferred(**self._values)
        found._values.update(other._values if isinstance(other, Deferred) else other)
        return found


@dataclasses.dataclass(frozen=True, eq=False, repr=False, init=False)
class Trajectory(Series):
    """States of a flow at given times; ``traj["loss"]``, ``traj["u"]``, ``traj["ntk"]`` are evaluated by name.

    Iteration runs over the names, as for a dictionary: ``"ntk" in traj``, ``list(traj)``, ``dict(traj)``.
    NumPy arrays of a trajectory are read-only, since others are evaluated from them later; ``traj["u"].copy()`` is an
    array to write into.

    Parameters
    ----------
    flow : Flow
        The network.
    t : array
        Times.
    state : State
        Fields of shape ``t.shape + batch + own``.
    route : str
        Method: "closed form", an integrator's name, or "gradient descent".
    start : State, optional
        State at time 0, if the route is the closed form.
    shared : optional
        ``flow.shared`` at these times, if the state was computed from it.
    given : mapping of str to array, optional
        Observables that the route evaluates more accurately than from the state.

    Examples
    --------
    >>> import linsolve as ls
    >>> traj = ls.TwoLayer(y=1.0, x=[1.0])([0.0, float("inf")], ([0.5], [[0.5]]))
    >>> traj.route, traj["u"].shape, "ntk" in traj
    ('closed form', (2, 1), True)
    >>> traj["loss"].round(6).tolist(), traj["ntk"].round(6).tolist()  # (1/4 - 1)^2; u^2 + w^2
    ([0.5625, 0.0], [0.5, 2.0])
    """

    flow: Any
    t: Any
    state: Any
    route: str
    start: Any = None
    shared: Any = None
    given: Mapping[str, Any] | None = None

    def __init__(
        self,
        flow: Any,
        t: Any,
        state: Any,
        route: str,
        start: Any = None,
        shared: Any = None,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        register_trajectory(type(self))
        if not (hasattr(flow, "declared") and hasattr(state, "_fields") and hasattr(t, "shape")):
            wrong = f"flow = {shown(flow)}, t = {shown(t)}, state = {shown(state)}"
            raise TypeError(f"Trajectory: {wrong} must be a flow, an array and a State; call flow(t, z0) to make one")
        own = vars(self)  # the methods of a frozen class set each field in a call of its own
        own["flow"], own["t"], own["state"], own["route"] = flow, read_only(t), _protected(state), route
        own["start"], own["shared"], own["given"] = _protected(start), shared, given

    @property
    def names(self) -> list[str]:
        """Names of the state, the loss, the observables and the invariants."""
        with np.errstate(all="ignore"):  # values are checked at their access
            others = [*self._along, *self.flow.declared, *self._invariants]
        return list(dict.fromkeys([*self.state._fields, "loss", *others]))

    @property
    def _xp(self) -> Any:
        return arithmetic.namespace(*self.state)

    @cached_property
    def _along(self) -> Mapping[str, Any]:
        if self.route != "closed form":
            return self.given or {}
        xp = self._xp
        batch = self._batch_ndim
        t = clock(xp, self.t, batch)
        if self.shared is not None and "along" in self.flow.sharing:
            return self.flow.along(xp, t, self.start, self.shared)
        return self.flow.along(xp, t, self.start)

    @property
    def _batch_ndim(self) -> int:
        name, value = self.state._fields[0], self.state[0]
        return value.ndim - self.t.ndim - len(self.flow.axes[name])

    @cached_property
    def _invariants(self) -> Mapping[str, Any]:
        return self.flow.invariants(self._xp, self.state)

    def keys(self) -> list[str]:
        """Return `names`, so that ``dict(traj)`` contains all values."""
        return self.names

    def __getitem__(self, name: str) -> Any:
        value = self.unjudged(name)
        if self._xp is np and name not in self.state._fields and not np.isfinite(value).all():
            fix = "rescale, or give the start in linsolve.arithmetic.precise(50)"
            if self.route.startswith("gradient descent"):
                fix = "descent may diverge: use fewer or smaller steps; or rescale"
            raise OverflowError(f"{type(self.flow).__name__}: {name} leaves the range of doubles (observable); {fix}")
        return value

    def unjudged(self, name: str) -> Any:
        """Return a quantity by name, inf or nan where it is beyond doubles; ``traj[name]`` raises there."""
        self._require_name(name)
        if name in self.state._fields:
            return getattr(self.state, name)
        with np.errstate(all="ignore"):
            return read_only(self._observed(name))

    def __getstate__(self) -> dict[str, Any]:
        # namespaces and functions are not pickled; the quantities are evaluated again where they are missing
        return {name: value for name, value in self.__dict__.items() if name not in _EVALUATED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        arrays = {"t": read_only(state["t"]), "state": _protected(state["state"]), "start": _protected(state["start"])}
        vars(self).update(state, shared=None, **arrays)

    def _observed(self, name: str) -> Any:
        """Return an observable from its own closed form or from the state, or an invariant."""
        lead = self.state[0].shape[: self.t.ndim + self._batch_ndim]
        if (value := self._from_engine(name)) is not None:
            return value
        if name in self._along:
            value = self._along[name]
            tail = value.shape[len(lead) :] if value.ndim > len(lead) else ()
            return self._xp.broadcast_to(value, tuple(lead) + tuple(tail))
        if name == "loss" or name in self.flow.declared:
            return getattr(self.flow, name)(self._xp, self.state)
        if name in self._invariants:
            return self._invariants[name]
        raise KeyError(unknown_name(type(self.flow).__name__, "observable", name, self.names))

    def _from_engine(self, name: str) -> Any:
        """Return an observable of a large ensemble, bitwise equal to the plain formula; None for others."""
        if self._xp is not np or self.route != "closed form" or self.start is None or self.shared is not None:
            return None
        if name not in self._evaluated:
            batch = self.state[0].shape[self.t.ndim : self.t.ndim + self._batch_ndim]
            self._evaluated[name] = observed(Problem(self.flow, np, self.t, self.start, batch), name)
        return self._evaluated[name]

    @cached_property
    def _evaluated(self) -> dict[str, Any]:
        return {}

    def __repr__(self) -> str:
        shape = tuple(self.t.shape)
        return f"Trajectory({self.flow!r}, t: shape {shape}, route: {self.route}; {', '.join(self.names)})"

    def _repr_html_(self) -> str:
        rows = [(name, str(tuple(value.shape))) for name, value in self.state._asdict().items()]
        others = ", ".join(name for name in self.names if name not in self.state._fields)
        title = f"{type(self.flow).__name__}: {self.route}, t of shape {tuple(self.t.shape)}"
        return html_table(title, ("state", "shape"), rows, [f"also: {others}"])

    def _lead(self) -> dict[str, Any]:
        from linsolve.core.labelled import parameters_of  # imported on use: it reads docstrings

        t, count = arithmetic.to_numpy(self.t), self._batch_ndim
        batch = self.state[0].shape[t.ndim : t.ndim + count]
        found = {"t": t.reshape(t.shape + (1,) * count)}
        for k, index in enumerate(np.indices(batch)):
            found[f"batch{k}"] = np.broadcast_to(index, t.shape + batch)
        for name, (own, value, _) in parameters_of(self.flow, batch).items():
            if value.ndim and not own:
                found[f"parameter_{name}"] = value
        return found

    def to_xarray(self) -> Any:
        """Return state, loss and observables as a labelled ``xarray.Dataset`` (extra ``[labelled]``)."""
        from linsolve.core.labelled import to_dataset

        return to_dataset(self)
