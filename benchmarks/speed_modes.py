"""Ensembles of modes and of wide networks, in blocks and compiled, against filling and reading the same memory."""

from __future__ import annotations

import importlib.util
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np

import linsolve as ls
from linsolve import arithmetic
from linsolve.fused import evaluate, order_parameters, reduce

MEMBERS, DEEP, TIMES = 1_000_000, 100_000, 64
NETWORKS, WIDTH = 2000, 1000
ROUNDS = 5
ENGINES = ["blocks", *(["compiled"] if importlib.util.find_spec("llvmlite") else [])]
NAMES = ("loss", "alignment", "ntk")


class Row(NamedTuple):
    """A workload, the median of its seconds, those of its floor, their ratio, and our error against 50 digits."""

    name: str
    ours: float
    other: float
    ratio: float
    error: float


def medians(*calls: Callable[[], Any], rounds: int = ROUNDS) -> list[float]:
    """Return the median seconds of several calls that take turns, after one warm-up of each."""
    spent = np.empty((rounds, len(calls)))
    for call in calls:
        call()
    for row in spent:
        for k, call in enumerate(calls):
            before = time.perf_counter()
            call()
            row[k] = time.perf_counter() - before
    return np.median(spent, axis=0).tolist()


def modes(members: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return balanced modes, times and starts."""
    rng = np.random.default_rng(0)
    flow = ls.BalancedMode(s=rng.uniform(0.5, 3, members), tau=rng.uniform(0.5, 2, members))
    return flow, np.linspace(0, 5, TIMES), 10 ** rng.uniform(-6, -1, members)


def deep_modes(depth: float, members: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return deep modes, times and starts."""
    rng = np.random.default_rng(1)
    flow = ls.DeepMode(s=rng.uniform(0.5, 3, members), depth=depth)
    return flow, np.linspace(0, 8, TIMES), 10 ** rng.uniform(-2, -0.5, members)


def error_of(found: np.ndarray, flow: Any, t: np.ndarray, a0: np.ndarray, few: int = 20) -> float:
    """Return the largest error of the first members, over one plus how much rounding the time alone changes them."""
    xp, some = arithmetic.precise(50), slice(None, None, 9)
    part = type(flow)(**{name: v[:few] if v.ndim else v for name, v in flow.parameters().items()})
    start = flow.State(a0[:few])
    exact = part.cast(xp).solution(xp, xp.asarray(t[some, None]), flow.State(xp.asarray(a0[:few]))).a
    exact = arithmetic.to_numpy(exact)
    rate = part.velocity(np, part(t[some], start, engine="plain").state).a
    condition = np.abs(t[some, None] * rate / exact)
    return float(np.max(np.abs(found[some, :few] / exact - 1) / (1 + condition)))


def ensembles(name: str, flow: Any, t: np.ndarray, a0: np.ndarray, rounds: int) -> list[Row]:
    """Return an ensemble written down by each engine, against a fill of the same memory."""
    out = np.zeros((len(t), len(a0)))
    calls = [lambda e=engine: flow(t, a0, out=out, engine=e) for engine in ENGINES]
    *spent, floor = medians(*calls, lambda: out.fill(1.0), rounds=rounds)
    rows = []
    for engine, ours, call in zip(ENGINES, spent, calls, strict=True):
        call()
        rows.append(Row(f"{name}, {engine}, and a fill", ours, floor, ours / floor, error_of(out, flow, t, a0)))
    return rows


def means() -> list[Row]:
    """Return the mean over the ensemble of modes, nothing written, against a fill of what is not stored."""
    flow, t, a0 = modes(MEMBERS)
    out = np.zeros((len(t), len(a0)))
    found = flow(t, a0, out=out)["a"].mean(axis=-1)
    calls = [lambda e=engine: reduce(flow, t, a0, "a", "mean", engine=e) for engine in ENGINES]
    *spent, floor = medians(*calls, lambda: out.fill(1.0))
    return [
        Row(
            f"mean over {MEMBERS} modes, {engine}, and a fill of them", ours, floor, ours / floor,
            float(np.max(np.abs(call()["a"]["mean"] / found - 1))),
        )
        for engine, ours, call in zip(ENGINES, spent, calls, strict=True)
    ]  # fmt: skip


def networks() -> list[Row]:
    """Return order parameters of wide networks, and 64 times of what is observed, against one read of the weights."""
    rng = np.random.default_rng(2)
    flow = ls.TwoLayer(y=1.0, gamma=WIDTH**-0.5, x=[1.0])
    z0 = flow.State(rng.standard_normal((NETWORKS, WIDTH)), rng.standard_normal((NETWORKS, WIDTH, 1)))
    t = np.linspace(0, 3, TIMES)
    order, start = order_parameters(flow, z0)
    exact = ls.TwoLayerOrder.of(flow, z0)[1]
    error = max(float(np.max(np.abs(a / b - 1))) for a, b in zip(start[:2], exact[:2], strict=True))
    calls = [lambda e=engine: evaluate(order, t, start, NAMES, engine=e) for engine in ENGINES]
    passed, *spent, floor = medians(lambda: order_parameters(flow, z0), *calls, lambda: (np.max(z0.u), np.max(z0.w)))
    name = f"{NETWORKS} networks of width {WIDTH}"
    rows = [Row(f"{name}, order parameters, and a read of the weights", passed, floor, passed / floor, error)]
    for engine, ours in zip(ENGINES, spent, strict=True):
        whole = passed + ours
        rows.append(Row(f"{name}, 64 times of {', '.join(NAMES)}, {engine}", whole, floor, whole / floor, error))
    return rows


def growth(engine: str) -> float:
    """Return by how much the peak memory grows, over the size of the output, when an ensemble is followed."""
    flow, t, a0 = modes(MEMBERS)
    flow(t[:2], a0, engine=engine)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = flow(t, a0, engine=engine)["a"].nbytes / 1024
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / size


def peaks() -> dict[str, float]:
    """Return `growth` for each engine, each in a process of its own."""
    found = {}
    for engine in ["plain", *ENGINES]:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found[engine] = pool.submit(growth, engine).result()
    return found


def rows() -> list[Row]:
    """Return workload and floor, our seconds, the floor's, their ratio, and our error."""
    found = ensembles(f"{MEMBERS} modes at {TIMES} times", *modes(MEMBERS), ROUNDS)
    found += means() + networks()
    for depth in (3.0, 4.0, 5.0, np.inf):
        found += ensembles(f"{DEEP} modes of depth {depth:g} at {TIMES} times", *deep_modes(depth, DEEP), 1)
    return found


if __name__ == "__main__":
    # before this process has a peak of its own, which its children would inherit
    for name, ratio in peaks().items():
        print(f"peak memory over the output, {name}: {ratio:.2f}")
    for row in rows():
        print(f"{row.name:80s} {1e3 * row.ours:9.1f} ms {1e3 * row.other:8.1f} ms {row.ratio:9.2f} {row.error:.1e}")
