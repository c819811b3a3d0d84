"""Exact gradient descent of two layers against a NumPy loop over the weights: processor times, ratio, difference."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

import linsolve as ls
from benchmarks.timing import short

SIMULATED = 100  # steps after which the weights are compared
TIMED = 10**7  # weights times steps of the loop, whose time is proportional to its steps; at least 100 steps
ENGINE = "compiled" if find_spec("llvmlite") else "plain"


class Case(NamedTuple):
    """A workload: networks, their width, steps, and the lengths or samples that vary from step to step."""

    networks: int
    width: int
    steps: int
    kind: str = "constant"

    def rules(self, step: float, count: int) -> dict[str, Any]:
        """Return the arguments of `discrete` for `count` steps."""
        rng = np.random.default_rng(1)
        if self.kind == "schedule":
            return {"step": step * rng.uniform(0.5, 1.0, count)}
        if self.kind == "minibatches":  # of 4 of 16 samples on the line
            a = rng.normal(size=16)
            a /= np.sqrt(np.mean(a**2))
            picks = (rng.random((count, 16)).argsort(axis=1) < 4) / 4
            return {"step": step / 4, "samples": (a[:, None], a + 0.3 * rng.normal(size=16), picks)}
        return {"step": step}


CASES = (
    Case(1, 10**3, 10**4),
    Case(1, 10**3, 10**6),
    Case(1, 10**3, 10**6, "schedule"),
    Case(1, 10**3, 10**6, "minibatches"),
    Case(1, 10**6, 10**4),
    Case(10**3, 10**3, 10**4),
)


def start(networks: int, width: int) -> tuple[ls.TwoLayer, np.ndarray, np.ndarray, float]:
    """Return networks with weights of order ``width^(-1/2)``, and half of their largest stable step."""
    rng = np.random.default_rng(0)
    u, w = rng.normal(size=(2, networks, width)) / np.sqrt(width)
    flow = ls.TwoLayer(y=1.0, x=[1.0])
    return flow, u, w, 1 / float(np.max(flow([np.inf], (u, w[..., None]))["sharpness"]))


def simulated(u: np.ndarray, w: np.ndarray, rules: dict[str, Any], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights after `count` steps, in place where NumPy allows it."""
    u, w, lengths = u.copy(), w.copy(), np.broadcast_to(rules["step"], count)
    a, y, picks = rules.get("samples", (np.ones((1, 1)), np.ones(1), np.ones((count, 1))))
    weights, targets = picks @ a[:, 0] ** 2, picks @ (a[:, 0] * y)
    for h, weight, target in zip(lengths.tolist(), weights.tolist(), targets.tolist(), strict=False):
        pull = (2 * h * (weight * np.einsum("ij,ij->i", u, w) - target))[:, None]
        change = pull * w
        w -= pull * u
        u -= change
    return u, w


def rows() -> list[tuple[str, ...]]:
    """Return workload, processor times of the maps and of the loop, ratio and difference."""
    return [row(case) for case in CASES]


def row(case: Case) -> tuple[str, ...]:
    """Return the measurements of a workload."""
    flow, u, w, step = start(case.networks, case.width)
    z0, rules, few = flow.State(u, w[..., None]), case.rules(step, case.steps), case.rules(step, SIMULATED)

    def exact(count: int, rules: dict[str, Any]) -> Any:
        return flow.discrete(count, z0, engine=ENGINE, threads=1, **rules)

    here = exact(SIMULATED, few)["u"]  # compiles
    time_of_maps = clocked(lambda: exact(case.steps, rules))
    after = simulated(u, w, few, SIMULATED)
    timed = max(SIMULATED, min(TIMED // w.size, case.steps))
    begin = time.process_time()
    simulated(u, w, case.rules(step, timed), timed)
    loop = (time.process_time() - begin) * case.steps / timed
    off = np.max(np.abs(here - after[0])) / np.max(np.abs(here))
    size = f"{case.networks:,}", f"{case.width:,}", f"{case.steps:,}", case.kind
    return *size, short(time_of_maps), short(loop), f"{loop / time_of_maps:,.0f}", f"{off:.0e}"


def clocked(call: Callable[[], Any]) -> float:
    """Return the processor time of a call, the smallest of three."""
    found = []
    for _ in range(3):
        begin = time.process_time()
        call()
        found.append(time.process_time() - begin)
    return min(found)
