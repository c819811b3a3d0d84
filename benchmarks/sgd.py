"""Exact averages of SGD against 10^4 simulated runs, in one process: processor times, their ratio, z-scores."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import linsolve as ls
from benchmarks.timing import short
from linsolve.systems.streaming_sgd.stream import losses

RUNS = 10_000
STEPS = np.arange(0, 201, 10)


class Case(NamedTuple):
    """A workload: the averages by theory, shape (2, steps) or (1, steps), and losses of simulated runs."""

    name: str
    exact: Callable[[], np.ndarray]
    simulated: Callable[[], np.ndarray]


def streaming(name: str, law: Any) -> Case:
    """Return mean and standard deviation of a law, and simulated runs of its weights."""
    return Case(
        name,
        lambda: np.array([law.mean(STEPS), law.std(STEPS)]),
        lambda: losses(np.random.default_rng(0), RUNS, law, STEPS.tolist()),
    )


def own_data(n: int, d: int, m: int, replacement: bool) -> Case:
    """Return the mean loss on a fixed data set, and simulated runs in NumPy."""
    rng = np.random.default_rng(1)
    X, w = rng.normal(size=(n, d)), np.zeros(d)
    y = X @ rng.normal(size=d) / np.sqrt(d) + 0.5 * rng.normal(size=n)
    step = 0.5 * m / d

    def simulated() -> np.ndarray:
        runs, found = np.tile(w, (RUNS, 1)), []
        for done in range(STEPS[-1] + 1):
            if done in STEPS:
                found.append(np.mean((runs @ X.T - y) ** 2, axis=-1) / 2)
            drawn = rng.integers(0, n, (RUNS, m)) if replacement else rng.random((RUNS, n)).argpartition(m)[:, :m]
            x = X[drawn]
            residual = np.einsum("cmd,cd->cm", x, runs) - y[drawn]
            runs = runs - step / m * np.einsum("cm,cmd->cd", residual, x)
        return np.stack(found, axis=-1)

    def exact() -> np.ndarray:
        return ls.sgd(w, (X, y), STEPS, batch=m, step=step, replacement=replacement)["loss"][None]

    return Case(f"{n} samples of {d} inputs, m = {m}, with{'' if replacement else 'out'} replacement", exact, simulated)


def cases() -> list[Case]:
    """Return the workloads, each of 200 steps."""
    spectrum = np.arange(1, 51) ** -1.5
    slopes = ls.laws.StreamingSGDAnisotropic(8, 0.3, spectrum, np.ones(50), 0.1)
    return [
        streaming("`StreamingSGD`, d = 50, m = 8", ls.laws.StreamingSGD(8, 0.05, 50, 0.1)),
        streaming("`StreamingSGDAnisotropic`, d = 50, m = 8", slopes),
        own_data(200, 20, 8, replacement=False),
        own_data(200, 20, 8, replacement=True),
    ]


def worst(case: Case, drawn: np.ndarray) -> str:
    """Return the largest z-scores of the means and, if the theory has it, of the variances of simulated losses."""
    moved = drawn[:, 1:]  # the start is certain
    mean, *spread = case.exact()[:, 1:]
    pairs = [(moved, mean)] + [((moved - mean) ** 2, std**2) for std in spread]
    scores = [np.max(np.abs(v.mean(axis=0) - e) / v.std(axis=0)) * np.sqrt(RUNS) for v, e in pairs]
    return ", ".join(f"{score:.1f}" for score in scores)


def rows() -> list[tuple[str, ...]]:
    """Return workload, processor times of theory and simulation, their ratio, and the largest z-scores."""
    found = []
    for case in cases():
        seconds = np.median([clocked(case.exact)[0] for _ in range(9)])
        taken, drawn = clocked(case.simulated)
        found.append((case.name, short(seconds), short(taken), f"{taken / seconds:,.0f}", worst(case, drawn)))
    return found


def clocked(call: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    """Return the processor time of a call, less affected by other load than wall time, and its result."""
    begin = time.process_time()
    result = call()
    return time.process_time() - begin, result
