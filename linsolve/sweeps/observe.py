"""What a sweep observes: a function of named parameters, or named quantities of a flow."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from linsolve.inputs import real_array, times, unknown_name
from linsolve.sweeps.axes import Axis

__all__ = ["FlowObservation", "check_names", "of", "takes_rng"]


def of(flow: type, *names: str, t: Any = None, start: Any = None, **fixed: Any) -> FlowObservation:
    """Return what `sweep` observes of a flow: its state, loss, kernel or any observable, by name.

    Parameters
    ----------
    flow : Flow class
    *names : str
        What to observe, as a `Trajectory` names it; everything if none is given.
    t : float, optional
        The time; ``inf`` gives the limit. Else it is an axis.
    start : State, tuple, mapping, array or callable
        The start, or what it has in common over the grid: fields of the state that it leaves out are axes. A callable
        gives the start from those of the axes, of `fixed` and of the flow's parameters that it names, as arrays that
        broadcast, and from random numbers, if it names ``rng``.
    **fixed
        Parameters of the flow and of `start` that do not vary.

    Returns
    -------
    FlowObservation

    Raises
    ------
    TypeError, ValueError
        For a class that is no flow, names that it lacks, and fixed parameters with batch axes.

    Examples
    --------
    >>> import linsolve as ls
    >>> loss = ls.sweeps.of(ls.BalancedMode, "loss", start=0.01)
    >>> ls.sweep(loss, s=[1.0, 2.0], t=[0.0, 1.0, float("inf")])["loss"].round(4).tolist()
    [[0.49, 0.433, 0.0], [1.98, 1.2315, 0.0]]
    """
    from linsolve.flow import Flow

    if not (isinstance(flow, type) and issubclass(flow, Flow)):
        raise TypeError(f"sweeps.of: flow = {flow!r} must be a flow's class (what is observed); say ls.TwoLayer")
    found = FlowObservation(flow, names, t, start, fixed)
    found.check()
    return found


@dataclasses.dataclass(frozen=True, eq=False)
class FlowObservation:
    """A function of named parameters that gives quantities of a flow; made by `of`."""

    flow: Any
    names: tuple[str, ...]
    t: Any
    start: Any
    fixed: Mapping[str, Any]

    @property
    def __name__(self) -> str:
        return self.flow.__name__

    @property
    def parameters(self) -> dict[str, Any]:
        """Fields of the flow's parameters by name."""
        return {field.name: field for field in dataclasses.fields(self.flow)}

    @property
    def start_names(self) -> tuple[str, ...]:
        """What the start varies with: a callable's parameters, or the fields of the state that are not given."""
        if callable(self.start):
            return tuple(name for name in inspect.signature(self.start).parameters if name != "rng")
        fields = self.flow.State._fields
        if self.start is None:
            return fields
        return tuple(name for name in fields if name not in self.start) if isinstance(self.start, Mapping) else ()

    @property
    def known(self) -> tuple[str, ...]:
        """Names that may be axes or fixed."""
        return tuple(dict.fromkeys([*self.parameters, *self.start_names, *(() if self.t is not None else ("t",))]))

    @property
    def takes_rng(self) -> bool:
        """Whether the start is drawn."""
        return callable(self.start) and "rng" in inspect.signature(self.start).parameters

    @property
    def needed(self) -> tuple[str, ...]:
        """Names without a default that are not fixed."""
        has_default = {name for name, field in self.parameters.items() if field.default is not dataclasses.MISSING}
        if callable(self.start):
            named = inspect.signature(self.start).parameters.values()
            has_default |= {p.name for p in named if p.default is not p.empty}
        return tuple(name for name in self.known if name not in self.fixed and name not in has_default)

    def check(self) -> None:
        """Refuse names that the flow lacks, and fixed parameters that are none."""
        who = "sweeps.of"
        example = self.flow.example(np.random.default_rng(0))
        offered = example[0](0.0, example[1]).names
        for name in self.names:
            if name not in offered:
                raise ValueError(unknown_name(who, f"observable of {self.flow.__name__}", name, offered))
        for name, value in self.fixed.items():
            if name not in self.known:
                raise ValueError(unknown_name(who, f"parameter of {self.flow.__name__}", name, self.known))
            if name in self.parameters:
                self._check_fixed(name, value)
        if self.t is not None and times(who, self.t).ndim:
            raise ValueError(
                f"{who}: t has shape {np.shape(self.t)} but must be one time; make it an axis of the sweep"
            )
        if callable(self.start) and "t" in inspect.signature(self.start).parameters:
            raise ValueError(f"{who}: start = {self.start!r} takes t, but it is the state at t = 0; leave t out")
        if self.start is not None and not callable(self.start):
            self._check_start()

    def _check_start(self) -> None:
        """Refuse a constant start that is none; what it says of the state may be a part of it."""
        fields = self.flow.State._fields
        if isinstance(self.start, Mapping):
            for name in self.start:
                if name not in fields:
                    raise ValueError(unknown_name("sweeps.of", f"state field of {self.flow.__name__}", name, fields))
            given = {n: real_array(self.flow.__name__, n, v, meaning="state") for n, v in self.start.items()}
        else:
            given = self.flow.state(self.start)._asdict()
        for name, value in given.items():
            own = self.flow.axes[name]
            if value.ndim != len(own):
                raise ValueError(
                    f"sweeps.of: start has {name} of shape {tuple(value.shape)} but its axes must be {own} (state); "
                    "make it an axis of the sweep"
                )

    def _check_fixed(self, name: str, value: Any) -> None:
        about = self.parameters[name].metadata
        array = real_array("sweeps.of", name, value, meaning=about["doc"], domain=about["domain"])
        if array.ndim != len(about["axes"]):
            own = f"its own axes {about['axes']} only" if about["axes"] else "one number"
            raise ValueError(
                f"sweeps.of: {name} has shape {tuple(array.shape)} but must have {own} ({about['doc']}); "
                "make it an axis of the sweep"
            )

    def check_axes(self, axes: Iterable[Axis]) -> None:
        """Refuse axes that are no values of the flow's parameters."""
        for axis in axes:
            if axis.name == "t":
                continue
            if axis.name in self.parameters:
                about = self.parameters[axis.name].metadata
                if about["axes"]:
                    raise ValueError(
                        f"sweep: {axis.name} is an array with axes {about['axes']} ({about['doc']}), not an axis of "
                        "the grid; fix it in sweeps.of"
                    )
                real_array("sweep", axis.name, axis.values, meaning=about["doc"], domain=about["domain"])
            elif not callable(self.start) and self.flow.axes[axis.name]:
                raise ValueError(
                    f"sweep: {axis.name} is an array with axes {self.flow.axes[axis.name]} (state), not an axis of the "
                    "grid; let start be a function of numbers that gives it"
                )

    @property
    def labels(self) -> dict[str, tuple[str, str]]:
        """Label in TeX and meaning of each parameter."""
        found = {"t": ("time $t$", "time"), **{n: (f"start ${n}_0$", f"start of {n}") for n in self.flow.axes}}
        for name, field in self.parameters.items():
            doc = field.metadata["doc"]
            found[name] = (f"{doc} ${field.metadata['symbol']}$", doc)
        return found

    @property
    def own(self) -> dict[str, tuple[str, ...]]:
        """Names of the own axes of what is observed."""
        declared = {name: tuple(about["axes"]) for name, about in self.flow.declared.items()}
        return {name: tuple(axes) for name, axes in self.flow.axes.items()} | declared

    @property
    def meanings(self) -> dict[str, str]:
        """What the flow says about what is observed."""
        from linsolve.labelled import meaning

        return {name: meaning(self.flow, name) for name in (*self.flow.axes, "loss", *self.flow.declared)}

    def __call__(self, **values: Any) -> dict[str, Any]:
        """Return what is observed on a part of the grid, of shape ``part + own``."""
        given = dict(self.fixed) | values
        t = given.pop("t", self.t)
        order = [name for name in values if name != "rng"]
        flow = self.flow(**{name: given[name] for name in self.parameters if name in given})
        # times lead in a trajectory; on the grid they are where their axis is
        trajectory = flow(np.ravel(t), self._start(flow, given))
        batch = trajectory.state[0].shape[
            1 : trajectory.state[0].ndim - len(self.flow.axes[self.flow.State._fields[0]])
        ]
        if len(batch) not in (0, len(order)):
            raise ValueError(
                f"sweeps.of: start has batch shape {batch} but the grid has {len(order)} axes (start); let it "
                "broadcast the arrays that it is given"
            )
        lead = (trajectory.t.size, *(batch or (1,) * len(order)))
        position = order.index("t") + 1 if "t" in order else None
        found = {}
        for name in self.names or trajectory.names:
            value = np.asarray(trajectory[name])
            value = value.reshape(lead + value.shape[1 + len(batch) :])
            found[name] = value[0] if position is None else np.swapaxes(value, 0, position)[0]
        return found

    def _start(self, flow: Any, given: Mapping[str, Any]) -> Any:
        if callable(self.start):
            offered = flow.parameters() | dict(given)
            named = inspect.signature(self.start).parameters
            return self.start(**{name: offered[name] for name in named if name in offered})
        if self.start is None or isinstance(self.start, Mapping):
            return dict(self.start or {}) | {name: given[name] for name in self.start_names}
        return self.start


