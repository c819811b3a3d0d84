"""The exact solution of the network that a run simulates, and the gradient flow of its state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import shown, unknown_name
from linsolve.core.flow import Flow
from linsolve.core.integrate import integrate
from linsolve.core.network import deep_weights
from linsolve.core.query import NotExact
from linsolve.solvability.files import arranged, is_weight
from linsolve.solvability.solve import of_layers
from linsolve.solvability.trajectory import WHO as SOLVE
from linsolve.studies.simulators.runs import Run
from linsolve.studies.simulators.tables import WHO

__all__ = ["Reference", "of_flow", "of_network"]

OBSERVED = ("loss", "train_loss", "map", "offset", "singular_values", "ntk")  # of `linsolve.solve`


class Reference(NamedTuple):
    """The exact solution of a run.

    Parameters
    ----------
    route : str
        Method: "closed form of TwoLayer", or an integrator.
    flow : Flow
        Gradient flow of the state.
    start : State
        State at time 0.
    t : ndarray, shape (T,)
        Times since the start.
    simulated, exact : mapping of str to ndarray
        Compared quantities of the run and of the exact solution, by name.
    state : State or None
        Simulated state at all times, None if the run does not have all of it.
    at : callable
        Function of times that returns the exact solution by name.
    causes : mapping of str to float
        Common losses and the factors by which they change all learning rates.
    notes : tuple of str
    """

    route: str
    flow: Flow
    start: Any
    t: np.ndarray
    simulated: Mapping[str, np.ndarray]
    exact: Any
    state: Any
    at: Callable[[np.ndarray], Any]
    causes: Mapping[str, float]
    notes: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Word for the route: "exact" for a closed form or a start at rest, otherwise "integrated"."""
        return "exact" if self.route.startswith(("closed form", "constant")) else "integrated"


CAUSES = {"a loss without its factor 1/2": 2.0, "a loss with a second factor 1/2": 0.5}


def of_flow(run: Run, flow: Flow, start: Any = None, names: Any = None) -> Reference:
    """Return the closed form of a flow from the start of a run; where it does not hold, its integration."""
    who = type(flow).__name__
    _refuse_other_parameters(run, flow)
    state, used = _state(run, flow)
    if state is None:
        _refuse_without_times(run, _names_of_state(flow, raw=start is None))
    if start is None and state is None:
        raise ValueError(
            f"{WHO}: start is missing ({run.name} has {', '.join(run.keys()) or 'no arrays over time'}, not the state "
            f"{', '.join(flow.State._fields)} of {who}); give start, or write the whole state"  # type: ignore[attr-defined]
        )
    t = run.t if start is not None else run.t - run.t[0]
    z0 = flow.state(type(state)(*(v[0] for v in state)) if start is None else start)
    notes = []
    try:
        exact = flow(t, z0)
        route, at = f"closed form of {who}", lambda times: flow(times, z0)
    except NotExact as reason:
        exact = integrate(flow, t, z0)
        route, at = f"{exact.route} of {who}", lambda times: integrate(flow, times, z0)
        notes.append(str(reason))
    simulated = dict(run.values) | ({} if state is None else state._asdict())
    return _compared(run, Reference(route, flow, z0, t, simulated, exact, state, at, CAUSES, tuple(notes)), used, names)


def _refuse_other_parameters(run: Run, flow: Flow) -> None:
    """Raise if a parameter of the flow that the run states has another value there."""
    for name, value in flow.parameters().items():
        held = run.others.get(name)
        if held is not None and not (held.shape == value.shape and np.allclose(held, value, rtol=1e-6, atol=0.0)):
            raise ValueError(
                f"{WHO}: {name} of {run.name} = {shown(held)} must be that of the flow, {shown(np.asarray(value))} "
                "(parameter); compare with the flow of the run"
            )


def _refuse_without_times(run: Run, names: Iterable[str]) -> None:
    """Raise if an array of the run that has one of these names lacks the axis of times."""
    for name in names:
        if name in run.others:
            shape = run.others[name].shape
            sizes = f"{shape[0]} entries for {run.count} times" if shape else "array over time"
            raise ValueError(
                f"{WHO}: {name} of {run.name} has shape {shape} but must have a leading axis of times ({sizes}); write "
                "it at every time, or leave it out"
            )


def _names_of_state(flow: Flow, *, raw: bool) -> list[str]:
    """Return the names of the fields of the state, and of the raw weights that give it, that no parameter has."""
    names = list(flow.State._fields)  # type: ignore[attr-defined]
    if raw:
        with suppress(NotImplementedError):
            names += [each for name in flow.definition(np).weights for each in (name, name.upper())]
    return [name for name in names if name not in flow.parameters()]


def _state(run: Run, flow: Flow) -> tuple[Any, set[str]]:
    """Return the state of a flow over time, from its fields or the raw weights, and their names; None without it."""
    fields, held = flow.State._fields, run.values  # type: ignore[attr-defined]
    if all(name in held for name in fields):
        return flow.state({name: held[name] for name in fields}), set(fields)
    try:
        raw = flow.definition(np)
    except NotImplementedError:
        return None, set()
    used = {name: name if name in held else name.upper() for name in raw.weights}
    if any(each not in held or held[each].ndim != 1 + len(raw.weights[name]) for name, each in used.items()):
        return None, set()
    try:
        return flow.state(raw.state({name: held[each] for name, each in used.items()})), set(used.values())
    except (ValueError, IndexError) as error:
        raise ValueError(
            f"{WHO}: {', '.join(used.values())} of {run.name} are no weights of {type(flow).__name__} ({error}); check "
            "their shapes"
        ) from None


