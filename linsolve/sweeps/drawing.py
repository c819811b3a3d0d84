"""Sweeps on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from linsolve.inputs import unknown_name
from linsolve.plot.axes import LABELS
from linsolve.plot.style import COLORS, drawing

if TYPE_CHECKING:
    from linsolve.sweeps.axes import Axis
    from linsolve.sweeps.diagram import Diagram

__all__ = ["draw"]


def draw(diagram: Diagram, name: str, ax: Any, log: bool, style: dict[str, Any]) -> Any:
    """Draw one value of a sweep over its one or two axes, and return the matplotlib axes."""
    if name not in diagram.values:
        raise ValueError(unknown_name("Diagram.plot", "name", name, diagram.names))
    values, axes = diagram[name], list(diagram.axes.values())
    if len(axes) > 2 or values.ndim > len(axes):
        raise ValueError(
            f"Diagram.plot: {name} has shape {values.shape} but needs one or two axes (a line or a map); "
            "sweep fewer, or draw a part of d[name]"
        )
    for axis in axes:
        if not np.isfinite(axis.values).all() or len(np.unique(axis.values)) < 2:
            raise ValueError(f"Diagram.plot: {axis.name} must have two or more finite values; sweep such a range")
    if values.dtype.kind == "c":
        raise ValueError(f"Diagram.plot: {name} is complex (a figure shows real numbers); draw a part of d[name]")
    if log and not (values > 0).all():
        raise ValueError(f"Diagram.plot: {name} = {values.min()} must be positive (logarithmic scale); say log=False")
    label = LABELS.get(name, name.replace("_", " "))
    with drawing(ax) as ax:
        if len(axes) == 1:
            _line(ax, axes[0], values, label, log, style)
        else:
            _map(ax, axes[1], axes[0], values, label, log, style)
    return ax


def _line(ax: Any, axis: Axis, values: np.ndarray, label: str, log: bool, style: dict[str, Any]) -> None:
    order = np.argsort(axis.values, kind="stable")
    ax.plot(axis.values[order], values[order], **({"color": COLORS["blue"]} | style))
    _scale(ax.set_xscale, axis)
    if log:
        ax.set_yscale("log")
    ax.set_xlabel(axis.label)
    ax.set_ylabel(label)
    ax.margins(x=0.01)


def _map(ax: Any, x: Axis, y: Axis, values: np.ndarray, label: str, log: bool, style: dict[str, Any]) -> None:
    # cells, not points: borders halfway between neighbors in the scale of the axis
    ordered = values[np.ix_(np.argsort(y.values), np.argsort(x.values))]
    look: dict[str, Any] = {"cmap": "viridis", "rasterized": True} | ({"norm": "log"} if log else {}) | style
    mesh = ax.pcolormesh(_edges(x), _edges(y), ordered, **look)
    for axis, set_scale, set_limits in ((x, ax.set_xscale, ax.set_xlim), (y, ax.set_yscale, ax.set_ylim)):
        _scale(set_scale, axis)
        edges = _edges(axis)
        set_limits(edges[0], edges[-1])
    ax.set_xlabel(x.label)
    ax.set_ylabel(y.label)
    ax.grid(False)
    bar = ax.figure.colorbar(mesh, ax=ax, pad=0.02)
    bar.set_label(label)
    bar.outline.set_visible(False)


def _scale(set_scale: Any, axis: Axis) -> None:
    if _logarithmic(axis):
        set_scale("log")


def _logarithmic(axis: Axis) -> bool:
    """Whether the points of an axis are more evenly spaced in their logarithm."""
    values = np.sort(axis.values)
    if len(values) < 3 or values[0] <= 0:
        return False
    plain, log = np.diff(values), np.diff(np.log(values))
    return bool(np.ptp(log) / log.mean() < np.ptp(plain) / plain.mean() - 1e-6)


def _edges(axis: Axis) -> np.ndarray:
    """Return the borders of cells around the points of an axis."""
    values = np.sort(axis.values)
    values = np.log(values) if _logarithmic(axis) else values
    middle = (values[1:] + values[:-1]) / 2
    edges = np.concatenate([[2 * values[0] - middle[0]], middle, [2 * values[-1] - middle[-1]]])
    return np.exp(edges) if _logarithmic(axis) else edges
