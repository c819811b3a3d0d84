"""Sweep or ensemble described by a TOML or JSON file of numbers and names; no part of the file is executed."""

from __future__ import annotations

import dataclasses
import json
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from linsolve.core.arguments import unknown_name
from linsolve.ensembles.record import named
from linsolve.ensembles.spec_values import (
    WHO,
    drawn,
    fields,
    number,
    numbers,
    table,
    text,
    texts,
    truth,
    values,
    whole,
)
from linsolve.systems import flows

__all__ = ["EXAMPLE", "Population", "Spec", "parse", "read"]

EXAMPLE = """\
# linsolve sweep spec.toml
# The loss of random two-layer networks of width 10^9 over time, in the scaling of the tangent kernel.

flow = "TwoLayerOrder"          # linsolve list names them
observe = ["loss", "ntk"]       # what a trajectory of the flow gives by name
time = {start = 0.0, stop = 2.0, num = 41}      # or one time, or a list; inf is the limit
seed = 0
threads = 2
# engine = "compiled"           # of grids (extra [fast]); "plain" and "blocks" give the same bits
# block = 65_536                # cells of a grid, or members of an ensemble, in one task
# store = "sweep.zarr"          # of grids (extra [store]): an interrupted sweep goes on after its finished blocks
out = "sweep.npz"               # or .nc (extra [labelled]); a figure goes beside it

[parameters]                    # of the flow, those that stay fixed
y = 1.0
gamma = 3.1622776601683795e-5   # one over the root of the width

# [start]                       # of the state; here the networks are random instead
# P = 0.02

# [axes]                        # parameters or fields of the start that vary, over a grid
# gamma = {start = 0.1, stop = 10.0, num = 5, spacing = "log"}
# y = [0.5, 1.0, 2.0]

[ensemble]                      # without it: one network for each point of the grid
members = 20_000
reduce = ["mean", "standard_error", "quantiles"]        # also variance, min, max, histogram
levels = [0.05, 0.25, 0.5, 0.75, 0.95]                  # of the quantiles
exact = true                    # false: to 0.4 %, in a single pass through millions of members
# bins = 64                     # of the histogram, with spacing = "linear" or "log"

[ensemble.weights]              # independent Gaussian weights, for TwoLayerOrder
width = 1e9
sigma_u = 1.0
sigma_w = 1.0

# [ensemble.draw]               # any flow: numbers of its parameters or start, each drawn for every member
# y = {normal = [1.0, 0.1]}     # mean and standard deviation; or uniform = [low, high],
# P = {lognormal = [0.01, 1.0]} # or lognormal = [median, standard deviation of the logarithm]
"""


@dataclasses.dataclass(frozen=True)
class Population:
    """Contents of ``[ensemble]``: number of members, reductions, distributions."""

    members: int
    reduce: tuple[Any, ...] = ("mean", "variance")
    weights: Mapping[str, Any] | None = None
    draw: Mapping[str, tuple[str, float, float]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Spec:
    """Contents of a spec file, returned by `read`.

    Parameters
    ----------
    flow : type
        Class of the flow.
    time : array, shape () or (T,)
    observe : tuple of str
    parameters, start : mapping
        Fixed parameters and fields of the start by name, numbers or arrays.
    axes : mapping of array
        Values of each varying parameter.
    seed : int
    threads, block : int, optional
    engine : str, optional
        Evaluation engine, as in `ensembles.of`.
    store : str, optional
        Folder of finished blocks, with which an interrupted sweep is resumed.
    out : str
    population : Population, optional
    """

    flow: Any
    time: np.ndarray
    observe: tuple[str, ...] = ("loss",)
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    start: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    axes: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    seed: int = 0
    threads: int | None = None
    block: int | None = None
    engine: str | None = None
    store: str | None = None
    out: str = "sweep.npz"
    population: Population | None = None


def read(path: str | os.PathLike[str]) -> Spec:
    """Return the spec in a ``.toml`` or ``.json`` file.

    Raises
    ------
    ValueError
        If the file cannot be read or has an invalid entry; the message gives the path of the key.
    """
    path = Path(path)
    if path.suffix not in (".toml", ".json"):
        raise ValueError(f"{WHO}: spec = {path} must end in .toml or .json (format); rename it")
    try:
        written = path.read_text(encoding="utf-8-sig")
        found = tomllib.loads(written) if path.suffix == ".toml" else json.loads(written, object_pairs_hook=_once)
    except OSError as error:
        rule = f"cannot be read ({error.strerror or error})"
        raise ValueError(f"{WHO}: spec = {path} {rule}; linsolve sweep --example prints one") from None
    except (ValueError, RecursionError) as error:  # of TOML, JSON and Unicode
        raise ValueError(f"{WHO}: {path} is not valid {path.suffix[1:].upper()} ({error}); correct it there") from None
    spec = parse(found)
    _refuse_missing(spec)
    return spec


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raise for repeated keys, as TOML does."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{max(names, key=names.count)!r} is there twice; give it once")
    return found


