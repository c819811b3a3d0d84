"""Figure of a comparison: runs over the exact solution, errors over time, errors over the step."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from linsolve import plot
from linsolve.plot.axes import LABELS, falls, scale_axis
from linsolve.studies.simulators.errors import distances
from linsolve.studies.simulators.tables import WHO

__all__ = ["write"]

KINDS = (".png", ".pdf", ".svg")
LOOKS = (("vermilion", "-"), ("blue", (0, (5, 2))), ("black", (0, (1, 1.5))), ("purple", "-."))
LINES = 6  # entries drawn


def write(check: Any, path: str | os.PathLike[str]) -> None:
    """Write the figure of a `SimulatorCheck` to a ``.png``, ``.pdf`` or ``.svg`` file.

    Raises
    ------
    ValueError
        If the name ends otherwise, or its folder does not exist.
    """
    path = Path(path)
    if path.suffix.lower() not in KINDS or path.is_dir() or not path.absolute().parent.is_dir():
        raise ValueError(
            f"{WHO}: out = {path} must be a {', '.join(KINDS)} file in an existing folder (figure); choose another name"
        )
    panels = 3 if check.orders else 2
    with plot.figure(1, panels, figsize=(4.6 * panels, 3.9)) as (fig, axes):
        _draw_runs(check, axes[0])
        _draw_errors(check, axes[1])
        if check.orders:
            _draw_orders(check, axes[2])
        order = f", order {check.orders[-1]:.2f}" if check.orders else ""
        fig.suptitle(f"{'PASS' if check.ok else 'FAIL'}: relative error {check.error:.3g}{order}", x=0.01, ha="left")
        fig.savefig(path)


def _draw_runs(check: Any, ax: Any) -> None:
    """Draw the loss if it is known, else the first quantity, of the run with the smallest step."""
    finest = check.references[-1]
    name = "loss" if "loss" in finest.simulated or finest.state is not None else next(iter(finest.simulated))
    exact, seen = (_series(finest, name, side) for side in ("exact", "simulated"))
    for values, look, label in ((exact, plot.ROUTES[0], "exact"), (seen, plot.ROUTES[1], check.runs[-1].run)):
        every = {"markevery": max(1, len(finest.t) // 22)} if "marker" in look else {}
        for k, column in enumerate(values.T[:LINES]):
            ax.plot(finest.t, column, label=label if k == 0 else None, **look, **every)
    ax.set_xlabel("time $t$")
    ax.set_ylabel(LABELS.get(name, name.replace("_", " ")))
    scale_axis(ax, np.concatenate([exact, seen]), falls(name, exact))
    ax.legend()


def _series(reference: Any, name: str, side: str) -> np.ndarray:
    """Return a quantity of the run or of the exact solution as (T, lines)."""
    values = getattr(reference, side).get(name)
    if values is None:  # the loss of a run that has the state
        state = reference.state if side == "simulated" else reference.flow.state(dict(reference.exact))
        values = reference.flow.loss(np, state)
    return np.asarray(values).reshape(len(reference.t), -1)


def _draw_errors(check: Any, ax: Any) -> None:
    for k, (run, reference) in enumerate(zip(check.runs, check.references, strict=True)):
        color, dash = LOOKS[k % len(LOOKS)]
        gaps = np.max(list(distances(reference.simulated, reference.exact).values()), axis=0)
        label = run.run if run.step is None else f"step {run.step:g}"
        ax.plot(reference.t, np.where(gaps > 0, gaps, np.nan), color=plot.COLORS[color], linestyle=dash, label=label)
    ax.axhline(check.tolerance, color="#555555", linewidth=1.2, linestyle=(0, (5, 3)), label="tolerance")
    ax.set_yscale("log")
    ax.set_xlabel("time $t$")
    ax.set_ylabel("relative error")
    ax.legend()


def _draw_orders(check: Any, ax: Any) -> None:
    steps, errors = (np.array([getattr(run, name) for run in check.runs]) for name in ("step", "error"))
    shown = np.isfinite(errors) & (errors > 0)
    ax.plot(steps[shown], errors[shown], "o-", color=plot.COLORS["vermilion"], label="runs")
    if check.order is not None and shown.any():
        guide = errors[shown][0] * (steps / steps[shown][0]) ** check.order
        ax.plot(steps, guide, color="#555555", linestyle=(0, (5, 3)), label=f"order {check.order:g}")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("step size")
    ax.set_ylabel("relative error")
    ax.legend()