def of_network(run: Run, data: Any, rates: Any = None, names: Any = None) -> Reference:
    """Return the exact solution of the layers of a run on samples, as `linsolve.solve` finds it."""
    _refuse_without_times(run, [name for name, value in run.others.items() if value.ndim and is_weight(name)])
    found = {name: value for name, value in run.values.items() if name not in OBSERVED and is_weight(name)}
    if not found:
        raise ValueError(
            f"{WHO}: {run.name} has {', '.join(run) or 'no arrays over time'} but must have layers W1, W2, ... with a "
            "leading axis of times (weights of the run); write them, or name a flow"
        )
    first = arranged(WHO, Path(run.name), {name: v[0] for name, v in found.items()}, option=False)
    times = run.t - run.t[0]

    def at(times: np.ndarray) -> Any:
        return of_layers(
            first.layers, data, times, rates, first.biases, None, 1e-10, None, False, first.names, None, None
        )

    try:
        exact = at(times)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise type(error)(str(error).replace(f"{SOLVE}: ", f"{WHO}: ", 1)) from None
    has = [bias is not None for bias in first.biases or []]
    layers, biases = _over_time(run, found)
    X, Y = (np.asarray(each, dtype=float) for each in data)
    Y = Y.reshape(len(X), -1)
    inputs = np.concatenate([X, np.ones((len(X), 1))], axis=1) if first.biases else X
    flow = deep_weights(
        np.linalg.lstsq(inputs, Y, rcond=None)[0].T, len(layers), covariance=inputs.T @ inputs / len(X),
        rates=1.0 if rates is None else rates, bias=has or False,
    )  # fmt: skip
    state = flow.State(*layers, *biases)
    simulated = {name: run.values[name] for name in run.values if name not in found} | state._asdict()
    samples, outputs = Y.shape
    causes = CAUSES | {
        "a loss summed over the samples": float(samples),
        "a squared error summed over samples and outputs": 2.0 * samples,
        "a squared error averaged over samples and outputs, such as nn.MSELoss": 2.0 / outputs,
    }
    start = type(state)(*(v[0] for v in state))
    usual = [name.lower() for name in first.names] == [f"w{k}" for k in range(1, len(layers) + 1)]
    notes = (*(() if usual else first.notes), *exact.notes)
    whole = Reference(exact.route, flow, start, times, simulated, exact, state, at, causes, notes)
    return _compared(run, whole, set(found), names)


def _over_time(run: Run, found: Mapping[str, np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the layers and the biases of a run, first to last, with the axis of times in front.

    The entries are numbered; their numbers are arranged as the weights of one time are.
    """
    entries = np.concatenate([v.reshape(len(v), -1) for v in found.values()], axis=1)
    ends = np.cumsum([v[0].size for v in found.values()])
    numbers = {
        name: np.arange(end - v[0].size, end).reshape(v[0].shape)
        for end, (name, v) in zip(ends, found.items(), strict=True)
    }
    one = arranged(WHO, Path(run.name), numbers, option=False)
    given = [bias for bias in one.biases or [] if bias is not None]
    return [entries[:, _matrix(layer)] for layer in one.layers], [entries[:, bias] for bias in given]


def _matrix(layer: np.ndarray) -> np.ndarray:
    return layer[None] if layer.ndim == 1 else layer


def _compared(run: Run, whole: Reference, used: set[str], names: Any) -> Reference:
    """Return the reference with the quantities that the run and the exact solution have in common, or those named."""
    simulated, exact = whole.simulated, whole.exact
    known = [name for name in simulated if name in exact]
    chosen = known if names is None else [names] if isinstance(names, str) else names
    if not isinstance(chosen, list | tuple) or (names is not None and not chosen):
        raise TypeError(f"{WHO}: names = {shown(names)} must be a name or a list of names (quantities); say 'loss'")
    for name in chosen:
        if not isinstance(name, str) or name not in known:
            raise ValueError(unknown_name(WHO, f"names of {run.name}", name, known))
    if not chosen:
        raise ValueError(
            f"{WHO}: {run.name} has {', '.join(run)} but must have one of {', '.join(list(exact)[:8])} (quantities "
            "over time); write one"
        )
    for name in chosen:
        if np.shape(simulated[name]) != np.shape(exact[name]):
            raise ValueError(
                f"{WHO}: {name} of {run.name} has shape {np.shape(simulated[name])} but must be "
                f"{np.shape(exact[name])} (times first); reshape it"
            )
    _refuse_without_times(run, [name for name in exact if name not in whole.flow.parameters()])
    left = [name for name in run if name not in known and name not in used]
    notes = (*run.notes, *whole.notes, *([f"{run.name}: {', '.join(left)} is not compared."] if left else []))
    pairs = ({name: np.asarray(values[name]) for name in chosen} for values in (simulated, exact))
    return whole._replace(simulated=next(pairs), exact=next(pairs), notes=notes)
