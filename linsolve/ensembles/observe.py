"""Observed quantities of a sweep: a function of named parameters, or observables of a flow."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from linsolve.core.arguments import real_array, shown, times, unknown_name
from linsolve.core.parameters import own_axes
from linsolve.ensembles.axes import Axis
from linsolve.ensembles.blocks import check_engine, observed
from linsolve.ensembles.record import named, signature

__all__ = ["FlowObservation", "check_names", "of", "takes_rng"]


def of(
    flow: type, *names: str, t: Any = None, start: Any = None, engine: str | None = None, **fixed: Any
) -> FlowObservation:
    """Return a function for `sweep` that evaluates state, loss, kernel or any observable of a flow.

    Parameters
    ----------
    flow : Flow class
    *names : str
        State fields and observables, as a `Trajectory` names them; all by default.
    t : float, optional
        Time; ``inf`` gives the limit. By default the time is an axis.
    start : State, tuple, mapping, array or callable
        The start, or its fixed fields; the other fields are axes. A callable returns the start. Its parameters are
        names of axes, of `fixed` or of parameters of the flow, passed as arrays that broadcast, and ``rng`` if it draws
        random numbers.
    engine : str, optional
        Evaluation engine: "plain", NumPy evaluation of the formula; "blocks", bitwise identical with fewer temporaries;
        "compiled" (extra ``[fast]``), machine code whose elementary functions are within 1.05 ulp. The last two are for
        flows of single numbers; "compiled" also for flows with their own compiled code. By default "blocks" if it
        applies and is faster, otherwise "plain". Results of an engine do not depend on blocks or executor.
    **fixed
        Fixed parameters of the flow and of `start`.

    Returns
    -------
    FlowObservation

    Raises
    ------
    TypeError, ValueError
        If `flow` is not a flow, a name is unknown, a fixed parameter has batch axes, or the engine is unknown or cannot
        evaluate the flow.
    ModuleNotFoundError
        If the engine is "compiled" and the extra is not installed.

    Examples
    --------
    >>> import linsolve as ls
    >>> loss = ls.ensembles.of(ls.BalancedMode, "loss", start=0.01)
    >>> ls.sweep(loss, s=[1.0, 2.0], t=[0.0, 1.0, float("inf")])["loss"].round(4).tolist()
    [[0.49, 0.433, 0.0], [1.98, 1.2315, 0.0]]
    """
    from linsolve.core.flow import Flow

    if not (isinstance(flow, type) and issubclass(flow, Flow)):
        raise TypeError(f"ensembles.of: flow = {shown(flow)} must be the class of a flow; say ls.TwoLayer")
    offered = _offered(flow, names)
    found = FlowObservation(flow, names or offered, t, start, fixed, engine)
    found.check(offered)
    return found


def _offered(flow: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a trajectory of the flow; without an example, unknown names raise later."""
    try:
        made, start = flow.example(np.random.default_rng(0))
    except NotImplementedError:
        return tuple(dict.fromkeys([*flow.State._fields, "loss", *flow.declared, *names]))
    return tuple(made(0.0, start).names)


