"""SciPy: `solve_ivp`, member by member or stacked into one system, and `expm_multiply`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.sparse.linalg import expm_multiply

from benchmarks import workloads
from benchmarks.timing import Way

TOLERANCES = (1e-3, 1e-5, 1e-7, 1e-9, 1e-12)


def rate(problem: workloads.Modes, a: Any, s: Any) -> Any:
    """Return the time derivative of modes of one depth."""
    if problem.depth == 2:
        return 2 * a * (s - a)
    gain = 1.0 if np.isinf(problem.depth) else problem.depth
    return gain * np.abs(a) ** (2 - 2 / problem.depth) * (s - a)


def stacked(problem: workloads.Modes, tolerance: float) -> np.ndarray:
    """Return all members, integrated as one system."""
    options = {"rtol": tolerance, "atol": 1e-3 * tolerance}
    span = problem.t[0], problem.t[-1]
    return solve_ivp(lambda _, a: rate(problem, a, problem.s), span, problem.a0, "DOP853", problem.t, **options).y.T


def loop(problem: workloads.Modes, tolerance: float) -> np.ndarray:
    """Return all members, integrated one by one."""
    parts = [problem._replace(s=problem.s[k : k + 1], a0=problem.a0[k : k + 1]) for k in range(len(problem.s))]
    return np.concatenate([stacked(part, tolerance) for part in parts], axis=1)


def train(problem: workloads.Networks, tolerance: float) -> dict[str, np.ndarray]:
    """Return loss, alignment and kernel of networks by integration of all weights, one network at a time."""
    found = []
    width, gamma = problem.u.shape[1], problem.gamma
    for u0, w0 in zip(problem.u, problem.w, strict=True):

        def velocity(_: float, z: np.ndarray) -> np.ndarray:
            u, w = z[:width], z[width:]
            push = -2 * gamma * (gamma * (u @ w) - 1.0)
            return np.concatenate([push * w, push * u])

        span = problem.t[0], problem.t[-1]
        z = solve_ivp(velocity, span, np.concatenate([u0, w0]), "DOP853", problem.t, rtol=tolerance, atol=1e-10).y.T
        u, w = z[:, :width], z[:, width:]
        uw, uu, ww = (np.sum(a * b, axis=1) for a, b in ((u, w), (u, u), (w, w)))
        found.append({"loss": (gamma * uw - 1) ** 2, "alignment": uw / np.sqrt(uu * ww), "ntk": gamma**2 * (uu + ww)})
    return {name: np.stack([one[name] for one in found], axis=1) for name in found[0]}


def decayed(problem: workloads.Kernel) -> np.ndarray:
    """Return outputs by the action of the exponential, at equally spaced times."""
    ends = {"start": problem.t[0], "stop": problem.t[-1], "num": len(problem.t), "endpoint": True}
    return problem.y - expm_multiply(-problem.matrix, problem.y, **ends, traceA=-float(np.trace(problem.matrix)))


def ways(small: bool) -> list[Way]:
    """Return the computations."""
    full, found = workloads.FULL, []
    balanced = workloads.modes(4 if small else 2000, 8 if small else 64)
    members = len(balanced.s)
    wrong, remark = partial(workloads.error_of_modes, balanced), f"DOP853, {members} members as one system, scaled"
    for tolerance in TOLERANCES[-1:] if small else TOLERANCES:
        call = partial(stacked, balanced, tolerance)
        found.append(Way("W2", f"solve_ivp, stacked, {tolerance:.0e}", call, full["W2"] / members, wrong, remark))
    few = balanced.few(2 if small else 24)
    wrong, remark = partial(workloads.error_of_modes, few), f"DOP853, {len(few.s)} members one by one, scaled"
    found.append(Way("W2", "solve_ivp, loop, 1e-07", partial(loop, few, 1e-7), full["W2"] / len(few.s), wrong, remark))
    nets = workloads.networks(2, 20 if small else 1000, 8 if small else 64)
    call, wrong = partial(train, nets, 1e-8), partial(workloads.error_of_networks, nets)
    remark = "DOP853 of all weights of 2 networks, scaled"
    found.append(Way("W3", "solve_ivp, loop, 1e-08", call, full["W3"] / 2, wrong, remark))
    kernel = workloads.kernel(19) if small else workloads.kernel()
    remark = "scipy.sparse.linalg, dense kernel, its trace given"
    found.append(Way("W6, one target", "expm_multiply", partial(decayed, kernel), 1, kernel.error, remark))
    return found
