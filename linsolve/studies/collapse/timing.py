"""Time grid and descent step of a neural-collapse run."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.arguments import number
from linsolve.core.integrate import integrate
from linsolve.core.query import NotExact
from linsolve.systems.collapse import limits

__all__ = ["MOST_STEPS", "last_time", "times_and_step"]

MOST_STEPS = 10_000_000  # largest number of steps of the descent, some minutes
POINTS = 181  # number of times; fewer for large states
ENTRIES = 8_000_000


def last_time(flow: Any, z0: Any, until: float | None, algebraic: bool) -> float:
    """Return the last time, by default when the slowest part has decayed by about ten orders of magnitude."""
    if until is not None:
        return number("collapse", "until", until, meaning="last time", example=20.0)
    sample, middle, _ = (float(v) for v in flow.rates_of_features(np))
    m = int(flow.m)
    unit = (np.trace(z0.gram_w) / m + np.trace(z0.gram_h) / (m * middle)) / int(flow.classes)
    grow = np.log1p(1 / unit) / (2 * np.sqrt(m * middle)) if unit > 0 else 0.0
    pace = sample * np.sqrt(m / middle)  # of scatter, at a simplex
    if algebraic:
        return float(grow + 200 / pace)
    try:
        end, residual = flow(np.inf, z0).state, None
    except NotExact:
        path = integrate(flow, [0.0, grow + 10 / pace, grow + 20 / pace], z0, rtol=1e-8).state
        end = type(z0)(*(v[-1] for v in path))
        residual = flow.residual(np, type(z0)(*(v[1] for v in path)))
    slow = limits.slowest(flow, end, residual)
    return float(grow + min(30 / slow, 200 / pace)) if slow else float(grow + 25 / pace)


def times_and_step(
    flow: Any, weights: tuple[np.ndarray, np.ndarray], until: float, step: float | None, algebraic: bool
) -> tuple[np.ndarray, float]:
    """Return times that are whole numbers of steps, and the step of the descent."""
    h, w = weights
    classes, samples = len(w), h.shape[1]
    _, middle, large = (float(v) for v in flow.rates_of_features(np))
    frame = np.sqrt(samples / classes / middle)
    # the sharpest curvature, at the start or at a simplex
    sharp = samples + max(
        np.linalg.norm(h, 2) ** 2 + large * np.linalg.norm(w, 2) ** 2, large * frame + samples / frame
    )
    usual = 0.04 / sharp
    if step is not None:
        usual = number("collapse", "step", step, meaning="units of time", example=float(f"{usual:.2g}"))
    step = min(usual, until / 20)
    if until > MOST_STEPS * step or step == 0:
        steps = until / step if step else np.inf
        raise ValueError(
            f"collapse: until / step = {steps:.3g} must be at most {MOST_STEPS:.0e} (steps of the descent); "
            "end earlier, or start from smaller weights"
        )
    points = int(np.clip(ENTRIES // (samples * samples), 20, POINTS))
    grid = np.geomspace(until / 1e4, until, points if algebraic else points // 3)
    if not algebraic:
        grid = np.append(grid, np.linspace(0, until, points - points // 3))
    return np.unique(np.append(np.rint(grid / step), 0)) * step, step
