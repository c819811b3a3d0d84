"""Trajectories as labelled data sets for xarray, netCDF and zarr."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.parameters import own_axes

__all__ = ["distinct", "meaning", "network_dataset", "parameters_of", "to_dataset", "xarray_for"]

TIME = {"long_name": "time", "units": "units of time"}
CLOCK = "continuous time of the gradient flow, in the units that learning rates or time constants set"
# axes of the values of a network, besides those of its layers
NETWORK_AXES = {
    "map": ("n_out", "n_in"), "offset": ("n_out",), "singular_values": ("mode",), "ntk": ("sample_output",) * 2,
    "value": ("head",), "key": ("head", "token"), "query": ("head", "token"), "key_query": ("head", "token", "token"),
}  # fmt: skip


def to_dataset(trajectory: Any) -> Any:
    """Return state, loss, observables and invariants of a trajectory as a labelled data set of doubles.

    Parameters
    ----------
    trajectory : Trajectory
        Trajectory of any route and array library.

    Returns
    -------
    xarray.Dataset
        The dimensions are ``t`` (``t0, t1, ...`` if the times have several axes), ``batch0, batch1, ...``, then the
        axes named by the flow. The second occurrence of an axis in one array is renamed, as in ``n_in, n_in_2``; an
        axis with the name of a variable is ``n_axis``. Times and parameters are coordinates; flow, route and the unit
        of time are attributes. The data set can be written to netCDF and zarr.

    Raises
    ------
    ImportError
        If xarray is not installed.

    Examples
    --------
    >>> from linsolve import BalancedMode
    >>> dataset = to_dataset(BalancedMode(s=2.0)([0.0, 1.0], [0.01, 0.1, 0.2]))
    >>> dataset["a"].dims, float(dataset["loss"][0, 1])
    (('t', 'batch0'), 1.805)
    """
    xarray = xarray_for("to_dataset")
    flow, t = trajectory.flow, arithmetic.to_numpy(trajectory.t)
    time_dims = _time_axes(t)
    first = trajectory.state._fields[0]
    batch = trajectory.state[0].shape[t.ndim : trajectory.state[0].ndim - len(flow.axes[first])]
    lead = time_dims + tuple(f"batch{k}" for k in range(len(batch)))
    taken = {"t", *lead, *trajectory.names}

    def dimensions(own: tuple[str, ...]) -> tuple[str, ...]:
        return distinct(tuple(f"{name}_axis" if name in taken else name for name in own))

    shape = t.shape + tuple(batch)
    coordinates = {"t": (time_dims, t, TIME)}
    for name, (own, value, about) in parameters_of(flow, batch).items():
        dims = lead[t.ndim :] if value.ndim > len(own) else ()
        coordinates[f"parameter_{name}"] = (dims + dimensions(own), value, about)
    variables = {}
    for name in trajectory.names:
        value = arithmetic.to_numpy(trajectory[name])
        own = _own_axes(flow, name, max(value.ndim - len(lead), 0))
        value = np.broadcast_to(value, shape + value.shape[value.ndim - len(own) :])
        variables[name] = (lead + dimensions(own), value, {"long_name": meaning(flow, name)})
    attributes = {
        "flow": type(flow).__name__,
        "route": trajectory.route,
        "parameters": ", ".join(flow.parameters()),
        "time": CLOCK,
    }
    return xarray.Dataset(variables, coordinates, attributes)


def network_dataset(trajectory: Any, names: list[str]) -> Any:
    """Return values of a network's trajectory as a labelled data set; see `NetworkTrajectory.to_xarray`."""
    xarray = xarray_for("to_xarray")
    layers = [name for name in trajectory if re.fullmatch(r"w\d+", name)]
    units = ["n_in", *(f"unit{k + 1}" for k in range(len(layers) - 1)), "n_out"]
    axes: dict[str, tuple[str, ...]] = {f"w{k}": (units[k], units[k - 1]) for k in range(1, len(units))}
    axes |= {f"b{k}": (units[k],) for k in range(1, len(units))} | NETWORK_AXES
    for k in (name.removeprefix("first_") for name in trajectory if name.startswith("first_")):  # branches
        axes |= {f"first_{k}": (f"unit{k}", f"n_in{k}"), f"last_{k}": (f"context{k}", "n_out", f"unit{k}")}
    if any(name.startswith("first_") for name in trajectory):
        axes |= {name: ("context", *axes[name]) for name in ("map", "singular_values")}
    lead = _time_axes(trajectory.t)
    variables = {}
    for name in names:
        value, own = trajectory[name], axes.get(name, ())
        own = own[len(own) - (value.ndim - len(lead)) :]  # without contexts, or with one head for all of them
        variables[name] = (*lead, *distinct(own)), value
    attributes = {"network": trajectory.kind, "route": trajectory.route, "time": CLOCK}
    if trajectory.notes:
        attributes["notes"] = "; ".join(trajectory.notes)
    return xarray.Dataset(variables, {"t": (lead, trajectory.t, TIME)}, attributes)


def _time_axes(t: np.ndarray) -> tuple[str, ...]:
    return ("t",) if t.ndim == 1 else tuple(f"t{k}" for k in range(t.ndim))


def xarray_for(who: str) -> Any:
    """Return the module xarray.

    Raises
    ------
    ImportError
        If it is missing.
    """
    try:
        import xarray
    except ImportError as error:
        raise ImportError(f'{who}: xarray is missing; pip install ".[labelled]" in the clone') from error
    return xarray


def parameters_of(flow: Any, batch: tuple[int, ...]) -> dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]]:
    """Return own axes, value (broadcast to the batch if it has batch axes) and description of each parameter."""
    found = {}
    for field in dataclasses.fields(flow):
        value = arithmetic.to_numpy(getattr(flow, field.name))
        own = own_axes(field, value)
        if value.ndim > len(own):
            value = np.broadcast_to(value, batch + value.shape[value.ndim - len(own) :])
        about = {"long_name": field.metadata["doc"], "symbol": field.metadata["symbol"]}
        found[field.name] = (own, value, about)
    return found


def _own_axes(flow: Any, name: str, count: int) -> tuple[str, ...]:
    if name in flow.axes:
        return tuple(flow.axes[name])
    axes = tuple(flow.declared[name]["axes"]) if name in flow.declared else ()
    return axes if len(axes) == count else tuple(f"{name}_axis{k}" for k in range(count))


def distinct(axes: tuple[str, ...]) -> tuple[str, ...]:
    """Return `axes` with repetitions numbered, since names must be unique within an array."""
    return tuple(a if axes[:k].count(a) == 0 else f"{a}_{axes[:k].count(a) + 1}" for k, a in enumerate(axes))


def meaning(flow: Any, name: str) -> str:
    """Return the first line of the docstring of an observable, or the kind of any other name."""
    if name in flow.axes or not hasattr(type(flow), name):
        return f"{'state' if name in flow.axes else 'invariant'} {name}"
    lines = (inspect.getdoc(getattr(type(flow), name)) or name).splitlines()
    return lines[0].removeprefix("Return ").rstrip(".")
