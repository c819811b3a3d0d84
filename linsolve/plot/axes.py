"""Names, units and scales of axes, and the series that a trajectory draws on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.flow import Flow
from linsolve.core.tasks import TaskTrajectory
from linsolve.core.trajectory import Trajectory
from linsolve.plot.style import ladder

__all__ = [
    "FLOOR",
    "LABELS",
    "falls",
    "flows_of",
    "label_axes",
    "label_goals",
    "line_labels",
    "refuse_log",
    "refuse_style",
    "scale_axis",
    "series",
    "time_label",
]

LABELS = {
    "loss": "loss $L$",
    "train_loss": "train loss $L$",
    "test_loss": "test loss $L$",
    "losses": "loss of each task",
    "forgetting": "forgetting of each task",
    "singular_values": "singular values of the product",
    "kernel_alignment": "kernel alignment",
    "ntk": "tangent kernel",
    "output": "output",
    "residual": "residual",
    "alignment": "alignment",
}

FLOOR = 1e-12  # a logarithmic axis ends here, relative to its top; below it is only rounding


def series(traj: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return times and values as (T,) and (T, lines)."""
    if not (hasattr(traj, "t") and hasattr(traj, "route")):  # a Trajectory, or that of `linsolve.solve`
        raise TypeError(f"plot: traj = {type(traj).__name__} must be a Trajectory (what is drawn); pass flow(t, z0)")
    t, values = arithmetic.to_numpy(traj.t), arithmetic.to_numpy(traj[name])
    if t.ndim != 1:
        raise ValueError(f"plot: t has shape {t.shape} but needs one axis; draw one trajectory at a time")
    return t, values.reshape(len(t), -1)


def line_labels(traj: Any, name: str) -> list[str]:
    """Return a label for each line of a quantity: its mode, the parameter of its member, or its index."""
    own = tuple(arithmetic.to_numpy(traj[name]).shape[1:])
    if not own:
        return [name]
    if name == "singular_values" and len(own) == 1:
        return [f"$s_{{{k + 1}}}$" for k in range(own[0])]
    if name in ("losses", "forgetting") and len(own) == 1 and isinstance(traj, TaskTrajectory):
        return [f"task {k + 1}" for k in range(own[0])]
    if len(own) == 1 and isinstance(traj, Trajectory):
        about, axes = type(traj.flow).__dataclass_fields__, traj.flow.axes.get(name)
        columns = {
            about[field].metadata["symbol"]: value
            for field, value in traj.flow.parameters().items()
            if tuple(value.shape) == own and axes in (None, about[field].metadata["axes"])
        }
        if len(columns) == 1:
            symbol, values = next(iter(columns.items()))
            return [f"${symbol}$ = {float(each):.4g}" for each in arithmetic.to_numpy(values)]
    return [f"{name}[{', '.join(map(str, index))}]" for index in np.ndindex(own)]


def refuse_style(who: str, style: Mapping[str, Any]) -> None:
    """Raise if a keyword is no property of a line, or its value is not valid."""
    from matplotlib.lines import Line2D

    for name, value in style.items():
        try:
            Line2D([], [], **{name: value})
        except AttributeError:
            raise TypeError(
                f"{who}: {name} = {value!r} is unknown (property of a line of matplotlib); say color, linestyle, "
                "linewidth, marker or label"
            ) from None
        except (TypeError, ValueError) as error:
            raise type(error)(f"{who}: {name} = {value!r} is not valid (property of a line): {error}") from None


def falls(name: str, values: np.ndarray) -> bool:
    """Return whether a quantity is a loss, never negative, that falls by more than a factor of 10."""
    return name in ("loss", "train_loss") and bool((values >= 0).all()) and bool((values[0] > 10 * values[-1]).any())


def refuse_log(who: str, name: str, values: np.ndarray) -> None:
    """Raise if a line has negative values, which a logarithmic axis drops; zeros lie below its end."""
    if values.min() < 0 or values.max() <= 0:
        raise ValueError(f"{who}: {name} = {values.min():g} must be positive (logarithmic scale); say log=False")


def scale_axis(ax: Any, values: np.ndarray, log: bool) -> None:
    """Make the vertical axis logarithmic, or let it start at 0 where nothing is negative and it is not yet so."""
    if not log:
        if values.min() >= 0 and ax.get_yscale() != "log":
            ax.set_ylim(bottom=0)
        return
    top = values.max()
    if top > 0 and values.min() < FLOOR * top:
        ax.set_ylim(FLOOR * top, 3 * top)  # before the scale changes: its own limits underflow
    ax.set_yscale("log")


def flows_of(traj: Any) -> tuple[Flow, ...]:
    """Return the flows in whose units the times are; none for a network, whose time is learning rate x steps."""
    if isinstance(traj, TaskTrajectory):
        return traj.sequence.flows
    return (traj.flow,) if isinstance(traj, Trajectory) else ()


def label_axes(ax: Any, flows: tuple[Flow, ...], name: str) -> None:
    """Name both axes."""
    ax.set_xlabel(time_label(flows))
    ax.set_ylabel(LABELS.get(name, name.replace("_", " ")))
    ax.margins(x=0.01)


def time_label(flows: tuple[Flow, ...]) -> str:
    """Return the name of the time axis with its unit, the flows' time constant or inverse learning rate."""
    constants = [arithmetic.to_numpy(flow.tau).ravel() for flow in flows if hasattr(flow, "tau")]
    if not constants:
        return r"time $t$  (learning rate $\times$ steps)"
    tau = np.unique(np.concatenate(constants))
    if len(tau) > 1:
        return r"time $t$  (in the unit of $\tau$)"
    return r"time $t$  (units of $\tau$)" if tau[0] == 1 else rf"time $t$  ($\tau$ = {float(tau[0]):g})"


def label_goals(ax: Any, goals: np.ndarray) -> None:
    """Write the name of each target value at the right end of its line, moved apart where they would overlap."""
    from scipy.optimize import isotonic_regression

    shown = goals if len(goals) <= 12 else goals[:1]
    apart = 0.055 * goals[0] * np.arange(len(shown))
    places = isotonic_regression(shown + apart, increasing=False).x - apart  # nearest places that keep the distance
    for k, (goal, place, color) in enumerate(zip(shown, places, ladder(len(goals)), strict=False)):
        line = {"arrowstyle": "-", "color": color, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0}
        ax.annotate(
            f"$s_{{{k + 1}}}$",
            (1.0, goal),
            (1.03, place),
            xycoords=ax.get_yaxis_transform(),
            textcoords=ax.get_yaxis_transform(),
            color=color,
            va="center",
            arrowprops=line,
            annotation_clip=False,
        )
