"""Runs of a simulator: times, step size, and arrays over time by name."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from linsolve.core.arguments import Interval, number, real_array, shown, unknown_name
from linsolve.core.series import NamedSeries
from linsolve.core.trajectory import Trajectory
from linsolve.studies.simulators.tables import WHO, read_arrays

__all__ = ["Run", "parameters_in", "read_run", "read_runs"]

TIMES = ("t", "time", "times")
_TIMES = Interval("[-1e150, 1e150]")
COUNTS = ("k", "step", "steps", "iteration", "iterations")  # arrays
STEPS = ("step", "dt", "lr", "learning_rate")  # numbers


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Run(NamedSeries):
    """Arrays of one run over the times at which all of them are finite.

    Parameters
    ----------
    name : str
        Name of the file, or "run".
    t : ndarray, shape (T,)
        Times, increasing.
    values : mapping of str to ndarray
        Arrays of shape (T, ...).
    others : mapping of str to ndarray
        Arrays without a time axis, such as parameters.
    count : int
        Number of times, also those at which an array is not finite.
    step : float, optional
        Step size in units of time.
    diverged : float, optional
        First time at which an array is not finite.
    lost : str, optional
        The first entry that is not finite at that time, such as ``w1[0, 2] is nan``.
    notes : tuple of str
    route : str
    """

    name: str
    t: np.ndarray
    values: Mapping[str, np.ndarray]
    others: Mapping[str, np.ndarray]
    count: int
    step: float | None = None
    diverged: float | None = None
    lost: str | None = None
    notes: tuple[str, ...] = ()
    route: str = "simulation"

    def _unknown(self, name: Any) -> str:
        return unknown_name(WHO, f"array of {self.name}", name, self.keys())


def read_runs(runs: Any, steps: Any) -> list[Run]:
    """Return one run or several; see `linsolve.compare`."""
    given = list(runs) if isinstance(runs, list | tuple) else [runs]
    if not given:
        raise ValueError(f"{WHO}: runs = [] must have at least one (run of a simulator); give a file")
    names = ["run"] if len(given) == 1 else [f"run {k + 1}" for k in range(len(given))]
    if steps is None:
        return [read_run(each, None, name) for each, name in zip(given, names, strict=True)]
    sizes = np.atleast_1d(real_array(WHO, "steps", steps, meaning="step sizes", domain=Interval("[1e-150, 1e150]")))
    if sizes.shape != (len(given),):
        raise ValueError(
            f"{WHO}: steps = {shown(steps)} must have {len(given)} numbers (step sizes); give one for each run"
        )
    return [read_run(each, float(step), name) for each, step, name in zip(given, sizes, names, strict=True)]


def read_run(source: Any, step: float | None, name: str) -> Run:
    """Return a run from a file, a mapping of arrays, or a trajectory.

    Parameters
    ----------
    source : str, path, mapping or Trajectory
    step : float, optional
        Step size; by default that of the source.
    name : str
        Name of a run that is no file.
    """
    if isinstance(source, Trajectory):
        arrays: dict[str, Any] = {"t": source.t, **source.state._asdict()}
    elif isinstance(source, Mapping):
        arrays = {str(key): value for key, value in source.items()}
    elif isinstance(source, str | os.PathLike):
        name, arrays = Path(source).name, read_arrays(Path(source))
    else:
        raise TypeError(
            f"{WHO}: runs = {shown(source)} must be a file, a mapping of arrays or a Trajectory (run of a simulator); "
            "pass {'t': t, 'w': w}"
        )
    own, step = _step(name, arrays, step)
    key, t = _times(name, arrays, step)
    values, others, notes = _split(name, {k: v for k, v in arrays.items() if k not in (own, key)}, len(t))
    finite = np.ones(len(t), dtype=bool)
    for value in values.values():
        finite &= np.isfinite(value).reshape(len(t), -1).all(axis=1)
    kept = len(t) if finite.all() else int(np.argmin(finite))
    if kept == 0:
        bad = next(key for key, value in values.items() if not np.isfinite(value[0]).all())
        raise ValueError(f"{WHO}: {bad} of {name} is not finite at its first time (start of the run); repair the run")
    diverged, lost = (float(t[kept]), _lost(values, kept)) if kept < len(t) else (None, None)
    return Run(name, t[:kept], {k: v[:kept] for k, v in values.items()}, others, len(t), step, diverged, lost, notes)


def _lost(values: Mapping[str, np.ndarray], at: int) -> str:
    """Return the first entry that is not finite at a time, in words."""
    key, value = next((key, value[at]) for key, value in values.items() if not np.isfinite(value[at]).all())
    index = tuple(np.argwhere(~np.isfinite(value))[0].tolist())
    return f"{key}{list(index) if index else ''} is {value[index]:g}"


def _step(name: str, arrays: Mapping[str, Any], step: float | None) -> tuple[str | None, float | None]:
    """Return the name of the step size in a run, if it has one, and the step size: the given one, or its own.

    A constant array is the number that it repeats, as in a column of a table. The array `step` may count the steps.
    """
    sizes: dict[str, Any] = {}
    for key in (key for key in STEPS if key in arrays):
        value = _host(name, key, arrays[key])
        if value.size == 1 or (value == value.flat[0]).all():
            sizes[key] = value.flat[0]
        elif key not in COUNTS or value.dtype.kind in "US" or (value != np.floor(value)).any():
            raise ValueError(
                f"{WHO}: {key} of {name} = {shown(arrays[key])} must be one number (step size of the whole run); save "
                "a run of constant step"
            )
    own = next(iter(sizes), None)
    if step is not None or own is None:
        return own, step
    meaning = f"step size of {name} in units of time"
    found = {
        key: number(WHO, key, np.asarray(value), meaning=meaning, domain="[1e-150, 1e150]", example=0.01)
        for key, value in sizes.items()
    }
    if len(set(found.values())) > 1:
        both = ", ".join(f"{key} = {value:g}" for key, value in found.items())
        raise ValueError(f"{WHO}: {both} of {name} must agree (step size in units of time); keep one")
    return own, found[own]


def _times(name: str, arrays: Mapping[str, Any], step: float | None) -> tuple[str, np.ndarray]:
    """Return the name of the times in a run, and the times: as such, or the number of steps times the step size."""
    known = [each for each in (*TIMES, *COUNTS) if each in arrays]
    single = [each for each in known if each not in STEPS]  # a single number `step` is the step size
    key = next((each for each in known if _host(name, each, arrays[each]).size > 1), single[0] if single else None)
    if key is None:
        raise ValueError(
            f"{WHO}: t is missing in {name} (times, learning rate x steps; it has {', '.join(arrays) or 'nothing'}); "
            "add an array t, or k with the numbers of the steps"
        )
    t = np.asarray(real_array(WHO, key, arrays[key], meaning=f"times of {name}", domain=_TIMES))
    if key in COUNTS:
        if step is None:
            raise ValueError(
                f"{WHO}: step is missing in {name} (step size; {key} counts the steps); add the number step to the "
                "run, or give steps"
            )
        t = t * step
    if t.size < 2:
        raise ValueError(
            f"{WHO}: {key} of {name} = {shown(t)} must have two or more times (times, learning rate x steps); save the "
            "run at every step"
        )
    if t.ndim != 1 or not np.isfinite(t).all() or not (np.diff(t) > 0).all():
        raise ValueError(
            f"{WHO}: {key} of {name} = {shown(t)} must be two or more finite times in increasing order (time); sort "
            "them"
        )
    return key, t


def _split(
    name: str, arrays: Mapping[str, Any], count: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], tuple[str, ...]]:
    """Return the arrays over time, the other arrays of numbers, and a note on what is neither."""
    values, others, left = {}, {}, []
    for key, given in arrays.items():
        value = _host(name, key, given)
        if value.dtype.kind not in "fiub":
            left.append(key)
        elif value.ndim and len(value) == count:
            values[key] = value.astype(float)
        else:
            others[key] = value.astype(float)
    return values, others, (f"{name}: {', '.join(left)} is text and not compared.",) if left else ()


def _host(name: str, key: str, given: Any) -> np.ndarray:
    try:
        value = np.asarray(given)
    except ValueError:
        value = np.asarray(None)
    if value.dtype.kind not in "fiubUS" or value.size == 0 or np.ma.is_masked(given):
        raise TypeError(
            f"{WHO}: {key} of {name} = {shown(given)} must be an array of real numbers (array over time); convert it, "
            "or leave it out"
        )
    return value


def parameters_in(path: str, names: Collection[str]) -> dict[str, np.ndarray]:
    """Return the arrays of these names, parameters of a flow, in the file of a run."""
    return {name: value for name, value in read_arrays(Path(path)).items() if name in names}
