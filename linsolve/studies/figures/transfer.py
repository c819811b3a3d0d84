"""Figure E.1: generalization on a new task with the kernel of a trained linear network."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.plot.style import INK
from linsolve.systems.small_start.transfer_error import TransferError

__all__ = ["compute_e1", "draw_e1"]

SIZE = 100
DRAWS = 60


def _error(strength: Any, overlap: Any, samples: Any) -> np.ndarray:
    """Return the predicted error of cases that broadcast."""
    a, b, p = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (strength, overlap, samples)))
    law = TransferError(strength=a.ravel(), overlap=b.ravel(), samples=p.ravel(), ridge=np.zeros(a.size), n_in=SIZE)
    return law.prediction(np)["error"].reshape(a.shape)


def _sampled(rng: np.random.Generator, strength: float, overlap: float, samples: np.ndarray) -> np.ndarray:
    """Return errors of sampled regressions, shape (draw, samples)."""
    same = np.ones(len(samples))
    law = TransferError(strength=strength * same, overlap=overlap * same, samples=samples, ridge=0 * same, n_in=SIZE)
    return law.sample(rng, DRAWS)["error"]


def compute_e1(seed: int = 0) -> dict[str, Any]:
    """Return errors over samples by strength of the spike and by overlap, and over both."""
    rng, line, dots = np.random.default_rng(seed), np.linspace(0.0, 100.0, 201), np.arange(5, 100, 10)
    cases = {
        "strength": [(a, 0.9) for a in (0.0, 2.0, 10.0, 50.0)],
        "overlap": [(1.0, x) for x in (0.0, 0.5, 0.8, 1.0)],
    }
    found: dict[str, Any] = {"line": line, "dots": dots}
    for name, pairs in cases.items():
        found[name] = {pair: {"theory": _error(*pair, line), "sampled": _sampled(rng, *pair, dots)} for pair in pairs}
    strength, overlap = np.logspace(-1, 2, 61), np.linspace(0.0, 1.0, 51)
    return found | {"plane": (strength, overlap, _error(strength, overlap[:, None], 20.0))}


def draw_e1(axes: Any, data: dict[str, Any]) -> None:
    """Draw the learning curves and the plane of strength and overlap."""
    labels = {"strength": "$A$ = {0:g}", "overlap": r"$\alpha$ = {1:g}"}
    titles = {"strength": r"(a) strength of the spike, $\alpha$ = 0.9", "overlap": "(b) overlap of the tasks, $A$ = 1"}
    for ax, name in zip(axes, labels, strict=False):
        for color, (pair, curve) in zip(INK, data[name].items(), strict=False):
            ax.plot(data["line"], curve["theory"], color=color)
            mean, error = curve["sampled"].mean(axis=0), curve["sampled"].std(axis=0) / np.sqrt(DRAWS)
            ax.errorbar(
                data["dots"],
                mean,
                2 * error,
                color=color,
                fmt="o",
                markersize=4.5,
                markerfacecolor="none",
                capsize=2,
                label=labels[name].format(*pair),
            )
        ax.set(xlabel=f"samples $P$ of the new task  ($D$ = {SIZE})", ylabel="generalization error $E_g$")
        ax.set(title=titles[name], ylim=(0, 1.05))
        ax.legend(title="sampled; lines: theory", title_fontsize=9.5, fontsize=9.5)
    strength, overlap, error = data["plane"]
    mesh = axes[2].pcolormesh(strength, overlap, error, cmap="viridis", shading="gouraud", rasterized=True)
    axes[2].figure.colorbar(mesh, ax=axes[2], label="$E_g$ at $P$ = 20, theory")
    axes[2].set(xscale="log", xlabel="strength $A$ of the spike", ylabel=r"overlap $\alpha$", title="(c) both")
