"""The map of double descent in time against sampled networks of one of its cells, in one process, in processor time."""

from __future__ import annotations

import numpy as np

import linsolve as ls
from benchmarks.sgd import clocked
from benchmarks.timing import short
from linsolve.studies.phases.generalization import errors_on_grid
from linsolve.studies.phases.two_layer import centers

CELLS = 1000
DIMENSION, NETWORKS = 400, 16  # of the simulated cell: the standard error of its mean is about one percent
NOISE = 0.25


def rows() -> list[tuple[str, ...]]:
    """Return times of the map, of a simulated cell, their ratio, and the errors of both against the law."""
    ratio, t = centers(-1, 1, CELLS, log=True), centers(-2, 4, CELLS, log=True)
    law = ls.laws.GeneralizationInTime(1.0, ratio, noise_variance=NOISE)
    seconds = np.median([clocked(lambda: errors_on_grid(law, t))[0] for _ in range(5)])
    found, shown = errors_on_grid(law, t), slice(None, None, CELLS // 20)
    exact = law.test_error(t[shown])
    error = np.max(np.abs(found[shown] / exact - 1))
    cell = ls.laws.GeneralizationInTime(DIMENSION, DIMENSION, noise_variance=NOISE)
    at = np.array([3.0])
    taken, drawn = clocked(lambda: cell.sample_errors(np.random.default_rng(0), NETWORKS, at)[0][:, 0] + NOISE)
    z = (drawn.mean() - float(cell.test_error(3.0))) / (float(cell.test_error_std(3.0)) / np.sqrt(NETWORKS))
    return [
        (f"map of {CELLS} x {CELLS} cells, exact", short(seconds), f"error {error:.0e}"),
        (f"one cell, {NETWORKS} networks of {DIMENSION} inputs and samples", short(taken), f"z = {z:.1f}"),
        ("the map by simulation, over the exact map", f"{taken * CELLS**2 / seconds:,.0f}", ""),
    ]
