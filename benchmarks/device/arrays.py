"""Every flow by array functions on a GPU, of CuPy and compiled by JAX, against NumPy on the processor."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

import linsolve as ls
from benchmarks.device import if_present, jax_beside_cupy
from benchmarks.markdown import table
from linsolve import arithmetic
from linsolve.engines import cuda

__all__ = ["TIMES", "flows", "of_cupy", "of_jax", "rows"]

TIMES = np.array([0.0, 0.1, 0.5, 2.0, 30.0])


def difference(found: dict[str, Any], plain: Any) -> float:
    """Return the largest difference over all observables, relative to the largest entry of each."""
    worst = 0.0
    for name, value in found.items():
        right = np.asarray(plain[name], dtype=float)
        size = max(float(np.max(np.abs(right), initial=0.0)), 1e-300)
        off = np.abs(np.asarray(arithmetic.to_numpy(value), dtype=float) - right)
        worst = float(np.maximum(worst, np.max(off, initial=0.0) / size))  # nan stays nan
    return worst


def of_cupy(flow: Any, z0: Any) -> dict[str, Any]:
    """Return all observables on CuPy arrays."""
    xp = arithmetic.namespace(cuda.device().zeros(1))
    traj = flow.cast(xp)(xp.asarray(TIMES), type(z0)(*(xp.asarray(v) for v in z0)))
    return {name: traj[name] for name in traj.names}


def of_jax(flow: Any, z0: Any) -> dict[str, Any]:
    """Return all observables compiled by JAX for its default device."""
    import jax

    names = flow(TIMES, z0).names

    @jax.jit
    def run(flow: Any, t: Any, z0: Any) -> dict[str, Any]:
        traj = flow(t, z0)
        return {name: traj[name] for name in names}

    return run(flow, jax.numpy.asarray(TIMES), z0)


WAYS = {"CuPy": of_cupy, "JAX": of_jax}


def rows(who: str, flows: Any = ls.flows.ALL) -> list[tuple[str, float]]:
    """Return each flow with its largest difference from NumPy, at an example of the flow."""
    found = []
    if who == "JAX":
        jax_beside_cupy()  # before the flows, which it then knows
    for cls in flows:
        flow, z0 = cls.example(np.random.default_rng(0))
        found.append((cls.__name__, difference(WAYS[who](flow, z0), flow(TIMES, z0))))
    return found


def flows() -> str:
    """Return the largest differences of all flows on a GPU from NumPy, or the reason for having none."""
    return if_present(lambda _: _table())


def _table() -> str:
    jax = dict(rows("JAX")) if importlib.util.find_spec("jax") else {}
    found = [(name, f"{off:.1e}", f"{jax[name]:.1e}" if jax else "") for name, off in rows("CuPy")]
    return table(("flow", "CuPy", "JAX"), found)
