"""Pictures of the solved systems, drawn from the `example` of each flow and law.

A flow shows its loss by two routes, the closed form and an integration. An expansion shows its error against the small
parameter, a statistic the deviation of sampled means in standard errors.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import linsolve as ls

__all__ = ["described", "draw", "portrait"]

MARKERS = "os^Dv<>pP*hX"
DASHES = ("-", "--", "-.", ":")


def described(cls: type) -> str:
    """Return the text that stands for the picture of a flow or law, and below it."""
    if issubclass(cls, ls.Flow):
        return "Loss in time of a random example: closed form (line), integration by DOP853 (circles)."
    if issubclass(cls, ls.laws.Expansion):
        return "Relative error of a random example against the small parameter; dotted lines have the stated orders."
    return "Deviations of sampled means from the law, in standard errors; the band holds two of them."


def portrait(cls: type, ax: Any) -> None:
    """Draw the picture of a flow or law on axes."""
    if issubclass(cls, ls.Flow):
        _losses(cls, ax)
    elif issubclass(cls, ls.laws.Expansion):
        _orders(cls, ax)
    else:
        _scores(cls, ax)


def draw(folder: Path, classes: list[type], processes: int = 2) -> None:
    """Write the pictures ``NAME.png`` of all flows and laws into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(processes) as pool:
        for job in [pool.submit(_save, cls.__name__, folder) for cls in classes]:
            job.result()


def _save(name: str, folder: Path) -> None:
    cls = getattr(ls.flows if name in ls.flows.WHERE else ls.laws, name)
    with ls.plot.figure(figsize=(6.4, 3.6)) as (fig, ax):
        portrait(cls, ax)
        fig.savefig(folder / f"{name}.png", dpi=110)


def _losses(cls: type[ls.Flow], ax: Any) -> None:
    flow, z0 = cls.example(np.random.default_rng(0))
    t = np.linspace(0.0, _duration(flow, z0), 201)
    exact, integrated = flow(t, z0), ls.integrate(flow, t[::10], z0)
    for k, (line, marks) in enumerate(zip(_columns(exact), _columns(integrated), strict=True)):
        name = f"start {k + 1}" if _columns(exact).shape[0] > 1 else "closed form"
        (drawn,) = ax.plot(t, line, linestyle=DASHES[k % 4], label=name)
        ax.plot(t[::10], marks, "o", markerfacecolor="none", color=drawn.get_color())
    ax.plot([], [], "o", markerfacecolor="none", color="#555555", label="DOP853")
    ax.set(xlabel="time $t$", ylabel="loss", ylim=(0, None))
    ax.legend()


def _columns(traj: ls.Trajectory) -> np.ndarray:
    """Return the losses of the first three members of a batch, one a row."""
    loss = np.asarray(traj["loss"])
    return loss.reshape(len(loss), -1).T[:3]


def _duration(flow: ls.Flow, z0: Any) -> float:
    """Return a time at which all losses shown have made 99 % of their change up to t = 1000."""
    t = np.geomspace(1e-3, 1e3, 200)
    losses = _columns(flow(np.append(0.0, t), z0))
    left = np.abs(losses[:, 1:] - losses[:, -1:]) / np.ptp(losses, axis=1, keepdims=True).clip(1e-300)
    late = np.flatnonzero((left > 0.01).any(axis=0))
    return float(t[min(late[-1] + 1, len(t) - 1)]) if late.size else 1.0


def _orders(cls: Any, ax: Any) -> None:
    law = cls.example(np.random.default_rng(0))
    scales = np.array(law.scales)
    for k, (name, errors) in enumerate(law.errors().items()):
        (drawn,) = ax.loglog(scales, errors, MARKERS[k % 12], label=name, markersize=7)
        order = float(law.orders[name])
        ax.loglog(scales, errors[0] * (scales / scales[0]) ** order, ":", color=drawn.get_color(), linewidth=1.2)
    ax.set(xlabel=f"small parameter {_symbol(law)}", ylabel="relative error")
    ax.legend(fontsize=8.5, ncols=1 + (len(law.orders) > 4))


def _symbol(law: Any) -> str:
    symbol = getattr(law, "symbol", "")
    return f"${symbol}$" if symbol else ""


def _scores(cls: Any, ax: Any) -> None:
    law = cls.example(np.random.default_rng(0))
    scores = law.scores(np.random.default_rng(1))
    ax.axhspan(-2, 2, color="#eeeeee")
    for k, (_, values) in enumerate(scores.items()):
        values = np.atleast_1d(values).ravel()
        ax.plot(k + 0.3 * np.linspace(-1, 1, len(values)) * (len(values) > 1), values, MARKERS[k % 12], markersize=8)
    ax.axhline(0, color="black", linewidth=0.8)
    ax.set_xticks(range(len(scores)), list(scores), rotation=20, ha="right")
    ax.set(ylabel="(sampled mean - law) / standard error", ylim=(-4.5, 4.5))
