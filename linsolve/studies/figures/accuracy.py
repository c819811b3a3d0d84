"""Delay of test accuracy behind train accuracy in a linear model without noise, and data with which it never comes."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.plot.style import COLORS, INK
from linsolve.systems.generalization.in_time import GeneralizationInTime
from linsolve.systems.generalization.raw_weights import flowed

__all__ = ["compute_levi_accuracy", "draw_levi_accuracy"]

INPUTS, TOLERANCE, SHARE, TESTS = 1000, 1e-3, 0.95, 16000
SHOWN = (0.5, 0.9, 2.0)  # inputs per sample
TIMES = np.array([0.1, 0.5, 1.0, 2.0, 5.0, 12.0, 30.0, 80.0, 200.0, 600.0])


def compute_levi_accuracy(seed: int = 0) -> dict[str, Any]:
    """Return accuracies over time, with one network each, and the times at which they reach 95 %."""
    rng, t, line = np.random.default_rng(seed), np.geomspace(0.05, 1000, 240), np.linspace(0.05, 0.98, 94)
    found: dict[str, Any] = {"t": t, "line": line, "curves": {}}
    for ratio in SHOWN:
        n = round(INPUTS / ratio)
        law = GeneralizationInTime(INPUTS, n)
        theory = law.train_accuracy(t, TOLERANCE), law.accuracy(t, TOLERANCE)
        inputs, teacher = rng.normal(size=(n, INPUTS)), rng.normal(size=INPUTS) / np.sqrt(INPUTS)
        off = flowed(inputs, inputs @ teacher, np.zeros(INPUTS), TIMES) - teacher
        drawn = [np.mean((off @ x.T) ** 2 <= TOLERANCE, axis=-1) for x in (inputs, rng.normal(size=(TESTS, INPUTS)))]
        ends = law.accuracy([0.0, np.inf], TOLERANCE)
        found["curves"][ratio] = {"theory": theory, "drawn": drawn, "ends": ends}
    times = np.geomspace(0.1, 1e6, 600)
    law = GeneralizationInTime(line, 1.0)
    shares = law.train_accuracy(times, TOLERANCE), law.accuracy(times, TOLERANCE)
    found["times"] = [np.array([np.interp(SHARE, each[:, k], times) for k in range(len(line))]) for each in shares]
    return found


def draw_levi_accuracy(axes: Any, data: dict[str, Any]) -> None:
    """Draw accuracies over time, the times of 95 %, and the accuracy of too few samples."""
    for color, (ratio, curve) in zip(INK, data["curves"].items(), strict=False):
        for exact, drawn, style, shape in zip(curve["theory"], curve["drawn"], ("--", "-"), ("^", "o"), strict=True):
            label = rf"$\lambda$ = {ratio:g}" if style == "-" else None
            axes[0].plot(data["t"], exact, color=color, linestyle=style, label=label)
            axes[0].plot(TIMES, drawn, shape, color=color, markersize=4.5, markerfacecolor="none")
    axes[0].set(
        xscale="log", xlabel="time $t$  (rate 1, mean loss)", ylabel=f"share of squared errors below {TOLERANCE:g}"
    )
    axes[0].set(title=f"(a) test, train (dashed), $d$ = {INPUTS}, one network")
    axes[0].legend(fontsize=9.5)
    train, test = data["times"]
    axes[1].plot(data["line"], test, color=INK[0], label="test")
    axes[1].plot(data["line"], train, color=INK[1], linestyle="--", label="train")
    axes[1].set(yscale="log", xlabel=r"inputs per sample $\lambda$", title="(b) delay")
    axes[1].set(ylabel="time to 95 % accuracy  (rate 1, mean loss)")
    axes[1].legend(fontsize=9.5)
    ratio = max(data["curves"])
    curve = data["curves"][ratio]
    axes[2].plot(data["t"], 100 * curve["theory"][1], color=INK[2], label="theory")
    shares = curve["drawn"][1]
    bars = 100 * np.sqrt(shares * (1 - shares) / TESTS)
    marks = {"fmt": "o", "markersize": 4.5, "markerfacecolor": "none", "capsize": 2}
    axes[2].errorbar(TIMES, 100 * shares, bars, color=INK[2], **marks)
    for value in curve["ends"]:
        axes[2].axhline(100 * value, color=COLORS["black"], linestyle=":", linewidth=1.2)
    start, end = 100 * curve["ends"]
    axes[2].set(xscale="log", ylim=(0, 5), xlabel="time $t$  (rate 1, mean loss)", ylabel="test accuracy, %")
    axes[2].set(title=rf"(c) $\lambda$ = {ratio:g}: {start:.2f} % at the start, {end:.2f} % for ever")
