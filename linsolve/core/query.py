"""A checked query of a flow: consistent shapes, one array namespace, a state for which the closed form holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import bounds, extreme, shown, times
from linsolve.core.kept import Begun, begun_from, recalled
from linsolve.core.parameters import Parametrized, batch_shape, own_axes, own_sizes
from linsolve.core.pytrees import leaves

__all__ = [
    "NotExact",
    "Problem",
    "answer",
    "clock",
    "closed_form",
    "detached",
    "evaluate_by",
    "heard",
    "iterate_by",
    "iterator",
    "library",
    "observe_by",
    "observed",
    "pose",
    "posed_again",
    "refuse_inexact",
    "refuse_outside_lifetime",
    "refuse_overflow",
    "spread",
    "traced_checks",
]


class NotExact(ValueError):
    """Raised if the closed form does not hold for a state; the message contains the violated condition and its value.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> flow = ls.WhitenedTwoLayer(target=np.eye(2))
    >>> try:
    ...     flow(1.0, ls.WhitenedTwoLayer.of(np.diag([0.1, 0.4]), 0.2 * np.eye(2)))  # not balanced
    ... except ls.NotExact as refusal:
    ...     print(str(refusal).split(" = ")[0])
    WhitenedTwoLayer: distance of the imbalance from a solvable one
    """


class Problem(NamedTuple):
    """A checked query: flow, initial state and times in one namespace; `closed_form` sets `shared`, fills `begun`."""

    flow: Any
    xp: Any
    t: Any
    z0: Any
    batch: tuple[int, ...]
    shared: list[Any] | None = None
    begun: Begun | None = None


_EVALUATORS: list[Callable[..., Any]] = []  # set by the package, since engines import this module


def evaluate_by(evaluator: Callable[..., Any]) -> None:
    """Set the function of ``(problem, out, engine, threads)`` that evaluates checked queries."""
    _EVALUATORS[:] = [evaluator]


_OBSERVERS: list[Callable[..., Any]] = []  # set by the package


def observe_by(observer: Callable[..., Any]) -> None:
    """Set the function of ``(problem, name)`` that evaluates an observable of a large ensemble, None if it is small."""
    _OBSERVERS[:] = [observer]


def observed(problem: Problem, name: str) -> Any:
    """Return an observable at a problem's times, nonfinite or not; None if arrays are the fastest way to it."""
    return _OBSERVERS[0](problem, name)


_ITERATORS: list[Callable[..., Any]] = []  # set by the package


def iterate_by(iterator: Callable[..., Any]) -> None:
    """Set the function of ``(name, problem, fixed, now, rules, ...)`` that compiles the steps of gradient descent."""
    _ITERATORS[:] = [iterator]


def iterator(name: str, *query: Any) -> Callable[[Any, int, int], Any]:
    """Return the function ``(now, begin, end)`` that takes steps in machine code: "descent", or "search" for a loss."""
    return _ITERATORS[0](name, *query)


def library(xp: Any) -> str:
    """Return the name of an array library for messages."""
    return getattr(xp, "__name__", type(xp).__name__)


def pose(flow: Any, t: Any, z0: Any, caller: str = "linsolve", state: Callable[[Any], Any] | None = None) -> Problem:
    """Check the arguments of a flow's call and convert them to the state's array namespace; `caller` is for errors.

    The state is checked by ``flow.state``, or by `state`.
    """
    if not (isinstance(flow, Parametrized) and hasattr(flow, "state")):
        what = flow.__name__ if isinstance(flow, type) else shown(flow)
        raise TypeError(
            f"{caller}: flow = {what} must be a flow with its parameters (network); such as BalancedMode(s=1.0)"
        )
    who = type(flow).__name__
    if hasattr(t, "_fields"):
        raise TypeError(f"{who}: t = {shown(t)} is a state (time), and z0 is the start; swap t and z0")
    given, z0, t = z0, (state or flow.state)(z0), times(who, t)
    if all(map(arithmetic.is_double, (*flow.parameters().values(), *z0, t))):
        xp = np
    else:  # NumPy arrays are converted to the library of the other arrays, unless the state is a NumPy array
        others = [v for v in (*flow.parameters().values(), t) if arithmetic.namespace(v) is not np]
        xp = arithmetic.namespace(*(() if _is_plain(given) else z0), *others)
        flow, z0 = flow.cast(xp), type(z0)(*(arithmetic.cast(xp, v) for v in z0))
    sizes: dict[str, tuple[int, str]] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for name, value in flow.parameters().items():
        shapes[name] = own_sizes(who, name, value.shape, own_axes(flow._declarations[name], value), sizes)
    for name, value in zip(z0._fields, z0, strict=True):
        shapes[name] = own_sizes(who, name, value.shape, flow.axes[name], sizes)
    return Problem(flow, xp, arithmetic.cast(xp, t), z0, batch_shape(who, shapes), [None])


