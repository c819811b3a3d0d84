"""Colors and style of all figures, applied locally."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from linsolve.core.arguments import shown

__all__ = ["COLORS", "INK", "STYLE", "beside", "colors", "drawing", "figure", "ladder"]

# hues of Okabe and Ito; the lightness of blue, vermilion, green, purple and sky rises by 13 units of CIELAB from one to
# the next, which gray print keeps
COLORS = {
    "black": "#000000",
    "orange": "#E69F00",
    "sky": "#8CC5ED",
    "green": "#008B64",
    "blue": "#003E65",
    "vermilion": "#964000",
    "purple": "#CF84AD",
}

STYLE: Any = {
    "figure.dpi": 110,
    "savefig.dpi": 200,
    "font.size": 11,
    "axes.labelsize": 12,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 10.5,
    "lines.linewidth": 2.0,
    "lines.solid_capstyle": "round",
}


INK = tuple(COLORS[name] for name in ("blue", "vermilion", "green", "purple", "sky"))  # of lines


def _style() -> Any:
    """Return the style, with a color cycle unless the user has set one."""
    import matplotlib as mpl
    from cycler import cycler

    if mpl.rcParams["axes.prop_cycle"] != mpl.rcParamsDefault["axes.prop_cycle"]:
        return STYLE
    return STYLE | {"axes.prop_cycle": cycler(color=INK)}


@contextmanager
def drawing(ax: Any, size: tuple[float, float] = (6.4, 4.2)) -> Iterator[Any]:
    """Give the axes to draw on, made if there is none, while the style holds."""
    import matplotlib.pyplot as plt

    if ax is not None and not hasattr(ax, "set_xlabel"):
        raise TypeError(f"plot: ax = {shown(ax)} must be axes of Matplotlib (to draw on); leave it out for new ones")
    with plt.rc_context(_style()):
        yield plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


@contextmanager
def figure(*args: Any, **kwargs: Any) -> Iterator[tuple[Any, Any]]:
    """Give ``(figure, axes)`` of ``pyplot.subplots`` in this package's style, and close the figure afterward.

    Parameters
    ----------
    *args, **kwargs
        Passed to ``pyplot.subplots``; the size is 6.4 by 4.2 inches and the layout constrained, unless given.

    Yields
    ------
    figure : matplotlib Figure
    axes : matplotlib Axes, or an array of them
        As from ``pyplot.subplots``.

    Raises
    ------
    AttributeError, TypeError, ValueError
        If Matplotlib does not accept an argument.

    Examples
    --------
    >>> import linsolve as ls
    >>> traj = ls.BalancedMode(s=2.0)([0.0, 1.0, 2.0], 0.01)
    >>> with ls.plot.figure() as (fig, ax):
    ...     ls.plot.trajectory(traj, "a", ax=ax).get_ylabel()
    'a'
    """
    import matplotlib.pyplot as plt

    kwargs = {"figsize": (6.4, 4.2), "layout": "constrained"} | kwargs
    with plt.rc_context(_style()):
        made, axes = plt.subplots(*args, **kwargs)
        try:
            yield made, axes
        finally:
            plt.close(made)


def beside(ax: Any) -> dict[str, Any]:
    """Return the place of a legend: right of the axes if a layout engine makes room there, or else the best inside."""
    if ax.figure.get_layout_engine() is None:
        return {}
    return {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}


def colors(count: int) -> list[Any]:
    """Return None for each line, the colors of the axes' cycle, or colors from dark to light for more lines."""
    import matplotlib as mpl

    few = count <= len(mpl.rcParams["axes.prop_cycle"].by_key().get("color", ()))
    return [None] * count if few else ladder(count)


def ladder(count: int) -> list[Any]:
    """Return colors from dark to light, without the palest end of viridis, which is too faint on white."""
    import matplotlib

    if count == 1:
        return [COLORS["blue"]]
    return list(matplotlib.colormaps["viridis"](np.linspace(0.0, 0.85, count)))
