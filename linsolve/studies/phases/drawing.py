"""Figures of phase diagrams: map, curves, marks, source."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.plot.style import COLORS, drawing

__all__ = ["draw"]

_ROW = 90  # letters of two labels beyond which they stand in two rows
HALO = 2.6  # width of the light line around text and curves that cross dark parts of a map


def draw(found: Any, ax: Any = None) -> Any:
    """Draw map, curves, marks and source on given or new axes."""
    with drawing(ax, (7.6, 6.6)) as ax:
        _map(ax, found)
        for curve in found.curves:
            _curve(ax, curve, found)
        for mark in found.marks:
            ax.plot(mark.x, mark.y, "o", color="black", markersize=7, markeredgecolor="white", zorder=6)
            side = "right" if mark.offset[0] < 0 else "left"
            _text(
                ax, mark.label, (mark.x, mark.y), xytext=mark.offset, textcoords="offset points", fontsize=10, ha=side
            )
        for note in found.notes:
            _text(ax, note.label, (note.x, note.y), fontsize=13, fontweight="bold", ha="center", va="center")
        _frame(ax, found)
    return ax


def _map(ax: Any, found: Any) -> None:
    """Draw the map: colors of regions with a key, or a scale of numbers with a bar."""
    import matplotlib

    xs, ys = found.x.edges(), found.y.edges()
    if found.regions:
        colors = np.array([matplotlib.colors.to_rgb(color) for _, color in found.regions])[found.values]
        if found.strength is not None:
            share = 0.22 + 0.68 * np.clip(found.strength, 0, 1)[..., None]
            colors = 1 - share * (1 - colors)
        ax.pcolormesh(xs, ys, colors, rasterized=True)
        return
    if found.diverging:
        name: Any = matplotlib.colors.LinearSegmentedColormap.from_list(
            "sides", [COLORS["blue"], "white", COLORS["vermilion"]]
        )
        top = np.abs(found.values).max()
        limits = {"vmin": -top, "vmax": top}
    else:
        name, limits = "viridis", {}
    mesh = ax.pcolormesh(xs, ys, found.values, cmap=name, rasterized=True, **limits)
    bar = ax.figure.colorbar(mesh, ax=ax, pad=0.02)
    bar.set_label(found.label)
    bar.outline.set_visible(False)


def _curve(ax: Any, curve: Any, found: Any) -> None:
    from matplotlib import patheffects

    light = not found.regions and not found.diverging
    style: dict[str, Any] = {"color": "white" if light else "black", "linewidth": 2.2, "zorder": 4} | dict(curve.style)
    halo = [
        patheffects.withStroke(
            linewidth=style["linewidth"] + HALO, foreground="black" if style["color"] == "white" else "white"
        )
    ]
    ax.plot(curve.x, curve.y, label=curve.label or None, path_effects=halo, **style)
    if curve.inline:
        ends = found.x.cell(curve.x)
        k = int(np.argmin(np.abs(ends - 0.16 * len(found.x.values))))
        box = {"boxstyle": "round,pad=0.18", "facecolor": "white", "edgecolor": "black", "linewidth": 0.6}
        _text(ax, curve.inline, (curve.x[k], curve.y[k]), ha="center", va="center", fontsize=9.5, bbox=box)


def _text(ax: Any, text: str, place: tuple[float, float], **style: Any) -> None:
    from matplotlib import patheffects

    written = ax.annotate(text, place, zorder=7, **style)
    written.set_path_effects([patheffects.withStroke(linewidth=HALO, foreground="white")])


def _frame(ax: Any, found: Any) -> None:
    """Scale and name the axes, and write the title, the key and the source."""
    from matplotlib.patches import Patch
    from matplotlib.transforms import ScaledTranslation

    for axis, set_scale, set_label, set_limits in (
        (found.x, ax.set_xscale, ax.set_xlabel, ax.set_xlim),
        (found.y, ax.set_yscale, ax.set_ylabel, ax.set_ylim),
    ):
        edges = axis.edges()
        set_limits(edges[0], edges[-1])
        if axis.logarithmic:
            set_scale("log")
            set_limits(edges[0], edges[-1])
        set_label(axis.label)
    ax.grid(False)
    ax.set_title(found.title)
    handles = ax.get_legend_handles_labels()[0]
    areas = [Patch(facecolor=color, edgecolor="#777777", label=name) for name, color in found.regions]
    if areas:  # curves in the left column, regions in the right one
        blank = [Patch(alpha=0.0, label=" ") for _ in range(abs(len(areas) - len(handles)))]
        handles = handles + blank * (len(handles) < len(areas)) + areas
    wide = not areas and sum(len(handle.get_label()) for handle in handles[:2]) > _ROW
    columns = 1 if wide else 2
    rows = -(-len(handles) // columns)
    # in points below the axes, whatever its size
    below = ax.transAxes + ScaledTranslation(-6 / 72, -44 / 72, ax.figure.dpi_scale_trans)
    corner = {"loc": "upper left", "bbox_to_anchor": (0, 0), "bbox_transform": below, "borderaxespad": 0}
    ax.legend(handles=handles, ncols=columns, fontsize=9.5, **corner)
    place = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top", "annotation_clip": False}
    text = found.source if found.strength is None else f"{found.source}\nColors: {found.label}."
    ax.annotate(text, (0, 0), (0, -54 - 15.5 * rows), fontsize=8.2, color="#444444", linespacing=1.35, **place)
