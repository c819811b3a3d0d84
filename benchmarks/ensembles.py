"""Cost of streaming millions of random networks: time relative to their evaluation alone, and memory."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np

import linsolve as ls
from benchmarks.memory import largest
from linsolve.ensembles import Histogram, Quantiles, random_networks, run
from linsolve.ensembles.members import drawn, values_of
from linsolve.ensembles.stream import TILE

MEMBERS = (400_000, 4_000_000)
TIMES = np.array([0.0, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0])
KEPT: dict[str, Any] = {
    "mean, variance": ("mean", "variance"),
    "and a histogram with given edges": ("mean", "variance", Histogram(edges=np.linspace(0, 4, 65))),
    "and 5 quantiles to 0.4 %": ("mean", "variance", Quantiles(exact=False)),
    "and 5 exact quantiles": ("mean", "variance", Quantiles()),
}


def networks() -> Any:
    """Return networks of width 10^9 in the kernel scaling, whose losses span many decades."""
    return random_networks(10**9, gamma=10**-4.5)


class Following:
    """Evaluation of a tile into arrays, without statistics."""

    def __call__(self, tile: int) -> None:
        """Draw and evaluate one tile."""
        values_of(drawn(networks(), np.random.SeedSequence(0), tile, TILE, TIMES), ("loss",))


class Cost(NamedTuple):
    """Wall and processor time in seconds, growth of the peak memory in MiB, passes over the members."""

    wall: float
    processor: float
    grown: float
    passes: int


def measure(name: str | None, members: int) -> Cost:
    """Return the cost of an ensemble, or of evaluation into arrays if `name` is None."""
    ls.ensemble(networks(), 2 * TILE, TIMES, reduce=KEPT[name or "mean, variance"], rng=0)  # imports, warm caches
    before, passes = largest() / 2**20, 1
    wall, processor = time.perf_counter(), time.process_time()
    if name is None:
        for _ in run(range(members // TILE), Following()):
            pass
    else:
        passes = ls.ensemble(networks(), members, TIMES, reduce=KEPT[name], rng=0).passes
    return Cost(time.perf_counter() - wall, time.process_time() - processor, largest() / 2**20 - before, passes)


def alone(name: str | None, members: int) -> Cost:
    """Return `measure` in a separate process, with its own peak memory."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, name, members).result()


def rows() -> list[tuple[str, ...]]:
    """Return statistics, passes, wall and processor time, ratio to evaluation alone, growth of memory for few and many.

    The ratio is of processor time of all threads, which other load on the machine affects less than wall time.
    """
    few, many = MEMBERS
    only = alone(None, many)
    found = [("none, evaluation into arrays", "1", f"{only.wall:.1f} s", f"{only.processor:.1f} s", "1", "", "")]
    for name in KEPT:
        cost, less = alone(name, many), alone(name, few)
        ratio = f"{cost.processor / only.processor:.2f}"
        times = f"{cost.wall:.1f} s", f"{cost.processor:.1f} s"
        found.append((name, str(cost.passes), *times, ratio, f"{less.grown:.0f} MiB", f"{cost.grown:.0f} MiB"))
    return found
