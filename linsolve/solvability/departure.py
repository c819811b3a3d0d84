"""Departure of gradient descent with a given step from gradient flow: the first time of a difference, and its size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from linsolve.core.map import Divergence, Map
from linsolve.core.network import affine_maps, maps
from linsolve.core.network_arguments import Network
from linsolve.core.reduced_network import joint, reduced
from linsolve.solvability.conditions import assess
from linsolve.solvability.matches import Match, PlaneMatch
from linsolve.solvability.problem import Problem
from linsolve.solvability.trajectory import WHO, Departure

__all__ = ["departure", "map_match"]

POINTS = 257  # times at which flow and descent are compared, and again between the two around the first difference
EXACT, SIMULATED = 100_000, 20_000  # steps, beyond which the leading correction is measured at a longer step
WORK = 1e9  # weights times steps of a simulation
Maps = Callable[[np.ndarray], np.ndarray]  # from numbers of steps to maps on the span of the data


def departure(problem: Problem, match: Match | None, flow: Maps, rule: tuple[float, float], until: float) -> Departure:
    """Return where descent leaves the flow.

    Parameters
    ----------
    problem : Problem
        The network, for its simulation and the second moment of its inputs.
    match : Match or None
        The network as a `Map`, whose descent is solved; from `map_match`.
    flow : callable
        Function of times that returns maps under gradient flow on the span of the data, with the offset of biases.
    rule : tuple of float
        Step and tolerance.
    until : float
        Horizon, positive; a step is taken even if it is longer.
    """
    step, within = rule
    until = max(until, step)
    length, count = step, int(np.floor(until / step * (1 + 1e-12)))
    most = min(SIMULATED, max(int(WORK / sum(w.size for w in problem.weights)), 100))
    if match is not None and count <= EXACT:
        descent, method = _exact(match, problem, step), f"exact descent of {match.name}"
    elif count <= most:
        descent, method = _simulated(problem, step), "simulated descent"
    else:
        length, count = until / most, most
        descent, method = _simulated(problem, length), f"leading correction, O(step), measured at step {length:.3g}"
    low, high, time, largest, scale = 0, count, np.inf, None, 0.0
    while True:
        steps = np.unique(np.linspace(low, high, POINTS).round().astype(int))
        gap, outputs = _distances(problem, flow(steps * length), descent(steps))
        scale = scale or float(outputs.max()) or 1.0
        if length != step and not np.isfinite(gap).all():
            raise ArithmeticError(
                f"{WHO}: step = {step:g} takes {until / step:.3g} steps to t = {until:g}, and descent diverges at the "
                f"longer step {length:.3g}, at which its leading correction would be measured; ask for earlier times"
            )
        gap = step / length * np.where(np.isfinite(gap), gap, np.inf) / scale
        largest = float(gap.max()) if largest is None else largest
        above = np.nonzero(gap > within)[0]
        if above.size:
            low, high = int(steps[max(above[0] - 1, 0)]), int(steps[above[0]])
            time = high * length
        if not above.size or high - low <= 1:
            return Departure(time, step, within, until, largest, method)


def _distances(problem: Problem, flow: np.ndarray, descent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the root mean square over samples of the difference of outputs, and of the outputs of the flow."""
    with np.errstate(over="ignore", invalid="ignore"):  # descent that diverges
        return tuple(np.sqrt(np.sum((v @ problem.flow.covariance) * v, axis=(-2, -1))) for v in (descent - flow, flow))  # type: ignore[return-value]


def _exact(match: Match, problem: Problem, step: float) -> Maps:
    """Return the map after numbers of steps, nan beyond the range of doubles."""
    flow: Map = match.flow  # type: ignore[assignment]

    def at(counts: np.ndarray) -> np.ndarray:
        try:
            state = flow.discrete(counts, match.z0, step=step).state
        except Divergence as end:
            inside = counts[counts < end.step]
            found = at(inside)
            return np.concatenate([found, np.full((len(counts) - len(inside), *found.shape[1:]), np.nan)])
        return match.map(state) @ problem.network.span

    return at


def _simulated(problem: Problem, step: float) -> Maps:
    """Return the map after numbers of steps of the weights, ascending."""
    flow, first = problem.flow, problem.weights
    start = flow.State(first[0] @ problem.network.span, *first[1:])
    biased = hasattr(flow, "parts")

    def at(counts: np.ndarray) -> np.ndarray:
        z, found, wanted = start, [], set(counts.tolist())
        with np.errstate(over="ignore", invalid="ignore"):
            for done in range(int(counts[-1]) + 1):
                if done in wanted:
                    found.append(affine_maps(np, *flow.parts(z))[-1] if biased else maps(list(z))[-1])
                z = flow.step(np, z, step)
        return np.stack(found)

    return at


def map_match(network: Network) -> Match | None:
    """Return the network as a flow whose descent is solved, None if there is none."""
    red = reduced(network)
    matches = (each.match for each in assess(network, red) if each.match is not None)
    found = next((match for match in matches if isinstance(match.flow, Map)), None)
    if isinstance(found, PlaneMatch):
        red = reduced(network, idle=True)
        return PlaneMatch.of(red, joint(red))
    return found
