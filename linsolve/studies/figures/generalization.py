"""Double descent in time: errors and accuracies of sampled linear models, and curves in the limit of many inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.plot.style import INK
from linsolve.systems.generalization.in_time import GeneralizationInTime
from linsolve.systems.generalization.raw_weights import flowed

__all__ = ["compute_double_descent", "draw_double_descent"]

DRAWS = {100: 16, 400: 4}  # networks by their number of inputs
RATIOS = (0.2, 0.4, 0.7, 1.0, 1.4, 2.5, 5.0)  # samples per input
SHOWN = (0.4, 1.0, 2.5)
NOISE = 0.25
TIMES = np.array([0.05, 0.12, 0.3, 0.7, 1.7, 4.0, 10.0, 24.0, 60.0, 140.0, 340.0, 800.0, 2000.0])
AT = (0, 5, 8, 12)  # times of the curves over samples
TOLERANCE, ENOUGH = 0.01, 1.25  # of the accuracies, and their samples per input


def compute_double_descent(seed: int = 0) -> dict[str, Any]:
    """Return errors over time and samples, and accuracies over time: in the limit of many inputs, and sampled."""
    rng, t, line = np.random.default_rng(seed), np.geomspace(0.02, 3000.0, 200), np.geomspace(0.1, 10, 161)
    law = GeneralizationInTime(1.0, np.array(SHOWN), noise_variance=NOISE)
    sampled = {
        (d, ratio): GeneralizationInTime(d, round(ratio * d), noise_variance=NOISE).sample_errors(rng, count, TIMES)
        for d, count in DRAWS.items()
        for ratio in RATIOS
    }
    quiet, d = GeneralizationInTime(1.0, ENOUGH), max(DRAWS)
    return {
        "t": t,
        "test": law.test_error(t),
        "train": law.train_error(t),
        "stop": law.optimal_stopping_time(),
        "ratio": line,
        "descent": GeneralizationInTime(1.0, line, noise_variance=NOISE).test_error(TIMES[list(AT)]),
        "sampled": sampled,
        "accuracy": (quiet.train_accuracy(t, TOLERANCE), quiet.accuracy(t, TOLERANCE)),
        "shares": _shares(rng, d, round(ENOUGH * d)),
    }


def _shares(rng: np.random.Generator, d: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares of train samples and of new samples that one network predicts within the tolerance."""
    inputs, teacher = rng.normal(size=(n, d)), rng.normal(size=d) / np.sqrt(d)
    off = flowed(inputs, inputs @ teacher, np.zeros(d), TIMES) - teacher
    train, test = (np.mean((off @ x.T) ** 2 <= TOLERANCE, axis=-1) for x in (inputs, rng.normal(size=(4000, d))))
    return train, test


def draw_double_descent(axes: Any, data: dict[str, Any]) -> None:
    """Draw errors over time, test errors over samples, and accuracies over time."""
    shapes = dict(zip(DRAWS, ("o", "s"), strict=True))
    dots = {"linestyle": "", "markersize": 4.5, "markerfacecolor": "none", "capsize": 2}
    ax = axes[0]
    for k, (color, ratio) in enumerate(zip(INK, SHOWN, strict=False)):
        ax.plot(data["t"], data["test"][:, k], color=color, label=f"$n/d$ = {ratio:g}")
        ax.plot(data["t"], data["train"][:, k], color=color, linestyle="--", linewidth=1.2)
        ax.axvline(data["stop"][k], ymax=0.66, color=color, linestyle=":", linewidth=1.2)  # the key is above
        for d, shape in shapes.items():
            for errors, more in zip(data["sampled"][d, ratio], (NOISE, 0.0), strict=True):
                ax.errorbar(TIMES, errors.mean(axis=0) + more, errors.std(axis=0), color=color, fmt=shape, **dots)
    ax.set(
        xscale="log", yscale="log", ylim=(0.02, 20), xlabel="time $t$  (rate 1, mean loss)", ylabel="mean squared error"
    )
    ax.set(title="(a) dashed: train, dotted: optimal stopping")
    ax.legend(fontsize=9.5, title=f"noise variance {NOISE:g}", title_fontsize=9.5)
    ax = axes[1]
    for k, (color, row) in enumerate(zip(INK, AT, strict=False)):
        ax.plot(data["ratio"], data["descent"][k], color=color, label=f"$t$ = {TIMES[row]:g}")
        for d, shape in shapes.items():
            drawn = [data["sampled"][d, ratio][0][:, row] + NOISE for ratio in RATIOS]
            mean, spread = np.mean(drawn, axis=1), np.std(drawn, axis=1)
            ax.errorbar(RATIOS, mean, spread, color=color, fmt=shape, **dots)
    ax.set(xscale="log", yscale="log", xlabel="samples per input $n/d$", ylabel="mean squared test error")
    ax.set(title="(b) circles $d$ = 100, squares $d$ = 400", xlim=(0.1, 10))
    ax.legend(fontsize=9.5)
    ax = axes[2]
    for color, name, exact, share in zip(INK, ("train", "test"), data["accuracy"], data["shares"], strict=False):
        ax.plot(data["t"], exact, color=color, label=name)
        ax.plot(TIMES, share, "s", color=color, markersize=4.5, markerfacecolor="none")
    ax.set(xscale="log", xlabel="time $t$  (rate 1, mean loss)", ylabel=f"share of squared errors below {TOLERANCE:g}")
    ax.set(title=f"(c) no noise, $n/d$ = {ENOUGH:g}, $d$ = {max(DRAWS)}")
    ax.legend(fontsize=9.5, title="one network", title_fontsize=9.5)
