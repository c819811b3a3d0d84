"""Figures 1 and 2 of Seleznova (2024), section 3.2: published and exact formulas, and the first step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from linsolve.plot.style import COLORS, ladder
from linsolve.systems.random_networks import limits
from linsolve.systems.random_networks.kernel_moments import spread

if TYPE_CHECKING:
    from linsolve.studies.ntk_stats.survey import Line, Sample, Survey

__all__ = ["draw"]

PRINTED = {"color": COLORS["vermilion"], "linestyle": (0, (1, 1.3)), "linewidth": 1.9}
LIMIT = {"color": COLORS["black"], "linestyle": (0, (5, 3)), "linewidth": 1.5}
ROUND = {"marker": "o", "markersize": 5.0}
CROSS = {"marker": "x", "markersize": 6.5}


def draw(axes: Any, found: Survey) -> None:
    """Draw the dispersion over all depths and over those that can be sampled, and the change by the first step."""
    colors = ladder(len(found.lines))
    depths = np.arange(1, len(found.lines[0].exact) + 1)
    _everywhere(axes[0], found, depths, colors)
    _sampled(axes[1], found, depths, colors)
    _first_step(axes[2], found, depths, colors)
    unit = {0.0: "ReLU", 1.0: "linear"}.get(found.slope, f"leaky ({found.slope:g})")
    spread_out = f"e^{{{4 * spread(found.slope)[1]:g} L/M}}"
    as_printed = "; printed: (9) and (8) on the left, (11)-(15) in the middle" if found.slope == 0 else ", corrected"
    axes[0].figure.supxlabel(
        f"{unit} units, width $M = {found.width}$, {found.inputs} inputs, $|x| = 1$, standard weights, biases start at "
        f"0. Bars: one standard error. A sampled mean of $\\Theta^2$ has a relative variance of about ${spread_out}$:\n"
        f"{_reach(found)}.\nAfter Seleznova (2024), section 3.2, "
        f"figures 1 and 2, theorem 4.1{as_printed}.",
        x=0.01, ha="left", fontsize=10, color="#444444", linespacing=1.4,
    )  # fmt: skip


def _reach(found: Survey) -> str:
    if found.sampled_depth < 2:
        return f"{found.networks} networks are too few to sample it at any depth $L < 0.3\\,M$ (3 % accuracy)"
    return (
        f"{found.networks} networks are sampled up to depth {found.sampled_depth} (3 % accuracy), explicit ones up to "
        f"7 % accuracy, none at $L/M \\geq 0.3$"
    )


def _label(line: Line) -> str:
    return rf"$\sigma_w^2 = {line.weight_variance:.4g}$  ({line.found})"


def _everywhere(ax: Any, found: Survey, depths: np.ndarray, colors: list[Any]) -> None:
    for line, color in zip(found.lines, colors, strict=True):
        ax.plot(depths / found.width, line.exact, color=color, label=_label(line))
    for line in {each.found: each for each in found.lines}.values():
        ax.plot(depths / found.width, line.limit, **LIMIT)
        ax.annotate(line.found, (1.01, line.limit[-1]), xycoords=("axes fraction", "data"), va="center", fontsize=9)
        if len(line.printed_limit) and line.found != "ordered":
            ax.plot(depths / found.width, line.printed_limit, **PRINTED)
    ax.plot([], [], **LIMIT, label="limit of great depth, width")
    if found.slope == 0:
        ax.plot([], [], **PRINTED, label="this limit as printed")
    ax.set(yscale="log", xlabel="depth over width  $L/M$", ylabel=r"$E\Theta^2/(E\Theta)^2$")
    ax.set_title("(a) dispersion of the tangent kernel")
    ax.set_xlim(0, depths[-1] / found.width)
    ax.legend(fontsize=9.5, loc="upper left")


def _bars(ax: Any, sample: Sample, color: Any, style: dict[str, Any]) -> None:
    ax.errorbar(
        sample.depths, sample.mean, sample.error, color=color, linestyle="none", elinewidth=1.3, capsize=2.5, **style
    )


def _sampled(ax: Any, found: Survey, depths: np.ndarray, colors: list[Any]) -> None:
    last = min(max(found.sampled_depth, 3), len(depths))
    for line, color in zip(found.lines, colors, strict=True):
        ax.plot(depths[:last], line.exact[:last], color=color)
        ax.plot(depths[:last], line.printed[:last], **PRINTED) if len(line.printed) else None
        _bars(ax, line.sampled, color, ROUND)
        _bars(ax, line.explicit, color, CROSS)
    _keys(ax, found, ("networks drawn layer by layer", "sampled", ROUND), ("explicit networks", "explicit", CROSS))
    if found.slope == 0:
        ax.plot([], [], **PRINTED, label="exact sums as printed")
    part = "where it can be sampled" if found.sampled_depth >= 2 else "at small depth, not sampled"
    ax.set(xlabel="depth  $L$", ylabel=r"$E\Theta^2/(E\Theta)^2$", title=f"(b) the same {part}")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(fontsize=9.5, loc="upper left")


def _keys(ax: Any, found: Survey, *keys: tuple[str, str, dict[str, Any]]) -> None:
    """Name the exact lines, and the marks of each field of the lines that has samples."""
    ax.plot([], [], color=COLORS["black"], label="exact sums over layers")
    for name, field, style in keys:
        if any(len(getattr(line, field).depths) for line in found.lines):
            ax.plot([], [], color=COLORS["black"], linestyle="none", label=name, **style)


def _first_step(ax: Any, found: Survey, depths: np.ndarray, colors: list[Any]) -> None:
    ratio, biases = depths / found.width, np.asarray(found.inputs / found.width)
    _, c = spread(np.asarray(found.slope))
    for line, color in zip(found.lines, colors, strict=True):
        a = line.gain
        scale = {
            "ordered": a**depths / found.width,
            "edge of chaos": depths,
            "chaotic": depths * a ** (depths - 1.0),
        }[line.found]
        limit = limits.first_step(np, line.found, ratio, c, biases, np.asarray(a)) * scale
        ax.plot(depths[1:], line.change[1:], color=color)
        ax.plot(depths[1:], limit[1:], **LIMIT | {"color": color})
        _bars(ax, line.stepped, color, CROSS)
    _keys(ax, found, ("explicit networks", "stepped", CROSS))
    ax.plot([], [], **LIMIT, label="limit of great depth and width")
    ax.set(yscale="log", xlabel="depth  $L$", ylabel=r"$-E\Delta\Theta \,/\, (\eta\, E\Theta)$")
    ax.set_title(r"(c) change by a first small step of rate $\eta$")
    ax.legend(fontsize=9.5)
