"""Boundaries of the diagram of descent: closed forms against bisections of the outcome of runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from linsolve.studies.phases.descent import GOLDEN, outcome

LEVELS = np.array([0.01, 0.1, 1.0, 10.0, 100.0])  # imbalances
HALVINGS = 16
# name, learning rate times sharpness of the flattest minimum at an imbalance, regions on the left
EDGES: tuple[tuple[str, Callable[[np.ndarray], np.ndarray], tuple[int, ...]], ...] = (
    ("edge of stability, 2/sqrt(1 + i)", lambda i: 2 / np.sqrt(1 + i), (0,)),
    ("flattest minimum, 2", lambda i: 2 + 0 * i, (0, 1)),
    ("period doubling, 2 (sqrt 5 - 1)", lambda i: GOLDEN + 0 * i, (0, 1, 2)),
    ("divergence, 4/sqrt(1 + i)", lambda i: 4 / np.sqrt(1 + i), (0, 1, 2, 3, 4)),
)


def rows() -> list[tuple[str, ...]]:
    """Return boundary, imbalance, closed form, measured value and relative difference."""
    found = []
    for name, closed, left in EDGES:
        value = closed(LEVELS)
        inside = value <= 4 / np.sqrt(1 + LEVELS)  # beyond it, runs diverge
        level, value = LEVELS[inside], value[inside]
        low, high = 0.95 * value, 1.05 * value
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            before = np.isin(outcome(middle, level), left)
            low, high = np.where(before, middle, low), np.where(before, high, middle)
        for i, exact, seen in zip(level, value, (low + high) / 2, strict=True):
            found.append((name, f"{i:g}", f"{exact:.5f}", f"{seen:.5f}", f"{abs(seen / exact - 1):.0e}"))
    return found
