"""Pathways of a gated deep linear network: shared against private ones, and their race."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from linsolve.plot.style import COLORS
from linsolve.studies.figures.networks import MARKS
from linsolve.systems.gated.neural_race import NeuralRace

__all__ = ["compute_neural_race", "draw_neural_race", "gated"]

INK = [COLORS[name] for name in ("blue", "vermilion", "green", "purple")]
START, AHEAD = 1e-3, 5e-2  # initial strengths; of a private pathway with a head start
RACE = 9  # contexts
SPEEDS = {(4, 4): "4 contexts, shared", (4, 1): "4, private", (9, 9): "9, shared", (9, 1): "9, private"}
CONTEXTS = (4, 9, 16)


def gated(race: NeuralRace, starts: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return strengths at times t, shape (T, pathway, context), by integration of all first layers and heads."""
    served, contexts = race.served.astype(int), int(race.contexts)
    groups = np.arange(contexts) // served[:, None]  # the first layer of each pathway in each context
    belongs = (groups[..., None] == np.arange(contexts)).astype(float)
    root = np.sqrt(np.sqrt(served))
    first = np.sqrt(starts) * root
    z0 = np.concatenate([np.repeat(v, contexts) for v in (first, np.sqrt(starts) / root)])

    def parts(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, head = z.reshape(2, len(served), contexts)
        return np.einsum("pkj,pj->pk", belongs, first), head

    def rate(_: float, z: np.ndarray) -> np.ndarray:
        used, head = parts(z)
        error = race.s - np.sum(head * used, axis=0)
        move = np.einsum("pkj,pk->pj", belongs, head * error)
        return np.concatenate([move.ravel(), (used * error).ravel()]) / contexts / race.tau

    path = solve_ivp(rate, (0.0, t[-1]), z0, "DOP853", t, rtol=1e-10, atol=1e-13).y.T
    return np.array([np.prod(parts(z), axis=0) for z in path])


def compute_neural_race(seed: int = 0) -> dict[str, Any]:
    """Return strengths of single pathways and of a race, and final shares, in theory and with all heads integrated."""

    def case(race: NeuralRace, starts: np.ndarray, until: float) -> dict[str, Any]:
        t, marks = np.linspace(0.0, until, 301), np.linspace(0.0, until, 16)
        found = {"t": t, "marks": marks, "theory": race(t, starts)["strengths"]}
        return found | {"simulated": gated(race, starts, marks)}

    shares = {}
    for contexts in CONTEXTS:
        race, size, marks = (
            NeuralRace(1.0, contexts, [contexts, 1]),
            np.geomspace(1e-4, 0.5, 201),
            np.geomspace(1e-4, 0.5, 7),
        )
        ends = race(np.inf, np.stack([np.full_like(size, START), size], axis=-1))["strengths"][:, 1]
        until = np.array([0.0, 15.0 * contexts])
        simulated = [gated(race, np.array([START, each]), until)[-1, 1].mean() for each in marks]
        tie = (2 * START) ** (1 / np.sqrt(contexts)) / 2
        shares[contexts] = {"size": size, "marks": marks, "theory": ends, "simulated": np.array(simulated), "tie": tie}
    return {
        "speeds": {key: case(NeuralRace(1.0, key[0], [key[1]]), np.full(1, START), 65.0) for key in SPEEDS},
        "race": case(NeuralRace(1.0, RACE, [RACE, 1]), np.array([START, AHEAD]), 25.0),
        "shares": shares,
    }


def draw_neural_race(axes: Any, data: dict[str, Any]) -> None:
    """Draw single pathways, a race from equal starts, and the private share over its start."""
    for color, (key, curve) in zip(INK, data["speeds"].items(), strict=True):
        axes[0].plot(curve["t"], curve["theory"][:, 0], color=color)
        axes[0].plot(curve["marks"], curve["simulated"][:, 0, 0], **MARKS, color=color, label=SPEEDS[key])
    axes[0].set(ylabel="strength $a$", title=r"(a) one pathway; speeds $2s/\sqrt{K}$, $2s/K$")
    race = data["race"]
    for k, (color, name) in enumerate(zip(INK, ("shared", "private"), strict=False)):
        axes[1].plot(race["t"], race["theory"][:, k], color=color)
        axes[1].plot(race["marks"], race["simulated"][:, k, 0], **MARKS, color=color, label=name)
    axes[1].set(ylabel="strength $a_p$", title=f"(b) race in {RACE} contexts, private ahead")
    for color, (contexts, curve) in zip(INK, data["shares"].items(), strict=False):
        axes[2].plot(curve["size"], curve["theory"], color=color)
        axes[2].plot(curve["marks"], curve["simulated"], **MARKS, color=color, label=f"{contexts} contexts")
        axes[2].axvline(curve["tie"], color=color, linestyle=":", linewidth=1.2)
    axes[2].set(
        xlabel=f"start of the private pathway  (shared: {START:g})", ylabel="final private strength",
        title=r"(c) dotted: tie at $(s/2)(2 a/s)^{1/\sqrt{K}}$", xscale="log",
    )  # fmt: skip
    for ax, title in zip(axes, ("lines: theory; marks: all heads", "", ""), strict=True):
        ax.set(ylim=(0, 1.05))
        ax.legend(fontsize=8.5, title=title, title_fontsize=8.5)
    for ax in axes[:2]:
        ax.set(xlabel=r"time $t$  (units of $\tau$)")