@dataclasses.dataclass(frozen=True, eq=False)
class FlowObservation:
    """Function of named parameters that evaluates quantities of a flow; returned by `of`."""

    flow: Any
    names: tuple[str, ...]
    t: Any
    start: Any
    fixed: Mapping[str, Any]
    engine: str | None = None

    @property
    def __name__(self) -> str:
        return self.flow.__name__

    @property
    def parameters(self) -> dict[str, Any]:
        """Fields of the flow's parameters by name."""
        return {field.name: field for field in dataclasses.fields(self.flow)}

    @property
    def start_names(self) -> tuple[str, ...]:
        """Names on which the start depends: the parameters of a callable, or the fields that are not fixed."""
        if callable(self.start):
            return tuple(name for name in named("start", self.start) if name != "rng")
        fields = self.flow.State._fields
        if self.start is None:
            return fields
        return tuple(name for name in fields if name not in self.start) if isinstance(self.start, Mapping) else ()

    @property
    def known(self) -> tuple[str, ...]:
        """Names of possible axes and fixed parameters."""
        return tuple(dict.fromkeys([*self.parameters, *self.start_names, *(() if self.t is not None else ("t",))]))

    @property
    def given(self) -> tuple[str, ...]:
        """Names of fixed parameters: parameters of the flow, fields of the start, the time."""
        start = tuple(self.start) if isinstance(self.start, Mapping) else ()
        return (*self.fixed, *start, *(() if self.t is None else ("t",)))

    @property
    def takes_rng(self) -> bool:
        """Whether the start is drawn."""
        return callable(self.start) and "rng" in named("start", self.start)

    @property
    def needed(self) -> tuple[str, ...]:
        """Names without a default that are not fixed."""
        has_default = {name for name, field in self.parameters.items() if field.default is not dataclasses.MISSING}
        if callable(self.start):
            has_default |= {p.name for p in named("start", self.start).values() if p.default is not p.empty}
        return tuple(name for name in self.known if name not in self.fixed and name not in has_default)

    def check(self, offered: tuple[str, ...]) -> None:
        """Refuse unknown names, engines that cannot evaluate them, and invalid fixed parameters."""
        who = "ensembles.of"
        for name in self.names:
            if not isinstance(name, str) or name not in offered:
                raise ValueError(unknown_name(who, f"observable of {self.flow.__name__}", name, offered))
        check_engine(who, self.flow, self.names, self.engine)
        for name, value in self.fixed.items():
            if name not in self.known:
                raise ValueError(unknown_name(who, f"parameter of {self.flow.__name__}", name, self.known))
            if name in self.parameters:
                self._check_fixed(name, value)
        if self.t is not None and times(who, self.t).ndim:
            raise ValueError(
                f"{who}: t has shape {np.shape(self.t)} but must be one time; make it an axis of the sweep"
            )
        if callable(self.start) and "t" in named("start", self.start):
            raise ValueError(f"{who}: start = {shown(self.start)} takes t, but it is the state at t = 0; leave t out")
        if callable(self.start) and any(p.kind is p.VAR_KEYWORD for p in signature("start", self.start).values()):
            raise TypeError(f"ensembles.of: start = {shown(self.start)} takes any name; declare its parameters")
        if self.start is not None and not callable(self.start):
            self._check_start()

    def _check_start(self) -> None:
        """Raise for an invalid constant start, which may fix only some of the fields."""
        fields = self.flow.State._fields
        if isinstance(self.start, Mapping):
            for name in self.start:
                if name not in fields:
                    raise ValueError(unknown_name("ensembles.of", f"state field of {self.flow.__name__}", name, fields))
            given = {n: real_array(self.flow.__name__, n, v, meaning="state") for n, v in self.start.items()}
        else:
            given = self.flow.state(self.start)._asdict()
        for name, value in given.items():
            own = self.flow.axes[name]
            if value.ndim != len(own):
                remedy = "let start be a function of an axis" if own else "make it an axis of the sweep"
                raise ValueError(
                    f"ensembles.of: start has {name} of shape {tuple(value.shape)} but its axes must be {own} (state); "
                    f"{remedy}"
                )

    def _check_fixed(self, name: str, value: Any) -> None:
        about = self.parameters[name].metadata
        array = real_array("ensembles.of", name, value, meaning=about["doc"], domain=about["domain"])
        if array.ndim != len(own_axes(self.parameters[name], array)):
            own = f"its own axes {about['axes']} only" if about["axes"] else "one number"
            remedy = "give one such array" if about["axes"] else "make it an axis of the sweep"
            raise ValueError(
                f"ensembles.of: {name} has shape {tuple(array.shape)} but must have {own} ({about['doc']}); {remedy}"
            )

    def check_axes(self, axes: Iterable[Axis]) -> None:
        """Raise if values of an axis are outside the domain of the parameter."""
        for axis in axes:
            if axis.name == "t":
                continue
            if axis.name in self.parameters:
                about = self.parameters[axis.name].metadata
                if about["axes"]:
                    raise ValueError(
                        f"sweep: {axis.name} is an array with axes {about['axes']} ({about['doc']}), not an axis of "
                        "the grid; fix it in ensembles.of"
                    )
                real_array("sweep", axis.name, axis.values, meaning=about["doc"], domain=about["domain"])
            elif not callable(self.start) and self.flow.axes[axis.name]:
                raise ValueError(
                    f"sweep: {axis.name} is an array with axes {self.flow.axes[axis.name]} (state), not an axis of the "
                    "grid; let start be a function of numbers that gives it"
                )
            if axis.name in self.names:
                raise ValueError(
                    f"sweep: {axis.name} is an axis (its initial value) and also observed; rename the axis, "
                    f"by start=lambda {axis.name}0: ..., or observe other names"
                )

    @property
    def labels(self) -> dict[str, tuple[str, str]]:
        """Label in TeX and meaning of each parameter."""
        unit = r"in the unit of $\tau$" if "tau" in self.parameters else r"learning rate $\times$ steps"
        found = {"t": (f"time $t$  ({unit})", "time")}
        found |= {name: (f"start ${name}_0$", f"start of {name}") for name in self.flow.axes}
        for name, field in self.parameters.items():
            doc = field.metadata["doc"]
            found[name] = (f"{doc} ${field.metadata['symbol']}$", doc)
        return found

    @property
    def own(self) -> dict[str, tuple[str, ...]]:
        """Names of the own axes of each observable."""
        declared = {name: tuple(about["axes"]) for name, about in self.flow.declared.items()}
        return {name: tuple(axes) for name, axes in self.flow.axes.items()} | declared

    @property
    def meanings(self) -> dict[str, str]:
        """Meaning of each observable."""
        from linsolve.core.labelled import meaning

        return {name: meaning(self.flow, name) for name in (*self.flow.axes, "loss", *self.flow.declared)}

    def __call__(self, **values: Any) -> dict[str, Any]:
        """Return the observables on a part of the grid, of shape ``part + own``."""
        given = dict(self.fixed) | values
        t = np.ravel(given.pop("t", self.t))
        order = [name for name in values if name != "rng"]
        flow = self.flow(**{name: given[name] for name in self.parameters if name in given})
        batch, found = observed(flow, t, self._start(flow, given), self.names, self.engine)
        most = tuple(1 if name == "t" else np.size(values[name]) for name in order)
        if batch and (len(batch) != len(order) or any(n not in (1, m) for n, m in zip(batch, most, strict=True))):
            raise ValueError(
                f"ensembles.of: start has batch shape {batch} but the grid's axes {', '.join(order)} have {most}; "
                "let it broadcast the arrays that it is given"
            )
        # times are the first axis of a trajectory; move them to their axis of the grid
        lead = (t.size, *(batch or (1,) * len(order)))
        position = order.index("t") + 1 if "t" in order else None
        for name, value in found.items():
            value = value.reshape(lead + value.shape[1 + len(batch) :])
            found[name] = value[0] if position is None else np.swapaxes(value, 0, position)[0]
        return found

    def _start(self, flow: Any, given: Mapping[str, Any]) -> Any:
        if callable(self.start):
            offered = flow.parameters() | dict(given)
            return self.start(**{name: offered[name] for name in named("start", self.start) if name in offered})
        if self.start is None or isinstance(self.start, Mapping):
            if missing := [name for name in self.start_names if name not in given]:
                raise ValueError(
                    f"ensembles.of: start = {shown(self.start)} lacks {', '.join(missing)} (fields of the state); give "
                    "them there or as axes"
                )
            return dict(self.start or {}) | {name: given[name] for name in self.start_names}
        return self.start