def detached(problem: Problem, given: Any) -> Problem:
    """Return the problem with copies of times and of the initial state, `given` by the caller; independent of `out`."""
    flow, xp, t, z0, batch, shared, _ = problem
    if xp is not np:
        return problem
    begun = begun_from(flow, given, z0, batch)
    return Problem(flow, np, t.copy(), begun.z0 if begun else type(z0)(*(v.copy() for v in z0)), batch, shared, begun)


def posed_again(flow: Any, t: Any, z0: Any) -> Problem | None:
    """Return a `detached` problem of the last start of a flow, of which only the times are checked; None for others."""
    begun = recalled(flow, z0)
    t = times(type(flow).__name__, t) if begun else None
    if begun is None or type(t) is not np.ndarray:
        return None
    return Problem(flow, np, t.copy(), begun.z0, begun.batch, [None], begun)


def refuse_overflow(problem: Problem) -> None:
    """Raise `OverflowError`, naming the parameter or field of the state whose magnitude is farthest from 1."""
    flow, who = problem.flow, type(problem.flow).__name__
    if hasattr(flow, "_memory"):  # results of earlier calls; those that overflowed would not be noticed again
        flow._memory.clear()
    meanings = {name: field.metadata["doc"] for name, field in flow._declarations.items()}
    given = {**problem.z0._asdict(), **flow.parameters()}
    sizes = {name: extreme(arithmetic.to_numpy(v)) for name, v in given.items()}
    name = max(sizes, key=lambda name: abs(np.log(sizes[name])))
    others = "the others" if name in meanings else "the parameters"
    raise OverflowError(
        f"{who}: {name} of up to {sizes[name]:.3g} leaves the range of doubles when squared or multiplied by "
        f"{others} ({meanings.get(name, 'state')}); rescale, or give it in linsolve.arithmetic.precise(50)"
    ) from None


class heard:
    """Context manager of a function: it returns a state, or raises OverflowError if it is not finite.

    An overflow in an intermediate result is harmless if the state is finite. An invalid operation always raises.
    """

    __slots__ = ("_flags", "_problem", "_raised")

    def __init__(self, problem: Problem) -> None:
        raised: set[str] = set()
        self._problem, self._raised = problem, raised
        if problem.xp is np:  # a function of `self` would be a cycle, which keeps arrays
            self._flags = np.errstate(over="call", invalid="call", call=lambda kind, _: raised.add(kind))
        else:
            self._flags = np.errstate(over="ignore")  # of constants, in single precision

    def __enter__(self) -> Callable[[Any], Any]:
        self._flags.__enter__()
        return self._judge

    def __exit__(self, kind: Any, *rest: Any) -> None:
        self._flags.__exit__(kind, *rest)
        if kind is not None and issubclass(kind, NotExact) and "invalid value" in self._raised:
            refuse_overflow(self._problem)

    def _judge(self, state: Any) -> Any:
        problem, raised = self._problem, self._raised
        if "invalid value" in raised or (raised and not all(np.isfinite(v).all() for v in state)):
            refuse_overflow(problem)
        if not raised and problem.begun is not None:
            problem.begun.keep(problem.flow)
        return state


