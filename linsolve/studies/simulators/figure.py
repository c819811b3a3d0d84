"""Figure of a comparison: runs over the exact solution, errors over time, errors over the step."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from linsolve import plot
from linsolve.core.results import folder_to_fill, whole_files
from linsolve.plot.axes import LABELS, falls, scale_axis, time_label
from linsolve.studies.simulators.errors import distances
from linsolve.studies.simulators.reference import Reference
from linsolve.studies.simulators.tables import WHO

__all__ = ["checked_path", "write"]

KINDS = (".png", ".pdf", ".svg")
LOOKS = (("vermilion", "-"), ("blue", (0, (5, 2))), ("black", (0, (1, 1.5))), ("purple", "-."))
LINES = 6  # entries drawn
HUGE = 1e3  # size, relative to the exact quantity, beyond which a run is not drawn


def checked_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a figure; raise ValueError for another kind of file, or a folder that cannot be written."""
    path = Path(path)
    if path.suffix.lower() not in KINDS or path.is_dir():
        raise ValueError(f"{WHO}: out = {path} must be a {', '.join(KINDS)} file (figure); choose another name")
    folder_to_fill(WHO, path.parent)
    return path


def write(check: Any, path: str | os.PathLike[str]) -> None:
    """Write the figure of a `SimulatorCheck` to a ``.png``, ``.pdf`` or ``.svg`` file."""
    path = checked_path(path)
    ranked = len(check.runs) > 1 and any(0 < run.error < np.inf for run in check.runs)
    panels = 3 if ranked else 2
    with plot.figure(1, panels, figsize=(4.6 * panels, 3.9)) as (fig, axes):
        _draw_runs(check, axes[0])
        _draw_errors(check, axes[1])
        if ranked:
            _draw_orders(check, axes[2])
        order = f", order {check.orders[-1]:.2f}" if check.orders and np.isfinite(check.orders[-1]) else ""
        fig.suptitle(f"{'PASS' if check.ok else 'FAIL'}: relative error {check.error:.3g}{order}", x=0.01, ha="left")
        with whole_files(path.parent) as made:
            fig.savefig(made / path.name)


def _draw_runs(check: Any, ax: Any) -> None:
    """Draw the loss if it is known, else the first quantity, of the run with the smallest step."""
    finest = check.references[-1]
    name = "loss" if "loss" in finest.simulated or finest.state is not None else next(iter(finest.simulated))
    exact, seen = _pair(finest, name)
    seen = np.where(np.abs(seen) <= HUGE * np.abs(exact).max(), seen, np.nan)
    for values, look, label in ((exact, plot.ROUTES[0], finest.kind), (seen, plot.ROUTES[1], check.runs[-1].run)):
        every = {"markevery": max(1, len(finest.t) // 22)} if "marker" in look else {}
        for k, column in enumerate(values.T[:LINES]):
            ax.plot(finest.t, column, label=label if k == 0 else None, **look, **every)
    ax.set_xlabel(time_label((finest.flow,)))
    ax.set_ylabel(LABELS.get(name, name.replace("_", " ")))
    scale_axis(ax, np.concatenate([exact, seen[np.isfinite(seen).all(axis=1)]]), falls(name, exact))
    ax.legend()


def _pair(reference: Reference, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a quantity of the exact solution and of the run, each as (T, lines)."""
    if name in reference.simulated:
        pair = reference.exact[name], reference.simulated[name]
    else:  # the loss of a run that has the state; that of `deep_weights` is without the part that no map explains
        loss, exact = reference.flow.loss, np.asarray(reference.at(reference.t)["loss"])
        with np.errstate(all="ignore"):
            pair = exact, loss(np, reference.state) + (exact[0] - loss(np, reference.start))
    count = len(reference.t)
    return np.asarray(pair[0]).reshape(count, -1), np.asarray(pair[1]).reshape(count, -1)


def _draw_errors(check: Any, ax: Any) -> None:
    for k, (run, reference) in enumerate(zip(check.runs, check.references, strict=True)):
        color, dash = LOOKS[k % len(LOOKS)]
        gaps = np.max(list(distances(reference.simulated, reference.exact).values()), axis=0)
        gaps = np.where(gaps <= HUGE, gaps, np.nan)
        label = run.run if run.step is None else f"step {run.step:g}"
        ax.plot(reference.t, np.where(gaps > 0, gaps, np.nan), color=plot.COLORS[color], linestyle=dash, label=label)
    ax.axhline(check.tolerance, color="#555555", linewidth=1.2, linestyle=(0, (5, 3)), label="tolerance")
    ax.set_yscale("log")
    ax.set_xlabel(time_label((check.references[-1].flow,)))
    ax.set_ylabel("relative error")
    ax.legend()


def _draw_orders(check: Any, ax: Any) -> None:
    steps, errors = (np.array([getattr(run, name) for run in check.runs]) for name in ("step", "error"))
    shown = np.isfinite(errors) & (errors > 0)
    ax.plot(steps[shown], errors[shown], "o-", color=plot.COLORS["vermilion"], label="runs")
    if check.order is not None:
        guide = errors[shown][0] * (steps / steps[shown][0]) ** check.order
        ax.plot(steps, guide, color="#555555", linestyle=(0, (5, 3)), label=f"order {check.order:g}")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("step size")
    ax.set_ylabel("relative error")
    ax.legend()
