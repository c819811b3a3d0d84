"""A teacher of low rank under label noise: spikes and overlaps of its singular values, test error in time."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.plot.style import INK
from linsolve.systems.generalization.of_aligned_student import GeneralizationOfAlignedStudent
from linsolve.systems.generalization.spikes import overlap, spike

__all__ = ["compute_lampinen_spikes", "draw_lampinen_spikes"]

ASPECTS = (0.25, 1.0)
INPUTS, DRAWS = 200, 12
DOTS = np.array([0.4, 0.8, 1.2, 1.6, 2.0, 2.6, 3.2])
STRENGTHS, DEPTHS, START = (1.0, 2.0, 4.0), (2.0, 3.0), 1e-2
TIMES = np.array([0.3, 0.6, 1.0, 1.5, 2.2, 3.2, 5.0, 8.0])


def compute_lampinen_spikes(seed: int = 0) -> dict[str, Any]:
    """Return spikes and overlaps by strength and aspect, and test errors over time, with drawn matrices."""
    rng, line, t = np.random.default_rng(seed), np.linspace(0.05, 3.5, 300), np.geomspace(0.1, 10, 200)
    found: dict[str, Any] = {"line": line, "t": t, "spikes": {}, "curves": {}}
    for aspect in ASPECTS:
        theory = spike(np, line, np.array(aspect))[1], overlap(np, line, np.array(aspect))
        drawn = np.array([[_drawn(rng, s, aspect) for _ in range(DRAWS)] for s in DOTS])
        found["spikes"][aspect] = {"theory": theory, "drawn": drawn, "threshold": aspect**0.25}
    for depth in DEPTHS:
        for s in STRENGTHS:
            law = GeneralizationOfAlignedStudent([s], INPUTS, INPUTS // 4, START, depth)
            found["curves"][depth, s] = {
                "theory": law.test_error(t) / s**2,
                "drawn": law.sample_errors(rng, DRAWS, TIMES)[0] / s**2,
                "stop": law.optimal_stopping_time(),
            }
    return found


def _drawn(rng: np.random.Generator, strength: float, aspect: float) -> tuple[float, float]:
    """Return the largest singular value of a noisy matrix of rank 1 and its overlap with the signal."""
    noisy = rng.normal(size=(round(aspect * INPUTS), INPUTS)) / np.sqrt(INPUTS)
    noisy[0, 0] += strength
    left, values, right = np.linalg.svd(noisy, full_matrices=False)
    return float(values[0]), float(abs(left[0, 0] * right[0, 0]))


def draw_lampinen_spikes(axes: Any, data: dict[str, Any]) -> None:
    """Draw spikes and overlaps over the strength of the teacher, and test errors over time."""
    marks = {"linestyle": "none", "markersize": 4.5, "markerfacecolor": "none"}
    for color, (aspect, curve) in zip(INK, data["spikes"].items(), strict=False):
        for k, ax in enumerate(axes[:2]):
            ax.plot(data["line"], curve["theory"][k], color=color, label=f"$A$ = {aspect:g}")
            mean, spread = curve["drawn"][..., k].mean(axis=1), curve["drawn"][..., k].std(axis=1)
            ax.errorbar(DOTS, mean, spread, color=color, marker="o", capsize=2, **marks)
            ax.axvline(curve["threshold"], color=color, linestyle=":", linewidth=1.2)
    for ax, label, title in zip(
        axes, (r"singular value $\hat s$", "overlap $O$"), ("(a) largest singular value", "(b) overlap"), strict=False
    ):
        ax.set(xlabel="teacher $s$ over noise", ylabel=label, title=f"{title} (dotted: $s = A^{{1/4}}$)")
        ax.legend(fontsize=9.5)
    ax, styles = axes[2], dict(zip(DEPTHS, ("-", "--"), strict=True))
    for (depth, s), curve in data["curves"].items():
        color = INK[STRENGTHS.index(s)]
        label = f"$s$ = {s:g}" if depth == DEPTHS[0] else "_"
        ax.plot(data["t"], curve["theory"], color=color, linestyle=styles[depth], label=label)
        mark = {"marker": "o" if depth == DEPTHS[0] else "s", "color": color, "capsize": 2, **marks}
        ax.errorbar(TIMES, curve["drawn"].mean(axis=0), curve["drawn"].std(axis=0), **mark)
    ax.set(xscale="log", yscale="log", xlabel="time $t$  (rate 1)", ylabel=r"test error  $|\bar W - W|^2/s^2$")
    ax.set(title=f"(c) depth 2, 3 (dashed), $A$ = 1/4, $N_1$ = {INPUTS}")
    ax.legend(fontsize=9.5)
