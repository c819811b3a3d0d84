"""Low-rank adaptation of a linear map: learned directions, rank, and ratio of learning rates."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.plot.style import COLORS, INK
from linsolve.studies.figures.networks import MARKS
from linsolve.systems.lora.low_rank_adaptation import LoRA

__all__ = ["compute_lora", "draw_lora"]

SIZES = 8, 10  # inputs and outputs
CHANGES = np.array([3.0, 2.0, 1.4, 1.0])  # singular values of the target minus the frozen map
ALPHA, START = 4.0, 1e-2
RANKS, RATIOS = (1, 2, 3, 4), (1.0, 4.0, 16.0)


def compute_lora(seed: int = 0) -> dict[str, Any]:
    """Return strengths of rank 4, and losses by rank and by ratio, in closed form and with A and B integrated."""
    rng, (n_in, n_out) = np.random.default_rng(seed), SIZES
    u, v = (np.linalg.qr(rng.normal(size=(n, len(CHANGES))))[0] for n in (n_out, n_in))
    base = rng.normal(size=(n_out, n_in))
    target = base + (u * CHANGES) @ v.T
    gaussian = START / np.sqrt(n_in) * rng.normal(size=(2, n_in))

    def case(rank: int, ratio: float, until: float) -> dict[str, Any]:
        flow = LoRA(target, base, scale=ALPHA / rank, ratio=ratio)
        a, b = LoRA.init(n_in, rank, n_out, size=START, rng=rng)
        t, marks = np.linspace(0.0, until, 301), np.linspace(0.0, until, 16)
        theory, simulated = flow(t, flow.of(a, b)), flow.simulate(marks, a, b)
        found = {"t": t, "marks": marks, "theory": theory["loss"], "simulated": simulated["loss"]}
        return found | {"strengths": theory["strengths"], "strengths_simulated": simulated["strengths"]}

    flow, t = LoRA(target, base, scale=ALPHA / 2), np.linspace(0.0, 4.0, 301)
    return {
        "strengths": case(4, 1.0, 9.0),
        "ranks": {rank: case(rank, 1.0, 4.0) for rank in RANKS},
        "ratios": {ratio: case(2, ratio, 2.5) for ratio in RATIOS},
        "gaussian": (t, flow.simulate(t, gaussian, np.zeros((n_out, 2)))["loss"]),
        "floors": {rank: float((CHANGES[rank:] ** 2).sum() / 2) for rank in RANKS},
    }


def draw_lora(axes: Any, data: dict[str, Any]) -> None:
    """Draw strengths over time, and losses by rank and by ratio of learning rates."""
    one = data["strengths"]
    columns = zip(CHANGES, INK, one["strengths"].T, one["strengths_simulated"].T, strict=False)
    for change, color, theory, simulated in columns:
        axes[0].plot(one["t"], theory, color=color)
        axes[0].plot(one["marks"], simulated, **MARKS, color=color, label=f"$s$ = {change:g}")
        axes[0].axhline(change, color=color, linestyle=":", linewidth=1.2)
    axes[0].set(ylabel=r"$u_i^\top c B A\, v_i$", title="(a) directions of $S - W_0$, rank 4")
    for ax, name, label in ((axes[1], "ranks", "rank {:g}"), (axes[2], "ratios", r"$\rho$ = {:g}")):
        for color, (value, curve) in zip(INK, data[name].items(), strict=False):
            ax.plot(curve["t"], curve["theory"], color=color)
            ax.plot(curve["marks"], curve["simulated"], **MARKS, color=color, label=label.format(value))
        ax.set(ylabel="loss $L$", ylim=(0, None))
    for color, floor in zip(INK, data["floors"].values(), strict=False):
        axes[1].axhline(floor, color=color, linestyle=":", linewidth=1.2)
    axes[1].plot(*data["gaussian"], color=COLORS["black"], linestyle="--", linewidth=1.2, label="rank 2, Gaussian $A$")
    axes[1].set(title=r"(b) ranks, $\alpha$ = 4; dotted: best of the rank")
    axes[2].set(title=r"(c) ratio $\eta_B/\eta_A$ (LoRA+), rank 2")
    for ax, title in zip(axes, ("", "lines: closed form; marks: $A$, $B$ integrated", ""), strict=True):
        ax.set(xlabel=r"time $t$  (units of $\tau$)")
        ax.legend(fontsize=8.5, title=title, title_fontsize=8.5)
