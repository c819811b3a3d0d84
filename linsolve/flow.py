"""What an exactly solvable network is: its loss, its gradient flow and its closed form, stated in one class."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.inputs import Interval, real_array, unknown_name
from linsolve.parameters import Parametrized, parameter
from linsolve.problem import NotExact, Problem, pose, refuse_inexact

__all__ = ["Flow", "NotExact", "Problem", "Trajectory", "observable", "parameter", "pose"]


def observable(*, bounds: str = "(-inf, inf)", axes: tuple[str, ...] = ()) -> Callable[[Callable], Callable]:
    """Declare a method ``(self, xp, z)`` of a flow as an observable that trajectories give by name.

    Parameters
    ----------
    bounds : str
        Interval in which it always lies; `verify` checks it.
    axes : tuple of str
        Names of its trailing axes.
    """

    def mark(method: Callable) -> Callable:
        method.observable = {"bounds": Interval(bounds), "axes": axes}  # type: ignore[attr-defined]
        return method

    return mark


class Flow(Parametrized):
    """An exactly solvable linear network under gradient flow.

    A subclass declares its parameters as fields, its `State`, the state's own trailing `axes`, and the methods below.
    All but `example` are pure functions of ``(xp, ...)``: array-API names only, Python integers as the only constants,
    no validation and no Python branch on a value, so that one text is evaluated in doubles, on a GPU, to fifty
    digits and in symbols. Leading axes of parameters and states are batch axes.

    Calling a flow, ``flow(t, z0)``, checks its input and returns the closed form as a `Trajectory`.
    """

    State: ClassVar[type]
    axes: ClassVar[Mapping[str, tuple[str, ...]]]
    tolerance: ClassVar[float] = 1e-9
    otherwise: ClassVar[str] = "use integrate(flow, t, z0) for this start"
    declared: ClassVar[Mapping[str, Any]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        marks = {name: getattr(getattr(cls, name), "observable", None) for name in dir(cls)}
        cls.declared = {name: mark for name, mark in marks.items() if mark is not None}

    # the three statements of the problem

    def loss(self, xp: Any, z: Any) -> Any:
        """Return what the network minimizes, shape batch."""
        raise NotImplementedError

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return the velocity that belongs to a gradient of the loss: minus the learning rates (metric) times it."""
        raise NotImplementedError

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return ``dz/dt`` under gradient flow, a State."""
        raise NotImplementedError

    def solution(self, xp: Any, t: Any, z0: Any) -> Any:
        """Return the state at times `t`, whose shape broadcasts against the batch shape."""
        raise NotImplementedError

    # what may be added

    def along(self, xp: Any, t: Any, z0: Any) -> dict[str, Any]:
        """Return observables that have a closed form of their own in ``(t, z0)``, free of the state's cancellations."""
        return {}

    def conditions(self, xp: Any, z0: Any) -> dict[str, Any]:
        """Return what must vanish for `solution` to be exact, by name, as relative distances."""
        return {}

    def invariants(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return conserved quantities by name."""
        return {}

    def rates(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return stated time derivatives of observables by name (the kernel drives the output, say)."""
        return {}

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return the state at ``t = inf``, where closed."""
        raise NotImplementedError

    def time_to(self, xp: Any, z0: Any, *, loss: Any) -> Any:
        """Return the first time at which the loss falls to `loss` (inf where it never does), where closed."""
        raise NotImplementedError

    def lifetime(self, xp: Any, z0: Any) -> tuple[Any, Any]:
        """Return the open interval of time on which the solution exists and its closed form is offered."""
        return 0, xp.inf

    def step(self, xp: Any, z: Any, h: Any) -> Any:
        """Return the state after one step of gradient descent of length `h` in units of time."""
        return self.State(*(a + h * v for a, v in zip(z, self.velocity(xp, z), strict=True)))

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return a typical flow and start, drawn generically."""
        raise NotImplementedError

    @classmethod
    def symbols(cls) -> tuple[dict[str, Any], tuple[Any, ...], dict[Any, Any]]:
        """Return SymPy parameters, SymPy state and a generic numerical point, where `verify` can prove in symbols."""
        raise NotImplementedError

    # generic

    def observables(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return every observable of a state, by name."""
        return {name: getattr(self, name)(xp, z) for name in self.declared}

    def __call__(
        self, t: Any, z0: Any, out: Any = None, engine: str | None = None, threads: int | None = None
    ) -> Trajectory:
        """Return the exact trajectory from `z0` at times `t`.

        Parameters
        ----------
        t : array_like, any shape
            Times; ``inf`` gives the limit.
        z0 : State, tuple, mapping, or array for a state of one field
            Start, each field of shape ``batch + own``.
        out : State, tuple, mapping, or array for a state of one field, optional
            NumPy arrays to write the state into, of shape ``t.shape + batch + own``.
        engine : str, optional
            "plain", as the formula stands; "blocks", the same bits in cache-sized blocks on several threads, for states
            that are single numbers; "compiled" (extra ``[fast]``), the same as one loop, whose elementary functions are
            within 1.05 ulp. By default "blocks" for large NumPy ensembles where it applies, else "plain".
        threads : int, optional
            Of "blocks" and "compiled"; by default one for each processor, but one where the caller is itself a thread
            among others.

        Returns
        -------
        Trajectory
            Its fields have shape ``t.shape + batch + own``.

        Raises
        ------
        NotExact
            If the closed form does not hold for this start.
        ValueError, TypeError
            If an input is not what it must be, or a time lies outside the solution's lifetime.
        """
        from linsolve.fused.evaluate import follow

        problem = pose(self, t, z0)
        state = follow(problem, out, engine, threads)
        return Trajectory(problem.flow, problem.t, state, "closed form", problem.z0)

    def when(self, z0: Any, *, loss: Any) -> Any:
        """Return the first time at which the loss falls to `loss`, inf where it never does.

        Parameters
        ----------
        z0 : State, tuple, mapping, or array for a state of one field
            Start, each field of shape ``batch + own``.
        loss : array_like
            Value of the loss, not negative; its shape broadcasts against batch.

        Returns
        -------
        array, shape batch
            In the units of time of the flow.

        Raises
        ------
        NotExact
            If the closed form does not hold for this start.
        TypeError
            If the flow has no closed form of this time.
        ValueError
            If an input is not what it must be.

        Examples
        --------
        >>> from linsolve import BalancedMode
        >>> BalancedMode(s=[3.0, 1.0]).when(1e-3, loss=0.01).round(6).tolist()
        [1.835395, 4.355145]
        """
        who = type(self).__name__
        if type(self).time_to is Flow.time_to:
            raise TypeError(f"{who}: when = time to a loss has no closed form here; read it off {who}'s trajectory")
        problem = pose(self, 0.0, z0)
        refuse_inexact(problem)
        loss = real_array(who, "loss", loss, meaning="value to be reached", domain=Interval("[0, inf)"))
        return problem.flow.time_to(problem.xp, problem.z0, loss=arithmetic.cast(problem.xp, loss))

    @classmethod
    def state(cls, z: Any) -> Any:
        """Return `z` as this flow's State of real arrays, refused with a reason where it is not one."""
        who, fields = cls.__name__, cls.State._fields  # type: ignore[attr-defined]
        if isinstance(z, Mapping):
            for name in z:
                if name not in fields:
                    raise ValueError(unknown_name(who, "state field", name, fields))
            z = tuple(z.get(name) for name in fields)
        elif len(fields) == 1 and not isinstance(z, tuple):
            z = (z,)
        if not isinstance(z, tuple | list) or len(z) != len(fields) or any(v is None for v in z):
            raise ValueError(f"{who}: state = {z!r} must give {', '.join(fields)}; pass {who}.State(...)")
        return cls.State(*(real_array(who, n, v, meaning="state") for n, v in zip(fields, z, strict=True)))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Trajectory:
    """A flow followed in time; ``traj["loss"]``, ``traj["u"]``, ``traj["ntk"]`` give everything by name.

    Parameters
    ----------
    flow : Flow
        What was followed.
    t : array
        Times.
    state : State
        Fields of shape ``t.shape + batch + own``.
    route : str
        How it was obtained: "closed form", an integrator's name, or "gradient descent".
    start : State, optional
        State at time 0, where the route is the closed form.
    """

    flow: Any
    t: Any
    state: Any
    route: str
    start: Any = None

    @property
    def names(self) -> list[str]:
        """Everything that can be asked for by name."""
        return list(dict.fromkeys([*self.state._fields, "loss", *self._along, *self.flow.declared, *self._invariants]))

    @property
    def _xp(self) -> Any:
        return arithmetic.namespace(*self.state)

    @cached_property
    def _along(self) -> dict[str, Any]:
        if self.route != "closed form":
            return {}
        xp = self._xp
        batch = self._batch_ndim
        clock = xp.reshape(self.t, self.t.shape + (1,) * batch)
        return self.flow.along(xp, clock, self.start)

    @property
    def _batch_ndim(self) -> int:
        name, value = self.state._fields[0], self.state[0]
        return value.ndim - self.t.ndim - len(self.flow.axes[name])

    @cached_property
    def _invariants(self) -> dict[str, Any]:
        return self.flow.invariants(self._xp, self.state)

    def __getitem__(self, name: str) -> Any:
        if name in self.state._fields:
            return getattr(self.state, name)
        lead = self.state[0].shape[: self.t.ndim + self._batch_ndim]
        if name in self._along:
            value = self._along[name]
            tail = value.shape[len(lead) :] if value.ndim > len(lead) else ()
            return self._xp.broadcast_to(value, tuple(lead) + tuple(tail))
        if name == "loss" or name in self.flow.declared:
            return getattr(self.flow, name)(self._xp, self.state)
        if name in self._invariants:
            return self._invariants[name]
        raise KeyError(unknown_name(type(self.flow).__name__, "observable", name, self.names))

    def __repr__(self) -> str:
        shape = tuple(self.t.shape)
        return f"Trajectory({self.flow!r}, t: shape {shape}, route: {self.route}; {', '.join(self.names)})"

    def to_xarray(self) -> Any:
        """Return state, loss and observables as a labelled ``xarray.Dataset`` (extra ``[labelled]``)."""
        from linsolve.labelled import to_dataset

        return to_dataset(self)
