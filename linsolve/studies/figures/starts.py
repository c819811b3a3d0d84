"""Small and large initial weights: test error in time, and with optimal stopping, for one layer and for two."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.plot.style import INK
from linsolve.systems.generalization.in_time import GeneralizationInTime
from linsolve.systems.generalization.of_aligned_student import GeneralizationOfAlignedStudent

__all__ = ["compute_advani_starts", "draw_advani_starts"]

STARTS, ALIGNED = (0.0, 0.5, 2.0), (1e-3, 1e-1, 1.0)  # mean squared length; singular value of each mode
SNR, RATIO = 5.0, 0.8  # of signal to label noise; samples per input
INPUTS, DRAWS, STRENGTH = 200, 8, 4.0
TIMES = np.array([0.05, 0.2, 0.6, 1.5, 4.0, 12.0, 40.0, 150.0])
EARLY = np.array([0.05, 0.2, 0.5, 0.9, 1.4, 2.0, 4.0])


def compute_advani_starts(seed: int = 0) -> dict[str, Any]:
    """Return test errors over time by the size of the start, and over samples at the end and at the optimal time."""
    rng, t, line = np.random.default_rng(seed), np.geomspace(0.02, 300, 200), np.geomspace(0.1, 10, 161)
    found: dict[str, Any] = {"t": t, "early": np.geomspace(0.02, 6, 200), "line": line, "one": {}, "two": {}}
    for start in STARTS:
        law = GeneralizationInTime(INPUTS, round(RATIO * INPUTS), 1.0, start, 1 / SNR)
        drawn = law.sample_errors(rng, DRAWS, TIMES)[0] + 1 / SNR
        found["one"][start] = {"theory": law.test_error(t), "drawn": drawn}
    for start in ALIGNED:
        student = GeneralizationOfAlignedStudent([STRENGTH], INPUTS, INPUTS // 4, start)
        theory, drawn = student.test_error(found["early"]), student.sample_errors(rng, DRAWS, EARLY)[0]
        found["two"][start] = {"theory": theory / STRENGTH**2, "drawn": drawn / STRENGTH**2}
    for start in STARTS[:2]:
        samples = GeneralizationInTime(1.0, line, 1.0, start, 1 / SNR)
        best = samples.optimal_stopping_time()
        laws = (GeneralizationInTime(1.0, n, 1.0, start, 1 / SNR) for n in line)
        stopped = [float(law.test_error(time)) for law, time in zip(laws, best, strict=True)]
        found[f"samples {start:g}"] = {"end": samples.test_error(np.inf), "best": np.array(stopped)}
    return found


def draw_advani_starts(axes: Any, data: dict[str, Any]) -> None:
    """Draw test errors over time for one layer and two, and over samples."""
    marks = {"linestyle": "none", "marker": "o", "markersize": 4.5, "markerfacecolor": "none", "capsize": 2}
    panels = (("one", "t", TIMES, "E|w(0)|^2", "rate 1, mean loss"), ("two", "early", EARLY, "a_0", "rate 1"))
    for ax, (name, times, dots, symbol, unit) in zip(axes, panels, strict=False):
        for color, (start, curve) in zip(INK, data[name].items(), strict=False):
            ax.plot(data[times], curve["theory"], color=color, label=f"${symbol}$ = {start:g}")
            ax.errorbar(dots, curve["drawn"].mean(axis=0), curve["drawn"].std(axis=0), color=color, **marks)
        ax.set(xscale="log", yscale="log", xlabel=f"time $t$  ({unit})", ylabel="test error")
        ax.legend(fontsize=9.5)
    axes[0].set(title=f"(a) one layer, $n/d$ = {RATIO:g}, SNR = {SNR:g}, $d$ = {INPUTS}")
    axes[1].set(title=f"(b) two aligned layers, $s$ = {STRENGTH:g}, $A$ = 1/4")
    axes[1].set(ylabel=r"test error  $|\bar W - W|^2/s^2$")
    for color, start in zip(INK, STARTS[:2], strict=False):
        curve = data[f"samples {start:g}"]
        axes[2].plot(data["line"], curve["end"], color=color, label=f"end, $E|w(0)|^2$ = {start:g}")
        axes[2].plot(data["line"], curve["best"], color=color, linestyle="--", label="optimal stopping")
    axes[2].set(
        xscale="log",
        yscale="log",
        xlim=(0.1, 10),
        ylim=(0.15, 20),
        xlabel="samples per input $n/d$",
        ylabel="test error",
    )
    axes[2].set(title=f"(c) one layer, SNR = {SNR:g}")
    axes[2].legend(fontsize=9.5)