def takes_rng(observe: Any) -> bool:
    """Whether a function takes random numbers."""
    if isinstance(observe, FlowObservation):
        return observe.takes_rng
    return "rng" in _signature(observe)


def check_names(observe: Any, names: Iterable[str]) -> None:
    """Refuse what cannot be called, and axes whose names it lacks or that it is bound to already.

    Raises
    ------
    TypeError, ValueError
    """
    if not callable(observe):
        raise TypeError(f"sweep: observe = {observe!r} must be a function of named parameters, or sweeps.of(...)")
    if isinstance(observe, FlowObservation):
        who, known, needed, fixed = observe.__name__, observe.known, observe.needed, tuple(observe.fixed)
    else:
        who, signature = getattr(observe, "__name__", type(observe).__name__), _signature(observe)
        fixed = tuple(observe.keywords) if isinstance(observe, functools.partial) else ()
        if any(p.kind is p.VAR_KEYWORD for p in signature.values()):
            signature |= {name: _ANY for name in names if name not in signature}
        named = {name: p for name, p in signature.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        known = tuple(name for name in named if name != "rng")
        needed = tuple(name for name in known if named[name].default is inspect.Parameter.empty)
    names = tuple(names)
    for name in names:
        if name in fixed:
            raise ValueError(f"sweep: {name} is an axis and a fixed parameter of {who} as well; give it once")
        if name not in known:
            raise ValueError(unknown_name("sweep", f"axis of {who}", name, known))
    missing = [name for name in needed if name not in names]
    if missing:
        raise ValueError(
            f"sweep: {who} needs {', '.join(missing)} as well (parameters without a default); give axes, or fix them "
            "with functools.partial or sweeps.of"
        )


_ANY = inspect.Parameter("any", inspect.Parameter.KEYWORD_ONLY)


def _signature(observe: Any) -> dict[str, inspect.Parameter]:
    from linsolve.flow import Flow

    if isinstance(observe, type) and issubclass(observe, Flow):
        raise TypeError(
            f"sweep: observe = {observe.__name__} is a flow; say what of it: sweeps.of(flow, 'loss', t=1.0)"
        )
    try:
        found = dict(inspect.signature(observe).parameters)
    except (TypeError, ValueError) as error:
        raise TypeError(f"sweep: observe = {observe!r} names no parameters; wrap it in a function") from error
    if nameless := [name for name, p in found.items() if p.kind is p.POSITIONAL_ONLY and p.default is p.empty]:
        raise TypeError(f"sweep: observe takes {', '.join(nameless)} by position only; wrap it in a function")
    return found
