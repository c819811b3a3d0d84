"""`learn` for a linear network of any whole depth that starts balanced and aligned with the modes of the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.integrate import descend, integrate
from linsolve.core.network import deep_weights
from linsolve.core.trajectory import Trajectory
from linsolve.data.dataset import Dataset
from linsolve.data.whitening import Modes, modes_of, whiten
from linsolve.studies.learn.learned import (
    BUDGET,
    DEEPEST,
    ENTRIES,
    POINTS,
    Learned,
    followed,
    sampled_times,
    stable_step,
)
from linsolve.systems.deep.balanced_map import BalancedMap
from linsolve.systems.deep.closed_forms import product
from linsolve.systems.deep.network import DeepNetwork
from linsolve.systems.mode.deep_mode import DeepMode

__all__ = ["learn_deep"]

START = 1e-3  # initial map, relative to its strongest mode
RTOL = 1e-12  # between the long steps taken once a mode has settled, DOP853 interpolates worse than its tolerance
DESCENT = "gradient descent, reduced"
WEAK = 0.05  # modes weaker than this, relative to the strongest, are not waited for


def learn_deep(
    dataset: Dataset,
    depth: int,
    width: int | None,
    scale: float | None,
    imbalance: float,
    rate: float,
    step: float | None,
    seed: int,
    descent: bool = False,
) -> Learned:
    """Train an aligned network on a data set along three routes; the arguments are those of ``learn.learn``."""
    if imbalance != 0:
        why = "descent is solved for balanced layers" if descent else "unbalanced layers are solved only for two"
        raise ValueError(f"learn: imbalance = {imbalance:g} must be 0 at depth = {depth} ({why}); leave it out")
    if depth > DEEPEST:
        raise ValueError(f"learn: depth = {depth:g} must be at most {DEEPEST} (layers, all simulated); use fewer")
    problem = whiten(dataset.inputs, dataset.targets)
    modes = modes_of(problem.target)
    scale = float((START * modes.s[0]) ** (1 / depth)) if scale is None else scale
    width = len(modes.s) if width is None else width
    network = _start(modes, depth, width, scale, rate, seed)
    step = _step(step, max(float(modes.s[0]), scale**depth), depth, 1 / rate)
    weights = network.layers(0.0)
    points = max(20, min(POINTS, ENTRIES // max(sum(w.size for w in weights), problem.target.size)))
    t = sampled_times(_horizon(network), step, points, depth)
    flow = BalancedMap(network.u, network.s, network.v, depth, 1 / rate)
    raw = deep_weights(problem.target, depth, rates=rate)

    def mapped(found: Trajectory) -> Trajectory:
        whole = found.state[0]
        for layer in found.state[1:]:
            whole = layer @ whole
        return Trajectory(flow, found.t, BalancedMap.State(whole), found.route)

    ways = {
        "exact": lambda: flow(t, network.product(0.0)),
        "integrated": lambda: mapped(integrate(raw, t, tuple(weights), rtol=RTOL)),
        "descended": lambda: mapped(descend(raw, t, tuple(weights), step=step, max_steps=BUDGET)),
        "halved": lambda: mapped(descend(raw, t, tuple(weights), step=step / 2, max_steps=BUDGET)),
    }
    if descent:
        ways["theory"] = lambda: Trajectory(flow, t, BalancedMap.State(_descended(network, t, step)), DESCENT)
    used: dict[str, Any] = {"depth": depth, "width": width, "scale": scale, "imbalance": 0.0}
    used |= {"rate": rate, "step": step, "seed": seed}
    return Learned(dataset, problem, modes, used, **followed(ways, max(problem.target.shape)), network=network)


def _descended(network: DeepNetwork, t: np.ndarray, step: float) -> np.ndarray:
    """Return the map after the steps of gradient descent that end at times `t`, exactly, mode by mode."""
    counts = np.rint(t / step).astype(int)
    strengths = network.flow.discrete(counts, DeepMode.State(network.start), step=step, max_steps=BUDGET)["a"]
    return np.asarray(product(np, strengths, network.u, network.v))


def _start(modes: Modes, depth: int, width: int, scale: float, rate: float, seed: int) -> DeepNetwork:
    """Return a network whose layers have singular values `scale`, for as many modes as its width allows."""
    start = np.full(len(modes.s), scale**depth)
    if not 0 < start[0] < np.inf:
        raise ValueError(
            f"learn: scale = {scale:g} to the power of depth = {depth} is {start[0]:g} but must be positive and finite "
            "(start of the map); use a scale nearer to 1"
        )
    if depth > 1:
        start[width:] = 0.0
    rng = np.random.default_rng(seed)
    return DeepNetwork.init(modes, start, depth=depth, widths=width, rates=rate, rng=rng)


def _horizon(network: DeepNetwork) -> float:
    """Return 1.1 times the time at which all leading modes have 99 percent of their strength."""
    moving = (network.start != 0) & (network.s >= WEAK * network.s[0])
    end = float(np.max(network.learning_times(0.99)[moving]))
    if not 0 < end < np.inf:  # a start too close to the target for a visible change
        end = 1 / float(network.rates[0] * network.s[0])
    return 1.1 * end


def _step(step: float | None, strongest: float, depth: int, tau: float) -> float:
    """Return the step of the descent; raise if it exceeds 2 over the curvature of the loss at its minimum."""
    limit = 2 * tau / (depth * strongest ** (2 - 2 / depth))
    return stable_step(step, limit)