def takes_rng(observe: Any) -> bool:
    """Return whether a function takes random numbers."""
    if isinstance(observe, FlowObservation):
        return observe.takes_rng
    return "rng" in signature("observe", observe)


def check_names(observe: Any, names: Iterable[str]) -> None:
    """Raise if `observe` is not callable, or an axis is not one of its parameters or is already bound.

    Raises
    ------
    TypeError, ValueError
    """
    if not callable(observe):
        raise TypeError(
            f"sweep: observe = {shown(observe)} must be callable (a function of named parameters); pass one, or "
            "ensembles.of(...)"
        )
    if isinstance(observe, FlowObservation):
        who, known, needed, fixed = observe.__name__, observe.known, observe.needed, observe.given
    else:
        who, by_name = getattr(observe, "__name__", type(observe).__name__), named("observe", observe)
        fixed = tuple(observe.keywords) if isinstance(observe, functools.partial) else ()
        if any(p.kind is p.VAR_KEYWORD for p in signature("observe", observe).values()):
            by_name |= {name: _ANY for name in names if name not in by_name}
        known = tuple(name for name in by_name if name != "rng")
        needed = tuple(name for name in known if by_name[name].default is inspect.Parameter.empty)
    names = tuple(names)
    for name in names:
        if name in fixed:
            raise ValueError(f"sweep: {name} is both an axis and a fixed parameter of {who}; give it once")
        if not known:
            raise ValueError(
                f"sweep: observe = {who} names no parameters, but {name} is an axis; give it the parameter {name}"
            )
        if name not in known:
            raise ValueError(unknown_name("sweep", f"axis of {who}", name, known))
    missing = [name for name in needed if name not in names]
    if taken := [name for name in missing if name in _TAKEN]:
        raise ValueError(f"sweep: {who} names {taken[0]}, an argument of sweep itself; rename it there")
    if missing:
        raise ValueError(
            f"sweep: {who} needs {', '.join(missing)} as well (parameters without a default); give axes, or fix them "
            "with functools.partial or ensembles.of"
        )


_ANY = inspect.Parameter("any", inspect.Parameter.KEYWORD_ONLY)
_TAKEN = ("store", "executor", "threads", "block", "progress")  # arguments of sweep
