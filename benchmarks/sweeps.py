"""Cost of a sweep over a grid of networks: time relative to filling memory, peak memory relative to its output."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import subprocess
import sys
import threading
import time

import numpy as np

CELLS = 1500
REPEATS = 3


def start(gamma, sigma, rng):
    """Return order parameters of random networks of width 100, one per cell, without drawing their weights."""
    from linsolve import TwoLayerOrder
    from linsolve.studies.phases import wishart

    width = np.full(np.broadcast_shapes(gamma.shape, sigma.shape), 100.0)
    norm_u, along, across = (part[0] for part in wishart(width, 1, rng=rng))
    p, q = sigma * (along + norm_u) / 2, sigma * (along - norm_u) / 2
    half = (sigma * across / 2) ** 2
    return TwoLayerOrder.State(p**2 + half, q**2 + half, p * q + half)


def fixed(sigma):
    """Return order parameters of one network at several sizes."""
    from linsolve import TwoLayerOrder

    return TwoLayerOrder.State(0.02 * sigma**2, 0.01 * sigma**2, 0 * sigma)


def fill() -> float:
    """Return the seconds of filling three arrays of this size, whose pages were touched before."""
    arrays = [np.zeros((CELLS, CELLS)) for _ in range(3)]
    best = np.inf
    for repeat in range(REPEATS + 1):
        began = time.perf_counter()
        for array in arrays:
            array.fill(repeat)
        best = min(best, time.perf_counter() - began)
    return best


def resident() -> int:
    """Return the memory of this process, in bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(which: str, threads: int, engine: str) -> dict[str, float]:
    """Return wall time, processor time, and growth of memory over the output, of one sweep in this process.

    Compilation is included.
    """
    import linsolve as ls

    given = {"gamma": np.linspace(0.1, 2.0, CELLS), "sigma": np.linspace(0.1, 3.0, CELLS), "threads": threads}
    drawn = which == "random"
    how = {"t": np.inf, "y": 1.0, "start": start if drawn else fixed, "engine": engine}
    observe = ls.ensembles.of(ls.TwoLayerOrder, "P", "Q", "R", **how)
    options = {"rng": 0} if drawn else {}
    small = {name: given[name][:60] for name in ("gamma", "sigma")}
    ls.sweep(observe, **(given | small | options))  # imports
    before, peak, over = resident(), [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.002):
            peak[0] = max(peak[0], resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    began, worked = time.perf_counter(), time.process_time()
    found = ls.sweep(observe, **(given | options))
    seconds, work = time.perf_counter() - began, time.process_time() - worked
    over.set()
    watcher.join()
    size = sum(found[name].nbytes for name in found.names)
    return {"seconds": seconds, "work": work, "memory": (max(peak[0], resident()) - before) / size}


def rows() -> list[tuple[str, str, int, float, float, float, float]]:
    """Return start, engine, threads, wall time, processor time, time / filling the output, peak memory / output."""
    floor, found = fill(), []
    engines = ("blocks", "compiled") if importlib.util.find_spec("llvmlite") else ("blocks",)
    for which, engine, threads in itertools.product(("fixed", "random"), engines, (1, 2)):
        command = [sys.executable, "-m", "benchmarks.sweeps", which, str(threads), engine]
        runs = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(REPEATS)]
        best, work = (min(run[name] for run in runs) for name in ("seconds", "work"))
        found.append((which, engine, threads, best, work, best / floor, max(run["memory"] for run in runs)))
    return found


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), sys.argv[3])))
