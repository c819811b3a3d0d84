"""Several tasks, one after the other (Braun et al. 2022): continual learning, forgetting, reversal."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.integrate import integrate
from linsolve.core.network import deep_weights
from linsolve.core.tasks import sequence
from linsolve.plot.style import INK
from linsolve.studies.figures.networks import MARKS
from linsolve.systems.whitened.whitened_two_layer import WhitenedTwoLayer

__all__ = ["compute_tasks", "draw_tasks"]

SIZES, SCALE, IMBALANCE = (6, 4, 5), 0.3, 0.2  # inputs, hidden units, outputs
TASKS, DURATION = 4, 6.0
IMBALANCES = (1.0, 1e-2, 1e-4, 0.0)


def _losses(targets: Any, durations: Any, w1: Any, w2: Any, marks: np.ndarray) -> np.ndarray:
    """Return the loss of each task, shape (mark, task), with the raw weights integrated task by task."""
    found, begin = [], 0.0
    for k, (target, duration) in enumerate(zip(targets, durations, strict=True)):
        inside = marks[(marks >= begin) & ((marks < begin + duration) | (k == len(targets) - 1))] - begin
        path = integrate(deep_weights(target, 2), [*inside, duration], (w1, w2), rtol=1e-10)
        products = path["w2"][:-1] @ path["w1"][:-1]
        found.append([[((each - p) ** 2).sum() / 2 for each in targets] for p in products])
        w1, w2, begin = path["w1"][-1], path["w2"][-1], begin + duration
    return np.concatenate(found)


def compute_tasks(seed: int = 0) -> dict[str, Any]:
    """Return losses and forgetting of four tasks, and a reversal at several imbalances, over simulated weights."""
    rng, (n_in, width, n_out) = np.random.default_rng(seed), SIZES
    targets = [rng.normal(size=(n_out, width)) @ rng.normal(size=(width, n_in)) / 2 for _ in range(TASKS)]
    w1, w2 = WhitenedTwoLayer.init(n_in, width, n_out, scale=SCALE, imbalance=IMBALANCE, rng=rng)
    flows, durations = [WhitenedTwoLayer(target) for target in targets], [DURATION] * TASKS
    path = sequence(list(zip(flows, durations, strict=True)), WhitenedTwoLayer.of(w1, w2))
    t = np.linspace(0.0, path.ends[-1], 801)
    marks = np.linspace(0.0, path.ends[-1], 49)
    apart = [[((a - b) ** 2).sum() / 2 for b in targets] for a in targets]
    traj = path(t)
    reversal = {imbalance: _reversed(imbalance) for imbalance in IMBALANCES}
    return {
        "t": t,
        "marks": marks,
        "ends": path.ends,
        "losses": traj["losses"],
        "forgetting": traj["forgetting"],
        "simulated": _losses(targets, durations, w1, w2, marks),
        "limits": np.array(apart),
        "reversal": reversal,
    }


def _reversed(imbalance: float) -> dict[str, np.ndarray]:
    """Return the loss of the second task, one mode learned at 2 and then at -2, from first layer 0.1."""
    targets, durations = [np.array([[2.0]]), np.array([[-2.0]])], (5.0, 10.0)
    w1, w2 = np.array([[0.1]]), np.array([[np.hypot(0.1, np.sqrt(imbalance))]])
    t, marks = np.linspace(0.0, 15.0, 1201), np.linspace(0.0, 15.0, 31)
    path = sequence(
        [(WhitenedTwoLayer(s), d) for s, d in zip(targets, durations, strict=True)], WhitenedTwoLayer.of(w1, w2)
    )
    simulated = _losses(targets, durations, w1, w2, marks)[:, 1]
    return {"t": t, "marks": marks, "theory": path(t)["losses"][:, 1], "simulated": simulated}


def draw_tasks(axes: Any, data: dict[str, Any]) -> None:
    """Draw the losses of all tasks, their forgetting, and a reversal."""
    for k, color in enumerate(INK[:TASKS]):
        axes[0].plot(data["t"], data["losses"][:, k], color=color)
        axes[0].plot(data["marks"], data["simulated"][:, k], **MARKS, color=color, label=f"task {k + 1}")
        axes[1].plot(data["t"], data["forgetting"][:, k], color=color, label=f"task {k + 1}")
        for later in range(k + 1, TASKS):
            ends = data["ends"][later] - 0.35 * DURATION, data["ends"][later]
            axes[1].plot(ends, 2 * [data["limits"][later, k]], color=color, linestyle=":", linewidth=2.2)
    axes[0].set(ylabel="loss $L_k$", title="(a) four tasks; marks: raw weights")
    axes[1].set(ylabel="forgetting $F_k$", title=r"(b) dotted: $|S_j - S_k|^2/2$, task $j$ learned")
    for ax in axes[:2]:
        for end in data["ends"][:-1]:
            ax.axvline(end, color="#777777", linewidth=1.0, linestyle=":", zorder=0)
    for color, (imbalance, curve) in zip(INK, data["reversal"].items(), strict=False):
        axes[2].plot(curve["t"], curve["theory"], color=color)
        axes[2].plot(curve["marks"], curve["simulated"], **MARKS, color=color, label=rf"$\lambda$ = {imbalance:g}")
    axes[2].axvline(5.0, color="#777777", linewidth=1.0, linestyle=":", zorder=0)
    axes[2].set(ylabel="loss of the reversed task", title="(c) reversal of one mode, $2 \\to -2$")
    for ax in axes:
        ax.set(xlabel=r"time $t$  (units of $\tau$)", ylim=(0, None))
        ax.legend(fontsize=8.5)