_NEAR = 1e-9  # distance of a state at t = inf from the limit, relative to its size
_LATE = 1e150  # later times may overflow in products with rates


def answer(problem: Problem, out: Any, engine: str | None, threads: int | None) -> Any:
    """Return the state at a problem's times.

    Where a time beyond 1e150 overflows, the state at t = inf is returned if it is reached by t = 1e150.

    Raises
    ------
    OverflowError
        If a time, a field of the state or a parameter is out of range; the message names it.
    """

    def at(t: Any, out: Any) -> Any:
        posed = problem if t is problem.t else problem._replace(t=t)
        with heard(posed) as judge:
            return judge(_EVALUATORS[0](posed, out, engine, threads))

    if arithmetic.is_jax(problem.xp):
        state = at(problem.t, out)
        _refuse_unreached(problem, state)
        return _leaving(problem, state)
    try:
        return at(problem.t, out)
    except OverflowError:
        t = arithmetic.to_numpy(problem.t)
        late = np.isfinite(t) & (np.abs(t) > _LATE)
        if problem.xp is not np or not late.any():
            raise
        problem = problem._replace(begun=None)  # the quantities of the start may have overflowed
        bounded = at(np.where(late, np.sign(t) * _LATE, t), None)  # raises if the time is not the cause
    try:
        limit = at(np.where(late, np.copysign(np.inf, t), t), out)
        reached = all(np.allclose(a, b, rtol=1e-12, atol=0.0) for a, b in zip(bounded, limit, strict=True))
    except (OverflowError, ValueError):
        reached = False
    if not reached:
        raise OverflowError(
            f"{type(problem.flow).__name__}: t = {t[late][0]:g} leaves the range of doubles when "
            "multiplied by the rates (time); use an earlier time, or inf"
        ) from None
    return limit


def sizes(flow: Any, state: Any) -> Any:
    """Return the norm of each member of a batch, over all fields."""
    own = [len(flow.axes[name]) for name in state._fields]
    flat = [np.reshape(v, (*v.shape[: v.ndim - k], -1)) for v, k in zip(state, own, strict=True)]
    return reduce(np.hypot, [np.hypot.reduce(v, axis=-1) for v in flat])  # squares may overflow


def _leaving(problem: Problem, state: Any) -> Any:
    """Return the state, whose derivative at ``t = 0`` is that of the start, and the velocity.

    There a formula returns the start itself, which is constant in time. Second derivatives at t = 0 need the derivative
    in time first: by start or parameters first, and then by time, they are 0.
    """
    flow, xp, kind = problem.flow, problem.xp, type(state)
    own = leaves(flow)
    t, z0 = clock(xp, problem.t, len(problem.batch)), spread(problem, problem.z0)

    def values(t: Any, z0: Any, state: Any, own: Any) -> Any:
        return tuple(
            xp.where(_along(flow, name, t == 0), a, b) for name, a, b in zip(kind._fields, z0, state, strict=True)
        )

    def derivative(found: Any, given: Any, changes: Any) -> Any:
        (t, _, _, own), (dt, dz0, dstate, _) = given, changes
        ahead = flow._with(**own).velocity(xp, kind(*found))
        return tuple(
            xp.where(_along(flow, name, t == 0), start + _along(flow, name, dt) * speed, later)
            for name, start, later, speed in zip(kind._fields, dz0, dstate, ahead, strict=True)
        )

    return kind(*xp.with_derivative(values, derivative, t, tuple(z0), tuple(state), own))


def _along(flow: Any, name: str, value: Any) -> Any:
    """Return values of shape time + batch with the own axes of a field."""
    return value[(..., *(None,) * len(flow.axes[name]))]


