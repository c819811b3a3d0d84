"""Errors of runs against the exact solution, and the observed order of convergence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.integrate import descend
from linsolve.studies.simulators.reference import Reference
from linsolve.studies.simulators.runs import Run

__all__ = ["RunErrors", "distances", "measured", "observed_orders"]

MOST = 100_000  # steps of gradient descent that are repeated


class RunErrors(NamedTuple):
    """Errors of one run, relative to the largest norm of the exact quantity over the times.

    Parameters
    ----------
    run : str
    step : float or None
    error : float
        Largest error over quantities and times; inf if the run diverged.
    quantity : str
        Quantity of the largest error.
    time : float
        Time of the largest error.
    errors : mapping of str to float
        Largest error of each quantity.
    diverged : float or None
        First time at which the run is not finite.
    lost : str or None
        The first entry that is not finite at that time, such as ``w1[0, 2] is nan``.
    descent : float or None
        Largest error against gradient descent with the same step, if the step is known and its state is simulated.
    """

    run: str
    step: float | None
    error: float
    quantity: str
    time: float
    errors: Mapping[str, float]
    diverged: float | None
    lost: str | None
    descent: float | None


def distances(simulated: Mapping[str, Any], exact: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the distance of each quantity over time, relative to its largest exact norm; absolute if that is 0."""
    found = {}
    with np.errstate(over="ignore"):
        for name, value in simulated.items():
            truth = np.asarray(exact[name], dtype=float)
            size = max(float(_norms(truth).max()), 0.0) or 1.0
            found[name] = _norms(value / size - truth / size)
    return found


def _norms(values: np.ndarray) -> np.ndarray:
    """Return the Euclidean (Frobenius) norm at each time, without overflow of the squares."""
    flat = np.abs(values.reshape(len(values), -1))
    top = flat.max(axis=1)
    scale = np.where((top > 0) & np.isfinite(top), top, 1.0)
    return np.linalg.norm(flat / scale[:, None], axis=1) * scale


def measured(run: Run, reference: Reference) -> RunErrors:
    """Return the errors of a run."""
    found = distances(reference.simulated, reference.exact)
    worst = max(found, key=lambda name: float(found[name].max()))
    diverged = run.diverged is not None
    return RunErrors(
        run.name, run.step, float("inf") if diverged else float(found[worst].max()), worst,
        float(run.diverged) if diverged else float(run.t[int(found[worst].argmax())]),  # type: ignore[arg-type]
        {name: float(each.max()) for name, each in found.items()}, run.diverged, run.lost,
        _from_descent(run, reference),
    )  # fmt: skip


def _from_descent(run: Run, reference: Reference) -> float | None:
    """Return the largest distance of the state from gradient descent with the step of the run, None if unknown."""
    if run.step is None or reference.state is None or reference.t[-1] > MOST * run.step:
        return None
    counts = reference.t / run.step
    if np.abs(counts - np.rint(counts)).max() > 1e-6:  # times between the steps
        return None
    try:
        taken = descend(reference.flow, reference.t, reference.start, step=run.step)
    except ArithmeticError:  # the descent diverges
        return None
    found = distances(reference.state._asdict(), taken.state._asdict())
    return max(float(each.max()) for each in found.values())


def observed_orders(runs: Sequence[RunErrors]) -> list[float]:
    """Return the slopes of log error over log step between neighboring steps, from the largest to the smallest step.

    A slope is nan if an error is 0 or infinite.
    """
    with np.errstate(all="ignore"):
        errors, steps = (np.log([getattr(each, name) for each in runs]) for name in ("error", "step"))
        found = np.diff(errors) / np.diff(steps)
    return [float(slope) if np.isfinite(slope) else float("nan") for slope in found]
