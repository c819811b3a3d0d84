"""Late fusion of two modalities (Zhang, Latham and Saxe 2024): the plateau, its length, and its limit."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.integrate import integrate
from linsolve.plot.style import COLORS
from linsolve.studies.figures.networks import MARKS
from linsolve.systems.gated.unimodal_bias import UnimodalBias

__all__ = ["compute_unimodal_bias", "draw_unimodal_bias"]

INK = [COLORS[name] for name in ("blue", "vermilion", "green")]
CURVES = (1e-2, 1e-4, 1e-6)
STARTS = np.geomspace(1e-2, 1e-10, 5)
COVARIANCE = ((1.0, 0.3, 0.1, 0.0), (0.3, 0.8, 0.0, 0.1), (0.1, 0.0, 1.0, 0.4), (0.0, 0.1, 0.4, 0.9))
CORRELATION = (1.4, 0.5, 0.6, 0.5)


def compute_unimodal_bias(seed: int = 0) -> dict[str, Any]:
    """Return losses of integrated weights, the times of the law, and both ratios over the size of the start."""
    last, first = np.split(np.random.default_rng(seed).normal(size=(2, 10, 2)) / 2, 2)
    law = UnimodalBias(last[0, :5, 0], first[0, :5], last[0, 5:, 0], first[0, 5:], COVARIANCE, CORRELATION)
    losses = {small: _loss(law, small) for small in CURVES}
    simulated = np.array([law.simulated(small) for small in STARTS])
    sizes = np.geomspace(1e-2, 1e-10, 101)
    return {
        "losses": losses,
        "times": {small: law.times(small) for small in CURVES},
        "plateau": law.moments.drops[1] / sum(law.moments.drops),
        "limit": law.limit,
        "order": law.orders["delay of B"],
        "sizes": sizes,
        "ratios": np.array([np.divide(*law.times(small)[::-1]) for small in sizes]),
        "law": np.array([law.times(small) for small in STARTS]),
        "simulated": simulated,
    }


def _loss(law: UnimodalBias, small: float) -> tuple[np.ndarray, np.ndarray]:
    """Return times and losses over the initial loss, by integration of all weights."""
    flow, weight = law.flow, law.moments.weight
    layers = (law.first_a, law.last_a[None], law.first_b, law.last_b[None])
    t = np.linspace(0.0, 1.3 * law.times(small)[1], 301)
    loss = integrate(flow, t * law.moments.pace, flow.State(*(small / weight * w for w in layers)))["loss"]
    return t, loss / loss[0]


def draw_unimodal_bias(axes: Any, data: dict[str, Any]) -> None:
    """Draw losses with the times of the law, the ratio of the times, and the errors of the limit and of the law."""
    for color, (small, (t, loss)) in zip(INK, data["losses"].items(), strict=True):
        axes[0].plot(t, loss, color=color, label=rf"$\sigma = 10^{{{np.log10(small):.0f}}}$")
        for time in data["times"][small]:
            axes[0].axvline(time, color=color, linestyle=":", linewidth=1.2)
    axes[0].axhline(data["plateau"], color=COLORS["black"], linestyle="--", linewidth=1.0)
    axes[0].set(
        xlabel="time $t$  (rate 1, mean loss)",
        ylabel="loss over its start",
        title="(a) weights; dotted: times of the law",
    )
    ratio, found = (data[name][:, 1] / data[name][:, 0] for name in ("simulated", "law"))
    axes[1].plot(data["sizes"], data["ratios"], color=INK[0], label="law, with its constants")
    axes[1].plot(STARTS, ratio, **MARKS, color=INK[0], label="weights integrated")
    axes[1].axhline(data["limit"], color=COLORS["black"], linestyle="--", linewidth=1.0, label="limit")
    axes[1].set(ylabel="$t_B/t_A$", title="(b) ratio of the times")
    axes[2].plot(STARTS, np.abs(ratio / data["limit"] - 1), **MARKS, color=INK[1], label="limit alone")
    logs = np.log(STARTS[-1]) / np.log(data["sizes"])
    axes[2].plot(data["sizes"], abs(ratio[-1] / data["limit"] - 1) * logs, color=INK[1], label=r"$1/\log(1/\sigma)$")
    axes[2].plot(STARTS, np.abs(found / ratio - 1), **MARKS, color=INK[0], label="law, with its constants")
    power = (data["sizes"] / STARTS[2]) ** data["order"] * abs(found[2] / ratio[2] - 1)
    axes[2].plot(data["sizes"], power, color=INK[0], label=rf"$\sigma^{{{data['order']:.2f}}}$")
    axes[2].set(ylabel="relative error of $t_B/t_A$", title="(c) errors against integrated weights", yscale="log")
    for ax in axes[1:]:
        ax.set(xlabel=r"size of the start $\sigma$", xscale="log")
        ax.invert_xaxis()
    for ax in axes:
        ax.legend(fontsize=8.5)