def _refuse_unreached(problem: Problem, state: Any) -> None:
    """Raise OverflowError if a state of JAX at t = inf is not that of NumPy, which takes inf as it is; see `clock`."""
    if not _readable(problem) or not (late := arithmetic.to_numpy(problem.t) == np.inf).any():
        return
    z0 = type(problem.z0)(*(arithmetic.to_numpy(v).astype(float) for v in problem.z0))
    with np.errstate(all="ignore"):
        limit = problem.flow.cast(np).solution(np, np.full(problem.batch, np.inf), z0)
    for name, own in problem.flow.axes.items():
        found, end, start = (arithmetic.to_numpy(getattr(z, name)) for z in (state, limit, z0))
        axes = tuple(range(-len(own), 0))
        size = np.maximum(np.abs(end).max(axis=axes, keepdims=True), np.abs(start).max(axis=axes, keepdims=True))
        if not (np.abs(found[late] - end) <= _NEAR * size).all():
            raise OverflowError(
                f"{type(problem.flow).__name__}: t = inf must be reached by 1.3e154, which stands for it in JAX (time; "
                "rates below 1e-152 are slower); give NumPy arrays, or rescale"
            )


def clock(xp: Any, t: Any, ndim: int) -> Any:
    """Return times with `ndim` batch axes; in JAX `t = inf` is a large number, whose products with 0 are not nan.

    The limit is reached by this time, 1.3e154 in doubles, unless rates are below 1e-152: `answer` refuses these. While
    JAX traces, the values are unknown, and the result is the state at this time.
    """
    if ndim:
        t = xp.reshape(t, t.shape + (1,) * ndim)
    if not arithmetic.is_jax(xp):
        return t
    return xp.where(xp.isinf(t), xp.copysign(_endless(xp, t), t), t)


def _endless(xp: Any, t: Any) -> Any:
    return xp.sqrt(xp.finfo(t.dtype).max)


def unbounded(xp: Any, t: Any) -> Any:
    """Return the times of `clock`, inf where they stand for it: rates below 1e-150 are still slow at a large number."""
    return xp.where(xp.abs(t) == _endless(xp, t), xp.copysign(xp.inf, t), t)


def closed_form(problem: Problem, clock: Any) -> Any:
    """Return the state at the times `clock`; store the quantities shared with observables in `problem.shared`.

    Parameters and start of one network, and one time, become numbers of NumPy, which are 10 times faster than arrays of
    one entry, if the flow allows it: its formulas of time have no power (products instead of squares) and no matrix
    product, whose rounding differs between numbers and arrays. At one time the fields then lack the axes of time, which
    `spread` adds.
    """
    flow, z0, found = _begun(problem)
    if flow.one_number and problem.xp is np and not problem.batch and clock.size == 1:
        clock = np.float64(clock.item())
    begun = {"begun": found}
    more = begun if "solution" in flow.beginning else {}
    if "solution" not in flow.sharing:
        return flow.solution(problem.xp, clock, z0, **more)
    shared = flow.shared(problem.xp, clock, z0, **begun if "shared" in flow.beginning else {})
    if problem.shared is not None:
        problem.shared[0] = shared
    return flow.solution(problem.xp, clock, z0, shared, **more)


def _begun(problem: Problem) -> tuple[Any, Any, Any]:
    """Return flow and start as the closed form takes them, and ``flow.begun`` of these, all as they are kept."""
    begun, flow, z0 = problem.begun, problem.flow, problem.z0
    if begun is not None and begun.given is not None:
        return *begun.given, begun.found
    own = {} if begun is None else {"_last": None}  # the flow keeps `begun`, and must not be in it
    if flow.one_number and problem.xp is np and not problem.batch:
        own.update((name, v[()]) for name, v in flow.parameters().items())
        z0 = type(z0)(*(v[()] for v in z0))
    flow = flow._with(**own) if own else flow
    found = flow.begun(problem.xp, z0)
    if begun is not None:
        begun.found, begun.given = found, (flow, z0)
    return flow, z0, found


def _is_plain(z0: Any) -> bool:
    """Return whether a state consists of Python numbers and lists only, which convert to any library."""
    values = z0.values() if isinstance(z0, Mapping) else z0 if isinstance(z0, tuple) else (z0,)
    parts = [part for value in values for part in (value if isinstance(value, list) else (value,))]
    return not any(hasattr(part, "dtype") for part in parts)


