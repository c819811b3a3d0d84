"""Figure 1 of Xu and Ziyin (2024), linear network: alignment and disalignment of the two layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.integrate import integrate
from linsolve.plot.style import COLORS
from linsolve.studies.figures.networks import MARKS
from linsolve.systems.two_layer.final_alignment import FinalAlignment
from linsolve.systems.two_layer.two_layer import TwoLayer

__all__ = ["compute_xu_ziyin_1", "draw_xu_ziyin_1"]

WIDTH = 10_000
TARGET = 2.0
LOOKS = {
    r"kernel phase, $\gamma = d^{-1/2}$": "blue",
    r"feature learning, $\gamma = 1/d$": "vermilion",
    r"parallel layers, $\gamma = 1/d$": "green",
    r"nearly parallel, $f(0) = 4$, $y = 1$": "purple",
}


def compute_xu_ziyin_1(seed: int = 0) -> dict[str, Any]:
    """Return the alignment of four networks in closed form and integrated, with limit and bound of Gaussian layers."""
    rng, d = np.random.default_rng(seed), WIDTH
    u, v, near = rng.normal(size=(3, d))
    cases = [(d**-0.5, TARGET, u, v), (1 / d, TARGET, u, v), (1 / d, TARGET, u, u), (4 / d, 1.0, u, u + 0.1 * near)]
    curves = {}
    for label, (gamma, y, first, second) in zip(LOOKS, cases, strict=True):
        flow, start = TwoLayer(y=y, gamma=gamma), TwoLayer.State(u=first, w=second[:, None])
        pace = float(flow(0.0, start)["ntk"])
        end = (12 if y < gamma * (first @ second) else 3) / pace
        t, marks = np.linspace(0.0, end, 201), np.linspace(0.0, end, 14)
        curves[label] = {
            "t": t * pace,
            "marks": marks * pace,
            "theory": flow(t, start)["alignment"],
            "simulated": integrate(flow, marks, start)["alignment"],
            "end": float(flow(np.inf, start)["alignment"]),
        }
    law = FinalAlignment(strength=TARGET, xi=[0.0, 0.0, 0.0])
    return {
        "curves": curves,
        "limit": float(law.approximation(np, np.asarray(0.0))["alignment"]),
        "bound": float(law.bound(np)),
    }


def draw_xu_ziyin_1(axes: Any, data: dict[str, Any]) -> None:
    """Draw alignment on the left, disalignment on the right."""
    curves = list(data["curves"].items())
    for ax, part, name in zip(axes, (curves[:3], curves[3:]), ("(a) alignment", "(b) disalignment"), strict=True):
        for label, curve in part:
            ax.plot(curve["t"], curve["theory"], color=COLORS[LOOKS[label]])
            ax.plot(curve["marks"], curve["simulated"], **MARKS, color=COLORS[LOOKS[label]], label=label)
            ax.axhline(curve["end"], color=COLORS[LOOKS[label]], linestyle=":", linewidth=1.2)
        ax.set(xlabel="time  (1 / kernel at the start)", ylabel=r"$\zeta = u \cdot w / |u||w|$", title=name)
    axes[0].axhline(data["limit"], color=COLORS["black"], linestyle="--", label=r"$K/\sqrt{K^2+1}$, $K$ = 2")
    axes[0].axhline(data["bound"], color="#777777", linestyle="--", label="lower bound")
    axes[0].set_ylim(-0.05, 1.08)
    for ax in axes:
        ax.legend(fontsize=8.5, title=f"lines: closed form; $d$ = {WIDTH}", title_fontsize=8.5)
