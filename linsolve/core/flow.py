"""Flows: loss, gradient flow and closed form of an exactly solvable network, in one class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import Interval, real_array, shown, unknown_name
from linsolve.core.first_time import first_time
from linsolve.core.kept import Last
from linsolve.core.named_arguments import named_arguments
from linsolve.core.parameters import Parametrized, axis_names, batch_shape, own_sizes, parameter
from linsolve.core.query import NotExact, Problem, answer, detached, pose, posed_again, refuse_inexact, traced_checks
from linsolve.core.trajectory import Deferred, Trajectory

__all__ = ["Deferred", "Flow", "NotExact", "Problem", "Trajectory", "observable", "parameter", "pose"]


def observable(
    method: None = None, /, *, bounds: str = "(-inf, inf)", axes: tuple[str, ...] = ()
) -> Callable[[Callable], Callable]:
    """Declare a method ``(self, xp, z)`` of a flow as an observable, which trajectories return by name.

    Parameters
    ----------
    bounds : str
        Interval that contains all values; `verify` checks it.
    axes : tuple of str
        Names of the trailing axes.

    Examples
    --------
    >>> import linsolve as ls
    >>> class Learner(ls.BalancedMode):
    ...     @ls.observable(bounds="[0, inf)")
    ...     def learned(self, xp, z):
    ...         return z.a / self.s
    >>> Learner(s=2.0)([0.0, float("inf")], 0.01)["learned"].tolist()
    [0.005, 1.0]
    """
    if method is not None:
        raise TypeError("observable: the decorator is called before it is applied; write @observable()")
    about = {"bounds": Interval(bounds, "observable", "bounds"), "axes": axis_names("observable", axes)}

    def mark(method: Callable) -> Callable:
        method.observable = about  # type: ignore[attr-defined]
        return method

    return mark


def _refuse_misdeclared(cls: Any) -> None:
    """Raise TypeError if `State` is not a NamedTuple or `axes` does not name the axes of each field."""
    if not (hasattr(cls, "State") and hasattr(cls, "axes")):
        return  # an abstract base class; `state` reports the missing declarations
    fields, axes = getattr(cls.State, "_fields", ()), cls.axes
    if not fields:
        raise TypeError(
            f"{cls.__name__}: State = {cls.State!r} must be a NamedTuple (a field for each array); derive it"
        )
    right = isinstance(axes, Mapping) and all(isinstance(own, tuple) for own in axes.values())
    if not right or set(axes) != set(fields):
        like = ", ".join(f"{name!r}: ()" for name in fields)
        raise TypeError(
            f"{cls.__name__}: axes = {axes!r} must give a tuple of names for each field of State (own axes; () for "
            f"single numbers); such as {{{like}}}"
        )


def _unstated(cls: type, method: str, what: str) -> str:
    return f"{cls.__name__}: {method} is not defined ({what}); define it in the class"


def _maker(cls: Any) -> str:
    """Return the call that builds a state of a flow: `of` for weights if the flow has it, else its State."""
    of = inspect.signature(cls.of) if hasattr(cls, "of") else None
    if of is None or of.return_annotation not in ("State", cls.State):  # `of` may return another type
        return f"{cls.__name__}.State(...)"
    names = [name for name in of.parameters if name != "self"]
    owner = cls.__name__ if isinstance(inspect.getattr_static(cls, "of"), classmethod) else "flow"
    return f"{owner}.of({', '.join(names)})"


class Flow(Parametrized):
    """An exactly solvable linear network under gradient flow.

    A subclass declares its parameters as fields, its `State`, the trailing `axes` of the state, and the methods below.
    All but `example` are pure functions of ``(xp, ...)``: array-API names only, Python integers as the only constants,
    no validation and no Python branch on a value. One implementation is thus evaluated in doubles, on a GPU, to 50
    digits and in symbols. Leading axes of parameters and states are batch axes.

    The call ``flow(t, z0)`` checks its arguments and returns the closed form as a `Trajectory`.

    Examples
    --------
    >>> from typing import Any, NamedTuple
    >>> import linsolve as ls
    >>> class Decay(ls.Flow):
    ...     rate: Any = ls.parameter("k", "curvature", domain="(0, inf)")
    ...     class State(NamedTuple):
    ...         w: Any
    ...     axes = {"w": ()}
    ...     def loss(self, xp, z):
    ...         return self.rate * z.w**2 / 2
    ...     def velocity(self, xp, z):
    ...         return self.State(-self.rate * z.w)
    ...     def solution(self, xp, t, z0):
    ...         return self.State(z0.w * xp.exp(-self.rate * t))
    >>> Decay(rate=2.0)([0.0, 1.0], 1.0)["w"].round(6).tolist()
    [1.0, 0.135335]
    """

    State: ClassVar[type]
    axes: ClassVar[Mapping[str, tuple[str, ...]]]
    tolerance: ClassVar[float] = 1e-9
    forward_complete: ClassVar[bool] = False  # whether the solution exists at every t >= 0 from every initial state
    # whether one network and one time may be NumPy numbers in the formulas of this class body; see `closed_form`
    one_number: ClassVar[bool] = False
    otherwise: ClassVar[str] = "use integrate(flow, t, z0) for this start"
    declared: ClassVar[Mapping[str, Any]]
    sharing: ClassVar[tuple[str, ...]]
    beginning: ClassVar[tuple[str, ...]]
    _last: ClassVar[Last]  # one per flow

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_last", Last())

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _refuse_misdeclared(cls)
        for name, maker in list(vars(cls).items()):
            if name.startswith("_") or not isinstance(maker, staticmethod | classmethod):
                continue
            if inspect.isfunction(maker.__func__):  # others, such as built-in ones, have no names of arguments
                bound = isinstance(maker, classmethod)
                checked = named_arguments(None if bound else f"{cls.__name__}.{name}", bound=bound)
                setattr(cls, name, type(maker)(checked(maker.__func__)))
        marks = {name: getattr(getattr(cls, name), "observable", None) for name in dir(cls)}
        cls.declared = {name: mark for name, mark in marks.items() if mark is not None}
        for name in ("solution", "along", "shared", "velocity", "loss"):
            if not callable(getattr(cls, name)):
                raise TypeError(
                    f"{cls.__name__}: {name} = {shown(getattr(cls, name))} must be a method (statement of a flow); "
                    "define it, or leave it out"
                )
        methods = {name: inspect.signature(getattr(cls, name)).parameters for name in ("solution", "along", "shared")}
        cls.sharing = tuple(name for name in ("solution", "along") if "shared" in methods[name])
        cls.beginning = tuple(name for name in ("solution", "shared") if "begun" in methods[name])
        if {"solution", "shared", "along"} & vars(cls).keys() and "one_number" not in vars(cls):
            cls.one_number = False  # what a base class declares holds for its own formulas

    # the three statements of the problem

    def loss(self, xp: Any, z: Any) -> Any:
        """Return the loss, shape batch."""
        raise NotImplementedError(_unstated(type(self), "loss", "the objective"))

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return the velocity for a gradient of the loss: minus the learning rates (metric) times the gradient."""
        raise NotImplementedError(_unstated(type(self), "descent", "the velocity of a gradient"))

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return ``dz/dt`` under gradient flow, a State."""
        raise NotImplementedError(_unstated(type(self), "velocity", "the gradient flow"))

    def solution(self, xp: Any, t: Any, z0: Any) -> Any:
        """Return the state at times `t`, whose shape broadcasts against the batch shape."""
        raise NotImplementedError(_unstated(type(self), "solution", "the closed form"))

    # optional statements

    def along(self, xp: Any, t: Any, z0: Any) -> Mapping[str, Any]:
        """Return observables with a separate closed form in ``(t, z0)`` that avoids cancellation, by name.

        A `Deferred` mapping evaluates each observable at its first access.
        """
        return {}

    def begun(self, xp: Any, z0: Any) -> Any:
        """Return the quantities of the closed form that do not depend on time; a flow keeps those of its last start.

        `shared` and `solution` may have a last parameter ``begun=None`` for them, and evaluate them themselves if it is
        None.
        """
        return None

    def shared(self, xp: Any, t: Any, z0: Any) -> Any:
        """Return the quantities common to `solution` and `along`, which are evaluated once for both.

        A method that uses them has a last parameter ``shared=None``, and evaluates them itself if it is None.
        """
        return None

    def conditions(self, xp: Any, z0: Any) -> dict[str, Any]:
        """Return the conditions of `solution` by name: relative distances that vanish where the solution is exact."""
        return {}

    def invariants(self, xp: Any, z: Any) -> Mapping[str, Any]:
        """Return conserved quantities by name; a `Deferred` mapping evaluates each at its first access."""
        return {}

    def rates(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return time derivatives of observables by name, such as the output driven by the tangent kernel."""
        return {}

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return the state at ``t = inf``, if a closed form is known."""
        raise NotImplementedError(_unstated(type(self), "limit", "the state at t = inf"))

    def time_to(self, xp: Any, z0: Any, *, loss: Any) -> Any:
        """Return the first time at which the loss falls to `loss`, inf if never, if a closed form is known."""
        raise NotImplementedError(_unstated(type(self), "time_to", "the time to a loss"))

    def lifetime(self, xp: Any, z0: Any) -> tuple[Any, Any]:
        """Return the open time interval on which the solution exists and its closed form can be evaluated."""
        return 0, xp.inf

    def step(self, xp: Any, z: Any, h: Any) -> Any:
        """Return the state after one step of gradient descent of length `h` in units of time."""
        return self.State(*(a + h * v for a, v in zip(z, self.velocity(xp, z), strict=True)))

    def definition(self, xp: Any) -> Any:
        """Return the raw network that the flow solves, as a `Definition`; `verify` compares the flow with it."""
        raise NotImplementedError(_unstated(type(self), "definition", "the raw network"))

    @classmethod
    def counterexamples(cls, rng: np.random.Generator) -> dict[str, tuple[Flow, Any]]:
        """Return, by name of a condition, a flow and state that violate it, if generic states do not violate it."""
        return {}

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return a typical flow and initial state, drawn at random."""
        raise NotImplementedError(_unstated(cls, "example", "a typical flow and start"))

    @classmethod
    def symbols(cls) -> tuple[dict[str, Any], tuple[Any, ...], dict[Any, Any]]:
        """Return SymPy parameters, SymPy state and a generic numerical point, for the symbolic proof of `verify`."""
        raise NotImplementedError(_unstated(cls, "symbols", "a proof in symbols"))

    # generic

    def _called_from(self, z0: Any) -> Any:
        """Return ``state(z0)`` for a call; a flow may do work meanwhile that the solution will need."""
        return self.state(z0)

    def observables(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return every observable of a state, by name."""
        return {name: getattr(self, name)(xp, z) for name in self.declared}

    @named_arguments()
    def __call__(
        self, t: Any, z0: Any, out: Any = None, engine: str | None = None, threads: int | None = None
    ) -> Trajectory:
        """Return the exact trajectory from `z0` at times `t`.

        Parameters
        ----------
        t : array_like, any shape
            Times; ``inf`` gives the limit. Some flows also run backward, to negative times; the others raise
            ValueError for them.
        z0 : State, tuple, mapping, or array for a state of one field
            Initial state, each field of shape ``batch + own``.
        out : State, tuple, mapping, or array for a state of one field, optional
            NumPy arrays to write the state into, of shape ``t.shape + batch + own``; the trajectory refers to them.
        engine : str, optional
            "plain" evaluates the formula on whole arrays. "blocks" evaluates it in cache-sized blocks on several
            threads, with bitwise identical results, for states of scalar fields. "compiled" (extra ``[fast]``)
            evaluates it in one loop, with elementary functions accurate to 1.05 ulp. The default is "blocks" for large
            NumPy ensembles where it applies, else "plain".
        threads : int, optional
            Number of threads of "blocks" and "compiled", at most one per processor. The default is one per processor in
            the main thread, and one in other threads.

        Returns
        -------
        Trajectory
            Its fields have shape ``t.shape + batch + own``.

        Raises
        ------
        NotExact
            If the closed form does not hold for this initial state.
        ValueError, TypeError
            If an argument is invalid, or a time lies outside the solution's lifetime.
        OverflowError
            If intermediate results, such as squares of the initial state, leave the range of doubles.

        Notes
        -----
        While JAX traces the call (`jax.jit`, `jax.vmap`, `jax.grad`), values are unknown. A start outside of the
        conditions, and a time outside of the lifetime, then give nan in place of an error. In JAX ``t = inf`` is the
        time 1.3e154, by which limits are reached at rates above 1e-152. Slower ones raise OverflowError; while JAX
        traces, the result is the state at 1.3e154, which is not the limit: change the units of time there.
        """
        problem = posed_again(self, t, z0) or detached(traced_checks(pose(self, t, z0, state=self._called_from)), z0)
        state = answer(problem, out, engine, threads)
        return Trajectory(problem.flow, problem.t, state, "closed form", problem.z0, (problem.shared or [None])[0])

    @named_arguments()
    def when(self, z0: Any, *, loss: Any) -> Any:
        """Return the first time at which the loss falls to `loss`, inf where it never does.

        Parameters
        ----------
        z0 : State, tuple, mapping, or array for a state of one field
            Initial state, each field of shape ``batch + own``.
        loss : array_like
            Value of the loss, not negative; its shape broadcasts against batch.

        Returns
        -------
        array, shape batch
            Time, in the units of the flow; 0 where the start has at most this loss.

        Raises
        ------
        NotExact
            If the closed form does not hold for this initial state.
        TypeError
            If JAX traces the call, and the flow has no closed form for this time.
        ValueError
            If an argument is invalid.

        Notes
        -----
        A flow with a method `time_to` has a closed form for this time. For others the time is found by bisection of the
        exact loss to the last digit, since the loss does not rise under gradient flow. It never falls to a value that
        is not above the loss at ``t = inf``, nor to one that it does not have at t = 3e147. The time is as accurate as
        the loss: where the loss is evaluated from the state, values below 1e-16 of the start's are lost in rounding.

        Examples
        --------
        >>> from linsolve import BalancedMode
        >>> BalancedMode(s=[3.0, 1.0]).when(1e-3, loss=0.01).round(6).tolist()
        [1.835395, 4.355145]
        """
        who = type(self).__name__
        searched = type(self).time_to is Flow.time_to
        problem = traced_checks(pose(self, 0.0, z0))
        if searched and not arithmetic.readable(*problem.z0, *problem.flow.parameters().values()):
            raise TypeError(
                f"{who}: z0 or the flow is traced by JAX but must be known (the time to a loss is searched); call when "
                "outside jax.jit, jax.vmap and jax.grad"
            )
        with np.errstate(all="ignore"):
            refuse_inexact(problem)
        loss = real_array(who, "loss", loss, meaning="value to be reached", domain=Interval("[0, inf)"))
        try:
            np.broadcast_shapes(loss.shape, problem.batch)
        except ValueError:
            raise ValueError(
                f"{who}: loss has shape {tuple(loss.shape)} but must broadcast against batch {problem.batch} (value to "
                "be reached by each member); to ask every member for several values, pass them as loss[:, None]"
            ) from None
        with np.errstate(all="ignore"):  # infinite times are valid results; nan is checked below
            find = partial(first_time, problem) if searched else partial(problem.flow.time_to, problem.xp, problem.z0)
            time = find(loss=arithmetic.cast(problem.xp, loss))
        if problem.xp is np and np.isnan(time).any():
            raise OverflowError(
                f"{who}: the time to loss = {shown(loss)} leaves the range of doubles; rescale, or give the start in "
                "linsolve.arithmetic.precise(50)"
            )
        return time

    @classmethod
    def state(cls, z: Any) -> Any:
        """Return `z` as this flow's State of real arrays; raise an error that names the violated rule."""
        who = cls.__name__
        for name in ("State", "axes"):
            if not hasattr(cls, name):
                raise TypeError(f"{who}: {name} is missing (a flow declares State and axes); see Flow")
        fields = cls.State._fields  # type: ignore[attr-defined]
        if isinstance(z, Mapping):
            for name in z:
                if name not in fields:
                    raise ValueError(unknown_name(who, "state field", name, fields))
            if lacking := [name for name in fields if z.get(name) is None]:
                raise ValueError(f"{who}: state must give {', '.join(lacking)} too; pass {_maker(cls)}")
            z = tuple(z[name] for name in fields)
        elif len(fields) == 1 and not isinstance(z, tuple):
            z = (z,)
        if not isinstance(z, tuple | list) or len(z) != len(fields) or any(v is None for v in z):
            raise ValueError(f"{who}: state = {shown(z)} must give {', '.join(fields)}; pass {_maker(cls)}")
        found = cls.State(*(real_array(who, n, v, meaning="state") for n, v in zip(fields, z, strict=True)))
        sizes: dict[str, tuple[int, str]] = {}
        leads = {n: own_sizes(who, n, v.shape, cls.axes[n], sizes) for n, v in zip(fields, found, strict=True)}
        batch_shape(who, leads)
        return found