def parse(given: Any) -> Spec:
    """Return the spec in a table, with keys and types checked.

    Raises
    ------
    ValueError
    """
    known: dict[str, Callable[[str, Any], Any]] = {
        "flow": _flow,
        "time": values,
        "observe": texts,
        "parameters": numbers,
        "start": numbers,
        "axes": lambda key, value: {
            name: np.atleast_1d(values(f"{key}.{name}", v)) for name, v in table(key, value).items()
        },
        "seed": lambda key, value: whole(key, value, 0),
        "threads": whole,
        "block": whole,
        "engine": text,
        "store": text,
        "out": text,
        "ensemble": _population,
    }
    _refuse_misplaced(table("spec", given), known)
    found = fields("", given, known, ("flow", "time"))
    found["population"] = found.pop("ensemble", None)
    spec = Spec(**found)
    _refuse_names(spec)
    _refuse_combinations(spec)
    return spec


def _refuse_misplaced(given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise for a parameter of the flow or a field of its start outside of its table."""
    name = given.get("flow")
    if not isinstance(name, str) or name not in flows.WHERE:
        return
    flow = getattr(flows, name)
    homes = dict.fromkeys(flow.State._fields, "start")
    homes |= dict.fromkeys((field.name for field in dataclasses.fields(flow)), "parameters")
    for key in given:
        if key in homes and key not in known:
            raise ValueError(f"{WHO}: {key} belongs to the {homes[key]} of {name}; put it under [{homes[key]}]")


def _flow(key: str, value: Any) -> Any:
    name = text(key, value)
    if name not in flows.WHERE:
        raise ValueError(unknown_name(WHO, key, name, flows.WHERE))
    return getattr(flows, name)


def _population(key: str, value: Any) -> Population:
    from linsolve.ensembles.quantiles import Quantiles
    from linsolve.ensembles.reductions import Histogram, requested

    known: dict[str, Callable[[str, Any], Any]] = {
        "members": whole,
        "reduce": texts,
        "levels": lambda key, value: tuple(np.atleast_1d(values(key, value)).tolist()),
        "exact": truth,
        "bins": whole,
        "spacing": text,
        "weights": _weights,
        "draw": lambda key, value: {name: drawn(f"{key}.{name}", v) for name, v in table(key, value).items()},
    }
    found = fields(key, value, known, ("members",))
    options = {kind.__name__.lower(): kind for kind in (Quantiles, Histogram)}
    names = found.get("reduce", ("mean", "variance"))
    requested(names)
    made: dict[str, Any] = {}
    for name, kind in options.items():
        given = {field.name: found[field.name] for field in dataclasses.fields(kind) if field.name in found}
        if given and name not in names:
            raise ValueError(f"{WHO}: {key}.{min(given)} belongs to {name!r}, which {key}.reduce does not name; add it")
        made[name] = kind(**given)
    reduce = requested([made.get(name, name) for name in names])
    return Population(found["members"], reduce, found.get("weights"), found.get("draw", {}))


def _of_weights() -> dict[str, Callable[[str, Any], Any]]:
    """Return the reader of each argument of `random_networks` that is not a parameter of the flow."""
    from linsolve.ensembles.factories import random_networks

    arguments = named("weights", random_networks)
    return {name: truth if isinstance(p.default, bool) else number for name, p in arguments.items()}


def _weights(key: str, value: Any) -> dict[str, Any]:
    return fields(key, value, _of_weights())


def _refuse_names(spec: Spec) -> None:
    """Raise for names unknown to the flow or its start, and for names given twice."""
    parameters = [field.name for field in dataclasses.fields(spec.flow)]
    state = list(spec.flow.State._fields)
    people = spec.population
    weights = people.weights if people else None
    random = [name for name, read in _of_weights().items() if read is number] if weights is not None else []
    allowed = {
        "parameters": (spec.parameters, parameters),
        "start": (spec.start, state),
        "axes": (spec.axes, [*parameters, *state, *random]),
        "ensemble.draw": (people.draw if people else {}, [*parameters, *state]),
    }
    seen: dict[str, str] = dict.fromkeys(weights or (), "ensemble.weights")
    for where, (given, known) in allowed.items():
        for name in given:
            if name not in known:
                raise ValueError(unknown_name(WHO, f"{where} of {spec.flow.__name__}", name, known))
            if name in seen:
                raise ValueError(f"{WHO}: {name} is given in {seen[name]} and in {where}; give it once")
            seen[name] = where
    own = {field.name: field.metadata["axes"] for field in dataclasses.fields(spec.flow)} | dict(spec.flow.axes)
    for name in people.draw if people else ():
        if own[name]:
            raise ValueError(f"{WHO}: ensemble.draw.{name} is an array with axes {own[name]}, not a number; fix it")


def _refuse_missing(spec: Spec) -> None:
    """Raise if a parameter or field of the start is neither fixed nor an axis nor drawn."""
    people = spec.population
    if people is not None and people.weights is not None:
        return
    seen = {*spec.parameters, *spec.start, *spec.axes, *(people.draw if people else ())}
    needed = [("parameters", field.name, "parameter", field.default) for field in dataclasses.fields(spec.flow)]
    needed += [("start", name, "state", dataclasses.MISSING) for name in spec.flow.State._fields]
    for where, name, what, default in needed:
        if default is dataclasses.MISSING and name not in seen:
            rule = f"is missing ({what} of {spec.flow.__name__})"
            raise ValueError(f"{WHO}: {where}.{name} {rule}; give it, or let it vary in axes")


def _refuse_combinations(spec: Spec) -> None:
    """Raise for incompatible entries."""
    from linsolve.systems.two_layer.order_parameters import TwoLayerOrder

    people, name = spec.population, spec.flow.__name__
    for observed in spec.observe:
        if observed in spec.axes:
            raise ValueError(f"{WHO}: observe = {observed!r} is an axis (the start of it); observe something else")
    if Path(spec.out).suffix not in (".npz", ".nc"):
        raise ValueError(f"{WHO}: out = {spec.out!r} must end in .npz or .nc (NumPy's archives, netCDF); rename it")
    if people is None:
        if not spec.axes and spec.time.ndim == 0:
            raise ValueError(f"{WHO}: axes is missing and time is one number; vary something, or call {name} itself")
        return
    if spec.store is not None:
        raise ValueError(f"{WHO}: store = {spec.store!r} does not go with [ensemble] (it is not resumed); leave it out")
    if people.weights is None and not people.draw:
        raise ValueError(f"{WHO}: ensemble has neither 'draw' nor 'weights' (random quantities); add one")
    if people.weights is not None:
        if spec.flow is not TwoLayerOrder:
            raise ValueError(f"{WHO}: ensemble.weights does not go with {name} (a start of TwoLayerOrder); use draw")
        if spec.start or people.draw or set(spec.axes) & set(spec.flow.State._fields):
            raise ValueError(
                f"{WHO}: ensemble.weights gives the whole start; leave out start, draw and axes of P, Q, R"
            )
