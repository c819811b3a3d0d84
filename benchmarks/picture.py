"""The work-precision diagram: error against time, ours and peers, for one ensemble."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from benchmarks import workloads
from benchmarks.timing import Timing
from linsolve.plot import COLORS, figure

__all__ = ["work_precision"]

LOOKS = {
    "ours, NumPy": ("blue", "s"),
    "ours, compiled": ("vermilion", "D"),
    "heyoka": ("green", "o"),
    "solve_ivp, stacked": ("black", "^"),
    "solve_ivp, loop": ("black", "v"),
    "diffrax Tsit5": ("purple", "<"),
    "diffrax Dopri8": ("orange", ">"),
}


def work_precision(timings: list[Timing], path: Path) -> None:
    """Draw error against time for the ensemble of balanced modes, one line per tool, one mark per tolerance."""
    outputs = workloads.FULL["W1"] * workloads.TIMES
    lines: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for t in timings:
        name = re.sub(r", 1e-\d+$", "", t.who)
        if t.workload in ("W1", "W2") and name in LOOKS and t.seconds == t.seconds:
            lines[name].append((1e9 * t.seconds / outputs, max(t.error, 2.0**-54)))
    fill = next(t.seconds for t in timings if t.workload == "W1" and t.who == "floor: fill")
    with figure(figsize=(8.0, 4.8)) as (fig, ax):
        for name, (color, marker) in LOOKS.items():
            if name in lines:
                by_error = sorted(lines[name], key=lambda point: point[1])
                ax.plot(*zip(*by_error, strict=True), color=COLORS[color], marker=marker, label=name, ms=7)
        floor = 1e9 * fill / outputs
        ax.axvline(floor, color="#777777", linestyle=(0, (4, 3)), linewidth=1.2)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(1e-17, 1)
        ax.annotate(
            "filling\nmemory", (floor, 0.3), xytext=(4, 0), textcoords="offset points", va="top", color="#555555"
        )
        ax.set_xlabel(f"time per output (ns; {workloads.FULL['W1']:,} modes at {workloads.TIMES} times)")
        ax.set_ylabel("largest relative error, against 50 digits")
        ax.set_title("Balanced modes (Saxe et al. 2014)")
        fig.legend(loc="outside right center", fontsize=9.5)
        fig.savefig(path)
