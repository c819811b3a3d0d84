"""Figures of Seleznova (2024) on random networks: section 3.1, Figure 1, and section 3.2, Figure 3."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.plot.style import COLORS, ladder
from linsolve.systems.random_networks import mean_field
from linsolve.systems.random_networks.biased_moments import moments_with_biases
from linsolve.systems.random_networks.dispersion_estimate import estimate_dispersion
from linsolve.systems.random_networks.input_pairs import pair_limit, pair_ratio
from linsolve.systems.random_networks.input_sampling import sample_kernels
from linsolve.systems.random_networks.printed import pair_bound

__all__ = ["compute_seleznova_311", "compute_seleznova_323", "draw_seleznova_311", "draw_seleznova_323"]

WIDTH, DEPTHS, NETWORKS = 50, (5, 10, 20, 40), 200
VARIANCES = {"tanh": np.linspace(1.0, 6.0, 8), "relu": np.linspace(1.0, 3.0, 8)}
BIAS = 1.0
PAIRS = {"ordered": 1.2, "edge of chaos": 2.0, "chaotic": 2.5}  # weight variance
RELIABLE = 0.3  # largest depth over width of a sampled dispersion, see `estimate_dispersion`
COSINES, PAIR_WIDTH, PAIR_DEPTHS, PAIR_NETWORKS = (0.1, 0.5, 0.9), 100, (2, 5, 10, 20, 30), 300


CIRCLES: dict[str, Any] = {"fmt": "o", "markerfacecolor": "none", "markersize": 4.5}


def _edge(activation: str) -> float:
    """Return the weight variance at which ``chi = 1`` for the bias variance of the figure."""
    if activation == "relu":
        return 2.0
    from scipy.optimize import brentq

    def bias(q: float) -> float:
        return float(mean_field.edge_of_chaos(np, np.asarray(q), activation).bias_variance) - BIAS

    q = brentq(bias, 0.1, 10.0, xtol=1e-13)
    return float(mean_field.edge_of_chaos(np, np.asarray(q), activation).weight_variance)


def compute_seleznova_311(seed: int = 0) -> dict[str, Any]:
    """Return the dispersion of the kernel over weight variance and depth, for tanh sampled, for ReLU exact as well.

    Deep networks are not sampled: the estimate is not reliable there.
    """
    rng, found = np.random.default_rng(seed), {}
    for name, variances in VARIANCES.items():
        lines = {}
        for depth in DEPTHS:
            if depth > RELIABLE * WIDTH:
                continue
            rows = []
            for variance in variances:
                drawn = sample_kernels(rng, NETWORKS, name, np.eye(1), np.full(depth, WIDTH), variance, BIAS)
                rows.append(estimate_dispersion((drawn.weights + drawn.biases)[:, 0, 0]))
            lines[depth] = np.array(rows, dtype=float).T
        found[name] = {"variances": variances, "sampled": lines, "edge": _edge(name)}
    fine = np.linspace(VARIANCES["relu"][0], VARIANCES["relu"][-1], 81)
    logs = moments_with_biases(np.full((len(fine), max(DEPTHS)), WIDTH), fine, BIAS).log_dispersion()
    found["relu"] |= {"fine": fine, "exact": {depth: np.exp(logs[:, depth - 1]) for depth in DEPTHS}}
    return found


def draw_seleznova_311(axes: Any, data: dict[str, Any]) -> None:
    """Draw the dispersions with the border between the phases."""
    for ax, (name, panel), title in zip(axes, data.items(), ("(a) tanh", "(b) ReLU"), strict=True):
        for color, depth in zip(ladder(len(DEPTHS)), DEPTHS, strict=True):
            if name == "relu":
                ax.plot(panel["fine"], panel["exact"][depth], color=color, label=f"$L$ = {depth}, exact")
            if depth in panel["sampled"]:
                value, error = panel["sampled"][depth]
                ax.errorbar(panel["variances"], value, error, **CIRCLES, color=color)
                if name == "tanh":
                    ax.plot(panel["variances"], value, color=color, linewidth=0.8, label=f"$L$ = {depth}")
        ax.errorbar([], [], [], **CIRCLES, color=COLORS["black"], label=f"{NETWORKS} networks")
        ax.axvline(panel["edge"], color=COLORS["black"], linestyle="--", linewidth=1.3, label=r"$\chi_1 = 1$")
        ax.set(yscale="log", xlabel=r"$\sigma_w^2$", ylabel=r"$E\Theta^2 / (E\Theta)^2$")
        ax.set(title=rf"{title}: $M$ = {WIDTH}, $\sigma_b^2$ = {BIAS:g}")
        ax.legend(fontsize=9)


def compute_seleznova_323(seed: int = 0) -> dict[str, Any]:
    """Return the kernel of two inputs over that of one by depth: sampled, at infinite width, by (18), and its limit."""
    rng, deepest = np.random.default_rng(seed), max(PAIR_DEPTHS)
    found: dict[str, Any] = {}
    for phase, variance in PAIRS.items():
        panel = {}
        for cosine in COSINES:
            ratios = [
                pair_ratio(rng, PAIR_NETWORKS, [PAIR_WIDTH] * depth, variance, cosine, mean_square=1 / PAIR_WIDTH)
                for depth in PAIR_DEPTHS
            ]
            panel[cosine] = {"sampled": np.array(ratios).T, "bound": pair_bound(deepest, variance / 2, cosine)}
        found[phase] = panel
    found["limit"] = np.array([float(pair_limit(depth / PAIR_WIDTH)) for depth in PAIR_DEPTHS])
    return found


def draw_seleznova_323(axes: Any, data: dict[str, Any]) -> None:
    """Draw the ratios, by phase."""
    for ax, (phase, variance) in zip(axes, PAIRS.items(), strict=True):
        for color, (cosine, line) in zip(ladder(len(COSINES)), data[phase].items(), strict=True):
            value, error, wide = line["sampled"]
            ax.errorbar(PAIR_DEPTHS, value, error, **CIRCLES, color=color)
            ax.plot(PAIR_DEPTHS, wide, color=color, linewidth=1.2, label=f"cosine {cosine:g}")
            if phase == "ordered":
                ax.plot(np.arange(len(line["bound"])) + 1, line["bound"], color=color, linestyle=":")
        if phase == "chaotic":
            ax.plot(PAIR_DEPTHS, data["limit"], color=COLORS["black"], linestyle="--", label="limit at this $L/M$")
        ax.set(xlabel="depth $L$", ylabel=r"$E\Theta(x, x') / E\Theta(x, x)$", ylim=(0, 1.05))
        ax.set(title=rf"{phase}: $\sigma_w^2$ = {variance:g}, $M$ = {PAIR_WIDTH}")
        ax.legend(fontsize=9)
    axes[0].errorbar([], [], [], **CIRCLES, color=COLORS["black"], label=f"{PAIR_NETWORKS} networks")
    axes[0].plot([], [], color=COLORS["black"], label="solid: infinite width")
    axes[0].plot([], [], color=COLORS["black"], linestyle=":", label="estimate (18)")
    axes[0].legend(fontsize=9)
