"""Execution of a spec: a sweep, an ensemble, or an ensemble at each point of a grid."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from linsolve.core.results import whole_files
from linsolve.ensembles.axes import read_axes
from linsolve.ensembles.diagram import Diagram
from linsolve.ensembles.factories import random_networks
from linsolve.ensembles.observe import of
from linsolve.ensembles.result import Ensemble
from linsolve.ensembles.spec import Spec
from linsolve.ensembles.stream import ensemble
from linsolve.ensembles.sweep_grid import sweep

__all__ = ["Draws", "perform", "write"]


@dataclasses.dataclass(frozen=True, eq=False)
class Draws:
    """A factory of members with independently drawn numbers.

    Parameters
    ----------
    flow : type
    parameters, start : mapping
        Fixed values.
    draw : mapping of (distribution, float, float)
        Distribution of each drawn value and its two numbers, in drawing order.
    """

    flow: Any
    parameters: Mapping[str, Any]
    start: Mapping[str, Any]
    draw: Mapping[str, tuple[str, float, float]]

    def __call__(self, rng: np.random.Generator, count: int) -> tuple[Any, Any]:
        """Return a flow and a start of `count` members."""
        drawn = {name: _numbers(rng, count, *about) for name, about in self.draw.items()}
        fields = self.flow.State._fields
        flow = self.flow(**self.parameters, **{name: v for name, v in drawn.items() if name not in fields})
        own = {name: v for name, v in drawn.items() if name in fields}
        return flow, flow.state({**self.start, **own})


def _numbers(rng: np.random.Generator, count: int, distribution: str, first: float, second: float) -> np.ndarray:
    if distribution == "uniform":
        return rng.uniform(first, second, count)
    normal = rng.standard_normal(count)
    return first + second * normal if distribution == "normal" else first * np.exp(second * normal)


def perform(spec: Spec, *, progress: bool | None = None) -> Diagram | Ensemble:
    """Return the sweep, the ensemble, or the sweep of ensembles described by a spec.

    Raises
    ------
    ValueError, TypeError
        If a value is invalid for the flow, or the engine is unknown or cannot evaluate it.
    ModuleNotFoundError
        If the engine is "compiled" and the extra ``[fast]`` is not installed.
    """
    if spec.engine is not None and spec.population is not None:
        raise ValueError(
            f"sweep: engine = {spec.engine!r} does not go with [ensemble] (NumPy follows its members, in pieces); "
            "leave it out"
        )
    how: dict[str, Any] = {"threads": spec.threads, "block": spec.block, "progress": progress}
    if spec.population is None:
        axes: dict[str, Any] = dict(spec.axes)
        if spec.time.ndim:
            axes["t"] = spec.time
        t = None if spec.time.ndim else float(spec.time)
        start = dict(spec.start) or None
        seen = of(spec.flow, *spec.observe, t=t, start=start, engine=spec.engine, **spec.parameters)
        return sweep(seen, store=spec.store, **how, **axes)
    if not spec.axes:
        return _one(spec, {}, how)
    return _many(spec, how)


def _one(spec: Spec, point: Mapping[str, float], how: dict[str, Any]) -> Ensemble:
    """Return the ensemble at a point of the grid."""
    people, fields = spec.population, spec.flow.State._fields
    assert people is not None
    factory: Any
    if people.weights is not None:
        factory = random_networks(**{"width": 1000.0, **people.weights, **spec.parameters, **point})
    else:
        parameters = {**spec.parameters, **{name: v for name, v in point.items() if name not in fields}}
        start = {**spec.start, **{name: v for name, v in point.items() if name in fields}}
        factory = Draws(spec.flow, parameters, start, people.draw)
    return ensemble(
        factory, people.members, spec.time, observe=spec.observe, reduce=people.reduce, rng=spec.seed, **how
    )


def _many(spec: Spec, how: dict[str, Any]) -> Diagram:
    """Return ensembles at all points of the grid, with a common seed: neighbors differ only in their parameters."""
    axes = {axis.name: axis for axis in read_axes("sweep", spec.axes, of(spec.flow).labels)}
    shape = tuple(len(axis.values) for axis in axes.values())
    found: dict[str, np.ndarray] = {}
    for index in np.ndindex(*shape):
        point = {name: float(axis.values[k]) for (name, axis), k in zip(axes.items(), index, strict=True)}
        for name, value in _one(spec, point, how).arrays().items():
            if name not in found:
                found[name] = np.empty(shape + value.shape, value.dtype)
            found[name][index] = value
    source = {"flow": spec.flow.__name__, "seed": str(spec.seed), "members": str(found.pop("members").flat[0])}
    found["times"] = found.pop("t")  # equal at all points, like the levels
    own = {name: _own_axes(spec, name) for name in found}
    return Diagram(axes, found, own, {}, source)


def _own_axes(spec: Spec, name: str) -> tuple[str, ...]:
    """Return the names of the axes of a statistic beyond those of the grid."""
    time = ("time",) if spec.time.ndim else ()
    observable = next((known for known in spec.observe if name.startswith(f"{known}_")), "")
    statistic = name.removeprefix(f"{observable}_")
    special = {
        "levels": ("level",),
        "quantiles": ("level", *time),
        "histogram": (*time, f"{observable}_bin"),
        "edges": (f"{observable}_edge",),
    }
    return special.get(statistic, time)


def write(found: Diagram | Ensemble, out: str | os.PathLike[str]) -> list[Path]:
    """Write a result as ``.npz`` or ``.nc``, with a figure if it can be drawn; each file is written atomically.

    Parameters
    ----------
    found : Diagram or Ensemble
    out : path

    Returns
    -------
    list of Path
    """
    from linsolve.plot.style import figure

    out = Path(out)
    with whole_files(out.parent) as made:
        if out.suffix == ".npz":
            np.savez_compressed(made / out.name, allow_pickle=False, **found.arrays())  # type: ignore[arg-type]
        else:
            found.to_xarray().to_netcdf(made / out.name, engine="netcdf4")
        picture = out.with_suffix(".png")
        if name := _shown(found):
            with figure() as (fig, ax):
                found.plot(name, ax)
                fig.savefig(made / picture.name)
        return [path for path in (out, picture) if (made / path.name).exists()]


def _shown(found: Diagram | Ensemble) -> str:
    """Return the name of a value that can be drawn, or "" if there is none."""
    if isinstance(found, Ensemble):
        name = found.observables[0]
        drawable = found.t.ndim == 1 and found.omitted[name].shape == found.t.shape
        return name if drawable and {"mean", "quantiles"} & set(found.statistics) else ""
    axes = [axis.values for axis in found.axes.values()]
    flat = [name for name, value in found.values.items() if value.ndim == len(axes)]
    if len(axes) > 2 or not flat or not all(np.isfinite(v).all() and len(np.unique(v)) > 1 for v in axes):
        return ""
    return flat[0] if np.isfinite(found[flat[0]]).all() else ""
