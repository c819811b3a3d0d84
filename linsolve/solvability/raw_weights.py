"""The network itself, integrated in its raw weights: general second moments, general rates, nothing assumed."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.integrate import joined, parted
from linsolve.core.network import gradient_flow, maps
from linsolve.solvability.network import WHO, Network
from linsolve.solvability.reduction import Reduced

__all__ = ["follow", "horizon", "kernel_change", "refuse_endless"]

STEPS = 1000
LEARNED = 0.05
STILL = 0.98
LONGEST = 1e6  # time constants of the fastest mode; the integrator takes a step in a few of them, minutes in all


def _velocity(network: Network) -> tuple[Any, np.ndarray, Any]:
    """Return the velocity of all weights in one vector, the start, and what splits such vectors (last axis)."""
    shapes = [w.shape for w in network.weights]
    covariance = (network.span * network.power) @ network.span.T

    def split(y: np.ndarray) -> list[np.ndarray]:
        return parted(y, shapes)

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        layers = split(y)
        made = maps(layers)
        return joined(gradient_flow(np, layers, made, network.cross - made[-1] @ covariance, list(network.rates)))

    return rate, joined(network.weights), split


def _map(layers: list[np.ndarray], red: Reduced) -> np.ndarray:
    """Return the network's map in reduced coordinates."""
    return red.outputs.T @ maps([layers[0] @ red.inputs, *layers[1:]])[-1]


@np.errstate(over="ignore", invalid="ignore")  # the integrator rejects a trial step that goes too far
def horizon(network: Network, red: Reduced) -> float:
    """Return a time by which the loss that this network can remove has fallen to 5 %, or falls no longer.

    The latter is a saddle: over a doubling of time, and not from the start, less than 2 % has been removed. Later
    times would ask for what rounding does there.
    """
    from scipy.integrate import DOP853

    rate, y, split = _velocity(network)

    def excess(layers: list[np.ndarray]) -> float:
        return float(red.rms(_map(layers, red) - red.target)) ** 2

    narrow = min(len(w) for w in red.layers[:-1]) if red.depth > 1 else len(red.target)
    strengths = np.linalg.svd(red.target @ red.root, compute_uv=False)
    least = float(np.sum(strengths[narrow:] ** 2))  # a bottleneck cannot learn more modes than it has units
    first = excess(split(y)) - least
    top = float(np.linalg.norm(red.covariance, 2))
    unit = red.clock * max(float(np.linalg.norm(red.cross, 2)), top * max(1.0, float(np.linalg.norm(red.product, 2))))
    size = max(float(np.linalg.norm(w, 2)) for w in red.layers)
    unit *= max(size, 1e-3) ** max(red.depth - 2, 0) if size > 0 else 1.0
    most = 1000.0 / unit
    if first <= 0 or not np.any(rate(0.0, y)):
        return most / 1000
    solver = DOP853(rate, 0.0, y, most, rtol=1e-6, atol=1e-9 * float(np.abs(y).max()))
    mark, before = 0.0, first
    for _ in range(STEPS):
        left = excess(split(solver.y)) - least
        if solver.status != "running" or left <= LEARNED * first:
            break
        if solver.t >= 2 * mark:
            if before < STILL * first and left > STILL * before:
                break
            mark, before = float(solver.t), left
        solver.step()
    return float(solver.t) if solver.t > 0 else 1.0 / unit


@np.errstate(over="ignore")
def refuse_endless(red: Reduced, until: float) -> None:
    """Refuse a time that no explicit integrator reaches: stability bounds its step, however little happens.

    The rate of the fastest mode is estimated by the largest curvature of a balanced network, ``L |Sigma_xx| s^(2L-2)``
    for layers of norm ``s``, those of the start or of the target.
    """
    target = np.linalg.norm(red.target, 2)
    size = max(target ** (1 / red.depth), *(np.linalg.norm(w, 2) for w in red.layers))
    rate = red.clock * red.depth * np.linalg.norm(red.covariance, 2) * size ** (2 * red.depth - 2)
    if until * rate > LONGEST:
        raise ValueError(
            f"{WHO}: until = {until:g} is {until * rate:.3g} times the time constant of the fastest mode but must be "
            f"at most {LONGEST:.0e} (time; the network is integrated so far); say {LONGEST / rate:.2g}, or leave it out"
        )


@np.errstate(over="ignore", invalid="ignore")
def follow(network: Network, red: Reduced, times: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the network's map in reduced coordinates at `times`, and its final weights."""
    from scipy.integrate import solve_ivp

    rate, y0, split = _velocity(network)
    scale = float(np.abs(y0).max())
    floor = 1e-15 * (scale if scale > 0 else 1.0)
    if not np.any(rate(0.0, y0)):
        path = np.repeat(y0[None], len(times), axis=0)
    else:
        found = solve_ivp(rate, (0.0, times[-1]), y0, "DOP853", times, rtol=1e-12, atol=floor)
        if not found.success:
            raise ArithmeticError(
                f"{WHO}: integration stopped at t = {found.t[-1]}: {found.message}; ask for less time"
            )
        path = found.y.T
    return np.stack([_map(split(y), red) for y in path]), split(path[-1])


def kernel_change(network: Network, red: Reduced, final: list[np.ndarray]) -> float:
    """Return the relative change of the tangent kernel on the data between the start and the final weights.

    The kernel is ``sum_l A_l A_l^T (x) B_l^T B_l`` with the layers after (A) and before (B) layer l; so is its change,
    in twice as many terms, which are not formed as differences of large matrices.
    """
    start, end = (_factors(network, red, layers) for layers in (list(network.weights), final))
    moved = [(b[0] - a[0], b[1]) for a, b in zip(start, end, strict=True)]
    moved += [(a[0], b[1] - a[1]) for a, b in zip(start, end, strict=True)]
    size = _square(start)
    return float(np.sqrt(max(_square(moved), 0.0) / size)) if size > 0 else 0.0


def _square(terms: list[tuple[np.ndarray, np.ndarray]]) -> float:
    return float(sum(np.sum(a[0] * b[0]) * np.sum(a[1] * b[1]) for a in terms for b in terms))


def _factors(network: Network, red: Reduced, layers: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    after, afters = red.outputs.T, []
    for w in reversed(layers):
        afters.append(after @ after.T)
        after = after @ w
    before, found = red.inputs @ red.root, []
    for w, rate, outer in zip(layers, network.rates, reversed(afters), strict=True):
        found.append((rate * outer, before.T @ before))
        before = w @ before
    return found