def _readable(problem: Problem) -> bool:
    return problem.xp is np or arithmetic.readable(problem.t, *problem.z0, *problem.flow.parameters().values())


def traced_checks(problem: Problem) -> Problem:
    """Return a problem that JAX traces, with nan as the start where a condition fails, and as times that it never had.

    An error depends on values, which are unknown while JAX traces a function; nan is the result instead.
    """
    flow, xp, z0 = problem.flow, problem.xp, problem.z0
    if _readable(problem) or arithmetic.is_object(xp):
        return problem
    exact = xp.ones(problem.batch, dtype=bool)
    for distance in flow.conditions(xp, z0).values():
        exact = exact & (distance <= flow.tolerance)
    # an interval of existence that is finite only backward in time would double the cost
    low, high = (0.0, xp.inf) if flow.forward_complete else flow.lifetime(xp, z0)
    low, high = xp.max(xp.asarray(low)), xp.min(xp.asarray(high))
    lived = ((problem.t >= 0) | (problem.t > low)) & ((problem.t < high) | (high == xp.inf))
    fields = []
    for name, value in z0._asdict().items():
        own = (...,) + (None,) * len(flow.axes[name])
        fields.append(xp.where(exact[own], value, xp.nan))
    return problem._replace(t=xp.where(lived, problem.t, xp.nan), z0=type(z0)(*fields))


def refuse_inexact(problem: Problem, conditions: Mapping[str, Any] | None = None) -> None:
    """Raise `NotExact` if a condition of the closed form, evaluated here unless given, does not vanish."""
    flow, who = problem.flow, type(problem.flow).__name__
    if (problem.begun is not None and problem.begun.known) or not _readable(problem):
        return
    if conditions is None:
        conditions = flow.conditions(problem.xp, problem.z0)
    for name, distance in conditions.items():
        worst = bounds(distance)[1]
        if not worst <= flow.tolerance:
            raise NotExact(
                f"{who}: {name} = {worst:.3g} must vanish (relative distance; at most {flow.tolerance:g}) for the "
                f"closed form to hold; {flow.otherwise}"
            )


def refuse_outside_lifetime(problem: Problem, lifetime: tuple[Any, Any] | None = None) -> None:
    """Raise ValueError if a time lies outside the interval of existence, which is evaluated here unless given."""
    if not _readable(problem):
        return
    first, last = bounds(problem.t)
    if lifetime is None and problem.flow.forward_complete and first >= 0:
        return
    low, high = _life(problem, lifetime)
    who = type(problem.flow).__name__
    if first < 0 and -np.inf < low and first <= low:
        rule = f"later than {low} (where the solution backward in time ends)" if low else "at least 0 (time)"
        rule += "; use a later time"
        raise ValueError(f"{who}: t = {first} must be {rule}")
    if high < np.inf and last >= high:
        raise ValueError(f"{who}: t = {last} must be earlier than {high} (where the solution blows up); stop before")


def _life(problem: Problem, lifetime: tuple[Any, Any] | None) -> tuple[float, float]:
    """Return the open interval of times at which every member exists."""
    begun = problem.begun
    if begun is not None and begun.life is not None:
        return begun.life
    starts, ends = lifetime or problem.flow.lifetime(problem.xp, problem.z0)
    life = bounds(starts)[1], bounds(ends)[0]
    if begun is not None and not begun.known:  # a known start has been computed without overflow
        begun.life = life
    return life


def spread(problem: Problem, state: Any) -> Any:
    """Return a state with every field broadcast to times, batch and own axes."""
    lead = tuple(problem.t.shape) + problem.batch
    fields = []
    for name, value in zip(state._fields, state, strict=True):
        own, given = len(problem.flow.axes[name]), tuple(value.shape)
        if given[: len(given) - own] == lead:
            fields.append(value)
            continue
        shape = lead + given[len(given) - own :]
        if problem.xp is np and value.size == math.prod(shape):
            fields.append(np.array(value).reshape(shape))
        else:
            fields.append(problem.xp.broadcast_to(value, shape))
    return type(state)(*fields)
