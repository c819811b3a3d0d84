"""Exact gradient descent of two layers against a NumPy loop over the weights: processor times, ratio, difference."""

from __future__ import annotations

import time

import numpy as np

import linsolve as ls
from benchmarks.timing import short

SIZES = ((1, 10**3), (1, 10**6), (10**3, 10**3))  # networks and width
STEPS, SIMULATED = 10_000, 100  # of the maps, and of the loop, whose time is proportional to its steps


def start(networks: int, width: int) -> tuple[ls.TwoLayer, np.ndarray, np.ndarray, float]:
    """Return networks with weights of order ``width^(-1/2)``, and half of their largest stable step."""
    rng = np.random.default_rng(0)
    u, w = rng.normal(size=(2, networks, width)) / np.sqrt(width)
    flow = ls.TwoLayer(y=1.0, x=[1.0])
    return flow, u, w, 1 / float(np.max(flow([np.inf], (u, w[..., None]))["sharpness"]))


def simulated(u: np.ndarray, w: np.ndarray, step: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights after `count` steps, in place where NumPy allows it."""
    u, w = u.copy(), w.copy()
    for _ in range(count):
        pull = (2 * step * (np.einsum("ij,ij->i", u, w) - 1))[:, None]
        change = pull * w
        w -= pull * u
        u -= change
    return u, w


def rows() -> list[tuple[str, ...]]:
    """Return networks, width, processor times of 10^4 steps by the map and by the loop, ratio and difference."""
    found = []
    for networks, width in SIZES:
        flow, u, w, step = start(networks, width)
        z0 = flow.State(u, w[..., None])
        begin = time.process_time()
        flow.discrete(STEPS, z0, step=step)
        exact = time.process_time() - begin
        begin = time.process_time()
        after = simulated(u, w, step, SIMULATED)
        loop = (time.process_time() - begin) * STEPS / SIMULATED
        here = flow.discrete(SIMULATED, z0, step=step)["u"]
        off = np.max(np.abs(here - after[0])) / np.max(np.abs(here))
        found.append((f"{networks:,}", f"{width:,}", short(exact), short(loop), f"{loop / exact:,.0f}", f"{off:.0e}"))
    return found
