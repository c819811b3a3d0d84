"""Figures of trajectories; each function draws on an axes that it is given or makes, and returns it.

Colors have the hues of Okabe and Ito, with rising lightness, or are those of viridis: lines are told apart with
protanopia, deuteranopia and tritanopia and in gray print (``tests/plot/test_palette.py``). No global setting of
Matplotlib is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import boolean
from linsolve.core.trajectory import Trajectory
from linsolve.plot.axes import (
    LABELS,
    falls,
    flows_of,
    label_axes,
    label_goals,
    line_labels,
    refuse_log,
    refuse_style,
    scale_axis,
    series,
)
from linsolve.plot.interaction import animate, interact
from linsolve.plot.style import COLORS, STYLE, beside, colors, drawing, figure, ladder

__all__ = [
    "COLORS",
    "STYLE",
    "alignment",
    "animate",
    "differences",
    "figure",
    "interact",
    "modes",
    "routes",
    "trajectory",
]

LEGEND = 12  # lines of a legend

# exact under the others, as a broad light line; the simulations on top of it as thin dark marks
ROUTES: tuple[dict[str, Any], ...] = (
    {"color": "#A9D8F3", "linewidth": 4.5},
    {"color": COLORS["black"], "linestyle": "none", "marker": "o", "markerfacecolor": "none", "markersize": 6.5},
    {"color": COLORS["vermilion"], "linewidth": 1.6, "linestyle": (0, (4, 2.5))},
    {"color": COLORS["purple"], "linestyle": "none", "marker": "x", "markersize": 6.0},
)


def trajectory(
    traj: Any, name: str = "loss", ax: Any = None, *, log: bool | None = None, top: int | None = None, **style: Any
) -> Any:
    """Draw a named quantity of a trajectory against time.

    Parameters
    ----------
    traj : Trajectory or NetworkTrajectory
        With a one-dimensional time axis; further axes are drawn as one line each.
    name : str
        What to draw.
    ax : matplotlib Axes, optional
        Where to draw; made if not given.
    log : bool, optional
        Logarithmic vertical axis; by default for a positive loss that falls by more than a factor of 10.
    top : int, optional
        How many lines to draw; by default all.
    **style
        Passed to ``Axes.plot``. The default colors are those of the axes' cycle, or from dark to light for more lines
        than it has.

    Returns
    -------
    matplotlib Axes
        With a legend of up to 12 lines, if there are several: modes, parameters of members, tasks, or indices. It
        stands right of the axes if their figure has a layout engine that makes room for it.

    Raises
    ------
    ValueError
        If the trajectory's time is not one-dimensional, `top` is not a positive integer, or `log` is asked for and a
        value is negative.

    Examples
    --------
    >>> import linsolve as ls
    >>> traj = ls.BalancedMode(s=[1.0, 2.0])([0.0, 1.0, 2.0], 0.01)
    >>> with ls.plot.figure() as (fig, ax):
    ...     len(ls.plot.trajectory(traj, "loss", ax).lines)
    2
    """
    t, values = series(traj, name)
    if log is not None and boolean("plot.trajectory", "log", log, meaning="logarithmic scale"):
        refuse_log("plot.trajectory", name, values)
    values = values[:, : _lines("trajectory", top, values.shape[1])]
    refuse_style("plot.trajectory", style)
    count = values.shape[1]
    own = style.pop("color", None)
    several = 1 < count <= LEGEND and "label" not in style
    with drawing(ax) as ax:
        shades = colors(count) if own is None else [own] * count
        for column, color, label in zip(values.T, shades, line_labels(traj, name), strict=False):
            look = {"color": color} if color is not None else {}
            ax.plot(t, column, **look, **({"label": label} if several else {}), **style)
        label_axes(ax, flows_of(traj), name)
        scale_axis(ax, values, falls(name, values) if log is None else log)
        if several:
            ax.legend(**beside(ax))
    return ax


def modes(traj: Trajectory, ax: Any = None, *, name: str = "singular_values", top: int | None = None) -> Any:
    """Draw the singular values of the network's map over time; dashed: their targets.

    Parameters
    ----------
    traj : Trajectory
        Of a flow with a matrix `target` and the observable `name`, without batch.
    ax : matplotlib Axes, optional
    name : str
        Observable of singular values, strongest first.
    top : int, optional
        How many modes to draw; by default those of the target above rounding.

    Returns
    -------
    matplotlib Axes
        With one dashed line for each target singular value, labelled at the right.

    Raises
    ------
    ValueError
        If `top` is not a positive integer, the trajectory is a batch, or the target is 0 and so has no modes.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> flow, w = ls.WhitenedTwoLayer(target=np.diag([3.0, 1.0])), 0.1 * np.eye(2)
    >>> with ls.plot.figure() as (fig, ax):
    ...     ls.plot.modes(flow([0.0, 1.0, 2.0], flow.of(w, w)), ax).get_ylabel()
    'singular values of the product'
    """
    t, values = series(traj, name)
    top = _lines("modes", top, values.shape[1])
    target = arithmetic.to_numpy(traj.flow.target)
    if target.ndim != 2:
        raise ValueError(f"plot.modes: target has shape {target.shape} but must be one matrix; draw one at a time")
    goals = np.linalg.svd(target, compute_uv=False)
    goals = goals[goals > 1e-12 * goals[0]][:top]
    if not len(goals):
        raise ValueError("plot.modes: target = 0 has no modes (singular values to be learned); draw trajectory(traj)")
    with drawing(ax, (6.8, 4.4)) as ax:
        for goal, column, color in zip(goals, values.T, ladder(len(goals)), strict=False):
            ax.axhline(goal, color=color, linewidth=0.9, linestyle=(0, (5, 3)), zorder=1)
            ax.plot(t, column, color=color)
        label_axes(ax, flows_of(traj), name)
        label_goals(ax, goals)
        ax.set_ylim(0, 1.08 * max(goals[0], values.max()))
    return ax


def _lines(who: str, top: int | None, most: int) -> int:
    """Return the number of lines to draw."""
    if top is None:
        return most
    if isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1:
        raise ValueError(f"plot.{who}: top = {top!r} must be a positive integer (how many to draw); say {most}")
    return min(int(top), most)


def alignment(traj: Trajectory, ax: Any = None, *, name: str = "kernel_alignment") -> Any:
    """Draw the alignment of the tangent kernel with the target over time; dashed: a frozen kernel.

    Parameters
    ----------
    traj : Trajectory
        Of a flow with the observable `name`.
    ax : matplotlib Axes, optional
    name : str
        Observable between -1 and 1, or between 0 and 1.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> flow, w = ls.WhitenedTwoLayer(target=np.diag([3.0, 1.0])), 0.1 * np.eye(2)
    >>> with ls.plot.figure() as (fig, ax):
    ...     ls.plot.alignment(flow([0.0, 1.0, 2.0], flow.of(w, w)), ax).get_ylabel()
    'kernel alignment'
    """
    t, values = series(traj, name)
    ax = trajectory(traj, name, ax, log=False, color=COLORS["blue"], label="this network")
    with drawing(ax):
        for start in np.unique(values[0]):
            ax.plot(t[[0, -1]], [start, start], color="#555555", linewidth=1.2, linestyle=(0, (5, 3)), zorder=1)
        ax.lines[-1].set_label("kernel frozen at its start")
        ax.set_ylim(-1.05 if values.min() < 0 else 0, 1.05 if values.max() > 0.6 else 1.3 * values.max() or 1.05)
        ax.legend(loc="lower right")
    return ax


def routes(
    trajs: Mapping[str, Trajectory],
    name: str = "loss",
    ax: Any = None,
    *,
    log: bool | None = None,
    top: int | None = None,
) -> Any:
    """Draw one quantity of one network by several routes, overlaid.

    Parameters
    ----------
    trajs : mapping of label to Trajectory
        The first is a broad line (the closed form), the second circles (an ODE integrator), the third dashes (gradient
        descent), the fourth crosses.
    name : str
        What to draw.
    ax : matplotlib Axes, optional
    log : bool, optional
        As in `trajectory`.
    top : int, optional
        How many components to draw; by default all.

    Returns
    -------
    matplotlib Axes
        With a legend of the routes.

    Raises
    ------
    ValueError
        If there are more than four routes, `top` is not a positive integer, or `log` is asked for and a value is
        negative.
    TypeError
        If the routes have no labels.

    Examples
    --------
    >>> import linsolve as ls
    >>> flow, t = ls.BalancedMode(s=2.0), [0.0, 1.0, 2.0]
    >>> routes = {"closed form": flow(t, 0.01), "descent": ls.descend(flow, t, 0.01, step=0.1)}
    >>> with ls.plot.figure() as (fig, ax):
    ...     [text.get_text() for text in ls.plot.routes(routes, ax=ax).get_legend().get_texts()]
    ['closed form', 'descent']
    """
    if not isinstance(trajs, Mapping):
        raise TypeError("plot.routes: trajs must be labelled (for the legend); pass {'closed form': traj}")
    if not 1 <= len(trajs) <= len(ROUTES):
        raise ValueError(f"plot.routes: trajs = {len(trajs)} routes must be 1 to {len(ROUTES)}; draw fewer at a time")
    with drawing(ax) as ax:
        drawn, first = [], next(iter(trajs.values()))
        for (label, traj), style in zip(trajs.items(), ROUTES, strict=False):
            t, values = series(traj, name)
            values = values[:, : _lines("routes", top, values.shape[1])]
            if log is not None and boolean("plot.routes", "log", log, meaning="logarithmic scale"):
                refuse_log("plot.routes", name, values)
            every = {"markevery": max(1, len(t) // 22)} if "marker" in style else {}
            for k, column in enumerate(values.T):
                ax.plot(t, column, label=label if k == 0 else None, **style, **every)
            drawn.append(values)
        label_axes(ax, flows_of(first), name)
        scale_axis(ax, np.concatenate(drawn), falls(name, drawn[0]) if log is None else log)
        ax.legend()
    return ax


def differences(exact: Trajectory, others: Mapping[str, Trajectory], name: str = "loss", ax: Any = None) -> Any:
    """Draw the distance of other routes from the first over time, relative to its largest value, on a logarithmic axis.

    Parameters
    ----------
    exact : Trajectory
        What the others are compared with.
    others : mapping of label to Trajectory
        On the same times.
    name : str
        What to compare, in the Euclidean (Frobenius) norm of its components.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
        With a legend. Times at which nothing differs are left out.

    Raises
    ------
    ValueError
        If there are none or more than four, or one has other times or another number of components.

    Examples
    --------
    >>> import linsolve as ls
    >>> flow, t = ls.BalancedMode(s=2.0), [0.0, 1.0, 2.0]
    >>> with ls.plot.figure() as (fig, ax):
    ...     ls.plot.differences(flow(t, 0.01), {"descent": ls.descend(flow, t, 0.01, step=0.1)}, ax=ax).get_yscale()
    'log'
    """
    t, reference = series(exact, name)
    if not (isinstance(others, Mapping) and 1 <= len(others) <= 4):
        raise ValueError("plot.differences: others must be 1 to 4 labelled trajectories; pass {'DOP853': traj}")
    size = np.linalg.norm(reference, axis=1).max()
    looks = zip(("vermilion", "blue", "black", "purple"), ("-", (0, (5, 2)), (0, (1, 1.5)), "-."), strict=True)
    with drawing(ax) as ax:
        for (label, traj), (color, dash) in zip(others.items(), looks, strict=False):
            times, values = series(traj, name)
            if len(times) != len(t) or not np.allclose(times, t, rtol=1e-9, atol=0):
                raise ValueError(f"plot.differences: t of {label!r} must be the times of the first; follow it there")
            if values.shape != reference.shape:
                raise ValueError(
                    f"plot.differences: {name} of {label!r} has {values.shape[1]} components but the first has "
                    f"{reference.shape[1]}; compare the same network"
                )
            gap = np.linalg.norm(values - reference, axis=1)
            shown = np.where(gap > 0, gap / (size or 1), np.nan)
            ax.plot(t, shown, color=COLORS[color], linestyle=dash, label=label)
        label_axes(ax, flows_of(exact), name)
        ax.set_ylabel(f"relative difference of the {LABELS.get(name, name.replace('_', ' '))}")
        ax.set_yscale("log")
        ax.legend()
    return ax
