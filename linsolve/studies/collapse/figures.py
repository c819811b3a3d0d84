"""Figures of neural collapse: metrics, parts of the residual, and kernels before and after."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.plot.style import COLORS
from linsolve.studies.collapse.run import FLOOR, METRICS, Collapsed
from linsolve.systems.collapse.limits import PARTS
from linsolve.systems.collapse.network import kernel

__all__ = ["FIGURES", "draw_kernels", "draw_metrics", "draw_residuals"]

LOWEST = 1e-14  # logarithmic axes end here; below is rounding
LEAST = 1e-10  # end of the axis of the parts of the residual
ROUTES = {"closed form": "theory, closed form", "DOP853": "theory, integrated"}
SOURCE = "Seleznova et al. (2023), Theorems 4.1, 5.1, 5.2; Seleznova, thesis (2024), section 3.3, corrected."
DESCENT = "Descent with a finite step levels off: each step shifts the imbalance E by the order of the step squared."
PANELS = {
    "NC1: scatter within classes over between": (("nc1", "", "blue"),),
    "NC2: equal lengths, equal angles": (("nc2_norms", "lengths", "blue"), ("nc2_angles", "angles", "vermilion")),
    "NC3: classifier against class means": (("nc3", "", "blue"),),
    "NC4: disagreement with the nearest mean": (("nc4", "", "blue"),),
}
LABELS = {
    "nc1": r"$\mathrm{tr}\,\Sigma_W / \mathrm{tr}\,\Sigma_B$",
    "nc2_norms": r"spread; $\max\,|\cos + 1/(C-1)|$",
    "nc3": "1 - cosine",
    "nc4": "share of samples",
}
PART_COLORS = {"global": "green", "class": "vermilion", "sample": "blue"}


def _title(found: Collapsed) -> str:
    flow, used = found.flow, found.settings
    kappas = ", ".join(f"{float(v):g}" for v in (flow.kappa_d, flow.kappa_c, flow.kappa_n))
    words = f"start: {used['start']}, C = {int(flow.classes)}, m = {int(flow.m)}, n = {used['features']}"
    extra = rf", $\lambda$ = {used['imbalance']:g}" if used["imbalance"] else ""
    extra += f", b = {used['bias']:g}" if used["bias"] is not None else ""
    return words + extra + rf", $(\kappa_d, \kappa_c, \kappa_n)$ = ({kappas})"


def _source(fig: Any, text: str = "") -> None:
    fig.supxlabel((text + "\n" + SOURCE) if text else SOURCE, fontsize=8.2, color="#444444", x=0.01, ha="left")


def _is_log(found: Collapsed) -> bool:
    return any(rate.law == "1/t" for rate in found.rates.values())


def _lines(ax: Any, found: Collapsed, values: dict[str, np.ndarray], end: float, color: str, label: str) -> None:
    """Draw theory as a line up to a time, and both simulations as evenly spaced marks."""
    t, log = found.theory.t, _is_log(found)
    shown = (t <= end) & ((t > 0) | (not log))
    looks: Any = (
        {"color": COLORS[color], "linewidth": 3, "alpha": 0.75, "label": label or None},
        {"color": COLORS["black"], "linestyle": "none", "marker": "o", "markerfacecolor": "none", "markersize": 6},
        {"color": COLORS["black"], "linestyle": "none", "marker": "x", "markersize": 4.5},
    )
    for k, (series, look) in enumerate(zip(values.values(), looks, strict=True)):
        here = np.flatnonzero(shown)
        if k:
            axis = np.log(t[here]) if log else t[here]
            marks = np.linspace(axis[0], axis[-1], 24)[k - 1 :: 2]
            here = here[np.unique(np.minimum(np.searchsorted(axis, marks), len(axis) - 1))]
        drawn = np.where(series > 0, series, np.nan) if ax.get_yscale() == "log" else series
        ax.plot(t[here], drawn[here], **look)


def _time_axis(ax: Any, found: Collapsed, end: float) -> None:
    if _is_log(found):
        ax.set_xscale("log")
        ax.set_xlim(found.theory.t[1] * 0.9, end * 1.1)
    else:
        ax.set_xlim(-0.015 * end, 1.015 * end)
    ax.set_xlabel(r"time $t$  (learning rate $\times$ steps)")


def _legend(fig: Any, found: Collapsed) -> None:
    """Write the network and the meaning of line and marks above all panels."""
    from matplotlib.lines import Line2D

    dark: Any = {"color": COLORS["black"], "linestyle": "none"}
    handles = [
        Line2D([], [], color=COLORS["blue"], linewidth=3, alpha=0.75, label=ROUTES[found.theory.route]),
        Line2D([], [], marker="o", markerfacecolor="none", markersize=6, label="weights, DOP853", **dark),
        Line2D(
            [], [], marker="x", markersize=4.5, label=f"weights, descent, step {found.settings['step']:.2g}", **dark
        ),
    ]
    made = fig.legend(handles=handles, loc="outside upper left", ncols=3, title=_title(found), title_fontsize=12)
    made._legend_box.align = "left"


def _changing(found: Collapsed) -> float:
    """Return the time, with a margin, up to which a metric changes by more than a percent and rounding."""
    t, last = found.theory.t, 1
    for name in METRICS:
        values = np.maximum(np.nan_to_num(np.asarray(found.theory[name], dtype=float), posinf=0.0), LOWEST)
        moving = np.flatnonzero(np.abs(values - values[-1]) > 1e-2 * values[-1])
        last = max(last, int(moving[-1]) if len(moving) else 0)
    return float(t[-1] if _is_log(found) else min(t[-1], 1.3 * t[last]))


def _levels_off(found: Collapsed, end: float) -> bool:
    """Return whether descent ends above the theory in a metric that is drawn up to a time."""
    last = int(np.flatnonzero(found.theory.t <= end)[-1])
    ends = ((found.descended[name][last], found.theory[name][last]) for name in METRICS)
    return any(descended > 2 * max(theory, LOWEST) for descended, theory in ends)


def draw_metrics(found: Collapsed, fig: Any) -> None:
    """Draw NC1 to NC4 over time, theory as lines, simulations as marks."""
    axes, end = fig.subplots(2, 2), _changing(found)
    for ax, (title, series) in zip(axes.ravel(), PANELS.items(), strict=True):
        share = series[0][0] == "nc4"
        ax.set_yscale("linear" if share else "log")
        most, least = 0.0, np.inf
        for name, label, color in series:
            values = {route: np.asarray(traj[name], dtype=float) for route, traj in found.routes.items()}
            values = {route: np.where(np.isfinite(v), v, np.nan) for route, v in values.items()}
            known = np.concatenate([v[v > 0] for v in values.values()])
            if share or (known > LOWEST).any():
                _lines(ax, found, values, end, color, label)
                most, least = (max(most, known.max()), min(least, known.min())) if known.size else (most, least)
        _time_axis(ax, found, end)
        if share:
            ax.set_ylim(-0.04 * max(most, 0.1), 1.1 * max(most, 0.1))
        elif most == 0:
            ax.text(0.5, 0.5, "zero at all times", transform=ax.transAxes, ha="center", va="center", color="#444444")
            ax.set_yticks([], minor=False)
            ax.set_yticks([], minor=True)
        else:
            ax.set_ylim(max(LOWEST, min(least / 2, most / 300)), 3 * most)
        ax.set_title(title, fontsize=11)
        ax.set_ylabel(LABELS[series[0][0]])
        if len(series) > 1 and most > 0:
            ax.legend()
    _legend(fig, found)
    _source(fig, DESCENT if _levels_off(found, end) else "")


def draw_residuals(found: Collapsed, fig: Any) -> None:
    """Draw the sizes of the global, class and sample parts of the residual; dashed: predicted decay."""
    ax, t = fig.subplots(), found.theory.t
    whole = np.sqrt(2 * found.theory["loss"])
    seen = whole > max(FLOOR[found.theory.route] * whole[0], LEAST)
    end = float(t[-1] if _is_log(found) or not seen.any() else min(t[-1], 1.02 * t[seen][-1]))
    ax.set_yscale("log")
    most, least = 1e-11, 1.0
    for name in reversed(PARTS):
        rate = found.rates[name]
        if rate.law == "none":
            ax.plot([], [], color=COLORS[PART_COLORS[name]], label=f"{name}: zero at all times")
            continue
        values = {route: _known(found, name, route) for route in found.routes}
        _lines(ax, found, values, end, PART_COLORS[name], f"{name}{_law(rate)}")
        most = max(most, *(np.nanmax(v) for v in values.values()))
        least = min(least, *(v[v > 0].min() for v in values.values()))
        _asymptote(ax, found, name)
    ax.set_ylim(max(LEAST, least / 2), 3 * most)
    _time_axis(ax, found, end)
    ax.set_ylabel("size of the residual's parts, Frobenius norm")
    ax.legend(loc="best")
    _legend(fig, found)
    _source(fig, "Dashes: predicted asymptotic decay.")


def _known(found: Collapsed, name: str, route: str) -> np.ndarray:
    """Return a part of the residual until it falls below the accuracy of its route, nan afterwards."""
    own, whole = found.part(name, route), np.sqrt(2 * found.routes[route]["loss"][0])
    low = np.flatnonzero(own < FLOOR.get(found.routes[route].route, 0.0) * whole)
    low = low[low > own.argmax()]
    return np.where(np.arange(len(own)) < (low[0] if len(low) else len(own)), own, np.nan)


def _law(rate: Any) -> str:
    if rate.law == "1/t":
        return r": $1/(2\sqrt{\mu_s}\,t)$"
    if rate.predicted is None:
        return ""
    return rf": $e^{{-{rate.predicted:.4g}\,t}}$" + (
        f" (measured: {rate.measured:.4g})" if rate.measured is not None else ""
    )


def _asymptote(ax: Any, found: Collapsed, name: str) -> None:
    """Draw the predicted slope, or the 1/t law, through a late point of the line."""
    rate, t, own = found.rates[name], found.theory.t, found.part(name)
    dashed: Any = {"color": COLORS["black"], "linestyle": (0, (5, 3)), "linewidth": 1.2, "zorder": 5}
    if rate.law == "1/t":
        late = t > t[-1] / 300
        ax.plot(t[late], 1 / (2 * np.sqrt(float(found.flow.kappa_d - found.flow.kappa_c)) * t[late]), **dashed)
        return
    low = np.flatnonzero(own < 1e-10 * own.max())
    last = (low[0] if len(low) else len(t)) - 1
    first = int(np.flatnonzero(own[: last + 1] > 1e-2 * own.max())[-1])
    if rate.predicted is None or last - first < 4:
        return
    anchor, span = first + 2 * (last - first) // 3, slice(first, last + 1)
    ax.plot(t[span], own[anchor] * np.exp(-rate.predicted * (t[span] - t[anchor])), **dashed)


def draw_kernels(found: Collapsed, fig: Any) -> None:
    """Draw the feature kernel and its eigenvalues, and the tangent kernel and both Gram matrices before and after."""
    axes = fig.subplots(2, 4)
    fig.suptitle(_title(found), fontsize=12, x=0.01, ha="left")
    state, m = found.theory.state, int(found.flow.m)
    _heat(fig, axes[0, 0], [kernel(found.flow)], [axes[0, 0]], "feature kernel $K$", m)
    _eigenvalues(axes[1, 0], found)
    last = len(found.theory.t) - 1
    columns = (
        ("tangent kernel, mean of outputs", found.tangent_kernel(0), found.tangent_kernel(last), m),
        ("features $H^T H$", state.gram_h[0], state.gram_h[-1], m),
        ("classifier $W W^T$", state.gram_w[0], state.gram_w[-1], 1),
    )
    for k, (title, before, after, each) in enumerate(columns, 1):
        _heat(fig, axes[:, k], [before, after], list(axes[:, k]), title, each)
        axes[0, k].set_ylabel("before, $t = 0$", fontsize=10)
        axes[1, k].set_ylabel(f"after, $t = {found.theory.t[-1]:.3g}$", fontsize=10)
    _source(fig, "Samples ordered by class; one color scale a column.")


def _heat(fig: Any, where: Any, matrices: list[np.ndarray], axes: list[Any], title: str, each: int) -> None:
    import matplotlib

    top, low = max(a.max() for a in matrices), min(a.min() for a in matrices)
    signed = low < -1e-12 * max(top, -low)
    sides = [COLORS["blue"], "white", COLORS["vermilion"]]
    name: Any = matplotlib.colors.LinearSegmentedColormap.from_list("sides", sides) if signed else "viridis"
    size = max(top, -low)
    limits: Any = {"vmin": -size, "vmax": size} if signed else {"vmin": 0, "vmax": size}
    for ax, a in zip(axes, matrices, strict=True):
        image = ax.imshow(a, cmap=name, interpolation="nearest", **limits)
        ax.grid(False)
        count = len(a) // each
        ax.set_xticks((np.arange(count) + 0.5) * each - 0.5, [str(c + 1) for c in range(count)], fontsize=8)
        ax.set_yticks((np.arange(count) + 0.5) * each - 0.5, [str(c + 1) for c in range(count)], fontsize=8)
        ax.tick_params(length=0)
        for spine in ax.spines.values():
            spine.set_visible(False)
    axes[0].set_title(title, fontsize=10.5)
    axes[-1].set_xlabel("class", fontsize=10)
    bar = fig.colorbar(image, ax=where, shrink=0.8, pad=0.02, location="bottom" if len(axes) > 1 else "right")
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8)


def _eigenvalues(ax: Any, found: Collapsed) -> None:
    """Draw the three eigenvalues of K with their multiplicities."""
    classes, samples = int(found.flow.classes), int(found.flow.classes) * int(found.flow.m)
    sizes = [float(v) for v in found.flow.rates_of_features(np)]
    counts = (samples - classes, classes - 1, 1)
    names = [rf"$\mu_{s}$" + f"\n{w}\n(x {c})" for s, w, c in zip("scg", PARTS, counts, strict=True)]
    ax.bar(names, sizes, color=[COLORS[PART_COLORS[w]] for w in PARTS], width=0.6)
    for k, size in enumerate(sizes):
        ax.annotate(f"{size:.3g}", (k, size), (0, 2), textcoords="offset points", ha="center", fontsize=9)
    ax.set_ylabel("eigenvalue of $K$", fontsize=10)
    ax.set_ylim(0, 1.15 * max(sizes))
    ax.tick_params(labelsize=9)


FIGURES: dict[str, tuple[Any, tuple[float, float]]] = {
    "metrics": (draw_metrics, (9.6, 7.4)),
    "residuals": (draw_residuals, (7.6, 5.6)),
    "kernels": (draw_kernels, (12.0, 7.2)),
}
